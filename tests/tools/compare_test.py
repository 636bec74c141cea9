# SPDX-License-Identifier: Apache-2.0
"""`bench/compare` leaves a complete folder behind, goes on with it, and refuses nonsense."""

import glob
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

from pictures import path_to
from tool import MPIS, POLITE, TIMEOUT, TOOL, TREE, has_library

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench/compare")
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("compare", SCRIPT)
compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
sys.modules["compare"] = compare
loader.exec_module(compare)

ABI = MPIS[0]


def script(*arguments, folder=None, **environment):
    """Runs the script on the simulated GPU, in `folder`."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("FAIRLEAD_")}
    variables.update({"FAIRLEAD_DEVICE": "sim", "PYTHONDONTWRITEBYTECODE": "1", "LD_PRELOAD": POLITE, **environment})
    tool = [] if "--fairlead" in arguments else ["--fairlead", TOOL]
    return subprocess.run([sys.executable, SCRIPT, *tool, *arguments], cwd=folder, env=variables, text=True,
                          timeout=4 * TIMEOUT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def launcher():
    line = subprocess.run([TOOL, "run", "-n", "2", "--dry-run", TOOL, "bench", "latency", "--mpi", ABI], text=True,
                          capture_output=True).stdout
    return line.split()[0]


def aware(folder):
    """The variable that makes a peer GPU-aware, by Fairlead's own means under names that do not tell."""
    os.symlink(os.path.join(TREE, "lib", f"libfairlead-{ABI}.so"), os.path.join(folder, "peer.so"))
    for library in glob.glob(os.path.join(TREE, "lib", "libfairlead-device.so*")):
        os.symlink(library, os.path.join(folder, os.path.basename(library)))
    return f"LD_PRELOAD={folder}/peer.so"


def pretended_tool(folder):
    """A `fairlead` that notes each benchmark it is asked for, and fails in those of TEST_FAILS."""
    for name in "bin", "libexec/fairlead":
        os.makedirs(os.path.join(folder, name))
    files = {f"libexec/fairlead/bench-{ABI}": "#!/bin/sh\n", "bin/fairlead": f"""#!/bin/bash
who=fairlead probe=
for word; do
  [ "$word" != --no-preload ] || who=peer
  [ "$word" != -x ] || probe=1
  [ "$before" != --json ] || file=$word
  before=$word
done
[ -n "$file" ] || exit 0
echo "$*" >> {folder}/calls
[ "$who" != "$TEST_FAILS" ] || [ -n "$probe" ] || exit 139
echo '{{"results": [{{"bytes": 8, "latency_us": {{"p50": 2}}, "bandwidth_mb_s": {{"p50": 2}}, "put_us": {{"p50": 2}}}}],' > "$file"
echo ' "hardware": {{"gpus": ["X", "X"]}}}}' >> "$file"
"""}
    for name, text in files.items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
        os.chmod(os.path.join(folder, name), 0o755)
    return os.path.join(folder, "bin", "fairlead")


def read(*path):
    with open(os.path.join(*path)) as file:
        return json.load(file) if path[-1].endswith(".json") else file.read()


