#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that includes in src go down only: a folder includes itself and the folders below it (CONTRIBUTING.md).

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
    ["mpi/datatype"],
    ["mpi/core"],
    ["mpi/network"],
    ["mpi/p2p"],
    ["mpi/coll"],
    ["mpi/rma"],
    ["mpi/job"],
    ["mpi/fortran"],
]
LEVEL = {folder: level for level, row in enumerate(FLOORS) for folder in row}
INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')


def folder_of(path):
    """The floor that a file belongs to: its folder without generated/."""
    return str(path.parent).removesuffix("/generated")


def mistakes(src):
    for path in sorted(p for p in src.rglob("*") if p.suffix in (".h", ".cpp", ".inc", ".in")):
        here = folder_of(path.relative_to(src))
        if here not in LEVEL:
            yield f"{path}: {here} is no floor; add it to FLOORS in {Path(__file__).name}"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found or not (src / found[1]).is_file():
                continue
            there = folder_of(Path(found[1]))
            if there != here and (there not in LEVEL or LEVEL[there] >= LEVEL[here]):
                yield f"{path}:{number}: {here} may not include {found[1]}: {there} is not below it"


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
