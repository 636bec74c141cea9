# SPDX-License-Identifier: Apache-2.0
"""What CMake finds: compilers that were installed after a build folder was configured, the targets of device code, and ptxas."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

from tool import script

CMAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../cmake")
TABLE = os.path.join(CMAKE, "../src/device/cuda_hip/gpu_targets.def")
# BLIND: find_program() looks nowhere.
PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(again LANGUAGES C)
if(BLIND)
  set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
  set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)
endif()
"""


class ConfiguredAgain(unittest.TestCase):
    def configure(self, folder, *words, **variables):
        """What CMake prints for the project in this folder."""
        result = subprocess.run(["cmake", "-G", "Ninja", "-S", folder, "-B", os.path.join(folder, "build"), *words],
                                text=True, env={**os.environ, **variables}, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout

    def project(self, folder, file):
        """Makes one that includes this file of ours."""
        with open(os.path.join(folder, "CMakeLists.txt"), "w") as lists:
            lists.write(f"{PROJECT}include({CMAKE}/{file})\n")

    @unittest.skipUnless(shutil.which("gfortran"), "needs gfortran")
    def test_fortran_compiler(self):
        with tempfile.TemporaryDirectory() as folder:
            self.project(folder, "MpiFortran.cmake")
            self.assertIn("no Fortran compiler", self.configure(folder, FC="/nowhere/fortran"))
            self.assertNotIn("no Fortran compiler", self.configure(folder))

    @unittest.skipUnless(shutil.which("clang++"), "needs clang")
    def test_compiler_of_device_code(self):
        with tempfile.TemporaryDirectory() as folder:
            self.project(folder, "DeviceCode.cmake")
            self.assertIn("no clang found", self.configure(folder, "-DBLIND=ON"))
            self.assertIn("Device code by", self.configure(folder, "-DBLIND=OFF"))


def rows():
    """Target, code object version and what takes its place, of each row of the table."""
    with open(TABLE) as table:
        return re.findall(r"^FAIRLEAD_GPU_TARGET\((\S+), (\d), (\S+), [^)]+\)$", table.read(), re.MULTILINE)


class Targets(unittest.TestCase):
    """Compilers are played: they know some targets, up to a code object version."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(os.path.join(self.folder, "CMakeLists.txt"), "w") as lists:
            lists.write(f"{PROJECT}include({CMAKE}/DeviceCode.cmake)\n")

    def clang(self, name, targets, versions="456"):
        return script(self.folder, name, f"""#!/bin/sh
arch=none version=none
for word; do
  case $word in
    --offload-arch=* | --cuda-gpu-arch=*) arch=${{word#*=}} ;;
    -mcode-object-version=*) version=${{word#*=}} ;;
  esac
done
case "$version" in none | [{versions}]) ;; *) exit 1 ;; esac
case " {' '.join(targets)} " in *" $arch "*) exit 0 ;; esac
exit 1
""")

    def configure(self, wanted, *clangs, **variables):
        return subprocess.run(["cmake", "-G", "Ninja", "-S", self.folder, "-B", os.path.join(self.folder, "build"),
                               "-DFAIRLEAD_DEVICE_CLANG=" + ";".join(clangs), "-DFAIRLEAD_DEVICE_TARGETS=" + wanted],
                              text=True, env={**os.environ, **variables}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)

    def built(self, *clangs, wanted="all", **variables):
        """The commands by the targets that are built."""
        result = self.configure(wanted, *clangs, **variables)
        self.assertEqual(result.returncode, 0, result.stdout)
        with open(os.path.join(self.folder, "build/CMakeCache.txt")) as cache:
            cache = dict(re.findall(r"^(\w[^:]*):INTERNAL=(.*)$", cache.read(), re.MULTILINE))
        return {target: cache["_FAIRLEAD_DEVICE_COMMAND_" + target]
                for target in cache["_FAIRLEAD_DEVICE_TARGETS"].split(";")}

    def test_a_compiler_that_knows_all(self):
        known = [target for target, _, _ in rows()]
        self.assertGreater(len(known), 11)
        built = self.built(self.clang("clang", ["sm_70", *known]))
        self.assertEqual(list(built), ["ptx"] + [target for target, _, instead in rows() if instead not in known])
        for target, version, instead in rows():
            if instead not in known:
                self.assertIn(f";-mcode-object-version={version};", built[target])

    def test_a_compiler_that_knows_no_generic_target(self):
        known = [target for target, version, _ in rows() if int(version) < 6]
        self.assertEqual(list(self.built(self.clang("clang", known, versions="45"))), known)

    def test_each_target_is_built_by_the_first_compiler_that_knows_it(self):
        old, new = self.clang("old", ["gfx906", "gfx90a"]), self.clang("new", ["gfx90a", "gfx942"])
        built = self.built(old, new)
        self.assertEqual({target: command.split(";")[0] for target, command in built.items()},
                         {"gfx906": old, "gfx90a": old, "gfx942": new})

    def test_a_compiler_without_the_oldest_version_makes_the_next(self):
        self.assertIn(";-mcode-object-version=5;", self.built(self.clang("clang", ["gfx942"], versions="56"))["gfx942"])

    def test_only_wanted_ones_are_built(self):
        clang = self.clang("clang", ["sm_70", "gfx90a", "gfx942"])
        self.assertEqual(list(self.built(clang, wanted="ptx;gfx90a;gfx11-generic")), ["ptx", "gfx90a"])
        self.assertEqual(list(self.built(clang)), ["ptx", "gfx90a", "gfx942"])

    def test_one_is_built_though_another_would_do(self):
        self.assertEqual(list(self.built(self.clang("clang", ["gfx1200", "gfx12-generic"]), wanted="gfx1200")), ["gfx1200"])

    def test_those_of_the_gpus_here(self):
        """Two processors, an MI300X, a GPU that only a generic target serves, and one that no target serves."""
        clang = self.clang("clang", ["sm_70"] + [target for target, _, _ in rows()])
        gpus = os.path.join(self.folder, "kfd")
        for node, version in enumerate([0, 0, 90402, 110503, 130000]):
            os.makedirs(f"{gpus}/nodes/{node}")
            with open(f"{gpus}/nodes/{node}/properties", "w") as properties:
                properties.write(f"simd_count 4\ngfx_target_version {version}\nvendor_id 4098\n")
        self.assertEqual(list(self.built(clang, wanted="native", FAIRLEAD_KFD_TOPOLOGY=gpus)),
                         ["ptx", "gfx942", "gfx11-generic"])
        self.assertEqual(list(self.built(clang, wanted="native", FAIRLEAD_KFD_TOPOLOGY=self.folder)), ["ptx"])

    def test_names_of_no_target_are_refused(self):
        refused = self.configure("ptx;gfx94")
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(refused.stdout, r"FAIRLEAD_DEVICE_TARGETS has gfx94; known are:\s+all native ptx\s+gfx906")

    @unittest.skipUnless(shutil.which("clang++-19"), "needs clang 19")
    def test_clang_19(self):
        # It came before gfx950.
        expected = [target for target, _, instead in rows() if target != "gfx950" and instead == "-"]
        self.assertEqual(list(self.built("clang++-19")), ["ptx", *expected])


class MachineCode(unittest.TestCase):
    """A ptxas is played that knows 75, 80 and 90; the PTX is of another build."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.code = os.path.join(self.folder, "code")
        os.mkdir(self.code)
        for name, text in {"code/scale.ptx": "ptx", "scale.cpp": "", "CMakeLists.txt": PROJECT.replace(
                "LANGUAGES C", "LANGUAGES CXX") + f"""include({CMAKE}/DeviceCode.cmake)
add_library(fairlead-device OBJECT)
fairlead_add_device_code(fairlead-device SOURCES scale.cpp)
"""}.items():
            with open(os.path.join(self.folder, name), "w") as file:
                file.write(text)
        self.ptxas = script(self.folder, "ptxas", """#!/bin/sh
case $1 in -arch=sm_75 | -arch=sm_80 | -arch=sm_90) echo "made of $2" >"$4" ;; *) exit 1 ;; esac
""")

    def images(self, *words):
        """What CMake prints, and the images that the source of a kernel gets."""
        build = os.path.join(self.folder, "build")
        shutil.rmtree(build, ignore_errors=True)
        source = "fairlead-device-device-code/scale.cpp"
        output = ""
        for command in (["-G", "Ninja", "-S", self.folder, "-B", build, "-DFAIRLEAD_DEVICE_CODE_DIR=" + self.code, *words],
                        ["--build", build, "--target", source]):
            result = subprocess.run(["cmake", *command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(result.returncode, 0, result.stdout)
            output += result.stdout
        with open(os.path.join(build, source)) as text:
            return output, re.findall(r'\{"(\w+)", ', text.read())

    def test_what_ptxas_knows_is_made_beside_the_ptx(self):
        output, images = self.images("-DFAIRLEAD_PTXAS=" + self.ptxas)
        self.assertEqual(images, ["ptx", "sm_75", "sm_80", "sm_90"])
        self.assertIn(f"by {self.ptxas}: sm_75 sm_80 sm_90\n", output)
        with open(os.path.join(self.folder, "build/device-code/scale.sm_80.cubin")) as kept:
            self.assertEqual(kept.read(), f"made of {self.code}/scale.ptx\n")

    def test_others_by_name_or_none(self):
        ptxas = "-DFAIRLEAD_PTXAS=" + self.ptxas
        self.assertEqual(self.images(ptxas, "-DFAIRLEAD_CUDA_ARCHITECTURES=90;91")[1], ["ptx", "sm_90"])
        self.assertEqual(self.images(ptxas, "-DFAIRLEAD_CUDA_ARCHITECTURES=OFF")[1], ["ptx"])

    def test_of_the_gpus_here(self):
        """nvidia-smi is played: two GPUs of one kind, and one that ptxas does not know."""
        script(self.folder, "nvidia-smi", "#!/bin/sh\nprintf '9.0\\n9.0\\n12.1\\n'\n")
        words = ["-DFAIRLEAD_PTXAS=" + self.ptxas, "-DFAIRLEAD_DEVICE_TARGETS=native"]
        with unittest.mock.patch.dict(os.environ, PATH=self.folder + ":" + os.environ["PATH"]):
            self.assertEqual(self.images(*words)[1], ["ptx", "sm_90"])
            script(self.folder, "nvidia-smi", "#!/bin/sh\nexit 9\n")
            self.assertEqual(self.images(*words)[1], ["ptx"])

    def test_without_ptxas(self):
        # Neither is the one of a toolkit in its usual place to be found.
        blind = ["-DBLIND=ON", "-DCMAKE_FIND_USE_CMAKE_ENVIRONMENT_PATH=OFF", "-DFAIRLEAD_PTXAS=FAIRLEAD_PTXAS-NOTFOUND"]
        output, images = self.images(*blind, "-DCMAKE_CXX_COMPILER=" + shutil.which("c++"),
                                     "-DCMAKE_MAKE_PROGRAM=" + shutil.which("ninja"),
                                     "-DCMAKE_IGNORE_PATH=/usr/local/cuda/bin;/opt/cuda/bin")
        self.assertEqual(images, ["ptx"])
        self.assertIn("no ptxas found", output)

    def test_machine_code_of_the_other_build_is_taken(self):
        with open(os.path.join(self.code, "scale.sm_100.cubin"), "w") as cubin:
            cubin.write("theirs")
        self.assertEqual(self.images("-DFAIRLEAD_PTXAS=" + self.ptxas)[1], ["ptx", "sm_75", "sm_80", "sm_90", "sm_100"])


if __name__ == "__main__":
    unittest.main()
