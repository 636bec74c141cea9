# SPDX-License-Identifier: Apache-2.0
"""`fairlead plot` of files that others made, or that are no files: one line for each, and no wait. And what large files,
large sizes, bars and heat maps need."""

import json
import os
import random
import sys
import tempfile
import unittest
from xml.etree import ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from pictures import needs, path_to, texts  # noqa: E402
from tool import ToolTest, fairlead  # noqa: E402

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tools/plot/drawing"))

import events  # noqa: E402
import ghost  # noqa: E402
import matrix  # noqa: E402
import picture  # noqa: E402
import runs  # noqa: E402
import tallies  # noqa: E402
from failure import Failure  # noqa: E402
from files import opening  # noqa: E402
from scales import size_text  # noqa: E402
from tallies import bytes_text  # noqa: E402

CALL = {"ph": "X", "cat": "mpi", "pid": 0, "tid": 1, "ts": 1.5, "dur": 2, "name": "MPI_Send"}
SEND = {"ph": "s", "cat": "message", "name": "message", "id": 1, "pid": 0, "tid": 1, "ts": 2}
MATRIX = {"benchmark": "matrix", "ways": [{"way": "engine", "title": "Engines"}], "gpus": [{"numa": 0}] * 2, "advice": "",
          "command": "fairlead matrix", "results": [
              {"way": "engine", "from": a, "to": 1 - a, "bytes": 8 << 20, "latency_bytes": 8, "link": "NV18",
               **{key: {"mean": 2000 * (a + 1), "min": 1, "max": 9000} for key in ("bandwidth_mb_s", "both_ways_mb_s", "latency_us")}}
              for a in (0, 1)]}


def without(event, key):
    return {name: value for name, value in event.items() if name != key}


class Counted(list):
    """Counts how often its elements are read."""

    reads = 0

    def __getitem__(self, place):
        Counted.reads += 1
        return super().__getitem__(place)


class Tracks(unittest.TestCase):
    def test_a_row_is_found_without_a_look_at_all_slices_before(self):
        slices = [events.Slice(0, 1e6, "phase", True), *(events.Slice(10 * n, 10 * n + 4, "call", False) for n in range(1, 9999))]
        track = events.Track("0", "MPI", slices)
        track.slices, track.depths = Counted(track.slices), Counted(track.depths)
        self.assertEqual([track.row_at(time) for time in (5, 50002, 50007, 2e6)], [0.5, 1.5, 0.5, 0.5])
        self.assertLess(Counted.reads, 50)

    def test_rows_are_those_of_the_innermost_slices(self):
        track = events.Track("0", "MPI", [events.Slice(*times, "call", False) for times in ((0, 10), (1, 9), (2, 3), (4, 5), (20, 30))])
        self.assertEqual([track.row_at(time) for time in (-1, 0.5, 2.5, 3.5, 4.5, 9.5, 15, 25)],
                         [0.5, 0.5, 2.5, 1.5, 2.5, 0.5, 0.5, 0.5])
        self.assertEqual([one.begin for one, _ in track.within(3.5, 4.2)], [0, 1, 4])


class Sizes(unittest.TestCase):
    def test_they_go_on(self):
        for size, text in (8, "8"), (1 << 10, "1 KiB"), (3 << 29, "1.5 GiB"), (1 << 40, "1 TiB"), (1 << 52, "4 PiB"):
            self.assertEqual(size_text(size), text)
        self.assertEqual(bytes_text(3 << 50), "3 PiB")


