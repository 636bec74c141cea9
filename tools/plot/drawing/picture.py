# SPDX-License-Identifier: Apache-2.0
"""What a picture shows, whoever draws it: panels of series over sizes, a panel of ratios to the first, a caption.

Some runs have parts: `pairs` the strides, `first` the messages of new buffers. Each part has a column where several such
runs are drawn, and a series where it is one; other runs have one column.
"""

from __future__ import annotations

from dataclasses import dataclass

from failure import usage
from quantities import BENCHMARKS, QUANTITIES, YARDSTICK, Quantity, Value
from runs import Run
from scales import size_text


@dataclass
class Series:
    label: str
    style: int  # the same number looks the same in all panels
    values: dict[str, dict[int, Value]]  # by quantity and bytes
    part: int | str | None = None  # where it is one part of a run


@dataclass
class Column:
    title: str
    series: list[Series]

    def sizes(self):
        return sorted({size for series in self.series for values in series.values.values() for size in values})

    def ratios(self, quantity):
        """[(series, {bytes: ratio to the first series})] of the others, where they share sizes with it."""
        first, found = self.series[0].values[quantity.name], []
        for series in self.series[1:]:
            ratios = {size: value.middle / first[size].middle for size, value in series.values[quantity.name].items()
                      if size in first and first[size].middle > 0 and value.middle > 0}
            if ratios:
                found.append((series, ratios))
        return found


@dataclass
class Picture:
    title: str
    quantities: list[Quantity]
    columns: list[Column]
    first: str  # label of the run that the others are compared with
    compared: Quantity | None  # what the ratios are of
    strides: bool  # the series are the strides of one run of pairs
    caption: list[str]
    middle: str  # what lines show
    spread: str  # what bands around them show; "" where the runs have none
    size: str  # what the values are drawn against
    names: tuple[str, ...] = ()  # of what stands in the place of sizes, from 1

    def text(self, size):
        return self.names[size - 1] if self.names else size_text(size)

    @property
    def axis(self):
        return self.size if self.names else f"{self.size} (bytes)"

    @property
    def labels(self):
        """{style: label}"""
        return {series.style: series.label for column in self.columns for series in column.series}


def column(title, runs, quantities, part=None):
    series = [Series(run.label, number, {q.name: run.values(q, part) for q in quantities})
              for number, run in enumerate(runs)]
    return Column(title, [one for one in series if any(one.values.values())])


def caption(runs):
    """What holds for all runs first, then what is each one's own, with its command."""
    shared = [fact for fact in runs[0].facts if all(fact in run.facts for run in runs)]
    lines = [", ".join(shared)] if shared else []
    for run in runs:
        own = ", ".join(fact for fact in run.facts if fact not in shared and fact not in run.label)
        made = " — ".join(filter(None, (own, run.about.get("command", f"from {run.file}"))))
        lines.append(f"{run.label}: {made}")
    return lines


def cut_yardstick(runs):
    """A copy was often measured at more sizes than the messages it stands beside."""
    messages = [row["bytes"] for run in runs if run.benchmark != YARDSTICK for row in run.rows]
    for run in runs:
        if run.benchmark == YARDSTICK:
            run.rows = [row for row in run.rows if min(messages) <= row["bytes"] <= max(messages)]


def compose(benchmark: str, runs: list[Run], asked: list[str]):
    kind = BENCHMARKS[benchmark]
    for name in asked:
        if name not in kind.quantities:
            raise usage(f"--quantity: '{name}' is not accepted for {benchmark}; accepted: {', '.join(kind.quantities)}")
    if benchmark != YARDSTICK:
        cut_yardstick(runs)
    quantities = [QUANTITIES[name] for name in dict.fromkeys(asked or kind.usual)]
    parts = list(dict.fromkeys(part for run in runs for part in run.parts))
    if benchmark == "pairs":
        parts.sort()
    by_part = bool(parts) and len(runs) == 1
    if by_part:
        series = [Series(title_of(part), number, {q.name: runs[0].values(q, part) for q in quantities}, part)
                  for number, part in enumerate(parts)]
        columns = [Column("", [one for one in series if any(one.values.values())])]
    elif parts:
        columns = [column(title_of(part), runs, quantities, part) for part in parts]
    else:
        columns = [column("", runs, quantities)]
    columns = [one for one in columns if one.series]
    if not columns:
        raise usage(f"no file has {' or '.join(q.title for q in quantities)}; accepted: files of `fairlead bench "
                    f"{benchmark}` with results, or another --quantity")
    compared = next((q for q in quantities if q.logarithmic and any(one.ratios(q) for one in columns)), None)
    values = [value for one in columns for series in one.series for known in series.values.values()
              for value in known.values()]
    spread = kind.spread if any(value.least < value.greatest for value in values) else ""
    return Picture(kind.title, quantities, columns, runs[0].label, None if by_part else compared,
                   by_part and benchmark == "pairs", caption(runs), kind.middle, spread, kind.size, kind.names)


def title_of(part):
    return part if isinstance(part, str) else f"partner {part} rank{'s' * (part != 1)} away"
