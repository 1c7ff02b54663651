"""What a border relay of Lightweight 4over6 has to send, computed from the RFCs with scapy: nothing here knows how Weir does it.

A packet is a scapy `IP` without checksum and length, so that scapy computes both whenever it is built.
"""

import random
import socket
import struct

from .packets import ICMP, IP, TCP, UDP, IPOption, IPv6, Raw, checksum, icmp6_error, raw

INTERNET, ACCESS = "internet", "access"
CE, NOT_ECT, ECT1, ECT0 = 3, 0, 1, 2


class Softwire:
    """A softwire: whose ports of which address, between which ends; `k` and `a` as in RFC 7597 section 5.1."""

    def __init__(self, ipv4, b4, aftr, psid=0, k=0, a=0):
        self.ipv4, self.b4, self.aftr, self.psid, self.k, self.a = ipv4, b4, aftr, psid, k, a

    def ports(self):
        """Its ports by the definition: "port = A | PSID | j", A > 0 unless a = 0."""
        m = 16 - self.k - self.a
        for upper in range(1 if self.a else 0, 1 << self.a):
            for j in range(1 << m):
                yield upper << (self.k + m) | self.psid << m | j

    def lua(self):
        """As an entry of the configuration."""
        said = f'ipv4 = "{self.ipv4}", b4 = "{self.b4}", aftr = "{self.aftr}"'
        return f"{{ {said}, psid = {self.psid}, psid_length = {self.k}, psid_offset = {self.a} }}"


def is_about(message):
    """Whether an ICMPv4 message reports an error, and has a packet in it."""
    return message[0] in (3, 4, 5, 11, 12)


def port_of(packet, end):
    """The port of an end ("source" or "destination") of the IPv4 packet in some bytes; None if its protocol has none (RFC 7596 section 8.1)."""
    at, protocol = 4 * (packet[0] & 15), packet[9]
    upper = packet[at:]
    if protocol in (6, 17, 33, 132, 136):
        return struct.unpack_from("!H", upper, 0 if end == "source" else 2)[0]
    if protocol == 1 and upper[0] in (0, 8):
        return struct.unpack_from("!H", upper, 4)[0]
    if protocol == 1 and is_about(upper):
        # "the ICMP payload": that packet went the other way.
        return port_of(upper[8:], "destination" if end == "source" else "source")
    return None


