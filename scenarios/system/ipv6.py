"""IPv6 with Linux hosts on either side of the router: what people see of it, and what floods of one link do to others."""

import json
import re

from lab.hosts import HOST_MACS, MACS, PATIENT, asked, check_answered, ping, speaks_ipv6
from lab.netns import Lab
from lab.packets import UDP, Ether, ICMPv6ND_NS, ICMPv6NDOptSrcLLAddr, IPv6, raw
from lab.weir import Weir, wait_for

FLOOD_MAC = "02:66:00:00:00:00"
LAN, WAN, FAR = "2001:db8:0:1", "2001:db8:0:2", "2001:db8:7::7"

CONFIG = """
port {{ name = "wan", device = "{driver}:wan", address = "2001:db8:0:2::1/64" {wan} }}
port {{ name = "lan", device = "{driver}:lan", address = "2001:db8:0:1::1/64" }}
router {{
  ports     = {{ "wan", "lan" }},
  workers   = {{ 1 }},
  routes    = {{ ["2001:db8:7::/48"] = "2001:db8:0:2::9" }},
  advertise = {{ lan = {{ interval = "4 s", dns = {{ "2001:db8:7::53" }}, search = {{ "example.net" }} }} }},
  {more}
}}
"""


def config(driver, more="", wan=""):
    """The usual configuration with a driver of ports."""
    return CONFIG.format(driver=driver, more=more, wan=wan)


class Hosts:
    """Weir between two hosts: `lan` gets its address from the router, `wan` is 2001:db8:0:2::9 and FAR. `third` is one port more: its
    name, its MAC address, and the host there."""

    def __init__(self, lab, script, third=None):
        self.router, self.lan, self.wan = lab.namespace("r"), lab.namespace("lan"), lab.namespace("wan")
        for name, host in (("lan", self.lan), ("wan", self.wan)):
            speaks_ipv6(host)
            lab.wire((self.router, name, MACS[name]), (host, "eth0", HOST_MACS[name]))
        if third:
            name, mac, host = third
            lab.wire((self.router, name, mac), (host, "eth0", FLOOD_MAC))
        self.wan.run("ip", "address", "add", f"{WAN}::9/64", "dev", "eth0", "nodad")
        self.wan.run("ip", "address", "add", f"{FAR}/128", "dev", "lo", "nodad")
        self.wan.run("ip", "-6", "route", "add", "default", "via", f"{WAN}::1")
        self.weir = Weir(self.router, script)
        lab.at_end(lambda: self.weir.__exit__(None, None, None))
        if not wait_for(lambda: self.address() and self.gateway() and self.is_ready()):
            raise AssertionError(f"the host has no address or router: {self.lan.run('ip', '-6', 'address')}{self.lan.run('ip', '-6', 'route')}")

    def is_ready(self):
        """Whether the router has found all of its addresses to be nobody else's (RFC 4862 section 5.4), and may use them."""
        return all(row["usable"] for row in self.weir.show("addresses"))

    def address(self):
        """The address that the lan host took (RFC 4862) and uses, which the kernel lets it do a little later, or None."""
        known = json.loads(self.lan.run("ip", "-j", "-6", "address", "show", "dev", "eth0", "scope", "global"))
        found = (each.get("local", "") for link in known for each in link.get("addr_info", []) if not each.get("tentative"))
        return next((address for address in found if address.startswith(LAN)), None)

    def gateway(self):
        """The router that the lan host found, or None."""
        routes = json.loads(self.lan.run("ip", "-j", "-6", "route", "show", "default"))
        return next((route.get("gateway") for route in routes), None)

    def fates(self):
        """Packets consumed and created, by reason."""
        return {fate["reason"]: fate["packets"] for fate in self.weir.stats()["fates"]}


def test_linux_configures_itself_and_everything_crosses():
    """Address and router by advertisements (RFC 4862), pings of both directions and sizes, to the router and through it."""
    for driver in ("af_packet", "af_xdp"):
        with Lab() as lab:
            net = Hosts(lab, config(driver))
            # 02:00:00:00:00:02 as RFC 2464 section 4 makes an identifier of it.
            assert net.gateway() == "fe80::ff:fe00:2", net.gateway()
            ping(net.lan, FAR, 1)
            ping(net.lan, FAR, 50)
            ping(net.wan, net.address(), 20, "-s", "1452", "-M", "do")
            for target in (f"{LAN}::1", f"{WAN}::1", f"{LAN}::", "fe80::ff:fe00:2%eth0", "ff02::2%eth0"):
                ping(net.lan, target, 2, interval=0.2)
            # 8,000 bytes are six fragments; the router sends none beyond 1,280 bytes.
            pings = asked(ping(net.lan, f"{LAN}::1", 5, "-s", "8000", interval=0.2))
            # On a busy machine more was asked than ping waited for.
            expected = {"reassembled": 5 * pings, "fragment": 6 * pings}
            assert wait_for(lambda: expected.items() <= net.fates().items()), (pings, net.fates())
            net.weir.stop()


def test_traceroute_shows_the_router():
    """By UDP and by ICMPv6; the router says of itself that nobody listens, from the address that was asked."""
    with Lab() as lab:
        net = Hosts(lab, config("af_packet"))
        ping(net.lan, FAR, 1)
        for kind in ("-U", "-I"):
            for target, expected in ((FAR, [f"{LAN}::1", FAR]), (f"{WAN}::1", [f"{WAN}::1"])):
                said = net.lan.run("traceroute", "-6", "-n", "-N", "1", "-q", "1", "-w", "20", kind, target)
                assert re.findall(r"^ *\d+ +(\S+)", said, re.M) == expected, said


