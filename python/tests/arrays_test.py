#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Passes device arrays to mpi4py: messages, collectives and pickled objects. An MPI program of one or more ranks.

    python -m fairlead run -n 2 python/tests/arrays_test.py --arrays cupy
    FAIRLEAD_DEVICE=sim python -m fairlead run -n 3 python/tests/arrays_test.py

--arrays: cupy, torch, numba, jax; sim, Fairlead's own, which need no GPU; numpy, host memory, which shows on a plain
MPI that the cases are right.

Exit codes: 0 all is right; 1 a case failed; 77 such arrays cannot be had here, for a reason that is printed.
"""

import argparse
import sys
import traceback

import numpy as np
from kinds import KINDS, Unavailable
from mpi4py import MPI

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size
SIZES = [1, 12, 1000, 65537]  # elements: smaller and larger than an RTS header, a kernel's block, a piece of staging
LARGE = 1 << 21
TYPES = ("b", "i", "q", "f", "d")

CASES = {"messages": [], "collectives": [], "objects": []}


def case(group):
    def note(function):
        CASES[group].append(function)
        return function

    return note


def pattern(count, seed, dtype="d"):
    """Numbers that tell where they come from, small enough to be summed in any type."""
    return ((np.arange(count) * 7 + seed * 13) % 23).astype(dtype)


def same(got, wanted, what):
    np.testing.assert_array_equal(np.asarray(got), wanted, err_msg=what)


class Case:
    """What a case is given: arrays of the kind under test."""

    def __init__(self, kind):
        self.kind = kind

    def make(self, array):
        return self.kind.make(array)

    def blank(self, count, dtype="d"):
        return self.kind.make(np.full(count, 99, dtype))

    def same(self, array, wanted, what=""):
        same(self.kind.back(array), wanted, what)


right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE


@case("messages")
def blocking(t):
    for count in SIZES:
        for dtype in TYPES:
            mine, got = t.make(pattern(count, RANK, dtype)), t.blank(count, dtype)
            status = MPI.Status()
            COMM.Sendrecv(mine, right, 3, got, left, 3, status)
            t.same(got, pattern(count, left, dtype), "Sendrecv")
            assert status.Get_count(MPI.BYTE) == count * np.dtype(dtype).itemsize, status.Get_count(MPI.BYTE)
            assert (status.source, status.tag) == (left, 3)
            if SIZE > 1:
                got = t.blank(count, dtype)
                if RANK % 2 == 0:
                    COMM.Send(mine, right) if RANK + 1 < SIZE else None
                    COMM.Recv(got, RANK + 1) if RANK + 1 < SIZE else None
                else:
                    COMM.Recv(got, left)
                    COMM.Ssend(mine, left)
                partner = RANK + 1 if RANK % 2 == 0 else RANK - 1
                if partner < SIZE:
                    t.same(got, pattern(count, partner, dtype), "Send, Recv")


@case("messages")
def nonblocking(t):
    for count in SIZES:
        got = [t.blank(count) for _ in range(SIZE)]
        mine = [t.make(pattern(count, RANK * SIZE + to)) for to in range(SIZE)]
        requests = [COMM.Irecv(got[source], source, 5) for source in range(SIZE)]
        requests += [COMM.Isend(mine[to], to, 5) for to in range(SIZE)]
        MPI.Request.Waitall(requests)
        for source in range(SIZE):
            t.same(got[source], pattern(count, source * SIZE + RANK), "Isend, Irecv")


@case("messages")
def mixed_ends(t):
    """One end in host memory, the other in device memory."""
    for count in SIZES:
        got = np.full(count, 99.0)
        request = COMM.Irecv(got, left, 6)
        COMM.Send(t.make(pattern(count, RANK)), right, 6)
        request.Wait()
        same(got, pattern(count, left), "device to host")
        got = t.blank(count)
        request = COMM.Irecv(got, left, 7)
        COMM.Send(pattern(count, RANK), right, 7)
        request.Wait()
        t.same(got, pattern(count, left), "host to device")


@case("messages")
def probed(t):
    for count in SIZES:
        request = COMM.Isend(t.make(pattern(count, RANK)), right, 8)
        status = MPI.Status()
        message = COMM.Mprobe(left, MPI.ANY_TAG, status)
        assert status.Get_count(MPI.DOUBLE) == count, status.Get_count(MPI.DOUBLE)
        got = t.blank(count)
        message.Recv(got)
        t.same(got, pattern(count, left), "Mprobe, Mrecv")
        request.Wait()


@case("messages")
def persistent(t):
    for count in SIZES:
        mine, got = t.make(pattern(count, RANK)), t.blank(count)
        requests = [COMM.Recv_init(got, left, 9), COMM.Send_init(mine, right, 9)]
        for _ in range(3):
            MPI.Prequest.Startall(requests)
            MPI.Request.Waitall(requests)
        for request in requests:
            request.Free()
        t.same(got, pattern(count, left), "Send_init, Recv_init")


@case("messages")
def with_datatype(t):
    """Every second element, by a derived datatype."""
    for count in SIZES:
        mine, got = t.make(pattern(2 * count, RANK)), t.blank(2 * count)
        second = MPI.DOUBLE.Create_vector(count, 1, 2).Commit()
        COMM.Sendrecv([mine, 1, second], right, 10, [got, 1, second], left, 10)
        second.Free()
        wanted = np.full(2 * count, 99.0)
        wanted[::2] = pattern(2 * count, left)[::2]
        t.same(got, wanted, "Create_vector")


@case("collectives")
def bcast(t):
    for count in SIZES:
        for root in range(SIZE):
            array = t.make(pattern(count, RANK))
            COMM.Bcast(array, root)
            t.same(array, pattern(count, root), "Bcast")


@case("collectives")
def reductions(t):
    for count in SIZES:
        for dtype in TYPES:
            every = np.array([pattern(count, rank, dtype) for rank in range(SIZE)])
            for op, by in ((MPI.SUM, np.sum), (MPI.MAX, np.max), (MPI.MIN, np.min)):
                wanted = by(every, axis=0).astype(dtype)
                got = t.blank(count, dtype)
                COMM.Allreduce(t.make(every[RANK]), got, op)
                t.same(got, wanted, "Allreduce")
                got = t.blank(count, dtype)
                COMM.Reduce(t.make(every[RANK]), got, op, root=SIZE - 1)
                t.same(got, wanted if RANK == SIZE - 1 else np.full(count, 99, dtype), "Reduce")
        array = t.make(pattern(count, RANK))
        COMM.Allreduce(MPI.IN_PLACE, array)
        t.same(array, sum(pattern(count, rank) for rank in range(SIZE)), "Allreduce in place")
        got = t.blank(count)
        COMM.Scan(t.make(pattern(count, RANK)), got)
        t.same(got, sum(pattern(count, rank) for rank in range(RANK + 1)), "Scan")
        whole = [pattern(count * SIZE, rank) for rank in range(SIZE)]
        got = t.blank(count)
        COMM.Reduce_scatter_block(t.make(whole[RANK]), got)
        t.same(got, sum(whole)[RANK * count : (RANK + 1) * count], "Reduce_scatter_block")


@case("collectives")
def gathers(t):
    for count in SIZES:
        every = np.concatenate([pattern(count, rank) for rank in range(SIZE)])
        got = t.blank(count * SIZE)
        COMM.Allgather(t.make(pattern(count, RANK)), got)
        t.same(got, every, "Allgather")
        got = t.blank(count * SIZE)
        COMM.Gather(t.make(pattern(count, RANK)), got if RANK == 0 else None)
        t.same(got, every if RANK == 0 else np.full(count * SIZE, 99.0), "Gather")
        got = t.blank(count)
        COMM.Scatter(t.make(every) if RANK == 0 else None, got)
        t.same(got, pattern(count, RANK), "Scatter")
        got = t.blank(count * SIZE)
        COMM.Alltoall(t.make(every + RANK), got)
        t.same(got, np.concatenate([pattern(count, RANK) + rank for rank in range(SIZE)]), "Alltoall")


@case("collectives")
def v_forms(t):
    for count in SIZES:
        counts = [count + rank for rank in range(SIZE)]
        places = [sum(counts[:rank]) for rank in range(SIZE)]
        every = np.concatenate([pattern(counts[rank], rank) for rank in range(SIZE)])
        mine = pattern(counts[RANK], RANK)
        got = t.blank(len(every))
        COMM.Allgatherv(t.make(mine), [got, counts, places, MPI.DOUBLE])
        t.same(got, every, "Allgatherv")
        got = t.blank(len(every))
        COMM.Gatherv(t.make(mine), [got, counts, places, MPI.DOUBLE] if RANK == 0 else None)
        t.same(got, every if RANK == 0 else np.full(len(every), 99.0), "Gatherv")
        got = t.blank(counts[RANK])
        COMM.Scatterv([t.make(every), counts, places, MPI.DOUBLE] if RANK == 0 else None, got)
        t.same(got, mine, "Scatterv")
        got = t.blank(counts[RANK] * SIZE)
        back = [counts[RANK]] * SIZE
        back_places = [counts[RANK] * rank for rank in range(SIZE)]
        COMM.Alltoallv([t.make(every + RANK), counts, places, MPI.DOUBLE],
                       [got, back, back_places, MPI.DOUBLE])
        t.same(got, np.concatenate([mine + rank for rank in range(SIZE)]), "Alltoallv")


@case("collectives")
def nonblocking_collectives(t):
    for count in SIZES:
        sums, root = t.blank(count), t.make(pattern(count, RANK))
        mine = t.make(pattern(count, RANK))
        requests = [COMM.Iallreduce(mine, sums), COMM.Ibcast(root, 0)]
        MPI.Request.Waitall(requests)
        t.same(sums, sum(pattern(count, rank) for rank in range(SIZE)), "Iallreduce")
        t.same(root, pattern(count, 0), "Ibcast")


@case("collectives")
def persistent_collectives(t):
    if not hasattr(COMM, "Allreduce_init"):  # mpi4py before 4.0
        return
    for count in SIZES:
        mine, got = t.make(pattern(count, RANK)), t.blank(count)
        try:
            request = COMM.Allreduce_init(mine, got)
        except NotImplementedError:  # an MPI without it, and no Fairlead
            return
        for _ in range(3):
            request.Start()
            request.Wait()
        request.Free()
        t.same(got, sum(pattern(count, rank) for rank in range(SIZE)), "Allreduce_init")


@case("objects")
def pickled(t):
    """Objects that hold host arrays, by pickle in one stream and with out-of-band buffers."""
    for count in SIZES:
        mine = {"rank": RANK, "array": pattern(count, RANK), "text": "x" * count}
        for comm in communicators():
            request = comm.isend(mine, right, 11)
            got = comm.recv(source=left, tag=11)
            request.wait()
            assert (got["rank"], len(got["text"])) == (left, count)
            same(got["array"], pattern(count, left), "recv")
            got = comm.bcast(mine, 0)
            same(got["array"], pattern(count, 0), "bcast")


@case("objects")
def pickled_device_arrays(t):
    """Device arrays inside of objects go through host memory, as their libraries pickle them."""
    for count in SIZES:
        try:
            import pickle

            pickle.dumps(t.make(pattern(count, RANK)))
        except Exception:  # Numba does not pickle its arrays
            return
        for comm in communicators():
            request = comm.isend([t.make(pattern(count, RANK)), RANK], right, 12)
            array, source = comm.recv(source=left, tag=12)
            request.wait()
            assert source == left
            t.same(array, pattern(count, left), "recv")


def communicators():
    """The same one, which pickles in one stream, and with out-of-band buffers."""
    yield COMM
    try:
        from mpi4py.util import pkl5
    except ImportError:
        return
    yield pkl5.Intracomm(COMM)


def went_through_fairlead():
    """Did Fairlead move the arrays of these cases?"""
    import fairlead

    stats = fairlead.stats()
    return sum(path.messages for path in stats.traffic.values()) > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrays", choices=sorted(KINDS), default="sim")
    parser.add_argument("--only", choices=sorted(CASES), help="only the cases of this group")
    parser.add_argument("--large", action="store_true", help="also with 16 MiB in each array")
    arguments = parser.parse_args()
    if arguments.large:
        SIZES.append(LARGE)
    try:
        kind = KINDS[arguments.arrays]()
    except Unavailable as reason:
        if RANK == 0:
            print(f"skipped: no {arguments.arrays} arrays here: {reason}")
        return 77
    node = COMM.Split_type(MPI.COMM_TYPE_SHARED)
    kind.choose(node.rank)
    node.Free()
    done = 0
    for group, functions in CASES.items():
        for function in functions if arguments.only in (None, group) else []:
            try:
                function(Case(kind))
            except Exception:
                traceback.print_exc()
                print(f"rank {RANK}: {function.__name__} failed with {arguments.arrays} arrays", file=sys.stderr,
                      flush=True)
                COMM.Abort(1)  # the others wait for us
            done += 1
    if arguments.arrays != "numpy" and not went_through_fairlead():
        print(f"rank {RANK}: Fairlead counted none of these messages", file=sys.stderr, flush=True)
        COMM.Abort(1)
    COMM.Barrier()
    if RANK == 0:
        print(f"{done} cases with {arguments.arrays} arrays on {SIZE} ranks: all right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
