# SPDX-License-Identifier: Apache-2.0
"""`fairlead exec` loads the library of the program's MPI into one rank, whoever launched it."""

import os
import subprocess
import tempfile
import unittest

from tool import MPIS, TIMEOUT, TOOL, TREE, ToolTest, example, fairlead, has_library

PRINT_PRELOAD = ["sh", "-c", 'echo "$LD_PRELOAD"']


class Exec(ToolTest):
    def test_preload(self):
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi):
                first, second = self.succeeds("exec", "--mpi", abi, *PRINT_PRELOAD,
                                              LD_PRELOAD="libm.so.6").stdout.strip().split(":")
                self.assertEqual(os.path.basename(first), f"libfairlead-{abi}.so")
                self.assertEqual(second, "libm.so.6")

    def test_without_preload(self):
        self.assertEqual(self.succeeds("exec", "--no-preload", *PRINT_PRELOAD, LD_PRELOAD="").stdout.strip(), "")

    def test_what_is_asked_of_the_library(self):
        for abi in [*filter(has_library, MPIS)][:1]:
            text = self.succeeds("exec", "--mpi", abi, "--sim", 3, "--stats", "--trace", "a.json", "sh", "-c",
                                 'echo "$FAIRLEAD_DEVICE $FAIRLEAD_SIM_DEVICES $FAIRLEAD_STATS $FAIRLEAD_TRACE"').stdout
            self.assertEqual(text.split(), ["sim", "3", "on", os.path.abspath("a.json")])

    def test_exit_code_passes_through(self):
        self.assertEqual(fairlead("exec", "--no-preload", "sh", "-c", "exit 5").returncode, 5)

    def test_refusals(self):
        self.refuses("exec", says="no PROGRAM")
        self.refuses("exec", "/bin/true", says="not linked with an MPI library")
        self.refuses("exec", "--mpi", "bogus", "/bin/true", says=["'bogus'", "openmpi, mpich, abi"])
        self.refuses("exec", "--no-preload", "--visible", "/bin/true", says=["which rank", "no GPU can be chosen"])
        self.refuses("exec", "--no-preload", "--print-binding", "/bin/true", says=["which rank", "--print-binding says"])
        with tempfile.TemporaryDirectory() as folder:
            self.refuses("exec", example(MPIS[0]), says=f"FAIRLEAD_HOME is {folder}", FAIRLEAD_HOME=folder)
            garbage = os.path.join(folder, "garbage")
            with open(garbage, "wb") as file:
                file.write(b"\x7fELF and nothing more")
            os.chmod(garbage, 0o700)
            for command in [["exec"], ["exec", "--mpi", MPIS[0]], ["run", "-n", 1]]:
                self.refuses(*command, garbage, says="not a dynamically linked program of this machine")


def launcher(test, abi, ranks):
    """The words that start this many ranks with this MPI's launcher."""
    line = test.succeeds("run", "--dry-run", "-n", ranks, "--no-preload", example(abi)).stdout.split()
    return line[:line.index(TOOL)]


class OtherMpi(ToolTest):
    def test_launcher(self):
        for abi in MPIS:
            for other in MPIS:
                if "abi" in (abi, other):
                    continue
                with self.subTest(launcher=abi, program=other):
                    words = ["--no-preload", example(other), "junk"]
                    result = fairlead("exec", *words, launcher=launcher(self, abi, 2))
                    self.assertEqual(result.stderr.count("each process would be a job of one rank"), int(abi != other),
                                     result.stderr)
                    if abi != other:
                        self.assertEqual(result.returncode, 2, result)
                        self.assertIn("--any-launcher", result.stderr)
                        result = fairlead("exec", "--any-launcher", *words, launcher=launcher(self, abi, 2))
                        self.assertNotIn("each process would", result.stderr)

    def test_library_preloaded_by_hand(self):
        for abi in MPIS:
            for other in filter(has_library, MPIS):
                if abi == other:
                    continue
                with self.subTest(program=abi, library=other):
                    library = os.path.join(TREE, "lib", f"libfairlead-{other}.so")
                    result = subprocess.run([*launcher(self, abi, 2), "env", f"LD_PRELOAD={library}", example(abi)],
                                            env={**os.environ, "FAIRLEAD_DEVICE": "sim"}, text=True, timeout=TIMEOUT,
                                            capture_output=True)
                    self.assertEqual(result.returncode, 2, result)
                    self.assertEqual(result.stderr.count(f"preload libfairlead-{abi}.so"), 1, result.stderr)


if __name__ == "__main__":
    unittest.main()
