# SPDX-License-Identifier: Apache-2.0
"""The runs to draw: files that the benchmarks wrote, read, checked, and each with a label that tells it from others."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field

from failure import usage
from files import parsed, read_text
from quantities import BENCHMARKS, LINES, MEASURED_BY_IT, QUANTITIES, YARDSTICK

ACCEPTED = ("accepted: what `fairlead bench NAME --json FILE`, `fairlead matrix --json FILE` or `fairlead run --stats-file "
            "FILE` wrote, a trace of `fairlead run --trace FILE`, what `fairlead bench pairs` prints, and files of "
            "ghost_exchange")
SCHEMA = 1
GIB = 1 << 30
PAIRS_OPENING = "# pairs: strided parallel pairs"
PAIRS_COLUMNS, PAIRS_TABLE_COLUMNS = 11, 8


@dataclass
class Run:
    file: str
    benchmark: str
    about: dict  # what the file says beside its results
    rows: list[dict]
    label: str = ""
    facts: list[str] = field(default_factory=list)

    @property
    def parts(self):
        """What one run has several lines of: the strides of pairs, the messages of first."""
        return list(dict.fromkeys(row["part"] for row in self.rows if "part" in row))

    def values(self, quantity, part=None):
        """{bytes: Value}, ascending; what is not there, and what has no place on the quantity's axis, is left out."""
        found = {}
        for row in self.rows:
            try:
                value = quantity.of(row)
            except (KeyError, ZeroDivisionError):
                continue
            drawable = all(map(math.isfinite, value)) and (value.middle > 0 or not quantity.logarithmic)
            if row.get("part") == part and drawable:
                found[row["bytes"]] = value
        return dict(sorted(found.items()))


def read_pairs(lines):
    """The rows of a gnuplot file, in the form of the other benchmarks' JSON."""
    rows, stride, columns = [], None, PAIRS_COLUMNS
    for number, line in enumerate(lines, 1):
        if match := re.match(r"# stride between partners: (\d+)$", line):
            stride = int(match[1])
        if line.startswith("# Size"):  # pairs --table
            columns = PAIRS_TABLE_COLUMNS
        if not line.strip() or line.startswith("#"):
            continue
        try:
            words = [float(word) for word in line.split()]
        except ValueError:
            words = []
        if stride is None or len(words) != columns:
            raise usage(f"line {number} is no row of `fairlead bench pairs`: '{line[:40]}'")
        if columns == PAIRS_TABLE_COLUMNS:
            keys = "mean", "min", "max"
            rows.append({"part": stride, "bytes": int(words[0]), "latency_us": dict(zip(keys, words[1:4])),
                         "bandwidth_mb_s": dict(zip(keys, words[4:7]))})
            continue
        longs, time, bandwidth = words[1], words[2:5], words[5:8]
        rows.append({"part": stride, "bytes": int(longs) * 8,
                     "latency_us": dict(zip(("max", "mean", "min"), time)),
                     "bandwidth_mb_s": dict(zip(("min", "mean", "max"), (GIB / 1e6 * b for b in bandwidth)))})
    return rows


def read_json(file):
    """(text, the JSON in it or None)."""
    text = read_text(file, ACCEPTED)
    about = parsed(text)
    schema = about.get("schema", SCHEMA) if isinstance(about, dict) else SCHEMA
    if schema != SCHEMA:
        raise usage(f"{file} has schema {schema!r}, and this `fairlead plot` reads {SCHEMA}; draw it with the release that "
                    "wrote it")
    return text, about


def read_alone(files, what, is_it):
    """What the only file says, where it is of this kind; else None."""
    for file, (_, about) in [(file, read_json(file)) for file in files]:
        if isinstance(about, dict) and is_it(about):
            if len(files) > 1:
                raise usage(f"{file} is of {what}, of which one picture draws one file; call fairlead plot for each")
            return about
    return None


def read_matrix(files):
    return read_alone(files, "matrix", lambda about: about.get("benchmark") == "matrix")


def read_run(file):
    text, about = read_json(file)
    if text.startswith(PAIRS_OPENING):
        lines = text.splitlines()
        header = [line[2:] for line in lines if line.startswith("# ")]
        return checked(Run(file, "pairs", {"header": header}, read_pairs(lines)))
    if about is None:
        raise usage(f"{file} is neither JSON nor pairs' data; {ACCEPTED}")
    if isinstance(about, dict) and "checks" in about and "conclusion" in about:
        raise usage(f"{file} is what `fairlead doctor --json` wrote, which has nothing to draw; {ACCEPTED}")
    name = about.get("benchmark") if isinstance(about, dict) else None
    if name in ("barrier", "ibarrier", "barrier_persistent", "init", "host_overhead"):
        raise usage(f"{file} is of {name}, which has one value and no sizes to draw it against")
    if not isinstance(name, str) or name not in BENCHMARKS:
        raise usage(f"{file} holds {'no benchmark' if name is None else f'benchmark {name!r}'}; {ACCEPTED}")
    rows = about.pop("results", None)
    if isinstance(rows, list) and name in BENCHMARKS and (names := BENCHMARKS[name].names):  # the place stands for the name
        found = [(row, row.get(BENCHMARKS[name].size)) for row in rows if isinstance(row, dict)]
        rows = [{**row, "bytes": names.index(which) + 1} for row, which in found if which in names]
    if name in LINES and isinstance(rows, list):
        quantity, lines = LINES[name]
        rows = [{"part": part, "bytes": row["bytes"], quantity: row[key]} for row in rows if isinstance(row, dict)
                for key, part in lines.items() if key in row and "bytes" in row]
    return checked(Run(file, name, about, rows))


