# SPDX-License-Identifier: Apache-2.0
"""`fairlead exec` loads the library of the program's MPI into one rank, whoever launched it."""

import os
import shutil
import subprocess
import tempfile
import unittest

from tool import MPIS, TIMEOUT, TOOL, TREE, ToolTest, example, fairlead, has_library, host_mpi, on_terminal, script

PRINT_PRELOAD = ["sh", "-c", 'echo "$LD_PRELOAD"']


class Exec(ToolTest):
    def test_preload(self):
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi):
                first, second = self.succeeds("exec", "--mpi", abi, *PRINT_PRELOAD,
                                              LD_PRELOAD="libm.so.6").stdout.strip().split(":")
                self.assertEqual(os.path.basename(first), f"libfairlead-{abi}.so")
                self.assertEqual(second, "libm.so.6")

    def test_through_a_link_to_the_build(self):
        for abi in [*filter(has_library, MPIS)][:1]:
            with tempfile.TemporaryDirectory() as folder:
                os.symlink(TREE, os.path.join(folder, "link"))
                found = subprocess.run([os.path.join(folder, "link/bin/fairlead"), "exec", "--mpi", abi, *PRINT_PRELOAD],
                                       text=True, stdout=subprocess.PIPE, timeout=TIMEOUT).stdout.strip()
            self.assertEqual(found.split(":")[0], os.path.join(TREE, "lib", f"libfairlead-{abi}.so"))

    def test_without_preload(self):
        self.assertEqual(self.succeeds("exec", "--no-preload", *PRINT_PRELOAD, LD_PRELOAD="").stdout.strip(), "")

    def test_tools_come_first(self):
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi):
                tools = ["--tool", "libm.so.6", "--tool", "libdl.so.2"]
                found = self.succeeds("exec", "--mpi", abi, *tools, *PRINT_PRELOAD, LD_PRELOAD="libc.so.6").stdout.strip()
                self.assertEqual([os.path.basename(file) for file in found.split(":")],
                                 ["libm.so.6", "libdl.so.2", f"libfairlead-{abi}.so", "libc.so.6"])
                line = self.succeeds("run", "--dry-run", "-n", 2, *tools[:2], "--tool", "./mine.so", example(abi)).stdout
                self.assertIn(f" --tool libm.so.6 --tool {os.getcwd()}/./mine.so ", line)

    def test_what_is_asked_of_the_library(self):
        for abi in [*filter(has_library, MPIS)][:1]:
            text = self.succeeds("exec", "--mpi", abi, "--sim", 3, "--stats", "--trace", "a.json", "sh", "-c",
                                 'echo "$FAIRLEAD_DEVICE $FAIRLEAD_SIM_DEVICES $FAIRLEAD_STATS $FAIRLEAD_TRACE"').stdout
            self.assertEqual(text.split(), ["sim", "3", "on", os.path.abspath("a.json")])

    def test_exit_code_passes_through(self):
        self.assertEqual(fairlead("exec", "--no-preload", "sh", "-c", "exit 5").returncode, 5)

    def test_refusals(self):
        self.refuses("exec", says="no PROGRAM")
        self.refuses("exec", "/bin/true", says="not linked with an MPI library")
        self.refuses("exec", "--mpi", "bogus", "/bin/true", says=["'bogus'", "openmpi, mpich, abi"])
        self.refuses("exec", "--no-preload", "--visible", "/bin/true", says=["which rank", "no GPU can be chosen"])
        self.refuses("exec", "--no-preload", "--print-binding", "/bin/true", says=["which rank", "--print-binding says"])
        with tempfile.TemporaryDirectory() as folder:
            self.refuses("exec", example(MPIS[0]), says=f"FAIRLEAD_HOME is {folder}", FAIRLEAD_HOME=folder)
            garbage = os.path.join(folder, "garbage")
            with open(garbage, "wb") as file:
                file.write(b"\x7fELF and nothing more")
            os.chmod(garbage, 0o700)
            for command in [["exec"], ["exec", "--mpi", MPIS[0]], ["run", "-n", 1]]:
                self.refuses(*command, garbage, says=["not a dynamically linked program of this machine", "link it with"])


