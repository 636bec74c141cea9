#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""How the files of the checkout look: their format, spelling and size, and what is wrong in scripts.

    style_test.py format | spelling | scripts | sizes

Without the program that a check needs it is skipped (exit status 77); TEST_STYLE=required makes that a failure."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
SKIPPED = 77

# Other versions format other lines differently. Debian 12 has this one, and PyPI (clang-format==14.0.6). Examples are
# formatted by hand.
CLANG_FORMAT = "14.0.6"

NOT_ENGLISH = "inout,improbe,befores,fro,ue,renderd,ofmodule,hsa"

# A folder has at most 25 files, a file at most 600 lines. These have more; their numbers may only fall.
FILES_IN_A_FOLDER, LINES_IN_A_FILE = 25, 600
LONG_FILES = {
    "src/mpi/abi/generate.py": 706,
    "src/mpi/p2p/receive_operation.cpp": 604,
    "tests/hardware/device_streams_test.cpp": 762,
    "tests/ranks/tools/sim_nccl.cpp": 629,
}


def tracked(pattern):
    """The files of the checkout whose names match, but no generated ones."""
    listed = subprocess.run([need("git"), "ls-files", "-z"], cwd=SOURCE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if listed.returncode != 0:
        print("skipped: this is no checkout of git")
        sys.exit(SKIPPED)
    names = listed.stdout.decode().split("\0")
    return [name for name in names
            if re.search(pattern, name) and "/generated/" not in name and (SOURCE / name).is_file()]


def need(*programs):
    """The first of these programs that there is."""
    for program in programs:
        if found := shutil.which(program):
            return found
    print(f"skipped: there is no {programs[-1]}")
    sys.exit(1 if os.environ.get("TEST_STYLE") == "required" else SKIPPED)


def has_mistakes(command, files):
    """Runs the command on the files, in parts that fit on a command line."""
    parts = [files[i:i + 200] for i in range(0, len(files), 200)]
    return any([subprocess.run(command + part, cwd=SOURCE).returncode for part in parts])


def check_format():
    program = need("clang-format-14", "clang-format")
    version = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True).stdout
    if CLANG_FORMAT not in version.split():
        print(f"skipped: {version.strip()} is not {CLANG_FORMAT}")
        return 1 if os.environ.get("TEST_STYLE") == "required" else SKIPPED
    files = [name for name in tracked(r"\.(cpp|h|c|cu|inc)$")
             if not name.startswith("examples/")]
    return has_mistakes([program, "--dry-run", "-Werror"], files)


def check_spelling():
    skipped = r"\.svg$|^tests/tools/doctor/|^tests/style/"
    files = [name for name in tracked(".") if not re.search(skipped, name)]
    return has_mistakes([need("codespell"), "-L", NOT_ENGLISH, "--"], files)


def is_shell(name):
    with open(SOURCE / name, "rb") as file:
        return re.match(rb"#!.*\b(ba|da)?sh\b", file.readline()) is not None


def check_scripts():
    # What is sourced is checked with the script that sources it.
    return has_mistakes([need("shellcheck"), "-x", "-S", "warning"], [name for name in tracked(".") if is_shell(name)])


def check_sizes():
    folders = {}
    for name in tracked(r"^(src|tests|tools)/"):
        folder, file = os.path.split(name)
        if file not in ("README.md", "CMakeLists.txt"):
            folders[folder] = folders.get(folder, 0) + 1
    lines = {}
    for name in tracked(r"^(src|tests|tools)/.*\.(cpp|h|c|cu|inc|py)$"):
        with open(SOURCE / name, encoding="utf-8") as file:
            lines[name] = sum(1 for _ in file)
    mistakes = 0
    for found, most, known, unit in ((folders, FILES_IN_A_FOLDER, {}, "files"),
                                     (lines, LINES_IN_A_FILE, LONG_FILES, "lines")):
        for name in sorted(found.keys() | known.keys()):
            number, allowed = found.get(name, 0), known.get(name, most)
            if number > allowed:
                print(f"{name} has {number} {unit}; at most {allowed} are allowed")
                mistakes += 1
            elif name in known and number < allowed:
                print(f"note: {name} has {number} {unit} now; lower its number in {Path(__file__).name}")
    return mistakes > 0


if __name__ == "__main__":
    checks = {"format": check_format, "spelling": check_spelling, "scripts": check_scripts, "sizes": check_sizes}
    if len(sys.argv) != 2 or sys.argv[1] not in checks:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(int(checks[sys.argv[1]]()))
