# SPDX-License-Identifier: Apache-2.0
"""Fairlead for Spack 1.0 and newer. docs/use/install.md tells how to use this repository."""

from pathlib import Path

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Fairlead(CMakePackage):
    """Makes any MPI GPU-aware: MPI programs pass pointers to device memory of NVIDIA or AMD GPUs to MPI calls, and a
    library that is preloaded moves the bytes."""

    # The checkout that this file is in: <checkout>/packaging/spack/spack_repo/fairlead/packages/fairlead/package.py.
    git = Path(__file__).resolve().parents[6].as_uri()

    license("Apache-2.0")

    version("main", branch="main")

    variant("mpi", default=True, description="Build for an MPI of Spack; without, for those on PATH")
    variant("device_code", default=True, description="Compile kernels for GPUs, with clang")
    variant("tools", default=True, description="Build the command `fairlead`")
    variant("python", default=False, description="Install the Python package `fairlead`")
    variant("tests", default=False, description="Build the tests; `spack install --test=root` runs the quick ones")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("mpi", when="+mpi")
    depends_on("hwloc")
    with when("+tools"):
        depends_on("cli11", type="build")
        depends_on("fmt", type="build")
        depends_on("nlohmann-json", type="build")
    # Not the compiler of Fairlead: clang makes the device code only.
    depends_on("llvm@19: +clang+lld", when="+device_code", type="build")
    with when("+python"):
        extends("python@3.9:")
        depends_on("py-mpi4py@4:", type="run")
    with when("+tests"):
        depends_on("googletest", type="build")
        depends_on("python@3.9:", type="build")

    conflicts("%gcc@:10", msg="Fairlead is written in C++20")
    conflicts("~tools", when="+python", msg="the Python package starts the command")
    for machine in ("aarch64:", "ppc64le:", "ppc64:", "riscv64:"):
        conflicts(f"target={machine}", msg="Fairlead supports x86-64 only")
    conflicts("platform=darwin")
    conflicts("platform=windows")

    def cmake_args(self):
        args = [
            self.define_from_variant("FAIRLEAD_BUILD_TESTS", "tests"),
            self.define_from_variant("FAIRLEAD_BUILD_TOOLS", "tools"),
            self.define_from_variant("FAIRLEAD_DEVICE_CODE", "device_code"),
            self.define("FAIRLEAD_DEVICE_TARGETS", "all"),
        ]
        if self.spec.satisfies("+mpi"):
            args.append(self.define("FAIRLEAD_MPICC", self.spec["mpi"].prefix.bin.mpicc))
        if self.spec.satisfies("+device_code"):
            args.append(self.define("FAIRLEAD_DEVICE_CLANG", self.spec["llvm"].prefix.bin.join("clang++")))
        return args

    def check(self):
        if self.spec.satisfies("+tests"):
            with working_dir(self.build_directory):
                which("ctest", required=True)("-L", "unit", "--output-on-failure", "--no-tests=error")

    @run_after("install", when="+python")
    def install_python_package(self):
        install_tree(
            join_path(self.stage.source_path, "python", "fairlead"), join_path(python_platlib, "fairlead")
        )

    def setup_run_environment(self, env):
        # The Python package finds the command and the libraries by it.
        env.set("FAIRLEAD_HOME", self.prefix)
