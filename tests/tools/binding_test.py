# SPDX-License-Identifier: Apache-2.0
"""Which GPU and which cores `fairlead exec` gives to a rank, on machines of the tests' own, under every launcher."""

import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import kfd_trees
from machines import CXI, DGX, EFA, MI250X, MLX5, SMALL, as_xml, write_sys
from tool import MPIS, TIMEOUT, TOOL, TREE, ToolTest, example, fairlead, host_mpi, script

LAUNCHERS = {
    "Open MPI": lambda rank, size: {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": size,
                                    "OMPI_COMM_WORLD_LOCAL_RANK": rank, "OMPI_COMM_WORLD_LOCAL_SIZE": size,
                                    "PMIX_NAMESPACE": f"prterun-{os.getpid()}@1"},
    "Hydra": lambda rank, size: {"PMI_RANK": rank, "PMI_SIZE": size, "MPI_LOCALRANKID": rank, "MPI_LOCALNRANKS": size},
    "PALS": lambda rank, size: {"PALS_RANKID": rank, "PALS_LOCAL_RANKID": rank, "PALS_LOCAL_SIZE": size,
                                "PALS_APID": f"{os.getpid()}-pals"},
    "Flux": lambda rank, size: {"FLUX_TASK_RANK": rank, "FLUX_JOB_SIZE": 2 * size, "FLUX_TASK_LOCAL_ID": rank,
                                "FLUX_JOB_NNODES": 2, "FLUX_JOB_ID": os.getpid()},
    # The second of three nodes.
    "Slurm": lambda rank, size: {"SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": 2 * size + 1, "SLURM_LOCALID": rank,
                                 "SLURM_STEP_TASKS_PER_NODE": f"{size}(x2),1", "SLURM_NODEID": 1,
                                 "SLURM_JOB_ID": os.getpid(), "SLURM_STEP_ID": 0, "PMI_RANK": rank},
}
# With its plugin cray_shasta, the newer of which pass the local rank as well.
PALS_BY_SLURM = {
    "older": lambda rank: {"PALS_APID": f"{os.getpid()}.0", "PALS_RANKID": rank, "PALS_NODEID": 1},
    "newer": lambda rank: {"PALS_APID": f"{os.getpid()}.0", "PALS_RANKID": rank, "PALS_NODEID": 1, "PALS_LOCAL_RANKID": rank},
}
for release, pals in PALS_BY_SLURM.items():
    LAUNCHERS[f"Slurm on a Cray, {release}"] = lambda rank, size, pals=pals: {
        **{name: value for name, value in LAUNCHERS["Slurm"](rank, size).items() if name != "PMI_RANK"}, **pals(rank)}
LINE = re.compile(r"rank (\d+) \S+ local (\d+) cores (\S+) NUMA (\S+) GPU (\d+) (\S+) NUMA (\S+)(?: 63 GB/s)?")
OTHERS = re.compile("OMPI_|PMI|MPI_LOCAL|PALS_|FLUX_|SLURM_|HWLOC_|FAIRLEAD_")


