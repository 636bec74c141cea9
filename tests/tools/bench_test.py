# SPDX-License-Identifier: Apache-2.0
"""`fairlead bench` prints tables of the promised shape, takes the OSU benchmarks' options, and refuses the rest."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock

from tool import (MPIS, ONE_MPI, TIMEOUT, TOOL, TREE, ToolTest, example, fairlead, has_library, host_mpi, host_mpi_has, preload,
                  script)


def rows(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def header(text):
    return [line for line in text.splitlines() if line.startswith("# Size")][0].split()


def headings(text):
    """Of the columns, which are separated by two blanks or more."""
    line = [line for line in text.splitlines() if line.startswith(("# Size", "# Messages"))][0]
    return [heading.strip() for heading in line.split("  ") if heading.strip()]


class Names(ToolTest):
    def test_those_of_the_osu_suite(self):
        for name in "latency", "mbw_mr":
            self.assertEqual(self.succeeds("bench", "osu_" + name, "--help").stdout,
                             self.succeeds("bench", name, "--help").stdout)
        text = self.succeeds("run", "-n", 2, "--mpi", MPIS[0], *preload(MPIS[0]), TOOL, "bench", "osu_bw", "-m", "8:8",
                             "-i", 2, "H", "H").stdout
        self.assertIn("# fairlead bench bw ", text)

    def test_the_mpi_may_be_named_by_its_launcher(self):
        for abi in MPIS:
            launcher = self.succeeds("run", "--dry-run", "-n", 1, "--no-preload", example(abi)).stdout.split()[0]
            words = ["bench", "latency", "-m", "8:8", "-i", 2, "H", "H"]
            for line in [*words, "--no-preload", "--mpi", launcher], ["run", "-n", 2, "--no-preload", "--mpi", launcher, TOOL, *words]:
                result = self.succeeds(*line)
                self.assertIn(f"({abi})", result.stdout)
                self.assertNotIn("not through", result.stderr)
            for other in MPIS:
                if other != abi and "abi" not in (abi, other):
                    self.refuses("run", "-n", 2, "--mpi", launcher, TOOL, *words, "--mpi", other, says="disagree")


    def test_an_mpi_takes_the_place_under_its_other_name(self):
        """MPICH's library bears one of two names; an alias of the name that a program looks for loads the other."""
        if "mpich" not in MPIS:
            self.skipTest("no MPICH")
        linked = host_mpi("mpich")
        other = "libmpi.so.12" if "libmpich" in linked else "libmpich.so.12"
        line = self.succeeds("run", "--dry-run", "-n", 2, "--no-preload", example("mpich")).stdout.split()
        with tempfile.TemporaryDirectory() as prefix:
            for folder in "bin", "lib":
                os.mkdir(os.path.join(prefix, folder))
            shutil.copy(linked, os.path.join(prefix, "lib", other))
            launcher = script(os.path.join(prefix, "bin"), "mpirun", f'#!/bin/sh\nexec {line[0]} "$@"\n')
            words = ["bench", "latency", "-m", "8:8", "-i", 2, "--no-preload", "--mpi", launcher, "H", "H"]
            for result in self.succeeds(*words), self.succeeds(*words, launcher=line[:line.index(TOOL)]):
                self.assertEqual(len(rows(result.stdout)), 1)
                self.assertEqual(result.stderr, "")
            # It is loaded in place of the one that the program finds by itself: without any code in it nothing runs.
            open(os.path.join(prefix, "lib", other), "w").close()
            self.assertNotEqual(fairlead(*words).returncode, 0)

    def test_an_mpi_that_cannot_take_the_place_is_not_taken_for_it(self):
        """A program finds the library of the name it is linked with, or of one that there is an alias for."""
        if "mpich" not in MPIS:
            self.skipTest("no MPICH")
        linked = host_mpi("mpich")
        other = "libmpi_gnu_123.so.12"  # as Cray's are named
        line = self.succeeds("run", "--dry-run", "-n", 2, "--no-preload", example("mpich")).stdout.split()
        with tempfile.TemporaryDirectory() as prefix:
            for folder in "bin", "lib":
                os.mkdir(os.path.join(prefix, folder))
            open(os.path.join(prefix, "lib", other), "w").close()
            launcher = script(os.path.join(prefix, "bin"), "mpirun", f'#!/bin/sh\nexec {line[0]} "$@"\n')
            words = ["bench", "latency", "-m", "8:8", "-i", 2, "--no-preload", "--mpi", launcher, "H", "H"]
            for result in self.succeeds(*words), self.succeeds(*words, launcher=line[:line.index(TOOL)]), \
                    self.succeeds("run", "-n", 2, "--no-preload", "--mpi", launcher, TOOL, *words):
                self.assertEqual(len(rows(result.stdout)), 1)
                self.assertEqual(result.stderr.count(f"through {linked}, not through {prefix}/lib/{other}"), 1, result.stderr)
                self.assertIn("FAIRLEAD_MPICC", result.stderr)


