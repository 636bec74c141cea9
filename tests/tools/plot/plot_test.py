# SPDX-License-Identifier: Apache-2.0
"""`fairlead plot` draws what the benchmarks write, says on the picture what it shows, and refuses the rest."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from pictures import needs, path_to, texts  # noqa: E402
from tool import MPIS, TIMEOUT, TOOL, TREE, ToolTest, fairlead, on_terminal, script  # noqa: E402

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tools/plot/drawing"))

import ghost  # noqa: E402
from failure import Failure  # noqa: E402
from picture import compose  # noqa: E402
from quantities import QUANTITIES  # noqa: E402
from runs import read_runs  # noqa: E402

SAMPLES = tempfile.TemporaryDirectory()
SCALING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../examples/ghost_exchange/scaling")
GHOST_EXCHANGE = os.path.join(TREE, "bin", "examples", f"ghost_exchange-{MPIS[0]}")


def sample(name):
    return os.path.join(SAMPLES.name, name)


def setUpModule():
    """The real benchmarks' files, of messages in host memory."""
    for name in ("latency", "bw", "mbw_mr", "first", "pack", "allreduce"):
        made = fairlead("bench", name, "--mpi", MPIS[0], "--no-preload", "-m", "8:2k", "-i", 20, "--json", sample(name),
                        *["--rounds", 3] * (name == "first"), *["--bytes", "8k"] * (name == "pack"), "H", "H")
        assert made.returncode == 0, made.stderr
    made = fairlead("bench", "pairs", "--mpi", MPIS[0], "--no-preload", "-n", 4, "--timeout", 0.01, 1024)
    assert made.returncode == 0, made.stderr
    with open(sample("pairs"), "w") as file:
        file.write(made.stdout)
    with open(sample("latency")) as file:
        slower = json.load(file)
    slower["preloaded"] = True
    for row in slower["results"]:
        row["latency_us"] = {key: 2 * value for key, value in row["latency_us"].items()}
    with open(sample("slower"), "w") as file:
        json.dump(slower, file)


def trace():
    """Of two ranks: one sends to the other."""
    def slice(rank, track, category, name, begin, end):
        return {"ph": "X", "cat": category, "pid": rank, "tid": track, "ts": begin, "dur": end - begin, "name": name}

    def flow(phase, rank, time):
        return {"ph": phase, "cat": "message", "name": "message", "id": 1, "pid": rank, "tid": 1, "ts": time}

    names = [{"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": f"rank {rank} on node"}}
             for rank in (0, 1)]
    return {"traceEvents": [*names, slice(0, 1, "phase", "halo $x_1$", 0, 5000), slice(0, 1, "mpi", "MPI_Send", 100, 2100),
                            slice(1, 1, "mpi", "MPI_Recv", 1000, 2500), slice(1, 1000, "gpu", "copy", 1500, 2400),
                            flow("s", 0, 150), flow("f", 1, 2490)],
            "otherData": {"ranks": 2, "flow_events": 1, "dropped_events": 3}}


def tearDownModule():
    SAMPLES.cleanup()


class PlotTest(ToolTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, content=None):
        path = os.path.join(self.folder.name, name)
        if content is not None:
            with open(path, "w") as file:
                file.write(content)
        return path


