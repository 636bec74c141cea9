# SPDX-License-Identifier: Apache-2.0
"""README.md of a comparison: machine, versions, goals, tables and commands; and the goals on the terminal."""

from __future__ import annotations

import shlex

from comparison.measurements import COLLECTIVES, IN_ALL_RANKS, size
from comparison.results import goal_text, seen_text

# A table of sizes: heading, measurement, quantity, divisor, digits, smallest and largest size.
TABLES = (
    ("Latency (us)", "latency.png", "latency", "latency_us", 1, 2, (0, 4 << 20)),
    ("Bandwidth, window 64 (GB/s)", "bandwidth.png", "bw", "bandwidth_mb_s", 1e3, 2, (64 << 10, 1 << 40)),
    ("Bandwidth both ways, window 64 (GB/s)", "bidirectional.png", "bibw", "bandwidth_mb_s", 1e3, 2,
     (64 << 10, 1 << 40)),
    ("Message rate, window 64 (millions a second)", "message_rate.png", "bw", "rate", 1e6, 3, (8, 32 << 10)),
)
# Of collectives the first stands beside the plot of both.
COLLECTIVE_TABLES = tuple(line for c in COLLECTIVES for line in (
    (f"{c.about.capitalize()}, time (us)", f"{c.id}.png", c.id, "latency_us", 1, 2, (0, 1 << 40)),
    (f"{c.about.capitalize()}, busbw (GB/s)", "", c.id, "busbw", 1, 2, (64 << 10, 1 << 40))))


