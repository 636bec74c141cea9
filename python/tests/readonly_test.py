#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fairlead.readonly(): arrays that wait for streams as JAX's do, and JAX's own where it is installed, are sent and not
received into. An mpi4py program of two ranks."""

import ctypes
import sys

import fairlead
import numpy as np
from fairlead.arrays import empty, from_numpy
from mpi4py import MPI

COMM = MPI.COMM_WORLD
PEER = COMM.rank ^ 1
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class Tensor(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int * 2), ("ndim", ctypes.c_int),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class LikeJax:
    """An array of a GPU that takes -1, "do not wait", for the handle of a stream."""

    def __init__(self, array):
        self.array, self.memory, self.ready = array, from_numpy(array), False
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)

    def block_until_ready(self):
        self.ready = True
        return self

    def __dlpack_device__(self):
        return 2, 0  # CUDA

    def __dlpack__(self, stream=None):
        if stream is not None:
            raise RuntimeError("CUDA_ERROR_INVALID_HANDLE")
        dtype = self.array.dtype
        # The last eight bytes of an offset, so that it counts.
        self.tensor = Tensor(self.memory.address - 8, (2, 0), self.array.ndim, CODES[dtype.kind], dtype.itemsize * 8, 1,
                             self.shape, None, 8, None, None)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


def check(condition, *what):
    if not condition:
        print("FAILED:", *what, file=sys.stderr, flush=True)
        COMM.Abort(1)


def refused(function, error):
    try:
        function()
    except error:
        return True
    return False


def exchanged(mine, count, dtype):
    got = empty(count, dtype)
    COMM.Sendrecv(fairlead.readonly(mine), PEER, 0, got, PEER, 0)
    return got.to_numpy()


def main():
    for dtype in "?bBhidDq":
        for shape in (1,), (1000,), (20, 50):
            wanted = [(np.arange(np.prod(shape)) + rank).astype(dtype).reshape(shape) for rank in (0, 1)]
            mine = LikeJax(wanted[COMM.rank])
            check((exchanged(mine, shape, dtype) == wanted[PEER]).all(), dtype, shape)
            check(mine.ready, "not waited for")
    ones, total = LikeJax(np.ones(7)), empty(7)
    COMM.Allreduce(fairlead.readonly(ones), total)
    check((total.to_numpy() == COMM.size).all(), "Allreduce", total)
    # As mpi4py itself has it: a number for which there is no stream, and memory that may not change.
    check(refused(lambda: COMM.Isend(ones, PEER, 99), Exception), "sent without a view")
    check(refused(lambda: COMM.Irecv(fairlead.readonly(ones), PEER, 99), BufferError), "received into")
    check(refused(lambda: fairlead.readonly([1]), TypeError), "a list")

    try:
        import jax
    except ImportError:
        return 0
    array = jax.numpy.arange(12, dtype="int32") + COMM.rank
    check((exchanged(array, 12, "i") == np.arange(12) + PEER).all(), "JAX")
    check(refused(lambda: COMM.Irecv(fairlead.readonly(array), PEER, 99), BufferError), "received into JAX's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