class Values(unittest.TestCase):
    """What is drawn is what was measured, in the units of the axes."""

    def picture(self, *names, asked=()):
        benchmark, runs = read_runs([sample(name) for name in names], [])
        return compose(benchmark, runs, list(asked))

    def test_ratios_are_to_the_first(self):
        picture = self.picture("latency", "slower")
        ((_, ratios),) = picture.columns[0].ratios(picture.compared)
        self.assertEqual(list(ratios), [8 << power for power in range(9)])
        for ratio in ratios.values():
            self.assertAlmostEqual(ratio, 2)
        self.assertIsNone(self.picture("latency").compared)

    def test_units(self):
        with open(sample("bw")) as file:
            rows = json.load(file)["results"]
        (bw,) = self.picture("bw", asked=["bandwidth", "rate"]).columns[0].series
        for row in rows:
            bytes_a_second = 1e6 * row["bandwidth_mb_s"]["p50"]
            self.assertAlmostEqual(bw.values["bandwidth"][row["bytes"]].middle * 1e9 / bytes_a_second, 1)
            self.assertAlmostEqual(bw.values["rate"][row["bytes"]].middle * 1e6 * row["bytes"] / bytes_a_second, 1)
        with open(sample("allreduce")) as file:
            rows = json.load(file)["results"]
        for row in rows:  # in two ranks, an allreduce's bus bandwidth is bytes over time
            self.assertAlmostEqual(
                QUANTITIES["busbw"].of(row).middle * 1e9 * row["latency_us"]["p50"] / 1e6 / row["bytes"], 1)

    def test_many_pairs_at_once(self):
        picture = self.picture("mbw_mr")
        self.assertEqual([quantity.name for quantity in picture.quantities], ["bandwidth", "rate"])

    def test_new_buffers(self):
        picture = self.picture("first")
        series = {one.label: one for one in picture.columns[0].series}
        self.assertEqual(list(series), ["allocation", "first message", "second message", "slowest later message",
                                        "later messages"])
        with open(sample("first")) as file:
            row = json.load(file)["results"][0]
        drawn = series["second message"].values["time"][row["bytes"]]
        self.assertEqual(drawn, tuple(row["second_us"][key] for key in ("p50", "p1", "p99")))
        self.assertFalse(picture.strides)
        self.assertEqual([column.title for column in self.picture("first", "first").columns], list(series))

    def test_pairs(self):
        picture = self.picture("pairs")
        self.assertEqual([series.part for series in picture.columns[0].series], [1, 2])
        with open(sample("pairs")) as file:
            row = next(line.split() for line in file if line[0] not in "#\n")  # the largest message, stride 2
        drawn = picture.columns[0].series[1].values["bandwidth"][int(row[1]) * 8]
        for value, text in zip((drawn.least, drawn.middle, drawn.greatest), row[5:8]):
            self.assertAlmostEqual(value, float(text) * 2**30 / 1e9)
        beside = self.picture("pairs", "pairs")
        self.assertEqual([column.title for column in beside.columns], ["partner 1 rank away", "partner 2 ranks away"])

    def test_pairs_in_the_units_of_the_others(self):
        made = fairlead("bench", "pairs", "--mpi", MPIS[0], "--no-preload", "-n", 2, "--timeout", 0.01, "--bytes", "1k", "--table")
        self.assertEqual(made.returncode, 0, made)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as table:
            table.write(made.stdout)
            table.flush()
            benchmark, (run,) = read_runs([table.name], [])
        row = next(list(map(float, line.split())) for line in made.stdout.splitlines() if line[:1].isdigit())
        self.assertEqual(row[0], 1024)
        drawn = run.values(QUANTITIES["bandwidth"], 1)[1024]
        for value, mb in zip(drawn, row[4:7]):
            self.assertAlmostEqual(value, mb / 1e3)
        self.assertIn("total size: 1024 bytes", " ".join(run.facts))

    def test_layouts_have_names(self):
        def time(us):
            return dict.fromkeys(("mean", "min", "p50", "max"), us)

        with tempfile.NamedTemporaryFile("w", suffix=".json") as halo:
            json.dump({"benchmark": "halo", "results": [
                {"face": face, "bytes": 64, "latency_us": time(us), "contiguous_us": time(2)}
                for face, us in (("i", 6), ("k", 3))]}, halo)
            halo.flush()
            benchmark, runs = read_runs([halo.name], [])
        picture = compose(benchmark, runs, [])
        self.assertEqual(picture.axis, "face")
        gaps, contiguous = picture.columns[0].series
        self.assertEqual({picture.text(at): value.middle for at, value in gaps.values["time"].items()}, {"i": 6, "k": 3})
        self.assertEqual([value.middle for value in contiguous.values["time"].values()], [2, 2])

    def test_labels_tell_runs_apart(self):
        mpi = self.picture("latency").first
        self.assertEqual(list(self.picture("latency", "slower").labels.values()), [mpi, f"Fairlead on {mpi}"])
        with tempfile.NamedTemporaryFile("w", suffix=".json") as other:
            with open(sample("latency")) as file:
                json.dump({**json.load(file), "placement": ["H", "M"]}, other)
            other.flush()
            _, runs = read_runs([sample("latency"), other.name], [])
        self.assertEqual([run.label for run in runs], [f"{mpi}, host to host", f"{mpi}, host to managed"])
        with tempfile.NamedTemporaryFile("w", suffix=".json") as other:
            with open(sample("latency")) as file:
                json.dump({**json.load(file), "probe": "mprobe"}, other)
            other.flush()
            _, runs = read_runs([sample("latency"), other.name], [])
        self.assertEqual([run.label for run in runs], [mpi, f"{mpi}, by mprobe"])


