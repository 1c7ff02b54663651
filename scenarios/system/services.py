"""Services that panic, hang, or lose a descriptor while packets flow: told, started again, at work again, and no packet lost."""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import urllib.request

from lab import PATIENCE, Skipped
from lab.hosts import MACS, PATIENT, STATIC, Between, Stream, check_all_arrived, check_answered, config, ping
from lab.netns import Lab
from lab.weir import PROGRAM, drops_of, torment, wait_for

_PIDFD_GETFD = 438
_LISTENS, _CONNECTED = "0A", "03"
_METRICS = "127.0.0.1:9100"


class _Fares:
    """A router that forwards a stream, and its services."""

    def __init__(self, lab):
        self.net = Between(lab, config("af_packet", STATIC), bare=True, arguments=("--metrics", _METRICS))
        self.weir = self.net.weir
        self.stream = Stream(self.net.lan_wire, 1000, sink=self.net.wan_wire)

    def service(self, name):
        """A service's numbers, as soon as somebody can be asked: while nobody listens, commands are turned away at once."""
        asked = []

        def answers():
            asked.append(self.weir.command("show", "services", name, "--json", check=False))
            return asked[-1].returncode == 0

        assert wait_for(answers), asked[-1].stderr
        return json.loads(asked[-1].stdout)["services"][0]

    def torment(self, service, fault):
        """Lets a service fail, which only builds for tests do."""
        answer = self.ask_for(service, fault)
        assert answer == {"ok": None}, answer

    def ask_for(self, service, fault):
        """What Weir answers to that."""
        answer = torment(self.weir, service, fault)
        if answer is None:
            raise Skipped("this program is no build for tests")
        return answer

    def fails(self, service, fault, how, *told):
        """Lets it fail by `how`; waits until it runs again, and checks what was told."""
        before = self.service(service)
        how()
        assert wait_for(lambda: self.service(service)["restarts"] > before["restarts"]), (fault, self.service(service))
        assert wait_for(lambda: self.service(service)["state"] == "running"), (fault, self.service(service))
        assert wait_for(lambda: self.service(service)["steps"] > before["steps"]), (fault, self.service(service))
        now = self.service(service)
        assert any(words in now["failure"] for words in told), (fault, now)
        assert now["failed_at"], (fault, now)
        # The log is written by a thread of its own.
        lines = lambda words: [line for line in self.weir.log().splitlines() if f"service={service}" in line and words in line]
        assert wait_for(lambda: lines("level=error at=service")), (fault, self.weir.log())
        assert wait_for(lambda: lines("a service runs again")), (fault, self.weir.log())

    def logs(self, words, times):
        """Waits until the log, which is written by a thread of its own, has words so many times, and checks that it is no more."""
        count = lambda: self.weir.log().count(words)
        assert wait_for(lambda: count() >= times) and count() == times, self.weir.log()

    def metrics(self):
        """The metrics, from inside the router's namespace."""
        with self.net.router.entered():
            with urllib.request.urlopen(f"http://{_METRICS}/metrics", timeout=PATIENCE) as answer:
                return answer.read().decode()

    def works(self, service):
        """The service does what it is for."""
        if service == "log":
            told = self.weir.log().count("a signal that means nothing here was ignored")
            self.weir.process.send_signal(signal.SIGUSR1)
            assert wait_for(lambda: self.weir.log().count("a signal that means nothing here was ignored") > told)
        elif service == "socket":
            assert self.weir.show("version")["running"]
        elif service == "metrics":
            line = 'weir_service_running{service="metrics",owner="weir"} 1'
            assert line in self.metrics().splitlines()
        else:
            reloads = self.weir.log().count("the configuration was replaced")
            self.weir.process.send_signal(signal.SIGHUP)
            assert wait_for(lambda: self.weir.log().count("the configuration was replaced") > reloads), self.weir.log()

    def end(self):
        """Not a packet was lost, and all ends well: signals work."""
        check_all_arrived(self.net.wan_wire, self.stream.stop())
        stats = self.weir.stats()
        assert not drops_of(stats), drops_of(stats)
        self.net.check_against_kernel()
        self.weir.stop()


_SERVICES = ("log", "metrics", "signals", "socket")
_LISTENERS = ("metrics", "signals", "socket")


