#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models the time of collectives on device memory over many nodes, and draws it.

Compares staging through host memory, Fairlead's hierarchy as its code is today, the same with an exchange between
nodes in logarithmic steps, and a GPU-aware MPI over GPUDirect RDMA. Nothing here is measured, except the parameters
whose source says so; docs/scaling.md explains the model and its limits.

Sizes are the bytes of a rank's vector (allreduce, reduce_scatter), of the message (bcast), or of all blocks that a
rank receives (allgather) or sends (alltoall).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys

KIB, MIB = 1 << 10, 1 << 20
US, GB = 1e-6, 1e9
LEAST_BLOCK = 4  # bytes: no line where a block would be less than a float

# Name, value, unit, what it is, where it comes from.
PARAMETERS = [
    ("gpus_per_node", 8, "", "GPUs and ranks of a node", "assumed"),
    ("nics_per_node", 8, "", "network adapters of a node", "assumed: one for each GPU"),
    ("net_latency", 2.0 * US, "us", "host message between nodes", "assumed"),
    ("net_gap", 0.5 * US, "us", "each more of many host messages in flight at once", "assumed"),
    ("net_bandwidth", 48 * GB, "GB/s", "of one adapter", "assumed: 400 Gbit/s less 4 %"),
    ("shm_latency", 0.5 * US, "us", "host message within a node", "assumed"),
    ("shm_bandwidth", 10.4 * GB, "GB/s", "host messages within a node",
     "measured: host buffers between simulated nodes, h200x4.md"),
    ("host_reduce", 13 * GB, "GB/s", "reduction by a CPU core",
     "measured: MPI_Reduce_local of 4 MiB, MPICH 4.0.2 (Open MPI 4.1.4: 37)"),
    ("copy_latency", 6.7 * US, "us", "copy between device and host memory", "measured: raw copy of 8 B, h200x4.md"),
    ("copy_gap", 1.0 * US, "us", "each more of many copies started at once", "assumed"),
    ("copy_bandwidth", 55.3 * GB, "GB/s", "the same", "measured: raw copy of 64 MiB, h200x2.md"),
    ("node_launch", 14.9 * US, "us", "collective on the GPUs of a node",
     "fitted: allgather and reduce-scatter, h200x4.md"),
    ("node_bandwidth", 289 * GB, "GB/s", "the same, bus bandwidth", "fitted: as above"),
    ("kernel", 8.4 * US, "us", "launch of a kernel, and the wait for it", "measured: empty kernel, h200x2.md"),
    ("gpu_reduce", 1600 * GB, "GB/s", "reduction by a GPU", "assumed: a third of 4.8 TB/s of memory bandwidth"),
    ("rdma_latency", 3.0 * US, "us", "device message between nodes, GPUDirect RDMA", "assumed"),
    ("peer_latency", 9.1 * US, "us", "device message within a node, GPU-aware MPI",
     "measured: Open MPI over UCX, 8 KiB, h200x4.md"),
    ("peer_bandwidth", 390 * GB, "GB/s", "the same", "measured: raw copy of 128 MiB, h200x2.md"),
    ("segment", 4 * MIB, "B", "piece of a message", "FAIRLEAD_COLL_SEGMENT"),
    ("nodes_from", 128 * KIB, "B", "Fairlead stages shorter messages", "FAIRLEAD_COLL_NODES_FROM"),
    ("rooms", 4, "", "pieces in flight", "src/mpi/coll/between_nodes.cpp"),
    ("kernel_nodes", 32, "", "nodes up to which a kernel reduces", "src/kernels/parameters.h"),
    ("part", KIB, "B", "least part of a slice that a node reduces", "src/mpi/coll/slice_exchange.cpp, 4-byte elements"),
]
UNITS = {"us": US, "GB/s": GB, "B": 1, "": 1}
COLLECTIVES = ("allreduce", "bcast", "allgather", "alltoall", "reduce_scatter")
METHODS = {"staged": "flat staging", "fairlead": "Fairlead today", "steps": "Fairlead, exchange in log steps",
           "rdma": "GPU-aware MPI"}
SIZES = (64 * KIB, MIB, 64 * MIB)


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


def staged(p, collective, nodes, size):
    block = size / (nodes * p.gpus_per_node)
    out = block if collective == "allgather" else size
    back = block if collective == "reduce_scatter" else size
    return copy(p, out) + getattr(host_mpi(p, nodes), collective)(size) + copy(p, back)


# ---- Fairlead's hierarchy (docs/design/collectives.md, "Between nodes") --------------------------------------


def in_node(p, size):
    """A collective of the node in which `size` bytes pass each link."""
    return p.node_launch + size / p.node_bandwidth if p.gpus_per_node > 1 else 0


