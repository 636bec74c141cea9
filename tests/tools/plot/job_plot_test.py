# SPDX-License-Identifier: Apache-2.0
"""`fairlead plot` draws the statistics of a job, traces of many ranks so that they stay readable, and PDF."""

import json
import os
import random
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from pictures import needs, path_to, texts  # noqa: E402
from tool import MPIS, TREE, ToolTest, has_library  # noqa: E402

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tools/plot/drawing"))

import arrows  # noqa: E402
import tallies  # noqa: E402
from failure import Failure  # noqa: E402

GHOST_EXCHANGE = os.path.join(TREE, "bin", "examples", f"ghost_exchange-{MPIS[0]}")
POINTS = 72  # in an inch


def statistics(calls=3, ranks=4):
    """In the form of --stats-file."""
    def call(number):
        time = {"min": 0.05 * number, "min_rank": ranks - 1, "median": 0.08 * number, "max": 0.25 * number, "max_rank": 0}
        return {"function": f"MPI_Call_{number}", "count": 10 + number, "bytes": 1000 * number, "seconds": 0.1 * ranks * number,
                "p50_us": 1.5, "p90_us": 2, "p99_us": 2500, "max_us": 3000,
                "by_rank": {"seconds": time, "count": {**time, "min": 0, "median": 3, "max": 9}}}

    return {"ranks": ranks, "seconds": 2.5,
            "traffic": [{"path": "peer copies", "messages": 1, "bytes": 2048},
                        {"path": "staged in host memory", "messages": 2000, "bytes": 3 << 20},
                        {"path": "pipelined between nodes", "messages": 0, "bytes": 0},
                        {"path": "buffered in device memory", "messages": 7, "bytes": 9 << 20}],
            "fallbacks": [{"reason": "the ranks share $no_way$", "count": 3}], "messages": [],
            "calls": [call(number) for number in range(1, calls + 1)],
            "phases": [{"path": ["solve"], "count": 8, "seconds": 8, "self": 2, "mean": 2, "min": 1, "max": 2.25},
                       {"path": ["solve", "halo"], "count": 80, "seconds": 6, "self": 6, "mean": 1.5, "min": 0.5, "max": 2}]}


def trace(ranks, peers, idle=0, steps=2, host="node"):
    """Of ranks that exchange messages with `peers(rank, active ranks)`; the last `idle` ones do nothing."""
    chance, events, messages, active = random.Random(1), [], 0, ranks - idle
    for rank in range(ranks):
        events.append({"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": f"rank {rank} on {host}"}})
    for step in range(steps):
        for rank in range(active):
            at = 1000 * step + 200 * chance.random()
            for track, category, name, begin, length in ((1, "phase", "halo", at, 700), (1, "mpi", "MPI_Isend", at + 10, 50),
                                                         (1, "mpi", "MPI_Waitall", at + 70, 500), (1000, "gpu", "copy", at, 90)):
                events.append({"ph": "X", "cat": category, "pid": rank, "tid": track, "ts": begin, "dur": length,
                               "name": name})
            for peer in peers(rank, active):
                messages += 1
                ends = (("s", rank, at + 11 + 40 * chance.random()), ("f", peer, 1000 * step + 280 + 200 * chance.random()))
                events += [{"ph": phase, "cat": "message", "name": "message", "id": messages, "pid": who, "tid": 1, "ts": time}
                           for phase, who, time in ends]
    return {"traceEvents": events, "otherData": {"ranks": ranks, "flow_events": messages, "dropped_events": 0}}


def ring(rank, ranks):
    return (rank + 1) % ranks, (rank - 1) % ranks


def all_others(rank, ranks):
    return [peer for peer in range(ranks) if peer != rank]


class JobPlotTest(ToolTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "w") as file:
                json.dump(content, file)
        return path

    def plot(self, *arguments):
        """The bytes of the picture, which the last argument names."""
        self.succeeds("plot", *arguments[:-1], "-o", self.file(arguments[-1]), PATH=path_to("matplotlib"))
        with open(self.file(arguments[-1]), "rb") as file:
            return file.read()