@unittest.skipUnless(has_library(ABI), "needs the interposition library")
class Comparison(unittest.TestCase):
    def test_messages(self):
        with tempfile.TemporaryDirectory() as folder:
            peer = ["--peer", f"aware={launcher()}", "--peer-env", aware(folder)]
            with open(os.path.join(folder, "environment.sh"), "w") as file:
                file.write("export PEER_FILE_WAS_SOURCED=1\n")
            call = ["--quick", "--largest", "1k", "--mpi", ABI, *peer, "--env", "aware=environment.sh", "-o", "out"]
            result = script(*call, folder=folder, FAIRLEAD_SIM_DEVICES="2")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertIn("left out: nccl: exit code 77", result.stdout)
            runs = os.path.join(folder, "out", "runs")
            for name, preloaded in ((f"fairlead-{ABI}", True), ("peer-aware", False)):
                report = read(runs, f"latency-{name}-1-0.json")
                self.assertEqual([row["bytes"] for row in report["results"]], [1024])
                self.assertEqual(report["preloaded"], preloaded)
            page = read(folder, "out", "README.md")
            for text in ("2 x simulated GPU", "## Latency (us)", "## Added to a host message (ns)", "## Commands", "environment.sh",
                         f"Fairlead, {ABI} of aware", "these timings are not valid"):
                self.assertIn(text, page)
            if path_to("matplotlib"):
                self.assertIn("](latency.png)", page)
                self.assertTrue(os.path.exists(os.path.join(folder, "out", "latency.png")))
            # Again, with one run missing: only that one runs, and what is to show whether NCCL is there.
            before = {path: os.stat(path).st_mtime_ns for path in glob.glob(f"{runs}/[!p]*.json")}
            os.remove(os.path.join(runs, "latency-peer-aware-0-0.json"))
            again = script(*call, folder=folder, FAIRLEAD_SIM_DEVICES="2")
            self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
            changed = [path for path, at in before.items() if os.stat(path).st_mtime_ns != at]
            self.assertEqual([os.path.basename(path) for path in changed], ["latency-peer-aware-0-0.json"])

    def test_every_stage_can_be_planned(self):
        for stage, (_, rows) in compare.STAGES.items():
            with self.subTest(stage=stage):
                result = script(f"--{stage}", "--mpi", ABI, "--dry-run")
                self.assertEqual(result.returncode, 0, result.stderr)
                for row in rows:
                    self.assertIn(f" bench {row.words.split()[0]} ", result.stdout)

    def test_a_peer_that_fails_is_a_result_and_fairlead_that_fails_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = pretended_tool(folder)
            call = ["--fairlead", tool, "--one-sided", "--quick", "--mpi", ABI, "--peer", "ucx=mpirun", "-o"]
            for fails, out, code in ("peer", "a", 0), ("fairlead", "b", 1), ("nobody", "b", 0):  # what failed is tried again
                result = script(*call, out, folder=folder, TEST_FAILS=fails)
                self.assertEqual(result.returncode, code, result.stdout + result.stderr)
                self.assertEqual("FAILED: exit code 139" in result.stdout, fails != "nobody", result.stdout)
                self.assertEqual("fails" in read(folder, out, "README.md"), fails == "peer")
            # What another command measured is not taken for the result of this one.
            calls = [len(read(folder, "calls").splitlines())]
            for words in call, [word for word in call if word != "--quick"]:
                script(*words, "b", folder=folder, TEST_FAILS="nobody")
                calls.append(len(read(folder, "calls").splitlines()))
            self.assertEqual(calls[0], calls[1])
            self.assertLess(calls[1], calls[2])

    def test_medians_of_rounds(self):
        rounds = [{"results": [{"bytes": 8, "latency_us": {"p50": value}}], "mpi": "x"} for value in (3, 1, 2)]
        self.assertEqual(compare.median(rounds), {"results": [{"bytes": 8, "latency_us": {"p50": 2}}], "mpi": "x"})


class Mistakes(unittest.TestCase):
    def refuses(self, *arguments, says):
        with self.subTest(arguments=arguments):
            result = script(*arguments, "--dry-run")
            self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertIn(says, result.stderr)

    def test_bad_arguments(self):
        self.refuses("--bogus", says="--bogus")
        self.refuses("--mpi", "bogus", says="NAME=MPIRUN")
        self.refuses("--mpi", "a=", says="'a='")
        self.refuses("--mpi", "a='open", says="open quote")
        self.refuses("--mpi", "a=mpirun", "--mpi", "a=mpiexec", says="two contenders")
        self.refuses("--mpi", "a b=mpirun", says="'a b'")
        self.refuses("--peer", "mpirun", says="NAME=MPIRUN")
        self.refuses("--peer-env", "A=b", says="--peer NAME=MPIRUN")
        self.refuses("--peer", "p=mpirun", "--peer-env", "A", says="VARIABLE=VALUE")
        self.refuses("--env", "nobody=/dev/null", says="'nobody'")
        self.refuses("--env", f"{ABI}=no-such-file", says="no-such-file")
        self.refuses("--without", "nobody", says="'nobody'")
        self.refuses("--largest", "many", says="'many'")
        self.refuses("--datatypes", "--one-sided", says="--one-sided: not allowed with argument --datatypes")
        self.refuses("--one-sided", "--without", "raw", says="'raw'")
        self.refuses("--nodes", "--peer", "p=mpirun", says="--nodes compares with the host MPI alone")
        self.refuses("--rounds", "0", says="--rounds: 0")
        self.refuses("--timeout", "0", says="more than 0")
        self.refuses("--fairlead", "/no/such/fairlead", says="no executable")

    def test_folders(self):
        with tempfile.TemporaryDirectory() as full:
            with open(os.path.join(full, "something"), "w"):
                pass
            for folder in full, "/proc/compare":
                result = script("-o", folder)
                self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
                self.assertIn(folder, result.stderr)


if __name__ == "__main__":
    unittest.main()