class Exchange:
    """Between the members with one local rank, a slice each; `linear`: by messages from each to each, as the host
    MPI's nonblocking collectives do, else in logarithmic steps."""

    def __init__(self, p, nodes, linear):
        self.p, self.nodes, self.linear = p, nodes, linear
        self.latency, self.bandwidth = network(p, p.net_latency)
        self.steps = math.ceil(math.log2(nodes))

    def scatter(self, size):
        """Of `size` bytes each node gets, or gives, its part."""
        if not self.linear:
            return self.steps * self.latency + size * (self.nodes - 1) / self.nodes / self.bandwidth
        part = max(size / self.nodes, min(self.p.part, size))
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
        """The host MPI's broadcast; for a long message scatter and gather, as far as it has this algorithm."""
        return min(self.steps * (self.latency + size / self.bandwidth),
                   math.inf if self.linear else 2 * self.scatter(size))

    def reduce(self, size):
        """The parts of all nodes, together `size` bytes, are added up."""
        if not self.linear or self.nodes <= self.p.kernel_nodes:
            return self.p.kernel + size / self.p.copy_bandwidth
        return size / self.p.host_reduce


def pipeline(p, pieces, before, chain, after):
    """A piece takes `before` and `after` on the GPUs of the node, one collective at a time, and between them the
    steps of `chain`: (resource, time). Steps of different pieces overlap where their resources differ."""
    whole = before + sum(time for _, time in chain) + after
    busy = [sum(time for resource, time in chain if resource == one) for one in {resource for resource, _ in chain}]
    return whole + (pieces - 1) * max(before + after, *busy, whole / p.rooms)


def hierarchy(p, collective, nodes, size, linear):
    g, exchange = p.gpus_per_node, Exchange(p, nodes, linear)
    share = (g - 1) / g  # of a message that passes each link of a node
    agreement = 2 * host_mpi(p, nodes).whole(4, False)
    unit = size / (nodes * g) if collective == "allgather" else size
    pieces = max(1, math.ceil(unit / p.segment))
    piece = unit / pieces
    slice_ = piece / g
    if collective == "allreduce":
        chain = [("out", copy(p, slice_)), ("net", exchange.scatter(slice_)), ("in", exchange.reduce(slice_)),
                 ("net", exchange.scatter(slice_)), ("in", copy(p, slice_))]
        return agreement + pipeline(p, pieces, in_node(p, piece * share), chain, in_node(p, piece * share))
    if collective == "bcast":
        chain = [("out", copy(p, slice_)), ("net", exchange.bcast(slice_)), ("in", copy(p, slice_))]
        return agreement + pipeline(p, pieces, in_node(p, piece), chain, in_node(p, piece * share))
    if collective == "allgather":
        # Today one collective in the node for each node's blocks.
        times = nodes if linear else 1
        chain = [("out", copy(p, piece)), ("net", exchange.blocks(piece)), ("in", copy(p, piece * nodes, nodes))]
        after = times * in_node(p, nodes / times * piece * (g - 1))
        return agreement + pipeline(p, pieces, 0, chain, after)
    # The hierarchy has no alltoall and no reduce_scatter yet: these are estimates of what it could do.
    if collective == "alltoall":
        chain = [("out", copy(p, piece)), ("net", exchange.alltoall(piece)), ("in", copy(p, piece))]
        return agreement + pipeline(p, pieces, in_node(p, piece * share), chain, 0)
    chain = [("out", copy(p, slice_)), ("net", exchange.scatter(slice_)), ("in", exchange.reduce(slice_)),
             ("in", copy(p, slice_ / nodes))]
    return agreement + pipeline(p, pieces, in_node(p, piece * share), chain, 0)


def time_of(p, method, collective, nodes, size):
    """Seconds; None where a block would be less than a float."""
    if collective in ("allgather", "alltoall", "reduce_scatter") and size < LEAST_BLOCK * nodes * p.gpus_per_node:
        return None
    if method == "rdma":
        return getattr(gpu_aware_mpi(p, nodes), collective)(size)
    if method == "staged" or size < p.nodes_from or method == "fairlead" and collective in ("alltoall",
                                                                                           "reduce_scatter"):
        return staged(p, collective, nodes, size)
    return hierarchy(p, collective, nodes, size, method == "fairlead")


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
    return f"{value / UNITS[unit]:.7g}{' ' + unit if unit else ''}"


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
    add("--parameters", action="store_true", help="prints the parameters and their sources (Markdown)")
    add("--json", metavar="FILE", help="writes all times; - is the terminal")
    add("-o", "--output", metavar="FOLDER", help="draws a plot of each collective there; needs matplotlib")
    arguments = parser.parse_args(words)
    if arguments.nodes < 2:
        parser.error("--nodes has to be 2 or more")
    if not (arguments.parameters or arguments.json or arguments.output):
        parser.error("nothing to do: give --parameters, --json or -o")
    return arguments


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
    p, counts = Parameters(changes), node_counts(arguments.nodes)
    if arguments.parameters:
        print(parameter_table(p, sources), end="")
    if arguments.json:
        text = json.dumps({"parameters": vars(p), "times": evaluate(p, counts, SIZES)}, indent=1) + "\n"
        if arguments.json == "-":
            print(text, end="")
        else:
            with open(arguments.json, "w", encoding="utf-8") as file:
                file.write(text)
    if arguments.output and not draw(p, counts, SIZES, arguments.output):
        print("no plots: matplotlib is not there")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Refusal, OSError) as refusal:
        print(f"model.py: {refusal}", file=sys.stderr)
        sys.exit(2)
