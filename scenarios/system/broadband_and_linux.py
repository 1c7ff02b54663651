"""The core side of the broadband gateway between Linux hosts: its routers by ARP and neighbour discovery, shared traffic, links that go; and
with VLAN tags, on a trunk that it shares with a router."""

import subprocess
import time

from lab.netns import Lab
from lab.packets import ARP, ICMP, IP, Dot1AD, Dot1Q, Ether, raw
from lab.weir import Weir, check_account, wait_for

CUSTOMER, GATEWAY = "02:00:00:00:01:01", "02:00:00:00:00:01"
CONFIG = """
port { name = "cpe",  device = "af_packet:cpe" }
port { name = "west", device = "af_packet:west", address = "192.0.2.1/30" }
port { name = "east", device = "af_packet:east", address = "2001:db8:2::1/64" }
bng {
  access = { "cpe" }, core = { "west", "east" }, core_encapsulation = "ip", addresses = "10.0.0.1/16", workers = { 1 },
  subscribers = { { svlan = 100, cvlan = 200, ipv4 = "10.0.0.9", mac = "02:00:00:00:01:01" } },
  gateways = { near = { port = "west", address = "192.0.2.2" }, far = { port = "east", address = "2001:db8:2::2" } },
  routes   = { ["0.0.0.0/0"] = { "near", "far" } },
}
"""
FLOWS = 64


class _Core:
    """A gateway with a customer, and two Linux hosts that both have all of 203.0.113.0/24: `west` by IPv4, `east` by IPv6 alone."""

    def __init__(self, lab):
        gateway, cpe = lab.namespace("g"), lab.namespace("cpe")
        self.west, self.east = lab.namespace("west"), lab.namespace("east")
        self.east.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.default.disable_ipv6=0")
        lab.wire((gateway, "cpe", GATEWAY), (cpe, "eth0", CUSTOMER))
        lab.wire((gateway, "west", "02:00:00:00:00:02"), (self.west, "eth0", "02:00:00:00:01:02"))
        lab.wire((gateway, "east", "02:00:00:00:00:03"), (self.east, "eth0", "02:00:00:00:01:03"))
        cpe.run("ip", "link", "set", "dev", "eth0", "mtu", "1508")
        self.west.run("ip", "address", "add", "192.0.2.2/30", "dev", "eth0")
        self.west.run("ip", "route", "add", "default", "via", "192.0.2.1")
        self.east.run("ip", "address", "add", "2001:db8:2::2/64", "dev", "eth0", "nodad")
        # IPv4 by a router with an IPv6 address (RFC 8950). Without an address of its own the kernel has no IPv4 on the link.
        self.east.run("ip", "address", "add", "198.51.100.2/32", "dev", "eth0")
        self.east.run("ip", "-4", "route", "add", "default", "via", "inet6", "2001:db8:2::1", "dev", "eth0")
        for host in (self.west, self.east):
            host.run("ip", "route", "add", "local", "203.0.113.0/24", "dev", "lo")
        self.customer = lab.tap(cpe, "eth0")
        self.weir = Weir(gateway, CONFIG)
        lab.at_end(lambda: self.weir.__exit__(None, None, None))

    def pings(self):
        """Has the customer ping each address once; answers which are answered, by their last byte."""
        self.customer.clear()
        tags = Dot1AD(vlan=100) / Dot1Q(vlan=200)
        packet = Ether(src=CUSTOMER, dst=GATEWAY) / tags / IP(src="10.0.0.9", ttl=64)
        self.customer.send(*(raw(_to(packet, last) / ICMP(id=last, seq=1) / bytes(20)) for last in range(FLOWS)))

        def answered():
            replies = (frame for frame in self.customer.frames() if frame[20:22] == b"\x08\x00" and frame[42] == 0)
            return {frame[37] for frame in replies}

        wait_for(lambda: len(answered()) == FLOWS, 2)
        return answered()

    def all_answered(self):
        """Whether all pings are, now or after a while: links and neighbours take their time."""
        return wait_for(lambda: len(self.pings()) == FLOWS)

    def shares(self):
        """How many of the pings leave by each port."""
        before = self.sent()
        assert self.all_answered(), (self.weir.show("neighbors"), self.weir.drops())
        return [now - then for now, then in zip(self.sent(), before)]

    def sent(self):
        """Packets that went by each port's next hops."""
        rows = self.weir.show("nexthops")
        return [sum(row["packets"] for row in rows if row["interface"] == port) for port in ("west", "east")]


