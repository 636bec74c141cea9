# SPDX-License-Identifier: Apache-2.0
"""The plots of a comparison. A contender has one colour in all of them; each title says what the plot shows.

Made to be read 800 pixels wide.
"""

from __future__ import annotations

import os

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from comparison.measurements import COLLECTIVES, size
from comparison.results import AT_MOST, Goal, goal_text, seen_text

COLOURS = {"fairlead": ("#0b5cad", "#12a39a", "#7b4fc0", "#4a4a8a"), "peer": ("#d8572a",), "nccl": ("#6c9a1f",),
           "raw": ("#6f6f6f",)}
FRONT = {"raw": 2, "nccl": 3, "peer": 4, "fairlead": 5}  # where lines lie upon each other
MARKERS = {"fairlead": "osD^", "peer": "v", "nccl": "P", "raw": " "}
INK, FAINT = "#222222", "#d9d9d9"
STYLE = {"font.size": 11, "axes.edgecolor": "#999999", "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
         "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False, "lines.linewidth": 1.8,
         "lines.markersize": 4.5}


def look(results, contender):
    peers = [c.name for c in results.of_role(contender.role)]
    colours, markers = COLOURS[contender.role], MARKERS[contender.role]
    at = peers.index(contender.name)
    return {"color": colours[at % len(colours)], "marker": markers[at % len(markers)],
            "linestyle": "--" if contender.role == "raw" else "-",
            "label": "raw copy" if contender.role == "raw" else contender.title}


def subtitle(results, about):
    words = [results.gpus(), about["fairlead"].replace("fairlead", "Fairlead"), about["date"]]
    if results.simulated():
        words.append("times on simulated GPUs mean nothing")
    return ", ".join(words)


def canvas(title, below, columns=1, rows=1, height=5.0, **options):
    figure, axes = pyplot.subplots(rows, columns, figsize=(8, height), squeeze=False, **options)
    figure.text(0.02, 1 - 0.12 / height, title, fontsize=12.5, fontweight="bold", color=INK, va="top")
    figure.text(0.02, 1 - 0.38 / height, below, fontsize=9.5, color="#666666", va="top")
    return figure, axes


def save(figure, folder, name):
    """The legend stands in one row below the title, where no line runs through it."""
    height = figure.get_figheight()
    entries = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            entries.setdefault(label, handle)
    figure.legend(list(entries.values()), list(entries), loc="upper left", bbox_to_anchor=(0.01, 1 - 0.52 / height), ncol=6, fontsize=10,
                  columnspacing=1.4, handlelength=1.8, borderaxespad=0.2)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.85 / height))
    figure.savefig(os.path.join(folder, name), dpi=100)
    pyplot.close(figure)


