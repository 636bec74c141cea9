# SPDX-License-Identifier: Apache-2.0
"""The stages of a comparison: what each measures, and its goals. A call runs one stage."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from comparison.goals import AT_LEAST, AT_MOST, Goal
from comparison.measurements import EACH_GPU, EIGHT_PAIRS, GIB, KIB, MIB, Measurement

EVERY_SIZE = (1, 1 << 40)
NCCL = ("--via", "nccl")


@dataclass(frozen=True)
class Stage:
    name: str
    measurements: tuple[Measurement, ...]
    goals: tuple[Goal, ...]
    option: str = ""  # that chooses it
    about: str = ""  # what the option measures
    note: str = ""  # how to read its tables
    peers_may_fail: bool = False  # MPIs that are GPU-aware seldom are so here: that they crash is a result
    nccl: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"nccl": NCCL})  # its contenders, and their words

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
                    collective("bcast"), collective("reduce"), collective("reduce_scatter"))
COLLECTIVES = Stage("collectives", COLLECTIVE_CALLS, (
    *(goal for c in COLLECTIVE_CALLS
      for small, large in [(0.55, 1.0) if c.id == "allreduce" else (0.6, 0.95)] for goal in (
        Goal(c.id, "latency_us", (8, 256 * KIB),         AT_MOST, small, "nccl", f"{c.id} 8 B to 256 K"),
        Goal(c.id, "latency_us", (512 * KIB, 8 * MIB),   AT_MOST, 0.8,   "nccl", f"{c.id} 512 K to 8 M"),
        Goal(c.id, "latency_us", (16 * MIB, GIB),        AT_MOST, large, "nccl", f"{c.id} from 16 M"))),
    *(Goal(c.id,   "latency_us", (8, GIB),               AT_MOST, 0.5,   "peer", c.about) for c in COLLECTIVE_CALLS),
), "--collectives",
    "allreduce, allgather, alltoall, bcast, reduce and reduce_scatter, in as many ranks as there are GPUs",
    "Sizes are the bytes of each rank's vector or message, of allgather and alltoall those of a block; busbw is that "
    "of nccl-tests. `nccl` is called as programs call it, `nccl-graph` launches graphs and has symmetric windows for "
    "buffers; goals compare with the faster of those that ran, at each size.",
    nccl={"nccl": NCCL, "nccl-graph": (*NCCL, "--symmetric", "--cudagraph")})


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


HOST = ("H", "H")
BETWEEN = {"variables": {"FAIRLEAD_NODES": "2"}, "option": "FAIRLEAD_NODES"}
DEVICE = ("", "between nodes", BETWEEN)
HOST_BETWEEN = ("-host", "of host memory between nodes", {**BETWEEN, "placement": HOST})
HOST_INSIDE = ("-inside", "of host memory in a node", {"placement": HOST})


def beside_alone(name, about, benchmark, sizes, variants, quick=(), ranks=2):
    """The host MPI alone with host memory, NAME-alone, and directly after it each variant with Fairlead."""
    return (Measurement(f"{name}-alone", f"{about}, the host MPI alone,", benchmark, sizes, quick, placement=HOST,
                        ranks=ranks, seconds=0.1, preload=False),
            *(Measurement(name + suffix, f"{about} {where}", benchmark, sizes, quick, ranks=ranks, seconds=0.1,
                          **how)
              for suffix, where, how in variants))


AGREEING = ("allreduce", "reduce", "bcast", "allgather", "alltoall", "reduce_scatter", "gather", "scatter")
BLOCKING = (*AGREEING, "allgatherv", "alltoallv")
CALLS = (*BLOCKING, *(f"i{call}" for call in BLOCKING))
HIERARCHICAL = ("allreduce", "reduce", "bcast", "allgather", "reduce_scatter")
COST_OF_AGREEMENT = tuple(f"{call}-host" for call in AGREEING)
FEW_CALLS, FEW_WINDOWS = ("-i", "30"), ("-W", "16", "-i", "5", "-x", "2")  # of many rounds
CALL_SIZES, FROM_MIB, LONG = (8, 16 * MIB), (MIB, 16 * MIB), (64 * MIB, 64 * MIB)
NODES = Stage("between nodes", (
    *beside_alone("host_bw", "bandwidth", ("bw", *WINDOW, "-x", "3"), (8 * KIB, 16 * MIB), (HOST_INSIDE, HOST_BETWEEN),
                  (8 * KIB, MIB)),
    Measurement("host_overhead", "cost for host messages", ("host_overhead",), placement=()),
    *(m for name, about, ranks in (("bw", "bandwidth", 2), ("bibw", "bandwidth both ways", 2),
                                   ("mbw_mr", "bandwidth of many pairs", EIGHT_PAIRS))
      for m in beside_alone(name, about, (name, *FEW_WINDOWS), LONG, (DEVICE,), ranks=ranks)),
    *(m for call in CALLS for m in beside_alone(
        call, call, (call, *FEW_CALLS), CALL_SIZES, (DEVICE, HOST_BETWEEN) if call in AGREEING else (DEVICE,),
        {"allreduce": (8, 64 * KIB, MIB), "iallreduce": (8, MIB)}.get(call, ()))),
    *(m for call in HIERARCHICAL for m in beside_alone(
        f"{call}_4", f"{call} of 4 ranks", (call, *FEW_CALLS), FROM_MIB, (DEVICE,),
        (MIB,) if call == "allreduce" else (), ranks=4)),
), (
    Goal("host_bw-inside", "bandwidth_mb_s", EVERY_SIZE, AT_LEAST, 0.97, "alone", "host messages in a node"),
    Goal("host_bw-host", "bandwidth_mb_s", EVERY_SIZE, AT_LEAST, 0.97, "alone", "host messages between nodes"),
    Goal("host_overhead", "added_ns", (0, 0), AT_MOST, 20.0, "", "added to a host message"),
    *(Goal(name, "bandwidth_mb_s", LONG, AT_LEAST, 0.95, "alone", f"{text}, 64 M")
      for name, text in (("bw", "one way"), ("bibw", "both ways"), ("mbw_mr", "many pairs"))),
    *(goal for call in CALLS for goal in (
        Goal(call, "latency_us", (8, 8), AT_MOST, 25, "added", f"{call} 8 B"),
        Goal(call, "latency_us", (64 * KIB, 64 * KIB), AT_MOST, 1.5, "alone", f"{call} 64 K"),
        Goal(call, "latency_us", FROM_MIB, AT_MOST, 1.15, "alone", f"{call} from 1 M"))),
    *(Goal(name, "mean_us", (64 * KIB, GIB), AT_MOST, 1.03, "alone", f"{name.replace('-', ', ')}, from 64 K")
      for name in COST_OF_AGREEMENT),
    *(Goal(f"{call}_4", "latency_us", FROM_MIB, AT_MOST, 0.7, "alone", f"{call}, 4 ranks, from 1 M")
      for call in HIERARCHICAL),
), "--nodes", "messages and collectives between simulated nodes, beside the host MPI alone with host memory",
    "`FAIRLEAD_NODES=2` makes two nodes of this machine. What Fairlead moves is compared with host memory that the "
    "host MPI moves alone, without Fairlead. Of collectives of host memory means are compared, because the ranks agree "
    "on memory in few of the calls. Where a job has more ranks than there are GPUs, ranks share GPUs, as the commands "
    "say.")

THREAD = {"FAIRLEAD_PROGRESS_THREAD": "on"}
HIDDEN, HIDDEN_SIZES = ("iallreduce", "ialltoall", "ibcast"), (256 * KIB, 8 * MIB)
EXCHANGE_SIZES, ONE_MIB, COMPUTING = (MIB, 64 * MIB), (MIB, MIB), ((("-r", "cpu"), "", 90), (("-r", "gpu"), "-gpu", 80))
OVERLAP = Stage("overlap", (
    Measurement("overlap", "exchange in a node", ("overlap",), EXCHANGE_SIZES, EXCHANGE_SIZES, MPIS,
                variables=THREAD, option="FAIRLEAD_PROGRESS_THREAD"),
    Measurement("overlap-nodes", "exchange between simulated nodes", ("overlap",), EXCHANGE_SIZES, EXCHANGE_SIZES,
                variables={**THREAD, "FAIRLEAD_NODES": "2"}, option="FAIRLEAD_PROGRESS_THREAD"),
    *(Measurement(call + suffix, f"{call}, the {words[1].upper()} computes,", (call, *words), HIDDEN_SIZES,
                  HIDDEN_SIZES, MPIS, variables=THREAD, option="FAIRLEAD_PROGRESS_THREAD", ranks=EACH_GPU,
                  blocks=call == "ialltoall")
      for call in HIDDEN for words, suffix, _ in COMPUTING),
    Measurement("first_allreduce", "first allreduce", ("allreduce", "--first", "-i", "10"), (8, 8), (), MPIS,
                ranks=EACH_GPU),
    Measurement("init-alone", "MPI_Init and a context, the host MPI alone", ("init", "--context"), placement=(),
                ranks=EACH_GPU, preload=False),
    Measurement("init", "MPI_Init and a context", ("init", "--context"), placement=(), ranks=EACH_GPU),
), (
    *(Goal(name, "overlap_percent", sizes, AT_LEAST, 95, "", f"{where}, {text}")
      for name, where in (("overlap", "exchange in a node"), ("overlap-nodes", "exchange between nodes"))
      for sizes, text in ((ONE_MIB, "1 M"), (LONG, "64 M"))),
    *(Goal(call + suffix, "overlap_percent", HIDDEN_SIZES, AT_LEAST, limit, "",
           f"{call}, {words[1].upper()}, 256 K to 8 M")
      for call in HIDDEN for words, suffix, limit in COMPUTING),
    Goal("first_allreduce", "first_us", (8, 8), AT_MOST, 3000, "", "first allreduce"),
    Goal("init", "total_ms", EVERY_SIZE, AT_MOST, 0.1, "context", "MPI_Init"),
), "--overlap", "what computation hides of exchanges and nonblocking collectives, first calls, and MPI_Init",
    "Overlap is the part of the communication alone, in percent, that as much computation between start and wait "
    "hides, as the OSU benchmarks compute it; Fairlead runs with `FAIRLEAD_PROGRESS_THREAD=on`. The GPU computes with four "
    "blocks. The time of MPI_Init includes the start of the GPU's driver and a context, wherever in the job they "
    "happen; what Fairlead adds is compared with what the driver takes for them after MPI_Init without Fairlead.", True)

STAGES = (POINT_TO_POINT, COLLECTIVES, DATATYPES, ONE_SIDED, NODES, OVERLAP)
