#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of tools/hanging.cpp, which hang, until Fairlead says why, and compares what it says. Then
`fairlead hang` must say the same of the job that still hangs."""

import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

TOOL = os.path.join(os.path.dirname(os.path.dirname(sys.argv[-1])), "bin", "fairlead")
SKIPS_INTO_RECEIVE = "ranks 0 and 2 wait in MPI_Allreduce of MPI_SUM on [02] for rank 1, which is in MPI_Recv from rank 0, tag 4"
SKIPS_ENQUEUED = ("rank 1 has not enqueued MPIX_Allreduce_enqueue of MPI_{op} on .*, "
                  "at which GPU streams of ranks 0 and 2 wait")
# What the report must say; 0, 1 and 2 are the ranks.
SAYS = {
    "two_sends": ["3 ranks wait for each other in a circle: all send, and none receives: rank 0 in MPI_Send to rank 1, tag 5,"],
    "peer_in_finalize": ["rank 0 waits in MPI_Recv from rank 1, tag 7, and rank 1 is in MPI_Finalize"],
    "skips_allreduce": ["different calls meet: rank 1 is in MPI_Barrier and ranks 0 and 2 are in MPI_Allreduce of MPI_SUM"],
    "other_collective": ["rank 0 is in MPI_Allreduce of MPI_SUM", "MPI_Bcast with root 0|MPI_Finalize"],
    "other_root": ["different calls meet: .*in MPI_Bcast with root 1"],
    "wrong_tag": [r"rank 0 waits in MPI_Recv from rank 1, tag 7, but rank 1 sent tag 8 \(MPI_Send, "],
    "skips_into_receive": [SKIPS_INTO_RECEIVE],
    "streams_wait": ["a GPU stream of rank 0 is at MPI_Irecv from rank 1, tag 7 on .*, but rank 1 sent tag 8 "],
    "skips_enqueued": [SKIPS_ENQUEUED.format(op="SUM")],
    "skips_enqueued_of_cpu": [SKIPS_ENQUEUED.format(op="BXOR")],
    "other_enqueued": ["different calls meet: rank 1 has enqueued MPIX_Bcast_enqueue with root 0 on .* and "
                       "ranks 0 and 2 have enqueued MPIX_Allreduce_enqueue of MPI_SUM on "],
    "replays_enqueued": [SKIPS_INTO_RECEIVE],
    "waits_for_all": ["waits in MPI_Irecv from rank 2, tag 2 on rows, but rank 2 sent tag 1 "],
}
# The place of each call is in the program, and the memory is known.
ROW = r"^  rank {rank} +pid \d+ +.*; at hanging-\w+\+0x[0-9a-f]+"


def expect(what, text, pattern):
    if not re.search(pattern, text, re.M):
        raise SystemExit(f"{what}: no match of {pattern!r} in:\n{text}")


def reports_of(run):
    """Those with the rows of all ranks. They come after 1, 2, 4 s and so on, the first while ranks may still be on their way."""
    lines, begin = [], None
    for line in run.stdout:
        if "no rank on this node has gone on for" in line:
            begin = len(lines)
        lines.append(line)
        if begin is not None and line.startswith("  rank 2 "):
            yield "".join(lines[begin:])
            begin = None
    raise SystemExit("the job ended without a report:\n" + "".join(lines))


def report_of(run, patterns):
    for _, report in zip(range(4), reports_of(run)):
        if all(re.search(r"^\* .*" + pattern, report, re.M) for pattern in patterns):
            break
    return report


def check(command, name, memory):
    environment = {**os.environ, "FAIRLEAD_STALL_REPORT_S": "1"}
    with subprocess.Popen([*command, name, memory], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, errors="replace",
                          stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True) as run:
        try:
            report = report_of(run, SAYS[name])
            asked = subprocess.run([TOOL, "hang", "--calls", "3", str(run.pid)], text=True, capture_output=True, check=True).stdout
            found = json.loads(subprocess.run([TOOL, "hang", "--json", str(run.pid)], text=True, capture_output=True, check=True).stdout)["jobs"]
        finally:
            os.killpg(run.pid, signal.SIGTERM)
            run.stdout.close()
    print(report, flush=True)
    for text in report, asked:
        for pattern in SAYS[name]:
            expect(f"{name} in {memory} memory", text, r"^\* .*" + pattern)
        if name == "replays_enqueued" and "enqueued" in "".join(re.findall(r"^\* .*", text, re.M)):
            raise SystemExit(f"what graphs do is compared: {text}")
        for rank in range(3):
            expect(f"{name} in {memory} memory", text, ROW.format(rank=rank))
    if name not in ("waits_for_all", "streams_wait") and "enqueued" not in name:  # no rank is in a call with buffers
        expect(f"{name}: memory", report, f"; {memory} memory, ")
    if [rank["rank"] for rank in found[0]["ranks"]] != [0, 1, 2] or not found[0]["findings"]:
        raise SystemExit(f"{name}: fairlead hang --json: {found}")


def hang(*arguments):
    return subprocess.run([TOOL, "hang", *map(str, arguments)], text=True, capture_output=True, check=True).stdout


def check_lines(folder, pid):
    """addr2line, here another one, is asked once for each file."""
    program = os.path.join(folder, "addr2line")
    with open(program, "w") as file:
        file.write(f'#!/bin/sh\necho "$3" >> {folder}/asked\nshift 3\nfor place; do echo a.cpp:7; done\n')
    os.chmod(program, 0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    for form in ("--calls", "3"), ("--json",):
        says = subprocess.run([TOOL, "hang", *form, str(pid)], text=True, capture_output=True, check=True, env=environment).stdout
        expect("lines", says, r"hanging-\w+\+0x[0-9a-f]+ \(a\.cpp:7\)")
        with open(os.path.join(folder, "asked")) as file:
            asked = file.read().split()
        os.remove(os.path.join(folder, "asked"))
        if len(asked) != len(set(asked)):
            raise SystemExit(f"addr2line is asked for {asked}")


def check_joined(command):
    """What two nodes have saved says who waits for whom. Its file is that of one node, so each copy lacks ranks."""
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
            [*command, "wrong_tag", "host"], stdin=subprocess.DEVNULL, start_new_session=True) as run:
        one, other = os.path.join(folder, "hang.one"), os.path.join(folder, "hang.other")
        try:
            says = ""
            while not re.search(SAYS["wrong_tag"][0], says) and run.poll() is None:
                time.sleep(0.2)
                says = subprocess.run([TOOL, "hang", str(run.pid)], text=True, capture_output=True).stdout
            hang("--save", one, run.pid)
            check_lines(folder, run.pid)
        finally:
            os.killpg(run.pid, signal.SIGTERM)
        # src/flight/record.h: how many blocks are taken, and the state of the first.
        with open(one, "rb") as file:
            copy = bytearray(file.read())
        bytes_of_rank, blocks = struct.unpack_from("II", copy, 8)
        first = len(copy) - blocks * bytes_of_rank
        with open(other, "wb") as file:
            file.write(copy[:first] + bytes(4) + copy[first + 4:])
        with open(one, "r+b") as file:
            file.seek(16)
            file.write(struct.pack("I", 1))
        expect("one node", hang("--from", one), "^a job of 3 ranks, 1 of them in these files")
        joined = hang("--from", one, other)
        expect("joined", joined, "^a job of 3 ranks, 3 of them in these files")
        for pattern in SAYS["wrong_tag"]:
            expect("joined", joined, r"^\* .*" + pattern)
        expect("twice", hang("--from", one, one, other), "^a job of 3 ranks, 3 of them in these files")
        # Whatever stands in a damaged file, it is refused or described.
        seed = random.randrange(1 << 32)
        print("seed", seed)
        damage = random.Random(seed)
        for length in (100, len(copy)):
            for _ in range(20):
                damaged = copy[:length]
                for _ in range(damage.choice([1, 100, 10000])):
                    damaged[damage.randrange(length)] = damage.randrange(256)
                with open(one, "wb") as file:
                    file.write(damaged)
                for form in (), ("--json",), ("--calls", "3"):
                    asked = subprocess.run([TOOL, "hang", *form, "--from", one], capture_output=True)
                    if asked.returncode not in (0, 1, 2) or (length == 100 and b"was not written by" not in asked.stderr):
                        raise SystemExit(f"a damaged file: {asked}")


def main():
    check_joined(sys.argv[1:])
    for name in SAYS:
        for memory in ("host", "device"):
            check(sys.argv[1:], name, memory)


if __name__ == "__main__":
    main()