def checked(run):
    """A file that was cut short or edited is refused here, not in the middle of drawing."""
    if not isinstance(run.rows, list) or not run.rows:
        raise usage(f"{run.file} holds no results; {ACCEPTED}")
    try:
        if not all(isinstance(row["bytes"], int) and row["bytes"] > 0 for row in run.rows):
            raise ValueError
        if not any(run.values(QUANTITIES[name], part) for name in BENCHMARKS[run.benchmark].quantities
                   for part in run.parts or [None]):
            raise ValueError
        run.facts = facts(run.about)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise usage(f"{run.file} has results that `fairlead bench {run.benchmark}` does not write; {ACCEPTED}") from None
    return run


def common_benchmark(runs):
    """The one that all are of; a copy counts as what it is compared with."""
    names = dict.fromkeys(run.benchmark for run in runs)
    others = [name for name in names if name != YARDSTICK] or [YARDSTICK]
    if len(others) == 1 and (len(names) == 1 or others[0] in MEASURED_BY_IT):
        return others[0]
    first = runs[0]
    other = next(run for run in runs if run.benchmark != first.benchmark)
    raise usage(f"{first.file} is of {first.benchmark} and {other.file} of {other.benchmark}; one picture draws one "
                f"benchmark (copy may stand beside {', '.join(MEASURED_BY_IT)}); call fairlead plot for each")


def mpi_name(about):
    """Open MPI 5.0.11, MPICH 4.0.2: the version strings of the MPIs say more, each in its way."""
    library = about.get("mpi", {}).get("library", "")
    return re.sub(r"\s+", " ", re.sub(r"\bv(?=\d)|\bVersion:|[,;].*", "", library)).strip()


def name_of(run):
    about, via = run.about, run.about.get("via", "MPI")
    if run.benchmark == "pairs":
        return os.path.splitext(os.path.basename(run.file))[0]
    if via != "MPI":
        return via
    mpi = mpi_name(about) or "MPI"
    return f"Fairlead on {mpi}" if about.get("preloaded") else mpi


def placement(about):
    words = {"D": "device", "H": "host", "M": "managed"}
    return " to ".join(words.get(letter, letter) for letter in about.get("placement", []))


def variant(about):
    """What options made of the benchmark."""
    words = [f"{about[name]} {name}" for name in ("partitions", "threads") if name in about]
    words += [f"offset {about['offset']}"] if "offset" in about else []
    words += [f"by {about['probe']}"] if "probe" in about else []
    return ", ".join(words + ["new buffers"] * bool(about.get("fresh")))


def hardware(about):
    """One line each: GPUs, driver, processor."""
    machine, provider = about.get("hardware", {}), about.get("provider", "none")
    gpus = machine.get("gpus", [])
    lines = [f"{gpus.count(name)} × {name}" for name in dict.fromkeys(gpus)]
    if provider == "sim":
        lines = [f"{len(gpus)} simulated GPU{'s' * (len(gpus) != 1)}, whose timings are not valid"]
    driver = about.get("driver")
    if driver and provider == "cuda":
        lines.append(f"CUDA {driver // 1000}.{driver % 1000 // 10}")
    if driver and provider == "rocm":
        lines.append(f"ROCm {driver // 10_000_000}.{driver // 100_000 % 100}")
    if machine.get("cpu"):
        memory = f"{machine['memory_bytes'] / GIB:.0f} GiB"
        lines.append(f"{machine['cpu']} ({machine['logical_cpus']} logical CPUs, {memory})")
    return lines


def facts(about):
    """What the caption says of a run beside its command, most telling first."""
    lines = hardware(about)
    if "header" in about:
        return lines + pairs_facts(about["header"])
    lines += [mpi_name(about), about.get("via", "MPI").replace("MPI", "")]
    if "fairlead" in about:
        lines.append(f"Fairlead {about['fairlead']}")
    if about.get("mpi", {}).get("abi"):
        lines.append("Fairlead loaded" if about.get("preloaded") else "Fairlead not loaded")
        lines.append(f"{about['ranks']} ranks")
    lines += [placement(about), variant(about), about.get("date", "")[:10]]
    return [line for line in lines if line]


def pairs_facts(header):
    ranks = [line.split()[1] for line in header if re.match(r"\d+: \S", line)]
    hosts = list(dict.fromkeys(ranks))
    where = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"
    lines = [f"{len(ranks)} ranks on {where}"] if ranks else []
    return lines + [line for line in header if re.match(r"(allocator|total count|total size): ", line)]


def label(runs, given):
    """Each run gets the label that was given, or its MPI and as much more as tells it from the others."""
    if given and len(given) != len(runs):
        raise usage(f"--label: {len(given)} given for {len(runs)} file{'s' * (len(runs) != 1)}; accepted: one for each "
                    "file, in their order")
    for run, text in zip(runs, given or map(name_of, runs)):
        run.label = text
    if given:
        return
    for telling in (lambda run: placement(run.about), lambda run: variant(run.about), lambda run: f"{run.about.get('ranks')} ranks",
                    lambda run: ", ".join(hardware(run.about)[:1]), lambda run: os.path.basename(run.file),
                    lambda run: run.file):
        for text in {run.label for run in runs}:
            alike = [run for run in runs if run.label == text]
            if len({telling(run) for run in alike}) > 1:
                for run in alike:
                    run.label = ", ".join(filter(None, (text, telling(run))))


def read_runs(files, labels):
    runs = [read_run(file) for file in files]
    benchmark = common_benchmark(runs)
    label(runs, labels)
    return benchmark, runs
