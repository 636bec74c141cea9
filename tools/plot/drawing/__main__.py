# SPDX-License-Identifier: Apache-2.0
"""What `fairlead plot` starts: draws what its only argument, a request in JSON, asks for.

tools/plot/plot.cpp has read the command line and says there what can be asked.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys

import ghost
import matrix
import tallies
from events import read_trace
from failure import Failure, cannot_run, problem, say, usage
from files import opened, opening, write
from page import as_page
from picture import compose
from runs import read_matrix, read_runs
from span import read_span

# How files of each kind begin: one that begins otherwise is somebody's, and not written over.
OPENINGS = {".png": (b"\x89PNG",), ".svg": (b"<?xml", b"<svg"), ".pdf": (b"%PDF",),
            ".html": (b"<!DOCTYPE html", b"<html")}


def need(library, package):
    try:
        importlib.import_module(library)
    except ImportError as error:
        raise cannot_run(f"{sys.executable} cannot load {library} ({error}); {package}") from None


def kind_of(output):
    kind = os.path.splitext(output)[1].lower()
    if kind not in OPENINGS:
        raise usage(f"--output: '{output}' is not accepted; accepted: a name that ends in {', '.join(OPENINGS)}")
    try:
        with opened(output) as file:
            start = file.read(16)
    except FileNotFoundError:
        start = b""
        if not os.access(os.path.dirname(output) or ".", os.W_OK):
            raise usage(f"--output: cannot write {output}; name a folder that exists and that you may write") from None
    except OSError as error:
        raise usage(f"--output: cannot write {output}: {error.strerror}") from None
    if start and not start.startswith(OPENINGS[kind]):
        raise usage(f"--output: {output} exists and is no {kind[1:].upper()}; name another file, or remove it")
    return kind


def save(output, content):
    try:
        write(output, content)
    except OSError as error:
        raise problem(f"--output: cannot write {output}: {error.strerror}") from None
    say(f"fairlead plot: the picture is in {output}")


def may_be_trace(files):
    return b'"traceEvents"' in opening(files[0], 200)


def only_image(request, kind, what, remedy="accepted: -o FILE.png, -o FILE.svg or -o FILE.pdf"):
    if request["terminal"] or kind == ".html":
        raise usage(f"{what} drawn as .png, .svg or .pdf; {remedy}")


def alone(request, what):
    if len(request["files"]) > 1 or request["labels"] or request["quantities"]:
        raise usage(f"{request['files'][0]} {what} drawn alone, without --label and --quantity")


def draw_with(module, request, kind, *what):
    """Draws with the `draw` of this module."""
    need_matplotlib()
    drawing, figure = map(importlib.import_module, (module, "figure"))
    save(request["output"], figure.as_bytes(drawing.draw(*what), kind[1:]))


def draw_trace(request, kind):
    alone(request, "is a trace, which is")
    only_image(request, kind, "a trace is")
    part = read_span(request["time"])
    draw_with("timeline", request, kind, request["files"][0], read_trace(request["files"][0]), part)


def draw_matrix(about, request, kind):
    only_image(request, kind, "heat maps of matrix are", "`fairlead matrix` itself prints the tables")
    draw_with("heat_figure", request, kind, matrix.compose(about, request["files"][0], request["quantities"]))


def draw_tallies(about, request, kind):
    alone(request, "holds statistics, which are")
    only_image(request, kind, "statistics are", "`fairlead run --stats` itself prints the tables")
    draw_with("tallies_figure", request, kind, tallies.compose(about, request["files"][0]))


def draw_ghost_exchange(request, kind):
    """The field of the example, or timings of it."""
    only_image(request, kind, "what ghost_exchange wrote is")
    if request["quantities"]:
        raise usage("--quantity is not for what ghost_exchange wrote")
    files = request["files"]
    if ghost.is_field(files) and (len(files) > 1 or request["labels"]):
        raise usage("a field is drawn alone, without --label; call fairlead plot for each")
    picture = None if ghost.is_field(files) else ghost.compose(files, request["labels"])
    need_matplotlib()
    figure, ghost_figure = map(importlib.import_module, ("figure", "ghost_figure"))
    if picture:
        drawn = ghost_figure.draw_timings(picture)
    else:
        drawn = ghost_figure.draw_field(ghost.read_field(files[0]), files[0])
    save(request["output"], figure.as_bytes(drawn, kind[1:]))


def need_matplotlib():
    need("matplotlib", "install it: apt install python3-matplotlib, or python3 -m pip install matplotlib; "
         "--terminal needs plotext instead")


def main():
    request = json.loads(sys.argv[1])
    if request["time"] and not may_be_trace(request["files"]):
        raise usage(f"--time is for a trace, as `fairlead run --trace FILE` writes it; {request['files'][0]} is none")
    output = request["output"]
    kind = kind_of(output) if output else None
    if may_be_trace(request["files"]):
        return draw_trace(request, kind)
    if ghost.is_field(request["files"]) or ghost.is_timings(request["files"]):
        return draw_ghost_exchange(request, kind)
    for read, draw in ((read_matrix, draw_matrix), (tallies.read, draw_tallies)):
        if about := read(request["files"]):
            return draw(about, request, kind)
    picture = compose(*read_runs(request["files"], request["labels"]), request["quantities"])
    if request["terminal"]:
        need("plotext", "install it: python3 -m pip install plotext")
        screen = importlib.import_module("screen")
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads may stop
        sys.stdout.reconfigure(errors="replace")
        print(screen.draw(picture, sys.stdout))
        return
    need_matplotlib()
    figure = importlib.import_module("figure")
    drawn = figure.as_bytes(figure.draw(picture), "svg" if kind == ".html" else kind[1:])
    save(output, as_page(picture, drawn.decode()).encode() if kind == ".html" else drawn)


gc.disable()  # most of what is made is kept until the end
try:
    main()
except (Failure, MemoryError) as error:
    failure = error if isinstance(error, Failure) else cannot_run("there is too little memory to draw this")
    say(f"fairlead plot: {failure}")
    sys.exit(failure.code)
