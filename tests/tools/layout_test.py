# SPDX-License-Identifier: Apache-2.0
"""`fairlead bench pack`, `halo` and `datatype`: every layout arrives whole on every MPI, with Fairlead and without, and
what is wrong is seen."""

import json
import unittest

from tool import MPIS, ONE_MPI, ToolTest, fairlead, has_library, preload

TYPES = ["contiguous", "vector", "indexed", "struct", "subarray"]
SHORT = ["-i", 3, "-x", 1]


def rows(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def headings(text):
    lines = text.splitlines()
    return lines[next(i for i, line in enumerate(lines) if not line.startswith("#")) - 1].split()


class Layouts(ToolTest):
    def places(self, abi):
        return [("H", "H"), *[("D", "D"), ("D", "H"), ("H", "D"), ("M", "D")] * has_library(abi)]

    def bench(self, name, abi, *more):
        return self.succeeds("bench", name, "--mpi", abi, "-d", "sim", *SHORT, *preload(abi), *more).stdout

    def test_pack(self):
        for abi in MPIS:
            for places in self.places(abi):
                with self.subTest(abi=abi, places=places):
                    text = self.bench("pack", abi, "-m", "4:256", "--bytes", "10000", "--stride", 3, "-c", *places)
                    self.assertEqual(headings(text)[2:], ["Pack", "Unpack", "Copy", "Pack/copy", "Unpack/copy", "Valid"])
                    self.assertEqual([(row[0], row[-1]) for row in rows(text)],
                                     [(str(4 << i), "Pass") for i in range(7)])
                    self.assertTrue(all(float(value) >= 0 for row in rows(text) for value in row[1:-1]))

    def test_halo(self):
        for abi in ONE_MPI:
            for places in self.places(abi):
                with self.subTest(abi=abi, places=places):
                    text = self.bench("halo", abi, "-N", 12, "-c", *places)
                    self.assertEqual(headings(text)[2:], ["Bytes", "Exchange", "Contiguous", "Ratio", "Valid"])
                    self.assertEqual([(*row[:2], row[-1]) for row in rows(text)],
                                     [(face, str(12 * 12 * 8), "Pass") for face in "ijk"])

    def test_datatype(self):
        for abi in ONE_MPI:
            for places in self.places(abi):
                with self.subTest(abi=abi, places=places):
                    text = self.bench("datatype", abi, "--blocks", 216, "--rounds", 2, "-c", *places)
                    self.assertEqual([(*row[:2], row[-1]) for row in rows(text)],
                                     [(name, str(216 * 8), "Pass") for name in TYPES])

    def test_without_fairlead(self):
        for abi in ONE_MPI:
            for name, *words in ("pack", "--bytes", "4k"), ("halo", "-N", 4), ("datatype", "--blocks", 8):
                with self.subTest(abi=abi, benchmark=name):
                    text = self.succeeds("bench", name, "--mpi", abi, "--no-preload", *SHORT, "-c", *words, "H", "H").stdout
                    self.assertIn("Fairlead not loaded", text)
                    self.assertEqual({row[-1] for row in rows(text)}, {"Pass"})

    def test_lines_fit_a_terminal(self):
        for name, *words in ("pack", "--bytes", "4k"), ("halo", "-N", 4), ("datatype", "--blocks", 8):
            text = self.bench(name, MPIS[0], "-c", *words, "H", "H")
            for line in text.splitlines():
                self.assertLessEqual(0 if line.startswith(("# command", "# MPI", "# blocks")) else len(line), 90, line)


class Json(ToolTest):
    def report(self, name, *words):
        abi = MPIS[0]
        return json.loads(self.succeeds("bench", name, "--mpi", abi, *preload(abi), "--json", "-", "-c", *words, "H", "H").stdout)

    def test_pack(self):
        report = self.report("pack", "-m", "8:16", "--bytes", "1k", "--line", 64, *SHORT)
        self.assertEqual((report["stride"], report["line"], report["valid"]), (2, 64, True))
        for row, block in zip(report["results"], (8, 16)):
            self.assertEqual((row["bytes"], row["packed_bytes"], row["blocks"]), (block, 1024, 1024 // block))
            for way in ("pack", "unpack"):
                self.assertAlmostEqual(row[f"{way}_ratio"], row[f"{way}_mb_s"]["p50"] / row["copy_mb_s"]["p50"])

    def test_halo(self):
        report = self.report("halo", "-N", 5, "-i", 4)
        self.assertEqual(report["edge"], 5)
        self.assertEqual([(row["face"], row["bytes"], row["blocks"], row["iterations"]) for row in report["results"]],
                         [("i", 200, 25, 4), ("j", 200, 5, 4), ("k", 200, 1, 4)])
        for row in report["results"]:
            self.assertAlmostEqual(row["ratio"], row["latency_us"]["p50"] / row["contiguous_us"]["p50"])

    def test_datatype(self):
        report = self.report("datatype", "--blocks", 30, "--rounds", 3, "-T", "indexed", "-T", "subarray", *SHORT)
        self.assertEqual([(row["type"], row["bytes"], row["blocks"]) for row in report["results"]],
                         [("indexed", 240, 30), ("subarray", 27 * 8, 9)])
        for row in report["results"]:
            self.assertAlmostEqual(row["ratio"], row["contiguous_us"]["p50"] / row["latency_us"]["p50"])
            self.assertAlmostEqual(row["plan_us"], max(row["first_us"]["p50"] - row["second_us"]["p50"], 0))
            self.assertGreater(row["make_us"]["p50"], 0)

    def test_a_step_beyond_the_timeout_is_the_last(self):
        for name, *words in ("pack", "-m", "8:8", "--bytes", "1m"), ("halo", "-N", 64), ("datatype", "--blocks", "10000"):
            with self.subTest(benchmark=name):
                for row in self.report(name, *words, "--timeout", "1e-9", "-i", 1000)["results"]:
                    self.assertEqual(row["iterations"], 1)
                    self.assertTrue(row["cut_short"])
                    self.assertTrue(row["valid"])
                    self.assertNotIn("plan_us", row)


class Refusals(ToolTest):
    def test_bad_arguments(self):
        self.refuses("bench", "pack", "-m", "0:8", says="from 1 byte")
        self.refuses("bench", "pack", "--bytes", "1k", says=["--bytes", "'1k'", "4096"])
        self.refuses("bench", "pack", "--bytes", "4g", says=["'4g'", "2147483647"])
        self.refuses("bench", "pack", "--stride", 0, says="'0'")
        self.refuses("bench", "pack", "D", says="of the blocks with gaps and of the packed bytes")
        self.refuses("bench", "pack", "--via", "nccl", says="--via")
        self.refuses("bench", "halo", "-N", 1, says=["'1'", "from 2"])
        self.refuses("bench", "halo", "-m", "8", says="unknown option -m")
        self.refuses("bench", "halo", "-n", 1, says="needs exactly 2 ranks, got 1")
        self.refuses("bench", "datatype", "-T", "tree", says=["'tree'", ", ".join(TYPES)])
        self.refuses("bench", "datatype", "--timeout", 0, says="'0'")

    def test_layouts_beyond_memory(self):
        abi = MPIS[0]
        result = fairlead("bench", "halo", "--mpi", abi, "--no-preload", "-N", 4096, "H", "H")
        self.assertEqual(result.returncode, 2)
        self.assertIn("give a smaller -N", result.stderr)


if __name__ == "__main__":
    unittest.main()
