# SPDX-License-Identifier: Apache-2.0
"""`fairlead bench put_latency` and the other one-sided benchmarks: every access on every kind of window and of
synchronization on every MPI, with Fairlead and without, and what is wrong is seen."""

import json
import os
import unittest

from tool import MPIS, ONE_MPI, TREE, ToolTest, fairlead, has_library, preload

LATENCIES = ["put_latency", "get_latency", "acc_latency", "get_acc_latency"]
WORDS = ["fop_latency", "cas_latency"]  # of one size
BANDWIDTHS = ["put_bw", "get_bw", "put_bibw"]
SHORT = ["-i", 4, "-x", 1, "-d", "sim"]


def sizes(name):
    return [8] if name in WORDS else [4096, 8192] if name in BANDWIDTHS else [8, 16]


def sized(name):
    range = [] if name in WORDS else ["-m", f"{sizes(name)[0]}:{sizes(name)[-1]}"]
    return range + ["-W", 3] * (name in BANDWIDTHS)


def rows(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def headings(text):
    lines = text.splitlines()
    return lines[next(i for i, line in enumerate(lines) if not line.startswith("#")) - 1].split()


def on_device(abi):
    return ("D", "D") if has_library(abi) else ("H", "H")


class OneSided(ToolTest):
    def bench(self, name, abi, *more, **variables):
        return self.succeeds("bench", name, "--mpi", abi, *SHORT, *sized(name), *preload(abi), *more, **variables).stdout

    def passes(self, name, abi, *more, **variables):
        text = self.bench(name, abi, "-c", *more, **variables)
        self.assertEqual([(row[0], row[-1]) for row in rows(text)],
                         [(str(size), "Pass") for size in sizes(name)], text)
        return text

    def fits_a_terminal(self, text):
        for line in text.splitlines():
            self.assertLessEqual(0 if line.startswith(("# command", "# MPI")) else len(line), 80, line)

    def test_every_access(self):
        for abi in MPIS:
            for name in LATENCIES + WORDS + BANDWIDTHS:
                with self.subTest(abi=abi, name=name):
                    text = self.passes(name, abi, *on_device(abi), FAIRLEAD_SIM_DEVICES="2")
                    self.assertEqual(headings(text)[2:],
                                     ["Bandwidth" if name in BANDWIDTHS else "Latency",
                                      "(MB/s)" if name in BANDWIDTHS else "(us)", "Validation"])

    def test_every_synchronization(self):
        for abi in ONE_MPI:
            for sync in ("flush_local", "lock", "lock_all", "fence", "pscw") if abi == MPIS[0] else ("lock", "pscw"):
                with self.subTest(abi=abi, sync=sync):
                    self.assertIn(f"synchronization: {sync}\n", self.passes("acc_latency", abi, "-s", sync, *on_device(abi)))
        for name, sync in ("get_bw", "fence"), ("put_bw", "pscw"), ("put_bibw", "fence"):
            with self.subTest(name=name, sync=sync):
                self.passes(name, MPIS[0], "-s", sync, *on_device(MPIS[0]))

    def test_every_placement(self):
        for abi in filter(has_library, MPIS):
            for places in (("H", "D"), ("D", "H"), ("M", "D"), ("D", "M")) if abi == MPIS[0] else (("D", "H"),):
                with self.subTest(abi=abi, places=places):
                    self.passes("get_acc_latency", abi, *places)

    def test_every_kind_of_window(self):
        for abi in ONE_MPI:
            for kind in ("allocate", "dynamic"):
                with self.subTest(abi=abi, kind=kind):
                    text = self.passes("put_latency", abi, "-w", kind, *on_device(abi))
                    self.assertIn(f"# window by MPI_Win_{'create_' * (kind == 'dynamic')}{kind},", text)

    def test_operations(self):
        for type, operation in ("char", "sum"), ("int", "max"), ("double", "prod"):
            with self.subTest(type=type):
                self.assertIn(f"# elements: {type}, operation: {operation}\n",
                              self.passes("acc_latency", MPIS[0], "-T", type, "-o", operation, *on_device(MPIS[0])))

    def test_without_fairlead(self):
        for abi in ONE_MPI:
            # 8 bytes in a window of the MPI's own memory, and many at once.
            for name, *more in ("fop_latency", "-w", "allocate"), ("put_bibw",):
                with self.subTest(abi=abi, name=name):
                    self.assertIn("Fairlead not loaded", self.passes(name, abi, "--no-preload", *more, "H", "H"))

    def test_beside_what_the_gpu_takes(self):
        for abi in filter(has_library, ONE_MPI):
            for name in ("put_latency", "fop_latency", "get_bw", "put_bibw"):
                with self.subTest(name=name):
                    text = self.passes(name, abi, "--raw", FAIRLEAD_SIM_DEVICES="2")
                    self.fits_a_terminal(text)
                    self.assertEqual(headings(text)[2:],
                                     ["Bandwidth" if name in BANDWIDTHS else "Latency", "Raw", "Ratio", "Valid"])
                    for _, mine, raw, ratio, _ in rows(text):
                        self.assertAlmostEqual(float(ratio), float(mine) / float(raw), delta=0.01 + 0.01 * float(ratio))

    def test_halo(self):
        for abi in ONE_MPI:
            for ranks, sync in (2, "pscw"), (3, "fence"):
                with self.subTest(abi=abi, ranks=ranks):
                    text = self.passes("put_halo", abi, "-n", ranks, "-s", sync, *on_device(abi))
                    self.assertEqual(headings(text)[2:], ["Put", "Sendrecv", "Ratio", "Valid"])
                    self.fits_a_terminal(text)

    def test_full_statistics(self):
        abi = MPIS[0]
        text = self.bench("put_latency", abi, "-f", "-c", *["--raw"] * has_library(abi), *on_device(abi))
        self.fits_a_terminal(text)
        self.assertEqual(headings(text)[2:],
                         ["Avg", "Min", "P50", "P99", "Max", *["Raw", "Ratio"] * has_library(abi), "Valid"])
        text = self.bench("put_halo", abi, "-f", *on_device(abi))
        self.assertEqual([row[:2] for row in rows(text)],
                         [[size, row] for size in ("8", "16") for row in ("P50", "slow")])
        for _, _, put, sendrecv, ratio in rows(text):
            self.assertAlmostEqual(float(ratio), float(put) / float(sendrecv), delta=0.01 + 0.01 * float(ratio))

    def test_json(self):
        abi = MPIS[0]
        raw = ["--raw"] * has_library(abi)
        report = json.loads(self.bench("put_bw", abi, "-s", "lock", "-c", "--json", "-", *raw, *on_device(abi)))
        self.assertEqual((report["window_kind"], report["synchronization"], report["window"], report["valid"]),
                         ("create", "lock", 3, True))
        for row in report["results"]:
            self.assertEqual(row["iterations"], 4)
            if raw:
                self.assertAlmostEqual(row["ratio"], row["bandwidth_mb_s"]["p50"] / row["raw_mb_s"]["p50"])
        report = json.loads(self.bench("put_halo", abi, "--json", "-", *on_device(abi)))
        for row in report["results"]:
            self.assertAlmostEqual(row["ratio"], row["put_us"]["p50"] / row["sendrecv_us"]["p50"])


class Problems(ToolTest):
    def test_wrong_data_is_found(self):
        abi = MPIS[0]
        faults = os.path.join(TREE, "lib", "tests", f"faulty-mpi-{abi}.so")
        for name in ("put_latency", "get_latency", "acc_latency", "put_halo", "fop_latency", "cas_latency"):
            with self.subTest(name=name):
                result = fairlead("bench", name, "--mpi", abi, *SHORT, *sized(name), "-c", "--no-preload", "H", "H",
                                  LD_PRELOAD=faults)
                self.assertEqual(result.returncode, 1, result)
                self.assertEqual([row[-1] for row in rows(result.stdout)], ["Fail"] if name in WORDS else ["Pass", "Fail"])

    def test_windows_that_the_mpi_has_not(self):
        abi = MPIS[0]
        result = fairlead("bench", "put_latency", "--mpi", abi, "--no-preload", *SHORT, "-w", "allocate", "D", "D")
        self.assertEqual(result.returncode, 77, result)
        self.assertEqual(result.stdout, "")
        for text in ("put_latency: -w allocate", "host memory", "accepted: -w create"):
            self.assertIn(text, result.stderr)

    def test_bad_arguments(self):
        self.refuses("bench", "put_latency", "-w", "shared", says=["'shared'", "create, allocate, dynamic"])
        self.refuses("bench", "put_latency", "-s", "wait", says=["'wait'", "flush, flush_local, lock, lock_all, fence, pscw"])
        self.refuses("bench", "put_bibw", "-s", "flush", says=["'flush'", "fence, pscw"])
        self.refuses("bench", "put_halo", "-s", "lock", says=["'lock'", "fence, pscw"])
        self.refuses("bench", "put_halo", "--raw", says="--raw")
        self.refuses("bench", "put_bw", "--raw", "D", "H", says=["--raw", "D D"])
        self.refuses("bench", "put_bw", "-W", 0, says="'0'")
        self.refuses("bench", "put_latency", "-m", "0:4", says="from 1 byte")
        self.refuses("bench", "acc_latency", "-m", "6:12", says=["6:12", "multiple of 4 bytes"])
        self.refuses("bench", "acc_latency", "-T", "char", "-m", "4g:4g", says=["4g:4g", "2147483647 elements"])
        self.refuses("bench", "acc_latency", "-o", "replace", says=["'replace'", "sum, prod, min, max"])
        self.refuses("bench", "fop_latency", "-m", "8:8", says="-m")
        self.refuses("bench", "put_latency", "D", says=["1 placement letter", "of the origins of accesses and of the windows"])
        self.refuses("bench", "put_latency", "-n", 1, says="needs an even number of ranks, got 1")
        self.refuses("bench", "put_bw", "-n", 3, says="needs an even number of ranks, got 3")
        self.refuses("bench", "put_latency", "-n", 4, "--raw", says=["--raw", "needs exactly 2 ranks, got 4"])

    def test_sizes_beyond_memory(self):
        result = fairlead("bench", "put_bw", "--mpi", MPIS[0], "--no-preload", "-m", "16g:16g", "H", "H")
        self.assertEqual(result.returncode, 2)
        self.assertIn("give a smaller -m or -W", result.stderr)
        self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    unittest.main()
