# SPDX-License-Identifier: Apache-2.0
"""What `fairlead run` says when a rank is ended by a signal, and that signals sent to it reach the ranks."""

import os
import subprocess
import tempfile
import time
import unittest

from tool import MPIS, TIMEOUT, TOOL, ToolTest, fairlead, has_library, script


class Deaths(ToolTest):
    def ended(self, abi, text, *options):
        with tempfile.TemporaryDirectory() as folder:
            path = script(folder, "program", f"#!/bin/sh\n{text}\n")
            return fairlead("run", "-n", 1, "--mpi", abi, "--sim", 1, *options, path)

    def test_as_by_a_device_pointer(self):
        for abi in MPIS:
            with self.subTest(abi=abi):
                result = self.ended(abi, "kill -SEGV $$", "--no-preload")
                self.assertIn("a rank was ended by signal 11", result.stderr)
                self.assertIn("Fairlead was not loaded", result.stderr)
                self.assertNotEqual(result.returncode, 0)
        self.assertIn("a rank was ended by signal 7", self.ended(MPIS[0], "kill -BUS $$", "--no-preload").stderr)

    def test_with_fairlead(self):
        for abi in [*filter(has_library, MPIS)][:1]:
            result = self.ended(abi, "kill -SEGV $$")
            self.assertIn("Fairlead was loaded", result.stderr)
            self.assertIn("fairlead doctor", result.stderr)

    def test_other_ends(self):
        for abi, text in [(abi, "exit 3") for abi in MPIS] + [(MPIS[0], "kill -TERM $$")]:
            self.assertNotIn("device pointer", self.ended(abi, text, "--no-preload").stderr)

    def test_signals_reach_the_launcher(self):
        for abi in MPIS:
            with self.subTest(abi=abi), tempfile.TemporaryDirectory() as folder:
                path = script(folder, "program", f"#!/bin/sh\necho $$\nexec sleep {2 * TIMEOUT:g}\n")
                with subprocess.Popen([TOOL, "run", "-n", "1", "--mpi", abi, "--no-preload", path], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
                    rank = int(run.stdout.readline())
                    run.terminate()
                    run.wait(timeout=TIMEOUT)
                    for _ in range(int(100 * TIMEOUT)):  # some launchers leave before their ranks
                        if not os.path.exists(f"/proc/{rank}"):
                            break
                        time.sleep(0.01)
                    self.assertFalse(os.path.exists(f"/proc/{rank}"))


if __name__ == "__main__":
    unittest.main()