class Tallies(unittest.TestCase):
    def panels(self, about):
        return [panel for row in tallies.compose(about, "job.json").rows for panel in row]

    def test_units_and_order(self):
        sizes, messages, calls, phases, fallbacks = self.panels(statistics())
        self.assertEqual([(bar.label, bar.value, bar.text) for bar in sizes.bars],
                         [("staged in host memory", 3 << 20, "3 MiB"), ("peer copies", 2048, "2 KiB"),
                          ("buffered in device memory", 9 << 20, "9 MiB")])
        self.assertEqual([bar.value for bar in messages.bars], [2000, 1, 7])
        self.assertEqual(calls.bars[0].label, "MPI_Call_3")
        self.assertAlmostEqual(calls.bars[0].value, 0.3)  # a rank's mean
        self.assertEqual(calls.bars[0].text, "150 ms (rank 3) to 750 ms (rank 0)\n13 calls, 2.93 KiB, p50 1.5 µs, p99 2.5 ms")
        self.assertAlmostEqual(calls.bars[0].spread[0], 0.15)
        self.assertAlmostEqual(calls.bars[0].spread[1], 0.75)
        self.assertAlmostEqual(calls.bars[0].median, 0.24)
        self.assertIn("whiskers", calls.title)
        self.assertEqual([(bar.label.strip(), bar.value, bar.full, bar.spread) for bar in phases.bars],
                         [("solve", 2, 0.5, (1, 2.25)), ("halo", 1.5, 1.5, (0.5, 2))])
        self.assertEqual([(bar.label, bar.value) for bar in fallbacks.bars], [("the ranks share $no_way$", 3)])

    def test_many_functions_share_the_last_bar(self):
        about = statistics(calls=40)
        calls = self.panels(about)[2].bars
        self.assertEqual((len(calls), calls[-1].label), (tallies.MOST_BARS, "25 others"))
        self.assertAlmostEqual(sum(bar.value for bar in calls), sum(call["seconds"] for call in about["calls"]) / 4)

    def test_one_rank_and_older_files_have_no_spread(self):
        older = statistics()
        for call in older["calls"]:
            del call["by_rank"]
        for about in statistics(ranks=1), older:
            calls = self.panels(about)[2]
            self.assertEqual(calls.title, "Time in MPI calls")
            self.assertEqual({(bar.spread, bar.median) for bar in calls.bars}, {(None, None)})
            self.assertEqual(calls.bars[0].text, "13 calls, 2.93 KiB, p50 1.5 µs, p99 2.5 ms")

    def test_what_is_no_such_file(self):
        empty = {**statistics(), "traffic": [], "calls": [], "phases": [], "fallbacks": []}
        for about, says in ((empty, "no calls and no messages"), ({**statistics(), "calls": [{}]}, "does not write"),
                            ({**statistics(), "ranks": 0}, "does not write"), ({**statistics(), "phases": 1}, "does not write")):
            with self.subTest(says=says), self.assertRaises(Failure) as refused:
                tallies.compose(about, "job.json")
            self.assertEqual(refused.exception.code, 2)
            self.assertIn(says, str(refused.exception))


