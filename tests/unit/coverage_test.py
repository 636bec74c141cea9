#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that the manifest has a row for every function of an MPI header that may touch device memory: one that takes
a buffer, or makes or completes a request. A function of a newer MPI fails this test until it has a row.

usage: coverage_test.py [COMPILER FLAG]... < a source that includes mpi.h
"""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src/mpi/abi"))
import manifest  # noqa: E402

DECLARATION = re.compile(r"\bMPI_(\w+)\s*\(([^;{}]*)\)[^;{}()]*(?:\(\([^;{}]*\)\))*\s*;")
BUFFER = re.compile(r"\bvoid\s*\*\s*(?:restrict\s+)?\w*\s*(?:,|$)")
REQUEST = re.compile(r"\bMPI_Request\b")
# Their addresses are no buffers: memory of the program's own that MPI passes on, or values of attributes, or what the
# function makes or frees. The other functions take handles, texts or numbers.
KNOWN = re.compile(r"""
    (\w+_)?(create|free)_keyval | Keyval_create | Attr_(get|put) | \w+_(get|set)_attr | Alloc_mem | Free_mem | Address
  | Aint_\w+ | T_\w+ | Pcontrol | \w+_(from|to)int | \w+_(c2f|f2c) | \w+_create_errhandler
  | Register_datarep(_c)? | Info_\w+ | Abi_\w+
""", re.VERBOSE)
# Removed from MPI, or forms that are declared for another language.
REMOVED = re.compile(r"\w+_(fn|function)|DUP_FN|NULL_\w+|CONVERSION_\w+|\w+_f(08)?2\w+|\w+2f(08)?")


def declared(header):
    """Name and parameters of the functions of a preprocessed header."""
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", header)
    return {name: " ".join(parameters.split()) for name, parameters in DECLARATION.findall(text)}


def touches_memory(parameters):
    return bool(BUFFER.search(parameters) or REQUEST.search(parameters))


def missing(header, known):
    return sorted(name for name, parameters in declared(header).items()
                  if touches_memory(parameters) and name not in known
                  and not KNOWN.fullmatch(name) and not REMOVED.fullmatch(name))


def main():
    if len(sys.argv) < 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    header = subprocess.run([*sys.argv[1:], "-E", "-P", "-x", "c", "-"], input="#include <mpi.h>\n", check=True,
                            capture_output=True, text=True).stdout
    known = {form.name for row in manifest.read_manifest(manifest.MANIFEST) for form in row.forms()}
    functions = declared(header)
    found = missing(header, known)
    # The test itself must notice a function that it does not know, and must have read the header.
    invented = "int MPI_Send_later(const void *buf, int count, MPI_Datatype datatype);"
    if missing(header + invented, known) != sorted([*found, "Send_later"]) or "Send" not in functions:
        found.append("(the header cannot be read)")
    for name in found:
        print(f"MPI_{name} has no row in src/mpi/abi/functions.def: MPI_{name}({functions.get(name, '')})")
    print(f"{len(functions)} functions, {len(found)} without a row")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
