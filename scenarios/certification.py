#!/usr/bin/python3
"""Runs the OpenFlow 1.3 switch certification of os-ken 2.8.2, with its own tester, against a running `switch`.

scenarios/certification.py [-j N] [--tester SWITCH] [WORD...]     only files of patterns whose path contains a WORD

WEIR_OS_KEN_PYTHON names a Python that has os-ken (python3 -m venv DIR && DIR/bin/pip install os-ken==2.8.2), WEIR the program,
target/debug/weir otherwise. Without os-ken it is skipped. Each tester has a Weir of its own with the switch that is tested, and another switch whose
ports lead to those of it, by which the tester sends and receives: one of the same Weir, or Open vSwitch in user space, in a network namespace (root,
package openvswitch-switch). The tester compares the packets by itself. The exit status is 0 if nothing failed but what the manual says.
"""

import argparse
import concurrent.futures
import os
import pathlib
import queue
import re
import shutil
import socket
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

# pylint: disable=wrong-import-position
from lab import openvswitch  # noqa: E402
from lab.netns import Lab, enter  # noqa: E402
from lab.weir import Weir  # noqa: E402

_SIDES = ("target", "tester")

# Seconds that a file of patterns may take: those of rates send for 30 seconds each.
_PATIENCE = 1800

# The switch that is tested, with ports 1 to 3.
_TARGET = """
switch {{ name = "target", ports = {{ "target1", "target2", "target3" }}, datapath_id = "0000000000000001", tables = 254,
         controllers = {{ "tcp:127.0.0.1:{port}" }} }}
"""

_BY_WEIR = """
for n = 1, 3 do
  port {{ name = "target" .. n, device = "joint:wire" .. n }}
  port {{ name = "tester" .. n, device = "joint:wire" .. n }}
end
switch {{ name = "tester", ports = {{ "tester1", "tester2", "tester3" }}, datapath_id = "0000000000000002",
         controllers = {{ "tcp:127.0.0.1:{port}" }} }}
"""

_BY_OPENVSWITCH = """
for n = 1, 3 do port {{ name = "target" .. n, device = "af_packet:target" .. n }} end
"""

# The switches that testers send by.
TESTERS = ("weir", "openvswitch")

# The tester as it comes, but for three things. The checksum of SCTP is that of RFC 9260 (mended.py). It sends every 10 ms what is due in 10 ms,
# so that on a busy machine, where it is woken late, it sends less than it then asks for: here it makes up for what it was late. And it waits for
# 60 s and not for 3 s before it says that a packet, or an answer, did not come.
_MANAGER = f'''
import sys, time
sys.path.insert(0, {str(HERE.parent / "crates/flow-tables/tests/os-ken")!r})
import mended
from os_ken.lib import hub

mended.mend()
plain, due = hub.sleep, [0.0]

def sleep(seconds=0):
    if seconds == 0.01:
        now = time.monotonic()
        due[0] = (due[0] if now - due[0] < 1 else now) + seconds
        seconds = max(0, due[0] - now)
    plain(seconds)

class Patience(hub.Timeout):
    def __init__(self, seconds=None, *more):
        super().__init__(60 if seconds == 3 else seconds, *more)

hub.sleep, hub.Timeout = sleep, Patience
from os_ken.cmd.manager import main
main(args=sys.argv[1:])
'''

_RESULT = re.compile(r"^    (.*\S) +(OK|ERROR)$")


