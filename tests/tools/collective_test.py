# SPDX-License-Identifier: Apache-2.0
"""`fairlead bench allreduce` and the other collectives: columns, JSON, what -c finds, and what is refused."""

import json
import os
import tempfile
import unittest

from tool import MPIS, ONE_MPI, TREE, ToolTest, fairlead, has_library, host_mpi_has, preload

MOVED = ["bcast", "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw", "gather", "gatherv", "scatter", "scatterv",
         "neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw"]
SIMULATED_NCCL = os.path.join(TREE, "lib", "libnccl-sim.so")
SIMULATED_ROCM = os.path.join(TREE, "hostile_rocm", "6.2")
REDUCED = ["allreduce", "reduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan"]
ROOTED = ["bcast", "reduce", "gather", "scatter", "gatherv", "scatterv"]


def rows(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def headings(text):
    """Of the columns, which are separated by two blanks or more."""
    line = [line for line in text.splitlines() if line.startswith("#")]
    line = [words for words in line if "(us)" in words or " Calls" in words][0]
    return [heading.strip() for heading in line.split("  ") if heading.strip()]


class CollectiveTest(ToolTest):
    def measure(self, abi, name, *more, **options):
        return self.succeeds("bench", name, "--mpi", abi, "-i", 3, "-x", 1, *preload(abi), *more, **options).stdout

    def report(self, abi, name, *more):
        return json.loads(self.measure(abi, name, "--json", "-", *more))


class Tables(CollectiveTest):
    def test_every_collective_is_right(self):
        # A launch costs a second or two, and the code is the same for every MPI.
        for abi in MPIS:
            for name in MOVED + REDUCED if abi == MPIS[0] else ["alltoallv", "reduce_scatter"]:
                for form in (name, "i" + name) if name in REDUCED else ("i" + name,):
                    with self.subTest(abi=abi, benchmark=form):
                        text = self.measure(abi, form, "-n", 3, "-m", "4:8", "-c", "H", "H")
                        self.assertEqual([row[0] for row in rows(text)], ["4", "8"])
                        self.assertEqual({row[-1] for row in rows(text)}, {"Pass"})

    def test_columns(self):
        abi = MPIS[0]
        usual = ["# Size", "Latency (us)", "algbw (GB/s)", "busbw (GB/s)"]
        text = self.measure(abi, "allreduce", "-m", "8:8", "H", "H")
        self.assertEqual(headings(text), usual)
        text = self.measure(abi, "allreduce", "-m", "8:8", "-f", "-c", "H", "H")
        self.assertEqual(headings(text), ["# Size", "Avg", "Min", "Max", "P50", "P99", "Calls", "algbw", "busbw",
                                          "Valid"])
        row, = rows(text)
        self.assertEqual(len(row), len(headings(text)))
        self.assertLessEqual(float(row[2]), float(row[3]))
        self.assertEqual(row[6], "3")
        text = self.measure(abi, "iallreduce", "-m", "8:8", "H", "H")
        self.assertEqual(headings(text), ["# Size", "Overall (us)", "Compute (us)", "Pure (us)", "Overlap (%)"])
        text = self.measure(abi, "iallreduce", "-m", "8:8", "-f", "-t", 2, "H", "H")
        self.assertEqual(headings(text), ["# Size", "Overall", "Compute", "Start", "Test", "Wait", "Pure", "Min",
                                          "Max", "Overlap", "Calls"])
        self.assertEqual(len(rows(text)[0]), 11)

    def test_a_barrier_has_no_sizes(self):
        for abi in ONE_MPI:
            text = self.measure(abi, "barrier", "-n", 3)
            self.assertEqual(headings(text), ["#", "Latency (us)"])
            self.assertEqual(len(rows(text)[0]), 1)
            self.assertEqual(len(rows(self.measure(abi, "ibarrier", "-n", 3))[0]), 4)

    def test_device_memory(self):
        for abi in filter(has_library, ONE_MPI):
            for name, *words in [("allreduce", "D", "D"), ("allgather", "M", "D"), ("bcast", "-k", "rotate", "H", "D"),
                                 ("scan", "D", "H"), ("neighbor_alltoallw", "D", "D")]:
                with self.subTest(abi=abi, benchmark=name):
                    text = self.measure(abi, name, "-n", 3, "-m", "8:16", "-c", "-d", "sim", *words)
                    self.assertEqual({row[-1] for row in rows(text)}, {"Pass"})
                    self.assertIn("Fairlead loaded", text)

    def test_persistent(self):
        for abi in ONE_MPI:
            words = "-n", 3, "-m", "4:8", "-c", "H", "H"
            if not host_mpi_has(abi, "MPI_Allreduce_init"):
                result = fairlead("bench", "allreduce_persistent", "--mpi", abi, *preload(abi), *words)
                self.assertEqual((result.returncode, result.stdout), (77, ""), result)
                self.assertIn("this MPI has no MPI_Allreduce_init, a function of MPI 4", result.stderr)
                continue
            for name, *more in [("allreduce",), ("bcast", "-k", "rotate"), ("reduce_scatter",), ("alltoallw",),
                                ("neighbor_alltoallv",)]:
                with self.subTest(abi=abi, benchmark=name):
                    text = self.measure(abi, name + "_persistent", *more, *words)
                    self.assertEqual([row[0] for row in rows(text)], ["4", "8"])
                    self.assertEqual({row[-1] for row in rows(text)}, {"Pass"})
                    self.assertIn("busbw (GB/s)", headings(text))
            self.assertEqual(headings(self.measure(abi, "barrier_persistent")), ["#", "Latency (us)"])
            if has_library(abi):
                text = self.measure(abi, "allreduce_persistent", "-n", 2, "-m", "8:16", "-c", "-d", "sim", "D", "D")
                self.assertEqual({row[-1] for row in rows(text)}, {"Pass"})

    def test_neighbors_of_few_ranks(self):
        for ranks in 1, 2:
            text = self.measure(MPIS[0], "neighbor_alltoall", "-n", ranks, "-m", "8:8", "-c", "H", "H")
            self.assertEqual(rows(text)[0][-1], "Pass")

    def test_one_rank(self):
        for abi in ONE_MPI:
            row, = rows(self.measure(abi, "allreduce", "-n", 1, "-m", "8:8", "-c", "H", "H"))
            self.assertEqual((row[-2], row[-1]), ("0.00", "Pass"))

    def test_elements_and_operations(self):
        for abi in ONE_MPI:
            for element, smallest, operation in [("char", "1", "sum"), ("int", "4", "max"), ("float", "4", "min"),
                                                 ("double", "8", "prod")]:
                with self.subTest(abi=abi, element=element, operation=operation):
                    text = self.measure(abi, "reduce_scatter", "-n", 3, "-T", element, "-o", operation, "-m", "1:64",
                                        "-c", "H", "H")
                    self.assertEqual(rows(text)[0][0], smallest)
                    self.assertEqual({row[-1] for row in rows(text)}, {"Pass"})

    def test_roots(self):
        for abi in ONE_MPI:
            for name in ROOTED:
                for root in ["2", "rotate"] if abi == MPIS[0] else ["rotate"]:
                    with self.subTest(abi=abi, benchmark=name, root=root):
                        text = self.measure(abi, name, "-n", 3, "-k", root, "-m", "8:16", "-c", "H", "H")
                        self.assertEqual({row[-1] for row in rows(text)}, {"Pass"})
                        self.assertIn(f"root: {root}", text)

    def test_sizes_beyond_the_memory_limit_are_left_out(self):
        text = self.measure(MPIS[0], "alltoall", "-M", 1024, "-m", "128:1k", "H", "H")
        self.assertEqual([row[0] for row in rows(text)], ["128", "256"])
        self.assertIn("# skipped: sizes from 512 on: buffers take 2048 bytes of a rank, -M allows 1024", text)


class Json(CollectiveTest):
    def test_results(self):
        report = self.report(MPIS[0], "allgather", "-n", 3, "-m", "8:16", "-c", "H", "H")
        self.assertEqual((report["benchmark"], report["ranks"], report["type"]), ("allgather", 3, "char"))
        self.assertTrue(report["valid"])
        self.assertNotIn("operation", report)
        self.assertEqual([row["bytes"] for row in report["results"]], [8, 16])
        for row in report["results"]:
            time = row["latency_us"]
            self.assertTrue(time["min"] <= time["p50"] <= time["p99"] <= time["max"])
            self.assertTrue(row["rank_mean_us"]["min"] <= time["mean"] * 1.001)
            self.assertTrue(row["rank_mean_us"]["max"] >= time["mean"] * 0.999)

    def test_bandwidths_are_those_of_nccl_tests(self):
        # What moves in all, and busbw by algbw, as factors of the size for three ranks.
        for name, moved, factor in [("allreduce", 1, 4 / 3), ("bcast", 1, 1), ("reduce", 1, 1),
                                    ("allgather", 3, 2 / 3), ("alltoall", 3, 2 / 3), ("reduce_scatter", 1, 2 / 3),
                                    ("reduce_scatter_block", 3, 2 / 3), ("exscan", 1, 1), ("gatherv", 3, 2 / 3),
                                    ("neighbor_allgather", 2, 1)]:
            with self.subTest(benchmark=name):
                row, = self.report(MPIS[0], name, "-n", 3, "-m", "1k:1k", "H", "H")["results"]
                self.assertAlmostEqual(row["algbw_gb_s"] * row["latency_us"]["p50"] / (moved * 1.024), 1)
                self.assertAlmostEqual(row["busbw_gb_s"] / row["algbw_gb_s"], factor)

    def test_overlap(self):
        report = self.report(MPIS[0], "ireduce", "-m", "8:8", "-t", 4, "H", "H")
        row, = report["results"]
        self.assertEqual((report["operation"], report["test_calls"]), ("sum", 4))
        self.assertTrue(0 <= row["overlap_percent"] <= 100)
        parts = row["compute_us"] + row["start_us"] + row["test_us"] + row["wait_us"]
        self.assertLessEqual(parts, row["overall_us"] * 1.001)

    def test_an_exchange_is_hidden_as_collectives_are(self):
        for abi in MPIS:
            report = self.report(abi, "overlap", "-m", "4:8", "-T", "int", "-t", 2, "-c", "H", "H")
            self.assertEqual((report["benchmark"], report["target"], report["valid"]), ("overlap", "cpu", True))
            for row in report["results"]:
                self.assertTrue(0 <= row["overlap_percent"] <= 100)
        self.assertEqual(headings(self.measure(MPIS[0], "overlap", "-m", "8:8", "-f", "-c", "H", "H")),
                         ["# Size", "Overall", "Compute", "Start", "Test", "Wait", "Pure", "Min", "Max", "Overlap", "Calls",
                          "Valid"])

    def test_the_gpu_computes(self):
        for abi in filter(has_library, MPIS):
            for name, target, *places in (("overlap", "gpu", "D", "H"), ("iallreduce", "both", "D", "D"),
                                          ("ibcast", "gpu", "H", "H")):
                with self.subTest(abi=abi, benchmark=name):
                    text = self.measure(abi, name, "-m", "8:8", "-r", target, "-t", 1, "-c", *places)
                    self.assertRegex(text, "# computation: (the CPU, and )?a kernel of 4 blocks")
                    self.assertEqual(rows(text)[0][-1], "Pass")

    def test_first_calls(self):
        text = self.measure(MPIS[0], "allgather", "-m", "8:8", "--first", "H", "H")
        self.assertEqual(headings(text), ["# Size", "First (us)", "Latency (us)", "algbw (GB/s)", "busbw (GB/s)"])
        self.assertGreater(self.report(MPIS[0], "barrier")["results"][0]["first_us"], 0)


class Problems(CollectiveTest):
    def with_faults(self, abi, name, sizes, *more):
        """On an MPI with the faults of faulty_mpi.cpp."""
        faults = os.path.join(TREE, "lib", "tests", f"faulty-mpi-{abi}.so")
        return fairlead("bench", name, "--mpi", abi, "-i", 3, "-m", sizes, *preload(abi), *more, "H", "H",
                        LD_PRELOAD=faults)

    def test_wrong_data_is_found(self):
        for abi in ONE_MPI:
            with self.subTest(abi=abi):
                result = self.with_faults(abi, "allreduce", "8:16", "-c")
                self.assertEqual(result.returncode, 1, result)
                self.assertEqual([row[-1] for row in rows(result.stdout)], ["Pass", "Fail"])
                self.assertIn("allreduce: size 16: rank 1 has wrong data from byte 8 on", result.stderr)

    def test_a_call_that_fails_is_one_line(self):
        for abi in ONE_MPI:
            with self.subTest(abi=abi):
                result = self.with_faults(abi, "allgather", "40:40")
                self.assertEqual(result.returncode, 1, result)
                ours = [line for line in result.stderr.splitlines() if line.startswith("fairlead bench: ")]
                self.assertEqual(len(ours), 1, result.stderr)
                self.assertIn("allgather: size 40: MPI_Allgather: ", ours[0])
                self.assertIn("count", ours[0])  # of the MPI's own text

    def test_a_rank_that_fails_alone_ends_all(self):
        for abi in ONE_MPI:
            with self.subTest(abi=abi):
                result = self.with_faults(abi, "allgather", "48:48")
                self.assertNotEqual(result.returncode, 0, result)
                self.assertIn("fairlead bench: rank 1: allgather: size 48: MPI_Allgather: ", result.stderr)


class Refusals(CollectiveTest):
    def test_bad_arguments(self):
        self.refuses("bench", "allreduce", "-T", "half", says=["'half'", "char, int, float, double"])
        self.refuses("bench", "allreduce", "-o", "average", says=["'average'", "sum, prod, min, max"])
        self.refuses("bench", "allreduce", "-m", "6:64", says=["'6:64'", "multiple of 4 bytes"])
        self.refuses("bench", "allreduce", "-m", "1:2", says=["'1:2'", "one float takes 4 bytes"])
        self.refuses("bench", "allreduce", "-M", "much", says=["-M", "'much'"])
        self.refuses("bench", "allreduce", "-t", 1, says="-t of nccl-tests")
        self.refuses("bench", "allreduce", "-k", 1, says="unknown option -k")
        self.refuses("bench", "allreduce", "-W", 1, says="unknown option -W")
        self.refuses("bench", "iallreduce", "-t", -1, says="'-1'")
        self.refuses("bench", "iallreduce", "-r", "fpga", says=["'fpga'", "cpu, gpu, both"])
        self.refuses("bench", "overlap", "-n", 3, says="needs exactly 2 ranks, got 3")
        self.refuses("bench", "allgather", "-o", "sum", says="-o of nccl-tests")
        self.refuses("bench", "bcast", "-k", "first", says=["'first'", "a rank, or rotate"])
        self.refuses("bench", "bcast", "-k", 2, says="no rank 2 in 2 ranks")
        self.refuses("bench", "barrier", "-m", 8, says="unknown option -m")
        self.refuses("bench", "barrier", "D", "D", says="unexpected argument 'D'")
        self.refuses("bench", "allreduce", "D", says=["1 placement letter", "of all other ranks"])

    def test_what_nccl_has_not(self):
        for name in ["allgatherv", "alltoallv", "barrier", "iallreduce", "allreduce_persistent", "scan"]:
            self.refuses("bench", name, "--via", "nccl", says=["NCCL has no such call", "allreduce, bcast, reduce"])
        self.refuses("bench", "allreduce", "--via", "nccl", "H", "H", says="D D")
        self.refuses("bench", "allreduce", "--via", "raw", says=["'raw'", "mpi, nccl"])
        self.refuses("bench", "allreduce", "--cudagraph", says="--cudagraph is for NCCL; add --via nccl")
        self.refuses("bench", "allreduce", "--symmetric", "--via", "mpi", says="--symmetric is for NCCL")
        self.refuses("bench", "bcast", "--via", "nccl", "--cudagraph", "-k", "rotate", says="-k with a rank")
        self.refuses("bench", "latency", "--via", "nccl", "--cudagraph", says="unknown option --cudagraph")

    @unittest.skipUnless(os.path.exists(SIMULATED_NCCL) and os.path.isdir(SIMULATED_ROCM), "no simulated RCCL here")
    def test_nccl(self):  # but --cudagraph: what the simulated NCCL does cannot be captured
        with tempfile.TemporaryDirectory() as home:
            os.mkdir(os.path.join(home, "lib"))
            os.symlink(SIMULATED_NCCL, os.path.join(home, "lib", "librccl.so.1"))
            on_rocm = {"NCCL_HOME": home, "LD_LIBRARY_PATH": SIMULATED_ROCM, "FAIRLEAD_DEVICE": "rocm",
                       "FAIRLEAD_SIM_DEVICES": "2"}
            for abi in ONE_MPI:
                for name, *forms in [("allreduce", "--symmetric"), ("alltoall",),
                                     ("bcast", "-k", "rotate", "--symmetric")]:
                    with self.subTest(abi=abi, benchmark=name):
                        text = self.measure(abi, name, "--via", "nccl", *forms, "-m", "4:64", "-c", **on_rocm)
                        self.assertIn("# via: RCCL 2.30.0" + ", symmetric windows" * ("--symmetric" in forms), text)
                        self.assertEqual({row[-1] for row in rows(text)}, {"Pass"})


if __name__ == "__main__":
    unittest.main()
