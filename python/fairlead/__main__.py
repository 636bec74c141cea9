# SPDX-License-Identifier: Apache-2.0
"""`python -m fairlead ...`: the command `fairlead`, which knows here which MPI mpi4py loads.

    python -m fairlead run -n 2 program.py      # this Python runs it, with the MPI of its mpi4py
    python -m fairlead doctor
    python -m fairlead run --help
"""

from __future__ import annotations

import os
import sys

from ._home import HomeError, home
from ._mpi import mpi_of_mpi4py


def _program_place(words: list[str]) -> int | None:
    """Where a Python file stands among the words after `run`; None where there is none."""
    for place, word in enumerate(words):
        if word.endswith(".py") and os.path.isfile(word):
            return place
    return None


def for_python(words: list[str]) -> list[str]:
    """`run -n 2 program.py` as the tool takes it: with this Python, and the MPI of its mpi4py where none is named."""
    if not words or words[0] not in ("run", "exec"):
        return words
    words = list(words)
    place = _program_place(words)
    if place is None:
        return words
    options = words[1:place]
    if not os.path.basename(words[place - 1]).startswith("python"):
        words.insert(place, sys.executable)
    if any(word == "--mpi" or word.startswith("--mpi=") for word in options):
        return words
    mpi = mpi_of_mpi4py()
    launcher = mpi.launcher() if words[0] == "run" and mpi.abi != "abi" else None
    return [words[0], "--mpi", str(launcher or mpi.abi), *words[1:]]


def main() -> None:
    """Replaces this process by the tool. Exits with 2 where it, or the MPI, cannot be found."""
    try:
        tool = home() / "bin" / "fairlead"
        words = for_python(sys.argv[1:])
    except HomeError as error:
        print(f"fairlead: {error}", file=sys.stderr)
        sys.exit(2)
    os.execv(tool, ["fairlead", *words])


if __name__ == "__main__":
    main()
