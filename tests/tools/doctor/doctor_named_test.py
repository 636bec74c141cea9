# SPDX-License-Identifier: Apache-2.0
"""`fairlead doctor --mpi` names the MPI to judge, whatever PATH means."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from tool import MPIS, ToolTest, example, examined, fairlead, has_library, script  # noqa: E402


class Named(ToolTest):
    @unittest.skipUnless(shutil.which("gcc"), "needs gcc")
    def test_a_static_program(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "program")
            subprocess.run(["gcc", "-static", "-nostdlib", "-Wl,-e,main", "-x", "c", "-", "-o", program], input=b"int main(void) { return 0; }", check=True)
            self.assertIn("is not a dynamically linked program", examined("--no-launch", program)[2]["mpi.which"]["fact"])
            text = script(folder, "text", "#!/bin/sh\n")
            self.assertIn("is not linked with an MPI library", examined("--no-launch", text)[2]["mpi.which"]["fact"])

    def test_a_recorded_one(self):
        for machine, name, expected in [
                ("laptop", "/usr/bin/mpicc", "Open MPI 4.1.4, /lib/x86_64-linux-gnu/libmpi.so.40"),
                ("laptop", "openmpi", "Open MPI 4.1.4, /lib/x86_64-linux-gnu/libmpi.so.40"),
                ("dgx-h200", "/opt/openmpi/lib/libmpi.so.40", "Open MPI 5.0.7, /opt/openmpi/lib/libmpi.so.40"),
                ("dgx-h200", "/opt/openmpi/bin/mpirun", "Open MPI 5.0.7, /opt/openmpi/lib/libmpi.so.40")]:
            checks = examined("--from", os.path.join(HERE, machine), "--mpi", name)[2]
            self.assertEqual(checks["mpi.which"]["fact"], expected, name)
        self.refuses("doctor", "--from", os.path.join(HERE, "laptop"), "--mpi", "/usr/bin/mpirun",
                     says="no library of /usr/bin/mpirun is found")

    @unittest.skipUnless(shutil.which("gcc"), "needs gcc")
    def test_the_ucx_that_an_mpi_brings_is_judged(self):
        """As wheels have it: beside the MPI's library, which names its folder, and under a name of its own."""
        if "mpich" not in MPIS:
            self.skipTest("needs MPICH")
        with tempfile.TemporaryDirectory() as folder:
            own = os.path.join(folder, "mpich.libs")
            os.mkdir(own)
            def library(path, *words):
                subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", path,
                                f"-Wl,-soname,{os.path.basename(path)}", "-Wl,--no-as-needed", *words], check=True)
            library(os.path.join(own, "libucp-1a2b3c4d.so.0.0.0"))
            library(os.path.join(folder, "libmpi.so.12"), f"-L{own}", "-l:libucp-1a2b3c4d.so.0.0.0", "-Wl,-rpath,$ORIGIN/mpich.libs")
            checks = examined("--no-launch", "--mpi", os.path.join(folder, "libmpi.so.12"))[2]
            self.assertIn(os.path.join(own, "libucp-1a2b3c4d.so.0.0.0"), checks["ucx.found"]["fact"])
            # A tool of another UCX tells nothing of this one.
            os.mkdir(os.path.join(folder, "bin"))
            script(os.path.join(folder, "bin"), "ucx_info", "#!/bin/sh\necho '# Library version: 9.9.9'\necho '# Library path: /usr/lib/libucs.so.0'\n")
            checks = examined("--no-launch", "--mpi", os.path.join(folder, "libmpi.so.12"),
                              PATH=os.path.join(folder, "bin") + os.pathsep + os.environ["PATH"])[2]
            self.assertNotIn("9.9.9", checks["ucx.found"]["fact"])

    def test_each_of_this_machine(self):
        for abi in MPIS:
            with self.subTest(abi=abi):
                linked = examined("--no-launch", example(abi))[2]["mpi.which"]
                library = linked["fact"].split(", ")[1]
                launcher = self.succeeds("run", "--dry-run", "-n", 1, "--no-preload", example(abi)).stdout.split()[0]
                folder = os.path.dirname(library)
                names = [abi, library, os.path.realpath(library)]
                # One of MPICH's serves the standard ABI besides its own, which is meant if its library is there.
                if abi != "abi" or not os.path.exists(os.path.join(folder, "libmpi.so.12")):
                    names.append(launcher)
                for name in names:
                    # The loader may not look where the program does.
                    named = examined("--no-launch", "--mpi", name, LD_LIBRARY_PATH=folder)[2]
                    self.assertEqual(named["mpi.abi"]["fact"].split()[6], abi + ",", named["mpi.abi"])
                    self.assertEqual(os.path.realpath(named["mpi.which"]["fact"].split(", ")[1]), os.path.realpath(library))

    @unittest.skipUnless(shutil.which("gcc"), "needs gcc")
    def test_an_mpi_of_two_abis(self):
        with tempfile.TemporaryDirectory() as folder:
            libraries, programs = os.path.join(folder, "lib"), os.path.join(folder, "bin")
            os.mkdir(libraries), os.mkdir(programs)
            for name in "libmpi.so.12", "libmpi_abi.so.1":
                subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", os.path.join(libraries, name),
                                f"-Wl,-soname,{name}"], check=True)
            script(programs, "mpirun", "#!/bin/sh\necho HYDRA build details:\n")
            for name, library in ("mpicc", "-lmpi"), ("mpicc_abi", "-lmpi_abi"):
                script(programs, name, f"#!/bin/sh\n[ $1 = -v ] && echo mpicc for MPICH version 5.0.2 || echo gcc -L{libraries} {library}\n")
            path = programs + os.pathsep + os.environ["PATH"]
            for name, abi in [("bin/mpicc", "mpich"), ("bin/mpicc_abi", "abi"), ("bin/mpirun", "mpich"),
                              ("lib/libmpi.so.12", "mpich"), ("lib/libmpi_abi.so.1", "abi")]:
                with self.subTest(name=name):
                    checks = examined("--no-launch", "--mpi", os.path.join(folder, name), PATH=path)[2]
                    self.assertIn(f"the ABI of this MPI is {abi},", checks["mpi.abi"]["fact"])
                    self.assertEqual(checks["mpi.launcher"]["verdict"], "ok", checks["mpi.launcher"])
            # By the name of its ABI, as `fairlead run` finds it: beside the launcher on PATH.
            checks = examined("--no-launch", "--mpi", "abi", PATH=path)[2]
            self.assertIn(os.path.join(libraries, "libmpi_abi.so.1"), checks["mpi.which"]["fact"])
            script(programs, "mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 5.0.9'\n")
            os.remove(os.path.join(libraries, "libmpi_abi.so.1"))
            self.refuses("doctor", "--mpi", "abi", says="no library of abi is found", PATH=path)

    def test_its_launcher_starts_the_ranks(self):
        for abi in filter(has_library, MPIS[:1]):
            launcher = self.succeeds("run", "--dry-run", "-n", 1, "--no-preload", example(abi)).stdout.split()[0]
            report = fairlead("doctor", "--mpi", launcher, "--sim", 2, "-v").stdout
            self.assertIn(f"command: {launcher} ", " ".join(report.split()))
            self.assertIn("With Fairlead device pointers work here", " ".join(report.split()))


if __name__ == "__main__":
    unittest.main()
