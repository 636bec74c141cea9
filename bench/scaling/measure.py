#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what grows with the ranks of a job: start, communicators, first messages, end, memory.

Compiles ranks.c with the compiler wrapper of each MPI and runs it with 2, 4, 8, ... ranks on this machine: the
host MPI alone, and Fairlead on the simulated GPU with all ranks in one node, in two, and in nodes of eight.
Writes a table (Markdown) and the JSON of all runs, and plots them where matplotlib is there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))

# What a launcher needs to start more ranks than there are processors.
LAUNCHERS = {
    "openmpi": ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"],
    "mpich": ["-bind-to", "none"],
}
# FAIRLEAD_NODES for a number of ranks; None: without Fairlead. A setting that does not fit has 0.
SETTINGS = {
    "host MPI": lambda ranks: None,
    "1 node": lambda ranks: 1,
    "2 nodes": lambda ranks: 2,
    "nodes of 8": lambda ranks: ranks // 8 if ranks > 16 else 0,
}
# Title, unit, and the value of a run. Times are those of the median rank; messages are 8 bytes to every other rank,
# and their time is divided by the number of these.
COLUMNS = [
    ("Init", "ms", lambda run: run["init"]["median"] * 1e3),
    ("Init, CPU", "ms", lambda run: run["init_cpu"]["median"] * 1e3),
    ("split in halves", "ms", lambda run: run["split_halves"]["median"] * 1e3),
    ("split by node", "ms", lambda run: run["split_nodes"]["median"] * 1e3),
    ("first", "us", lambda run: run["first"]["median"] * 1e6 / (run["ranks"] - 1)),
    ("first, CPU", "us", lambda run: run["first_cpu"]["median"] * 1e6 / (run["ranks"] - 1)),
    ("second", "us", lambda run: run["second"]["median"] * 1e6 / (run["ranks"] - 1)),
    ("second, CPU", "us", lambda run: run["second_cpu"]["median"] * 1e6 / (run["ranks"] - 1)),
    ("Finalize", "ms", lambda run: run["finalize"] * 1e3),
    ("memory of a rank", "MiB", lambda run: (run["pss"]["sum"] - run["gpu_pss"]["sum"]) / run["ranks"] / 2**20),
    ("node's shared", "KiB", lambda run: run["node_pss"]["sum"] / run["ranks"] / 1024),
]


class Refusal(Exception):
    pass


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refusal(f"{message}; --help tells more")


