"""Tables of routes as large as the Internet's: where destinations lead by definition, packets that tell where they lead indeed, and when the
kernel has told all."""

import errno
import gzip
import ipaddress
import itertools
import pathlib
import random
import socket
import struct
import threading
import time

GATEWAYS = 100
_FIRST_GATEWAY = 10
_MAGIC = 0x57454952
_SO_RCVBUFFORCE = 33
_ROUTES = 0x40 | 0x400  # RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_ROUTE

# Of a thousand prefixes so many have each length, as in the Internet's table of 2015.
_LENGTHS = {
    4: {16: 22, 17: 13, 18: 21, 19: 42, 20: 61, 21: 66, 22: 110, 23: 95, 24: 560, 25: 4, 28: 3, 32: 3},
    6: {29: 30, 32: 380, 36: 40, 40: 50, 44: 50, 47: 20, 48: 420, 64: 10},
}
# Narrow enough that many prefixes lie in others, and wide enough for all of them.
_INSIDE = {4: ("20.0.0.0/8", "16.0.0.0/4"), 6: ("2a00::/14", "2a00::/14")}
_FEW = 100_000
_BITS = {4: 32, 6: 128}


class Table:
    """Prefixes of one family, as (network, length), each with the number of its gateway. `shift` is added to all numbers in another version."""

    def __init__(self, family, gateways):
        self.family, self.bits, self.gateways = family, _BITS[family], gateways
        self._lengths = sorted({length for _, length in gateways}, reverse=True)

    def __len__(self):
        return len(self.gateways)

    @classmethod
    def read(cls, folder, family):
        """That of a file of `prefix,origin_as`."""
        with gzip.open(pathlib.Path(folder) / f"ipv{family}-2015-11-01.csv.gz", "rt", encoding="ascii") as lines:
            rows = [line.strip().split(",") for line in lines if "/" in line]
        nets = ((ipaddress.ip_network(prefix), int(number)) for prefix, number in rows)
        return cls(family, {(int(net.network_address), net.prefixlen): number % GATEWAYS for net, number in nets})

    @classmethod
    def made(cls, family, count):
        """So many prefixes at random."""
        chosen = random.Random(family)
        inside, gateways = ipaddress.ip_network(_INSIDE[family][count > _FEW]), {}
        lengths, weights = zip(*_LENGTHS[family].items())
        while len(gateways) < count:
            length = chosen.choices(lengths, weights)[0]
            unit = _BITS[family] - length
            network = (int(inside.network_address) + chosen.randrange(inside.num_addresses)) >> unit << unit
            gateways.setdefault((network, length), chosen.randrange(GATEWAYS))
        return cls(family, gateways)

    def covering(self, address):
        """The prefixes that an address is in, longest first."""
        for length in self._lengths:
            key = (address >> (self.bits - length) << (self.bits - length), length)
            if key in self.gateways:
                yield key

    def leads(self, address, shifted=(), without=()):
        """The gateway of the longest match; those in `shifted` have the next one, those in `without` are not there."""
        for key in self.covering(address):
            if key not in without:
                return (self.gateways[key] + (key in shifted)) % GATEWAYS
        return None

    def may_lead(self, address):
        """All gateways that an address can lead to while prefixes come, go and change."""
        return {(self.gateways[key] + shift) % GATEWAYS for key in self.covering(address) for shift in (0, 1)}

    def destinations(self, count, seed, anywhere=0.0):
        """Addresses at random, in each prefix before one has a second; and a part of them from anywhere."""
        chosen = random.Random(seed)
        keys, found = list(self.gateways), []
        chosen.shuffle(keys)
        for network, length in itertools.cycle(keys):
            if len(found) == count:
                break
            address = network + chosen.randrange(1 << (self.bits - length))
            if chosen.random() < anywhere:
                address = chosen.randrange(1 << self.bits)
            if self._is_forwarded(address):
                found.append(address)
        return found

    def _is_forwarded(self, address):
        """Whether hosts have such addresses (RFC 1812 section 5.3.7, RFC 3927 section 7, RFC 4291 section 2.4), and none of the links' own."""
        if self.family == 6:
            return address >> 125 == 1
        return 0 < address >> 24 < 224 and address >> 24 not in (10, 127) and address >> 16 != 0xA9FE

    def statements(self, keys, shift=0):
        """Routes as BIRD reads them."""
        text = ipaddress.IPv4Address if self.family == 4 else ipaddress.IPv6Address
        return "".join(
            f"route {text(network)}/{length} via {gateway(self.family, (self.gateways[network, length] + shift) % GATEWAYS)};\n"
            for network, length in keys
        )


