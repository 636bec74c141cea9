# SPDX-License-Identifier: Apache-2.0
"""Draws the heat maps of `fairlead matrix` with matplotlib, a row for each way, a number in each cell."""

from __future__ import annotations

import math
import textwrap

from figure import CAPTION_CHARACTERS, CAPTION_ROW, GREY, INK, NOTE, RIGHT, STYLE, TITLE, colour_bar, plain, pyplot
from matplotlib.colors import LogNorm
from scales import number_text

# Inches.
CELL, NARROWEST, LEFT, BAR_RIGHT, ABOVE, BETWEEN = 0.42, 2.2, 0.95, 0.4, 0.62, 0.75
NARROWEST_SCALE = 1.5


def limits(rows, place):
    """One scale for a quantity in all ways, so that they compare; so wide that noise does not fill it."""
    values = [value.middle for _, maps in rows for value in maps[place].values.values() if value.middle > 0]
    low, high = (min(values), max(values)) if values else (1, 1)
    if rows[0][1][place].lower_is_better:
        return low, max(high, low * NARROWEST_SCALE)
    return min(low, high / NARROWEST_SCALE), high


def draw_map(axes, one, gpus, scale):
    side = len(gpus)
    grid = [[one.values[(row, column)].middle if (row, column) in one.values else math.nan for column in range(side)]
            for row in range(side)]
    colour_bar(axes.pcolormesh(range(side + 1), range(side + 1), grid, norm=scale,
                               cmap="cividis_r" if one.lower_is_better else "cividis"))
    for (row, column), value in one.values.items():
        dark = scale(value.middle) < 0.55
        text = "\n".join(filter(None, (number_text(value.middle), one.links.get((row, column)))))
        axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=7 if len(text) < 6 else 6,
                  color="white" if dark != one.lower_is_better else "black")
    axes.set_xticks([place + 0.5 for place in range(side)], map(str, range(side)), fontsize=7)
    axes.set_yticks([place + 0.5 for place in range(side)], gpus, fontsize=7)
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.set_title(one.title, **NOTE)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xlabel("to GPU", fontsize=8)
    axes.set_ylabel("from GPU", fontsize=8)


def draw(picture):
    side = max(NARROWEST, CELL * len(picture.gpus))
    columns, rows = len(picture.rows[0][1]), len(picture.rows)
    width = columns * (LEFT + side + BAR_RIGHT) + RIGHT
    caption = [line for text in picture.caption
               for line in textwrap.wrap(text, int((width - 2 * RIGHT) * CAPTION_CHARACTERS), break_on_hyphens=False)]
    below = CAPTION_ROW * len(caption) + 0.25
    height = TITLE + rows * (ABOVE + side + BETWEEN) + below
    with pyplot.rc_context(STYLE):
        figure = pyplot.figure(figsize=(width, height))
        for row, (title, maps) in enumerate(picture.rows):
            top = height - TITLE - row * (ABOVE + side + BETWEEN)
            figure.text(RIGHT / width, (top - 0.1) / height, plain(title), fontsize=10, color=INK, va="top")
            for column, one in enumerate(maps):
                axes = figure.add_axes(((LEFT + column * (LEFT + side + BAR_RIGHT)) / width, (top - ABOVE - side) / height,
                                        side / width, side / height))
                draw_map(axes, one, picture.gpus, LogNorm(*limits(picture.rows, column)))
        figure.text(RIGHT / width, 1 - 0.14 / height, picture.title, fontsize=12.5, fontweight="bold", color=INK,
                    va="top")
        figure.text(RIGHT / width, 0.1 / height, "\n".join(map(plain, caption)), fontsize=7.5, color=GREY, va="bottom",
                    linespacing=1.35)
    return figure
