#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the program of observed.cpp with statistics; they must say what it did, to people and as JSON."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools/observed.cpp")
COLUMNS = 80
FAILURES = []

# Function: how many calls all ranks made of it, and the bytes that they named or received.
CALLS = {
    "MPI_Send": (7 + 4 + 2 + 3, 7 * 65536 + 4 * 16 + 2 * 800),  # three to MPI_PROC_NULL
    "MPI_Recv": (7 + 4 + 2, 7 * 65536 + 4 * 16 + 2 * 800),
    "MPI_Isend": (5, 5 * 1024),
    "MPI_Irecv": (5, 0),
    "MPI_Waitall": (2, 0),
    "MPI_Allreduce": (3 * 3, 3 * 3 * 2 * 8000),
    "MPI_Type_free": (3, 0),
    "MPI_Win_create": (3, 0),
    "MPI_Win_fence": (2 * 3, 0),
    "MPI_Put": (4, 4 * 512),
    "MPI_Win_free": (3, 0),
    "MPI_Barrier": (2 * 3, 0),
}
# The least, the median and the most of the ranks' numbers of calls, and the ranks with the least and the most.
CALLS_BY_RANK = {"MPI_Send": (1, 3, 12, 1, 0), "MPI_Put": (0, 0, 4, 0, 1), "MPI_Barrier": (2, 2, 2, 0, 0)}
LATE = 1  # the rank that the others wait for in MPI_Barrier
# The device messages that these functions started, by path. A sender may find that its bytes were fetched from
# its pool, for a rank that waits in the host MPI does not answer.
MESSAGES = {
    ("MPI_Send", "peer copies"): (7, 7 * 65536),
    ("MPI_Send", "packed"): (2, 1600),
    ("MPI_Recv", "peer copies"): (7, 7 * 65536),
    ("MPI_Recv", "packed"): (2, 1600),
    ("MPI_Isend", "peer copies"): (5, 5 * 1024),
    ("MPI_Irecv", "peer copies"): (5, 5 * 1024),
    ("MPI_Allreduce", "collectives on the GPU"): (9, 9 * 2 * 8000),
    ("MPI_Put", "one-sided, mapped"): (4, 4 * 512),
}
# By path: how often all ranks were in it.
PHASES = {("messages",): 3, ("messages", 'small "ones"'): 3, ("reductions",): 1 + 2 + 3}
FALLBACKS = {"the layout has small or irregular blocks, which are packed first": 2}


def expect(what, found, expected):
    if found != expected:
        FAILURES.append(f"{what}:\n    found    {found}\n    expected {expected}")


def check_json(report):
    expect("ranks", report["ranks"], 3)
    expect("calls", {c["function"]: (c["count"], c["bytes"]) for c in report["calls"]}, CALLS)
    # The first message of a pair is staged, the next one may be as well: the receiver may not have judged by then.
    messages = {}
    for m in report["messages"]:
        path = "packed" if m["path"] in ("staged in host memory", "staged in device memory") else m["path"]
        count, size = messages.get((m["function"], path), (0, 0))
        messages[m["function"], path] = (count + m["count"], size + m["bytes"])
    expect("messages", messages, MESSAGES)
    expect("fallbacks", {f["reason"]: f["count"] for f in report["fallbacks"]}, FALLBACKS)
    phases = {tuple(p["path"]): p for p in report["phases"]}
    expect("phases", {path: p["count"] for path, p in phases.items()}, PHASES)
    for p in phases.values():
        expect(f"times of the phase {p}", p["min"] <= p["mean"] <= p["max"] and p["self"] <= p["seconds"], True)
    in_mpi = report["seconds_in_mpi"]
    expect(f"the rank that was least in MPI, {in_mpi}", in_mpi["min_rank"], LATE)
    expect(f"the order of {in_mpi}", 0 < in_mpi["min"] <= in_mpi["median"] <= in_mpi["max"] < report["seconds"], True)
    outer, inner = phases[("messages",)], phases[("messages", 'small "ones"')]
    expect("what an outer phase took itself", abs(outer["seconds"] - inner["seconds"] - outer["self"]) < 1e-6, True)
    for row in report["calls"] + report["messages"]:
        times = [row[name] for name in ("p50_us", "p90_us", "p99_us", "max_us")]
        expect(f"order of the percentiles of {row}", times, sorted(times))
        expect(f"longest of {row} is part of the sum", row["max_us"] <= row["seconds"] * 1e6 + 1e-3, True)
    for row in report["calls"]:
        time, count = row["by_rank"]["seconds"], row["by_rank"]["count"]
        for spread in time, count:
            expect(f"order of least, median and most of {row}", spread["min"] <= spread["median"] <= spread["max"], True)
            expect(f"ranks of {row}", {spread["min_rank"], spread["max_rank"]} <= set(range(3)), True)
        expect(f"the sum of {row} lies between three times the least and three times the most",
               3 * time["min"] - 1e-6 <= row["seconds"] <= 3 * time["max"] + 1e-6, True)
        if row["function"] in CALLS_BY_RANK:
            expect(f"calls by rank of {row['function']}",
                   tuple(count[name] for name in ("min", "median", "max", "min_rank", "max_rank")), CALLS_BY_RANK[row["function"]])
        if row["function"] == "MPI_Put":  # the other ranks made no such call
            expect(f"time by rank of {row}", (time["min"], time["median"], time["max_rank"]), (0, 0, 1))
        if row["function"] == "MPI_Barrier":
            expect(f"the rank that waits least in {row}", time["min_rank"], LATE)
    check_sites(report["calls"])
    expect("messages by rank", [m for m in report["messages"] if "by_rank" in m], [])
    moved = {t["path"]: t["messages"] for t in report["traffic"]}
    expect("peer copies", moved["peer copies"], 12)


