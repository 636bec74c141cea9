# SPDX-License-Identifier: Apache-2.0
"""The plots of a comparison; each title says what the plot shows."""

from __future__ import annotations

from dataclasses import dataclass

from comparison.drawing import (COLOURS, FAINT, FRONT, INK, STYLE, FixedLocator, FuncFormatter, NullFormatter, canvas,
                                goal_band, log_y, look, pyplot, save, size_axis, subtitle)
from comparison.goals import AT_MOST, OWN, Goal, goal_text, ratio_text, row_text, seen_text
from comparison.measurements import size
from comparison.stages import COLLECTIVE_CALLS, EVERY_SIZE
from comparison.tables import TITLES

# Whose time or rate, as titles say it.
WHOSE = {"nccl": "NCCL", "raw": "the raw copy", "lines": "the copy", "contiguous": "a contiguous message",
         "driver": "the driver", "kernel": "an empty kernel", "sendrecv": "MPI_Sendrecv"}


def between(ratios):
    low, high = ratio_text(min(ratios)), ratio_text(max(ratios))
    return low if low == high else f"{low} to {high}"


def finding(results, measurement, quantity, span, what, yardsticks=("peer", "raw")):
    """Fairlead's ratios on all MPIs, to the first yardstick there is, in words."""
    for against in yardsticks:
        verdicts = results.verdicts((every(measurement, quantity, against, span),))
        ratios = [ratio for v in verdicts for ratio in v.values.values()]
        if ratios:
            whose = results.peer if against == "peer" else WHOSE[against]
            numbers = [key for v in verdicts for key in v.values if not isinstance(key, str)]
            ends = dict.fromkeys(size(b) for b in (min(numbers), max(numbers))) if numbers else ()
            takes, reaches = f"takes {between(ratios)} of {whose}'s time", f"reaches {between(ratios)} times {whose}'s"
            said = takes if quantity.endswith("_us") else reaches
            return f"{', '.join(filter(None, [what, ' to '.join(ends)]))}: Fairlead {said}"
    return f"{what}: {', '.join(c.title for c in results.of_role('fairlead'))}"


@dataclass(frozen=True)
class Lines:
    """A line a contender, and one for what they are compared with."""

    name: str
    measurement: str
    quantity: str
    divisor: float
    label: str
    span: tuple[int, int]
    what: str
    of: tuple[int, int] | None = None  # sizes that the title tells about, where these are others
    against: tuple[str, ...] = ("peer", "raw")

    def draw(self, results, about, folder):
        def shown(values):
            return {b: v / self.divisor for b, v in sorted(values.items()) if self.span[0] <= b <= self.span[1]}

        drawn = {c.name: shown(results.values(self.measurement, c.name, self.quantity)) for c in results.contenders}
        messages = [b for c in results.of_role("fairlead", "peer", "nccl") for b in drawn[c.name]]
        if len(set(messages)) < 2:  # the table says it better
            return None
        drawn = {key: {b: v for b, v in values.items() if min(messages) <= b <= max(messages)}
                 for key, values in drawn.items()}
        title = finding(results, self.measurement, self.quantity, self.of or self.span, self.what, self.against)
        figure, ((axes,),) = canvas(title, subtitle(results, about))
        for contender in results.contenders:
            values, style = drawn[contender.name], look(results, contender)
            if values:
                axes.plot(list(values), list(values.values()), zorder=FRONT[contender.role], **style)
            elif (self.measurement, contender.name) in results.broken:
                axes.plot([], [], **{**style, "label": f"{contender.title} fails"})
        for against in self.against:
            measured = [c.name for c in results.of_role("fairlead") if drawn[c.name]]
            if against in OWN and measured:
                values = shown(results.yardstick(self.measurement, self.quantity, against, measured[0]))
                axes.plot(list(values), list(values.values()), zorder=FRONT["raw"], color=COLOURS["raw"][0],
                          linestyle="--", label=TITLES[against])
        size_axis(axes, messages, 14)
        log_y(axes)
        axes.set_xlabel("message size (bytes)")
        axes.set_ylabel(self.label)
        save(figure, folder, self.name)
        return self.name, title