@needs("matplotlib", "apt install python3-matplotlib")
class Statistics(JobPlotTest):
    @unittest.skipUnless(has_library(MPIS[0]), "this build has no library for the MPI")
    def test_what_a_job_wrote(self):
        path = self.file("statistics.json")
        for ranks in 1, 2:
            self.succeeds("run", "-n", ranks, "--sim", 2, "--stats-file", path, GHOST_EXCHANGE, "-i", 24, "-j", 24, "-I", 2)
            with open(path) as file:
                about = json.load(file)
            for call in about["calls"]:
                for spread in call["by_rank"].values():
                    self.assertTrue(spread["min"] <= spread["median"] <= spread["max"], call)
                    self.assertLessEqual({spread["min_rank"], spread["max_rank"]}, set(range(ranks)))
                    self.assertTrue(ranks > 1 or spread["min"] == spread["max"], call)
        said = texts(self.plot(path, "a.svg"))
        longest = sorted(about["calls"], key=lambda call: -call["seconds"])[:tallies.MOST_BARS - 1]
        self.assertIn("MPI_Waitall", [call["function"] for call in about["calls"]])
        self.assertLessEqual({call["function"] for call in longest}, set(said))
        for way in about["traffic"]:
            self.assertEqual(way["path"] in said, way["messages"] > 0)
        self.assertIn("Statistics of 2 ranks", " ".join(said))
        self.assertIn("mean over the ranks", " ".join(said))

    def test_calls_have_their_spread_and_name_its_ranks(self):
        for ranks in 4, 256:
            said = texts(self.plot(self.file("job.json", statistics(ranks=ranks)), "a.svg"))
            self.assertIn(f"150 ms (rank {ranks - 1}) to 750 ms (rank 0)", " ".join(said))
            self.assertIn("13 calls, 2.93 KiB, p50 1.5 µs, p99 2.5 ms", " ".join(said))
            self.assertIn("the others waited for", " ".join(said))

    def test_phases_have_their_spread(self):
        said = texts(self.plot(self.file("job.json", statistics()), "a.svg"))
        for text in ("1 s to 2.25 s, 8 times", "500 ms to 2 s, 80 times", "the ranks share $no_way$"):
            self.assertIn(text, said)


class Refusals(JobPlotTest):
    def test_statistics_are_drawn_alone_as_pictures(self):
        path = self.file("job.json", statistics())
        self.refuses("plot", path, "--terminal", says=[".png, .svg or .pdf", "--stats"])
        self.refuses("plot", path, "-o", self.file("a.html"), says=".png, .svg or .pdf")
        self.refuses("plot", path, path, "-o", self.file("a.svg"), says="one file")
        self.refuses("plot", path, "--label", "a", "-o", self.file("a.svg"), says="drawn alone")

    def test_a_pdf_is_written_over_only_by_a_pdf(self):
        with open(self.file("thesis.pdf"), "w") as file:
            file.write("not yet")
        self.refuses("plot", self.file("job.json", statistics()), "-o", self.file("thesis.pdf"), says="is no PDF")


class Arrows(unittest.TestCase):
    """An inch is 100 microseconds, and two rows."""

    def bundled(self, lines):
        return arrows.bundled(lines, 0.01, 0.5)

    def test_few_lines_are_drawn_as_they_are(self):
        lines = [[(10.0 * n, 0.5), (10.0 * n + 30, 4.5)] for n in range(20)]
        drawn, widths, left_out = self.bundled(lines)
        self.assertEqual((sorted(drawn), set(widths), left_out), (sorted(lines), {arrows.THIN}, 0))

    def test_bursts_share_lines_that_lie_among_theirs(self):
        lines = [[(500 * burst + 0.01 * n, 0.5), (500 * burst + 40 + 0.01 * n, 4.5)] for burst in range(2) for n in range(100)]
        drawn, widths, left_out = self.bundled(lines)
        self.assertLess(len(drawn), 10)
        self.assertEqual(left_out, 0)
        self.assertGreater(max(widths), arrows.THIN)
        for (begin, top), (end, bottom) in drawn:
            self.assertEqual((top, bottom), (0.5, 4.5))
            self.assertTrue(any(500 * burst <= begin <= 500 * burst + 1 and end <= 500 * burst + 41 for burst in (0, 1)))

    def test_more_lines_are_sampled_and_counted(self):
        chance = random.Random(2)
        lines = [[(300 * chance.random(), a + 0.5), (600 + 300 * chance.random(), b + 0.5)]
                 for a in range(32) for b in range(32) if a != b]
        drawn, widths, left_out = self.bundled(lines)
        ink = sum(arrows.length_of(line, 0.01, 0.5) for line in drawn)
        self.assertLessEqual(ink, 1.5 * arrows.DENSEST * 9 * 16)
        self.assertEqual(len(drawn) + left_out, len(lines))
        self.assertEqual(self.bundled(lines)[0], drawn)
        self.assertIn(f"The lines of {left_out} messages are left out", arrows.meaning_of(widths, left_out))


