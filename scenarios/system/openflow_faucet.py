"""Faucet drives the switch by `configs/faucet.yaml`: VLANs, a list of what may not pass, and routing, between Linux hosts."""

import socket

from lab import PATIENCE
from lab.controllers import Faucet
from lab.hosts import ping, speaks_ipv6
from lab.netns import Lab
from lab.packets import ARP, ICMP, IP, Dot1Q, Ether, payload, raw
from lab.weir import ROOT, Weir, wait_for

_PORTS = ("one", "two", "three", "four", "trunk")
_OFFICE, _GUESTS = 100, 200
_TAGGED = "02:aa:00:00:00:09"  # who is behind the port with tags


def _mac(number):
    return f"02:aa:00:00:00:0{number}"


class _Network:
    """The switch of `configs/faucet.lua`, Faucet, and hosts: 1 and 2 of the office, 3 of the guests, and somebody who sends and takes tags. Host
    2 has a second wire, to port 4. Host N has the addresses 10.0.VID.N and 2001:db8:VID::N."""

    def __init__(self, lab, routing):
        Faucet.needed()
        self.namespace = lab.namespace("switch")
        self.hosts, self._vids = {}, {1: _OFFICE, 2: _OFFICE, 3: _GUESTS}
        for number in self._vids:
            host = self.hosts[number] = lab.namespace(f"host{number}")
            speaks_ipv6(host)
            self._wire(lab, number, host, "eth0", _mac(number))
            # A host answers for what the interface has that it was asked by, and knows its neighbours for a while.
            host.run("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1")
            host.run("sysctl", "-qw", *(f"net.ipv{n}.neigh.eth0.base_reachable_time_ms=600000" for n in (4, 6)))
            self._is_at(number, "eth0")
        self._wire(lab, 4, self.hosts[2], "eth1", _mac(4))
        self.hosts[2].run("sysctl", "-qw", "net.ipv6.conf.eth1.disable_ipv6=1")
        trunk = lab.namespace("trunk")
        self._wire(lab, 5, trunk, "eth0", _TAGGED)
        self.trunk = lab.tap(trunk, "eth0")
        self.taps = {number: lab.tap(host, "eth0") for number, host in self.hosts.items()}
        # Without routing, which is the last part of it.
        self.routing = (ROOT / "configs/faucet.yaml").read_text(encoding="utf-8")
        plain, routers, _ = self.routing.partition("\nrouters:")
        assert routers
        self.faucet = Faucet(lab, self.namespace, self.routing if routing else plain)
        self.weir = Weir(self.namespace, (ROOT / "configs/faucet.lua").read_text(encoding="utf-8"))
        lab.at_end(self.weir.process.kill)

    def _wire(self, lab, number, host, interface, mac):
        lab.wire((self.namespace, f"veth-{_PORTS[number - 1]}", f"02:01:00:00:00:0{number}"), (host, interface, mac))

    def _is_at(self, number, interface):
        """Gives a host's interface its addresses, and routes by the router of its VLAN."""
        vid = self._vids[number]
        for family, router in ((4, f"10.0.{vid}.254"), (6, f"2001:db8:{vid}::fe")):
            address = f"{self.address(number, family)}/{24 if family == 4 else 64}"
            self.hosts[number].run("ip", "address", "add", address, "dev", interface, *(("nodad",) if family == 6 else ()))
            self.hosts[number].run("ip", "route", "add", "default", "via", router)

    def moves(self, old, new, number=2):
        """Lets a host speak by another of its interfaces, with the same addresses of all kinds."""
        host = self.hosts[number]
        host.run("ip", "address", "flush", "dev", old)
        host.run("sysctl", "-qw", f"net.ipv6.conf.{old}.disable_ipv6=1", f"net.ipv6.conf.{new}.disable_ipv6=0")
        host.run("ip", "link", "set", "dev", old, "address", _mac(4))
        host.run("ip", "link", "set", "dev", new, "address", _mac(number))
        self._is_at(number, new)

    def address(self, number, family=4):
        """A host's address."""
        vid = self._vids[number]
        return f"10.0.{vid}.{number}" if family == 4 else f"2001:db8:{vid}::{number}"

    def ping(self, source, to, family=4):
        """Whether a ping is answered, which is tried again soon."""
        return " bytes from " in self.hosts[source].run("ping", "-n", "-c", "1", "-W", "1", self.address(to, family), check=False)

    def reach(self, source, to):
        """Waits until pings of both families are answered."""
        for family in (4, 6):
            assert wait_for(lambda n=family: self.ping(source, to, n)), f"{source} does not reach {to} by IPv{family}\n{self.state()}"

    def connects(self, source, to, port, family=4, patience=PATIENCE):
        """Whether a TCP connection comes to be in time."""
        kind, address = (socket.AF_INET, socket.AF_INET6)[family == 6], self.address(to, family)
        with self.hosts[to].entered():
            server = socket.create_server((address, port), family=kind)
        with server, self.hosts[source].entered(), socket.socket(kind) as client:
            client.settimeout(patience)
            try:
                client.connect((address, port))
                return True
            except TimeoutError:
                return False

    def flows(self, *words):
        """The flows whose match has these words."""
        return [row for row in self.weir.show("flows") if all(word in row["match"].split(",") for word in words)]

    def is_learned(self, mac, vid, port, speaks):
        """Waits until what is for an address goes to a port, and nowhere else. Faucet overlooks one packet of ten, so it speaks more than once."""
        flows = lambda: self.flows(f"eth_dst={mac}", f"vlan_vid={0x1000 + vid:#06x}")
        ways = lambda: {row["instructions"].rpartition("output:")[2].rstrip(")") for row in flows()}
        assert wait_for(lambda: speaks() and ways() == {str(port)}), f"{mac} is behind {ways()} and not {port}\n{self.state()}"

    def host_is_learned(self, number, port):
        """The same, of a host of the office that reaches the other one."""
        self.is_learned(_mac(number), _OFFICE, port, lambda: self.ping(number, 3 - number))

    def is_managed(self, times):
        """Waits until Faucet has set it up so many times, and drives it."""
        self.faucet.says("Cold start configuring DP", times)
        self.is_in("controlled")

    def is_in(self, mode):
        """Waits until it is in a mode."""
        assert wait_for(lambda: self.weir.show("switches")[0]["mode"] == mode), self.state()

    def state(self):
        """What to know when something is wrong."""
        rows = (f"{row['table']} {row['priority']} {row['match']} -> {row['instructions']} {row['packets']}" for row in self.flows())
        return "\n".join([*rows, str(self.weir.drops()), self.weir.log(), self.faucet.told()])

    def ends(self):
        """Nobody was told of an error, and everything is accounted for."""
        for wrong in ("OFError", "Traceback", "Unhandled exception"):
            assert wrong not in self.faucet.told(), self.faucet.told()
        account = self.weir.stats()["account"]
        self.weir.stop()
        assert account["consumed"] > 0 and account["created"] > 0 and account["unaccounted"] == 0, account