class Simulated(ToolTest):
    def test_a_line_says_that_times_mean_nothing(self):
        words = "simulated GPUs: results are valid, timings are not"
        abi = MPIS[0]
        for name in "latency", "allreduce", "copy", "datatype":
            line = ["bench", name, "-i", 2, "-x", 0, *["-m", "8:8"] * (name != "datatype"),
                    *["--blocks", 8] * (name == "datatype"), *[*preload(abi), "--mpi", abi] * (name != "copy")]
            if has_library(abi) or name == "copy":
                self.assertEqual(self.succeeds(*line).stdout.count("# " + words), 1, name)
            if name != "copy":
                self.assertNotIn(words, self.succeeds(*line, "H", "H").stdout)

    def test_what_the_user_left_open_is_small(self):
        abi = next(filter(has_library, MPIS), None)
        if not abi:
            self.skipTest("no library")
        text = self.succeeds("bench", "all_pairs", "--mpi", abi, "-c", "-f").stdout
        self.assertIn("bandwidth of 262144 bytes", text)
        self.assertIn("# validation: all bytes are right", text)
        self.assertLessEqual(max(map(len, [line for line in text.splitlines() if line[:6] not in ("# MPI:", "# prov")])), 80)
        self.assertIn("# 1048576 packed bytes", self.succeeds("bench", "pack", "--mpi", abi, "-i", 1, "-x", 0).stdout)
        text = self.succeeds("bench", "pack", "--mpi", abi, "-i", 1, "-x", 0, "-m", "8:8", "--no-preload", "H", "H").stdout
        self.assertIn("# 67108864 packed bytes", text)


