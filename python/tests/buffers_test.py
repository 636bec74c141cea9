#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fairlead.stream takes for a message what mpi4py takes, moves the same bytes, and refuses the rest by the same class of
error. Two ranks:

    FAIRLEAD_DEVICE=sim python -m fairlead run -n 2 python/tests/buffers_test.py

mpi4py itself is the oracle: each row of the tables is passed to its method and to that of the stream.
"""

import array
import re
import sys
from pathlib import Path
from unittest import mock

import numpy as np
from fairlead import arrays, stream
from fairlead.stream import StreamComm, StreamWin
from mpi4py import MPI, __version__
from stream_test import Stream

OLD = int(__version__.split(".")[0]) < 4
HEADER = Path(__file__).resolve().parents[2] / "include/fairlead/stream.h"
FILL, ROOM = 0xEE, 512
FAILURES = []


class Cuda:
    """An array in device memory whose interface says something else."""

    def __init__(self, host, **told):
        self.memory = arrays.from_numpy(host)
        self.told = told

    @property
    def __cuda_array_interface__(self):
        return {**self.memory.__cuda_array_interface__, **self.told}


class Dlpack:
    """An array that has DLPack and nothing else."""

    def __init__(self, host):
        self.host = host

    def __dlpack__(self, **options):
        return self.host.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.host.__dlpack_device__()


def doubles():
    return np.arange(6.0)


def read_only(host):
    host.flags.writeable = False
    return host


def foreign(host):
    return host.astype(host.dtype.newbyteorder(">"))


def device(host):
    return arrays.from_numpy(host)


def read_only_cuda():
    cuda = Cuda(doubles())
    cuda.told["data"] = (cuda.memory.address, True)
    return cuda


TAKEN, REFUSED, STRICTER, EITHER = "taken", "refused", "refused, and taken by mpi4py 3", "either"

# What a message is made of. It is made anew for each call.
MESSAGES = {
    "array": (TAKEN, doubles),
    "type": (TAKEN, lambda: [doubles(), "d"]),
    "count": (TAKEN, lambda: [doubles(), 3]),
    "count, type": (TAKEN, lambda: [doubles(), 3, "d"]),
    "(count, displacement)": (TAKEN, lambda: [doubles(), (2, 1)]),
    "(count, displacement), code": (TAKEN, lambda: (doubles(), [2, 1], "d")),
    "(count, displacement), type": (TAKEN, lambda: [doubles(), (2, 1), MPI.DOUBLE]),
    "(None, displacement), type": (TAKEN, lambda: [doubles(), (None, 1), MPI.DOUBLE]),
    "count, displacement, type": (TAKEN, lambda: [doubles(), 2, 1, "d"]),
    "displacement of bytes": (TAKEN, lambda: [doubles(), (3, 5), MPI.BYTE]),
    "numbers of NumPy": (TAKEN, lambda: [doubles(), (np.int64(2), np.uint8(1)), MPI.DOUBLE]),
    "nothing": (TAKEN, lambda: [None, 0, "d"]),
    "bottom": (TAKEN, lambda: [MPI.BOTTOM, 0, MPI.INT]),
    "no elements": (TAKEN, lambda: np.zeros((3, 0))),
    "no axes": (TAKEN, lambda: np.array(2.5)),
    "two axes": (TAKEN, lambda: np.arange(6).reshape(2, 3)),
    "Fortran order": (TAKEN, lambda: np.asfortranarray(np.arange(6).reshape(2, 3))),
    "bytearray": (TAKEN, lambda: bytearray(range(9))),
    "array.array": (TAKEN, lambda: array.array("i", range(9))),
    "memory of mpi4py": (TAKEN, lambda: stream.message.__globals__["_Memory"].frombuffer(doubles())),
    "count of bytes": (TAKEN, lambda: [bytearray(range(9)), 2, "i"]),
    **{f"elements {code}": (TAKEN, lambda code=code: np.arange(1, 5).astype(code)) for code in "?bBhHiIlLqQfdFD"},
    "elements e": (EITHER, lambda: np.arange(4).astype("e")),
    "elements e as others": (TAKEN, lambda: [np.arange(4).astype("e"), "H"]),
    "dates": (REFUSED, lambda: np.arange(4).astype("M8[s]")),
    "dates as numbers": (TAKEN, lambda: [np.arange(4).astype("M8[s]"), MPI.INT64_T]),
    "texts": (REFUSED, lambda: np.array(["one", "two"])),
    "texts as bytes": (TAKEN, lambda: [np.array(["one", "two"]), MPI.BYTE]),
    "records": (REFUSED, lambda: np.zeros(3, [("a", "i4"), ("b", "f8")])),
    "other byte order": (REFUSED, lambda: foreign(doubles())),
    "other byte order as bytes": (TAKEN, lambda: [foreign(doubles()), MPI.BYTE]),
    "with gaps": (REFUSED, lambda: doubles()[::2]),
    "device": (TAKEN, lambda: device(doubles())),
    "device, (count, displacement)": (TAKEN, lambda: [device(doubles()), (2, 1), "d"]),
    "device, no elements": (TAKEN, lambda: device(np.zeros(0))),
    "device, texts": (TAKEN, lambda: device(np.array(["one", "three"]))),
    "device, dates": (TAKEN, lambda: device(np.arange(4).astype("M8[s]"))),
    "device, records": (TAKEN, lambda: device(np.zeros(3, [("a", "i4"), ("b", "f8")]))),
    "device, other byte order": (STRICTER, lambda: Cuda(foreign(doubles()))),
    "device, other byte order as bytes": (TAKEN, lambda: [Cuda(foreign(doubles())), MPI.BYTE]),
    "device, mask": (REFUSED, lambda: Cuda(doubles(), mask=doubles())),
    "device, gaps": (REFUSED, lambda: Cuda(doubles(), shape=(3,), strides=(16,))),
    "device, Fortran order": (TAKEN, lambda: Cuda(doubles(), shape=(2, 3), strides=(8, 16))),
    "device, bfloat16": (TAKEN, lambda: Cuda(np.arange(4, dtype="u2"), typestr="<V2")),
    **{f"DLPack {code}": (TAKEN, lambda code=code: Dlpack(np.arange(1, 5).astype(code))) for code in "bBhlfdF"},
    "DLPack, displacement": (TAKEN, lambda: [Dlpack(doubles()), (2, 3), "d"]),
    "DLPack, gaps": (REFUSED, lambda: Dlpack(doubles()[::2])),
    "count as floating number": (STRICTER, lambda: [doubles(), 3.0, "d"]),
    "displacement as floating number": (STRICTER, lambda: [doubles(), (2, 1.0), "d"]),
    "count below 0": (REFUSED, lambda: [doubles(), -1]),
    "displacement below 0": (REFUSED, lambda: [doubles(), (1, -1)]),
    "displacement outside": (REFUSED, lambda: [doubles(), (1, 7)]),
    "displacement at the end": (TAKEN, lambda: [doubles(), (0, 6)]),
    "one item": (REFUSED, lambda: [doubles()]),
    "five items": (REFUSED, lambda: [doubles(), 1, 0, "d", 0]),
    "unknown code": (REFUSED, lambda: [doubles(), "zz"]),
    "null datatype": (REFUSED, lambda: [doubles(), MPI.DATATYPE_NULL]),
    "half an element": (REFUSED, lambda: [bytearray(9), "d"]),
    "a count of nothing": (REFUSED, lambda: [None, 1, "d"]),
    "a number": (REFUSED, lambda: 3),
    "a number as array": (REFUSED, lambda: [3, 1, "d"]),
    "None": (REFUSED, lambda: None),
}
READ_ONLY = {
    "bytes": lambda: bytes(range(9)),
    "read-only array": lambda: read_only(doubles()),
    "read-only in the device": read_only_cuda,
}
REDUCTIONS = {
    "arrays": (TAKEN, lambda: (doubles(), np.zeros(6))),
    "device": (TAKEN, lambda: (device(doubles()), device(np.zeros(6)))),
    "host and device": (TAKEN, lambda: (doubles(), device(np.zeros(6)))),
    "in place": (TAKEN, lambda: (MPI.IN_PLACE, doubles())),
    "in place, device": (TAKEN, lambda: (MPI.IN_PLACE, device(doubles()))),
    "part": (TAKEN, lambda: ([doubles(), (2, 1), "d"], [np.zeros(6), 2, "d"])),
    "fewer are sent": (REFUSED, lambda: (np.zeros(3), np.zeros(6))),
    "more are sent": (REFUSED, lambda: (np.zeros(6), np.zeros(3))),
    "other type": (REFUSED, lambda: (np.zeros(6, "i"), np.zeros(6))),
    "other byte order": (REFUSED, lambda: (foreign(doubles()), foreign(doubles()))),
    "other byte order, device": (STRICTER, lambda: (Cuda(foreign(doubles())), Cuda(foreign(doubles())))),
    "into read-only": (REFUSED, lambda: (doubles(), read_only(doubles()))),
    "of read-only": (TAKEN, lambda: (read_only(doubles()), np.zeros(6))),
}
BLOCKS = {  # of two ranks, and how many doubles each is sent
    "array": (TAKEN, doubles, (3, 3)),
    "uneven": (TAKEN, lambda: np.arange(5.0), (3, 2)),
    "type": (TAKEN, lambda: [doubles(), "d"], (3, 3)),
    "count": (TAKEN, lambda: [doubles(), 2], (2, 2)),
    "counts": (TAKEN, lambda: [doubles(), [2, 1]], (2, 1)),
    "counts of NumPy": (TAKEN, lambda: [doubles(), np.array([2, 1]), MPI.DOUBLE], (2, 1)),
    "(counts, displacements)": (TAKEN, lambda: [doubles(), ([2, 1], [3, 0])], (2, 1)),
    "(counts, stride), type": (TAKEN, lambda: [doubles(), ([2, 2], 3), "d"], (2, 2)),
    "counts, displacements, type": (TAKEN, lambda: [doubles(), [2, 1], [3, 0], "d"], (2, 1)),
    "counts, no displacements": (TAKEN, lambda: [doubles(), [2, 1], None, "d"], (2, 1)),
    "device": (TAKEN, lambda: [device(doubles()), [2, 1], [3, 0], "d"], (2, 1)),
    "in place": (TAKEN, lambda: MPI.IN_PLACE, (2, 2)),
    "too few counts": (REFUSED, lambda: [doubles(), [2], [0], "d"], (0, 0)),
    "too many counts": (REFUSED, lambda: [doubles(), [2, 1, 1], [0, 2, 3], "d"], (0, 0)),
    "floating numbers": (STRICTER, lambda: [doubles(), [2.0, 1.0], [3, 0], "d"], (2, 1)),
    "a floating number": (REFUSED, lambda: [doubles(), 2.0, "d"], (0, 0)),
    "a number": (REFUSED, lambda: 3, (0, 0)),
}
TARGETS = {
    "default": (TAKEN, None), "displacement": (TAKEN, 2), "of NumPy": (TAKEN, np.int32(2)), "list": (TAKEN, [2]),
    "count": (TAKEN, [1, 4]), "type": (TAKEN, (1, 4, MPI.DOUBLE)), "code": (TAKEN, [1, 4, "d"]),
    "bytes": (TAKEN, [0, 32, "B"]), "four items": (REFUSED, [1, 4, "d", 0]), "floating": (REFUSED, 0.5),
    "floating in a list": (STRICTER, [0.5]), "text": (REFUSED, "2"), "unknown code": (REFUSED, [1, 4, "zz"]),
}


def contents(message):
    """The bytes of the array in a message."""
    whole = message[0] if isinstance(message, (list, tuple)) else message
    whole = getattr(whole, "memory", getattr(whole, "host", whole))
    if hasattr(whole, "to_numpy"):
        whole = whole.to_numpy()
    if whole is None or isinstance(whole, int):
        return b""
    return whole.tobytes("A") if isinstance(whole, np.ndarray) else bytes(whole)


class Plain:
    """Messages to itself by mpi4py."""

    isend, irecv = MPI.COMM_SELF.Isend, MPI.COMM_SELF.Irecv
    wait = staticmethod(MPI.Request.Waitall)


class Enqueued:
    """The same on a stream."""

    def __init__(self):
        self.stream = Stream()
        self.comm = StreamComm(MPI.COMM_SELF, self.stream)
        self.isend, self.irecv = self.comm.Isend_enqueue, self.comm.Irecv_enqueue

    def wait(self, requests):
        self.comm.Waitall_enqueue(requests)
        self.stream.synchronize()


def sent(ways, message):
    got = np.full(ROOM, FILL, "B")
    ways.wait([ways.isend(message, 0, 1), ways.irecv(got, 0, 1)])
    return got.tobytes()


def received(ways, message, count):
    requests = [ways.irecv(message, 0, 1)]
    ways.wait([*requests, ways.isend(np.full(count, 0x77, "B"), 0, 1)])
    return contents(message)


def outcome(function, *arguments):
    """What a call returns, or its class of error."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error)


