# SPDX-License-Identifier: Apache-2.0
"""The stages of a comparison: what each measures, and its goals. A call runs one stage."""

from __future__ import annotations

import math
from dataclasses import dataclass

from comparison.goals import AT_LEAST, AT_MOST, Goal
from comparison.measurements import EACH_GPU, GIB, KIB, MIB, Measurement

EVERY_SIZE = (1, 1 << 40)


@dataclass(frozen=True)
class Stage:
    name: str
    measurements: tuple[Measurement, ...]
    goals: tuple[Goal, ...]
    option: str = ""  # that chooses it
    about: str = ""  # what the option measures
    note: str = ""  # how to read its tables
    peers_may_fail: bool = False  # MPIs that are GPU-aware seldom are so here: that they crash is a result

    @property
    def roles(self):
        return {role for measurement in self.measurements for role in measurement.roles}


SENDERS, MPIS = ("fairlead", "peer", "nccl"), ("fairlead", "peer")
WINDOW = ("-W", "64")
POINT_TO_POINT = Stage("point to point", (
    Measurement("copy", "raw copies", ("copy",), (1, 128 * MIB), (8, KIB, 64 * KIB, MIB, 64 * MIB), ("raw",), ()),
    Measurement("latency", "latency", ("latency",), (1, 4 * MIB), (8, KIB, 64 * KIB, MIB), SENDERS),
    Measurement("bw", "bandwidth", ("bw", *WINDOW), (8, 128 * MIB), (8, KIB, 64 * KIB, MIB, 64 * MIB), SENDERS),
    Measurement("bibw", "bandwidth both ways", ("bibw", *WINDOW), (8, 128 * MIB), (MIB, 64 * MIB), SENDERS),
    Measurement("fresh", "latency from new buffers", ("latency", "--fresh"), (MIB, MIB), (MIB,), MPIS),
    Measurement("staged", "bandwidth through host memory", ("bw", *WINDOW), (64 * MIB, 64 * MIB), (64 * MIB,),
                variables={"FAIRLEAD_IPC": "off"}),
    Measurement("nodes", "bandwidth between simulated nodes", ("bw", *WINDOW), (64 * MIB, 64 * MIB), (64 * MIB,),
                variables={"FAIRLEAD_NODES": "2"}, option="FAIRLEAD_NODES"),
    Measurement("nodes_host", "host bandwidth between simulated nodes", ("bw", *WINDOW), (64 * MIB, 64 * MIB),
                (64 * MIB,), placement=("H", "H"), variables={"FAIRLEAD_NODES": "2"}, option="FAIRLEAD_NODES"),
    Measurement("host_overhead", "cost for host messages", ("host_overhead",), placement=()),
    Measurement("pairs", "pairs of ranks", ("pairs",), roles=MPIS, placement=(), ranks=EACH_GPU),
), (
    #    measurement      quantity          sizes                 best      limit against
    Goal("latency",       "latency_us",     (8, 2 * KIB),         AT_MOST,  0.45, "peer", "latency 8 B to 2 K"),
    Goal("latency",       "latency_us",     (8, 2 * KIB),         AT_MOST,  1.5,  "raw",  "latency 8 B to 2 K"),
    Goal("latency",       "latency_us",     (4 * KIB, 4 * MIB),   AT_MOST,  0.85, "peer", "latency 4 K to 4 M"),
    Goal("latency",       "latency_us",     (4 * KIB, 4 * MIB),   AT_MOST,  1.15, "raw",  "latency 4 K to 4 M"),
    Goal("bw",            "bandwidth_mb_s", (64 * KIB, 4 * MIB),  AT_LEAST, 1.5,  "peer", "bandwidth 64 K to 4 M"),
    Goal("bw",            "bandwidth_mb_s", (64 * MIB, GIB),      AT_LEAST, 0.98, "raw",  "bandwidth from 64 M"),
    Goal("bw",            "bandwidth_mb_s", (64 * MIB, GIB),      AT_LEAST, 1.0,  "peer", "bandwidth from 64 M"),
    Goal("bibw",          "bandwidth_mb_s", (64 * MIB, GIB),      AT_LEAST, 0.98, "raw",  "both ways from 64 M"),
    Goal("bibw",          "bandwidth_mb_s", (64 * MIB, GIB),      AT_LEAST, 1.0,  "peer", "both ways from 64 M"),
    Goal("bw",            "rate",           (8, KIB),             AT_LEAST, 3.0,  "peer", "message rate 8 B to 1 K"),
    Goal("staged",        "bandwidth_mb_s", (64 * MIB, 64 * MIB), AT_LEAST, 0.9,  "pcie", "staged, 64 M"),
    Goal("nodes",         "bandwidth_mb_s", (64 * MIB, 64 * MIB), AT_LEAST, 0.95, "host", "simulated nodes, 64 M"),
    Goal("fresh",         "latency_us",     (MIB, MIB),           AT_MOST,  2.0,  "used", "new buffers, 1 M"),
    Goal("host_overhead", "added_ns",       (0, 0),               AT_MOST,  20.0, "",     "added to a host message"),
    Goal("pairs",         "bandwidth_mb_s", (MIB, GIB),           AT_LEAST, 1.0,  "peer", "pairs, from 1 M"),
))


