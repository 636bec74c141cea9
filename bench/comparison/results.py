# SPDX-License-Identifier: Apache-2.0
"""The numbers of all runs side by side, and what they say about the goals. Every number is a median: of the
iterations of a run, and of the rounds where there are several."""

from __future__ import annotations

import statistics

from comparison.goals import OWN, Verdict, goal_text, seen_text

# Quantities that follow from others of a row.
DERIVED = {"mean_us": lambda row: row["latency_us"]["mean"],
           "rate": lambda row: row["bandwidth_mb_s"]["p50"] * 1e6 / row["bytes"],
           "contiguous_gb_s": lambda row: row["bytes"] / row["contiguous_us"]["p50"] / 1e3}


def key_of(row):
    """The key of a row of a measurement: bytes, "face i", "indexed" or "MPI_Init"."""
    if "init_ms" in row:
        return "MPI_Init"
    if "face" in row:
        return f"face {row['face']}"
    return row.get("type", row["bytes"])


def number(row, quantity):
    """None if the row lacks it."""
    try:
        value = DERIVED[quantity](row) if quantity in DERIVED else row[quantity]
    except KeyError:
        return None
    return value.get("p50", value.get("mean")) if isinstance(value, dict) else value


def alone(measurement):
    """The measurement of the host MPI alone, with which NAME and NAME-VARIANT are compared."""
    return f"{measurement.partition('-')[0]}-alone"


def median(reports):
    """What several rounds found, number by number; everything else is the first one's."""
    first = reports[0]
    if isinstance(first, dict):
        return {key: median([report[key] for report in reports if key in report]) for key in first}
    if isinstance(first, (int, float)) and not isinstance(first, bool) and len(set(reports)) > 1:
        return statistics.median(reports)
    return first