@needs("matplotlib", "apt install python3-matplotlib")
class Pictures(PlotTest):
    def plot(self, *arguments):
        return self.succeeds("plot", *arguments, PATH=path_to("matplotlib"))

    def read(self, name):
        with open(self.file(name), encoding="utf-8") as file:
            return file.read()

    def test_svg_says_what_it_shows(self):
        labels = ["--label", "_one", "--label", "$2 $"]
        self.plot(sample("latency"), sample("slower"), *labels, "-o", self.file("a.svg"))
        said = texts(self.read("a.svg"))
        for text in ("Latency of a message", "latency (µs)", "message size (bytes)", "8", "1 KiB", "_one", "$2 $",
                     "latency, ratio", "relative to _one (lower is better)"):
            self.assertIn(text, said)
        with open(sample("latency")) as file:
            about = json.load(file)
        caption = " ".join(said)
        for text in (about["hardware"]["cpu"], "Fairlead " + about["fairlead"], "2 ranks", about["date"][:10],
                     "_one: Fairlead not loaded — fairlead bench latency --mpi", "$2 $: Fairlead loaded — fairlead bench"):
            self.assertIn(text, caption)

    def test_pack_is_drawn_against_its_blocks(self):
        self.plot(sample("pack"), "-o", self.file("a.svg"))
        said = texts(self.read("a.svg"))
        for text in ("block size (bytes)", "bandwidth (GB/s)", "MPI_Pack", "MPI_Unpack", "copy of the same cache lines"):
            self.assertIn(text, said)
        self.assertNotIn("message size (bytes)", said)

    def test_strides_of_one_run_have_a_heat_map_and_no_ratios(self):
        self.plot(sample("pairs"), "-o", self.file("a.svg"))
        said = texts(self.read("a.svg"))
        for text in ("partner 1 rank away", "partner 2 ranks away", "stride", "bandwidth (GB/s)",
                     "bandwidth (GB/s) at each stride (ranks)"):
            self.assertIn(text, said)
        self.assertIn("allocator: malloc", " ".join(said))
        self.assertNotIn("relative to", " ".join(said))

    def test_a_part_of_a_trace(self):
        with open(self.file("trace.json"), "w") as file:
            json.dump(trace(), file)
        self.plot(self.file("trace.json"), "--time", "50us:2ms", "-o", self.file("a.svg"))
        with open(self.file("a.svg")) as file:
            self.assertIn("after 50 us", file.read())
        self.plot(self.file("trace.json"), "--time", "2450us:2480us", "-o", self.file("b.svg"))
        said = texts(self.read("b.svg"))
        self.assertIn("trace.json, 2.45 ms to 2.48 ms of 5 ms: 2 ranks, 1 of 1 messages are seen", " ".join(said))
        self.assertIn("rank 1 on node: 1000", said)  # nothing happens there then
        self.assertNotIn("copy", said)

    def test_a_trace_is_a_time_line(self):
        with open(self.file("trace.json"), "w") as file:
            json.dump(trace(), file)
        self.plot(self.file("trace.json"), "-o", self.file("a.svg"))
        said = texts(self.read("a.svg"))
        for text in ("Timeline of a job", "MPI_Send", "MPI_Recv", "copy", "halo $x_1$", "time (ms)", "rank 0 on node: 1"):
            self.assertIn(text, said)
        self.assertIn("2 ranks, 1 messages; 3 events were dropped", " ".join(said))

    def test_a_message_leads_from_the_row_of_its_sender_to_that_of_its_receiver(self):
        with open(self.file("trace.json"), "w") as file:
            json.dump(trace(), file)
        self.plot(self.file("trace.json"), "-o", self.file("a.svg"))
        lines = re.search(r'<g id="LineCollection_1">.*?</g>', self.read("a.svg"), re.DOTALL)[0]
        (_, start), (_, end) = re.findall(r"[ML] ([\d.]+) ([\d.]+)", lines)
        self.assertGreater(float(end), float(start))  # downwards

    def test_png(self):
        self.plot(sample("allreduce"), "-o", self.file("a.PNG"))
        with open(self.file("a.PNG"), "rb") as file:
            self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")

    def test_page_stands_alone_and_has_the_values(self):
        self.file("a.html", "<!DOCTYPE html>\n")  # of the same kind: written over
        self.plot(sample("bw"), "--quantity", "rate", "--label", "<mine>", "-o", self.file("a.html"))
        page = self.read("a.html")
        for text in ("<svg", "<caption>message rate (million/s)</caption>", '<th scope="col">&lt;mine&gt;</th>',
                     '<th scope="row">1 KiB</th>'):
            self.assertIn(text, page)
        self.assertEqual(page.count("<tr>"), 10)
        for elsewhere in ("<script", "src=", "<link", "@import"):
            self.assertNotIn(elsewhere, page)


