#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models the time of collectives on device memory over many nodes, and draws it.

Compares staging through host memory, the paths that Fairlead's code takes today, the node hierarchy with an exchange
between nodes in logarithmic steps, and a GPU-aware MPI over GPUDirect RDMA. Nothing here is measured, except the
parameters whose source says so; docs/scaling.md explains the model and its limits.

Sizes are the bytes of a rank's vector (allreduce, reduce_scatter), of the message (bcast), or of all blocks that a
rank receives (allgather) or sends (alltoall).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
US, GB = 1e-6, 1e9
LEAST_BLOCK = 4  # bytes: no line where a block would be less than a float

# Name, value, unit, what it is, where it comes from.
PARAMETERS = [
    ("gpus_per_node", 8, "", "GPUs and ranks of a node", "assumed"),
    ("nics_per_node", 8, "", "network adapters of a node", "assumed: one for each GPU"),
    ("net_latency", 2.0 * US, "us", "host message between nodes", "assumed"),
    ("net_gap", 0.5 * US, "us", "each more of many host messages in flight at once", "assumed"),
    ("net_bandwidth", 48 * GB, "GB/s", "of one adapter", "assumed: 400 Gbit/s less 4 %"),
    ("shm_latency", 0.5 * US, "us", "host message within a node",
     "measured: allreduce of 8 B of two ranks, Open MPI, h200x1.md"),
    ("shm_bandwidth", 6.2 * GB, "GB/s", "host messages within a node",
     "measured: one way, 64 MiB, Open MPI, h200x1.md"),
    ("host_reduce", 13 * GB, "GB/s", "reduction by a CPU core",
     "measured: MPI_Reduce_local of 4 MiB, MPICH 4.0.2 (Open MPI 4.1.4: 37)"),
    ("copy_latency", 7.4 * US, "us", "copy between device and host memory",
     "measured: half of what an allreduce of 8 B takes more, Open MPI, h200x1.md"),
    ("copy_gap", 1.0 * US, "us", "each more of many copies started at once", "assumed"),
    ("copy_bandwidth", 55.3 * GB, "GB/s", "the same", "measured: copy to pinned host memory, 64 MiB, h200x2.md"),
    ("node_launch", 14.9 * US, "us", "collective on the GPUs of a node",
     "fitted: allgather and reduce-scatter, h200x4.md"),
    ("node_bandwidth", 289 * GB, "GB/s", "the same, bus bandwidth", "fitted: as above"),
    ("kernel", 8.4 * US, "us", "launch of a kernel, and the wait for it", "measured: empty kernel, h200x2.md"),
    ("gpu_reduce", 1600 * GB, "GB/s", "reduction by a GPU, or copy within it",
     "assumed: a third of 4.8 TB/s of memory bandwidth"),
    ("rdma_latency", 3.0 * US, "us", "device message between nodes, GPUDirect RDMA", "assumed"),
    ("peer_latency", 9.1 * US, "us", "device message within a node, GPU-aware MPI",
     "measured: Open MPI over UCX, 8 KiB, h200x4.md"),
    ("peer_bandwidth", 390 * GB, "GB/s", "the same", "measured: raw copy of 128 MiB, h200x2.md"),
    ("segment", 4 * MIB, "B", "longest piece of a message in the node hierarchy", "FAIRLEAD_COLL_SEGMENT"),
    ("nodes_from", 64 * KIB, "B", "shorter messages are staged as a whole", "FAIRLEAD_COLL_NODES_FROM"),
    ("hierarchy_from", 256 * KIB, "B", "shorter messages are staged in segments",
     "src/mpi/coll/nodes/between_nodes.cpp: a sixteenth of FAIRLEAD_COLL_SEGMENT"),
    ("rooms", 4, "", "pieces in flight", "src/mpi/coll/nodes/hierarchical_collective.cpp"),
    ("scatter_ranks", 256, "", "ranks up to which a reduce-scatter uses the node hierarchy",
     "src/mpi/coll/nodes/hierarchical_collective.cpp"),
    ("gather_room", 64 * MIB, "B", "host memory of a rank up to which an allgather does, for a piece",
     "src/mpi/coll/nodes/hierarchical_collective.cpp"),
    ("kernel_nodes", 32, "", "nodes up to which a kernel reduces", "src/kernels/parameters.h"),
    ("part", KIB, "B", "least part of a slice that a node reduces",
     "src/mpi/coll/nodes/slice_exchange.cpp, 4-byte elements"),
    ("segment_part", 16 * KIB, "B", "least part of a block in a segment, if the block has as much",
     "src/mpi/coll/nodes/segmented_staging.cpp"),
]
UNITS = {"us": US, "GB/s": GB, "B": 1, "": 1}
COLLECTIVES = ("allreduce", "bcast", "allgather", "alltoall", "reduce_scatter")
METHODS = {"staged": "flat staging", "fairlead": "Fairlead today", "steps": "Fairlead, exchange in log steps",
           "rdma": "GPU-aware MPI"}
