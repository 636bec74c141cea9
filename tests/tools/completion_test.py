# SPDX-License-Identifier: Apache-2.0
"""What bash completes: the script that `fairlead --completion` writes is sourced and asked."""

import os
import shlex
import subprocess
import tempfile
import unittest

from tool import TIMEOUT, TREE, ToolTest

QUESTIONS = {
    "fairlead b": ["bench"],
    "fairlead ": ["run", "exec", "bench", "matrix", "compare", "doctor", "hang", "plot", "info", "options", "help"],
    "fairlead bench la": ["latency", "latency_persistent", "latency_mt"],
    "fairlead bench m": ["mbw_mr", "multi_lat", "matrix"],
    "fairlead bench matrix --way ": ["mpi", "mpi-blit", "engine", "engine-blit", "kernel"],
    "fairlead help bench ibar": ["ibarrier"],
    "fairlead bench latency --v": ["--validation", "--via", "--visible", "--version"],
    "fairlead bench latency --via ": ["mpi", "nccl"],
    "fairlead bench latency --via = n": ["nccl"],  # as bash takes --via=n apart
    "fairlead bench latency -m 8:8 ": ["D", "H", "M"],
    "fairlead bench tune -n 2 red": ["reduce", "reduce_scatter"],
    "fairlead bench put_b": ["put_bw", "put_bibw"],
    "fairlead bench get_bw --win-option ": ["create", "allocate", "dynamic"],
    "fairlead bench put_halo -s ": ["fence", "pscw"],
    "fairlead bench bw -d ": ["cuda", "rocm", "sim"],
    "fairlead matrix --way ": ["mpi", "mpi-blit", "engine", "engine-blit", "kernel"],
    "fairlead bench latency --gpu r": ["round-robin"],
    "fairlead run --gpu ": ["nearest", "round-robin", "compact", "spread"],
    "fairlead run --mpi m": ["mpich", "my.json"],
    "fairlead run -n 2 --pro": ["--progress"],
    "fairlead run -n 2 --json my": ["my.json"],
    "fairlead run -n 2 ./pr": ["./program"],
    "fairlead run -n 2 ./program --pro": [],  # the program's
    "fairlead run -n 2 ./program my": ["my.json"],
    "fairlead run -n 2 fairlead bench bw --vi": ["--via", "--visible"],
    "fairlead doctor options FAIRLEAD_IP": ["FAIRLEAD_IPC"],
    "fairlead options --j": ["--json"],
    "fairlead doctor --from f": ["folder"],
}


class Completion(ToolTest):
    def test_answers(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "folder"))
            for name in ("my.json", "program"):
                open(os.path.join(folder, name), "w").close()
            text = self.succeeds("--completion").stdout
            for question in QUESTIONS:
                words = question.split(" ")
                text += (f"COMP_WORDS=({' '.join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}\n"
                         '_fairlead; (IFS=" "; echo "${COMPREPLY[*]}")\n')
            result = subprocess.run(["bash", "-u", "-c", text], cwd=folder, text=True, capture_output=True, timeout=TIMEOUT)
            self.assertEqual(result.stderr, "")
            answers = result.stdout.splitlines()
            self.assertEqual(len(answers), len(QUESTIONS))
            for question, answer in zip(QUESTIONS, answers):
                with self.subTest(question=question):
                    self.assertEqual(answer.split(), QUESTIONS[question])

    def test_every_option_of_help_is_completed(self):
        text = self.succeeds("--completion").stdout
        for command in "run", "exec", "matrix", "doctor", "plot", "options", "bench latency", "bench ibcast":
            line = next(line for line in text.splitlines() if line.strip(" '").startswith(command)
                        and line.lstrip(" '")[len(command)] in "')")
            for shown in self.succeeds(*command.split(), "--help").stdout.splitlines():
                if shown.startswith("  -"):
                    self.assertIn(shown.split()[0].rstrip(","), line)

    def test_the_build_has_written_it(self):
        with open(os.path.join(TREE, "share", "bash-completion", "completions", "fairlead")) as file:
            self.assertEqual(file.read(), self.succeeds("--completion").stdout)


if __name__ == "__main__":
    unittest.main()
