# SPDX-License-Identifier: Apache-2.0
"""`fairlead exec` loads the library of the program's MPI into one rank, whoever launched it."""

import os
import tempfile
import unittest

from tool import MPIS, ToolTest, example, fairlead, has_library

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
        self.assertEqual(self.succeeds("exec", "--no-preload", *PRINT_PRELOAD).stdout.strip(), "")

    def test_exit_code_passes_through(self):
        self.assertEqual(fairlead("exec", "--no-preload", "sh", "-c", "exit 5").returncode, 5)

    def test_refusals(self):
        self.refuses("exec", says="no PROGRAM")
        self.refuses("exec", "/bin/true", says="not linked with an MPI library")
        self.refuses("exec", "--mpi", "bogus", "/bin/true", says=["'bogus'", "openmpi, mpich, abi"])
        self.refuses("exec", "--no-preload", "--visible", "/bin/true", says="local rank")
        with tempfile.TemporaryDirectory() as folder:
            self.refuses("exec", example(MPIS[0]), says="built without a library", FAIRLEAD_HOME=folder)


if __name__ == "__main__":
    unittest.main()
