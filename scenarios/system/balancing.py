"""Who gets what: subscribers on workers of their own while they come and go, and packets spread over workers by what they have in common."""

import os
import pathlib
import tempfile

from lab import pcapfile
from lab.netns import Lab
from lab.packets import ARP, GRE, ICMP, IP, MPLS, UDP, Dot1AD, Dot1Q, Ether, IPv6, IPv6ExtHdrFragment, fragment, fragment6, payload, raw
from lab.scenario import run_until_drained
from lab.weir import Weir, check_account, drops_of, wait_for

CONFIG = """
port {{ name = "cpe",  device = "af_xdp:cpe" }}
port {{ name = "core", device = "af_xdp:core", address = "198.51.100.1/24" }}
local scheduler = {{ rate = "1 Gbit/s", users = 256, buffers = 512, profiles = {{ usual = {{ tb_rate = "100 Mbit/s" }} }} }}
bng {{
  access = {{ "cpe" }}, core = {{ "core" }}, core_encapsulation = "ip", limits = {{ subscribers = 256 }},
  workers = {{ {workers} }}, layout = "{layout}",
  gateways = {{ west = {{ port = "core", address = "198.51.100.2", mac = "02:00:00:00:01:02" }} }},
  routes = {{ ["0.0.0.0/0"] = "west" }},
  qos = {{ usual = "usual", up = scheduler, down = scheduler }},
}}
"""

LINES = 24
ROUNDS = 20
# Of each packet, from the IPv4 header on.
LENGTH = 20 + 8 + 60
MACS = [f"02:00:00:00:03:{n:02x}" for n in range(LINES)]


def _workers():
    """All cores that there are, up to four."""
    return sorted(os.sched_getaffinity(0))[:4]


def _packets(tap):
    """The last bytes of source and destination, and the identification, of each IPv4 packet of the test."""
    inner = [frame[-LENGTH:] for frame in tap.frames() if len(frame) > LENGTH and frame[-LENGTH] == 0x45]
    return [(packet[15], packet[19], int.from_bytes(packet[4:6], "big")) for packet in inner]


def _carry(layout):
    workers = _workers()
    with Lab() as lab:
        gateway, customers, core = (lab.namespace(name) for name in ("gw", "customers", "core"))
        lab.wire((gateway, "cpe", "02:00:00:00:00:01"), (customers, "eth0", "02:00:00:00:01:01"))
        lab.wire((gateway, "core", "02:00:00:00:00:02"), (core, "eth0", "02:00:00:00:01:02"))
        here, there = lab.tap(customers, "eth0"), lab.tap(core, "eth0")
        with Weir(gateway, CONFIG.format(workers=", ".join(map(str, workers)), layout=layout)) as weir:

            def add(n):
                weir.command("subscriber", "add", "100", str(1 + n), "ipv4", f"10.0.0.{1 + n}", "mac", MACS[n % LINES])

            for n in range(LINES):
                add(n)
            for number in range(ROUNDS):
                for n in range(LINES):
                    up = IP(src=f"10.0.0.{1 + n}", dst="203.0.113.5", id=number, ttl=64) / UDP(sport=1, dport=2) / payload(60)
                    down = IP(src="203.0.113.5", dst=f"10.0.0.{1 + n}", id=number, ttl=64) / UDP(sport=2, dport=1) / payload(60)
                    here.send(raw(Ether(src=MACS[n], dst="02:00:00:00:00:01") / Dot1AD(vlan=100) / Dot1Q(vlan=1 + n) / up))
                    there.send(raw(Ether(src="02:00:00:00:01:02", dst="02:00:00:00:00:02") / down))
                # One that has nothing to do with them comes, and goes.
                add(LINES + number)
                weir.command("subscriber", "del", "100", str(1 + LINES + number))
            arrived = wait_for(lambda: len(_packets(here)) == len(_packets(there)) == LINES * ROUNDS)
            assert arrived, (len(_packets(here)), len(_packets(there)), drops_of(weir.stats()))
            for n in range(LINES):
                got = [number for source, _, number in _packets(there) if source == 1 + n]
                assert got == list(range(ROUNDS)), f"from customer {n}: {got}"
                got = [number for _, destination, number in _packets(here) if destination == 1 + n]
                assert got == list(range(ROUNDS)), f"to customer {n}: {got}"
            # An announcement may just be on its way.
            assert wait_for(lambda: weir.stats()["account"]["held"] == 0), weir.stats()["account"]
            stats = weir.stats()
            assert not drops_of(stats), drops_of(stats)
            busy = [worker["id"] for worker in stats["workers"] if worker["packets"]]
            assert len(busy) >= min(2, len(workers)), busy
            assert not there.lost() and not here.lost()
            weir.stop()


