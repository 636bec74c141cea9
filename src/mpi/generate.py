#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what follows from the manifest src/mpi/functions.def: src/mpi/generated/* and docs/coverage.md.

The output is committed, so that a build needs no Python. With --check nothing is written; the exit code is
1 if a file is not what the manifest says. A mistake in the manifest is named by its line; exit code 2.
"""

import argparse
import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "src/mpi/functions.def"
WIDTH = 110

CALLS = ("blocks", "starts", "local")
ACTIONS = {  # action: its words in docs/coverage.md
    "accelerate": "handled",
    "refuse": "MPI error",
    "park": "takes none",
    "forward": "passed on",
}
# The manifest's own type words: what they mean in the ordinary and in the large-count form.
TYPE_WORDS = {
    "buffer": ("void", "void"),
    "count": ("int", "MPI_Count"),
    "displ": ("int", "MPI_Aint"),
    "extent": ("MPI_Aint", "MPI_Count"),
}
# Types that older headers lack, and the condition under which a header declares them.
TYPE_GUARDS = {"MPI_Session": "MPI_VERSION >= 4"}
# Functions of MPI 4.1 that are nothing without the host's: programs that look for them by weak references, as mpi4py
# does, would take ours for the host's.
GUARDS_41 = dict.fromkeys(
    ("Comm_attach_buffer", "Comm_detach_buffer", "Comm_flush_buffer",
     "Session_attach_buffer", "Session_detach_buffer", "Session_flush_buffer"),
    "MPI_VERSION * 10 + MPI_SUBVERSION >= 41")
# Where an error is raised: at the first handle of these types, else at MPI_COMM_SELF as MPI says. They are
# not overloads because all handles are int in MPICH.
REFUSALS = {"MPI_Comm": "refuse", "MPI_Win": "refuse_window", "MPI_File": "refuse_file"}

ROW = re.compile(
    r"(?P<name>\w+)\s+(?P<family>\w+)\s+(?P<call>\w+)\s+(?P<action>\w+)\s+(?P<large_action>\w+|-)\s+"
    r"(?P<since>\d\.\d)\s+(?P<fortran>handled|host)\s+\((?P<parameters>[^()]*)\)(?:\s+#\s*(?P<note>.*))?"
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
        return GUARDS_41.get(self.row.name) or next((TYPE_GUARDS[p.type] for p in self.row.parameters if p.type in TYPE_GUARDS), None)

    def declarations(self):
        return ", ".join(p.declare(self.large) for p in self.row.parameters)

    def buffers(self):
        return [p.name for p in self.row.parameters if p.type == "buffer"]

    def refusal(self, value=lambda p: p.name):
        """The call that raises the error of a device buffer."""
        handles = {p.type: p for p in self.row.parameters if p.type in REFUSALS and not p.stars}
        wanted = next((type for type in REFUSALS if type in handles), None)
        place = value(handles[wanted]) if wanted else "MPI_COMM_SELF"
        return f"{REFUSALS[wanted or 'MPI_Comm']}(Function::{self.name}, {place})"


def parse_parameters(text):
    parts = text.split(", ") if text != "void" else []
    for part in parts:
        if not PARAMETER.fullmatch(part):
            raise Mistake(f"cannot read parameter '{part}'; accepted: like 'const count* a' or 'int b[]'")
    return tuple(Parameter(**PARAMETER.fullmatch(part).groupdict(default="")) for part in parts)


def parse_row(line, chapter):
    match = ROW.fullmatch(line)
    if not match:
        raise Mistake("expected: name family call C _c MPI Fortran (parameters) [# note]")
    fields = match.groupdict(default="")
    fields["parameters"] = parse_parameters(fields["parameters"])
    row = Row(chapter, **fields)
    if row.call not in CALLS:
        raise Mistake(f"unknown call '{row.call}'; accepted: {', '.join(CALLS)}")
    for form in row.forms():
        if form.action not in ACTIONS:
            raise Mistake(f"unknown action '{form.action}'; accepted: {', '.join(ACTIONS)}")
        if form.action == "refuse" and not form.buffers():
            raise Mistake(f"{row.name} has no parameter of type 'buffer' whose device memory it could refuse")
        if form.action in ("park", "forward") and form.buffers():
            raise Mistake(f"{row.name} takes a buffer, so it needs 'refuse' or 'accelerate'")
        # One that starts to make a communicator waits for its turn, which is enough.
        if form.action == "park" and row.call != "blocks" and row.family != "communicator":
            raise Mistake(f"{row.name} does not block, so it has no reason to park")
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


def wrap(text, indent="    "):
    """Breaks a line of C between parameters and operands, never inside a declaration."""
    glued = re.sub(r"(?<!,)(?<!\|\|) ", "\0", text)
    return textwrap.fill(glued, WIDTH, subsequent_indent=indent, break_on_hyphens=False).replace("\0", " ")


def guarded(form, text):
    return f"#if {form.guard}\n{text}\n#endif" if form.guard else text


def opening(comment, what):
    return [f"{comment} SPDX-License-Identifier: Apache-2.0", comment, f"{comment} {what}",
            f"{comment} Generated by src/mpi/generate.py from src/mpi/functions.def; do not edit.", ""]


def function_ids(forms):
    what = "FAIRLEAD_FUNCTION(name) for every function of the manifest; by itself, a list of enumerators."
    return [*opening("//", what),
            "#ifndef FAIRLEAD_FUNCTION", "#define FAIRLEAD_FUNCTION(name) name,", "#endif",
            *(f"FAIRLEAD_FUNCTION({form.name})" for form in forms), "#undef FAIRLEAD_FUNCTION"]


def real_slots(forms):
    def member(form):
        return wrap(f"Slot<Function::{form.name}, int({form.declarations()})> {form.name};")

    return [*opening("//", "The members of struct Real: a slot for every function, with its signature."),
            "// clang-format off", *(guarded(form, member(form)) for form in forms), "// clang-format on"]


def wrapper(form):
    arguments = ", ".join(p.name for p in form.row.parameters)
    forward = f"return real.{form.name}({arguments});"
    body = [f"CallRecord record(Function::{form.name});", f"if (!watching()) {forward}"]
    if form.action == "refuse":
        body.append(f"if ({device_buffer(form)}) return {form.refusal()};")
    before, after = around(form, lambda p: f"{p.stars}{p.name}")
    if form.row.name == "Buffer_detach":
        after.append("give_back_send_buffer(buffer_addr);")
    body += before
    if after:
        body.append(f"int result = real.{form.name}({arguments});")
        body += [f"if (result == MPI_SUCCESS) {statement}" for statement in after]
        body.append("return result;")
    else:
        body.append(forward)
    head = wrap(f'extern "C" FAIRLEAD_EXPORT int MPI_{form.name}({form.declarations() or "void"}) {{')
    return "\n".join(["", head, *(wrap("  " + line, " " * 6) for line in body), "}"])


def device_buffer(form):
    return " || ".join(f"is_device({name})" for name in form.buffers())


def around(form, value):
    """What is done before and after a call of the host MPI; `value` reads the handle of a parameter."""
    before = []
    if form.row.call == "blocks" or form.row.family == "communicator":
        before += [f"await_turn({value(p)});" for p in form.row.parameters if p.type == "MPI_Comm" and not p.stars]
    if form.row.call == "blocks":
        before += [f"gather_before({value(p)});" for p in form.row.parameters
                   if p.type == "MPI_Comm" and p.name == "comm" and not p.stars]
        before.append("Parked parked;")
    # The members of a new communicator agree at once where its collectives meet; those of one that a nonblocking
    # call makes find it by what it is a duplicate of.
    if form.row.name in ("Comm_idup", "Comm_idup_with_info"):
        before.append(f"Duplicating duplicating({value(form.row.parameters[0])});")
    made = [p for p in form.row.parameters if p.type == "MPI_Comm" and p.stars and p.name != "comm"]
    after = [f"meet_on({value(made[0])});"] if made and form.row.call == "blocks" else []
    if form.name in TAKING_MEMORY_KINDS:
        of = made[0] if made else next(p for p in form.row.parameters if p.name == "comm")
        info = next(p for p in form.row.parameters if p.name == "info")
        after.append(f"note_memory_kinds({value(of)}, {value(info)});")
    return before, after


# Their info may say which kinds of memory the collectives of the communicator bring.
TAKING_MEMORY_KINDS = ("Comm_set_info", "Comm_dup_with_info", "Comm_split_type")
# Functions of these families hand their arguments to src/mpi/collective.h by one pattern.
COLLECTIVE_FAMILIES = ("collective", "neighborhood")
# Parameters of a collective: the fields of CollectiveCall they are.
FIELDS = {"buffer": ["recvbuf"], "count": ["sendcount", "recvcount"], "datatype": ["sendtype", "recvtype"]}


def array_length(p, row):
    """How many elements an array of counts, displacements or types of a collective has, in C."""
    sends = p.name in ("sendcounts", "sdispls", "sendtypes")
    if row.family == "neighborhood":
        return "destinations_of(comm)" if sends else "sources_of(comm)"
    if "reduce_scatter" in row.name.lower():
        return "members_of(comm)"
    if any(q.name == "root" for q in row.parameters):
        return "peers_at_root(root, comm)"
    return "sendbuf == MPI_IN_PLACE ? 0 : peers_of(comm)" if sends else "peers_of(comm)"


def is_collective(form):
    return (form.row.family in COLLECTIVE_FAMILIES and form.action == "accelerate"
            and any(p.name == "comm" for p in form.row.parameters))


def collective(form):
    name = form.row.name.removesuffix("_init")
    persistent, starts = name != form.row.name, form.row.call == "starts"
    function = name.lower()[1:] if starts else name.lower()
    fields = [f"CollectiveCall call{{Collective::{function}, comm}};"]
    passed = []
    arrays = {}
    for p in form.row.parameters:
        passed.append("recvbuf" if p.name == "buffer" else p.name)
        if p.name in ("comm", "request", "info"):
            continue
        names = FIELDS.get(p.name, [p.name])
        if p.name == "displs":
            names = ["sdispls" if function == "scatterv" else "rdispls"]
        if function in ("bcast", "reduce_scatter_block"):
            names = {"count": ["recvcount"], "datatype": ["recvtype"],
                     "recvcount": ["sendcount", "recvcount"]}.get(p.name, names)
        if function == "reduce_scatter_block" and p.name == "datatype":
            names = ["sendtype", "recvtype"]
        if function == "reduce_scatter" and p.name == "datatype":
            names = ["sendtype", "recvtype"]
        fields += [f"call.{field} = {p.name};" for field in names]
        if p.array:
            word = TYPE_WORDS.get(p.type, (p.type, p.type))[form.large]
            arrays[p.name] = f"call.{names[0]}" + ("" if p.type == "MPI_Datatype" else f".as<{word}>()")
    verb = "init_collective" if persistent else "start_collective" if starts else "collective"
    request = ", MPI_Request* request" if persistent or starts else ""
    head = wrap(f'extern "C" FAIRLEAD_EXPORT int MPI_{form.name}({form.declarations()}) {{')
    arguments = ", ".join(p.name for p in form.row.parameters)
    in_host = form.name
    if persistent:
        # Each start is a call of the nonblocking form.
        in_host = "I" + name[0].lower() + name[1:] + ("_c" if form.large else "")
        passed.remove("info")
    given = ""
    if request:
        # The arrays are the call's, which may be copies.
        given = f"const CollectiveCall&{' call' if arrays else ''}, MPI_Comm comm, "
        passed = [arrays.get(word, word) for word in passed]
    buffers = " ".join(["const void*", *(["sendbuf"] if "sendbuf" in passed else [])])
    buffers += ", " + " ".join(["void*", *(["recvbuf"] if "recvbuf" in passed else [])])
    call = f"return {verb}(call{', request' if request else ''}, [=]({given}{buffers}{request}) {{"
    body = [f"CallRecord record(Function::{form.name});",
            f"if (!watching()) return real.{form.name}({arguments});", *fields, call,
            f"  return real.{in_host}({', '.join(passed)});", "});"]
    return "\n".join(["", head, *(wrap("  " + line, " " * 6) for line in body), "}"])


def collectives(forms):
    what = "The collective functions: each names its arguments and how the host MPI is called."
    return [*opening("//", what), '#include "mpi/collective.h"', '#include "mpi/kept_arrays.h"',
            '#include "mpi/record.h"', "", "using namespace fairlead::mpi;", "",
            "// clang-format off",
            *(guarded(form, collective(form)) for form in forms if is_collective(form))]


# One-sided accesses hand their arguments to src/mpi/window_access.h by one pattern.
ACCESS_KINDS = {"put": "put", "get": "get", "accumulate": "accumulate", "get_accumulate": "fetch",
                "fetch_and_op": "fetch", "compare_and_swap": "compare_and_swap"}


def is_access(form):
    return form.row.family == "rma" and form.buffers() and form.action == "accelerate"


def access(form):
    name = form.row.name
    function = name[1:] if form.row.call == "starts" else name.lower()
    names = [p.name for p in form.row.parameters]
    fields = [f"AccessCall call{{AccessKind::{ACCESS_KINDS[function]}, win}};"]
    # What a function has one parameter for.
    also = {"datatype": ["target_datatype"]}
    if function == "get":
        also |= {f"origin_{part}": [f"result_{part}"] for part in ("addr", "count", "datatype")}
    for p in form.row.parameters:
        if p.name in ("win", "datatype"):
            continue
        fields += [f"call.{field} = {p.name};" for field in also.get(p.name, [p.name])]
    if "datatype" in names:
        fields.append("call.origin_count = call.result_count = call.target_count = 1;")
        fields.append("call.origin_datatype = call.result_datatype = call.target_datatype = datatype;")
    head = wrap(f'extern "C" FAIRLEAD_EXPORT int MPI_{form.name}({form.declarations()}) {{')
    arguments = ", ".join(names)
    written = "origin_addr" if function == "get" else "result_addr"
    inner = [f"const void*{' origin_addr' if 'origin_addr' in names and function != 'get' else ''}",
             f"const void*{' compare_addr' if 'compare_addr' in names else ''}",
             f"void*{' ' + written if written in names else ''}",
             f"MPI_Request*{' request' if 'request' in names else ''}"]
    recorded = "1, datatype" if "datatype" in names else "target_count, target_datatype"
    body = [f"CallRecord record(Function::{form.name});", f"record.add_bytes({recorded});",
            f"if (!watching()) return real.{form.name}({arguments});", *fields,
            f"return one_sided(call, [=]({', '.join(inner)}) {{", f"  return real.{form.name}({arguments});", "});"]
    return "\n".join(["", head, *(wrap("  " + line, " " * 6) for line in body), "}"])


def one_sided(forms):
    what = "The one-sided accesses: each names its arguments and how the host MPI is called."
    return [*opening("//", what), '#include "mpi/front.h"', '#include "mpi/record.h"',
            '#include "mpi/window_access.h"', "", "using namespace fairlead::mpi;", "", "// clang-format off",
            *(guarded(form, access(form)) for form in forms if is_access(form))]


def wrappers(forms):
    what = "The MPI functions that refuse device buffers, or park this rank while they block."
    return [*opening("//", what),
            '#include "mpi/between_nodes.h"', '#include "mpi/front.h"', '#include "mpi/real.h"',
            '#include "mpi/record.h"', '#include "mpi/send_buffer.h"', '#include "mpi/window_gather.h"', "",
            "using namespace fairlead::mpi;", "", "// clang-format off",
            *(guarded(form, wrapper(form)) for form in forms if form.action in ("refuse", "park"))]


def narrow_value(p, row):
    """What the ordinary form is given for a parameter of the large-count form."""
    small, large = TYPE_WORDS.get(p.type, (p.type, p.type))
    if small == large:
        return p.name
    if p.stars:
        return f"narrow_place<{small}>({p.name})"
    if not p.array:
        return f"narrow({p.name})" if small == "int" else f"static_cast<{small}>({p.name})"
    array = f"NarrowArray({p.name}, {array_length(p, row)})"
    return f"{array}.keep()" if any(q.name == "request" for q in row.parameters) else array


def narrow_function(form):
    names = {p.name for p in form.row.parameters}
    # One buffer of a message.
    elements = {"count", "datatype"} <= names and names & {"dest", "source", "message"}
    narrow = {"count": "elements.count()", "datatype": "elements.datatype()"} if elements else {}
    arguments = ", ".join(narrow.get(p.name) or narrow_value(p, form.row) for p in form.row.parameters)
    head = wrap(f"int {form.name}({form.declarations()}) try {{")
    made = ["  const NarrowElements elements(count, datatype);"] if elements else []
    call = wrap(f"  return real.{form.row.name}({arguments});", " " * 6)
    return "\n".join([head, *made, call, "} catch (const TooLarge&) {",
                      f"  return detail::report_missing(Function::{form.name});", "}"])


def narrowed(forms):
    def case(form):
        return "\n".join([f"    case Function::{form.name}:", f"      return available(Function::{form.row.name}) ? "
                          f"reinterpret_cast<void*>(&{form.name}) : nullptr;"])

    large = [form for form in forms if form.large]
    return [*opening("//", "The large-count functions by their ordinary forms, for host MPIs that lack them."),
            '#include "mpi/narrow.h"', "", "// clang-format off",
            "namespace fairlead::mpi {", "namespace {", "",
            *(guarded(form, narrow_function(form)) for form in large),
            "", "}  // namespace", "", "void* detail::narrowed(Function function) {", "  switch (function) {",
            *(guarded(form, case(form)) for form in large),
            "    default:", "      return made_of_older(function);", "  }", "}", "", "}  // namespace fairlead::mpi"]


# The Fortran entry points. Handles by the type of their parameter: their names in src/mpi/fortran.h.
FORTRAN_HANDLES = {"MPI_Comm": "Comm", "MPI_Datatype": "Datatype", "MPI_File": "File", "MPI_Group": "Group",
                   "MPI_Info": "Info",
                   "MPI_Message": "Message", "MPI_Op": "Op", "MPI_Request": "Request", "MPI_Win": "Win"}
ADDRESS_INTEGERS = ("MPI_Aint", "MPI_Count", "MPI_Offset")
# Numbers that Fortran has in another form than C.
FORTRAN_NUMBERS = {"flag": "Logical(flag)", "index": "Index(index)",
                   "array_of_indices": "Indices(array_of_indices, outcount)"}
# What they tell is an address in C and a number in Fortran, which no host MPI's Fortran gets from a C function of ours.
FORTRAN_ATTRIBUTES = ("Win_get_attr",)
# These must be seen whether the job is watched or not.
JOB_FUNCTIONS = ("Init", "Init_thread", "Finalize")
FORTRAN_LACKS = dict.fromkeys(JOB_FUNCTIONS, ("argc", "argv"))


def fortran_declaration(p):
    if p.type in ("buffer", "void", "char"):
        return f"void* {p.name}"
    c_type = TYPE_WORDS.get(p.type, (p.type,))[0]
    return f"{c_type if c_type in ADDRESS_INTEGERS else 'Integer'}* {p.name}"


def fortran_value(p, row):
    """What our C function is given for a parameter."""
    handle = FORTRAN_HANDLES.get(p.type)
    if p.type == "buffer":
        return f"choice({p.name})"
    if p.type == "char":
        return f"Text({p.name}, length_of_{p.name})"
    if p.type == "MPI_Status":
        return f"Statuses({p.name}, *{row.parameters[0].name})" if p.array else f"Status({p.name})"
    if p.type == "MPI_Request" and p.array:
        return f"{'' if p.const else 'Changed'}Requests({p.name}, *{row.parameters[0].name})"
    if p.type == "MPI_Datatype" and p.array:
        side = "send" if p.name == "sendtypes" else "recv"
        peers = "ranks" if row.family == "collective" else "destinations" if side == "send" else "sources"
        return f"kept_types({p.name}, {side}buf, comm, Peers::{peers})"
    if handle and p.stars:
        made = (row.family == "probe" if p.type == "MPI_Message"
                else p.type in ("MPI_Request", "MPI_Win") and p != row.parameters[0])
        return f"Made{handle}({p.name})" if made else f"Changed<{handle}>({p.name})"
    if handle:
        return f"{handle}::from({p.name})"
    if p.stars or p.array:
        return p.name if p.const else FORTRAN_NUMBERS.get(p.name, p.name)
    return f"*{p.name}"


def fortran_calls(form):
    """Our C function, by a name of its own where the header at hand may not declare it, or not alike."""
    return f"fairlead_{form.name.lower()}" if form.row.since >= "4.0" else f"MPI_{form.name}"


def fortran_entry(form):
    row, symbol = form.row, form.name.lower()
    parameters = [p for p in row.parameters if p.name not in FORTRAN_LACKS.get(form.name, ())]
    lengths = [f"length_of_{p.name}" for p in parameters if p.type == "char"]
    declarations = [*map(fortran_declaration, parameters), "Integer* ierror", *(f"size_t {name}" for name in lengths)]
    names = [*(p.name for p in parameters), "ierror", *lengths]
    host = f"host({', '.join(names)});"
    if form.name in FORTRAN_ATTRIBUTES:
        # Others are values of the program's, in a form that only the host MPI knows.
        body = [f"CallRecord record(Function::{form.name});",
                f"if (!watching() || !tell_attribute({', '.join(p.name for p in parameters)})) return {host}",
                "report(ierror, MPI_SUCCESS);"]
    elif form.action == "accelerate":
        values = ["nullptr" if p not in parameters else fortran_value(p, row) for p in row.parameters]
        body = [] if form.name in JOB_FUNCTIONS else [f"if (only_looks_on()) return {host}"]
        body.append(f"report(ierror, {fortran_calls(form)}({', '.join(values)}));")
    else:
        def value(p):
            return f"{FORTRAN_HANDLES[p.type]}::from({p.name})"

        body = [f"CallRecord record(Function::{form.name});", f"if (!watching()) return {host}"]
        if form.action == "refuse":
            body.append(f"if ({device_buffer(form)}) return report(ierror, {form.refusal(value)});")
        before, after = around(form, value)
        body += before
        if after:
            body += ["Error error(ierror);", host.replace("ierror", "error.place()")]
            body += [f"if (error.none()) {statement}" for statement in after]
        else:
            body.append(host)
    macro = ("FAIRLEAD_ENTRIES_WITH_BUFFER" if form.buffers() else
             "FAIRLEAD_ENTRIES_OF_EVERY_BINDING" if form.name in FORTRAN_ATTRIBUTES else "FAIRLEAD_ENTRIES")
    def head(macro, end):
        opening = f"{macro}({form.name}, {symbol}, {form.name.upper()}, ({', '.join(declarations)}),"
        return [wrap(opening, " " * 17), wrap(f"                 ({', '.join(names)})){end}", " " * 17)]

    body = [wrap("  " + line, " " * 6) for line in body]
    of_pointer = head("FAIRLEAD_ENTRIES_FOR_C_PTR", "") if tells_address(row) else []
    return "\n".join(["", *head(macro, " {"), *body, "}", *of_pointer])


def tells_address(row):
    """Is it overloaded in the module mpi, for an address that is an integer or a TYPE(C_PTR)?"""
    return any(p.name == "baseptr" for p in row.parameters)


def has_fortran_entry(form):
    return form.row.fortran == "handled" and not form.large


def fortran_symbols(form):
    """The names of its entry points: of mpif.h and mpi as compilers make them, and that of mpi_f08."""
    lower = f"mpi_{form.name.lower()}"
    stems = [lower, f"{lower}_cptr"] if tells_address(form.row) else [lower]
    return [*(name for stem in stems for name in (f"{stem}_", f"{stem}__", stem, stem.upper())), f"{lower}_f08_"]


def fortran(forms):
    what = "The Fortran entry points."
    entries = [form for form in forms if has_fortran_entry(form)]
    newer = [form for form in entries if form.action == "accelerate" and form.row.since >= "4.0"]
    return [*opening("//", what), '#include "mpi/fortran.h"', '#include "mpi/window_gather.h"', "", "// clang-format off", "",
            "// C functions of ours that the header at hand may not declare, or not alike.",
            *(wrap(f'extern "C" int {fortran_calls(form)}({form.declarations()}) __asm__("MPI_{form.name}");')
              for form in newer), "",
            "namespace fairlead::mpi::fortran {",
            *(fortran_entry(form) for form in entries if not form.buffers()),
            "", "// MPICH's Fortran reaches the C functions where a buffer is handed over.", "#if defined(OPEN_MPI)",
            *(fortran_entry(form) for form in entries if form.buffers()),
            "#endif", "", "}  // namespace fairlead::mpi::fortran"]


def exports_map(forms):
    # GNU ld passes over names that are not defined: sessions where the header knows none, and the Fortran entry
    # points that this MPI does not need.
    return [*opening("#", "What an interposition library exports."), "{", "  global:",
            *(f"    MPI_{form.name};" for form in forms if form.action != "forward"),
            *(f"    {symbol};" for form in forms if has_fortran_entry(form) for symbol in fortran_symbols(form)),
            "    fairlead_*;", "  local: *;", "};"]


COVERAGE = """\
<!-- Generated by src/mpi/generate.py from src/mpi/functions.def; do not edit. -->
# Which MPI functions take device buffers

