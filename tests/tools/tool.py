# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command `fairlead` share: starting it, and what this build has."""

import fcntl
import json
import os
import pty
import stat
import struct
import subprocess
import termios
import unittest

# The tool knows itself by its real path.
TREE = os.path.realpath(os.environ["FAIRLEAD_TEST_TREE"])
MPIS = os.environ["FAIRLEAD_TEST_MPIS"].split()
# For tests of what is the same with every MPI; -DFAIRLEAD_ALL_SETTINGS=ON runs them with every MPI.
ONE_MPI = MPIS if os.environ.get("FAIRLEAD_TEST_ALL") == "ON" else MPIS[:1]
# Seconds after which one run of a program is taken for hanging.
TIMEOUT = float(os.environ.get("TEST_TIMEOUT", 300))
POLITE = os.environ["FAIRLEAD_TEST_POLITE"]
# Open MPI 5 complains of networks in which a machine does not reach itself.
os.environ.setdefault("OMPI_MCA_btl_tcp_if_include", "lo")
TOOL = os.path.join(TREE, "bin", "fairlead")


def fairlead(*arguments, launcher=(), timeout=TIMEOUT, **environment):
    """Runs `fairlead` with these arguments, on the simulated GPU. Ranks that wait leave the processors to others."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("FAIRLEAD_") and k != "COLUMNS"}
    variables.update({"FAIRLEAD_DEVICE": "sim", "LD_PRELOAD": POLITE, **environment})
    return subprocess.run([*launcher, TOOL, *map(str, arguments)], env=variables, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def on_terminal(*arguments, columns, stream="stderr", leads=False, **environment):
    """The exit code, and what a terminal is given that one of the streams is; its session's own, if `leads`."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    variables = {k: v for k, v in os.environ.items() if not k.startswith("FAIRLEAD_") and k not in ("COLUMNS", "NO_COLOR")}
    variables.update({"FAIRLEAD_DEVICE": "sim", "LD_PRELOAD": POLITE, **environment})
    with open(reader, "rb", buffering=0) as screen:
        process = subprocess.Popen([TOOL, *map(str, arguments)], env=variables, stdin=subprocess.DEVNULL,
                                   start_new_session=leads,
                                   preexec_fn=(lambda: fcntl.ioctl(writer, termios.TIOCSCTTY, 0)) if leads else None,
                                   **{"stdout": subprocess.DEVNULL, stream: writer})
        os.close(writer)
        shown = b""
        try:
            while block := screen.read(4096):
                shown += block
        except OSError:  # how a terminal ends
            pass
        return process.wait(timeout=TIMEOUT), shown.decode()


def example(abi):
    return os.path.join(TREE, "bin", "examples", f"sndrcv-{abi}")


def has_library(abi):
    return os.path.exists(os.path.join(TREE, "lib", f"libfairlead-{abi}.so"))


def preload(abi):
    """Options that make a benchmark run whether or not this build has the library."""
    return [] if has_library(abi) else ["--no-preload"]


def host_mpi(abi):
    """The MPI library that the benchmarks are linked with."""
    program = os.path.join(TREE, "libexec", "fairlead", f"bench-{abi}")
    linked = subprocess.run(["ldd", program], text=True, capture_output=True, check=True).stdout
    return next(line.split()[2] for line in linked.splitlines() if line.split()[0].startswith("libmpi"))


def host_mpi_has(abi, function):
    library = host_mpi(abi)
    names = subprocess.run(["nm", "-D", "--defined-only", library], text=True, capture_output=True, check=True).stdout
    return any(line.split()[-1] == "P" + function for line in names.splitlines())


def script(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


def examined(*arguments, **environment):
    """Exit code of `fairlead doctor`, its report, and the checks by key."""
    result = fairlead("doctor", "--json", *arguments, **environment)
    report = json.loads(result.stdout)
    checks = {check["key"]: check for check in report["checks"]}
    assert len(checks) == len(report["checks"]), "two checks of one key"
    return result.returncode, report, checks


class ToolTest(unittest.TestCase):
    def refuses(self, *arguments, says, **environment):
        """Exit code 2 and one line on stderr that holds each of these texts; nothing on stdout."""
        with self.subTest(arguments=arguments):
            result = fairlead(*arguments, **environment)
            self.assertEqual(result.returncode, 2, result)
            self.assertEqual(result.stdout, "")
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertTrue(result.stderr.startswith("fairlead"), result.stderr)
            for text in [says] if isinstance(says, str) else says:
                self.assertIn(text, result.stderr)

    def succeeds(self, *arguments, **options):
        result = fairlead(*arguments, **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result