class TwoReleases(ToolTest):
    """Another release is played by a copy of the small library in which the version of this one is overwritten."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.version = self.succeeds("--version").stdout.split()[1]
        self.other = "9" + self.version[1:]

    def library(self, folder):
        os.makedirs(folder)
        with open(os.path.join(TREE, "lib", "libfairlead-device.so.0"), "rb") as own:
            content = own.read()
        played = content.replace(b"FAIRLEAD_PRIVATE_" + self.version.encode(), b"FAIRLEAD_PRIVATE_" + self.other.encode())
        self.assertNotEqual(played, content)
        path = os.path.join(folder, "libfairlead-device.so.0")
        with open(path, "wb") as other:
            other.write(played)
        return path

    def test_a_home_of_another_release_is_refused(self):
        home = os.path.join(self.folder, "home")
        self.library(os.path.join(home, "lib"))
        says = [f"FAIRLEAD_HOME is {home}, which holds Fairlead {self.other}, and this command is of {self.version}",
                f"use {home}/bin/fairlead, or unset"]
        for words in (["exec", example(MPIS[0])], ["run", "-n", 1, example(MPIS[0])], ["bench", "latency", "H", "H"]):
            self.refuses(*words, says=says, FAIRLEAD_HOME=home)

    @unittest.skipUnless(shutil.which("gcc"), "needs gcc")
    def test_programs_that_are_linked_with_another_release(self):
        library = self.library(os.path.join(self.folder, "old"))
        program = os.path.join(self.folder, "program")
        for flag in "--enable-new-dtags", "--disable-new-dtags":
            subprocess.run(["gcc", "-x", "c", "-", "-x", "none", library, f"-Wl,-rpath,{self.folder}/old,{flag}", "-o", program],
                           text=True, check=True, input="int fairlead_device_count(void);\n"
                           "int main(void) { return fairlead_device_count() == 3 ? 5 : 1; }")
            for abi in filter(has_library, MPIS):
                result = fairlead("exec", "--mpi", abi, "--sim", 3, program)
                self.assertEqual((result.returncode, result.stderr), (5, ""), result)
        # A program that needs functions of a later release.
        with open(program, "rb") as file:
            content = file.read()
        with open(program, "wb") as file:
            file.write(content.replace(b"FAIRLEAD_0.2", b"FAIRLEAD_9.2"))
        self.refuses("exec", "--mpi", MPIS[0], program, says=[f"{program} is linked with Fairlead {self.other} ({library})",
                                                               f"this is Fairlead {self.version}", "lacks functions"])


def launcher(test, abi, ranks):
    """The words that start this many ranks with this MPI's launcher."""
    line = test.succeeds("run", "--dry-run", "-n", ranks, "--no-preload", example(abi)).stdout.split()
    return line[:line.index(TOOL)]


TOLD = os.path.join(TREE, "share", "fairlead", "openmpi")