def shown(result):
    return result.__name__ if isinstance(result, type) else result.rstrip(bytes([FILL])).hex(" ", -8)


def compare(what, expected, ours, of_mpi4py):
    """mpi4py 3 takes less, and refuses some of it by other classes of error."""
    refused, by_mpi4py = (isinstance(result, type) for result in (ours, of_mpi4py))
    same = ours == of_mpi4py or (OLD and (by_mpi4py or expected == STRICTER))
    if not same or (expected != EITHER and refused == (expected == TAKEN)):
        FAILURES.append(f"{what}: to be {expected}; stream: {shown(ours)}, mpi4py: {shown(of_mpi4py)}")


def try_messages(plain, enqueued):
    for name, (expected, make) in MESSAGES.items():
        arrived = outcome(sent, plain, make())
        compare(f"send {name}", expected, outcome(sent, enqueued, make()), arrived)
        count = 0 if isinstance(arrived, type) else len(arrived.rstrip(bytes([FILL])))
        compare(f"receive {name}", expected, outcome(received, enqueued, make(), count),
                outcome(received, plain, make(), count))
    for name, make in READ_ONLY.items():
        compare(f"send {name}", TAKEN, outcome(sent, enqueued, make()), outcome(sent, plain, make()))
        compare(f"receive {name}", REFUSED, outcome(received, enqueued, make(), 1), outcome(received, plain, make(), 1))


