# SPDX-License-Identifier: Apache-2.0
"""Draws a trace (FAIRLEAD_TRACE) as a time-line: a row for each track of each rank, in it bars for phases, MPI calls,
copies and kernels, the inner ones below the outer ones, and lines from sends to receives (arrows.py).

The rows of many ranks get lower, so that the panel fits a page, and ranks in which nothing happens get none."""

from __future__ import annotations

import math
import os
import textwrap
from collections import defaultdict

import matplotlib
from matplotlib import pyplot
from matplotlib.collections import LineCollection, PolyCollection

from arrows import bundled, meaning_of
from failure import usage
from figure import CAPTION_CHARACTERS, CAPTION_ROW, COLOURS, FAINT, GREY, INK, RIGHT, STYLE, TITLE, WIDTH, plain
from span import UNITS

ROW, LEFT, LEGEND_ROW, BELOW = 0.3, 1.9, 0.24, 0.95  # inches
HIGHEST, TEXT_ROW, LABEL_LINE = 10.0, 0.12, 0.115  # inches: of the panel; of a row with names in its bars; of a label
LOW = 0.03  # inches: rows that lines would hide
HAIR, EDGED = 1 / 3000, 0.02  # of the panel's width; inches from which on a bar has an edge
GAP = 0.25  # between tracks, in rows
NAMED = len(COLOURS)  # calls with a colour of their own, by the time that they took; others share one
OTHER, PHASE = "#999999", "#e8e8e8"
CHARACTERS_IN_AN_INCH = 17


def seen_of(trace, flows, begin, end):
    """{place: what of the track is seen in this time} of the ranks in which something happens then, or where a line ends
    that is seen."""
    seen = {place: track.within(begin, end) for place, track in trace.tracks.items()}
    ranks = {place[0] for place, slices in seen.items() if slices}
    ranks |= {rank for flow in flows for rank, _, _ in flow}
    return {place: slices for place, slices in seen.items() if place[0] in ranks}


def colours_of(tracks):
    """{name: colour} of calls and GPU work; those that took most time of the job have one of their own."""
    took = defaultdict(float)
    for track in tracks.values():
        for one in track.slices:
            if not one.is_phase:
                took[one.name] += one.end - one.begin
    names = sorted(took, key=lambda name: -took[name])
    return {name: COLOURS[i] if i < NAMED else OTHER for i, name in enumerate(names)}


def bars_of(seen, hair):
    """Without bars that hide behind the one before them."""
    last = defaultdict(lambda: -math.inf)
    for one, depth in seen:
        if one.end > last[depth] + hair:
            last[depth] = one.end
            yield one, depth


def draw_tracks(axes, tracks, seen, colours, row, window):
    """`row`: inches."""
    begin, end = window
    hair = (end - begin) * HAIR
    inch = max(end - begin, 1e-3) / (WIDTH - LEFT - RIGHT)
    corners, faces, edges = [], [], []
    for place, track in tracks.items():
        for one, depth in bars_of(seen[place], hair):
            low = track.top + depth + 0.08
            left, right = one.begin, max(one.end, one.begin + hair)
            corners.append([(left, low), (right, low), (right, low + 0.84), (left, low + 0.84)])
            faces.append(PHASE if one.is_phase else colours[one.name])
            edges.append(0.3 if right - left > EDGED * inch and row >= TEXT_ROW else 0)
            left, right = max(left, begin), min(right, end)
            if row >= TEXT_ROW and len(one.name) + 1 < (right - left) / inch * CHARACTERS_IN_AN_INCH:
                axes.text((left + right) / 2, low + 0.42, plain(one.name), ha="center", va="center",
                          fontsize=6.5, color=INK if one.is_phase else "white", zorder=4)
    axes.add_collection(PolyCollection(corners, facecolors=faces, edgecolors="white", linewidths=edges, zorder=2))


def label_tracks(axes, tracks, row):
    """Names each track, or each rank where its tracks have no room for that, or every second, third, ... rank."""
    def lines_of(text):
        return textwrap.wrap(plain(text), 26, break_on_hyphens=False)

    labels = [(track.top + track.depth / 2, lines_of(f"{track.rank}: {track.name}")) for track in tracks.values()]
    if any(len(lines) * LABEL_LINE > (track.depth + GAP) * row for (_, lines), track in zip(labels, tracks.values())):
        ranks = defaultdict(list)
        for place, track in tracks.items():
            ranks[place[0]].append(track)
        ends = [(of[0].top, of[-1].top + of[-1].depth, of[0].rank) for of in ranks.values()]
        for _, bottom, _ in ends[:-1]:
            axes.axhline(bottom + GAP / 2, color=FAINT, linewidth=0.6, zorder=1)
        lowest = min(bottom - top + GAP for top, bottom, _ in ends) * row
        most = max(1, int(lowest / LABEL_LINE))
        step = math.ceil(LABEL_LINE / lowest)
        labels = []
        for top, bottom, rank in ends[::step]:
            lines = lines_of(rank)
            if len(lines) > most:
                lines = [*lines[:most - 1], lines[most - 1][:25] + "…"]
            labels.append(((top + bottom) / 2, lines))
    axes.set_yticks([place for place, _ in labels], ["\n".join(lines) for _, lines in labels], fontsize=7)
    axes.tick_params(axis="y", length=0)


