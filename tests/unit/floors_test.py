#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that includes in src go down only: a folder includes itself and the folders below it (CONTRIBUTING.md).

In the folders of FILES it proves the same for the files.

usage: floors_test.py SRC
"""

import re
import sys
from pathlib import Path

# From the bottom to the top; folders in one row do not include each other.
FLOORS = [
    ["base"],
    ["observe"],
    ["device"],
    ["device/cuda_hip"],
    ["device/cuda", "device/hip", "device/sim"],
    ["kernels"],
    ["node"],
    ["packing"],
    ["transport"],
    ["p2p", "coll", "rma"],
    ["mpi/abi"],
    ["mpi/datatype", "mpi/info"],
    ["mpi/core"],
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


def mistakes(src):
    for path in sorted(p for p in src.rglob("*") if p.suffix in (".h", ".cpp", ".inc", ".in")):
        here = folder_of(path.relative_to(src))
        file = (here, path.stem)
        if here not in LEVEL:
            yield f"{path}: {here} is no floor; add it to FLOORS in {Path(__file__).name}"
            continue
        if here in FILES and file not in LEVEL_OF_FILE:
            yield f"{path}: add it to FILES in {Path(__file__).name}"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found or not (src / found[1]).is_file():
                continue
            there = folder_of(Path(found[1]))
            other = (there, Path(found[1]).stem)
            if there != here and not is_below(there, here, LEVEL):
                yield f"{path}:{number}: {here} may not include {found[1]}: {there} is not below it"
            if there == here and here in FILES and other != file and not is_below(other, file, LEVEL_OF_FILE):
                yield f"{path}:{number}: {path.name} may not include {found[1]}, which is not below it"


def main():
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "mpi").is_dir():
        print(__doc__.strip(), file=sys.stderr)
        return 2
    found = list(mistakes(Path(sys.argv[1])))
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(LEVEL)} floors, {len(found)} includes that do not go down")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
