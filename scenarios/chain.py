#!/usr/bin/python3
"""What the relay carries as a guest behind a switch, and what it costs to be one (Unify D5.4, section 4.4.2).

scenarios/chain.py [ROUNDS]     WEIR=PROGRAM says which program to measure, target/release/weir otherwise

A switch (`forward`, one core) replays packets of both sides from memory as fast as they are taken, into two vhost ports; a guest (one core) has the
other ends (virtio_user), and what it sends back is what counts. The guest is, in turns: the relay; `forward`, which only carries packets from one
port to the other; and, without any switch, the relay alone. Packets are of 1,000 customers at random: 64 bytes from the Internet, 104 from the
customers. Needs two cores to itself, and no root.
"""

import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("WEIR", str(HERE.parent / "target/release/weir"))

# pylint: disable=wrong-import-position
from lab import pcapfile  # noqa: E402
from lab.packets import IP, UDP, Ether, IPv6, Raw, raw  # noqa: E402
from lab.weir import PROGRAM, check_account  # noqa: E402

SWITCH = """
port { name = "internet", device = "mem:replay=internet.pcap" }
port { name = "access", device = "mem:replay=access.pcap" }
port { name = "guest-internet", device = "vhost:internet.sock" }
port { name = "guest-access", device = "vhost:access.sock" }
forward { pairs = { { "internet", "guest-internet" }, { "access", "guest-access" } }, workers = { 0 } }
"""
PORTS = """
port {{ name = "internet", device = "{0},mac=02:00:00:00:00:01", address = "192.0.2.1/24" }}
port {{ name = "access", device = "{1},mac=02:00:00:00:00:02", address = "2001:db8:f::1/64" }}
"""
RELAY = """
lwaftr {
  ports     = { "internet", "access" }, workers = { 1 },
  aftr      = "2001:db8:a::1", softwires = "softwires.csv", port_sets = { ["203.0.112.0/23"] = { psid_length = 4 } },
  routes    = { ["0.0.0.0/0"] = "192.0.2.254", ["2001:db8:c::/48"] = "2001:db8:f::2" },
  neighbors = { ["192.0.2.254"] = "02:00:00:00:01:01", ["2001:db8:f::2"] = "02:00:00:00:01:02" },
}
"""
NOTHING = 'forward { pairs = { { "internet", "access" } }, workers = { 1 } }'
VIRTIO = PORTS.format("virtio_user:internet.sock", "virtio_user:access.sock")
CUSTOMERS, FRAMES = 1000, 4096

# A name, the guest's configuration, and whether there is a switch.
CASES = (
    ("relay behind the switch", VIRTIO + RELAY, True),
    ("nothing behind the switch", VIRTIO.replace(', address = "192.0.2.1/24"', "").replace(', address = "2001:db8:f::1/64"', "") + NOTHING, True),
    ("relay alone", PORTS.format("mem:replay=internet.pcap", "mem:replay=access.pcap") + RELAY, False),
)


def prepare(folder):
    """Writes the packets and the softwires of 1,000 customers, sixteen to an address."""
    rng, softwires, down, up = random.Random(4), ["ipv4,psid,b4"], [], []
    customers = [(f"203.0.{112 + n // 4096}.{n // 16 % 256}", n % 16, f"2001:db8:c::{n + 1:x}") for n in range(CUSTOMERS)]
    softwires += [f"{ipv4},{psid},{b4}" for ipv4, psid, b4 in customers]
    (folder / "softwires.csv").write_text("\n".join(softwires) + "\n", encoding="ascii")
    for _ in range(FRAMES):
        ipv4, psid, b4 = rng.choice(customers)
        port, host = psid << 12 | rng.randrange(4096), f"198.51.100.{rng.randrange(1, 255)}"
        there = IP(src=host, dst=ipv4) / UDP(sport=53, dport=port) / bytes(18)
        back = IP(src=ipv4, dst=host) / UDP(sport=port, dport=53) / bytes(18)
        down.append((0, raw(Ether(src="02:00:00:00:01:01", dst="02:00:00:00:00:01") / there)))
        tunnel = IPv6(src=b4, dst="2001:db8:a::1", nh=4) / Raw(raw(back))
        up.append((0, raw(Ether(src="02:00:00:00:01:02", dst="02:00:00:00:00:02") / tunnel)))
    pcapfile.write(folder / "internet.pcap", down)
    pcapfile.write(folder / "access.pcap", up)


class Running:
    """A Weir with this configuration, until the end of the `with`."""

    def __init__(self, folder, name, config):
        script, self.socket = folder / f"{name}.lua", folder / f"{name}.ctl"
        script.write_text(config, encoding="utf-8")
        command = (PROGRAM, "run", script, "--socket", self.socket, "--name", f"{name}-{os.getpid()}")
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit(self.process.communicate()[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate()

    def show(self, what):
        """A table, or the numbers."""
        return json.loads(subprocess.check_output((PROGRAM, "show", what, "--json", "--socket", self.socket), text=True))

    def sent(self):
        """Packets that left by each side."""
        stats = self.show("stats")
        check_account(stats)
        return [stats["ports"][port]["tx_packets"] for port in ("internet", "access")]


def rates(folder, guest, has_switch, seconds):
    """Packets in a second to the Internet and to the customers."""
    others = [Running(folder, "switch", SWITCH.replace("vhost:", f"vhost:{folder}/"))] if has_switch else []
    try:
        with Running(folder, "guest", guest.replace("virtio_user:", f"virtio_user:{folder}/")) as relay:
            counted = others[0] if others else relay
            # Own addresses are tried for a second or more (RFC 4862 section 5.4).
            while not all(row["usable"] for row in relay.show("addresses").get("rows", [])) if "lwaftr" in guest else False:
                time.sleep(0.1)
            before, start = counted.sent(), time.monotonic()
            time.sleep(seconds)
            after, took = counted.sent(), time.monotonic() - start
            return [(now - then) / took for now, then in zip(after, before)]
    finally:
        for other in others:
            other.__exit__()


def main(rounds, seconds=1.0):
    """Measures and prints."""
    totals = {name: [] for name, _, _ in CASES}
    with tempfile.TemporaryDirectory(prefix="weir-chain-") as folder:
        folder = pathlib.Path(folder)
        prepare(folder)
        for number in range(1, rounds + 1):
            for name, guest, has_switch in CASES:
                internet, access = rates(folder, guest, has_switch, seconds)
                totals[name].append((internet + access) / 1e6)
                print(f"round {number}: {name}: {internet / 1e6:.2f} Mpps to the Internet, {access / 1e6:.2f} to the customers", flush=True)
    for name, each in totals.items():
        print(f"{name}: median {statistics.median(each):.2f} Mpps in both directions, from {min(each):.2f} to {max(each):.2f}")
    return 0 if all(min(each) > 0 for each in totals.values()) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
