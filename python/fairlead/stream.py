# SPDX-License-Identifier: Apache-2.0
"""MPI in the order of a GPU stream: calls return at once, and the stream does the operation after its earlier work.

    import cupy
    from mpi4py import MPI
    from fairlead.stream import StreamComm

    stream = cupy.cuda.Stream(non_blocking=True)
    comm = StreamComm(MPI.COMM_WORLD, stream)          # collective
    with stream:
        halo *= 2
    requests = [comm.Irecv_enqueue(ghost, source=left), comm.Isend_enqueue(halo, dest=right)]
    comm.Waitall_enqueue(requests)
    with stream:
        ghost += 1                                     # after the message has arrived
    stream.synchronize()

A stream is CuPy's or PyTorch's, an object with `__cuda_stream__`, or the number of a cudaStream_t or hipStream_t. The
communicator is one of mpi4py, with all its other methods. Messages are what mpi4py takes, as [array, count, datatype],
and what it refuses raises the same class of error; buffers belong to the operation until the stream has passed it. MPI must have been initialised with MPI.THREAD_MULTIPLE, mpi4py's default.
Use each kernel once before it comes behind an enqueued operation: CuPy loads it at its first use, which waits for all
streams. Errors of operations are raised by the next call on the communicator (MPI.Exception). The functions are those of
include/fairlead/stream.h; docs/use/streams.md explains them.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Iterable
from typing import Any

from mpi4py import MPI

from ._buffer import Message, blocks, message, operand, reduction, target_of
from ._native import NotLoadedError, info

_PROGRAM = ctypes.CDLL(None)
_TYPES = {"cuda": "cudaStream_t", "sim": "cudaStream_t", "rocm": "hipStream_t"}
_TOPOLOGIES: dict[int, Any] = {MPI.CART: MPI.Cartcomm, MPI.GRAPH: MPI.Graphcomm, MPI.DIST_GRAPH: MPI.Distgraphcomm}

# What the functions take: p an address, n MPI_Count, i int, a MPI_Aint, I an array of int, h a handle, o where one is.
_ARGUMENTS = {
    "Info_set_hex": "hspi", "Stream_create": "hp", "Stream_free": "p", "Stream_comm_create": "hip",
    "Send_enqueue_c": "pnhiih", "Recv_enqueue_c": "pnhiihp", "Isend_enqueue_c": "pnhiiho",
    "Irecv_enqueue_c": "pnhiiho", "Wait_enqueue": "op", "Barrier_enqueue": "h", "Bcast_enqueue": "pihih",
    "Allreduce_enqueue_c": "ppnhhh", "Alltoallv_enqueue": "pIIhpIIhh", "Neighbor_alltoallv_enqueue": "pIIhpIIhh",
    "Put_enqueue": "pihiaihh", "Get_enqueue": "pihiaihh", "Accumulate_enqueue": "pihiaihhh",
    "Win_flush_enqueue": "ih", "Win_flush_all_enqueue": "h",
}


def _number(kind: Any, given: Any) -> Any:
    """ctypes itself drops the bits that do not fit."""
    number = operator.index(given)
    if kind(number).value != number:
        raise OverflowError(f"{number} does not fit into the {8 * ctypes.sizeof(kind)} bits that this function has for it; "
                            "counts of a larger datatype are smaller: datatype.Create_contiguous(n)")
    return kind(number)


def _handle(thing: Any) -> Any:
    """The MPI handle of an object of mpi4py, as C functions take it by value."""
    size = MPI._sizeof(thing)
    kind: Any = ctypes.c_void_p if size == ctypes.sizeof(ctypes.c_void_p) else ctypes.c_int
    return kind.from_address(MPI._addressof(thing))


def _int(given: Any) -> Any:
    return _number(ctypes.c_int, given)


_AS_C: dict[str, Any] = {
    "p": ctypes.c_void_p, "s": ctypes.c_char_p, "i": _int, "h": _handle,
    "n": lambda given: _number(ctypes.c_longlong, given), "a": lambda given: _number(ctypes.c_ssize_t, given),
    "I": lambda given: (ctypes.c_int * len(given))(*map(_int, given)),
    "o": lambda thing: ctypes.c_void_p(MPI._addressof(thing)),
}


def _call(name: str, *arguments: Any) -> None:
    """Calls MPIX_`name`. Raises MPI.Exception for its error, OverflowError for a number that it cannot take."""
    try:
        function = getattr(_PROGRAM, f"MPIX_{name}")
    except AttributeError:
        raise NotLoadedError from None
    code = function(*[_AS_C[kind](argument) for kind, argument in zip(_ARGUMENTS[name], arguments)])
    if code != MPI.SUCCESS:
        raise MPI.Exception(code)


def native(stream: Any) -> int:
    """The cudaStream_t or hipStream_t of a stream, as a number."""
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("cuda_stream", "ptr"):  # PyTorch, CuPy
        if hasattr(stream, name):
            return int(getattr(stream, name))
    if isinstance(stream, int):
        return stream
    raise TypeError(f"{stream!r} is no GPU stream; accepted: CuPy's, PyTorch's, one with __cuda_stream__, a number")


class Request:
    """What Isend_enqueue() and Irecv_enqueue() return, for Wait_enqueue()."""

    def __init__(self, handle: Any, buffer: Any) -> None:
        self._handle = handle
        self._buffer = buffer  # is kept


class StreamComm(MPI.Intracomm):
    """A duplicate of a communicator whose *_enqueue methods work on a GPU stream. Collective; Free() frees it."""

    _stream: Any

    def __new__(cls, comm: MPI.Intracomm, stream: Any) -> StreamComm:
        made = MPI.Info.Create()
        value, handle = ctypes.c_void_p(native(stream)), ctypes.c_int()
        made.Set("type", _TYPES.get(info().provider, "cudaStream_t"))
        _call("Info_set_hex", made, b"value", ctypes.addressof(value), ctypes.sizeof(value))
        _call("Stream_create", made, ctypes.addressof(handle))
        made.Free()
        created = MPI.Intracomm()
        _call("Stream_comm_create", comm, handle.value, MPI._addressof(created))
        self = super().__new__(cls, created)
        self._stream = (handle, stream)
        self.Set_errhandler(MPI.ERRORS_RETURN)
        return self

    def Send_enqueue(self, buf: Any, dest: int, tag: int = 0) -> None:
        """The stream waits until the buffer may be used again."""
        _call("Send_enqueue_c", *message(buf, False, dest), dest, tag, self)

    def Recv_enqueue(self, buf: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG) -> None:
        """The stream waits until the message is there."""
        _call("Recv_enqueue_c", *message(buf, True, source), source, tag, self, _status_ignore())

    def Isend_enqueue(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """The stream does not wait before Wait_enqueue()."""
        return self._start("Isend_enqueue_c", message(buf, False, dest), buf, dest, tag)

    def Irecv_enqueue(self, buf: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG) -> Request:
        """The stream does not wait before Wait_enqueue()."""
        return self._start("Irecv_enqueue_c", message(buf, True, source), buf, source, tag)

    def _start(self, name: str, of: Message, buf: Any, peer: int, tag: int) -> Request:
        request = MPI.Request()
        _call(name, *of, peer, tag, self, request)
        return Request(request, buf)

    def Wait_enqueue(self, request: Request) -> None:
        """The stream waits for the operation."""
        _call("Wait_enqueue", request._handle, _status_ignore())

    def Waitall_enqueue(self, requests: Iterable[Request]) -> None:
        """The stream waits for all of them."""
        for request in requests:
            self.Wait_enqueue(request)

    def Barrier_enqueue(self) -> None:
        """The stream waits for the streams of all ranks."""
        _call("Barrier_enqueue", self)

    def Bcast_enqueue(self, buf: Any, root: int = 0) -> None:
        """As Bcast, on the stream."""
        _call("Bcast_enqueue", *message(buf, root != self.rank), root, self)

    def Allreduce_enqueue(self, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> None:
        """As Allreduce, on the stream. sendbuf: also MPI.IN_PLACE."""
        sent, received = reduction(sendbuf, recvbuf)
        _call("Allreduce_enqueue_c", sent, *received, op, self)

    def Alltoallv_enqueue(self, sendbuf: Any, recvbuf: Any) -> None:
        """As Alltoallv, on the stream. sendbuf: also MPI.IN_PLACE."""
        received = blocks(recvbuf, True, self.size)
        in_place = sendbuf is MPI.IN_PLACE
        sent = received._replace(address=int(MPI.IN_PLACE)) if in_place else blocks(sendbuf, False, self.size)
        _call("Alltoallv_enqueue", *sent, *received, self)

    def Neighbor_alltoallv_enqueue(self, sendbuf: Any, recvbuf: Any) -> None:
        """The same with the neighbours, if the StreamComm was made of a communicator with a topology."""
        sources, destinations = _TOPOLOGIES.get(self.Get_topology(), MPI.Topocomm)(self).degrees
        _call("Neighbor_alltoallv_enqueue", *blocks(sendbuf, False, destinations), *blocks(recvbuf, True, sources), self)

    def Free(self) -> None:
        """Waits until the communicator's operations have ended, and frees it."""
        super().Free()
        _call("Stream_free", ctypes.addressof(self._stream[0]))


