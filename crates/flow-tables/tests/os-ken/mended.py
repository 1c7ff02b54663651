"""The checksum of SCTP that RFC 9260 asks for, in place of os-ken's. That of os-ken 2.8.2 is the CRC of the text which Python shows of the bytes,
so that twelve patterns, those that set a port of SCTP, expect what no switch can make of the packet."""

import struct

import os_ken.lib.packet.sctp


def _crc32c(_, data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return struct.unpack(">I", struct.pack("<I", crc ^ 0xffffffff))[0]


def mend():
    os_ken.lib.packet.sctp.sctp._checksum = _crc32c
