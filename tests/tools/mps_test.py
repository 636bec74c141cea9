# SPDX-License-Identifier: Apache-2.0
"""`fairlead run --mps` starts NVIDIA's Multi-Process Service for a job and ends it, with a daemon that is played."""

import os
import signal
import subprocess
import tempfile
import time
import unittest

from tool import ONE_MPI, TIMEOUT, TOOL, ToolTest, fairlead, script

PLAYED = """#!/bin/sh
pipe=${CUDA_MPS_PIPE_DIRECTORY:-$USUAL}
if [ "$1" = -d ]; then
  [ -z "$REFUSES" ] || { echo "An instance of this daemon is already running"; exit 1; }
  touch "$pipe/running"
  echo "start $pipe" >>"$CALLS"
  exit
fi
read -r request
[ -e "$pipe/running" ] || { echo "Cannot find MPS control daemon process"; exit 1; }
[ "$request" = quit ] || exit 0
rm "$pipe/running"
echo "quit $pipe" >>"$CALLS"
"""
SHOW = 'test -e "$CUDA_MPS_PIPE_DIRECTORY/running" && test -d "$CUDA_MPS_LOG_DIRECTORY" && echo "$CUDA_MPS_PIPE_DIRECTORY"'


class Mps(ToolTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        script(self.folder, "nvidia-cuda-mps-control", PLAYED)
        self.calls = os.path.join(self.folder, "calls")
        self.variables = {"PATH": self.folder + ":" + os.environ["PATH"], "CALLS": self.calls, "USUAL": self.folder}

    def words(self, abi, *program):
        return ["run", "-n", "3", "--mpi", abi, "--no-preload", "--mps", *program]

    def called(self, last):
        """The calls of the daemon, as soon as this is the last one."""
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            if os.path.exists(self.calls):
                with open(self.calls) as file:
                    lines = file.read().splitlines()
                if lines and lines[-1].startswith(last):
                    return lines
            time.sleep(0.02)
        self.fail(f"no '{last}'")

    def test_one_daemon_for_the_ranks_of_a_node(self):
        for abi in ONE_MPI:
            paths = self.succeeds(*self.words(abi, "sh", "-c", SHOW), **self.variables).stdout.split()
            self.assertEqual(len(paths), 3)
            self.assertEqual(len(set(paths)), 1)
            self.assertTrue(paths[0].startswith(f"/tmp/fairlead-mps-{os.geteuid()}-"), paths)
            calls = self.called("quit")
            self.assertEqual((calls[0], calls[-1]), (f"start {paths[0]}", f"quit {paths[0]}"))
            self.assertEqual(sum(call.startswith("start") for call in calls), sum(call.startswith("quit") for call in calls))
            end = time.monotonic() + TIMEOUT
            while os.path.exists(os.path.dirname(paths[0])) and time.monotonic() < end:
                time.sleep(0.02)
            self.assertFalse(os.path.exists(os.path.dirname(paths[0])))
            os.remove(self.calls)

    def test_a_daemon_that_runs_is_left_alone(self):
        open(os.path.join(self.folder, "running"), "w").close()
        for variables in {}, {"CUDA_MPS_PIPE_DIRECTORY": self.folder}:
            said = self.succeeds(*self.words(ONE_MPI[0], "sh", "-c", 'echo "[$CUDA_MPS_PIPE_DIRECTORY]"'), **self.variables,
                                 **variables).stdout.split()
            self.assertEqual(said, [f"[{variables.get('CUDA_MPS_PIPE_DIRECTORY', '')}]"] * 3)
        self.assertFalse(os.path.exists(self.calls))
        self.assertTrue(os.path.exists(os.path.join(self.folder, "running")))

    def test_it_ends_with_a_job_that_is_ended(self):
        for number in signal.SIGINT, signal.SIGTERM:
            job = subprocess.Popen([TOOL, *self.words(ONE_MPI[0], "sleep", "10000")],
                                   env={**os.environ, "FAIRLEAD_DEVICE": "sim", **self.variables}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            self.called("start")
            os.killpg(job.pid, number)
            self.assertNotEqual(job.wait(timeout=TIMEOUT), 0)
            self.called("quit")
            os.remove(self.calls)

    def test_refusals(self):
        result = fairlead("exec", "--no-preload", "--mps", "/bin/true", PATH="/nowhere")
        self.assertEqual(result.returncode, 77, result)
        self.assertIn("--mps: no nvidia-cuda-mps-control on PATH", result.stderr)
        result = fairlead("exec", "--no-preload", "--mps", "true", **self.variables, REFUSES="1")
        self.assertEqual(result.returncode, 77, result)
        self.assertIn("-d does not start: An instance of this daemon is already running", result.stderr)


if __name__ == "__main__":
    unittest.main()