class BindingTest(ToolTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, content):
        path = os.path.join(self.folder, name)
        if os.path.exists(path):  # ranks that were started before read it
            return path
        with open(path, "w") as file:
            file.write(content)
        return path

    def start(self, rank, size, *options, machine, launcher="Hydra", cpu=None, gpus=None, come=True, program=("true",),
              kfd=None, more=None):
        variables = {name: value for name, value in os.environ.items() if not OTHERS.match(name)}
        variables.update({name: str(value) for name, value in LAUNCHERS[launcher](rank, size).items()})
        variables.update(FAIRLEAD_DEVICE="sim", HWLOC_XMLFILE=self.file(f"machine-{id(machine)}.xml", as_xml(machine)),
                         FAIRLEAD_SIM_DEVICES=str(gpus or sum(len(node[1]) for node in machine)))
        if kfd is not None:
            variables["FAIRLEAD_KFD_TOPOLOGY"] = kfd_trees.write(os.path.join(self.folder, f"kfd-{id(kfd)}"), kfd)
        variables.update(more or {})
        if cpu is not None:
            variables["HWLOC_THISSYSTEM"] = "1"
        return subprocess.Popen([TOOL, "exec", "--no-preload", "--print-binding", *options, *program], env=variables,
                                text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                preexec_fn=cpu if cpu is None else lambda: os.sched_setaffinity(0, {cpu}))

    def ranks(self, size, *options, cpus=None, **how):
        """What each rank prints of itself: all are started at once, as launchers do."""
        started = [self.start(rank, size, *options, cpu=cpus and cpus[rank], **how) for rank in range(size)]
        found = []
        for rank, process in enumerate(started):
            output, errors = process.communicate(timeout=TIMEOUT)
            self.assertEqual(process.returncode, 0, errors)
            match = LINE.fullmatch(errors.strip())
            self.assertTrue(match, errors)
            self.assertEqual(int(match[2]), rank)
            found.append(match)
        return found

    def gpus(self, *arguments, **how):
        return [int(match[5]) for match in self.ranks(*arguments, **how)]