class Damage(unittest.TestCase):
    """What is read from others, with random mistakes: it is taken, or refused in words."""

    PIECES = b'""', b"{}", b"[]", b"null", b"-1", b"1e999", b"NaN", b"0", b'"x"', b"[[[[", b"\\u0000", b"\xff", b",", b"\n"
    SOUND = (json.dumps(MATRIX), json.dumps({"traceEvents": [CALL, SEND, {**SEND, "ph": "f"}]}),
             "# pairs: strided parallel pairs\n# stride between partners: 1\n8 1 1 2 3 4 5 6 7 8 9\n",
             json.dumps({"benchmark": "latency", "schema": 1, "results": [{"bytes": 8, "latency_us": {"mean": 1, "min": 1, "max": 2}}]}),
             json.dumps({"traffic": [{"path": "peer copies", "messages": 1, "bytes": 8}], "calls": [], "phases": [], "fallbacks": [],
                         "ranks": 2, "seconds": 1.5}),
             json.dumps({"program": "ghost_exchange", "runs": [{"variant": "v", "ranks": 2, "cells": [8, 8], "total_s": 1,
                                                                "iterations": 2, "ghost_cell": {"median_us": 3}, "mpi": "M",
                                                                "provider": "SIM", "halo": 1, "corners": True}]}))

    @staticmethod
    def read(path):
        """As `fairlead plot` does, up to the picture."""
        if b"traceEvents" in opening(path, 200):
            return events.read_trace(path)
        if ghost.is_timings([path]):
            return ghost.compose([path], [])
        for read, compose in (runs.read_matrix, lambda about: matrix.compose(about, path, [])), (
                tallies.read, lambda about: tallies.compose(about, path)):
            if about := read([path]):
                return compose(about)
        return picture.compose(*runs.read_runs([path], []), [])

    def damaged(self, draw, text):
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(text) + 1)
            text = draw.choice((
                lambda: text[:at] + draw.choice(self.PIECES) + text[at:],
                lambda: text[:at] + draw.choice(self.PIECES) + text[at + draw.randrange(12):],
                lambda: text[:at] + text[at + draw.randrange(9):],
                lambda: text[:at] + bytes([draw.randrange(256)]) + text[at + 1:],
                lambda: text[:at]))()
        return text

    def test_at_random(self):
        seed = random.SystemRandom().randrange(1 << 32)
        draw = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "damaged")
            for text in self.SOUND:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                self.read(path)
            for number in range(1000):
                text = self.damaged(draw, draw.choice(self.SOUND).encode())
                with open(path, "wb") as file:
                    file.write(text)
                with self.subTest(seed=seed, number=number, text=text):
                    try:
                        self.read(path)
                    except Failure as failure:
                        self.assertNotIn("\n", str(failure))


class FilesTest(ToolTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "w") as file:
                file.write(content if isinstance(content, str) else json.dumps(content))
        return path


@needs("matplotlib", "apt install python3-matplotlib")
class OneLine(FilesTest):
    def refused(self, path, *says, output="a.svg"):
        result = fairlead("plot", path, "-o", self.file(output), PATH=path_to("matplotlib"))
        self.assertEqual((result.returncode, result.stderr.count("\n")), (2, 1), result)
        for text in says:
            self.assertIn(text, result.stderr)

    def test_traces_of_other_programs(self):
        for event in ({**CALL, "pid": "python 123"}, {**CALL, "tid": "stream 7"}, without(CALL, "dur"), without(CALL, "cat"),
                      without(CALL, "pid"), {**CALL, "dur": -1}, {**CALL, "ts": "now"}, {**CALL, "name": 7}, {**CALL, "ts": float("nan")},
                      without(SEND, "id"), {**SEND, "id": []}, {"ph": "M", "name": "process_name", "pid": 0, "tid": 0}):
            with self.subTest(event=event):
                self.refused(self.file("job.json", {"traceEvents": [CALL, event]}), "is a trace of another program",
                             "`fairlead run --trace FILE`")

    def test_traces_that_are_not_whole(self):
        whole = json.dumps({"traceEvents": [CALL] * 9})
        for content in whole[:-1], whole[:50], '{"traceEvents": 3}', '{"traceEvents"' + "[" * 100000:
            self.refused(self.file("job.json", content), "is no whole JSON")

    def test_what_a_trace_says_of_itself_may_be_anything(self):
        for about in {"ranks": "four", "flow_events": None}, [1]:
            self.succeeds("plot", self.file("job.json", {"traceEvents": [CALL], "otherData": about}), "-o", self.file("a.svg"),
                          PATH=path_to("matplotlib"))

    def test_json_that_is_something_else(self):
        self.refused(self.file("deep.json", "[" * 100000), "neither JSON nor pairs' data")
        self.refused(self.file("doctor.json", {"version": "1", "conclusion": "fine", "checks": []}),
                     "is what `fairlead doctor --json` wrote, which has nothing to draw")
        for schema in 2, "x":
            for about in MATRIX, {"benchmark": "latency", "results": []}:
                self.refused(self.file("new.json", {**about, "schema": schema}), f"has schema {schema!r}", "reads 1")

    def test_what_is_no_file(self):
        os.mkfifo(self.file("fifo"))
        for path in "/dev/zero", self.file("fifo"):
            self.refused(path, "is a pipe or a device")
        self.refused(self.folder, "Is a directory")
        with open(self.file("huge.json"), "w") as huge:
            huge.truncate(1 << 40)
        self.refused(self.file("huge.json"), "bytes; accepted: at most")

    def test_what_is_written_is_a_file_of_ones_own(self):
        job = self.file("job.json", {"traceEvents": [CALL]})
        os.mkfifo(self.file("pipe.svg"))
        self.refused(job, "is a pipe or a device", output="pipe.svg")
        os.mkdir(self.file("all"), 0o777)
        os.chmod(self.file("all"), 0o777)
        os.symlink(self.file("theirs.svg"), self.file("all/a.svg"))
        result = fairlead("plot", job, "-o", self.file("all/a.svg"), PATH=path_to("matplotlib"))
        self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1), result)
        self.assertFalse(os.path.exists(self.file("theirs.svg")))
        os.symlink(self.file("mine.svg"), self.file("b.svg"))
        self.succeeds("plot", job, "-o", self.file("b.svg"), PATH=path_to("matplotlib"))
        self.assertTrue(os.path.exists(self.file("mine.svg")))


    def test_no_module_comes_from_the_current_folder(self):
        for module in "importlib", "matplotlib", "json":
            self.file(f"{module}.py", f"open({self.file('taken')!r}, 'w')")
        job = self.file("job.json", {"traceEvents": [CALL]})
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)
        self.succeeds("plot", job, "-o", "a.svg", PATH=path_to("matplotlib"))
        fairlead("matrix", "--way", "engine", "-o", "b.svg", FAIRLEAD_DEVICE="none", PATH=path_to("matplotlib"))
        self.assertFalse(os.path.exists("taken"))


