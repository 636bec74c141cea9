# SPDX-License-Identifier: Apache-2.0
"""`bench/compare` leaves a complete folder behind, goes on with it, and refuses nonsense."""

import contextlib
import glob
import importlib.machinery
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from pictures import path_to
from tool import MPIS, POLITE, TIMEOUT, TOOL, TREE, has_library

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench")
sys.dont_write_bytecode = True
sys.path.insert(0, BENCH)

from comparison.contenders import Contender  # noqa: E402
from comparison.measurements import Run, plan  # noqa: E402
from comparison.runner import Failure, Runner  # noqa: E402
from comparison.stages import COLLECTIVE_CALLS, COLLECTIVES, DATATYPES, NODES, ONE_SIDED, POINT_TO_POINT  # noqa: E402

ABI = MPIS[0]


def script(*arguments, folder=None, **environment):
    """Runs the script on the simulated GPU, in `folder`."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("FAIRLEAD_")}
    variables.update({"FAIRLEAD_DEVICE": "sim", "PYTHONDONTWRITEBYTECODE": "1", "LD_PRELOAD": POLITE, **environment})
    return subprocess.run([sys.executable, os.path.join(BENCH, "compare"), *arguments], cwd=folder, env=variables,
                          text=True, timeout=4 * TIMEOUT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)


def compare(*arguments, **options):
    return script("--fairlead", TOOL, *arguments, **options)


def launcher():
    line = subprocess.run([TOOL, "run", "-n", "2", "--dry-run", TOOL, "bench", "latency", "--mpi", ABI], text=True,
                          capture_output=True).stdout
    return line.split()[0]


def aware(folder):
    """The variable that makes a peer GPU-aware, by Fairlead's own means under names that do not tell."""
    os.symlink(os.path.join(TREE, "lib", f"libfairlead-{ABI}.so"), os.path.join(folder, "peer.so"))
    for library in glob.glob(os.path.join(TREE, "lib", "libfairlead-device.so*")):
        os.symlink(library, os.path.join(folder, os.path.basename(library)))
    return f"LD_PRELOAD={folder}/peer.so"


def read(*path):
    with open(os.path.join(*path)) as file:
        return json.load(file) if path[-1].endswith(".json") else file.read()


