# SPDX-License-Identifier: Apache-2.0
"""Address, counts and datatype of what mpi4py takes for a message, by its rules: what it refuses raises the same class
of error here, and what it takes means the same bytes.

mpi4py finds the memory of CUDA's and DLPack's arrays; the buffer protocol is asked here as mpi4py asks it, because it
tells nobody the type of the elements, and its MPI.buffer takes no Fortran order.
"""

from __future__ import annotations

import ctypes
import itertools
import operator
import sys
from typing import Any, NamedTuple

from mpi4py import MPI
from mpi4py import __version__ as _version

from ._readonly import KINDS, tensor_in

_Memory: Any = getattr(MPI, "buffer", None) or MPI.memory  # mpi4py 4, 3
_WRITABLE, _FORMAT, _ANY_CONTIGUOUS = 0x1, 0x4, 0x80 | 0x18  # PyBUF_*
_FOREIGN = ">" if sys.byteorder == "little" else "<"
# The codes of elements by kind and size, as mpi4py has them for CUDA's and DLPack's arrays. All others are bytes.
_CODES = {"b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "l", "u1": "B", "u2": "H", "u4": "I", "u8": "L",
          "f2": "e", "f4": "f", "f8": "d", "f16": "g", "c4": "Ze", "c8": "Zf", "c16": "Zd", "c32": "Zg"}


class _View(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), *[(name, ctypes.c_void_p)
                                               for name in ("shape", "strides", "suboffsets", "internal")]]


class Message(NamedTuple):
    """So many elements of `datatype` at `address`."""

    address: int
    elements: int
    datatype: MPI.Datatype


class Blocks(NamedTuple):
    """The same in a block for each rank, at `displacements` of so many elements."""

    address: int
    counts: list[int]
    displacements: list[int]
    datatype: MPI.Datatype


def _same_order(code: str) -> str:
    """The code without its byte order. Raises BufferError for the other order than this machine's."""
    if code.startswith(_FOREIGN):
        raise BufferError(f"elements of type {code!r} are in the byte order of other machines; pass a copy: "
                          "array.astype(array.dtype.newbyteorder('='))")
    return code[1:] if code[0] in "@<>" else code


def _typestr_of_dlpack(array: Any) -> str:
    """The type of the elements as in an array interface: "<f8"."""
    where = {} if array.__dlpack_device__()[0] == 1 else {"stream": -1}  # 1: host memory
    capsule = array.__dlpack__(**where)
    tensor = tensor_in(capsule)
    kind = KINDS.get(tensor.code, "V") if tensor.lanes == 1 else "V"
    return f"|{kind}{tensor.bits // 8}"


def _datatype_of(array: Any) -> MPI.Datatype:
    """Of the elements of an array that has no buffer protocol."""
    known = hasattr(array, "__dlpack__")
    typestr = _typestr_of_dlpack(array) if known else array.__cuda_array_interface__["typestr"]
    code = _CODES.get(_same_order(typestr).lstrip("|"))
    return MPI.BYTE if code is None else _datatype(code)


def _no_datatype(of: Any) -> KeyError:
    return KeyError(f"mpi4py {_version} with this MPI has no datatype for elements of type {of!r}; name one: "
                    "[array, MPI.UINT16_T] moves numbers of 16 bits, and reductions take those of MPI.FLOAT16_T and "
                    "MPI.BFLOAT16_T, which mpi4py 4.1 has")


def _datatype(given: Any) -> MPI.Datatype:
    if isinstance(given, MPI.Datatype):
        return given
    try:
        return MPI._typedict[given]
    except KeyError:
        raise _no_datatype(given) from None


def _memory(array: Any, writable: bool, given: Any) -> tuple[int, int, MPI.Datatype]:
    """Address, bytes and datatype of an array, of which the datatype may be given."""
    if array is None or array is MPI.BOTTOM:
        return 0, 0, _datatype(given)
    view = _View()
    flags = _ANY_CONTIGUOUS | (_WRITABLE if writable else 0) | (_FORMAT if given is None else 0)
    try:
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(array), ctypes.byref(view), flags)
    except Exception:
        if not hasattr(array, "__dlpack__") and not hasattr(array, "__cuda_array_interface__"):
            raise
        memory = _Memory.frombuffer(array, not writable)
        return memory.address, memory.nbytes, _datatype_of(array) if given is None else _datatype(given)
    try:
        code = given if given is not None else _same_order((view.format or b"B").decode())
        return view.buf or 0, view.len, _datatype(code)
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))


