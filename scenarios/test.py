#!/usr/bin/python3
"""Runs scenarios and whole-system tests; the last line is `N passed, N failed, N skipped`.

scenarios/test.py [-l] [WORD...]     only those whose name contains a WORD; -l lists them

Scenarios run in memory, and on veth pairs by AF_PACKET and AF_XDP; the tests in system/ run in network namespaces. What needs
root is skipped without it. WEIR=PROGRAM says which program to test, target/debug/weir otherwise.
"""

import importlib
import os
import pathlib
import signal
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

# pylint: disable=wrong-import-position
from lab import Skipped  # noqa: E402
from lab.scenario import Malformed, Scenario  # noqa: E402
from lab.weir import PROGRAM  # noqa: E402

NEEDS_ROOT = "network namespaces need root"


class Case:
    """Something to run: a name, what to call, and why it cannot be run here, if so."""

    def __init__(self, name, call, obstacle=None):
        self.name, self.call, self.obstacle = name, call, obstacle


def scenarios():
    """Each scenario on each kind of port."""
    obstacle = None if os.geteuid() == 0 else NEEDS_ROOT
    for path in sorted([*HERE.parent.glob("nf/*/scenarios/*.scenario"), *HERE.glob("*/*.scenario")]):
        name = f"{path.parent.parent.name}/{path.stem}"
        try:
            scenario = Scenario(path)
        except Malformed as error:
            yield Case(name, _checked(lambda e=error: [str(e)]))
            continue
        yield Case(f"{name} in memory", _checked(scenario.run_in_memory))
        pipeline = scenario.in_a_pipeline()
        if pipeline:
            yield Case(f"{name} in a pipeline", _checked(pipeline.run_in_memory))
        if "memory" not in scenario.options:
            for driver in ("af_packet", "af_xdp"):
                yield Case(f"{name} on {driver}", _checked(lambda s=scenario, d=driver: s.run_on_veth(d)), obstacle)


def _checked(run):
    def call():
        problems = run()
        if problems:
            raise AssertionError("\n  ".join(["", *problems]))

    return call


def system_tests():
    """The functions test_* of the modules in system/."""
    for path in sorted(HERE.glob("system/*.py")):
        module = importlib.import_module(f"system.{path.stem}")
        root = getattr(module, "NEEDS_ROOT", True)
        obstacle = NEEDS_ROOT if root and os.geteuid() != 0 else None
        for name, function in vars(module).items():
            if name.startswith("test_"):
                yield Case(f"{path.stem}/{name[5:].replace('_', '-')}", function, obstacle)


def run(case):
    """Runs a case; answers whether it passed. One that cannot run here has an obstacle from then on."""
    start = time.monotonic()
    try:
        case.call()
    except Skipped as reason:
        case.obstacle = str(reason)
        return False
    except Exception as error:  # pylint: disable=broad-except
        text = str(error) if isinstance(error, AssertionError) and str(error) else traceback.format_exc()
        print(f"FAILED  {case.name}: {text}", flush=True)
        return False
    print(f"ok      {case.name} ({time.monotonic() - start:.1f} s)", flush=True)
    return True


def main(words):
    """Runs what is asked for; answers the exit status."""
    listing = "-l" in words
    words = [word for word in words if word != "-l"]
    cases = [*scenarios(), *system_tests()]
    if words:
        cases = [case for case in cases if any(word in case.name for word in words)]
    if listing:
        print("\n".join(case.name for case in cases))
        return 0
    if not os.access(PROGRAM, os.X_OK):
        print(f"{PROGRAM} is missing: cargo build")
        return 1
    passed = failed = 0
    obstacles = {}
    for case in cases:
        if not case.obstacle and run(case):
            passed += 1
        elif case.obstacle:
            obstacles.setdefault(case.obstacle, []).append(case.name)
        else:
            failed += 1
    for obstacle, names in obstacles.items():
        print(f"skipped: {len(names)} tests, because {obstacle}")
    print(f"{passed} passed, {failed} failed, {sum(map(len, obstacles.values()))} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    # Ended from outside, tests clean up all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
