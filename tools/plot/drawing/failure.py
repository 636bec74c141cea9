# SPDX-License-Identifier: Apache-2.0
"""How drawing ends badly: one line, and the exit codes of every command of `fairlead` (tools/common/failure.h)."""


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
