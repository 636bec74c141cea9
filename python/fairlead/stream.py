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
communicator is one of mpi4py, with all its other methods. Buffers are those that mpi4py takes; they belong to the
operation until the stream has passed it. MPI must have been initialised with MPI.THREAD_MULTIPLE, mpi4py's default.
Use each kernel once before it comes behind an enqueued operation: CuPy loads it at its first use, which waits for all
streams. Errors of operations are raised by the next call on the communicator (MPI.Exception). The functions are those of
include/fairlead/stream.h; docs/streams.md explains them.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from typing import Any

from mpi4py import MPI

from ._native import NotLoadedError

_Memory: Any = getattr(MPI, "buffer", None) or MPI.memory  # mpi4py 4, 3
_TYPES = {"cuda": "cudaStream_t", "sim": "cudaStream_t", "rocm": "hipStream_t"}


def _function(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL(None), name)
    except AttributeError:
        raise NotLoadedError from None


def _handle(thing: Any) -> Any:
    """The MPI handle of an object of mpi4py, as C functions take it by value."""
    size = MPI._sizeof(thing)
    kind: Any = ctypes.c_void_p if size == ctypes.sizeof(ctypes.c_void_p) else ctypes.c_int
    return kind.from_address(MPI._addressof(thing))


def _check(code: int) -> None:
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


def _buffer(array: Any) -> tuple[Any, int, MPI.Datatype]:
    """Address, count and datatype of an array, or of a list as mpi4py takes it: [array, count, datatype]."""
    count = datatype = None
    if isinstance(array, (list, tuple)):
        array, *given = array
        for one in given:
            if isinstance(one, MPI.Datatype):
                datatype = one
            else:
                count = int(one)
    if hasattr(array, "__cuda_array_interface__"):
        interface = array.__cuda_array_interface__
        _check_contiguous(interface)
        address = interface["data"][0] or 0
        size = math.prod(interface["shape"], start=int(interface["typestr"][2:]))
    else:
        memory = _Memory.frombuffer(array)
        address, size = memory.address, memory.nbytes
    if datatype is None:
        datatype = MPI.BYTE
    if count is None:
        count = size // max(datatype.Get_size(), 1)
    return ctypes.c_void_p(address), count, datatype


def _blocks(array: Any) -> tuple[Any, Any, Any, MPI.Datatype]:
    """Address, counts, displacements and datatype of [array, counts, displacements, datatype], as mpi4py takes it."""
    if not isinstance(array, (list, tuple)) or len(array) != 4:
        raise ValueError(f"{array!r} is not [array, counts, displacements, datatype]")
    array, counts, displacements, datatype = array
    address, _, _ = _buffer([array, datatype])
    return address, (ctypes.c_int * len(counts))(*counts), (ctypes.c_int * len(displacements))(*displacements), datatype


def _check_contiguous(interface: dict[str, Any]) -> None:
    if not (strides := interface.get("strides")):
        return
    expected = int(interface["typestr"][2:])
    for extent, stride in zip(reversed(interface["shape"]), reversed(strides), strict=True):
        if extent > 1 and stride != expected:
            raise BufferError("the array is not contiguous; send a copy, or describe its layout by a datatype: "
                              "[base array, count, datatype]")
        expected *= extent


def _typed(array: Any) -> tuple[Any, int, MPI.Datatype]:
    """The same with the datatype of the elements, for reductions."""
    if isinstance(array, (list, tuple)):
        return _buffer(array)
    interface = getattr(array, "__cuda_array_interface__", None) or array.__array_interface__
    return _buffer([array, MPI._typedict[interface["typestr"][1:]]])


class Request:
    """What Isend_enqueue() and Irecv_enqueue() return, for Wait_enqueue()."""

    def __init__(self, handle: Any, buffer: Any) -> None:
        self._handle = handle
        self._buffer = buffer  # is kept


