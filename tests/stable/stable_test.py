#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the promises of docs/reference/stability.md: what promises.txt lists is still there.

Each line of promises.txt is one promise, or one command with all its options. The test reads what there is now from
the programs themselves: options of the library that users may need, the commands with which jobs are started and
examined and their options, the outermost members of JSON reports with their types, declarations and names in headers,
exported symbols, and names of the Python package.

    stable_test.py BUILD            fails with the promises that are broken
    stable_test.py BUILD --write    adds what is new to promises.txt; it never removes a line
"""

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
PROMISES = HERE / "promises.txt"
COMMANDS = ("fairlead", "run", "exec", "doctor", "info")
# Names in headers that only the headers themselves use.
INTERNAL = {"fairlead_phase_function", "fairlead_kernel_", "FAIRLEAD_WORD", "FAIRLEAD_CODE_IMAGES"}
MPIS = os.environ.get("FAIRLEAD_TEST_MPIS", "openmpi").split()
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("FAIRLEAD_")}
ENVIRONMENT["LD_PRELOAD"] = os.environ.get("FAIRLEAD_TEST_POLITE", "")


class Build:
    def __init__(self, folder):
        self.folder = Path(folder).resolve()

    def tool(self, *arguments, accepted=(0,)):
        run = subprocess.run([self.folder / "bin" / "fairlead", *map(str, arguments)], capture_output=True, text=True,
                             env=ENVIRONMENT, timeout=300)
        if run.returncode not in accepted:
            sys.exit(f"fairlead {' '.join(map(str, arguments))}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
        return run.stdout


def members(value, path=""):
    """Each member of the outermost object as "name:type", or of the objects of an outermost list as "[].name:type"."""
    if isinstance(value, list):
        for inner in value:
            yield from members(inner, "[].")
        return
    for name, inner in value.items():
        kind = {str: "string", bool: "boolean", list: "list", dict: "object", type(None): "null"}.get(type(inner), "number")
        yield f"{path}{name}:{kind}"


def options(build):
    for row in json.loads(build.tool("options", "--all", "--json")):
        if row["class"] == "user":
            yield f"variable {row['variable']}"


def commands(build):
    """From the completion script, which is made from the parsers: the words that each command takes."""
    for command, words in re.findall(r"^    ('[a-z_ ]*'|[a-z_]+)\) echo '?([^'\n]*)'? ;;$", build.tool("--completion"), re.M):
        command = command.strip("'") or "fairlead"
        for word in words.split():
            if word.startswith("-") and command in COMMANDS:
                yield f"command {command}: {word.partition('=')[0]}"


def reports(build):
    example = build.folder / "bin" / "examples" / f"sndrcv-{MPIS[0]}"
    with tempfile.TemporaryDirectory() as folder:
        job, statistics, matrix = (Path(folder) / name for name in ("job.json", "stats.json", "matrix.json"))
        sim, mpi = ("--sim", 2), ("--mpi", MPIS[0])
        yield "info", build.tool("info", "--json")
        yield "options", build.tool("options", "--all", "--json")
        yield "doctor", build.tool("doctor", "--json", "--no-launch", *sim, accepted=(0, 1))
        build.tool("run", "-n", 2, *sim, "--json", job, "--stats-file", statistics, example)
        yield "run", job.read_text()
        yield "statistics", statistics.read_text()
        for name in ("latency", "allreduce"):
            yield "bench", build.tool("bench", name, *mpi, *sim, "-n", 2, "-m", "8:8", "-i", 2, "--json", "-")
        build.tool("matrix", *mpi, *sim, "-m", "8:8", "-i", 2, "--json", matrix, accepted=(0, 77))
        if matrix.exists():
            yield "matrix", matrix.read_text()


def json_members(build):
    for report, text in reports(build):
        for member in members(json.loads(text)):
            yield f"json {report}: {member}"


def headers():
    for header in sorted((SOURCE / "include" / "fairlead").iterdir()):
        text = re.sub(r"/\*.*?\*/|//[^\n]*|^\s*!.*?$", "", header.read_text(), flags=re.S | re.M)
        for name in set(re.findall(r"\b(?:fairlead|FAIRLEAD)_\w+", text)) - INTERNAL:
            yield f"header {header.name}: {name}"
        if header.suffix == ".h":
            plain = re.sub(r"^\s*#.*?$|extern \"C\" \{", "", text, flags=re.M)
            for declared in re.findall(r"([a-z][\w *]*\bfairlead_\w+\([^()]*\));", " ".join(plain.split())):
                if not declared.startswith("return "):
                    yield f"header {header.name}: {declared};"
            for constant in re.findall(r"\b(FAIRLEAD_\w+ = \w+)", plain):
                yield f"header {header.name}: {constant}"


def symbols(build):
    library = build.folder / "lib" / "libfairlead-device.so"
    yield f"symbol libfairlead-device.so: {os.readlink(library)}"
    exported = [("libfairlead-device.so", library)] + [("libfairlead-ABI.so", build.folder / "lib" / f"libfairlead-{abi}.so")
                                                       for abi in MPIS[:1]]
    for label, path in exported:
        listing = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", path], capture_output=True,
                                 text=True, check=True).stdout
        for name in re.findall(r" [A-Z] (fairlead_(?!.*_f08)[\w@.]+)", listing):
            yield f"symbol {label}: {name}"


def python_names():
    for node in ast.parse((SOURCE / "python" / "fairlead" / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == ["__all__"]:
            for name in ast.literal_eval(node.value):
                yield f"python fairlead.{name}"


def read_promises():
    for line in PROMISES.read_text().splitlines() if PROMISES.exists() else ():
        command, colon, words = line.partition(": ")
        if line.startswith("command "):
            yield from (f"{command}: {word}" for word in words.split())
        else:
            yield line


def write_promises(promises):
    lines = {}
    for promise in sorted(promises):
        command, colon, word = promise.partition(": ")
        lines.setdefault(command if promise.startswith("command ") else promise, []).append(word)
    PROMISES.write_text("".join(f"{line}: {' '.join(words)}\n" if line.startswith("command ") else f"{line}\n"
                                for line, words in lines.items()))


def may_lack(line, now):
    """Of a JSON member: it is null now, or was so when it was promised; or its report cannot be made here."""
    report, path = line.split(": ")[0], line.rpartition(":")[0]
    return (path + ":null" in now or line.endswith(":null") and any(other.startswith(path + ":") for other in now)
            or report == "json matrix" and not any(other.startswith(report) for other in now))


def main():
    arguments = [word for word in sys.argv[1:] if word != "--write"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    build = Build(arguments[0])
    now = {*options(build), *commands(build), *json_members(build), *headers(), *symbols(build), *python_names()}
    promised = set(read_promises())
    if "--write" in sys.argv:
        write_promises(promised | now)
        return
    broken = [line for line in sorted(promised - now) if not (line.startswith("json ") and may_lack(line, now))]
    for kind in ("variable", "command", "json", "header", "symbol", "python"):
        if not any(line.startswith(kind + " ") for line in now):
            sys.exit(f"found nothing of the kind '{kind}'; the test does not read it any more")
    if broken:
        sys.exit("promised by docs/reference/stability.md, and missing:\n  " + "\n  ".join(broken))
    print(f"{len(promised)} promises hold; {len(now - promised)} names are new (stable_test.py BUILD --write)")


if __name__ == "__main__":
    main()