class GpuAware(ToolTest):
    """What programs look at to find out whether MPI takes device memory."""

    ROCM = {"FAIRLEAD_DEVICE": "rocm", "LD_LIBRARY_PATH": os.path.join(TREE, "lib/tests/fake-hip")}

    def told(self, abi, *options, **environment):
        """The variables that a rank gets, besides those that it has anyway."""
        lines = self.succeeds("exec", "--mpi", abi, *options, "env", **environment).stdout.splitlines()
        variables = dict(line.split("=", 1) for line in lines if "=" in line)
        return {name: value for name, value in variables.items()
                if "FAIRLEAD" not in name and name not in ("_", "LD_PRELOAD", "LD_LIBRARY_PATH")
                and value != {**os.environ, **environment}.get(name)}

    def test_variables(self):
        rocm = {"TPETRA_ASSUME_GPU_AWARE_MPI": "1", "GMX_ENABLE_DIRECT_GPU_COMM": "1", "JULIA_MPI_HAS_ROCM": "true"}
        headers = os.path.join(TOLD, "rocm", "include")
        told = {"openmpi": {**rocm, "CPATH": headers}, "mpich": {**rocm, "MPICH_GPU_SUPPORT_ENABLED": "1"}}
        for abi in filter(has_library, told):
            with self.subTest(abi=abi):
                os.environ.pop("CPATH", None)
                self.assertEqual(self.told(abi, **self.ROCM), told[abi])
                kept = self.told(abi, **self.ROCM, TPETRA_ASSUME_GPU_AWARE_MPI="0", CPATH="/a:/b")
                self.assertNotIn("TPETRA_ASSUME_GPU_AWARE_MPI", kept)
                self.assertEqual(kept.get("CPATH"), f"{headers}:/a:/b" if abi == "openmpi" else None)
                # It is the host MPI's switch, which stays as it is, and changes no other answer.
                switched_off = self.told(abi, **self.ROCM, MPICH_GPU_SUPPORT_ENABLED="0")
                self.assertEqual({**switched_off, "MPICH_GPU_SUPPORT_ENABLED": "1"},
                                 {**told[abi], "MPICH_GPU_SUPPORT_ENABLED": "1"})
                # Cray's would need a library that is perhaps not linked.
                self.assertNotIn("MPICH_GPU_SUPPORT_ENABLED", self.told(abi, **self.ROCM, CRAY_MPICH_VERSION="8.1.29"))

    def test_rocm_shares_memory_as_the_driver_can(self):
        with_a_kfd = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "hardware", "with-a-kfd")
        for abi in [*filter(has_library, MPIS)][:1]:
            for environment, told in ({}, "0"), ({"HSA_ENABLE_IPC_MODE_LEGACY": "1"}, "1"), ({"TEST_AMDGPU_VERSION": "6.8.5"}, None):
                result = fairlead("exec", "--mpi", abi, "env", launcher=[with_a_kfd], **{**self.ROCM, **environment})
                if result.returncode == 77:
                    self.skipTest("needs root, and no /dev/kfd")
                variables = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
                self.assertEqual(variables.get("HSA_ENABLE_IPC_MODE_LEGACY"), told, result)

    def test_no_variables(self):
        for abi in filter(has_library, MPIS):
            for options, environment in [(["--no-variables"], self.ROCM), (["--no-preload"], self.ROCM), ([], {}),
                                         (["--sim", 2], self.ROCM), ([], {"FAIRLEAD_DEVICE": "none"}),
                                         ([], {**self.ROCM, "FAIRLEAD_ENABLED": "off"}),
                                         ([], {**self.ROCM, "FAIRLEAD_GPU_SUPPORT": "off"})]:
                with self.subTest(abi=abi, options=options, environment=environment):
                    self.assertEqual(self.told(abi, *options, **environment), {})

    def test_a_dry_run_prints_them(self):
        for abi in filter(has_library, MPIS):
            words = ["run", "-n", 2, "--dry-run", example(abi)]
            told = self.succeeds(*words, **self.ROCM).stdout.splitlines()
            self.assertIn("# each rank sets JULIA_MPI_HAS_ROCM=true", told[1:])
            self.assertTrue(all(line.startswith("# each rank sets ") for line in told[1:]), told)
            for option in ["--no-variables"], ["--sim", 2]:
                line, = self.succeeds(*words[:-1], *option, words[-1], **self.ROCM).stdout.splitlines()
                self.assertEqual("--no-variables" in line, option == ["--no-variables"])

    def test_ompi_info(self):
        with tempfile.TemporaryDirectory() as folder:
            script(folder, "ompi_info", """#!/bin/sh
echo "asked: $*"
echo mca:mpi:base:param:mpi_built_with_cuda_support:value:false
echo mca:mpi:base:param:mpi_built_with_cuda_support:source:default
echo mca:opal:base:param:opal_cuda_support:value:false
echo mca:mpi:base:param:mpi_no_support:value:false
echo 'MCA opal base: informational "opal_built_with_cuda_support" (current value: "false", data source: default)'
exit 3
""")
            own = os.path.join(TOLD, "cuda", "bin")
            result = subprocess.run(["ompi_info", "--parsable", "--all"], text=True, capture_output=True,
                                    env={**os.environ, "PATH": f"{own}:{own}/:{folder}:{os.environ['PATH']}"})
            self.assertEqual(result.returncode, 3)
            self.assertEqual(result.stdout.splitlines(), [
                "asked: --parsable --all",
                "mca:mpi:base:param:mpi_built_with_cuda_support:value:true",
                "mca:mpi:base:param:mpi_built_with_cuda_support:source:default",
                "mca:opal:base:param:opal_cuda_support:value:true",
                "mca:mpi:base:param:mpi_no_support:value:false",
                'MCA opal base: informational "opal_built_with_cuda_support" (current value: "true", data source: default)'])

    @unittest.skipUnless(shutil.which("gcc"), "needs gcc")
    def test_headers(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "mpi-ext.h"), "w") as file:
                file.write("#define MPIX_CUDA_AWARE_SUPPORT 0\n#define OTHER 0\n")
            for provider, cuda in ("cuda", "1"), ("rocm", "0"):
                flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-isystem", folder]
                text = subprocess.run(["gcc", *flags, "-E", "-P", "-x", "c", "-"], text=True, capture_output=True, check=True,
                                      input="#include <mpi-ext.h>\n#include <mpi-ext.h>\n"
                                            "MPIX_CUDA_AWARE_SUPPORT OTHER MPIX_ROCM_AWARE_SUPPORT\n",
                                      env={**os.environ, "CPATH": os.path.join(TOLD, provider, "include")}).stdout
                # A macro that the MPI lacks stays away: so does its function.
                self.assertEqual(text.splitlines()[-1], f"{cuda} 0 MPIX_ROCM_AWARE_SUPPORT")


