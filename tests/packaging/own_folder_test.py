#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What another user prepared is neither run nor written to: packaging/own_folder.sh tells which folders those are, the
scripts that run what lies in folders as root refuse them, and packaging/check-runpaths finds where a program would look
for libraries there. A stranger's folders need root to make them; the rest is tried with modes alone."""

import os
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
STRANGER = 65534
COMPILER = shutil.which("cc")


def trusted(path):
    command = f'source "{SOURCE}/packaging/own_folder.sh"; trusted_folder "$1"'
    return subprocess.run(["bash", "-c", command, "bash", path]).returncode == 0


class OwnFolder(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.home)

    def folder(self, name, mode=0o755, owner=None):
        path = os.path.join(self.home, name)
        os.mkdir(path)
        os.chmod(path, mode)
        if owner is not None:
            os.chown(path, owner, owner)
        return path

    def test_own_folders_are_trusted(self):
        self.assertTrue(trusted(self.folder("own")))
        self.assertTrue(trusted(os.path.join(self.home, "not/there/yet")))

    def test_folders_that_others_write_are_not(self):
        self.assertFalse(trusted(self.folder("open", 0o777)))
        self.assertFalse(trusted(os.path.join(self.home, "open/not-there-yet")))
        self.assertFalse(trusted(self.folder("sticky", 0o1777)))

    def test_own_folders_in_one_that_keeps_what_is_there_are(self):
        os.mkdir(os.path.join(self.folder("sticky", 0o1777), "own"), 0o755)
        self.assertTrue(trusted(os.path.join(self.home, "sticky/own")))

    def test_a_link_is_judged_by_where_it_leads(self):
        os.symlink(self.folder("open", 0o777), os.path.join(self.home, "link"))
        self.assertFalse(trusted(os.path.join(self.home, "link")))
        os.symlink(self.folder("own"), os.path.join(self.home, "other"))
        self.assertTrue(trusted(os.path.join(self.home, "other")))

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    @unittest.skipIf(shutil.which("git") is None, "needs git")
    def test_scripts_refuse_what_a_stranger_prepared(self):
        """A machine that looks complete, as a stranger would leave it at a name that he can guess."""
        machines = self.folder("machines", owner=STRANGER)
        planted = os.path.join(machines, "bookworm")
        os.makedirs(os.path.join(planted, "usr/bin"))
        open(os.path.join(planted, ".complete"), "w").close()
        self.assertFalse(trusted(planted))
        for script in (["fresh-machine", "bookworm", "true"], ["deb", "bookworm", "test"],
                       ["container/two-roots", "bookworm", "trixie"], ["wheel", "check"]):
            with self.subTest(script=script[0]):
                run = subprocess.run([os.path.join(SOURCE, "packaging", script[0]), *script[1:]], text=True,
                                     env={**os.environ, "FRESH_ROOT": machines}, capture_output=True)
                self.assertEqual(run.returncode, 1, run.stderr)
                self.assertIn("belongs to another user", run.stderr)
                self.assertIn("FRESH_ROOT", run.stderr)
                self.assertEqual(os.listdir(machines), ["bookworm"])

    @unittest.skipIf(COMPILER is None, "needs a C compiler")
    def test_paths_of_libraries_are_found(self):
        """As CMake leaves them: an empty element behind a colon."""
        for path, problem in {"$ORIGIN/../lib": None, "/usr/lib": None, "/usr/lib:": "", ":/usr/lib": "", "lib": "lib",
                              self.folder("open", 0o777): os.path.join(self.home, "open")}.items():
            with self.subTest(path=path):
                programs = tempfile.mkdtemp(dir=self.home)
                subprocess.run([COMPILER, "-xc", "-", "-o", programs + "/program", "-Wl,-rpath," + path],
                               input=b"int main(void) { return 0; }", check=True)
                check = subprocess.run([SOURCE + "/packaging/check-runpaths", programs], text=True, capture_output=True)
                self.assertEqual(check.returncode, problem is not None, check.stderr)
                if problem is not None:
                    self.assertIn(f'program looks for libraries in "{problem}"', check.stderr)


if __name__ == "__main__":
    unittest.main()