class GhostExchange(PlotTest):
    """The field and the timings of examples/ghost_exchange, in variants that need no GPU-aware MPI."""

    @staticmethod
    def scaling(*arguments):
        return subprocess.run([SCALING, *map(str, arguments)], text=True, capture_output=True, timeout=TIMEOUT,
                              stdin=subprocess.DEVNULL)

    @classmethod
    def setUpClass(cls):
        """Real runs, but in round numbers: 100 us for an iteration of one rank, 60 for one of two."""
        cls.made = cls.scaling("-o", sample("ghost"), "--name", "_mine $", "--launch",
                               f"{TOOL} run --sim 2 --no-preload -n {{ranks}}", "--cells", 24, "--iterations", 2,
                               "--repeat", 1, "--variants", "host,managed", "--scaled", "host", GHOST_EXCHANGE)

    def test_its_help_fits_a_terminal(self):
        lines = self.succeeds("run", "-n", 1, "--no-preload", GHOST_EXCHANGE, "--help").stdout.splitlines()
        self.assertIn("--variant", "".join(lines))
        self.assertLessEqual(max(map(len, lines)), 80)

    def measured(self):
        self.assertEqual(self.made.returncode, 0, self.made.stderr)
        with open(sample("ghost")) as file:
            about = json.load(file)
        for run in about["runs"]:
            run["total_s"] = 1e-6 * run["iterations"] * (100 if run["ranks"] == 1 else 60)
            run["ghost_cell"]["median_us"] = 12
        return about

    def test_what_is_measured(self):
        about = self.measured()
        self.assertEqual([(run["series"], run["variant"], run["ranks"], run["cells"]) for run in about["runs"]],
                         [("variants", "host", 2, [24, 24]), ("variants", "managed", 2, [24, 24]),
                          ("strong", "host", 1, [24, 24]), ("weak", "host", 1, [24, 24]),
                          ("strong", "host", 2, [24, 24]), ("weak", "host", 2, [24, 48])])
        timing = ghost.compose([self.file("ghost.json", json.dumps(about))], []).of("strong")[1]
        self.assertAlmostEqual(timing.iteration_us, 60)
        self.assertAlmostEqual(timing.ghost_us, 12)

    def test_what_fails_is_left_out(self):
        one = ["-o", self.file("none.json"), "--ranks", 2, "--variants", "device", GHOST_EXCHANGE]
        for command, *options, says in (["sh -c 'echo no luck >&2; exit 3' {ranks}", "exit code 3: no luck"],
                                        ["no/such/launcher {ranks}", "no/such/launcher"],
                                        ["sh -c 'sleep 1000 & wait' {ranks}", "--timeout", 0.2, "still running"]):
            result = self.scaling("--launch", command, *options, *one)
            self.assertEqual(result.returncode, 1, result)
            self.assertIn("device in 2 ranks is left out: ", result.stderr)
            self.assertIn(says, result.stderr)
        self.assertFalse(os.path.exists(self.file("none.json")))

    def test_files_that_cannot_be_written_are_refused_before_the_run(self):
        for option in ("-o", "--json"):
            result = fairlead("run", "-n", 2, "--sim", 2, "--no-preload", GHOST_EXCHANGE, "--variant", "host", "-i", 30,
                              "-j", 20, "-I", 1, option, "/no/such/folder/file")
            self.assertEqual(result.returncode, 1, result)
            self.assertIn("cannot write /no/such/folder/file", result.stderr)
            self.assertNotIn("Timing", result.stdout)

    def test_an_interruption_ends_the_job_and_keeps_what_was_measured(self):
        run = self.file("run.json", json.dumps({"runs": self.measured()["runs"][:1]}))
        alive, output = self.file("alive"), self.file("part.json")
        os.mkfifo(alive)
        launcher = script(self.folder.name, "launcher", f'''#!/bin/sh
[ $1 = 2 ] || {{ sleep 10000 >{alive} & wait; }}
for file; do :; done
cp {run} "$file"
''')
        job = subprocess.Popen([SCALING, "-o", output, "--launch", f"{launcher} {{ranks}}", "--variants", "host",
                                "--repeat", "1", GHOST_EXCHANGE], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        with open(alive) as pipe:
            job.terminate()
            self.assertIn("1 of 5 rows were measured", job.communicate(timeout=TIMEOUT)[1])
            self.assertEqual(pipe.read(), "")  # returns when `sleep` is gone
        self.assertEqual(job.returncode, 130)
        with open(output) as file:
            self.assertEqual([run["series"] for run in json.load(file)["runs"]], ["variants"])

    @needs("matplotlib", "apt install python3-matplotlib")
    def test_timings_are_drawn(self):
        about = self.measured()
        file = self.file("mine.json", json.dumps(about))
        about["name"] = "slower"
        for run in about["runs"]:
            run["ghost_cell"]["median_us"] *= 2
        other = self.file("other.json", json.dumps(about))
        self.succeeds("plot", file, other, "-o", self.file("a.svg"), PATH=path_to("matplotlib"))
        with open(self.file("a.svg"), encoding="utf-8") as svg:
            said = texts(svg.read())
        for text in ("Ghost exchange", "_mine $", "slower", "host", "managed", "12 of 60", "24 of 60 (2.00)", "ranks",
                     "bars: a whole iteration", "its ghost cells", "ideal"):
            self.assertIn(text, said)
        for text in ("24 by 24 cells, 2 ranks", "Strong scaling", "Weak scaling", "simulated GPUs", "--scaled host"):
            self.assertIn(text, " ".join(said))

    @needs("matplotlib", "apt install python3-matplotlib")
    def test_the_field_is_drawn(self):
        field, alone = self.file("field.npy"), self.file("alone.json")
        self.succeeds("run", "-n", 2, "--sim", 2, "--no-preload", GHOST_EXCHANGE, "--variant", "host", "-i", 30,
                      "-j", 20, "-I", 3, "-o", field, "--json", alone)
        self.succeeds("plot", field, "-o", self.file("a.svg"), PATH=path_to("matplotlib"))
        with open(self.file("a.svg"), encoding="utf-8") as svg:
            said = texts(svg.read())
        for text in ("field.npy: 30 by 20 cells", "column i", "row j", "value of a cell"):
            self.assertIn(text, said)
        self.assertEqual([(t.series, t.variant) for t in ghost.compose([alone], []).timings], [("variants", "host")])
        with open(field, "rb") as whole, open(self.file("cut.npy"), "wb") as cut:
            cut.write(whole.read(500))
        result = fairlead("plot", self.file("cut.npy"), "-o", self.file("b.svg"), PATH=path_to("matplotlib"))
        self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1), result.stderr)
        self.assertIn("cut.npy is no field", result.stderr)

    def test_refusals(self):
        opening = '{"program": "ghost_exchange"'
        cut = self.file("cut.json", opening)
        empty = self.file("empty.json", opening + ', "runs": []}')
        with open(self.file("a.npy"), "wb") as field:
            field.write(ghost.NUMPY_OPENING)
        self.refuses("plot", cut, "-o", self.file("a.svg"), says=["cut.json holds no timings", "accepted:"])
        self.refuses("plot", empty, "-o", self.file("a.svg"), says="empty.json holds no timings")
        self.refuses("plot", empty, "--terminal", says=".png, .svg or .pdf")
        self.refuses("plot", empty, "-o", self.file("a.html"), says=".png, .svg or .pdf")
        self.refuses("plot", empty, "--quantity", "time", "-o", self.file("a.svg"), says="--quantity")
        self.refuses("plot", empty, "--label", "a", "--label", "b", "-o", self.file("a.svg"), says="one for each file")
        self.refuses("plot", self.file("a.npy"), empty, "-o", self.file("a.svg"), says="drawn alone")