class OtherMpi(ToolTest):
    def test_launcher(self):
        for abi in MPIS:
            for other in MPIS:
                if "abi" in (abi, other):
                    continue
                with self.subTest(launcher=abi, program=other):
                    words = ["--no-preload", example(other), "junk"]
                    result = fairlead("exec", *words, launcher=launcher(self, abi, 2))
                    self.assertEqual(result.stderr.count("each process would be a job of one rank"), int(abi != other),
                                     result.stderr)
                    if abi != other:
                        self.assertEqual(result.returncode, 2, result)
                        self.assertIn("--any-launcher", result.stderr)
                        result = fairlead("exec", "--any-launcher", *words, launcher=launcher(self, abi, 2))
                        self.assertNotIn("each process would", result.stderr)

    SLURM = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2",
             "SLURM_NODEID": "0"}
    PMI = {"openmpi": "pmix", "mpich": "pmi2"}

    def test_a_scheduler_without_the_pmi_of_the_mpi(self):
        for abi in set(MPIS) & set(self.PMI):
            other = "PMI_RANK" if abi == "openmpi" else "PMIX_RANK"
            for offered in {}, {other: "0"}:
                job = {**self.SLURM, **offered}
                says = ["Slurm started 2 processes", "a job of one rank", f"srun --mpi={self.PMI[abi]}"]
                self.refuses("exec", "--no-preload", example(abi), says=[*says, "--any-launcher"], **job)
                self.refuses("bench", "latency", "--mpi", abi, says=says, **job)
            result = fairlead("exec", "--no-preload", example(abi), **{**self.SLURM, "SLURM_PROCID": "1", "SLURM_LOCALID": "1"})
            self.assertEqual((result.returncode, result.stdout, result.stderr), (2, "", ""))

    def test_slurm_on_a_cray(self):
        """Its plugin cray_shasta sets PALS's variables, by which Cray's MPI finds the other ranks."""
        pals = {"PALS_APID": "7.0", "PALS_RANKID": "0"}
        for more in {}, {"PALS_LOCAL_RANKID": "0", "PMI_RANK": "0", "PMI_SIZE": "2"}:
            job = {**self.SLURM, **pals, **more}
            if "mpich" in MPIS:
                result = fairlead("exec", "--no-preload", example("mpich"), "junk", **job)
                self.assertNotIn("each process would be a job of one rank", result.stderr)
            if "openmpi" in MPIS:
                self.refuses("exec", "--no-preload", example("openmpi"), says=["Slurm started 2", "srun --mpi=pmix"], **job)
            # An interactive step of one task is no job of PALS.
            words = ["bench", "latency", "--mpi", MPIS[0], "--no-preload", "-i", 2, "-m", "8:8", "H", "H"]
            self.assertIn(", 2 ranks", self.succeeds(*words, **{**job, "SLURM_STEP_NUM_TASKS": "1",
                                                                  "SLURM_STEP_TASKS_PER_NODE": "1"}).stdout)

    @unittest.skipUnless("openmpi" in MPIS, "needs Open MPI")
    def test_a_scheduler_that_a_plugin_of_the_mpi_knows(self):
        flux = {"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "2", "FLUX_TASK_LOCAL_ID": "0", "FLUX_JOB_NNODES": "1", "FLUX_JOB_ID": "f1"}
        true = ["--no-preload", "--any-launcher", shutil.which("true")]
        self.succeeds("exec", *true, **flux)
        library = host_mpi("openmpi")
        for plugins in "openmpi", "openmpi3", "openmpi/lib/openmpi3", "elsewhere":
            with self.subTest(plugins=plugins), tempfile.TemporaryDirectory() as folder:
                shutil.copy(os.path.realpath(library), os.path.join(folder, os.path.basename(library)))
                os.makedirs(os.path.join(folder, plugins))
                open(os.path.join(folder, plugins, "mca_pmix_flux.so"), "w").close()
                result = fairlead("exec", "--no-preload", example("openmpi"), "junk", LD_LIBRARY_PATH=folder, **flux)
                self.assertEqual("without the PMI" in result.stderr, plugins == "elsewhere", result.stderr)

    def test_a_shell_on_a_terminal_is_no_rank(self):
        """Of `srun -n 4 --pty bash`. What it starts by srun has no terminal."""
        shell = {**self.SLURM, "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_TASKS_PER_NODE": "4", "SLURM_PTY_PORT": "40000"}
        for abi in MPIS:
            words = ["bench", "latency", "--mpi", abi, "--no-preload", "-i", 2, "-m", "8:8", "H", "H"]
            code, shown = on_terminal(*words, columns=200, leads=True, **shell)
            self.assertEqual(code, 0, shown)
            code, shown = on_terminal("run", "-n", 2, "--mpi", abi, "--no-preload", shutil.which("true"), columns=200,
                                      leads=True, **shell)
            self.assertEqual(code, 0, shown)
        self.refuses("run", "-n", 2, example(MPIS[0]), says="Slurm started 4 processes", **shell)

    def test_bench_under_the_launcher_of_another_mpi(self):
        for abi in set(MPIS) & set(self.PMI):
            for other in (set(MPIS) & set(self.PMI)) - {abi}:
                result = fairlead("bench", "latency", "--mpi", other, launcher=launcher(self, abi, 2))
                self.assertEqual(result.returncode, 2, result)
                self.assertEqual(result.stderr.count("each process would be a job of one rank; start it with"), 1, result.stderr)

    def test_run_in_ranks_is_refused(self):
        words = ["run", "-n", 2, example(MPIS[0])]
        self.refuses(*words, says=["Slurm started 2 processes like this one", "`fairlead exec`"], **self.SLURM)
        self.succeeds(*words[:-1], "--dry-run", words[-1], **self.SLURM)

    def test_mpi_init_warns_of_jobs_of_one_rank(self):
        for abi in set(filter(has_library, MPIS)) & set(self.PMI):
            for variables, remedy in (self.SLURM, f"srun --mpi={self.PMI[abi]}"), \
                    ({"PALS_RANKID": "0", "PALS_LOCAL_RANKID": "0", "PALS_LOCAL_SIZE": "2"},
                     "the launcher of this MPI (" + {"openmpi": "Open MPI: mpirun", "mpich": "MPICH: mpiexec"}[abi]), \
                    ({**self.SLURM, "SLURM_PROCID": "1"}, ""), ({**self.SLURM, "SLURM_STEP_NUM_TASKS": "1",
                                                                 "SLURM_STEP_TASKS_PER_NODE": "1"}, ""):
                with self.subTest(abi=abi, variables=variables):
                    result = subprocess.run([example(abi)], text=True, timeout=TIMEOUT, capture_output=True, env={
                        **os.environ, **variables, "FAIRLEAD_DEVICE": "sim",
                        "LD_PRELOAD": os.path.join(TREE, "lib", f"libfairlead-{abi}.so")})
                    self.assertEqual(result.returncode, 0, result)
                    self.assertEqual(result.stderr.count("2 processes, but MPI has 1 rank in each"), int(bool(remedy)), result)
                    self.assertIn(remedy, result.stderr)

    def test_mpi_init_does_not_warn_of_a_job_of_one_rank(self):
        """Of which the launcher knows, whatever the scheduler started."""
        for abi in set(filter(has_library, MPIS)) & set(self.PMI):
            result = fairlead("exec", example(abi), launcher=launcher(self, abi, 1), **self.SLURM)
            self.assertEqual(result.returncode, 0, result)
            self.assertNotIn("1 rank in each", result.stderr)

    def test_library_preloaded_by_hand(self):
        for abi in MPIS:
            for other in filter(has_library, MPIS):
                if abi == other:
                    continue
                with self.subTest(program=abi, library=other):
                    library = os.path.join(TREE, "lib", f"libfairlead-{other}.so")
                    result = subprocess.run([*launcher(self, abi, 2), "env", f"LD_PRELOAD={library}", example(abi)],
                                            env={**os.environ, "FAIRLEAD_DEVICE": "sim"}, text=True, timeout=TIMEOUT,
                                            capture_output=True)
                    self.assertEqual(result.returncode, 2, result)
                    self.assertEqual(result.stderr.count(f"preload libfairlead-{abi}.so"), 1, result.stderr)


if __name__ == "__main__":
    unittest.main()
