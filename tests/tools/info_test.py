# SPDX-License-Identifier: Apache-2.0
"""`fairlead info` tells what was built and what is found, for people and as JSON."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from tool import MPIS, TREE, ToolTest, has_library


class Info(ToolTest):
    def told(self, **variables):
        return json.loads(self.succeeds("info", "--json", **variables).stdout)

    def test_what_was_built(self):
        told = self.told()
        self.assertEqual("fairlead " + told["version"], self.succeeds("--version").stdout.strip())
        self.assertRegex(told["commit"], r"^(unknown|[0-9a-f]{12,}(\+changes)?)$")
        self.assertCountEqual([row["abi"] for row in told["serves"]], filter(has_library, ("openmpi", "mpich", "abi")))
        for row in told["serves"]:
            self.assertTrue(os.path.isfile(row["library"]), row)
        self.assertIsInstance(told["device_code"], list)

    def test_the_commit_is_that_of_the_sources(self):
        source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        if not shutil.which("git") or not os.path.exists(os.path.join(source, ".git")):
            self.skipTest("the sources are no repository, or there is no git")
        git = subprocess.run(["git", "-C", source, "rev-parse", "HEAD"], text=True, capture_output=True)
        commit = self.told()["commit"].removesuffix("+changes")
        if git.returncode == 0 and commit != "unknown":
            objects = subprocess.run(["git", "-C", source, "cat-file", "-t", commit], text=True, capture_output=True)
            self.assertEqual(objects.stdout.strip(), "commit")

    def test_mpis(self):
        # Those of this build were found by their wrappers; on PATH or by the loader only some may be.
        found = self.told()["mpi"]
        self.assertEqual(len({row["library"] for row in found}), len(found))
        for row in found:
            self.assertTrue(os.path.exists(row["library"]), row)
            self.assertTrue(row["name"])
            if row["launcher"]:
                self.assertTrue(os.access(row["launcher"], os.X_OK), row)

    def test_providers(self):
        told = self.told(FAIRLEAD_SIM_DEVICES="3")
        providers = {row["name"]: row for row in told["providers"]}
        self.assertEqual(list(providers), ["cuda", "rocm", "sim"])
        self.assertEqual((len(providers["sim"]["devices"]), providers["sim"]["lacks"], told["provider"]), (3, "", "sim"))
        for row in providers.values():
            self.assertNotEqual(bool(row["devices"]), bool(row["lacks"]), row)

    def test_nccl_of_ones_own(self):
        row, = self.told(FAIRLEAD_NCCL="/nowhere/libnccl.so")["nccl"]
        self.assertEqual((row["library"], row["name"]), ("/nowhere/libnccl.so", ""))
        self.assertIn("/nowhere/libnccl.so", row["lacks"])

    def test_paths(self):
        paths = self.told(FAIRLEAD_TUNING="/tmp/my.tuning")["paths"]
        self.assertEqual(paths["tuning"], "/tmp/my.tuning")
        self.assertEqual(paths["tool"], os.path.join(TREE, "bin", "fairlead"))
        for name in ("libraries", "programs", "manual"):
            self.assertTrue(os.path.isdir(paths[name]), paths)

    def test_pages_of_a_wheel(self):
        """They are in the environment, and the tree that brings them in its lib/python3/site-packages/fairlead/home."""
        with tempfile.TemporaryDirectory() as folder:
            home, pages = os.path.join(folder, "lib/python3/site-packages/fairlead/home"), os.path.join(folder, "share/man")
            os.makedirs(home)
            os.makedirs(os.path.join(pages, "man1"))
            self.assertEqual(self.told(FAIRLEAD_HOME=home)["paths"]["manual"], "")
            open(os.path.join(pages, "man1", "fairlead.1"), "w").close()
            self.assertEqual(self.told(FAIRLEAD_HOME=home)["paths"]["manual"], pages)

    def test_what_adds_an_mpi(self):
        text = " ".join(self.succeeds("info", FAIRLEAD_HOME="/usr").stdout.split())
        for row in self.told(FAIRLEAD_HOME="/usr")["mpi"]:
            if f"({row['abi']}): {row['library']}" in text.partition("not served")[0]:
                self.assertIn(f"install fairlead-bench-{row['abi']}, or build it" if row["abi"] != "abi" else "build it", text)

    def test_text(self):
        text = self.succeeds("info").stdout
        told = self.told()
        self.assertLessEqual(len(text.splitlines()), 40)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        self.assertTrue(text.startswith(f"version    {told['version']}, commit {told['commit']}\n"))
        words = " ".join(text.split())
        for name in ["sim: ", ", in use", "by " + told["topology"], "tuning: the shipped rules", *MPIS]:
            self.assertIn(name, words)
        # A build tree has no headers.
        for name, path in told["paths"].items():
            self.assertEqual(f"{name}: " in text.partition("\npaths ")[2], bool(path) or name == "tuning", text)

    def test_simulated_gpus_that_nobody_asked_for(self):
        result = self.succeeds("info", FAIRLEAD_DEVICE="auto", CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="-1")
        self.assertEqual(result.stderr, "")
        if self.told(FAIRLEAD_DEVICE="auto")["provider"] == "sim":
            self.assertIn("in use by programs; benchmarks use it with --sim N only", " ".join(result.stdout.split()))

    def test_refusals(self):
        self.refuses("info", "--jsno", says=["--jsno", "did you mean --json?"])
        self.refuses("info", "gpus", says="'gpus'")


if __name__ == "__main__":
    unittest.main()
