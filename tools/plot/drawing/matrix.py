# SPDX-License-Identifier: Apache-2.0
"""What `fairlead matrix --json` wrote, as heat maps: a square of GPUs for each way to move bytes and each quantity."""

from __future__ import annotations

from dataclasses import dataclass

from failure import usage
from quantities import QUANTITIES, Value, spread
from runs import facts
from scales import size_text

# Panels in a row, in this order; the words are those of --quantity.
QUANTITIES_OF_PAIRS = {
    "bandwidth": ("one way", QUANTITIES["bandwidth"].unit, "bytes", lambda row: spread(row["bandwidth_mb_s"], 1e-3)),
    "both": ("both ways at once", QUANTITIES["bandwidth"].unit, "bytes",
             lambda row: spread(row["both_ways_mb_s"], 1e-3)),
    "latency": ("latency", QUANTITIES["latency"].unit, "latency_bytes", lambda row: spread(row["latency_us"])),
}


@dataclass
class HeatMap:
    title: str
    lower_is_better: bool
    values: dict[tuple[int, int], Value]  # from one GPU to another
    links: dict[tuple[int, int], str]  # what connects them; of one map in a row


@dataclass
class MatrixPicture:
    title: str
    gpus: list[str]  # their labels
    rows: list[tuple[str, list[HeatMap]]]  # of each way: its title, and a map for each quantity
    caption: list[str]


def heat_map(name, rows):
    title, unit, size, of = QUANTITIES_OF_PAIRS[name]
    values = {(row["from"], row["to"]): of(row) for row in rows}
    links = {(row["from"], row["to"]): row["link"] for row in rows} if name == "bandwidth" else {}
    return HeatMap(f"{title} ({unit}), {description(rows[0][size])}", name == "latency", values, links)


def description(size):
    return size_text(size) + " B" * (size < 1024)


def labels(about):
    """GPU numbers, with the NUMA nodes where there are several."""
    nodes = [gpu["numa"] for gpu in about["gpus"]]
    return [f"{number}, NUMA {node}" if len(set(nodes)) > 1 else str(number) for number, node in enumerate(nodes)]


def compose(about, file, asked):
    for name in asked:
        if name not in QUANTITIES_OF_PAIRS:
            raise usage(f"--quantity: '{name}' is not accepted for matrix; accepted: {', '.join(QUANTITIES_OF_PAIRS)}")
    try:
        rows = []
        for way in about["ways"]:
            found = [row for row in about["results"] if row["way"] == way["way"]]
            if found:
                rows.append((way["title"], [heat_map(name, found) for name in dict.fromkeys(asked or QUANTITIES_OF_PAIRS)]))
        side = len(about["gpus"])
        inside = all(0 <= end < side for _, maps in rows for one in maps for pair in one.values for end in pair)
        if not rows or not inside:
            raise ValueError
        caption = [", ".join(facts(about)), about["advice"], about["command"]]
        return MatrixPicture("Every GPU to every other", labels(about), rows, caption)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise usage(f"{file} has results that `fairlead matrix --json` does not write; accepted: its file as it "
                    "is") from None