class StreamWin(MPI.Win):
    """A window whose *_enqueue methods work on the stream of the StreamComm that it was created with.

        win = StreamWin(MPI.Win.Create(memory, comm=comm))
        win.Lock_all()
        win.Put_enqueue(halo, right)
        win.Flush_enqueue(right)                       # the stream waits until the bytes are there

    It is the window that it is made of. Lock() or Lock_all() comes first; a buffer belongs to the operation until the
    stream has passed a flush. A target is a displacement, or (displacement, count, datatype), by default 0 and those of
    the buffer. Errors of operations are raised by the next call on the window or the communicator.
    """

    def __new__(cls, win: MPI.Win) -> StreamWin:
        self = super().__new__(cls, win)
        self.Set_errhandler(MPI.ERRORS_RETURN)
        return self

    def _access(self, name: str, origin: Message, rank: int, target: Any, *op: MPI.Op) -> None:
        _call(name, *origin, rank, *target_of(target, origin), *op, self)

    def Put_enqueue(self, origin: Any, target_rank: int, target: Any = 0) -> None:
        """The stream goes on; Flush_enqueue() makes it wait."""
        self._access("Put_enqueue", message(origin, False, target_rank), target_rank, target)

    def Get_enqueue(self, origin: Any, target_rank: int, target: Any = 0) -> None:
        """The bytes are there when the stream has passed a flush."""
        self._access("Get_enqueue", message(origin, True, target_rank), target_rank, target)

    def Accumulate_enqueue(self, origin: Any, target_rank: int, target: Any = 0, op: MPI.Op = MPI.SUM) -> None:
        """As Accumulate, on the stream."""
        self._access("Accumulate_enqueue", operand(origin, False, target_rank), target_rank, target, op)

    def Flush_enqueue(self, rank: int) -> None:
        """The stream waits until all operations enqueued before to this rank are complete at the target."""
        _call("Win_flush_enqueue", rank, self)

    def Flush_all_enqueue(self) -> None:
        """The same for all ranks."""
        _call("Win_flush_all_enqueue", self)


def _status_ignore() -> int:
    """MPI_STATUS_IGNORE: null with Open MPI and the standard ABI, 1 with MPICH."""
    return 1 if info().abi == "mpich" else 0
