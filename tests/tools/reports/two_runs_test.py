# SPDX-License-Identifier: Apache-2.0
"""`fairlead compare` says what differs between two runs, which figures, and whether that is chance; for CI, by its exit
code."""

import copy
import json
import os
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from tool import MPIS, ToolTest, example, fairlead, has_library  # noqa: E402

ABI = MPIS[0]
NOISE = [0.97, 1.01, 0.99, 1.03, 1.0, 0.98, 1.02, 1.0, 0.96, 1.04] * 2


def distribution(middle):
    return {"mean": middle, "p50": middle, "batches": [middle * factor for factor in NOISE]}


def bench(name="bw", **more):
    rows = [{"bytes": size, "iterations": 100, "latency_us": distribution(size / 100), "bandwidth_mb_s": distribution(50.0 * size)}
            for size in (1024, 2048)]
    return {"benchmark": name, "window": 64, "results": rows,
            "provenance": {"date": "2025-01-31T12:00:00Z", "host": "node7", "options": {}}, **more}


class TwoRuns(ToolTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.before = bench()
        self.after = copy.deepcopy(self.before)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def compared(self, *options, code=0):
        files = [self.write(f"{i}.json", json.dumps(run)) for i, run in enumerate((self.before, self.after))]
        result = fairlead("compare", *options, *files)
        self.assertEqual((result.returncode, result.stderr), (code, ""), result.stdout)
        return result.stdout

    def row(self, text, of, figure):
        """A, B, the change and the verdict."""
        return re.search(rf"^{of} +{figure} +(\S+) +(\S+) +(\S+) % +(.*)$", text, re.M).groups()

    def change(self, row, figure, factor):
        self.after["results"][row][figure] = distribution(factor * self.after["results"][row][figure]["p50"])

    def test_a_run_is_like_itself(self):
        text = self.compared("--fail-above", "0%")
        self.assertEqual(self.row(text, "bytes 1024", "latency_us"), ("10.24", "10.24", "+0.0", "same"))
        self.assertIn("# no figure is significantly worse by more than 0 %", text)
        self.assertNotIn("differs", text)

    def test_less_time_and_more_bandwidth_are_better(self):
        self.change(0, "latency_us", 1.2)
        self.change(1, "latency_us", 0.8)
        self.change(0, "bandwidth_mb_s", 1.2)
        self.change(1, "bandwidth_mb_s", 0.8)
        text = self.compared()
        self.assertEqual(self.row(text, "bytes 1024", "latency_us")[2:], ("+20.0", "worse"))
        self.assertEqual(self.row(text, "bytes 2048", "latency_us")[2:], ("-20.0", "better"))
        self.assertEqual(self.row(text, "bytes 1024", "bandwidth_mb_s")[2:], ("+20.0", "better"))
        self.assertEqual(self.row(text, "bytes 2048", "bandwidth_mb_s")[2:], ("-20.0", "worse"))
        self.assertIn("# 2 of 4 figures are significantly worse, the worst by 20.0 %", text)

    def test_the_exit_code_is_for_what_is_worse_beyond_the_limit(self):
        self.change(1, "bandwidth_mb_s", 0.9)
        self.assertIn("the worst by 10.0 %: bandwidth_mb_s of bytes 2048", self.compared("--fail-above", "5%", code=1))
        self.compared("--fail-above", "12.5")
        self.before, self.after = self.after, self.before
        self.compared("--fail-above", "5%")

    def test_what_noise_explains_is_no_change(self):
        middle = self.after["results"][0]["latency_us"]
        middle["p50"] *= 1.1
        self.assertEqual(self.row(self.compared("--fail-above", "5%"), "bytes 1024", "latency_us")[2:], ("+10.0", "same"))
        del middle["batches"]
        self.assertEqual(self.row(self.compared("--fail-above", "5%"), "bytes 1024", "latency_us")[2:], ("+10.0", "not tested"))

    def test_few_values_differ_only_if_they_can(self):
        for values, verdict in ([1, 2, 3, 4, 5], "worse"), ([1, 2, 3, 4], "of too few values"):
            for run, factor in (self.before, 1), (self.after, 10):
                run["results"] = [{"bytes": 8, "latency_us": {"p50": 3 * factor, "batches": [value * factor for value in values]}}]
            text = self.compared("--fail-above", "5%", code=1 if verdict == "worse" else 0)
            self.assertEqual(self.row(text, "bytes 8", "latency_us")[3], verdict)

    def test_a_mean_of_a_few_large_values_decides_nothing(self):
        for run, buckets, seconds in (self.before, [[10, 1000]], 0.01), (self.after, [[5, 999], [50000, 1]], 0.055):
            run.clear()
            run.update({"traffic": [], "seconds": 1.0, "calls": [
                {"function": "MPI_Send", "count": 1000, "seconds": seconds, "histogram_us": buckets}]})
        self.assertEqual(self.row(self.compared("--fail-above", "5%"), "MPI_Send", "mean_us")[3], "same")

    def test_from_nothing(self):
        for run, value in (self.before, 0), (self.after, 90):
            run["results"] = [{"bytes": 8, "latency_us": {"p50": value, "batches": [value + i for i in range(9)]}}]
        self.assertRegex(self.compared("--fail-above", "5%", code=1), r"bytes 8 +latency_us +0 +90 +from 0 +worse\n")

    def test_rows_are_known_by_what_they_are_of(self):
        row = lambda kind, time: {"type": kind, "bytes": 512, "latency_us": distribution(time)}
        self.before["results"] = [row("vector", 10), row("indexed", 20), row("struct", 30)]
        self.after["results"] = [row("indexed", 20), row("struct", 30)]
        self.assertEqual(self.row(self.compared(), "type struct, bytes 512", "latency_us"), ("30", "30", "+0.0", "same"))

    def test_a_part_of_a_run_or_wrong_bytes_are_no_success(self):
        for member in "complete", "valid":
            self.after = {**bench(), member: False}
            self.assertRegex(self.compared("--fail-above", "5%", code=1), "# B (is not complete|received wrong bytes)\n")
            self.compared()

    def test_what_differs_between_the_runs_comes_first(self):
        self.after["provenance"].update(host="node8", options={"FAIRLEAD_IPC": "off"})
        self.after["window"] = 32
        text = self.compared()
        for line in ("host: node7, then node8", "options.FAIRLEAD_IPC: unset, then off", "window: 64, then 32"):
            self.assertLess(text.index(f"# differs: {line}\n"), text.index("bytes 1024"))
        self.after["results"].pop()
        del self.after["provenance"]
        text = self.compared()
        self.assertIn("# only in A: 2 figures", text)
        self.compared("--fail-above", "5%", code=1)  # they may be worse
        self.assertIn("an older Fairlead", text)

    def test_what_is_no_pair_of_runs_is_refused(self):
        good = self.write("good.json", json.dumps(self.before))
        deep = '{"x": ' * 200000 + "1" + "}" * 200000
        nested = json.dumps(self.before).replace('"options": {}', '"options": {"a\\u001b[31m": "\\u001b[31m", "deep": ' + deep + "}")
        text = self.succeeds("compare", good, self.write("deep.json", nested)).stdout
        self.assertNotIn("\033", text)
        for text, says in (("", "no JSON"), ("{", "no JSON"), ("[]", "no figures"), ('{"version": "1"}', "no figures"),
                           ('{"benchmark": "bw", "results": [1]}', "no figures"),
                           ('{"traffic": [], "calls": [], "seconds": "1"}', "damaged"),
                           *[(json.dumps({**bench(), "provenance": odd}), "damaged") for odd in ([1], "x", {"date": 5}, None)],
                           (json.dumps(bench("latency")), "is of bw, and"),
                           (json.dumps({**bench(), "results": [{"bytes": 1, "latency_us": 1}]}), "no figure in common")):
            self.refuses("compare", good, self.write("bad.json", text), says=says)
        self.refuses("compare", good, self.path("none"), says="cannot be read: No such file")
        self.refuses("compare", good, self.folder, says="cannot be read: Is a directory")
        self.refuses("compare", good, says="B")
        for limit in ("x", "-1", "5 percent", "nan"):
            self.refuses("compare", "--fail-above", limit, good, good, says="accepted: a percentage")

    def test_of_what_the_programs_write(self):
        if not has_library(ABI):
            self.skipTest("needs the interposition library")
        runs = {"bench": ["latency"], "matrix": []}
        for command, more in runs.items():
            for name in "a", "b":
                result = fairlead(command, *more, "--mpi", ABI, "--sim", 2, "-m", "8:16", "-i", 40, "--json", self.path(name))
                self.assertIn(result.returncode, (0, 77), result.stderr)
            text = self.succeeds("compare", self.path("a"), self.path("b")).stdout
            self.assertRegex(text, r"\n(bytes 8|way mpi, from 0, to 1.*) +latency_us .* (same|worse|better)\n")
        for name, limit in ("a", "64k"), ("b", "32k"):
            self.succeeds("run", "-n", 2, "--mpi", ABI, "--sim", 2, "--stats-file", self.path(name), example(ABI),
                          FAIRLEAD_EAGER_LIMIT=limit)
        text = self.succeeds("compare", self.path("a"), self.path("b")).stdout
        self.assertIn("# differs: options.FAIRLEAD_EAGER_LIMIT: 64k, then 32k\n", text)
        self.assertRegex(text, r"\nMPI_Init +mean_us .*|\nMPI_Send\S* +mean_us .*(same|worse|better|of too few values)\n")


if __name__ == "__main__":
    unittest.main()
