# SPDX-License-Identifier: Apache-2.0
"""`python -m fairlead ...`: the command `fairlead`, which knows here which MPI mpi4py loads.

    python -m fairlead run -n 2 program.py      # this Python runs it, with the MPI of its mpi4py
    python -m fairlead doctor
    python -m fairlead run --help
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys

from ._home import HomeError, home
from ._mpi import Mpi, mpi_of_mpi4py

_WITHOUT_MPI = ("copy",)  # benchmarks
_ASK = {"-h", "--help", "-V", "--version", "--help-man", "--markdown"}  # answered whatever the MPI


def _is_python_file(word: str) -> bool:
    return word.endswith(".py") and os.path.isfile(word)


def _is_python(word: str) -> bool:
    return os.path.basename(word).startswith("python") and shutil.which(word) is not None


def _program_place(words: list[str]) -> int | None:
    """Where the program stands among the words after `run`: the first that can be run; None where there is none."""
    for place, word in enumerate(words[1:], 1):
        if words[place - 1] != "--mpi" and (_is_python_file(word) or shutil.which(word)):
            return place
    return None


def _names_mpi(words: list[str]) -> bool:
    return any(word == "--mpi" or word.startswith("--mpi=") for word in words)


def _is_of_another(words: list[str]) -> bool:
    """Do these words for `doctor` name a program, or a recorded machine?"""
    rest = iter(words)
    for word in rest:
        if word in ("--sim", "--record"):
            next(rest, None)  # its value
        elif not word.startswith("-") or word.startswith("--from"):
            return True
    return False


def _with_launcher(mpi: Mpi) -> str:
    """What `--mpi` takes where ranks are started: the launcher beside the library, else the ABI."""
    launcher = mpi.launcher() if mpi.abi != "abi" else None
    return str(launcher or mpi.abi)


def _launcher_beside() -> str | None:
    """The launcher in the virtual environment of this Python, as the MPIs of PyPI bring one."""
    return None if sys.prefix == sys.base_prefix else shutil.which("mpirun", path=os.path.join(sys.prefix, "bin"))


def _measured(words: list[str]) -> list[str]:
    """`bench NAME`, `matrix` or `doctor` of the MPI that mpi4py loads; of this environment's, else that which the tool
    finds, where it can load none. A line says so only where mpi4py is there and another MPI takes the place of its."""
    name = words[1] if words[0] == "bench" and len(words) > 1 else ""
    if (words[0] == "bench" and (not name or name.startswith("-") or name in _WITHOUT_MPI)
            or _names_mpi(words) or _ASK & set(words)):
        return words
    if words[0] == "doctor" and _is_of_another(words[1:]):
        return words
    try:
        mpi = mpi_of_mpi4py()
    except HomeError as error:
        chosen = _launcher_beside()
        if importlib.util.find_spec("mpi4py") and (chosen or shutil.which("mpirun")):
            print(f"fairlead: {error}; {chosen or 'the MPI on PATH'} is taken", file=sys.stderr)
        if chosen is None:
            return words
    else:
        # The doctor takes a library by its name with a version; Intel's of PyPI is loaded by one without.
        of_library = words[0] == "doctor" and mpi.file is not None and ".so." in mpi.file.name
        chosen = str(mpi.file) if of_library else _with_launcher(mpi)
    place = 2 if name else 1
    return [*words[:place], "--mpi", chosen, *words[place:]]


def for_python(words: list[str]) -> list[str]:
    """The words as the tool takes them: `run -n 2 program.py` with this Python, and all that Python runs with the MPI
    of its mpi4py where none is named."""
    if words and words[0] in ("bench", "matrix", "doctor"):
        return _measured(words)
    if not words or words[0] not in ("run", "exec"):
        return words
    words = list(words)
    place = _program_place(words)
    if place is None:
        return words
    if _is_python_file(words[place]):
        words.insert(place, sys.executable)
    if _names_mpi(words[1:place]) or not any(map(_is_python, words[place:])):
        return words
    mpi = mpi_of_mpi4py()
    return [words[0], "--mpi", _with_launcher(mpi) if words[0] == "run" else mpi.abi, *words[1:]]


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
