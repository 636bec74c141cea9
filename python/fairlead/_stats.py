# SPDX-License-Identifier: Apache-2.0
"""What this process has sent and received so far, as Fairlead counts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._native import query


@dataclass(frozen=True)
class Traffic:
    """Device messages that took one path, and their bytes."""

    messages: int
    bytes: int


@dataclass(frozen=True)
class Tally:
    """Calls of an MPI function, or the device messages of its calls that took one path (path, else "").

    bytes: of all of them together. seconds: the sum of their times. The percentiles and the longest are in
    microseconds and right to 7 %; max_us is exact.
    """

    function: str
    path: str
    count: int
    bytes: int
    seconds: float
    p50_us: float
    p90_us: float
    p99_us: float
    max_us: float


@dataclass(frozen=True)
class Phase:
    """A phase of the program by its path, such as ("solve", "halo exchange"). Times are in seconds; own is without
    the phases inside."""

    path: tuple[str, ...]
    count: int
    seconds: float
    own: float


@dataclass(frozen=True)
class Stats:
    """The counts of this process since it started.

    seconds: since MPI_Init. traffic: by the path of the bytes, such as "peer copies", "staged in host memory" and
    "collectives on the GPU"; all paths are there, also unused ones. fallbacks: how many messages were not
    copied from GPU to GPU directly, by the reason. calls, messages and phases are empty unless the job was started with
    `--stats` (FAIRLEAD_STATS=on) or with a trace.
    """

    seconds: float
    traffic: dict[str, Traffic]
    fallbacks: dict[str, int]
    calls: tuple[Tally, ...]
    messages: tuple[Tally, ...]
    phases: tuple[Phase, ...]


def _tally(row: dict[str, Any]) -> Tally:
    return Tally(**{"path": "", **row})


def stats() -> Stats:
    """What this process has done so far; other ranks have their own. May be called while messages are in flight,
    which count when their bytes have moved. Raises NotLoadedError where Fairlead is not loaded into this process.
    """
    answer = query("fairlead_statistics")
    return Stats(
        seconds=answer["seconds"],
        traffic={row["path"]: Traffic(row["messages"], row["bytes"]) for row in answer["traffic"]},
        fallbacks={row["reason"]: row["count"] for row in answer["fallbacks"]},
        calls=tuple(map(_tally, answer["calls"])),
        messages=tuple(map(_tally, answer["messages"])),
        phases=tuple(Phase(tuple(row["path"]), row["count"], row["seconds"], row["self"])
                     for row in answer["phases"]),
    )
