#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the program of observed.cpp with a trace and checks the file twice: against the Trace Event Format as it is
published, and against what the program did."""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict

FAILURES = []

# The published format: what an event of each phase must have, besides "ph", and of which type.
NUMBER, INTEGER, TEXT = (int, float), int, str
COMMON = {"name": TEXT, "pid": INTEGER, "tid": INTEGER}
REQUIRED = {
    "X": {**COMMON, "cat": TEXT, "ts": NUMBER, "dur": NUMBER},
    "M": {**COMMON, "args": dict},
    "s": {**COMMON, "cat": TEXT, "id": INTEGER, "ts": NUMBER},
    "f": {**COMMON, "cat": TEXT, "id": INTEGER, "ts": NUMBER, "bp": TEXT},
}
OPTIONAL = {"X": {"args": dict}}
METADATA = {"process_name": "name", "process_sort_index": "sort_index", "thread_name": "name",
            "thread_sort_index": "sort_index"}

RANKS = 3
OF_ALL = Counter(MPI_Win_create=1, MPI_Win_fence=2, MPI_Win_free=1, MPI_Barrier=2, MPI_Send=1)
# Of each rank.
CALLS = [
    OF_ALL + Counter(MPI_Send=7 + 4, MPI_Recv=2, MPI_Allreduce=3, MPI_Type_free=1),
    OF_ALL + Counter(MPI_Recv=7, MPI_Isend=5, MPI_Waitall=1, MPI_Allreduce=3, MPI_Type_free=1, MPI_Put=4),
    OF_ALL + Counter(MPI_Recv=4, MPI_Irecv=5, MPI_Waitall=1, MPI_Send=2, MPI_Allreduce=3, MPI_Type_free=1),
]
# From which call of which rank to which of which.
FLOWS = Counter({
    ((0, "MPI_Send"), (1, "MPI_Recv")): 7,
    ((1, "MPI_Isend"), (2, "MPI_Waitall")): 5,
    ((0, "MPI_Send"), (2, "MPI_Recv")): 4,
    ((2, "MPI_Send"), (0, "MPI_Recv")): 2,
})
# How far a flow event may seem to go back in time. Clocks that are hours apart are compared by messages.
CLOCK_ERROR_US = 100_000
LONGEST_RUN_US = 50_000_000


def expect(what, found, expected):
    if found != expected:
        FAILURES.append(f"{what}:\n    found    {found}\n    expected {expected}")


def check_format(event):
    phase = event.get("ph")
    if phase not in REQUIRED:
        return FAILURES.append(f"{event}: no phase that this trace has")
    for name, kind in REQUIRED[phase].items():
        if not isinstance(event.get(name), kind):
            FAILURES.append(f"{event}: {name} is no {kind}")
    unknown = set(event) - set(REQUIRED[phase]) - set(OPTIONAL.get(phase, {})) - {"ph"}
    expect(f"{event}: fields that the format does not know", unknown, set())
    if phase == "X":
        expect(f"{event}: negative duration", event["dur"] >= 0, True)
    if phase == "M":
        expect(f"{event}: what the metadata says", list(event["args"]), [METADATA.get(event["name"])])


def end_of(event):
    return event["ts"] + event["dur"]


def check_slices(slices):
    """Of one track: begins never fall, and a slice that begins in another ends there."""
    open_slices = []
    previous = None
    for event in slices:
        expect(f"{event} begins after {previous}", previous is None or previous["ts"] <= event["ts"], True)
        previous = event
        # Times are exact to a nanosecond; sums of floating numbers are not.
        while open_slices and end_of(open_slices[-1]) <= event["ts"] + 5e-4:
            open_slices.pop()
        if open_slices:
            expect(f"{event} ends in {open_slices[-1]}", end_of(event) <= end_of(open_slices[-1]) + 5e-4, True)
        open_slices.append(event)


def call_around(event, tracks):
    """The innermost slice of a flow event's track that its end lies in."""
    found = [s for s in tracks[event["pid"], event["tid"]] if s["ts"] <= event["ts"] <= end_of(s)]
    if not found:
        FAILURES.append(f"{event} lies in no slice")
        return event["pid"], None
    return event["pid"], found[-1]["name"]


def check_trace(trace, _):
    events = trace["traceEvents"]
    for event in events:
        check_format(event)
    if FAILURES:
        return
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
            expect(f"{event} lies in the run of the program", 0 <= event["ts"] < LONGEST_RUN_US, True)
    for slices in tracks.values():
        check_slices(slices)
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    expect("tracks without a name", set(tracks) - set(names), set())

    for rank in range(RANKS):
        own = [event for (pid, _), slices in tracks.items() if pid == rank for event in slices]
        expect(f"calls of rank {rank}", Counter(e["name"] for e in own if e["cat"] == "mpi"), CALLS[rank])
        phases = Counter(e["name"] for e in own if e["cat"] == "phase")
        expect(f"phases of rank {rank}", phases, Counter({"messages": 1, 'small "ones"': 1, "reductions": rank + 1}))
        gpu = {names[e["pid"], e["tid"]].split(",")[0] for e in own if e["cat"] == "gpu"}
        expect(f"rank {rank} has tracks of its GPU", any(name.startswith("GPU ") for name in gpu), True)

    begins = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    expect("flow events with one end", set(begins) ^ set(ends), set())
    expect("ends of flow events", len([e for e in events if e["ph"] in "sf"]), 2 * len(begins))
    flows = [(begins[i], ends[i]) for i in begins if i in ends]
    expect("flow_events", Counter((call_around(s, tracks), call_around(f, tracks)) for s, f in flows), FLOWS)
    for s, f in flows:
        expect(f"{s} is before {f}", s["ts"] <= f["ts"] + CLOCK_ERROR_US, True)
    expect("what the file says of itself", trace["otherData"],
           {"ranks": RANKS, "dropped_events": 0, "flow_events": sum(FLOWS.values()), "flow_ends_left_out": 0})


def main(check):
    """Runs the program and gives its trace to `check`, as read and as a path."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        result = subprocess.run(sys.argv[1:], text=True,
                                env=dict(os.environ, FAIRLEAD_STATS="on", FAIRLEAD_TRACE=path),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=float(os.environ["TEST_TIMEOUT"]))
        sys.stderr.write(result.stderr)
        if result.returncode == 77 or "skipped:" in result.stdout:
            print(result.stdout)
            return 77
        expect("exit code", result.returncode, 0)
        if not FAILURES:
            with open(path) as file:
                check(json.load(file), path)
    print("\n".join(FAILURES[:20]) or "ok")
    return bool(FAILURES)


if __name__ == "__main__":
    sys.exit(main(check_trace))
