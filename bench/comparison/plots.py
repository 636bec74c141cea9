# SPDX-License-Identifier: Apache-2.0
"""The plots of a comparison. `fairlead plot` draws them: one for each table that names a plot, the pairs of ranks, and
how far each goal is met. The first of the files of a plot is what Fairlead is compared with."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import replace

from comparison.goals import AT_MOST, OWN, Goal, ratio_text
from comparison.measurements import size
from comparison.results import alone, number
from comparison.runner import Failure, write_json
from comparison.stages import EVERY_SIZE
from comparison.tables import TABLES, TITLES, Table

# Whose time or rate, as titles say it.
WHOSE = {"nccl": "NCCL", "raw": "the raw copy", "lines": "the copy", "contiguous": "a contiguous message",
         "driver": "the driver", "kernel": "an empty kernel", "sendrecv": "MPI_Sendrecv",
         "alone": "the host MPI"}
SEPARATE = ("driver", "kernel", "contiguous")  # yardsticks that `fairlead plot` does not find in the rows by itself
PAIRS = Table("Pairs of ranks", "pairs.png", "pairs", "bandwidth_mb_s", sizes=(1 << 20, 1 << 40), against=("peer",))


def between(ratios):
    low, high = ratio_text(min(ratios)), ratio_text(max(ratios))
    return low if low == high else f"{low} to {high}"


def finding(results, wanted):
    """Fairlead's ratios on all MPIs, to the first yardstick there is, in words."""
    what = re.split(r"[,(]", wanted.heading)[0].strip()
    for against in wanted.against:
        goal = Goal(wanted.measurement, wanted.quantity, wanted.sizes, AT_MOST, 1, against, "")
        values = [item for verdict in results.verdicts((goal,)) for item in verdict.values.items()]
        if values:
            whose = results.peer if against == "peer" else WHOSE[against]
            if len(results.of_role(against)) > 1:
                whose = f"the faster {whose}"
            numbers = [key for key, _ in values if not isinstance(key, str)]
            ends = dict.fromkeys(size(b) for b in (min(numbers), max(numbers))) if numbers else ()
            ratios = between([ratio for _, ratio in values])
            said = f"takes {ratios} of {whose}'s time" if wanted.quantity.endswith("_us") else \
                f"reaches {ratios} times {whose}'s"
            return f"{', '.join(filter(None, [what, ' to '.join(ends)]))}: Fairlead {said}"
    return f"{what}: {', '.join(c.title for c in results.of_role('fairlead'))}"


def rows_of(results, wanted, contender):
    """Of the raw copy those at the sizes of messages."""
    if wanted is PAIRS:
        return list(results.pairs.get(contender.name, {}).values())
    if contender.role != "raw":
        rows = results.rows.get((wanted.measurement, contender.name), {}).values()
        return [row for row in rows if wanted.rows != "size" or wanted.sizes[0] <= row["bytes"] <= wanted.sizes[1]]
    values = results.values(wanted.measurement, contender.name, wanted.quantity)
    messages = {row["bytes"] for c in results.of_role("fairlead") for row in rows_of(results, wanted, c)}
    key = "bandwidth_mb_s" if wanted.quantity == "rate" else wanted.quantity
    scale = (lambda b: b / 1e6) if wanted.quantity == "rate" else (lambda b: 1)
    return [{"bytes": b, key: exactly(value * scale(b))} for b, value in sorted(values.items()) if b in messages]


def exactly(value):
    return dict.fromkeys(("mean", "min", "p50", "max"), value)


def series(results, wanted):
    """[(label, contender, rows)], what Fairlead is compared with first; nothing where Fairlead has no rows."""
    found = [(TITLES.get(c.role, c.title), c, rows) for c in results.contenders if (rows := rows_of(results, wanted, c))]
    measured, rows = next(((c, rows) for _, c, rows in found if c.role == "fairlead"), (None, []))
    if not rows:
        return []
    if "alone" in wanted.against:  # each MPI has one of its own: the first MPI's are drawn
        own = rows_of(results, replace(wanted, measurement=alone(wanted.measurement)), measured)
        return [(f"{measured.name} alone", measured, own), (measured.title, measured, rows)] if own else []
    order = [*wanted.against, "fairlead", "peer", "nccl", "raw"]
    found.sort(key=lambda each: order.index(each[1].role))
    for against in SEPARATE:
        if against in wanted.against and (key := OWN[against].get(wanted.quantity)):
            own = [{**row, wanted.quantity: exactly(number(row, key))} for row in rows if key in row]
            found[:0] = [(TITLES[against], measured, own)] if own else []
            found = [(label, c, [{k: v for k, v in row.items() if k != key} for row in rows]) for label, c, rows in found]
    return found


def plot(tool, files, options, picture):
    result = subprocess.run([tool, "plot", *files, *options, "-o", picture], text=True, capture_output=True)
    if result.returncode != 0:
        raise Failure(result.stderr.strip())


def draw_one(tool, results, stage, wanted, folder, files):
    found = series(results, wanted)
    if not found:
        return None
    benchmark = next(m.benchmark for m in stage.measurements if m.id == wanted.measurement)
    paths, options = [], ["--quantity", "rate"] if wanted.quantity == "rate" else []
    for place, (label, contender, rows) in enumerate(found):
        paths.append(os.path.join(files, f"{wanted.measurement}-{place}.json"))
        measurement = alone(wanted.measurement) if "alone" in wanted.against and place == 0 else wanted.measurement
        header = results.headers.get((measurement, contender.name), {})
        about = {**results.about[contender.name], **header, "benchmark": benchmark[0],
                 "command": f"fairlead bench {'copy' if contender.role == 'raw' else ' '.join(benchmark)}", "results": rows}
        write_json(paths[-1], about)
        options.append(f"--label={label}")
    plot(tool, paths, options, os.path.join(folder, wanted.plot))
    return wanted.plot, finding(results, wanted)


def draw(tool, results, stage, folder):
    """Returns [(file name, what it shows)] of the plots there was something for. Throws a Failure."""
    tables = [table for table in TABLES[stage.name] if table.plot]
    if any(m.id == PAIRS.measurement for m in stage.measurements):
        tables.append(PAIRS)
    with tempfile.TemporaryDirectory() as files:
        made = [draw_one(tool, results, stage, wanted, folder, files) for wanted in tables]
    verdicts = [verdict for verdict in results.verdicts(stage.goals) if verdict.worst]
    if verdicts:
        plot(tool, [os.path.join(folder, "results.json")], [], os.path.join(folder, "goals.png"))
        made.append(("goals.png", f"{sum(v.met for v in verdicts)} of {len(verdicts)} goals are met"))
    return [each for each in made if each]
