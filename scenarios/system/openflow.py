"""The switch and who drives it: Open vSwitch's `ovs-ofctl`, and controllers that die and come back."""

import shutil
import socket
import struct
import threading

from lab import Skipped
from lab.netns import Lab
from lab.packets import Ether, raw
from lab.weir import Weir, wait_for

_PORTS = ("p1", "p2", "p3")
_LISTEN, _CONTROLLER = 6654, 6653
_HELLO, _ECHO_REQUEST, _ECHO_REPLY, _PACKET_IN, _PORT_STATUS, _FLOW_MOD = 0, 2, 3, 10, 12, 14
_DEVICES = "".join(f'port {{ name = "{port}", device = "af_packet:{port}" }}\n' for port in _PORTS)
_BROADCAST = "ff:ff:ff:ff:ff:ff"


def _station(number):
    return f"02:aa:00:00:00:0{number}"


def _frame(source, to, number):
    """A frame with a number in it; a broadcast to 0."""
    address = _station(to) if to else _BROADCAST
    return raw(Ether(dst=address, src=_station(source), type=0x88B5)) + number.to_bytes(4, "big") + bytes(46)


class _Switch:
    """A switch between three raw sockets."""

    def __init__(self, lab, keys):
        if shutil.which("ovs-ofctl") is None:
            raise Skipped("ovs-ofctl is missing (package openvswitch-common)")
        self.namespace = lab.namespace("switch")
        self.namespace.run("ip", "link", "set", "dev", "lo", "up")
        hosts = lab.namespace("hosts")
        for number, port in enumerate(_PORTS, 1):
            lab.wire((self.namespace, port, f"02:01:00:00:00:0{number}"), (hosts, f"h{number}", _station(number)))
        self.wires = [lab.tap(hosts, f"h{number}") for number in range(1, 4)]
        self.hosts = hosts
        self._keys = keys
        self.weir = Weir(self.namespace, self.script(keys))
        lab.at_end(self.weir.process.kill)
        self._sent = 0

    @staticmethod
    def script(keys):
        """A configuration of it."""
        ports = ", ".join(f'"{port}"' for port in _PORTS)
        return f'{_DEVICES}switch {{ ports = {{ {ports} }}, datapath_id = "00000000000000aa", {keys} }}\n'

    def ofctl(self, command, *arguments, check=True):
        """What `ovs-ofctl` says to a command."""
        tool = ("timeout", "20", "ovs-ofctl", "-O", "OpenFlow13", command, f"tcp:127.0.0.1:{_LISTEN}", *arguments)
        if check:
            return self.namespace.run(*tool)
        with self.namespace.popen(*tool, stdout=-1, stderr=-2) as process:
            return process.communicate()[0]

    def passes(self, source, to, wanted):
        """Sends frames from a station to another, until one has come out of just these ports; each number is used once."""
        came = []

        def one():
            self._sent += 1
            frame = _frame(source, to, self._sent)
            self.wires[source - 1].send(frame)
            has = lambda frames: any(got[: len(frame)] == frame for got in frames)
            came[:] = [n for n, wire in enumerate(self.wires, 1) if has(wire.wait(has, 0.5 if n in wanted else 0.05))]
            return came == wanted

        assert wait_for(one, 30.0), f"from {source} to {to}: {came} and not {wanted}\n{self.weir.log()}"

    def mode(self):
        """Whether a controller drives it, or what it does without."""
        return self.weir.show("switches")[0]["mode"]

    def is_in(self, mode):
        """Waits until it is in a mode."""
        assert wait_for(lambda: self.mode() == mode), (self.mode(), self.weir.show("controllers"), self.weir.log())


class _Controller:
    """A controller of few words: it says hello, answers echo requests, and remembers what it is told."""

    def __init__(self, namespace):
        with namespace.entered():
            self._listener = socket.create_server(("127.0.0.1", _CONTROLLER))
        self._peer = None
        self._changed = threading.Condition()
        self._heard = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        try:
            self._peer, _ = self._listener.accept()
            self.send(_HELLO, b"")
            while True:
                _, kind, length, xid = struct.unpack("!BBHI", self._read(8))
                body = self._read(length - 8)
                if kind == _ECHO_REQUEST:
                    self.send(_ECHO_REPLY, body, xid)
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
            assert self._changed.wait_for(has, 30.0), f"not told of {kind}: {[one for one, _ in self._heard]}"

    def die(self):
        """Goes without a word, and nobody listens any more."""
        for one in (self._peer, self._listener):
            # What a thread waits in does not end by being closed.
            one.shutdown(socket.SHUT_RDWR) if one is self._peer else None
            one.close()


def _account(switch):
    """Stops it; everything was accounted for, and how many frames it could not place."""
    stats = switch.weir.stats()
    switch.weir.stop()
    return stats["account"]


