"""A switch among three raw sockets, and a controller of few words."""

import contextlib
import shutil
import socket
import struct
import threading

from . import PATIENCE, Skipped
from .packets import Ether, raw
from .weir import Weir, wait_for

PORTS = ("p1", "p2", "p3")
LISTEN, CONTROLLER = 6654, 6653
HELLO, ECHO_REQUEST, ECHO_REPLY, PACKET_IN, PORT_STATUS, FLOW_MOD = 0, 2, 3, 10, 12, 14
_DEVICES = "".join(f'port {{ name = "{port}", device = "af_packet:{port}" }}\n' for port in PORTS)
_BROADCAST = "ff:ff:ff:ff:ff:ff"


def station(number):
    """The address of the station behind a port."""
    return f"02:aa:00:00:00:0{number}"


def frame_of(source, to, number):
    """A frame with a number in it; a broadcast to 0."""
    address = station(to) if to else _BROADCAST
    return raw(Ether(dst=address, src=station(source), type=0x88B5)) + number.to_bytes(4, "big") + bytes(46)


class Switch:
    """A switch between three raw sockets."""

    def __init__(self, lab, keys, folder=None):
        if shutil.which("ovs-ofctl") is None:
            raise Skipped("ovs-ofctl is missing (package openvswitch-common)")
        self.namespace = lab.namespace("switch")
        self.namespace.run("ip", "link", "set", "dev", "lo", "up")
        hosts = lab.namespace("hosts")
        for number, port in enumerate(PORTS, 1):
            lab.wire((self.namespace, port, f"02:01:00:00:00:0{number}"), (hosts, f"h{number}", station(number)))
        self.wires = [lab.tap(hosts, f"h{number}") for number in range(1, 4)]
        self.hosts = hosts
        self._keys = keys
        self.weir = Weir(self.namespace, self.script(keys), folder)
        lab.at_end(self.weir.process.kill)
        self._sent = 0

    @staticmethod
    def script(keys):
        """A configuration of it."""
        ports = ", ".join(f'"{port}"' for port in PORTS)
        return f'{_DEVICES}switch {{ ports = {{ {ports} }}, datapath_id = "00000000000000aa", {keys} }}\n'

    def ofctl(self, command, *arguments, check=True, to=f"tcp:127.0.0.1:{LISTEN}", options=()):
        """What `ovs-ofctl` says to a command."""
        tool = ("timeout", str(int(PATIENCE * 0.8)), "ovs-ofctl", *options, "-O", "OpenFlow13", command, to, *arguments)
        if check:
            return self.namespace.run(*tool)
        with self.namespace.popen(*tool, stdout=-1, stderr=-2) as process:
            return process.communicate()[0]

    def passes(self, source, to, wanted):
        """Sends frames from a station to another, until one has come out of just these ports; each number is used once."""
        came = []

        def one():
            self._sent += 1
            frame = frame_of(source, to, self._sent)
            self.wires[source - 1].send(frame)
            has = lambda frames: any(got[: len(frame)] == frame for got in frames)
            came[:] = [n for n, wire in enumerate(self.wires, 1) if has(wire.wait(has, 0.5 if n in wanted else 0.05))]
            return came == wanted

        assert wait_for(one), f"from {source} to {to}: {came} and not {wanted}\n{self.weir.log()}"

    def mode(self):
        """Whether a controller drives it, or what it does without."""
        return self.weir.show("switches")[0]["mode"]

    def is_in(self, mode):
        """Waits until it is in a mode."""
        assert wait_for(lambda: self.mode() == mode), (self.mode(), self.weir.show("controllers"), self.weir.log())


class Controller:
    """A controller of few words: it says hello, answers echo requests, and remembers what it is told. It listens at a TCP port, or a path,
    and speaks over TLS where it is given a context of that."""

    def __init__(self, namespace, over=None, path=None):
        with namespace.entered():
            if path:
                self._listener = socket.socket(socket.AF_UNIX)
                self._listener.bind(str(path))
                self._listener.listen()
            else:
                self._listener = socket.create_server(("127.0.0.1", CONTROLLER))
        self._over = over
        self._peer = None
        self._changed = threading.Condition()
        self._heard = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        try:
            self._peer, _ = self._listener.accept()
            if self._over:
                self._peer = self._over.wrap_socket(self._peer, server_side=True)
            self.send(HELLO, b"")
            while True:
                _, kind, length, xid = struct.unpack("!BBHI", self._read(8))
                body = self._read(length - 8)
                if kind == ECHO_REQUEST:
                    self.send(ECHO_REPLY, body, xid)
                with self._changed:
                    self._heard.append((kind, body))
                    self._changed.notify_all()
        except (OSError, EOFError):
            pass

    def _read(self, count):
        data = b""
        while len(data) < count:
            more = self._peer.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def send(self, kind, body, xid=1):
        """Sends a message."""
        self._peer.sendall(struct.pack("!BBHI", 4, kind, 8 + len(body), xid) + body)

    def hears(self, kind, wanted=lambda body: True):
        """Waits until it was told such a thing."""
        has = lambda: any(kind == one and wanted(body) for one, body in self._heard)
        with self._changed:
            assert self._changed.wait_for(has, PATIENCE), f"not told of {kind}: {[one for one, _ in self._heard]}"

    def die(self):
        """Goes without a word, and nobody listens any more."""
        if self._peer:
            # What a thread waits in does not end by being closed. It may be gone already.
            with contextlib.suppress(OSError):
                self._peer.shutdown(socket.SHUT_RDWR)
            self._peer.close()
        self._listener.close()
