# SPDX-License-Identifier: Apache-2.0
"""What `fairlead run --stats-file` wrote, as bars: the paths of device messages, the time in MPI calls and in phases with
their spread over the ranks, and the reasons for fallbacks."""

from __future__ import annotations

import os
from dataclasses import dataclass

from failure import usage
from runs import read_alone
from scales import BYTE_UNITS, number_text

MOST_BARS = 16  # of a panel; the calls beyond share the last one
TIME_UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
INDENT = 3 * "\N{NO-BREAK SPACE}"  # SVG drops plain ones


@dataclass
class Bar:
    label: str
    value: float
    text: str  # beside the bar, one or two lines; of long labels before it
    full: float | None = None  # the part in full colour; None: all of it
    spread: tuple[float, float] | None = None  # the least and the most of any rank
    median: float | None = None  # of the ranks


@dataclass
class Panel:
    title: str
    axis: str
    bars: list[Bar]
    long_labels: bool = False  # sentences, which stand over their bars


@dataclass
class TalliesPicture:
    title: str
    rows: list[list[Panel]]  # panels of one row share their labels
    caption: list[str]


def read(files):
    return read_alone(files, "statistics", lambda about: "traffic" in about and "calls" in about)


def unit_of(value, units):
    return next((unit for unit in units if value >= unit[1]), units[-1])


def description(value, units):
    name, scale = unit_of(value, units)
    return f"{number_text(float(f'{value / scale:.3g}'))} {name}"


def time_text(seconds):
    return description(seconds, TIME_UNITS)


def bytes_text(size):
    return description(size, BYTE_UNITS)


def count_text(count, word):
    return f"{count:,} {word}{'s' * (count != 1)}"


def messages(about):
    """Two panels: bytes and messages of each path. What was buffered first counts in another path, too."""
    ways = [way for way in about["traffic"] if way["messages"] > 0]
    ways.sort(key=lambda way: (way["path"].startswith("buffered"), -way["bytes"]))

    def panel(title, axis, key, text):
        return Panel(title, axis, [Bar(way["path"], way[key], text(way[key]),
                                       0 if way["path"].startswith("buffered") else None) for way in ways])

    return [panel("Device messages by path; pale: also buffered before", "bytes", "bytes", bytes_text),
            panel("", "messages", "messages", "{:,}".format)] if ways else []


def calls(about):
    ranks = about["ranks"]
    found = sorted(about["calls"], key=lambda call: -call["seconds"])
    if len(found) > MOST_BARS:
        rest = found[MOST_BARS - 1:]
        found = found[:MOST_BARS - 1]
    else:
        rest = []
    bars = []
    for call in found:
        words = [count_text(call["count"], "call"), bytes_text(call["bytes"]) if call["bytes"] else ""]
        words += [f"{key} {time_text(call[f'{key}_us'] * 1e-6)}" for key in ("p50", "p99")]
        bar = Bar(call["function"], call["seconds"] / ranks, ", ".join(filter(None, words)))
        if "by_rank" in call and ranks > 1:
            time = call["by_rank"]["seconds"]
            bar.spread, bar.median = (time["min"], time["max"]), time["median"]
            bar.text = (f"{time_text(time['min'])} (rank {time['min_rank']}) to {time_text(time['max'])} "
                        f"(rank {time['max_rank']})\n{bar.text}")
        bars.append(bar)
    if rest:
        count = count_text(sum(call["count"] for call in rest), "call")
        bars.append(Bar(f"{len(rest)} others", sum(call["seconds"] for call in rest) / ranks, count))
    title = "Time in MPI calls"
    if any(bar.spread for bar in bars):
        title += "; whiskers: from the rank with the least to that with the most; circle: median"
    return [Panel(title, "mean over the ranks", bars)] if bars else []


def phases(about):
    """In the order of their tree. `self` is a sum over the ranks."""
    bars = [Bar(INDENT * (len(phase["path"]) - 1) + phase["path"][-1], phase["mean"],
                f"{time_text(phase['min'])} to {time_text(phase['max'])}, {count_text(phase['count'], 'time')}",
                phase["self"] / about["ranks"], (phase["min"], phase["max"])) for phase in about["phases"]]
    title = "Phases; full colour: without the phases inside; whiskers: from the fastest to the slowest rank"
    return [Panel(title, "mean over the ranks", bars[:MOST_BARS])] if bars else []


def fallbacks(about):
    found = sorted(about["fallbacks"], key=lambda fallback: -fallback["count"])
    bars = [Bar(fallback["reason"], fallback["count"], f"{fallback['count']:,}", 0) for fallback in found]
    return [Panel("Why messages were not copied from GPU to GPU directly", "messages", bars, True)] if bars else []


def compose(about, file):
    try:
        rows = [row for row in (messages(about), calls(about), phases(about), fallbacks(about)) if row]
        ranks = about["ranks"]
        title = f"Statistics of {count_text(ranks, 'rank')}, {time_text(about['seconds'])}"
        left_out = len(about["phases"]) - MOST_BARS
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):
        raise usage(f"{file} has statistics that `fairlead run --stats-file` does not write; accepted: its file as it "
                    "is") from None
    if not rows:
        raise usage(f"{file} has no calls and no messages; accepted: statistics of a job that called MPI after "
                    "MPI_Init")
    caption = [f"{os.path.basename(file)}; p50 and p99 are of single calls."]
    if not about["traffic"] or not any(way["messages"] for way in about["traffic"]):
        caption.append("No device messages.")
    if any(bar.median is not None for row in rows for panel in row for bar in panel.bars):
        caption.append("In a barrier, the rank with the least time is the one that the others waited for.")
    if left_out > 0:
        caption.append(f"{count_text(left_out, 'phase')} more {'are' if left_out > 1 else 'is'} not drawn.")
    return TalliesPicture(title, rows, [" ".join(caption)])