class Policies(BindingTest):
    def test_unbound_ranks_take_gpus_in_turn(self):
        self.assertEqual(self.gpus(8, "--visible", machine=DGX), [0, 1, 2, 3, 4, 5, 6, 7])
        self.assertEqual(self.gpus(2, "--gpu", "nearest", machine=DGX), [0, 1])

    def test_several_ranks_on_a_gpu(self):
        self.assertEqual(self.gpus(8, "--gpu", "nearest", machine=SMALL), [0, 0, 1, 1, 2, 2, 3, 3])
        self.assertEqual(self.gpus(8, "--gpu", "compact", machine=SMALL), [0, 0, 1, 1, 2, 2, 3, 3])
        self.assertEqual(self.gpus(8, "--gpu", "round-robin", machine=SMALL), [0, 1, 2, 3, 0, 1, 2, 3])
        self.assertEqual(self.gpus(6, "--gpu", "spread", machine=SMALL), [0, 1, 2, 3, 0, 1])

    def test_few_ranks(self):
        self.assertEqual(self.gpus(2, "--gpu", "compact", machine=DGX), [0, 1])
        self.assertEqual(self.gpus(2, "--gpu", "spread", machine=DGX), [0, 4])
        self.assertEqual(self.gpus(3, "--gpu", "round-robin", machine=DGX), [0, 1, 2])

    def test_line_tells_where_the_gpu_is(self):
        match = self.ranks(2, "--gpu", "spread", machine=DGX)[1]
        self.assertEqual(match.groups(), ("1", "1", "0-7", "0-1", "4", "0000:9d:00.0", "1"))
        self.assertIn(" 63 GB/s", match[0])
        # Devices are numbered by address, not by the node they are near.
        match = self.ranks(1, "--map", "0", machine=MI250X)[0]
        self.assertEqual((match[6], match[7]), ("0000:c1:00.0", "3"))

    def test_the_same_as_json(self):
        path = os.path.join(self.folder, "binding-{rank}.json")
        line = self.start(1, 2, "--gpu", "spread", "--json", path, machine=DGX).communicate()[1]
        with open(path.replace("{rank}", "1")) as file:
            binding = json.load(file)
        gpu = binding.pop("gpu")
        self.assertEqual(binding, {"rank": 1, "host": os.uname().nodename, "local_rank": 1, "cores": "0-7", "numa": "0-1",
                                   "gpus": 8})
        self.assertEqual((gpu["ordinal"], gpu["pci"], gpu["numa"], round(gpu["pcie_gb_s"])), (4, "0000:9d:00.0", "1", 63))
        self.assertIn(" GPU 4 0000:9d:00.0 NUMA 1 63 GB/s", line)

    def test_without_a_gpu_of_its_own(self):
        process = self.start(1, 2, machine=DGX)
        self.assertRegex(process.communicate()[1], r"^rank 1 \S+ local 1 cores 0-7 NUMA 0-1 all 8 GPUs\n$")

    def test_what_may_be_no_rank_is_not_called_one(self):
        """A scheduler starts any program: without PMI its MPI does not know the others."""
        with tempfile.TemporaryDirectory() as folder:
            for offered, word in ({}, "task"), ({"PMI_RANK": "1"}, "rank"), ({"PMIX_RANK": "1"}, "rank"):
                with self.subTest(offered=offered):
                    file = os.path.join(folder, word)
                    slurm = {name: str(value) for name, value in LAUNCHERS["Slurm"](1, 2).items() if name != "PMI_RANK"}
                    result = self.succeeds("exec", "--no-preload", "--print-binding", "--json", file, "true", **slurm, **offered)
                    self.assertTrue(result.stderr.startswith(f"{word} 1 "), result.stderr)
                    with open(file) as json_file:
                        self.assertEqual(json.load(json_file)[word], 1)

    def test_lines_fit_a_terminal(self):
        process = self.start(1, 2, "--visible", machine=DGX)
        line = process.communicate()[1].strip().replace(os.uname().nodename, "node0123")
        self.assertLessEqual(len(line), 80, line)

    def test_maps(self):
        self.assertEqual(self.gpus(4, "--map", "3,1", machine=DGX), [3, 1, 3, 1])
        self.assertEqual(self.gpus(2, "--map", "0000:C3:00.0,d1:00.0", machine=DGX), [5, 6])
        self.assertEqual(self.gpus(4, "--map", "2-3,1-0", machine=DGX), [2, 3, 1, 0])

    def test_gpus_of_a_package_are_neighbours(self):
        apart = dict(machine=MI250X, kfd=kfd_trees.MI250X_APART, gpus=8)
        for policy, ranks, expected in [("compact", 8, [0, 4, 1, 5, 2, 6, 3, 7]), ("compact", 2, [0, 4]),
                                        ("spread", 4, [0, 1, 2, 3]), ("nearest", 2, [0, 4]), ("round-robin", 3, [0, 1, 2])]:
            with self.subTest(policy=policy, ranks=ranks):
                self.assertEqual(self.gpus(ranks, "--gpu", policy, **apart), expected)
        for name, tree, ranks, expected in [
                ("MI250X", kfd_trees.MI250X, 8, [0, 1, 2, 3, 4, 5, 6, 7]), ("MI300X", kfd_trees.MI300X, 4, [0, 1, 2, 3]),
                ("MI300A", kfd_trees.MI300A, 3, [0, 1, 2]), ("mixed", kfd_trees.MIXED, 4, [0, 2, 1, 3])]:
            with self.subTest(machine=name):
                self.assertEqual(self.gpus(ranks, "--gpu", "compact", machine=SMALL, kfd=tree, gpus=max(ranks, 4)), expected)

    def test_partitions_stand_where_their_gpu_does(self):
        with_gpu = [(1, ["0000:05:00.0"]), (1, ["0000:26:00.0"])]
        for rank, pci, numa in (9, "0000:26:00.1", "1"), (7, "0000:05:00.7", "0"):
            line = self.start(rank, 10, "--gpu", "compact", machine=with_gpu, kfd=kfd_trees.MI300X_CPX, gpus=64).communicate()[1]
            match = LINE.fullmatch(line.strip())
            self.assertEqual((match[5], match[6], match[7]), (str(rank), pci, numa))
        self.assertEqual(self.gpus(6, "--gpu", "compact", machine=SMALL, kfd=kfd_trees.MI300A_CPX, gpus=24),
                         [0, 1, 2, 3, 4, 5])

    def test_every_launcher(self):
        for launcher in LAUNCHERS:
            with self.subTest(launcher=launcher):
                self.assertEqual(self.gpus(4, "--gpu", "spread", machine=DGX, launcher=launcher), [0, 2, 4, 6])