SIZES = "64k,1m,64m"
LEAST_NODES = (2, 16, 32, 64, 128, 256, 1024, 4096)


class Refusal(Exception):
    pass


class Parameters:
    def __init__(self, changes=None):
        for name, value, *_ in PARAMETERS:
            setattr(self, name, value)
        for name, value in (changes or {}).items():
            setattr(self, name, value)


# ---- Flat algorithms over all ranks (Thakur, Rabenseifner, Gropp 2005) ---------------------------------------


class Flat:
    """The costs of an MPI that knows no hierarchy: ranks are numbered node by node, and a step at a distance of less
    than a node's ranks stays in the node. The MPI chooses the best algorithm for each size."""

    def __init__(self, ranks, of_node, near, far, gap, reduce):
        self.ranks, self.of_node, self.near, self.far, self.gap, self.reduce = ranks, of_node, near, far, gap, reduce
        self.steps = math.ceil(math.log2(ranks))
        self.slowest = max(near[0], far[0]), min(near[1], far[1])

    def link(self, step):
        return self.near if 1 << step < self.of_node else self.far

    def halving(self, size, reduces):
        """Each step exchanges half of what is left, with the nearest rank first."""
        time = 0
        for step in range(self.steps):
            latency, bandwidth = self.link(step)
            half = size / 2 ** (step + 1)
            time += latency + half / bandwidth + (self.reduce(half) if reduces else 0)
        return time

    def whole(self, size, reduces):
        """Each step exchanges everything."""
        return sum(latency + size / bandwidth + (self.reduce(size) if reduces else 0)
                   for latency, bandwidth in map(self.link, range(self.steps)))

    def ring(self, size, reduces=False):
        """A block goes round from rank to rank."""
        latency, bandwidth = self.slowest
        block = size / self.ranks
        return (self.ranks - 1) * (latency + block / bandwidth + (self.reduce(block) if reduces else 0))

    def allreduce(self, size):
        return min(self.whole(size, True), self.halving(size, True) + self.halving(size, False),
                   self.ring(size, True) + self.ring(size))

    def bcast(self, size):
        return min(self.whole(size, False), 2 * self.halving(size, False), self.halving(size, False) + self.ring(size))

    def allgather(self, size):
        return min(self.halving(size, False), self.ring(size))

    def reduce_scatter(self, size):
        return min(self.halving(size, True), self.ring(size, True))

    def alltoall(self, size):
        latency, bandwidth = self.far
        away = size * (self.ranks - self.of_node) / self.ranks
        scattered = latency + (self.ranks - 1) * self.gap + away / bandwidth
        return min(self.whole(size / 2, False), self.ring(size), scattered)


def network(p, latency):
    """Between nodes, the ranks of a node share its adapters."""
    return latency, p.net_bandwidth * min(1, p.nics_per_node / p.gpus_per_node)


def host_mpi(p, nodes):
    return Flat(nodes * p.gpus_per_node, p.gpus_per_node, (p.shm_latency, p.shm_bandwidth), network(p, p.net_latency),
                p.net_gap, lambda size: size / p.host_reduce)


def gpu_aware_mpi(p, nodes):
    return Flat(nodes * p.gpus_per_node, p.gpus_per_node, (p.peer_latency, p.peer_bandwidth),
                network(p, p.rdma_latency), p.net_gap, lambda size: p.kernel + size / p.gpu_reduce)


def copy(p, size, pieces=1):
    return p.copy_latency + (pieces - 1) * p.copy_gap + size / p.copy_bandwidth


