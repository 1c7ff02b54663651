"""The plots of Weir's scheduler beside rte_sched can be drawn, and both do to packets what they should."""

import subprocess
import tempfile
from pathlib import Path

from lab.weir import PROGRAM, ROOT

NEEDS_ROOT = False


def test_plots_are_drawn():
    """In small: a user alone, and one among many."""
    with tempfile.TemporaryDirectory(prefix="weir-test-") as folder:
        words = [ROOT / "tools/bench/shaping/figures.py", folder, "--weir", PROGRAM, "--small", "--only", "3.35", "--only", "3.41"]
        done = subprocess.run(["/usr/bin/python3", *words], capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        for name in ("figure-3.35.svg", "figure-3.41.svg", "figures.html"):
            text = (Path(folder) / name).read_text(encoding="utf-8")
            assert text.count("<svg") >= 3 and "rte_sched" in text, name
