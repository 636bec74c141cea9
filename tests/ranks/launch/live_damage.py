#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Runs a job again and again, and damages words of the memory that its ranks share while they run. Whatever is hit,
the job must end, with an error or without, or report what it waits for; no rank may crash.

    live_damage.py [--seed N] [--runs N] [--words N] mpirun -n 2 env LD_PRELOAD=... rank-tests-openmpi THEME...

Run k has the seed N + k, which decides the order and the new values of the words; which words the ranks have in use
then depends on their timing, so a seed makes a failure likely, not certain. TEST_DAMAGE holds further options."""

import argparse
import mmap
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

PAGE = 4096
LARGEST = 1 << 30  # bytes of a file that are mapped
NEAR = 64  # pages in use at the start of a file, from which half of the words are chosen; behind are mostly messages
EDGES = (0, 1, 2, 3, 7, 8, 63, 64, 255, PAGE, 1 << 20, (1 << 31) - 1, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1)
# It only ends what hangs; a rank test ends itself (TEST_TIMEOUT), and says where it is.
GUARD = 2 * int(os.environ.get("TEST_TIMEOUT", 60))
AFTER_REPORT = 5  # seconds that a job may still take to end after it has reported what it waits for

CRASHES = re.compile(r"rank \d+ (?:crashes|aborts) in.*|exited on signal (?!9|15).*")
HANGS = re.compile(r"rank \d+ hangs in.*")
WAITS = re.compile(r"fairlead \d+/\d+ \S+ warn .* for \d+ s\b.*")
ERRORS = re.compile(r"fairlead \d+/\d+ \S+ error.*|.*(?:MPI_ERR|Fatal error|failed|FAIL).*")


def descendants(process):
    found = []
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children", encoding="ascii") as children:
                for child in map(int, children.read().split()):
                    found += [child] + descendants(child)
    except OSError:
        pass  # it has ended
    return found


class SharedFile:
    """A memfd of the job, mapped. Words are 8 bytes."""

    def __init__(self, name, file):
        self.name = name
        self.file = file
        self.size = 0
        self.seen = {}

    def follow(self):
        """It grows when ranks need more memory."""
        size = min(os.fstat(self.file).st_size, LARGEST) // PAGE * PAGE
        if size > self.size:
            self.size = size
            self.memory = mmap.mmap(self.file, size)
            self.words = memoryview(self.memory).cast("Q")

    def used_pages(self):
        at = 0
        while at < self.size:
            try:
                at = os.lseek(self.file, at, os.SEEK_DATA) // PAGE
            except OSError:  # no more
                return
            end = min(os.lseek(self.file, at * PAGE, os.SEEK_HOLE), self.size)
            yield from range(at, end // PAGE)
            at = max(end, (at + 1) * PAGE)

    def candidates(self, draw):
        """Words in some of the pages that are not 0, and those that have changed since the last look at them."""
        self.follow()
        used, changed, pages = [], [], list(self.used_pages())
        for page in pages[:NEAR] + draw.sample(pages[NEAR:], min(NEAR, len(pages[NEAR:]))):
            first = page * PAGE // 8
            now = self.words[first:first + PAGE // 8].tolist()
            before = self.seen.get(page)
            self.seen[page] = now
            for i, word in enumerate(now):
                if word:
                    used.append(first + i)
                if before and word != before[i]:
                    changed.append(first + i)
        return used, changed


class Damage:
    def __init__(self, job, seed):
        self.job = job
        self.random = random.Random(seed)
        self.files = {}  # by inode
        self.done = []
        # Early, few words are in use, and what they lead to is then not used at all.
        self.begin = time.monotonic() + self.random.choice((0, self.random.uniform(1, 6)))

    def find_files(self):
        for process in descendants(self.job):
            try:
                for number in os.listdir(f"/proc/{process}/fd"):
                    path = f"/proc/{process}/fd/{number}"
                    if os.readlink(path) != "/memfd:fairlead (deleted)":
                        continue
                    status = os.stat(path)
                    if status.st_size and status.st_ino not in self.files:
                        name = f"memfd {len(self.files)} ({status.st_size >> 10} KiB)"
                        self.files[status.st_ino] = SharedFile(name, os.open(path, os.O_RDWR))
            except OSError:
                pass  # the process or its file is gone

    def strike(self):
        self.find_files()
        draw = self.random
        words = []
        for file in self.files.values():
            used, changed = file.candidates(draw)
            words += [(file, choice) for choice in (used, changed, changed) if choice]
        if not words:
            return
        file, choice = draw.choice(words)
        word = draw.choice(choice)
        width = draw.choice((1, 4, 8))
        at = word * 8 + draw.randrange(8 // width) * width
        old = int.from_bytes(file.memory[at:at + width], "little")
        new = draw.choice((draw.choice(EDGES), old ^ 1 << draw.randrange(width * 8), old + 1, old - 1, draw.getrandbits(64)))
        file.memory[at:at + width] = (new % (1 << width * 8)).to_bytes(width, "little")
        self.done.append(f"{file.name} +{at:#x}: {old:#x} -> {new % (1 << width * 8):#x}")


def run(command, seed, words):
    """Returns how the job ended, whether that is a failure, what was damaged, and what the job printed."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                               start_new_session=True)
        damage = Damage(job.pid, seed)
        start = time.monotonic()
        reported = None

        def printed():
            output.seek(0)
            return output.read()

        while job.poll() is None:
            now = time.monotonic()
            if len(damage.done) < words and now >= damage.begin:
                damage.strike()
            if reported is None and WAITS.search(printed()):
                reported = now
            if now - start > GUARD or (reported and now - reported > AFTER_REPORT):
                end(job)
            time.sleep(damage.random.uniform(0, 0.1))
        text = printed()
    if crash := CRASHES.search(text):
        return "CRASH: " + crash.group(), True, damage.done, text
    if reported:
        return "waits and says so: " + WAITS.search(text).group(), False, damage.done, text
    if (hang := HANGS.search(text)) or job.returncode == -signal.SIGKILL:
        return hang.group() if hang else "HANG", True, damage.done, text
    if job.returncode == 0:
        return "done", False, damage.done, text
    found = ERRORS.search(text)
    return f"error {job.returncode}: {found.group().strip()[:200] if found else '?'}", False, damage.done, text


def end(job):
    for process in descendants(job.pid) + [job.pid]:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass
    job.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1000000), help="of the first run")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--words", type=int, default=12, help="how many are damaged in a run")
    parser.add_argument("--keep", metavar="FOLDER", help="where the output of failed runs is written")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(shlex.split(os.environ.get("TEST_DAMAGE", "")) + sys.argv[1:])
    failed = 0
    for seed in range(options.seed, options.seed + options.runs):
        outcome, failure, damaged, text = run(options.command, seed, options.words)
        print(f"seed {seed}: {len(damaged)} words, {outcome}", flush=True)
        if failure:
            failed += 1
            print("\n".join(damaged + ([] if options.keep else [text])), flush=True)
            if options.keep:
                with open(f"{options.keep}/{seed}.log", "w", encoding="utf-8") as kept:
                    kept.write("\n".join(damaged) + "\n" + text)
    print(f"{options.runs} runs, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
