"""What attacks on the relay do to other customers: nothing. Under the virtual clock, with ten packets of an attack beside each of theirs, where bounds
and accounts can be exact; what they cost in time says `weir bench cpp lwaftr`.
"""

import collections
import pathlib
import struct
import tempfile

from lab import pcapfile
from lab.aftr import ACCESS, INTERNET
from lab.packets import ICMP, IP, UDP, Ether, IPv6, IPv6ExtHdrFragment, Raw, checksum, fragment, in6_chksum, is_of_the_link, raw
from lab.scenario import run_until_drained
from lab.weir import check_account, drops_of

NEEDS_ROOT = False

AFTR, HOST, SHARED = "2001:db8:a::1", "198.51.100.9", "203.0.113.1"
# Who attacks or is attacked has ports 4096 to 8191; who must not notice, 8192 to 12287.
BAD, GOOD = ("2001:db8:c::1", 4096), ("2001:db8:c::2", 8192)
MACS = {INTERNET: "02:00:00:00:00:01", ACCESS: "02:00:00:00:00:02"}
PEERS = {INTERNET: "02:00:00:00:01:01", ACCESS: "02:00:00:00:01:02"}

# Fragments that may wait on each side, those of one packet, and errors in a second on each side.
ROOM, OF_ONE, ERRORS = 256, 8, 50

CONFIG = f"""
engine {{ clock = "virtual" }}
port {{ name = "internet", device = "pcap:internet.in,internet.out,timing=clock,mac={MACS[INTERNET]}", address = "192.0.2.1/24" }}
port {{ name = "access", device = "pcap:access.in,access.out,timing=clock,mac={MACS[ACCESS]}", address = "2001:db8:f::1/64" }}
lwaftr {{
  ports     = {{ "internet", "access" }},
  aftr      = "{AFTR}",
  prefixes  = "203.0.113.0/24",
  softwires = {{
    {{ ipv4 = "{SHARED}", psid = 1, psid_length = 4, b4 = "{BAD[0]}" }},
    {{ ipv4 = "{SHARED}", psid = 2, psid_length = 4, b4 = "{GOOD[0]}" }},
    {{ ipv4 = "203.0.113.9", b4 = "2001:db8:c::9" }},
  }},
  ipv4      = {{ interfaces = "internet", error_rate = {{ packets = {ERRORS}, period = "1 s" }}, reassembly = {{ fragments = {ROOM}, per_packet = {OF_ONE} }} }},
  ipv6      = {{ interfaces = "access", error_rate = {{ packets = {ERRORS}, period = "1 s" }}, reassembly = {{ fragments = {ROOM}, per_packet = {OF_ONE} }} }},
  routes    = {{ ["0.0.0.0/0"] = "192.0.2.254", ["2001:db8:c::/48"] = "2001:db8:f::2" }},
  neighbors = {{ ["192.0.2.254"] = "{PEERS[INTERNET]}", ["2001:db8:f::2"] = "{PEERS[ACCESS]}" }},
}}
"""

# From second 5 on, when the relay's own addresses have been tried.
START, SECONDS, PACKETS = 5.0, 2.0, 500
ATTACK = 10 * PACKETS
_MARK = b"undisturbed"


def _frame(port, packet):
    kind = 0x800 if packet[0] >> 4 == 4 else 0x86DD
    return raw(Ether(src=PEERS[port], dst=MACS[port], type=kind)) + packet


