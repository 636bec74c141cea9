#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recipes and workflows fit the checkout that they are in: the options that they give to CMake exist, the Spack recipe
runs with Spack's directives as its manual describes them, versions are the project's, workflows parse, take no
secrets, and call scripts that exist."""

import contextlib
import glob
import os
import re
import sys
import types
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SPACK = os.path.join(SOURCE, "packaging/spack/spack_repo/fairlead/packages/fairlead/package.py")


def text(*path):
    with open(os.path.join(SOURCE, *path)) as file:
        return file.read()


def cmake_options():
    files = glob.glob(SOURCE + "/CMakeLists.txt") + glob.glob(SOURCE + "/cmake/*.cmake") + glob.glob(
        SOURCE + "/*/CMakeLists.txt") + glob.glob(SOURCE + "/tests/*/CMakeLists.txt")
    # Given, and read without a default: how DeviceCode.cmake takes its compilers.
    found = {"FAIRLEAD_DEVICE_CLANG"} & set(re.findall(r"FAIRLEAD_\w+", text("cmake/DeviceCode.cmake")))
    for file in files:
        found |= set(re.findall(r"(?:option|set)\((FAIRLEAD_\w+) [^\n]*(?:CACHE|\"[^\n]*\" O)", text(file)))
    return found


def version():
    return re.search(r"project\(fairlead VERSION ([0-9.]+)", text("CMakeLists.txt"))[1]


class Spec:
    """A concrete spec in which everything that the variants allow is on."""

    def __init__(self, on):
        self.on, self.prefix = on, Prefix("/spack/prefix")

    def satisfies(self, what):
        return what in self.on

    def __getitem__(self, name):
        return self


class Prefix(str):
    def __getattr__(self, name):
        return Prefix(self + "/" + name)

    def join(self, name):
        return Prefix(self + "/" + name)


def spack_recipe():
    """The class of the recipe, and the directives that it called: (name, arguments, keywords)."""
    called = []

    def directive(name):
        def call(*arguments, **keywords):
            called.append((name, arguments, keywords))
        return call

    class CMakePackage:
        prefix = Prefix("/spack/fairlead")
        define = staticmethod(lambda name, value: f"-D{name}={value}")

        def define_from_variant(self, name, variant):
            assert ("variant", variant) in {(c[0], c[1][0]) for c in called}, f"no variant {variant}"
            return self.define(name, self.spec.satisfies("+" + variant))

    @contextlib.contextmanager
    def when(_):
        yield

    directives = {name: directive(name) for name in
                  ("version", "variant", "depends_on", "extends", "conflicts", "license", "generator", "maintainers")}
    package = types.ModuleType("spack.package")
    package.__dict__.update(directives, when=when, run_after=lambda *_, **__: lambda function: function)
    cmake = types.ModuleType("spack_repo.builtin.build_systems.cmake")
    cmake.CMakePackage = CMakePackage
    stubs = {"spack": types.ModuleType("spack"), "spack.package": package, cmake.__name__: cmake}
    for name in ("spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
        stubs[name] = types.ModuleType(name)
    kept = {name: sys.modules.get(name) for name in stubs}
    sys.modules.update(stubs)
    try:
        space = {"__file__": SPACK, "__name__": "package"}
        exec(compile(text(SPACK), SPACK, "exec"), space)
    finally:
        for name, module in kept.items():
            if module is None:
                del sys.modules[name]
    return space["Fairlead"], called


class Recipes(unittest.TestCase):
    def test_spack_gives_options_that_exist(self):
        recipe, called = spack_recipe()
        package = recipe()
        package.spec = Spec({"+" + arguments[0] for name, arguments, _ in called if name == "variant"})
        given = re.findall(r"-D(\w+)=", " ".join(package.cmake_args()))
        self.assertGreater(len(given), 3)
        self.assertEqual(set(given) - cmake_options(), set())

    def test_spack_builds_the_checkout_that_it_is_in(self):
        self.assertEqual(spack_recipe()[0].git, "file://" + SOURCE)
        self.assertIn("namespace: fairlead", text("packaging/spack/spack_repo/fairlead/repo.yaml"))

    def test_spack_names_variants_that_exist(self):
        called = spack_recipe()[1]
        variants = {arguments[0] for name, arguments, _ in called if name == "variant"}
        for _, _, keywords in called:
            for variant in re.findall(r"[+~](\w+)", keywords.get("when", "")):
                self.assertIn(variant, variants)
        for variant in re.findall(r"when\(\"[+~](\w+)\"\)|satisfies\(\"[+~](\w+)\"\)", text(SPACK)):
            self.assertIn("".join(variant), variants)

    def test_easybuild_gives_options_that_exist(self):
        files = glob.glob(SOURCE + "/packaging/easybuild/*.eb")
        self.assertTrue(files)
        for file in files:
            space = {"SHLIB_EXT": "so"}
            exec(compile(text(file), file, "exec"), space)
            self.assertEqual(space["version"], version(), file)
            toolchain = "-".join((space["toolchain"]["name"], space["toolchain"]["version"]))
            self.assertEqual(os.path.basename(file), f"{space['name']}-{space['version']}-{toolchain}.eb")
            given = re.findall(r"-D(\w+)=", space["configopts"])
            self.assertEqual(set(given) - cmake_options(), set())

    def test_conda_gives_options_that_exist(self):
        recipe = text("packaging/conda/recipe.yaml")
        self.assertEqual(re.search(r'version: "([0-9.]+)"', recipe)[1], version())
        given = re.findall(r"-D(FAIRLEAD_\w+)=", recipe)
        self.assertGreater(len(given), 2)
        self.assertEqual(set(given) - cmake_options(), set())

    def test_packages_have_code_for_all_gpus(self):
        for file in ("pyproject.toml", "debian/rules", "packaging/conda/recipe.yaml", "packaging/container/steps",
                     *glob.glob(SOURCE + "/packaging/easybuild/*.eb"), SPACK):
            self.assertRegex(text(file), r'FAIRLEAD_DEVICE_TARGETS("?, | ?= ?)"?all\b', file)

    def test_the_citation_is_of_a_release(self):
        citation, changelog = text("CITATION.cff"), text("CHANGELOG.md")
        cited = [re.search(rf"(?m)^{key}: (.*)$", citation)[1] for key in ("version", "date-released")]
        self.assertEqual(cited[0], version())
        self.assertIn("## " + ", ".join(cited), changelog)

    def test_containers_give_options_and_files_that_exist(self):
        for file in ("steps", "Containerfile", "fairlead.def", "two-roots"):
            words = text("packaging/container", file)
            self.assertEqual(set(re.findall(r"-D(FAIRLEAD_\w+)=", words)) - cmake_options(), set(), file)
            for script in re.findall(r"packaging/container/(\w[\w.-]*\w)", words):
                self.assertTrue(os.path.exists(os.path.join(SOURCE, "packaging/container", script)), script)


class Workflows(unittest.TestCase):
    files = glob.glob(SOURCE + "/.github/workflows/*.yml")

    def test_they_call_scripts_that_exist(self):
        self.assertTrue(self.files)
        for file in self.files:
            scripts = re.findall(r"(?<![\w./-])((?:\./|packaging/|tests/)[\w./-]+)", re.sub(r"(?m)^\s*#.*", "", text(file)))
            for script in scripts:
                path = os.path.join(SOURCE, script)
                with self.subTest(workflow=os.path.basename(file), script=script):
                    self.assertTrue(os.path.isfile(path))
                    if not path.endswith("Containerfile"):
                        self.assertTrue(os.access(path, os.X_OK))

    def test_they_are_safe_and_end(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("no PyYAML (Debian: python3-yaml)")
        for file in self.files:
            with self.subTest(workflow=os.path.basename(file)):
                flow = yaml.safe_load(text(file))
                self.assertEqual(flow["permissions"], {"contents": "read"})
                self.assertIn("concurrency", flow)
                self.assertNotIn("secrets.", text(file))
                for name, job in flow["jobs"].items():
                    self.assertIn("timeout-minutes", job, name)
                    if "permissions" in job:
                        self.assertEqual((job["permissions"], job["if"]), ({"contents": "write"}, "github.event_name == 'push'"))
                    for step in job["steps"]:
                        self.assertEqual(("run" in step) + ("uses" in step), 1, step)
                        if "uses" in step:
                            self.assertRegex(step["uses"], r"^actions/[\w-]+@v\d+$")
                        # What others choose, as the title of a pull request, is no word of a command.
                        self.assertNotRegex(step.get("run", ""), r"\$\{\{(?! matrix\.)")


if __name__ == "__main__":
    unittest.main()
