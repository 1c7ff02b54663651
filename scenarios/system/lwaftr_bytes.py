"""What the relay sends, byte by byte, beside what the RFCs have it send as scapy computes it: random packets of both sides."""

import pathlib
import struct
import tempfile

from lab import pcapfile
from lab.aftr import ACCESS, INTERNET, Relay, Softwire, Traffic, reassembled
from lab.packets import (
    IP,
    UDP,
    Ether,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    HBHOptUnknown,
    PadN,
    Raw,
    fragment,
    fragment6,
    in6_chksum,
    is_of_the_link,
    raw,
)
from lab.scenario import run_until_drained
from lab.weir import check_account

NEEDS_ROOT = False

AFTRS = ("2001:db8:a::1", "2001:db8:a::2")
# Addresses that are divided in all ways: by sixteen, by 64 with reserved ports, by a PSID for each port, by two, and not at all.
WIRES = [
    *(Softwire("203.0.113.1", f"2001:db8:c::{psid + 1:x}", AFTRS[psid % 2], psid, 4) for psid in (0, 1, 2, 15)),
    *(Softwire("203.0.113.2", f"2001:db8:c:1::{psid + 1:x}", AFTRS[0], psid, 6, 4) for psid in (0, 1, 63)),
    *(Softwire("203.0.113.3", f"2001:db8:c:2::{psid:x}", AFTRS[1], psid, 16) for psid in (80, 7850, 65535)),
    *(Softwire("203.0.113.4", f"2001:db8:c:3::{psid + 1:x}", AFTRS[0], psid, 1, 15) for psid in (0, 1)),
    Softwire("203.0.113.9", "2001:db8:c:9::9", AFTRS[0]),
]

CONFIG = """
engine {{ clock = "virtual" }}
port {{ name = "internet", device = "pcap:internet.in,internet.out,timing=clock,mac={internet}", address = "192.0.2.1/24" }}
port {{ name = "access", device = "pcap:access.in,access.out,timing=clock,mac={access}", address = "2001:db8:f::1/64" }}
lwaftr {{
  ports     = {{ "internet", "access" }},
  aftr      = {{ "2001:db8:a::1", "2001:db8:a::2" }},
  softwires = {{ {softwires} }},
  prefixes  = "203.0.113.0/24",
  ipv4      = {{ interfaces = "internet", mtu = {mtus[0]}, error_rate = {{ packets = 1000000 }} }},
  ipv6      = {{ interfaces = "access", mtu = {mtus[1]}, error_rate = {{ packets = 1000000 }} }},
  routes    = {{ ["0.0.0.0/0"] = "192.0.2.254", ["2001:db8:c::/48"] = "2001:db8:f::2" }},
  neighbors = {{ ["192.0.2.254"] = "{internet_peer}", ["2001:db8:f::2"] = "{access_peer}" }},
}}
"""
MACS = {"internet": "02:00:00:00:00:01", "access": "02:00:00:00:00:02", "internet_peer": "02:00:00:00:01:01", "access_peer": "02:00:00:00:01:02"}


class Case:
    """Frames that are sent one after the other, by a port, and what has to leave for them. What counts for later packets is sent `alone`."""

    def __init__(self, port, frames, expected, alone=False):
        self.port, self.frames, self.expected, self.alone = port, frames, expected, alone


def _frame(port, packet):
    """A frame to the relay, filled up with what is none of its packet (IEEE 802.3 clause 4.2.3.3 leaves open what)."""
    kind = 0x800 if packet[0] >> 4 == 4 else 0x86DD
    return (raw(Ether(src=MACS[f"{port}_peer"], dst=MACS[port], type=kind)) + packet).ljust(60, b"\xee")


