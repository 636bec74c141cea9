#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Enqueues messages and collectives on a GPU stream with fairlead.stream. An MPI program of two ranks or more.

    FAIRLEAD_DEVICE=sim python -m fairlead run -n 2 python/tests/stream_test.py

The stream and the arrays are Fairlead's own, of whatever GPU there is. Exit codes: 0 all is right; 1 it is not; 77 the
MPI does not give MPI_THREAD_MULTIPLE.
"""

import ctypes
import sys

import numpy as np
from mpi4py import MPI

from fairlead import arrays
from fairlead.stream import StreamComm, native

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
