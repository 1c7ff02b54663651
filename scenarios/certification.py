#!/usr/bin/python3
"""Runs the OpenFlow 1.3 switch certification of os-ken 2.8.2, with its own tester, against a running `switch`.

scenarios/certification.py [-j N] [WORD...]     only files of patterns whose path contains a WORD; -j: N testers at a time, two otherwise

WEIR_OS_KEN_PYTHON names a Python that has os-ken (python3 -m venv DIR && DIR/bin/pip install os-ken==2.8.2), WEIR the program,
target/debug/weir otherwise. Without os-ken it is skipped. Each tester has a Weir of its own, with the switch that is tested and another whose
ports lead to those of it: the tester compares the packets by itself. The exit status is 0 if nothing failed but what the manual says.
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
from lab.weir import Weir  # noqa: E402

# Seconds that a file of patterns may take: those of rates send for 30 seconds each.
_PATIENCE = 1800

_SCRIPT = """
for n = 1, 3 do
  port {{ name = "target" .. n, device = "joint:wire" .. n }}
  port {{ name = "tester" .. n, device = "joint:wire" .. n }}
end
switch {{ name = "target", ports = {{ "target1", "target2", "target3" }}, datapath_id = "0000000000000001", tables = 254,
         controllers = {{ "tcp:127.0.0.1:{port}" }} }}
switch {{ name = "tester", ports = {{ "tester1", "tester2", "tester3" }}, datapath_id = "0000000000000002",
         controllers = {{ "tcp:127.0.0.1:{port}" }} }}
"""

# The tester as it comes, but for two things. The checksum of SCTP is that of RFC 9260 (mended.py). And it sends every 10 ms what is due in 10 ms,
# so that on a busy machine, where it is woken late, it sends less than it then asks for: here it makes up for what it was late.
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

hub.sleep = sleep
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


def run(python, folder, file):
    """Runs a file of patterns; its tests, each with its result and what was told."""
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="weir-test-") as own, Weir(None, _SCRIPT.format(port=port), own):
        one = pathlib.Path(own) / "patterns"
        one.mkdir()
        shutil.copy(file, one)
        options = ("--test-switch-dir", one, "--ofp-tcp-listen-port", str(port), "--ofp-listen-host", "127.0.0.1")
        said = subprocess.run(
            (python, "-W", "ignore", "-c", _MANAGER, *options, folder / "tester.py"),
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
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


def is_expected(kind, name):
    """What the manual says fails: provider backbone bridges."""
    return "pbb" in (kind + name).lower()


def main():
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-j", type=int, default=2, metavar="N")
    parser.add_argument("words", nargs="*", metavar="WORD")
    arguments = parser.parse_args()
    python = os.environ.get("WEIR_OS_KEN_PYTHON", "python3")
    folder = patterns(python)
    if folder is None:
        print(f"skipped: {python} has no os-ken 2.8.2 (name one that has in WEIR_OS_KEN_PYTHON)")
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
            pool.submit(lambda file=file: done.put((file, *_try(python, folder, file))))
        for _ in files:
            file, results = done.get()
            _tell(root, file, results, counts)
    for kind, (passed, expected, failed) in sorted(counts.items()):
        print(f"{kind}: {passed} passed, {failed} failed, {expected} of provider backbone bridges")
    passed, expected, failed = (sum(column) for column in zip(*counts.values()))
    print(f"{passed} passed, {failed} failed, {expected} of provider backbone bridges")
    return 1 if failed else 0


def _try(python, folder, file):
    try:
        return (run(python, folder, file),)
    except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
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
