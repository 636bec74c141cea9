# SPDX-License-Identifier: Apache-2.0
"""`fairlead doctor` judges recorded machines, and this one by letting two ranks move bytes."""

import json
import os
import shutil
import tempfile
import unittest

import kfd_trees
from tool import MPIS, ToolTest, example, examined, fairlead

MACHINES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "doctor")
CRAY_KERNEL = "5.14.21-150500.55.49_13.0.57-cray_shasta_c"
VERDICTS = ["ok", "warn", "fail", "skip"]


class Recorded(ToolTest):
    def judges(self, machine, expected, *arguments):
        """Each line: key, verdict, and words that its fact or its remedy holds."""
        code, report, checks = examined("--from", os.path.join(MACHINES, machine), *arguments)
        self.assertEqual(code, 1 if report["fail"] else 0)
        for line in expected.strip().splitlines():
            key, verdict, *words = line.split(None, 2)
            check = checks[key]
            found = check["verdict"] if check["applies"] else "away"
            with self.subTest(machine=machine, key=key):
                self.assertEqual(found, verdict, check)
                self.assertIn("".join(words), check["fact"] + " > " + check["remedy"])
        return report

    def test_dgx_h200(self):
        self.judges("dgx-h200", """
            mpi.which      ok    Open MPI 5.0.7, /opt/openmpi/lib/libmpi.so.40
            mpi.launcher   ok    /opt/openmpi/bin/mpirun is a launcher of Open MPI
            mpi.abi        ok    the ABI of this MPI is openmpi
            mpi.configured ok    --with-cuda=/usr/local/cuda --with-ucx=/opt/ucx --with-ucc=/opt/ucc
            mpi.gpu        ok    Open MPI handles CUDA memory itself: accelerator components: cuda, null
            mpi.switch     ok    GPU support is switched on: opal_cuda_support is true
            mpi.tested     ok    Fairlead's tests run with Open MPI 4.1 to 5.0
            mpi.messages   ok    messages do not go by ob1
            ucx.found      ok    UCX 1.18.0
            ucx.gpu        ok    UCX was built with CUDA
            ucx.transports ok    cuda_copy cuda_ipc gdr_copy
            ucx.slow       warn  UCX_TLS=rc,sm,self leaves cuda_copy out
            ucx.cache      ok    UCX_MEMTYPE_CACHE=try
            libfabric.gpu  away
            gpu.found      ok    8 x NVIDIA H200, driver 550.90.12, CUDA 12.4
            gpu.library    ok    /lib/x86_64-linux-gnu/libcuda.so.1
            gpu.visible    ok    no variable hides a GPU
            gpu.mode       ok    compute mode Default
            gpu.mig        ok    MIG is off
            gpu.mps        ok    MPS does not run
            gpu.migration  ok    neither HMM nor ATS
            gpu.ecc        ok    ECC is on, no memory errors
            link.pairs     ok    pairs of GPUs are connected: 28 by NVLink (18 links)
            link.bar       ok    reach all device memory: a BAR of 256 GiB for 140.4 GiB
            link.gdrcopy   ok    gdrdrv is loaded
            link.rdma      ok    adapters reach GPU memory: nvidia-peermem is loaded
            link.near      ok    2 network adapters for 8 GPUs, each GPU with one in its NUMA node
            link.cpus      ok    0-223
            limit.gpus     ok    all 8 GPUs
            limit.shm      ok    1007.7 GiB
            limit.memlock  ok    memory may be locked without limit
            env.fairlead   warn  did you mean FAIRLEAD_EAGER_LIMIT?
            env.ucx        warn  UCX_RNDV_TRESH (did you mean UCX_RNDV_THRESH?)
            env.conflicts  ok    no conflicting variables
            live.start     skip  recorded machine
            live.send      away
            """)
        self.judges(self.changed("dgx-h200", {"commands/nvidia-smi -q": lambda text: text.replace("550.90.12", "580.65.06")}), "mpi.gpu warn driver 580.65.06 answers its queries of pointers slowly")

    def test_messages_that_open_mpi_loses(self):
        info = "commands/ompi_info --parsable --all"
        for variables, verdict in [("OMPI_MCA_pml=ob1", "warn Open MPI 5.0.7 loses or damages messages"), ("OMPI_MCA_pml=^cm", "ok not go by ob1"),
                                   ("OMPI_MCA_pml=^ucx", "warn export OMPI_MCA_pml=ucx"), ("OMPI_MCA_pml=cm", "ok not go by ob1"),
                                   *[(f"OMPI_MCA_pml=ob1\nOMPI_MCA_btl={btl}", verdict) for btl, verdict in
                                     [("self,tcp", "ok shared memory"), ("^sm", "ok shared memory"), ("^tcp", "warn 5.0.9"), ("self,sm", "warn 5.0.9")]]]:
            with self.subTest(variables=variables):
                self.judges(self.changed("dgx-h200", {"environment": lambda text: text + "\n" + variables}), "mpi.messages " + verdict)
        self.judges(self.changed("dgx-h200", {info: lambda text: text + "\nmca:pml:base:param:pml:value:^ucx\n"}), "mpi.messages warn 5.0.9")
        self.judges("laptop", "mpi.messages away")

    def test_a_dma_buf_for_each_message_is_found(self):
        fact = examined("--from", os.path.join(MACHINES, "dgx-h200"))[2]["ucx.slow"]
        self.assertIn("UCX_CUDA_COPY_DMABUF=try: UCX may make a dma-buf for each message", fact["fact"])
        self.assertIn("export UCX_CUDA_COPY_DMABUF=no", fact["remedy"])

    def test_mi250x_with_gtl(self):
        self.judges("mi250x", """
            mpi.which      ok    Cray MPICH 8.1.29, /opt/cray/pe/mpich/8.1.29/ofi/gnu/12.3/lib/libmpi_gnu_123.so.12
            mpi.launcher   ok    /usr/bin/srun starts any MPI
            mpi.abi        ok    the ABI of this MPI is mpich
            mpi.configured skip  Cray MPICH does not report
            mpi.gpu        ok    Cray MPICH handles ROCm memory itself: libmpi_gtl_hsa.so.0
            mpi.switch     ok    GPU support is switched on: MPICH_GPU_SUPPORT_ENABLED=1
            mpi.tested     skip  tests have not run with Cray MPICH; its documentation names what matters: MPICH_GPU_SUPPORT_ENABLED=1 only
            ucx.found      away
            libfabric.gpu  ok    libfabric 1.15.2.0 has the providers cxi tcp; device memory is handled by cxi
            gpu.found      ok    4 x AMD Instinct MI250X, driver 6.3.6, ROCm 6.0.3-100
            gpu.library    ok    /opt/rocm-6.0.3/lib/libamdhip64.so.6
            gpu.mig        away
            gpu.migration  ok    XNACK is off
            gpu.ecc        ok    ECC is on; GPU 2 had memory errors that were corrected
            link.pairs     ok    connected: 6 by xGMI
            link.bar       ok    a BAR of 64 GiB for 64 GiB
            link.near      ok    2 network adapters for 4 GPUs
            limit.ptrace   ok    ptrace_scope is 0
            """, "/opt/apps/with-gtl")

    def test_mi250x_without_gtl(self):
        report = self.judges("mi250x", """
            mpi.gpu        warn  fairlead run -n N ./program
            mpi.switch     fail  MPICH_GPU_SUPPORT_ENABLED=1, but GTL, which that needs, is not linked
            """, "/opt/apps/host-only")
        self.assertIn("Cray MPICH 8.1.29 is not GPU-aware itself", report["conclusion"])
        self.judges("mi250x", "mpi.gpu fail  a device pointer crashes it", "/opt/apps/host-only", "--no-preload")

    def test_switches_of_the_host_mpi_switch_nothing_else_off(self):
        """Cray's default is a host-only MPI, which is what Fairlead makes up for."""
        off = "MPICH_RDMA_ENABLED_CUDA=0\nMV2_USE_CUDA=0\nMV2_USE_ROCM=0\nMPICH_GPU_IPC_ENABLED=0\n"
        machine = self.changed("mi250x", {"environment": lambda text: text.replace(
            "MPICH_GPU_SUPPORT_ENABLED=1", "MPICH_GPU_SUPPORT_ENABLED=0") + off})
        self.judges(machine, """
            mpi.switch     skip  MPICH_GPU_SUPPORT_ENABLED is not 1, and GTL is not known to be linked; Fairlead needs nothing else
            libfabric.slow ok
            env.conflicts  ok
            """, "/opt/apps/host-only")
        self.judges(machine, "mpi.switch warn without Fairlead, device pointers crash", "/opt/apps/with-gtl")
        self.judges(machine, "libfabric.slow warn MPICH_GPU_IPC_ENABLED=0", "/opt/apps/with-gtl", "--no-preload")
        self.judges(self.changed("mi250x", {"environment": lambda text: text + "FAIRLEAD_GPU_SUPPORT=off\n"}),
                    "env.conflicts warn FAIRLEAD_GPU_SUPPORT is off")

    def test_mi300a(self):
        self.judges("mi300a", """
            mpi.which      ok    MPICH 4.3.0, /opt/mpich/lib/libmpi.so.12
            mpi.launcher   ok    is a launcher of MPICH
            mpi.configured ok    device ch4:ofi --with-hip=/opt/rocm
            mpi.gpu        ok    MPICH handles ROCm memory itself: configured --with-hip
            mpi.switch     ok    MPIR_CVAR_ENABLE_GPU is not 0
            libfabric.gpu  skip  providers are not known: fi_info
            libfabric.slow warn  MPIR_CVAR_CH4_OFI_ENABLE_HMEM is not 1
            gpu.found      ok    4 x AMD Instinct MI300A, driver 6.12.12, ROCm 6.4.1-83
            gpu.visible    warn  HIP counts its devices among those that ROCR shows
            gpu.migration  ok    XNACK is on
            gpu.ecc        ok    memory is the processor's
            link.pairs     ok    connected: 6 by xGMI
            link.bar       ok    a BAR of 128 GiB for 128 GiB
            link.near      away
            """)

    def test_a_machine_whose_gpus_memory_is_a_numa_node(self):
        def grace_hopper(**files):
            fabric = """
    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : 3
        ClusterUUID                       : 6b5b1c2e-91d1-4d0e-8a32-3c5e0d9e7a11"""
            return self.changed("dgx-h200", {
                "commands/nvidia-smi -q": lambda text: text.replace("Addressing Mode                       : None", "Addressing Mode                       : ATS" + fabric),
                "proc/driver/nvidia/gpus/0000:1b:00.0/numa_status": "Node:\t\t1\nStatus:\t\tonline\n",
                "proc/self/numa_maps": "aaaae0400000 default file=/usr/bin/numactl mapped=2 N0=2\n",
                **files})
        self.judges("dgx-h200", "gpu.nodes away\ngpu.domain away")
        self.judges(grace_hopper(), """
            gpu.migration ok   ATS: GPUs reach all host memory
            gpu.nodes     ok   NUMA nodes are memory of GPUs: 1 of GPU 0; host buffers go to nodes of CPUs
            gpu.domain    warn clique 3: no IMEX channel
            """)
        self.judges(grace_hopper(**{"proc/self/numa_maps": "aaaae0400000 bind:0-1 file=/usr/bin/numactl\n"}), "gpu.nodes warn bind:0-1, may put host buffers there")
        self.judges(grace_hopper(**{"proc/self/numa_maps": "aaaae0400000 prefer (many):1 file=/usr/bin/numactl\n"}), "gpu.nodes warn (many):1, may put")
        self.judges(grace_hopper(**{"proc/sys/kernel/numa_balancing": "1\n"}), "gpu.nodes warn kernel.numa_balancing=0")
        daemon = {"dev/nvidia-caps-imex-channels/channel0": "", "programs": lambda text: text + "/usr/bin/nvidia-imex-ctl\n"}
        self.judges(grace_hopper(**daemon, **{"commands/nvidia-imex-ctl -q": "READY\n"}), "gpu.domain ok IMEX is ready")
        self.judges(grace_hopper(**daemon, **{"commands/nvidia-imex-ctl -q": "INITIALIZING\n"}), "gpu.domain warn not ready: INITIALIZING")

    def test_laptop(self):
        report = self.judges("laptop", """
            mpi.which      ok    Open MPI 4.1.4, /lib/x86_64-linux-gnu/libmpi.so.40
            mpi.launcher   warn  /usr/bin/mpirun is MPICH's, but mpicc on PATH means Open MPI
            mpi.gpu        warn  Open MPI is not GPU-aware: opal_built_with_cuda_support is false
            mpi.switch     skip  no GPU support that could be switched
            ucx.found      ok    its version is not known without ucx_info
            ucx.gpu        ok    host memory only, which is all that this MPI hands it
            ucx.transports away
            gpu.found      skip  no GPU on the PCI bus
            gpu.library    away
            link.pairs     away
            limit.shm      ok    7.8 GiB
            limit.memlock  ok    8 MiB of memory may be locked (hard limit 8 MiB), and no RDMA adapter needs more
            env.openmpi    warn  OMPI_MCA_btl_tcp_if_inclde (did you mean OMPI_MCA_btl_tcp_if_include?)
            env.conflicts  warn  FAIRLEAD_NETWORK=native, but this MPI does not handle device memory
            """)
        self.assertEqual(report["fail"], 0)

    def test_container(self):
        self.judges("container", """
            mpi.gpu        ok    opal_built_with_cuda_support is true
            mpi.switch     warn  opal_cuda_support is false by default > export OMPI_MCA_opal_cuda_support=true
            ucx.gpu        fail  UCX was built with neither CUDA nor ROCm: it handles host memory only, but its MPI hands it device memory
            ucx.transports skip  UCX's transports are not known: ucx_info
            gpu.found      ok    1 x NVIDIA A100 80GB PCIe
            gpu.library    fail  the loader does not find libcuda.so.1
            gpu.mode       warn  compute mode Exclusive_Process, and MPS does not run
            gpu.mig        warn  MIG is on for GPU 0
            gpu.ecc        warn  ECC is off for GPU 0
            link.pairs     away
            link.bar       warn  reach only 256 MiB of 80 GiB
            link.gdrcopy   warn  gdrcopy is not installed, gdrdrv is not loaded
            link.rdma      warn  adapters cannot reach GPU memory: neither nvidia-peermem nor dma-buf (closed driver on Linux 5.4.0-150-generic)
            link.near      warn  none in the NUMA node of GPU 0
            link.cpus      warn  bound to CPU 12 alone
            limit.shm      fail  /dev/shm has 64 MiB
            limit.memlock  warn  registering memory with RDMA adapters fails
            limit.ptrace   warn  ptrace_scope is 2
            limit.container warn this is a container of Docker, without CAP_SYS_PTRACE
            limit.gpus     warn  1 of 4 GPUs (1 device file) > let every rank of a node see all its GPUs (Slurm: --gpus-per-node=N
            limit.memory   warn  the control group allows 512 MiB of
            env.fairlead   warn  FAIRLEAD_BAR=maybe is not understood
            env.conflicts  warn  LD_PRELOAD holds libfairlead-mpich.so, but the MPI's ABI is openmpi
            """)

    def changed(self, machine, files):
        """A copy of it, in which each of the files is what a function makes of it, or new with this text."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        copy = os.path.join(folder.name, machine)
        shutil.copytree(os.path.join(MACHINES, machine), copy)
        for name, content in files.items():
            path = os.path.join(copy, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if callable(content):
                with open(path) as file:
                    content = content(file.read())
            with open(path, "w") as file:
                file.write(content)
        return copy

    def test_a_program_of_another_mpich_on_a_cray(self):
        program = {"programs": lambda text: text + "/opt/apps/moved\n", "commands/ldd %opt%apps%moved": "\tlibmpi.so.12 => not found\n"}
        self.judges(self.changed("mi250x", program), "mpi.which fail > set LD_LIBRARY_PATH", "/opt/apps/moved")
        program["environment"] = lambda text: text + "CRAY_MPICH_DIR=/opt/cray/pe/mpich/8.1.29/ofi/gnu/12.3\n"
        self.judges(self.changed("mi250x", program), "mpi.which fail > module load cray-mpich-abi", "/opt/apps/moved")

    def test_mvapich(self):
        """Its headings are its own; what switches its GPU support differs between MVAPICH2 and MVAPICH-Plus."""
        def machine(version, configure, variables=""):
            return self.changed("mi300a", {"environment": lambda text: text + variables + "\n", "commands/mpichversion":
                f"{version}\n{version.split()[0]} Device:\tch4:ucx\n{version.split()[0]} configure:\t{configure}\n"})
        plus, two = "MVAPICH Version:      \t4.1", "MVAPICH2 Version:     \t2.3.7"
        for recorded, expected in [
                (machine(plus, "--with-rocm=/opt/rocm"), """
                 mpi.gpu    ok   MVAPICH handles ROCm memory itself: configured --with-hip
                 mpi.switch ok   MVP_ENABLE_GPU is not 0
                 mpi.tested skip tests have not run with MVAPICH; its documentation names what matters: MVP_ENABLE_GPU"""),
                (machine(plus, "--with-rocm=/opt/rocm", "MVP_ENABLE_GPU=0"),
                 "mpi.switch warn switched off: MVP_ENABLE_GPU=0 > unset MVP_ENABLE_GPU"),
                (machine(plus, "--prefix=/opt/mvapich"), """
                 mpi.gpu    warn not GPU-aware: neither
                 mpi.switch skip no GPU support that could be"""),
                (machine(two, "--enable-rocm"), "mpi.switch warn MV2_USE_ROCM is not 1: without Fairlead, device pointers crash > export MV2_USE_ROCM=1"),
                (machine(two, "--enable-rocm", "MV2_USE_ROCM=1"), "mpi.switch ok switched on: MV2_USE_ROCM=1")]:
            self.judges(recorded, expected)

    def test_intel_mpi(self):
        def machine(version, variables=""):
            says = f"Intel(R) MPI Library for Linux* OS, Version {version} Build 20260626 (id: 0)\n"
            return self.changed("dgx-h200", {
                "programs": lambda text: text + "".join(f"/opt/impi/bin/{name}\n" for name in ("mpirun", "mpiexec.hydra", "impi_info")),
                "opt/impi/lib/libmpi.so.12": "", "environment": lambda text: text + variables + "\n",
                "commands/mpirun --version": says, "commands/mpiexec.hydra --version": says})
        for recorded, expected in [
                (machine("2021.18.1"), """
                 mpi.which      ok   Intel MPI 2021.18.1, /opt/impi/lib/libmpi.so.12
                 mpi.configured skip Intel MPI does not report
                 mpi.gpu        warn I_MPI_OFFLOAD is not 1, as by default
                 mpi.switch     skip GPU support is off, as by default
                 mpi.tested     ok   Fairlead's tests run with Intel MPI 2021.18"""),
                (machine("2021.18.1", "I_MPI_OFFLOAD=1"), """
                 mpi.gpu    ok Intel MPI handles CUDA memory itself: I_MPI_OFFLOAD=1
                 mpi.switch ok switched on: I_MPI_OFFLOAD=1"""),
                (machine("2021.9", "I_MPI_OFFLOAD=1"), """
                 mpi.gpu    warn versions before 2021.12 support Intel's GPUs only
                 mpi.tested skip run with Intel MPI 2021.18, not with 2021.9""")]:
            self.judges(recorded, expected, "--mpi", "/opt/impi/bin/mpirun")

    def test_the_tools_of_another_mpi_on_path(self):
        """As of an environment that is active: neither its ompi_info nor its launcher tells of the MPI in /lib."""
        theirs = {"home/env/lib/libmpi.so.40": "", "programs": lambda text: "/home/env/bin/ompi_info\n" + text}
        checks = examined("--from", self.changed("laptop", theirs))[2]
        self.assertTrue(checks["mpi.configured"]["details"][0].startswith("/usr/bin/ompi_info: "), checks["mpi.configured"])
        theirs["programs"] = lambda text: text.replace("/usr/bin/ompi_info", "/home/env/bin/ompi_info")
        self.judges(self.changed("laptop", theirs), "mpi.gpu skip it is not known whether Open MPI is GPU-aware")

    def test_fi_info_that_does_not_run(self):
        says = "fi_info: line 20: /opt/mpi/libfabric/bin/fi_info: No such file or directory\n"
        commands = {f"commands/fi_info{words}": says for words in ("", " --version", " -c FI_HMEM")}
        self.judges(self.changed("mi250x", commands),
                    "libfabric.gpu skip fi_info, which lists them, does not run: " + says.strip(), "/opt/apps/with-gtl")
        silent = {**commands, "commands/fi_info --version": "libfabric: 1.15.2.0\n", "commands/fi_info": "fi_getinfo: -61\n"}
        self.judges(self.changed("mi250x", silent), "libfabric.gpu fail libfabric finds no provider", "/opt/apps/with-gtl")

    def test_memory_errors_of_nvidia_gpus(self):
        def counted(kind, volatile, aggregate):
            errors = (f"    ECC Errors\n        Volatile\n            SRAM Correctable              : 0\n"
                      f"            {kind:<30}: {volatile}\n        Aggregate\n            {kind:<30}: {aggregate}\n")
            return {"commands/nvidia-smi -q": lambda text: text.rstrip("\n") + "\n" + errors}  # of the last GPU

        for kind, volatile, aggregate, expected in [
                ("DRAM Correctable", 0, 0, "gpu.ecc ok ECC is on, no memory errors"),
                ("DRAM Correctable", 5, 9, "gpu.ecc ok ECC is on; GPU 7 had memory errors that were corrected"),
                ("SRAM Uncorrectable SEC-DED", 0, 1, "gpu.ecc ok GPU 7 had errors that could not be corrected, before"),
                ("DRAM Uncorrectable", 2, 2, "gpu.ecc warn GPU 7 had memory errors that could not be corrected since")]:
            self.judges(self.changed("dgx-h200", counted(kind, volatile, aggregate)), expected)

    def test_gpus_that_a_job_was_given_and_does_not_see(self):
        for given, verdict in ("CUDA_VISIBLE_DEVICES=0,1", "warn"), ("ROCR_VISIBLE_DEVICES=0", "warn"), ("CUDA_VISIBLE_DEVICES=", "skip"):
            laptop = self.changed("laptop", {"environment": lambda text, given=given: f"{text}{given}\n"})
            self.judges(laptop, f"gpu.found {verdict} {f'the job was given GPUs ({given})' if verdict == 'warn' else 'no GPU'}")

    def test_adapters_reach_memory_of_amd_gpus(self):
        adapter = {"sys/class/infiniband/mlx5_0/device/numa_node": "0\n"}
        config = "boot/config-" + CRAY_KERNEL
        both = "CONFIG_PCI_P2PDMA=y\nCONFIG_DMABUF_MOVE_NOTIFY=y\n"
        for files, expected in [
                ({}, "link.rdma skip cannot be read"),
                ({"sys/kernel/mm/memory_peers/amdkfd/version": "1.0\n"}, "link.rdma ok adapters reach GPU memory through peer memory of amdgpu"),
                ({"proc/modules": "ib_peer_mem 16384 0 - Live 0x0\n"}, "link.rdma ok ib_peer_mem is loaded"),
                ({config: both}, "link.rdma ok adapters reach GPU memory by dma-buf"),
                ({config: "CONFIG_PCI_P2PDMA=y\n"}, "link.rdma warn without CONFIG_DMABUF_MOVE_NOTIFY=y"),
                ({config: both, "proc/sys/kernel/osrelease": CRAY_KERNEL.replace("5.14", "5.4")},
                 "link.rdma skip cannot be read")]:
            self.judges(self.changed("mi250x", {**adapter, **files}), expected)

    def test_links_as_the_kernel_describes_them(self):
        mi250x = kfd_trees.on_machine(kfd_trees.MI250X)
        report = self.judges(self.changed("mi250x", mi250x), """
            gpu.found      ok    4 x AMD Instinct MI250X
            link.pairs     ok    3 by xGMI, by 2 hops, 1 by xGMI (1 link), 2 by xGMI (4 links)
            """)
        details = next(check["details"] for check in report["checks"] if check["key"] == "link.pairs")
        self.assertEqual([line.split() for line in details],
                         [["GPU0", "GPU1", "GPU2", "GPU3"], ["GPU0", "0", "XGMI4", "2HOP", "2HOP"],
                          ["GPU1", "XGMI4", "0", "2HOP", "XGMI1"], ["GPU2", "2HOP", "2HOP", "0", "XGMI4"],
                          ["GPU3", "2HOP", "XGMI1", "XGMI4", "0"]])
        self.judges(self.changed("mi300a", kfd_trees.on_machine(kfd_trees.MI300A)), """
            link.pairs     ok    6 by xGMI (2 links)
            """)

    def test_machines_without_the_vendors_tools(self):
        for tree, found, pairs in [
                (kfd_trees.MI300X, "8 x AMD gfx942", "28 by xGMI (1 link)"),
                (kfd_trees.MI300A_CPX, "24 x AMD gfx942", "60 by their package, 216 by xGMI"),
                (kfd_trees.MIXED, "2 x AMD gfx90a, 2 x AMD gfx1100", "5 by PCIe (PCIE), 1 by xGMI (3 links)")]:
            self.judges(self.changed("laptop", kfd_trees.on_machine(tree)), f"""
                gpu.found  ok    {found}
                link.pairs ok    {pairs}
                """)

    def test_a_recording_holds_the_links(self):
        with tempfile.TemporaryDirectory() as folder:
            topology, record = kfd_trees.write(os.path.join(folder, "kfd"), kfd_trees.MIXED), os.path.join(folder, "record")
            live = examined("--record", record, "--no-launch", FAIRLEAD_KFD_TOPOLOGY=topology)[2]
            os.rename(topology, topology + "-gone")
            recorded = examined("--from", record)[2]
            self.assertIn("5 by PCIe (PCIE), 1 by xGMI (3 links)", live["link.pairs"]["fact"])
            self.assertEqual(recorded["link.pairs"], live["link.pairs"])

    def test_code_for_the_gpus(self):
        def machine(version, rocm):
            tree = {name: text.replace("gfx_target_version 90010", f"gfx_target_version {version}")
                    for name, text in kfd_trees.on_machine(kfd_trees.MI250X).items()}
            return self.changed("mi250x", {**tree, "opt/rocm/.info/version": rocm})

        code = json.loads(self.succeeds("info", "--json").stdout)["device_code"]
        for version, rocm, needs, expected in [(90010, "6.0.3-100", "gfx90a", "ok device code for these GPUs (gfx90a)"),
                                               (110501, "6.4.1-83", "gfx11-generic", "ok device code for these GPUs (gfx1151)"),
                                               (110501, "6.3.0-1", "gfx11-generic", "warn can run only gfx11-generic of this build, which ROCm 6.3.0-1 does not load"),
                                               (130000, "9.0.0-1", "ptx", "warn this build has no code for GPU 0, gfx1300")]:
            self.judges(machine(version, rocm), "gpu.code " + (expected if needs in code else "warn this build has no code for GPU 0, gfx"))
        self.judges("mi250x", "gpu.code away")

    def test_what_variables_leave_of_the_gpus(self):
        for variables, expected in [
                ("CUDA_VISIBLE_DEVICES=2,3", "ok CUDA_VISIBLE_DEVICES=2,3 chooses the GPUs"),
                ("HIP_VISIBLE_DEVICES=", "ok no variable hides a GPU"),
                ("ROCR_VISIBLE_DEVICES=", "fail ROCR_VISIBLE_DEVICES= hides all GPUs"),
                ("CUDA_VISIBLE_DEVICES=-1", "fail CUDA_VISIBLE_DEVICES=-1 hides all GPUs"),
                ("CUDA_VISIBLE_DEVICES=-1\nHIP_VISIBLE_DEVICES=1", "warn CUDA_VISIBLE_DEVICES=-1 has no effect: HIP looks at HIP_VISIBLE_DEVICES=1"),
                ("ROCR_VISIBLE_DEVICES=2,3\nCUDA_VISIBLE_DEVICES=1", "warn HIP counts its devices among those that ROCR shows"),
                ("ROCR_VISIBLE_DEVICES=2,3\nHIP_VISIBLE_DEVICES=2", "fail hide all GPUs: HIP counts among the GPUs that ROCR leaves, from 0 on > unset HIP"),
                ("GPU_DEVICE_ORDINAL=1", "warn OpenCL reads and HIP does not")]:
            self.judges(self.changed("mi250x", {"environment": lambda text: text + variables + "\n"}),
                        "gpu.visible " + expected)

    def test_who_may_open_amd_gpus(self):
        def of_all(why, nodes=range(128, 132)):
            return "".join(f"/dev/dri/renderD{node} => {why}\n" for node in nodes)
        missing, denied, withheld = "No such file or directory", "Permission denied", "Operation not permitted"
        kfd = {name: text for name, text in kfd_trees.on_machine(kfd_trees.MI300A).items()}
        for refused, expected in [
                (None, "skip not recorded"),
                ("/dev/kfd => \n" + of_all(""), "ok this user may open /dev/kfd and the device files of all 4 GPUs"),
                (f"/dev/kfd => {missing}\n", "fail no /dev/kfd, by which ROCm finds GPUs > modprobe amdgpu; for containers: --device=/dev/kfd"),
                (f"/dev/kfd => {denied}\n", "fail /dev/kfd (Permission denied) cannot be opened > add this user to the groups of the device files, usually render and video"),
                ("/dev/kfd => \n" + of_all(missing), "fail no GPU's device file can be opened: /dev/dri/renderD128 (No such"),
                ("/dev/kfd => \n" + of_all(withheld, [129, 131]), "warn ROCm leaves 2 of 4 GPUs out: /dev/dri/renderD129 (Operation"),
                ("/dev/kfd => \n" + of_all(denied, [130]), "fail /dev/dri/renderD130 (Permission denied) cannot be opened: ROCm finds no GPU")]:
            with self.subTest(refused=refused):
                files = kfd if refused is None else {**kfd, "refused": refused, "commands/id -nG": "users video\n"}
                report = self.judges(self.changed("mi300a", files), "gpu.access " + expected)
                details = next(check["details"] for check in report["checks"] if check["key"] == "gpu.access")
                self.assertEqual(details, [] if refused is None else ["groups of this user: users video"])
        self.judges("dgx-h200", "gpu.access away")

    def test_how_rocm_shares_memory(self):
        kernels, packaged = {"sys/module/amdgpu/refcnt": "0\n"}, {"sys/module/amdgpu/version": "6.8.5\n"}
        legacy = "HSA_ENABLE_IPC_MODE_LEGACY"
        for driver, rocm, variables, options, expected in [
                ({}, "6.3.1-48", "", (), "skip /sys/module does not show"),
                (packaged, "6.3.1-48", "", (), "ok that of AMD's packages"),
                (kernels, "6.3.1-48", "", (), "ok if HSA_ENABLE_IPC_MODE_LEGACY is 0, as `fairlead run` and `exec` set it"),
                (kernels, "6.3.1-48", "", ("--no-preload",), "warn messages are staged > export HSA_ENABLE_IPC_MODE_LEGACY=0"),
                (kernels, "6.3.1-48", legacy + "=0", (), "ok by dma-buf"),
                (kernels, "7.2.0-1", "", (), "ok by dma-buf"),
                (kernels, "10.0.0-1", "", (), "ok by dma-buf"),
                (kernels, "7.2.0-1", legacy + "=1", (), "warn messages are staged > unset HSA_ENABLE_IPC_MODE_LEGACY, which containers may bring"),
                (kernels, "6.0.2-115", legacy + "=0", (), "warn messages are staged > ROCm 6.1 or newer")]:
            with self.subTest(driver=driver, rocm=rocm, variables=variables):
                machine = self.changed("mi250x", {**driver, "opt/rocm/.info/version": rocm, "libraries": "",
                                                  "environment": lambda text: text + variables + "\n"})
                self.judges(machine, "gpu.ipc " + expected, *options)

    def test_which_rocm(self):
        """That of the library which programs get, wherever it is, and not of another one in the usual place."""
        usual = {"opt/rocm/.info/version": "6.0.3-100\n"}
        for files, variables, expected in [
                ({"opt/rocm-7.1.0/.info/version": "7.1.0-20\n", "libraries": "libamdhip64.so.7 => /opt/rocm-7.1.0/lib/libamdhip64.so.7"}, "",
                 "ROCm 7.1.0-20"),
                ({"opt/rocm/core-10.0/.info/version": "10.0.0-3\n", "libraries": "libamdhip64.so.10 => /opt/rocm/core-10.0/lib/libamdhip64.so.10"}, "",
                 "ROCm 10.0.0-3"),
                ({"apps/rocm/.info/version": "6.4.1-83\n"}, "ROCM_PATH=/apps/rocm", "ROCm 6.4.1-83"),
                ({"libraries": "libamdhip64.so.7 => /usr/lib/libamdhip64.so.7"}, "", "ROCm 7")]:
            with self.subTest(files=files):
                checks = examined("--from", self.changed("mi250x", {**usual, **files, "environment": lambda text: text + variables + "\n"}))[2]
                self.assertTrue(checks["gpu.found"]["fact"].endswith(expected), checks["gpu.found"])
                self.assertEqual(checks["gpu.library"]["verdict"], "ok")

    def test_partitions_of_amd_gpus(self):
        modes = {f"sys/bus/pci/devices/{domain:04x}:01:00.0/current_{kind}_partition": mode + "\n"
                 for domain in kfd_trees.MI300A_DOMAINS for kind, mode in (("compute", "CPX"), ("memory", "NPS1"))}
        # As older kernels do, which number partitions elsewhere.
        one_address = {name: text.replace("location_id 257", "location_id 256") for name, text in kfd_trees.MI300A_CPX.items()}
        for tree, files, expected in [
                (kfd_trees.MI300A, {}, "ok GPUs are not divided"),
                (kfd_trees.MI300A_CPX, modes, "ok 4 GPUs are divided into 24 partitions (mode CPX/NPS1)"),
                (one_address, {}, "warn partitions of a GPU share an address: 20 for 24 GPUs")]:
            self.judges(self.changed("laptop", {**kfd_trees.on_machine(tree), **files}), "gpu.partition " + expected)

    def test_processes_of_a_gpu(self):
        def queues(count, gpu=40000):
            return {f"sys/class/kfd/kfd/proc/{1000 + process}/queues/{queue}/gpuid": f"{gpu}\n" for process in range(count) for queue in (0, 1)}
        parameter = {"sys/module/amdgpu/parameters/hws_max_conc_proc": "4\n"}
        for files, expected in [
                ({}, "ok no process uses a GPU; the driver runs 8"), (queues(1), "ok 1 process uses a GPU at most, of 8"),
                (queues(8), "ok 8 processes use a GPU at most"), ({**queues(8), **parameter}, "warn 8 processes use one GPU, of which the driver runs 4"),
                (queues(9), "warn 9 processes use one GPU, of which the driver runs 8 at a time > fewer ranks")]:
            self.judges(self.changed("mi300a", files), "gpu.processes " + expected)


