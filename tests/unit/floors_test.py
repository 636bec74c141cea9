#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that includes in src go down only: a folder includes itself and the folders below it (CONTRIBUTING.md).

In the folders of FILES it proves the same for the files. It also proves that src/mpi has one kind of mutex, and that
calls of the driver that may wait go through one header, and compares the pages: the floor plan with FLOORS, the README
of each folder with its files, the states of a rendezvous with their page.

usage: floors_test.py SRC
"""

import re
import sys
from pathlib import Path

# From the bottom to the top; folders in one row do not include each other.
FLOORS = [
    ["base/system"],
    ["base"],
    ["base/memory"],
    ["observe/json"],
    ["observe"],
    ["flight"],
    ["device/program"],
    ["device"],
    ["device/copies"],
    ["device/cuda_hip"],
    ["device/cuda", "device/hip", "device/sim"],
    ["kernels"],
    ["kernels/handover", "kernels/pattern"],
    ["node"],
    ["packing"],
    ["transport"],
    ["p2p", "coll", "rma"],
    ["mpi/abi"],
    ["mpi/datatype", "mpi/info", "mpi/failures"],
    ["mpi/check"],
    ["mpi/core"],
    ["mpi/core/requests"],
    ["mpi/network"],
    ["mpi/p2p"],
    ["mpi/coll"],
    ["mpi/coll/nodes"],
    ["mpi/coll/entry"],
    ["mpi/rma"],
    ["mpi/file"],
    ["mpi/stream"],
    ["mpi/job"],
    ["mpi/fortran"],
]
LEVEL = {folder: level for level, row in enumerate(FLOORS) for folder in row}
# From the bottom to the top; files in one row do not include each other.
FILES = {
    "mpi/rma": [
        ["access_call", "accumulate_op", "attached_regions"],
        ["targets", "staged_access"],
        ["active_messages"],
        ["accesses"],
        ["epochs"],
        ["window"],
        ["one_sided", "window_calls"],
    ],
}
LEVEL_OF_FILE = {
    (folder, name): level for folder, rows in FILES.items() for level, row in enumerate(rows) for name in row
}
INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')


def folder_of(path):
    """The floor that a file belongs to: its folder without generated/."""
    return str(path.parent).removesuffix("/generated")


def is_below(there, here, level):
    return there in level and level[there] < level[here]


def included(path, src):
    """The files of src that the file includes, with the numbers of the lines."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = INCLUDE.match(line)
        if found and (src / found[1]).is_file():
            yield number, Path(found[1])


def sources(src):
    return sorted(p for p in src.rglob("*") if p.suffix in (".h", ".cpp", ".inc", ".in"))


def wrong_includes(src):
    for path in sources(src):
        here = folder_of(path.relative_to(src))
        file = (here, path.stem)
        if here not in LEVEL:
            yield f"{path}: {here} is no floor; add it to FLOORS in {Path(__file__).name}"
            continue
        if here in FILES and file not in LEVEL_OF_FILE:
            yield f"{path}: add it to FILES in {Path(__file__).name}"
            continue
        for number, name in included(path, src):
            there = folder_of(name)
            other = (there, name.stem)
            if there != here and not is_below(there, here, LEVEL):
                yield f"{path}:{number}: {here} may not include {name}: {there} is not below it"
            if there == here and here in FILES and other != file and not is_below(other, file, LEVEL_OF_FILE):
                yield f"{path}:{number}: {path.name} may not include {name}, which is not below it"


def wrong_mutexes(src):
    """In src/mpi a thread calls no error handler of the program while it holds one (mpi/abi/mutex.h)."""
    for path in sources(src / "mpi"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            # end_host_calls() awaits the handlers, too.
            if path.name != "mutex.h" and re.search(r"std::\w*mutex\b(?! calling_host_)", line):
                yield f"{path}:{number}: take Mutex or SharedMutex of mpi/abi/mutex.h"


def wrong_driver_calls(src):
    """Calls of the driver that may wait are made by BlockingDriverCalls only (device/blocking_driver_calls.h)."""
    allowed = {"device/runtime.h", "device/provider.cpp", "device/api.cpp", "device/blocking_driver_calls.h"}
    for path in sources(src):
        if str(path.relative_to(src)) in allowed:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"\bwhole_runtime\(|\b(static|dynamic|reinterpret)_cast<(device::)?Runtime\b", line):
                yield f"{path}:{number}: make this call of the driver by BlockingDriverCalls"


def names_in(text, known):
    """The known names among those in backticks, in the order of the text."""
    return [name for name in re.findall(r"`([\w/]+)`", text) if name in known]


def wrong_tables(src):
    """The floor plan lists each floor once, in their order."""
    page = src / "README.md"
    rows = re.findall(r"^\| (`.*?) \|", page.read_text().split("## Floor plan")[1].split("\n## ")[0], re.M)
    table = names_in("\n".join(rows), LEVEL)[::-1]
    for folder in sorted(set(LEVEL) ^ set(table)):
        yield f"{page}: the table of folders lacks {folder}"
    for lower, higher in zip(table, table[1:]):
        if LEVEL[lower] > LEVEL[higher]:
            yield f"{page}: {lower} and {higher} are in the wrong order"


def wrong_readmes(src):
    """The README of a folder names its files."""
    for folder in LEVEL:
        readme = src / folder / "README.md"
        text = readme.read_text()
        for path in sorted((src / folder).iterdir()):
            if path.suffix in (".h", ".cpp", ".def", ".py") and not re.search(rf"`{path.stem}\b", text):
                yield f"{readme}: does not name {path.name}"


def wrong_states(src):
    page = src.parent / "docs/design/messages.md"
    section = page.read_text().split("### The states of a rendezvous")[1].split("\n### ")[0]
    enumerators = re.search(r"enum class RendezvousState[^{]*{(.*?)}", (src / "node/segment.h").read_text(), re.S)[1]
    states = set(re.findall(r"\w+", enumerators))
    drawn = {name for line in section.split("```")[1].splitlines()
             for name in re.findall(r"\w+", re.sub(r"-[sr]->|-r-| {3,}[^-`|]*$", " ", line))}
    for state in sorted(states - drawn - set(re.findall(r"`(\w+)`", section))):
        yield f"{page}: the states of a rendezvous lack {state}"
    for state in sorted(drawn - states):
        yield f"{page}: a rendezvous has no state {state}"


def main():
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "mpi").is_dir():
        print(__doc__.strip(), file=sys.stderr)
        return 2
    src = Path(sys.argv[1]).resolve()
    checks = (wrong_includes, wrong_mutexes, wrong_driver_calls, wrong_tables, wrong_readmes, wrong_states)
    found = [line for check in checks for line in check(src)]
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(LEVEL)} floors, {len(found)} mistakes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
