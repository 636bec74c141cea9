# SPDX-License-Identifier: Apache-2.0
"""The manual pages: one for each command, short, complete and free of what the formatter warns of."""

import glob
import os
import re
import shutil
import subprocess
import unittest

from tool import TREE, ToolTest

SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "ENVIRONMENT", "EXIT STATUS", "SEE ALSO"]
FOLDER = os.path.join(TREE, "share", "man")
LONGEST = 410  # lines of 80 columns


def formatted(text):
    return subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-rLL=78n", "-P-cbou"], input=text, text=True, capture_output=True)


class Manual(ToolTest):
    def commands(self):
        return re.findall(r"^  (\w+)  ", self.succeeds("--help").stdout.partition("Commands:")[2], re.M)

    def pages(self):
        """Name and section of each page, with the words that print it."""
        yield "fairlead.1", ["--help-man"]
        for command in self.commands():
            yield f"fairlead-{command}.1", [command, "--help-man"]
        yield "fairlead-options.7", ["options", "--man"]

    def test_every_command_has_one_and_there_are_no_others(self):
        expected = [f"man{name[-1]}/{name}" for name, _ in self.pages()]
        self.assertGreater(len(expected), 8)
        self.assertCountEqual([os.path.relpath(file, FOLDER) for file in glob.glob(FOLDER + "/man*/*")], expected)

    def test_the_build_has_written_what_the_tool_prints(self):
        for name, words in self.pages():
            with open(os.path.join(FOLDER, f"man{name[-1]}", name)) as file:
                self.assertEqual(file.read(), self.succeeds(*words).stdout, name)

    def test_sections(self):
        for name, words in self.pages():
            text = self.succeeds(*words).stdout
            titles = [title.replace("\\-", "-") for title in re.findall(r"^\.SH (.*)$", text, re.M)]
            if name.endswith(".1"):
                missing = [title for title in SECTIONS if title not in titles]
                self.assertEqual(missing, [], name)
                self.assertEqual([title for title in titles if title in SECTIONS], SECTIONS, name)
            self.assertEqual(titles[0], "NAME")
            self.assertEqual(len(titles), len(set(titles)))

    def test_pages_name_pages_that_exist(self):
        known = {f"{name[:-2]}({name[-1]})" for name, _ in self.pages()}
        for name, words in self.pages():
            text = self.succeeds(*words).stdout.replace("\\-", "-")
            self.assertEqual(set(re.findall(r"fairlead[-\w]*\(\d\)", text)) - known, set(), name)

    def test_options_of_benchmarks_say_what_holds_for_all_that_they_name(self):
        page = self.succeeds("bench", "--help-man").stdout.replace("\\-", "-")
        options = re.findall(r"^\.TP\n\.B (-\S+|[A-Z]+).*\n(.*)$", page.partition(".SH OPTIONS")[2], re.M)
        def texts(name):  # with the benchmarks of each in brackets
            return [text.strip() for option, all in options if option.rstrip(",") == name for text in re.findall(r"[^\]]*\]", all)]
        self.assertEqual([text for text in texts("--rounds") if "host_overhead" in text],
                         ["Pairs of runs, one with and one without Fairlead. Default: 5. [host_overhead]"])
        self.assertTrue(any(text.startswith("Seconds that the iterations of each figure") and "[datatypes]" in text
                            for text in texts("--timeout")), texts("--timeout"))
        for name in "-i", "-m", "-n":
            self.assertNotIn("Default", texts(name)[0])
        self.assertNotIn("--way", page)
        self.assertIn("see fairlead-matrix(1)", page)

    def test_exit_codes(self):
        for name, words in self.pages():
            if name.endswith(".1"):
                text = self.succeeds(*words).stdout.partition(".SH EXIT STATUS")[2]
                self.assertEqual(re.findall(r"^\.B (\d+)$", text, re.M), ["0", "1", "2", "77"], name)

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_short_and_without_warnings(self):
        for name, words in self.pages():
            result = formatted(self.succeeds(*words).stdout)
            self.assertEqual((result.returncode, result.stderr), (0, ""), name)
            lines = result.stdout.splitlines()
            self.assertLess(len(lines), LONGEST, name)
            self.assertGreater(len(lines), 30, name)
            self.assertLessEqual(max(map(len, lines)), 80, name)

    @unittest.skipUnless(shutil.which("mandoc"), "no mandoc")
    def test_mandoc_reads_them(self):
        for name, words in self.pages():
            result = subprocess.run(["mandoc", "-man", "-W", "error"], input=self.succeeds(*words).stdout, text=True,
                                    capture_output=True)
            self.assertEqual((result.returncode, result.stderr), (0, ""), name)


if __name__ == "__main__":
    unittest.main()
