# SPDX-License-Identifier: Apache-2.0
"""bench/scaling: the model gives times that can be true, its fit finds what a file was made from, and the
measurement starts, compares and tabulates the ranks of each MPI."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from tool import MPIS, POLITE, TIMEOUT, TREE, has_library

SCALING = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "bench", "scaling")
sys.path.insert(0, SCALING)

import model

NODES = (2, 4, 16, 32, 33, 128, 1000, 10000)
SIZES = [1 << power for power in range(10, 31, 2)]


def start(script, *words):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FAIRLEAD_")}
    return subprocess.run([sys.executable, os.path.join(SCALING, script), *words], env=environment, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT)


class Scaling(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def refused(self, script, *words, says):
        result = start(script, *words)
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(says, result.stderr)

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)
        return path


class Model(Scaling):
    def test_more_bytes_take_longer(self):
        p = model.Parameters()
        paths = {"staged": model.staged, "segments": model.in_segments,
                 "hierarchy": lambda *call: model.hierarchy(*call, True),
                 "steps": lambda *call: model.hierarchy(*call, False),
                 "rdma": lambda p, *call: model.time_of(p, "rdma", *call)}
        for collective in model.COLLECTIVES:
            for name, path in paths.items():
                for nodes in NODES:
                    times = [path(p, collective, nodes, size) for size in SIZES
                             if model.has_blocks(p, collective, nodes, size)]
                    self.assertEqual(times, sorted(times), (collective, name, nodes))
                    self.assertGreater(times[0], 0)

    def test_only_the_hierarchy_takes_less_for_more_bytes(self):
        """And only where it begins."""
        p = model.Parameters()
        for collective in model.COLLECTIVES:
            for nodes in NODES:
                for less, more in zip(SIZES, SIZES[1:]):
                    if not model.has_blocks(p, collective, nodes, less):
                        continue
                    begins = model.suits_hierarchy(p, collective, nodes, more) and not model.suits_hierarchy(
                        p, collective, nodes, less)
                    if not begins:
                        self.assertLess(model.time_of(p, "fairlead", collective, nodes, less),
                                        model.time_of(p, "fairlead", collective, nodes, more),
                                        (collective, nodes, less))

    def test_more_nodes_do_not_take_less(self):
        for collective in ("allreduce", "bcast", "allgather"):
            for method in model.METHODS:
                for size in SIZES:
                    times = [model.time_of(model.Parameters(), method, collective, nodes, size) for nodes in NODES]
                    times = [time for time in times if time is not None]
                    for fewer, more in zip(times, times[1:]):
                        # The pieces of an allgather get shorter with the nodes, and more of them overlap.
                        self.assertGreater(more, fewer * (0.5 if collective == "allgather" else 0.97),
                                           (collective, method, size))

    def test_nothing_beats_the_network(self):
        """A GPU's share of the network carries its part of the result, whatever the algorithm."""
        p = model.Parameters()
        size = 64 << 20
        for method in model.METHODS:
            for nodes in NODES:
                self.assertGreater(model.time_of(p, method, "allreduce", nodes, size),
                                   2 * size / p.gpus_per_node * (nodes - 1) / nodes / p.net_bandwidth)
                self.assertGreater(model.time_of(p, method, "bcast", nodes, size),
                                   size / p.gpus_per_node / p.net_bandwidth)

    def test_each_call_takes_the_path_of_the_code(self):
        p = model.Parameters()
        for collective in model.COLLECTIVES:
            self.assertEqual(model.time_of(p, "fairlead", collective, 16, 32 << 10),
                             model.staged(p, collective, 16, 32 << 10))
        for call in [("allreduce", 16, 64 << 10), ("bcast", 16, 128 << 10), ("alltoall", 16, 64 << 20),
                     ("reduce_scatter", 33, 64 << 20), ("allgather", 16, 4 << 20), ("allgather", 256, 64 << 20)]:
            self.assertEqual(model.time_of(p, "fairlead", *call), model.in_segments(p, *call), call)
        for call in [("allreduce", 16, 256 << 10), ("bcast", 10000, 1 << 20), ("reduce_scatter", 32, 64 << 20),
                     ("allgather", 16, 8 << 20), ("allgather", 128, 64 << 20)]:
            self.assertEqual(model.time_of(p, "fairlead", *call), model.hierarchy(p, *call, True), call)
        self.assertLess(model.time_of(p, "fairlead", "allreduce", 16, 64 << 20),
                        model.time_of(p, "staged", "allreduce", 16, 64 << 20))

    def test_segments_overlap_but_cost_an_agreement(self):
        p = model.Parameters()
        for collective in model.COLLECTIVES:
            self.assertAlmostEqual(model.in_segments(p, collective, 16, 64 << 10),
                                   model.staged(p, collective, 16, 64 << 10) + model.agreement(p, 16))
        call = "alltoall", 16, 64 << 20
        self.assertLess(model.in_segments(p, *call), model.staged(p, *call))
        self.assertGreater(model.in_segments(p, *call), model.host_mpi(p, 16).alltoall(64 << 20))

    def test_pieces_in_flight(self):
        chain = [("a", 1.0), ("b", 3.0), ("a", 1.0)]
        for rooms, pieces, time in [(1, 1, 5), (1, 3, 15), (2, 3, 11), (4, 4, 14), (4, 5, 17)]:
            self.assertAlmostEqual(model.pipeline(pieces, rooms, chain), time)

    def test_a_block_has_a_float_at_least(self):
        self.assertIsNone(model.time_of(model.Parameters(), "staged", "alltoall", 10000, 64 << 10))

    def run_of(self, benchmark, placement, ranks, time):
        return {"benchmark": benchmark, "placement": placement, "ranks": ranks,
                "results": [{"bytes": size, "latency_us": {"p50": 1e6 * time(size)}} for size in SIZES]}

    def test_the_fit_finds_what_the_file_was_made_from(self):
        path = self.write("latency.json", self.run_of("latency", ["H", "H"], 2, lambda size: 3e-6 + size / 20e9))
        fitted = model.fit(path)
        self.assertAlmostEqual(fitted["net_latency"], 3e-6)
        self.assertAlmostEqual(fitted["net_bandwidth"] / 20e9, 1)
        path = self.write("allreduce.json",
                          self.run_of("allreduce", ["D", "D"], 4, lambda size: 2e-5 + 1.5 * size / 300e9))
        fitted = model.fit(path)
        self.assertAlmostEqual(fitted["node_launch"], 2e-5)
        self.assertAlmostEqual(fitted["node_bandwidth"] / 300e9, 1)
        result = start("model.py", "--fit", path, "--parameters")
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("| `node_launch` | 20 us | collective on the GPUs of a node | fitted: allreduce.json |",
                      result.stdout)

    def test_it_writes_times_and_draws(self):
        times = os.path.join(self.folder, "times.json")
        result = start("model.py", "--json", times, "-o", self.folder, "--nodes", "100")
        self.assertEqual(result.returncode, 0, result)
        with open(times, encoding="utf-8") as file:
            written = json.load(file)["times"]
        self.assertEqual({one["collective"] for one in written}, set(model.COLLECTIVES))
        self.assertEqual(max(one["nodes"] for one in written), 100)
        if "matplotlib" not in result.stdout:
            for collective in model.COLLECTIVES:
                path = os.path.join(self.folder, f"{collective}.png")
                self.assertLess(os.path.getsize(path), 100_000)

    def test_the_least_sizes(self):
        result = start("model.py", "--least")
        self.assertEqual(result.returncode, 0, result)
        lines = result.stdout.splitlines()
        self.assertEqual(lines[0], "| nodes | allreduce | bcast | allgather | reduce_scatter |")
        self.assertEqual(len(lines), 2 + len(model.LEAST_NODES))

    def test_mistakes(self):
        self.refused("model.py", says="nothing to do")
        self.refused("model.py", "--json", "-", "--sizes", "1m,3x", says="sizes are such as 512k")
        self.refused("model.py", "--parameters", "--nodes", "1", says="--nodes has to be 2 or more")
        self.refused("model.py", "--parameters", "--set", "bogus=1", says="no parameter 'bogus'")
        self.refused("model.py", "--parameters", "--set", "segment=x", says="'x' is no number")
        self.refused("model.py", "--parameters", "--set", "segment=0", says="above 0")
        self.refused("model.py", "--parameters", "--fit", "/nowhere", says="/nowhere: No such file")
        self.refused("model.py", "--parameters", "--fit", os.path.join(SCALING, "model.py"), says="no result file")
        path = self.write("bw.json", self.run_of("bw", ["D", "D"], 2, lambda size: 1.0))
        self.refused("model.py", "--parameters", "--fit", path, says="no parameter is fitted")
        path = self.write("flat.json", self.run_of("latency", ["H", "H"], 2, lambda size: 1.0 / size))
        self.refused("model.py", "--parameters", "--fit", path, says="do not grow")


