#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What fairlead.info(), stats() and phase() tell in a process that Fairlead is loaded into. An mpi4py program."""

import os
import sys

import fairlead
import numpy as np
from fairlead.arrays import empty, from_numpy
from mpi4py import MPI

BYTES = 1 << 20


def check(condition, *what):
    if not condition:
        print("FAILED:", *what, file=sys.stderr, flush=True)
        MPI.COMM_WORLD.Abort(1)


def main():
    comm = MPI.COMM_WORLD
    info = fairlead.info()
    check(info.loaded and info.active, info)
    check(info.mpi == MPI.Get_library_version().splitlines()[0].rstrip("\0").split("\n")[0], info.mpi)
    check(info.provider == "sim" and len(info.devices) == 2 and info.devices[0].memory > 0, info)
    options = {option.variable: option.value for option in info.options}
    check(options.get("FAIRLEAD_SIM_DEVICES") == "2", options)
    check(f"libfairlead-{info.abi}.so" in os.environ["LD_PRELOAD"], info.abi)

    before = sum(path.bytes for path in fairlead.stats().traffic.values())
    with fairlead.phase("exchange"):
        got = empty(BYTES, "b")
        peer = comm.rank ^ 1
        comm.Sendrecv(from_numpy(np.full(BYTES, comm.rank, "b")), peer, 0, got, peer, 0)
    check((got.to_numpy() == peer).all(), got)
    stats = fairlead.stats()
    check(sum(path.bytes for path in stats.traffic.values()) >= before + BYTES, stats)
    check("peer copies" in stats.traffic and stats.seconds > 0, stats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