def _tagged(vid, to="ff:ff:ff:ff:ff:ff"):
    return Ether(src=_TAGGED, dst=to) / Dot1Q(vlan=vid)


def _asks(network, vid, number):
    """Who sends tags asks for a host by ARP, and is answered with the tag of the VLAN."""
    own, address = f"10.0.{vid}.9", network.address(number)
    network.trunk.send(raw(_tagged(vid) / ARP(op=1, hwsrc=_TAGGED, psrc=own, pdst=address)))
    answer = raw(_tagged_by(number, vid) / ARP(op=2, hwsrc=_mac(number), psrc=address, hwdst=_TAGGED, pdst=own))
    came = lambda frames: any(frame[: len(answer)] == answer for frame in frames)
    return came(network.trunk.wait(came, 2.0))


def _echoes(network, vid, number):
    """Who sends tags pings a host that knows its address."""
    echo = IP(src=f"10.0.{vid}.9", dst=network.address(number)) / ICMP(id=vid, seq=1) / payload(40)
    network.trunk.clear()
    network.trunk.send(raw(_tagged(vid, _mac(number)) / echo))
    start, reply = raw(_tagged_by(number, vid) / IP())[:18], raw(ICMP(type=0, id=vid, seq=1) / payload(40))
    came = lambda frames: any(frame[:18] == start and frame[38:].startswith(reply) for frame in frames)
    return came(network.trunk.wait(came, 2.0))


def _tagged_by(number, vid):
    return Ether(src=_mac(number), dst=_TAGGED) / Dot1Q(vlan=vid)


