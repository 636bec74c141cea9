# SPDX-License-Identifier: Apache-2.0
"""A part of a trace, as --time names it."""

from __future__ import annotations

import re

from failure import usage

UNITS = (("s", 1e6), ("ms", 1e3), ("us", 1))  # in microseconds


def read_span(text):
    """Microseconds (begin, end) of "1.2ms:3ms", or None."""
    if not text:
        return None
    number = r"(\d+(?:\.\d*)?|\.\d+)(us|ms|s)"
    match = re.fullmatch(f"{number}:{number}", text)
    begin, end = (float(match[i]) * dict(UNITS)[match[i + 1]] for i in (1, 3)) if match else (0, 0)
    if begin >= end:
        raise usage(f"--time: '{text}' is not accepted; accepted: BEGIN:END, a number with us, ms or s each, as in "
                    "1.2ms:1.5ms")
    return begin, end
