# SPDX-License-Identifier: Apache-2.0
"""./check, ./demo and others answer --help, refuse what makes no sense in one line, and stop early; versions agree."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

from tool import MPIS, TIMEOUT, TREE

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def start(*words, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FAIRLEAD_")}
    return subprocess.run(words, cwd=SOURCE, env={**environment, **variables}, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=TIMEOUT)


def steps(commands, **variables):
    """Runs shell commands with the functions that ./check and ./demo share."""
    return start("bash", "-euo", "pipefail", "-c", "source packaging/steps.sh; open_build_folder; " + commands,
                 **variables)


class Scripts(unittest.TestCase):
    def refused(self, result, says, code=2):
        self.assertEqual(result.returncode, code, result)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, result.stderr)

    def test_help(self):
        for words in [["./check", "--help"], ["./check", "-h"], ["./demo", "--help"], ["./demo", "-h"]]:
            result = start(*words, FAIRLEAD_BUILD="/proc/untouched")
            self.assertEqual(result.returncode, 0, result)
            self.assertIn("  " + words[0], result.stdout)
            self.assertIn("FAIRLEAD_BUILD", result.stdout)

    def test_the_first_run_on_amd_gpus_refuses_what_it_cannot_use(self):
        self.refused(start("tests/hardware/try-amd"), "needs the build folder")
        self.refused(start("tests/hardware/try-amd", "/nowhere"), "no tests in /nowhere")
        with tempfile.TemporaryDirectory() as folder:
            tests = os.path.join(folder, "tests", "hardware")
            os.makedirs(tests)
            os.symlink("/bin/true", os.path.join(tests, "device_runtime_test"))
            self.refused(start("tests/hardware/try-amd", folder, folder), folder + " exists")

    def test_mistakes(self):
        self.refused(start("./check", "--bogus"), ["'--bogus'", "--help"])
        self.refused(start("./check", "unit"), "'unit'")
        self.refused(start("./check", "-R"), "-R needs a value")
        self.refused(start("./demo", "--bogus"), "'--bogus'")
        for script in ["./check", "./demo"]:
            self.refused(start(script, FAIRLEAD_BUILD="/proc/nowhere"), ["/proc/nowhere", "FAIRLEAD_BUILD"], code=1)

    def test_debian_packages(self):
        self.refused(start("packaging/deb", "bookworm", "polish"), ["'polish'", "build lint test"])
        with open(os.path.join(SOURCE, "debian", "changelog")) as changelog, \
             open(os.path.join(SOURCE, "CMakeLists.txt")) as project:
            of_packages = re.match(r"fairlead \(([0-9.]+)\)", changelog.readline())[1]
            self.assertIn(f"project(fairlead VERSION {of_packages} ", project.read())

    def test_tests_are_looked_for_before_anything_is_built(self):
        self.assertNotEqual(steps("some_test_matches -R nosuchtest", FAIRLEAD_BUILD=TREE).returncode, 0)
        self.assertEqual(steps("some_test_matches -R tools.scripts_test", FAIRLEAD_BUILD=TREE).returncode, 0)

    def test_the_newest_clang_that_apt_has_is_asked_for(self):
        for clang, known, missing in [(0, "clang-19", "clang-19 lld-19"), (0, "", "clang lld"), (14, "clang-19", "clang-19 lld-19"),
                                      (14, "", ""), (19, "clang-19", "")]:
            with self.subTest(clang=clang, known=known), tempfile.TemporaryDirectory() as folder:
                result = steps(f"has_clang() {{ (({clang} >= $1)); }}; obtainable() {{ [[ $1 == '{known}' ]]; }};"
                               "missing_packages kernels", FAIRLEAD_BUILD=folder)
                self.assertEqual((result.returncode, result.stdout.strip(), result.stderr), (0, missing, ""))

    def test_packages_are_named_where_no_apt_is(self):
        for apt, says in (0, "apt-get install ninja-build\n"), (1, "ninja-build (names as in Debian; see docs/use/install.md)\n"):
            with tempfile.TemporaryDirectory() as folder:
                result = steps(f"missing_packages() {{ echo ninja-build; }}; may_install() {{ false; }};"
                               f"command() {{ return {apt}; }}; need_packages build", FAIRLEAD_BUILD=folder)
            self.assertEqual(result.returncode, 1)
            self.assertTrue(result.stderr.endswith("  " + says), result.stderr)

    def test_wrappers_that_cannot_be_used(self):
        with tempfile.TemporaryDirectory() as folder:
            first = start("sed", "-n", "s/^FAIRLEAD_MPICC_[a-z]*:INTERNAL=//p", f"{TREE}/CMakeCache.txt").stdout.split()[0]
            second = os.path.join(folder, "mympicc")
            with open(second, "w") as file:
                file.write(f'#!/bin/sh\nexec {first} "$@"\n')
            os.chmod(second, 0o700)
            for wrappers, says in [("/no/such/mpicc", "not an executable"), ("/bin/ls", "-show"),
                                   (f"{first};{second}", [second, "its ABI"])]:
                with self.subTest(wrappers=wrappers):
                    self.refused(steps("configure", FAIRLEAD_BUILD=f"{folder}/build", FAIRLEAD_MPICC=wrappers),
                                 ["FAIRLEAD_MPICC names", *([says] if isinstance(says, str) else says)], code=1)
                    with open(f"{folder}/build/CMakeCache.txt") as cache:
                        self.assertNotIn("FAIRLEAD_MPICC:", cache.read(), "the next run would be refused, too")

    def test_building_shows_how_far_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            said = "[1/20] one\n[20/20] all\n"
            with open(f"{folder}/ninja", "w") as ninja:
                ninja.write(said)
            command = f"cat {folder}/ninja | show_progress {folder}/log"
            # `script` is a terminal.
            shown = start("script", "-qec", f"bash -c 'source packaging/steps.sh; {command}'", "/dev/null").stdout
            self.assertIn("    20 of 20\x1b[K", shown)
            quiet = steps(command, FAIRLEAD_BUILD=folder)
            self.assertEqual(quiet.stdout, "")
            with open(f"{folder}/log") as log:
                self.assertEqual(log.read(), said)

    def test_run_on_gpu_stops_where_the_launcher_refuses(self):
        result = start("tests/ranks/run-on-gpu", TREE, MPIS[0], MPIRUN="/bin/false")
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(result.stdout, "")
        self.assertIn("refuses to start", result.stderr)

    def test_run_on_gpu_takes_the_launcher_of_fairlead_run(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in "sh sed grep mktemp realpath date tail rm env true".split():
                os.symlink(shutil.which(name), os.path.join(folder, name))
            result = start("tests/ranks/run-on-gpu", TREE, MPIS[0], "1", "count", FAIRLEAD_DEVICE="sim", PATH=folder)
            self.assertEqual(result.returncode, 0, result)
            self.assertRegex(result.stdout, f"^ok count {MPIS[0]} sim 1 ranks, ")


if __name__ == "__main__":
    unittest.main()
