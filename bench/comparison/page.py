# SPDX-License-Identifier: Apache-2.0
"""README.md of a comparison: machine, versions, goals, tables and commands; and the goals on the terminal."""

from __future__ import annotations

import shlex

from comparison.goals import goal_text, seen_text
from comparison.tables import TABLES, of_rows, other_paths, pairs_table, table


def goals_table(results, goals):
    several = len(results.of_role("fairlead")) > 1
    rows = []
    for goal in goals:
        verdicts = results.verdicts((goal,))
        for verdict in [v for v in verdicts if v.worst] or verdicts[:1]:
            met = "" if verdict.worst is None else "yes" if verdict.met else "no"
            mpi = verdict.contender if verdict.worst else ""
            rows.append([goal_text(goal, results.peer), *([mpi] if several else []), seen_text(verdict), met])
    return ["goal", *(["MPI"] if several else []), "seen", "met"], rows


def show_goals(results, goals):
    head, rows = goals_table(results, goals)
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        for row in [head, *rows]:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
        return
    shown = Table(*head, box=None, pad_edge=False)
    for row in rows:
        style = {"yes": "green", "no": "red"}.get(row[-1], "dim")
        shown.add_row(*row[:-1], f"[{style}]{row[-1]}[/{style}]")
    Console().print(shown)


def versions(results):
    rows = []
    for contender in results.contenders:
        report = results.about[contender.name]
        software = ", ".join(filter(None, [report["mpi"]["library"], report.get("transport"),
                                           report["via"] if report["via"] != "MPI" else ""]))
        how = " ".join(filter(None, [shlex.join(contender.launcher), contender.flags]))
        how += "".join(f" {name}={value}" for name, value in contender.variables.items())
        if contender.env_file:
            how += f" after {contender.env_file}"
        rows.append([contender.title, software, f"`{how.strip()}`" if how else ""])
    return table(["contender", "software", "given"], rows, 3)


def write(results, stage, about, commands, drawn, path):
    hardware = results.hardware()
    parts = [f"# {results.gpus()}, {about['stage']}, {about['date']}\n"]
    if results.simulated():
        parts.append("The GPUs are simulated: these times mean nothing.\n")
    machine = [f"Hardware: {results.gpus()}; {hardware.get('cpu', 'unknown CPU')}, "
               f"{hardware.get('logical_cpus', 0)} logical CPUs, {hardware.get('memory_bytes', 0) / 2**30:.0f} GiB.",
               f"System: {about['system']}{', GPU driver ' + about['driver'] if about['driver'] else ''}.",
               f"Software: {about['fairlead']}, and as below."]
    if about["environment"]:
        machine.append("Environment: " + ", ".join(f"`{n}={v}`" for n, v in about["environment"].items()) + ".")
    rounds = f", each of {about['rounds']} rounds in turn" if about["rounds"] > 1 else ""
    machine.append(f"All numbers are medians{rounds}, from one visit, with one benchmark program per MPI"
                   + (", for a few sizes only (`--quick`)." if about["quick"] else "."))
    parts.append("\n".join(machine) + "\n")
    parts.append(versions(results))

    head, rows = goals_table(results, stage.goals)
    parts.append("## Goals\n")
    parts.append("\n".join(f"![{alt}]({name})" for name, alt in drawn if name == "goals.png") + "\n")
    parts.append(table(head, rows, len(head)))
    parts.append("Seen is the worst ratio over what the goal covers, and where.\n")
    if stage.note:
        parts.append(stage.note + "\n")
    for wanted in TABLES[stage.name]:
        found = [f"![{alt}]({name})\n" for name, alt in drawn if name == wanted.plot]
        found += filter(None, [of_rows(results, wanted)])
        if found:
            parts += [f"## {wanted.heading}\n", *found]
    text = other_paths(results)
    if text:
        parts += ["## Other paths\n", text]
    text = pairs_table(results)
    if text:
        parts.append("## Pairs of ranks (GB/s a pair, one way)\n")
        parts += [f"![{alt}]({name})\n" for name, alt in drawn if name == "pairs.png"]
        parts.append(text)
    for heading, lines in ((f"What {results.peer} does not survive on device memory", about["not_survived"]),
                           ("Left out", about["left_out"]), ("Failed", about["failed"])):
        if lines:
            parts += [f"## {heading}\n", "\n".join(f"- {line}" for line in lines) + "\n"]
    parts.append("## Commands\n")
    parts.append("```sh\n" + "\n".join(f"# {results_title(results, run)}: {run.about}\n{line}"
                                       for run, line in commands) + "\n```\n")
    with open(path, "w") as file:
        file.write("\n".join(parts))


def results_title(results, run):
    return next(c.title for c in results.contenders if c.name == run.contender)
