"""Packets to send and to expect: written with scapy, compared byte by byte."""

import logging
import socket
import struct

logging.getLogger("scapy").setLevel(logging.ERROR)

# pylint: disable=wrong-import-position
from scapy.compat import raw  # noqa: E402
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption, IPOption_LSRR, IPOption_RR, fragment  # noqa: E402
from scapy.layers.inet6 import (  # noqa: E402
    HBHOptUnknown,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6ND_NS,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    PadN,
    RouterAlert,
    fragment6,
    in6_chksum,
)
from scapy.contrib.mpls import MPLS  # noqa: E402
from scapy.layers.l2 import ARP, GRE, Dot1AD, Dot1Q, Ether  # noqa: E402
from scapy.packet import Packet, Raw  # noqa: E402

# An identification that may be anything: RFC 6864 leaves it to the sender of a packet that is no fragment.
ANY_ID = 0xABCD

# "as much of the original datagram as possible without the length of the ICMP datagram exceeding 576 bytes", RFC 1812 section
# 4.3.2.3, less the error's own headers.
QUOTE = 576 - 20 - 8


def payload(length):
    """Bytes that tell where they come from, so that a fragment in the wrong place is seen."""
    return b"".join(struct.pack("!H", n & 0xFFFF) for n in range((length + 1) // 2))[:length]


def icmp_error(source, about, kind, code, rest=0, about_link=True):
    """The IPv4 packet that reports `about` (as it arrived) to its sender: RFC 792, RFC 1191, RFC 1812 section 4.3.

    `rest` is the second word of the ICMP header: 0, the MTU, or the pointer in its first byte.
    """
    original = raw(about.payload if isinstance(about, Ether) and about_link else about)
    total = struct.unpack("!H", original[2:4])[0]
    quote = original[: min(total, QUOTE)]
    message = struct.pack("!BBHI", kind, code, 0, rest) + quote
    message = message[:2] + struct.pack("!H", checksum(message)) + message[4:]
    sender = ".".join(str(byte) for byte in original[12:16])
    # "SHOULD have their precedence value set to 6 or 7", section 4.3.2.5.
    return IP(src=source, dst=sender, ttl=64, tos=0xC0, id=ANY_ID, proto=1) / Raw(message)


def icmp6_error(source, about, kind, code, rest=0):
    """The IPv6 packet that reports `about` (as it arrived) to its sender: RFC 4443 section 3. `rest` is the MTU, or the pointer."""
    original = raw(about.payload if isinstance(about, Ether) else about)
    quote = original[: min(40 + struct.unpack("!H", original[4:6])[0], 1280 - 48)]
    message = struct.pack("!BBHI", kind, code, 0, rest) + quote
    header = IPv6(src=source, dst=socket.inet_ntop(socket.AF_INET6, original[8:24]), hlim=64, nh=58)
    return header / Raw(message[:2] + struct.pack("!H", in6_chksum(58, header, message)) + message[4:])


def checksum(data):
    """RFC 1071: the one's complement of the one's complement sum of the 16-bit words."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def is_of_the_link(frame):
    """Whether stations of a link speak of themselves: ARP, neighbour discovery, multicast listeners."""
    if frame[12:14] == b"\x86\xdd" and len(frame) > 54:
        at = 62 if frame[20] == 0 and frame[54] == 58 and len(frame) > 62 else 54
        return (at == 62 or frame[20] == 58) and 130 <= frame[at] <= 143
    return frame[12:14] == b"\x08\x06"


def is_an_announcement(frame):
    """Whether a station announces its IPv4 address (RFC 5227 section 2.3)."""
    return frame[12:14] == b"\x08\x06" and frame[28:32] == frame[38:42]


def difference(expected, frame):
    """Why a frame is not the expected one, or None. The frame may be filled up with zeros to 60 bytes."""
    wanted, got = bytearray(expected), bytearray(frame)
    if len(got) > len(wanted) and len(got) <= 60:
        if any(got[len(wanted) :]):
            return f"padding is not zero: {bytes(got[len(wanted):]).hex()}"
        del got[len(wanted) :]
    if wanted[12:14] == b"\x08\x00" and got[12:14] == b"\x08\x00" and len(got) >= 34 and len(wanted) >= 34:
        length = 4 * (got[14] & 15)
        if checksum(bytes(got[14 : 14 + length])) != 0 and checksum(bytes(wanted[14 : 14 + length])) == 0:
            return f"IPv4 header checksum is wrong: {bytes(got[14 : 14 + length]).hex()}"
        if wanted[18:20] == struct.pack("!H", ANY_ID):
            for packet in (wanted, got):
                packet[18:20] = packet[24:26] = b"\0\0"
    if wanted == got:
        return None
    at = next((n for n, (a, b) in enumerate(zip(wanted, got)) if a != b), min(len(wanted), len(got)))
    return (
        f"differs at byte {at}: expected {len(wanted)} bytes ..{bytes(wanted[at:at + 12]).hex()}, "
        f"got {len(got)} bytes ..{bytes(got[at:at + 12]).hex()}\n"
        f"    expected {summary(bytes(wanted))}\n    got      {summary(bytes(got))}"
    )


def summary(frame):
    """A frame in a line, with what summaries leave out and tests look at."""
    packet = Ether(frame)
    text = packet.summary()
    if IP in packet:
        ip = packet[IP]
        text += f" ttl={ip.ttl} len={ip.len} id={ip.id} flags={ip.flags} frag={ip.frag}"
    return f"{packet.src} > {packet.dst} {text}"


def compare(expected, frames):
    """What is wrong with `frames`, which should be `expected` in this order: sentences, none if all is right."""
    problems = []
    for n, (wanted, frame) in enumerate(zip(expected, frames), 1):
        why = difference(wanted, frame)
        if why:
            problems.append(f"frame {n} {why}")
    for wanted in expected[len(frames) :]:
        problems.append(f"missing: {summary(wanted)}")
    for frame in frames[len(expected) :]:
        problems.append(f"not expected: {summary(frame)}")
    return problems


def flatten(value):
    """A packet, or lists of packets, as one list."""
    if isinstance(value, (Packet, bytes)):
        return [value]
    return [packet for item in value for packet in flatten(item)]


# What the expressions of scenarios may use.
VOCABULARY = {
    name: value
    for name, value in globals().items()
    if name
    in (
        "ARP Dot1AD Dot1Q Ether GRE ICMP IP IPv6 IPOption IPOption_LSRR IPOption_RR MPLS Raw TCP UDP fragment raw payload icmp_error "
        "ANY_ID QUOTE HBHOptUnknown ICMPv6EchoReply ICMPv6EchoRequest ICMPv6ND_NS IPv6ExtHdrDestOpt IPv6ExtHdrFragment IPv6ExtHdrHopByHop "
        "IPv6ExtHdrRouting PadN RouterAlert icmp6_error"
    ).split()
}