def size_axis(axes, numbers, most=9):
    """Bytes, a mark at every power of two, a label at every second, third, ... of them, so that they do not touch."""
    axes.set_xscale("log", base=2)
    low, high = min(numbers), max(numbers)
    if low == high:
        axes.set_xlim(low / 2, high * 2)
    first, last = low.bit_length() - 1, high.bit_length() - 1
    step = max(1, -(-(last - first + 1) // most))
    axes.xaxis.set_major_locator(FixedLocator([1 << power for power in range(first - first % step, last + 1, step)]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: size(number).removesuffix(" B")))
    axes.xaxis.set_minor_locator(FixedLocator([1 << power for power in range(first, last + 1)]))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(True, which="major", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)


def log_y(axes):
    """Enough labels also where all values lie within one decade."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    steps = (1, 1.5, 2, 3, 5, 7) if high / low < 15 else (1, 2, 5) if high / low < 3000 else (1,)
    axes.yaxis.set_major_locator(MaxNLocator(5) if high / low < 2 else LogLocator(base=10, subs=steps))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def between(ratios):
    low, high = min(ratios), max(ratios)
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"


def finding(results, measurement, quantity, span, what, yardsticks=("peer", "raw")):
    """Fairlead's ratios on all MPIs, to the first yardstick there is, in words."""
    for against in yardsticks:
        goal = Goal(measurement, quantity, span, AT_MOST, 1, against, "")
        ratios = [ratio for v in results.verdicts((goal,)) for ratio in v.values.values()]
        if ratios:
            numbers = [b for v in results.verdicts((goal,)) for b in v.values]
            whose = {"peer": results.peer, "nccl": "NCCL", "raw": "the raw copy"}[against]
            time = quantity == "latency_us"
            sizes = " to ".join(dict.fromkeys(size(b) for b in (min(numbers), max(numbers))))
            said = f"takes {between(ratios)} of {whose}'s time" if time else f"reaches {between(ratios)} times {whose}'s"
            return f"{what}, {sizes}: Fairlead {said}"
    return f"{what}: {', '.join(c.title for c in results.of_role('fairlead'))}"


def lines(results, about, folder, name, measurement, quantity, divisor, label, span, what, of=None):
    drawn = {c.name: {b: v / divisor for b, v in sorted(results.values(measurement, c.name, quantity).items())
                      if span[0] <= b <= span[1]} for c in results.measured(measurement)}
    messages = [b for c in results.of_role("fairlead", "peer", "nccl") for b in drawn.get(c.name, {})]
    if len(set(messages)) < 2:  # the table says it better
        return None
    drawn = {key: {b: v for b, v in values.items() if min(messages) <= b <= max(messages)}
             for key, values in drawn.items()}
    title = finding(results, measurement, quantity, of or span, what)
    figure, ((axes,),) = canvas(title, subtitle(results, about))
    for contender in results.contenders:
        values = drawn.get(contender.name)
        if values:
            axes.plot(list(values), list(values.values()), zorder=FRONT[contender.role], **look(results, contender))
    size_axis(axes, messages, 14)
    log_y(axes)
    axes.set_xlabel("message size (bytes)")
    axes.set_ylabel(label)
    save(figure, folder, name)
    return name, title


def ratio_panels(results, goals, about, folder):
    """Fairlead's ratio at each size, and where the goals lie."""
    panels = [(m, q, a, f"{what} relative to {results.peer if a == 'peer' else 'the raw copy'}")
              for m, q, what in (("latency", "latency_us", "latency"), ("bw", "bandwidth_mb_s", "bandwidth"))
              for a in ("peer", "raw")]
    panels = [p for p in panels if any(v.values for v in results.verdicts((every_size(*p[:3]),)))]
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
        for verdict in results.verdicts((every_size(measurement, quantity, against),)):
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
            ends = (0, goal.limit) if goal.best == AT_MOST else (goal.limit, axes.get_ylim()[1])
            if high >= low:
                left, right = low / 1.3, high * 1.3
                axes.fill_between([left, right], *ends, color="#7fbf7f", alpha=0.22, linewidth=0, zorder=1,
                                  label="meets the goal")
                axes.plot([left, right], [goal.limit] * 2, color="#3c8c3c", linewidth=1.2, zorder=2)
        axes.axhline(1, color="#999999", linewidth=0.8, zorder=1)
        axes.set_title(what, loc="left", fontsize=11)
        if axes in grid[-1]:
            axes.set_xlabel("message size (bytes)", fontsize=10)
        axes.tick_params(labelsize=9)
    save(figure, folder, "ratios.png")
    return "ratios.png", title


def collective(results, about, folder, measurement):
    """Time, bus bandwidth and Fairlead's time relative to the others', one below the other."""
    drawn = results.measured(measurement)
    numbers = sorted({b for c in drawn for b in results.values(measurement, c.name, "latency_us")})
    if len(numbers) < 2:
        return None
    title = finding(results, measurement, "latency_us", (1, 1 << 40), measurement.capitalize(), ("peer", "nccl"))
    ratios = [(c, against, verdict.values) for against in ("peer", "nccl") for c in results.of_role("fairlead")
              for verdict in [results.verdict(every_size(measurement, "latency_us", against), c.name)] if verdict.values]
    panels = 3 if ratios else 2
    figure, grid = canvas(title, subtitle(results, about), rows=panels, height=1.2 + 2.7 * panels)
    times, bandwidths = grid.flat[:2]
    for axes, quantity, label in ((times, "latency_us", "time (us)"), (bandwidths, "busbw", "busbw (GB/s)")):
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


def every_size(measurement, quantity, against):
    return Goal(measurement, quantity, (1, 1 << 40), AT_MOST, 1, against, "")


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


def draw(results, goals, about, folder):
    """Returns [(file name, what it shows)] of the plots there was something for."""
    small, large = (8, 2 << 10), (64 << 10, 1 << 40)  # messages below show as message rate
    with pyplot.rc_context(STYLE):
        made = [collective(results, about, folder, c.id) for c in COLLECTIVES]
        made += [
            goal_marks(results, goals, about, folder),
            ratio_panels(results, goals, about, folder),
            lines(results, about, folder, "latency.png", "latency", "latency_us", 1, "latency (us)", (1, 4 << 20),
                  "Latency", small),
            lines(results, about, folder, "bandwidth.png", "bw", "bandwidth_mb_s", 1e3, "bandwidth (GB/s)", large,
                  "Bandwidth"),
            lines(results, about, folder, "bidirectional.png", "bibw", "bandwidth_mb_s", 1e3,
                  "bandwidth, both ways (GB/s)", large, "Bandwidth both ways"),
            lines(results, about, folder, "message_rate.png", "bw", "rate", 1e6, "messages a second (millions)",
                  (8, 32 << 10), "Message rate", (8, 1 << 10)),
            pairs(results, about, folder),
        ]
    return [plot for plot in made if plot]
