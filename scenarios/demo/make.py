#!/usr/bin/python3
"""Writes demo.pcap: a hundred packets as a router meets them, good and bad, a millisecond apart.

scenarios/demo/make.py      the same file every time
"""

import logging
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
logging.getLogger("scapy").setLevel(logging.ERROR)

# pylint: disable=wrong-import-position
from scapy.compat import raw  # noqa: E402
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_RR  # noqa: E402
from scapy.layers.l2 import ARP, Ether  # noqa: E402

from lab import pcapfile  # noqa: E402

ROUTER = Ether(src="02:00:00:00:01:02", dst="02:00:00:00:00:01")
HOST = "10.0.0.2"


def udp(destination, size=64, port=5000, **fields):
    """A UDP packet of so many bytes with its IP header."""
    return ROUTER / IP(src=HOST, dst=destination, **fields) / UDP(sport=port, dport=9) / bytes(size - 28)


def frames():
    """The packets, in order."""
    yield ROUTER / ARP(op="who-has", hwsrc=ROUTER.src, psrc=HOST, pdst="10.0.0.1")
    # Four pings to the router, on either side of it.
    for n in range(4):
        ping = ICMP(id=1, seq=n) / bytes(range(56))
        yield ROUTER / IP(src=HOST, dst=("10.0.0.1", "192.0.2.1")[n % 2], id=n) / ping
    # Plain traffic: 36 packets of all sizes to a network with one way, 24 of eight flows to one with two ways.
    for n in range(36):
        yield udp(f"198.51.100.{n + 1}", size=28 + 37 * n, id=n)
    for n in range(24):
        yield ROUTER / IP(src=HOST, dst="203.0.113.7", id=n) / TCP(sport=40000 + n % 8, dport=443, flags="A", seq=n // 8)
    # A traceroute: where the TTL ends the router answers.
    for n in range(6):
        yield udp("198.51.100.9", ttl=1, port=33434 + n)
    # Too big for the way out: told so where fragments are forbidden, else cut to pieces.
    for n in range(3):
        yield udp("198.51.100.20", size=1500, flags="DF", id=n)
    for n in range(3):
        yield udp("198.51.100.20", size=1500, id=100 + n)
    # Nobody knows the way, nobody is there, nobody listens.
    for n in range(4):
        yield udp(f"198.18.0.{n + 1}")
    for n in range(2):
        yield udp("192.0.2.77", id=n)
    yield udp("10.0.0.1", port=5353)
    yield ROUTER / IP(src=HOST, dst="10.0.0.1", proto=89) / bytes(24)
    # A packet with a record-route option, which takes the slow path.
    yield ROUTER / IP(src=HOST, dst="198.51.100.30", options=[IPOption_RR(pointer=4, routers=["0.0.0.0"] * 3)]) / UDP()
    # What no router forwards.
    for n in range(3):
        yield udp("198.51.100.40", chksum=0xBAD0 + n)
    yield udp("198.51.100.40", len=2000)
    yield udp("198.51.100.40", ihl=4)
    yield udp("198.51.100.40", version=5)
    for martian in ("127.0.0.1", "0.0.0.0", "224.0.0.5", "255.255.255.255"):
        yield ROUTER / IP(src=martian, dst="198.51.100.50") / UDP() / b"martian"
    yield udp("127.0.0.1")
    yield udp("169.254.1.1")
    yield ROUTER / IP(src=HOST, dst="239.1.2.3") / UDP() / b"multicast"
    yield ROUTER / IP(src=HOST, dst="192.0.2.255") / UDP() / b"directed broadcast"
    yield Ether(src=ROUTER.src, dst="02:00:00:00:99:99") / IP(src=HOST, dst="198.51.100.60") / UDP()
    yield Ether(src=ROUTER.src, dst=ROUTER.dst, type=0x86DD) / (b"\x60" + bytes(39))
    yield Ether(src=ROUTER.src, dst=ROUTER.dst, type=0x0800) / b"\x45"


def main():
    """Writes the file beside this program."""
    stamped = [(0.001 * n, raw(frame)) for n, frame in enumerate(frames(), 1)]
    pcapfile.write(pathlib.Path(__file__).with_name("demo.pcap"), stamped)
    print(f"{len(stamped)} packets")


if __name__ == "__main__":
    main()
