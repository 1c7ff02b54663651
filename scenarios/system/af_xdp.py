"""What AF_XDP ports do to the kernel's interfaces, and what becomes of them when these change."""

import ctypes
import mmap
import os
import random
import re
import socket
import struct
import time

from lab.hosts import STATIC, Between, Stream, config, numbers
from lab.netns import Lab
from lab.weir import wait_for


def _flow(net, seconds=0.0):
    """Sends a stream for a while and until something has arrived; answers how many packets were sent and arrived."""
    net.wan_wire.clear()
    stream = Stream(net.lan_wire, 2000)
    time.sleep(seconds)
    arrived = wait_for(lambda: len(numbers(net.wan_wire.frames())) > 100)
    sent = stream.stop()
    if not arrived:
        raise AssertionError(f"{sent} packets were sent, and none arrived:\n{net.weir.log()}")


# Of linux/if_xdp.h, and of the table of system calls.
_AF_XDP, _SOL_XDP, _MMAP_OFFSETS, _PAGE_FILL = 44, 283, 1, 0x1_0000_0000
_PIDFD_GETFD = 438


class _Rings:
    """The receive and fill rings of an AF_XDP socket of another process."""

    def __init__(self, descriptor):
        with socket.socket(_AF_XDP, socket.SOCK_RAW, 0, fileno=descriptor) as xsk:
            offsets = struct.unpack("16Q", xsk.getsockopt(_SOL_XDP, _MMAP_OFFSETS, 128))
            # Producer, consumer, entries and flags of each: receive, transmit, fill, completion.
            self._receive, self._fill = offsets[0:4], offsets[8:12]
            self._heard, _ = self._map(descriptor, 0, self._receive[2], 16)
            self._free, self._entries = self._map(descriptor, _PAGE_FILL, self._fill[2], 8)

    @staticmethod
    def _map(descriptor, page, entries_at, size):
        entries = 1 << 16
        while True:
            try:
                return mmap.mmap(descriptor, entries_at + entries * size, offset=page), entries
            except OSError:
                if entries == 1:
                    raise
                entries //= 2

    def heard(self):
        """Frames that came so far."""
        return struct.unpack_from("I", self._heard, self._receive[0])[0]

    def spoil(self):
        """Puts what is no buffer in the place of each that the kernel may receive into. It swallows them all with the next frame."""
        producer, consumer = (struct.unpack_from("I", self._free, at)[0] for at in self._fill[:2])
        for index in range(consumer, producer):
            struct.pack_into("Q", self._free, self._fill[2] + index % self._entries * 8, (1 << 48) - 1)

    def close(self):
        """Lets go of them: the socket's queue is taken as long as anybody has one."""
        self._heard.close()
        self._free.close()


def _rings(pid):
    """Those of all AF_XDP sockets of a process."""
    folder = f"/proc/{pid}/fd"
    sockets = [int(name) for name in os.listdir(folder) if os.readlink(f"{folder}/{name}").startswith("socket:")]
    pidfd = os.pidfd_open(pid)
    found = []
    for number in sockets:
        descriptor = ctypes.CDLL(None).syscall(_PIDFD_GETFD, pidfd, number, 0)
        with socket.socket(socket.AF_UNIX, fileno=os.dup(descriptor)) as any_socket:
            is_xdp = any_socket.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == _AF_XDP
        if is_xdp:
            found.append(_Rings(descriptor))
        else:
            os.close(descriptor)
    os.close(pidfd)
    return found


def test_a_deaf_port_is_opened_again():
    """The kernel swallows every buffer of the port that packets come to: it is told, the port opened again, and packets flow."""
    with Lab() as lab:
        net = Between(lab, config("af_xdp", STATIC), bare=True)
        _flow(net)
        # Until all has arrived the driver still hands buffers over, which would be spared.
        net.check_against_kernel()
        rings = _rings(net.weir.process.pid)
        assert len(rings) == 2
        max(rings, key=_Rings.heard).spoil()
        for ring in rings:
            ring.close()
        stream = Stream(net.lan_wire, 500)
        assert wait_for(lambda: "a port that was closed is open again" in net.weir.log()), net.weir.log()
        net.wan_wire.clear()
        assert wait_for(lambda: numbers(net.wan_wire.frames())), net.weir.log()
        stream.stop()
        told = [line for line in net.weir.log().splitlines() if "hears nothing any more" in line]
        assert len(told) == 1 and "port=lan" in told[0], net.weir.log()
        ports = net.weir.stats()["ports"]
        assert ports["lan"]["rx_missed"] > 0 and not ports["wan"]["rx_missed"], ports
        net.weir.stop()
        # What the kernel has swallowed is gone.
        assert "buffers did not come back" in net.weir.log(), net.weir.log()


def test_a_restarted_process_opens_af_xdp_again():
    """`weir reload --allow-restart` runs the program anew in the same process."""
    with Lab() as lab:
        net = Between(lab, config("af_xdp", STATIC), bare=True)
        _flow(net)
        for buffers in (30000, 40000, 50000):
            net.weir.restart(config("af_xdp", STATIC, head=f"engine {{ buffers = {buffers} }}"))
            _flow(net)
        net.weir.stats()
        net.weir.stop()


def test_link_flaps_leave_af_xdp_ports_hearing():
    """Links that go down and up two hundred times under load: packets are lost meanwhile, no buffer is, and afterwards all arrive."""
    seed = int(os.environ.get("WEIR_SEED", random.randrange(1 << 32)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    with Lab() as lab:
        net = Between(lab, config("af_xdp", STATIC), bare=True)
        stream = Stream(net.lan_wire, 0)
        ends = ((net.lan, "eth0"), (net.wan, "eth0"), (net.router, "lan"), (net.router, "wan"))
        for _ in range(200):
            namespace, interface = chance.choice(ends)
            namespace.run("ip", "link", "set", "dev", interface, "down")
            time.sleep(chance.choice((0, 0, 0.002, 0.02)))
            namespace.run("ip", "link", "set", "dev", interface, "up")
            time.sleep(chance.choice((0, 0, 0.002, 0.02)))
        stream.stop()
        assert wait_for(lambda: all(port["link_up"] for port in net.weir.show("ports"))), net.weir.show("ports")
        _flow(net)
        net.weir.stats()
        net.weir.stop()
        assert "buffers did not come back" not in net.weir.log(), net.weir.log()
