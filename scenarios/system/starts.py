"""Starts that fail: told once, rightly, and over."""

import subprocess
import tempfile
import pathlib

from lab import PATIENCE
from lab.weir import PROGRAM

NEEDS_ROOT = False

SCRIPT = """
port { name = "lan", device = "af_packet:no-such-if" }
port { name = "wan", device = "null:no-rx=1" }
forward { pairs = { { "lan", "wan" } }, workers = { 0, 1 } }
"""


def test_a_wrong_interface_is_told_and_nothing_else():
    """However far the workers are when the port is refused, the end is the sentence about the port."""
    with tempfile.TemporaryDirectory(prefix="weir-starts-") as folder:
        folder = pathlib.Path(folder)
        script = folder / "test.lua"
        script.write_text(SCRIPT, encoding="utf-8")
        for _ in range(40):
            done = subprocess.run(
                (PROGRAM, "run", script, "--name", "starts", "--socket", folder / "weir.sock"),
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE,
            )
            said = done.stderr.strip().splitlines()
            assert done.returncode == 1, (done.returncode, said)
            assert len(said) == 1 and "there is no interface no-such-if" in said[0], said