@unittest.skipUnless({0, 1} <= os.sched_getaffinity(0), "needs CPUs 0 and 1")
class Cores(BindingTest):
    def test_nearest_gpu_of_bound_ranks(self):
        self.assertEqual(self.gpus(2, "--gpu", "nearest", machine=SMALL, cpus=[0, 1]), [2, 0])
        self.assertEqual(self.gpus(2, "--gpu", "nearest", machine=SMALL, cpus=[1, 0]), [0, 2])

    def test_ranks_that_are_equally_near_share_by_turns(self):
        for launcher in LAUNCHERS:
            with self.subTest(launcher=launcher):
                self.assertEqual(self.gpus(4, "--visible", machine=SMALL, cpus=[0, 1, 0, 1], launcher=launcher),
                                 [2, 0, 3, 1])
        self.assertEqual(self.gpus(6, "--visible", machine=SMALL, cpus=[0, 0, 0, 0, 1, 1]), [2, 2, 3, 3, 0, 1])

    def test_nothing_is_left_behind(self):
        before = {name for name in os.listdir("/dev/shm") if name.startswith("fairlead-")}
        self.gpus(4, "--visible", machine=SMALL, cpus=[0, 0, 1, 1])
        self.assertEqual({name for name in os.listdir("/dev/shm") if name.startswith("fairlead-")} - before, set())

    @unittest.skipUnless(os.geteuid() == 0, "only root can make a file of another user")
    def test_M14_a_file_of_another_user_tells_nothing(self):
        place = f"/dev/shm/fairlead-0-Slurm-{os.getpid()}.0"
        lies = "0 1\n1 0\n"
        self.addCleanup(lambda: os.path.exists(place) and os.unlink(place))
        # Theirs; ours, but writable by all; ours, but with a second name elsewhere.
        for owner, mode, names in (65534, 0o666, 1), (0, 0o666, 1), (0, 0o600, 2):
            with self.subTest(owner=owner, mode=mode, names=names), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
                second = os.path.join(folder, "second")
                with open(second, "w") as file:
                    file.write(lies)
                os.chmod(second, mode)
                os.chown(second, owner, owner)
                os.link(second, place)
                if names == 1:
                    os.unlink(second)
                process = self.start(0, 2, "--visible", machine=SMALL, cpu=1, launcher="Slurm")
                errors = process.communicate(timeout=30)[1]
                self.assertEqual(process.returncode, 0, errors)
                self.assertIn("not all ranks", errors)
                with open(place) as file:
                    self.assertEqual(file.read(), lies)
                os.unlink(place)

    def test_a_rank_that_does_not_come(self):
        process = self.start(0, 2, "--visible", machine=SMALL, cpu=1)
        errors = process.communicate(timeout=TIMEOUT)[1]
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn("not all ranks", errors)
        self.assertIn("GPU 0 0000:1b:00.0 NUMA 1", errors)
        self.test_nothing_is_left_behind()

    def test_cores_near_the_gpu(self):
        cores = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status"]
        for gpu, cpu in ("0", 1), ("2", 0):
            process = self.start(0, 1, "--map", gpu, "--bind-cores", machine=SMALL, program=cores)
            output, errors = process.communicate(timeout=TIMEOUT)
            self.assertEqual(output.split()[-1], str(cpu), errors)
            self.assertIn(f"cores {cpu} NUMA {cpu} GPU {gpu}", errors)

    def test_divided_cores(self):
        near = [(2, ["0000:1b:00.0"])]
        self.assertEqual([match[3] for match in self.ranks(2, "--visible", "--bind-cores", machine=near)], ["0", "1"])
        self.assertEqual([match[3] for match in self.ranks(3, "--visible", "--bind-cores", machine=near)], ["0", "0", "1"])

    def test_bound_away_from_the_gpu(self):
        process = self.start(0, 1, "--map", "0", "--bind-cores", machine=SMALL, cpu=0)
        errors = process.communicate(timeout=TIMEOUT)[1]
        self.assertEqual(process.returncode, 2)
        self.assertIn("none of the cores 0", errors)
        self.assertIn("omit --bind-cores", errors)


