#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Runs a test that prints statistics (FAIRLEAD_STATS=on). Some of its device messages must take the path that
TEST_TAKES names, or fall back for the reason that it names."""

import os
import re
import subprocess
import sys

PATH = os.environ["TEST_TAKES"]


def main():
    run = subprocess.run(sys.argv[1:], text=True, errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    sys.stdout.write(run.stdout)
    row = f"^({re.escape(PATH)} +[1-9]| +[1-9][0-9]*  {re.escape(PATH)}$)"
    if run.returncode == 0 and not re.search(row, run.stdout, re.M):
        print(f"FAILED: no device message of '{PATH}'")
        return 1
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
