# SPDX-License-Identifier: Apache-2.0
"""Arrays that mpi4py may send and not receive into, for libraries whose arrays it cannot ask itself."""

from __future__ import annotations

import ctypes
from typing import Any

# The kinds of elements of DLPack, as an array interface has them. All others are bytes.
KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int * 2), ("ndim", ctypes.c_int),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


def tensor_in(capsule: Any) -> _Tensor:
    """What a capsule of __dlpack__() describes, as long as the capsule exists."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    return _Tensor.from_address(get(ctypes.py_object(capsule), b"dltensor"))


class ReadOnly:
    """What readonly() returns. It keeps the array's memory until it is deleted itself."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule  # its end releases the memory
        tensor = tensor_in(capsule)
        self.shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
        itemsize = tensor.bits * tensor.lanes // 8
        kind = KINDS.get(tensor.code, "V") if tensor.lanes == 1 else "V"
        strides = tuple(tensor.strides[axis] * itemsize for axis in range(tensor.ndim)) if tensor.strides else None
        address = (tensor.data or 0) + tensor.byte_offset
        self.__cuda_array_interface__ = {
            "version": 3, "shape": self.shape, "typestr": f"{'|' if itemsize == 1 or kind == 'V' else '<'}{kind}{itemsize}",
            "data": (address, True), "strides": strides, "stream": None}


def readonly(array: Any) -> ReadOnly:
    """A view of an array, for mpi4py and fairlead.stream to send: comm.Send(fairlead.readonly(x), dest=1). It waits until
    the array is computed. MPI may not receive into it: BufferError.

    For JAX, whose arrays on GPUs mpi4py cannot ask for their address and which are never to change. Others with
    __dlpack__() will do. Raises TypeError for what has none, BufferError where the array cannot be exported."""
    if not hasattr(array, "__dlpack__"):
        raise TypeError(f"{type(array).__name__} is no array with __dlpack__(); accepted: arrays of JAX, CuPy, PyTorch")
    if hasattr(array, "block_until_ready"):
        array.block_until_ready()
    return ReadOnly(array.__dlpack__())