class Tables(ToolTest):
    def sweep(self, abi, name, *more):
        return self.succeeds("bench", name, "--mpi", abi, "-m", "1:32", "-i", 5, "-x", 1, *preload(abi), *more).stdout

    def test_host_to_host(self):
        for abi in MPIS:
            for name, unit in [("latency", "(us)"), ("bw", "(MB/s)"), ("bibw", "(MB/s)")]:
                with self.subTest(abi=abi, benchmark=name):
                    text = self.sweep(abi, name, "H", "H")
                    self.assertEqual(header(text)[-1], unit)
                    self.assertEqual([row[0] for row in rows(text)], ["1", "2", "4", "8", "16", "32"])
                    self.assertTrue(all(len(row) == 2 and float(row[1]) >= 0 for row in rows(text)))

    def test_validation_column(self):
        for abi in ONE_MPI:
            text = self.sweep(abi, "bw", "-c", "-W", 3, "H", "H")
            self.assertEqual(header(text)[-1], "Validation")
            self.assertEqual({row[2] for row in rows(text)}, {"Pass"})

    def test_every_placement(self):
        for abi in filter(has_library, MPIS):
            for places in ["DD", "HD", "DH", "MD", "DM"]:
                with self.subTest(abi=abi, places=places):
                    text = self.succeeds("bench", "latency", "--mpi", abi, "-m", "4:64k", "-i", 2, "-x", 0, "-c",
                                         "-d", "sim", *places).stdout
                    self.assertEqual({row[2] for row in rows(text)}, {"Pass"})
                    self.assertIn("Fairlead loaded", text)

    def test_fresh_buffers(self):
        for abi in ONE_MPI:
            for places in [("H", "H")] + [("D", "D"), ("D", "H")] * has_library(abi):
                with self.subTest(abi=abi, places=places):
                    text = self.sweep(abi, "latency", "--fresh", "-c", "-d", "sim", *places)
                    self.assertEqual({row[2] for row in rows(text)}, {"Pass"})

    def test_full_statistics(self):
        abi = MPIS[0]
        text = self.sweep(abi, "latency", "-f", "-c", "H", "H")
        self.assertIn("# latency in us\n", text)
        self.assertEqual(headings(text), ["# Size", "Avg", "Min", "P50", "P99", "Max", "Valid"])
        for row in rows(text):
            average, least, middle, tail, greatest = map(float, row[1:6])
            self.assertTrue(least <= middle <= tail <= greatest and least <= average <= greatest)
        text = self.succeeds("bench", "copy", "-m", "1k:2k", "-i", 5, "-f").stdout
        self.assertEqual(headings(text), ["# Size", "Latency", "Bandwidth", "Both ways", "To host", "From host"])
        self.assertEqual([row[:2] for row in rows(text)],
                         [[size, row] for size in ("1024", "2048") for row in ("P50", "slow")])
        for middle, slow in zip(rows(text)[::2], rows(text)[1::2]):
            self.assertLessEqual(float(middle[2]), float(slow[2]))
            self.assertGreaterEqual(float(middle[3]), float(slow[3]))

    def test_full_statistics_fit_a_terminal(self):
        for name, *words in [("mbw_mr", "-n", 2), ("copy",), ("first", "--rounds", 2), ("allreduce",), ("all_pairs",)]:
            text = self.succeeds("bench", name, "-m", "1k:1k", "-i", 3, "-f", "-c", "-d", "sim", *words).stdout
            for line in text.splitlines():
                if not line.startswith("#") or line.startswith("# Size"):
                    self.assertLessEqual(len(line), 80, line)

    def test_files(self):
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi), tempfile.TemporaryDirectory() as folder:
                file = os.path.join(folder, "new")
                words = ["bench", "file", "--mpi", abi, "--sim", 2, "-i", 2, "--file", file]
                text = self.succeeds(*words, "-m", "1000:2000", "-c", "D", "H").stdout
                self.assertEqual(headings(text), ["# Size", "Write", "Read", "Write all", "Read all", "Valid"])
                self.assertEqual([(row[0], row[-1]) for row in rows(text)], [("1000", "Pass"), ("2000", "Pass")])
                self.assertFalse(os.path.exists(file))
                with open(file, "w", encoding="utf-8") as kept:
                    kept.write("kept")
                self.refuses(*words, says=["--file", "exists"])
                with open(file, encoding="utf-8") as kept:
                    self.assertEqual(kept.read(), "kept")
        self.refuses("bench", "file", "-m", "4g:4g", says="up to 2147483647")

    def test_files_are_not_made_to_try(self):
        # All ranks check --file at the same time: what one makes, another finds.
        with tempfile.TemporaryDirectory() as folder:
            before = os.stat(folder).st_mtime_ns
            self.refuses("bench", "file", "--file", os.path.join(folder, "new"), "--json", "/no/folder",
                         says="--json: cannot write")
            self.assertEqual(os.stat(folder).st_mtime_ns, before)
            self.refuses("bench", "copy", "--json", folder, says="Is a directory")

    def test_unaligned_buffers(self):
        for abi in filter(has_library, ONE_MPI):
            self.assertEqual({row[2] for row in rows(self.sweep(abi, "bibw", "--offset", 3, "-W", 2, "-c", "D", "D"))},
                             {"Pass"})

    def test_probes(self):
        for abi in filter(has_library, ONE_MPI):
            for probe in ("--probe", "--mprobe"):
                with self.subTest(abi=abi, probe=probe):
                    text = self.succeeds("bench", "latency", "--mpi", abi, probe, "-m", "0:8", "-i", 3, "-x", 1, "-c",
                                         "D", "H").stdout
                    self.assertEqual([(row[0], row[2]) for row in rows(text)],
                                     [(size, "Pass") for size in ("0", "1", "2", "4", "8")])

    def test_many_pairs_at_once(self):
        for abi in ONE_MPI:
            with self.subTest(abi=abi):
                text = self.sweep(abi, "mbw_mr", "-n", 4, "-W", 4, "-c", "H", "H")
                self.assertEqual(headings(text), ["# Size", "Bandwidth (MB/s)", "Messages/s", "Validation"])
                for size, bandwidth, rate, valid in rows(text):
                    self.assertEqual(valid, "Pass")
                    self.assertAlmostEqual(float(rate) * int(size) / 1e6, float(bandwidth), delta=0.01)
        for abi in filter(has_library, ONE_MPI):
            with self.subTest(abi=abi):
                # Windows of receives into one host buffer.
                text = self.succeeds("bench", "mbw_mr", "-n", 4, "--mpi", abi, "-m", "1k:1k", "-i", 3, "-x", 1, "-c",
                                     "D", "H").stdout
                self.assertEqual({row[3] for row in rows(text)}, {"Pass"})
                text = self.succeeds("bench", "multi_lat", "--mpi", abi, "-m", "8:16", "-i", 2, "-x", 0, "-c", "D", "H",
                                     FAIRLEAD_SIM_DEVICES="2").stdout
                self.assertIn("devices 0,1 -> 0,1", text)
                self.assertIn("# first half of the ranks: device (D), second half: host (H)", text)
                self.assertEqual({row[2] for row in rows(text)}, {"Pass"})

    def test_partitions(self):
        for abi in MPIS:
            with self.subTest(abi=abi):
                words = ["bench", "partitioned", "--mpi", abi, "-p", 4, "-m", "1:16", "-i", 3, "-x", 1, "-c",
                         *preload(abi), *("DH" if has_library(abi) else "HH")]
                if host_mpi_has(abi, "MPI_Psend_init"):
                    self.assertEqual([(row[0], row[2]) for row in rows(self.succeeds(*words).stdout)],
                                     [("4", "Pass"), ("8", "Pass"), ("16", "Pass")])
                    words[words.index("1:16")] = "6:16"  # rounded up to a multiple of the partitions
                    self.assertEqual([row[0] for row in rows(self.succeeds(*words).stdout)], ["8", "16"])
                else:
                    result = fairlead(*words)
                    self.assertEqual(result.returncode, 77, result)
                    self.assertIn("this MPI has no MPI_Psend_init", result.stderr)
                    self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)  # the launcher says nothing

    def test_first_messages(self):
        for abi in filter(has_library, ONE_MPI):
            with self.subTest(abi=abi):
                text = self.succeeds("bench", "first", "--mpi", abi, "-m", "8:16", "-i", 4, "--rounds", 2, "-c").stdout
                self.assertEqual(headings(text), ["# Size", "Allocate", "First", "Second", "Later", "Slowest", "At message",
                                                  "Valid"])
                self.assertIn("# first message of the job, 8 bytes:", text)
                self.assertTrue(all(row[6] in ("3", "4") and row[7] == "Pass" for row in rows(text)))

    def test_outstanding_messages(self):
        for abi in filter(has_library, ONE_MPI):
            for memory in "DD", "HD":
                with self.subTest(abi=abi, memory=memory):
                    text = self.succeeds("bench", "posted", "--mpi", abi, "-N", "8:32", "-i", 2, *memory).stdout
                    self.assertEqual(headings(text), ["# Messages", "MPI_Irecv (us)", "MPI_Isend (us)", "Arrival (us)"])
                    self.assertEqual([row[0] for row in rows(text)], ["8", "16", "32"])
                    self.assertTrue(all(float(time) >= 0 for row in rows(text) for time in row[1:]))

    def test_operations_on_streams(self):
        for abi in filter(has_library, ONE_MPI):
            for name, ranks, collective in (
                ("enqueue", 2, True),
                ("enqueue_allreduce", 3, False),
                ("enqueue_alltoallv", 3, False),
                ("enqueue_neighbors", 2, False),
                ("enqueue_neighbors", 3, False),
            ):
                with self.subTest(abi=abi, benchmark=name):
                    words = ["bench", name, "--mpi", abi, "-n", ranks, "-m", "8:32k", "-i", 5, "--rounds", 2, "-c"]
                    text = self.succeeds(*words).stdout
                    columns = headings(text)
                    partitioned = "Partitioned" in columns
                    others = (["Alltoallv", "+Graph"] + (["Partitioned", "+Graph"] if partitioned else [])) if collective else []
                    self.assertEqual(columns, ["# Size", "Sync", "Enqueue", "Graph", *others, "Call", "Valid"])
                    self.assertIn("# NCCL is skipped: ", text)
                    self.assertEqual(len(rows(text)), 13)
                    self.assertTrue(all(row[-1] == "Pass" and float(time) > 0 for row in rows(text) for time in row[1:-1]))
                    report = json.loads(self.succeeds(*words, "--json", "-").stdout)
                    self.assertTrue(report["valid"])
                    for row in report["results"]:
                        self.assertEqual(row["steps"], 5)
                        self.assertTrue(all(row[key]["p50"] > 0 for key in ("sync_us", "enqueue_us", "graph_us", "call_us")))
                        self.assertEqual("alltoallv_us" in row and "alltoallv_graph_us" in row, collective)
                        self.assertEqual("partitioned_us" in row and "partitioned_graph_us" in row, partitioned)
                        self.assertNotIn("nccl_us", row)
                    result = fairlead("bench", name, "--mpi", abi, "--no-preload", "-m", "8:8", "-i", 2)
                    # MPICH has the functions from 4.1 on, and before 5 ends a program unless it is built for CUDA.
                    ended_by_host = abi == "mpich" and "CUDA not enabled" in result.stderr
                    if result.returncode and not ended_by_host:
                        self.assertEqual(result.returncode, 77)
                        self.assertIn("leave --no-preload out", result.stderr)

    def test_nobody_is_warned_of_simulated_times(self):
        result = self.succeeds("bench", "copy", "-m", "8:16", "-i", 20)
        self.assertEqual(result.stderr, "")

    def test_copy(self):
        text = self.succeeds("bench", "copy", "-m", "1k:64k", "-i", 5, "-c", FAIRLEAD_SIM_DEVICES="2").stdout
        self.assertIn("devices 0 -> 1", text)
        self.assertEqual([row[0] for row in rows(text)], ["1024", "2048", "4096", "8192", "16384", "32768", "65536"])
        # Latency, bandwidth between devices, to the host and from it.
        self.assertTrue(all(len(row) == 7 and row[6] == "Pass" for row in rows(text)))
        self.assertTrue(all(float(value) > 0 for row in rows(text) for value in row[1:5]))

    def test_inside_a_job(self):
        for abi in MPIS:
            with self.subTest(abi=abi):
                text = self.succeeds("run", "-n", 4, "--mpi", abi, *preload(abi), TOOL, "bench", "multi_lat", "-m", "8:8",
                                     "-i", 5, "H", "H").stdout
                self.assertIn(f"({abi}), 4 ranks", text)
                self.assertEqual(len(rows(text)), 1)
                # The same under the launcher itself.
                line = self.succeeds("run", "--dry-run", "-n", 2, "--no-preload", example(abi)).stdout.split()
                launcher = line[:line.index(TOOL)]
                text = self.succeeds("bench", "bw", *preload(abi), "-m", "8:8", "-i", 2, "H", "H", launcher=launcher).stdout
                self.assertIn(f"({abi}), 2 ranks", text)