def gateway(family, number):
    """The address of a gateway."""
    return f"10.254.0.{number + _FIRST_GATEWAY}" if family == 4 else f"2001:db8:b::{number + _FIRST_GATEWAY:x}"


def gateway_mac(number):
    """Its MAC address."""
    return f"02:00:00:00:0a:{number + _FIRST_GATEWAY:02x}"


def neighbors():
    """All of them, as the configuration has them."""
    return ", ".join(f'["{gateway(family, number)}"] = "{gateway_mac(number)}"' for number in range(GATEWAYS) for family in (4, 6))


def frame(macs, address, family, number, series):
    """A packet to an address that carries a number of a series."""
    payload = struct.pack("!HHHHIII", 7, 7, 20, 0, _MAGIC, series, number)
    if family == 6:
        source = bytes.fromhex("20010db8000a00000000000000000009")
        return macs + b"\x86\xdd" + struct.pack("!IHBB16s16s", 6 << 28, len(payload), 17, 64, source, address.to_bytes(16, "big")) + payload
    header = bytearray(struct.pack("!BBHHHBBH4sI", 0x45, 0, 20 + len(payload), 0, 0, 64, 17, 0, bytes((10, 255, 0, 9)), address))
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    struct.pack_into("!H", header, 10, (total & 0xFFFF) + (total >> 16) ^ 0xFFFF)
    return macs + b"\x08\x00" + bytes(header) + payload


class Arrivals:
    """Packets of `frame` that come at an interface: which of which series, and at which gateway's MAC address."""

    def __init__(self, lab, namespace, interface):
        self._hears = {}
        with namespace.entered():
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
        self._socket.bind((interface, 3))
        self._socket.settimeout(0.2)
        self._stopping = False
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        lab.at_end(self._stop)

    def hear(self, series, tell):
        """Calls `tell(number, gateway)` for each packet of a series."""
        self._hears[series] = tell

    def _listen(self):
        while not self._stopping:
            try:
                data = self._socket.recv(128)
            except TimeoutError:
                continue
            at = {b"\x08\x00": 42, b"\x86\xdd": 62}.get(data[12:14], 128)
            if len(data) < at + 12:
                continue
            magic, series, number = struct.unpack_from("!III", data, at)
            if magic == _MAGIC and series in self._hears:
                self._hears[series](number, data[5] - _FIRST_GATEWAY)

    def _stop(self):
        self._stopping = True
        self._thread.join()
        self._socket.close()


class Messages:
    """What the kernel of a namespace tells about routes: how many messages came, and when the last one did."""

    def __init__(self, lab, namespace):
        with namespace.entered():
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 512 << 20)
        self._socket.bind((0, _ROUTES))
        self._socket.settimeout(0.2)
        self.count, self.last, self.lost = 0, time.monotonic(), 0
        self._stopping = False
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        lab.at_end(self._stop)

    def _listen(self):
        while not self._stopping:
            try:
                self._socket.recv(64)
                self.count += 1
            except TimeoutError:
                continue
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    return
                self.lost += 1
            self.last = time.monotonic()

    def quiet(self):
        """Seconds since the last one."""
        return time.monotonic() - self.last

    def _stop(self):
        self._stopping = True
        self._thread.join()
        self._socket.close()
