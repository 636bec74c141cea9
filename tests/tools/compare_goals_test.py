# SPDX-License-Identifier: Apache-2.0
"""The tables of `bench/compare`, and what its goals say about numbers."""

import os
import sys
import unittest

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench")
sys.dont_write_bytecode = True
sys.path.insert(0, BENCH)

from comparison.contenders import Contender  # noqa: E402
from comparison.goals import AT_LEAST, AT_MOST, Goal, goal_text, ratio_text, seen_text  # noqa: E402
from comparison.measurements import size  # noqa: E402
from comparison.results import Results, alone  # noqa: E402
from comparison.runner import read_pairs  # noqa: E402
from comparison.stages import DATATYPES, NODES, STAGES  # noqa: E402
from comparison.tables import TABLES, of_rows  # noqa: E402

class Tables(unittest.TestCase):
    def test_every_table_has_a_measurement(self):
        for stage in STAGES:
            ids = [measurement.id for measurement in stage.measurements]
            for row in (*TABLES[stage.name], *stage.goals):
                self.assertIn(row.measurement, ids)

    def test_what_is_compared_with_the_host_mpi_alone_has_it(self):
        ids = {measurement.id: measurement for measurement in NODES.measurements}
        for row in (*TABLES[NODES.name], *(goal for goal in NODES.goals if goal.against)):
            self.assertIn(alone(row.measurement), ids)
            self.assertEqual(ids[row.measurement].benchmark, ids[alone(row.measurement)].benchmark)

    def test_each_mpi_has_its_own_beside_it(self):
        results = Results([Contender("a", "fairlead"), Contender("b", "fairlead")])
        for name, factor in (("a", 1.0), ("b", 10.0)):
            for measurement, time in (("bcast", 3.0), ("bcast-host", 2.0), ("bcast-alone", 2.0)):
                results.add(measurement, name, {"results": [
                    {"bytes": 8, "latency_us": {"p50": time * factor, "mean": time * factor + 2}}]})
        found = [of_rows(results, table) for table in TABLES[NODES.name]]
        self.assertEqual([text.splitlines()[2] for text in found if text],
                         ["| 8 B | 3.00 | 30.00 | 2.00 | 20.00 | 1.50 | 1.50 |",
                          "| 8 B | 4.00 | 22.00 | 4.00 | 22.00 | 1.00 | 1.00 |"])

    def test_faces(self):
        results = Results([Contender("a", "fairlead"), Contender("b", "peer")])
        results.add("halo", "a", {"results": [
            {"face": face, "bytes": 64, "latency_us": {"p50": time}, "contiguous_us": {"p50": 20.0}}
            for face, time in (("i", 45.0), ("j", 25.0))]})
        results.fail("halo", "b")
        wanted, = (table for table in TABLES[DATATYPES.name] if table.measurement == "halo")
        self.assertEqual(of_rows(results, wanted).splitlines()[2:], ["| face i | 45.00 | fails | 20.00 | 2.25 |",
                                                                     "| face j | 25.00 | fails | 20.00 | 1.25 |"])

    def test_pairs(self):
        table = ("a launcher's own words\n# pairs: 1\n# stride between partners: 2\n# ping-pongs | count | ...\n"
                 "4 32768 26.5 25.5 25.25 9.25 9.5 9.75 1 2 3\n")
        report = read_pairs(table)
        self.assertEqual(report["header"], ["# pairs: 1", "# ping-pongs | count | ..."])
        row, = report["results"]
        self.assertEqual((row["stride"], row["messages"], row["bytes"]), (2, 4, 256 << 10))
        self.assertEqual(row["time_us"]["mean"], 25.5)
        self.assertAlmostEqual(row["bandwidth_mb_s"]["mean"], 9.5 * (1 << 30) / 1e6)


