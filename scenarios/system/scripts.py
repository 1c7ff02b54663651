"""`make run` and `make demo` do what they promise, and leave nothing behind."""

import os
import pathlib
import signal
import subprocess

from lab import PATIENCE
from lab.netns import run
from lab.weir import PROGRAM, ROOT, wait_for

_ENVIRONMENT = {**os.environ, "WEIR": str(PROGRAM), "SECONDS_OF_TRAFFIC": "1"}


def _left_behind(pid):
    spaces = [line for line in run("ip", "netns", "list").splitlines() if line.startswith(f"weir-{pid}-")]
    return spaces + [name for name in os.listdir("/tmp") if name.startswith(f"weir-{pid}.")] + _processes(pid)


def _processes(session):
    """What still runs in a session."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name, rest = (process / "stat").read_text(encoding="utf-8").rsplit(") ", 1)
        except OSError:
            continue  # it has just ended
        state, _, _, of = rest.split()[:4]
        if state != "Z" and int(of) == session:
            found.append(name)
    return found


def test_run_shows_a_router_at_work():
    """All of it works, and nothing is left."""
    shown = subprocess.Popen(
        ROOT / "scenarios/run.sh", env=_ENVIRONMENT, stdout=-1, stderr=-2, text=True, start_new_session=True,
    )
    said = shown.communicate(timeout=PATIENCE)[0]
    assert shown.returncode == 0, said
    assert "unaccounted" in said and " 0% packet loss" in said and "Gbit/s" in said, said
    assert len(said.splitlines()) < 60, said
    assert wait_for(lambda: not _left_behind(shown.pid)), _left_behind(shown.pid)


def test_run_cleans_up_when_it_is_interrupted():
    """By Ctrl-C early on, and by SIGTERM in the middle of the traffic."""
    has_a_namespace = lambda pid: f"weir-{pid}-" in run("ip", "netns", "list")
    # One that listens, and one that sends.
    has_traffic = lambda pid: sum("iperf3" in name for name in _processes(pid)) == 2
    for sign, is_time in ((signal.SIGINT, has_a_namespace), (signal.SIGTERM, has_traffic)):
        shown = subprocess.Popen(
            ROOT / "scenarios/run.sh", env=_ENVIRONMENT | {"SECONDS_OF_TRAFFIC": "20"}, stdout=-3, stderr=-3,
            start_new_session=True,
            # Who runs in the background has Ctrl-C ignored, and hands that on; bash cannot undo it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        assert wait_for(lambda: is_time(shown.pid), interval=0.01), _processes(shown.pid)
        # Ctrl-C reaches everybody in front of the terminal.
        os.killpg(shown.pid, sign) if sign == signal.SIGINT else shown.send_signal(sign)
        assert shown.wait(PATIENCE) == 128 + sign
        # What was ended need not be gone yet.
        assert wait_for(lambda: not _left_behind(shown.pid)), _left_behind(shown.pid)


def test_demo_agrees_with_its_files():
    """The demo's own checks pass."""
    done = subprocess.run(ROOT / "scenarios/demo.sh", env=_ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The files agree" in done.stdout, done.stdout
