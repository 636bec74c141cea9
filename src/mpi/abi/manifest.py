# SPDX-License-Identifier: Apache-2.0
"""The manifest src/mpi/abi/functions.def: its rows, and the C functions that each stands for.

A mistake in it raises Mistake, which names the line and what is accepted there.
"""

import re
from dataclasses import dataclass
from pathlib import Path

MANIFEST = Path(__file__).resolve().parent / "functions.def"

CALLS = ("blocks", "starts", "local")
ACTIONS = {  # action: its words in docs/reference/coverage.md
    "accelerate": "handled",
    "block": "takes none",
    "forward": "passed on",
}
# The manifest's own type words: what they mean in the ordinary and in the large-count form.
TYPE_WORDS = {
    "buffer": ("void", "void"),
    "count": ("int", "MPI_Count"),
    "displ": ("int", "MPI_Aint"),
    "extent": ("MPI_Aint", "MPI_Count"),
}
# What a wrapper may do besides (functions.def explains each).
WORDS = ("begins_session", "ends_session", "spawns", "duplicates", "memory_kinds", "forgets_kinds", "tells_kinds",
         "info_env", "tells_gpus", "detaches", "names", "pointer")
# With one of these, the generated wrapper is all that Fairlead does in the function.
TELLING_WORDS = ("tells_kinds", "info_env", "tells_gpus")
# Types that older headers lack, and the condition under which a header declares them.
TYPE_GUARDS = {"MPI_Session": "MPI_VERSION >= 4 || defined(OPEN_MPI)"}  # real.h declares Open MPI's
# Functions of MPI 4.1 that are nothing without the host's: programs that look for them by weak references, as mpi4py
# does, would take ours for the host's.
GUARDS_41 = dict.fromkeys(
    ("Comm_attach_buffer", "Comm_detach_buffer", "Comm_flush_buffer",
     "Session_attach_buffer", "Session_detach_buffer", "Session_flush_buffer"),
    "MPI_VERSION * 10 + MPI_SUBVERSION >= 41")
# Functions of no standard by which MPIs tell whether they take device memory (mpi/job/gpu_queries.cpp).
GPU_QUERIES = ("GPU_query_support", "Query_cuda_support", "Query_hip_support", "Query_rocm_support",
               "Query_ze_support")
# Functions of ULFM that block (mpi/job/failure_calls.cpp).
FAILURE_FUNCTIONS = ("Comm_agree", "Comm_shrink")
# What mpi/stream and mpi/p2p/partitioned.cpp define, without "MPIX_".
STREAM_FUNCTIONS = (
    "Stream_create", "Stream_free", "Stream_comm_create", "Stream_comm_create_multiplex", "Comm_get_stream",
    "Stream_progress", "Request_is_complete", "Start_progress_thread", "Stop_progress_thread",
    "Info_set_hex", "Prequest_create", "Prequest_free", "Pready_enqueue",
    "Pready_range_enqueue", "Parrived_enqueue",
    *(f"{name}_enqueue_c" for name in ("Send", "Recv", "Isend", "Irecv", "Allreduce")),
    *(f"{name}_enqueue" for name in (
        "Send", "Recv", "Isend", "Irecv", "Wait", "Waitall", "Sendrecv", "Start", "Barrier", "Bcast", "Reduce", "Allreduce",
        "Reduce_scatter", "Reduce_scatter_block", "Allgather", "Alltoall", "Alltoallv",
        "Neighbor_allgather", "Neighbor_alltoall", "Neighbor_alltoallv", "Neighbor_alltoallw", "Put", "Get", "Accumulate",
        "Win_flush", "Win_flush_all")))

# Of MPICH alone (mpi/stream/stream_messages.cpp).
STREAM_MESSAGES = tuple(f"Stream_{name}{form}" for name in ("send", "isend", "recv", "irecv") for form in ("", "_c"))

ROW = re.compile(
    r"(?P<name>\w+)\s+(?P<family>\w+)\s+(?P<call>\w+)\s+(?P<action>\w+)\s+(?P<large_action>\w+|-)\s+"
    r"(?P<since>\d\.\d)\s+(?P<fortran>handled|host)\s+(?:\{(?P<words>[\w ]+)\}\s+)?\((?P<parameters>[^()]*)\)(?:\s+#\s*(?P<note>.*))?"
)
PARAMETER = re.compile(r"(?P<const>const )?(?P<type>\w+)(?P<stars>\**) (?P<name>\w+)(?P<array>\[\])?")