class Verdicts(unittest.TestCase):
    def results(self):
        results = Results([Contender("a", "fairlead"), Contender("b", "peer"), Contender("raw", "raw")])
        rows = {"a": {8: 5.0, 1024: 6.0, 4096: 30.0}, "b": {8: 10.0, 1024: 10.0, 4096: 10.0}}
        for name, values in rows.items():
            results.add("latency", name, {"results": [{"bytes": b, "latency_us": {"p50": v}}
                                                      for b, v in values.items()]})
            results.add("bibw", name, {"results": [{"bytes": 1024, "bandwidth_mb_s": {"p50": 150.0}}]})
            results.add("bw", name, {"results": [{"bytes": 1024, "bandwidth_mb_s": {"p50": 1024.0}}]})
        results.add("staged", "a", {"results": [{"bytes": 1024, "bandwidth_mb_s": {"p50": 45.0}}]})
        results.add("copy", "raw", {"results": [
            {"bytes": 1024, "latency_us": {"p50": 3.0}, "bandwidth_mb_s": {"p50": 100.0}, "both_ways_mb_s": {"p50": 200.0},
             "host_to_device_mb_s": {"p50": 50.0}, "device_to_host_mb_s": {"p50": 60.0}}]})
        return results

    def test_of_two_forms_of_nccl_the_faster_one_counts(self):
        results = Results([Contender("a", "fairlead"), Contender("plain", "nccl"), Contender("graph", "nccl")])
        for name, values in (("a", {8: 6.0, 64: 6.0, 512: 6.0}), ("plain", {8: 10.0, 64: 5.0}),
                             ("graph", {8: 8.0, 512: 12.0})):
            results.add("allreduce", name, {"results": [
                {"bytes": b, "latency_us": {"p50": v}, "busbw_gb_s": 1 / v} for b, v in values.items()]})
        for quantity, best, ratios in (("latency_us", AT_MOST, [6 / 8, 6 / 5, 6 / 12]),
                                       ("busbw_gb_s", AT_LEAST, [8 / 6, 5 / 6, 12 / 6])):
            found = results.ratios(Goal("allreduce", quantity, (8, 1024), best, 1, "nccl", ""), "a")
            self.assertEqual(list(found), [8, 64, 512])
            for ratio, expected in zip(found.values(), ratios):
                self.assertAlmostEqual(ratio, expected)

    def worst(self, measurement, quantity, best, limit, against, sizes=(8, 2048)):
        return self.results().verdict(Goal(measurement, quantity, sizes, best, limit, against, ""), "a")

    def test_the_worst_size_decides(self):
        verdict = self.worst("latency", "latency_us", AT_MOST, 0.55, "peer")
        self.assertEqual((verdict.worst, verdict.met), ((1024, 0.6), False))
        self.assertEqual(seen_text(verdict), "0.60 at 1 K")
        self.assertTrue(self.worst("latency", "latency_us", AT_MOST, 0.6, "peer").met)
        self.assertEqual(self.worst("latency", "latency_us", AT_MOST, 1, "raw").worst, (1024, 2.0))

    def test_of_several_rounds_the_median_counts(self):
        results = self.results()
        for latency in (1.0, 7.0):
            results.add("latency", "a", {"results": [{"bytes": 1024, "latency_us": {"p50": latency}}]})
        goal = Goal("latency", "latency_us", (1024, 1024), AT_MOST, 0.55, "peer", "")
        self.assertEqual(results.verdict(goal, "a").worst, (1024, 0.6))  # of 6, 1 and 7
        for added in (30.0, 10.0, 11.0):
            results.add("host_overhead", "a", {"added_ns": added, "host": "h"})
        self.assertEqual(results.overhead["a"], {"added_ns": 11.0, "host": "h"})

    def test_both_ways_the_raw_copy_goes_both_ways_too(self):
        self.assertEqual(self.worst("bibw", "bandwidth_mb_s", AT_LEAST, 0.7, "raw").worst, (1024, 0.75))

    def test_staging_is_compared_with_the_slower_host_copy(self):
        self.assertEqual(self.worst("staged", "bandwidth_mb_s", AT_LEAST, 0.9, "pcie").worst, (1024, 0.9))

    def test_busbw(self):
        results = self.results()
        results.add("allreduce", "a", {"results": [{"bytes": 8, "latency_us": {"p50": 2.0}, "busbw_gb_s": 10.0}]})
        results.add("allreduce", "raw", {"results": [{"bytes": 8, "latency_us": {"p50": 2.0}}]})
        self.assertEqual(results.values("allreduce", "a", "busbw_gb_s"), {8: 10.0})
        self.assertEqual(results.values("allreduce", "raw", "latency_us"), {})

    def test_message_rate(self):
        self.assertEqual(self.results().values("bw", "a", "rate"), {1024: 1e6})

    def test_a_goal_without_numbers_is_neither_met_nor_missed(self):
        verdict = self.worst("fresh", "latency_us", AT_MOST, 2, "used")
        self.assertIsNone(verdict.worst)
        self.assertEqual(seen_text(verdict), "not measured")

    def layouts(self):
        results = self.results()
        for name, times in (("a", (40.0, 20.0)), ("b", (80000.0, 40.0))):
            results.add("halo", name, {"results": [
                {"face": face, "bytes": 2 << 20, "latency_us": {"p50": time}, "contiguous_us": {"p50": 16.0}}
                for face, time in zip("ik", times)]})
        results.add("datatype", "a", {"results": [
            {"type": type_, "bytes": 8000, "contiguous_us": {"p50": 10.0}, "bandwidth_gb_s": rate, "plan_us": 42.0}
            for type_, rate in (("vector", 0.1), ("indexed", 0.4))]})
        return results

    def test_rows_bring_what_they_are_compared_with(self):
        results = self.layouts()
        worst = results.verdict(Goal("halo", "latency_us", (8, 4 << 20), AT_MOST, 1.3, "contiguous", ""), "a")
        self.assertEqual((worst.worst, seen_text(worst)), (("face i", 2.5), "2.50 for face i"))
        goal = Goal("datatype", "bandwidth_gb_s", (8000, 8000), AT_LEAST, 0.3, "contiguous", "", {"type": "indexed"})
        self.assertEqual(results.verdict(goal, "a").values, {"indexed": 0.5})

    def test_goals_beside_the_host_mpi_alone(self):
        results = self.results()
        for measurement, time in (("bcast", 30.0), ("bcast-host", 20.0), ("bcast-alone", 20.0)):
            results.add(measurement, "a", {"results": [{"bytes": 8, "latency_us": {"p50": time, "mean": time + 1}}]})
        for measurement, quantity, limit, against, text, seen, met in (
                ("bcast", "latency_us", 25, "added", "bcast: at most 25 us added", "10.0 us", True),
                ("bcast", "latency_us", 1.4, "alone", "bcast: at most 1.4 of the MPI alone", "1.50 at 8 B", False),
                ("bcast-host", "mean_us", 1.03, "alone", "bcast: at most 1.03 of the MPI alone", "1.00 at 8 B", True)):
            goal = Goal(measurement, quantity, (8, 8), AT_MOST, limit, against, "bcast")
            verdict = results.verdict(goal, "a")
            self.assertEqual((goal_text(goal, ""), seen_text(verdict), verdict.met), (text, seen, met))

    def test_what_mpi_init_adds_is_compared_with_a_context(self):
        results = self.results()
        for measurement, init, context in (("init", 410.0, 5.0), ("init-alone", 200.0, 200.0)):
            row = {"init_ms": init, "context_ms": context, "total_ms": init + context}
            results.add(measurement, "a", {"results": [{name: {"mean": value} for name, value in row.items()}]})
        goal = Goal("init", "total_ms", (0, 0), AT_MOST, 0.1, "context", "MPI_Init")
        verdict = results.verdict(goal, "a")
        self.assertEqual((goal_text(goal, ""), seen_text(verdict), verdict.met),
                         ("MPI_Init: at most 0.1 of a context added", "0.075 for MPI_Init", True))

    def test_goals_of_percentages_say_where(self):
        results = self.results()
        results.add("overlap", "a", {"results": [{"bytes": 1 << 20, "overlap_percent": 96.0},
                                                 {"bytes": 64 << 20, "overlap_percent": 41.5}]})
        goal = Goal("overlap", "overlap_percent", (1 << 20, 64 << 20), AT_LEAST, 95, "", "exchange")
        verdict = results.verdict(goal, "a")
        self.assertEqual((goal_text(goal, ""), seen_text(verdict), verdict.met),
                         ("exchange: at least 95 %", "41.5 % at 64 M", False))

    def test_goals_of_some_rows(self):
        results = self.layouts()
        goal = Goal("halo", "latency_us", (2 << 20, 2 << 20), AT_MOST, 0.01, "peer", "", {"face": "i"})
        self.assertEqual(seen_text(results.verdict(goal, "a")), "0.0005 for face i")
        goal = Goal("halo", "latency_us", (8, 8), AT_MOST, 0.01, "peer", "", {"face": "i"})
        self.assertEqual(seen_text(results.verdict(goal, "a")), "not measured")
        results.fail("datatype", "b")
        goal = Goal("datatype", "bandwidth_gb_s", (8, 8000), AT_LEAST, 1, "peer", "")
        self.assertEqual(seen_text(results.verdict(goal, "a")), "b fails")

    def test_goals_without_a_yardstick(self):
        goal = Goal("datatype", "plan_us", (8, 8000), AT_MOST, 1000, "", "first use")
        verdict = self.layouts().verdict(goal, "a")
        self.assertTrue(verdict.met)
        self.assertEqual((goal_text(goal, "b"), seen_text(verdict)), ("first use: at most 1000 us", "42.0 us"))

    def test_ratios(self):
        self.assertEqual([ratio_text(r) for r in (16926.5, 2.118, 0.961, 0.0004, 0)],
                         ["16926", "2.12", "0.96", "0.0004", "0"])

    def test_a_missed_goal_never_reads_as_met(self):
        results = self.results()
        results.rows["latency", "a"][8]["latency_us"]["p50"] = 10.001
        goal = Goal("latency", "latency_us", (8, 8), AT_MOST, 1, "peer", "")
        self.assertEqual(seen_text(results.verdict(goal, "a")), "1.0001 at 8 B")

    def test_sizes(self):
        self.assertEqual([size(n) for n in (8, 1024, 1536, 64 << 10, 1 << 20)], ["8 B", "1 K", "1.5 K", "64 K", "1 M"])


if __name__ == "__main__":
    unittest.main()
