#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What docs/use/cluster.md says of Slurm is tried in a real one, on two nodes: its batch scripts with each MPI, doctor and
bench. And nothing of the cluster is left when its command ends or is killed."""

import glob
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
SLURM = os.path.join(HERE, "slurm")
PAGE = os.path.join(HERE, "..", "..", "docs", "use", "cluster.md")
TREE = os.environ["FAIRLEAD_TEST_TREE"]
TIMEOUT = float(os.environ.get("TEST_TIMEOUT", 300))
# The --mpi= of srun for each ABI, as far as MPI and Slurm of the machine have it in common.
PMI = {abi: pmi for abi, pmi in (("openmpi", "pmix"), ("mpich", "pmi2"))
       if abi in os.environ["FAIRLEAD_TEST_MPIS"].split()}
MARK = f"FAIRLEAD_TEST_CLUSTER={os.getpid()}"


def preload(abi):
    """MPICH before 4.2 may hang in MPI_Finalize of two nodes, with and without Fairlead."""
    return os.path.join(TREE, "lib", "libucx_stays_connected.so") if abi == "mpich" else ""


def environment(abi=""):
    result = {k: v for k, v in os.environ.items() if not k.startswith(("FAIRLEAD_", "SLURM_", "OMPI_"))}
    name, value = MARK.split("=")
    result.update({name: value, "FAIRLEAD_DEVICE": "sim", "FAIRLEAD_SIM_DEVICES": "2", "LD_PRELOAD": preload(abi),
                   "PATH": os.path.join(TREE, "bin") + os.pathsep + os.environ["PATH"]})
    return result


def on_cluster(command, abi=""):
    return subprocess.run([SLURM, "run", "bash", "-c", command], env=environment(abi), text=True, timeout=TIMEOUT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def batch_scripts():
    """Those of the page that need nothing but an MPI, and no account of a site: the text, and the word behind --mpi=, ""
    for none."""
    with open(PAGE) as page:
        blocks = re.findall(r"```sh\n(#!/bin/bash\n#SBATCH.*?)```", page.read(), re.S)
    for script in blocks:
        if "nvidia" not in script and "--account" not in script:
            pmi = re.search(r"--mpi=(\w+)", script)
            yield script, pmi[1] if pmi else ""


def processes():
    """Those that carry the mark of this test."""
    result = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if MARK.encode() in file.read().split(b"\0"):
                    result.append(path)
        except OSError:  # it has ended
            pass
    return result


def traces():
    """What daemons, steps and namespaces leave on a machine."""
    with open("/proc/self/mountinfo") as mounts:
        return (sorted(line.split(" - ")[0].split()[4] for line in mounts), sorted(os.listdir("/sys/class/net")),
                [path for place in ("/run", "/tmp", "/dev/shm") for name in ("slurm", "spmix", "munge")
                 for path in glob.glob(f"{place}/{name}*")])


class SlurmTest(unittest.TestCase):
    def test_batch_scripts_of_the_page_run(self):
        scripts = list(batch_scripts())
        self.assertEqual([pmi for _, pmi in scripts], ["pmix", "pmi2", ""])
        with tempfile.TemporaryDirectory() as folder:
            jobs = []
            for script, pmi in scripts:
                # The script without srun runs with one MPI: the launchers of both take the nodes of a job.
                for abi in [abi for abi in PMI if PMI[abi] == pmi] or ([] if pmi else list(PMI)[:1]):
                    jobs.append((abi, os.path.join(folder, f"{abi}-{pmi or 'run'}")))
                    os.mkdir(jobs[-1][1])
                    os.symlink(os.path.join(TREE, "bin", "examples", f"sndrcv-{abi}"),
                               os.path.join(jobs[-1][1], "program"))
                    with open(os.path.join(jobs[-1][1], "job"), "w") as job:
                        job.write(script)
            # One job at a time. sbatch --wait would look every ten seconds only.
            result = on_cluster("".join(f"LD_PRELOAD={preload(abi)} sbatch --exclusive -D {job} -o out {job}/job; "
                                        for abi, job in jobs) +
                                "while [ -n \"$(squeue -h)\" ]; do sleep 0.2; done; scontrol show job")
            self.assertEqual(result.stdout.count("ExitCode=0:0"), len(jobs), result.stdout)
            for abi, job in jobs:
                with self.subTest(job=os.path.basename(job)), open(os.path.join(job, "out")) as file:
                    out = file.read()
                    for rank in range(4):
                        self.assertRegex(out, rf"rank {rank} on .* from rank {(rank + 3) % 4}, .* all correct")
                        self.assertRegex(out, rf"rank {rank} node{rank // 2 + 1} local {rank % 2} ")

    def test_doctor_and_bench_run_in_a_step(self):
        for abi, pmi in PMI.items():
            with self.subTest(abi=abi):
                result = on_cluster(f"srun -N 1 -n 1 fairlead doctor --mpi {abi} && "
                                    f"srun --mpi={pmi} -N 2 -n 2 fairlead bench latency --mpi {abi} -m 8:8", abi)
                self.assertEqual(result.returncode, 0, result.stdout)
                self.assertIn("ok   live.send", result.stdout)
                self.assertRegex(result.stdout, r"(?m)^8 +[0-9.]+$")

    def test_a_step_without_pmi_is_refused(self):
        for abi, pmi in PMI.items():
            with self.subTest(abi=abi):
                program = os.path.join(TREE, "bin", "examples", f"sndrcv-{abi}")
                for command in f"exec {program}", f"exec --print-binding {program}", f"bench latency --mpi {abi}":
                    result = on_cluster(f"srun -N 2 -n 2 fairlead {command}", abi)
                    self.assertEqual(result.returncode, 2, result.stdout)
                    self.assertEqual(result.stdout.count(f"start it with srun --mpi={pmi}"), 1, result.stdout)
                    self.assertNotIn("rank 1", result.stdout)

    def test_bench_takes_the_mpi_of_the_step(self):
        for abi, pmi in PMI.items():
            with self.subTest(abi=abi):
                result = on_cluster(f"srun --mpi={pmi} -N 2 -n 2 fairlead bench latency -m 8:8 -i 5", abi)
                self.assertEqual(result.returncode, 0, result.stdout)
                self.assertIn(f"({abi}), 2 ranks", result.stdout)

    def test_run_chooses_the_pmi(self):
        for abi in PMI:
            with self.subTest(abi=abi):
                program = os.path.join(TREE, "bin", "examples", f"sndrcv-{abi}")
                result = on_cluster(f"salloc -N 2 -n 2 fairlead run -n 2 --mpi srun {program}", abi)
                self.assertEqual(result.returncode, 0, result.stdout)
                self.assertRegex(result.stdout, "rank 1 on .* from rank 0, .* all correct")
                # Each of two processes would start another job.
                result = on_cluster(f"srun -n 2 fairlead run -n 2 {program}", abi)
                self.assertEqual(result.returncode, 2, result.stdout)
                self.assertEqual(result.stdout.count("would start a job of its own"), 1, result.stdout)

    def test_mpi_init_warns_of_singletons(self):
        if "mpich" not in PMI:  # Open MPI 4 ends by itself
            self.skipTest("no MPICH, or no pmi2")
        program = os.path.join(TREE, "bin", "examples", "sndrcv-mpich")
        result = on_cluster(f"srun -n 2 fairlead exec --any-launcher --print-binding {program}", "mpich")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertEqual(result.stdout.count("start them with srun --mpi=pmi2"), 1, result.stdout)
        self.assertNotRegex(result.stdout, "(?m)^rank . node")
        # mpirun's daemons are a step of two tasks, too.
        result = on_cluster(f"salloc -N 2 -n 4 mpirun.mpich -n 1 fairlead exec {program}", "mpich")
        self.assertNotIn("1 rank in each", result.stdout)

    def test_nothing_is_left(self):
        before = traces()
        result = on_cluster("srun -N 2 -l hostname; srun -N 2 sleep 1000 & sleep 0.5; exit 3")
        self.assertEqual(result.returncode, 3, result.stdout)
        self.assertIn("1: node2", result.stdout)
        self.assertEqual(processes(), [])
        self.assertEqual(traces(), before)

    def test_nothing_is_left_of_a_killed_one(self):
        before = traces()
        with subprocess.Popen([SLURM, "run", "bash", "-c", "echo up; srun -N 2 sleep 1000"], env=environment(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as cluster:
            self.assertEqual(cluster.stdout.readline(), "up\n")
            self.assertNotEqual(processes(), [])
            cluster.kill()
        until = time.monotonic() + TIMEOUT
        while processes() and time.monotonic() < until:
            time.sleep(0.1)
        self.assertEqual(processes(), [])
        self.assertEqual(traces(), before)

    def test_mistakes_are_answered(self):
        for arguments, says in ((["start"], "run"), (["run"], "command"), (["run", "-N", "none", "true"], "number"),
                                (["run", "--nods", "2", "true"], "--nods")):
            with self.subTest(arguments=arguments):
                result = subprocess.run([SLURM, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertIn(says, result.stderr)


if __name__ == "__main__":
    probe = on_cluster("srun --mpi=list 2>&1")
    if probe.returncode == 77:
        print(probe.stdout, end="")
        sys.exit(77)
    PMI = {abi: pmi for abi, pmi in PMI.items() if pmi in probe.stdout.split()}
    unittest.main()
