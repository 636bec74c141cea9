# SPDX-License-Identifier: Apache-2.0
"""How far each goal of `bench/compare` is met: a row a goal, a mark an MPI."""

from __future__ import annotations

from figure import CAPTION_ROW, FAINT, GREY, INK, LEGEND_ROW, RIGHT, STYLE, TITLE, WIDTH, look, plain, pyplot
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter
from runs import hardware

# Inches, of the goals' text at least TEXT and LETTER for each character; and how many times as good or as bad as a goal
# the marks at the ends are.
TEXT, LETTER, WORST, ROW, BELOW = 3.0, 0.062, 1.1, 0.34, 0.75
ENDS = 0.2, 5.0
MET, MISSED = "#3c8c3c", "#b3261e"


def draw(about):
    goals = [goal for goal in about["goals"] if goal["worst"] is not None]
    texts, mpis = (list(dict.fromkeys(goal[key] for goal in goals)) for key in ("goal", "contender"))
    left = min(max(TEXT, LETTER * max(map(len, texts))), WIDTH / 2)
    met = sum(goal["met"] for goal in goals)
    gpus = next((hardware(run)[:1] for run in about["contenders"] if run.get("hardware", {}).get("gpus")), [])
    above = TITLE + LEGEND_ROW + 0.35
    height = above + ROW * len(texts) + BELOW + CAPTION_ROW
    with pyplot.rc_context(STYLE):
        figure = pyplot.figure(figsize=(WIDTH, height))
        axes = figure.add_axes((left / WIDTH, BELOW / height, (WIDTH - left - WORST) / WIDTH,
                                (height - above - BELOW) / height))
        axes.set_xscale("log")
        axes.axvspan(1, ENDS[1] * 1.2, color=MET, alpha=0.12, linewidth=0)
        axes.axvline(1, color=MET, linewidth=1.2)
        for row, text in enumerate(texts):
            axes.axhline(row, color=FAINT, linewidth=0.6, zorder=0)
            found = [goal for goal in goals if goal["goal"] == text]
            for number, goal in enumerate(found):
                place = min(max(goal["margin"], ENDS[0]), ENDS[1])
                axes.plot([place], [row + 0.18 * (number - (len(found) - 1) / 2)], markersize=7, zorder=3,
                          **{**look(mpis.index(goal["contender"])), "linestyle": ""})
            worst = min(found, key=lambda goal: goal["margin"])
            axes.annotate(worst["seen"], (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=8,
                          color=INK if worst["met"] else MISSED)
        axes.set_yticks(range(len(texts)), map(plain, texts), fontsize=8)
        axes.set_ylim(len(texts) - 0.4, -0.6)
        axes.set_xlim(ENDS[0] / 1.2, ENDS[1] * 1.2)
        axes.xaxis.set_major_locator(FixedLocator([0.2, 0.5, 1, 2, 5]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: "goal" if value == 1 else f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("times as good as the goal")
        axes.annotate("worst seen", (1.01, -0.75), xycoords=("axes fraction", "data"), fontsize=8, color=GREY)
        figure.text(RIGHT / WIDTH, 1 - 0.14 / height, f"{met} of {len(goals)} goals are met"
                    + ", counted for each MPI" * (len(mpis) > 1), fontsize=12.5, fontweight="bold", color=INK, va="top")
        figure.legend([pyplot.Line2D([], [], **{**look(place), "linestyle": ""}) for place in range(len(mpis))],
                      [plain(f"Fairlead, {mpi}") for mpi in mpis], loc="upper left", ncol=len(mpis), borderaxespad=0,
                      borderpad=0, bbox_to_anchor=(RIGHT / WIDTH, 1 - TITLE / height))
        figure.text(RIGHT / WIDTH, 0.1 / height, plain(", ".join(gpus + [about["fairlead"], about["date"]])), fontsize=7.5,
                    color=GREY)
    return figure