@needs("plotext", "python3 -m pip install plotext")
class Terminal(PlotTest):
    def on_terminal(self, **variables):
        """What a terminal of 100 columns is given."""
        code, shown = on_terminal("plot", sample("latency"), "--terminal", columns=100, stream="stdout",
                                  PATH=path_to("plotext"), **variables)
        self.assertEqual(code, 0, shown)
        return shown

    def test_terminals_have_colour_and_their_own_width(self):
        shown = self.on_terminal()
        self.assertIn("\x1b[", shown)
        plain = self.on_terminal(NO_COLOR="1")
        self.assertNotIn("\x1b", plain)
        self.assertEqual(max(map(len, plain.splitlines())), 100)

    def test_fits_and_is_plain_where_there_is_no_terminal(self):
        for names in (["latency", "slower"], ["bw"], ["allreduce"], ["pairs"], ["pairs", "pairs"]):
            screen = self.succeeds("plot", *map(sample, names), "--terminal", PATH=path_to("plotext")).stdout
            self.assertNotIn("\x1b", screen)
            self.assertLessEqual(max(map(len, screen.splitlines())), 80, screen)
            self.assertRegex(screen, r"\b[12] KiB")
            self.assertIn("message size (bytes)", screen)
            self.assertEqual("relative to" in screen, len(names) > 1)


