# SPDX-License-Identifier: Apache-2.0
"""`bench/compare` leaves a complete folder behind, goes on with it, judges goals rightly, and refuses nonsense."""

import glob
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

from tool import MPIS, POLITE, TOOL, TREE, has_library

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench")
sys.dont_write_bytecode = True
sys.path.insert(0, BENCH)

from comparison.contenders import Contender  # noqa: E402
from comparison.measurements import COLLECTIVES, plan, size  # noqa: E402
from comparison.results import AT_LEAST, AT_MOST, Goal, Results, seen_text  # noqa: E402
from comparison.runner import read_pairs  # noqa: E402

ABI = MPIS[0]


def script(*arguments, folder=None, **environment):
    """Runs the script on the simulated GPU, in `folder`."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("FAIRLEAD_")}
    variables.update({"FAIRLEAD_DEVICE": "sim", "PYTHONDONTWRITEBYTECODE": "1", "LD_PRELOAD": POLITE, **environment})
    return subprocess.run([sys.executable, os.path.join(BENCH, "compare"), *arguments], cwd=folder, env=variables,
                          text=True, timeout=280, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)


def compare(*arguments, **options):
    return script("--fairlead", TOOL, *arguments, **options)


def launcher():
    line = subprocess.run([TOOL, "run", "-n", "2", "--dry-run", TOOL, "bench", "latency", "--mpi", ABI], text=True,
                          capture_output=True).stdout
    return line.split()[0]


def read(*path):
    with open(os.path.join(*path)) as file:
        return json.load(file) if path[-1].endswith(".json") else file.read()


@unittest.skipUnless(has_library(ABI), "needs the interposition library")
class Comparison(unittest.TestCase):
    def test_quick(self):
        with tempfile.TemporaryDirectory() as folder:
            # A peer that is GPU-aware by the same means, under names that do not tell.
            os.symlink(os.path.join(TREE, "lib", f"libfairlead-{ABI}.so"), os.path.join(folder, "peer.so"))
            for library in glob.glob(os.path.join(TREE, "lib", "libfairlead-device.so*")):
                os.symlink(library, os.path.join(folder, os.path.basename(library)))
            with open(os.path.join(folder, "environment.sh"), "w") as file:
                file.write("export PEER_FILE_WAS_SOURCED=1\n")
            result = compare("--quick", "--largest", "8k", "--mpi", ABI, "--peer", f"aware={launcher()}",
                             "--peer-env", f"LD_PRELOAD={folder}/peer.so", "--env", "aware=environment.sh",
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
            if importlib.util.find_spec("matplotlib"):
                self.assertLessEqual({"goals.png", "ratios.png", "latency.png", "message_rate.png"}, set(plots))
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
            for collective in COLLECTIVES:
                for number in (8, 1024):
                    with open(os.path.join(runs, f"{collective.id}-{ABI}-{number}.json"), "w") as file:
                        json.dump({**report, "results": [rows[number]]}, file)
            result = script("--resume", "out", folder=folder, FAIRLEAD_SIM_DEVICES="2")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertEqual(result.stdout.count("there already"), 2 * len(COLLECTIVES))
            results = read(folder, "out", "results.json")
            self.assertEqual(results["stage"], "collectives")
            self.assertEqual([series["measurement"] for series in results["series"]], [c.id for c in COLLECTIVES])
            self.assertEqual([row["bytes"] for row in results["series"][0]["results"]], [8, 1024])
            self.assertTrue(all(row["busbw_gb_s"] > 0 for row in results["series"][0]["results"]))
            page = read(folder, "out", "README.md")
            self.assertIn("## Reduce_scatter, time (us)", page)
            self.assertIn("| allreduce 8 B to 256 K: at most 0.55 of NCCL | not measured |", page)
            if importlib.util.find_spec("matplotlib"):
                for collective in COLLECTIVES:
                    self.assertTrue(os.path.exists(os.path.join(folder, "out", f"{collective.id}.png")))
                    self.assertIn(f"]({collective.id}.png)", page)

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


class Plan(unittest.TestCase):
    def plan(self, gpus=2, quick=False, largest=128 << 20, options=("FAIRLEAD_NODES",)):
        contenders = [Contender("a", "fairlead", abi="mpich", launcher=["/x/mpirun", "--flag", "two words"]),
                      Contender("b", "peer", abi="openmpi", launcher=["mpirun"], flags="--mca pml ucx",
                                env_file="/x/env.sh", variables={"UCX_TLS": "all"})]
        runs, left_out = plan("fairlead", contenders, options, gpus, quick, largest)
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
        once, _ = plan("fairlead", contenders, (), 2, False, 1 << 20)
        twice, _ = plan("fairlead", contenders, (), 2, False, 1 << 20, rounds=2)
        self.assertEqual([run.command for run in twice], [run.command for run in once] * 2)
        self.assertEqual([run.id for run in twice], [r.id for r in once] + [f"{r.id}-round2" for r in once])

    def test_pretended_nodes_are_compared_with_host_buffers(self):
        runs, left_out = self.plan()
        self.assertTrue(runs["nodes-a"].startswith("env FAIRLEAD_NODES=2 ") and runs["nodes-a"].endswith("D D"))
        self.assertTrue(runs["nodes_host-a"].startswith("env FAIRLEAD_NODES=2 "))
        self.assertTrue(runs["nodes_host-a"].endswith("H H"))
        self.assertNotIn("nodes-b", runs)
        runs, left_out = self.plan(options=())
        self.assertNotIn("nodes-a", runs)
        self.assertEqual(sum("no option FAIRLEAD_NODES" in line for line in left_out), 2)

    def test_collectives_run_in_a_rank_for_each_gpu(self):
        contenders = [Contender("a", "fairlead", abi="mpich"), Contender("nccl", "nccl", abi="mpich")]
        runs, _ = plan("fairlead", contenders, (), 4, False, 1 << 20, COLLECTIVES)
        commands = {run.id: " ".join(run.command) for run in runs}
        self.assertEqual(set(commands), {f"{c.id}-{name}" for c in COLLECTIVES for name in ("a", "nccl")})
        self.assertIn("run -n 4 fairlead bench allreduce --mpi mpich -M 64g -m 8:1048576 --json {json} D D",
                      commands["allreduce-a"])
        self.assertIn("--no-preload fairlead bench alltoall --mpi mpich -M 64g -m 8:262144 --via nccl ",
                      commands["alltoall-nccl"])

    def test_pairs_need_four_gpus(self):
        self.assertNotIn("pairs-a", self.plan(gpus=3)[0])
        self.assertIn("run -n 4 ", self.plan(gpus=5)[0]["pairs-a"])

    def test_largest(self):
        runs, _ = self.plan(largest=1 << 20)
        self.assertIn("-m 8:1048576 ", runs["bw-a"])
        self.assertIn("-m 1048576:1048576 ", runs["staged-a"])
        self.assertEqual([run for run in self.plan(largest=1 << 10, quick=True)[0] if run.startswith("latency-a")],
                         ["latency-a-8", "latency-a-1024"])


class Tables(unittest.TestCase):
    def test_pairs(self):
        table = ("a launcher's own words\n# pairs: 1\n# stride between partners: 2\n# ping-pongs | count | ...\n"
                 "4 32768 26.5 25.5 25.25 9.25 9.5 9.75 1 2 3\n")
        report = read_pairs(table)
        self.assertEqual(report["header"], ["# pairs: 1", "# ping-pongs | count | ..."])
        row, = report["results"]
        self.assertEqual((row["stride"], row["messages"], row["bytes"]), (2, 4, 256 << 10))
        self.assertEqual(row["time_us"]["mean"], 25.5)
        self.assertAlmostEqual(row["bandwidth_mb_s"]["mean"], 9.5 * (1 << 30) / 1e6)


class Verdicts(unittest.TestCase):
    def results(self):
        results = Results([Contender("a", "fairlead"), Contender("b", "peer"), Contender("raw", "raw")])
        rows = {"a": {8: 5.0, 1024: 6.0, 4096: 30.0}, "b": {8: 10.0, 1024: 10.0, 4096: 10.0}}
        for name, values in rows.items():
            results.add("latency", name, {"results": [{"bytes": b, "latency_us": {"p50": v}}
                                                      for b, v in values.items()]})
            results.add("bibw", name, {"results": [{"bytes": 1024, "bandwidth_mb_s": {"p50": 150.0}}]})
            results.add("bw", name, {"results": [{"bytes": 1024, "bandwidth_mb_s": {"p50": 1024.0}}]})
        results.add("staged", "a", {"results": [{"bytes": 1024, "bandwidth_mb_s": {"p50": 45.0}}]})
        results.add("copy", "raw", {"results": [
            {"bytes": 1024, "latency_us": {"p50": 3.0}, "bandwidth_mb_s": {"p50": 100.0}, "both_ways_mb_s": {"p50": 200.0},
             "host_to_device_mb_s": {"p50": 50.0}, "device_to_host_mb_s": {"p50": 60.0}}]})
        return results

    def worst(self, measurement, quantity, best, limit, against, sizes=(8, 2048)):
        return self.results().verdict(Goal(measurement, quantity, sizes, best, limit, against, ""), "a")

    def test_the_worst_size_decides(self):
        verdict = self.worst("latency", "latency_us", AT_MOST, 0.55, "peer")
        self.assertEqual((verdict.worst, verdict.met), ((1024, 0.6), False))
        self.assertEqual(seen_text(verdict), "0.60 at 1 K")
        self.assertTrue(self.worst("latency", "latency_us", AT_MOST, 0.6, "peer").met)
        self.assertEqual(self.worst("latency", "latency_us", AT_MOST, 1, "raw").worst, (1024, 2.0))

    def test_of_several_rounds_the_median_counts(self):
        results = self.results()
        for latency in (1.0, 7.0):
            results.add("latency", "a", {"results": [{"bytes": 1024, "latency_us": {"p50": latency}}]})
        goal = Goal("latency", "latency_us", (1024, 1024), AT_MOST, 0.55, "peer", "")
        self.assertEqual(results.verdict(goal, "a").worst, (1024, 0.6))  # of 6, 1 and 7
        for added in (30.0, 10.0, 11.0):
            results.add("host_overhead", "a", {"added_ns": added, "host": "h"})
        self.assertEqual(results.overhead["a"], {"added_ns": 11.0, "host": "h"})

    def test_both_ways_the_raw_copy_goes_both_ways_too(self):
        self.assertEqual(self.worst("bibw", "bandwidth_mb_s", AT_LEAST, 0.7, "raw").worst, (1024, 0.75))

    def test_staging_is_compared_with_the_slower_host_copy(self):
        self.assertEqual(self.worst("staged", "bandwidth_mb_s", AT_LEAST, 0.9, "pcie").worst, (1024, 0.9))

    def test_busbw(self):
        results = self.results()
        results.add("allreduce", "a", {"results": [{"bytes": 8, "latency_us": {"p50": 2.0}, "busbw_gb_s": 10.0}]})
        results.add("allreduce", "raw", {"results": [{"bytes": 8, "latency_us": {"p50": 2.0}}]})
        self.assertEqual(results.values("allreduce", "a", "busbw"), {8: 10.0})
        self.assertEqual(results.values("allreduce", "raw", "latency_us"), {})

    def test_message_rate(self):
        self.assertEqual(self.results().values("bw", "a", "rate"), {1024: 1e6})

    def test_a_goal_without_numbers_is_neither_met_nor_missed(self):
        verdict = self.worst("fresh", "latency_us", AT_MOST, 2, "used")
        self.assertIsNone(verdict.worst)
        self.assertEqual(seen_text(verdict), "not measured")

    def test_a_missed_goal_never_reads_as_met(self):
        results = self.results()
        results.rows["latency", "a"][8]["latency_us"]["p50"] = 10.001
        goal = Goal("latency", "latency_us", (8, 8), AT_MOST, 1, "peer", "")
        self.assertEqual(seen_text(results.verdict(goal, "a")), "1.0001 at 8 B")

    def test_sizes(self):
        self.assertEqual([size(n) for n in (8, 1024, 1536, 64 << 10, 1 << 20)], ["8 B", "1 K", "1.5 K", "64 K", "1 M"])


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
