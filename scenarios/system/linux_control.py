"""A Linux network namespace that speaks for the router: TAPs, frames for the router itself, routes, addresses, neighbours."""

import contextlib
import ipaddress
import json
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time

from lab import PATIENCE
from lab.hosts import Between, config, ping
from lab.netns import Lab
from lab.packets import IP, UDP, Ether, raw
from lab.weir import check_account, wait_for

_GROUP = "01:80:c2:00:00:0e"
_LLDP = 0x88CC


class Controlled:
    """A router between two hosts, for which a namespace speaks; `taps` are there before Weir."""

    def __init__(self, lab, more="", linux="", bare=False, head="", taps=()):
        self.control = lab.namespace("cp")
        for name in taps:
            self.control.run("ip", "tuntap", "add", name, "mode", "tap")
        self.control.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.default.disable_ipv6=0")
        script = config("af_packet", f'linux = {{ netns = "{self.control.name}", {linux} }}, {more}', head=head)
        self.net = Between(lab, script, bare=bare)
        self.weir = self.net.weir
        self.lan, self.wan = self.net.lan, self.net.wan
        assert wait_for(lambda: len(self.links()) == 2 and self._ports_are_up()), self.weir.log()

    def _ports_are_up(self):
        """The kernel may bring a cable up late; until then there is no route by it."""
        states = {row["name"]: row["state"] for row in self.weir.show("interfaces")}
        return states["lan"] == states["wan"] == "up"

    def links(self):
        """The TAPs, by name, that have a carrier."""
        links = json.loads(self.control.run("ip", "-j", "link"))
        return {link["ifname"]: link for link in links if "LOWER_UP" in link["flags"] and link["ifname"] != "lo"}

    def routes(self, prefix):
        """The routes to a prefix."""
        return self.weir.show("routes", prefix)

    def leads(self, prefix, via, source="linux"):
        """Whether the active route to a prefix leads there."""
        routes = self.routes(prefix)
        return any(route["active"] and route["via"] == via and route["source"] == source for route in routes)

    def follows(self, prefix, via):
        """Waits until it does."""
        assert wait_for(lambda: self.leads(prefix, via)), (self.routes(prefix), self.weir.log())

    def agrees(self):
        """Waits until nothing differs between both: Weir is told of changes when they were made."""
        differences = lambda: json.loads(self.weir.command("show", "routes", "--compare", "linux", "--json"))["rows"]
        assert wait_for(lambda: differences() == []), (differences()[:5], self.weir.log())


def _came(wire, frame):
    """Whether a frame came, with whatever fills it up behind it."""
    has = lambda frames: any(got[: len(frame)] == bytes(frame) for got in frames)
    return has(wire.wait(has))


def test_each_interface_has_a_tap():
    """Of the same name, MAC address, MTU and link state; tagged ones too, and those that come and go."""
    with Lab() as lab:
        head = 'interface { name = "lan.7", on = "lan", vlan = 7, mtu = 1400, address = "10.7.0.1/24" }\n'
        control = lab.namespace("cp")
        net = Between(lab, config("af_packet", f'linux = {{ netns = "{control.name}" }}', head=head), bare=True)
        weir = net.weir

        def links():
            return {link["ifname"]: link for link in json.loads(control.run("ip", "-j", "address"))}

        def has(name, **wanted):
            link = links().get(name)
            if link is None:
                return False
            state = {"mac": link["address"], "mtu": link["mtu"], "up": "LOWER_UP" in link["flags"]}
            state["addresses"] = [f"{one['local']}/{one['prefixlen']}" for one in link["addr_info"]]
            return all(state[key] == value for key, value in wanted.items())

        mac = "02:00:00:00:00:02"
        assert wait_for(lambda: has("lan", mac=mac, mtu=1500, up=True, addresses=["10.0.0.1/24"])), links()
        assert wait_for(lambda: has("lan.7", mac=mac, mtu=1400, up=True, addresses=["10.7.0.1/24"])), links()
        net.lan.run("ip", "link", "set", "eth0", "down")
        assert wait_for(lambda: has("lan", up=False) and has("lan.7", up=False) and has("wan", up=True)), links()
        net.lan.run("ip", "link", "set", "eth0", "up")
        assert wait_for(lambda: has("lan", up=True)), links()
        weir.command("interface", "add", "wan.9", "on", "wan", "vlan", "9", "address", "10.9.0.1/24")
        assert wait_for(lambda: has("wan.9", up=True, addresses=["10.9.0.1/24"])), links()
        weir.command("interface", "del", "wan.9")
        assert wait_for(lambda: "wan.9" not in links()), links()
        control.run("ip", "link", "set", "wan", "down")
        state = lambda: weir.show("interfaces", "wan")[0]["state"]
        assert wait_for(lambda: state() == "down"), weir.show("interfaces", "wan")
        control.run("ip", "link", "set", "wan", "up")
        assert wait_for(lambda: state() == "up"), weir.show("interfaces", "wan")
        check_account(weir.show("stats"))


