"""Servers of a Linux that speaks for a router, as Debian has them: ssh and SNMP; and tcpdump on its interfaces."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from . import PATIENCE, Skipped
from .netns import run
from .weir import wait_for

_SSHD = """
Port 22
ListenAddress {address}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
"""

_SNMPD = """
agentAddress udp:{address}:161
rocommunity public
sysName {name}
"""


def need(program, package):
    """The path of a program, without which a test is skipped."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if not found:
        raise Skipped(f"{package} is not installed")
    return found


class _Server:
    """A server in a namespace, with a folder of its own."""

    def __init__(self, lab, namespace, address):
        self._lab, self._namespace, self.address = lab, namespace, address
        self._own = tempfile.TemporaryDirectory(prefix="weir-server-")
        self.folder = pathlib.Path(self._own.name)
        lab.at_end(self._own.cleanup)

    def _start(self, *argv, environment=None):
        with open(self.folder / "log", "ab") as log:
            process = self._namespace.popen(
                *argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **(environment or {})}
            )
        self._lab.at_end(lambda: (process.terminate(), process.wait(PATIENCE)))

    def told(self):
        """What it wrote."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")


class Ssh(_Server):
    """OpenSSH's server at an address, whose key its clients know, and who knows theirs."""

    def __init__(self, lab, namespace, address):
        need("ssh", "openssh-client")
        sshd = need("sshd", "openssh-server")
        super().__init__(lab, namespace, address)
        for key in ("host", "user"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / key))
        host = (self.folder / "host.pub").read_text(encoding="ascii")
        (self.folder / "known").write_text(f"{address} {host}", encoding="ascii")
        config = self.folder / "sshd_config"
        config.write_text(_SSHD.format(address=address, folder=self.folder), encoding="ascii")
        # It gives up being root in /run/sshd, which is there where Debian runs one; the mounts of `ip netns exec` are its own.
        start = f"mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec {sshd} -D -e -f {config}"
        self._start("sh", "-c", start)
        assert wait_for(lambda: f"Server listening on {address}" in self.told()), self.told()

    def log_in(self, host, *command):
        """What a command prints that a host has run there."""
        return host.run(
            *("ssh", "-F", "none", "-i", str(self.folder / "user"), "-o", f"UserKnownHostsFile={self.folder / 'known'}"),
            *("-o", "GlobalKnownHostsFile=none", "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", "-o", "IdentityAgent=none"),
            *("-o", "ConnectTimeout=20", f"root@{self.address}", *command),
        )


class Snmp(_Server):
    """Net-SNMP's server at an address."""

    def __init__(self, lab, namespace, address, name):
        need("snmpget", "snmp")
        snmpd = need("snmpd", "snmpd")
        super().__init__(lab, namespace, address)
        config = self.folder / "snmpd.conf"
        config.write_text(_SNMPD.format(address=address, name=name), encoding="ascii")
        own = {"SNMP_PERSISTENT_DIR": str(self.folder)}
        self._start(snmpd, "-f", "-Le", "-C", "-c", str(config), "-p", str(self.folder / "pid"), environment=own)
        assert wait_for(lambda: "NET-SNMP version" in self.told()), self.told()

    def get(self, host, *numbers):
        """The values of objects, as a host asks for them."""
        return self._ask(host, "snmpget", *numbers)

    def walk(self, host, number):
        """The values of all objects below a number, by the rest of theirs."""
        lines = self._ask(host, "snmpbulkwalk", number, shown="-Oqfn")
        rows = (line.partition(" ") for line in lines)
        return {name.removeprefix(f".{number}."): value for name, _, value in rows}

    def _ask(self, host, program, *numbers, shown="-Oqv"):
        words = (program, "-v2c", "-c", "public", "-m", "", "-t", "2", "-r", "5", shown, self.address, *numbers)
        return [line.replace('"', "").strip() for line in host.run(*words).splitlines()]


class Tcpdump:
    """tcpdump on an interface: frames of one direction, `in` or `out`, that match."""

    def __init__(self, lab, namespace, interface, direction, wanted):
        program = need("tcpdump", "tcpdump")
        self._own = tempfile.TemporaryDirectory(prefix="weir-tcpdump-")
        lab.at_end(self._own.cleanup)
        self._output, self._log = (pathlib.Path(self._own.name) / name for name in ("output", "log"))
        with open(self._output, "wb") as output, open(self._log, "wb") as log:
            self._process = namespace.popen(
                *(program, "-lnt", "--immediate-mode", "-i", interface, "-Q", direction, wanted),
                stdin=subprocess.DEVNULL, stdout=output, stderr=log,
            )
        lab.at_end(self._end)
        assert wait_for(lambda: "listening on" in self._log.read_text(encoding="utf-8")), self._log.read_text(encoding="utf-8")

    def lines(self):
        """What it has seen so far."""
        return [line for line in self._output.read_text(encoding="utf-8").splitlines() if line]

    def stop(self):
        """All that it has seen, and what it says at the end."""
        self._end()
        return self.lines(), self._log.read_text(encoding="utf-8")

    def _end(self):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(PATIENCE)
