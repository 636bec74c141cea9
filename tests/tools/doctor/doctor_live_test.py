# SPDX-License-Identifier: Apache-2.0
"""`fairlead doctor` judges this machine, by letting two ranks move bytes."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import kfd_trees  # noqa: E402
from tool import MPIS, TREE, ToolTest, example, examined, fairlead, has_library  # noqa: E402


class Live(ToolTest):
    def test_fairlead_makes_an_mpi_aware(self):
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi):
                code, report, checks = examined(example(abi), "--sim", 2, FAIRLEAD_STATS="1")
                live = {key: check["verdict"] for key, check in checks.items() if key.startswith("live.")}
                self.assertEqual(set(live.values()), {"ok"}, report)
                self.assertIn(f"libfairlead-{abi}.so", checks["live.loaded"]["fact"])
                self.assertIn("0->1 peer", checks["live.send"]["fact"])
                # The MPI is asked, which has no such function, not Fairlead, which has.
                if abi == "mpich":
                    self.assertNotIn("MPIX_Query_rocm_support", checks["live.query"]["fact"])
                self.assertIn("With Fairlead device pointers work here (on simulated GPUs)", report["conclusion"])
                self.assertTrue(report["simulated"])

    SLURM = {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "2", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}

    def test_in_several_tasks_it_is_refused(self):
        tasks = {**self.SLURM, "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
        self.refuses("doctor", example(MPIS[0]), says=["Slurm started 2 processes like this one", "srun -N 1 -n 1"], **tasks)
        _, report, _ = examined("--no-launch", example(MPIS[0]), **tasks)
        self.assertIn("Nothing was tried (no ranks were started: --no-launch was given).", report["conclusion"])

    def test_its_ranks_are_of_its_own_node(self):
        for nodes, said in ("2", True), ("1", False):
            job = {**self.SLURM, "SLURM_JOB_NUM_NODES": nodes, "SLURMD_NODENAME": os.uname().nodename}
            start = examined(example(MPIS[0]), "--sim", 2, **job)[2]["live.start"]
            self.assertEqual(start["verdict"], "ok", start)
            self.assertEqual(os.uname().nodename in start["details"][0], said, start)

    def test_simulated_gpus_in_place_of_real_ones_are_a_failure(self):
        """GPUs that the tools, the bus or a library speak for, and that the ranks cannot use."""
        abi = next(filter(has_library, MPIS), None)
        if abi is None:
            self.skipTest("no library")
        with tempfile.TemporaryDirectory() as folder:
            topology = kfd_trees.write(os.path.join(folder, "kfd"), kfd_trees.MI300A)
            auto = {"FAIRLEAD_DEVICE": "auto", "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}
            kernel = {"FAIRLEAD_KFD_TOPOLOGY": topology}
            library = {"LD_LIBRARY_PATH": os.path.join(TREE, "lib/tests/fake-hip")}
            for here, says in (kernel, "4 x AMD gfx942 are here, but the ranks cannot use them"), \
                    (library, "AMD's library " + library["LD_LIBRARY_PATH"]):
                code, report, checks = examined(example(abi), **auto, **here)
                self.assertEqual((code, checks["live.device"]["verdict"]), (1, "fail"), checks["live.device"])
                self.assertIn(says, checks["live.device"]["fact"])
                self.assertIn("no ROCm (no AMD GPU: there is no /dev/kfd)", checks["live.device"]["fact"])
                self.assertIn("The GPUs of this machine cannot be used", report["conclusion"])
            # Nobody expects real ones where there is nothing, or where simulated ones are demanded.
            self.assertEqual(examined(example(abi), "--sim", 2, **kernel)[2]["live.device"]["verdict"], "ok")
            self.assertEqual(examined(example(abi), **kernel)[2]["live.device"]["verdict"], "ok")

    def test_simulated_gpus_are_named_in_the_second_line(self):
        abi = next(filter(has_library, MPIS), None)
        if abi is None:
            self.skipTest("no library")
        says = "# The Live checks use simulated GPUs: they do not test real ones"
        self.assertEqual(fairlead("doctor", "--sim", 2, example(abi)).stdout.splitlines()[1], says)
        self.assertNotIn(says, fairlead("doctor", "--no-launch", example(abi)).stdout)

    def test_who_moves_messages_between_nodes(self):
        abi = next(filter(has_library, MPIS), None)
        library = os.path.join(TREE, f"lib/libgpu-aware-host-{abi}.so")
        if not os.path.exists(library):
            self.skipTest("no library")
        for host, verdict, fact, remedy in [
                ("says_no", "ok", "staged through host memory: the host MPI is not known to handle device memory", ""),
                ("works", "ok", "device messages between nodes are passed to the host MPI: MPIX_Query_sim_support says yes", ""),
                ("lies", "warn", "a message of 16 bytes from device to device memory arrived with wrong bytes", "FAIRLEAD_NETWORK=staged"),
                ("crashes", "fail", "host MPI claims GPU support but crashed on device memory", "FAIRLEAD_NETWORK=staged")]:
            with self.subTest(host=host):
                check = examined(example(abi), "--sim", 2, LD_PRELOAD=library, TEST_HOST=host)[2]["live.network"]
                self.assertEqual(check["verdict"], verdict, check)
                self.assertIn(fact, check["fact"])
                self.assertIn(remedy, check["remedy"])

    def test_without_fairlead_it_tells_what_device_pointers_meet(self):
        abi = MPIS[0]
        code, report, checks = examined(example(abi), "--sim", 2, "--no-preload")
        self.assertEqual(code, 1)
        self.assertEqual(checks["mpi.gpu"]["verdict"], "fail")
        self.assertEqual(checks["live.start"]["verdict"], "ok", checks["live.start"])
        self.assertEqual(checks["live.ipc"]["verdict"], "ok", checks["live.ipc"])
        self.assertEqual(checks["live.send"]["verdict"], "fail")
        self.assertIn("a rank died by SIGSEGV", checks["live.send"]["fact"])
        self.assertIn("fairlead run", checks["live.send"]["remedy"])
        self.assertEqual(checks["live.tohost"]["verdict"], "skip")
        self.assertIn("Device pointers do not work without Fairlead", report["conclusion"])

    def test_refused_ipc_is_told_with_its_reason(self):
        abi = next(filter(has_library, MPIS), None)
        if not abi:
            self.skipTest("no library")
        code, report, checks = examined(example(abi), "--sim", 2, FAIRLEAD_SIM_FAULTS="no_import")
        self.assertEqual(checks["live.ipc"]["verdict"], "warn")
        self.assertIn("cannot be mapped", checks["live.ipc"]["fact"])
        self.assertEqual(checks["live.send"]["verdict"], "warn")
        self.assertIn("0->1 staged (", checks["live.send"]["fact"])

    def test_a_recording_judges_as_the_machine(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "here")
            _, _, here = examined("--no-launch", "--record", copy, example(MPIS[0]))
            _, _, there = examined("--from", copy, example(MPIS[0]))
            for key, check in here.items():
                # A recording has no libraries of Fairlead, and tells another why nothing was started.
                if key not in ["mpi.abi", "live.start"]:
                    self.assertEqual(there[key], check)


if __name__ == "__main__":
    unittest.main()
