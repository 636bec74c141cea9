#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that the code names each workaround of src/mpi/quirks.def, and no other, and that docs/reference/quirks.md
lists them. With --write, writes that page.

usage: quirks_test.py [--write]
"""

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
QUIRKS, PAGE = SOURCE / "src/mpi/quirks.def", SOURCE / "docs/reference/quirks.md"
NAMED = re.compile(r"\bquirk\s+(?://\s*)?(\w+)", re.IGNORECASE)

HEAD = """\
<!-- Written by tests/unit/quirks_test.py from src/mpi/quirks.def; do not edit. -->
# Workarounds for host MPIs

What host MPIs do wrong, or otherwise than others, where Fairlead works around it.
No workaround asks for the version of the host MPI: each is right with every MPI.
[Limits](../use/limits.md#faults-of-host-mpis) has the faults that programs meet with Fairlead, too.

- *MPIs*: with the releases in which it was seen; *until*: the last that have it, with which the workaround may go.
- `git grep QUIRK src` finds the workaround.
"""
COLUMNS = """
| Quirk | MPIs | What |
|---|---|---|
"""


def places():
    """The names in the comments: of each, the files."""
    found = {}
    for path in sorted(path for path in (SOURCE / "src").rglob("*") if path.suffix in (".h", ".cpp")):
        for name in dict.fromkeys(NAMED.findall(path.read_text())):
            found.setdefault(name, []).append(f"`{path.relative_to(SOURCE / 'src')}`")
    return found


def main():
    text, where, mistakes = HEAD, places(), []
    for line in QUIRKS.read_text().splitlines():
        if line.startswith("["):
            text += f"\n## {line.strip('[]')}\n{COLUMNS}"
        elif line and not line.startswith("#"):
            name, mpis, until, what = (cell.strip() for cell in line.split("|"))
            if name not in where:
                mistakes.append(f"{QUIRKS}: no comment in src says: quirk {name}")
            where.pop(name, None)
            text += f"| `{name}` | {mpis}{until and ', until ' + until} | {what} |\n"
    mistakes += [f"{QUIRKS}: no row, or two, for the quirk {name} of {', '.join(files)}" for name, files in where.items()]
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        mistakes.append(f"{PAGE} is not current; run {__file__} --write")
    print(*mistakes, sep="\n", end="\n" if mistakes else "")
    return 1 if mistakes else 0


sys.exit(main())