class Report(ToolTest):
    def test_every_check_is_complete(self):
        _, report, checks = examined("--from", os.path.join(MACHINES, "laptop"))
        self.assertEqual(set(report), {"version", "subject", "simulated", "conclusion", *VERDICTS, "checks", "adapters", "provenance"})
        self.assertTrue(report["subject"].startswith("fairlead doctor "), report["subject"])
        self.assertEqual(sum(report[verdict] for verdict in VERDICTS), sum(c["applies"] for c in checks.values()))
        for key, check in checks.items():
            with self.subTest(key=key):
                self.assertEqual(set(check), {"key", "area", "what", "when", "applies", "verdict", "fact", "remedy", "details"})
                self.assertIn(check["verdict"], VERDICTS)
                self.assertTrue(check["fact"])
                self.assertTrue(check["what"].endswith("."))
                if check["verdict"] in ["warn", "fail"]:
                    self.assertTrue(check["remedy"])

    def test_text_fits_a_terminal(self):
        for machine in sorted(os.listdir(MACHINES)):
            if machine == "README.md":
                continue
            result = fairlead("doctor", "--from", os.path.join(MACHINES, machine))
            self.assertNotIn("\033", result.stdout)
            for line in result.stdout.splitlines():
                # A path or a variable may be longer than what is left of the line; it stands alone then.
                self.assertTrue(len(line) <= 80 or len(line.split()) == 1, line)

    def test_verbose_shows_all(self):
        folder = os.path.join(MACHINES, "laptop")
        brief, full = (fairlead("doctor", "--from", folder, *words).stdout for words in [(), ("-v",)])
        self.assertNotIn("gpu.mig", brief)
        self.assertIn("do not apply here (-v shows them)", brief)
        for key in examined("--from", folder)[2]:
            self.assertIn(key, full)
        self.assertIn("OMPI_MCA_btl_tcp_if_inclde=eth0", full)

    def test_the_page_has_the_table(self):
        source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        with open(os.path.join(source, "docs", "tools", "doctor.md")) as page:
            self.assertIn(self.succeeds("doctor", "--markdown").stdout, page.read())

    def test_options(self):
        self.assertEqual(self.succeeds("doctor", "options").stdout, self.succeeds("options").stdout)
        self.succeeds("doctor", "options", "--json")

    def test_refusals(self):
        self.refuses("doctor", "--bogus", says=["--bogus", "--json"])
        self.refuses("doctor", "--from", "/no/such/folder", says=["/no/such/folder", "--record"])
        self.refuses("doctor", "--from", MACHINES, says=["no recorded machine", "'environment'", "--record"])
        with tempfile.TemporaryDirectory() as folder:
            for make in os.mkfifo, lambda path: os.symlink("/dev/zero", path):
                environment = os.path.join(folder, "environment")
                make(environment)
                self.refuses("doctor", "--from", folder, says=["no recorded machine", f"{environment}: it is not a regular file"])
                os.remove(environment)
        self.refuses("doctor", "--from", MACHINES, "--record", "x", says="excludes")
        self.refuses("doctor", "--record", "/proc", says="/proc is not a new or empty folder")
        self.refuses("doctor", "--sim", "0", says=["--sim", "1 to 64"])
        self.refuses("doctor", "no-such-program", says="no program no-such-program")
        self.refuses("doctor", "--mpi", "mpich", example(MPIS[0]), says=["excludes", "one of the two"])
        self.refuses("doctor", "--mpi", "/bin/true", says=["/bin/true does not say", "mpicc", "openmpi, mpich, abi"])
        self.refuses("doctor", "--mpi", "/no/such", says=["'/no/such'", "libmpi.so"])


if __name__ == "__main__":
    unittest.main()
