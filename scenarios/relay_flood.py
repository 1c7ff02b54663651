#!/usr/bin/python3
"""What an attacker's packet costs the relay, beside a customer's: half of what comes is an attack, as fast as one worker can.

scenarios/relay_flood.py [ROUNDS]     WEIR=PROGRAM says which program to measure, target/release/weir otherwise

Nanoseconds of the worker's own time for each packet, of customers and of attacks, errors enabled; rounds in turns, ports in memory, so that it does
not matter how many others want the core. An attack costs what a round with it takes longer than one with customers' packets alone. With as many of
its packets as of theirs, customers get that much less of a core that is full; of one that is not, they lose nothing (`scenarios/test.sh
lwaftr_attacks`).
"""

import os
import pathlib
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("WEIR", str(HERE.parent / "target/release/weir"))

# pylint: disable=wrong-import-position
from chain import Running  # noqa: E402
from flood import worker_seconds  # noqa: E402
from lab import pcapfile  # noqa: E402
from lab.packets import ICMP, IP, UDP, Ether, IPv6, IPv6ExtHdrFragment, Raw, raw  # noqa: E402

CONFIG = """
port {{ name = "internet", device = "mem:replay={0}-internet.pcap,mac=02:00:00:00:00:01", address = "192.0.2.1/24" }}
port {{ name = "access", device = "mem:replay={0}-access.pcap,mac=02:00:00:00:00:02", address = "2001:db8:f::1/64" }}
lwaftr {{
  ports     = {{ "internet", "access" }}, workers = {{ 1 }}, aftr = "2001:db8:a::1", prefixes = "203.0.113.0/24",
  softwires = {{
    {{ ipv4 = "203.0.113.1", psid = 1, psid_length = 4, b4 = "2001:db8:c::1" }},
    {{ ipv4 = "203.0.113.1", psid = 2, psid_length = 4, b4 = "2001:db8:c::2" }},
  }},
  routes    = {{ ["0.0.0.0/0"] = "192.0.2.254", ["2001:db8:c::/48"] = "2001:db8:f::2" }},
  neighbors = {{ ["192.0.2.254"] = "02:00:00:00:01:01", ["2001:db8:f::2"] = "02:00:00:00:01:02" }},
}}
"""
SHARED, FRAMES = "203.0.113.1", 2048


def _down(number, packet=None, port=8192):
    """The number-th packet from the Internet, to a customer who is not attacked unless something else is said."""
    packet = packet or UDP(sport=53, dport=port + number % 4096) / bytes(18)
    return IP(src=f"198.51.100.{number % 250}", dst=SHARED, id=number) / packet


def _up(number, port=8192, b4="2001:db8:c::2"):
    inner = IP(src=SHARED, dst=f"198.51.100.{number % 250}") / UDP(sport=port + number % 4096, dport=53) / bytes(18)
    return IPv6(src=b4, dst="2001:db8:a::1", nh=4) / Raw(raw(inner))


def _first(number):
    packet = _down(number, Raw(raw(UDP(sport=53, dport=4096, len=99)) + bytes(16)))
    packet.proto, packet.flags = 17, "MF"
    return packet


def _second(number):
    """Overlaps the one before."""
    packet = _first(number - 1) if number % 2 else _first(number)
    packet.frag = number % 2
    return packet


def _first6(number):
    inner = raw(_up(number, 4096, "2001:db8:c::1"))[40:80]
    return IPv6(src="2001:db8:c::1", dst="2001:db8:a::1", nh=44) / IPv6ExtHdrFragment(nh=4, m=1, id=number) / Raw(inner)


# What comes from the Internet, and what from customers, beside what is no attack.
ATTACKS = {
    "nothing": (None, None),
    "a wrong checksum": (lambda n: _wrong(_down(n)), None),
    "ports of nobody": (lambda n: _down(n, port=49152), None),
    "tunnels of nobody": (None, lambda n: _up(n, 4096, "2001:db8:c::66")),
    "first fragments": (_first, None),
    "fragments that overlap": (_second, None),
    "first fragments of tunnels": (None, _first6),
    "echo requests to nobody": (lambda n: _down(n, ICMP(type=8, id=49152 + n % 4096) / bytes(18)), None),
}


def _wrong(packet):
    packet.chksum = 1
    return packet


def prepare(folder):
    """Writes what comes, attack by attack; packets of customers and of the attacker take turns."""
    frame = lambda port, packet: (0, raw(Ether(src=f"02:00:00:00:01:0{port}", dst=f"02:00:00:00:00:0{port}") / packet))
    for port, (side, usual) in enumerate((("internet", _down), ("access", _up)), 1):
        good = [frame(port, usual(number)) for number in range(FRAMES)]
        for attack, kinds in enumerate(ATTACKS.values()):
            bad = kinds[port - 1]
            both = [one for number, each in enumerate(good) for one in (each, frame(port, bad(number)))] if bad else good
            pcapfile.write(folder / f"{attack}-{side}.pcap", both)


def sample(folder, attack, seconds=1.0):
    """Nanoseconds of the worker for each packet that came."""
    with Running(folder, "relay", CONFIG.format(attack)) as relay:
        while not all(row["usable"] for row in relay.show("addresses")["rows"]):
            time.sleep(0.1)

        def now():
            ports = relay.show("stats")["ports"]
            return sum(port["rx_packets"] for port in ports.values()), worker_seconds(relay.process.pid)

        packets, cpu = now()
        time.sleep(seconds)
        more, more_cpu = now()
    return 1e9 * (more_cpu - cpu) / (more - packets)


def main(rounds):
    """Measures and prints."""
    found = {name: [] for name in ATTACKS}
    with tempfile.TemporaryDirectory(prefix="weir-relay-flood-") as folder:
        folder = pathlib.Path(folder)
        prepare(folder)
        for _ in range(rounds):
            for number, name in enumerate(ATTACKS):
                found[name].append(sample(folder, number))
    usual = found.pop("nothing")
    print(f"customers alone: {statistics.median(usual):.0f} ns a packet, source and sink included, from {min(usual):.0f} to {max(usual):.0f}")
    for name, each in found.items():
        # As many packets come by either port, and of one port half are the attack's.
        costs = [4 * whole - 3 * alone for whole, alone in zip(each, usual)]
        print(f"{name}: {statistics.median(costs):.0f} ns each, from {min(costs):.0f} to {max(costs):.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3))