def collective(name, blocks=False):
    return Measurement(name, name, (name, "-M", "64g"), (8, 128 * MIB), (8, KIB, 64 * KIB, MIB, 16 * MIB), SENDERS,
                       ranks=EACH_GPU, blocks=blocks)


COLLECTIVE_CALLS = (collective("allreduce"), collective("allgather", True), collective("alltoall", True),
                    collective("bcast"), collective("reduce_scatter"))
COLLECTIVES = Stage("collectives", COLLECTIVE_CALLS, (
    Goal("allreduce", "latency_us", (8, 256 * KIB),    AT_MOST, 0.55, "nccl", "allreduce 8 B to 256 K"),
    Goal("allreduce", "latency_us", (MIB, 8 * MIB),    AT_MOST, 0.8,  "nccl", "allreduce 1 M to 8 M"),
    Goal("allreduce", "latency_us", (16 * MIB, GIB),   AT_MOST, 1.0,  "nccl", "allreduce from 16 M"),
    *(goal for name in ("allgather", "alltoall", "bcast", "reduce_scatter") for goal in (
        Goal(name,    "latency_us", (8, 256 * KIB),    AT_MOST, 0.7,  "nccl", f"{name} 8 B to 256 K"),
        Goal(name,    "latency_us", (16 * MIB, GIB),   AT_MOST, 0.95, "nccl", f"{name} from 16 M"))),
    *(Goal(c.id,      "latency_us", (8, GIB),          AT_MOST, 0.5,  "peer", c.about) for c in COLLECTIVE_CALLS),
), "--collectives", "allreduce, allgather, alltoall, bcast and reduce_scatter, in as many ranks as there are GPUs",
    "Sizes are the bytes of each rank's vector or message, of allgather and alltoall those of a block; busbw is that "
    "of nccl-tests.")