@dataclass(frozen=True)
class Bars:
    """What a contender reaches of what the benchmark itself compares with: a group of bars a size, face or type."""

    name: str
    against: str
    panels: tuple[tuple[str, str, str], ...]  # measurement, quantity, heading
    label: str
    what: str

    def draw(self, results, goals, about, folder):
        panels = [panel for panel in self.panels if any(self.ratios(results, panel).values())]
        if not panels:
            return None
        measurement, quantity, _ = panels[0]
        title = finding(results, measurement, quantity, EVERY_SIZE, self.what, (self.against,))
        across = all(len(values) <= 5 for panel in panels for values in self.ratios(results, panel).values())
        columns, rows = (len(panels), 1) if across else (1, len(panels))
        figure, grid = canvas(title, subtitle(results, about), columns, rows, 1.7 + 2.6 * rows)
        for axes, panel in zip(grid.flat, panels):
            self.panel(axes, results, goals, panel)
        for axes in grid[:, 0]:
            axes.set_ylabel(self.label, fontsize=10)
        save(figure, folder, self.name)
        return self.name, title

    def ratios(self, results, panel):
        """{contender's name: {size, face or type: ratio}}, also of those that fail."""
        goal = every(*panel[:2], self.against)
        found = {c.name: results.ratios(goal, c.name) for c in results.of_role("fairlead", "peer")}
        return {name: values for name, values in found.items() if values or (panel[0], name) in results.broken}

    def panel(self, axes, results, goals, panel):
        measurement, quantity, heading = panel
        drawn = self.ratios(results, panel)
        keys = list(dict.fromkeys(key for values in drawn.values() for key in values))
        width, ratios = 0.8 / len(drawn), [ratio for values in drawn.values() for ratio in values.values()]
        if max(ratios) / min(ratios) > 50:  # beside a peer that copies block by block
            axes.set_ylim(min(ratios) / 3, max(ratios) * 3)
            log_y(axes)
        else:
            axes.set_ylim(0, max(1.15, max(ratios) * 1.15))
        for number, (name, values) in enumerate(drawn.items()):
            style = look(results, next(c for c in results.contenders if c.name == name))
            places = {key: at + width * (number - (len(drawn) - 1) / 2) for at, key in enumerate(keys)}
            axes.bar(0, 0, color=style["color"], label=style["label"])  # in the legend, also where it fails
            bars = axes.bar([places[key] for key in values], list(values.values()), width * 0.92, color=style["color"],
                            zorder=3)
            if len(keys) * len(drawn) <= 24:
                axes.bar_label(bars, [ratio_text(ratio) for ratio in values.values()], padding=1, zorder=4, fontsize=8,
                               color=INK)
            for key in keys if (measurement, name) in results.broken else ():
                if key not in values:
                    axes.annotate("fails", (places[key], 0.02), xycoords=("data", "axes fraction"), rotation=90,
                                  ha="center", fontsize=8, color=style["color"], zorder=4)
        for goal in goals:
            if (goal.measurement, goal.quantity, goal.against) == (measurement, quantity, self.against):
                for at, key in enumerate(keys):
                    rows = [results.rows[measurement, name][key] for name in drawn if key in drawn[name]]
                    if any(goal.covers(row) for row in rows):
                        goal_band(axes, goal, at - 0.5, at + 0.5)
        axes.axhline(1, color="#999999", linewidth=0.8, zorder=1)
        axes.set_xlim(-0.6, len(keys) - 0.4)
        axes.set_xticks(range(len(keys)), [row_text(key) for key in keys], fontsize=9)
        axes.tick_params(axis="x", length=0)
        axes.set_title(heading, loc="left", fontsize=11)


