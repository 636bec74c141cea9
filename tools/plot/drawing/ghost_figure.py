# SPDX-License-Identifier: Apache-2.0
"""Draws what examples/ghost_exchange writes, with matplotlib: the field as a heat map, timings as bars and lines."""

from __future__ import annotations

import os
import textwrap

from figure import (CAPTION_CHARACTERS, CAPTION_ROW, COLOURS, FAINT, GREY, INK, NOTE, RIGHT, STYLE, TITLE, WIDTH, look,
                    plain, pyplot, room_around, value_axis)
from ghost import SERIES, grid_text
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from scales import number_text

# Inches.
LEFT, BAR, LINES, ABOVE, BELOW_LINES, LEGEND = 1.25, 0.19, 2.5, 0.5, 0.62, 0.3
PICTURE, COLOUR_BAR, MARGIN = 5.2, 0.18, 0.75
MOST_CELLS = 2000  # that are drawn in a row


def draw_field(field, file):
    """Row 0 is at the bottom, as in the program. Large fields are thinned out."""
    rows, columns = field.shape
    step = -(-max(rows, columns) // MOST_CELLS)
    wide, high = PICTURE * min(1, columns / rows), PICTURE * min(1, rows / columns)
    wide, high = max(wide, 0.6), max(high, 0.6)
    width, height = max(wide + 2 * MARGIN + 0.9, 4.0), high + TITLE + MARGIN
    with pyplot.rc_context(STYLE):
        figure = pyplot.figure(figsize=(width, height))
        axes = figure.add_axes((MARGIN / width, 0.55 / height, wide / width, high / height))
        image = axes.imshow(field[::step, ::step], origin="lower", cmap="cividis", aspect="auto",
                            interpolation="nearest", extent=(0, columns, 0, rows))
        axes.set_xlabel("column i")
        axes.set_ylabel("row j")
        axes.spines[:].set_visible(False)
        bar = figure.add_axes(((MARGIN + wide + 0.15) / width, 0.55 / height, COLOUR_BAR / width, high / height))
        figure.colorbar(image, cax=bar, label="value of a cell").outline.set_visible(False)
        figure.text(RIGHT / width, 1 - 0.14 / height, plain(f"{os.path.basename(file)}: {columns} by {rows} cells"),
                    fontsize=12.5, fontweight="bold", color=INK, va="top")
    return figure


def draw_bars(axes, timings, labels):
    """A group for each variant, a bar in it for each file: an iteration, and in full colour its ghost cells."""
    variants = list(dict.fromkeys(timing.variant for timing in timings))
    found = {(timing.variant, timing.label): timing for timing in timings}
    room = len(labels) + 1
    longest = max(max(timing.iteration_us, timing.ghost_us) for timing in timings)
    for (variant, label), timing in found.items():
        place, first = labels.index(label), found.get((variant, labels[0]))
        at, colour = variants.index(variant) * room + place, COLOURS[place % len(COLOURS)]
        axes.barh(at, timing.iteration_us, 0.86, color=colour, alpha=0.35)
        axes.barh(at, timing.ghost_us, 0.86, color=colour)
        text = f"{number_text(timing.ghost_us)} of {number_text(timing.iteration_us)}"
        if place and first:
            text += f"  ({timing.ghost_us / first.ghost_us:.2f})"
        end = max(timing.iteration_us, timing.ghost_us) + longest / 120
        axes.text(end, at, text, va="center", fontsize=8, color=INK)
    axes.set_yticks([row * room + (len(labels) - 1) / 2 for row in range(len(variants))], map(plain, variants))
    axes.set_ylim(len(variants) * room - 1, -1)
    axes.set_xlim(0, longest * 1.25)
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x", color=FAINT, linewidth=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    axes.set_xlabel("an iteration (µs)")
    sizes = dict.fromkeys(f"{grid_text(timing.cells)} cells, {timing.ranks} ranks" for timing in timings)
    title = [f"{SERIES['variants']}: {'; '.join(sizes)}"]
    if len(labels) > 1:
        title.append(f"in brackets: ghost cells relative to {plain(labels[0])}")
    axes.set_title("\n".join(title), **NOTE)


def draw_lines(axes, series, timings, labels):
    """Whole iterations as full lines, their ghost cells as dashed ones, against ranks; dotted: as good as it gets."""
    values = []
    variants = list(dict.fromkeys(timing.variant for timing in timings))
    for place, label in enumerate(labels):
        for number, variant in enumerate(variants):
            mine = sorted((t for t in timings if (t.label, t.variant) == (label, variant)), key=lambda t: t.ranks)
            if not mine:
                continue
            style = look(place)
            style["marker"] = look(number)["marker"]
            ranks = [t.ranks for t in mine]
            axes.plot(ranks, [t.iteration_us for t in mine], **style)
            axes.plot(ranks, [t.ghost_us for t in mine], **{**style, "linestyle": "--"})
            ideal = [mine[0].iteration_us * (ranks[0] / n if series == "strong" else 1) for n in ranks]
            axes.plot(ranks, ideal, color=style["color"], linestyle=":", linewidth=1)
            values += [t.iteration_us for t in mine] + [t.ghost_us for t in mine] + ideal
    marks = sorted({t.ranks for t in timings})
    axes.set_xscale("log", base=2)
    axes.set_xlim(*room_around(marks[0], max(marks[-1], 1.01 * marks[0])))
    axes.xaxis.set_major_locator(FixedLocator(marks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(marks, map(str, marks))
    value_axis(axes, *room_around(min(values), max(values)))
    axes.set_xlabel("ranks")
    axes.set_ylabel("an iteration (µs)")
    axes.grid(True, color=FAINT, linewidth=0.6)
    first = min(timings, key=lambda t: t.ranks)
    axes.set_title(f"{SERIES[series]}: {', '.join(map(plain, variants))}; {grid_text(first.cells)} cells on "
                   f"{first.ranks} rank{'s' * (first.ranks > 1)}", **NOTE)


def legend_of(present, labels):
    """[(handle, its meaning)]: the files, where there are several, then what bars and lines stand for."""
    def patch(colour, alpha=1.0):
        return pyplot.Rectangle((0, 0), 1, 1, color=colour, alpha=alpha, linewidth=0)

    entries = [(patch(COLOURS[n % len(COLOURS)]), plain(label)) for n, label in enumerate(labels) if len(labels) > 1]
    tone = GREY if len(labels) > 1 else COLOURS[0]
    if "variants" in present:
        entries += [(patch(tone, 0.35), "bars: a whole iteration"), (patch(tone), "its ghost cells")]
    if present != ["variants"]:
        entries += [(Line2D([], [], color=tone, linestyle=style), meaning)
                    for style, meaning in (("-", "lines: a whole iteration"), ("--", "its ghost cells"), (":", "ideal"))]
    return entries


def draw_timings(picture):
    labels = list(dict.fromkeys(timing.label for timing in picture.timings))
    present = [series for series in SERIES if picture.of(series)]
    heights = []
    for series in present:
        groups = len({timing.variant for timing in picture.of(series)})
        heights.append(groups * (len(labels) + 1) * BAR if series == "variants" else LINES)
    caption = [line for text in picture.caption
               for line in textwrap.wrap(text, int((WIDTH - 2 * RIGHT) * CAPTION_CHARACTERS), break_on_hyphens=False)]
    entries = legend_of(present, labels)
    columns = 4
    legend = LEGEND * -(-len(entries) // columns)
    below = CAPTION_ROW * len(caption) + 0.2
    height = TITLE + legend + sum(heights) + len(present) * (ABOVE + BELOW_LINES) + below
    with pyplot.rc_context(STYLE):
        figure = pyplot.figure(figsize=(WIDTH, height))
        top = height - TITLE - legend
        for series, panel in zip(present, heights):
            axes = figure.add_axes((LEFT / WIDTH, (top - ABOVE - panel) / height, (WIDTH - LEFT - RIGHT) / WIDTH,
                                    panel / height))
            if series == "variants":
                draw_bars(axes, picture.of(series), labels)
            else:
                draw_lines(axes, series, picture.of(series), labels)
            top -= ABOVE + panel + BELOW_LINES
        figure.text(RIGHT / WIDTH, 1 - 0.14 / height, "Ghost exchange", fontsize=12.5, fontweight="bold", color=INK,
                    va="top")
        figure.legend(*zip(*entries), loc="upper left", ncol=columns, borderaxespad=0, borderpad=0, fontsize=8,
                      bbox_to_anchor=(RIGHT / WIDTH, 1 - TITLE / height))
        figure.text(RIGHT / WIDTH, 0.1 / height, "\n".join(map(plain, caption)), fontsize=7.5, color=GREY, va="bottom",
                    linespacing=1.35)
    return figure
