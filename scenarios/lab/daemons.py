"""Routing daemons in network namespaces: FRR and BIRD, as Debian has them."""

import json
import pathlib
import shutil
import subprocess
import tempfile

from . import PATIENCE, Skipped
from .netns import run
from .weir import wait_for

_FRR = pathlib.Path("/usr/lib/frr")


class Frr:
    """FRR's daemons in a namespace; `configs` says what each of them reads, and `zebra` what else that one is told."""

    def __init__(self, lab, namespace, configs, zebra=()):
        if not (_FRR / "zebra").exists() or not shutil.which("vtysh"):
            raise Skipped("frr is not installed")
        self._namespace = namespace
        self._own = tempfile.TemporaryDirectory(prefix="weir-frr-")
        self._folder = pathlib.Path(self._own.name)
        for daemon, config in configs.items():
            (self._folder / f"{daemon}.conf").write_text(config, encoding="utf-8")
        (self._folder / "vtysh.conf").write_text("", encoding="utf-8")
        # The daemons give up being root.
        shutil.chown(self._folder, "frr", "frr")
        self._running = {}
        self._zebra = zebra
        lab.at_end(self.stop)
        self.start("zebra")
        # Who finds it not there yet tries again only after 10 s.
        wait_for((self._folder / "zserv.api").exists)
        for daemon in configs:
            if daemon != "zebra":
                self.start(daemon)

    def start(self, daemon):
        """Starts a daemon, which reads its part of the configuration."""
        own = self._zebra if daemon == "zebra" else ()
        log = open(self._folder / f"{daemon}.log", "w", encoding="utf-8")  # pylint: disable=consider-using-with
        self._running[daemon] = self._namespace.popen(
            *(str(_FRR / daemon), "-A", "127.0.0.1", "-P", "0"),
            *("-z", str(self._folder / "zserv.api"), "--vty_socket", str(self._folder)),
            *("-i", str(self._folder / f"{daemon}.pid"), "-f", str(self._folder / f"{daemon}.conf"), *own),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )

    def kill(self, daemon):
        """Kills a daemon, which has no time to say goodbye."""
        process = self._running.pop(daemon)
        process.kill()
        process.wait(PATIENCE)

    def ask(self, command):
        """What FRR answers to a command, or to several in as many lines."""
        commands = [word for line in command.splitlines() for word in ("-c", line)]
        return run("vtysh", "--vty_socket", str(self._folder), "--config_dir", str(self._folder), *commands, check=False)

    def data(self, command):
        """The same, of a command that answers JSON."""
        answer = self.ask(f"{command} json")
        start = answer.find("{")
        return json.loads(answer[start:]) if start >= 0 else {}

    def told(self):
        """What its daemons wrote."""
        return "\n".join(f"{path.name}: {path.read_text(encoding='utf-8')}" for path in self._folder.glob("*.log"))

    def stop(self):
        """Ends all."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running = {}
        self._own.cleanup()


class Bird:
    """BIRD in a namespace."""

    def __init__(self, lab, namespace, config):
        if not shutil.which("bird"):
            raise Skipped("bird2 is not installed")
        self._namespace = namespace
        self._own = tempfile.TemporaryDirectory(prefix="weir-bird-")
        self._folder = pathlib.Path(self._own.name)
        (self._folder / "bird.conf").write_text(config, encoding="utf-8")
        self.process = None
        lab.at_end(self.stop)
        self.start()

    def start(self):
        """Starts it."""
        self.process = self._namespace.popen(
            *("bird", "-f", "-c", str(self._folder / "bird.conf"), "-s", str(self._folder / "bird.ctl")),
            *("-P", str(self._folder / "bird.pid")),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=open(self._folder / "bird.log", "w", encoding="utf-8"),
        )

    def ask(self, *command):
        """What BIRD answers to a command."""
        return run("birdc", "-s", str(self._folder / "bird.ctl"), *command, check=False)

    def kill(self):
        """Kills it, which has no time to say goodbye."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def told(self):
        """What it wrote."""
        return (self._folder / "bird.log").read_text(encoding="utf-8")

    def stop(self):
        """Ends it."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._own.cleanup()