def through_host(p, collective, nodes, size):
    """The steps of a collective in host memory, each with what it occupies."""
    block = size / (nodes * p.gpus_per_node)
    out = block if collective == "allgather" else size
    back = block if collective == "reduce_scatter" else size
    return [("out", copy(p, out)), ("host", getattr(host_mpi(p, nodes), collective)(size)), ("in", copy(p, back))]


def staged(p, collective, nodes, size):
    return sum(time for _, time in through_host(p, collective, nodes, size))


# ---- Fairlead's paths between nodes (docs/design/collectives.md, "Between nodes") ----------------------------


def agreement(p, nodes):
    """An allreduce of 4 bytes over all ranks."""
    return host_mpi(p, nodes).whole(4, False)


def pipeline(pieces, rooms, chain):
    """Pieces pass through the steps of `chain`: (resource, time). One piece at a time has a resource, and at most
    `rooms` pieces are in flight."""
    busy = {}
    for resource, time in chain:
        busy[resource] = busy.get(resource, 0) + time
    whole, slowest = sum(busy.values()), max(busy.values())
    rounds, others = divmod(pieces - 1, int(rooms))
    return whole + rounds * max(rooms * slowest, whole) + others * slowest


def in_segments(p, collective, nodes, size):
    """Segments hold a part of every block. One is copied out and one copied back while the host MPI has a third."""
    blocks = 1 if collective in ("allreduce", "bcast") else nodes * p.gpus_per_node
    segment = p.segment / 4
    part = max(segment / blocks, min(segment, p.segment_part))
    segments = max(math.ceil(size / blocks / part), math.ceil(size / GIB))
    return agreement(p, nodes) + pipeline(segments, 3, through_host(p, collective, nodes, size / segments))


def in_node(p, size):
    """A collective of the node in which `size` bytes pass each link."""
    return p.node_launch + size / p.node_bandwidth if p.gpus_per_node > 1 else 0


class Exchange:
    """Between the members with one local rank, a slice each; `linear`: by messages from each to each, as Open MPI's
    nonblocking collectives do, else in logarithmic steps."""

    def __init__(self, p, nodes, linear):
        self.p, self.nodes, self.linear = p, nodes, linear
        self.latency, self.bandwidth = network(p, p.net_latency)
        self.steps = math.ceil(math.log2(nodes))

    def scatter(self, size, least_part=0):
        """Of `size` bytes each node gets, or gives, its part."""
        if not self.linear:
            return self.steps * self.latency + size * (self.nodes - 1) / self.nodes / self.bandwidth
        part = max(size / self.nodes, min(least_part, size))
        return self.latency + (self.nodes - 1) * (self.p.net_gap + part / self.bandwidth)

    def blocks(self, size):
        """Each node sends each other one a block of `size` bytes."""
        messages = self.steps * self.latency if not self.linear else self.latency + (self.nodes - 1) * self.p.net_gap
        return messages + (self.nodes - 1) * size / self.bandwidth

    def alltoall(self, size):
        """Each node sends `size` bytes, a part to each; few bytes in logarithmic steps, which move them often."""
        return min(self.steps * (self.latency + size / 2 / self.bandwidth),
                   self.latency + (self.nodes - 1) * (self.p.net_gap + size / self.nodes / self.bandwidth))

    def bcast(self, size):
        """A binomial tree; for a long message scatter and gather, as far as the host MPI has this algorithm."""
        return min(self.steps * (self.latency + size / self.bandwidth),
                   math.inf if self.linear else 2 * self.scatter(size))

    def reduce(self, size):
        """The parts of all nodes, together `size` bytes, are added up."""
        if not self.linear or self.nodes <= self.p.kernel_nodes:
            return self.p.kernel + size / self.p.copy_bandwidth
        return size / self.p.host_reduce