class Adapters(BindingTest):
    NAMES = ["UCX_NET_DEVICES", "FI_VERBS_DEVICE_NAME", "FI_CXI_DEVICE_NAME", "FI_EFA_IFACE", "NCCL_IB_HCA"]

    def adapter(self, rank, size, adapters, *options, **variables):
        """What the rank prints of its adapter, and the variables that its program sees."""
        root = os.path.join(self.folder, f"sys-{id(adapters)}")
        if not os.path.exists(root):
            write_sys(root, adapters)
        show = ("sh", "-c", f"env | grep -E '^({'|'.join(self.NAMES)})=' | sort")
        process = self.start(rank, size, "--bind-nic", *options, machine=SMALL, program=show,
                             more={"SIM_SYS_ROOT": root, **variables})
        output, errors = process.communicate(timeout=TIMEOUT)
        self.assertNotIn("usage", errors)
        return errors.strip(), output.split()

    def test_nearest(self):
        for rank, gpu, nic, distance in (0, 0, "mlx5_0:1", "same PCI switch"), (1, 1, "mlx5_1:2", "same root complex"), \
                (2, 2, "mlx5_2:1", "same NUMA node"), (3, 3, "mlx5_3:1", "same NUMA node"):
            with self.subTest(rank=rank):
                line, variables = self.adapter(rank, 4, MLX5)
                self.assertRegex(line, rf" GPU {gpu} .* NIC {nic} {distance}$")
                self.assertEqual(variables, [f"FI_VERBS_DEVICE_NAME={nic[:6]}", f"UCX_NET_DEVICES={nic}"])

    def test_ranks_take_turns_with_those_that_have_the_same_choice(self):
        found = [self.adapter(rank, 4, MLX5, "--map", "2,0,2,3")[1][1] for rank in range(4)]
        self.assertEqual(found, [f"UCX_NET_DEVICES={nic}:1" for nic in ("mlx5_2", "mlx5_0", "mlx5_3", "mlx5_2")])

    def test_other_networks(self):
        line, variables = self.adapter(0, 1, CXI, "--map", "1")
        self.assertRegex(line, " NIC cxi1 same root complex$")
        self.assertEqual(variables, ["FI_CXI_DEVICE_NAME=cxi1"])
        line, variables = self.adapter(0, 1, EFA)
        self.assertRegex(line, " NIC rdmap26s0:1 other NUMA node$")
        self.assertEqual(variables, ["FI_EFA_IFACE=rdmap26s0"])

    def test_variables_of_the_user_stay(self):
        for value in "mlx5_9:1", "":
            line, variables = self.adapter(0, 4, MLX5, UCX_NET_DEVICES=value)
            self.assertRegex(line, f" NIC mlx5_0:1 same PCI switch, but UCX_NET_DEVICES={value} is set$")
            self.assertEqual(variables, ["FI_VERBS_DEVICE_NAME=mlx5_0", f"UCX_NET_DEVICES={value}"])

    def test_no_adapter(self):
        for adapters in {}, {"mlx5_5": MLX5["mlx5_5"]}:
            says = [self.adapter(rank, 2, adapters) for rank in range(2)]
            self.assertRegex(says[0][0], r"^fairlead exec: --bind-nic: \S+ has no network adapter with an active port; none is chosen\n"
                                         r"rank 0 [^\n]*GB/s$")
            self.assertRegex(says[1][0], r"^rank 1 [^\n]*GB/s$")
            self.assertEqual([variables for _, variables in says], [[], []])

    def test_as_json(self):
        path = os.path.join(self.folder, "binding.json")
        self.adapter(0, 4, MLX5, "--json", path)
        with open(path) as file:
            self.assertEqual(json.load(file)["nic"], {"name": "mlx5_0:1", "distance": "same PCI switch"})

    def test_run_passes_it_on(self):
        line = self.succeeds("run", "-n", 2, "--mpi", MPIS[0], "--dry-run", "--no-preload", "--bind-nic", shutil.which("true")).stdout
        self.assertIn(" --bind-nic ", line)

    def test_doctor(self):
        links = {"sys/bus/pci/devices/0000:1b:00.0": "pci0000:16/0000:16:01.0/0000:17:00.0/0000:1b:00.0",
                 "sys/bus/pci/devices/0000:43:00.0": "pci0000:17/0000:17:01.0/0000:43:00.0",
                 "sys/class/infiniband/mlx5_0/device": "pci0000:16/0000:16:01.0/0000:18:00.0/0000:1a:00.0",
                 "sys/class/infiniband/mlx5_2/device": "pci0000:17/0000:17:02.0/0000:45:00.0"}
        machine = shutil.copytree(os.path.join(os.path.dirname(os.path.abspath(__file__)), "doctor", "dgx-h200"),
                                  os.path.join(self.folder, "dgx"))

        def judged(files):
            for name, text in files.items():
                path = os.path.join(machine, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w") as file:
                    file.write(text)
            report = json.loads(fairlead("doctor", "--json", "--from", machine).stdout)
            near = next(check for check in report["checks"] if check["key"] == "link.near")
            return (near["verdict"], near["fact"], near["remedy"]), \
                [(row["gpu"], *row["adapters"], row["distance"]) for row in report["adapters"]]

        finding, adapters = judged({
            "links": "".join(f"/{path} => /sys/devices/{real}\n" for path, real in links.items()),
            "sys/class/infiniband/mlx5_2/device/numa_node": "0\n", "sys/class/infiniband/mlx5_2/ports/1/state": "4: ACTIVE\n",
            "sys/class/infiniband/mlx5_1/ports/1/state": "1: DOWN\n"})
        self.assertEqual(finding, ("warn", "2 network adapters for 8 GPUs; none in the NUMA node of GPUs 4-7",
                                   "let each rank use the adapter nearest to its GPU, which -v shows: fairlead run --bind-nic"))
        self.assertEqual(adapters, [(0, "mlx5_0:1", "same PCI switch"), (1, "mlx5_2:1", "same root complex"),
                                    *[(gpu, "mlx5_0:1", "mlx5_2:1", "same NUMA node") for gpu in (2, 3)],
                                    *[(gpu, "mlx5_0:1", "mlx5_2:1", "other NUMA node") for gpu in range(4, 8)]])
        self.assertIn("GPU 0 same PCI switch mlx5_0:1\n", fairlead("doctor", "-v", "--from", machine).stdout)
        down = {f"sys/class/infiniband/mlx5_{i}/ports/1/state": "2: INIT\n" for i in (0, 2)}
        self.assertEqual(judged(down), (("warn", "no network adapter has an active port",
                                         "ibstat tells their state; check the cables and the subnet manager"), []))


class Visible(ToolTest):
    """On a HIP that hides GPUs as AMD's does: the GPU a rank is given is the one that HIP shows it then."""

    def test_variables_of_the_user(self):
        for rank, variables, pci, written in [
                (0, {}, "0000:00:00.0", "0"), (1, {"CUDA_VISIBLE_DEVICES": "2,3"}, "0000:03:00.0", "3"),
                (0, {"CUDA_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": ""}, "0000:02:00.0", "2"),
                (0, {"CUDA_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "5,4"}, "0000:05:00.0", "5"),
                (1, {"ROCR_VISIBLE_DEVICES": "4,6"}, "0000:06:00.0", "1"),
                (0, {"ROCR_VISIBLE_DEVICES": "4,6", "CUDA_VISIBLE_DEVICES": "1,0"}, "0000:06:00.0", "1")]:
            with self.subTest(rank=rank, variables=variables):
                exec_ = ["exec", "--no-preload", "--gpu", "compact", "--print-binding"]
                result = self.succeeds(*exec_, "sh", "-c", f"echo $HIP_VISIBLE_DEVICES; {TOOL} {' '.join(exec_)} true",
                                       FAIRLEAD_DEVICE="rocm", LD_LIBRARY_PATH=os.path.join(TREE, "lib/tests/fake-hip"),
                                       PMI_RANK=str(rank), PMI_SIZE="2", MPI_LOCALRANKID=str(rank), MPI_LOCALNRANKS="2",
                                       **variables)
                self.assertEqual(result.stdout, written + "\n")
                # What the rank was told, and what a program sees that it starts.
                self.assertEqual(re.findall(r" GPU \d+ (\S+) ", result.stderr), [pci, pci])


class Simulated(ToolTest):
    """Ranks with no GPU: the line about it is printed once, and a program may still find a GPU."""

    NONE = {"FAIRLEAD_DEVICE": "auto", "CUDA_VISIBLE_DEVICES": "", "PMI_RANK": "0", "PMI_SIZE": "1", "MPI_LOCALRANKID": "0",
            "MPI_LOCALNRANKS": "1"}
    EXEC = ["exec", "--no-preload", "--gpu", "nearest"]
    WORDS = [*EXEC, TOOL, *EXEC, "sh", "-c", "echo $FAIRLEAD_DEVICE"]  # the second one looks for GPUs again

    def test_the_program_need_not_say_it_again(self):
        if not glob.glob("/dev/nvidia*") and not os.path.exists("/dev/kfd"):
            result = self.succeeds(*self.WORDS, **self.NONE)
            self.assertEqual((result.stdout, result.stderr.count("GPUs are simulated")), ("auto\n", 1))

    def test_a_program_may_load_hip_later(self):
        with_a_kfd = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "hardware", "with-a-kfd")
        result = fairlead(*self.WORDS, launcher=[with_a_kfd], **self.NONE)
        if result.returncode == 77:
            self.skipTest("needs root, and no /dev/kfd")
        self.assertEqual((result.returncode, result.stdout, result.stderr.count("GPUs are simulated")), (0, "auto\n", 1), result)


class Run(BindingTest):
    def test_ranks_of_a_real_launcher(self):
        for abi in MPIS:
            with self.subTest(abi=abi):
                result = self.succeeds("run", "-n", 4, "--mpi", abi, "--sim", 2, "--no-preload", "--gpu", "round-robin",
                                       "--print-binding", shutil.which("true"),
                                       HWLOC_XMLFILE=self.file("machine.xml", as_xml(SMALL)))
                lines = sorted(line for line in result.stderr.splitlines() if line.startswith("rank "))
                self.assertEqual([LINE.fullmatch(line)[5] for line in lines], ["0", "1", "0", "1"])

    def test_command_lines(self):
        """Launchers are known by what they say of themselves."""
        for name, says, line in (("srun", "slurm 23.02.6", "srun --mpi=pmi2 -n 2"),
                                 ("flux", "commands: flux-core 0.66.0", "flux run --setopt=gpu-affinity=off -n 2"),
                                 ("mpiexec", "mpiexec (PALS) 1.2.3", "mpiexec -n 2")):
            with self.subTest(launcher=name):
                path = script(self.folder, name, f"#!/bin/sh\necho '{says}'\n")
                words = self.succeeds("run", "-n", 2, "--mpi", path, "--dry-run", "--no-preload", "--gpu", "spread",
                                      example("mpich" if "mpich" in MPIS else MPIS[0]), FAIRLEAD_MAP_AFTER="3").stdout
                self.assertIn(f"{self.folder}/{line if 'mpich' in MPIS else line.replace('pmi2', 'pmix')} ", words)
                self.assertRegex(words, "^env .*FAIRLEAD_MAP_AFTER=3 ")
                self.assertIn(" --gpu spread ", words)

    def test_srun_is_given_the_pmi_of_the_mpi(self):
        srun = script(self.folder, "srun", "#!/bin/sh\n[ \"$1\" = --version ] && echo slurm 23.02.6 || echo $OFFERED\n")
        script(self.folder, "scontrol", "#!/bin/sh\necho \"MpiDefault              = $DEFAULT\"\n")
        path = self.folder + os.pathsep + os.environ["PATH"]
        # As if the MPI were linked with it.
        linked = shutil.copy(os.path.join(TREE, "lib", "tests", "fake-hip", "libamdhip64.so.7"),
                             os.path.join(self.folder, "libpmix.so.2"))
        for abi in set(MPIS) & {"openmpi", "mpich"}:
            pmi = {"openmpi": "pmix", "mpich": "pmi2"}[abi]
            words = ["run", "-n", 2, "--mpi", srun, "--dry-run", "--no-preload"]
            others = {"PATH": path, "OFFERED": f"plugins: none {pmi}", "DEFAULT": "none"}
            for more, changed, starts in ([], {}, f"srun --mpi={pmi} -n 2 "), \
                    (["--launcher-args=--mpi=cray_shasta"], {}, "srun --mpi=cray_shasta -n 2 "), \
                    ([], {"DEFAULT": "cray_shasta"}, "srun -n 2 "), ([], {"SLURM_MPI_TYPE": "pmi1"}, "srun -n 2 "):
                with self.subTest(abi=abi, more=more, changed=changed):
                    self.assertIn(f"{self.folder}/{starts}",
                                  self.succeeds(*words, *more, example(abi), **{**others, **changed}).stdout)
            pmix = self.succeeds(*words, example(abi), **{**others, "OFFERED": "none pmi2 pmix", "LD_PRELOAD": linked})
            self.assertIn("srun --mpi=pmix -n 2 ", pmix.stdout)
            self.refuses(*words, example(abi), says=[f"has no {pmi} ", "--launcher-args '--mpi=...'"],
                         **{**others, "OFFERED": "plugins: none other"})
        if "mpich" not in MPIS:
            self.skipTest("needs MPICH for Cray's PMI")
        # Cray's MPI knows none but its own, where the machine has it.
        cray = os.path.join(self.folder, "cray", "lib")
        os.makedirs(cray)
        shutil.copy(host_mpi("mpich"), cray)
        for offered, starts in ("none pmi2 cray_shasta", "srun --mpi=cray_shasta -n 2 "), ("none pmi2", "srun --mpi=pmi2 -n 2 "):
            line = self.succeeds(*words, example("mpich"), **{**others, "OFFERED": offered, "LD_LIBRARY_PATH": cray}).stdout
            self.assertIn(starts, line)

    def test_a_file_of_gpus(self):
        path = self.file("map", "# measured\n3 1\n 0,2  # the rest\n")
        line = self.succeeds("run", "-n", 2, "--dry-run", "--no-preload", "--map", path, example(MPIS[0])).stdout
        self.assertIn("--map 3,1,0,2 ", line)

    def test_refusals(self):
        program = example(MPIS[0])
        self.refuses("run", "-n", 2, "--map", "0,1", "--gpu", "spread", program, says=["--map", "--gpu"])
        for lacking in "", ",", "0,,1", "0,1,", ",0":
            self.refuses("run", "-n", 2, "--map", lacking, program, says=[f"'{lacking}' leaves a GPU out", "as in 0,1,3,2"])
        self.refuses("run", "-n", 2, "--map", self.file("holes", "0,, 1\n"), program, says=["does not list GPUs"])
        self.refuses("run", "-n", 2, "--map", "zero", program, says=["'zero'", "neither a list", "fairlead matrix"])
        self.refuses("run", "-n", 2, "--map", self.file("junk", "gpu one"), program, says=["does not list GPUs"])
        self.refuses("run", "-n", 2, "--gpu", "best", program, says=["'best'", "nearest, round-robin, compact, spread"])
        self.refuses("exec", "--no-preload", "--map", "9", "true", FAIRLEAD_SIM_DEVICES="2", PMI_RANK="0",
                     PMI_SIZE="1", MPI_LOCALRANKID="0", MPI_LOCALNRANKS="1", says=["take GPU 9", "GPUs 0-1; accepted: numbers"])


if __name__ == "__main__":
    unittest.main()