def patterns(python):
    """The folder of the tester and its patterns, or nothing."""
    code = "import os_ken, os.path; assert os_ken.__version__ == '2.8.2'; print(os.path.dirname(os_ken.__file__))"
    try:
        done = subprocess.run((python, "-c", code), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return pathlib.Path(done.stdout.splitlines()[-1]) / "tests/switch" if done.returncode == 0 else None


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def run(python, folder, file, tester="weir"):
    """Runs a file of patterns; its tests, each with its result and what was told."""
    with tempfile.TemporaryDirectory(prefix="weir-test-") as own, Lab() as lab:
        one = pathlib.Path(own) / "patterns"
        one.mkdir()
        shutil.copy(file, one)
        if tester == "weir":
            port = _free_port()
            with Weir(None, (_BY_WEIR + _TARGET).format(port=port), own):
                said = _drive(None, python, (folder, one, port))
        else:
            inside, port = lab.namespace("certification"), 6653
            for number in range(1, 4):
                wire = [(inside, f"{side}{number}", f"02:0{kind}:00:00:00:0{number}") for kind, side in enumerate(_SIDES)]
                lab.wire(*wire)
            controller = f"tcp:127.0.0.1:{port}"
            openvswitch.OpenVSwitch(lab, inside).add_switch([f"tester{number}" for number in range(1, 4)], 2, controller)
            with Weir(inside, (_BY_OPENVSWITCH + _TARGET).format(port=port), own):
                said = _drive(inside, python, (folder, one, port))
    results = []
    for line in (said.stdout + said.stderr).splitlines():
        found = _RESULT.match(line)
        if found:
            results.append((found[1], found[2], ""))
        elif line.startswith("        ") and results and results[-1][1] == "ERROR":
            results[-1] = (*results[-1][:2], line.strip())
    if not results:
        results.append(("(the tester)", "ERROR", (said.stdout + said.stderr)[-500:]))
    return results


def _drive(namespace, python, files):
    """What the tester says of the patterns in a folder."""
    folder, one, port = files
    options = ("--test-switch-dir", one, "--ofp-tcp-listen-port", str(port), "--ofp-listen-host", "127.0.0.1")
    return subprocess.run(
        (*enter(namespace), python, "-W", "ignore", "-c", _MANAGER, *options, folder / "tester.py"),
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )


def is_expected(kind, name):
    """What the manual says fails: provider backbone bridges."""
    return "pbb" in (kind + name).lower()


def main():
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-j", type=int, default=2, metavar="N", help="testers at a time (2)")
    parser.add_argument("--tester", choices=TESTERS, default=TESTERS[0], help="the switch by which packets are sent (weir)")
    parser.add_argument("words", nargs="*", metavar="WORD")
    arguments = parser.parse_args()
    python = os.environ.get("WEIR_OS_KEN_PYTHON", "python3")
    folder = patterns(python)
    if folder is None:
        print(f"skipped: {python} has no os-ken 2.8.2 (name one that has in WEIR_OS_KEN_PYTHON)")
        return 0
    if arguments.tester == "openvswitch" and openvswitch.missing():
        print(f"skipped: {openvswitch.missing()}")
        return 0
    root = folder / "of13"
    files = sorted(root.rglob("*.json"))
    if arguments.words:
        files = [file for file in files if any(word in str(file.relative_to(root)) for word in arguments.words)]
    # Those of rates take longest.
    files.sort(key=lambda file: file.relative_to(root).parts[0] not in ("meter", "group"))
    counts, done = {}, queue.SimpleQueue()
    with concurrent.futures.ThreadPoolExecutor(arguments.j) as pool:
        for file in files:
            pool.submit(lambda file=file: done.put((file, *_try(python, folder, file, arguments.tester))))
        for _ in files:
            file, results = done.get()
            _tell(root, file, results, counts)
    for kind, (passed, expected, failed) in sorted(counts.items()):
        print(f"{kind}: {passed} passed, {failed} failed, {expected} of provider backbone bridges")
    passed, expected, failed = (sum(column) for column in zip(*counts.values()))
    print(f"{passed} passed, {failed} failed, {expected} of provider backbone bridges")
    return 1 if failed else 0


def _try(python, folder, file, tester):
    try:
        return (run(python, folder, file, tester),)
    except (AssertionError, OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        return ([("(all)", "ERROR", str(error))],)


def _tell(root, file, results, counts):
    path = file.relative_to(root)
    count = counts.setdefault(path.parts[0], [0, 0, 0])
    for name, result, why in results:
        if result == "OK":
            count[0] += 1
        elif is_expected(str(path), name):
            count[1] += 1
        else:
            count[2] += 1
            print(f"FAILED  {path}: {name}\n        {why}", flush=True)
    print(f"{sum(result == 'OK' for _, result, _ in results):4} of {len(results):4}  {path}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