def _good(number):
    """The number-th packets of who must not notice, to the customer and from there; one in ten in two pieces."""
    data = _MARK + struct.pack("!I", number)
    down = IP(src=HOST, dst=SHARED, id=number, ttl=64) / UDP(sport=53, dport=GOOD[1] + number % 4096) / data
    up = raw(IP(src=SHARED, dst=HOST, ttl=64) / UDP(sport=GOOD[1] + number % 4096, dport=53) / data)
    outer = IPv6(src=GOOD[0], dst=AFTR, nh=4)
    if number % 10:
        return (INTERNET, [raw(down)]), (ACCESS, [raw(outer / Raw(up))])
    outer.nh = 44
    halves = [outer / IPv6ExtHdrFragment(nh=4, id=number, m=1) / Raw(up[:24]), outer / IPv6ExtHdrFragment(nh=4, id=number, offset=3) / Raw(up[24:])]
    return (INTERNET, [raw(piece) for piece in fragment(down, 16)]), (ACCESS, [raw(half) for half in halves])


def _four(packet):
    """Variants of an IPv4 packet with other identifications, from other hosts."""
    data = raw(packet)
    for number in range(ATTACK):
        header = data[:4] + struct.pack("!H", number) + data[6:10] + b"\0\0" + struct.pack("!I", 0xC6336400 + number % 250) + data[16:20]
        yield header[:10] + struct.pack("!H", checksum(header)) + header[12:] + data[20:]


def _datagram(length=40):
    return raw(UDP(sport=53, dport=BAD[1] + 5, len=8 + length) / bytes(length))


