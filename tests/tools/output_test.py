# SPDX-License-Identifier: Apache-2.0
"""Who relies on what the commands print or write learns when it is not all there: by a line, and by the exit code."""

import os
import signal
import subprocess
import tempfile
import time
import unittest

from tool import MPIS, ONE_MPI, TOOL, ToolTest, example, fairlead, has_library, preload, script


def to_full_disk(*arguments, **environment):
    with open("/dev/full", "w") as full:
        variables = {**os.environ, "FAIRLEAD_DEVICE": "sim", **environment}
        return subprocess.run([TOOL, *map(str, arguments)], env=variables, text=True, stdin=subprocess.DEVNULL,
                              stdout=full, stderr=subprocess.PIPE, check=False)


class Stdout(ToolTest):
    def test_a_full_disk(self):
        bench = ["-m", "1k:1k", "-i", 5]
        for arguments in (["--help"], ["--version"], ["--completion"], ["--help-man"], ["info"], ["options"],
                          ["options", "--markdown"], ["plot", "--help"], ["bench", "--help"], ["bench", "copy", *bench],
                          ["run", "-n", 2, "--dry-run", example(MPIS[0])],
                          *(["bench", "latency", "--mpi", abi, *preload(abi), *bench] for abi in ONE_MPI)):
            with self.subTest(arguments=arguments):
                result = to_full_disk(*arguments)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("cannot write to standard output", result.stderr)

    def test_a_doctor_that_finds_something(self):
        self.assertEqual(to_full_disk("doctor").returncode, 1)

    def test_what_benchmarks_print_is_what_ranks_printed(self):
        for abi in ONE_MPI:
            result = self.succeeds("bench", "latency", "--mpi", abi, *preload(abi), "-m", "1k:4k", "-i", 5)
            self.assertEqual([line.split()[0] for line in result.stdout.splitlines() if line[:1].isdigit()],
                             ["1024", "2048", "4096"])


class Recorded(ToolTest):
    # The program writes what a job left that was ended meanwhile.
    PART = "#!/bin/sh\nfor file; do printf '{\"ranks\": 2, ' > $file; done\n"

    def test_a_part_is_not_taken_for_the_whole(self):
        for abi in filter(has_library, ONE_MPI):
            with tempfile.TemporaryDirectory() as folder:
                files = [os.path.join(folder, name) for name in ("statistics.json", "trace.json")]
                program = script(folder, "program", self.PART)
                for words in [], files:  # nothing is written, a part is
                    result = fairlead("run", "-n", 1, "--mpi", abi, "--stats-file", files[0], "--trace", files[1],
                                      program, *words)
                    self.assertEqual(result.returncode, 1, result.stderr)
                    self.assertIn(f"the statistics are not in {files[0]}", result.stderr)
                    self.assertIn(f"the trace is not in {files[1]}", result.stderr)


class Interrupts(ToolTest):
    def test_their_exit_codes(self):
        for abi in MPIS:
            for number, to in (signal.SIGINT, os.kill), (signal.SIGTERM, os.kill), (signal.SIGTERM, os.killpg):
                with self.subTest(abi=abi, signal=number, to=to), tempfile.TemporaryDirectory() as folder:
                    started = os.path.join(folder, "started")
                    program = script(folder, "program", f"#!/bin/sh\n: > {started}\nexec sleep 100\n")
                    job = subprocess.Popen([TOOL, "run", "-n", "1", "--mpi", abi, "--no-preload", program],
                                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL, start_new_session=True)
                    while not os.path.exists(started) and job.poll() is None:
                        time.sleep(0.01)
                    to(job.pid, number)
                    self.assertEqual(job.wait(), 128 + number)


if __name__ == "__main__":
    unittest.main()