def _damaged(data, at):
    """A packet with a bit of a checksum flipped: dropped without a word (RFC 1812 section 5.2.2, RFC 792)."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def _in_pieces(traffic, packet):
    """A packet as fragments in any order, without the mark that forbids them."""
    packet = packet.copy()
    packet.flags = 0
    length = len(raw(packet)) - 20
    # At least 16 bytes of a packet are in its first fragment: less is an attack (RFC 1858).
    size = 8 * traffic.rng.randrange(max(2, length // 160), max(3, length // 8))
    pieces = [raw(piece) for piece in fragment(IP(raw(packet)), fragsize=size)]
    traffic.rng.shuffle(pieces)
    return packet, pieces


def _from_internet(traffic, relay):
    """A packet for a shared address, whole, in pieces or damaged."""
    rng, wire = traffic.rng, traffic.wire()
    packet = traffic.packet((traffic.host(), wire.ipv4), (rng.randrange(65536), traffic.port(wire)))
    data, kind = raw(packet), rng.random()
    if kind < 0.03:
        return Case(INTERNET, [_frame(INTERNET, _damaged(data, 10))], [])
    if kind < 0.06 and packet.proto == 1 and not packet.options:
        return Case(INTERNET, [_frame(INTERNET, _damaged(data, 22))], [])
    if kind < 0.2 and not packet.options and len(data) > 44:
        whole, pieces = _in_pieces(traffic, packet)
        return Case(INTERNET, [_frame(INTERNET, piece) for piece in pieces], relay.from_internet(whole))
    return Case(INTERNET, [_frame(INTERNET, data)], relay.from_internet(packet))


def _from_customer(traffic, relay):
    """A packet in a tunnel, to the Internet or to another customer; at times the tunnel is another's."""
    rng, wire, kind = traffic.rng, traffic.wire(), traffic.rng.random()
    other = traffic.wire()
    # Who talks to itself is no case of its own.
    to, port = (other.ipv4, traffic.port(other)) if kind < 0.3 and other is not wire else (traffic.host(), rng.randrange(65536))
    lengths = traffic.LENGTHS if rng.random() < 0.8 else (1500, 2000, 3000)
    inner = traffic.packet((wire.ipv4, to), (traffic.port(wire), port), lengths)
    ends = (wire.b4, wire.aftr) if rng.random() < 0.9 else (traffic.wire().b4, rng.choice(AFTRS))
    outer = IPv6(src=ends[0], dst=ends[1], tc=rng.randrange(256), fl=rng.randrange(1 << 20), hlim=rng.randrange(1, 256), nh=4)
    if kind > 0.97:
        data = raw(outer / Raw(_damaged(raw(inner), 10)))
        return Case(ACCESS, [_frame(ACCESS, data)], []) if len(data) <= 1500 else None
    if kind > 0.9:
        # What Linux puts in front if it is not told otherwise (RFC 2473 section 4.1.1): how many more tunnels there may be.
        outer.nh = 60
        outer = outer / IPv6ExtHdrDestOpt(nh=4, options=[HBHOptUnknown(otype=4, optdata=b"\x04"), PadN(optdata=b"\0")])
    whole = outer / Raw(raw(inner))
    expected = relay.from_customer(outer, inner)
    if len(whole) <= 1500:
        return Case(ACCESS, [_frame(ACCESS, raw(whole))], expected)
    if expected and expected[0][1][0] >> 4 == 6 and expected[0][1][6] == 58:
        return None
    if kind > 0.9:
        return None
    outer.nh = 44
    whole = outer / IPv6ExtHdrFragment(nh=4, id=rng.randrange(1 << 32)) / Raw(raw(inner))
    pieces = [raw(piece) for piece in fragment6(whole, rng.randrange(600, 1500))]
    rng.shuffle(pieces)
    return Case(ACCESS, [_frame(ACCESS, piece) for piece in pieces], expected)


def _told(traffic, relay):
    """An ICMPv6 error of a router on the way of a tunnel, about what the relay sent (RFC 2473 section 8)."""
    rng, wire = traffic.rng, traffic.wire()
    source = traffic.host() if rng.random() < 0.8 else traffic.wire().ipv4
    inner = IP(src=source, dst=wire.ipv4, ttl=60, id=7) / UDP(sport=traffic.port(traffic.wire()), dport=traffic.port(wire)) / Raw(rng.randbytes(rng.choice((8, 500))))
    b4 = wire.b4 if rng.random() < 0.9 else traffic.wire().b4
    outer = IPv6(src=wire.aftr, dst=b4, hlim=60, nh=4)
    kind, code = rng.choice(((1, 0), (1, 3), (3, 0), (3, 1), (2, 0), (4, 1)))
    rest = rng.choice((1280, 1400, 777)) if kind == 2 else 0
    about = raw(outer / Raw(raw(inner)))[:1232]
    message = struct.pack("!BBHI", kind, code, 0, rest) + about
    header = IPv6(src="2001:db8:7::7", dst=wire.aftr, hlim=64, nh=58)
    whole = raw(header / Raw(message[:2] + struct.pack("!H", in6_chksum(58, header, message)) + message[4:]))
    return Case(ACCESS, [_frame(ACCESS, whole)], relay.told(outer, (kind, code, rest, about[40:])), alone=True)


