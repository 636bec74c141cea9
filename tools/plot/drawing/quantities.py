# SPDX-License-Identifier: Apache-2.0
"""What can be drawn: the quantities in a row of results, and which of them each benchmark has.

Values are medians between the first and the last hundredth of what was measured, in the units that the axes name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, NamedTuple


class Value(NamedTuple):
    middle: float
    least: float
    greatest: float


@dataclass(frozen=True)
class Quantity:
    name: str  # the word for --quantity
    title: str
    unit: str
    better: str
    of: Callable[[dict], Value]  # KeyError where the row has none
    logarithmic: bool = True

    @property
    def label(self):
        return f"{self.title} ({self.unit})"


@dataclass(frozen=True)
class Benchmark:
    title: str
    usual: tuple[str, ...]  # drawn where --quantity does not say
    more: tuple[str, ...] = ()
    middle: str = "medians over the iterations"
    spread: str = "all but the least and the greatest hundredth of them"
    size: str = "message size"
    names: tuple[str, ...] = ()  # of the rows, where these are no sizes: values are drawn as bars

    @property
    def quantities(self):
        return self.usual + self.more


def spread(distribution, factor=1.0):
    middle = distribution.get("p50", distribution["mean"])
    least, greatest = (distribution.get(key, distribution[end]) for key, end in (("p1", "min"), ("p99", "max")))
    return Value(factor * middle, factor * least, factor * greatest)


def bus_bandwidth(row):
    """The benchmark gives the one of the median time; the others follow, since bandwidth is bytes over time."""
    time = spread(row["latency_us"])
    scale = row["busbw_gb_s"] * time.middle
    return Value(*(scale / each if each > 0 else 0.0 for each in (time.middle, time.greatest, time.least)))


def overlap(row):
    return Value(*[row["overlap_percent"]] * 3)


QUANTITIES = {quantity.name: quantity for quantity in (
    Quantity("latency", "latency", "µs", "lower", lambda row: spread(row["latency_us"])),
    Quantity("time", "time", "µs", "lower", lambda row: spread(row["latency_us"])),
    Quantity("bandwidth", "bandwidth", "GB/s", "higher", lambda row: spread(row["bandwidth_mb_s"], 1e-3)),
    Quantity("rate", "message rate", "million/s", "higher",
             lambda row: spread(row["bandwidth_mb_s"], 1 / row["bytes"])),
    Quantity("busbw", "bus bandwidth", "GB/s", "higher", bus_bandwidth),
    Quantity("overlap", "overlap", "%", "higher", overlap, logarithmic=False),
)}

COLLECTIVES = ("allreduce", "bcast", "reduce", "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw", "gather",
               "gatherv", "scatter", "scatterv", "reduce_scatter", "reduce_scatter_block", "scan", "exscan",
               "neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv",
               "neighbor_alltoallw")

BENCHMARKS = {
    "latency": Benchmark("Latency of a message", ("latency",)),
    "bw": Benchmark("Messages in one direction", ("bandwidth",), ("rate",)),
    "bibw": Benchmark("Messages in both directions at once", ("bandwidth",), ("rate",)),
    "latency_persistent": Benchmark("Latency of a message of persistent requests", ("latency",)),
    "bw_persistent": Benchmark("Messages of persistent requests in one direction", ("bandwidth",), ("rate",)),
    "bibw_persistent": Benchmark("Messages of persistent requests in both directions at once", ("bandwidth",), ("rate",)),
    "latency_mt": Benchmark("Latency of a message while many threads play ping-pong", ("latency",)),
    "copy": Benchmark("The GPU's own copy", ("latency", "bandwidth"), ("rate",)),
    "mbw_mr": Benchmark("Messages of many pairs at once", ("bandwidth", "rate")),
    "multi_lat": Benchmark("Latency of a message while many pairs play ping-pong", ("latency",)),
    "partitioned": Benchmark("Latency of a partitioned message", ("latency",)),
    **{f"{name}_latency": Benchmark(f"Latency of MPI_{call}", ("latency",), size="size")
       for name, call in (("put", "Put"), ("get", "Get"), ("acc", "Accumulate"), ("get_acc", "Get_accumulate"),
                          ("fop", "Fetch_and_op"), ("cas", "Compare_and_swap"))},
    "put_bw": Benchmark("MPI_Put in one direction", ("bandwidth",), ("rate",), size="size"),
    "get_bw": Benchmark("MPI_Get in one direction", ("bandwidth",), ("rate",), size="size"),
    "put_bibw": Benchmark("MPI_Put in both directions at once", ("bandwidth",), ("rate",), size="size"),
    "put_halo": Benchmark("Borders exchanged in a ring", ("time",), size="size of a border"),
    "first": Benchmark("Messages from new buffers", ("time",), middle="medians over new buffers",
                       spread="all but the least and the greatest hundredth of them"),
    "pack": Benchmark("MPI_Pack and MPI_Unpack of small blocks", ("bandwidth",), size="block size"),
    "halo": Benchmark("Faces of a cube", ("time",), size="face", names=("i", "j", "k")),
    "datatype": Benchmark("Messages of datatypes", ("time",), size="type",
                          names=("contiguous", "vector", "indexed", "struct", "subarray")),
    "pairs": Benchmark("Messages between pairs of ranks", ("bandwidth",), ("latency", "rate"),
                       "means over the pairs", "from the slowest to the fastest pair"),
    **{name: Benchmark(f"MPI_{name.capitalize()}", ("time", "busbw")) for name in COLLECTIVES},
    **{f"{name}_persistent": Benchmark(f"MPI_{name.capitalize()}_init", ("time", "busbw")) for name in COLLECTIVES},
    "overlap": Benchmark("Exchange of messages", ("time", "overlap")),
    **{f"i{name}": Benchmark(f"MPI_I{name}", ("time", "overlap")) for name in COLLECTIVES},
}

# Of the benchmarks whose rows hold several lines: what they are of, and the lines' names.
LINES = {
    "first": ("latency_us", {"allocate_us": "allocation", "first_us": "first message", "second_us": "second message",
                             "slowest_us": "slowest later message", "later_us": "later messages"}),
    "put_halo": ("latency_us", {"put_us": "MPI_Put", "sendrecv_us": "MPI_Sendrecv"}),
    "pack": ("bandwidth_mb_s", {"pack_mb_s": "MPI_Pack", "unpack_mb_s": "MPI_Unpack",
                                "copy_mb_s": "copy of the same cache lines"}),
    "halo": ("latency_us", {"latency_us": "message with gaps", "contiguous_us": "contiguous message"}),
    "datatype": ("latency_us", {"latency_us": "message with gaps", "contiguous_us": "contiguous message"}),
}

# The copy is what a message can at best reach: it may stand beside these.
YARDSTICK, MEASURED_BY_IT = "copy", ("latency", "bw", "put_latency", "get_latency", "put_bw", "get_bw")