@needs("matplotlib", "apt install python3-matplotlib")
class ManyRanks(JobPlotTest):
    def drawn(self, *arguments, **options):
        """(texts, ends of the message lines, [(text, y)] of the ranks' labels, height) in points."""
        svg = self.plot(self.file("trace.json", trace(*arguments, **options)), "a.svg").decode()
        lines = re.search(r'<g id="LineCollection_1">.*?</g>', svg, re.DOTALL)[0]
        ends = [tuple(map(float, end)) for end in re.findall(r"[ML] ([\d.]+) ([\d.]+)", lines)]
        labels = [(text, float(y)) for y, text in re.findall(r'<text[^>]*? y="([\d.]+)"[^>]*>(rank \d+ on [^<]*)</text>', svg)]
        return texts(svg), ends, labels, float(re.search(r'height="([\d.]+)pt"', svg)[1])

    def test_a_page_holds_64_ranks_and_names_each(self):
        said, ends, labels, height = self.drawn(64, ring)
        self.assertLess(height, 13 * POINTS)
        self.assertEqual([text for text, _ in labels], [f"rank {rank} on node" for rank in range(64)])
        for (_, above), (_, below) in zip(labels, labels[1:]):
            self.assertGreater(below - above, 7)  # the size of the letters
        self.assertEqual(len(ends), 2 * 64 * 2 * 2)  # neighbours' lines are short: all are there
        self.assertTrue(all(0 < y < height for _, y in ends))

    def test_ranks_without_events_have_no_row(self):
        said, _, labels, _ = self.drawn(16, ring, idle=5)
        self.assertIn("16 ranks, 44 messages; 5 ranks without events are not drawn.", " ".join(said))
        self.assertEqual({int(re.search(r"rank (\d+)", text)[1]) for text, _ in labels}, set(range(11)))

    def test_ranks_without_events_at_that_time_have_no_row(self):
        path = self.file("trace.json", trace(16, lambda rank, ranks: [rank ^ 1], steps=1))
        with open(path) as file:
            shifted = json.load(file)
        for event in shifted["traceEvents"]:
            if event["pid"] >= 4 and "ts" in event:
                event["ts"] += 10_000
        said = texts(self.plot(self.file("trace.json", shifted), "--time", "0ms:5ms", "a.svg"))
        self.assertIn("12 ranks without events are not drawn", " ".join(said))
        self.assertIn("4 of 16 messages are seen", " ".join(said))
        self.assertFalse([text for text in said if text.startswith("rank 7 ")])

    def test_lines_of_all_to_all_are_thinned_and_counted(self):
        said, ends, _, _ = self.drawn(32, all_others)
        left_out = int(re.search(r"The lines of (\d+) messages are left out", " ".join(said))[1])
        self.assertEqual(len(ends) // 2 + left_out, 2 * 32 * 31)
        self.assertGreater(len(ends) // 2, 100)

    def test_long_names_of_hosts_are_cut(self):
        _, _, labels, _ = self.drawn(64, ring, host="gpu-node-0123.cluster.example.org")
        self.assertEqual(len(labels), 64)
        self.assertLessEqual(max(len(text) for text, _ in labels), 26)

    def test_hundreds_of_ranks_name_some(self):
        _, _, labels, height = self.drawn(300, ring, steps=1)
        self.assertLess(height, 13 * POINTS)
        for (_, above), (_, below) in zip(labels, labels[1:]):
            self.assertGreater(below - above, 7)


@needs("matplotlib", "apt install python3-matplotlib")
class Pdf(JobPlotTest):
    def test_statistics_traces_and_benchmarks(self):
        time = {"latency_us": {"mean": 2, "min": 1, "p50": 2, "max": 3}}
        bench = {"benchmark": "latency", "results": [{"bytes": 8 << n, **time} for n in range(4)]}
        for content in statistics(), trace(4, ring), bench:
            path = self.file("a.json", content)
            drawn = self.plot(path, "a.pdf")
            self.assertTrue(drawn.startswith(b"%PDF"))
            self.assertIn(b"/FontFile2", drawn)  # TrueType, as journals ask for
            self.assertEqual(self.plot(path, "a.pdf"), drawn)


if __name__ == "__main__":
    unittest.main()
