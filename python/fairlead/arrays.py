# SPDX-License-Identifier: Apache-2.0
"""Arrays in device memory for tests and small experiments, on machines with and without a GPU.

    from fairlead.arrays import from_numpy, empty

    a = from_numpy(numpy.arange(1000.0))    # in the memory of a GPU, or of Fairlead's simulated one
    comm.Send(a, dest=1)                    # mpi4py takes it as it takes CuPy's
    a.to_numpy()

They move bytes and compute nothing. On the simulated GPU, which is there where no other is (FAIRLEAD_DEVICE=sim asks
for it), the memory is as hostile as a real GPU's: code of the host that touches it dies.

Each array describes itself by __cuda_array_interface__, which is how mpi4py learns its address. On a real GPU
that is the whole truth. On the simulated one only Fairlead can use the address: CuPy, PyTorch and Numba would take
it for CUDA's, and must not be given such arrays. There is no buffer protocol and no DLPack, because simulated memory
belongs to none of the kinds that these can name.

Needs NumPy. An array may be used by one thread at a time; its memory is freed when nobody refers to it any more, and
an operation of MPI does not: keep arrays until their requests are complete.
"""

from __future__ import annotations

import ctypes
import math
import operator
import sys
import weakref
from collections.abc import Iterable
from typing import Any, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from ._home import library_file

_SONAME = "libfairlead-device.so.0"


class DeviceError(RuntimeError):
    """The GPU, or the simulation of one, refused: out of memory, no device, an address that is not its own."""


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(_SONAME)  # the one that the preloaded library brought, if it did
    except OSError:
        library = ctypes.CDLL(str(library_file(_SONAME)))
    library.fairlead_device_provider.restype = ctypes.c_char_p
    library.fairlead_device_error_text.restype = ctypes.c_char_p
    library.fairlead_device_malloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]
    library.fairlead_device_free.argtypes = [ctypes.c_void_p]
    library.fairlead_device_copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    library.fairlead_device_fill.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    return library


_library = _load()


def _check(result: int) -> None:
    if result != 0:
        raise DeviceError(_library.fairlead_device_error_text().decode())


def provider() -> str:
    """What these arrays live on: "cuda", "rocm", "sim" or "none"."""
    return str(_library.fairlead_device_provider().decode())


def device_count() -> int:
    """Number of devices this process sees."""
    return int(_library.fairlead_device_count())


def set_device(device: SupportsIndex) -> None:
    """Later arrays of this thread are on this device, counted from 0. Raises DeviceError where there is none."""
    if not isinstance(device, SupportsIndex):
        raise TypeError(f"{device!r} is no number of a device")
    number, count = operator.index(device), device_count()
    if not 0 <= number < count:
        raise DeviceError(f"there is no device {number}: this process sees {count}, counted from 0")
    _check(_library.fairlead_device_set(number))


class _Memory:
    """Device memory of this many bytes, freed with the last array in it."""

    def __init__(self, nbytes: int) -> None:
        address = ctypes.c_void_p()
        _check(_library.fairlead_device_malloc(ctypes.byref(address), nbytes))
        self.address = address.value or 0
        weakref.finalize(self, _library.fairlead_device_free, self.address)


class DeviceArray:
    """An array without gaps in device memory, rows first.

    shape: its lengths. dtype: NumPy's type of its elements. nbytes, size: of the whole array, in bytes and elements.
    Made by empty() and from_numpy(). Indexing by a slice of step 1 gives a part of it along the first axis, in the
    same memory, as does a number where there are more axes; of the only axis a number gives a copy of the element.
    """

    def __init__(self, memory: _Memory, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._memory = memory
        self._offset = offset
        self.shape = shape
        self.dtype = dtype
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize

    @property
    def address(self) -> int:
        """Where it lies in device memory; 0 of an array that was made empty."""
        return self._memory.address + self._offset if self._memory.address else 0

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        # mpi4py takes the number in a typestr for bytes, which it is of numbers only.
        typestr = self.dtype.str if self.dtype.kind in "biufc" else f"|V{self.dtype.itemsize}"
        return {"version": 3, "shape": self.shape, "typestr": typestr, "data": (self.address, False),
                "strides": None, "stream": None}

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no len()")
        return self.shape[0]

    @overload
    def __getitem__(self, part: slice) -> DeviceArray: ...
    @overload
    def __getitem__(self, part: SupportsIndex) -> Any: ...
    def __getitem__(self, part: SupportsIndex | slice) -> Any:
        if isinstance(part, slice):
            start, stop, step = part.indices(len(self))
            if step != 1:
                raise IndexError("only slices of step 1, which have no gaps")
            return self._part(start, (max(stop - start, 0), *self.shape[1:]))
        place = operator.index(part)
        if not -len(self) <= place < len(self):
            raise IndexError(f"index {place} of an array of {len(self)}")
        row = self._part(place % len(self), self.shape[1:])
        return row if row.shape else row.to_numpy()[()]

    def _part(self, start: int, shape: tuple[int, ...]) -> DeviceArray:
        row = self.nbytes // len(self) if len(self) else 0
        return DeviceArray(self._memory, self._offset + start * row, shape, self.dtype)

    def to_numpy(self) -> npt.NDArray[Any]:
        """A copy in host memory, made when all work of the device is done. Raises DeviceError."""
        result = np.empty(self.shape, self.dtype)
        _check(_library.fairlead_device_synchronize())
        _check(_library.fairlead_device_copy(result.ctypes.data, self.address, self.nbytes))
        return result

    def copy_from(self, array: npt.ArrayLike) -> None:
        """Overwrites the elements by those of a host array of the same shape. Raises ValueError, DeviceError."""
        source = np.asarray(array, self.dtype, order="C")
        if source.shape != self.shape:
            raise ValueError(f"shape {source.shape} does not go into {self.shape}")
        _check(_library.fairlead_device_copy(self.address, source.ctypes.data, self.nbytes))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles through host memory, as CuPy's arrays do."""
        return from_numpy, (self.to_numpy(),)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, {provider()} memory at {self.address:#x})"


def empty(shape: SupportsIndex | Iterable[SupportsIndex], dtype: npt.DTypeLike = float) -> DeviceArray:
    """An array on the current device, with any contents. Raises DeviceError where the memory cannot be had, ValueError
    for a negative length, TypeError for Python objects, which have no place in device memory."""
    given = shape if isinstance(shape, Iterable) else (shape,)
    lengths = tuple(operator.index(length) for length in given)
    kind: np.dtype[Any] = np.dtype(dtype)
    if min(lengths, default=0) < 0:
        raise ValueError(f"shape {lengths} has a negative length")
    if kind.hasobject:
        raise TypeError(f"elements of type {kind} do not go into device memory; accepted: types without objects")
    nbytes = math.prod(lengths) * kind.itemsize
    if nbytes > sys.maxsize:
        raise DeviceError(f"an array of {lengths} elements of {kind.itemsize} bytes does not fit into any memory")
    return DeviceArray(_Memory(nbytes), 0, lengths, kind)


def from_numpy(array: npt.ArrayLike) -> DeviceArray:
    """A copy of a host array on the current device. Raises DeviceError where the memory cannot be had."""
    source = np.asarray(array, order="C")
    result = empty(source.shape, source.dtype)
    result.copy_from(source)
    return result