def cases_of(seed, count, relay):
    """So many random cases for a relay with these softwires."""
    traffic = Traffic(seed, relay)
    while count > 0:
        make = traffic.rng.choices((_from_internet, _from_customer, _told), (10, 10, 1))[0]
        case = make(traffic, relay)
        # No link here carries more than 1,500 bytes.
        if case is not None and max(map(len, case.frames)) <= 1514:
            count -= 1
            yield case


def _batches(cases, burst):
    """The number of the batch of each case: as many as `burst` are together, and one that is alone with none."""
    number, together = 0, 0
    for case in cases:
        if together == burst or (case.alone and together):
            number, together = number + 1, 0
        yield number
        together = burst if case.alone else together + 1


def _play(folder, cases, mtus, burst):
    """Lets the relay have all frames, so many cases at a time, a millisecond apart; answers the IP packets that left by each port, the longest
    piece of one, and all drops."""
    frames = {INTERNET: [], ACCESS: []}
    for number, case in zip(_batches(cases, burst), cases):
        # By then its own addresses have been tried (RFC 4862 section 5.4).
        frames[case.port] += [(5 + number / 1000, frame) for frame in case.frames]
    for port, sent in frames.items():
        pcapfile.write(folder / f"{port}.in", sent)
    softwires = ", ".join(wire.lua() for wire in WIRES)
    (folder / "test.lua").write_text(CONFIG.format(softwires=softwires, mtus=mtus, **MACS), encoding="utf-8")
    stats = run_until_drained(folder / "test.lua")
    check_account(stats)
    assert stats["account"]["received"] == sum(map(len, frames.values())), stats["account"]
    assert stats["account"]["held"] == 0, stats["account"]
    left, longest = {}, {}
    for port in frames:
        got = [frame for _, frame in pcapfile.read(folder / f"{port}.out") if not is_of_the_link(frame)]
        ends = bytes.fromhex((MACS[f"{port}_peer"] + MACS[port]).replace(":", ""))
        assert all(frame[:12] == ends for frame in got), "addressed to somebody else"
        left[port], longest[port] = reassembled(got)
    return left, longest


def _compare(seed, count, mtus, burst):
    relay = Relay(WIRES, "192.0.2.1", *mtus)
    cases = list(cases_of(seed, count, relay))
    with tempfile.TemporaryDirectory(prefix="weir-bytes-") as folder:
        left, longest = _play(pathlib.Path(folder), cases, mtus, burst)
    assert longest[INTERNET] <= mtus[0] and longest[ACCESS] <= mtus[1], longest
    for port in (INTERNET, ACCESS):
        expected = [(number, packet) for number, case in enumerate(cases) for to, packet in case.expected if to == port]
        got = left[port]
        if burst > 1:
            # Of one batch, some overtake others.
            expected, got = sorted(expected, key=lambda one: one[1]), sorted(got)
        for (number, packet), found in zip(expected, got):
            if packet != found:
                raise AssertionError(f"{port}: {_told_apart(cases[number], packet, found, got)}")
        assert len(expected) == len(got), f"{port}: {len(got)} packets left, {len(expected)} should have"


def _told_apart(case, packet, found, got):
    """What is wrong with a packet, with what was sent for it."""
    show = lambda data: f"{(IP if data[0] >> 4 == 4 else IPv6)(data).summary()} of {len(data)} bytes: {data[:100].hex()}"
    at = next((n for n, (a, b) in enumerate(zip(packet, found)) if a != b), min(len(packet), len(found)))
    where = "it came at another place" if packet in got else f"it never came; what came instead differs from byte {at} on"
    sent = "\n".join(frame[:160].hex() for frame in case.frames)
    return f"expected\n{show(packet)}\ngot\n{show(found)}\n{where}; sent by {case.port} was\n{sent}"


def test_what_leaves_is_what_the_standards_say():
    """One packet at a time, in order: TCP, UDP, ICMP and others, all traffic classes, options, fragments of both sides, padding, hairpins, wrong
    tunnels and ports, MTUs, errors, and what routers tell of tunnels."""
    _compare(seed=16, count=800, mtus=(1500, 1500), burst=1)
    _compare(seed=17, count=400, mtus=(1400, 1280), burst=1)


def test_the_same_in_batches():
    """The same kinds of packets by the batch, as the fast path has them."""
    _compare(seed=18, count=1600, mtus=(1500, 1500), burst=48)