@needs("matplotlib", "apt install python3-matplotlib")
class Looks(FilesTest):
    def drawn(self, content, name="in.json"):
        self.succeeds("plot", self.file(name, content), "-o", self.file("a.svg"), PATH=path_to("matplotlib"))
        with open(self.file("a.svg"), encoding="utf-8") as file:
            return file.read()

    def group(self, svg, name):
        return next(node for node in ElementTree.fromstring(svg).iter() if node.get("id") == name)

    def test_the_legend_of_bars_has_no_lines(self):
        time = {"mean": 2, "min": 1, "max": 3}
        faces = [{"face": face, "bytes": 8, "latency_us": time, "contiguous_us": time} for face in "ijk"]
        ids = [node.get("id", "") for node in self.group(self.drawn({"benchmark": "halo", "results": faces}), "legend_1").iter()]
        self.assertEqual(sum(name.startswith("patch") for name in ids), 2)
        self.assertFalse([name for name in ids if name.startswith("line2d")])

    def test_heat_maps_tell_their_colours(self):
        svg = self.drawn(MATRIX)
        self.assertLessEqual({"2", "2.5", "3", "4"}, set(texts(svg)))  # GB/s beside the colours; the cells have 2 and 4
        rows = "".join(f"# stride between partners: {stride}\n"
                       + "".join(f"0 {8 << n} 1.2 1.1 1 {stride * n} {stride * n} {stride * n} 0 0 0\n" for n in range(1, 9))
                       for stride in (1, 2))
        svg = self.drawn("# pairs: strided parallel pairs\n" + rows, "pairs.txt")
        self.assertEqual(len([node for node in ElementTree.fromstring(svg).iter() if node.get("id", "").startswith("axes_")]), 3)

    def test_lines_of_low_rows_are_behind_the_bars(self):
        def job(ranks):
            events = []
            for rank in range(ranks):
                events += [{**CALL, "pid": rank, "ts": 10 * rank, "dur": 5}, {**SEND, "id": rank, "pid": rank, "ts": 10 * rank},
                           {**SEND, "ph": "f", "id": rank, "pid": (rank + 1) % ranks, "ts": 10 * rank + 20}]
            return {"traceEvents": events}

        for ranks, behind in (8, False), (400, True):
            svg = self.drawn(job(ranks))
            self.assertEqual(svg.index("LineCollection_1") < svg.index("PolyCollection_1"), behind)
            self.assertEqual("behind the bars" in " ".join(texts(svg)), behind)


if __name__ == "__main__":
    unittest.main()
