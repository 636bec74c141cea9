#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Enqueues messages, collectives and one-sided operations on a GPU stream with fairlead.stream, on two ranks or more.

    FAIRLEAD_DEVICE=sim python -m fairlead run -n 2 python/tests/stream_test.py

The stream and the arrays are Fairlead's own, of whatever GPU there is. Exit codes: 0 all is right; 1 it is not; 77 the
MPI does not give MPI_THREAD_MULTIPLE.
"""

import ctypes
import sys

import numpy as np
from mpi4py import MPI

from fairlead import arrays
from fairlead.stream import StreamComm, StreamWin, native

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size
LIBRARY = arrays._library
for name in ("create", "synchronize", "destroy", "native"):
    getattr(LIBRARY, f"fairlead_device_stream_{name}").argtypes = [ctypes.c_void_p]
LIBRARY.fairlead_device_stream_native.restype = ctypes.c_void_p
LIBRARY.fairlead_device_copy_on.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


class Stream:
    def __init__(self):
        self.handle = ctypes.c_void_p()
        assert LIBRARY.fairlead_device_stream_create(ctypes.byref(self.handle)) == 0
        self.ptr = LIBRARY.fairlead_device_stream_native(self.handle)

    def copy(self, to, source):
        pointer = [array.__cuda_array_interface__["data"][0] for array in (to, source)]
        assert LIBRARY.fairlead_device_copy_on(self.handle, *pointer, to.nbytes) == 0

    def synchronize(self):
        assert LIBRARY.fairlead_device_stream_synchronize(self.handle) == 0


def use_window(stream, comm):
    left, right = (RANK - 1) % SIZE, (RANK + 1) % SIZE
    count = 5000
    memory, sum_at_0 = arrays.from_numpy(np.zeros(count)), arrays.from_numpy(np.zeros(count))
    win, sums = (StreamWin(MPI.Win.Create(array, 8, comm=comm)) for array in (memory, sum_at_0))
    mine, back = arrays.from_numpy(np.arange(count) + 1000.0 * RANK), arrays.empty(count - 10)
    win.Lock_all()
    sums.Lock_all()
    win.Put_enqueue(mine, right)
    win.Flush_enqueue(right)
    win.Get_enqueue([back, MPI.DOUBLE], right, 10)
    sums.Accumulate_enqueue(mine, 0)
    sums.Accumulate_enqueue(mine, 0, (0, count, MPI.DOUBLE), op=MPI.SUM)
    win.Flush_all_enqueue()
    sums.Flush_all_enqueue()
    stream.synchronize()
    COMM.Barrier()
    np.testing.assert_array_equal(memory.to_numpy(), np.arange(count) + 1000.0 * left)
    np.testing.assert_array_equal(back.to_numpy(), np.arange(10, count) + 1000.0 * RANK)
    if RANK == 0:
        np.testing.assert_array_equal(sum_at_0.to_numpy(), 2 * (SIZE * np.arange(count) + 500.0 * SIZE * (SIZE - 1)))
    try:
        win.Put_enqueue(mine, right, count)  # beyond the end
        win.Flush_enqueue(right)  # raises the error if the put is over by now
        stream.synchronize()
        win.Flush_enqueue(right)
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_RMA_RANGE
    else:
        raise AssertionError("an access beyond the end raised nothing")
    COMM.Barrier()
    win.Unlock_all()
    sums.Unlock_all()
    win.Free()
    sums.Free()


def use_neighbors(stream):
    ring = COMM.Create_cart([SIZE], periods=[True])
    comm = StreamComm(ring, stream)
    left, right = ring.Shift(0, 1)
    count = 700
    sent, received = arrays.from_numpy(np.arange(2.0 * count) + 10000 * RANK), arrays.empty(2 * count)
    halves = [count, count], [0, count], MPI.DOUBLE
    comm.Neighbor_alltoallv_enqueue([sent, *halves], [received, *halves])
    stream.synchronize()
    expected = np.concatenate([np.arange(count, 2 * count) + 10000 * left, np.arange(count) + 10000 * right])
    np.testing.assert_array_equal(received.to_numpy(), expected)
    counts = [count if rank == right else 0 for rank in range(SIZE)], [0] * SIZE, MPI.DOUBLE
    from_left = [count if rank == left else 0 for rank in range(SIZE)], [0] * SIZE, MPI.DOUBLE
    comm.Alltoallv_enqueue([sent, *counts], [received, *from_left])
    stream.synchronize()
    np.testing.assert_array_equal(received.to_numpy()[:count], np.arange(count) + 10000 * left)
    comm.Free()
    ring.Free()


def main():
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        print("MPI does not give MPI_THREAD_MULTIPLE")
        return 77
    stream = Stream()
    comm = StreamComm(COMM, stream)
    assert comm.size == SIZE and native(stream) == stream.ptr
    left, right = (RANK - 1) % SIZE, (RANK + 1) % SIZE
    for count in (1, 1000, 300000):
        produced = arrays.from_numpy(np.arange(count) + 1000.0 * RANK)
        sent, received, seen, total = (arrays.empty(count) for _ in range(4))
        stream.copy(sent, produced)
        requests = [comm.Irecv_enqueue(received, source=left, tag=3), comm.Isend_enqueue(sent, dest=right, tag=3)]
        comm.Waitall_enqueue(requests)
        stream.copy(seen, received)
        comm.Allreduce_enqueue(seen, total)
        comm.Bcast_enqueue(sent, root=SIZE - 1)
        if RANK % 2 == 0 and RANK + 1 < SIZE:
            comm.Send_enqueue([sent, MPI.DOUBLE], dest=RANK + 1)
        elif RANK % 2:
            comm.Recv_enqueue([sent, MPI.DOUBLE], source=RANK - 1)
        stream.synchronize()
        np.testing.assert_array_equal(seen.to_numpy(), np.arange(count) + 1000.0 * left)
        np.testing.assert_array_equal(total.to_numpy(), SIZE * np.arange(count) + 1000.0 * SIZE * (SIZE - 1) / 2)
        np.testing.assert_array_equal(sent.to_numpy(), np.arange(count) + 1000.0 * (SIZE - 1))
    use_window(stream, comm)
    use_neighbors(stream)
    comm.Free()
    try:
        StreamComm(COMM, "no stream")
    except TypeError as error:
        assert "accepted" in str(error)
    else:
        raise AssertionError("a string was taken for a stream")
    return 0


if __name__ == "__main__":
    sys.exit(main())