CUBE, MANY, FEW = 512, 1000000, 1000  # doubles along an edge; blocks of 8 bytes
FACE, OF_MANY = (8 * CUBE ** 2,) * 2, (8 * MANY,) * 2
PACKED = {"packed_bytes": 64 * MIB}
DATATYPES = Stage("datatypes", (
    Measurement("pack", "packing of blocks of", ("pack",), (8, 4 * KIB), (8, 64, KIB), MPIS, ranks=1, seconds=3,
                within=lambda largest: ("--bytes", str(min(64 * MIB, largest)))),
    Measurement("halo", "faces of a cube", ("halo",), roles=MPIS, seconds=6,
                within=lambda largest: ("-N", str(max(2, min(CUBE, math.isqrt(largest // 8)))))),
    Measurement("datatype", "messages of type", ("datatype",), roles=MPIS, seconds=3,
                types=("contiguous", "vector", "indexed", "struct", "subarray"), quick=("vector", "indexed"),
                within=lambda largest: ("--blocks", str(max(1, min(MANY, largest // 8))))),
    Measurement("first_use", "first use of a type", ("datatype", "-T", "indexed"), roles=MPIS,
                within=lambda largest: ("--blocks", str(max(1, min(FEW, largest // 8))))),
), (
    #    measurement  quantity          sizes       best      limit against
    Goal("pack",      "pack_mb_s",      (8, GIB),   AT_LEAST, 0.7,   "lines",      "pack, blocks from 8 B", PACKED),
    Goal("pack",      "unpack_mb_s",    (8, GIB),   AT_LEAST, 0.7,   "lines",      "unpack, blocks from 8 B", PACKED),
    Goal("halo",      "latency_us",     FACE,       AT_MOST,  1.3,   "contiguous", "halo, the worst face"),
    Goal("halo",      "latency_us",     FACE,       AT_MOST,  0.01,  "peer",       "halo, face i", {"face": "i"}),
    Goal("datatype",  "bandwidth_gb_s", OF_MANY,    AT_LEAST, 0.3,   "contiguous", "rate, a million indexed blocks",
         {"type": "indexed"}),
    Goal("datatype",  "latency_us",     OF_MANY,    AT_MOST,  0.001, "peer",       "time, a million indexed blocks",
         {"type": "indexed"}),
    Goal("first_use", "plan_us",        EVERY_SIZE, AT_MOST,  1000,  "",           "first use, a thousand blocks",
         {"blocks": FEW}),
), "--datatypes", "MPI_Pack, the faces of a cube and messages of datatypes, beside the same bytes without gaps",
    "Packing is compared with a copy that moves the same cache lines, messages with contiguous ones of the same bytes, "
    "each in the same run. 64 MiB are packed, the cube has 512 doubles along each edge, messages have a million blocks "
    "of 8 bytes, or what `--largest` leaves of these.", True)


LATENCIES = (8, KIB, 64 * KIB, MIB)
ACCESSES = ("--raw", "-W", "16")  # to bytes of their own, for which 64 would need 8 GiB
ONE_SIDED = Stage("one-sided", (
    Measurement("put_latency", "put latency", ("put_latency", "--raw"), (1, 4 * MIB), LATENCIES, MPIS),
    Measurement("get_latency", "get latency", ("get_latency", "--raw"), (1, 4 * MIB), LATENCIES, MPIS),
    Measurement("acc_latency", "accumulate latency", ("acc_latency", "--raw"), (8, 4 * MIB), LATENCIES, MPIS),
    Measurement("fop_latency", "fetch-and-op latency", ("fop_latency", "--raw"), roles=MPIS),
    Measurement("cas_latency", "compare-and-swap latency", ("cas_latency", "--raw"), roles=MPIS),
    Measurement("put_bw", "put bandwidth", ("put_bw", *ACCESSES), (8, 128 * MIB), (8, 64 * KIB, 64 * MIB), MPIS),
    Measurement("get_bw", "get bandwidth", ("get_bw", *ACCESSES), (8, 128 * MIB), (8, 64 * KIB, 64 * MIB), MPIS),
    Measurement("put_bibw", "put bandwidth both ways", ("put_bibw", *ACCESSES), (8, 128 * MIB), (64 * MIB,), MPIS),
    Measurement("put_halo", "borders by put and fence", ("put_halo", "-s", "fence"), (8, 16 * MIB), LATENCIES, MPIS,
                ranks=EACH_GPU),
), (
    #    measurement    quantity          sizes            best      limit against
    Goal("put_latency", "latency_us",     (8, 8),          AT_MOST,  1.15, "driver",   "put and flush, 8 B"),
    Goal("put_bw",      "bandwidth_mb_s", (16 * MIB, GIB), AT_LEAST, 0.97, "driver",   "put bandwidth from 16 M"),
    Goal("get_bw",      "bandwidth_mb_s", (16 * MIB, GIB), AT_LEAST, 0.97, "driver",   "get bandwidth from 16 M"),
    Goal("fop_latency", "latency_us",     (8, 8),          AT_MOST,  1.5,  "kernel",   "fetch and op"),
    Goal("put_halo",    "put_us",         (8, GIB),        AT_MOST,  1.0,  "sendrecv", "borders by put and fence"),
), "--one-sided", "accesses to windows, beside the GPU's own copies and kernels",
    "Each access ends with a flush, borders with a fence, those of bandwidth both ways with post, start, complete and "
    "wait. What it is compared with was timed in the same run: the driver's copies between the two GPUs, or an empty "
    "kernel, and the wait for them.", True)

STAGES = (POINT_TO_POINT, COLLECTIVES, DATATYPES, ONE_SIDED)
