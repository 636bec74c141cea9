# SPDX-License-Identifier: Apache-2.0
"""Goals, and the text of a goal and of what was measured for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from comparison.measurements import size

AT_MOST, AT_LEAST = "at most", "at least"

# What a contender is compared with, as goals tell it.
AGAINST = {"peer": "of {peer}", "raw": "of the raw copy", "nccl": "of NCCL", "pcie": "of the slower host copy",
           "host": "of host buffers", "used": "of a used buffer", "lines": "of a copy of the same cache lines",
           "contiguous": "of a contiguous message", "driver": "of the driver's copy", "kernel": "of an empty kernel",
           "sendrecv": "of MPI_Sendrecv", "alone": "of the MPI alone", "added": "added",
           "context": "of a context added", "": ""}
# The yardsticks that stand in the same row: {quantity: what it is compared with}.
OWN = {"lines": {"pack_mb_s": "copy_mb_s", "unpack_mb_s": "copy_mb_s"},
       "contiguous": {"latency_us": "contiguous_us", "bandwidth_gb_s": "contiguous_gb_s"},
       "driver": {"latency_us": "raw_us", "bandwidth_mb_s": "raw_mb_s"},
       "kernel": {"latency_us": "raw_us"},
       "sendrecv": {"put_us": "sendrecv_us"}}


@dataclass(frozen=True)
class Goal:
    """`quantity` of a measurement, over a range of sizes, as a ratio to that of `against`; "" for a plain number,
    "added" for the difference to the host MPI alone, "context" for that difference as a ratio."""

    measurement: str
    quantity: str
    sizes: tuple[int, int]
    best: str
    limit: float
    against: str
    text: str
    rows: dict[str, str | int] = field(default_factory=dict)  # what else its rows say: {"type": "indexed"}

    @property
    def unit(self):
        unit = self.quantity.rpartition("_")[2] if self.against in ("", "added") else ""
        return "%" if unit == "percent" else unit

    def covers(self, row):
        low, high = self.sizes
        return low <= row.get("bytes", low) <= high and all(row.get(name) == value for name, value in self.rows.items())

    def margin(self, seen):
        """1 or more: met."""
        if self.best == AT_LEAST:
            return seen / self.limit
        return self.limit / seen if seen > 0 else float("inf")


@dataclass
class Verdict:
    goal: Goal
    contender: str
    values: dict[int | str, float]  # the ratio at each size, face or type; size 0 where the measurement has none
    missing: str = "not measured"

    @property
    def worst(self):
        """(size, ratio), or None where it was not measured."""
        return min(self.values.items(), key=lambda item: self.goal.margin(item[1]), default=None)

    @property
    def met(self):
        return self.worst is not None and self.goal.margin(self.worst[1]) >= 1


def ratio_text(ratio):
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def row_text(key):
    """A size as sizes are written; a face or a type by its name."""
    return key if isinstance(key, str) else size(key)


def seen_text(verdict):
    """The worst ratio and where, as it stands in tables: "0.52 at 64 B"."""
    if verdict.worst is None:
        return verdict.missing
    key, value = verdict.worst
    if verdict.goal.unit:
        where = f" at {row_text(key)}" if verdict.goal.unit == "%" else ""
        return f"{value:.1f} {verdict.goal.unit}{where}"
    where = f"{'for' if isinstance(key, str) else 'at'} {row_text(key)}"
    text, digits = ratio_text(value), 2
    while digits < 6 and not verdict.met and float(text) == verdict.goal.limit:
        digits += 1  # "1.00, at least 1: no" would puzzle
        text = f"{value:.{digits}f}"
    return f"{text} {where}"


def goal_text(goal, peer):
    number = f"{goal.limit:g} {goal.unit}".strip()
    against = AGAINST[goal.against].format(peer=peer or "the peer")
    return f"{goal.text}: {goal.best} {number} {against}".strip()