class Relay:
    """The definition. `sent` answers what must leave, as (port, IP packet in bytes), for a packet that came whole."""

    def __init__(self, softwires, icmp_source, mtu4=1500, mtu6=1500):
        self.softwires, self.icmp_source, self.mtu4, self.mtu6 = softwires, icmp_source, mtu4, mtu6
        self._owners = {(wire.ipv4, port): wire for wire in softwires for port in wire.ports()}
        self._alone = {wire.ipv4: wire for wire in softwires if wire.k == wire.a == 0}
        self.shared = {wire.ipv4 for wire in softwires}
        # Of tunnels of which a router said so: the longest packet that their paths carry.
        self._paths = {}

    def owner(self, packet, end):
        """The softwire of an end of the packet in some bytes."""
        address = socket.inet_ntoa(packet[12:16] if end == "source" else packet[16:20])
        port = port_of(packet, end)
        return self._alone.get(address) if port is None else self._owners.get((address, port))

    def from_internet(self, packet):
        """RFC 7596 section 6.2, for a packet to a shared address."""
        data = raw(packet)
        at = 4 * (data[0] & 15)
        if packet.proto == 1 and checksum(data[at:]) != 0:
            return []
        wire = self.owner(data, "destination")
        if wire is None:
            return [] if packet.proto == 1 else self._error(packet, 3, 1, None)
        return self._into(packet, wire, None)

    def from_customer(self, outer, inner):
        """The same for a packet in a tunnel; `outer` is the scapy IPv6 packet around `inner`."""
        data = raw(inner)
        wire = self.owner(data, "source")
        if wire is None or (wire.b4, wire.aftr) != (outer.src, outer.dst):
            source = outer.dst if wire is None else wire.aftr
            return [(ACCESS, raw(_hops(icmp6_error(source, outer / Raw(data), 1, 5), 255)))]
        inner = decapsulated(inner, outer.tc & 3)
        if inner is None:
            return []
        if inner.dst in self.shared:
            to = self.owner(raw(inner), "destination")
            if to is None:
                return [] if inner.proto == 1 else self._error(inner, 3, 1, wire)
            return self._into(inner, to, wire)
        if len(inner) > self.mtu4 and inner.flags.DF:
            return self._error(inner, 3, 4, wire, self.mtu4)
        return [(INTERNET, raw(inner))]

    def told(self, outer, message):
        """An ICMPv6 error about a tunnel (RFC 2473 section 8): kind, code, rest, and what it quotes, `outer` around bytes of IPv4."""
        kind, code, rest, quoted = message
        what = {1: (3, 1, 0), 4: (3, 1, 0)}.get(kind)
        if (kind, code) == (3, 0):
            what = (3, 1, 0)
        if kind == 2:
            what = (3, 4, max(rest - 40, 0))
        to = self.owner(quoted, "destination")
        if what is None or to is None or (to.b4, to.aftr) != (outer.dst, outer.src):
            return []
        # RFC 8201 section 4: none below 1,280, and never more than before.
        if (kind, code) == (2, 0) and rest >= 1280:
            self._paths[to] = min(rest, self._paths.get(to, rest))
        return self._about(quoted, *what, self.owner(quoted, "source"))

    def _into(self, packet, wire, sender):
        """A packet goes into a tunnel; who is told that it cannot is the Internet, or the customer `sender`."""
        if packet.ttl <= 1:
            return self._error(_a_hop_less(packet), 11, 0, sender)
        packet = _a_hop_less(packet)
        longest = min(self.mtu6, self._paths.get(wire, self.mtu6))
        if len(packet) + 40 > longest and packet.flags.DF:
            return self._error(packet, 3, 4, sender, longest - 40)
        return [(ACCESS, raw(_tunnel(wire, packet)))]

    def _error(self, packet, kind, code, sender, rest=0):
        data = raw(packet)
        at = 4 * (data[0] & 15)
        # RFC 1122 section 3.2.2: none about an ICMP error.
        if packet.proto == 1 and is_about(data[at:]):
            return []
        return self._about(data, kind, code, rest, sender)

    def _about(self, data, kind, code, rest, sender):
        """An ICMPv4 error of at most 576 bytes (RFC 1812 section 4.3.2.3), into the tunnel of a customer who is told."""
        message = struct.pack("!BBHI", kind, code, 0, rest) + data[: 576 - 28]
        message = message[:2] + struct.pack("!H", checksum(message)) + message[4:]
        error = IP(src=self.icmp_source, dst=socket.inet_ntoa(data[12:16]), ttl=255, id=0, tos=0, proto=1) / Raw(message)
        if sender is None:
            return [(INTERNET, raw(error))]
        return [(ACCESS, raw(_tunnel(sender, _a_hop_less(error))))]


def _hops(packet, hops):
    packet.hlim = hops
    return packet


def _a_hop_less(packet):
    packet = packet.copy()
    packet.ttl = max(packet.ttl - 1, 0)
    return packet


def _tunnel(wire, packet):
    """RFC 2473 section 3.1 around a packet; the traffic class as in RFC 2983 (uniform) and RFC 6040 (normal mode)."""
    return IPv6(src=wire.aftr, dst=wire.b4, tc=packet.tos, fl=0, hlim=255, nh=4) / Raw(raw(packet))


def decapsulated(packet, outer):
    """A packet that comes out of a tunnel with this ECN field: RFC 6040 figure 4. None if it has to be dropped."""
    inner = packet.tos & 3
    ecn = inner
    if outer == CE:
        if inner == NOT_ECT:
            return None
        ecn = CE
    elif (inner, outer) == (ECT0, ECT1):
        ecn = ECT1
    packet = packet.copy()
    packet.tos = packet.tos & ~3 | ecn
    return packet


