"""Routers whose fast path is wired by hand, of the router's steps, with a script between them or not, and which hand all else to a router's slow path by
joints: they answer Linux hosts as a router does. The fast path follows what the router learns of next hops, and a script's tables are changed while
packets flow."""

import itertools
import pathlib
import re
import shutil
import tempfile
import time

from lab import PATIENCE
from lab.hosts import HOST_MACS, PATIENT, Between, Stream, check_all_arrived, check_answered, numbers, ping, speaks_ipv6
from lab.netns import Lab
from lab.packets import ARP, Ether, raw
from lab.weir import check_account, wait_for

_CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"

# Waits for one datagram, and sends one with hop-by-hop options (an option of padding).
_LISTEN = """
import socket
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as listening:
    listening.bind(("::", 7777))
    listening.settimeout(50)
    print("ready", flush=True)
    print(listening.recv(100).decode())
"""
_SEND = """
import socket
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sending:
    sending.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_HOPOPTS, bytes([0, 0, 1, 4, 0, 0, 0, 0]))
    sending.sendto(b"with options", ("2001:db8:7::7", 7777))
"""


def _config(name):
    """The shipped configuration on the interfaces of the lab."""
    text = (_CONFIGS / name).read_text(encoding="utf-8")
    return text.replace("af_packet:veth-", "af_packet:").replace('file = "lua/', f'file = "')


def _is_unanswered(host, target):
    """Whether nothing comes back."""
    return " 100% packet loss" in host.run("ping", "-n", "-q", "-i", "0.02", "-c", "3", "-W", "1", target, check=False)


def _answers(net, forwarded):
    """What hosts see of a router: `forwarded` is the stage that sends what goes from lan to wan."""
    # Own addresses, on the near side and on the far one; the hosts found the router by ARP.
    for host, targets in ((net.lan, ("10.0.0.1", "192.0.2.1")), (net.wan, ("192.0.2.1", "10.0.0.1"))):
        for target in targets:
            ping(host, target, 5, interval=0.2)
    assert "02:00:00:00:00:02" in net.lan.run("ip", "neighbor", "show", "10.0.0.1")
    # Through it: the fast path.
    before = _passed(net, forwarded)
    ping(net.lan, "198.51.100.1", 50)
    ping(net.wan, "10.0.0.2", 20)
    assert _passed(net, forwarded) - before >= 70, "pings and answers go by the fast path"
    # The TTL ends here, on either side (RFC 1812 section 5.3.1).
    for host, target, router in ((net.lan, "198.51.100.1", "10.0.0.1"), (net.wan, "10.0.0.2", "192.0.2.1")):
        said = host.run("traceroute", "-n", "-N", "1", "-q", "1", "-w", "20", "-I", target)
        hops = re.findall(r"^ *\d+ +(\S+)", said, re.M)
        assert hops == [router, target], hops
    # Options are the slow path's (RFC 1812 section 5.3.13): the route is recorded, with the side that it leaves by.
    said = ping(net.lan, "198.51.100.1", 2, "-R", interval=0.2)
    assert "192.0.2.1" in said, said
    # A neighbour that nobody wrote down is found by the router; one that is not there is told of (RFC 1812 section 5.2.7.1).
    net.lan.run("ip", "address", "add", "10.0.0.3/24", "dev", "eth0")
    ping(net.wan, "10.0.0.3", 5, interval=0.2)
    said = net.wan.run("ping", "-n", "-c", "2", "-i", "0.2", *PATIENT, "10.0.0.9", check=False)
    assert "From 192.0.2.1" in said and "Unreachable" in said, said
    # Six fragments to the router itself, and its answer.
    ping(net.lan, "10.0.0.1", 3, "-s", "8000", "-M", "dont", interval=0.2)
    check_account(net.weir.stats())
    net.check_against_kernel()


