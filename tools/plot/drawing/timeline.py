# SPDX-License-Identifier: Apache-2.0
"""Draws a trace (FAIRLEAD_TRACE) as a time-line: a row for each track of each rank, in it bars for phases, MPI calls,
copies and kernels, the inner ones below the outer ones, and lines from sends to receives."""

from __future__ import annotations

import bisect
import json
import os
import textwrap
from collections import defaultdict

import matplotlib
from matplotlib import pyplot
from matplotlib.collections import LineCollection

from failure import usage
from figure import CAPTION_CHARACTERS, COLOURS, FAINT, GREY, INK, RIGHT, STYLE, TITLE, WIDTH, plain
from span import UNITS

ROW, LEFT, LEGEND_ROW, BELOW = 0.3, 1.9, 0.24, 0.95  # inches
NAMED = len(COLOURS)  # calls with a colour of their own, by the time that they took; others share one
OTHER, PHASE = "#999999", "#e8e8e8"
CHARACTERS_IN_AN_INCH = 17


def read_trace(path):
    """The trace in this file, or None where it is something else."""
    try:
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
    except (OSError, ValueError):
        return None
    return trace if isinstance(trace, dict) and isinstance(trace.get("traceEvents"), list) else None


class Track:
    """The slices of one thread or stream, each with how many others it lies in."""

    def __init__(self, name, slices):
        self.name = name
        self.bars = []  # (slice, depth)
        around = []
        for event in sorted(slices, key=lambda e: (e["ts"], -e["dur"])):
            # Times are exact to a nanosecond; sums of floating numbers are not.
            while around and around[-1] <= event["ts"] + 5e-4:
                around.pop()
            self.bars.append((event, len(around)))
            around.append(event["ts"] + event["dur"])
        self.begins = [event["ts"] for event, _ in self.bars]
        self.depth = 1 + max(depth for _, depth in self.bars)
        self.top = 0.0

    def within(self, begin, end):
        """The bars that are seen in this time."""
        return [(e, depth) for e, depth in self.bars if e["ts"] <= end and e["ts"] + e["dur"] >= begin]

    def row_at(self, time):
        """The middle of the innermost bar at this time."""
        for event, depth in reversed(self.bars[:bisect.bisect_right(self.begins, time)]):
            if depth == 0 or time <= event["ts"] + event["dur"]:
                return self.top + depth + 0.5
        return self.top + 0.5


def tracks_of(events):
    slices, names, ranks = defaultdict(list), {}, {}
    for event in events:
        place = event.get("pid"), event.get("tid")
        if event.get("ph") == "X":
            slices[place].append(event)
        elif event.get("name") == "thread_name":
            names[place] = event["args"]["name"]
        elif event.get("name") == "process_name":
            ranks[place[0]] = event["args"]["name"]
    return {place: Track(f"{ranks.get(place[0], place[0])}: {names.get(place, place[1])}", slices[place])
            for place in sorted(slices)}


def colours_of(tracks):
    """{name: colour} of calls and GPU work; those that took most time of the job have one of their own."""
    took = defaultdict(float)
    for track in tracks.values():
        for event, _ in track.bars:
            if event["cat"] != "phase":
                took[event["name"]] += event["dur"]
    names = sorted(took, key=lambda name: -took[name])
    return {name: COLOURS[i] if i < NAMED else OTHER for i, name in enumerate(names)}


def flows_of(events, tracks):
    """[((time, row), (time, row))]"""
    begins, ends = {}, {}
    for event in events:
        if event.get("ph") in ("s", "f"):
            (begins if event["ph"] == "s" else ends)[event["id"]] = event
    return [[(e["ts"], tracks[e["pid"], e["tid"]].row_at(e["ts"])) for e in (begins[i], ends[i])]
            for i in begins if i in ends and all((e["pid"], e["tid"]) in tracks for e in (begins[i], ends[i]))]


def draw_track(axes, track, colours, characters_per_time, window):
    for event, depth in track.within(*window):
        phase = event["cat"] == "phase"
        low = track.top + depth + 0.08
        axes.broken_barh([(event["ts"], event["dur"])], (low, 0.84), linewidth=0.3, edgecolor="white",
                         facecolor=PHASE if phase else colours[event["name"]], zorder=2)
        begin, end = max(event["ts"], window[0]), min(event["ts"] + event["dur"], window[1])
        if len(event["name"]) + 1 < (end - begin) * characters_per_time:
            axes.text((begin + end) / 2, low + 0.42, plain(event["name"]), ha="center", va="center",
                      fontsize=6.5, color=INK if phase else "white", zorder=4)


