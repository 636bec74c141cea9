# SPDX-License-Identifier: Apache-2.0
"""What is measured, and the runs that follow from it for the contenders there are."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from comparison.contenders import alone, in_ranks

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Measurement:
    id: str
    about: str
    benchmark: tuple[str, ...]
    sizes: tuple[int, int] = (0, 0)  # doubling from the first to the second; zeros: the benchmark takes none
    quick: tuple[int, ...] = ()
    roles: tuple[str, ...] = ("fairlead",)
    placement: tuple[str, ...] = ("D", "D")
    variables: dict[str, str] = field(default_factory=dict)
    option: str = ""  # the option of the library that must exist
    blocks: bool = False  # the size is that of a block for each rank


POINT_TO_POINT, IN_ALL_RANKS = "point to point", "collectives"
MEASUREMENTS = (
    Measurement("copy", "raw copies", ("copy",), (1, 128 * MIB), (8, KIB, 64 * KIB, MIB, 64 * MIB), ("raw",), ()),
    Measurement("latency", "latency", ("latency",), (1, 4 * MIB), (8, KIB, 64 * KIB, MIB),
                ("fairlead", "peer", "nccl")),
    Measurement("bw", "bandwidth", ("bw", "-W", "64"), (8, 128 * MIB), (8, KIB, 64 * KIB, MIB, 64 * MIB),
                ("fairlead", "peer", "nccl")),
    Measurement("bibw", "bandwidth both ways", ("bibw", "-W", "64"), (8, 128 * MIB), (MIB, 64 * MIB),
                ("fairlead", "peer", "nccl")),
    Measurement("fresh", "latency from new buffers", ("latency", "--fresh"), (MIB, MIB), (MIB,),
                ("fairlead", "peer")),
    Measurement("staged", "bandwidth through host memory", ("bw", "-W", "64"), (64 * MIB, 64 * MIB), (64 * MIB,),
                variables={"FAIRLEAD_IPC": "off"}),
    Measurement("nodes", "bandwidth between pretended nodes", ("bw", "-W", "64"), (64 * MIB, 64 * MIB), (64 * MIB,),
                variables={"FAIRLEAD_NODES": "2"}, option="FAIRLEAD_NODES"),
    Measurement("nodes_host", "host bandwidth between pretended nodes", ("bw", "-W", "64"), (64 * MIB, 64 * MIB),
                (64 * MIB,), placement=("H", "H"), variables={"FAIRLEAD_NODES": "2"}, option="FAIRLEAD_NODES"),
    Measurement("host_overhead", "cost for host messages", ("host_overhead",), placement=()),
    Measurement("pairs", "pairs of ranks", ("pairs",), roles=("fairlead", "peer"), placement=()),
)


def collective(name, blocks=False):
    return Measurement(name, name, (name, "-M", "64g"), (8, 128 * MIB), (8, KIB, 64 * KIB, MIB, 16 * MIB),
                       ("fairlead", "peer", "nccl"), blocks=blocks)


COLLECTIVES = (collective("allreduce"), collective("allgather", True), collective("alltoall", True),
               collective("bcast"), collective("reduce_scatter"))
PAIRS_GPUS = 4
PAIRS_BYTES, PAIRS_QUICK_BYTES = 128 * MIB, 8 * MIB


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


def file_name(*parts):
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", "-".join(str(part) for part in parts))


def size(number):
    """8 B, 64 K, 1 M; with a point where it must."""
    for factor, letter in ((1 << 30, "G"), (MIB, "M"), (KIB, "K")):
        if number >= factor:
            return f"{number / factor:g} {letter}"
    return f"{number:g} B"


def probe(tool, contender):
    """A run so short that it tells no more than whether the contender works here, and its versions."""
    short = ["-m", "8:8", "-i", "10", "-x", "10", "--json", "{json}"]
    if contender.role == "raw":
        command = alone(tool, contender, ["copy", *short])
    else:
        via = ["--via", "nccl"] if contender.role == "nccl" else []
        command = in_ranks(tool, contender, 2, ["latency", *via, *short, "D", "D"])
    return Run(file_name("probe", contender.name), "probe", contender.name, "is it there?", command, 2)


def ranges(measurement, quick, largest):
    """Ranges of sizes, each a run; none where all sizes are above the largest."""
    if measurement.sizes == (0, 0):
        return [None]
    low, high = measurement.sizes
    if low == high:  # one size: the largest there is, where that is smaller
        return [(min(low, largest),) * 2]
    if quick:
        return [(number, number) for number in measurement.quick if number <= largest]
    return [(low, min(high, largest))] if low <= largest else []


def ranks_of(measurement, gpus):
    return max(gpus, 2) if measurement in COLLECTIVES else 2


def run_of(tool, measurement, contender, sizes, gpus, quick, largest):
    words = list(measurement.benchmark)
    if sizes:
        words += ["-m", f"{sizes[0]}:{sizes[1]}"]
    if contender.role == "nccl":
        words += ["--via", "nccl"]
    if measurement.id == "pairs":
        total = min(PAIRS_QUICK_BYTES if quick else PAIRS_BYTES, largest)
        words += ["--timeout", "0.02" if quick else "0.2", str(max(total // 8, 1)), "d"]
        command = in_ranks(tool, contender, gpus // 2 * 2, words)
        return command, 5
    if measurement.id == "host_overhead":
        words += ["--mpi", contender.abi, *(["--rounds", "2", "-i", "10000"] if quick else []), "--json", "{json}"]
        return alone(tool, contender, words), 3 if quick else 10
    words += ["--json", "{json}", *measurement.placement]
    count = (sizes[1] // sizes[0]).bit_length()
    if contender.role == "raw":
        return alone(tool, contender, words), 1 + 2 * count
    return in_ranks(tool, contender, ranks_of(measurement, gpus), words, measurement.variables), 2 + count


def plan(tool, contenders, options, gpus, quick, largest, measurements=MEASUREMENTS, rounds=1):
    """The runs of all rounds, and why measurements are left out."""
    runs, left_out = plan_round(tool, contenders, options, gpus, quick, largest, measurements)
    again = [replace(run, id=f"{run.id}-round{number}", about=f"{run.about}, round {number}", round=number)
             for number in range(2, rounds + 1) for run in runs]
    return runs + again, left_out


def plan_round(tool, contenders, options, gpus, quick, largest, measurements):
    """Contenders of one measurement follow each other, so that a machine that changes meanwhile changes for all of
    them."""
    runs, left_out = [], []
    for measurement in measurements:
        if measurement.option and measurement.option not in options:
            left_out.append(f"{measurement.about}: this Fairlead has no option {measurement.option}")
            continue
        if measurement.id == "pairs" and gpus < PAIRS_GPUS:
            left_out.append(f"{measurement.about}: {gpus} GPU{'s' * (gpus != 1)} here, {PAIRS_GPUS} are needed")
            continue
        for contender in contenders:
            if contender.role not in measurement.roles:
                continue
            parts = ranges(measurement, quick, largest // ranks_of(measurement, gpus) if measurement.blocks else largest)
            for sizes in parts:
                command, seconds = run_of(tool, measurement, contender, sizes, gpus, quick, largest)
                span = "" if not sizes else size(sizes[0]) + ("" if sizes[0] == sizes[1] else f" to {size(sizes[1])}")
                name = file_name(measurement.id, contender.name, *([sizes[0]] if len(parts) > 1 else []))
                runs.append(Run(name, measurement.id, contender.name, f"{measurement.about} {span}".strip(), command,
                                seconds, measurement.id == "pairs"))
    return runs, left_out