Every C function of MPI 4.1 that takes a message buffer, starts or completes an operation, or may wait for another process.

- *handled*: device buffers work, or the function takes part in operations on them.
- *MPI error*: host buffers work; a device buffer gives an error that names the function, through the error handler of the communicator, window or file.
- *takes none*: there is no message buffer; while the function waits, the device messages of other ranks go on.
- *passed on*: nothing to do, Fairlead does not intercept the function.

| | functions | handled | MPI error | takes none | passed on |
|---|---|---|---|---|---|
| C | {c} |
| C, large-count (`_c`) | {large} |

Fortran: {fortran} of the {total} functions do the same in `mpif.h`, `mpi` and `mpi_f08` as in C ([how](fortran.md)); *host* marks those that are left to the host MPI.

A function newer than the host MPI is exported all the same, and returns `MPI_ERR_OTHER` with a line in the log.
A program that probes for it with `dlsym()` is misled; one that asks `MPI_Get_version()` is not."""

COVERAGE_COLUMNS = """
| Function | MPI | Family | Device buffers | `_c` form | Fortran |
|---|---|---|---|---|---|"""


def coverage(rows):
    def tally(actions):
        return " | ".join(str(n) for n in [len(actions), *(actions.count(action) for action in ACTIONS)])

    text = [COVERAGE.format(c=tally([row.action for row in rows]),
                            large=tally([row.large_action for row in rows if row.large_action != "-"]),
                            fortran=sum(row.fortran == "handled" for row in rows), total=len(rows))]
    for row, previous in zip(rows, [None, *rows]):
        if not previous or row.chapter != previous.chapter:
            text += ["", f"## {row.chapter}", COVERAGE_COLUMNS]
        words = ACTIONS[row.action] + (f" ({row.note})" if row.note else "")
        large_words = ACTIONS.get(row.large_action, "")
        cells = [f"`MPI_{row.name}`", row.since, row.family, words, large_words, row.fortran]
        text.append(f"| {' | '.join(cells)} |")
    return text


def outputs(rows):
    forms = [form for row in rows for form in row.forms()]
    generated = ROOT / "src/mpi/generated"
    files = {
        generated / "function_ids.inc": function_ids(forms),
        generated / "real_slots.inc": real_slots(forms),
        generated / "narrowed.cpp": narrowed(forms),
        generated / "wrappers.cpp": wrappers(forms),
        generated / "collectives.cpp": collectives(forms),
        generated / "one_sided.cpp": one_sided(forms),
        generated / "fortran.cpp": fortran(forms),
        generated / "exports.map": exports_map(forms),
        ROOT / "docs/coverage.md": coverage(rows),
    }
    return {path: "\n".join(lines) + "\n" for path, lines in files.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    check = parser.parse_args().check
    try:
        files = outputs(read_manifest(MANIFEST))
    except Mistake as mistake:
        print(mistake, file=sys.stderr)
        return 2
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is out of date; run src/mpi/generate.py", file=sys.stderr)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(files[path])
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
