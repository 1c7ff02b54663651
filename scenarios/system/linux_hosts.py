"""Linux hosts on either side of the router: what people see of it."""

import json
import re

from lab.hosts import Between, addresses, asked, config, ping
from lab.netns import Lab
from lab.weir import Weir, wait_for


def _unanswered(host, *arguments):
    said = host.run("ping", "-n", "-q", "-i", "0.02", "-c", "2", "-W", "2", *arguments, check=False)
    assert "100% packet loss" in said, said


def _everything_crosses(driver):
    with Lab() as lab:
        net = Between(lab, config(driver))
        ping(net.lan, "198.51.100.1", 1)
        ping(net.lan, "198.51.100.1", 50)
        ping(net.wan, "10.0.0.2", 50, "-s", "1472", "-M", "do")
        server = net.wan.popen("iperf3", "-s", "-1", stdout=-3)
        lab.at_end(server.kill)
        assert wait_for(lambda: ":5201" in net.wan.run("ss", "-ltn"))
        report = json.loads(net.lan.run("iperf3", "-c", "198.51.100.1", "-n", "30M", "--json"))
        # The receiver stops counting a moment before the end.
        assert report["end"]["sum_received"]["bytes"] >= 20 << 20, report["end"]
        assert wait_for(lambda: server.poll() is not None)
        stats = net.weir.stats()
        assert stats["ports"]["lan"]["rx_packets"] > 100 and stats["ports"]["wan"]["tx_packets"] > 100
        net.check_against_kernel()
        net.weir.stop()


def test_ping_and_tcp_cross_on_af_xdp():
    """Pings of two sizes and 30 MiB of TCP; the kernels of both hosts count what Weir counts."""
    _everything_crosses("af_xdp")


def test_ping_and_tcp_cross_on_af_packet():
    """The same on AF_PACKET."""
    _everything_crosses("af_packet")


def test_traceroute_shows_the_router():
    """By UDP and by ICMP, from either side; one probe at a time, since Linux answers only so many at once, and not late ones."""
    with Lab() as lab:
        net = Between(lab, config("af_packet"))
        for host, target, router in ((net.lan, "198.51.100.1", "10.0.0.1"), (net.wan, "10.0.0.2", "192.0.2.1")):
            for kind in ("-U", "-I"):
                hops = re.findall(r"^ *\d+ +(\S+)", host.run("traceroute", "-n", "-N", "1", "-q", "1", "-w", "20", kind, target), re.M)
                assert hops == [router, target], hops
        # Nobody listens on the router's port: it says so from the address nearest to the asker (RFC 1812 section 4.3.2.4).
        hops = re.findall(r"^ *\d+ +(\S+)", net.lan.run("traceroute", "-n", "-N", "1", "-q", "1", "-w", "20", "192.0.2.1"), re.M)
        assert hops == ["10.0.0.1"], hops
        net.weir.stats()


def test_the_router_answers_pings_in_fragments():
    """8,000 bytes are six fragments: the router puts them together, and Linux those of its answer."""
    with Lab() as lab:
        net = Between(lab, config("af_xdp"))
        pings = sum(asked(ping(host, "10.0.0.1", 5, "-s", "8000", "-M", "dont", interval=0.2)) for host in (net.lan, net.wan))
        fates = lambda: {fate["reason"]: fate["packets"] for fate in net.weir.stats()["fates"]}
        expected = {"reassembled": 5 * pings, "echo-answered": pings, "fragment": 5 * pings}
        # On a busy machine more was asked than ping waited for.
        assert wait_for(lambda: expected.items() <= fates().items()), (pings, fates())
        net.check_against_kernel()
        net.weir.stop()


def test_linux_discovers_the_mtu_and_reassembles_fragments():
    """Path MTU discovery (RFC 1191) ends in Linux' route cache; without DF the other host puts the pieces together."""
    with Lab() as lab:
        net = Between(lab, config("af_xdp", wan=", mtu = 1400"))
        net.wan.run("ip", "link", "set", "dev", "eth0", "mtu", "1400")
        _unanswered(net.lan, "-s", "1472", "-M", "do", "198.51.100.1")
        route = lambda: net.lan.run("ip", "route", "get", "198.51.100.1") + " "
        assert wait_for(lambda: " mtu 1400 " in route()), route()
        ping(net.lan, "198.51.100.1", 5, "-s", "1372", "-M", "do")
        net.lan.run("ip", "route", "flush", "cache")
        # "-M dont" clears DF; 3,000 bytes are fragments that do not fit 1,400 bytes: fragments of fragments.
        ping(net.lan, "198.51.100.1", 5, "-s", "1472", "-M", "dont")
        ping(net.lan, "198.51.100.1", 5, "-s", "3000", "-M", "dont")
        stats = net.weir.stats()
        pieces = sum(fate["packets"] for fate in stats["fates"] if fate["reason"] == "fragment")
        assert pieces >= 5 * 2 + 5 * 2, stats["fates"]
        net.check_against_kernel()


def test_a_31_bit_link_and_a_host_route():
    """Two hosts on a /31 (RFC 3021), and a single address behind one of them."""
    script = """
        port { name = "wan", device = "af_packet:wan", address = "192.0.2.0/31" }
        port { name = "lan", device = "af_packet:lan", address = "10.0.0.1/24" }
        router { ports = { "wan", "lan" }, workers = { 1 }, routes = { ["198.51.100.1/32"] = "192.0.2.1" } }"""
    with Lab() as lab:
        router, lan, wan = lab.namespace("r"), lab.namespace("lan"), lab.namespace("wan")
        lab.wire((router, "lan", "02:00:00:00:00:02"), (lan, "eth0", "02:00:00:00:01:02"))
        lab.wire((router, "wan", "02:00:00:00:00:01"), (wan, "eth0", "02:00:00:00:01:01"))
        addresses(lan, "10.0.0.2/24", "10.0.0.1")
        addresses(wan, "192.0.2.1/31", "192.0.2.0")
        wan.run("ip", "address", "add", "198.51.100.1/32", "dev", "lo")
        with Weir(router, script) as weir:
            for target in ("192.0.2.1", "198.51.100.1", "192.0.2.0"):
                ping(lan, target, 5, interval=0.2)
            _unanswered(lan, "198.51.100.2")
            weir.stats()


def test_linux_notices_no_duplicate_and_answers_unicast_polls():
    """The router asks a Linux host again while traffic flows, and nothing is lost meanwhile."""
    with Lab() as lab:
        # Who asks three times in vain gives a neighbour up: in 15 s.
        timers = 'neighbor_timers = { reachable = "1 s", retransmit = "5 s" },'
        net = Between(lab, config("af_packet", timers))
        ping(net.lan, "198.51.100.1", 150)
        stats = net.weir.stats()
        polls = sum(fate["packets"] for fate in stats["fates"] if fate["reason"] == "arp-revalidation")
        assert polls >= 2, stats["fates"]
        assert not [drop for drop in stats["drops"] if "neighbor" in drop["reason"]], stats["drops"]
        states = {row["address"]: row["state"] for row in net.weir.show("neighbors")}
        assert states["10.0.0.2"] in ("reachable", "probe", "stale"), states


def test_arping_hears_one_router():
    """Three requests, three replies, no duplicate address."""
    with Lab() as lab:
        net = Between(lab, config("af_xdp"))
        said = net.lan.run("arping", "-d", "-i", "eth0", "-c", "3", "-C", "3", "-W", "3", "10.0.0.1")
        assert said.count("02:00:00:00:00:02") == 3, said
        net.check_against_kernel()
