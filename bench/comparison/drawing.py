# SPDX-License-Identifier: Apache-2.0
"""How the plots of a comparison look: colours, canvas, axes. A contender has one colour in all of them.

Made to be read 800 pixels wide.
"""

from __future__ import annotations

import os

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from comparison.goals import AT_MOST
from comparison.measurements import size
from comparison.tables import TITLES

COLOURS = {"fairlead": ("#0b5cad", "#12a39a", "#7b4fc0", "#4a4a8a"), "peer": ("#d8572a",), "nccl": ("#6c9a1f",),
           "raw": ("#6f6f6f",)}
FRONT = {"raw": 2, "nccl": 3, "peer": 4, "fairlead": 5}  # where lines lie upon each other
MARKERS = {"fairlead": "osD^", "peer": "v", "nccl": "P", "raw": " "}
INK, FAINT = "#222222", "#d9d9d9"
STYLE = {"font.size": 11, "axes.edgecolor": "#999999", "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
         "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False, "lines.linewidth": 1.8,
         "lines.markersize": 4.5}


def look(results, contender):
    peers = [c.name for c in results.of_role(contender.role)]
    colours, markers = COLOURS[contender.role], MARKERS[contender.role]
    at = peers.index(contender.name)
    return {"color": colours[at % len(colours)], "marker": markers[at % len(markers)],
            "linestyle": "--" if contender.role == "raw" else "-",
            "label": TITLES.get(contender.role, contender.title)}


def subtitle(results, about):
    words = [results.gpus(), about["fairlead"].replace("fairlead", "Fairlead"), about["date"]]
    if results.simulated():
        words.append("times on simulated GPUs mean nothing")
    return ", ".join(words)


def canvas(title, below, columns=1, rows=1, height=5.0, **options):
    figure, axes = pyplot.subplots(rows, columns, figsize=(8, height), squeeze=False, **options)
    figure.text(0.02, 1 - 0.12 / height, title, fontsize=12.5, fontweight="bold", color=INK, va="top")
    figure.text(0.02, 1 - 0.38 / height, below, fontsize=9.5, color="#666666", va="top")
    return figure, axes


def save(figure, folder, name):
    """The legend stands in one row below the title, where no line runs through it."""
    height = figure.get_figheight()
    entries = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            entries.setdefault(label, handle)
    figure.legend(list(entries.values()), list(entries), loc="upper left", bbox_to_anchor=(0.01, 1 - 0.52 / height),
                  ncol=6, fontsize=10, columnspacing=1.4, handlelength=1.8, borderaxespad=0.2)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.85 / height))
    figure.savefig(os.path.join(folder, name), dpi=100)
    pyplot.close(figure)


def size_axis(axes, numbers, most=9):
    """Bytes, a mark at every power of two, a label at every second, third, ... of them, so that they do not touch."""
    axes.set_xscale("log", base=2)
    low, high = min(numbers), max(numbers)
    if low == high:
        axes.set_xlim(low / 2, high * 2)
    first, last = low.bit_length() - 1, high.bit_length() - 1
    step = max(1, -(-(last - first + 1) // most))
    axes.xaxis.set_major_locator(FixedLocator([1 << power for power in range(first - first % step, last + 1, step)]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: size(number).removesuffix(" B")))
    axes.xaxis.set_minor_locator(FixedLocator([1 << power for power in range(first, last + 1)]))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(True, which="major", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)


def log_y(axes):
    """Enough labels also where all values lie within one decade."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    steps = (1, 1.5, 2, 3, 5, 7) if high / low < 15 else (1, 2, 5) if high / low < 3000 else (1,)
    axes.yaxis.set_major_locator(MaxNLocator(5) if high / low < 2 else LogLocator(base=10, subs=steps))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def goal_band(axes, goal, left, right):
    """Shades what meets the goal."""
    ends = (axes.get_ylim()[0], goal.limit) if goal.best == AT_MOST else (goal.limit, axes.get_ylim()[1])
    axes.fill_between([left, right], *ends, color="#7fbf7f", alpha=0.22, linewidth=0, zorder=1, label="meets the goal")
    axes.plot([left, right], [goal.limit] * 2, color="#3c8c3c", linewidth=1.2, zorder=2)
