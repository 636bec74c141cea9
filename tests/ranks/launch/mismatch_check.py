#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""FAIRLEAD_CHECK=collectives: each case of collectives/mismatched.cpp ends with a message that names the groups of
ranks with what they passed, and their call sites; the last case is right, and silent."""

import re
import subprocess
import sys

CALL_SITE = r".*mismatched-\w+\+0x[0-9a-f]+"
OF_WORLD = "ranks 0, 2, 3", "rank 1"
# For each line of the message the ranks and what they passed, before the call site; or its words.
CASES = {
    "function": [(OF_WORLD[0], "MPI_Allreduce of 8 MPI_INT with MPI_SUM"),
                 (OF_WORLD[1], "MPI_Bcast of 4 MPI_INT, root 0")],
    "blocking": [(OF_WORLD[0], "MPI_Barrier"), (OF_WORLD[1], "MPI_Ibarrier")],
    "count": [(OF_WORLD[0], "MPI_Allreduce of 4 MPI_INT with MPI_SUM"),
              (OF_WORLD[1], "MPI_Allreduce of 8 MPI_INT with MPI_SUM")],
    "datatype": [(OF_WORLD[0], "MPI_Allreduce of 4 MPI_INT with MPI_SUM"),
                 (OF_WORLD[1], "MPI_Allreduce of 4 MPI_FLOAT with MPI_SUM")],
    "operation": [(OF_WORLD[0], "MPI_Reduce of 4 MPI_INT with MPI_SUM, root 0"),
                  (OF_WORLD[1], "MPI_Reduce of 4 MPI_INT with MPI_MAX, root 0")],
    "root": [(OF_WORLD[0], "MPI_Bcast of 4 MPI_INT, root 0"), (OF_WORLD[1], "MPI_Bcast of 4 MPI_INT, root 1")],
    "scattered": [("ranks 1-3", "MPI_Scatterv of 4 MPI_INT, root 0"),
                  ("rank 0", "MPI_Scatterv of 60 bytes in all, receiving 4 MPI_INT, root 0"),
                  "rank 0 gives rank 2 12 bytes, which expects 16 bytes"],
    "exchanged": [(OF_WORLD[0], "MPI_Alltoallv of 64 bytes in all"),
                  (OF_WORLD[1], "MPI_Alltoallv of 60 bytes in all, receiving 64 bytes in all"),
                  "rank 1 gives rank 2 12 bytes, which expects 16 bytes"],
    "counts": [(OF_WORLD[0], "MPI_Reduce_scatter of 4+4+4+4 MPI_INT with MPI_SUM"),
               (OF_WORLD[1], "MPI_Reduce_scatter of 4+5+3+4 MPI_INT with MPI_SUM")],
    "gathered_otherwise": [("ranks 0-3", "MPI_Allgather of 4 MPI_INT, receiving 4 MPI_FLOAT"),
                           "rank 0 gives rank 0 16 bytes, which expects other datatypes"],
    "nonblocking": [(OF_WORLD[0], "MPI_Ibcast of 4 MPI_INT, root 0"), (OF_WORLD[1], "MPI_Ibcast of 8 MPI_INT, root 0")],
    "part": ["a communicator of 2 ranks (ranks 1, 3 of MPI_COMM_WORLD)",
             ("rank 0", "MPI_Bcast of 4 MPI_INT, root 0"), ("rank 1", "MPI_Bcast of 8 MPI_INT, root 0")],
    "none": [],
}


def mistakes(case, lines, run):
    output = run.stdout
    if not lines:
        if run.returncode != 0 or "fairlead" in output or "finished" not in output:
            yield f"exit code {run.returncode}"
        return
    if run.returncode == 0:
        yield "exit code 0"
    if "a collective does not match on" not in output:
        yield "no message"
    for line in lines:
        words, site = (line, "") if isinstance(line, str) else (f"{line[0]}: {line[1]} at ", CALL_SITE)
        if not re.search(re.escape(words) + site, output):
            yield f"no line '{line}'"


def main():
    wrong = 0
    for case, lines in CASES.items():
        run = subprocess.run([*sys.argv[1:], case], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        found = list(mistakes(case, lines, run))
        print(f"{'FAILED' if found else 'ok'} {case}", *found, *([run.stdout] if found else []), sep="\n  ", flush=True)
        wrong += bool(found)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
