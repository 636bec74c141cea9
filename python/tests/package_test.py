#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package `fairlead` without MPI: where its parts are, what is said when they are not, and what becomes of a
command line. FAIRLEAD_HOME names a build."""

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from unittest import mock

import fairlead
from fairlead import __main__ as command
from fairlead import _home, _mpi


class Home(unittest.TestCase):
    def test_it_holds_the_tool_and_the_libraries(self):
        self.assertTrue((fairlead.home() / "bin" / "fairlead").is_file())

    def test_a_wrong_home_names_the_remedy(self):
        with mock.patch.dict(os.environ, FAIRLEAD_HOME="/nowhere"), self.assertRaisesRegex(
                fairlead.HomeError, "FAIRLEAD_HOME is /nowhere.*unset it"):
            fairlead.home()

    def test_a_wheel_for_another_machine_says_so(self):
        for tag, machine, glibc, says in [
                ("manylinux_2_28_x86_64", "x86_64", "2.28", None), ("manylinux_2_28_x86_64", "x86_64", "2.41", None),
                ("manylinux_2_28_x86_64", "x86_64", "2.9", "for glibc 2.28 or newer, and this machine has 2.9; build"),
                ("manylinux_2_28_x86_64", "x86_64", "", "such as musl; Fairlead needs glibc"),
                ("manylinux_2_28_x86_64", "aarch64", "2.41", "is for x86_64 and this machine is aarch64; build"),
                ("linux_x86_64", "x86_64", "2.9", None), ("linux_x86_64", "aarch64", "2.41", "is for x86_64")]:
            with self.subTest(tag=tag, machine=machine, glibc=glibc), tempfile.TemporaryDirectory() as folder, \
                    mock.patch("platform.machine", lambda machine=machine: machine), \
                    mock.patch.object(_home, "_glibc", lambda glibc=glibc: glibc):
                wheel = Path(folder, "fairlead-0.1.0.dist-info", "WHEEL")
                wheel.parent.mkdir()
                wheel.write_text(f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n\n")
                if says is None:
                    _home._require_machine(Path(folder, "fairlead"))
                else:
                    with self.assertRaisesRegex(fairlead.HomeError, says):
                        _home._require_machine(Path(folder, "fairlead"))

    def test_a_library_that_was_not_built_names_the_remedy(self):
        with self.assertRaisesRegex(fairlead.HomeError, "libfairlead-nosuch.so.*FAIRLEAD_MPICC"):
            _home.library_file("libfairlead-nosuch.so")
        with self.assertRaisesRegex(fairlead.HomeError, "'nosuch' is no ABI of an MPI; accepted: openmpi, mpich, abi"):
            fairlead.library("nosuch")


class Interpreters(unittest.TestCase):
    """The oldest Python that pyproject.toml promises. CMake runs all tests on those that FAIRLEAD_PYTHON names; this
    finds most mistakes on any."""

    TREE = Path(__file__).resolve().parents[2]
    NEWER = {"zip": {"strict"}, "dataclass": {"slots", "kw_only", "match_args"}, "bisect": {"key"}, "bisect_left": {"key"},
             "bisect_right": {"key"}, "enterContext": set(), "pairwise": set(), "batched": set(), "bit_count": set()}

    def newer(self, source):
        """The calls that the oldest does not have. Raises SyntaxError for what it cannot parse."""
        promised = re.search(r'requires-python = ">=3\.(\d+)"', (self.TREE / "pyproject.toml").read_text())[1]
        for node in ast.walk(ast.parse(source, feature_version=(3, int(promised)))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                words = self.NEWER.get(name)
                if words is not None and (not words or words & {keyword.arg for keyword in node.keywords}):
                    yield f"{name} in line {node.lineno}"

    def test_the_package_and_the_drawing_need_no_newer_one(self):
        files = [*self.TREE.glob("python/fairlead/*.py"), *self.TREE.glob("tools/plot/drawing/*.py")]
        self.assertGreater(len(files), 20)
        for file in files:
            with self.subTest(file=file.name):
                self.assertEqual([*self.newer(file.read_text())], [])

    def test_what_is_newer_is_found(self):
        self.assertEqual([*self.newer("zip([1], [2], strict=True)\nzip([1])")], ["zip in line 1"])
        with self.assertRaises(SyntaxError):
            [*self.newer("match 1:\n    case 1: pass")]


class NotLoaded(unittest.TestCase):
    def test_info_says_so(self):
        self.assertEqual(fairlead.info(), fairlead.Info())

    def test_stats_name_the_remedy(self):
        with self.assertRaisesRegex(fairlead.NotLoadedError, "python -m fairlead run"):
            fairlead.stats()

    def test_phases_do_nothing(self):
        with fairlead.phase("solve"):
            pass

    def test_a_phase_has_a_name(self):
        with self.assertRaisesRegex(TypeError, "3 is no name of a phase; accepted: a str"), fairlead.phase(3):
            pass


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory()) if sys.version_info >= (3, 11) else tempfile.mkdtemp()
        self.program = os.path.join(folder, "program.py")
        Path(self.program).touch()
        self.launcher = Path("/opt/mpi/bin/mpirun")
        found = mock.patch.multiple(
            command, mpi_of_mpi4py=lambda: mock.Mock(abi="mpich", file=Path("/opt/mpi/lib/libmpi.so.12"),
                                                     launcher=lambda: self.launcher))
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

    def test_programs_that_python_runs_have_the_mpi_of_its_mpi4py(self):
        for program in ([sys.executable, "-u", self.program], [sys.executable, "-m", "pytest", self.program],
                        ["env", "A=1", sys.executable, "-m", "pyfr"]):
            self.assertEqual(command.for_python(["run", "-n", "2", *program]),
                             ["run", "--mpi", "/opt/mpi/bin/mpirun", "-n", "2", *program])

    def test_what_is_measured_is_the_mpi_of_mpi4py(self):
        for words, place, mpi in [(["doctor", "-v", "--sim", "2"], 1, "/opt/mpi/lib/libmpi.so.12"),
                                  (["bench", "latency", "-c", "H", "H"], 2, "/opt/mpi/bin/mpirun"),
                                  (["matrix"], 1, "/opt/mpi/bin/mpirun")]:
            self.assertEqual(command.for_python(words), [*words[:place], "--mpi", mpi, *words[place:]])

    def test_a_library_without_version_is_named_by_its_launcher(self):
        intel = mock.Mock(abi="mpich", file=Path("/opt/mpi/lib/libmpi.so"), launcher=lambda: self.launcher)
        with mock.patch.object(command, "mpi_of_mpi4py", lambda: intel):
            self.assertEqual(command.for_python(["doctor"]), ["doctor", "--mpi", "/opt/mpi/bin/mpirun"])

    def test_other_commands_and_programs_pass(self):
        for words in (["doctor", "./a.out"], ["doctor", "options"], ["doctor", "--from", "x"], ["doctor", "--mpi", "abi"],
                      ["doctor", "--help"], ["matrix", "--help-man"], ["bench"], ["bench", "--help"], ["bench", "bw", "-h"],
                      ["bench", "bw", "--mpi=mpich"], ["bench", "copy"], ["options"], ["info"], ["run", "-n", "2", "./a.out"],
                      ["run", "-n", "2", "cat", self.program], []):
            self.assertEqual(command.for_python(words), words)

    def test_without_mpi4py_the_mpi_on_path_is_measured(self):
        missing = mock.Mock(side_effect=fairlead.HomeError("no MPI can be loaded"))
        launcher = Path(self.program).parent / "bin" / "mpirun"
        launcher.parent.mkdir()
        launcher.touch(0o755)
        here, nowhere = str(launcher.parent), "/nowhere"

        def taken(words, prefix, path, mpi4py):
            with mock.patch.object(command, "mpi_of_mpi4py", missing), mock.patch.object(sys, "prefix", prefix), \
                    mock.patch.object(command.importlib.util, "find_spec", lambda name: mpi4py), \
                    mock.patch.dict(os.environ, PATH=path), redirect_stderr(StringIO()) as said:
                return command.for_python(words), said.getvalue()

        of_environment = ["bench", "bw", "--mpi", str(launcher)]
        for mpi4py, says in (None, ""), ("there", "fairlead: no MPI can be loaded; {} is taken\n"):
            self.assertEqual(taken(["doctor"], sys.base_prefix, here, mpi4py), (["doctor"], says.format("the MPI on PATH")))
            self.assertEqual(taken(["doctor"], sys.base_prefix, nowhere, mpi4py), (["doctor"], ""))  # the tool tells
            self.assertEqual(taken(["bench", "bw"], str(launcher.parents[1]), nowhere, mpi4py),
                             (of_environment, says.format(launcher)))

    def test_the_tool_takes_the_place_of_this_process(self):
        answer = subprocess.run([sys.executable, "-m", "fairlead", "--version"], text=True, capture_output=True)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("fairlead", answer.stdout)
        told = subprocess.run([sys.executable, "-m", "fairlead", "info", "--json"], text=True, capture_output=True)
        self.assertEqual(json.loads(told.stdout)["paths"]["tool"], os.path.realpath(fairlead.home() / "bin" / "fairlead"))


try:
    import numpy as np
    from fairlead import arrays
except ImportError as error:
    no_arrays = str(error)
else:
    no_arrays = ""


@unittest.skipIf(no_arrays, no_arrays)
class Arrays(unittest.TestCase):
    def test_shapes_and_types(self):
        for host in (np.float32(2.5), np.zeros((3, 0)), np.arange(12).reshape(3, 4)[:, ::2], np.arange(3, dtype=">i2")):
            array = arrays.from_numpy(host)
            self.assertEqual((array.shape, array.dtype), (host.shape, host.dtype))
            np.testing.assert_array_equal(array.to_numpy(), host)
        self.assertEqual(arrays.empty(np.int64(3)).shape, (3,))
        with self.assertRaisesRegex(ValueError, "negative length"):
            arrays.empty((3, -1))
        with self.assertRaisesRegex(TypeError, "object do not go into device memory"):
            arrays.from_numpy([object()])
        for shape in (1 << 40, 1 << 40), (1 << 61,):  # bytes that wrap around to 0, and to less than 0
            with self.assertRaisesRegex(arrays.DeviceError, "does not fit into any memory"):
                arrays.empty(shape)

    def test_what_mpi_is_told_has_the_bytes_of_the_array(self):
        """mpi4py takes a typestr for the number of bytes in an element."""
        for dtype in "?bHiqdgFD", [("a", "i4"), ("b", "f8")], "U10", "S10", "M8[ns]", "m8", ">f8":
            for kind in dtype if dtype == "?bHiqdgFD" else [dtype]:
                array = arrays.empty(3, kind)
                self.assertEqual(int(array.__cuda_array_interface__["typestr"][2:]) * 3, array.nbytes)

    def test_mistakes_are_named(self):
        for mistake, error, says in [(lambda: arrays.set_device("a"), TypeError, "'a' is no number of a device"),
                                     (lambda: arrays.set_device(1.0), TypeError, "1.0 is no number"),
                                     (lambda: arrays.set_device(1 << 32), arrays.DeviceError, "this process sees 2"),
                                     (lambda: len(arrays.empty(())), TypeError, "an array without axes has no len"),
                                     (lambda: arrays.empty("a"), TypeError, "integer")]:
            with self.assertRaisesRegex(error, says):
                mistake()

    def test_parts_and_elements(self):
        host = np.arange(12, dtype="i4").reshape(4, 3)
        array = arrays.from_numpy(host)
        for index in (0, 3, -1, np.int64(2)):
            self.assertIsInstance(array[index], arrays.DeviceArray)
            np.testing.assert_array_equal(array[index].to_numpy(), host[index])
            self.assertEqual(array[index][1], host[index][1])
            self.assertIsInstance(array[index][1], np.int32)
        np.testing.assert_array_equal(array[1:3].to_numpy(), host[1:3])
        array[2].copy_from([7, 8, 9])  # the same memory
        self.assertEqual(array[2][2], 9)
        for index in (4, -5):
            with self.assertRaisesRegex(IndexError, f"index {index} of an array of 4"):
                array[index]
        with self.assertRaises(TypeError):
            array["first"]


class CurrentFolder(unittest.TestCase):
    def test_no_module_comes_from_it(self):
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            self.addCleanup(os.chdir, before)
            os.chdir(folder)
            for module in "json", "re", "mpi4py":
                Path(f"{module}.py").write_text(f"open({os.path.join(folder, 'taken')!r}, 'w')")
            try:
                _mpi.mpi_of_mpi4py()
            except fairlead.HomeError as error:  # there is no mpi4py, which may be so
                self.assertIn("mpi4py", str(error))
            self.assertFalse(os.path.exists("taken"))


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
