# SPDX-License-Identifier: Apache-2.0
"""`fairlead matrix` measures every two GPUs, says where they are, and what ranks should make of it."""

import json
import os
import subprocess
import tempfile
import unittest

import kfd_trees
from machines import DGX, as_xml
from pictures import needs, path_to, texts
from tool import MPIS, TOOL, TREE, ToolTest, fairlead, has_library, script

QUICK = ["-m", "8:16k", "-i", 3, "-x", 1, "-W", 2]
SIMULATED_ROCM = os.path.join(TREE, "hostile_rocm", "6.2")
DRAWING = "apt install python3-matplotlib"
DGX_PRINTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "doctor/dgx-h200/commands")


def tables(text):
    """{title: rows of numbers}, as printed."""
    found = {}
    for block in text.split("#\n")[1:]:
        lines = block.splitlines()
        if len(lines) > 1 and lines[1].startswith("# GPU"):
            found[lines[0].removeprefix("# ")] = [line.split()[1:] for line in lines[2:] if not line.startswith("#")]
    return found


class MatrixTest(ToolTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def matrix(self, *arguments, gpus=3, **environment):
        return self.succeeds("matrix", *QUICK, *arguments, FAIRLEAD_SIM_DEVICES=str(gpus), **environment).stdout


class Tables(MatrixTest):
    def test_every_way(self):
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi):
                text = self.matrix("-c", "--mpi", abi)
                found = tables(text)
                for way in "messages, Fairlead on ", "driver's copy", "kernel on SMs":
                    for quantity in "one way, GB/s, 16 KiB", "both ways at once, GB/s, 16 KiB", "latency, us, 8 B":
                        rows = next(found[title] for title in found if title.startswith(way) and title.endswith(quantity))
                        for place, row in enumerate(rows):
                            self.assertEqual(row[place], ".")
                            # A busy machine may round to 0.00.
                            self.assertTrue(all(float(cell) >= 0 for cell in row if cell != "."), row)
                            self.assertEqual(len(row), 3)
                self.assertEqual(text.count("all bytes are right"), 3)
                self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_one_way_to_measure(self):
        self.assertEqual(len(tables(self.matrix("--way", "engine"))), 3)

    def test_many_gpus_take_several_parts(self):
        text = self.matrix("--way", "engine", gpus=9)
        self.assertEqual(text.count("# GPU           8\n"), 3)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_pairs_without_peer_access(self):
        found = tables(self.matrix("--way", "kernel", "--way", "engine", FAIRLEAD_SIM_NO_PEER="0-1,1-0"))
        for title, rows in found.items():
            missing = [(i, j) for i, row in enumerate(rows) for j, cell in enumerate(row) if cell == "-"]
            self.assertEqual(missing, [(0, 1), (1, 0)] if title.startswith("kernel") else [])

    def test_links_of_amd_gpus(self):
        folder = kfd_trees.write(self.path("kfd"), kfd_trees.MI300A_CPX)
        text = self.matrix("--way", "engine", FAIRLEAD_KFD_TOPOLOGY=folder, gpus=7)
        self.assertIn("# GPU 5: simulated GPU 5, 0000:01:00.5, ", text)
        links = tables(text)["links"]
        self.assertEqual(links[0], [".", "PKG", "PKG", "PKG", "PKG", "PKG", "XGMI"])
        self.assertIn("# PKG: their package\n", text)


