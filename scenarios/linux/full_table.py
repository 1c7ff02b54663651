#!/usr/bin/python3
"""A full table of routes from Linux: how long it takes to Weir's table, what memory it takes, whether forwarding agrees, and what churn costs.

scenarios/linux/full_table.py --data DIR [--churn SECONDS] [--destinations N]

DIR holds ipv4-2015-11-01.csv.gz and ipv6-2015-11-01.csv.gz (RouteViews, as README.md there says). WEIR=PROGRAM says which program to measure,
target/release/weir otherwise. Needs root; routes are put into a network namespace of its own, which is gone at the end.
"""

import argparse
import gzip
import ipaddress
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("WEIR", str(HERE.parents[1] / "target/release/weir"))

# pylint: disable=wrong-import-position
from lab.netns import Lab  # noqa: E402
from lab.weir import Weir, check_account, wait_for  # noqa: E402

_GATEWAYS = 194


def _mac_of(port):
    """The MAC address of a port in memory: `local_mac` of crates/stage, FNV-1a of its name."""
    value = 0xCBF29CE484222325
    for byte in port.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return bytes([2]) + value.to_bytes(8, "big")[:5]


_MAC = _mac_of("lan")
_CONFIG = """
port {{ name = "lan", device = "mem:replay={frames}", address = {{ "10.255.0.1/24", "2001:db8:a::1/64" }} }}
port {{ name = "wan", device = "mem:null", address = {{ "10.254.0.1/23", "2001:db8:b::1/64" }} }}
local neighbors = {{}}
for n = 2, {gateways} + 1 do
  neighbors["10.254.0." .. n] = "02:00:00:00:01:" .. string.format("%02x", n)
  neighbors["2001:db8:b::" .. string.format("%x", n)] = "02:00:00:00:01:" .. string.format("%02x", n)
end
router {{ ports = {{ "lan", "wan" }}, workers = {{ 1 }}, neighbors = neighbors, linux = {{ netns = "{netns}" }} }}
"""


def table(data, family):
    """Prefixes with the number of their gateway."""
    with gzip.open(data / f"ipv{family}-2015-11-01.csv.gz", "rt") as lines:
        rows = (line.strip().split(",") for line in lines)
        return [(row[0], int(row[1]) % _GATEWAYS + 2) for row in rows if "/" in row[0]]


def gateway(family, number):
    """The address of a gateway."""
    return f"10.254.0.{number}" if family == 4 else f"2001:db8:b::{number:x}"


def batch(path, routes, family, verb):
    """A file for `ip -batch`."""
    with open(path, "w", encoding="utf-8") as file:
        for prefix, number in routes:
            file.write(f"route {verb} {prefix} via {gateway(family, number)}\n")


def frames(path, routes):
    """64-byte packets to destinations in the table, as a capture file."""
    chosen = random.Random(1).sample(routes, 8192)
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for prefix, _ in chosen:
            destination = ipaddress.ip_network(prefix).network_address.packed
            header = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45, 0, 46, 0, 0, 64, 17, 0, bytes([10, 255, 0, 9]), destination))
            total = sum(struct.unpack("!10H", header))
            total = (total & 0xFFFF) + (total >> 16)
            total = (total & 0xFFFF) + (total >> 16)
            struct.pack_into("!H", header, 10, total ^ 0xFFFF)
            udp = struct.pack("!HHHH", 1000, 2000, 26, 0) + bytes(18)
            frame = _MAC + bytes([2, 0, 0, 0, 9, 9]) + b"\x08\x00" + bytes(header) + udp
            file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)