def hierarchy(p, collective, nodes, size, linear):
    """`linear`: as the code is, else as it could be."""
    g, exchange = p.gpus_per_node, Exchange(p, nodes, linear)
    ranks, share = nodes * g, (g - 1) / g  # of a message that passes each link of a node
    unit = size / ranks if collective == "allgather" else size
    longest = p.segment if collective == "reduce_scatter" else min(max(unit / p.rooms, p.segment / 4), p.segment)
    pieces = max(1, math.ceil(unit / longest))
    piece = unit / pieces
    slice_ = piece / g
    if collective == "allreduce":
        chain = [("gpus", in_node(p, piece * share)), ("out", copy(p, slice_)),
                 ("net", exchange.scatter(slice_, p.part)), ("in", exchange.reduce(slice_)),
                 ("net", exchange.scatter(slice_, p.part)), ("in", copy(p, slice_)),
                 ("gpus", in_node(p, piece * share))]
    elif collective == "bcast":
        chain = [("root's gpus", in_node(p, piece)), ("out", copy(p, slice_)), ("net", exchange.bcast(slice_)),
                 ("in", copy(p, slice_)), ("gpus", in_node(p, piece * share))]
    elif collective == "allgather":
        # Today one collective in the node for each node's blocks.
        times = nodes if linear else 1
        chain = [("out", copy(p, piece)), ("net", exchange.blocks(piece)), ("in", copy(p, piece * nodes, nodes)),
                 ("gpus", times * in_node(p, nodes / times * piece * (g - 1)))]
    elif collective == "reduce_scatter":
        # Today one copy for each rank's block puts those of one local rank together.
        pack = p.copy_latency + (ranks - 1) * p.copy_gap if linear else p.kernel
        chain = [("gpus", pack + piece / p.gpu_reduce + in_node(p, piece * share)), ("out", copy(p, slice_)),
                 ("net", exchange.scatter(slice_)), ("in", exchange.reduce(slice_)), ("in", copy(p, slice_ / nodes))]
    else:  # an estimate: the code has none
        chain = [("gpus", in_node(p, piece * share)), ("out", copy(p, piece)), ("net", exchange.alltoall(piece)),
                 ("in", copy(p, piece))]
    # On their memory, on the rooms for the pieces, and on errors.
    return 3 * agreement(p, nodes) + pipeline(pieces, p.rooms, chain)


def suits_hierarchy(p, collective, nodes, size):
    """As the function of this name decides with Open MPI (src/mpi/coll/nodes/hierarchical_collective.cpp)."""
    g = p.gpus_per_node
    if size < p.hierarchy_from or collective == "alltoall":
        return False
    if g == 1 and size < (p.segment if collective == "allreduce" else p.segment / 4):
        return False
    if collective == "reduce_scatter":
        return nodes * g <= p.scatter_ranks
    if collective == "allgather":
        block = size / (nodes * g)
        return size < 2 * GIB and block * g >= p.segment / 8 and nodes * min(block, p.segment) <= p.gather_room
    return True


def has_blocks(p, collective, nodes, size):
    """No block is less than a float."""
    return collective in ("allreduce", "bcast") or size >= LEAST_BLOCK * nodes * p.gpus_per_node


def time_of(p, method, collective, nodes, size):
    """Seconds; None where a block would be less than a float."""
    if not has_blocks(p, collective, nodes, size):
        return None
    if method == "rdma":
        return getattr(gpu_aware_mpi(p, nodes), collective)(size)
    if method == "staged" or size < p.nodes_from:
        return staged(p, collective, nodes, size)
    if suits_hierarchy(p, collective, nodes, size) if method == "fairlead" else size >= p.hierarchy_from:
        return hierarchy(p, collective, nodes, size, method == "fairlead")
    return in_segments(p, collective, nodes, size)


# ---- Fit ------------------------------------------------------------------------------------------------------


def wire_bytes(benchmark, ranks, size):
    """Bytes that each link carries; the factors of `fairlead bench`'s bus bandwidth."""
    factors = {"allreduce": 2 * (ranks - 1) / ranks, "reduce_scatter": (ranks - 1) / ranks, "allgather": ranks - 1,
               "alltoall": ranks - 1, "bcast": 1}
    return size * factors[benchmark]


def fitted_line(points):
    """Latency and bandwidth by least squares of the relative error of latency + bytes / bandwidth."""
    sums = [0.0] * 5
    for size, time in points:
        a, b = 1 / time, size / time
        for i, value in enumerate((a * a, a * b, b * b, a, b)):
            sums[i] += value
    determinant = sums[0] * sums[2] - sums[1] * sums[1]
    if len({size for size, _ in points}) < 2 or determinant <= 0:
        return None
    latency = (sums[3] * sums[2] - sums[4] * sums[1]) / determinant
    per_byte = (sums[0] * sums[4] - sums[1] * sums[3]) / determinant
    return (latency, 1 / per_byte) if latency > 0 and per_byte > 0 else None


