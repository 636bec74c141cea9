# SPDX-License-Identifier: Apache-2.0
"""Draws a picture with matplotlib: for the screen, for print in grey, and for eyes that do not tell red from green."""

from __future__ import annotations

import io
import math
import textwrap

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.colors import LogNorm
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from scales import number_text, size_marks, size_text, value_marks

# The colours of Okabe and Ito that show on white; line styles and markers differ, too.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = "osD^vPX*"
DASHES = ("-", "--", "-.", ":")
INK, GREY, FAINT = "#222222", "#595959", "#d9d9d9"
NOTE = {"fontsize": 9, "color": GREY, "pad": 4}
STYLE = {"font.family": "sans-serif", "font.size": 10, "axes.edgecolor": "#999999", "axes.labelcolor": INK,
         "xtick.color": INK, "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False,
         "axes.titlesize": 10, "axes.titlelocation": "left", "axes.axisbelow": True, "legend.frameon": False,
         "lines.linewidth": 1.6, "lines.markersize": 4.5, "svg.fonttype": "none", "svg.hashsalt": "fairlead",
         "pdf.fonttype": 42}  # fonts as journals take them

# Inches, but for the two of characters.
WIDTH, COLUMN_WIDTH, LEFT, RIGHT = 8.0, 3.6, 0.95, 0.25
PANEL, RATIO_PANEL, HEAT_ROW, GAP, AXIS = 2.9, 1.5, 0.3, 0.36, 0.56
TITLE, LEGEND_ROW, LEGEND_LINE, CAPTION_ROW = 0.42, 0.22, 0.66, 0.155
BAR, BAR_LENGTH = 0.08, 2.0
CAPTION_CHARACTERS, LEGEND_CHARACTERS = 17.0, 13.0  # in an inch
LABELS = 1.6  # of the size axis in an inch
INDENT = 4 * "\N{NO-BREAK SPACE}"  # SVG drops plain ones


def plain(text):
    """What users write is no formula, and labels that begin with _ are not for matplotlib to hide."""
    return text.replace("$", r"\$").replace("_", "\N{NO-BREAK SPACE}_", text.startswith("_"))


