# SPDX-License-Identifier: Apache-2.0
"""Draws the statistics of a job with matplotlib: a panel of horizontal bars for each kind of them."""

from __future__ import annotations

import textwrap

from figure import (CAPTION_CHARACTERS, CAPTION_ROW, COLOURS, FAINT, GREY, INK, NOTE, RIGHT, STYLE, TITLE, WIDTH, plain,
                    pyplot)
from matplotlib.ticker import MaxNLocator
from scales import number_text, size_text
from tallies import INDENT, TIME_UNITS, unit_of

# Inches, but for the characters.
LEFT, SHORT_LEFT, BAR, TWO_LINES, ABOVE, BELOW, BETWEEN = 1.9, 0.75, 0.21, 0.31, 0.3, 0.5, 0.12
LABEL_CHARACTERS, TREE_CHARACTERS, TEXT_CHARACTERS = 30, 27, 14.5  # of a label; of a bar's text in an inch
PALE = 0.35


def even_bytes(longest):
    """The largest power of two with at least two marks below the longest bar."""
    step = 1
    while longest / (2 * step) >= 2:
        step *= 2
    return [mark * step for mark in range(int(longest / step) + 1)]


def value_axis(axes, panel, longest):
    label, marks = panel.axis, MaxNLocator(4, steps=[1, 2, 5, 10], integer=panel.axis == "messages").tick_values(0, longest)
    texts = [*map(number_text, marks)]
    if panel.axis == "bytes":
        marks = even_bytes(longest)
        texts = [*map(size_text, marks)]
    elif panel.axis != "messages":
        name, scale = unit_of(longest, TIME_UNITS)
        steps = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(0, longest / scale)
        marks, texts, label = [step * scale for step in steps], [*map(number_text, steps)], f"{panel.axis} ({name})"
    inside = [(mark, text) for mark, text in zip(marks, texts) if mark <= longest]
    axes.set_xticks(*zip(*inside), fontsize=8)
    axes.set_xlabel(label, fontsize=8)
    axes.grid(True, axis="x", color=FAINT, linewidth=0.6)


def is_tree(panel):
    return any(bar.label.startswith(INDENT) for bar in panel.bars)


def label_of(panel, bar):
    if panel.long_labels:
        return bar.text
    most = TREE_CHARACTERS if is_tree(panel) else LABEL_CHARACTERS
    return plain(bar.label if len(bar.label) <= most else bar.label[:most - 1] + "…")


def draw_bars(axes, panel, width, labelled):
    """`width`: of the panel, in which the texts beside the bars stay."""
    def end_of(bar):
        return max(bar.value, *(bar.spread or (0,)))

    def text_width(bar):
        return 0 if panel.long_labels else max(map(len, bar.text.split("\n"))) / TEXT_CHARACTERS + 0.1

    longest = max(map(end_of, panel.bars)) or 1
    axes.set_xlim(0, max(longest, *(end_of(bar) * width / max(width - text_width(bar), width / 4) for bar in panel.bars)))
    for place, bar in enumerate(panel.bars):
        axes.barh(place, bar.value, 0.8, color=COLOURS[0], alpha=PALE, linewidth=0)
        axes.barh(place, bar.value if bar.full is None else bar.full, 0.8, color=COLOURS[0], linewidth=0)
        if bar.spread:
            axes.plot(bar.spread, [place, place], "|-", color=INK, linewidth=0.9, markersize=5, clip_on=False)
        if bar.median is not None:
            axes.plot(bar.median, place, "o", color=INK, markerfacecolor="white", markeredgewidth=0.9, markersize=4,
                      clip_on=False)
        text, at = bar.text, end_of(bar)
        if panel.long_labels:
            text, at = "\n".join(textwrap.wrap(bar.label, int(width * CAPTION_CHARACTERS))), 0
        axes.annotate(plain(text), (at, place), (4, 0), textcoords="offset points", va="center", fontsize=7.5, color=INK,
                      linespacing=1.15)
    axes.set_yticks(range(len(panel.bars)), [label_of(panel, bar) if labelled else "" for bar in panel.bars], fontsize=8)
    axes.set_ylim(len(panel.bars) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    if is_tree(panel):
        axes.tick_params(axis="y", pad=72 * (LEFT - RIGHT))
        for label in axes.get_yticklabels():
            label.set_horizontalalignment("left")
    axes.set_title(plain(panel.title), **NOTE)
    value_axis(axes, panel, longest)


def height_of(row):
    tall = row[0].long_labels or any("\n" in bar.text for bar in row[0].bars)
    return len(row[0].bars) * (TWO_LINES if tall else BAR)


def draw(picture):
    caption = [line for text in picture.caption
               for line in textwrap.wrap(text, int((WIDTH - 2 * RIGHT) * CAPTION_CHARACTERS), break_on_hyphens=False)]
    below = CAPTION_ROW * len(caption) + 0.2
    height = TITLE + sum(height_of(row) + ABOVE + BELOW for row in picture.rows) + below
    with pyplot.rc_context(STYLE):
        figure = pyplot.figure(figsize=(WIDTH, height))
        top = height - TITLE
        for row in picture.rows:
            left = SHORT_LEFT if row[0].long_labels else LEFT
            width = (WIDTH - left - RIGHT - BETWEEN * (len(row) - 1)) / len(row)
            bottom = top - ABOVE - height_of(row)
            for number, panel in enumerate(row):
                axes = figure.add_axes(((left + number * (width + BETWEEN)) / WIDTH, bottom / height, width / WIDTH,
                                        height_of(row) / height))
                draw_bars(axes, panel, width, number == 0)
            top = bottom - BELOW
        figure.text(RIGHT / WIDTH, 1 - 0.14 / height, picture.title, fontsize=12.5, fontweight="bold", color=INK,
                    va="top")
        figure.text(RIGHT / WIDTH, 0.1 / height, "\n".join(map(plain, caption)), fontsize=7.5, color=GREY, va="bottom",
                    linespacing=1.35)
    return figure
