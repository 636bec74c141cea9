# SPDX-License-Identifier: Apache-2.0
"""Draws a picture as text, with plotext: as wide as the terminal, or 80 columns; in colour only on a terminal."""

from __future__ import annotations

import math
import os
import shutil
import textwrap
from typing import NamedTuple

import plotext

from failure import usage
from scales import even_marks, number_text, size_marks, size_text, value_marks

# Letters tell the series apart where there is no colour.
MARKERS = "ox+*#@%&"
COLOURS = {"blue": 34, "orange": 33, "green": 32, "magenta": 35, "cyan": 36, "red": 31}  # and their codes
WIDEST, PANEL, RATIO_PANEL = 120, 17, 10
SIZE_LABEL = 10  # characters that one takes with the space around it


class Line(NamedTuple):
    x: list[float]
    y: list[float]
    marker: str
    colour: str


class Axis(NamedTuple):
    low: float
    high: float
    marks: list[float]
    labels: list[str]


def canvas(lines, across, up, width, height, coloured):
    """One plot. plotext has had two interfaces, before its version 6 and since."""
    if hasattr(plotext, "clear_figure"):
        plotext.clear_figure()
        plotext.limit_size(False, False)
        plotext.plotsize(width, height)
        plotext.theme("clear")
        for line in lines:
            plotext.plot(line.x, line.y, marker=line.marker, color=line.colour)
        plotext.xlim(across.low, across.high)
        plotext.ylim(up.low, up.high)
        plotext.xticks(across.marks, across.labels)
        plotext.yticks(up.marks, up.labels)
        text = plotext.build()
        return text if coloured else plotext.uncolorize(text)
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    plotext.terminal.limit(False, False)
    figure.plot_size(width, height)
    for line in lines:
        figure.draw(figure.signal(line.x, line.y, marker=plotext.marker(line.marker, line.colour)).lines(True))
    figure.ruler("x").lim(across.low, across.high).ticks(across.marks, across.labels)
    figure.ruler("y").lim(up.low, up.high).ticks(up.marks, up.labels)
    return figure.build().string(colorless=not coloured)


def size_axis(sizes, width):
    low, high = math.log2(min(sizes)), math.log2(max(sizes))
    marks = size_marks(sizes, width // SIZE_LABEL)
    margin = 0 if low < high else 1
    return Axis(low - margin, high + margin, [math.log2(mark) for mark in marks], [size_text(mark) for mark in marks])


def logarithmic_axis(values, height):
    low, high = min(values) / 1.1, max(values) * 1.1
    marks = value_marks(low, high, height // 2)
    return Axis(math.log10(low), math.log10(high), [math.log10(mark) for mark in marks], [*map(number_text, marks)])


def percent_axis(height):
    marks = even_marks(0, 100, height // 2)
    return Axis(0, 100, marks, [*map(number_text, marks)])


def panel(series, logarithmic, width, height, coloured):
    """series: [(style, {bytes: value})]"""
    known = [(style, values) for style, values in series if values]
    up = (logarithmic_axis([value for _, values in known for value in values.values()], height) if logarithmic
          else percent_axis(height))
    colours = list(COLOURS)
    lines = [Line([math.log2(size) for size in values], [math.log10(v) if logarithmic else v for v in values.values()],
                  MARKERS[style % len(MARKERS)], colours[style % len(colours)]) for style, values in known]
    return canvas(lines, size_axis([size for _, values in known for size in values], width), up, width, height, coloured)


def legend(labels, coloured):
    for style, label in labels.items():
        marker, code = MARKERS[style % len(MARKERS)], list(COLOURS.values())[style % len(COLOURS)]
        yield f"  \x1b[{code}m{marker}\x1b[0m {label}" if coloured else f"  {marker} {label}"


def draw(picture, stream):
    if picture.names:
        raise usage(f"a picture of each {picture.size} has bars; accepted: -o FILE.png, .svg or .html")
    on_terminal = stream.isatty()
    width = min(WIDEST, shutil.get_terminal_size().columns) if on_terminal else 80
    coloured = on_terminal and not os.environ.get("NO_COLOR")
    parts = [picture.title, *legend(picture.labels, coloured)]
    for column in picture.columns:
        where = f", {column.title}" if column.title else ""
        for quantity in picture.quantities:
            series = [(one.style, {size: value.middle for size, value in one.values[quantity.name].items()})
                      for one in column.series]
            parts += ["", f"{quantity.label}{where}",
                      panel(series, quantity.logarithmic, width, PANEL, coloured).rstrip("\n")]
        if picture.compared and (ratios := column.ratios(picture.compared)):
            ones = {size: 1.0 for _, values in ratios for size in values}
            series = [(0, dict(sorted(ones.items()))), *((one.style, values) for one, values in ratios)]
            parts += ["", f"{picture.compared.title} relative to {picture.first} ({picture.compared.better} is "
                      f"better){where}", panel(series, True, width, RATIO_PANEL, coloured).rstrip("\n")]
    parts += [picture.axis.center(width).rstrip(), ""]
    for line in [*picture.caption, f"Lines: {picture.middle}."]:
        parts += textwrap.wrap(line, width, subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(parts)