def _tags(network):
    """Who sends and takes tags is in both VLANs, and neither VLAN hears the other."""
    for vid, number in ((_OFFICE, 1), (_GUESTS, 3)):
        assert wait_for(lambda v=vid, n=number: _asks(network, v, n)), network.state()
        network.is_learned(_TAGGED, vid, 5, lambda v=vid, n=number: _echoes(network, v, n))
    # What is for all goes to all of a VLAN, who get no tag, and to nobody else: they would have got it before what was sent behind it.
    for vid in (_GUESTS, _OFFICE, _GUESTS):
        network.trunk.send(raw(Ether(src=_TAGGED, dst="ff:ff:ff:ff:ff:ff") / Dot1Q(vlan=vid, type=0x88B5)) + _news(vid) + bytes(40))
    for number, vid, other, times in ((1, _OFFICE, _GUESTS, 1), (2, _OFFICE, _GUESTS, 1), (3, _GUESTS, _OFFICE, 2)):
        heard = lambda frames, v=vid: sum(frame[12:].startswith(b"\x88\xb5" + _news(v)) for frame in frames)
        frames = network.taps[number].wait(lambda frames, h=heard, t=times: h(frames) >= t)
        assert heard(frames) == times and heard(frames, other) == 0, network.state()


def _news(vid):
    return b"news" + vid.to_bytes(2, "big")


def _access(network):
    """The list drops what it names, and counts it; nothing else, nor on other ports, nor the other way."""
    count = lambda kind: next(row["packets"] for row in network.flows("in_port=1", f"eth_type={kind}", "tcp_dst=5000"))
    for family, kind in ((4, "0x0800"), (6, "0x86dd")):
        assert count(kind) == 0
        assert network.connects(1, 2, 5001, family) and network.connects(2, 1, 5000, family), network.state()
        assert count(kind) == 0
        assert not network.connects(1, 2, 5000, family, 2.0)
        assert wait_for(lambda k=kind: count(k) > 0), network.state()
        # Neither does it pass on its way to the other VLAN.
        before = count(kind)
        assert network.connects(1, 3, 5001, family) and not network.connects(1, 3, 5000, family, 2.0), network.state()
        assert wait_for(lambda k=kind, n=before: count(k) > n), network.state()
    with network.hosts[2].entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.settimeout(PATIENCE)
        server.bind((network.address(2), 5000))
        with network.hosts[1].entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(b"UDP passes", (network.address(2), 5000))
        assert server.recv(100) == b"UDP passes"


def test_vlans_lists_and_routing():
    """VLANs hear themselves alone until Faucet routes between them, by both families; with tags and without; what a list drops is counted."""
    with Lab() as lab:
        network = _Network(lab, routing=False)
        network.is_managed(1)
        network.reach(1, 2)
        network.host_is_learned(1, 1)
        network.host_is_learned(2, 2)
        _tags(network)
        for family in (4, 6):
            assert not network.ping(1, 3, family) and not network.ping(3, 2, family), network.state()
        network.faucet.reconfigure(network.routing)
        network.is_managed(2)
        for source, to in ((1, 3), (3, 2), (1, 2)):
            network.reach(source, to)
        _access(network)
        network.ends()


def test_hosts_move_and_faucet_comes_back():
    """A host that moves is learned anew. Without Faucet packets between known hosts go on; it comes back, and drives the switch again."""
    with Lab() as lab:
        network = _Network(lab, routing=True)
        network.is_managed(1)
        network.reach(1, 3)
        network.reach(1, 2)
        network.host_is_learned(2, 2)
        # No link goes down, and then the one that it leaves does.
        network.moves("eth0", "eth1")
        network.host_is_learned(2, 4)
        network.hosts[2].run("ip", "link", "set", "dev", "eth1", "down")
        network.faucet.says("Port 4 (4) down")
        network.moves("eth1", "eth0")
        network.host_is_learned(2, 2)
        pairs = ((1, 2), (1, 3), (3, 2))
        for source, to in pairs:
            network.reach(source, to)
        configured = network.faucet.told().count("Cold start configuring DP")
        network.faucet.die()
        network.is_in("secure")
        for source, to in pairs:
            for family in (4, 6):
                ping(network.hosts[source], network.address(to, family), 3, interval=0.2)
        network.faucet.start()
        network.is_managed(configured + 1)
        for source, to in pairs:
            network.reach(source, to)
        assert wait_for(lambda: _asks(network, _OFFICE, 1)), network.state()
        network.is_learned(_TAGGED, _OFFICE, 5, lambda: _echoes(network, _OFFICE, 1))
        network.ends()
