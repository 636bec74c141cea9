# SPDX-License-Identifier: Apache-2.0
"""How drawing ends badly: one line, and the exit codes of every command of `fairlead` (tools/common/failure.h)."""

import os
import sys
import textwrap


class Failure(Exception):
    def __init__(self, line, code):
        super().__init__(line)
        self.code = code


def problem(line):
    return Failure(line, 1)


def usage(line):
    return Failure(line, 2)


def cannot_run(line):
    return Failure(line, 77)


def say(line):
    """To stderr, in a terminal that it does not fit broken between words (tools/common/terminal.h)."""
    columns = os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else 0
    if 0 < columns < len(line):
        line = textwrap.fill(line, columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    print(line, file=sys.stderr)