def _parts(message: Any, pair: Any) -> tuple[Any, Any, Any, Any]:
    """Array, counts, displacements and datatype of [array, ...], None for what it does not name. pair: the classes in
    which counts and displacements may be together."""
    if not isinstance(message, (list, tuple)):
        if message is None or message is MPI.BOTTOM:
            raise TypeError(f"{message!r} is no array; accepted with a datatype: [{message!r}, count, datatype]")
        return message, None, None, None
    if len(message) == 2 and isinstance(message[1], (MPI.Datatype, str)):
        return message[0], None, None, message[1]
    if len(message) == 4:
        array, counts, displacements, datatype = message
        return array, counts, displacements, datatype
    if len(message) not in (2, 3):
        raise ValueError(f"{len(message)} items are no message; accepted: [array, counts, displacements, datatype], or "
                         "2 or 3 of them")
    array, counts, *rest = message
    counts, displacements = counts if isinstance(counts, pair) else (counts, None)
    return array, counts, displacements, rest[0] if rest else None


def _extent(datatype: MPI.Datatype) -> int:
    extent = datatype.Get_extent()[1] if datatype != MPI.DATATYPE_NULL else 0
    if extent <= 0:
        raise ValueError("elements of this datatype have no size to count them by; pass [array, count, datatype]")
    return extent


def _elements(nbytes: int, datatype: MPI.Datatype) -> int:
    """How many elements are in so many bytes."""
    if nbytes == 0:
        return 0
    count, rest = divmod(nbytes, _extent(datatype))
    if rest:
        raise ValueError(f"{nbytes} bytes are no whole number of elements of {_extent(datatype)}; pass "
                         "[array, count, datatype]")
    return count


def message(given: Any, writable: bool, peer: int = 0) -> Message:
    """What one message to or from a peer consists of. writable: MPI stores into it."""
    if peer == MPI.PROC_NULL:
        return Message(0, 0, MPI.BYTE)
    array, count, displacement, datatype = _parts(given, (list, tuple))
    address, nbytes, datatype = _memory(array, writable, datatype)
    if displacement is not None and (displacement := operator.index(displacement)) != 0:
        skipped = displacement * _extent(datatype)
        if not 0 <= skipped <= nbytes:
            raise ValueError(f"displacement {displacement} is outside of an array of {nbytes} bytes")
        address, nbytes = address + skipped, nbytes - skipped
    count = _elements(nbytes, datatype) if count is None else operator.index(count)
    if count < 0 or (count > 0 and array is None):
        raise ValueError(f"count {count} of {'None' if array is None else 'an array'}")
    return Message(address, count, datatype)


def operand(given: Any, writable: bool, peer: int = 0) -> Message:
    """A message for a reduction, whose elements are more than bytes unless it says so."""
    found = message(given, writable, peer)
    if found.datatype == MPI.BYTE and peer != MPI.PROC_NULL and _parts(given, (list, tuple))[3] is None:
        raise _no_datatype("bytes")
    return found


def _is_number(given: Any) -> bool:
    try:
        len(given)
    except TypeError:
        return True
    return False


def _for_each(given: Any, ranks: int) -> list[int]:
    numbers = [operator.index(number) for number in given]
    if len(numbers) != ranks:
        raise ValueError(f"{len(numbers)} numbers for the blocks of {ranks} ranks")
    return numbers


def blocks(given: Any, writable: bool, ranks: int) -> Blocks:
    """What the blocks of so many ranks consist of."""
    array, counts, displacements, datatype = _parts(given, tuple)
    address, nbytes, datatype = _memory(array, writable, datatype)
    if counts is None:
        least, more = divmod(_elements(nbytes, datatype), max(ranks, 1))
        counts = [least + (rank < more) for rank in range(ranks)]
    counts = _for_each([counts] * ranks if _is_number(counts) else counts, ranks)
    if displacements is None:
        displacements = list(itertools.accumulate([0, *counts]))[:ranks]
    elif _is_number(displacements):
        displacements = [rank * operator.index(displacements) for rank in range(ranks)]
    return Blocks(address, counts, _for_each(displacements, ranks), datatype)


def reduction(sent: Any, received: Any) -> tuple[int, Message]:
    """The address of what is sent, or of MPI.IN_PLACE, and the result's message."""
    into = operand(received, True)
    if sent is MPI.IN_PLACE:
        return int(MPI.IN_PLACE), into
    out = operand(sent, False)
    if out[1:] != into[1:]:
        raise ValueError(f"{out.elements} elements of {out.datatype.Get_name()} are sent and {into.elements} of "
                         f"{into.datatype.Get_name()} are received; the two must be equal")
    return out.address, into


def target_of(given: Any, origin: Message) -> tuple[Any, Any, MPI.Datatype]:
    """Displacement, count and datatype at the target of an access."""
    if not isinstance(given, (list, tuple)):
        given = (0 if given is None else given,)
        if not hasattr(given[0], "__index__"):
            raise ValueError(f"{given[0]!r} is no target; accepted: displacement or [displacement, count, datatype]")
    of_origin: list[Any] = [0, origin.elements, origin.datatype]
    displacement, count, datatype = list(given) + of_origin[len(given):]
    return displacement, count, _datatype(datatype)