def _to(packet, last):
    packet = packet.copy()
    packet[IP].dst = f"203.0.113.{last}"
    return packet


def test_linux_hosts_share_what_customers_send():
    """By ARP and by neighbour discovery; when the link of one goes, the other has all, and a route changes what goes where."""
    with Lab() as lab:
        core = _Core(lab)
        assert core.all_answered(), core.weir.drops()
        near, far = core.shares()
        assert near >= 16 and far >= 16, (near, far)

        core.west.run("ip", "link", "set", "dev", "eth0", "down")
        assert wait_for(lambda: not next(row for row in core.weir.show("ports") if row["name"] == "west")["link_up"])
        assert core.all_answered()
        near, far = core.shares()
        assert near == 0 and far >= FLOWS, (near, far)

        core.west.run("ip", "link", "set", "dev", "eth0", "up")
        # The kernel took the route away with the link.
        core.west.run("ip", "route", "replace", "default", "via", "192.0.2.1")
        assert wait_for(lambda: min(core.shares()) >= 16)

        core.weir.command("route", "add", "203.0.113.0/24", "via", "192.0.2.2")
        near, far = core.shares()
        assert near >= FLOWS and far == 0, (near, far)
        core.weir.command("route", "del", "203.0.113.0/24")
        assert min(core.shares()) >= 16
        check_account(core.weir.stats())
        core.weir.stop()


def test_linux_hosts_find_the_gateway():
    """It answers for its addresses on the core side, and for those towards customers."""
    with Lab() as lab:
        core = _Core(lab)
        for host, address in ((core.west, "192.0.2.1"), (core.west, "10.0.0.1"), (core.east, "2001:db8:2::1")):
            done = []

            def answers(host=host, address=address, done=done):
                done[:] = [host.run("ping", "-n", "-c", "1", "-W", "1", address, check=False)]
                return " 0% packet loss" in done[0]

            assert wait_for(answers), (address, done, core.weir.drops())
        neighbors = lambda: core.east.run("ip", "-6", "neighbor", "show", "2001:db8:2::1")
        # Who was asked by it first knows its address from that, and that it is a router only when it asks itself.
        assert wait_for(lambda: "02:00:00:00:00:03" in neighbors() and "router" in neighbors()), neighbors()
        check_account(core.weir.stats())
        core.weir.stop()


MANAGED = """
port { name = "cpe",  device = "af_packet:cpe" }
port { name = "core", device = "af_packet:core", address = "192.0.2.1/30" }
port { name = "mgmt", device = "af_packet:mgmt", address = "172.16.0.1/24", vrf = "management" }
bng {
  access = { "cpe" }, core = { "core", "mgmt" }, core_encapsulation = "ip", addresses = "10.0.0.1/16", workers = { 1 },
  subscribers = {
    { svlan = 100, cvlan = 200, ipv4 = "10.0.0.9", mac = "02:00:00:00:01:01" },
    { svlan = 100, cvlan = 201, ipv4 = { "10.0.0.10", "198.18.0.0/29" }, mac = "02:00:00:00:01:01" },
  },
  learn    = { networks = "10.0.0.0/16" },
  gateways = { near = { port = "core", address = "192.0.2.2" } },
  routes   = { ["0.0.0.0/0"] = "near" },
  vrfs     = { management = { routes = { ["10.0.0.0/16"] = "@bng" } } },
}
"""


class _Customers:
    """Customers behind the tap of a line card: each answers pings to whatever address."""

    def __init__(self, tap):
        self.tap, self._seen = tap, 0

    def answer(self):
        """Answers the pings that came since the last call; answers who was pinged by whom."""
        frames = self.tap.frames()
        asked = []
        for frame in frames[self._seen :]:
            if frame[20:22] != b"\x08\x00" or frame[31] != 1 or frame[42] != 8:
                continue
            came = Ether(frame)
            ip, behind = came[IP], Dot1AD(vlan=100) / Dot1Q(vlan=frame[19])
            asked.append((ip.src, ip.dst, frame[19], ip.ttl))
            reply = IP(src=ip.dst, dst=ip.src) / ICMP(type=0, id=ip[ICMP].id, seq=ip[ICMP].seq) / bytes(ip[ICMP].payload)
            self.tap.send(raw(Ether(src=CUSTOMER, dst=GATEWAY) / behind / reply))
        self._seen = len(frames)
        return asked


