#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job whose ranks have loaded two releases of Fairlead ends in MPI_Init with a line that names both.

The other release is this one with another number in its library.

    releases_test.py LIBRARY PROGRAM LAUNCHER VERSION
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

library, program, launcher, version = sys.argv[1:]
other = version[:-1] + ("9" if version[-1] != "9" else "8")  # as long as this one
older, newer = sorted((version, other), key=lambda release: [int(number) for number in release.split(".")])

with tempfile.TemporaryDirectory() as folder:
    copy = Path(folder) / Path(library).name
    bytes_of_release = b"\0" + version.encode() + b"\0"  # not that of a symbol version
    content = Path(library).read_bytes()
    if bytes_of_release not in content:
        sys.exit(f"{library} does not contain its release {version}")
    copy.write_bytes(content.replace(bytes_of_release, b"\0" + other.encode() + b"\0"))

    # By the number of the rank: the launcher of Debian 13's Open MPI crashes if it is given several programs.
    ranks = ["-n", "2", "env", f"LD_LIBRARY_PATH={Path(library).parent}:{os.environ.get('LD_LIBRARY_PATH', '')}",
             "FAIRLEAD_DEVICE=sim", "sh", "-c",
             '[ "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" = 0 ] || shift; LD_PRELOAD=$1 exec "$0"', program, library, copy]
    flags = ["--oversubscribe", "--allow-run-as-root"] if "openmpi" in Path(library).name else []
    said = f"has loaded Fairlead {older}, and another rank Fairlead {newer}; load the same release on all ranks"
    # MPICH's launcher sometimes loses what a process has written that ends at once.
    for _ in range(3):
        run = subprocess.run([launcher, *flags, *ranks], capture_output=True, text=True, timeout=300)
        if run.returncode == 0 or said in run.stdout + run.stderr:
            break

if run.returncode == 0 or said not in run.stdout + run.stderr:
    sys.exit(f"exit code {run.returncode}, expected another one and: {said}\n{run.stdout}{run.stderr}")
