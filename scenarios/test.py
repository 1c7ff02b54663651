#!/usr/bin/python3
"""Runs scenarios and whole-system tests; the last line is `N passed, N failed, N skipped`.

scenarios/test.py [-l] [-j N] [WORD...]     only those whose name contains a WORD; -l lists them; -j: N at a time, two otherwise

Scenarios run in memory, and on veth pairs by AF_PACKET and AF_XDP; the tests in system/ run in network namespaces. What needs
root is skipped without it. WEIR=PROGRAM says which program to test, target/debug/weir otherwise.
"""

import argparse
import concurrent.futures
import importlib
import multiprocessing
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
    """Something to run: a name, what to call, why it cannot be run here, if so, and what may run meanwhile.

    `company` is "any", "no guest" for those that emulate a machine (they are slow, and write the same files), or "none" for those that
    measure times of the machine they run on.
    """

    def __init__(self, name, call, obstacle=None, company="any"):
        self.name, self.call, self.obstacle, self.company = name, call, obstacle, company


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
        company = getattr(module, "COMPANY", "any")
        for name, function in vars(module).items():
            if name.startswith("test_"):
                yield Case(f"{path.stem}/{name[5:].replace('_', '-')}", function, obstacle, company)


def run(case):
    """Runs a case, tells how it went; answers whether it passed, and why it cannot run here."""
    if case.obstacle:
        return False, case.obstacle
    start = time.monotonic()
    try:
        case.call()
    except Skipped as reason:
        return False, str(reason)
    except Exception as error:  # pylint: disable=broad-except
        text = str(error) if isinstance(error, AssertionError) and str(error) else traceback.format_exc()
        print(f"FAILED  {case.name}: {text}", flush=True)
        return False, None
    print(f"ok      {case.name} ({time.monotonic() - start:.1f} s)", flush=True)
    return True, None


# Processes that run cases have them from the process that forked them.
_cases = []


def _run_some(numbers):
    return [(number, *run(_cases[number])) for number in numbers]


def run_all(jobs):
    """Runs the cases, so many at a time; yields for each its number, whether it passed, and why it cannot run here."""
    together = {company: [n for n, case in enumerate(_cases) if case.company == company] for company in ("any", "no guest", "none")}
    # The slow ones come first, in one row, and the others beside them.
    rows = [together["no guest"], *([number] for number in together["any"])]
    with concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        try:
            for done in concurrent.futures.as_completed([pool.submit(_run_some, row) for row in rows]):
                yield from done.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    yield from _run_some(together["none"])


def main():
    """Runs what is asked for; answers the exit status."""
    parser = argparse.ArgumentParser(usage=__doc__.splitlines()[2])
    parser.add_argument("-l", action="store_true")
    parser.add_argument("-j", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    _cases.extend(
        case for case in (*scenarios(), *system_tests()) if not options.words or any(word in case.name for word in options.words)
    )
    if options.l:
        print("\n".join(case.name for case in _cases))
        return 0
    if not os.access(PROGRAM, os.X_OK):
        print(f"{PROGRAM} is missing: cargo build")
        return 1
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    obstacles = {}
    for number, passed, obstacle in run_all(max(1, options.j)):
        counts["skipped" if obstacle else "passed" if passed else "failed"] += 1
        if obstacle:
            obstacles.setdefault(obstacle, []).append(_cases[number].name)
    for obstacle, names in obstacles.items():
        print(f"skipped: {len(names)} tests, because {obstacle}")
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    # Ended from outside, tests clean up all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