def fit(path):
    """{parameter: value} from a result file of `fairlead bench`."""
    try:
        with open(path, encoding="utf-8") as file:
            run = json.load(file)
        benchmark, results = run["benchmark"], run["results"]
        points = [(one["bytes"], one["latency_us"]["p50"] * US) for one in results]
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Refusal(f"{path} is no result file of `fairlead bench`") from error
    placement = run.get("placement", [])
    if benchmark == "latency" and placement == ["H", "H"]:
        names = "net_latency", "net_bandwidth"
    elif benchmark == "latency" and placement == ["D", "D"]:
        names = "peer_latency", "peer_bandwidth"
    elif benchmark in COLLECTIVES and placement == ["D", "D"] and run["ranks"] > 1:
        names = "node_launch", "node_bandwidth"
        points = [(wire_bytes(benchmark, run["ranks"], size), time) for size, time in points]
    elif benchmark == "copy":
        rates = [one.get("device_to_host_mb_s", {}).get("p50") for one in results]
        if not all(rates):
            raise Refusal(f"{path} has no copies to host memory")
        return {"copy_bandwidth": max(rates) * 1e6}
    else:
        raise Refusal(f"{path} is of `{benchmark} {' '.join(placement)}`, which no parameter is fitted to; it takes "
                      "latency H H, latency D D, a collective D D in one node, or copy")
    line = fitted_line(points)
    if not line:
        raise Refusal(f"{path}: the times do not grow with the bytes, so that no latency and bandwidth fit them")
    return dict(zip(names, line))


# ---- Output ---------------------------------------------------------------------------------------------------


def shown(name, value):
    unit = next(unit for other, _, unit, *_ in PARAMETERS if other == name)
    return f"{value / UNITS[unit]:.8g}{' ' + unit if unit else ''}"


def parameter_table(p, fitted):
    lines = ["| Parameter | Value | What | Source |", "|---|---:|---|---|"]
    for name, _, _, what, source in PARAMETERS:
        lines.append(f"| `{name}` | {shown(name, getattr(p, name))} | {what} | {fitted.get(name, source)} |")
    return "\n".join(lines) + "\n"


def node_counts(most):
    counts = [2]
    while counts[-1] * 2 < most:
        counts.append(counts[-1] * 2)
    return counts + [most] if most > counts[-1] else counts


def evaluate(p, counts, sizes):
    return [{"collective": collective, "bytes": size, "nodes": nodes, "method": method, "seconds": seconds}
            for collective in COLLECTIVES for size in sizes for nodes in counts for method in METHODS
            if (seconds := time_of(p, method, collective, nodes, size)) is not None]