class StreamComm(MPI.Intracomm):
    """A duplicate of a communicator whose *_enqueue methods work on a GPU stream. Collective; Free() frees it."""

    _stream: Any

    def __new__(cls, comm: MPI.Intracomm, stream: Any) -> StreamComm:
        from . import info

        made = MPI.Info.Create()
        value = ctypes.c_void_p(native(stream))
        made.Set("type", _TYPES.get(info().provider, "cudaStream_t"))
        _check(_function("MPIX_Info_set_hex")(_handle(made), b"value", ctypes.byref(value), ctypes.sizeof(value)))
        handle = ctypes.c_int()
        _check(_function("MPIX_Stream_create")(_handle(made), ctypes.byref(handle)))
        made.Free()
        created = MPI.Intracomm()
        _check(_function("MPIX_Stream_comm_create")(_handle(comm), handle,
                                                    ctypes.c_void_p(MPI._addressof(created))))
        self = super().__new__(cls, created)
        self._stream = (handle, stream)
        self.Set_errhandler(MPI.ERRORS_RETURN)
        return self

    def _call(self, name: str, *arguments: Any) -> None:
        _check(_function(f"MPIX_{name}_enqueue")(*arguments, _handle(self)))

    def Send_enqueue(self, buf: Any, dest: int, tag: int = 0) -> None:
        """The stream waits until the buffer may be used again."""
        address, count, datatype = _buffer(buf)
        self._call("Send", address, count, _handle(datatype), dest, tag)

    def Recv_enqueue(self, buf: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG) -> None:
        """The stream waits until the message is there."""
        address, count, datatype = _buffer(buf)
        status = ctypes.c_void_p(_status_ignore())
        _check(_function("MPIX_Recv_enqueue")(address, count, _handle(datatype), source, tag, _handle(self), status))

    def Isend_enqueue(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """The stream does not wait before Wait_enqueue()."""
        return self._start("Isend", buf, dest, tag)

    def Irecv_enqueue(self, buf: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG) -> Request:
        """The stream does not wait before Wait_enqueue()."""
        return self._start("Irecv", buf, source, tag)

    def _start(self, name: str, buf: Any, peer: int, tag: int) -> Request:
        address, count, datatype = _buffer(buf)
        request = MPI.Request()
        _check(_function(f"MPIX_{name}_enqueue")(address, count, _handle(datatype), peer, tag, _handle(self),
                                                 ctypes.c_void_p(MPI._addressof(request))))
        return Request(request, buf)

    def Wait_enqueue(self, request: Request) -> None:
        """The stream waits for the operation."""
        _check(_function("MPIX_Wait_enqueue")(ctypes.c_void_p(MPI._addressof(request._handle)),
                                              ctypes.c_void_p(_status_ignore())))

    def Waitall_enqueue(self, requests: Iterable[Request]) -> None:
        """The stream waits for all of them."""
        for request in requests:
            self.Wait_enqueue(request)

    def Barrier_enqueue(self) -> None:
        """The stream waits for the streams of all ranks."""
        self._call("Barrier")

    def Bcast_enqueue(self, buf: Any, root: int = 0) -> None:
        """As Bcast, on the stream."""
        address, count, datatype = _buffer(buf)
        self._call("Bcast", address, count, _handle(datatype), root)

    def Allreduce_enqueue(self, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> None:
        """As Allreduce, on the stream."""
        from_address, _, _ = _typed(sendbuf)
        address, count, datatype = _typed(recvbuf)
        self._call("Allreduce", from_address, address, count, _handle(datatype), _handle(op))

    def Alltoallv_enqueue(self, sendbuf: Any, recvbuf: Any) -> None:
        """As Alltoallv, on the stream. Both buffers: [array, counts, displacements, datatype], a number for each rank."""
        self._exchange("Alltoallv", sendbuf, recvbuf)

    def Neighbor_alltoallv_enqueue(self, sendbuf: Any, recvbuf: Any) -> None:
        """The same with the neighbours, if the StreamComm was made of a communicator with a topology."""
        self._exchange("Neighbor_alltoallv", sendbuf, recvbuf)

    def _exchange(self, name: str, sendbuf: Any, recvbuf: Any) -> None:
        arguments: list[Any] = []
        for address, counts, displacements, datatype in (_blocks(sendbuf), _blocks(recvbuf)):
            arguments += [address, counts, displacements, _handle(datatype)]
        self._call(name, *arguments)

    def Free(self) -> None:
        """Waits until the communicator's operations have ended, and frees it."""
        super().Free()
        _check(_function("MPIX_Stream_free")(ctypes.byref(self._stream[0])))


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

    def _access(self, name: str, buffer: tuple[Any, int, MPI.Datatype], rank: int, target: Any, *op: Any) -> None:
        address, count, datatype = buffer
        displacement, *given = target if isinstance(target, (list, tuple)) else (target,)
        target_count, target_type = given or (count, datatype)
        _check(_function(f"MPIX_{name}_enqueue")(address, count, _handle(datatype), rank,
                                                 ctypes.c_ssize_t(displacement), target_count, _handle(target_type),
                                                 *op, _handle(self)))

    def Put_enqueue(self, origin: Any, target_rank: int, target: Any = 0) -> None:
        """The stream goes on; Flush_enqueue() makes it wait."""
        self._access("Put", _buffer(origin), target_rank, target)

    def Get_enqueue(self, origin: Any, target_rank: int, target: Any = 0) -> None:
        """The bytes are there when the stream has passed a flush."""
        self._access("Get", _buffer(origin), target_rank, target)

    def Accumulate_enqueue(self, origin: Any, target_rank: int, target: Any = 0, op: MPI.Op = MPI.SUM) -> None:
        """As Accumulate, on the stream."""
        self._access("Accumulate", _typed(origin), target_rank, target, _handle(op))

    def Flush_enqueue(self, rank: int) -> None:
        """The stream waits until all operations enqueued before to this rank are complete at the target."""
        _check(_function("MPIX_Win_flush_enqueue")(rank, _handle(self)))

    def Flush_all_enqueue(self) -> None:
        """The same for all ranks."""
        _check(_function("MPIX_Win_flush_all_enqueue")(_handle(self)))


def _status_ignore() -> int:
    """MPI_STATUS_IGNORE: null with Open MPI and the standard ABI, 1 with MPICH."""
    from . import info

    return 1 if info().abi == "mpich" else 0
