#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package `fairlead` without MPI: where its parts are, what is said when they are not, and what becomes of a
command line. FAIRLEAD_HOME names a build."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import fairlead
from fairlead import __main__ as command
from fairlead import _mpi


class Home(unittest.TestCase):
    def test_it_holds_the_tool_and_the_libraries(self):
        self.assertTrue((fairlead.home() / "bin" / "fairlead").is_file())

    def test_a_wrong_home_names_the_remedy(self):
        with mock.patch.dict(os.environ, FAIRLEAD_HOME="/nowhere"), self.assertRaisesRegex(
                fairlead.HomeError, "FAIRLEAD_HOME is /nowhere.*unset it"):
            fairlead.home()

    def test_a_library_that_was_not_built_names_the_remedy(self):
        with self.assertRaisesRegex(fairlead.HomeError, "libfairlead-nosuch.so.*FAIRLEAD_MPICC"):
            fairlead.library("nosuch")


class NotLoaded(unittest.TestCase):
    def test_info_says_so(self):
        self.assertEqual(fairlead.info(), fairlead.Info())

    def test_stats_name_the_remedy(self):
        with self.assertRaisesRegex(fairlead.NotLoadedError, "python -m fairlead run"):
            fairlead.stats()

    def test_phases_do_nothing(self):
        with fairlead.phase("solve"):
            pass


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory()) if sys.version_info >= (3, 11) else tempfile.mkdtemp()
        self.program = os.path.join(folder, "program.py")
        Path(self.program).touch()
        self.launcher = Path("/opt/mpi/bin/mpirun")
        found = mock.patch.multiple(
            command, mpi_of_mpi4py=lambda: mock.Mock(abi="mpich", launcher=lambda: self.launcher))
        found.start()
        self.addCleanup(found.stop)

    def test_a_python_file_is_run_by_this_python_and_its_mpi(self):
        self.assertEqual(
            command.for_python(["run", "-n", "2", self.program, "--own", "option"]),
            ["run", "--mpi", "/opt/mpi/bin/mpirun", "-n", "2", sys.executable, self.program, "--own", "option"])

    def test_the_abi_goes_where_no_launcher_is_near(self):
        self.launcher = None
        self.assertEqual(command.for_python(["run", "-n", "2", self.program])[:3], ["run", "--mpi", "mpich"])

    def test_what_is_said_is_kept(self):
        words = ["run", "--mpi", "openmpi", "-n", "2", "/usr/bin/python3", self.program]
        self.assertEqual(command.for_python(words), words)

    def test_other_commands_and_programs_pass(self):
        for words in (["doctor"], ["run", "-n", "2", "./a.out"], []):
            self.assertEqual(command.for_python(words), words)

    def test_the_tool_takes_the_place_of_this_process(self):
        answer = subprocess.run([sys.executable, "-m", "fairlead", "--version"], text=True, capture_output=True)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("fairlead", answer.stdout)


class Launcher(unittest.TestCase):
    def test_it_is_found_beside_the_library(self):
        with tempfile.TemporaryDirectory() as folder:
            for place in ("lib/x86_64-linux-gnu", "bin"):
                os.makedirs(os.path.join(folder, place))
            launcher = Path(folder, "bin", "mpirun.mpich")
            launcher.touch(0o755)
            self.assertEqual(_mpi.Mpi("mpich", Path(folder, "lib/x86_64-linux-gnu/libmpich.so.12")).launcher(), launcher)
            self.assertIsNone(_mpi.Mpi("mpich", None).launcher())


if __name__ == "__main__":
    unittest.main()