def lines_with(function):
    with open(SOURCE) as file:
        return [f"observed.cpp:{number}" for number, line in enumerate(file, 1) if f" {function}(" in line]


def check_sites(calls):
    """Every call was made in observed.cpp, as addr2line says, where there is one."""
    for row in calls:
        sites = row["sites"]
        for name in "count", "bytes", "seconds":
            expect(f"the {name} of all sites of {row}", abs(sum(site[name] for site in sites) - row[name]) < 1e-6, True)
        places = [re.fullmatch(r"observed-[a-z]+\+0x[0-9a-f]+( \((.*)\))?", site["site"]) for site in sites]
        expect(f"places of {sites}", all(places), True)
        if shutil.which("addr2line") and all(places):
            found = {place[2] for place in places}
            expect(f"lines of {row['function']}", sorted(found), sorted(lines_with(row["function"])))
    barriers = [site["count"] for row in calls for site in row["sites"] if row["function"] == "MPI_Barrier"]
    expect("calls of MPI_Barrier by site", barriers, [3, 3])


def check_table(stderr):
    expect("the table of the job", len(re.findall("^fairlead statistics over 3 ranks, ", stderr, re.M)), 1)
    expect("the table of one rank", len(re.findall("^fairlead statistics over rank 0 of 3 so far, ", stderr, re.M)), 1)
    ours = [line for line in stderr.splitlines() if not line.startswith("[")]  # Open MPI's own begin with [host]
    expect("lines too wide for a terminal", [line for line in ours if len(line) > COLUMNS], [])
    expect("MPI's share of the time", len(re.findall(r"^[\d.]+ % of the time in MPI: least [\d.]+ % on rank 1, most [\d.]+ % on rank ", stderr, re.M)), 1)
    by_rank = stderr.split("time in MPI calls, by rank")
    expect("tables by rank, which one rank has none of", len(by_rank), 2)
    expect("the late rank has the least time", len(re.findall(rf"^MPI_Barrier +[\d.]+ [mun]?s +{LATE} ", by_rank[-1], re.M)), 1)
    expect("inner phases", len(re.findall('^  small "ones" +3 ', stderr, re.M)), 1)
    expect("the places of MPI_Barrier", len(re.findall(r"^MPI_Barrier .*\n( +3 .* at observed-.*\n){2}MPI_", stderr, re.M)), 1)
    own = stderr.split("fairlead statistics over rank 0")[1].split("fairlead statistics")[0]
    sent = re.findall(r"^MPI_Send +(\d+) ", own, re.M)
    expect(f"MPI_Send of rank 0 so far, {sent}, is what it had sent by then, or a little later",
           len(sent) == 1 and 7 <= int(sent[0]) <= 11, True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "statistics.json")
        result = subprocess.run(sys.argv[1:], env=dict(os.environ, FAIRLEAD_STATS=f"on,{path}"),
                                text=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=float(os.environ["TEST_TIMEOUT"]))
        sys.stderr.write(result.stderr)
        expect("exit code", result.returncode, 0)
        if not FAILURES:
            with open(path) as file:
                check_json(json.load(file))
            check_table(result.stderr)
    print("\n".join(FAILURES) or "ok")
    return bool(FAILURES)


if __name__ == "__main__":
    sys.exit(main())
