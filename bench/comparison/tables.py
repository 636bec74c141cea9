# SPDX-License-Identifier: Apache-2.0
"""The tables of a comparison's README.md, in Markdown."""

from __future__ import annotations

from dataclasses import dataclass

from comparison.goals import OWN, ratio_text, row_text
from comparison.measurements import size
from comparison.stages import (COLLECTIVE_CALLS, COLLECTIVES, COST_OF_AGREEMENT, DATATYPES, EVERY_SIZE, NODES,
                               ONE_SIDED, OVERLAP, POINT_TO_POINT)

LARGE = (64 << 10, 1 << 40)
# Yardsticks, as the heads of columns and the legends of plots name them.
TITLES = {"raw": "raw copy", "lines": "copy", "contiguous": "contiguous",
          "driver": "driver's copy", "kernel": "empty kernel", "sendrecv": "MPI_Sendrecv",
          "alone": "MPI alone"}


@dataclass(frozen=True)
class Table:
    heading: str
    plot: str  # that stands above it
    measurement: str
    quantity: str
    divisor: float = 1
    digits: int = 2
    sizes: tuple[int, int] = EVERY_SIZE
    against: tuple[str, ...] = ("peer", "raw")
    rows: str = "size"  # what tells them apart


def windows(call, about):
    """Latency of accesses."""
    return Table(f"{about.capitalize()}, latency (us)", f"{call}.png", call, "latency_us", against=("driver", "peer"))


def streams(call, about):
    return Table(f"{about.capitalize()}, 16 at a time (GB/s)", f"{call}.png", call, "bandwidth_mb_s", 1e3, 2, LARGE,
                 ("driver", "peer"))


def compared_with_alone(measurement):
    """Of what is compared with the host MPI alone. Plots show medians of several sizes."""
    rate, mean = measurement.benchmark[0] in ("bw", "bibw", "mbw_mr"), measurement.id in COST_OF_AGREEMENT
    plot = "" if mean or measurement.sizes[0] == measurement.sizes[1] else f"{measurement.id}.png"
    heading = f"{measurement.about.capitalize()} ({'GB/s' if rate else 'mean, us' if mean else 'us'})"
    return Table(heading, plot, measurement.id, "bandwidth_mb_s" if rate else "mean_us" if mean else "latency_us",
                 1e3 if rate else 1, against=("alone",))


TABLES = {
    POINT_TO_POINT.name: (
        Table("Latency (us)", "latency.png", "latency", "latency_us", sizes=(0, 4 << 20)),
        Table("Bandwidth, window 64 (GB/s)", "bandwidth.png", "bw", "bandwidth_mb_s", 1e3, 2, LARGE),
        Table("Bandwidth both ways, window 64 (GB/s)", "bidirectional.png", "bibw", "bandwidth_mb_s", 1e3, 2, LARGE),
        Table("Message rate, window 64 (millions a second)", "message_rate.png", "bw", "rate", 1e6, 3, (8, 32 << 10)),
    ),
    # Of collectives the first stands beside the plot of both.
    COLLECTIVES.name: tuple(line for c in COLLECTIVE_CALLS for line in (
        Table(f"{c.about.capitalize()}, time (us)", f"{c.id}.png", c.id, "latency_us", against=("peer", "nccl")),
        Table(f"{c.about.capitalize()}, busbw (GB/s)", "", c.id, "busbw_gb_s", 1, 2, LARGE, ("peer", "nccl")))),
    DATATYPES.name: (
        Table("Packing (GB/s)", "pack.png", "pack", "pack_mb_s", 1e3, 2, EVERY_SIZE, ("lines", "peer"), "block"),
        Table("Unpacking (GB/s)", "", "pack", "unpack_mb_s", 1e3, 2, EVERY_SIZE, ("lines", "peer"), "block"),
        Table("Faces of a cube, both ways at once (us)", "halo.png", "halo", "latency_us",
              against=("contiguous", "peer"), rows="face"),
        Table("Messages of datatypes, rate (GB/s)", "", "datatype", "bandwidth_gb_s",
              against=("contiguous",), rows="type"),
        Table("Messages of datatypes, time (us)", "datatype.png", "datatype", "latency_us",
              against=("contiguous", "peer"), rows="type"),
        Table("What the first message of a new type takes longer than the second (us)", "", "datatype", "plan_us",
              against=("peer",), rows="type"),
        Table("The same, of a type of a thousand blocks (us)", "", "first_use", "plan_us", against=("peer",),
              rows="type"),
    ),
    ONE_SIDED.name: (
        windows("put_latency", "put"), windows("get_latency", "get"), windows("acc_latency", "accumulate"),
        Table("Fetch and op (us)", "atomics.png", "fop_latency", "latency_us", against=("kernel", "peer")),
        Table("Compare and swap (us)", "", "cas_latency", "latency_us", against=("kernel", "peer")),
        streams("put_bw", "put"), streams("get_bw", "get"), streams("put_bibw", "put both ways"),
        Table("Borders exchanged in a ring (us)", "put_halo.png", "put_halo", "put_us", against=("sendrecv", "peer")),
    ),
    NODES.name: tuple(compared_with_alone(m) for m in NODES.measurements if m.preload and m.sizes != (0, 0)),
    OVERLAP.name: (
        *(Table(f"{m.about[0].upper()}{m.about[1:].rstrip(',')}, overlap (%)", f"{m.id}.png", m.id, "overlap_percent",
                digits=0, against=("peer",)) for m in OVERLAP.measurements if m.variables),
        Table("First allreduce of the job (us)", "", "first_allreduce", "first_us", digits=0, against=("peer",)),
        *(Table(f"{what} (ms)", "", "init", quantity, against=("alone",), rows="time of")
          for what, quantity in (("MPI_Init", "init_ms"), ("MPI_Init, the driver's start and a context", "total_ms"))),
    ),
}


