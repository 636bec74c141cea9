# SPDX-License-Identifier: Apache-2.0
"""What tests of pictures share: a Python that can draw, and the words in an SVG."""

import functools
import os
import shutil
import subprocess
import unittest
from xml.etree import ElementTree


@functools.cache
def path_to(library):
    """A PATH whose python3 has the library; none where there is no such Python."""
    for python in (shutil.which("python3"), "/usr/bin/python3"):
        if python and subprocess.run([python, "-c", f"import {library}"], capture_output=True).returncode == 0:
            return f"{os.path.dirname(python)}:{os.environ['PATH']}"
    return None


def needs(library, remedy):
    return unittest.skipUnless(path_to(library), f"no python3 here has {library}; to run this: {remedy}")


def texts(svg):
    return [" ".join("".join(node.itertext()).split()) for node in ElementTree.fromstring(svg).iter()
            if node.tag.endswith("text")]