def _faults(fault, *told):
    with Lab() as lab:
        fares = _Fares(lab)
        for service in _SERVICES:
            fares.works(service)
            fares.fails(service, fault, lambda s=service: fares.torment(s, fault), *told)
            fares.works(service)
        restarts = [line for line in fares.metrics().splitlines() if line.startswith("weir_service_restarts_total{")]
        assert sorted(line.rsplit(" ", 1)[1] for line in restarts) == ["1"] * len(_SERVICES), restarts
        hanging = {service: fares.service(service)["abandoned"] for service in _SERVICES}
        assert set(hanging.values()) == ({1} if fault == "hang" else {0}), hanging
        fares.end()


def test_services_that_panic():
    """Each panics once."""
    _faults("panic", "it panicked")


def test_services_that_hang():
    """A step of each never ends."""
    _faults("hang", "has not ended within 5 s")


def _sockets(pid):
    """The sockets of a process: {inode: descriptor}."""
    found = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            target = os.readlink(f"/proc/{pid}/fd/{number}")
            if target.startswith("socket:["):
                found[target[8:-1]] = int(number)
    return found


def _rows(pid, table):
    with open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
        return [line.split() for line in file.readlines()[1:]]


def _of_service(weir, service):
    """The descriptors that a service waits on for its work."""
    pid = weir.process.pid
    if service == "metrics":
        inodes = {row[9] for row in _rows(pid, "tcp") if row[3] == _LISTENS}
    elif service == "socket":
        accepts = "00010000"
        inodes = {row[6] for row in _rows(pid, "unix") if row[3] == accepts and row[7:] == [str(weir.socket)]}
    else:
        inodes = {row[6] for row in _rows(pid, "unix") if row[4] == "0001" and row[5] == _CONNECTED and not row[7:]}
    sockets = _sockets(pid)
    return [sockets[inode] for inode in inodes if inode in sockets]


