#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that src reads the environment in one place, which finds no variable in processes with raised privileges.

usage: environment_test.py SRC
"""

import re
import sys
from pathlib import Path

PLACE = Path("base/environment.h")
READS = re.compile(r"\b(?:secure_getenv|getenv|_environ|__environ|environ)\b(?!\.)")
SOURCES = (".h", ".cpp", ".inc", ".in")
COMMENT = re.compile(r"//.*")


def reads(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if found := READS.search(COMMENT.sub("", line)):
            yield number, found[0]


def main():
    src = Path(sys.argv[1])
    assert list(reads(src / PLACE)), f"{PLACE} reads nothing"
    wrong = [f"{path}:{number}: {name}; include {PLACE}" for path in sorted(src.rglob("*"))
             if path.suffix in SOURCES and path.relative_to(src) != PLACE for number, name in reads(path)]
    print("\n".join(wrong) or "the environment is read in one place")
    return 1 if wrong else 0


sys.exit(main())
