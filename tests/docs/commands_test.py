#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands that README.md and docs/ print are commands of this build: each option that they name exists. Those with
a shown output that need no real GPU run, and what is shown is what they print, but for numbers and names of machines.
Links of all pages lead to files and titles that exist, and the site's navigation to all pages.

A shown line "..." stands for lines that are left out."""

import collections
import functools
import glob
import os
import re
import shlex
import subprocess
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
TREE = os.path.realpath(os.environ["FAIRLEAD_TEST_TREE"])
TOOL = os.path.join(TREE, "bin", "fairlead")
TIMEOUT = float(os.environ.get("TEST_TIMEOUT", 300))
PAGES = [os.path.join(ROOT, "README.md"),
         *sorted(page for page in glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True)
                 if os.path.basename(os.path.dirname(page)) not in ("design", "measurements"))]
# Before `fairlead`: a prompt, variables, and launchers with their options.
COMMAND = re.compile(r"(?:\$ )?((?:[A-Z_]+=\S+ +)*)((?:srun|salloc|mpiexec|mpirun) (?:[^|]*? )?)?(?:python -m |\S*/bin/)?fairlead (.*)")
WITH_PROGRAM = ("run", "exec")


def blocks():
    """The page and the lines of each block of code."""
    for page in PAGES:
        with open(page) as file:
            for _, text in re.findall(r"```(\w*)\n(.*?)```", file.read(), re.S):
                yield os.path.relpath(page, ROOT), text.replace("\\\n", " ").splitlines()


def words_of(line):
    """The words behind `fairlead`; none if the line is no command of it."""
    match = COMMAND.fullmatch(line)
    if not match or re.match(r"\d+[/:]|node\d|\w+: |statistics over|.*(?: warn | info | error )", match[3]):
        return []
    return shlex.split(match[3], comments=True)


@functools.lru_cache(None)
def options(*command):
    """{option: does it take a value?} of `fairlead COMMAND --help`."""
    text = subprocess.run([TOOL, *command, "--help"], text=True, capture_output=True, check=True).stdout
    found = {"--help": False, "-h": False, "-np": True}
    for names, value in re.findall(r"^  (-[^\s,]+(?:, -[^\s,]+)*)( [A-Z<]\S*)?", text, re.M):
        found.update({name: bool(value) for name in names.split(", ")})
    return found


class Commands(unittest.TestCase):
    def check(self, words):
        command = words[:2] if words[0] == "bench" else words[:1]
        known, rest = options(*command), iter(words[len(command):])
        for word in rest:
            name, equals, _ = word.partition("=")
            if not word.startswith("-") or word == "-":
                if words[0] not in WITH_PROGRAM:
                    continue
                # The rest is the program's, or Fairlead's own again.
                return self.check(list(rest)) if os.path.basename(word) == "fairlead" else None
            self.assertIn(name, known)
            if known[name] and not equals:
                next(rest)

    def test_every_option_exists(self):
        number = 0
        for page, lines in blocks():
            for line in lines:
                if words := words_of(line):
                    number += 1
                    with self.subTest(page=page, line=line):
                        self.check(words)
        self.assertGreater(number, 50)


def anchors(path):
    """Of the titles of a page, as GitHub makes them."""
    with open(path) as file:
        titles = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", file.read(), flags=re.S), re.M)
    return {re.sub(r"[^\w -]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-") for title in titles}


class Links(unittest.TestCase):
    def test_they_lead_somewhere(self):
        for page in glob.glob(os.path.join(ROOT, "*.md")) + [page for folder in ("docs", "src") for page in glob.glob(
                os.path.join(ROOT, folder, "**", "*.md"), recursive=True)]:
            with open(page) as file:
                targets = re.findall(r"\]\(([^)\s:]+)\)", re.sub(r"```.*?```", "", file.read(), flags=re.S))
            for target in targets:
                path, _, anchor = target.partition("#")
                path = os.path.join(os.path.dirname(page), path) if path else page
                with self.subTest(page=os.path.relpath(page, ROOT), target=target):
                    self.assertTrue(os.path.exists(path))
                    self.assertTrue(not anchor or anchor in anchors(path))
                    # The pages are installed without the sources.
                    if page.startswith(os.path.join(ROOT, "docs", "")):
                        self.assertIn(os.path.relpath(path, ROOT).split(os.sep)[0],
                                      ("docs", "examples", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"))

    def test_the_navigation_of_the_site_names_all_pages(self):
        with open(os.path.join(ROOT, "mkdocs.yml")) as file:
            named = set(re.findall(r"^ *- (?:.*: )?(\S+\.md)$", file.read(), re.M))
        docs = os.path.join(ROOT, "docs")
        pages = glob.glob(os.path.join(docs, "**", "*.md"), recursive=True)
        self.assertEqual({os.path.relpath(page, docs) for page in pages} - named, set())


class Help(unittest.TestCase):
    def test_lines_fit_80_columns(self):
        def text(*words):
            return subprocess.run([TOOL, *words, "--help"], text=True, capture_output=True, check=True,
                                  env={**os.environ, "COLUMNS": "80"}).stdout
        completion = subprocess.run([TOOL, "--completion"], text=True, capture_output=True, check=True).stdout
        commands, benchmarks = [re.search(rf"^    {of}\) echo '?=([\w,]*\w)", completion, re.M)[1].split(",") for of in ("help", "bench")]
        self.assertTrue({"run", "info"} <= set(commands) and {"latency", "iallreduce"} <= set(benchmarks), completion)
        for words in (), *[(name,) for name in commands], *[("bench", name) for name in benchmarks]:
            with self.subTest(command=words):
                self.assertEqual([line for line in text(*words).splitlines() if len(line) > 80], [])


def masked(line):
    """Numbers with their units, addresses and names of machines become the same for all."""
    line = line.replace(os.uname().nodename, "vm").replace(TREE, "build")
    line = re.sub(r"\bnode\d+\b", "vm", line)
    line = re.sub(r"\+0x[0-9a-f]+", "+0", line)
    line = re.sub(r"(?<![A-Za-z_])v?-?(?:0x)?[0-9][0-9a-f]{3}:[0-9a-f:.]+|(?<![A-Za-z_])v?-?\d[\d.,:-]*(?:e[-+]\d+)?", "0", line)
    return " ".join(line.split())


def shown():
    """The page, a command with variables, and the lines that it is said to print."""
    for page, lines in blocks():
        sessions = []
        for line in lines:
            if line.startswith("$ "):
                sessions.append((line[2:], []))
            elif sessions:
                sessions[-1][1].append(line)
        for command, output in sessions:
            if words_of(command) and output:
                yield page, command, output


def runs_here(command):
    """On simulated GPUs, with programs and MPIs of this build. What --stats shows depends on time."""
    simulated = "--sim " in command or "FAIRLEAD_DEVICE=sim" in command
    programs = re.findall(r"build/(bin/examples/\S+)", command)
    mpis = re.findall(r"--mpi (\w+)", command)
    return (simulated and "srun" not in command and "--stats" not in command
            and all(os.path.exists(os.path.join(TREE, each)) for each in programs)
            and all(os.path.exists(os.path.join(TREE, "libexec", "fairlead", f"bench-{each}")) for each in mpis))


class Outputs(unittest.TestCase):
    def test_shown_outputs_are_printed(self):
        variables = {k: v for k, v in os.environ.items() if not k.startswith("FAIRLEAD_")}
        variables["PATH"] = os.path.join(TREE, "bin") + os.pathsep + os.environ["PATH"]
        number = 0
        for page, command, output in shown():
            if not runs_here(command):
                continue
            number += 1
            with self.subTest(page=page, command=command), tempfile.TemporaryDirectory() as folder:
                os.symlink(TREE, os.path.join(folder, "build"))
                result = subprocess.run(["bash", "-c", "ulimit -c 0; " + command], env=variables, cwd=folder, text=True,
                                        timeout=TIMEOUT, stdin=subprocess.DEVNULL, capture_output=True)
                count = lambda lines: collections.Counter(masked(line) for line in lines if line.strip() not in ("", "..."))
                printed, on_stdout = count((result.stdout + "\n" + result.stderr).splitlines()), count(result.stdout.splitlines())
                self.assertEqual(count(output) - printed, {}, "shown, but not printed:\n" + result.stdout + result.stderr)
                if "..." not in [line.strip() for line in output]:
                    self.assertEqual(on_stdout - count(output), {}, "printed, but not shown")
        if number == 0:
            self.skipTest("no program of the pages is built")


if __name__ == "__main__":
    unittest.main()
