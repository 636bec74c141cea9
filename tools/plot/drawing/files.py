# SPDX-License-Identifier: Apache-2.0
"""The one way to open what is read and written: regular files of a size that Python can hold. A FIFO would be waited for,
and a device or an endless file read for ever."""

from __future__ import annotations

import json
import os
import stat

from failure import usage

LARGEST = 4 << 30  # bytes


def opened(path):
    """To read its bytes. Raises OSError for one that cannot be opened."""
    file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    about = os.fstat(file.fileno())
    if not stat.S_ISREG(about.st_mode):
        raise usage(f"{path} is a pipe or a device; accepted: a regular file")
    if about.st_size > LARGEST:
        raise usage(f"{path} has {about.st_size} bytes; accepted: at most {LARGEST}")
    return file


def opening(path, count=4096):
    """Its first bytes. Of a file that cannot be read none: those who read all kinds of files say so."""
    try:
        with opened(path) as file:
            return file.read(count)
    except OSError:
        return b""


def read_text(path, accepted):
    try:
        with opened(path) as file:
            return str(file.read(), "utf-8")
    except OSError as error:
        raise usage(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise usage(f"{path} is no text; {accepted}") from None


def parsed(text, **options):
    """The JSON in a text, None where it is something else."""
    try:
        return json.loads(text, **options)
    except (ValueError, RecursionError):
        return None


def write(path, content):
    """Raises OSError. In a folder in which others may write, no link is followed: it may be theirs."""
    folder = os.stat(os.path.dirname(path) or ".")
    foreign = folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or folder.st_uid not in (0, os.geteuid())
    theirs = os.O_NOFOLLOW if foreign else 0
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | theirs, 0o666), "wb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise usage(f"--output: {path} is a pipe or a device; accepted: a regular file")
        file.truncate()
        file.write(content)