def test_linux_answers_for_the_router():
    """Pings and TCP to the router's own addresses are Linux's, where tcpdump sees them; ARP is Weir's; what Linux sends leaves as it is."""
    with Lab() as lab:
        net = Controlled(lab)
        ping(net.lan, "10.0.0.1", 3, interval=0.05)
        ping(net.lan, "192.0.2.1", 3, interval=0.05)
        ping(net.control, "10.0.0.2", 3, interval=0.05)
        ping(net.control, "192.0.2.254", 3, interval=0.05)
        known = {entry["address"]: entry["mac"] for entry in net.weir.show("neighbors")}
        there = {entry["dst"]: entry.get("lladdr") for entry in json.loads(net.control.run("ip", "-j", "neigh"))}
        for address in ("10.0.0.2", "192.0.2.254"):
            assert known[address] == there[address], (known, there)
        with net.control.popen("tcpdump", "-lnc4", "-i", "lan", "icmp", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as sniffer:
            assert any("listening on lan" in line for line in sniffer.stderr)
            ping(net.lan, "10.0.0.1", 2, interval=0.05)
            seen = sniffer.communicate(timeout=PATIENCE)[0]
        assert "10.0.0.2 > 10.0.0.1: ICMP echo request" in seen and "10.0.0.1 > 10.0.0.2: ICMP echo reply" in seen, seen
        received = _over_tcp(net.control, net.lan, "10.0.0.1", 200_000)
        assert received == 200_000, received
        stats = net.weir.stats()
        assert not [one for one in stats["drops"] if one["reason"] == "linux-full"], stats["drops"]


def _over_tcp(server, client, address, length):
    """Bytes that arrive of so many that a client sends to a server's address."""
    with server.entered():
        listener = socket.socket()
        listener.bind((address, 7777))
        listener.listen()
    listener.settimeout(PATIENCE)
    arrived = []

    def serve():
        connection, _ = listener.accept()
        connection.settimeout(PATIENCE)
        with contextlib.suppress(OSError):
            while data := connection.recv(65536):
                arrived.append(len(data))
        connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    with client.entered():
        sender = socket.socket()
    sender.settimeout(PATIENCE)
    sender.connect((address, 7777))
    sender.sendall(bytes(length))
    sender.close()
    thread.join(PATIENCE)
    listener.close()
    return sum(arrived)


def test_linux_sees_long_frames_where_the_link_has_short_ones():
    """Of TCP, both ways, in both families: every byte arrives. Checksums that Linux leaves open are right on the link, of UDP too."""
    with Lab() as lab:
        net = Controlled(lab, more='punt_rate = "1 Mpps",', taps=("lan",))
        net.control.run("ip", "address", "add", "2001:db8:1::1/64", "dev", "lan", "nodad")
        net.lan.run("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=0")
        net.lan.run("ip", "address", "add", "2001:db8:1::2/64", "dev", "eth0", "nodad")
        net.lan.run("ethtool", "-K", "eth0", "gro", "off", check=False)
        for family, server, client in ((socket.AF_INET, "10.0.0.1", "10.0.0.2"), (socket.AF_INET6, "2001:db8:1::1", "2001:db8:1::2")):
            ping(net.lan, server, 1)
            before = _lengths(net.control, "lan")
            data = random.Random(family).randbytes(8_000_003)
            assert _echoed(net.control, net.lan, (family, server), data) == data
            came, sent = ((now - then for now, then in zip(*pair)) for pair in zip(_lengths(net.control, "lan"), before))
            for way, (octets, frames) in (("to Linux", came), ("from Linux", sent)):
                assert octets / frames > 1514, f"{way}, {server}: {octets} bytes in {frames} frames"
            lengths = [*range(1, 40), 1400]
            assert _datagrams(net.control, net.lan, (family, client), lengths) == lengths, server
        check_account(net.weir.stats())
        taps = dict(line.split(": ", 1) for line in net.control.run("ip", "tuntap").splitlines())
        assert ("persist" in taps["lan"], "persist" in taps["wan"]) == (True, False), taps


def _lengths(namespace, interface):
    """Bytes and frames that an interface received, and those that it sent."""
    counters = json.loads(namespace.run("ip", "-j", "-s", "link", "show", interface))[0]["stats64"]
    return [(counters[way]["bytes"], counters[way]["packets"]) for way in ("rx", "tx")]


def _echoed(server, client, where, data):
    """What comes back of what a client sends to a server's address: all of it is sent first."""
    family, address = where
    with server.entered():
        listener = socket.create_server((address, 7778), family=family)
    listener.settimeout(PATIENCE)

    def serve():
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            connection.settimeout(PATIENCE)
            connection.sendall(_all_of(connection))

    thread = threading.Thread(target=serve)
    thread.start()
    with client.entered():
        sender = socket.socket(family)
    with sender:
        sender.settimeout(PATIENCE)
        sender.connect((address, 7778))
        sender.sendall(data)
        sender.shutdown(socket.SHUT_WR)
        back = _all_of(sender)
    thread.join(PATIENCE)
    listener.close()
    return back


def _all_of(connection):
    pieces = []
    while piece := connection.recv(1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _datagrams(sender, receiver, where, lengths):
    """The lengths of datagrams that arrive: those with a wrong checksum do not."""
    family, address = where
    with receiver.entered():
        taking = socket.socket(family, socket.SOCK_DGRAM)
        taking.bind((address, 7779))
    with sender.entered():
        giving = socket.socket(family, socket.SOCK_DGRAM)
    with taking, giving:
        taking.settimeout(PATIENCE)
        for length in lengths:
            giving.sendto(bytes(length), (address, 7779))
        return [len(taking.recv(2048)) for _ in lengths]


def test_control_protocols_of_links_reach_linux():
    """LLDP, OSPF's groups and IS-IS; and what Linux sends so leaves by the port. ARP requests stay Weir's."""
    with Lab() as lab:
        net = Controlled(lab, bare=True)
        wire = net.net.lan_wire
        tap = lab.tap(net.control, "lan")
        source = "02:00:00:00:01:02"
        lldp = raw(Ether(dst=_GROUP, src=source, type=_LLDP) / (b"\x02\x07\x04" + bytes(40)))
        ospf = raw(Ether(dst="01:00:5e:00:00:05", src=source) / IP(src="10.0.0.2", dst="224.0.0.5", ttl=1, proto=89) / bytes(40))
        isis = bytes.fromhex("0180c2000014" + "020000000102" + "0030") + b"\xfe\xfe\x03\x83" + bytes(44)
        other = raw(Ether(dst="01:00:5e:7f:00:05", src=source) / IP(src="10.0.0.2", dst="239.127.0.5") / UDP() / bytes(20))
        for frame in (lldp, ospf, isis, other):
            wire.send(frame)
        for frame in (lldp, ospf, isis):
            assert _came(tap, frame), frame.hex()
        tap.send(lldp)
        assert _came(wire, lldp)
        dropped = lambda: [one for one in net.weir.stats()["drops"] if one["reason"] == "multicast"]
        assert wait_for(dropped), net.weir.drops()
        assert not [got for got in tap.frames() if got[:6] == bytes.fromhex("01005e7f0005")]


def test_routes_are_taken_as_they_change():
    """Several next hops, next-hop objects, metrics, those that lead nowhere, tables, IPv4 by IPv6, onlink; and what differs is told."""
    with Lab() as lab:
        net = Controlled(lab)
        ip = lambda *words: net.control.run("ip", *words)
        ip("route", "add", "10.1.0.0/16", "via", "10.0.0.2")
        net.follows("10.1.0.0/16", ["10.0.0.2%lan"])
        ip("route", "replace", "10.1.0.0/16", "nexthop", "via", "10.0.0.2", "nexthop", "via", "192.0.2.254")
        net.follows("10.1.0.0/16", ["10.0.0.2%lan", "192.0.2.254%wan"])
        ip("route", "add", "10.1.0.0/16", "via", "10.0.0.3", "metric", "10")
        time.sleep(0.1)
        net.follows("10.1.0.0/16", ["10.0.0.2%lan", "192.0.2.254%wan"])
        ip("route", "del", "10.1.0.0/16", "metric", "0")
        net.follows("10.1.0.0/16", ["10.0.0.3%lan"])
        for kind in ("blackhole", "unreachable", "prohibit"):
            ip("route", "add", kind, "10.2.0.0/16")
            net.follows("10.2.0.0/16", [kind])
            ip("route", "del", kind, "10.2.0.0/16")
            assert wait_for(lambda: not net.routes("10.2.0.0/16"))
        ip("nexthop", "add", "id", "1", "via", "10.0.0.2", "dev", "lan")
        ip("nexthop", "add", "id", "2", "via", "192.0.2.254", "dev", "wan")
        ip("nexthop", "add", "id", "10", "group", "1/2")
        ip("route", "add", "10.3.0.0/16", "nhid", "10")
        net.follows("10.3.0.0/16", ["10.0.0.2%lan", "192.0.2.254%wan"])
        ip("nexthop", "replace", "id", "2", "via", "192.0.2.253", "dev", "wan")
        net.follows("10.3.0.0/16", ["10.0.0.2%lan", "192.0.2.253%wan"])
        ip("nexthop", "del", "id", "2")
        net.follows("10.3.0.0/16", ["10.0.0.2%lan"])
        ip("route", "add", "10.4.0.0/16", "via", "inet6", "fe80::9", "dev", "lan")
        net.follows("10.4.0.0/16", ["fe80::9%lan"])
        ip("route", "add", "10.5.0.0/16", "via", "172.31.0.9", "dev", "wan", "onlink")
        net.follows("10.5.0.0/16", ["172.31.0.9%wan"])
        ip("route", "add", "10.6.0.0/16", "dev", "lan")
        net.follows("10.6.0.0/16", ["%lan"])
        ip("route", "add", "10.7.0.0/16", "via", "10.0.0.2", "table", "77")
        ip("-6", "route", "add", "2001:db8:1::/48", "via", "fe80::2", "dev", "lan")
        net.follows("2001:db8:1::/48", ["fe80::2%lan"])
        ip("-6", "route", "append", "2001:db8:1::/48", "via", "fe80::3", "dev", "wan")
        net.follows("2001:db8:1::/48", ["fe80::2%lan", "fe80::3%wan"])
        ip("-6", "route", "del", "2001:db8:1::/48", "via", "fe80::2", "dev", "lan")
        net.follows("2001:db8:1::/48", ["fe80::3%wan"])
        assert not net.routes("10.7.0.0/16"), "another table"
        net.agrees()
        # What nobody tells of: the kernel takes routes of IPv4 out with their link.
        ip("link", "set", "wan", "down")
        assert wait_for(lambda: not net.routes("10.5.0.0/16")), net.routes("10.5.0.0/16")
        net.agrees()
        assert net.routes("0.0.0.0/0")[0]["source"] == "config"


def test_addresses_and_neighbours_of_linux():
    """An address that is added in Linux is the router's; a neighbour that is entered there by hand is."""
    with Lab() as lab:
        net = Controlled(lab)
        net.control.run("ip", "address", "add", "172.16.5.1/24", "dev", "lan")
        net.lan.run("ip", "address", "add", "172.16.5.2/24", "dev", "eth0")
        assert wait_for(lambda: "172.16.5.1/24" in [one["address"] for one in net.weir.show("addresses")])
        ping(net.lan, "172.16.5.1", 3, interval=0.05)
        net.control.run("ip", "neigh", "add", "172.16.5.9", "lladdr", "02:00:00:00:09:09", "dev", "lan")
        mac = lambda: [(one["mac"], one["source"]) for one in net.weir.show("neighbors", "172.16.5.9")]
        assert wait_for(lambda: mac() == [("02:00:00:00:09:09", "linux")]), mac()
        net.control.run("ip", "neigh", "del", "172.16.5.9", "dev", "lan")
        assert wait_for(lambda: mac() == []), mac()
        net.control.run("ip", "address", "del", "172.16.5.1/24", "dev", "lan")
        assert wait_for(lambda: "172.16.5.1/24" not in [one["address"] for one in net.weir.show("addresses")])
        assert net.weir.show("addresses"), "the configured ones stay"


def test_routes_survive_a_reload_and_a_namespace_that_comes_late():
    """A namespace that is not there is told, and taken when it comes; a reload leaves what is Linux's alone."""
    with Lab() as lab:
        name = f"{lab._prefix}late"  # pylint: disable=protected-access
        script = config("af_packet", f'linux = {{ netns = "{name}" }}')
        net = Between(lab, script)
        weir = net.weir
        assert wait_for(lambda: f"ip netns add {name}" in weir.log()), weir.log()
        late = lab.namespace("late")
        assert late.name == name
        assert wait_for(lambda: "lan" in late.run("ip", "link")), weir.log()
        late.run("ip", "route", "add", "10.1.0.0/16", "via", "10.0.0.2")
        leads = lambda: [route["via"] for route in weir.show("routes", "10.1.0.0/16")]
        assert wait_for(lambda: leads() == [["10.0.0.2%lan"]]), (leads(), weir.show("services"), weir.log())
        weir.reload(script.replace("192.0.2.254", "192.0.2.253"))
        assert leads() == [["10.0.0.2%lan"]]
        # A router that is built anew asks for them again.
        weir.reload(script.replace("workers = { 1 }", "workers = { 1 }, hash_seed = 7"))
        assert wait_for(lambda: leads() == [["10.0.0.2%lan"]]), leads()


def _table(count4, count6):
    """So many prefixes of each family, of two lengths."""
    four = [f"{ipaddress.ip_address(0x64000000 + n * 1024)}/{22 + n % 2 * 2}" for n in range(count4)]
    six = [f"2001:db8:{0x1000 + n * 2:x}::/{47 + n % 2}" for n in range(count6)]
    return four + six


def _batch(net, verb, prefixes, lan):
    """Has Linux take so many routes at once, by `lan` or by `wan`."""
    by = ("10.0.0.2", "fe80::2 dev lan") if lan else ("192.0.2.254", "fe80::9 dev wan")
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as file:
        for prefix in prefixes:
            file.write(f"route {verb} {prefix} via {by[':' in prefix]}\n")
        file.flush()
        net.control.run("ip", "-batch", file.name)


def test_a_table_that_changes_is_followed_and_read_anew_where_messages_are_lost():
    """12,000 prefixes come, change and go, and nothing differs; so it is after Weir did not listen for longer than the kernel keeps messages."""
    with Lab() as lab:
        net = Controlled(lab)
        prefixes = _table(10_000, 2_000)
        count = lambda: [row["ipv4_routes"] + row["ipv6_routes"] for row in net.weir.show("vrfs") if row["name"] == "default"][0]
        before = count()
        _batch(net, "add", prefixes, lan=True)
        assert wait_for(lambda: count() == before + len(prefixes)), (count(), before)
        net.agrees()
        for lan in (False, True, False):
            _batch(net, "replace", prefixes[:6_000], lan)
        net.agrees()
        net.follows(prefixes[0], ["192.0.2.254%wan"])
        net.follows(prefixes[7_000], ["10.0.0.2%lan"])
        net.weir.process.send_signal(signal.SIGSTOP)
        try:
            for lan in (True, False) * 6:
                _batch(net, "replace", prefixes[:9_000], lan)
            _batch(net, "del", prefixes[:3_000], lan=False)
        finally:
            net.weir.process.send_signal(signal.SIGCONT)
        assert wait_for(lambda: "the kernel told more than was read" in net.weir.log()), net.weir.log()
        assert wait_for(lambda: count() == before + len(prefixes) - 3_000), (count(), before)
        net.agrees()
        assert not net.routes(prefixes[0])
        net.follows(prefixes[8_000], ["192.0.2.254%wan"])
        net.control.run("ip", "route", "flush", "proto", "boot")
        net.control.run("ip", "-6", "route", "flush", "proto", "boot")
        assert wait_for(lambda: count() == before), (count(), before)
        net.agrees()
        check_account(net.weir.show("stats"))


def test_a_tap_is_taken_down_with_weir():
    """TAPs that Weir made go with it."""
    with Lab() as lab:
        net = Controlled(lab)
        net.weir.stop()
        assert wait_for(lambda: net.links() == {}), net.links()