class Files(MatrixTest):
    def test_json(self):
        about = json.loads(self.matrix("-c", "--way", "engine", "--way", "kernel", "--json", "-"))
        self.assertEqual(about["benchmark"], "matrix")
        self.assertEqual(len(about["gpus"]), 3)
        pairs = {(row["way"], row["from"], row["to"]) for row in about["results"]}
        self.assertEqual(pairs, {(way, i, j) for way in ("engine", "kernel") for i in range(3) for j in range(3) if i != j})
        for row in about["results"]:
            self.assertTrue(row["valid"])
            self.assertEqual((row["bytes"], row["latency_bytes"]), (16384, 8))
            self.assertGreater(row["bandwidth_mb_s"]["p50"], 0)
        self.assertEqual(sorted(about["order"]), [0, 1, 2])

    def test_map_is_what_run_reads(self):
        about = json.loads(self.matrix("--way", "engine", "--map", self.path("gpus.map"), "--anyway", "--json", "-"))
        line = self.succeeds("run", "-n", 3, "--dry-run", "--mpi", MPIS[0], "--no-preload", "--map", self.path("gpus.map"),
                             "/bin/sh").stdout
        self.assertIn("--map " + ",".join(map(str, about["order"])) + " ", line)

    @needs("matplotlib", DRAWING)
    def test_picture(self):
        self.matrix("--way", "engine", "-o", self.path("matrix.svg"), "--json", self.path("matrix.json"),
                    PATH=path_to("matplotlib"))
        with open(self.path("matrix.svg"), "rb") as file:
            words = texts(file.read())
        for text in "Every GPU to every other", "driver's copy (copy engine)", "one way (GB/s), 16 KiB", "latency (µs), 8 B":
            self.assertIn(text, words)
        # `fairlead plot` draws the same from the file.
        self.succeeds("plot", self.path("matrix.json"), "-o", self.path("again.svg"), "--quantity", "latency",
                      PATH=path_to("matplotlib"))
        with open(self.path("again.svg"), "rb") as file:
            self.assertNotIn("one way (GB/s), 16 KiB", texts(file.read()))
        self.refuses("plot", self.path("matrix.json"), "-o", self.path("again.html"), PATH=path_to("matplotlib"),
                     says=".png, .svg or .pdf")
        self.refuses("plot", self.path("matrix.json"), "-o", self.path("x.svg"), "--quantity", "rate",
                     PATH=path_to("matplotlib"), says=["'rate'", "bandwidth, both, latency"])


@unittest.skipUnless(os.path.isdir(SIMULATED_ROCM), "no simulated ROCm here")
class Sdma(MatrixTest):
    """What carries copies on AMD GPUs, of which some are kernels whatever they are called."""

    ROCM = {"FAIRLEAD_DEVICE": "rocm", "LD_LIBRARY_PATH": SIMULATED_ROCM}

    def measured(self, *words, **environment):
        path = self.path("matrix.json")
        text = self.succeeds("matrix", "-m", "8:2m", *QUICK[2:], *words, "--json", path, FAIRLEAD_SIM_DEVICES="2",
                             **{**self.ROCM, **environment}).stdout
        with open(path) as file:
            return text, json.load(file)

    def test_it_is_named_where_it_is_used(self):
        text, about = self.measured("--way", "engine")
        self.assertIn("# driver's copy (SDMA): one way, GB/s, 2 MiB\n", text)
        self.assertIn("# driver's copy (blit kernel): latency, us, 8 B\n", text)
        self.assertIn("# HSA_ENABLE_SDMA: not set\n# HSA_ENABLE_PEER_SDMA: not set\n", text)
        self.assertEqual(about["ways"], [{"way": "engine", "title": "driver's copy (SDMA; small ones blit kernel)",
                                          "latency_by": "blit kernel", "bandwidth_by": "SDMA"}])
        self.assertEqual(about["settings"], {"HSA_ENABLE_SDMA": "", "HSA_ENABLE_PEER_SDMA": ""})
        for forbidden in "HSA_ENABLE_SDMA", "HSA_ENABLE_PEER_SDMA":
            text, about = self.measured("--way", "engine", **{forbidden: "0"})
            self.assertNotIn("(SDMA)", text)
            self.assertIn(f"# {forbidden}: 0\n", text)
            self.assertEqual((about["ways"][0]["title"], about["settings"][forbidden]), ("driver's copy (blit kernel)", "0"))
        text, _ = self.measured("--way", "engine", ROC_P2P_SDMA_SIZE="4096")
        self.assertIn("# driver's copy (blit kernel): one way, GB/s, 2 MiB\n", text)

    def test_one_call_compares_it_with_kernels(self):
        ways = [*(("mpi", "mpi-blit") if has_library(MPIS[0]) else ()), "engine", "engine-blit"]
        text, about = self.measured("--mpi", MPIS[0], "-c", *(word for way in ways for word in ("--way", way)))
        self.assertEqual([way["way"] for way in about["ways"]], ways)
        for way, title in ("engine", "driver's copy (SDMA; small ones"), ("engine-blit", "driver's copy (blit kernel)"), \
                ("mpi", "messages, Fairlead on"), ("mpi-blit", "messages by blit kernels, Fairlead on"):
            if way in ways:
                self.assertTrue(next(row["title"] for row in about["ways"] if row["way"] == way).startswith(title), about["ways"])
                self.assertEqual([(row["from"], row["to"]) for row in about["results"] if row["way"] == way], [(0, 1), (1, 0)])
        self.assertEqual(text.count("all bytes are right"), len(ways))

    def test_other_drivers_have_one_way(self):
        self.assertIn("# engine-blit: not measured: only AMD's driver", self.matrix("--way", "engine", "--way", "engine-blit"))