def description(time):
    """Microseconds in the largest unit of which there is one."""
    return next(f"{time / scale:g} {name}" for name, scale in UNITS if time >= scale or scale == 1)


def draw(path, trace, span=None):
    """`span`: microseconds from the first event on, (begin, end)."""
    slices = [one for track in trace.tracks.values() for one in track.slices]
    if not slices:
        raise usage(f"{path}: a trace without any call; accepted: what a job with FAIRLEAD_TRACE wrote")
    start, end = min(one.begin for one in slices), max(one.end for one in slices)
    first, last = (start + span[0], start + span[1]) if span else (start, end)
    flows = [flow for flow in trace.flows if flow[0][2] <= last and flow[1][2] >= first]
    seen = seen_of(trace, flows, first, last)
    if not any(seen.values()):
        raise usage(f"--time: nothing happens then in {path}, which lasts {end - start:.0f} us")
    tracks = {place: trace.tracks[place] for place in seen}
    rows = stack(tracks)
    lines = [[(time, tracks[rank, tid].row_at(time)) for rank, tid, time in flow] for flow in flows]
    about = trace.about
    what = os.path.basename(path)
    messages = f"{about.get('flow_events', '?')} messages"
    if span:
        what += f", {description(span[0])} to {description(span[1])} of {description(float(f'{end - start:.4g}'))}"
        messages = f"{len(lines)} of {messages} are seen"
    caption = (f"{what}: {about.get('ranks', '?')} ranks, {messages}"
               + (f"; {about['dropped_events']} events were dropped" if about.get("dropped_events") else ""))
    hidden = max(about.get("ranks", 0), len(trace.ranks)) - len({rank for rank, _ in tracks})
    if hidden:
        caption += f"; {hidden} rank{'s' * (hidden > 1)} without events {'are' if hidden > 1 else 'is'} not drawn"
    with pyplot.rc_context(STYLE):
        return laid_out(caption, tracks, seen, colours_of(trace.tracks), rows, lines,
                        (first, last, first - start if span else 0))


def stack(tracks):
    """Puts each below the one before; lines between them need to know where. Returns the height of all."""
    rows = 0
    for track in tracks.values():
        track.top, rows = rows, rows + track.depth + GAP
    return rows


def laid_out(caption, tracks, seen, colours, rows, lines, window):
    first, last, after_start = window
    length = max(last - first, 1e-3)
    names = {one.name for slices in seen.values() for one, _ in slices}
    named = {name: colour for name, colour in colours.items() if colour != OTHER and name in names}

    row = min(ROW, HIGHEST / rows)
    low = row < LOW
    wide, above = WIDTH - LEFT - RIGHT, TITLE + 2 * LEGEND_ROW
    lines, widths, left_out = bundled(lines, wide / length, row)
    caption = textwrap.wrap(f"{caption}. {meaning_of(widths, left_out, low)}", int((WIDTH - 2 * RIGHT) * CAPTION_CHARACTERS))
    below = BELOW + CAPTION_ROW * max(0, len(caption) - 2)
    height = above + row * rows + below
    figure, axes = pyplot.subplots(figsize=(WIDTH, height))
    figure.subplots_adjust(left=LEFT / WIDTH, right=1 - RIGHT / WIDTH, top=1 - above / height, bottom=below / height)
    draw_tracks(axes, tracks, seen, colours, row, (first, last))
    axes.add_collection(LineCollection(lines, colors=INK, linewidths=widths, alpha=0.7 if row == ROW else 0.5,
                                       zorder=1.5 if low else 3))
    if not low:
        axes.scatter([end[0] for _, end in lines], [end[1] for _, end in lines],
                     s=[(3 * width) ** 2 * min(1, 2 * row / ROW) for width in widths], color=INK, linewidth=0, zorder=3)

    unit, scale = next(((unit, scale) for unit, scale in UNITS if length >= 2 * scale), UNITS[-1])
    axes.set_xlim(first - 0.005 * length, last + 0.005 * length)
    axes.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda t, _: f"{(t - first) / scale:g}"))
    step = matplotlib.ticker.MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(0, length)
    axes.set_xticks([first + t for t in step if t <= length])
    axes.set_xlabel(f"time ({unit})" + (f" after {description(after_start)}" if after_start else ""))
    axes.set_ylim(rows, 0)
    label_tracks(axes, tracks, row)
    axes.grid(True, axis="x", color=FAINT, linewidth=0.6)
    figure.text(RIGHT / WIDTH, 1 - 0.14 / height, "Timeline of a job", fontsize=12.5, fontweight="bold", color=INK,
                va="top")
    handles = [pyplot.Rectangle((0, 0), 1, 1, facecolor=colour) for colour in named.values()]
    figure.legend(handles, [*map(plain, named)], loc="upper left", ncol=4, fontsize=8, borderaxespad=0, borderpad=0,
                  bbox_to_anchor=(RIGHT / WIDTH, 1 - TITLE / height), handlelength=1, columnspacing=1.4)
    figure.text(RIGHT / WIDTH, 0.1 / height, "\n".join(map(plain, caption)), fontsize=7.5, color=GREY, va="bottom")
    return figure