def test_mtr_sees_each_hop_and_loses_nothing():
    """Many probes for each hop, one a tenth of a second: the rate of ICMP errors is enough for people who look."""
    with Lab() as lab:
        net = Hosts(lab, config("af_packet"))
        ping(net.lan, FAR, 1)
        said = json.loads(net.lan.run("mtr", "-6", "-n", "-j", "-c", "20", "-i", "0.1", FAR))
        hops = [(hub["host"], hub["Snt"], hub["Loss%"]) for hub in said["report"]["hubs"]]
        assert hops == [(f"{LAN}::1", 20, 0.0), (FAR, 20, 0.0)], said


def test_discovery_tools_agree():
    """What `rdisc6` and `ndisc6` say of the router: its advertisement as configured, its Ethernet address."""
    with Lab() as lab:
        net = Hosts(lab, config("af_packet"))
        said = net.lan.run("rdisc6", "-1", "-r", "60", "eth0")
        for line in (r"Hop limit +: +64 ", r"Router lifetime +: +12 ", r"Prefix +: 2001:db8:0:1::/64", r"Recursive DNS server +: 2001:db8:7::53",
                     r"DNS search list +: example\.net", r"Source link-layer address: 02:00:00:00:00:02"):
            assert re.search(line, said), said
        for own in (f"{LAN}::1", "fe80::ff:fe00:2"):
            said = net.lan.run("ndisc6", "-1", "-r", "60", own, "eth0")
            assert "02:00:00:00:00:02" in said, said


def test_linux_discovers_the_mtu():
    """Packet Too Big (RFC 8201) ends in Linux' route cache; what its source then takes apart arrives."""
    with Lab() as lab:
        net = Hosts(lab, config("af_xdp", wan=", mtu = 1300"))
        net.wan.run("ip", "link", "set", "dev", "eth0", "mtu", "1300")
        ping(net.lan, FAR, 1)
        said = net.lan.run("ping", "-6", "-n", "-q", "-i", "0.02", "-c", "2", "-W", "2", "-s", "1452", "-M", "do", FAR, check=False)
        assert "100% packet loss" in said, said
        route = lambda: net.lan.run("ip", "-6", "route", "get", FAR) + " "
        assert wait_for(lambda: " mtu 1300 " in route()), route()
        ping(net.lan, FAR, 5, "-s", "1252", "-M", "do")
        ping(net.lan, FAR, 5, "-s", "3000")
        assert net.fates()["icmp6-packet-too-big"] >= 1


def test_neighbours_are_asked_again_and_nothing_is_lost():
    """Reachability runs out while traffic flows (RFC 4861 section 7.3.3)."""
    with Lab() as lab:
        # Who asks three times in vain gives a neighbour up: in 15 s.
        timers = 'neighbor_timers = { reachable = "1 s", retransmit = "5 s" },'
        net = Hosts(lab, config("af_packet", timers))
        ping(net.lan, FAR, 1)
        ping(net.lan, FAR, 400)
        assert net.fates()["nd-revalidation"] >= 1, net.fates()
        assert not [drop for drop in net.weir.stats()["drops"] if "neighbor" in drop["reason"]]


def floods(lan, mac):
    """Frames of a flood from the lan: questions of 65,536 stations, and packets to as many hosts of the wan that are not there."""
    asks = IPv6(src="fe80::9:0", dst="fe80::ff:fe00:2", hlim=255) / ICMPv6ND_NS(tgt="fe80::ff:fe00:2")
    asks = Ether(src=FLOOD_MAC, dst=mac) / asks / ICMPv6NDOptSrcLLAddr(lladdr=FLOOD_MAC)
    scan = Ether(src=FLOOD_MAC, dst=mac) / IPv6(src=lan, dst=f"{WAN}:1::") / UDP(sport=1, dport=2)
    asks, scan = bytearray(raw(asks)), bytearray(raw(scan))
    before = int.from_bytes(asks[56:58], "big")
    for n in range(65536):
        # The station's address and its Ethernet address, and what both do to the checksum (RFC 1624).
        asks[36:38] = asks[84:86] = n.to_bytes(2, "big")
        total = (~before & 0xFFFF) + 2 * n
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        asks[56:58] = (~total & 0xFFFF).to_bytes(2, "big")
        scan[52:54] = n.to_bytes(2, "big")
        yield bytes(asks)
        yield bytes(scan)


def test_a_flood_of_one_link_leaves_other_neighbours_alone():
    """65,536 stations that ask, and a scan of a network, come by one link; the pings of known neighbours between others are all answered,
    and what is kept of it all is bounded."""
    script = config("af_packet", "limits = { neighbors = 1024, queue = 256 },")
    script = script.replace('"wan", "lan" }', '"wan", "lan", "bad" }')
    script += 'port { name = "bad", device = "af_packet:bad", address = "2001:db8:0:3::1/64" }'
    with Lab() as lab:
        bad = lab.namespace("bad")
        net = Hosts(lab, script, ("bad", "02:00:00:00:00:03", bad))
        wire = lab.tap(bad, "eth0")
        ping(net.lan, FAR, 1)
        frames = list(floods("2001:db8:0:3::66", "02:00:00:00:00:03"))
        pings = net.lan.popen("ping", "-6", "-n", "-i", "0.01", "-c", "500", *PATIENT, FAR, stdout=-1)
        wire.send(*frames)
        check_answered(pings.communicate()[0], 500)
        stats = net.weir.stats()
        assert stats["ports"]["bad"]["rx_packets"] > 1000
        assert stats["account"]["held"] <= 256 + 64, stats["account"]
        assert len(net.weir.show("neighbors")) <= 1024
        # What the flood left is worked off, and the router answers whoever asks on its own link.
        ping(net.lan, f"{LAN}::1", 2, interval=0.2)
        assert wait_for(lambda: net.weir.stats()["account"]["held"] == 0)
