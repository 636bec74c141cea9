# SPDX-License-Identifier: Apache-2.0
"""The canvas of the plots of this folder: a title, what the plot rests on, and a legend above the panels. Importing it
fails where matplotlib is missing."""

from __future__ import annotations

import os

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

INK, FAINT = "#222222", "#d9d9d9"
GREY, BLUE, GREEN, PURPLE, ORANGE = "#8f8f8f", "#0b5cad", "#12a39a", "#7b4fc0", "#d8572a"
pyplot.rcParams.update({
    "font.size": 11, "axes.edgecolor": "#999999", "axes.labelcolor": INK, "axes.titlesize": 11, "xtick.color": INK,
    "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
    "lines.linewidth": 1.8, "lines.markersize": 4.5})


def canvas(title, below, columns, rows, height, **options):
    """Made to be read 800 pixels wide. Returns the figure and its panels, row by row."""
    figure, axes = pyplot.subplots(rows, columns, figsize=(8, height), squeeze=False, **options)
    figure.text(0.02, 1 - 0.12 / height, title, fontsize=12.5, fontweight="bold", color=INK, va="top")
    figure.text(0.02, 1 - 0.38 / height, below, fontsize=9.5, color="#666666", va="top")
    for panel in axes.flat:
        panel.grid(True, color=FAINT, linewidth=0.6)
    return figure, list(axes.flat)


def save(figure, path):
    height = figure.get_figheight()
    entries = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            entries.setdefault(label, handle)
    figure.legend(list(entries.values()), list(entries), loc="upper left", bbox_to_anchor=(0.01, 1 - 0.52 / height),
                  ncol=6, fontsize=10, columnspacing=1.4, handlelength=1.8, borderaxespad=0.2)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.85 / height))
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    figure.savefig(path, dpi=100, pil_kwargs={"optimize": True})
    pyplot.close(figure)