def ratio_panels(results, goals, about, folder):
    """Fairlead's ratio at each size, and where the goals lie."""
    panels = [(m, q, a, f"{what} relative to {results.peer if a == 'peer' else 'the raw copy'}")
              for m, q, what in (("latency", "latency_us", "latency"), ("bw", "bandwidth_mb_s", "bandwidth"))
              for a in ("peer", "raw")]
    panels = [p for p in panels if any(v.values for v in results.verdicts((every(*p[:3]),)))]
    if not panels:
        return None
    several = len(panels) > 1
    rows = -(-len(panels) // 2)
    height = 1.2 + 2.5 * rows
    shown = [v for v in results.verdicts(goals) if v.worst and (v.goal.measurement, v.goal.quantity, v.goal.against)
             in [p[:3] for p in panels]]
    met = sum(v.met for v in shown)
    title = f"Latency and bandwidth meet {met} of {len(shown)} goals" if shown else "Latency and bandwidth"
    figure, grid = canvas(title, subtitle(results, about), 2 if several else 1, rows, height)
    for axes in grid.flat[len(panels):]:
        axes.axis("off")
    for axes, (measurement, quantity, against, what) in zip(grid.flat, panels):
        numbers = []
        for verdict in results.verdicts((every(measurement, quantity, against),)):
            contender = next(c for c in results.contenders if c.name == verdict.contender)
            values = {b: v for b, v in verdict.values.items() if measurement == "latency" or b >= 64 << 10}
            numbers += values
            if values:
                axes.plot(list(values), list(values.values()), zorder=3, **look(results, contender))
        if not numbers:
            axes.axis("off")
            continue
        size_axis(axes, numbers, 7)
        axes.set_ylim(0, max(1.15, axes.get_ylim()[1] * 1.05))
        for goal in goals:
            if (goal.measurement, goal.quantity, goal.against) != (measurement, quantity, against):
                continue
            low, high = goal.sizes[0], min(goal.sizes[1], max(numbers))
            if high >= low:
                goal_band(axes, goal, low / 1.3, high * 1.3)
        axes.axhline(1, color="#999999", linewidth=0.8, zorder=1)
        axes.set_title(what, loc="left", fontsize=11)
        if axes in grid[-1]:
            axes.set_xlabel("message size (bytes)", fontsize=10)
        axes.tick_params(labelsize=9)
    save(figure, folder, "ratios.png")
    return "ratios.png", title


def collective(results, about, folder, measurement):
    """Time, bus bandwidth and Fairlead's time relative to the others', one below the other."""
    drawn = results.measured(measurement, "latency_us")
    numbers = sorted({b for c in drawn for b in results.values(measurement, c.name, "latency_us")})
    if len(numbers) < 2:
        return None
    title = finding(results, measurement, "latency_us", (1, 1 << 40), measurement.capitalize(), ("peer", "nccl"))
    ratios = [(c, against, verdict.values) for against in ("peer", "nccl") for c in results.of_role("fairlead")
              for verdict in [results.verdict(every(measurement, "latency_us", against), c.name)] if verdict.values]
    panels = 3 if ratios else 2
    figure, grid = canvas(title, subtitle(results, about), rows=panels, height=1.2 + 2.7 * panels)
    times, bandwidths = grid.flat[:2]
    for axes, quantity, label in ((times, "latency_us", "time (us)"), (bandwidths, "busbw_gb_s", "busbw (GB/s)")):
        for contender in drawn:
            values = sorted(results.values(measurement, contender.name, quantity).items())
            axes.plot(*zip(*values), zorder=FRONT[contender.role], **look(results, contender))
        axes.set_ylabel(label)
    log_y(times)
    bandwidths.set_ylim(bottom=0)
    if ratios:
        axes = grid.flat[2]
        for contender, against, values in ratios:
            of_peer = against == "peer"
            style = look(results, contender)
            axes.plot(list(values), list(values.values()), **{**style, "linestyle": "-" if of_peer else ":",
                                                              "label": "_"}, zorder=3)
            whose = f" of {results.peer if of_peer else 'NCCL'}"  # once, at the end of the first line
            if whose not in [text.get_text() for text in axes.texts]:
                axes.annotate(whose, (max(values), values[max(values)]), fontsize=9, color=INK, va="center")
        axes.axhline(1, color="#999999", linewidth=0.8, zorder=1)
        axes.set_ylim(0, max(1.15, axes.get_ylim()[1] * 1.05))
        axes.set_ylabel("Fairlead's time,\nrelative")
    for axes in grid.flat:
        size_axis(axes, numbers, 14)
    grid.flat[-1].set_xlabel("size (bytes)")
    save(figure, folder, f"{measurement}.png")
    return f"{measurement}.png", title


def every(measurement, quantity, against, span=EVERY_SIZE):
    """A goal of which only the ratios count."""
    return Goal(measurement, quantity, span, AT_MOST, 1, against, "")


def goal_marks(results, goals, about, folder):
    """How far each goal is met: a row a goal, a mark an MPI."""
    shown = [goal for goal in goals if any(v.worst for v in results.verdicts((goal,)))]
    if not shown:
        return None
    verdicts = [v for v in results.verdicts(shown) if v.worst]
    met, several = sum(v.met for v in verdicts), len(results.of_role("fairlead")) > 1
    title = f"{met} of {len(verdicts)} goals are met" + (", counted for each MPI" if several else "")
    height = 1.6 + 0.34 * len(shown)
    figure, ((axes,),) = canvas(title, subtitle(results, about), height=height)
    floor, ceiling = 0.2, 5.0
    axes.set_xscale("log")
    axes.axvspan(1, ceiling * 1.2, color="#7fbf7f", alpha=0.15, linewidth=0)
    axes.axvline(1, color="#3c8c3c", linewidth=1.2)
    for row, goal in enumerate(shown):
        axes.axhline(row, color=FAINT, linewidth=0.6, zorder=0)
        of_goal = [v for v in results.verdicts((goal,)) if v.worst]
        for number, verdict in enumerate(of_goal):
            shift = 0.18 * (number - (len(of_goal) - 1) / 2)
            style = look(results, next(c for c in results.contenders if c.name == verdict.contender))
            place = min(max(goal.margin(verdict.worst[1]), floor), ceiling)
            axes.plot([place], [row + shift], marker=style["marker"], color=style["color"], markersize=7, linestyle="",
                      label=style["label"], alpha=0.9, zorder=3)
        worst = min(of_goal, key=lambda v: goal.margin(v.worst[1]))
        axes.annotate(seen_text(worst), (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=9,
                      color=INK if worst.met else "#b3261e")
    axes.set_yticks(range(len(shown)), [goal_text(goal, results.peer) for goal in shown], fontsize=9)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(floor / 1.2, ceiling * 1.2)
    axes.xaxis.set_major_locator(FixedLocator([0.2, 0.5, 1, 2, 5]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: "goal" if value == 1 else f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("times as good as the goal (log scale)", fontsize=10)
    axes.annotate("worst seen", (1.01, -0.75), xycoords=("axes fraction", "data"), fontsize=9, color="#666666")
    save(figure, folder, "goals.png")
    return "goals.png", title


def pairs(results, about, folder):
    strides = sorted({stride for rows in results.pairs.values() for stride, _ in rows}, reverse=True)
    drawn = [c for c in results.contenders if results.pairs.get(c.name)]
    if len({number for rows in results.pairs.values() for _, number in rows}) < 2:
        return None
    title = finding(results, "pairs", "bandwidth_mb_s", (1 << 20, 1 << 40), "Pairs of ranks")
    figure, grid = canvas(title, subtitle(results, about), min(len(strides), 4), height=4.6, sharey=True)
    for axes, stride in zip(grid.flat, strides):
        numbers = []
        for contender in drawn:
            values = {b: row["bandwidth_mb_s"]["mean"] / 1e3 for (s, b), row in
                      sorted(results.pairs[contender.name].items()) if s == stride}
            numbers += values
            if values:
                axes.plot(list(values), list(values.values()), zorder=FRONT[contender.role],
                          **look(results, contender))
        size_axis(axes, numbers, (14, 6, 4, 3)[min(len(strides), 4) - 1])
        log_y(axes)
        axes.set_title(f"partner {stride} rank{'s' * (stride != 1)} away", loc="left", fontsize=11)
        axes.set_xlabel("message size (bytes)")
        axes.tick_params(labelsize=9)
    grid.flat[0].set_ylabel("bandwidth of a pair, one way (GB/s)")
    save(figure, folder, "pairs.png")
    return "pairs.png", title


SMALL, LARGE = (8, 2 << 10), (64 << 10, 1 << 40)  # messages below show as message rate
LINES = (
    Lines("latency.png", "latency", "latency_us", 1, "latency (us)", (1, 4 << 20), "Latency", SMALL),
    Lines("bandwidth.png", "bw", "bandwidth_mb_s", 1e3, "bandwidth (GB/s)", LARGE, "Bandwidth"),
    Lines("bidirectional.png", "bibw", "bandwidth_mb_s", 1e3, "bandwidth, both ways (GB/s)", LARGE,
          "Bandwidth both ways"),
    Lines("message_rate.png", "bw", "rate", 1e6, "messages a second (millions)", (8, 32 << 10), "Message rate",
          (8, 1 << 10)),
    *(Lines(f"{call}_latency.png", f"{call}_latency", "latency_us", 1, "latency (us)", (1, 4 << 20), what, SMALL,
            ("driver",)) for call, what in (("put", "Put"), ("get", "Get"), ("acc", "Accumulate"))),
    *(Lines(f"{call}.png", call, "bandwidth_mb_s", 1e3, "bandwidth (GB/s)", LARGE, what, None, ("driver",))
      for call, what in (("put_bw", "Put bandwidth"), ("get_bw", "Get bandwidth"),
                         ("put_bibw", "Put both ways"))),
    Lines("put_halo.png", "put_halo", "put_us", 1, "time (us)", EVERY_SIZE, "Borders by put", None, ("sendrecv",)),
)
BARS = (
    Bars("pack.png", "lines", (("pack", "pack_mb_s", "packing, by size of the blocks"),
                               ("pack", "unpack_mb_s", "unpacking")), "rate, relative to the copy", "Packing rate"),
    Bars("halo.png", "contiguous", (("halo", "latency_us", ""),), "time, relative to contiguous messages",
         "Faces of a cube"),
    Bars("datatype.png", "contiguous", (("datatype", "bandwidth_gb_s", ""),), "rate, relative to contiguous messages",
         "Rate of datatypes"),
    Bars("atomics.png", "kernel", (("fop_latency", "latency_us", "MPI_Fetch_and_op"),
                                   ("cas_latency", "latency_us", "MPI_Compare_and_swap")),
         "time, relative to an empty kernel", "Fetch and op"),
)


def draw(results, goals, about, folder):
    """Returns [(file name, what it shows)] of the plots there was something for."""
    with pyplot.rc_context(STYLE):
        made = [collective(results, about, folder, c.id) for c in COLLECTIVE_CALLS]
        made += [goal_marks(results, goals, about, folder), ratio_panels(results, goals, about, folder)]
        made += [lines.draw(results, about, folder) for lines in LINES]
        made += [bars.draw(results, goals, about, folder) for bars in BARS]
        made += [pairs(results, about, folder)]
    return [plot for plot in made if plot]
