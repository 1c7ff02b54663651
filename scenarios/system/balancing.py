"""Subscribers on workers of their own: real threads, each subscriber's order, and subscribers that come and go while packets flow."""

import os

from lab.netns import Lab
from lab.packets import IP, UDP, Dot1AD, Dot1Q, Ether, payload, raw
from lab.weir import Weir, drops_of, wait_for

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
            stats = weir.stats()
            assert stats["account"]["held"] == 0 and not drops_of(stats), (stats["account"], drops_of(stats))
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
