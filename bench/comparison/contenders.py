# SPDX-License-Identifier: Apache-2.0
"""The contenders of a comparison, and the command that starts each of them.

Every contender runs the benchmark program of this Fairlead, through `fairlead run`: the launcher is found and
called as a user's own program would be. A contender that cannot run here is left out, with one line that says why.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass, field

ABIS = ("openmpi", "mpich", "abi")


class Refusal(Exception):
    """The request makes no sense: one line, exit code 2."""


@dataclass
class Contender:
    name: str
    role: str  # fairlead, peer, nccl, raw
    abi: str = ""
    launcher: list[str] = field(default_factory=list)  # with its flags; empty: as `fairlead run` finds it
    flags: str = ""
    env_file: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    words: tuple[str, ...] = ()  # of each of its benchmarks

    @property
    def title(self):
        return f"Fairlead, {self.name}" if self.role == "fairlead" else self.name


def in_environment(contender, words, variables=None):
    """The words with the contender's file sourced before them and its variables set."""
    settings = [f"{name}={value}" for name, value in {**contender.variables, **(variables or {})}.items()]
    words = (["env", *settings] if settings else []) + words
    if contender.env_file:
        return ["bash", "-c", '. "$0" && exec "$@"', contender.env_file, *words]
    return words


def in_ranks(tool, contender, ranks, benchmark, variables=None, preload=True):
    """The command that runs `benchmark` (words after `fairlead bench`) in ranks of this contender's MPI."""
    words = [tool, "run", "-n", str(ranks)]
    if contender.launcher:
        words += ["--mpi", contender.launcher[0]]
    flags = " ".join(filter(None, [shlex.join(contender.launcher[1:]), contender.flags]))
    if flags:
        words.append(f"--launcher-args={flags}")
    if contender.role != "fairlead" or not preload:
        words.append("--no-preload")
    words += [tool, "bench", benchmark[0], "--mpi", contender.abi, *benchmark[1:]]
    return in_environment(contender, words, variables)


def alone(tool, contender, benchmark):
    return in_environment(contender, [tool, "bench", *benchmark])


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def find_tool(given, own_path):
    """The program `fairlead`: given, beside this script when installed, in the build tree, or on PATH."""
    here = os.path.dirname(own_path)
    if given:
        places = [given]
    else:
        places = [os.path.join(here, "../../bin/fairlead"), os.path.join(here, "../build/bin/fairlead")]
        places += [os.path.join(folder, "fairlead") for folder in os.get_exec_path()]
    for place in places:
        if os.access(place, os.X_OK) and os.path.isfile(place):
            return os.path.abspath(place)
    if given:
        raise Refusal(f"--fairlead: {given} is no executable file")
    raise Refusal("no program fairlead found; build it (./demo) or give --fairlead PATH")


def built_abis(tool):
    folder = os.path.join(os.path.dirname(os.path.dirname(tool)), "libexec", "fairlead")
    return [abi for abi in ABIS if os.access(os.path.join(folder, f"bench-{abi}"), os.X_OK)]


def find_abi(tool, contender, abis):
    """Sets the ABI its launcher starts, as `fairlead run` knows it. Returns why there is none, or nothing."""
    why = "this Fairlead has no benchmark programs (libexec/fairlead/bench-*)"
    candidates = [contender.abi] if contender.abi else sorted(abis, key=lambda abi: abi not in contender.name)
    for abi in candidates:
        contender.abi = abi
        command = in_ranks(tool, contender, 2, ["latency"])
        at = command.index("run") + 1
        result = subprocess.run([*command[:at], "--dry-run", *command[at:]], text=True, capture_output=True,
                                stdin=subprocess.DEVNULL)
        if result.returncode == 0:
            return ""
        why = last_line(result.stderr) or f"exit code {result.returncode}"
    return why