def test_ovs_ofctl_drives_it():
    """Flows, groups, meters, statistics and packets of a controller; what makes no sense is refused, and changes nothing."""
    with Lab() as lab:
        switch = _Switch(lab, f'listen = "127.0.0.1:{_LISTEN}", tables = 4')
        assert wait_for(lambda: "LIVE" in switch.ofctl("show")), switch.ofctl("show")
        shown = switch.ofctl("show")
        for said in ("dpid:00000000000000aa", "n_tables:4", "1(p1): addr:02:01:00:00:00:01", "3(p3)"):
            assert said in shown, shown
        switch.ofctl("add-flow", "in_port=1,priority=5,actions=output:2")
        switch.ofctl("add-flow", "table=0,priority=1,actions=goto_table:1")
        switch.passes(1, 2, [2])
        # What comes in by the second port goes by a group, at a rate that a meter bounds.
        switch.ofctl("add-group", "group_id=7,type=all,bucket=output:1,bucket=output:3")
        switch.ofctl("add-meter", "meter=1,pktps,burst,band=type=drop,rate=1000,burst_size=1000")
        switch.ofctl("add-flow", "table=1,in_port=2,actions=meter:1,group:7")
        switch.passes(2, 0, [1, 3])
        assert "n_packets=0" not in next(line for line in switch.ofctl("dump-flows").splitlines() if "in_port=1" in line)
        assert "band=type=drop" in switch.ofctl("dump-meters").replace("\n", " ").replace("bands= type", "band=type")
        assert "group_id=7" in switch.ofctl("dump-groups") and "packet_count=0" not in switch.ofctl("dump-group-stats")
        ports = switch.ofctl("dump-ports", "1")
        assert "rx pkts=0" not in ports and "tx pkts=0" not in ports, ports
        # A frame of a controller.
        frame = _frame(9, 3, 7)
        switch.ofctl("packet-out", f"in_port=CONTROLLER,packet={frame.hex()},actions=output:3")
        has = lambda frames: any(got[: len(frame)] == frame for got in frames)
        assert has(switch.wires[2].wait(has, 30.0)), switch.weir.log()
        before = switch.ofctl("dump-flows", "table=1")
        for wrong, error in (
            ("table=9,actions=output:1", "OFPFMFC_BAD_TABLE_ID"),
            ("table=1,priority=9,actions=group:8", "OFPBAC_BAD_OUT_GROUP"),
            ("table=1,priority=9,actions=output:999", "OFPBAC_BAD_OUT_PORT"),
        ):
            said = switch.ofctl("add-flow", wrong, check=False)
            assert error in said, said
        assert switch.ofctl("dump-flows", "table=1").count("\n") == before.count("\n")
        rows = switch.weir.show("flows")
        assert [(row["table"], row["priority"]) for row in rows] == [(0, 5), (0, 1), (1, 32768)], rows
        switch.ofctl("del-flows")
        assert switch.weir.show("flows") == []
        switch.passes(1, 2, [])
        assert switch.weir.drops().get("switch.tables table-miss", 0) > 0
        account = _account(switch)
        assert account["created"] > 0 and account["unaccounted"] == 0, account


def test_a_controller_that_dies_and_comes_back():
    """In fail-secure mode flows stay as they are; in fail-standalone mode it is a bridge meanwhile. It connects again by itself."""
    with Lab() as lab:
        keys = f'listen = "127.0.0.1:{_LISTEN}", controllers = {{ "tcp:127.0.0.1:{_CONTROLLER}" }}, fail = "%s"'
        switch = _Switch(lab, keys % "secure")
        assert switch.mode() == "secure"
        switch.ofctl("add-flow", "in_port=1,actions=output:2")
        switch.ofctl("add-flow", "priority=0,actions=CONTROLLER:65535")
        controller = _Controller(switch.namespace)
        switch.is_in("controlled")
        switch.passes(1, 2, [2])
        switch.passes(2, 1, [])
        controller.hears(_PACKET_IN, lambda body: raw(Ether(dst=_station(1), src=_station(2), type=0x88B5)) in body)
        switch.hosts.run("ip", "link", "set", "dev", "h3", "down")
        controller.hears(_PORT_STATUS, lambda body: b"p3" in body and struct.unpack_from("!I", body, 8 + 36)[0] & 1)
        switch.hosts.run("ip", "link", "set", "dev", "h3", "up")
        controller.die()
        switch.is_in("secure")
        switch.passes(1, 2, [2])
        switch.passes(2, 1, [])
        assert switch.weir.drops().get("switch.tables no-controller", 0) > 0
        switch.weir.reload(switch.script(keys % "standalone"))
        assert switch.mode() == "standalone"
        switch.passes(1, 0, [2, 3])
        switch.passes(2, 1, [1])
        # It is there again: packets go as the flows say, which are all still there.
        controller = _Controller(switch.namespace)
        switch.is_in("controlled")
        switch.passes(1, 0, [2])
        switch.passes(2, 1, [])
        controller.hears(_PACKET_IN)
        # It sends nonsense, is told so, and is another one then.
        controller.send(_FLOW_MOD, b"\xff" * 40)
        controller.hears(1)
        switch.passes(1, 2, [2])
        controller.die()
        switch.is_in("standalone")
        account = _account(switch)
        assert account["consumed"] > 0 and account["unaccounted"] == 0, account