def _answers6(net, forwarded):
    """The same of IPv6, which the hosts speak from here on."""
    for host, address in ((net.lan, "2001:db8:1::2"), (net.wan, "2001:db8:ff::254")):
        speaks_ipv6(host)
        host.run("ip", "address", "add", f"{address}/64", "dev", "eth0", "nodad")
    net.lan.run("ip", "-6", "route", "add", "default", "via", "2001:db8:1::1")
    net.wan.run("ip", "-6", "route", "add", "default", "via", "2001:db8:ff::1")
    net.wan.run("ip", "address", "add", "2001:db8:7::7/128", "dev", "lo")
    # The hosts, and by the joints the router, have asked whether others have their addresses (RFC 4862 section 5.4).
    assert wait_for(lambda: all(row["usable"] for row in net.weir.show("addresses", "--function", "router")))
    assert wait_for(lambda: not any("tentative" in host.run("ip", "-6", "address") for host in (net.lan, net.wan)))
    # Own addresses, and those of the link; the hosts found the router by neighbour discovery.
    for target in ("2001:db8:1::1", "2001:db8:ff::1", "fe80::ff:fe00:2%eth0", "ff02::2%eth0"):
        ping(net.lan, target, 3, "-6", interval=0.5)
    assert "02:00:00:00:00:02" in net.lan.run("ip", "neighbor", "show", "2001:db8:1::1")
    # Both next hops are found. What waited for that may come behind what is sent then.
    ping(net.lan, "2001:db8:7::7", 2, "-6", interval=1)
    # Through it: the fast path.
    before = _passed(net, forwarded)
    ping(net.lan, "2001:db8:7::7", 50, "-6")
    ping(net.wan, "2001:db8:1::2", 20, "-6")
    assert _passed(net, forwarded) - before >= 120, "pings and answers go by the fast path"
    # The hop limit ends here, on either side (RFC 4443 section 3.3).
    for host, target, router in ((net.lan, "2001:db8:7::7", "2001:db8:1::1"), (net.wan, "2001:db8:1::2", "2001:db8:ff::1")):
        said = host.run("traceroute", "-6", "-n", "-N", "1", "-q", "1", "-w", "20", "-I", target)
        hops = re.findall(r"^ *\d+ +(\S+)", said, re.M)
        assert hops == [router, target], hops
    # A neighbour that nobody wrote down is found by the router; one that is not there is told of (RFC 4443 section 3.1).
    net.lan.run("ip", "address", "add", "2001:db8:1::3/64", "dev", "eth0", "nodad")
    ping(net.wan, "2001:db8:1::3", 5, "-6", interval=0.2)
    said = net.wan.run("ping", "-6", "-n", "-c", "2", "-i", "0.2", *PATIENT, "2001:db8:1::9", check=False)
    assert "From 2001:db8:ff::1" in said and "Address unreachable" in said, said
    # Hop-by-hop options are the slow path's (RFC 8200 section 4.3), which passes them on.
    with net.wan.popen("python3", "-c", _LISTEN, stdout=-1) as listening:
        assert listening.stdout.readline() == "ready\n"
        net.lan.run("python3", "-c", _SEND)
        said, _ = listening.communicate(timeout=60)
    assert said == "with options\n", said
    # Fragments to the router itself, and its answer.
    ping(net.lan, "2001:db8:1::1", 3, "-6", "-s", "8000", interval=0.5)
    check_account(net.weir.stats())
    net.check_against_kernel()


def _passed(net, stages):
    """Packets that these stages have sent to their next hops."""
    return sum(stage["ways"].get("out", 0) for stage in net.weir.stats()["stages"] if stage["name"] in stages)


def _known(net, address):
    """The Ethernet address that the router knows of a neighbour."""
    return next((row["mac"] for row in net.weir.show("neighbors") if row["address"] == address), None)


def test_steps_leave_to_the_router_what_is_its():
    """ARP, pings, traceroute, options, neighbours, fragments: with the fast path wired of steps."""
    with Lab() as lab:
        net = Between(lab, _config("wired-router-answers.lua"))
        _answers(net, ("wiring.lan-to-1", "wiring.wan-to-2"))
        net.weir.stop()


def test_steps_follow_hosts_that_get_other_addresses():
    """Linux hosts of which nobody has written down where they are: the fast path sends to where the router finds them, and follows."""
    with Lab() as lab:
        net = Between(lab, _config("wired-router-answers.lua"))
        stages = ("wiring.lan-to-1", "wiring.wan-to-2")
        ping(net.lan, "198.51.100.1", 5, interval=0.2)
        for n in range(1, 4):
            for host, address in ((net.lan, "10.0.0.2"), (net.wan, "192.0.2.254")):
                mac = f"02:00:00:00:0{n}:{address[-1]}0"
                host.run("sysctl", "-qw", "net.ipv4.conf.eth0.arp_notify=1")
                host.run("ip", "link", "set", "dev", "eth0", "address", mac)
                assert wait_for(lambda address=address, mac=mac: _known(net, address) == mac), net.weir.show("neighbors")
                before = _passed(net, stages)
                ping(net.lan, "198.51.100.1", 50)
                assert _passed(net, stages) - before >= 100, "questions and answers go by the fast path"
        check_account(net.weir.stats())
        net.check_against_kernel()
        net.weir.stop()


