#!/usr/bin/env python3
"""Makes two captures of a broadband gateway with 3,000 subscribers, one of whom sends more than was bought.

    python3 tools/flowstat/examples/oversubscribed.py FOLDER

FOLDER/sent.pcap is what came from the subscribers, with two VLAN tags; FOLDER/received.pcap what went to the core, in GRE and MPLS;
FOLDER/subscribers.csv says whose tags and key are whose. It is always the same. Nothing is needed but Python.

Each subscriber has 1 Mbit/s, in credits that are handed out every 40 ms and do not add up, and a queue of 64 packets. Packets are
stamped in nanoseconds, and of each the first 96 bytes are kept.
"""

import csv
import random
import struct
import sys
from collections import deque
from pathlib import Path

SUBSCRIBERS = 3000
GREEDY = 1729
RATE = 1_000_000  # bit/s
PERIOD = 40_000_000  # ns
QUEUE = 64  # packets
LENGTH = 1000  # bytes of an IP packet
USUAL = 25  # packets per second
TOO_MANY = 250
SECONDS = 3
START = 1_767_225_600  # 1 January 2026
SNAP = 96
NS = 1_000_000_000


def checksum(header):
    total = sum(struct.unpack("!10H", header))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(length, identification, ttl, protocol, source, destination):
    parts = [0x45, 0, length, identification, 0, ttl, protocol, 0, source, destination]
    parts[7] = checksum(struct.pack("!BBHHHBBHII", *parts))
    return struct.pack("!BBHHHBBHII", *parts)


def of_subscriber(n):
    """The subscriber's VLAN tags and GRE key."""
    return 100 + n // 100, 1 + n % 100, 0x10000 + n


def packet(n, number, ttl):
    """The first bytes of a subscriber's IP packet: its headers, and who sent it and its number as data."""
    ip = ipv4(LENGTH, number & 0xFFFF, ttl, 17, 0x0A000000 + n, 0xC6336400 + n % 250)
    return ip + struct.pack("!HHHHII", 10000 + n, 9, LENGTH - 20, 0, n, number) + bytes(SNAP)


def upstream(n, number):
    svlan, cvlan, _ = of_subscriber(n)
    macs = b"\x02\x00\x00\x00\x00\x01" + struct.pack("!HI", 0x0202, n)
    return macs + struct.pack("!HHHHH", 0x88A8, svlan, 0x8100, cvlan, 0x0800) + packet(n, number, 64)


def downstream(n, number):
    _, _, key = of_subscriber(n)
    macs = b"\x02\x00\x00\x00\x00\x03\x02\x00\x00\x00\x00\x02"
    outer = ipv4(20 + 8 + LENGTH, number & 0xFFFF, 255, 47, 0xC0000201, 0xC0000202)
    gre = struct.pack("!HHI", 0x2000, 0x0800, key)
    label = struct.pack("!I", 1000 << 12 | 1 << 8 | 255)
    return macs + struct.pack("!H", 0x8847) + label + outer + gre + packet(n, number, 63)


def sendings(chance):
    """When each packet of each subscriber is sent: pairs of a time and a subscriber."""
    for n in range(SUBSCRIBERS):
        each = NS // (TOO_MANY if n == GREEDY else USUAL)
        at = chance.randrange(each)
        while at < SECONDS * NS:
            yield at, n
            at += each


def in_order(left):
    """The same times, but packets of a subscriber leave in order and not closer than a link of 10 Gbit/s allows."""
    last = 0
    for n, time in enumerate(left):
        if time is not None:
            last = left[n] = max(time, last + 837)
    return left


def shaped(times, chance):
    """When packets that come at these times leave the gateway; None if it drops them."""
    credits, renewed, waiting, left = 0, -PERIOD, deque(), []
    offset = chance.randrange(PERIOD)
    for time in times:
        # What waits leaves as credits come, until now or until nothing waits.
        while waiting and renewed + PERIOD <= time:
            renewed, credits = renewed + PERIOD, RATE * PERIOD // (8 * NS)
            while waiting and credits >= LENGTH:
                credits -= LENGTH
                left[waiting.popleft()] = renewed + processing(chance)
        period = (time - offset) // PERIOD * PERIOD + offset
        if period > renewed:
            renewed, credits = period, RATE * PERIOD // (8 * NS)
        if not waiting and credits >= LENGTH:
            credits -= LENGTH
            left.append(time + processing(chance))
        else:
            left.append(None)
            if len(waiting) < QUEUE:
                waiting.append(len(left) - 1)
    while waiting:
        renewed, credits = renewed + PERIOD, RATE * PERIOD // (8 * NS)
        while waiting and credits >= LENGTH:
            credits -= LENGTH
            left[waiting.popleft()] = renewed + processing(chance)
    return in_order(left)


def processing(chance):
    """How long a packet takes that need not wait, ns: some 20 us, and seldom much more."""
    return 20_000 + int(chance.expovariate(1 / 6000))


def write(path, link_header, records):
    """Writes a pcap with nanoseconds; records are a time, a frame's first bytes, and its length."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAP, 1))
        for time, frame, _ in records:
            kept = frame[:SNAP]
            length = link_header + LENGTH
            file.write(struct.pack("<IIII", START + time // NS, time % NS, len(kept), length) + kept)


def main(folder):
    chance = random.Random(1)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "subscribers.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["svlan", "cvlan", "gre", "subscriber"])
        writer.writerows([*of_subscriber(n), f"house-{n}"] for n in range(SUBSCRIBERS))
    times = [[] for _ in range(SUBSCRIBERS)]
    for time, n in sendings(chance):
        times[n].append(time)
    sent, received = [], []
    for n, own in enumerate(times):
        for number, (time, left) in enumerate(zip(own, shaped(own, chance))):
            sent.append((time, n, number))
            if left is not None:
                received.append((left, n, number))
    sent.sort()
    received.sort()
    write(folder / "sent.pcap", 22, ((time, upstream(n, number), number) for time, n, number in sent))
    write(folder / "received.pcap", 46, ((time, downstream(n, number), number) for time, n, number in received))
    print(f"{len(sent)} packets sent, {len(received)} received, {SUBSCRIBERS} subscribers")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