class Results:
    def __init__(self, contenders):
        self.contenders = contenders
        self.rounds = {}  # (measurement, contender's name, key of the row) -> [row of each round]
        self.rows = {}  # (measurement, contender's name) -> {key of the row: row of the benchmark's JSON}
        self.broken = set()  # (measurement, contender's name) of which a run failed
        self.about = {}  # contender's name -> JSON of one of its runs, without the results
        self.headers = {}  # (measurement, contender's name) -> the same, of that measurement
        self.pairs = {}  # contender's name -> {(stride, bytes of a message): row}
        self.overhead = {}  # contender's name -> JSON of host_overhead

    def add(self, measurement, contender, report):
        def of_rounds(which, row):
            known = self.rounds.setdefault((measurement, contender, which), [])
            known.append(row)
            return median(known)

        if measurement == "host_overhead":
            self.overhead[contender] = of_rounds(None, report)
        elif measurement == "pairs":
            rows = {(row["stride"], row["bytes"]): row for row in report["results"]}
            self.pairs.setdefault(contender, {}).update({key: of_rounds(key, row) for key, row in rows.items()})
        else:
            if measurement != "probe":
                self.rows.setdefault((measurement, contender), {}).update(
                    {key_of(row): of_rounds(key_of(row), row) for row in report["results"]})
            header = {key: value for key, value in report.items() if key != "results"}
            self.about.setdefault(contender, header)
            self.headers.setdefault((measurement, contender), header)

    def fail(self, measurement, contender):
        self.broken.add((measurement, contender))

    def of_role(self, *roles):
        return [contender for contender in self.contenders if contender.role in roles]

    @property
    def peer(self):
        return next((contender.name for contender in self.of_role("peer")), "")

    def values(self, measurement, contender, quantity):
        """{key of the row: value}. The quantity `rate` is messages per second, that of the raw copy copies."""
        raw = any(c.name == contender and c.role == "raw" for c in self.contenders)
        if raw and measurement not in ("copy", "latency", "bw", "bibw"):
            return {}
        if raw and measurement == "bibw" and quantity == "bandwidth_mb_s":
            quantity = "both_ways_mb_s"
        rows = self.rows.get(("copy" if raw else measurement, contender), {})
        found = {key: number(row, quantity) for key, row in rows.items()}
        return {key: value for key, value in found.items() if value is not None}

    def measured(self, measurement, quantity):
        """The contenders that have it; the raw copy stands beside messages."""
        return [c for c in self.contenders if self.values(measurement, c.name, quantity)]

    def best(self, measurement, quantity, contenders):
        """{key of the row: value} of whichever of them is fastest there."""
        faster = min if quantity.endswith("_us") else max
        found = [self.values(measurement, name, quantity) for name in contenders]
        return {key: faster(values[key] for values in found if key in values) for values in found for key in values}

    def yardstick(self, measurement, quantity, against, contender):
        """{key of the row: value} of what the contender is compared with; see AGAINST."""
        if against in OWN:
            return self.values(measurement, contender, OWN[against][quantity])
        if against in ("alone", "added", "context"):
            return self.values(alone(measurement), contender, quantity)
        if against in ("peer", "nccl", "raw"):
            return self.best(measurement, quantity, [c.name for c in self.of_role(against)])
        if against == "pcie":
            raw = next((c.name for c in self.of_role("raw")), "")
            up = self.values("copy", raw, "host_to_device_mb_s")
            down = self.values("copy", raw, "device_to_host_mb_s")
            return {b: min(up[b], down[b]) for b in up.keys() & down.keys()}
        return self.values("nodes_host" if against == "host" else "latency", contender, quantity)

    def verdict(self, goal, contender):
        verdict = Verdict(goal, contender, self.ratios(goal, contender))
        if goal.against == "peer" and (goal.measurement, self.peer) in self.broken:
            verdict.missing = f"{self.peer} fails"
        return verdict

    def ratios(self, goal, contender):
        """{key of the row: ratio, or the value itself where the goal is a plain number}"""
        if goal.measurement == "host_overhead":
            return {0: self.overhead[contender]["added_ns"]} if contender in self.overhead else {}
        if goal.measurement == "pairs":
            return self.ratios_of_pairs(goal, contender)
        rows = self.rows.get((goal.measurement, contender), {})
        mine = {key: value for key, value in self.values(goal.measurement, contender, goal.quantity).items()
                if goal.covers(rows[key])}
        if not goal.against:
            return mine
        other = self.yardstick(goal.measurement, goal.quantity, goal.against, contender)
        if goal.against in ("added", "context"):
            mine = {key: value - other[key] for key, value in mine.items() if key in other}
        if goal.against == "added":
            return mine
        if goal.against == "context":
            other = self.values(alone(goal.measurement), contender, "context_ms")
        return {key: value / other[key] for key, value in mine.items() if other.get(key, 0) > 0}

    def ratios_of_pairs(self, goal, contender):
        """The worst stride of each size."""
        values = {}
        mine, other = self.pairs.get(contender, {}), self.pairs.get(self.peer, {})
        for key in sorted(mine.keys() & other.keys()):
            if goal.covers(mine[key]):
                bytes_, ratio = key[1], mine[key]["bandwidth_mb_s"]["mean"] / other[key]["bandwidth_mb_s"]["mean"]
                values[bytes_] = min(values.get(bytes_, ratio), ratio)
        return values

    def verdicts(self, goals):
        """One for each goal and each MPI with Fairlead."""
        return [self.verdict(goal, c.name) for goal in goals for c in self.of_role("fairlead")]

    def simulated(self):
        return any(report.get("provider") == "sim" for report in self.about.values())

    def hardware(self):
        return next((report["hardware"] for report in self.about.values() if report["hardware"]["gpus"]), {})

    def gpus(self):
        """2 x NVIDIA H200"""
        names = self.hardware().get("gpus", [])
        kinds = sorted(set(names))
        if self.simulated():
            return f"{len(names)} simulated GPU{'s' * (len(names) != 1)}"
        return ", ".join(f"{names.count(kind)} x {kind}" for kind in kinds) or "no GPU"


def worst(verdict):
    """The worst that was seen, and where; how `fairlead plot` shows it."""
    if not verdict.worst:
        return {"worst": None, "worst_bytes": None, "met": None}
    key, value = verdict.worst
    return {"worst": value, "worst_row" if isinstance(key, str) else "worst_bytes": key, "met": verdict.met,
            "margin": verdict.goal.margin(value), "seen": seen_text(verdict)}


def as_json(results, goals, about):
    series = [{"measurement": measurement, "contender": contender,
               "results": [{name: number(row, name) for name in row} for row in rows.values()]}
              for (measurement, contender), rows in results.rows.items()]
    return {
        **about,
        "contenders": [{"name": c.name, "role": c.role, "launcher": c.launcher, "flags": c.flags,
                        "env_file": c.env_file, "variables": c.variables, **results.about.get(c.name, {})}
                       for c in results.contenders],
        "series": series,
        "host_overhead_ns": {name: report["added_ns"] for name, report in results.overhead.items()},
        "pairs": {name: list(rows.values()) for name, rows in results.pairs.items()},
        "goals": [{"goal": goal_text(v.goal, results.peer), "contender": v.contender, "limit": v.goal.limit,
                   "best": v.goal.best, **worst(v)} for v in results.verdicts(goals)],
    }