def table(head, rows, text_columns=1):
    align = ["---" if column < text_columns else "---:" for column in range(len(head))]
    lines = [head, align, *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def of_sizes(results, measurement, quantity, divisor, digits, span):
    """One row a size, one column a contender, and the first Fairlead's ratios to peer, raw copy and, of
    collectives, NCCL."""
    columns = {c.name: {b: v for b, v in results.values(measurement, c.name, quantity).items()
                        if span[0] <= b <= span[1]} for c in results.measured(measurement)}
    columns = {name: values for name, values in columns.items() if values}
    first = next((c.name for c in results.of_role("fairlead") if c.name in columns), None)
    if not first:
        return ""
    titles = {c.name: "raw copy" if c.role == "raw" else c.title for c in results.contenders}
    roles = ("peer", "nccl") if measurement in [c.id for c in COLLECTIVES] else ("peer", "raw")
    yardsticks = [c.name for c in results.of_role(*roles) if c.name in columns]
    head = ["size", *(titles[name] for name in columns), *(f"{first} of {titles[name]}" for name in yardsticks)]
    rows = []
    for number in sorted(set(columns[first]).union(*(columns[c.name] for c in results.of_role("fairlead", "peer")
                                                     if c.name in columns))):
        cells = [f"{values[number] / divisor:.{digits}f}" if number in values else "" for values in columns.values()]
        for name in yardsticks:
            both = number in columns[first] and columns[name].get(number)
            cells.append(f"{columns[first][number] / columns[name][number]:.2f}" if both else "")
        rows.append([size(number), *cells])
    return table(head, rows, 0)


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


def other_paths(results):
    """Measurements of one size, each beside what it is compared with."""
    rows = []
    for measurement, quantity, unit, label in (("staged", "bandwidth_mb_s", "GB/s", "staged through host memory"),
                                               ("nodes", "bandwidth_mb_s", "GB/s", "between pretended nodes"),
                                               ("nodes_host", "bandwidth_mb_s", "GB/s", "the same, host buffers"),
                                               ("fresh", "latency_us", "us", "latency, new buffers"),
                                               ("latency", "latency_us", "us", "latency, the same buffer")):
        wanted = {b for c in results.contenders for b in results.values("fresh", c.name, quantity)}
        for contender in results.of_role("fairlead", "peer"):
            for number, value in results.values(measurement, contender.name, quantity).items():
                if measurement != "latency" or number in wanted:
                    value = value / 1e3 if unit == "GB/s" else value
                    rows.append([label, contender.title, size(number), f"{value:.2f} {unit}"])
    for contender in results.of_role("raw"):
        for quantity, label in (("device_to_host_mb_s", "copy to pinned host memory"),
                                ("host_to_device_mb_s", "copy from pinned host memory")):
            values = results.values("copy", contender.name, quantity)
            sizes = [b for c in results.contenders for b in results.values("staged", c.name, "bandwidth_mb_s")]
            for number in sorted(set(sizes) & values.keys()):
                rows.append([label, contender.name, size(number), f"{values[number] / 1e3:.2f} GB/s"])
    for name, report in results.overhead.items():
        rows.append(["added to an 8-byte host message", f"Fairlead, {name}", "8 B", f"{report['added_ns']:.1f} ns"])
    return table(["path", "contender", "size", "seen"], rows, 2) if rows else ""


def pairs_table(results):
    keys = sorted({key for rows in results.pairs.values() for key in rows})
    keys = [key for key in keys if key[1] >= 1 << 20] or keys
    if not keys:
        return ""
    titles = {c.name: c.title for c in results.contenders}
    rows = [[stride, size(number), *(f"{rows[stride, number]['bandwidth_mb_s']['mean'] / 1e3:.2f}"
                                     if (stride, number) in rows else "" for rows in results.pairs.values())]
            for stride, number in keys]
    return table(["stride", "size", *(titles[name] for name in results.pairs)], rows, 0)


def write(results, goals, about, commands, drawn, path):
    hardware = results.hardware()
    parts = [f"# {results.gpus()}, {about['stage']}, {about['date']}\n"]
    if results.simulated():
        parts.append("The GPUs are simulated: these times mean nothing.\n")
    machine = [f"Hardware: {results.gpus()}; {hardware.get('cpu', 'unknown CPU')}, "
               f"{hardware.get('logical_cpus', 0)} logical CPUs, {hardware.get('memory_bytes', 0) >> 30} GiB.",
               f"System: {about['system']}{', GPU driver ' + about['driver'] if about['driver'] else ''}.",
               f"Software: {about['fairlead']}, and as below."]
    if about["environment"]:
        machine.append("Environment: " + ", ".join(f"`{n}={v}`" for n, v in about["environment"].items()) + ".")
    rounds = f", each of {about['rounds']} rounds in turn" if about["rounds"] > 1 else ""
    machine.append(f"All numbers are medians{rounds}, from one visit, with one benchmark program per MPI"
                   + (", for a few sizes only (`--quick`)." if about["quick"] else "."))
    parts.append("\n".join(machine) + "\n")
    parts.append(versions(results))

    in_all_ranks = about["stage"] == IN_ALL_RANKS
    head, rows = goals_table(results, goals)
    parts.append("## Goals\n")
    parts.append("\n".join(f"![{alt}]({name})" for name, alt in drawn if name in ("goals.png", "ratios.png")) + "\n")
    parts.append(table(head, rows, len(head)))
    parts.append("Seen is the worst ratio over the sizes of the goal, with its size.\n")
    if in_all_ranks:
        parts.append("Sizes are the bytes of each rank's vector or message, of allgather and alltoall those of a block; "
                     "busbw is that of nccl-tests.\n")
    for heading, plot, *which in COLLECTIVE_TABLES if in_all_ranks else TABLES:
        found = [f"![{alt}]({name})\n" for name, alt in drawn if name == plot]
        found += filter(None, [of_sizes(results, *which)])
        if found:
            parts += [f"## {heading}\n", *found]
    text = other_paths(results)
    if text:
        parts += ["## Other paths\n", text]
    text = pairs_table(results)
    if text:
        parts.append("## Pairs of ranks (GB/s a pair, one way)\n")
        parts += [f"![{alt}]({name})\n" for name, alt in drawn if name == "pairs.png"]
        parts.append(text)
    for heading, lines in (("Left out", about["left_out"]), ("Failed", about["failed"])):
        if lines:
            parts += [f"## {heading}\n", "\n".join(f"- {line}" for line in lines) + "\n"]
    parts.append("## Commands\n")
    parts.append("```sh\n" + "\n".join(f"# {results_title(results, run)}: {run.about}\n{line}"
                                       for run, line in commands) + "\n```\n")
    with open(path, "w") as file:
        file.write("\n".join(parts))


def results_title(results, run):
    return next(c.title for c in results.contenders if c.name == run.contender)
