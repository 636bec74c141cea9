#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that an interposition library exports what the manifest says, and nothing else, that it needs nothing of
the MPI to be loaded, and that it has no second copy of a variable of libfairlead-device.so beside it.

usage: manifest_test.py LIBRARY
"""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src/mpi/abi"))
import generate  # noqa: E402
import manifest  # noqa: E402


def dynamic_symbols(library, which):
    """Pairs of name and type, as nm tells them."""
    listing = subprocess.run(["nm", "-D", which, "--format=posix", library],
                             check=True, capture_output=True, text=True).stdout
    return {tuple(line.split()[:2]) for line in listing.splitlines()}


def exported_symbols(library):
    return {name for name, _ in dynamic_symbols(library, "--defined-only")}


def needed_of_mpi(library):
    """LD_PRELOAD puts the library into processes without an MPI, too."""
    return sorted(name for name, kind in dynamic_symbols(library, "--undefined-only")
                  if kind == "U" and re.match("P?MPI|ompi_|mpi_", name))


def variables_twice(library):
    """Variables of this library's that libfairlead-device.so has, too: each code would read its own."""
    def variables(path):
        listing = subprocess.run(["nm", "--demangle", "--format=posix", path], check=True, capture_output=True,
                                 text=True).stdout
        # Constants, tables of virtual functions and what the compiler keeps for itself are harmless.
        return set(re.findall(r"^(fairlead::[\w:]+)(?:@\S*)? [bBdDuvV] ", listing, re.MULTILINE))

    return sorted(variables(library) & variables(Path(library).with_name("libfairlead-device.so")))


def fortran_symbols(library, forms):
    """The entry points that this library needs: docs/use/fortran.md says why each needs others."""
    entries = [form for form in forms if generate.has_fortran_entry(form)]
    if "-openmpi" in library:
        return {symbol for form in entries for symbol in generate.fortran_symbols(form)}
    if "-mpich" in library:
        of_every_binding = {symbol for form in entries if form.name in generate.FORTRAN_ATTRIBUTES
                            for symbol in generate.fortran_symbols(form)}
        return of_every_binding | {generate.fortran_symbols(form)[-1] for form in entries if not form.buffers()}
    return set()


def differences(library, symbols, rows):
    """One line for each symbol that is missing or should not be there."""
    forms = [form for row in rows for form in row.forms() if form.action != "forward"]
    always = {f"MPI_{form.name}" for form in forms if not form.guard}
    always |= fortran_symbols(library, [form for form in forms if not form.guard])
    for in_c, in_fortran in map(generate.names_of_gpu_query, manifest.GPU_QUERIES):
        always |= {in_c, *(in_fortran if fortran_symbols(library, forms) else ())}
    always |= {f"MPIX_{name}" for name in (*manifest.FAILURE_FUNCTIONS, *manifest.STREAM_FUNCTIONS)}
    if "-openmpi" in library:
        always |= {f"MPIX_{form.name}" for form in forms if generate.has_earlier_name(form)}
    else:
        always |= {f"MPIX_{name}" for name in manifest.STREAM_MESSAGES}
    # A library has all or none of the functions under one condition.
    wanted = set(always)
    for guard in {form.guard for form in forms if form.guard}:
        guarded = [form for form in forms if form.guard == guard]
        if symbols & {f"MPI_{form.name}" for form in guarded}:
            wanted |= {f"MPI_{form.name}" for form in guarded} | fortran_symbols(library, guarded)
    ours = {symbol for symbol in symbols if not symbol.startswith("fairlead_")}
    yield from (f"missing: {name}" for name in sorted(wanted - ours))
    yield from (f"not in the manifest: {name}" for name in sorted(ours - wanted))


def main():
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        print(__doc__.strip(), file=sys.stderr)
        return 2
    symbols = exported_symbols(sys.argv[1])
    found = list(differences(Path(sys.argv[1]).name, symbols, manifest.read_manifest(manifest.MANIFEST)))
    found += [f"not weak (src/mpi/abi/host_mpi.h): {name}" for name in needed_of_mpi(sys.argv[1])]
    found += [f"also in libfairlead-device.so: {name}" for name in variables_twice(sys.argv[1])]
    for line in found:
        print(line)
    print(f"{len(symbols)} symbols, {len(found)} mistakes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