def test_customers_are_routes():
    """A Linux host in a VRF of its own pings customers where a route of that VRF leads, and one beside where none does; a host of the core finds
    them as ever. Customers come and go with their routes, and reach each other without the core."""
    with Lab() as lab:
        gateway, cpe, core, manager = (lab.namespace(name) for name in ("g", "cpe", "core", "mgmt"))
        lab.wire((gateway, "cpe", GATEWAY), (cpe, "eth0", CUSTOMER))
        lab.wire((gateway, "core", "02:00:00:00:00:02"), (core, "eth0", "02:00:00:00:01:02"))
        lab.wire((gateway, "mgmt", "02:00:00:00:00:03"), (manager, "eth0", "02:00:00:00:01:03"))
        cpe.run("ip", "link", "set", "dev", "eth0", "mtu", "1508")
        for host, address, router in ((core, "192.0.2.2/30", "192.0.2.1"), (manager, "172.16.0.9/24", "172.16.0.1")):
            host.run("ip", "address", "add", address, "dev", "eth0")
            host.run("ip", "route", "add", "default", "via", router)
        customers = _Customers(lab.tap(cpe, "eth0"))
        with Weir(gateway, MANAGED) as weir:

            def reaches(host, address, wait=2):
                """Whether a host gets an answer to a ping in time; and who was pinged there by whom, which may have been earlier."""
                ping = host.popen("ping", "-n", "-c", "1", "-W", str(wait), address, stdout=subprocess.PIPE)
                asked = []
                while ping.poll() is None:
                    asked += customers.answer()
                    time.sleep(0.02)
                return " 0% packet loss" in ping.communicate()[0], [each for each in asked if each[1] == address]

            def prefixes():
                return [row["prefix"] for row in weir.show("routes", "bng")]

            assert prefixes() == ["10.0.0.0/16", "198.18.0.0/29"], prefixes()
            assert weir.show("routes", "198.18.0.3")[0]["via"] == ["@bng"]
            assert wait_for(lambda: reaches(core, "10.0.0.9")[0]), weir.drops()
            # What customers answer goes by the default VRF, which has no way back at first.
            assert wait_for(lambda: ("172.16.0.9", "10.0.0.10", 201, 63) in reaches(manager, "10.0.0.10")[1]), weir.drops()
            weir.command("route", "add", "172.16.0.9/32", "via", "172.16.0.9%mgmt")
            assert wait_for(lambda: reaches(manager, "10.0.0.10")[0]), weir.drops()
            assert not reaches(manager, "198.18.0.3")[1]
            weir.command("route", "add", "198.18.0.0/24", "via", "@bng", "vrf", "management")
            assert reaches(manager, "198.18.0.3", 60) == (True, [("172.16.0.9", "198.18.0.3", 201, 63)]), weir.drops()
            # From customer to customer, with nothing by the core.
            def by_core():
                return sum(row["packets"] for row in weir.show("nexthops") if row["interface"] == "core")

            sent = by_core()
            ping = IP(src="10.0.0.9", dst="198.18.0.3") / ICMP(id=9, seq=1) / bytes(20)
            customers.tap.send(raw(Ether(src=CUSTOMER, dst=GATEWAY) / Dot1AD(vlan=100) / Dot1Q(vlan=200) / ping))
            asked = []
            assert wait_for(lambda: asked.extend(customers.answer()) or ("10.0.0.9", "198.18.0.3", 201, 63) in asked), asked
            assert wait_for(lambda: any(frame[34:42] == bytes([198, 18, 0, 3, 10, 0, 0, 9]) for frame in customers.tap.frames()))
            assert by_core() == sent
            weir.command("subscriber", "set", "100", "201", "ipv4", "10.0.0.10", "198.18.0.0/30")
            weir.command("subscriber", "add", "100", "202", "ipv4", "198.18.0.4/30", "198.18.0.8/29")
            assert prefixes() == ["10.0.0.0/16", "198.18.0.0/28"], prefixes()
            weir.command("subscriber", "del", "100", "202")
            assert prefixes() == ["10.0.0.0/16", "198.18.0.0/30"], prefixes()
            check_account(weir.stats())
            weir.stop()