def try_reductions(enqueued):
    def reduced(allreduce, pair):
        allreduce(*pair)
        enqueued.stream.synchronize()
        return contents(pair[1])

    for name, (expected, make) in REDUCTIONS.items():
        compare(f"Allreduce {name}", expected, outcome(reduced, enqueued.comm.Allreduce_enqueue, make()),
                outcome(reduced, MPI.COMM_SELF.Allreduce, make()))
    bfloats = Cuda(np.ones(4, "u2"), typestr="<V2")  # mpi4py passes bytes, which MPI may add
    if (got := outcome(enqueued.comm.Allreduce_enqueue, MPI.IN_PLACE, bfloats)) is not KeyError:
        FAILURES.append(f"Allreduce of numbers without a datatype: {got}")


def try_blocks(enqueued):
    """Both ranks send the same, so that both take or refuse it."""
    comm = StreamComm(MPI.COMM_WORLD, enqueued.stream)

    def exchanged(alltoallv, message, counts):
        got = np.arange(ROOM / 8)
        alltoallv(message, [got, [counts[comm.rank]] * 2, [0, 10], MPI.DOUBLE])
        enqueued.stream.synchronize()
        return got.tobytes()

    def received(alltoallv, message, counts):
        alltoallv([np.arange(8.0) + 10 * comm.rank, [counts[comm.rank]] * 2, [0, 4], MPI.DOUBLE], message)
        enqueued.stream.synchronize()
        return contents(message)

    for name, (expected, make, counts) in BLOCKS.items():
        for function in (exchanged, received) if name != "in place" else (exchanged,):
            compare(f"Alltoallv {name}, {function.__name__}", expected,
                    outcome(function, comm.Alltoallv_enqueue, make(), counts),
                    outcome(function, MPI.COMM_WORLD.Alltoallv, make(), counts))
    comm.Free()


