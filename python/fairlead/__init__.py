# SPDX-License-Identifier: Apache-2.0
"""Fairlead from Python: start MPI programs with it, and ask what it did.

    python -m fairlead run -n 2 program.py      # mpi4py passes GPU arrays to an MPI that knows no GPU

    import fairlead
    fairlead.info()                             # what is loaded into this process
    fairlead.stats()                            # messages and bytes so far, by path
    with fairlead.phase("halo exchange"):       # a part of the program, for statistics, traces and profilers
        ...

Nothing here needs to be called for GPU arrays to work: Fairlead is loaded into the process before Python starts,
and mpi4py and the arrays are unmodified. All functions may be called from any thread, at any time.
"""

from ._home import HomeError, home, library
from ._native import Info, Device, NotLoadedError, Option, info, loaded, phase
from ._readonly import readonly
from ._stats import Phase, Stats, Tally, Traffic, stats

__all__ = [
    "Device", "HomeError", "Info", "NotLoadedError", "Option", "Phase", "Stats", "Tally", "Traffic",
    "home", "info", "library", "loaded", "phase", "readonly", "stats",
]