def resident(weir):
    """MiB of the process's own memory."""
    status = pathlib.Path(f"/proc/{weir.process.pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


def routes_of_linux(weir):
    """Prefixes that workers look up, of both families."""
    row = weir.show("vrfs")[0]
    return row["ipv4_routes"] + row["ipv6_routes"]


def forwarded(weir):
    """Packets that left."""
    return weir.show("stats")["ports"]["wan"]["tx_packets"]


def main():
    """Measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--churn", type=int, default=10, metavar="SECONDS")
    parser.add_argument("--destinations", type=int, default=100_000)
    parser.add_argument("--small", type=int, help="only so many prefixes of each family, to try it out")
    options = parser.parse_args()
    tables = {family: table(options.data, family)[: options.small] for family in (4, 6)}
    with Lab() as lab, tempfile.TemporaryDirectory(prefix="weir-full-") as folder:
        folder = pathlib.Path(folder)
        control = lab.namespace("cp")
        control.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.default.disable_ipv6=0")
        control.run("sysctl", "-qw", "net.ipv6.route.max_size=1000000", check=False)
        frames(folder / "frames.pcap", tables[4])
        config = _CONFIG.format(frames=folder / "frames.pcap", netns=control.name, gateways=_GATEWAYS)
        with Weir(None, config) as weir:
            assert wait_for(lambda: control.run("ip", "-o", "link").count("LOWER_UP") == 3), weir.log()
            assert wait_for(lambda: all(row["usable"] for row in weir.show("addresses"))), weir.show("addresses")
            before, memory = routes_of_linux(weir), resident(weir)
            load(control, weir, folder, tables, before, memory)
            agree(control, weir, options.destinations, tables)
            churn(control, weir, folder, tables[4], options.churn)
            withdraw(control, weir, before)
            check_account(weir.show("stats"))


def load(control, weir, folder, tables, before, memory):
    """The whole table, from the kernel to Weir's."""
    for family in (4, 6):
        batch(folder / f"{family}.batch", tables[family], family, "add")
    wanted = before + len({prefix for prefix, _ in tables[4]}) + len({prefix for prefix, _ in tables[6]})
    start, ran = time.monotonic(), weir.ran()
    for family in (4, 6):
        control.run("ip", f"-{family}", "-force", "-batch", str(folder / f"{family}.batch"), check=False, timeout=300)
    told = time.monotonic()
    there = []
    wait_for(lambda: there.append(routes_of_linux(weir)) or there[-1] >= wanted, timeout=30, interval=0.02)
    end = time.monotonic()
    print(f"routes: {there[-1] - before} of {wanted - before}; told by the kernel in {told - start:.2f} s, in Weir's table {end - told:.2f} s after the last")
    # Workers look for packets all the time.
    took = {name: now - ran.get(name, 0) for name, now in weir.ran().items() if not name.removeprefix("weir-").isdigit()}
    told = ", ".join(f"{name} {seconds:.2f}" for name, seconds in sorted(took.items()) if seconds >= 0.1)
    print(f"seconds of a core that it took Weir: {sum(took.values()):.2f} ({told})")
    print(f"memory: {resident(weir) - memory:.0f} MiB more, {resident(weir):.0f} MiB in all")
    lost = weir.log().count("the kernel told more than was read")
    print(f"read anew because messages were lost: {lost} times")
    differing(weir)


def differing(weir):
    """Asks for a comparison."""
    start = time.monotonic()
    rows = json.loads(weir.command("show", "routes", "--compare", "linux", "--json", timeout=60))["rows"]
    print(f"compared in {time.monotonic() - start:.2f} s: {len(rows)} differ {rows[:3]}")


def agree(control, weir, count, tables):
    """Where packets go by Weir's routes, and by the kernel's own word, for random destinations."""
    rows = json.loads(weir.command("show", "routes", "linux", "--json", timeout=120))["rows"]
    for family, bits in ((4, 32), (6, 128)):
        chosen = random.Random(family)
        nets = [ipaddress.ip_network(prefix) for prefix, _ in chosen.choices(tables[family], k=count)]
        addresses = [net[0] + chosen.randrange(min(net.num_addresses, 1 << 64)) for net in nets]
        known = {}
        for row in rows:
            net = ipaddress.ip_network(row["prefix"])
            if net.version == family and row["active"]:
                known.setdefault(net.prefixlen, {})[int(net.network_address)] = row["via"]
        asked = "".join(f"route get {address}\n" for address in addresses)
        answer = subprocess.run(
            ("ip", "netns", "exec", control.name, "ip", f"-{family}", "-force", "-o", "-batch", "-"),
            input=asked, capture_output=True, text=True, timeout=300, check=False,
        ).stdout.splitlines()
        says = {}
        for line in answer:
            words = line.split()
            if "via" in words:
                says[words[0]] = f"{words[words.index('via') + 1]}%{words[words.index('dev') + 1]}"
        wrong = 0
        for address in addresses:
            ours = next((known[length][int(address) >> (bits - length) << (bits - length)] for length in sorted(known, reverse=True)
                         if int(address) >> (bits - length) << (bits - length) in known[length]), None)
            wrong += says.get(str(address)) is None or ours is None or says[str(address)] not in ours
        print(f"IPv{family}: {count} random destinations, {wrong} go elsewhere than `ip route get` says")


def churn(control, weir, folder, routes, seconds):
    """What 20,000 changes a second cost while packets flow: turns with and without, one after the other."""
    some = random.Random(3).sample(routes, min(10_000, len(routes) // 2))
    for turn, shift in ((0, 1), (1, 0)):
        batch(folder / f"churn{turn}", [(prefix, (number + shift) % _GATEWAYS + 2) for prefix, number in some], 4, "replace")
    rates = {False: [], True: []}
    made = [0]
    for with_churn in [False, True] * max(1, seconds // 4):
        stop = threading.Event()

        def change():
            turn = 0
            while not stop.is_set():
                began = time.monotonic()
                control.run("ip", "-force", "-batch", str(folder / f"churn{turn % 2}"), check=False)
                turn, made[0] = turn + 1, made[0] + len(some)
                stop.wait(max(0, len(some) / 20_000 - (time.monotonic() - began)))

        thread = threading.Thread(target=change)
        if with_churn:
            thread.start()
            time.sleep(0.5)
        before, start = forwarded(weir), time.monotonic()
        time.sleep(2)
        rates[with_churn].append((forwarded(weir) - before) / (time.monotonic() - start))
        stop.set()
        if with_churn:
            thread.join()
    quiet, busy = (sorted(rates[key])[len(rates[key]) // 2] for key in (False, True))
    print(f"churn: {quiet / 1e6:.2f} Mpps without, {busy / 1e6:.2f} Mpps with changes ({made[0]} made): {100 * (1 - busy / quiet):.1f} % fewer")
    differing(weir)


def withdraw(control, weir, before):
    """All of it goes at once."""
    control.run("ip", "route", "flush", "proto", "boot", timeout=300)
    control.run("ip", "-6", "route", "flush", "proto", "boot", timeout=300)
    told = time.monotonic()
    wait_for(lambda: routes_of_linux(weir) <= before, timeout=30, interval=0.02)
    print(f"withdrawn: {routes_of_linux(weir) - before} are left {time.monotonic() - told:.2f} s after the last")
    differing(weir)


if __name__ == "__main__":
    main()