class Measure(Scaling):
    def test_mistakes(self):
        self.refused("measure.py", "--ranks", "1:4", says="at least 2 ranks")
        self.refused("measure.py", "--ranks", "4", says="LEAST:MOST")
        self.refused("measure.py", "--repeat", "0", says="above 0")
        self.refused("measure.py", "--mpi", "bogus", says="'bogus'")
        self.refused("measure.py", "--mpi", "mpich", "--library", "/nowhere", says="libfairlead-mpich.so does not exist")
        self.refused("measure.py", "--again", "-o", "/nowhere", says="/nowhere/results.json does not exist")

    def test_a_run_with_and_without_fairlead(self):
        mpi = next((mpi for mpi in MPIS if mpi in ("openmpi", "mpich") and has_library(mpi)), None)
        if not (mpi and shutil.which(f"mpicc.{mpi}") and shutil.which(f"mpirun.{mpi}") and POLITE):
            self.skipTest("no MPI of this build has a compiler wrapper here")
        words = ["--mpi", mpi, "--ranks", "2:2", "-o", self.folder, "--library", os.path.join(TREE, "lib"),
                 "--preload", POLITE]
        result = start("measure.py", *words)
        self.assertEqual(result.returncode, 0, result)
        with open(os.path.join(self.folder, "results.json"), encoding="utf-8") as file:
            results = json.load(file)
        self.assertEqual(results["stopped"], [])
        self.assertEqual([(run["setting"], run["device"], run["of_node"]) for run in results["runs"]],
                         [("host MPI", False, 2), ("1 node", True, 2), ("2 nodes", True, 1)])
        for run in results["runs"]:
            self.assertGreater(run["init"]["least"], 0)
            self.assertGreater(run["first"]["least"], 0)
            self.assertGreater(run["pss"]["least"], 0)
            self.assertEqual(run["node_size"]["least"] > 0, run["device"], run)
        again = start("measure.py", "--again", "-o", self.folder)
        self.assertEqual(again.returncode, 0, again)
        self.assertIn(f"| {mpi} | 2 | 2 nodes |", again.stdout)


if __name__ == "__main__":
    unittest.main()
