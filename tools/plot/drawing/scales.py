# SPDX-License-Identifier: Apache-2.0
"""Where the axes have marks and how numbers are written: the same in every kind of picture."""

from __future__ import annotations

import math

BYTE_UNITS = (*((f"{letter}iB", 1 << 10 * power) for power, letter in ((5, "P"), (4, "T"), (3, "G"), (2, "M"), (1, "K"))),
              ("B", 1))


def size_text(number):
    """8, 1 KiB, 1.5 MiB."""
    return next((f"{number / factor:.4g} {unit}" for unit, factor in BYTE_UNITS[:-1] if number >= factor), f"{number}")


def number_text(value):
    """Three digits where that is enough to tell values apart: 0.125, 12.5, 1,250."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-3 else f"{value:.2g}"


def size_marks(sizes, most):
    """Powers of two from the first to the last: every one, every second, ..., so that no more than `most` remain."""
    first, last = min(sizes).bit_length() - 1, max(sizes).bit_length() - 1
    step = max(1, math.ceil((last - first + 1) / most))
    return [1 << power for power in range(first, last + 1, step)]


def value_marks(low, high, most):
    """Round numbers between two that are above 0, as many as there is room for, on a logarithmic axis."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)):
        found = [step * 10.0 ** decade for decade in decades for step in steps]
        found = [number for number in found if low <= number <= high]
        if len(found) <= most:
            break
    found = found[::max(1, -(-len(found) // most))]
    return found if len(found) > 2 or high > 10 * low else even_marks(low, high, most)


def even_marks(low, high, most):
    """Multiples of 1, 2 or 5 times a power of ten."""
    unit = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(unit * factor for factor in (1, 2, 5, 10) if (high - low) / (unit * factor) <= most)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
