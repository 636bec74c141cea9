# SPDX-License-Identifier: Apache-2.0
"""What examples/ghost_exchange writes: timings of its variants and process grids (--json), and the field (-o)."""

from __future__ import annotations

import os
from dataclasses import dataclass

from failure import usage
from files import opened, opening, parsed, read_text

NUMPY_OPENING = b"\x93NUMPY"
SERIES = {"variants": "Variants of the exchange", "strong": "Strong scaling: the same field on more GPUs",
          "weak": "Weak scaling: as much field for each GPU"}


@dataclass
class Timing:
    label: str  # of its file
    series: str
    variant: str
    ranks: int
    cells: tuple[int, int]
    iteration_us: float
    ghost_us: float


@dataclass
class GhostPicture:
    timings: list[Timing]
    caption: list[str]

    def of(self, series):
        return [timing for timing in self.timings if timing.series == series]


def is_field(files):
    return any(opening(file).startswith(NUMPY_OPENING) for file in files)


def is_timings(files):
    return any(b'"program": "ghost_exchange"' in opening(file) for file in files)


def grid_text(pair):
    return "{} by {}".format(*pair)


def read_timings(file, label):
    try:
        about = parsed(read_text(file, "accepted: what ghost_exchange --json wrote"))
        if about["program"] != "ghost_exchange":
            raise ValueError
        label = label or about.get("name") or os.path.splitext(os.path.basename(file))[0]
        # A file of one run says nothing of a series.
        found = [Timing(label, run.get("series", "variants"), run["variant"], run["ranks"], tuple(run["cells"]),
                        1e6 * run["total_s"] / run["iterations"], run["ghost_cell"]["median_us"])
                 for run in about["runs"]]
        if not found or any(timing.series not in SERIES or timing.ghost_us <= 0 for timing in found):
            raise ValueError
        first = about["runs"][0]
        facts = [label, first["mpi"], f"{first['provider']} GPUs"]
        if first["provider"] == "SIM":
            facts[-1] = "simulated GPUs, whose timings are not valid"
        facts += [f"halo {first['halo']}", "corners" if first["corners"] else "no corners", about.get("date", "")]
        return found, [": ".join([facts[0], ", ".join(filter(None, facts[1:]))]), about.get("command", "")]
    except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError):
        raise usage(f"{file} holds no timings of ghost_exchange; accepted: what its --json wrote, and what "
                    "examples/ghost_exchange/scaling wrote") from None


def compose(files, labels):
    if labels and len(labels) != len(files):
        raise usage(f"--label: {len(labels)} given for {len(files)} file{'s' * (len(files) != 1)}; accepted: one for "
                    "each file, in their order")
    timings, caption = [], []
    for file, label in zip(files, labels or [""] * len(files)):
        found, facts = read_timings(file, label)
        timings += found
        caption += filter(None, facts)
    return GhostPicture(timings, list(dict.fromkeys(caption)))


def read_field(file):
    import numpy
    try:
        with opened(file) as content:
            field = numpy.load(content, allow_pickle=False)
    except (EOFError, OSError, ValueError):
        field = None
    if field is None or field.ndim != 2 or field.dtype.kind != "f" or not field.size:
        raise usage(f"{file} is no field; accepted: a .npy file of numbers in rows and columns, as ghost_exchange -o "
                    "writes it")
    return field
