# SPDX-License-Identifier: Apache-2.0
"""The numbers of all runs side by side, and what they say about the goals. Every number is a median: of the
iterations of a run, and of the rounds where there are several."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from comparison.measurements import size

AT_MOST, AT_LEAST = "at most", "at least"


@dataclass(frozen=True)
class Goal:
    """`quantity` of a measurement, over a range of sizes, as a ratio to that of `against`: the peer, the raw copy,
    NCCL, the slower of the copies to and from the host (pcie), host buffers (host), a used buffer (used); "" for a plain
    number."""

    measurement: str
    quantity: str
    sizes: tuple[int, int]
    best: str
    limit: float
    against: str
    text: str

    def margin(self, seen):
        """1 or more: met."""
        if self.best == AT_LEAST:
            return seen / self.limit
        return self.limit / seen if seen > 0 else float("inf")


@dataclass
class Verdict:
    goal: Goal
    contender: str
    values: dict[int, float]  # the ratio at each size; size 0 where the measurement has none

    @property
    def worst(self):
        """(size, ratio), or None where it was not measured."""
        return min(self.values.items(), key=lambda item: self.goal.margin(item[1]), default=None)

    @property
    def met(self):
        return self.worst is not None and self.goal.margin(self.worst[1]) >= 1


AGAINST = {"peer": "of {peer}", "raw": "of the raw copy", "nccl": "of NCCL", "pcie": "of the slower host copy",
           "host": "of host buffers", "used": "of a used buffer", "": ""}


def median(reports):
    """What several rounds found, number by number; everything else is the first one's."""
    first = reports[0]
    if isinstance(first, dict):
        return {key: median([report[key] for report in reports if key in report]) for key in first}
    if isinstance(first, (int, float)) and not isinstance(first, bool):
        return statistics.median(reports)
    return first


class Results:
    def __init__(self, contenders):
        self.contenders = contenders
        self.rounds = {}  # (measurement, contender's name, bytes or what else tells rows apart) -> [row of each round]
        self.rows = {}  # (measurement, contender's name) -> {bytes: row of the benchmark's JSON}
        self.about = {}  # contender's name -> JSON of one of its runs, without the results
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
                    {row["bytes"]: of_rounds(row["bytes"], row) for row in report["results"]})
            self.about.setdefault(contender, {key: value for key, value in report.items() if key != "results"})

    def of_role(self, *roles):
        return [contender for contender in self.contenders if contender.role in roles]

    @property
    def peer(self):
        return next((contender.name for contender in self.of_role("peer")), "")

    def measured(self, measurement):
        """The contenders that have results of this measurement; the raw copy stands beside messages."""
        return [c for c in self.contenders if self.values(measurement, c.name, "latency_us")
                or self.values(measurement, c.name, "bandwidth_mb_s")]

    def values(self, measurement, contender, quantity):
        """{bytes: value}. The quantity `rate` is messages per second, that of the raw copy copies; `busbw` is the bus
        bandwidth of a collective in GB/s."""
        raw = any(c.name == contender and c.role == "raw" for c in self.contenders)
        rows = self.rows.get(("copy" if raw else measurement, contender), {})
        if raw and measurement not in ("copy", "latency", "bw", "bibw"):
            return {}
        if quantity == "busbw":
            return {b: row["busbw_gb_s"] for b, row in rows.items() if "busbw_gb_s" in row}
        if quantity == "rate":
            return {b: row["bandwidth_mb_s"]["p50"] * 1e6 / b for b, row in rows.items() if "bandwidth_mb_s" in row}
        if raw and measurement == "bibw" and quantity == "bandwidth_mb_s":
            quantity = "both_ways_mb_s"
        return {b: row[quantity]["p50"] for b, row in rows.items() if quantity in row}

    def yardstick(self, goal, contender):
        """{bytes: value} of what the goal compares with."""
        if goal.against == "peer":
            return self.values(goal.measurement, self.peer, goal.quantity)
        if goal.against == "nccl":
            nccl = next((c.name for c in self.of_role("nccl")), "")
            return self.values(goal.measurement, nccl, goal.quantity)
        raw = next((c.name for c in self.of_role("raw")), "")
        if goal.against == "raw":
            return self.values(goal.measurement, raw, goal.quantity)
        if goal.against == "pcie":
            up = self.values("copy", raw, "host_to_device_mb_s")
            down = self.values("copy", raw, "device_to_host_mb_s")
            return {b: min(up[b], down[b]) for b in up.keys() & down.keys()}
        if goal.against == "host":
            return self.values("nodes_host", contender, goal.quantity)
        return self.values("latency", contender, goal.quantity)

    def verdict(self, goal, contender):
        values = {}
        low, high = goal.sizes
        if goal.measurement == "host_overhead":
            if contender in self.overhead:
                values[0] = self.overhead[contender]["added_ns"]
        elif goal.measurement == "pairs":
            mine, other = self.pairs.get(contender, {}), self.pairs.get(self.peer, {})
            for stride, number in sorted(mine.keys() & other.keys()):
                if low <= number <= high:
                    ratio = (mine[stride, number]["bandwidth_mb_s"]["mean"]
                             / other[stride, number]["bandwidth_mb_s"]["mean"])
                    values[number] = min(values.get(number, ratio), ratio)
        else:
            mine = self.values(goal.measurement, contender, goal.quantity)
            other = self.yardstick(goal, contender)
            values = {b: mine[b] / other[b] for b in sorted(mine.keys() & other.keys())
                      if low <= b <= high and other[b] > 0}
        return Verdict(goal, contender, values)

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


def seen_text(verdict):
    """The worst ratio and where, as it stands in tables: "0.52 at 64"."""
    if verdict.worst is None:
        return "not measured"
    number, value = verdict.worst
    if verdict.goal.measurement == "host_overhead":
        return f"{value:.1f} ns"
    digits = 2
    while digits < 5 and not verdict.met and round(value, digits) == verdict.goal.limit:
        digits += 1  # "1.00, at least 1: no" would puzzle
    return f"{value:.{digits}f} at {size(number)}"


def goal_text(goal, peer):
    number = f"{goal.limit:g} ns" if goal.measurement == "host_overhead" else f"{goal.limit:g}"
    against = AGAINST[goal.against].format(peer=peer or "the peer")
    return f"{goal.text}: {goal.best} {number} {against}".strip()


def as_json(results, goals, about):
    quantities = ("latency_us", "bandwidth_mb_s", "both_ways_mb_s", "device_to_host_mb_s", "host_to_device_mb_s")
    series = [{"measurement": measurement, "contender": contender,
               "results": [{"bytes": b, **{q: row[q]["p50"] for q in quantities if q in row},
                            **{"busbw_gb_s": values[b] for values in [results.values(measurement, contender, "busbw")]
                               if b in values}}
                           for b, row in sorted(rows.items())]}
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
                   "best": v.goal.best, "worst": v.worst and v.worst[1], "worst_bytes": v.worst and v.worst[0],
                   "met": v.met if v.worst else None} for v in results.verdicts(goals)],
    }