def _shut(weir, service):
    """Shuts the sockets of a service down, from outside: as dead as if they had been closed."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(weir.process.pid)
    descriptors = _of_service(weir, service)
    assert descriptors, service
    for number in descriptors:
        taken = libc.syscall(_PIDFD_GETFD, process, number, 0)
        if taken < 0 and ctypes.get_errno() == errno.EBADF:
            continue  # what reads a configuration has sockets for a moment
        if taken < 0:
            raise Skipped(f"the kernel does not hand descriptors over: {os.strerror(ctypes.get_errno())}")
        with socket.socket(fileno=taken) as theirs:
            theirs.shutdown(socket.SHUT_RDWR)
    os.close(process)


def test_services_that_lose_their_sockets():
    """The socket that each waits on dies under it."""
    with Lab() as lab:
        fares = _Fares(lab)
        for service in _LISTENERS:
            fares.works(service)
            told = ("nobody can be let in", "the socket at which signals arrive was closed")
            fares.fails(service, "shut", lambda s=service: _shut(fares.weir, s), *told)
            fares.works(service)
        fares.end()


def test_one_that_fails_again_and_again():
    """A service that does not stay well: each failure is told, the others and the packets do not notice."""
    with Lab() as lab:
        fares = _Fares(lab)
        for n in range(4):
            fares.torment("metrics", "panic")
            assert wait_for(lambda n=n: fares.service("metrics")["restarts"] == n + 1), fares.service("metrics")
        fares.logs("a service failed and is started again", 4)
        assert [fares.service(name)["restarts"] for name in ("signals", "socket")] == [0, 0]
        fares.works("metrics")
        fares.end()


def test_a_request_that_panics():
    """It is refused and told; other requests, reloads and packets go on."""
    with Lab() as lab:
        fares = _Fares(lab)
        for n in range(3):
            refused = fares.ask_for("requests", "panic")["error"]["message"]
            assert "failed within Weir: it panicked" in refused, refused
            fares.weir.command("route", "add", f"203.0.{n}.0/24", "via", "192.0.2.254")
            fares.works("signals")
        assert len([row for row in fares.weir.show("routes") if row["prefix"].startswith("203.0.")]) == 3
        fares.logs("a request failed; packets go on", 3)
        fares.end()


def _silent(folder, name):
    """A Weir whose log nobody reads, from `ready` on, and where its log could be read."""
    reads, writes = os.pipe()
    fcntl.fcntl(reads, fcntl.F_SETPIPE_SZ, 4096)
    config_file = folder / "test.lua"
    config_file.write_text(_NULLS, encoding="utf-8")
    command = (PROGRAM, "run", config_file, "--name", name, "--socket", folder / "weir.sock", "--log-level", "debug")
    process = subprocess.Popen(command, stdin=-3, stdout=-1, stderr=writes, text=True)  # pylint: disable=consider-using-with
    os.close(writes)
    assert process.stdout.readline() == "ready\n"
    return process, reads


_NULLS = """
port { name = "a", device = "null" }
port { name = "b", device = "null" }
forward { pairs = { { "a", "b" } } }
"""


def _all_of(descriptor):
    with open(descriptor, encoding="utf-8") as file:
        return file.read()


def _refused(path, times):
    """Asks so often for a change that there is not, each time by another client: long lines in the log."""
    request = {"version": 1, "request": {"change": {"verb": "x" * 1900, "changes": [{}]}}}
    for _ in range(times):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(str(path))
            client.sendall(json.dumps(request).encode() + b"\n")
            assert "error" in json.loads(client.makefile().readline())["response"]


def test_a_slow_path_that_panics():
    """On whichever thread of the control side: what its stage had in hand is dropped by name and told, it goes on, and forwarded packets notice nothing."""
    for threads, thread in ((1, "control"), (2, "control-2")):
        head = f"engine {{ control = {{ threads = {threads}, functions = {{ router = {threads} }} }} }}"
        with Lab() as lab:
            net = Between(lab, config("af_packet", STATIC, head=head))
            weir = net.weir
            # All know each other, so that what a stage has in hand when it panics is a ping and no question of a host's kernel.
            for host, router, mac in ((net.lan, "10.0.0.1", MACS["lan"]), (net.wan, "192.0.2.1", MACS["wan"])):
                host.run("ip", "neighbor", "replace", router, "lladdr", mac, "dev", "eth0", "nud", "permanent")
            # Until the router has announced itself a second time (RFC 5227 section 2.3), which is the stage's work, too.
            ping(net.lan, "198.51.100.1", 4, interval=1)
            flowing = net.lan.popen("ping", "-n", "-i", "0.01", "-c", "300", *PATIENT, "198.51.100.1", stdout=subprocess.PIPE)
            for number in (1, 2, 3):
                answer = torment(weir, thread, "panic")
                if answer is None:
                    raise Skipped("this program is no build for tests")
                assert answer == {"ok": None}, answer
                assert "0 received" in net.lan.run("ping", "-n", "-c", "1", "-W", "1", "10.0.0.1", check=False)
                # A stage that has its turn late would have what comes next in hand, too.
                dropped = {"router.control panicked": number}
                assert wait_for(lambda d=dropped: drops_of(weir.stats()) == d), drops_of(weir.stats())
                ping(net.lan, "10.0.0.1", 2, interval=0.2)
                assert drops_of(weir.stats()) == dropped, drops_of(weir.stats())
                told = lambda: [line for line in weir.log().splitlines() if "a stage panicked" in line]
                assert wait_for(lambda n=number: len(told()) >= n), weir.log()
                assert len(told()) == number and f"thread=weir-{thread} " in told()[-1] and "why=\"a test asked for it\"" in told()[-1], told()
            check_answered(flowing.communicate(timeout=PATIENCE)[0], 300)
            weir.stop()


def test_a_log_that_nobody_reads_holds_nobody_up():
    """Clients are answered however full the pipe is; what waited is read later, and Weir ends without a reader, too."""
    for is_read in (True, False):
        with tempfile.TemporaryDirectory(prefix="weir-log-") as own:
            folder = pathlib.Path(own)
            process, reads = _silent(folder, f"log-{os.getpid()}-{int(is_read)}")
            try:
                _refused(folder / "weir.sock", 20)
                shown = subprocess.run(
                    (PROGRAM, "show", "services", "log", "--json", "--socket", folder / "weir.sock"),
                    capture_output=True, check=True, timeout=PATIENCE,
                )
                (log,) = json.loads(shown.stdout)["services"]
                assert log["occupancy"] > 10_000 and log["restarts"] == 0, log
                texts, reader = [], threading.Thread(target=lambda: texts.append(_all_of(reads)), daemon=True)
                if is_read:
                    reader.start()
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE) == 0
                if is_read:
                    reader.join(PATIENCE)
                    assert texts[0].count('message="a change was refused" change=') == 10, texts[0][-300:]
                    assert "Weir has stopped" in texts[0], texts[0][-300:]
                else:
                    os.close(reads)
            finally:
                process.kill()
                process.wait()
                process.stdout.close()
