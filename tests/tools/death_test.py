# SPDX-License-Identifier: Apache-2.0
"""What `fairlead run` says when a rank is ended by a signal, and that signals sent to it reach the ranks; what it says of
ranks at SIGUSR1, and `fairlead hang`.

Who relies on what the commands print or write learns when it is not all there: by a line, and by the exit code."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from tool import MPIS, ONE_MPI, TIMEOUT, TOOL, TREE, ToolTest, example, fairlead, has_library, preload, script


class Deaths(ToolTest):
    def ended(self, abi, text, *options):
        with tempfile.TemporaryDirectory() as folder:
            # MPICH's launcher may lose what a process says, and how it ended, that ends at once.
            path = script(folder, "program", f"#!/bin/sh\nsleep 0.2\n{text}\n")
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
            self.assertIn("`fairlead doctor`", result.stderr)

    def test_the_doctor_is_asked_about_programs_that_are_linked_with_mpi(self):
        """Of an interpreter it can tell nothing. The launcher only says what it is, and how a rank ended."""
        abi, (says, code) = MPIS[0], {"openmpi": ("OpenRTE", 139)}.get(MPIS[0], ("HYDRA", 11))
        with tempfile.TemporaryDirectory() as folder:
            launcher = script(folder, "mpirun", f"#!/bin/sh\n[ $1 = --version ] && echo {says} && exit\nexit {code}\n")
            for program, doctor in (example(abi), f"`fairlead doctor {example(abi)}`"), (sys.executable, "`fairlead doctor`"):
                result = fairlead("run", "-n", 1, "--mpi", launcher, "--no-preload", program)
                self.assertEqual(result.returncode, code)
                self.assertIn(f"see with {doctor} what", result.stderr)

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


def hanging(abi):
    return os.path.join(TREE, "bin", f"hanging-{abi}")


class Hangs(ToolTest):
    def test_a_rank_dies(self):
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi):
                result = fairlead("run", "-n", 2, "--mpi", abi, hanging(abi), "dies", "host")
                self.assertNotEqual(result.returncode, 0)
                self.assertIn("fairlead run: ranks on this node did not complete MPI_Finalize", result.stderr)
                self.assertRegex(result.stderr, r"rank 0 was in MPI_Recv from rank 1, tag 6; its last calls:\n.*, at hanging-\w+\+0x")
                self.assertRegex(result.stderr, r"rank 1 was outside MPI; its last calls:\n.* MPI_Bcast with root 0, at hanging-")
                self.assertRegex(result.stderr, r"ago: MPI_Comm_free, at hanging-")
                result = fairlead("run", "-n", 2, "--mpi", abi, hanging(abi), "dies_at_once", "host")
                self.assertRegex(result.stderr, r"rank 1 had not called MPI since MPI_Init\n")

    def test_a_good_end_says_nothing(self):
        for abi in filter(has_library, MPIS):
            self.assertEqual(fairlead("run", "-n", 2, "--mpi", abi, hanging(abi)).stderr, "")

    def test_the_launcher_is_asked(self):
        """The ranks do not handle the signal, so it is not passed on to them."""
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi):
                variables = {**os.environ, "FAIRLEAD_DEVICE": "sim", "FAIRLEAD_STALL_REPORT_S": "0"}
                with subprocess.Popen([TOOL, "run", "-n", "2", "--mpi", abi, hanging(abi), "two_sends"], text=True, env=variables,
                                      stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
                    self.until_it_hangs(run.pid)
                    run.send_signal(signal.SIGUSR1)
                    self.assertIn("2 ranks wait for each other in a circle: all send, and none receives", run.stderr.readline())
                    self.assertTrue(self.hangs(run.pid))
                    run.terminate()

    def test_no_job(self):
        result = fairlead("hang", os.getpid())
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn(f"no rank that Fairlead records belongs to process {os.getpid()}", result.stderr)

    @staticmethod
    def hangs(pid):
        return "all send, and none receives" in fairlead("hang", pid).stdout

    def until_it_hangs(self, pid):
        end = time.monotonic() + TIMEOUT
        while not Hangs.hangs(pid):
            self.assertLess(time.monotonic(), end)


class Parts(ToolTest):
    """Statistics and trace of a job that does not come to the end of MPI_Finalize."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.statistics, self.trace = (os.path.join(self.folder, name) for name in ("statistics.json", "trace.json"))
        for path in self.statistics, self.trace:  # a run before
            with open(path, "w") as file:
                file.write('{"ranks": 99}\n')

    def command(self, abi, *program):
        return ["run", "-n", "2", "--mpi", abi, "--stats", "--stats-file", self.statistics, "--trace", self.trace, *program]

    def joined(self, stderr, ranks, missing=""):
        """What was written of these ranks, of two."""
        words = f"until the job ended{missing}"
        self.assertIn(f"fairlead run: the statistics are in {self.statistics} {words}\n", stderr)
        self.assertIn(f"fairlead run: the trace is in {self.trace} {words}; open it", stderr)
        self.assertRegex(stderr, f"(?m)^fairlead statistics over {len(ranks)} of 2 ranks {words}, [0-9.]+ s$")
        with open(self.statistics) as file:
            found = json.load(file)
        with open(self.trace) as file:
            trace = json.load(file)
        absent = sorted({0, 1} - set(ranks))
        self.assertEqual((found["ranks"], found["missing_ranks"], trace["otherData"]["missing_ranks"]), (len(ranks), absent, absent))
        self.assertEqual({event["pid"] for event in trace["traceEvents"] if event["ph"] == "X"}, set(ranks))
        return {call["function"]: call for call in found["calls"]}, trace

    def ended_by(self, abi, end, *program):
        """What a job that hangs says when it is ended."""
        variables = {**os.environ, "FAIRLEAD_DEVICE": "sim", "FAIRLEAD_STALL_REPORT_S": "0"}
        with subprocess.Popen([TOOL, *self.command(abi, *program)], text=True, env=variables, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
            Hangs.until_it_hangs(self, run.pid)
            end(run.pid)
            stderr = run.communicate(timeout=TIMEOUT)[1]
        self.assertNotEqual(run.returncode, 0)
        return stderr

    def test_of_jobs_that_are_interrupted(self):
        for abi in filter(has_library, MPIS):
            for number in signal.SIGTERM, signal.SIGINT:
                with self.subTest(abi=abi, signal=number):
                    calls, trace = self.joined(self.ended_by(abi, lambda pid: os.kill(pid, number), hanging(abi), "two_sends"), {0, 1})
                    self.assertEqual((calls["MPI_Send"]["count"], calls["MPI_Send"]["by_rank"]["count"]["min"]), (2, 1))
                    self.assertRegex(calls["MPI_Send"]["sites"][0]["site"], r"^hanging-\w+\+0x")
                    sends = [event for event in trace["traceEvents"] if event["name"] == "MPI_Send"]
                    self.assertEqual(sorted(event["pid"] for event in sends), [0, 1])

    def test_of_a_rank_that_is_killed(self):
        def kill_rank(pid):
            ranks = json.loads(fairlead("hang", "--json", pid).stdout)["jobs"][0]["ranks"]
            os.kill(ranks[1]["pid"], signal.SIGKILL)
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi):
                calls, _ = self.joined(self.ended_by(abi, kill_rank, hanging(abi), "two_sends"), {0, 1})
                self.assertEqual(calls["MPI_Send"]["count"], 2)

    def test_of_a_rank_that_aborts(self):
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi):
                result = fairlead(*self.command(abi, hanging(abi), "dies", "host"))
                self.assertNotEqual(result.returncode, 0)
                calls, _ = self.joined(result.stderr, {0, 1})
                self.assertEqual((calls["MPI_Bcast"]["count"], calls["MPI_Recv"]["count"]), (2, 1))

    def test_ranks_that_leave_nothing_are_named(self):
        """As those of other nodes do, which cannot reach the memory of `fairlead run`."""
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi):
                result = fairlead(*self.command(abi, self.elsewhere(abi, 1), "dies", "host"))
                self.joined(result.stderr, {0}, ", without rank 1")

    def elsewhere(self, abi, rank):
        text = f'[ ${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} = {rank} ] && unset FAIRLEAD_FLIGHT_FILE\nexec {hanging(abi)} "$@"\n'
        return script(self.folder, "program", f"#!/bin/sh\n{text}")

    def test_a_run_before_does_not_stand_for_one_that_leaves_nothing(self):
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi):
                self.setUp()
                result = fairlead(*self.command(abi, script(self.folder, "program", "#!/bin/sh\nsleep 0.2\nexit 3\n")))
                self.assertIn(f"the statistics are not in {self.statistics}", result.stderr)
                self.assertFalse(os.path.exists(self.statistics) or os.path.exists(self.trace))

    def test_nor_without_this_tool(self):
        """The first rank discards it: only the library knows of these files."""
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi):
                self.setUp()
                fairlead("run", "-n", 2, "--mpi", abi, hanging(abi), "dies", "host", FAIRLEAD_STATS=self.statistics, FAIRLEAD_TRACE=self.trace)
                self.assertFalse(os.path.exists(self.statistics) or os.path.exists(self.trace))

    def test_a_whole_file_lacks_no_rank(self):
        for abi in filter(has_library, MPIS):
            for program in hanging(abi), self.elsewhere(abi, 0):
                with self.subTest(abi=abi, program=program):
                    result = self.succeeds(*self.command(abi, program))
                    self.assertNotIn("until the job ended", result.stderr)
                    with open(self.statistics) as file:
                        self.assertNotIn("missing_ranks", json.load(file))


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