@unittest.skipUnless(has_library(ABI), "needs the interposition library")
class Comparison(unittest.TestCase):
    def test_quick(self):
        with tempfile.TemporaryDirectory() as folder:
            preload = aware(folder)
            with open(os.path.join(folder, "environment.sh"), "w") as file:
                file.write("export PEER_FILE_WAS_SOURCED=1\n")
            result = compare("--quick", "--largest", "8k", "--mpi", ABI, "--peer", f"aware={launcher()}",
                             "--peer-env", preload, "--env", "aware=environment.sh",
                             "-o", "out", folder=folder, FAIRLEAD_SIM_DEVICES="4")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertIn("left out: nccl: exit code 77", result.stdout)
            self.assertIn("elapsed, about", result.stdout)
            out = os.path.join(folder, "out")
            for run in ("latency", "bw"):
                for name in (ABI, "aware"):
                    for number in (8, 1024):
                        rows = read(out, "runs", f"{run}-{name}-{number}.json")["results"]
                        self.assertEqual([row["bytes"] for row in rows], [number])
            self.assertTrue(read(out, "runs", f"latency-{ABI}-8.json")["preloaded"])
            self.assertFalse(read(out, "runs", "latency-aware-8.json")["preloaded"])
            self.assertTrue(read(out, "runs", "fresh-aware.json")["fresh"])
            self.assertIn("host_to_device_mb_s", read(out, "runs", "copy-raw-8.json")["results"][0])

            results = read(out, "results.json")
            self.assertEqual([c["name"] for c in results["contenders"]], [ABI, "aware", "raw"])
            self.assertTrue(all(c["mpi"]["library"] for c in results["contenders"][:2]))
            self.assertEqual(set(results["pairs"]), {ABI, "aware"})
            self.assertEqual(results["failed"], [])
            seen = {goal["goal"]: goal for goal in results["goals"]}
            self.assertIn(seen["latency 8 B to 2 K: at most 0.45 of aware"]["worst_bytes"], (8, 1024))
            self.assertIsInstance(seen["added to a host message: at most 20 ns"]["met"], bool)
            self.assertIsNone(seen["bandwidth from 64 M: at least 1 of aware"]["met"])

            page = read(out, "README.md")
            for text in ("4 simulated GPUs", "## Goals", "## Latency (us)", "## Pairs of ranks", "## Commands",
                         "environment.sh", f"Fairlead, {ABI}", "these times mean nothing"):
                self.assertIn(text, page)
            plots = [name for name in os.listdir(out) if name.endswith(".png")]
            if path_to("matplotlib"):
                self.assertLessEqual({"goals.png", "latency.png", "message_rate.png", "pairs.png"}, set(plots))
                for name in plots:
                    self.assertIn(f"]({name})", page)
            else:
                self.assertIn("left out: plots", result.stdout)

            # Again, with one run missing: only that one runs, with the arguments of the first call.
            os.remove(os.path.join(out, "runs", "latency-aware-8.json"))
            again = script("--resume", "out", folder=folder, FAIRLEAD_SIM_DEVICES="4")
            self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
            self.assertEqual(again.stdout.count("elapsed, about"), 1, again.stdout)
            self.assertEqual(read(out, "results.json")["host_overhead_ns"], results["host_overhead_ns"])

    def test_collectives(self):
        with tempfile.TemporaryDirectory() as folder:
            # The runs are there already: of host buffers, of which one serves for both sizes and all collectives.
            runs = os.path.join(folder, "out", "runs")
            os.makedirs(runs)
            with open(os.path.join(folder, "out", "call.json"), "w") as file:
                json.dump({"arguments": ["--collectives", "--quick", "--largest", "2k", "--mpi", ABI, "--fairlead", TOOL,
                                         "-o", "out"], "directory": folder}, file)
            line = [TOOL, "bench", "allreduce", "--mpi", ABI, "-i", "5", "-m", "8:1k", "--json", "-", "H", "H"]
            report = json.loads(subprocess.run(line, text=True, capture_output=True, check=True).stdout)
            rows = {row["bytes"]: row for row in report["results"]}
            for collective in COLLECTIVE_CALLS:
                for number in (8, 1024):
                    with open(os.path.join(runs, f"{collective.id}-{ABI}-{number}.json"), "w") as file:
                        json.dump({**report, "results": [rows[number]]}, file)
            result = script("--resume", "out", folder=folder, FAIRLEAD_SIM_DEVICES="2")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertEqual(result.stdout.count("there already"), 2 * len(COLLECTIVE_CALLS))
            results = read(folder, "out", "results.json")
            self.assertEqual(results["stage"], "collectives")
            self.assertEqual([series["measurement"] for series in results["series"]], [c.id for c in COLLECTIVE_CALLS])
            self.assertEqual([row["bytes"] for row in results["series"][0]["results"]], [8, 1024])
            self.assertTrue(all(row["busbw_gb_s"] > 0 for row in results["series"][0]["results"]))
            page = read(folder, "out", "README.md")
            self.assertIn("## Reduce_scatter, time (us)", page)
            self.assertIn("| allreduce 8 B to 256 K: at most 0.55 of NCCL | not measured |", page)
            if path_to("matplotlib"):
                for collective in COLLECTIVE_CALLS:
                    self.assertTrue(os.path.exists(os.path.join(folder, "out", f"{collective.id}.png")))
                    self.assertIn(f"]({collective.id}.png)", page)

    def test_datatypes(self):
        with tempfile.TemporaryDirectory() as folder:
            # It stands device memory as long as there are no gaps in it.
            with open(os.path.join(folder, "environment.sh"), "w") as file:
                file.write('case "$*" in *"bench latency"*) ;; *) echo dies of gaps >&2; exit 139 ;; esac\n')
            result = compare("--datatypes", "--quick", "--largest", "8", "--mpi", ABI, "--peer",
                             f"brittle={launcher()}", "--peer-env", aware(folder), "--env", "brittle=environment.sh",
                             "-o", "out", folder=folder, FAIRLEAD_SIM_DEVICES="2")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            out = os.path.join(folder, "out")
            results = read(out, "results.json")
            self.assertEqual((results["stage"], results["failed"]), ("datatypes", []))
            self.assertEqual(len(results["not_survived"]), 5)
            self.assertTrue(all(line.endswith("exit code 139: dies of gaps") for line in results["not_survived"]))
            self.assertEqual([row["face"] for series in results["series"] if series["measurement"] == "halo"
                              for row in series["results"]], ["i", "j", "k"])
            page = read(out, "README.md")
            for text in ("## Packing (GB/s)", "| face j |", "| fails |", "| indexed |", "brittle fails",
                         "## What brittle does not survive on device memory"):
                self.assertIn(text, page)
            if path_to("matplotlib"):
                for name in ("pack", "halo", "datatype"):
                    self.assertTrue(os.path.exists(os.path.join(out, f"{name}.png")))
                    self.assertIn(f"]({name}.png)", page)

    def test_one_sided(self):
        with tempfile.TemporaryDirectory() as folder:
            result = compare("--one-sided", "--quick", "--largest", "8", "--mpi", ABI, "-o", "out", folder=folder,
                             FAIRLEAD_SIM_DEVICES="2")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            out = os.path.join(folder, "out")
            results = read(out, "results.json")
            seen = {goal["goal"]: goal for goal in results["goals"]}
            for goal in ("put and flush, 8 B: at most 1.15 of the driver's copy",
                         "fetch and op: at most 1.5 of an empty kernel",
                         "borders by put and fence: at most 1 of MPI_Sendrecv"):
                self.assertEqual(seen[goal]["worst_bytes"], 8)
                self.assertIsInstance(seen[goal]["met"], bool)
            self.assertIsNone(seen["put bandwidth from 16 M: at least 0.97 of the driver's copy"]["met"])
            page = read(out, "README.md")
            for text in ("## Put, latency (us)", f"| {ABI} of driver's copy |", f"| {ABI} of empty kernel |",
                         "## Borders exchanged in a ring (us)"):
                self.assertIn(text, page)
            if path_to("matplotlib"):
                self.assertIn("](atomics.png)", page)

    def test_nodes(self):
        with tempfile.TemporaryDirectory() as folder:
            result = compare("--nodes", "--quick", "--largest", "8k", "--mpi", ABI, "-o", "out", folder=folder,
                             FAIRLEAD_SIM_DEVICES="2")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertRegex(result.stdout, r"many pairs between nodes 8 K, \d+ ranks on 2 GPUs:")
            out = os.path.join(folder, "out")
            for run, preloaded, placement in (("-alone", False, "HH"), ("-host", True, "HH"), ("", True, "DD")):
                report = read(out, "runs", f"allreduce{run}-{ABI}.json")
                self.assertEqual((report["preloaded"], "".join(report["placement"])), (preloaded, placement))
            results = read(out, "results.json")
            self.assertEqual((results["stage"], results["failed"], results["left_out"]), ("between nodes", [], []))
            seen = {goal["goal"]: goal for goal in results["goals"]}
            for goal in ("host messages in a node: at least 0.97 of the MPI alone",
                         "host messages between nodes: at least 0.97 of the MPI alone",
                         "added to a host message: at most 20 ns", "allreduce 8 B: at most 25 us added",
                         "iallreduce 8 B: at most 25 us added"):
                self.assertIsInstance(seen[goal]["met"], bool)
            for goal in ("one way, 64 M: at least 0.95 of the MPI alone", "bcast 64 K: at most 1.5 of the MPI alone",
                         "allreduce, host, from 64 K: at most 1.03 of the MPI alone",
                         "reduce, 4 ranks, from 1 M: at most 0.7 of the MPI alone"):
                self.assertIsNone(seen[goal]["met"])
            page = read(out, "README.md")
            for text in ("## Bandwidth of host memory in a node (GB/s)", "## Bandwidth both ways between nodes (GB/s)",
                         f"| Fairlead, {ABI} | {ABI} alone | {ABI} of MPI alone |", "## Allreduce between nodes (us)",
                         "## Allreduce of host memory between nodes (mean, us)", " ranks on 2 GPUs\n",
                         "ranks share GPUs", "| bcast 64 K: at most 1.5 of the MPI alone | not measured |"):
                self.assertIn(text, page)
            if path_to("matplotlib"):
                self.assertIn("](allreduce.png)", page)
                self.assertIn("](host_bw-host.png)", page)

    def test_overlap(self):
        with tempfile.TemporaryDirectory() as folder:
            result = compare("--overlap", "--quick", "--largest", "8k", "--mpi", ABI, "-o", "out", folder=folder,
                             FAIRLEAD_SIM_DEVICES="2")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            results = read(folder, "out", "results.json")
            self.assertEqual((results["stage"], results["failed"], results["left_out"]), ("overlap", [], []))
            report = read(folder, "out", "runs", f"init-alone-{ABI}.json")
            self.assertFalse(report["preloaded"])
            seen = {goal["goal"]: goal for goal in results["goals"]}
            for goal in ("first allreduce: at most 3000 us",
                         "MPI_Init: at most 0.1 of a context added"):
                self.assertIsInstance(seen[goal]["met"], bool)
            page = read(folder, "out", "README.md")
            for text in ("## First allreduce of the job (us)", "## MPI_Init (ms)", "| MPI_Init |",
                         "iallreduce, GPU, 256 K to 8 M: at least 80 %"):
                self.assertIn(text, page)

    def test_who_is_absent_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            # This peer knows nothing of GPUs and dies.
            result = compare("--quick", "--largest", "1", "--mpi", ABI, "--mpi", "gone=/no/such/mpirun", "--peer",
                             f"plain={launcher()}", "-o", "out", folder=folder, FAIRLEAD_SIM_DEVICES="2")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            left_out = read(folder, "out", "results.json")["left_out"]
            for start in ("Fairlead, gone: ", "plain: exit code ", "nccl: exit code 77", "pairs of ranks: 2 GPUs"):
                self.assertEqual(sum(line.startswith(start) for line in left_out), 1, left_out)
                self.assertEqual(result.stdout.count(f"left out: {start}"), 1, result.stdout)

    def test_no_gpu(self):
        with tempfile.TemporaryDirectory() as folder:
            result = compare("--mpi", ABI, "-o", "out", folder=folder, FAIRLEAD_DEVICE="none")
            self.assertEqual(result.returncode, 77, result.stdout + result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_dry_run(self):
        with tempfile.TemporaryDirectory() as folder:
            result = compare("--dry-run", "--mpi", ABI, "--without", "raw", "-o", "out", folder=folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            commands = [line for line in result.stdout.splitlines() if not line.startswith("#")]
            self.assertTrue(all(TOOL in line for line in commands))
            self.assertTrue(any("--fresh -m 1048576:1048576" in line for line in commands))
            self.assertTrue(any("env FAIRLEAD_IPC=off" in line for line in commands))
            self.assertFalse(any("bench copy" in line for line in commands))
            self.assertEqual(os.listdir(folder), [])


class Machine(unittest.TestCase):
    def test_without_programs_that_may_be_missing(self):
        loader = importlib.machinery.SourceFileLoader("compare", os.path.join(BENCH, "compare"))
        script = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
        loader.exec_module(script)
        with mock.patch.dict(os.environ, PATH=""):
            self.assertRegex(script.machine(TOOL)["fairlead"], r"^fairlead \d+\.\d+\.\d+$")
            self.assertEqual(script.ucx_version(Contender("peer", "peer")), "")


class Plan(unittest.TestCase):
    def plan(self, gpus=2, quick=False, largest=128 << 20, options=("FAIRLEAD_NODES",)):
        contenders = [Contender("a", "fairlead", abi="mpich", launcher=["/x/mpirun", "--flag", "two words"]),
                      Contender("b", "peer", abi="openmpi", launcher=["mpirun"], flags="--mca pml ucx",
                                env_file="/x/env.sh", variables={"UCX_TLS": "all"})]
        runs, left_out = plan(POINT_TO_POINT, "fairlead", contenders, options, gpus, quick, largest)
        return {run.id: " ".join(run.command) for run in runs}, left_out

    def test_launchers_get_their_flags_and_environment(self):
        runs, _ = self.plan()
        self.assertEqual(runs["latency-a"], "fairlead run -n 2 --mpi /x/mpirun --launcher-args=--flag 'two words' "
                         "fairlead bench latency --mpi mpich -m 1:4194304 --json {json} D D")
        self.assertEqual(runs["latency-b"], 'bash -c . "$0" && exec "$@" /x/env.sh env UCX_TLS=all fairlead run -n 2 '
                         "--mpi mpirun --launcher-args=--mca pml ucx --no-preload fairlead bench latency "
                         "--mpi openmpi -m 1:4194304 --json {json} D D")

    def test_rounds_follow_each_other(self):
        contenders = [Contender("a", "fairlead", abi="mpich"), Contender("raw", "raw")]
        once, _ = plan(POINT_TO_POINT, "fairlead", contenders, (), 2, False, 1 << 20)
        twice, _ = plan(POINT_TO_POINT, "fairlead", contenders, (), 2, False, 1 << 20, rounds=2)
        self.assertEqual([run.command for run in twice], [run.command for run in once] * 2)
        self.assertEqual([run.id for run in twice], [r.id for r in once] + [f"{r.id}-round2" for r in once])

    def test_simulated_nodes_are_compared_with_host_buffers(self):
        runs, left_out = self.plan()
        self.assertTrue(runs["nodes-a"].startswith("env FAIRLEAD_NODES=2 ") and runs["nodes-a"].endswith("D D"))
        self.assertTrue(runs["nodes_host-a"].startswith("env FAIRLEAD_NODES=2 "))
        self.assertTrue(runs["nodes_host-a"].endswith("H H"))
        self.assertNotIn("nodes-b", runs)
        runs, left_out = self.plan(options=())
        self.assertNotIn("nodes-a", runs)
        self.assertEqual(sum("no option FAIRLEAD_NODES" in line for line in left_out), 2)

    def test_collectives_run_in_a_rank_for_each_gpu(self):
        contenders = [Contender("a", "fairlead", abi="mpich"),
                      *(Contender(name, "nccl", abi="mpich", words=words) for name, words in COLLECTIVES.nccl.items())]
        runs, _ = plan(COLLECTIVES, "fairlead", contenders, (), 4, False, 1 << 20)
        commands = {run.id: " ".join(run.command) for run in runs}
        self.assertEqual(set(commands), {f"{c.id}-{name}" for c in COLLECTIVE_CALLS for name in ("a", "nccl", "nccl-graph")})
        self.assertIn("run -n 4 fairlead bench allreduce --mpi mpich -M 64g -m 8:1048576 --json {json} D D",
                      commands["allreduce-a"])
        self.assertIn("--no-preload fairlead bench alltoall --mpi mpich -M 64g -m 8:262144 --via nccl --json",
                      commands["alltoall-nccl"])
        self.assertIn(" --via nccl --symmetric --cudagraph --json", commands["allreduce-nccl-graph"])

    def test_pairs_need_four_gpus(self):
        self.assertNotIn("pairs-a", self.plan(gpus=3)[0])
        self.assertIn("run -n 4 ", self.plan(gpus=5)[0]["pairs-a"])

    def test_largest(self):
        runs, _ = self.plan(largest=1 << 20)
        self.assertIn("-m 8:1048576 ", runs["bw-a"])
        self.assertIn("-m 1048576:1048576 ", runs["staged-a"])
        self.assertEqual([run for run in self.plan(largest=1 << 10, quick=True)[0] if run.startswith("latency-a")],
                         ["latency-a-8", "latency-a-1024"])


    def test_datatypes_and_windows_need_no_other_contenders(self):
        contenders = [Contender(role, role, abi="mpich") for role in ("fairlead", "peer", "nccl", "raw")]
        for stage, first in ((DATATYPES, "run -n 1 fairlead bench pack --mpi mpich -m 8:4096 --bytes 1048576 "),
                             (ONE_SIDED, "run -n 2 fairlead bench put_latency --mpi mpich --raw -m 1:1048576 ")):
            runs, left_out = plan(stage, "fairlead", contenders, (), 4, False, 1 << 20)
            self.assertEqual(left_out, [])
            self.assertEqual({(run.contender, run.may_fail) for run in runs}, {("fairlead", False), ("peer", True)})
            self.assertIn(first, " ".join(runs[0].command))

    def test_largest_is_kept_by_datatypes_too(self):
        runs, _ = plan(DATATYPES, "fairlead", [Contender("a", "fairlead", abi="mpich")], (), 2, False, 1 << 13)
        commands = {run.id: " ".join(run.command) for run in runs}
        self.assertIn(" --bytes 8192 ", commands["pack-a"])
        self.assertIn(" -N 32 ", commands["halo-a"])
        self.assertIn(" -T indexed --blocks 1024 ", commands["datatype-a-indexed"])
        self.assertIn(" -T indexed --blocks 1000 ", commands["first_use-a"])


    def test_the_host_mpi_alone_comes_directly_before_what_is_compared_with_it(self):
        contenders = [Contender("a", "fairlead", abi="mpich"), Contender("b", "fairlead", abi="openmpi")]
        with mock.patch("os.sched_getaffinity", return_value=range(11)):
            runs, left_out = plan(NODES, "fairlead", contenders, ("FAIRLEAD_NODES",), 2, False, 128 << 20)
        self.assertEqual(left_out, [])
        ids, commands = [run.id for run in runs], {run.id: " ".join(run.command) for run in runs}
        at = ids.index("allreduce-alone-a")
        self.assertEqual(ids[at:at + 6], [f"allreduce{variant}-{mpi}" for variant in ("-alone", "", "-host")
                                          for mpi in "ab"])
        self.assertEqual(commands["allreduce-alone-a"], "fairlead run -n 2 --no-preload fairlead bench allreduce --mpi "
                         "mpich -i 30 -m 8:16777216 --json {json} H H")
        self.assertEqual(commands["allreduce-a"], "env FAIRLEAD_NODES=2 fairlead run -n 2 fairlead bench allreduce "
                         "--mpi mpich -i 30 -m 8:16777216 --json {json} D D")
        self.assertNotIn("FAIRLEAD_NODES", commands["host_bw-inside-b"])
        self.assertRegex(commands["host_bw-host-b"], "^env FAIRLEAD_NODES=2 fairlead run -n 2 fairlead bench bw .* H H$")
        self.assertIn("run -n 10 fairlead bench mbw_mr ", commands["mbw_mr-a"])
        self.assertIn("run -n 4 --no-preload fairlead bench bcast ", commands["bcast_4-alone-a"])
        shared = [run.id for run in runs if run.about.endswith(("4 ranks on 2 GPUs", "10 ranks on 2 GPUs"))]
        self.assertEqual(shared, [f"{name}-{mpi}" for name in ("mbw_mr", "allreduce_4", "reduce_4", "bcast_4",
                                                               "allgather_4", "reduce_scatter_4") for mpi in "ab"])


class Runs(unittest.TestCase):
    def outcomes(self, folder, runs, **options):
        with contextlib.redirect_stdout(io.StringIO()):
            return [outcome for _, outcome in Runner(folder, **options).all(runs, {"b": "b"})]

    def run_of(self, command, round=1, may_fail=True):
        name = "halo-b" if round == 1 else f"halo-b-round{round}"
        return Run(name, "halo", "b", "faces", ["sh", "-c", command, "sh", "{json}"], 1, False, round, may_fail)

    def test_who_may_fail_does_so_once(self):
        with tempfile.TemporaryDirectory() as folder:
            once = f"echo x >> {folder}/calls; exit 9"
            for _ in range(2):  # the second time it is a call with --resume
                failure, = self.outcomes(folder, [self.run_of(once), self.run_of(once, 2)])
                self.assertEqual(str(failure), "exit code 9")
            self.assertEqual(len(read(folder, "calls").split()), 1)

    def test_who_may_not_fail_is_tried_again(self):
        with tempfile.TemporaryDirectory() as folder:
            run = self.run_of("exit 9", may_fail=False)
            self.assertIsInstance(self.outcomes(folder, [run])[0], Failure)
            run.command[2] = """echo '{"results": [1]}' > "$1\""""
            self.assertEqual(self.outcomes(folder, [run]), [{"results": [1]}])

    def test_a_run_that_hangs_is_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            failure, = self.outcomes(folder, [self.run_of("exec sleep 100")], timeout_s=0.1)
            self.assertEqual(str(failure), "no end after 0.1 s (--timeout)")


class Refusals(unittest.TestCase):
    def refuses(self, *arguments, says):
        with self.subTest(arguments=arguments), tempfile.TemporaryDirectory() as folder:
            result = compare(*arguments, folder=folder)
            self.assertEqual(result.returncode, 2, result)
            self.assertEqual(result.stdout, "")
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertTrue(result.stderr.startswith("compare: "), result.stderr)
            self.assertIn(says, result.stderr)
            self.assertEqual(os.listdir(folder), [])

    def test_bad_arguments(self):
        self.refuses("--bogus", says="--bogus")
        self.refuses("--mpi", "bogus", says="NAME=MPIRUN")
        self.refuses("--mpi", "a=", says="'a='")
        self.refuses("--mpi", "a='open", says="open quote")
        self.refuses("--mpi", "a=mpirun", "--mpi", "a=mpiexec", says="two contenders")
        self.refuses("--mpi", "a b=mpirun", says="'a b'")
        self.refuses("--peer", "mpirun", says="NAME=MPIRUN")
        self.refuses("--peer-env", "A=b", says="--peer NAME=MPIRUN")
        self.refuses("--peer", "p=mpirun", "--peer-env", "A", says="VARIABLE=VALUE")
        self.refuses("--env", "nobody=/dev/null", says="'nobody'")
        self.refuses("--env", f"{ABI}=no-such-file", says="no-such-file")
        self.refuses("--without", "nobody", says="'nobody'")
        self.refuses("--largest", "many", says="'many'")
        self.refuses("--datatypes", "--one-sided", says="--one-sided: not allowed with argument --datatypes")
        self.refuses("--one-sided", "--without", "raw", says="'raw'")
        self.refuses("--nodes", "--peer", "p=mpirun", says="--nodes compares with the host MPI alone")
        self.refuses("--rounds", "0", says="--rounds: 0")
        self.refuses("--timeout", "0", says="seconds above 0")
        self.refuses("--fairlead", "/no/such/fairlead", says="no executable")
        self.refuses("-o", "/proc/compare", says="/proc/compare")

    def test_folders(self):
        with tempfile.TemporaryDirectory() as full:
            with open(os.path.join(full, "file"), "w"):
                pass
            self.refuses("-o", full, says="--resume")
            for words, says in ((["--resume", full], "call.json"), (["--resume", full, "--quick"], "no others")):
                result = script(*words)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertIn(says, result.stderr)


if __name__ == "__main__":
    unittest.main()
