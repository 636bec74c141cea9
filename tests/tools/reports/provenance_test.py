# SPDX-License-Identifier: Apache-2.0
"""Every JSON that the library and the tools write says in the same words where it comes from (docs/reference/json.md)."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from tool import MPIS, TIMEOUT, TOOL, TREE, ToolTest, example, fairlead, has_library  # noqa: E402

ABI = MPIS[0]
NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../docs/reference/json.md")
MEMBERS = {"fairlead": {"version", "commit"}, "mpi": {"abi", "name", "version"},
           "gpus": {"provider", "count", "name", "driver", "simulated"}}
QUICK = ["--mpi", ABI, "--sim", 2, "-m", "8:8", "-i", 2, "-x", 1]


def documented():
    with open(PAGE) as file:
        rows = re.findall(r"^\| (`[^|]*`) \|", file.read(), re.M)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


class Provenance(ToolTest):
    def setUp(self):
        if not has_library(ABI):
            self.skipTest("needs the interposition library")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def written(self, *arguments, option="--json", codes=(0,), **environment):
        """The member of what a command writes into a file."""
        path = os.path.join(self.folder, "report.json")
        words = 2 if arguments[0] == "bench" else 1
        result = fairlead(*arguments[:words], option, path, *arguments[words:], **environment)
        self.assertIn(result.returncode, codes, result.stderr)
        with open(path) as file:
            return self.checked(json.load(file))

    def printed(self, *arguments, codes=(0,), **environment):
        result = fairlead(*arguments, **environment)
        self.assertIn(result.returncode, codes, result.stderr)
        return self.checked(json.loads(result.stdout))

    def checked(self, report):
        found = report["provenance"]
        self.assertEqual(list(found), documented())
        for name, members in MEMBERS.items():
            if found[name] is not None:
                self.assertEqual(set(found[name]), members)
        self.assertTrue(os.access(found["program"], os.X_OK), found)
        self.assertRegex(found["date"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(found["host"], os.uname().nodename)
        self.assertRegex(found["fairlead"]["version"], r"^\d+\.\d+\.\d+$")
        self.assertRegex(found["fairlead"]["commit"], r"^([0-9a-f]{12}(\+changes)?|unknown)$")
        return found

    def of_job(self, found, ranks):
        self.assertEqual((found["ranks"], found["nodes"]), (ranks, 1))
        self.assertEqual((found["mpi"]["abi"], found["mpi"]["name"]), (ABI, NAMES[ABI]))
        self.assertRegex(found["mpi"]["version"], r"^\d+\.\d+")
        self.assertEqual((found["gpus"]["provider"], found["gpus"]["count"], found["gpus"]["simulated"]), ("sim", 2, True))

    def test_of_what_the_library_writes(self):
        for option in "--stats-file", "--trace":
            found = self.written("run", "-n", 2, "--mpi", ABI, "--sim", 2, example(ABI), option=option,
                                 FAIRLEAD_EAGER_LIMIT="1k")
            self.of_job(found, 2)
            self.assertEqual(found["command"], example(ABI))
            self.assertEqual(found["options"]["FAIRLEAD_EAGER_LIMIT"], "1k")
            self.assertNotIn("FAIRLEAD_FLIGHT_FILE", found["options"])

    def test_of_benchmarks(self):
        for name, *more in (["latency"], ["bw"], ["allreduce"], ["put_latency"], ["posted", "-N", "8:8", "-i", 2], ["first"], ["all_pairs"],
                            ["enqueue"], ["init"], ["pack", "--bytes", "64k"]):
            with self.subTest(name):
                sizes = [] if name in ("posted", "init") else QUICK[4:6]
                found = self.written("bench", name, *QUICK[:4], *sizes, *more)
                self.of_job(found, 1 if name == "pack" else 2)
                self.assertIn(f"fairlead bench {name} ", found["command"])
        found = self.written("bench", "copy", "--sim", 2, "-m", "8:8", "-i", 2)
        self.assertIsNone(found["mpi"])

    def test_of_what_runs_other_benchmarks(self):
        found = self.written("bench", "tune", *QUICK, "-n", "2", "bcast", "--anyway")
        self.assertIn("fairlead bench tune ", found["command"])
        self.assertEqual(found["mpi"]["name"], NAMES[ABI])
        self.of_job(self.written("matrix", *QUICK, codes=(0, 77)), 2)
        found = self.written("bench", "host_overhead", "--mpi", ABI, "-i", 100, "--rounds", 1)
        self.assertIn("fairlead bench host_overhead ", found["command"])

    def test_of_other_commands(self):
        self.assertEqual(self.printed("doctor", "--json", "--no-launch", "--mpi", ABI, codes=(0, 1))["mpi"]["name"], NAMES[ABI])
        self.assertEqual(self.printed("info", "--json")["gpus"]["provider"], "sim")
        found = self.written("run", "-n", 2, "--mpi", ABI, "--sim", 2, example(ABI))
        self.assertEqual((found["ranks"], found["mpi"]["abi"], found["gpus"]), (2, ABI, None))
        self.assertIn(" -n 2 ", found["command"])

    def test_of_hang(self):
        variables = {**os.environ, "FAIRLEAD_DEVICE": "sim", "LD_PRELOAD": os.environ["FAIRLEAD_TEST_POLITE"]}
        program = os.path.join(TREE, "bin", f"hanging-{ABI}")
        with subprocess.Popen([TOOL, "run", "-n", "2", "--mpi", ABI, program, "two_sends"], env=variables,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            try:
                end = time.monotonic() + TIMEOUT
                while (result := fairlead("hang", "--json", run.pid)).returncode and time.monotonic() < end:
                    time.sleep(0.1)
                self.checked(json.loads(result.stdout))
            finally:
                run.terminate()


if __name__ == "__main__":
    unittest.main()