class Json(ToolTest):
    def test_results(self):
        abi = MPIS[0]
        result = self.succeeds("bench", "latency", "-m", "8:16", "-i", 20, "-c", *preload(abi), "--json", "-", "H", "H")
        report = json.loads(result.stdout)
        self.assertEqual(report["benchmark"], "latency")
        self.assertEqual(report["placement"], ["H", "H"])
        self.assertTrue(report["command"].startswith("fairlead bench latency -m 8:16"))
        self.assertTrue(report["valid"])
        self.assertTrue(report["hardware"]["cpu"])
        self.assertEqual([r["bytes"] for r in report["results"]], [8, 16])
        for r in report["results"]:
            latency = r["latency_us"]
            self.assertEqual(r["iterations"], 20)
            self.assertTrue(latency["min"] <= latency["p1"] <= latency["p50"] <= latency["p99"] <= latency["max"])

    def test_what_was_asked_for_is_told(self):
        abi = MPIS[0]
        # Open MPI 5 has words of its own where the network interfaces reach nobody.
        with unittest.mock.patch.dict(os.environ, {"OMPI_MCA_btl": "^tcp"}):
            result = self.succeeds("bench", "latency", "-m", "8:8", "-i", 3, "--mprobe", "--offset", "1k",
                                   *preload(abi), "--json", "-", "H", "H")
        report = json.loads(result.stdout)
        self.assertEqual((report["probe"], report["offset"]), ("mprobe", 1024))
        self.assertEqual(result.stderr, "")  # what is doubtful the rows tell

    def test_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "copy.json")
            text = self.succeeds("bench", "copy", "-m", "8:8", "-i", 5, "--json", path).stdout
            self.assertEqual(len(rows(text)), 1)
            with open(path) as file:
                report = json.load(file)
            self.assertEqual((report["provider"], report["complete"]), ("sim", True))
            self.assertIn("bandwidth_mb_s", report["results"][0])

    def test_what_was_measured_stays_after_an_interrupt(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "latency.json")
            variables = {**os.environ, "FAIRLEAD_DEVICE": "sim"}
            with subprocess.Popen([TOOL, "bench", "latency", *preload(MPIS[0]), "-m", "8:4m", "-i", "1000000", "--json", path, "H", "H"],
                                  env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
                while not os.path.exists(path):  # after the first size
                    self.assertIsNone(process.poll())
                    time.sleep(0.1)
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=TIMEOUT)
            with open(path) as file:
                report = json.load(file)
        self.assertFalse(report["complete"])
        self.assertEqual(report["results"][0]["bytes"], 8)

    def test_host_overhead(self):
        if not has_library(MPIS[0]):
            self.skipTest("needs the interposition library")
        report = json.loads(self.succeeds("bench", "host_overhead", "--rounds", 2, "-i", 500, "--json", "-").stdout)
        self.assertEqual(len(report["with_ns"]), 2)
        self.assertEqual(len(report["without_ns"]), 2)