def reassembled(frames):
    """IP packets of frames, put together where they are fragments (RFC 791 section 3.2, RFC 8200 section 4.5), in the order of their last
    pieces; and how long the longest piece was. What is not filled up without gaps or overlaps is an error."""
    waiting, packets, longest = {}, [], 0
    for frame in frames:
        packet = frame[14:]
        if packet[0] >> 4 == 4:
            packet = packet[: struct.unpack_from("!H", packet, 2)[0]]
            field = struct.unpack_from("!H", packet, 6)[0]
            key, offset, more, data = (packet[4:6], packet[9:10], packet[12:20]), 8 * (field & 0x1FFF), field & 0x2000, packet[20:]
            is_piece = field & 0x3FFF
        else:
            packet = packet[: 40 + struct.unpack_from("!H", packet, 4)[0]]
            is_piece = packet[6] == 44
            if is_piece:
                field = struct.unpack_from("!H", packet, 42)[0]
                key, offset, more, data = (packet[44:48], packet[8:40]), field & 0xFFF8, field & 1, packet[48:]
        if not is_piece:
            packets.append(packet)
            continue
        longest = max(longest, len(packet))
        assert more == 0 or len(data) % 8 == 0, "a piece in the middle is not a multiple of 8 bytes"
        pieces = waiting.setdefault(key, [])
        pieces.append((offset, more, data, packet))
        pieces.sort(key=lambda piece: piece[0])
        if sum(len(piece[2]) for piece in pieces) == pieces[-1][0] + len(pieces[-1][2]) and not pieces[-1][1]:
            packets.append(_joined(waiting.pop(key)))
    assert not waiting, f"pieces of no whole packet: {waiting}"
    return packets, longest


def _joined(pieces):
    """Pieces in order as one packet."""
    at = 0
    for offset, _, data, _ in pieces:
        assert offset == at, "pieces overlap, or have a gap"
        at += len(data)
    body, first = b"".join(data for _, _, data, _ in pieces), pieces[0][3]
    if first[0] >> 4 == 4:
        header = first[:2] + struct.pack("!H", 20 + at) + first[4:6] + b"\0\0" + first[8:10] + b"\0\0" + first[12:20]
        return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + body
    return first[:4] + struct.pack("!H", at) + first[40:41] + first[7:40] + body


class Traffic:
    """Random packets between the Internet and customers, as both sides could send them."""

    TTLS = (64, 64, 255, 2, 1)
    LENGTHS = (0, 1, 7, 18, 64, 500, 1000, 1400, 1432, 1440, 1472)

    def __init__(self, seed, relay):
        self.rng, self.relay = random.Random(seed), relay
        self._ports = {wire: list(wire.ports()) for wire in relay.softwires}

    def host(self):
        """An address of the Internet."""
        return f"198.51.100.{self.rng.randrange(1, 255)}"

    def wire(self):
        """A softwire."""
        return self.rng.choice(self.relay.softwires)

    def port(self, wire):
        """A port of a softwire; at times any port at all."""
        return self.rng.choice(self._ports[wire]) if self.rng.random() < 0.85 else self.rng.randrange(65536)

    def packet(self, ends, ports, lengths=LENGTHS):
        """A packet between two addresses and ports, of a random protocol."""
        rng, length = self.rng, self.rng.choice(lengths)
        header = IP(src=ends[0], dst=ends[1], id=rng.randrange(65536), ttl=rng.choice(self.TTLS), tos=rng.randrange(256))
        header.flags = rng.choice((0, "DF"))
        if rng.random() < 0.1 and length < 1400:
            # No-operations, and an option that nobody knows (RFC 4727).
            header.options = [IPOption(b"\x01")] * 4 if rng.random() < 0.5 else [IPOption(b"\x9e\x08abcdef")]
        data = Raw(rng.randbytes(length))
        kind = rng.choices(("udp", "tcp", "echo", "reply", "error", "other"), (5, 5, 2, 2, 2, 1))[0]
        if kind == "udp":
            return header / UDP(sport=ports[0], dport=ports[1]) / data
        if kind == "tcp":
            return header / TCP(sport=ports[0], dport=ports[1], seq=rng.randrange(1 << 32), flags="PA", window=rng.randrange(65536)) / data
        if kind == "other":
            header.proto = 47
            return header / Raw(data.load.ljust(8, b"\0"))
        if kind == "error":
            # About a packet that went the other way.
            about = IP(src=ends[1], dst=ends[0], ttl=3) / UDP(sport=ports[1], dport=ports[0]) / data
            return header / ICMP(type=rng.choice((3, 11, 12)), code=0) / Raw(raw(about)[: 28 + length // 2])
        # The identifier is a port of whoever shares an address.
        identifier = ports[1] if ends[1] in self.relay.shared else ports[0]
        return header / ICMP(type=8 if kind == "echo" else 0, id=identifier, seq=1) / data
