"""Controllers that others wrote, beside a switch in its namespace: Faucet, and applications of Ryu."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from . import PATIENCE, Skipped
from .weir import wait_for

# Ryu 4.34, its last, asks `eventlet` for something that newer ones have under another name; only its REST server uses it.
_RYU = """
import sys, eventlet, eventlet.wsgi
eventlet.monkey_patch()
if not hasattr(eventlet.wsgi, "ALREADY_HANDLED"):
    eventlet.wsgi.ALREADY_HANDLED = object()
from ryu.cmd.manager import main
main(args=sys.argv[1:])
"""


class _Program:
    """A program that writes a log, in a namespace."""

    def __init__(self, lab, namespace):
        self._namespace = namespace
        self._own = tempfile.TemporaryDirectory(prefix="weir-controller-")
        self.folder = pathlib.Path(self._own.name)
        self._process = None
        lab.at_end(self._own.cleanup)
        lab.at_end(self.die)

    def _run(self, *argv, environment=None):
        with open(self.folder / "output", "ab") as output:
            self._process = self._namespace.popen(
                *argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**os.environ, **(environment or {})}
            )

    def tell(self, sign):
        """Sends it a signal."""
        self._process.send_signal(sign)

    def die(self):
        """Goes without a word."""
        self._process.kill()
        self._process.wait(PATIENCE)

    def told(self):
        """What it wrote."""
        return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in sorted(self.folder.iterdir()))

    def says(self, words, times=1):
        """Waits until it has written words so many times."""
        assert wait_for(lambda: self.told().count(words) >= times), f"{words!r} is not, {times} times, in\n{self.told()}"


class Faucet(_Program):
    """Faucet with a configuration. WEIR_FAUCET names the program, if it is not in the path."""

    def __init__(self, lab, namespace, config):
        super().__init__(lab, namespace)
        self._program = shutil.which(os.environ.get("WEIR_FAUCET", "faucet"))
        self.configure(config)
        self.start()

    @staticmethod
    def needed():
        """Skips where it isn't installed."""
        program = os.environ.get("WEIR_FAUCET", "faucet")
        if shutil.which(program) is None:
            raise Skipped(f"{program} is missing (python3 -m venv DIR && DIR/bin/pip install faucet, and WEIR_FAUCET=DIR/bin/faucet)")

    def configure(self, config):
        """Writes a configuration."""
        (self.folder / "faucet.yaml").write_text(config, encoding="utf-8")

    def start(self):
        """Starts it."""
        # It becomes `osken-manager`, which lies beside it.
        path = f"{pathlib.Path(self._program).parent}:{os.environ['PATH']}"
        settings = {
            "FAUCET_CONFIG": self.folder / "faucet.yaml",
            "FAUCET_LOG": self.folder / "faucet.log",
            "FAUCET_EXCEPTION_LOG": self.folder / "exceptions.log",
            "FAUCET_PROMETHEUS_ADDR": "127.0.0.1",
            "PATH": path,
        }
        self._run(self._program, "--ryu-ofp-listen-host=127.0.0.1", environment={key: str(value) for key, value in settings.items()})

    def reconfigure(self, config):
        """Lets it read another configuration."""
        self.configure(config)
        self.tell(signal.SIGHUP)


class Ryu(_Program):
    """An application of Ryu. WEIR_RYU_PYTHON names a Python that has Ryu."""

    def __init__(self, lab, namespace, application):
        super().__init__(lab, namespace)
        python = os.environ.get("WEIR_RYU_PYTHON", "python3")
        options = ("--ofp-listen-host", "127.0.0.1", "--verbose")
        self._run(python, "-W", "ignore", "-u", "-c", _RYU, *options, application)

    @staticmethod
    def needed():
        """Skips where it isn't installed."""
        python = os.environ.get("WEIR_RYU_PYTHON", "python3")
        code = "import importlib.metadata; assert importlib.metadata.version('ryu') == '4.34'"
        if shutil.which(python) is None or subprocess.run((python, "-c", code), capture_output=True, check=False).returncode != 0:
            install = 'DIR/bin/pip install "setuptools<58" wheel && DIR/bin/pip install --no-build-isolation ryu==4.34'
            raise Skipped(f"{python} has no Ryu 4.34 (python3 -m venv DIR && {install}, and WEIR_RYU_PYTHON=DIR/bin/python)")