def test_no_packet_is_lost_while_a_next_hop_moves():
    """Packets flow to a next hop that says again and again that it has another Ethernet address: all go by the fast path, to the one or the other."""
    with Lab() as lab:
        net = Between(lab, _config("wired-router-answers.lua"), bare=True)
        macs = (HOST_MACS["wan"], "02:00:00:00:01:fe")

        def asks(mac):
            """The next hop asks for the router, which learns where it is."""
            question = ARP(op="who-has", hwsrc=mac, psrc="192.0.2.254", pdst="192.0.2.1")
            net.wan_wire.send(raw(Ether(src=mac, dst="ff:ff:ff:ff:ff:ff") / question))
            assert wait_for(lambda: _known(net, "192.0.2.254") == mac), net.weir.show("neighbors")

        asks(macs[0])
        stream = Stream(net.lan_wire, 2000, sink=net.wan_wire)
        moves = 6
        for mac in itertools.islice(itertools.cycle(macs), 1, 1 + moves):
            time.sleep(0.2)
            asks(mac)
        time.sleep(0.2)
        sent = stream.stop()
        check_all_arrived(net.wan_wire, sent)
        places = [frame[:6].hex(":") for frame in net.wan_wire.frames() if numbers([frame])]
        assert [place for place, _ in itertools.groupby(places)] == [macs[n % 2] for n in range(1 + moves)]
        assert _passed(net, ("wiring.lan-to-1",)) == sent, "none went by the router"
        check_account(net.weir.stats())
        net.weir.stop()


def test_steps_of_both_families_leave_to_the_router_what_is_its():
    """IPv6 beside IPv4: neighbour discovery, pings, traceroute, options, neighbours, fragments."""
    with Lab() as lab:
        net = Between(lab, _config("wired-router6.lua"))
        _answers(net, ("wiring.ipv4-lan-to-1", "wiring.ipv4-wan-to-2"))
        _answers6(net, ("wiring.ipv6-lan-to-1", "wiring.ipv6-wan-to-2"))
        net.weir.stop()


def test_a_script_leaves_to_the_router_what_is_its():
    """The same with routes of a script; and they change while packets flow."""
    with Lab() as lab, tempfile.TemporaryDirectory(prefix="weir-lua-router-") as folder:
        shutil.copy(_CONFIGS / "lua/router.lua", folder)
        net = Between(lab, _config("lua-router.lua"), arguments=("--allow-lua-stages",), folder=folder)
        _answers(net, ("wiring.lan-to-1", "wiring.wan-to-2"))
        # A host behind 10.0.0.2 that no route leads to: what is for it goes back to the gateway on wan.
        net.lan.run("ip", "address", "add", "10.1.0.1/32", "dev", "lo")
        assert _is_unanswered(net.wan, "10.1.0.1")
        net.weir.command("table", "add", "from-wan.routes", "10.1.0.0/16", "value", "2")
        ping(net.wan, "10.1.0.1", 20)
        rows = {row["key"]: row for row in net.weir.show("entries", "from-wan.routes", "--function", "wiring")}
        assert (rows["10.1.0.0/16"]["value"], rows["10.1.0.0/16"]["source"]) == (2, "cli"), rows
        assert rows["0.0.0.0/0"]["source"] == "config", rows
        # Given the value that it has, again and again: no packet is without a route meanwhile.
        changes = pathlib.Path(folder) / "changes.txt"
        changes.write_text("from-wan.routes 10.1.0.0/16 value 2\n" * 500, encoding="utf-8")
        steady = net.wan.popen("ping", "-n", "-i", "0.005", "-c", "400", *PATIENT, "10.1.0.1", stdout=-1)
        for _ in range(10):
            net.weir.command("table", "set", "--from", changes)
        check_answered(steady.communicate(timeout=PATIENCE)[0], 400)
        net.weir.command("table", "del", "from-wan.routes", "10.1.0.0/16")
        assert wait_for(lambda: _is_unanswered(net.wan, "10.1.0.1"))
        net.weir.stop()