class Mistake(Exception):
    """A row that makes no sense."""


@dataclass(frozen=True)
class Parameter:
    const: str
    type: str
    stars: str
    name: str
    array: str

    def declare(self, large):
        c_type = TYPE_WORDS.get(self.type, (self.type, self.type))[large]
        return f"{self.const}{c_type}{self.stars} {self.name}{self.array}"


@dataclass(frozen=True)
class Row:
    chapter: str
    name: str
    family: str
    call: str
    action: str
    large_action: str
    since: str
    fortran: str
    words: tuple
    parameters: tuple
    note: str

    def forms(self):
        yield Form(self, self.name, self.action, large=False)
        if self.large_action != "-":
            yield Form(self, self.name + "_c", self.large_action, large=True)


@dataclass(frozen=True)
class Form:
    """One C function: a row's ordinary or its large-count form."""

    row: Row
    name: str
    action: str
    large: bool

    @property
    def guard(self):
        """The preprocessor condition under which this function is there, or None."""
        of_types = (TYPE_GUARDS[p.type] for p in self.row.parameters if p.type in TYPE_GUARDS)
        return GUARDS_41.get(self.row.name) or next(of_types, None)

    @property
    def is_wrapped(self):
        """Does a generated wrapper call the host MPI with the program's arguments?"""
        return self.action == "block" or any(word in TELLING_WORDS for word in self.row.words)

    def declarations(self):
        return ", ".join(p.declare(self.large) for p in self.row.parameters)

    def buffers(self):
        return [p.name for p in self.row.parameters if p.type == "buffer"]


def parse_parameters(text):
    parts = text.split(", ") if text != "void" else []
    for part in parts:
        if not PARAMETER.fullmatch(part):
            raise Mistake(f"cannot read parameter '{part}'; accepted: like 'const count* a' or 'int b[]'")
    return tuple(Parameter(**PARAMETER.fullmatch(part).groupdict(default="")) for part in parts)


def parse_row(line, chapter):
    match = ROW.fullmatch(line)
    if not match:
        raise Mistake("expected: name family call C _c MPI Fortran [{words}] (parameters) [# note]")
    fields = match.groupdict(default="")
    fields["parameters"] = parse_parameters(fields["parameters"])
    fields["words"] = tuple(fields["words"].split())
    row = Row(chapter, **fields)
    if row.call not in CALLS:
        raise Mistake(f"unknown call '{row.call}'; accepted: {', '.join(CALLS)}")
    for word in row.words:
        if word not in WORDS:
            raise Mistake(f"unknown word '{word}'; accepted: {', '.join(WORDS)}")
    for form in row.forms():
        if form.action not in ACTIONS:
            raise Mistake(f"unknown action '{form.action}'; accepted: {', '.join(ACTIONS)}")
        if form.action != "accelerate" and form.buffers():
            raise Mistake(f"{row.name} takes a buffer, so it needs 'accelerate'")
        # One that starts to make a communicator, or moves a file pointer, waits for its turn, which is enough.
        if (form.action == "block" and row.call != "blocks" and row.family != "communicator"
                and "pointer" not in row.words):
            raise Mistake(f"{row.name} does not block, so its action cannot be block")
    if row.fortran == "handled" and row.action == "forward":
        raise Mistake(f"{row.name} is passed on in C, so Fortran is left to the host MPI, too")
    widening = any(len(set(TYPE_WORDS.get(p.type, "="))) == 2 for p in row.parameters)
    if widening != (row.large_action != "-"):
        raise Mistake(f"{row.name}: a _c action and a parameter of type count, displ or extent come together")
    return row


def read_manifest(path):
    rows, names, chapter = [], set(), None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            chapter = line.strip("[]")
            continue
        try:
            if chapter is None:
                raise Mistake("a row before the first [chapter]")
            row = parse_row(line, chapter)
            if row.name in names:
                raise Mistake(f"{row.name} has a row already")
        except Mistake as mistake:
            raise Mistake(f"{path.name}:{number}: {mistake}") from None
        names.add(row.name)
        rows.append(row)
    return rows
