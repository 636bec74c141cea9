# SPDX-License-Identifier: Apache-2.0
"""What a measurement is, and the runs that follow from it for the contenders there are. stages.py lists them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from comparison.contenders import alone, in_ranks

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
EACH_GPU = 0  # a rank for each GPU, two at least
EIGHT_PAIRS = -1  # 16 ranks, but no more than processors; four at least


@dataclass(frozen=True)
class Measurement:
    id: str
    about: str
    benchmark: tuple[str, ...]
    sizes: tuple[int, int] = (0, 0)  # doubling from the first to the second; zeros: the benchmark takes none
    quick: tuple[int | str, ...] = ()  # of the sizes or types
    roles: tuple[str, ...] = ("fairlead",)
    placement: tuple[str, ...] = ("D", "D")
    variables: dict[str, str] = field(default_factory=dict)
    option: str = ""  # the option of the library that must exist
    ranks: int = 2
    preload: bool = True  # no: the host MPI alone, without Fairlead
    blocks: bool = False  # the size is that of a block for each rank
    types: tuple[str, ...] = ()  # each a run of its own
    within: Callable[[int], tuple[str, ...]] = lambda largest: ()  # words that keep messages below the largest size
    seconds: float = 1  # expected for each size or type


PAIRS_GPUS = 4
PAIRS_BYTES, PAIRS_QUICK_BYTES = 128 * MIB, 8 * MIB


@dataclass(frozen=True)
class Part:
    """What one run of a measurement covers."""

    words: tuple[str, ...] = ()
    name: str = ""
    about: str = ""
    rows: int = 1


@dataclass
class Run:
    id: str
    measurement: str
    contender: str
    about: str
    command: list[str]  # "{json}" stands for the file
    seconds: float  # expected
    from_table: bool = False  # the benchmark has no JSON: its table is read
    round: int = 1
    may_fail: bool = False  # and that it does is a result, too


def file_name(*parts):
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", "-".join(str(part) for part in parts))


def size(number):
    """8 B, 64 K, 1 M; with a point where it must."""
    for factor, letter in ((GIB, "G"), (MIB, "M"), (KIB, "K")):
        if number >= factor:
            return f"{round(number / factor, 2):g} {letter}"
    return f"{number:g} B"


def probe(tool, contender):
    """A short run, which shows whether the contender works here, and its versions."""
    short = ["-m", "8:8", "-i", "10", "-x", "10", "--json", "{json}"]
    if contender.role == "raw":
        command = alone(tool, contender, ["copy", *short])
    else:
        benchmark = "allreduce" if contender.role == "nccl" else "latency"
        command = in_ranks(tool, contender, 2, [benchmark, *contender.words, *short, "D", "D"])
    return Run(file_name("probe", contender.name), "probe", contender.name, "is it there?", command, 2)


def ranges(measurement, quick, largest):
    """Ranges of sizes, each a run; none where all sizes are above the largest."""
    low, high = measurement.sizes
    if low == high:  # one size: the largest there is, where that is smaller
        return [(min(low, largest),) * 2]
    if quick:
        return [(number, number) for number in measurement.quick if number <= largest]
    return [(low, min(high, largest))] if low <= largest else []


def parts(measurement, quick, largest):
    if measurement.types:
        return [Part(("-T", name), name, name) for name in (quick and measurement.quick or measurement.types)]
    if measurement.sizes == (0, 0):
        return [Part()]
    found = ranges(measurement, quick, largest)
    return [Part(("-m", f"{low}:{high}"), str(low) if len(found) > 1 else "",
                 size(low) + ("" if low == high else f" to {size(high)}"), (high // low).bit_length())
            for low, high in found]


def ranks_of(measurement, gpus):
    if measurement.ranks == EIGHT_PAIRS:
        return max(4, min(16, len(os.sched_getaffinity(0)) // 2 * 2))
    return measurement.ranks or max(gpus, 2)


def sharing(measurement, gpus):
    """Says so where ranks share GPUs."""
    ranks = ranks_of(measurement, gpus)
    if "D" not in measurement.placement or not 0 < gpus < ranks:
        return ""
    return f", {ranks} ranks on {gpus} GPU{'s' * (gpus != 1)}"


def run_of(tool, measurement, contender, part, gpus, quick, largest):
    """The command, and how many seconds it takes."""
    words = [*measurement.benchmark, *part.words, *measurement.within(largest), *contender.words]
    if measurement.id == "pairs":
        total = min(PAIRS_QUICK_BYTES if quick else PAIRS_BYTES, largest)
        words += ["--timeout", "0.02" if quick else "0.2", str(max(total // 8, 1)), "d"]
        command = in_ranks(tool, contender, gpus // 2 * 2, words)
        return command, 5
    if measurement.id == "host_overhead":
        words += ["--mpi", contender.abi, *(["--rounds", "2", "-i", "10000"] if quick else []), "--json", "{json}"]
        return alone(tool, contender, words), 3 if quick else 10
    words += ["--json", "{json}", *measurement.placement]
    if contender.role == "raw":
        return alone(tool, contender, words), 1 + 2 * part.rows
    command = in_ranks(tool, contender, ranks_of(measurement, gpus), words, measurement.variables,
                       measurement.preload)
    return command, 2 + measurement.seconds * part.rows


def plan(stage, tool, contenders, options, gpus, quick, largest, rounds=1):
    """The runs of all rounds, and why measurements are left out."""
    runs, left_out = plan_round(stage, tool, contenders, options, gpus, quick, largest)
    again = [replace(run, id=f"{run.id}-round{number}", about=f"{run.about}, round {number}", round=number)
             for number in range(2, rounds + 1) for run in runs]
    return runs + again, left_out


def plan_round(stage, tool, contenders, options, gpus, quick, largest):
    """Contenders of one measurement follow each other, so that a machine that changes meanwhile changes for all of
    them."""
    runs, left_out = [], []
    for measurement in stage.measurements:
        if measurement.option and measurement.option not in options:
            left_out.append(f"{measurement.about}: this Fairlead has no option {measurement.option}")
            continue
        if measurement.id == "pairs" and gpus < PAIRS_GPUS:
            left_out.append(f"{measurement.about}: {gpus} GPU{'s' * (gpus != 1)} here, {PAIRS_GPUS} are needed")
            continue
        for contender in contenders:
            if contender.role not in measurement.roles:
                continue
            greatest = largest // ranks_of(measurement, gpus) if measurement.blocks else largest
            for part in parts(measurement, quick, greatest):
                command, seconds = run_of(tool, measurement, contender, part, gpus, quick, largest)
                name = file_name(measurement.id, contender.name, *filter(None, [part.name]))
                about = f"{measurement.about} {part.about}".strip() + sharing(measurement, gpus)
                runs.append(Run(name, measurement.id, contender.name, about, command, seconds,
                                measurement.id == "pairs",
                                may_fail=stage.peers_may_fail and contender.role == "peer"))
    return runs, left_out