class Refusals(ToolTest):
    def test_bad_arguments(self):
        self.refuses("bench", "bogus", says=["'bogus'", "lists all"])
        self.refuses("bench", "latncy", says=["'latncy'; did you mean latency?", "bench --help"])
        self.refuses("bench", "latency", "--bogus", says=["--bogus", "accepted: -m"])
        self.refuses("bench", "latency", "--itertions", 3, says=["--itertions; did you mean --iterations?", "accepted: -m"])
        self.refuses("bench", "latency", "-m", "8:4", says=["8:4", "above the largest"])
        self.refuses("bench", "latency", "-m", 0, says=["'0'", "1 (the default)"])
        self.refuses("bench", "latency", "-m", "many", says=["'many'", "64k"])
        self.refuses("bench", "bw", "-m", "0:4", says="from 1 byte")
        self.refuses("bench", "latency", "-i", 0, says=["'0'", "from 1 to"])
        self.refuses("bench", "latency", "-i", 99999999999, says=["'99999999999'", "1 to 1000000000"])
        self.refuses("bench", "latency", "-x", -1, says="'-1'")
        self.refuses("bench", "latency", "-m", says=["needs a value", "--message-size MIN:MAX"])
        self.refuses("bench", "latency", "-i", 1, "-i", 2, says=["more than once", "--iterations N"])
        self.refuses("bench", "bw", "-W", 0, says="'0'")
        self.refuses("bench", "bw", "--fresh", says="--fresh")
        self.refuses("bench", "bw", "--probe", says="--probe")
        self.refuses("bench", "latency", "--probe", "--mprobe", says=["--probe", "--mprobe"])
        self.refuses("bench", "latency", "--probe", "--via", "nccl", says="are calls of MPI")
        self.refuses("bench", "latency", "--offset", "few", says=["--offset", "'few'", "4096"])
        self.refuses("bench", "partitioned", "-p", 6, "-m", "7:8", says=["7:8", "of 6 partitions", "up to 12"])
        self.refuses("bench", "first", "-i", 2, says="from 3")
        self.refuses("bench", "posted", "-N", "1:2m", says=["'1:2m'", "1048576"])
        self.refuses("bench", "enqueue_allreduce", "-m", "2:2", says=["'2:2'", "4 bytes"])
        self.refuses("bench", "enqueue", "-m", "8:2g", says=["'8:2g'", "2147483647"])
        self.refuses("bench", "posted", "X", "Y", says=["posted: ", "'X'", "D (device), H (host), M (managed)"])
        self.refuses("bench", "posted", "D", "D", "H", says=["posted: ", "3 placement letters", "two"])
        self.refuses("bench", "latency", "-d", "intel", says=["'intel'", "cuda, rocm, sim"])
        self.refuses("bench", "latency", "--via", "pigeon", says=["'pigeon'", "mpi, nccl"])
        self.refuses("bench", "latency", "--via", "nccl", "H", "H", says="D D")
        self.refuses("bench", "latency", "--mpi", "bogus", says="'bogus'")

    def test_placement(self):
        self.refuses("bench", "latency", "Q", "D", says=["'Q'", "D (device), H (host), M (managed)"])
        self.refuses("bench", "latency", "D", says="1 placement letter")
        self.refuses("bench", "latency", "D", "D", "D", says="3 placement letters")

    def test_wrong_rank_counts(self):
        two, even = "exactly 2 ranks", "an even number of ranks"
        for name, right in ("latency", two), ("bw", two), ("bibw", two), ("partitioned", two), ("first", two), ("posted", two), ("enqueue", two), ("halo", two), \
                ("datatype", two), ("put_latency", even), ("get_bw", even), ("put_bibw", even), ("fop_latency", even), ("pack", "exactly 1 rank"):
            accepted = f"{name}: needs {right}"
            self.refuses("bench", name, "-n", 3, says=[accepted, "got 3"])
            self.refuses("run", "-n", 3, "--mpi", MPIS[0], TOOL, "bench", name, says=accepted)
        for name in "all_pairs", "put_halo", "enqueue_allreduce":
            self.refuses("bench", name, "-n", 1, says="needs at least 2 ranks, got 1")
        self.refuses("bench", "latency", "-n", 1, says="latency: needs exactly 2 ranks, got 1")
        self.refuses("bench", "mbw_mr", "-n", 3, says="needs an even number of ranks, got 3")
        self.refuses("run", "-n", 1, "--mpi", MPIS[0], TOOL, "bench", "latency", says="needs exactly 2 ranks, got 1")
        self.refuses("run", "-n", 2, TOOL, "bench", "copy", says="cannot run in a job")

    def test_ranks_as_mpi_users_type_them(self):
        self.refuses("bench", "latency", "-np", 1, says="needs exactly 2 ranks, got 1")

    def test_wrong_rank_counts_of_a_launcher(self):
        for abi in MPIS:
            line = self.succeeds("run", "--dry-run", "-n", 3, "--no-preload", example(abi)).stdout.split()
            for name, right in ("latency", "exactly 2 ranks"), ("put_latency", "an even number of ranks"), ("halo", "exactly 2 ranks"), ("pack", "exactly 1 rank"):
                with self.subTest(abi=abi, benchmark=name):
                    result = fairlead("bench", name, *preload(abi), "H", "H", launcher=line[:line.index(TOOL)])
                    self.assertEqual((result.returncode, result.stdout.count("#")), (2, 0), result)
                    self.assertEqual(result.stderr.count(f"{name}: needs {right}, got 3"), 1, result.stderr)

    def test_no_benchmark(self):
        self.refuses("bench", says=["no benchmark given", "latency, bw"])
        self.refuses("bench", "speed", says=["no benchmark 'speed'", "fairlead bench --help"])
        self.refuses("bench", "latenzy", says=["did you mean latency?", "fairlead bench --help"])

    def test_home_that_holds_nothing(self):
        self.refuses("bench", "latency", says=["FAIRLEAD_HOME is /nowhere", "libexec"], FAIRLEAD_HOME="/nowhere")

    def test_an_mpi_that_this_fairlead_lacks(self):
        with tempfile.TemporaryDirectory() as folder:
            programs = os.path.join(folder, "libexec", "fairlead")
            os.makedirs(programs)
            script(programs, "bench-openmpi", "#!/bin/sh\n")
            words = ["bench", "latency", "--mpi", "mpich"]
            self.refuses(*words, says=["without MPI mpich; it has: openmpi;", "mpicc, which was not found, in FAIRLEAD_MPICC"],
                         FAIRLEAD_HOME=folder)
            with open(os.path.join(folder, "CMakeCache.txt"), "w") as cache:
                cache.write("FAIRLEAD_MPICC_mpich:INTERNAL=/usr/bin/mpicc.mpich\n")
            self.refuses(*words, says="it has: openmpi; `cmake --build ", FAIRLEAD_HOME=folder)

    def test_unwritable_json(self):
        self.refuses("bench", "latency", "--json", "/no/such/folder/x", says="cannot write")
        self.refuses("bench", "copy", "--json", "/no/such/folder/x", says="cannot write")

    def test_a_pipe_is_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe)
            for words in ("copy", "--json"), ("tune", "-o"):
                with self.subTest(words=words):
                    self.refuses("bench", *words, pipe, says=[f"cannot write {pipe}", "not a regular file"])

    def test_sizes_beyond_memory(self):
        self.refuses("bench", "copy", "-m", "64g:64g", says=["68719476736", "smaller -m"])
        for abi in ONE_MPI:
            result = fairlead("bench", "latency", "--mpi", abi, "--no-preload", "-m", "64g:64g", "D", "D")
            self.assertEqual(result.returncode, 2)
            self.assertIn("device memory are needed", result.stderr)
            self.assertEqual(result.stdout, "")

    def test_one_rank_speaks_for_all(self):
        for abi in ONE_MPI:
            result = fairlead("run", "-n", 2, "--mpi", abi, "--no-preload", "sh", "-c", f"{TOOL} bench latency --bogus")
            self.assertEqual(result.returncode, 2)
            self.assertEqual(result.stderr.count("unknown option --bogus"), 1, result.stderr)

    def refused_by_this_machine(self, *arguments, says, **options):
        result = fairlead(*arguments, **options)
        self.assertEqual(result.returncode, 77, result)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(says, result.stderr)

    def test_nccl_cannot_run_on_a_simulated_gpu(self):
        self.refused_by_this_machine("bench", "latency", "--via", "nccl", says="the provider is sim")

    def test_gpus_that_are_not_there_are_refused_before_anything_starts(self):
        hidden = {"CUDA_VISIBLE_DEVICES": ""}
        for abi in ONE_MPI:
            self.refused_by_this_machine("bench", "latency", "--mpi", abi, "-d", "cuda", says="no cuda GPU here", **hidden)
            self.refused_by_this_machine("run", "-n", 2, "--mpi", abi, TOOL, "bench", "latency", "-d", "cuda",
                                         says="no cuda GPU here", **hidden)
        self.refused_by_this_machine("bench", "copy", "-d", "cuda", says="no cuda GPU here", **hidden)

    def test_ranks_of_a_node_speak_once_of_its_gpus(self):
        for abi in ONE_MPI:
            line = self.succeeds("run", "--dry-run", "-n", 2, "--no-preload", example(abi)).stdout.split()
            result = fairlead("bench", "latency", "-d", "cuda", launcher=line[:line.index(TOOL)], CUDA_VISIBLE_DEVICES="")
            self.assertNotEqual(result.returncode, 0)
            self.assertEqual(result.stderr.count("no cuda GPU here"), 1, result.stderr)

    def test_simulated_gpus_are_not_taken_unasked(self):
        none = {"FAIRLEAD_DEVICE": "auto", "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}
        for words in ["bench", "latency"], ["bench", "copy"], ["bench", "tune"], ["matrix"], ["bench", "allreduce"], \
                ["run", "-n", 2, TOOL, "bench", "latency"]:
            self.refused_by_this_machine(*words, says="FAIRLEAD_DEVICE=sim simulates GPUs", **none)
        for abi in ONE_MPI:
            # In the ranks, where the node on which they were started tells nothing of theirs.
            result = fairlead("run", "-n", 2, "--mpi", abi, *preload(abi), TOOL, "bench", "bw", PBS_JOBID="1", **none)
            self.assertNotEqual(result.returncode, 0, result)
            self.assertEqual(result.stderr.count("no GPU here"), 1, result.stderr)
            self.assertEqual(result.stdout.count("#"), 0, result.stdout)
        for words in ["latency", "H", "H"], ["latency", "--sim", 2], ["latency", "-d", "sim"], ["barrier"]:
            self.succeeds("bench", words[0], "-i", 2, *(["-m", "8:8"] if words[0] == "latency" else []), *words[1:], **none)

    def test_ranks_with_host_memory_are_bound_without_a_word_of_gpus(self):
        none = {"FAIRLEAD_DEVICE": "auto", "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}
        for abi in ONE_MPI:
            result = self.succeeds("bench", "latency", "--mpi", abi, *preload(abi), "-i", 2, "-m", "8:8", "--gpu", "nearest",
                                   "H", "H", **none)
            self.assertNotIn("simulated", result.stderr)

    def test_a_rank_with_host_memory_needs_no_gpu(self):
        none = {"FAIRLEAD_DEVICE": "auto", "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}
        for abi in filter(has_library, ONE_MPI):
            for name, letters, refused in ("latency", "D H", 0), ("latency", "H D", 1), ("bcast", "D H", 0), ("bcast", "H D", 1):
                with self.subTest(abi=abi, benchmark=name, letters=letters):
                    program = ('[ "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" != 0 ] || export FAIRLEAD_DEVICE=sim\n'
                               f"exec {TOOL} bench {name} --mpi {abi} -i 2 -m 8:8 {letters}")
                    result = fairlead("run", "-n", 2, "--mpi", abi, "--no-preload", "sh", "-c", program, **none)
                    self.assertEqual(result.returncode != 0, bool(refused), result)
                    self.assertEqual(result.stderr.count("no GPU here ("), refused, result.stderr)

    def test_the_nodes_of_a_list_may_have_what_this_one_lacks(self):
        none = {"FAIRLEAD_DEVICE": "auto", "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}
        mark = {"openmpi": "OpenRTE", "mpich": "HYDRA"}
        for abi in filter(mark.get, MPIS):
            with tempfile.TemporaryDirectory() as folder:
                launcher = script(folder, "mpirun", f"#!/bin/sh\n[ \"$1\" = --version ] && echo '{mark[abi]}' || echo started\n")
                words = ["-n", 2, "--mpi", launcher, *preload(abi)]
                for nodes in ["-hostfile", "nodes"], ["--host", "a,b"]:
                    self.assertEqual(self.succeeds("run", *words, *nodes, TOOL, "bench", "latency", **none).stdout, "started\n")
                self.refused_by_this_machine("run", *words, TOOL, "bench", "latency", says="no GPU here", **none)

    def test_what_is_said_of_gpus_can_be_done(self):
        none = {"FAIRLEAD_DEVICE": "auto", "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}
        self.refused_by_this_machine("matrix", says="(--sim 4 or FAIRLEAD_DEVICE=sim simulates GPUs", **none)
        self.refused_by_this_machine("bench", "copy", says="srun --gpus-per-node=N gives", SLURM_JOB_ID="1", **none)

    def test_no_gpu(self):
        result = subprocess.run([TOOL, "bench", "copy", "-m", "8"], env={**os.environ, "FAIRLEAD_DEVICE": "none"},
                                text=True, capture_output=True)
        self.assertEqual(result.returncode, 77)
        self.assertIn("no GPU provider", result.stderr)


if __name__ == "__main__":
    unittest.main()
