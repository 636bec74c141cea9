# SPDX-License-Identifier: Apache-2.0
"""What a trace holds, in little memory: its events are dropped one by one while the file is parsed."""

from __future__ import annotations

import bisect
import math
import sys
from collections import defaultdict
from typing import NamedTuple

from failure import usage
from files import parsed, read_text

ACCEPTED = "accepted: what `fairlead run --trace FILE` wrote"

class Foreign(Exception):
    """The events are none of Fairlead's."""


class Slice(NamedTuple):
    begin: float  # microseconds
    end: float
    name: str
    is_phase: bool


class Track:
    """The slices of one thread or stream, each with how many others it lies in."""

    def __init__(self, rank, name, slices):
        self.rank, self.name = rank, name
        self.slices = sorted(slices, key=lambda one: (one.begin, -one.end))
        self.begins = [one.begin for one in self.slices]
        self.depths, self.around = [], []  # of each slice; the place of the one that it lies in, -1 where it is outermost
        open_places = []
        for place, one in enumerate(self.slices):
            # Times are exact to a nanosecond; sums of floating numbers are not.
            while open_places and self.slices[open_places[-1]].end <= one.begin + 5e-4:
                open_places.pop()
            self.depths.append(len(open_places))
            self.around.append(open_places[-1] if open_places else -1)
            open_places.append(place)
        self.depth = 1 + max(self.depths)
        self.top = 0.0

    def within(self, begin, end):
        """(slice, depth) of what is seen in this time."""
        last = bisect.bisect_right(self.begins, end)
        return [(one, depth) for one, depth in zip(self.slices[:last], self.depths) if one.end >= begin]

    def row_at(self, time):
        """The middle of the innermost bar at this time."""
        place = bisect.bisect_right(self.begins, time) - 1
        while place >= 0 and self.depths[place] and self.slices[place].end < time:
            place = self.around[place]
        return self.top + 0.5 + (self.depths[place] if place >= 0 else 0)


class Trace:
    """tracks: by rank and track; flows: [((rank, track, time) of a send, that of its receive)]; ranks: all of them, also
    those without slices; about: the numbers that the file says of itself."""

    def __init__(self, path):
        self._slices, self._names, self._hosts = defaultdict(list), {}, {}
        self._sends, self._receives = {}, {}
        self.ranks = set()
        whole = parsed(read_text(path, ACCEPTED), object_hook=self._take)
        if not isinstance(whole, dict) or not isinstance(whole.get("traceEvents"), list):
            raise usage(f"{path} begins like a trace, but is no whole JSON; was the job ended before MPI_Finalize was over?")
        if not all(isinstance(number, int) for place in self._slices for number in place):
            raise Foreign
        about = whole.get("otherData")
        self.about = {key: value for key, value in about.items() if isinstance(value, int)} if isinstance(about, dict) else {}
        self.tracks = {place: Track(str(self._hosts.get(place[0], place[0])), str(self._names.get(place, place[1])),
                                    self._slices.pop(place)) for place in sorted(self._slices)}
        both = ((begin, self._receives[of]) for of, begin in self._sends.items() if of in self._receives)
        self.flows = [pair for pair in both if all(end[:2] in self.tracks for end in pair)]

    def _take(self, thing):
        """Called for each object of the file, the inner ones first."""
        if "ph" not in thing:
            return thing
        try:
            self._keep(thing["ph"], thing)
        except (AttributeError, KeyError, TypeError) as error:
            raise Foreign from error
        return None

    def _keep(self, kind, event):
        rank, track = event["pid"], event["tid"]
        if kind == "X":
            begin, length = event["ts"], event["dur"]
            if not (-math.inf < begin < math.inf and 0 <= length < math.inf):
                raise Foreign
            self._slices[rank, track].append(
                Slice(begin, begin + length, sys.intern(event["name"]), event["cat"] == "phase"))
            self.ranks.add(rank)
        elif kind == "s":
            self._sends[event["id"]] = rank, track, float(event["ts"])
        elif kind == "f":
            self._receives[event["id"]] = rank, track, float(event["ts"])
        elif kind == "M":
            self.ranks.add(rank)
            if event["name"] == "thread_name":
                self._names[rank, track] = event["args"]["name"]
            elif event["name"] == "process_name":
                self._hosts[rank] = event["args"]["name"]


def read_trace(path):
    try:
        return Trace(path)
    except Foreign:
        raise usage(f"{path} is a trace of another program; {ACCEPTED}") from None
