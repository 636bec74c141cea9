# SPDX-License-Identifier: Apache-2.0
"""Runs one command after the other and keeps the JSON of each. What is there already is not run again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

from comparison.contenders import last_line

TIMEOUT_S, MAY_FAIL_TIMEOUT_S = 600, 60


def read_json(path):
    """None where the file is not there or not whole."""
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def write_json(path, value):
    with open(path + ".part", "w") as file:
        json.dump(value, file, indent=1)
        file.write("\n")
    os.replace(path + ".part", path)


def duration(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def read_pairs(text):
    """The table of `fairlead bench pairs` as JSON: it has no other form."""
    rows, stride = [], 0
    for line in text.splitlines():
        if line.startswith("# stride between partners:"):
            stride = int(line.rpartition(":")[2])
        elif not line.startswith("#") and len(line.split()) == 11:
            try:
                values = [float(word) for word in line.split()]
            except ValueError:  # a launcher's or a script's words
                continue
            rows.append({"stride": stride, "messages": int(values[0]), "bytes": int(values[1]) * 8,
                         "time_us": {"max": values[2], "mean": values[3], "min": values[4]},
                         "bandwidth_mb_s": {"min": values[5] * 1073.741824, "mean": values[6] * 1073.741824,
                                            "max": values[7] * 1073.741824}})
    header = [line for line in text.splitlines() if line.startswith("# ") and "stride" not in line]
    return {"benchmark": "pairs", "header": header, "results": rows}


def end(child):
    """A launcher that is asked ends its ranks itself; then all that is left goes."""
    for word in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, word)
            child.communicate(timeout=5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


class Failure(Exception):
    """A run without a result; its text is one line."""


def why_ended(code, output, errors):
    """One line."""
    by_signal = re.search(r"ended by (signal \d+ \([^)]*\))", errors)
    if by_signal:
        return f"exit code {code}: {by_signal[0]}"
    ours = [line for line in errors.splitlines() if line.startswith("fairlead")]
    said = last_line("\n".join(ours) or errors or output)
    return f"exit code {code}{': ' + said if said else ''}"


class Runner:
    def __init__(self, folder, timeout_s=None):
        """Without a timeout, runs have as long as such runs need."""
        self.folder = os.path.join(folder, "runs")
        self.timeout_s = timeout_s
        self.started = time.monotonic()
        os.makedirs(self.folder, exist_ok=True)

    def path(self, run):
        return os.path.join(self.folder, run.id + ".json")

    def result(self, run):
        """Of this run or of an earlier one. Throws a Failure."""
        known = read_json(self.path(run))
        if known is not None:
            if "failed" in known:
                raise Failure(known["failed"])
            return known
        try:
            found = self.fresh_result(run)
        except Failure as failure:
            if run.may_fail:
                write_json(self.path(run), {"failed": str(failure)})
            raise
        write_json(self.path(run), found)
        return found

    def fresh_result(self, run):
        part = self.path(run) + ".part"
        command = [part if word == "{json}" else word for word in run.command]
        try:
            output = self.execute(run, command)
            found = read_pairs(output) if run.from_table else read_json(part)
        finally:
            if os.path.exists(part):
                os.remove(part)
        if not found or not found.get("results", [1]):
            raise Failure("the benchmark printed no results")
        return found

    def execute(self, run, command):
        # A session of its own, so that a launcher that hangs is ended with its ranks.
        child = subprocess.Popen(command, text=True, errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, start_new_session=True)
        timeout_s = self.timeout_s or (MAY_FAIL_TIMEOUT_S if run.may_fail else TIMEOUT_S)
        try:
            output, errors = child.communicate(timeout=timeout_s)
        except BaseException as stop:
            end(child)
            if isinstance(stop, subprocess.TimeoutExpired):
                raise Failure(f"no end after {timeout_s:g} s (--timeout)") from None
            raise
        if child.returncode != 0:
            with open(os.path.join(self.folder, run.id + ".log"), "w") as log:
                log.write(output + errors)
            raise Failure(why_ended(child.returncode, output, errors))
        log = os.path.join(self.folder, run.id + ".log")
        if os.path.exists(log):
            os.remove(log)
        return output

    def all(self, runs, names):
        """Yields (run, result or Failure), with a line of progress for each."""
        waiting = [run for run in runs if read_json(self.path(run)) is None]
        expected, done, begun = sum(run.seconds for run in waiting), 0.0, time.monotonic()
        hopeless = []  # what failed as it may will fail in other rounds, too
        for number, run in enumerate(runs, 1):
            line = f"[{number:{len(str(len(runs)))}}/{len(runs)}] {names[run.contender]}: {run.about}"
            if run in waiting and (run.measurement, run.command) in hopeless:
                print(f"{line}: failed before", flush=True)
                expected -= run.seconds
                continue
            start = time.monotonic()
            if run in waiting and sys.stdout.isatty():
                print(line, end="\r", flush=True)
            try:
                outcome = self.result(run)
                word = ""
            except Failure as failure:
                outcome, word = failure, f"; FAILED: {failure}"
                hopeless += [(run.measurement, run.command)] if run.may_fail else []
            if run not in waiting:
                print(f"{line}: there already{word}", flush=True)
                yield run, outcome
                continue
            done += run.seconds
            now = time.monotonic()
            left = (now - begun) / done * (expected - done)
            print(f"{line}: {now - start:.1f} s; {duration(now - self.started)} elapsed, about {duration(left)} left"
                  f"{word}", flush=True)
            yield run, outcome