def in_words(time):
    """Microseconds in the largest unit of which there is one."""
    return next(f"{time / scale:g} {name}" for name, scale in UNITS if time >= scale or scale == 1)


def draw(path, trace, span=None):
    """`span`: microseconds from the first event on, (begin, end)."""
    events = trace["traceEvents"]
    times = [t for e in events if e.get("ph") == "X" for t in (e["ts"], e["ts"] + e["dur"])]
    if not times:
        raise usage(f"{path}: a trace without any call; accepted: what a job with FAIRLEAD_TRACE wrote")
    start, end = min(times), max(times)
    first, last = (start + span[0], start + span[1]) if span else (start, end)
    tracks = tracks_of(events)
    rows = stack(tracks)
    if not any(track.within(first, last) for track in tracks.values()):
        raise usage(f"--time: nothing happens then in {path}, which lasts {end - start:.0f} us")
    about = trace.get("otherData", {})
    lines = [line for line in flows_of(events, tracks) if line[0][0] <= last and line[1][0] >= first]
    what = os.path.basename(path)
    messages = f"{about.get('flow_events', '?')} messages"
    if span:
        what += f", {in_words(span[0])} to {in_words(span[1])} of {in_words(float(f'{end - start:.4g}'))}"
        messages = f"{len(lines)} of {messages} are seen"
    caption = (f"{what}: {about.get('ranks', '?')} ranks, {messages}"
               + (f"; {about['dropped_events']} events were dropped" if about.get("dropped_events") else ""))
    with pyplot.rc_context(STYLE):
        return laid_out(caption, tracks, rows, lines, (first, last, first - start if span else 0))


def stack(tracks):
    """Puts each below the one before; lines between them need to know where. Returns the height of all."""
    rows = 0
    for track in tracks.values():
        track.top, rows = rows, rows + track.depth + 0.25
    return rows


def laid_out(caption, tracks, rows, lines, window):
    first, last, after_start = window
    length = max(last - first, 1e-3)
    colours = colours_of(tracks)
    seen = {event["name"] for track in tracks.values() for event, _ in track.within(first, last)}
    named = {name: colour for name, colour in colours.items() if colour != OTHER and name in seen}

    above, height = TITLE + 2 * LEGEND_ROW, TITLE + 2 * LEGEND_ROW + ROW * rows + BELOW
    figure, axes = pyplot.subplots(figsize=(WIDTH, height))
    figure.subplots_adjust(left=LEFT / WIDTH, right=1 - RIGHT / WIDTH, top=1 - above / height, bottom=BELOW / height)
    for track in tracks.values():
        draw_track(axes, track, colours, CHARACTERS_IN_AN_INCH * (WIDTH - LEFT - RIGHT) / length, (first, last))
    axes.add_collection(LineCollection(lines, colors=INK, linewidths=0.6, alpha=0.7, zorder=3))
    axes.plot([end[0] for _, end in lines], [end[1] for _, end in lines], "o", color=INK, markersize=2, zorder=3)

    unit, scale = next(((unit, scale) for unit, scale in UNITS if length >= 2 * scale), UNITS[-1])
    axes.set_xlim(first - 0.005 * length, last + 0.005 * length)
    axes.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda t, _: f"{(t - first) / scale:g}"))
    step = matplotlib.ticker.MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(0, length)
    axes.set_xticks([first + t for t in step if t <= length])
    axes.set_xlabel(f"time ({unit})" + (f" after {in_words(after_start)}" if after_start else ""))
    axes.set_ylim(rows, 0)
    axes.set_yticks([track.top + track.depth / 2 for track in tracks.values()],
                    ["\n".join(textwrap.wrap(plain(track.name), 26)) for track in tracks.values()], fontsize=7)
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x", color=FAINT, linewidth=0.6)
    figure.text(RIGHT / WIDTH, 1 - 0.14 / height, "Time-line of a job", fontsize=12.5, fontweight="bold", color=INK,
                va="top")
    handles = [pyplot.Rectangle((0, 0), 1, 1, facecolor=colour) for colour in named.values()]
    figure.legend(handles, [*map(plain, named)], loc="upper left", ncol=4, fontsize=8, borderaxespad=0, borderpad=0,
                  bbox_to_anchor=(RIGHT / WIDTH, 1 - TITLE / height), handlelength=1, columnspacing=1.4)
    meaning = "Lines lead from sends to receives; a dot is a receive's end."
    wrapped = textwrap.wrap(f"{caption}. {meaning}", int((WIDTH - 2 * RIGHT) * CAPTION_CHARACTERS))
    figure.text(RIGHT / WIDTH, 0.1 / height, "\n".join(map(plain, wrapped)), fontsize=7.5, color=GREY, va="bottom")
    return figure