class Refusals(PlotTest):
    def test_they_fit_a_terminal(self):
        code, shown = on_terminal("plot", "no-such-file", "--terminal", columns=40)
        self.assertEqual(code, 2)
        self.assertIn("fairlead plot: ", shown)
        self.assertLessEqual(max(len(line) for line in shown.splitlines() if " " in line.strip()), 40)

    def test_missing_libraries_are_named_with_their_remedy(self):
        for library, options, remedy in (("matplotlib", ["-o", self.file("a.svg")], "apt install python3-matplotlib"),
                                         ("plotext", ["--terminal"], "pip install plotext")):
            self.file(f"{library}.py", "raise ImportError('hidden by a test')\n")
            result = fairlead("plot", sample("latency"), *options, PYTHONPATH=self.folder.name)
            self.assertEqual(result.returncode, 77, result)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            for text in (library, "hidden by a test", remedy):
                self.assertIn(text, result.stderr)
        self.assertFalse(os.path.exists(self.file("a.svg")))

    def test_bars_are_not_for_terminals(self):
        times = {"latency_us": {"mean": 1, "min": 1, "max": 1}}
        halo = self.file("halo.json", json.dumps({"benchmark": "halo", "results": [{"face": "i", "bytes": 8, **times}]}))
        if path_to("plotext"):
            self.refuses("plot", halo, "--terminal", PATH=path_to("plotext"), says=["face", ".svg"])

    def test_a_part_of_a_trace(self):
        path = self.file("trace.json", json.dumps(trace()))
        for wrong in ["1ms", "2ms:1ms", "1:2", "1ms:2m", "-1us:2us"]:
            self.refuses("plot", path, f"--time={wrong}", "-o", self.file("b.svg"), says="accepted: BEGIN:END")
        self.refuses("plot", self.file("lat.json", "{}"), "--time", "1us:2us", "-o", self.file("b.svg"),
                     says="--time is for a trace")

    def test_a_trace_is_drawn_alone(self):
        path = self.file("trace.json", json.dumps(trace()))
        self.refuses("plot", path, "--terminal", says=".png, .svg or .pdf")
        self.refuses("plot", path, "-o", self.file("a.html"), says=".png, .svg or .pdf")
        self.refuses("plot", path, sample("bw"), "-o", self.file("a.svg"), says="drawn alone")
        self.refuses("plot", path, "--label", "a", "-o", self.file("a.svg"), says="drawn alone")

    def test_the_system_s_python_draws_where_that_of_path_cannot(self):
        system = "/usr/bin/python3"
        if subprocess.run([system, "-c", "import matplotlib"], capture_output=True).returncode != 0:
            self.skipTest(f"{system} has no matplotlib")
        script(self.folder.name, "python3", "#!/bin/sh\nexit 1\n")
        for path in self.folder.name, "/no/such/folder":
            target = self.file("a.svg")
            self.succeeds("plot", sample("latency"), "-o", target, PATH=path)
            os.remove(target)

    def test_no_drawing(self):
        self.refuses("plot", sample("latency"), "--terminal", says=["FAIRLEAD_HOME", "libexec/fairlead/plot"],
                     FAIRLEAD_HOME=self.folder.name)

    def test_command_lines(self):
        self.refuses("plot", says=["no file given", "--json FILE"])
        self.refuses("plot", sample("bw"), says=["-o FILE.png", "--terminal"])
        self.refuses("plot", sample("bw"), "-o", "a.svg", "--terminal", says="one of the two")
        self.refuses("plot", sample("bw"), "-o", "a.jpg", says=["'a.jpg'", ".png, .svg, .pdf, .html"])
        self.refuses("plot", sample("bw"), "--terminal", "--label", "a", "--label", "b", says=["--label", "one for each"])
        self.refuses("plot", sample("bw"), "--terminal", "--quantity", "busbw", says=["'busbw'", "bandwidth, rate"])

    def test_files(self):
        accepted = "fairlead bench NAME --json FILE"
        for options in ["--terminal"], ["-o", self.file("a.svg")], []:
            self.refuses("plot", self.file("none"), *options, says=["cannot read", "none"])
        cut = {"benchmark": "latency", "results": [{"bytes": 8, "latency_us": {"p50": "fast"}}]}
        with open(sample("pairs")) as file:
            pairs = file.read()
        for content, *says in (("no benchmark", "neither JSON nor pairs", accepted), ("[1]", "no benchmark", accepted),
                               ('{"benchmark": "sleep"}', "'sleep'", accepted),
                               ('{"benchmark": ["bw"]}', "benchmark ['bw']", accepted),
                               ('{"benchmark": "bw", "results": []}', "no results", accepted),
                               (json.dumps(cut), "does not write", accepted),
                               ('{"benchmark": "barrier"}', "barrier", "no sizes"),
                               ('{"benchmark": "host_overhead"}', "host_overhead", "no sizes"),
                               ('{"benchmark": "halo"}', "no results", accepted),
                               (pairs.partition("# stride")[0], "no results", accepted),
                               (pairs + "1 2 3\n", "'1 2 3'", "no row of `fairlead bench pairs`")):
            with self.subTest(content=content), self.assertRaises(Failure) as refused:
                read_runs([self.file("bad", content)], [])
            self.assertEqual(refused.exception.code, 2)
            for text in says:
                self.assertIn(text, str(refused.exception))

    def test_a_folder_that_is_not_there(self):
        self.refuses("plot", sample("bw"), "-o", self.file("none/a.svg"), says=["none/a.svg", "a folder that exists"])

    def test_mixed_benchmarks(self):
        self.refuses("plot", sample("latency"), sample("bw"), "--terminal",
                     says=[f"{sample('latency')} is of latency", f"{sample('bw')} of bw", "call fairlead plot for each"])

    def test_files_of_another_kind_are_not_written_over(self):
        mine = self.file("thesis.svg", "not a picture")
        self.refuses("plot", sample("bw"), "-o", mine, says=["is no SVG", "another file"])
        with open(mine) as file:
            self.assertEqual(file.read(), "not a picture")


if __name__ == "__main__":
    unittest.main()
