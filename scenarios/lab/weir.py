"""A running Weir, and its account."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import time

from . import PATIENCE
from .netns import enter

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("WEIR", ROOT / "target/debug/weir"))

# Where each packet of the account came from and went: received + created = transmitted + dropped + consumed + held.
_SUM = ("transmitted", "dropped", "consumed", "held")


class Weir:
    """A Weir in a namespace (or here, with None), from `ready` to the end of the `with`."""

    _count = 0

    def __init__(self, namespace, config, folder=None, arguments=(), environment=None):
        Weir._count += 1
        self._own = tempfile.TemporaryDirectory(prefix="weir-test-") if folder is None else None
        self.folder = pathlib.Path(folder or self._own.name)
        self.config = self.folder / "test.lua"
        self.config.write_text(config, encoding="utf-8")
        self.name = f"test-{os.getpid()}-{Weir._count}"
        self.socket = self.folder / "weir.sock"
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(
            (*enter(namespace), PROGRAM, "run", self.config, "--name", self.name, "--socket", self.socket, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self._ready = threading.Event()
        self._out, self._err = [], []
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self._out), daemon=True),
            threading.Thread(target=self._read, args=(self.process.stderr, self._err), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        if not self._ready.wait(PATIENCE):
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"Weir did not get ready:\n{self.output()}")

    def _read(self, stream, lines):
        for line in stream:
            lines.append(line)
            if line.strip() == "ready":
                self._ready.set()
        # Who ends well without having been ready had nothing to be ready for.
        if stream is self.process.stdout and self.process.wait() == 0:
            self._ready.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self._own:
            self._own.cleanup()

    def output(self):
        """What it wrote: standard output, then its log."""
        return "".join(self._out) + "".join(self._err)

    def log(self):
        """What it logged."""
        return "".join(self._err)

    def command(self, *arguments, check=True, text=None, timeout=PATIENCE):
        """Runs a client command against it; returns its output, or with check=False the finished process."""
        done = subprocess.run(
            (PROGRAM, *arguments, "--socket", self.socket),
            input=text,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"weir {' '.join(map(str, arguments))}: {done.stderr or done.stdout}\n{self.log()}")
        return done.stdout if check else done

    def show(self, what, *arguments):
        """The rows of a table, or the numbers."""
        data = json.loads(self.command("show", what, *arguments, "--json"))
        return data.get("rows", data)

    def stats(self):
        """The numbers, after checking that they add up."""
        stats = self.show("stats")
        check_account(stats)
        return stats

    def ran(self):
        """Seconds that each thread has run, by name."""
        ran = {}
        for stat in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/stat"):
            name, rest = stat.read_text(encoding="ascii").split("(", 1)[1].rsplit(") ", 1)
            user, system = (int(ticks) for ticks in rest.split()[11:13])
            ran[name] = ran.get(name, 0) + (user + system) / os.sysconf("SC_CLK_TCK")
        return ran

    def drops(self):
        """Packets dropped so far: {"stage reason": packets}."""
        return drops_of(self.stats())

    def reload(self, config):
        """Replaces its configuration."""
        self.config.write_text(config, encoding="utf-8")
        return self.command("reload", self.config)

    def restart(self, config):
        """Replaces its configuration and the process's program; waits until it is ready again."""
        self.config.write_text(config, encoding="utf-8")
        self._ready.clear()
        self.command("reload", "--allow-restart")
        if not self._ready.wait(PATIENCE):
            raise AssertionError(f"Weir did not get ready again:\n{self.output()}")

    def stop(self, sign=signal.SIGTERM):
        """Stops it as an operator would; it must say goodbye and end well. Returns what it printed."""
        self.process.send_signal(sign)
        return self.finish()

    def finish(self, timeout=PATIENCE, expected=0):
        """Waits for it to end, well unless another status is expected; returns what it printed."""
        status = self.process.wait(timeout)
        for reader in self._readers:
            reader.join(PATIENCE)
        if status != expected:
            raise AssertionError(f"Weir ended with status {status}:\n{self.output()}")
        return "".join(self._out)


def torment(weir, service, fault):
    """Lets a service fail; answers what Weir answers, or nothing where only builds for tests do so."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(str(weir.socket))
        call = {"version": 1, "request": {"torment": {"service": service, "fault": fault}}}
        client.sendall(json.dumps(call).encode() + b"\n")
        answer = json.loads(client.makefile().readline())["response"]
    return None if "only builds for tests" in str(answer) else answer


def check_account(stats):
    """Nothing is unaccounted, and the sum says so too."""
    account = stats["account"]
    if account["unaccounted"] != 0:
        raise AssertionError(f"unaccounted packets: {account}")
    came = account["received"] + account["created"]
    went = sum(account[key] for key in _SUM)
    if came != went:
        raise AssertionError(f"{came} packets came to be and {went} are somewhere: {account}")


def drops_of(stats):
    """{"stage reason": packets}, summed over workers."""
    drops = {}
    for drop in stats["drops"]:
        if drop["packets"]:
            key = f"{drop['stage']} {drop['reason']}"
            drops[key] = drops.get(key, 0) + drop["packets"]
    return drops


def somebody_listens(path):
    """Whether somebody listens at the path of a socket: a service of Weir's may begin with that a moment after Weir is ready."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def wait_for(true, timeout=PATIENCE, interval=0.05):
    """Waits until true() is; answers whether it came to be."""
    end = time.monotonic() + timeout
    while True:
        if true():
            return True
        if time.monotonic() > end:
            return False
        time.sleep(interval)
