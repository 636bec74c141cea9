# SPDX-License-Identifier: Apache-2.0
"""`fairlead bench pairs` prints the gnuplot data file that its users' scripts read."""

import re
import unittest

from tool import MPIS, TOOL, ToolTest, fairlead, has_library, preload

COLUMNS = ("# ping-pongs | count (longs) | max avg min time/msg/pair (us) | min avg max bandwidth (GiB/s) | "
           "min avg max rate (msgs/s)")


class Pairs(ToolTest):
    def pairs(self, abi, *arguments, ranks=4):
        return self.succeeds("bench", "pairs", "--mpi", abi, "-n", ranks, "--timeout", 0.02, *preload(abi),
                             *arguments).stdout.split("\n")

    def test_header(self):
        for abi in MPIS:
            lines = self.pairs(abi, 64)
            self.assertEqual(lines[0], "# pairs: strided parallel pairs of MPI ping-pong partners")
            self.assertEqual(lines[1], "# rank: host cores device(closest cores)")
            for rank in range(4):
                self.assertRegex(lines[2 + rank], rf"^# {rank}: \S+ [\d,-]+ \S+$")
            self.assertEqual(lines[6:11], ["# allocator: malloc", "# pairs: 2",
                                           "# total count: 64 longs (0.000488281 MiB)", "# timeout: 0.02s", ""])

    def test_strides_and_blank_lines(self):
        lines = self.pairs(MPIS[0], 4)
        strides = [i for i, line in enumerate(lines) if line.startswith("# stride")]
        self.assertEqual([lines[i] for i in strides],
                         ["# stride between partners: 2", "# stride between partners: 1"])
        self.assertTrue(all(lines[i + 1] == COLUMNS for i in strides))
        self.assertEqual(lines[strides[1] - 2:strides[1]], ["", ""])
        self.assertNotEqual(lines[strides[1] - 3], "")

    def test_rows(self):
        lines = self.pairs(MPIS[0], 8, ranks=2)
        rows = [list(map(float, line.split())) for line in lines if line and line[0] != "#"]
        for i, row in enumerate(rows):
            messages, count, high, average, low, bw_low, bw, bw_high, rate_low, rate, rate_high = row
            self.assertEqual((messages, count), (2 ** i, 8 // 2 ** i))
            self.assertTrue(high >= average >= low and bw_low <= bw <= bw_high and rate_low <= rate <= rate_high)
            self.assertAlmostEqual(rate * average / 1e6, 1, places=3)
            self.assertAlmostEqual(bw * 2 ** 30 / (count * 8) / rate, 1, places=3)

    def test_only_legal_strides(self):
        lines = self.pairs(MPIS[0], 2, ranks=2)
        self.assertEqual([line for line in lines if line.startswith("# stride")], ["# stride between partners: 1"])

    def test_allocators_and_misalignment(self):
        for abi in MPIS:
            self.assertIn("# allocator: posix_memalign", self.pairs(abi, 8, "a", 3, ranks=2))
            # Pinned memory is the driver's, but the host MPI may read it.
            lines = self.pairs(abi, 8, "h", 1, ranks=2)
            self.assertIn("# allocator: pinned host (sim)", lines)
            self.assertRegex(lines[2], r"^# 0: \S+ [\d,-]+ 0\([\d,-]+\)$")

    def test_table(self):
        for abi in MPIS[:1]:
            lines = self.pairs(abi, "--table", "--bytes", "1k", ranks=2)
            self.assertIn("# total size: 1024 bytes", lines)
            heading = next(line for line in lines if line.startswith("# Size"))
            self.assertEqual(heading.split()[1:4], ["Size", "Avg", "Min"])
            rows = [list(map(float, line.split())) for line in lines if line and line[0] != "#"]
            self.assertTrue(rows)
            for i, row in enumerate(rows):
                size, average, low, high, mb, mb_low, mb_high, messages = row
                self.assertEqual((size, messages), (1024 / 2 ** i, 2 ** i))
                self.assertTrue(low <= average <= high and mb_low <= mb <= mb_high)
                # Both are rounded: to a hundredth, or more of a long time.
                self.assertAlmostEqual(mb, size / average, delta=0.01 + 0.05 * mb)
            self.assertLessEqual(max(map(len, lines)), 90)

    def test_bytes_and_device(self):
        for abi in filter(has_library, MPIS[:1]):
            lines = self.pairs(abi, "--bytes", "32k", "--device", ranks=2)
            self.assertIn("# allocator: device (sim)", lines)
            self.assertIn("# total count: 4096 longs (0.03125 MiB)", lines)
            self.assertIn(COLUMNS, lines)

    def test_allocator_letters(self):
        abi = MPIS[0]
        self.assertIn("# allocator: posix_memalign", self.pairs(abi, 8, "A", ranks=2))
        self.assertIn("# allocator: pinned host (sim)", self.pairs(abi, 8, "H", ranks=2))
        for letter, lines in [("m", 0), ("q", 1)]:
            result = self.succeeds("bench", "pairs", "--mpi", abi, "-n", 2, "--timeout", 0.02, *preload(abi), 8, letter)
            self.assertIn("# allocator: malloc", result.stdout)
            self.assertEqual(result.stderr.count(f"'{letter}' is taken for malloc"), lines, result.stderr)

    def test_device_memory(self):
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi):
                lines = self.pairs(abi, 4096, "d", 1)
                self.assertIn("# allocator: device (sim)", lines)
                self.assertTrue(any(re.match(r"1 4096 ", line) for line in lines))

    def test_non_positive_count_is_the_default(self):
        result = fairlead("bench", "pairs", "-n", 2, "--no-preload", 0, "d", FAIRLEAD_SIM_LIMITS="memory:1g")
        self.assertEqual(result.returncode, 2)
        self.assertIn("COUNT 134217728", result.stderr)

    def test_refusals(self):
        self.refuses("bench", "pairs", "-n", 3, says=["got 3", "even number"])
        self.refuses("run", "-n", 3, "--mpi", MPIS[0], TOOL, "bench", "pairs", says="even number")
        self.refuses("bench", "pairs", "many", says=["COUNT", "'many'", "a whole number"])
        self.refuses("bench", "pairs", 8, "device", says=["'device'", "one letter", "d (device memory)"])
        self.refuses("bench", "pairs", 99999999999, says=["COUNT 99999999999", "2147483647"])
        self.refuses("bench", "pairs", "--bytes", "12", says=["--bytes: '12'", "a multiple of 8"])
        self.refuses("bench", "pairs", 8, "--bytes", "1k", says=["--bytes and COUNT", "one of the two"])
        self.refuses("bench", "pairs", 8, "a", "--device", says=["--device", "ALLOCATOR", "one of the two"])
        self.refuses("bench", "pairs", "--timeout", 0, says=["'0'", "above 0"])


if __name__ == "__main__":
    unittest.main()