def test_a_balancer_and_workers_with_schedulers():
    """The first worker balances, the others have subscribers and schedulers of their own."""
    _carry("distributor")


def test_a_pipeline_with_a_scheduler_at_its_end():
    """The last worker shapes what customers get."""
    _carry("pipeline")


# Packets of a file come out by the way that the stage chose; and the same, spread over workers.
_WIRED = """
engine {{ clock = "virtual" }}
port {{ name = "in", device = "pcap:test.in" }}
{ports}
wiring {{
  receive = {{ ["in"] = "spread" }},
  stages = {{ spread = {{ kind = "spread", replicas = {replicas}, by = "{by}", ways = {{ {ways} }} }} }},
}}
"""
_DISTRIBUTED = """
engine {{ clock = "virtual" }}
port {{ name = "in", device = "pcap:test.in" }}
port {{ name = "out", device = "pcap:,test.out" }}
forward {{ paths = {{ "in -> out" }}, workers = {{ {workers} }}, layout = "distributor", spread_by = "{by}" }}
"""
REPLICAS = 4
# With addresses, as scapy asks the machine's neighbours for those that are missing.
LINK = {"src": "02:00:00:00:00:09", "dst": "02:00:00:00:00:01"}


def _spread(by, frames):
    """The replica of each frame, by its place among them."""
    with tempfile.TemporaryDirectory(prefix="weir-spread-") as folder:
        folder = pathlib.Path(folder)
        # A number behind each frame says which it is: neither IP nor ARP look at what they do not announce.
        sent = [frame.ljust(64, b"\0") + number.to_bytes(4, "big") for number, frame in enumerate(frames)]
        pcapfile.write(folder / "test.in", [(n / 100000, frame) for n, frame in enumerate(sent)])
        names = range(REPLICAS)
        ports = "\n".join(f'port {{ name = "r{n}", device = "pcap:,r{n}.out" }}' for n in names)
        ways = ", ".join(f'["replica[{n}]"] = "port r{n}"' for n in names)
        (folder / "wired.lua").write_text(_WIRED.format(ports=ports, replicas=REPLICAS, by=by, ways=ways), encoding="utf-8")
        stats = run_until_drained(folder / "wired.lua")
        check_account(stats)
        assert not drops_of(stats), drops_of(stats)
        found = {}
        for n in names:
            numbers = [int.from_bytes(frame[-4:], "big") for _, frame in pcapfile.read(folder / f"r{n}.out")]
            assert numbers == sorted(numbers), "packets of one way changed their order"
            found.update(dict.fromkeys(numbers, n))
        assert len(found) == len(frames)
        workers = ", ".join(map(str, range(REPLICAS + 1)))
        (folder / "workers.lua").write_text(_DISTRIBUTED.format(workers=workers, by=by), encoding="utf-8")
        stats = run_until_drained(folder / "workers.lua")
        check_account(stats)
        got = {stage["worker"]: stage["packets"] for stage in stats["stages"] if stage["name"] == "forward.in"}
        expected = {str(1 + n): list(found.values()).count(n) for n in names}
        assert {worker: got.get(worker, 0) for worker in expected} == expected, (got, expected)
        return [found[n] for n in range(len(frames))]


def _users(six):
    """Packets of 64 hosts to one server: there and back, a large one in pieces, each kind with one number per host."""
    link = Ether(**LINK)
    for n in range(64):
        host, server = (f"2001:db8::{1 + n:x}", "2001:db8:1::1") if six else (f"10.0.0.{1 + n}", "203.0.113.1")
        there = IPv6(src=host, dst=server) if six else IP(src=host, dst=server, id=n)
        back = IPv6(src=server, dst=host) if six else IP(src=server, dst=host, id=n)
        if six:
            whole = there / IPv6ExtHdrFragment(id=77) / UDP(sport=5, dport=7) / payload(900)
            pieces = fragment6(whole, 600)
        else:
            pieces = fragment(there / UDP(sport=5, dport=7) / payload(900), 400)
        flows = [there / UDP(sport=1000 + port, dport=53) / payload(4) for port in range(2)]
        answer = back / UDP(sport=53, dport=1000) / payload(4)
        yield [link / packet for packet in (*flows, answer, *pieces)]