def size_text(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


def least_table(p):
    """By nodes, the least power of two at which the node hierarchy takes less time than segments."""
    collectives = [collective for collective in COLLECTIVES if collective != "alltoall"]
    lines = [f"| nodes | {' | '.join(collectives)} |", "|" + "---:|" * (1 + len(collectives))]
    for nodes in LEAST_NODES:
        cells = [str(nodes)]
        for collective in collectives:
            sizes = (1 << power for power in range(31) if has_blocks(p, collective, nodes, 1 << power))
            cells.append(next((size_text(size) for size in sizes if size >= p.nodes_from and
                               hierarchy(p, collective, nodes, size, True) < in_segments(p, collective, nodes, size)),
                              "none"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def draw(p, counts, sizes, folder):
    try:
        from drawing import BLUE, GREEN, GREY, ORANGE, FixedLocator, FuncFormatter, NullFormatter, canvas, save
    except ImportError:
        return False
    looks = {"staged": (GREY, "--"), "fairlead": (BLUE, "-"), "steps": (GREEN, "-."), "rdma": (ORANGE, "-")}

    def duration(seconds, _):
        for unit, text in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
            if seconds >= unit * 0.999:
                return f"{seconds / unit:g} {text}"
        return ""

    for collective in COLLECTIVES:
        figure, panels = canvas(f"Modelled time of {collective} on device memory against nodes",
                              f"a model, not a measurement; {p.gpus_per_node:g} GPUs and {p.nics_per_node:g} network "
                              "adapters a node", len(sizes), 1, 4.2, sharey=True)
        for size, panel in zip(sizes, panels):
            for method, (colour, line) in looks.items():
                points = [(n, t) for n in counts if (t := time_of(p, method, collective, n, size)) is not None]
                panel.plot(*zip(*points), color=colour, linestyle=line, label=METHODS[method],
                           zorder=4 if method == "staged" else 3)  # the dashes show what lies below
            panel.set_xscale("log")
            panel.set_yscale("log")
            panel.set_xlim(counts[0] / 1.3, counts[-1] * 1.3)
            panel.xaxis.set_major_locator(FixedLocator([2, 10, 100, 1000, 10000]))
            panel.set_title(size_text(size))
            panel.set_xlabel("nodes")
            panel.yaxis.set_major_formatter(FuncFormatter(duration))
            panel.yaxis.set_minor_formatter(NullFormatter())
            panel.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:g}" if n < 1000 else f"{n / 1000:g} k"))
            panel.xaxis.set_minor_formatter(NullFormatter())
        save(figure, os.path.join(folder, f"{collective}.png"))
    return True


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refusal(f"{message}; --help tells more")


def parse(words):
    parser = Parser(prog="model.py", description=__doc__, allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--set", action="append", default=[], metavar="NAME=VALUE",
        help="another value of a parameter, in the unit of --parameters; may be repeated")
    add("--fit", action="append", default=[], metavar="FILE",
        help="fits parameters to a result file of `fairlead bench`: latency H H between two nodes, latency D D or a "
        "collective D D in one node, or copy; may be repeated")
    add("--nodes", type=int, default=10000, metavar="MOST", help="from 2 to so many nodes (default: 10000)")
    add("--sizes", default=SIZES, help=f"bytes, such as 512k, separated by commas (default: {SIZES})")
    add("--parameters", action="store_true", help="prints the parameters and their sources (Markdown)")
    add("--least", action="store_true", help="prints from which size on the node hierarchy is faster than segments")
    add("--json", metavar="FILE", help="writes all times; - is the terminal")
    add("-o", "--output", metavar="FOLDER", help="draws a plot of each collective there; needs matplotlib")
    arguments = parser.parse_args(words)
    if arguments.nodes < 2:
        parser.error("--nodes has to be 2 or more")
    if not (arguments.parameters or arguments.least or arguments.json or arguments.output):
        parser.error("nothing to do: give --parameters, --least, --json or -o")
    return arguments


def sizes_in(text):
    units = {"": 1, "k": KIB, "m": MIB, "g": GIB}
    words = [re.fullmatch("([1-9][0-9]*)([kmg]?)", word) for word in text.split(",")]
    if not all(words):
        raise Refusal(f"--sizes {text}: sizes are such as 512k, separated by commas")
    return [int(word[1]) * units[word[2]] for word in words]


def changed(words):
    units = {name: unit for name, _, unit, *_ in PARAMETERS}
    changes = {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in units:
            raise Refusal(f"--set {word}: there is no parameter '{name}'; --parameters lists them")
        try:
            changes[name] = float(value) * UNITS[units[name]]
        except ValueError as error:
            raise Refusal(f"--set {word}: '{value}' is no number") from error
        if not 0 < changes[name] < math.inf:
            raise Refusal(f"--set {word}: the value has to be above 0")
    return changes


def main(words):
    arguments = parse(words)
    sources, changes = {}, {}
    for path in arguments.fit:
        fitted = fit(path)
        changes.update(fitted)
        sources.update({name: f"fitted: {os.path.basename(path)}" for name in fitted})
    given = changed(arguments.set)
    changes.update(given)
    sources.update({name: "given" for name in given})
    p, counts, sizes = Parameters(changes), node_counts(arguments.nodes), sizes_in(arguments.sizes)
    if arguments.parameters:
        print(parameter_table(p, sources), end="")
    if arguments.least:
        print(least_table(p), end="")
    if arguments.json:
        text = json.dumps({"parameters": vars(p), "times": evaluate(p, counts, sizes)}, indent=1) + "\n"
        if arguments.json == "-":
            print(text, end="")
        else:
            with open(arguments.json, "w", encoding="utf-8") as file:
                file.write(text)
    if arguments.output and not draw(p, counts, sizes, arguments.output):
        print("no plots: matplotlib is not there")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Refusal, OSError) as refusal:
        print(f"model.py: {refusal}", file=sys.stderr)
        sys.exit(2)