class Places(MatrixTest):
    def test_links_and_nodes(self):
        """On a DGX: hwloc says where the GPUs are, nvidia-smi what connects them."""
        with open(self.path("machine.xml"), "w") as file:
            file.write(as_xml(DGX))
        script(self.folder, "nvidia-smi", f'#!/bin/sh\ncat "{DGX_PRINTS}/nvidia-smi $*"\n')
        text = self.matrix("--way", "engine", gpus=8, HWLOC_XMLFILE=self.path("machine.xml"),
                           PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertIn("# GPU 4: simulated GPU 4, 0000:9d:00.0, NUMA node 1\n", text)
        self.assertEqual(tables(text)["links"][2], ["NV18", "NV18", ".", *["NV18"] * 5])
        self.assertIn("# NV18: NVLink (18 links)\n", text)


class Refusals(MatrixTest):
    def test_what_makes_no_sense(self):
        self.refuses("matrix", "--way", "pigeon", says=["'pigeon'", "mpi, mpi-blit, engine, engine-blit, kernel"])
        self.refuses("matrix", "-o", "matrix.jpg", says=["matrix.jpg", ".png, .svg or .pdf"])
        self.refuses("matrix", "--map", "/no/such/folder/x", says=["--map", "cannot write"])
        with tempfile.TemporaryDirectory() as folder:
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe)
            for option in "--map", "--json":
                self.refuses("matrix", option, pipe, says=[option, f"cannot write {pipe}"])
        self.refuses("matrix", "--map", "0,1", says=["0,1 is a map", "./0,1"])
        self.refuses("matrix", "--sim", 2, "-d", "cuda", says=["--sim", "-d cuda", "one of the two"])
        self.refuses("matrix", "-m", "64g:64g", "--way", "engine", says="smaller -m", FAIRLEAD_SIM_DEVICES="2")
        self.assertNotIn("matrix: matrix", fairlead("matrix", "-m", "bogus").stderr)

    def test_machines_that_cannot(self):
        for variables, says in ({"FAIRLEAD_SIM_DEVICES": "1"}, "a pair needs two"), ({"FAIRLEAD_DEVICE": "none"}, "no GPU"):
            result = subprocess.run([TOOL, "matrix", "--map", self.path("m.map"), "--json", self.path("m.json")], env={**os.environ, "FAIRLEAD_DEVICE": "sim", **variables}, text=True,
                                    capture_output=True)
            self.assertEqual(result.returncode, 77, result)
            self.assertIn(says, result.stderr)
            self.assertEqual(os.listdir(self.folder), [])

    def test_figures_of_simulated_gpus_advise_nothing(self):
        text = self.succeeds("matrix", "--sim", 3, "--way", "engine", *QUICK).stdout
        self.assertIn("# GPU 2: simulated GPU 2", text)
        self.assertIn("# These GPUs are simulated: their timings are not valid", text)

    def test_no_map_is_written_where_no_advice_follows(self):
        result = fairlead("matrix", "--sim", 3, "--way", "engine", *QUICK, "--map", self.path("gpus.map"))
        self.assertEqual(result.returncode, 77, result)
        self.assertIn("gpus.map is not written: the GPUs are simulated", result.stderr)
        self.assertNotIn("To use it", result.stdout)
        self.assertEqual(os.listdir(self.folder), [])


class AllPairs(MatrixTest):
    def test_rows(self):
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi):
                text = self.succeeds("bench", "all_pairs", "-n", 3, "--mpi", abi, *QUICK, "-c",
                                     FAIRLEAD_SIM_DEVICES="3").stdout
                rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
                self.assertEqual(sorted((row[0], row[1]) for row in rows),
                                 sorted((str(i), str(j)) for i in range(3) for j in range(3) if i != j))
                self.assertTrue(all(row[-1] == "Pass" and float(row[3]) > 0 for row in rows), text)


if __name__ == "__main__":
    unittest.main()