def _piece(offset, more, data):
    """A fragment for the attacked customer."""
    return IP(src=HOST, dst=SHARED, proto=17, flags="MF" if more else 0, frag=offset // 8) / Raw(data)


_TUNNEL = raw(IPv6(src=BAD[0], dst=AFTR, nh=4))


def _from_bad(inner):
    """A packet in the tunnel of who attacks."""
    return _TUNNEL[:4] + struct.pack("!H", len(inner)) + _TUNNEL[6:] + inner


def _error6(quoted):
    """An ICMPv6 error about a tunnel's packet, from a router."""
    message = b"\x01\x03" + bytes(6) + quoted
    header = IPv6(src="2001:db8:7::7", dst=AFTR, nh=58)
    return raw(header / Raw(message[:2] + struct.pack("!H", in6_chksum(58, header, message)) + message[4:]))


class Outcome:
    """What came of an attack: the attack's packets that left by port, and all drops."""

    def __init__(self, left, drops, account):
        self.left, self.drops, self.account = left, drops, account

    def dropped(self, reason):
        """Packets that the relay dropped for a reason."""
        return self.drops.get(f"lwaftr.relay {reason}", 0)


def _under(attack):
    """Runs an attack, a list of (port, packet), beside the traffic of a customer who must not notice."""
    frames = {INTERNET: [], ACCESS: []}
    for number, (port, packet) in enumerate(attack):
        frames[port].append((START + SECONDS * number / len(attack), _frame(port, packet)))
    due = {INTERNET: {}, ACCESS: {}}
    for number in range(PACKETS):
        at = START + SECONDS * number / PACKETS + 0.0001
        for port, pieces in _good(number):
            # Some of the attack comes between two pieces.
            stamps = [at + n / 1000 for n in range(len(pieces))]
            frames[port] += [(stamp, _frame(port, piece)) for stamp, piece in zip(stamps, pieces)]
            due[ACCESS if port == INTERNET else INTERNET][number] = stamps[-1]
    with tempfile.TemporaryDirectory(prefix="weir-attack-") as folder:
        folder = pathlib.Path(folder)
        for port, sent in frames.items():
            pcapfile.write(folder / f"{port}.in", sorted(sent, key=lambda one: one[0]))
        (folder / "test.lua").write_text(CONFIG, encoding="utf-8")
        stats = run_until_drained(folder / "test.lua")
        out = {port: pcapfile.read(folder / f"{port}.out") for port in frames}
    check_account(stats)
    account = stats["account"]
    assert account["received"] == sum(map(len, frames.values())) and account["held"] == 0, account
    left = {}
    for port, all_sent in out.items():
        ours = [(at, frame) for at, frame in all_sent if _MARK in frame and frame[20:21] != b"\x3a"]
        numbers = [struct.unpack_from("!I", frame, frame.index(_MARK) + len(_MARK))[0] for _, frame in ours]
        assert numbers == list(range(PACKETS)), f"{port}: lost, twice or out of order: {collections.Counter(range(PACKETS)) - collections.Counter(numbers)}"
        waits = sorted(at - due[port][number] for number, (at, _) in zip(numbers, ours))
        p99 = waits[len(waits) * 99 // 100]
        assert p99 < 0.001, f"{port}: 99 of 100 wait up to {p99} s"
        left[port] = [frame for _, frame in all_sent if _MARK not in frame and not is_of_the_link(frame)]
    return Outcome(left, drops_of(stats), account)


def _nothing_left(outcome):
    assert outcome.left == {INTERNET: [], ACCESS: []}, {port: len(frames) for port, frames in outcome.left.items()}


def test_endless_first_fragments():
    """Of IPv4, of tunnels, and of IPv4 inside tunnels: as many wait as there is room for, 60 s long; the oldest go for others."""
    first = _piece(0, True, _datagram()[:24])
    in_pieces = IPv6(src=BAD[0], dst=AFTR, nh=44) / IPv6ExtHdrFragment(nh=4, m=1) / Raw(raw(first) + bytes(4))
    outside = [raw(in_pieces)[:44] + struct.pack("!I", number) + raw(in_pieces)[48:] for number in range(ATTACK)]
    inside = [_from_bad(packet) for packet in _four(IP(src=SHARED, dst=HOST, proto=17, flags="MF") / Raw(_datagram()[:24]))]
    for port, packets in ((INTERNET, list(_four(first))), (ACCESS, outside), (ACCESS, inside)):
        outcome = _under([(port, packet) for packet in packets])
        _nothing_left(outcome)
        # Pieces of the good have room, too, for a moment.
        driven_out, late = outcome.dropped("fragment-queue-full"), outcome.dropped("fragment-timeout")
        assert driven_out + late == ATTACK and ROOM - 2 <= late <= ROOM, outcome.drops


def test_fragments_that_overlap_are_tiny_or_lie_about_their_packet():
    """RFC 5722, RFC 1858, RFC 3128: nothing of such a packet gets through."""
    data = _datagram(48)
    overlap = [_piece(0, True, data[:24]), _piece(16, True, data[16:40]), _piece(40, False, data[40:])]
    # The ports are written again, by a second piece at the same place, and by one that begins within the header.
    rewritten = [_piece(0, True, data[:16]), _piece(0, True, b"\xff" * 24), _piece(16, False, data[16:])]
    within = [_piece(0, True, data[:16]), _piece(8, True, b"\xff" * 16), _piece(24, False, data[24:])]
    tiny = [_piece(n, True, data[n : n + 8]) for n in range(0, 8 * (OF_ONE + 1), 8)]
    beyond = [_piece(65528, False, bytes(40)), _piece(0, True, data[:16])]
    for pieces in (overlap, rewritten, within, tiny, beyond):
        variants = [list(_four(piece))[: ATTACK // len(pieces)] for piece in pieces]
        outcome = _under([(INTERNET, packet) for packets in zip(*variants) for packet in packets])
        _nothing_left(outcome)


def test_one_identification_for_all():
    """A host, or who pretends to be one, uses an identification again and again: one piece waits, and all others are copies of it."""
    first = raw(_piece(0, True, _datagram()[:24]))
    others = [first[:-2] + struct.pack("!H", number) for number in range(ATTACK)]
    outcome = _under([(INTERNET, packet) for packet in others])
    _nothing_left(outcome)
    assert sum(outcome.drops.values()) == ATTACK and outcome.dropped("fragment-queue-full") == 0, outcome.drops


def test_misses_with_errors_enabled():
    """Packets for ports of nobody and from tunnels of nobody: so many are told as the rate allows, and all are counted."""
    miss = list(_four(IP(dst=SHARED) / UDP(sport=7, dport=60000) / bytes(18)))
    stranger = raw(IPv6(src="2001:db8:c::66", dst=AFTR, nh=4) / IP(src=SHARED, dst=HOST) / UDP(sport=BAD[1], dport=7) / bytes(18))
    outcome = _under([(INTERNET, packet) for packet in miss] + [(ACCESS, stranger)] * ATTACK)
    assert outcome.dropped("no-softwire-ipv4") == ATTACK and outcome.dropped("no-softwire-ipv6") == ATTACK, outcome.drops
    for port, at, kind in ((INTERNET, 34, b"\x03\x01"), (ACCESS, 54, b"\x01\x05")):
        errors = outcome.left[port]
        assert ERRORS <= len(errors) <= (SECONDS + 1) * ERRORS, len(errors)
        assert all(error[at : at + 2] == kind for error in errors)


def test_storms_of_icmp():
    """Echo requests to nobody, errors about nothing, ICMPv6 errors about tunnels that there are not: nobody is answered. Errors about real tunnels
    are translated, as many as the rate allows."""
    echo = _four(IP(dst=SHARED) / ICMP(type=8, id=60000) / bytes(18))
    about = raw(IP(src="203.0.113.77", dst=HOST) / UDP(sport=5, dport=7))
    errors = _four(IP(dst=SHARED) / ICMP(type=3, code=3) / Raw(about))
    inner = raw(IP(src=HOST, dst=SHARED) / UDP(sport=53, dport=60000) / bytes(8))
    nowhere = _error6(raw(IPv6(src=AFTR, dst=BAD[0], nh=4) / Raw(inner)))
    silent = [(INTERNET, packet) for both in zip(echo, errors) for packet in both][:ATTACK] + [(ACCESS, nowhere)] * ATTACK
    _nothing_left(_under(silent))
    inner = raw(IP(src=HOST, dst=SHARED) / UDP(sport=53, dport=BAD[1]) / bytes(8))
    real = _error6(raw(IPv6(src=AFTR, dst=BAD[0], nh=4) / Raw(inner)))
    outcome = _under([(ACCESS, real)] * ATTACK)
    told = outcome.left[INTERNET]
    assert outcome.left[ACCESS] == [] and ERRORS <= len(told) <= (SECONDS + 1) * ERRORS, len(told)
    assert all(frame[34:36] == b"\x03\x01" for frame in told)


def test_hairpins_without_end():
    """What two customers send back and forth: each round takes a hop, and where none is left, whoever sent it is told, as often as the rate
    allows. A customer who sends on what it got from another, as that other, gets nowhere."""
    across = lambda ttl: _from_bad(raw(IP(src=SHARED, dst="203.0.113.9", ttl=ttl) / UDP(sport=BAD[1], dport=7) / bytes(18)))
    outcome = _under([(ACCESS, across(9))] * ATTACK)
    assert outcome.left[INTERNET] == [] and len(outcome.left[ACCESS]) == ATTACK, outcome.drops
    assert all(frame[54 + 8] == 8 and frame[38:54] == bytes.fromhex("20010db8000c00000000000000000009") for frame in outcome.left[ACCESS])
    outcome = _under([(ACCESS, across(1))] * ATTACK)
    assert outcome.dropped("ttl-expired") == ATTACK and ERRORS <= len(outcome.left[ACCESS]) <= (SECONDS + 1) * ERRORS, outcome.drops
    # The other's router knows no such flow, and sends it back by its default route.
    back = raw(IPv6(src="2001:db8:c::9", dst=AFTR, nh=4) / IP(src=SHARED, dst="203.0.113.9", ttl=7) / UDP(sport=BAD[1], dport=7) / bytes(18))
    outcome = _under([(ACCESS, back)] * ATTACK)
    assert outcome.dropped("no-softwire-ipv6") == ATTACK and outcome.left[INTERNET] == [], outcome.drops
