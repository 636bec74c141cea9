# SPDX-License-Identifier: Apache-2.0
"""The lines of a timeline from sends to receives, so many that the bars behind them are seen.

Where there are more, messages between the same two rows share a line if they begin at about the same time and end so,
too; and if that is not enough, only a sample of the lines is drawn.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict

DENSEST = 12.0  # inches of lines in a square inch
FINEST, COARSEST = 1 / 32, 1 / 4  # inches along the time in which ends are the same
THIN, THICK = 0.6, 2.4  # points


def length_of(line, time, row):
    """Inches."""
    (t1, y1), (t2, y2) = line
    return math.hypot((t2 - t1) * time, (y2 - y1) * row)


def share_lines(lines, time, near):
    """{(cell, row, cell, row): [messages, sums of their times]} of the lines whose ends lie in the same rows, and in the
    same cells of `near` inches of time."""
    groups = defaultdict(lambda: [0, 0.0, 0.0])
    for (begin, top), (end, bottom) in lines:
        group = groups[begin * time // near, top, end * time // near, bottom]
        group[0] += 1
        group[1] += begin
        group[2] += end
    return groups


def coarser(groups):
    """The same in cells twice as long."""
    whole = defaultdict(lambda: [0, 0.0, 0.0])
    for (begin, top, end, bottom), of in groups.items():
        group = whole[begin // 2, top, end // 2, bottom]
        group[:] = map(sum, zip(group, of))
    return whole


def lines_of(groups):
    """[(line, messages)]: a line leads from the mean of the begins to that of the ends."""
    return [([(begin / messages, top), (end / messages, bottom)], messages)
            for (_, top, _, bottom), (messages, begin, end) in groups.items()]


def bundled(lines, time, row):
    """(lines, their widths, how many messages have none); `time`, `row`: inches of a microsecond and of a row."""
    def excess(found):
        return sum(length_of(line, time, row) for line, _ in found) / (DENSEST * area)

    ends = [end for line in lines for end in line] or [(0, 0)]
    area = max(1.0, (max(t for t, _ in ends) - min(t for t, _ in ends)) * time
               * (max(y for _, y in ends) - min(y for _, y in ends)) * row)
    found, near = [(line, 1) for line in lines], FINEST
    groups = share_lines(lines, time, FINEST) if excess(found) > 1 else {}
    while excess(found) > 1 and near <= COARSEST:
        found, groups, near = lines_of(groups), coarser(groups), 2 * near
    # At random, since every n-th would be of the same ranks; but in each drawing the same ones.
    drawn = random.Random(0).sample(found, int(len(found) / max(1.0, excess(found))))
    widths = [min(THIN + 0.3 * math.log2(messages), THICK) for _, messages in drawn]
    return [line for line, _ in drawn], widths, len(lines) - sum(messages for _, messages in drawn)


def meaning_of(widths, left_out, behind_bars=False):
    words = ["Lines lead from sends to receives" + (", behind the bars." if behind_bars else "; a dot is a receive's end.")]
    if any(width > THIN for width in widths):
        words.append("A thicker line stands for several messages with about the same ends.")
    if left_out:
        words.append(f"The lines of {left_out} messages are left out.")
    return " ".join(words)