def parse(words):
    parser = Parser(prog="measure.py", description=__doc__, allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--mpi", action="append", choices=list(LAUNCHERS), help="may be repeated (default: those that are here)")
    add("--setting", action="append", choices=list(SETTINGS), help="may be repeated (default: all)")
    add("--ranks", default="2:256", metavar="LEAST:MOST", help="doubled from LEAST to MOST (default: 2:256)")
    add("--timeout", type=float, default=120, metavar="SECONDS",
        help="a run that takes longer is stopped, and more ranks are not tried (default: 120)")
    add("--repeat", type=int, default=1, metavar="TIMES", help="the median of so many runs counts (default: 1)")
    add("--library", default=os.path.join(SOURCE, "build", "lib"), metavar="FOLDER",
        help="the folder of libfairlead-MPI.so (default: build/lib)")
    add("--preload", action="append", default=[], metavar="FILE",
        help="a library for all runs, such as build/lib/libwaits_politely.so where ranks share processors")
    add("-o", "--output", default="scaling", metavar="FOLDER", help="for the results (default: scaling)")
    add("--again", action="store_true", help="runs nothing: table and plot of the results in the folder")
    arguments = parser.parse_args(words)
    least, _, most = arguments.ranks.partition(":")
    if not (least.isdigit() and most.isdigit() and 2 <= int(least) <= int(most)):
        parser.error(f"--ranks {arguments.ranks} is not LEAST:MOST with at least 2 ranks")
    if arguments.repeat < 1 or arguments.timeout <= 0:
        parser.error("--repeat and --timeout have to be above 0")
    arguments.counts = [int(least)]
    while arguments.counts[-1] * 2 <= int(most):
        arguments.counts.append(arguments.counts[-1] * 2)
    return arguments


def tool(name, mpi):
    return shutil.which(f"{name}.{mpi}") or shutil.which(name)


def compile_program(mpi, folder):
    program = os.path.join(folder, f"ranks-{mpi}")
    command = [tool("mpicc", mpi), "-O2", os.path.join(HERE, "ranks.c"), "-o", program, "-ldl"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise Refusal(f"{' '.join(command)} fails: {result.stderr.strip()}")
    return program


def stop(process):
    """The launcher ends its ranks when it is asked to; its own group is what is left if it does not."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(command, environment, timeout):
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        stop(process)
        return None, f"takes more than {timeout:g} s"
    if process.returncode:
        lines = errors.strip().splitlines()
        return None, f"ends with {process.returncode}{': ' + lines[0] if lines else ''}"
    return json.loads(output), None


def start_command(arguments, mpi, program, ranks, nodes):
    libraries = list(arguments.preload)
    variables = {}
    if nodes is not None:
        libraries.insert(0, os.path.join(arguments.library, f"libfairlead-{mpi}.so"))
        variables = {"FAIRLEAD_DEVICE": "sim", "FAIRLEAD_NODES": str(nodes), "FAIRLEAD_LOG": "error"}
    if libraries:
        variables["LD_PRELOAD"] = ":".join(os.path.abspath(library) for library in libraries)
    # Through env, so that the launcher itself loads none of them.
    words = [tool("mpirun", mpi), *LAUNCHERS[mpi], "-n", str(ranks), "env",
             *(f"{name}={value}" for name, value in variables.items()), program]
    return words + [str(max(1, ranks // nodes))] if nodes else words


def measure(arguments):
    mpis = arguments.mpi or [mpi for mpi in LAUNCHERS if tool("mpicc", mpi) and tool("mpirun", mpi)]
    for mpi in mpis:
        library = os.path.join(arguments.library, f"libfairlead-{mpi}.so")
        if not os.path.exists(library):
            raise Refusal(f"{library} does not exist; build Fairlead, or name its folder by --library")
    for library in arguments.preload:
        if not os.path.exists(library):
            raise Refusal(f"{library} does not exist")
    environment = {**{k: v for k, v in os.environ.items() if not k.startswith("FAIRLEAD_")},
                   "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    results, stopped = {"runs": [], "stopped": []}, set()
    with tempfile.TemporaryDirectory() as folder:
        programs = {mpi: compile_program(mpi, folder) for mpi in mpis}
        for ranks in arguments.counts:
            for mpi in mpis:
                for setting in arguments.setting or SETTINGS:
                    nodes = SETTINGS[setting](ranks)
                    if nodes == 0 or (mpi, setting) in stopped:
                        continue
                    command = start_command(arguments, mpi, programs[mpi], ranks, nodes)
                    for _ in range(arguments.repeat):
                        result, failure = run(command, environment, arguments.timeout)
                        what = f"{mpi}, {setting}, {ranks} ranks"
                        print(f"{what}: {failure}" if failure else what, flush=True)
                        if failure:
                            stopped.add((mpi, setting))
                            results["stopped"].append(f"{what}: {failure}")
                        else:
                            results["runs"].append({"mpi": mpi, "setting": setting, **result})
                        write(results, arguments.output)  # an interrupted call leaves what it has
                        if failure:
                            break
    return results


def write(results, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "results.json"), "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)


def summary(results):
    """{(mpi, setting, ranks): {title: median over the runs}}"""
    groups = {}
    for one in results["runs"]:
        groups.setdefault((one["mpi"], one["setting"], one["ranks"]), []).append(one)
    return {key: {title: statistics.median(value(one) for one in runs) for title, _, value in COLUMNS}
            for key, runs in groups.items()}


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2g}"


def table(results):
    rows = summary(results)
    lines = ["| MPI | ranks | setting | " + " | ".join(f"{title} ({unit})" for title, unit, _ in COLUMNS) + " |",
             "|---|---:|---|" + "---:|" * len(COLUMNS)]
    order = list(LAUNCHERS), list(SETTINGS)
    for mpi, setting, ranks in sorted(rows, key=lambda k: (order[0].index(k[0]), k[2], order[1].index(k[1]))):
        row = rows[mpi, setting, ranks]
        lines.append(f"| {mpi} | {ranks} | {setting} | " + " | ".join(number(v) for v in row.values()) + " |")
    return "\n".join(lines + [""] + [f"Stopped: {reason}." for reason in results["stopped"]]).strip() + "\n"


def draw(results, folder):
    try:
        from drawing import BLUE, GREEN, GREY, PURPLE, FuncFormatter, LogLocator, NullFormatter, canvas, save
    except ImportError:
        print("no plot: matplotlib is not there")
        return
    rows = summary(results)
    counts = sorted({key[2] for key in rows})
    shown = {"Init": "MPI_Init (ms)", "Finalize": "MPI_Finalize (ms)", "first, CPU": "first message, CPU time (us)",
             "memory of a rank": "memory of a rank (MiB)"}
    colours = dict(zip(SETTINGS, (GREY, BLUE, GREEN, PURPLE)))
    for mpi in sorted({key[0] for key in rows}):
        figure, panels = canvas(f"What grows with the ranks of a job, {mpi}",
                              "all ranks on one machine, simulated GPUs; beside the host MPI alone", 2, 2, 6.2)
        for (title, label), panel in zip(shown.items(), panels):
            for setting, colour in colours.items():
                points = sorted((ranks, row[title]) for (m, s, ranks), row in rows.items() if (m, s) == (mpi, setting))
                if points:
                    panel.plot(*zip(*points), marker="o", color=colour, label=setting,
                               linestyle="--" if setting == "host MPI" else "-")
            panel.set_title(label)
            panel.set_xscale("log", base=2)
            panel.set_xticks(counts, [str(ranks) for ranks in counts])
            panel.set_xlabel("ranks")
            if title == "memory of a rank":
                panel.set_ylim(0, None)
            else:
                panel.set_yscale("log")
                panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                panel.yaxis.set_minor_formatter(NullFormatter())
        save(figure, os.path.join(folder, f"ranks-{mpi}.png"))


def main(words):
    arguments = parse(words)
    results_file = os.path.join(arguments.output, "results.json")
    if arguments.again:
        if not os.path.exists(results_file):
            raise Refusal(f"{results_file} does not exist; run without --again first")
        with open(results_file, encoding="utf-8") as file:
            results = json.load(file)
    else:
        results = measure(arguments)
    text = table(results)
    with open(os.path.join(arguments.output, "table.md"), "w", encoding="utf-8") as file:
        file.write(text)
    print(text, end="")
    draw(results, arguments.output)
    return 0 if results["runs"] else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Refusal as refusal:
        print(f"measure.py: {refusal}", file=sys.stderr)
        sys.exit(2)