TRUNK = """
port { name = "cpe",   device = "af_packet:cpe" }
port { name = "trunk", device = "af_packet:trunk" }
interface { name = "trunk.100", on = "trunk", of = "bng", vlan = 100, address = "192.0.2.1/30" }
interface { name = "trunk.200", on = "trunk", of = "router", vlan = 200, address = "192.0.2.5/30" }
bng {
  access = { "cpe" }, core = { "trunk" }, core_encapsulation = "ip", addresses = "10.0.0.1/16", workers = { 1 },
  subscribers = { { svlan = 100, cvlan = 200, ipv4 = "10.0.0.9", mac = "02:00:00:00:01:01" } },
  gateways = { near = { port = "trunk.100", address = "192.0.2.2" } },
  routes   = { ["0.0.0.0/0"] = "near" },
}
router { ports = { "trunk" }, workers = { 1 } }
"""
FAR = "02:00:00:00:01:02"


def _answer(trunk, vlan, own, asking):
    """The far station answers ARP for itself in a VLAN."""
    arp = ARP(op=2, hwsrc=FAR, psrc=own, hwdst=GATEWAY, pdst=asking)
    trunk.send(raw(Ether(src=FAR, dst="02:00:00:00:00:02") / Dot1Q(vlan=vlan) / arp / bytes(18)))


def _pings(frames, vlan, kind):
    """Sources and destinations of pings of a kind that came with a tag."""
    came = [Ether(frame) for frame in frames if frame[12:18] == b"\x81\x00" + vlan.to_bytes(2, "big") + b"\x08\x00"]
    return {(packet[IP].src, packet[IP].dst) for packet in came if ICMP in packet and packet[ICMP].type == kind}


def test_a_trunk_is_shared_with_a_router():
    """Each has its VLAN: customers leave and come by one, the router answers in the other, and neither knows the other's."""
    with Lab() as lab:
        gateway, cpe, far = lab.namespace("g"), lab.namespace("cpe"), lab.namespace("far")
        lab.wire((gateway, "cpe", GATEWAY), (cpe, "eth0", CUSTOMER))
        lab.wire((gateway, "trunk", "02:00:00:00:00:02"), (far, "eth0", FAR))
        cpe.run("ip", "link", "set", "dev", "eth0", "mtu", "1508")
        customer, trunk = lab.tap(cpe, "eth0"), lab.tap(far, "eth0")
        with Weir(gateway, TRUNK) as weir:
            ping = IP(src="10.0.0.9", dst="203.0.113.9") / ICMP(id=1, seq=1) / bytes(20)
            behind = Dot1AD(vlan=100) / Dot1Q(vlan=200)

            def crosses():
                customer.send(raw(Ether(src=CUSTOMER, dst=GATEWAY) / behind / ping))
                _answer(trunk, 100, "192.0.2.2", "192.0.2.1")
                return ("10.0.0.9", "203.0.113.9") in _pings(trunk.frames(), 100, 8)

            assert wait_for(crosses), weir.drops()
            reply = IP(src="203.0.113.9", dst="10.0.0.9") / ICMP(type=0, id=1, seq=1) / bytes(20)
            trunk.send(raw(Ether(src=FAR, dst="02:00:00:00:00:02") / Dot1Q(vlan=100) / reply))
            assert wait_for(lambda: any(frame[38:42] == bytes([10, 0, 0, 9]) for frame in customer.frames())), weir.drops()
            # A customer's packet in the router's VLAN is no customer's.
            trunk.send(raw(Ether(src=FAR, dst="02:00:00:00:00:02") / Dot1Q(vlan=200) / reply))
            for vlan, own, other in ((100, "192.0.2.1", "192.0.2.2"), (200, "192.0.2.5", "192.0.2.6")):
                echo = IP(src=other, dst=own) / ICMP(id=2, seq=1) / bytes(20)

                def answers(vlan=vlan, own=own, other=other, echo=echo):
                    trunk.send(raw(Ether(src=FAR, dst="02:00:00:00:00:02") / Dot1Q(vlan=vlan) / echo))
                    _answer(trunk, vlan, other, own)
                    return (own, other) in _pings(trunk.frames(), vlan, 0)

                assert wait_for(answers), (vlan, weir.drops())
            delivered = [frame for frame in customer.frames() if frame[38:42] == bytes([10, 0, 0, 9])]
            assert len(delivered) == 1, delivered
            # The worker's interface counters are each function's own.
            rows = {row["name"]: row for row in weir.show("interfaces", "--function", "bng")}
            assert rows["trunk.100"]["rx_packets"] >= 3 and rows["trunk.100"]["tx_packets"] >= 1, rows
            check_account(weir.stats())
            weir.stop()