def look(style):
    return {"color": COLOURS[style % len(COLOURS)], "marker": MARKERS[style % len(MARKERS)],
            "linestyle": DASHES[style // len(COLOURS) % len(DASHES)]}


def size_axis(axes, sizes, most):
    """A mark at every power of two; a label at every second, third, ... of them, so that they do not touch."""
    axes.set_xscale("log", base=2)
    low, high = min(sizes), max(sizes)
    axes.set_xlim(low / math.sqrt(2), high * math.sqrt(2))
    axes.xaxis.set_major_locator(FixedLocator(size_marks(sizes, most)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: size_text(int(number))))
    axes.xaxis.set_minor_locator(FixedLocator(size_marks(sizes, math.inf)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(True, which="major", color=FAINT, linewidth=0.6)


def value_axis(axes, low, high, most=8):
    """Logarithmic: twice as much and half as much are equally far."""
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(FixedLocator(value_marks(*axes.get_ylim(), most)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))


def value_limits(columns, quantity):
    """Bands may run out of the panel: one slow hundredth must not press all lines together."""
    values = [value for column in columns for series in column.series
              for value in series.values[quantity.name].values()]
    low = max(min(v.least for v in values), min(v.middle for v in values) / 2)
    high = min(max(v.greatest for v in values), max(v.middle for v in values) * 2)
    return room_around(low, high)


def room_around(low, high):
    """So that markers are not cut."""
    margin = max((high / low) ** 0.07, 1.03)
    return low / margin, high * margin


def draw_panel(axes, column, quantity):
    for series in column.series:
        values = series.values[quantity.name]
        if not values:
            continue
        style = look(series.style)
        axes.fill_between(list(values), [v.least for v in values.values()], [v.greatest for v in values.values()],
                          color=style["color"], alpha=0.15, linewidth=0, zorder=2)
        axes.plot(list(values), [v.middle for v in values.values()], zorder=3, **style)


def draw_bars(axes, values):
    """A group for each name: [(style, {place of the name: value})]"""
    width = 0.8 / len(values)
    for number, (style, of_names) in enumerate(values):
        shift = width * (number - (len(values) - 1) / 2)
        bars = axes.bar([place + shift for place in of_names], list(of_names.values()), width * 0.92, zorder=3,
                        color=look(style)["color"])
        axes.bar_label(bars, [*map(number_text, of_names.values())], padding=1, fontsize=7, color=INK)


def name_axis(axes, names):
    axes.set_xlim(0.4, len(names) + 0.6)
    axes.set_xticks(range(1, len(names) + 1), names)
    axes.tick_params(axis="x", length=0)
    axes.grid(True, axis="y", color=FAINT, linewidth=0.6)


def draw_ratios(axes, column, quantity, lines):
    axes.axhline(1, color=look(0)["color"], linewidth=1.2, zorder=2)
    for series, ratios in column.ratios(quantity) if lines else ():
        axes.plot(list(ratios), list(ratios.values()), zorder=3, **look(series.style))


def ratio_axis(axes, ratios):
    """Never so close that noise fills the panel."""
    value_axis(axes, *room_around(min([*ratios, 1 / 1.1]), max([*ratios, 1.1])), most=5)


def colour_bar(mesh, above=False):
    """What the colours of a heat map mean: to its right, or in the line of its title."""
    axes = mesh.axes
    wide, high = axes.get_position().size * axes.figure.get_size_inches()
    place = (1 - BAR_LENGTH / wide, 1 + 0.05 / high, BAR_LENGTH / wide, BAR / high) if above else (1 + BAR / wide, 0, BAR / wide, 1)
    bar = axes.figure.colorbar(mesh, cax=axes.inset_axes(place), orientation="horizontal" if above else "vertical",
                               ticklocation="top" if above else "right")
    marks = value_marks(mesh.norm.vmin, mesh.norm.vmax, most=5)
    bar.set_ticks(marks, labels=[*map(number_text, marks)])
    bar.minorticks_off()
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, pad=2, labelsize=7)


def draw_heat_map(axes, column, quantity):
    """Strides against sizes, a colour and a number for each value."""
    series = [one for one in column.series if any(one.values[quantity.name].values())]
    sizes = column.sizes()
    middles = [math.sqrt(a * b) for a, b in zip(sizes, sizes[1:])]
    ends = [sizes[0] / 2, sizes[0] * 2]
    if middles:
        ends = [sizes[0] ** 2 / middles[0], *middles, sizes[-1] ** 2 / middles[-1]]
    grid = [[one.values[quantity.name].get(size) for size in sizes] for one in series]
    known = [value.middle for row in grid for value in row if value]
    scale = LogNorm(min(known), max(max(known), 1.01 * min(known)))
    colours = [[value.middle if value else math.nan for value in row] for row in grid]
    colour_bar(axes.pcolormesh(ends, range(len(series) + 1), colours, cmap="cividis", norm=scale), above=True)
    room = axes.get_position().width * axes.figure.get_figwidth() / len(sizes) * CAPTION_CHARACTERS
    for place, row in enumerate(grid):
        for size, value in zip(sizes, row):
            if value and len(text := number_text(value.middle)) <= room:
                axes.text(size, place + 0.5, text, ha="center", va="center", fontsize=7,
                          color="white" if scale(value.middle) < 0.55 else "black")
    axes.set_yticks([place + 0.5 for place in range(len(series))], [str(one.part) for one in series])
    axes.invert_yaxis()
    axes.set_ylabel("stride")
    axes.set_title(f"{quantity.label} at each stride (ranks)", y=1, **NOTE)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(axis="y", length=0)


def legend_width(labels, columns):
    rows = -(-len(labels) // columns)
    return sum(LEGEND_LINE + max(map(len, labels[at:at + rows])) / LEGEND_CHARACTERS
               for at in range(0, len(labels), rows))


def has_heat_map(picture):
    return picture.strides and len(picture.columns[0].series) > 1


def fill(grid, picture, most):
    """The panels; with no more than `most` labels on a size axis."""
    for number, column in enumerate(picture.columns):
        rows = grid[:, number]
        for axes, quantity in zip(rows, picture.quantities):
            if picture.names:
                draw_bars(axes, [(series.style, {place: value.middle for place, value in
                                                 series.values[quantity.name].items()}) for series in column.series])
            else:
                draw_panel(axes, column, quantity)
        if picture.compared and picture.names:
            draw_bars(rows[-1], [(series.style, ratios) for series, ratios in column.ratios(picture.compared)])
        if picture.compared:
            draw_ratios(rows[-1], column, picture.compared, lines=not picture.names)
        for axes in rows:
            name_axis(axes, picture.names) if picture.names else size_axis(axes, column.sizes(), most)
            axes.tick_params(labelbottom=axes is rows[-1])
        rows[0].set_title(column.title)
        rows[-1].set_xlabel(picture.axis)
    for row, quantity in enumerate(picture.quantities):
        axes = grid[row, 0]
        axes.set_ylabel(quantity.label)
        if quantity.logarithmic:
            for each in grid[row]:
                value_axis(each, *value_limits(picture.columns, quantity))
        else:
            axes.set_ylim(-4, 104)
    if picture.compared:
        axes = grid[-1, 0]
        ratio_axis(axes, [ratio for column in picture.columns for _, ratios in column.ratios(picture.compared)
                          for ratio in ratios.values()])
        axes.set_ylabel(f"{picture.compared.title}, ratio")
        axes.set_title(f"relative to {plain(picture.first)} ({picture.compared.better} is better)", **NOTE)
    if has_heat_map(picture):
        draw_heat_map(grid[-1, 0], picture.columns[0], picture.quantities[0])


def draw(picture):
    with pyplot.rc_context(STYLE):
        return laid_out(picture)


def laid_out(picture):
    """Title, legend and caption get the room that their lines need; the panels are of the same size in every picture."""
    columns = len(picture.columns)
    width = max(WIDTH, LEFT + RIGHT + COLUMN_WIDTH * columns)
    inner = width - 2 * RIGHT
    labels = picture.labels
    legend_columns = next(number for number in range(len(labels), 0, -1)
                          if number == 1 or legend_width(list(labels.values()), number) <= inner)
    legend_rows = -(-len(labels) // legend_columns)
    bands = picture.spread and not picture.names
    meaning = f"{'Bars' if picture.names else 'Lines'}: {picture.middle}" + (f"; bands: {picture.spread}." if bands else ".")
    caption = [row for line in [*picture.caption, meaning]
               for row in textwrap.wrap(line, int(inner * CAPTION_CHARACTERS), subsequent_indent=INDENT,
                                         break_on_hyphens=False)]
    panels = [PANEL] * len(picture.quantities)
    if picture.compared:
        panels.append(RATIO_PANEL)
    if has_heat_map(picture):
        panels.append(HEAT_ROW * len(picture.columns[0].series))
    above = TITLE + LEGEND_ROW * legend_rows + 0.12 + (0.25 if any(column.title for column in picture.columns) else 0)
    below = AXIS + CAPTION_ROW * len(caption) + 0.1
    height = above + sum(panels) + GAP * (len(panels) - 1) + below

    figure, grid = pyplot.subplots(
        len(panels), columns, figsize=(width, height), squeeze=False, sharey="row" if columns > 1 else "none",
        gridspec_kw={"height_ratios": panels, "hspace": GAP / (sum(panels) / len(panels)), "wspace": 0.08,
                     "left": LEFT / width, "right": 1 - RIGHT / width, "top": 1 - above / height,
                     "bottom": below / height})
    fill(grid, picture, int((width - LEFT - RIGHT) / columns * LABELS))

    figure.text(RIGHT / width, 1 - 0.14 / height, picture.title, fontsize=12.5, fontweight="bold", color=INK, va="top")
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=look(style)["color"]) if picture.names else
               pyplot.Line2D([], [], **look(style)) for style in labels]
    figure.legend(handles, [*map(plain, labels.values())], loc="upper left", ncol=legend_columns, handlelength=2.4,
                  bbox_to_anchor=(RIGHT / width, 1 - TITLE / height), borderaxespad=0, borderpad=0,
                  columnspacing=1.6)
    figure.text(RIGHT / width, 0.1 / height, "\n".join(map(plain, caption)), fontsize=7.5, color=GREY, va="bottom",
                linespacing=1.35)
    return figure


def as_bytes(figure, kind):
    """The file's content; the same picture gives the same bytes."""
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    content = io.BytesIO()
    with pyplot.rc_context(STYLE):
        figure.savefig(content, format=kind, dpi=150, metadata=undated.get(kind))
    pyplot.close(figure)
    return content.getvalue()