def try_targets(enqueued):
    memory = device(np.zeros(8))
    win = StreamWin(MPI.Win.Create(memory, 8, comm=enqueued.comm))
    win.Lock_all()

    def put(function, target):
        memory.copy_from(np.zeros(8))
        function([np.arange(1.0, 5.0), MPI.DOUBLE], 0, target)
        win.Flush_all_enqueue()
        enqueued.stream.synchronize()
        win.Flush_all()
        return memory.to_numpy().tobytes()

    for name, (expected, target) in TARGETS.items():
        compare(f"Put {name}", expected, outcome(put, win.Put_enqueue, target), outcome(put, win.Put, target))
    win.Unlock_all()
    win.Free()


def kinds_in_header():
    """What each function of the header takes, in the letters of fairlead.stream."""
    kinds = {"int": "i", "MPIX_Stream": "i", "MPI_Count": "n", "MPI_Aint": "a", "MPI_Datatype": "h", "MPI_Op": "h",
             "MPI_Comm": "h", "MPI_Win": "h", "MPI_Info": "h"}
    for name, parameters in re.findall(r"FAIRLEAD_STREAM_FUNCTION\(MPIX_(\w+),\s+\(([^)]*)\)", HEADER.read_text()):
        words = [parameter.replace("const ", "").strip() for parameter in parameters.split(",")]
        yield name, "".join("I" if word.startswith("int") and word.endswith("[]") else "p" if "*" in word
                            else kinds.get(word.split()[0], "?") for word in words)


