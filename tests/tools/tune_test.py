# SPDX-License-Identifier: Apache-2.0
"""`fairlead bench tune` measures every algorithm and writes rules that the library follows; what is wrong with a
request or with a file of rules is said."""

import json
import os
import tempfile
import unittest

from tool import MPIS, TREE, ToolTest, fairlead, has_library


def words(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


class TuneTest(ToolTest):
    def setUp(self):
        self.abi = MPIS[0]
        if not has_library(self.abi):
            self.skipTest("needs the interposition library")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "my tuning")
        self.json = os.path.join(folder.name, "tune.json")


class Rules(TuneTest):
    def test_are_measured_written_and_followed(self):
        text = self.succeeds("bench", "tune", "--mpi", self.abi, "-n", "3,2", "-m", "8:16", "-i", 3, "-x", 1, "bcast",
                             "-o", self.file, "--json", self.json, "--anyway").stdout
        self.assertIn("FAIRLEAD_TUNING='" + self.file + "'", text)
        headings = [line.split()[2:] for line in text.splitlines() if line.startswith("# Size")]
        self.assertEqual(headings, [["meet", "direct", "staged", "taken"],
                                    ["meet", "direct", "sliced", "staged", "taken"]])
        taken = {(ranks, row[0]): row[-1] for ranks, row in zip([2, 2, 3, 3], words(text))}
        with open(self.json) as file:
            report = json.load(file)
        self.assertEqual({(r["ranks"], str(r["bytes"])): r["taken"] for r in report["results"]}, taken)
        for row in report["results"]:
            self.assertTrue(all(times["p50"] > 0 for times in row["latency_us"].values()), row)

        with open(self.file) as file:
            rules = file.read()
        self.assertIn("fairlead bench tune --mpi", rules)
        self.assertIn("simulated GPU", rules)
        self.assertEqual([line.split() for line in report["rules"]], words(rules))
        self.assertEqual([rule[0] for rule in words(rules)], ["bcast"] * len(words(rules)))
        self.assertEqual({rule[2] for rule in words(rules)}, {"..2", "3.."})
        # The first rule of each number of ranks is about the smallest size, the last about all above.
        for ranks, number in [("..2", 2), ("3..", 3)]:
            of_ranks = [rule for rule in words(rules) if rule[2] == ranks]
            self.assertEqual(of_ranks[0][1], taken[number, "8"])
            self.assertEqual(of_ranks[-1][1], taken[number, "16"])
            self.assertTrue(of_ranks[-1][3].endswith(".."))

        result = self.succeeds("bench", "bcast", "--mpi", self.abi, "-n", 3, "-m", "8:8", "-i", 1, "-x", 0, "-c",
                               FAIRLEAD_TUNING=self.file, FAIRLEAD_LOG="trace")
        self.assertRegex(result.stderr, f"collective of 3 ranks and (blocks of )?8 bytes: bcast:{taken[3, '8']}")
        self.assertIn(f"algorithms of collectives are chosen by {self.file}, then by the shipped rules", result.stderr)
        self.assertNotIn(" warn ", result.stderr)

    def test_of_simulated_gpus_are_not_written(self):
        result = fairlead("bench", "tune", "--mpi", self.abi, "-n", 2, "-m", "8:8", "-i", 1, "-x", 0, "bcast", "-o", self.file)
        self.assertEqual(result.returncode, 77, result)
        self.assertIn("my tuning is not written: the GPUs are simulated", result.stderr)
        self.assertIn("# bcast, 2 ranks", result.stdout)
        self.assertNotIn("FAIRLEAD_TUNING", result.stdout)
        self.assertFalse(os.path.exists(self.file))

    def test_in_force_are_named_once(self):
        """At level info: the algorithm, what chose it, and the file."""
        with open(self.file, "w") as file:
            file.write("bcast sliced .. 8\n")
        for variables, line in ({}, "bcast of 8 bytes in 3 ranks: direct (by the shipped rules)"), \
                ({"FAIRLEAD_TUNING": self.file}, "bcast of 8 bytes in 3 ranks: sliced (by the file of FAIRLEAD_TUNING)"), \
                ({"FAIRLEAD_COLL": "bcast:sliced"}, "bcast of 8 bytes in 3 ranks: sliced (by FAIRLEAD_COLL)"), \
                ({"FAIRLEAD_COLL": "staged"}, "bcast of 8 bytes in 3 ranks: staged (no algorithm on the GPU"), \
                ({"FAIRLEAD_NODES": "3", "FAIRLEAD_COLL_NODES_FROM": "1g"}, "bcast of 8 bytes in 3 ranks: staged (the ranks"):
            with self.subTest(variables=variables):
                text = self.succeeds("bench", "bcast", "--mpi", self.abi, "-n", 3, "-m", "8:8", "-i", 5, "-x", 1,
                                     FAIRLEAD_LOG="info", **variables).stderr
                self.assertEqual(text.count("bcast of "), 1, text)
                self.assertIn(line, text)
                self.assertEqual(text.count(self.file), int("FAIRLEAD_TUNING" in variables), text)

    def test_that_are_wrong_are_named_with_their_place_and_not_used(self):
        with open(self.file, "w") as file:
            file.write("bcast sliced .. ..\nallreduce ring .. ..\n")
        result = self.succeeds("bench", "bcast", "--mpi", self.abi, "-n", 3, "-m", "8:8", "-i", 1, "-x", 0,
                               FAIRLEAD_TUNING=self.file, FAIRLEAD_LOG="trace")
        self.assertIn(self.file + ":2: 'ring' is not an algorithm of allreduce; accepted: meet, oneshot, sliced, nccl, staged",
                      result.stderr)
        self.assertEqual(result.stderr.count(" warn "), 1, result.stderr)
        self.assertIn("collective of 3 ranks and 8 bytes: bcast:direct", result.stderr)


class Problems(TuneTest):
    def test_a_run_that_fails_is_shown_with_its_command(self):
        faults = os.path.join(TREE, "lib", "tests", f"faulty-mpi-{self.abi}.so")
        result = fairlead("bench", "tune", "--mpi", self.abi, "-n", 2, "-m", "40:40", "-i", 1, "-x", 0, "allgather",
                          "-o", self.file, FAIRLEAD_IPC="off", LD_PRELOAD=faults)
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("tune: this run failed with exit code 1: FAIRLEAD_COLL=allgather:meet ", result.stderr)
        self.assertIn(" bench allgather -n 2 -m 40:40 ", result.stderr)

    def test_bad_arguments(self):
        self.refuses("bench", "tune", "barrier", says=["'barrier'", "allgather, allreduce, alltoall, bcast, gather"])
        self.refuses("bench", "tune", "-n", 1, says=["-n: ", "'1'", "from 2 to 32"])
        self.refuses("bench", "tune", "-n", "2,many", says=["-n: ", "'many'"])
        self.refuses("bench", "tune", "-m", "6:64", says=["-m", "'6:64'", "4 bytes or a multiple"])
        self.refuses("bench", "tune", "-m", "1:2", says=["-m", "'1:2'", "4 bytes or a multiple"])
        self.refuses("bench", "tune", "-M", "much", says=["-M", "'much'"])
        self.refuses("bench", "tune", "-o", "/nowhere/file", says=["-o", "cannot write /nowhere/file"])
        self.refuses("bench", "tune", "-c", says="-c of nccl-tests")


if __name__ == "__main__":
    unittest.main()