def _in_tags(frame, tags):
    """A frame behind these tags."""
    link, rest = Ether(**LINK), frame.payload
    for number, tag in enumerate(tags):
        link = link / (Dot1AD(vlan=tag) if number == 0 and len(tags) == 2 else Dot1Q(vlan=tag))
    return link / rest


def test_conversations_are_spread_by_their_addresses():
    """IPv4 and IPv6, with tags and without: both directions and all pieces of packets go to one worker, hosts to all of them."""
    for six in (False, True):
        for tags in ((), (5,), (100, 7)):
            groups = [[_in_tags(frame, tags) for frame in group] for group in _users(six)]
            ways = _spread("addresses", [raw(frame) for group in groups for frame in group])
            size = len(groups[0])
            each = [set(ways[n * size : (n + 1) * size]) for n in range(len(groups))]
            assert all(len(one) == 1 for one in each), (six, tags, each)
            assert set().union(*each) == set(range(REPLICAS)), (six, tags, each)


def test_flows_are_spread_by_their_ports_too():
    """The usual: the flows of one host to one server go to all workers, in either family."""
    for six in (False, True):
        pair = IPv6(src="2001:db8::1", dst="2001:db8::2") if six else IP(src="10.0.0.1", dst="10.0.0.2")
        flows = [raw(Ether(**LINK) / pair / UDP(sport=1000 + n, dport=53) / payload(4)) for n in range(64)]
        ways = _spread("flow", flows * 2)
        assert ways[:64] == ways[64:] and set(ways) == set(range(REPLICAS)), ways


def test_one_side_decides():
    """By source, by destination, by tags."""
    hosts = [next(iter(group)) for group in _users(False)] + [next(iter(group)) for group in _users(True)]
    frames = [raw(frame) for frame in hosts]
    assert set(_spread("source", frames)) == set(range(REPLICAS))
    # One server in each family.
    assert all(len(set(half)) == 1 for half in (lambda ways: (ways[:64], ways[64:]))(_spread("destination", frames)))
    lines = [_in_tags(hosts[n % 3], (100, 1 + n % 32)) for n in range(96)]
    lines += [Ether(**LINK) / Dot1AD(vlan=100) / Dot1Q(vlan=1 + n) / ARP(hwsrc=LINK["src"], psrc="10.0.0.1") for n in range(32)]
    ways = _spread("tags", [raw(frame) for frame in lines])
    assert ways == ways[:32] * 4 and set(ways) == set(range(REPLICAS)), ways


def test_tunnels_are_spread_by_key_or_by_what_is_in_them():
    """GRE over either family, below labels or not; a tunnel in pieces, and what is no tunnel, is told apart by its addresses."""
    for outer in (IP(src="198.51.100.1", dst="198.51.100.2"), IPv6(src="2001:db8::a", dst="2001:db8::b")):
        for labels in (0, 2):
            link = Ether(**LINK)
            for n in range(labels):
                link = link / MPLS(label=16 + n, s=int(n + 1 == labels), ttl=64)
            if labels:
                link[Ether].type = 0x8847
            inner = [IP(src=f"10.0.0.{1 + n}", dst="203.0.113.1") / ICMP() for n in range(32)]

            def tunnel(key, packet, link=link, outer=outer):
                return raw(link / outer / GRE(key_present=1, key=key, proto=0x0800) / packet)

            keys = _spread("gre-key", [tunnel(key, inner[n]) for n in range(2) for key in range(32)])
            assert keys[:32] == keys[32:] and set(keys) == set(range(REPLICAS)), keys
            hosts = _spread("inner", [tunnel(key, packet) for key in range(2) for packet in inner])
            assert hosts[:32] == hosts[32:] and set(hosts) == set(range(REPLICAS)), hosts
    whole = IP(src="198.51.100.1", dst="198.51.100.2", id=9) / GRE(key_present=1, key=5, proto=0x0800) / inner[0] / payload(900)
    pieces = [raw(Ether(**LINK) / piece) for piece in fragment(whole, 400)]
    for by in ("gre-key", "inner"):
        assert len(pieces) > 2 and len(set(_spread(by, pieces))) == 1, by