def table(head, rows, text_columns=1):
    align = ["---" if column < text_columns else "---:" for column in range(len(head))]
    lines = [head, align, *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def of_rows(results, wanted):
    """One row a size, face or type; one column a contender and one for what the benchmark itself compares with; then
    ratios: of each Fairlead to that, and of the first to peer, raw copy and NCCL."""
    measurement, quantity = wanted.measurement, wanted.quantity

    def in_range(values):
        low, high = wanted.sizes
        return {key: value for key, value in values.items() if isinstance(key, str) or low <= key <= high}

    columns = {c.name: in_range(results.values(measurement, c.name, quantity)) for c in results.contenders}
    columns = {name: values for name, values in columns.items() if values or (measurement, name) in results.broken}
    fairleads = [c.name for c in results.of_role("fairlead") if columns.get(c.name)]
    if not fairleads:
        return ""
    first = fairleads[0]
    titles = {c.name: TITLES.get(c.role, c.title) for c in results.contenders}
    keys = list(dict.fromkeys(key for c in results.of_role("fairlead", "peer") for key in columns.get(c.name, {})))
    if wanted.rows == "size":
        keys.sort()

    def numbers(values, broken=False):
        missing = "fails" if broken else ""
        return [f"{values[key] / wanted.divisor:.{wanted.digits}f}" if key in values else missing for key in keys]

    def ratios(values, others):
        return [ratio_text(values[key] / others[key]) if key in values and others.get(key) else "" for key in keys]

    shown = {titles[name]: numbers(values, (measurement, name) in results.broken) for name, values in columns.items()}
    own = next((against for against in wanted.against if against in (*OWN, "alone")), "")
    if own:
        yardsticks = {name: results.yardstick(measurement, quantity, own, name) for name in fairleads}
        heads = {name: f"{name} alone" for name in fairleads} if own == "alone" else {first: TITLES[own]}
        shown.update({head: numbers(yardsticks[name]) for name, head in heads.items()})
        shown.update({f"{name} of {TITLES[own]}": ratios(columns[name], yardsticks[name]) for name in fairleads})
    for other in results.of_role(*wanted.against):
        if columns.get(other.name):
            shown[f"{first} of {titles[other.name]}"] = ratios(columns[first], columns[other.name])
    named = wanted.rows != "size" and isinstance(keys[0], str)
    return table([wanted.rows, *shown], zip([row_text(key) for key in keys], *shown.values()), int(named))


def other_paths(results):
    """Measurements of one size, each beside what it is compared with."""
    rows = []
    for measurement, quantity, unit, label in (("staged", "bandwidth_mb_s", "GB/s", "staged through host memory"),
                                               ("nodes", "bandwidth_mb_s", "GB/s", "between simulated nodes"),
                                               ("nodes_host", "bandwidth_mb_s", "GB/s", "the same, host buffers"),
                                               ("fresh", "latency_us", "us", "latency, new buffers"),
                                               ("latency", "latency_us", "us", "latency, the same buffer")):
        wanted = {b for c in results.contenders for b in results.values("fresh", c.name, quantity)}
        for contender in results.of_role("fairlead", "peer"):
            for number, value in results.values(measurement, contender.name, quantity).items():
                if measurement != "latency" or number in wanted:
                    value = value / 1e3 if unit == "GB/s" else value
                    rows.append([label, contender.title, size(number), f"{value:.2f} {unit}"])
    for contender in results.of_role("raw"):
        for quantity, label in (("device_to_host_mb_s", "copy to pinned host memory"),
                                ("host_to_device_mb_s", "copy from pinned host memory")):
            values = results.values("copy", contender.name, quantity)
            sizes = [b for c in results.contenders for b in results.values("staged", c.name, "bandwidth_mb_s")]
            for number in sorted(set(sizes) & values.keys()):
                rows.append([label, contender.name, size(number), f"{values[number] / 1e3:.2f} GB/s"])
    for name, report in results.overhead.items():
        rows.append(["added to an 8-byte host message", f"Fairlead, {name}", "8 B", f"{report['added_ns']:.1f} ns"])
    return table(["path", "contender", "size", "seen"], rows, 2) if rows else ""


def pairs_table(results):
    keys = sorted({key for rows in results.pairs.values() for key in rows})
    keys = [key for key in keys if key[1] >= 1 << 20] or keys
    if not keys:
        return ""
    titles = {c.name: c.title for c in results.contenders}
    rows = [[stride, size(number), *(f"{rows[stride, number]['bandwidth_mb_s']['mean'] / 1e3:.2f}"
                                     if (stride, number) in rows else "" for rows in results.pairs.values())]
            for stride, number in keys]
    return table(["stride", "size", *(titles[name] for name in results.pairs)], rows, 0)
