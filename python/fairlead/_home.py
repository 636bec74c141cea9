# SPDX-License-Identifier: Apache-2.0
"""Where the libraries and programs of Fairlead are."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path


_ABIS = ("openmpi", "mpich", "abi")


class HomeError(RuntimeError):
    """The libraries or programs of Fairlead are not where they should be; the message names the remedy."""


def _glibc() -> str:
    """The version of this machine's glibc, as "2.36"; "" where the C library is another one."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").rpartition(" ")[2]
    except (OSError, ValueError):
        return ""


def _require_machine(package: Path) -> None:
    """Raises HomeError where the wheel that brought this package is for another machine, as its tag tells. pip installs
    none such, but folders are copied and shared."""
    tags = "".join(file.read_text() for file in package.parent.glob("fairlead-*.dist-info/WHEEL"))
    tag = re.search(r"^Tag: .*-(?:linux|manylinux_(\d+)_(\d+))_(\w+)$", tags, re.MULTILINE)
    if tag is None:
        return
    build = "build Fairlead on this machine: pip install --no-binary fairlead fairlead"
    if tag[3] != platform.machine():
        raise HomeError(f"this package is for {tag[3]} and this machine is {platform.machine()}; {build}")
    if tag[1] is None:
        return
    glibc = _glibc()
    if not glibc:
        raise HomeError(f"this package is for glibc {tag[1]}.{tag[2]} or newer, and the C library of this machine is "
                        "another one, such as musl; Fairlead needs glibc")
    if tuple(map(int, glibc.split("."))) < (int(tag[1]), int(tag[2])):
        raise HomeError(f"this package is for glibc {tag[1]}.{tag[2]} or newer, and this machine has {glibc}; {build}")


def home() -> Path:
    """The folder that holds bin/fairlead, lib/ and libexec/: FAIRLEAD_HOME, else what this package brought, else the
    prefix that it is installed in, as by a distribution: <prefix>/lib/python3/dist-packages/fairlead.

    Raises HomeError where there is none, as in a checkout that was not installed, or where it is for another machine.
    """
    given = os.environ.get("FAIRLEAD_HOME")
    package = Path(__file__).resolve().parent
    folder = Path(given) if given else package / "home"
    if (folder / "bin" / "fairlead").is_file():
        if not given:
            _require_machine(package)
        return folder
    prefix = Path(__file__).resolve().parent.joinpath("../../../..").resolve()
    if not given and (prefix / "libexec" / "fairlead").is_dir():
        return prefix
    if given:
        raise HomeError(f"FAIRLEAD_HOME is {given}, which holds no bin/fairlead; unset it, or set it to an "
                        "installed Fairlead or a build folder")
    raise HomeError("this package holds no programs of Fairlead; install it with pip, or set FAIRLEAD_HOME to an "
                    "installed Fairlead or a build folder")


def library_file(name: str) -> Path:
    """The path of a library of Fairlead by its file name. Raises HomeError where there is none."""
    folder = home()
    for place in sorted(folder.glob("lib*")) + sorted(folder.glob("lib/*-linux-gnu")):
        if (place / name).is_file():
            return place / name
    raise HomeError(f"{folder} holds no {name}: this Fairlead was built without that MPI; build it again with the "
                    "MPI's mpicc in FAIRLEAD_MPICC")


def library(abi: str | None = None) -> Path:
    """The library to preload, as LD_PRELOAD takes it.

    abi: "openmpi", "mpich" or "abi" (the standard ABI of MPI 5); None: that of the MPI which mpi4py loads in this
    environment, which is found by starting a Python.

    Raises HomeError where this Fairlead has no library for it, or no MPI can be found.
    """
    if abi is None:
        from ._mpi import mpi_of_mpi4py

        abi = mpi_of_mpi4py().abi
    if abi not in _ABIS:
        raise HomeError(f"{abi!r} is no ABI of an MPI; accepted: {', '.join(_ABIS)}")
    return library_file(f"libfairlead-{abi}.so")