def try_numbers():
    """What the library is called with, in numbers that have no place in 32 bits."""
    for name, kinds in kinds_in_header():
        if name in stream._ARGUMENTS and re.sub("[os]", "p", stream._ARGUMENTS[name]) != kinds:
            FAILURES.append(f"{name} takes {kinds}, and is called with {stream._ARGUMENTS[name]}")
    calls = []
    program = mock.MagicMock()
    for name in stream._ARGUMENTS:
        getattr(program, f"MPIX_{name}").side_effect = lambda *arguments: calls.append(arguments) or 0
    much, address = 1 << 32, 1 << 20
    memory = stream.message.__globals__["_Memory"].fromaddress(address, much + 16)
    comm, win = MPI.Intracomm.__new__(StreamComm, MPI.COMM_SELF), MPI.Win.__new__(StreamWin, MPI.WIN_NULL)

    def called(method, *arguments):
        calls.clear()
        method(*arguments)
        return {argument.value for argument in calls[0] if hasattr(argument, "value")}

    with mock.patch.object(stream, "_PROGRAM", program):
        for what, got, wanted in [
            ("Isend", outcome(called, comm.Isend_enqueue, [memory, MPI.BYTE], 0), [address, much + 16]),
            ("Irecv", outcome(called, comm.Irecv_enqueue, [memory, (16, much), MPI.BYTE], 0), [address + much, 16]),
            ("Allreduce", outcome(called, comm.Allreduce_enqueue, MPI.IN_PLACE, memory), [address, much + 16]),
            ("Bcast", outcome(called, comm.Bcast_enqueue, [memory, MPI.BYTE]), OverflowError),
            ("Bcast of half", outcome(called, comm.Bcast_enqueue, [memory, much // 8, MPI.BYTE]), [address, much // 8]),
            ("Alltoallv", outcome(called, comm.Alltoallv_enqueue, [memory, [1], [much], MPI.BYTE], memory), OverflowError),
            ("Put", outcome(called, win.Put_enqueue, [memory, MPI.BYTE], 0), OverflowError),
            ("rank", outcome(called, comm.Isend_enqueue, doubles(), much), OverflowError),
            ("rank of NumPy", outcome(called, comm.Isend_enqueue, [memory, 1, MPI.BYTE], np.int64(1)), [address, 1]),
            ("tag", outcome(called, comm.Irecv_enqueue, doubles(), 0, 1.5), TypeError),
        ]:
            if not (got is wanted if isinstance(wanted, type) else set(wanted) <= got):
                FAILURES.append(f"{what} is called with {got} in place of {wanted}")


def main():
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        print("MPI does not give MPI_THREAD_MULTIPLE")
        return 77
    plain, enqueued = Plain(), Enqueued()
    try_numbers()
    try_messages(plain, enqueued)
    try_reductions(enqueued)
    try_targets(enqueued)
    try_blocks(enqueued)
    for failure in FAILURES:
        print(f"rank {MPI.COMM_WORLD.rank}: {failure}", file=sys.stderr)
    return bool(FAILURES)


if __name__ == "__main__":
    sys.exit(main())
