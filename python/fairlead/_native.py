# SPDX-License-Identifier: Apache-2.0
"""What the library that is loaded into this process says of itself (include/fairlead/query.h), and phases."""

from __future__ import annotations

import contextlib
import ctypes
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


class NotLoadedError(RuntimeError):
    """Fairlead is not loaded into this process; the message names the remedy."""

    def __init__(self) -> None:
        super().__init__("Fairlead is not loaded into this process; start the program with "
                         "`python -m fairlead run -n N program.py`, or with LD_PRELOAD set to fairlead.library() "
                         "in the environment of the ranks")


@dataclass(frozen=True)
class Device:
    """A GPU this process sees. memory: its size in bytes; pci: "0000:1b:00.0", "" for simulated ones."""

    name: str
    pci: str
    memory: int


@dataclass(frozen=True)
class Option:
    """An option that differs from its default: its value as text, and the environment variable it came from."""

    name: str
    variable: str
    value: str
    origin: str


@dataclass(frozen=True)
class Info:
    """What is loaded into this process.

    loaded: False where Fairlead is not; all else is empty then.
    version: of Fairlead. abi: "openmpi", "mpich" or "abi". mpi: what the host MPI says of itself, first line.
    provider: "cuda", "rocm", "sim" or "none". driver: the GPU driver's version number, 0 where it has none.
    active: whether device arrays may be passed to MPI now, between MPI_Init and MPI_Finalize.
    """

    loaded: bool = False
    version: str = ""
    abi: str = ""
    mpi: str = ""
    provider: str = "none"
    driver: int = 0
    active: bool = False
    devices: tuple[Device, ...] = ()
    options: tuple[Option, ...] = ()


def _function(name: str) -> Any:
    """A function that the preloaded library exports; None where it is not loaded."""
    return getattr(ctypes.CDLL(None), name, None)


def loaded() -> bool:
    """Is Fairlead loaded into this process?"""
    return _function("fairlead_info") is not None


def query(name: str) -> Any:
    """The answer of `name`, a function of query.h, from its JSON. Raises NotLoadedError."""
    function = _function(name)
    if function is None:
        raise NotLoadedError
    function.restype = ctypes.c_size_t
    function.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    needed = 1 << 16
    while True:
        text = ctypes.create_string_buffer(needed)
        needed = function(text, len(text))
        if needed <= len(text):
            return json.loads(text.value.decode("utf-8", "replace"))


def info() -> Info:
    """What is loaded into this process. Never raises. Initialises the GPU's driver, and so does not go with os.fork."""
    if not loaded():
        return Info()
    answer = query("fairlead_info")
    return Info(
        loaded=True,
        version=answer["version"],
        abi=answer["abi"],
        mpi=answer["mpi"],
        provider=answer["provider"],
        driver=answer["driver"],
        active=answer["active"],
        devices=tuple(Device(**device) for device in answer["devices"]),
        options=tuple(Option(**option) for option in answer["options"]),
    )


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Marks a part of the program, as a context or a decorator: its time appears in statistics and traces, and as a
    range in the profilers of NVIDIA and AMD (docs/tools/statistics.md). Phases nest, and each thread has its own; a coroutine
    must not wait inside one, since others of its thread would run inside, too. Where Fairlead is not loaded, nothing
    happens. Raises TypeError for a name that is no text.
    """
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is no name of a phase; accepted: a str")
    begin, end = _function("fairlead_phase_begin"), _function("fairlead_phase_end")
    if begin is not None:
        begin(name.encode())
    try:
        yield
    finally:
        if end is not None:
            end()
