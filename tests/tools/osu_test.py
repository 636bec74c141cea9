# SPDX-License-Identifier: Apache-2.0
"""Every benchmark of the OSU suite has its name and options here, or a refusal that says why not and what to use."""

import json
import re
import unittest

from tool import MPIS, TOOL, ToolTest, example, fairlead, has_library, preload

# Of OMB 7.4, c/mpi.
COLLECTIVES = ["allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "alltoallw", "barrier", "bcast", "gather",
               "gatherv", "reduce", "reduce_scatter", "reduce_scatter_block", "scatter", "scatterv"]
NEIGHBORHOOD = ["neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw"]
MESSAGES = ["latency", "bw", "bibw", "latency_persistent", "bw_persistent", "bibw_persistent", "latency_mt", "multi_lat",
            "mbw_mr"]
WINDOWS = ["put_latency", "put_bw", "put_bibw", "get_latency", "get_bw", "acc_latency", "cas_latency", "fop_latency",
           "get_acc_latency"]
SAME = [*MESSAGES, *WINDOWS, "init", *COLLECTIVES, *NEIGHBORHOOD, *["i" + name for name in COLLECTIVES + NEIGHBORHOOD],
        *[name + "_persistent" for name in COLLECTIVES]]


def rows(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


class Names(ToolTest):
    def test_every_one_is_here_or_refused(self):
        help = self.succeeds("bench", "--help").stdout
        self.assertLessEqual(max(map(len, help.splitlines())), 80)
        known = set(help.replace(",", " ").split())
        self.assertEqual(set(SAME) - known, set())
        for name in "latency_mt", "scatterv", "ineighbor_alltoallw", "gather_persistent", "init":
            self.assertEqual(self.succeeds("bench", "osu_" + name, "--help").stdout,
                             self.succeeds("bench", name, "--help").stdout)
        for name in SAME:
            result = fairlead("bench", "osu_" + name, "--no-such-option")
            self.assertIn(f"{name}: unknown option --no-such-option", result.stderr)
        self.assertTrue(self.succeeds("bench", "osu_partitioned_latency", "--help").stdout.startswith(
            "Usage: fairlead bench partitioned "))

    def test_the_title_has_both_names(self):
        for name, title in ("osu_allreduce", "allreduce (osu_allreduce)"), ("allreduce", "allreduce"):
            text = self.succeeds("bench", name, "--mpi", MPIS[0], "-i", 1, "-m", "8:8", *preload(MPIS[0]), "H", "H").stdout
            self.assertRegex(text.splitlines()[0], rf"^# fairlead bench {re.escape(title)} \d")

    def test_those_that_are_not_here(self):
        self.refuses("bench", "osu_latency_mp", says=["osu_latency_mp is not available", "fork", "fairlead bench multi_lat"])
        self.refuses("bench", "osu_hello", says=["osu_hello is not available", "fairlead bench init"])
        self.refuses("bench", "osu_bw_fan_in", says=["osu_bw_fan_in is not available", "fairlead bench mbw_mr"])
        for name in "latency", "bw", "bibw", "allreduce", "reduce_scatter":
            self.refuses("bench", "osu_xccl_" + name, says=f"use `fairlead bench {name} --via nccl`")
            self.assertIn("--via", self.succeeds("bench", name, "--help").stdout)
        self.refuses("bench", "osu_oshm_put", says="no benchmark 'osu_oshm_put'")

    def test_letters_that_are_not_here_are_answered(self):
        for letter, name, says in [("-G", "latency", "fairlead plot"), ("--graph=png", "allreduce", "fairlead plot"),
                                   ("-z", "bw", "-f"), ("-D", "latency", "fairlead bench datatype"), ("--vary-window", "bw", "-W"),
                                   ("-I", "put_bw", "MPI sessions are not supported"), ("-P", "bw", "counters are not supported"),
                                   ("-r", "allreduce", "nonblocking collectives"), ("-p", "mbw_mr", "-n N")]:
            self.refuses("bench", name, letter, says=[letter.split("=")[0] + " of the OSU suite", says])


    def test_values_that_are_not_here_are_answered(self):
        for name, option, value, says in [("mbw_mr", "-V", "1", "-W N"), ("latency", "-d", "managed", "M M"),
                                          ("allreduce", "-T", "all", "one type"), ("reduce", "-T", "mpi_int,mpi_float", "one type"),
                                          ("latency_mt", "-t", "1:2", "-t N")]:
            self.refuses("bench", name, option, value, says=[f"{option} {value} of the OSU suite", says])
        self.assertRegex(self.succeeds("bench", "mbw_mr", "-V").stdout, "^fairlead ")

    def test_those_of_nccl_tests_are_answered(self):
        self.refuses("bench", "all_reduce_perf", says="all_reduce_perf of nccl-tests: use `fairlead bench allreduce --via nccl`")
        for name, words, says in [("allreduce", ["-e", "8M"], "-e of nccl-tests: -m MIN:MAX"), ("allreduce", ["--minbytes=8"], "-m MIN:MAX"),
                                  ("allreduce", ["-g", "1"], "-n N"), ("bcast", ["-w", "5"], "-x N"), ("bcast", ["--root", "1"], "-k RANK"),
                                  ("alltoall", ["-f", "2"], "-f 2 of nccl-tests: sizes double"), ("bw", ["-c", "0"], "-c takes no value"),
                                  ("allreduce", ["-d", "bfloat16"], "-T TYPE"), ("allreduce", ["-d", "double"], "-T TYPE"),
                                  ("reduce", ["-o", "all"], "one operation"), ("allreduce", ["--iters", "9"], "-i N")]:
            self.refuses("bench", name, *words, says=[f"{name}: {words[0].split('=')[0]}", "of nccl-tests", says])
        self.refuses("bench", "latency", "-b", "8", says=["-b of the OSU suite: each direction", "; of nccl-tests: -m MIN:MAX"])

    def test_nccl_is_offered_where_it_has_the_call(self):
        for name in "allreduce_persistent", "iallreduce", "neighbor_allgather", "scan", "barrier", "bw_persistent":
            self.assertNotIn("--via", self.succeeds("bench", name, "--help").stdout)


class Measured(ToolTest):
    def measure(self, abi, name, *more):
        return self.succeeds("bench", name, "--mpi", abi, "-i", 3, "-x", 1, "-m", "4:8", "-c", *preload(abi), *more).stdout

    def test_persistent_messages(self):
        for abi in MPIS:
            for name, *more in ("latency_persistent",), ("bw_persistent", "-W", 3), ("bibw_persistent", "-W", 3):
                with self.subTest(abi=abi, benchmark=name):
                    found = rows(self.measure(abi, name, *more, "H", "H"))
                    self.assertEqual([(row[0], row[-1]) for row in found], [("4", "Pass"), ("8", "Pass")])
            if has_library(abi):
                self.assertEqual(rows(self.measure(abi, "bw_persistent", "-W", 2, "D", "D"))[-1][-1], "Pass")
        self.refuses("bench", "latency_persistent", "--via", "nccl", says=["persistent", "accepted: mpi"])

    def test_threads(self):
        for abi in MPIS:
            places = ["D", "H"] if has_library(abi) else ["H", "H"]
            result = fairlead("bench", "latency_mt", "--mpi", abi, "-t", 3, "-i", 3, "-m", "4:8", "-c", "--json", "-",
                              *preload(abi), *places)
            if result.returncode == 77:
                self.assertIn("MPI_THREAD_MULTIPLE", result.stderr)
                continue
            self.assertEqual(result.returncode, 0, result)
            told = json.loads(result.stdout)
            self.assertEqual((told["benchmark"], told["threads"], told["valid"]), ("latency_mt", 3, True))
            for row in told["results"]:
                time = row["latency_us"]
                self.assertTrue(0 < time["min"] <= time["p50"] <= time["max"])

    def test_types_as_the_suite_names_them(self):
        text = self.measure(MPIS[0], "allreduce", "-T", "mpi_int", "H", "H")
        self.assertIn("# elements: int, operation: sum", text)

    def test_init(self):
        for abi in MPIS:
            told = json.loads(self.succeeds("bench", "init", "--mpi", abi, "-n", 3, *preload(abi), "--json", "-").stdout)
            time = told["results"][0]["init_ms"]
            self.assertEqual(told["ranks"], 3)
            self.assertTrue(0 < time["min"] <= time["mean"] <= time["max"])
        values, = rows(self.succeeds("bench", "init", "--mpi", MPIS[0], "-n", 1, *preload(MPIS[0])).stdout)
        self.assertEqual(len(values), 3)
        text = self.succeeds("bench", "init", "--mpi", MPIS[0], "--context", *preload(MPIS[0])).stdout
        self.assertEqual([row[0] for row in rows(text)], ["MPI_Init", "Context", "Both"])

    def test_many_pairs_of_windows(self):
        abi = MPIS[0]
        for name, *more in ("put_latency", "-s", "lock"), ("get_bw", "-W", 2), ("put_bibw", "-W", 2, "-s", "fence"):
            with self.subTest(benchmark=name):
                text = self.measure(abi, name, "-n", 4, *more, *["D", "D"] * has_library(abi) or ["H", "H"])
                self.assertEqual({row[-1] for row in rows(text)}, {"Pass"})
                self.assertIn(", 4 ranks, ", text)


class Binding(ToolTest):
    def test_ranks_are_bound_as_by_run(self):
        for abi in MPIS[:1]:
            words = "bench", "latency", "--mpi", abi, "-i", 2, "-m", "8:8", *preload(abi), "--gpu", "round-robin", "--print-binding", "H", "H"
            alone = self.succeeds(*words)
            launcher = self.succeeds("run", "--dry-run", "-n", 2, "--no-preload", example(abi)).stdout.split()
            under = self.succeeds(*words, launcher=launcher[:launcher.index(TOOL)])
            by_run = self.succeeds("run", "-n", 2, TOOL, *words)
            for result in alone, under, by_run:
                self.assertEqual(len(rows(result.stdout)), 1, result)
                for rank in 0, 1:
                    self.assertRegex(result.stderr, rf"(?m)^rank {rank} .* GPU 0")

    def test_refusals(self):
        self.refuses("bench", "latency", "--gpu", "best", says="'best'")
        self.refuses("bench", "latency", "--map", "0,,1", says="'0,,1'")
        self.refuses("bench", "copy", "--gpu", "nearest", says="unknown option --gpu")


if __name__ == "__main__":
    unittest.main()
