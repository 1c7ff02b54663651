"""Network namespaces, veth pairs, and raw sockets on their ends.

Everything made here has a name that begins with `weir-` and the process's number, and is gone when the Lab is closed.
Namespaces of others are never touched.
"""

import contextlib
import ctypes
import json
import os
import socket
import struct
import subprocess
import threading
import time

from . import PATIENCE

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
_SOL_PACKET = 263
_PACKET_AUXDATA = 8
_TP_STATUS_VLAN_VALID = 1 << 4
_PACKET_IGNORE_OUTGOING = 23
_ETH_P_ALL = 3


def run(*argv, check=True, timeout=PATIENCE, **kwargs):
    """Runs a command and returns what it wrote; an error tells what the command said."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, **kwargs)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit status {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def enter(namespace):
    """What stands in front of a command that is to run in a namespace; nothing, where there is none."""
    return ("ip", "netns", "exec", namespace.name) if namespace else ()


class Namespace:
    """A network namespace without IPv6, so that nothing is sent that a test did not ask for."""

    def __init__(self, name):
        self.name = name
        run("ip", "netns", "add", name)
        self.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *argv, check=True, timeout=PATIENCE):
        """Runs a command inside."""
        return run(*enter(self), *argv, check=check, timeout=timeout)

    def popen(self, *argv, **kwargs):
        """Starts a command inside."""
        return subprocess.Popen((*enter(self), *argv), text=True, **kwargs)

    @contextlib.contextmanager
    def entered(self):
        """Sockets that this thread opens meanwhile belong to the namespace."""
        with open("/proc/thread-self/ns/net", encoding="ascii") as home, open(f"/run/netns/{self.name}", "rb") as inside:
            _setns(inside.fileno())
            try:
                yield
            finally:
                _setns(home.fileno())

    def link(self, interface):
        """What the kernel knows of an interface: state, addresses, counters."""
        return json.loads(self.run("ip", "-j", "-s", "link", "show", "dev", interface))[0]

    def sent(self, interface):
        """Frames that the interface has sent."""
        return self.link(interface)["stats64"]["tx"]["packets"]

    def received(self, interface):
        """Frames that the interface has received."""
        return self.link(interface)["stats64"]["rx"]["packets"]


def _setns(descriptor):
    if _LIBC.setns(descriptor, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Lab:
    """Namespaces that vanish at the end of the `with`, whatever happens."""

    _count = 0

    def __init__(self):
        Lab._count += 1
        self._prefix = f"weir-{os.getpid()}-{Lab._count}-"
        self._namespaces = []
        self._closers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for close in reversed(self._closers):
            with contextlib.suppress(Exception):
                close()
        for namespace in reversed(self._namespaces):
            run("ip", "netns", "del", namespace.name, check=False)

    def namespace(self, name):
        """Makes a namespace."""
        namespace = Namespace(self._prefix + name)
        self._namespaces.append(namespace)
        return namespace

    def at_end(self, close):
        """Calls `close` at the end, before the namespaces go."""
        self._closers.append(close)

    def wire(self, one, other, mtu=1500):
        """Joins (namespace, interface, MAC address) twice by a veth pair; checksums are finished before they are sent."""
        (ns, name, mac), (peer, peer_name, peer_mac) = one, other
        run(
            *("ip", "link", "add", "name", name, "netns", ns.name, "address", mac, "mtu", str(mtu), "type", "veth"),
            *("peer", "name", peer_name, "netns", peer.name, "address", peer_mac, "mtu", str(mtu)),
        )
        for namespace, interface in ((ns, name), (peer, peer_name)):
            namespace.run("ethtool", "-K", interface, "tx", "off", check=False)
            namespace.run("ip", "link", "set", "dev", interface, "up")

    def tap(self, namespace, interface):
        """A raw socket on an interface."""
        wire = Wire(namespace, interface)
        self.at_end(wire.close)
        return wire


def _whole(frame, ancillary):
    """A frame with the outer tag that the kernel takes off what it receives, and reports beside it."""
    for level, kind, data in ancillary:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            status, _, _, _, _, control, tpid = struct.unpack_from("IIIHHHH", data)
            if status & _TP_STATUS_VLAN_VALID:
                return frame[:12] + struct.pack("!HH", tpid, control) + frame[12:]
    return frame


class Wire:
    """A raw socket on an interface: sends frames, and keeps those that come."""

    def __init__(self, namespace, interface):
        with namespace.entered():
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self._socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
            self._socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
            self._socket.bind((interface, _ETH_P_ALL))
        self._socket.settimeout(0.1)
        self._closed = False
        self._changed = threading.Condition()
        self._frames = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self):
        while not self._closed:
            try:
                frame = _whole(*self._socket.recvmsg(65536, 256)[:2])
            except TimeoutError:
                continue
            except OSError as error:
                # The interface went down or away; a test that does so knows.
                if self._closed or error.errno not in (100, 19):
                    return
                time.sleep(0.01)
                continue
            with self._changed:
                self._frames.append(frame)
                self._changed.notify_all()

    def send(self, *frames):
        """Sends frames; a full queue is waited for."""
        for frame in frames:
            while True:
                try:
                    self._socket.send(bytes(frame))
                    break
                except OSError as error:
                    if error.errno != 105:  # ENOBUFS
                        raise
                    time.sleep(0.0005)

    def frames(self):
        """What came so far."""
        with self._changed:
            return list(self._frames)

    def count(self):
        """How many frames came so far."""
        return len(self._frames)

    def clear(self):
        """Forgets what came so far."""
        with self._changed:
            self._frames.clear()

    def wait(self, wanted, timeout=PATIENCE):
        """Waits until `wanted`, given the frames so far, is true of them; returns them either way."""
        end = time.monotonic() + timeout
        with self._changed:
            while not wanted(self._frames):
                left = end - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            return list(self._frames)

    def lost(self):
        """Frames that came while this socket had no room: a sink that counts must have none. Reading resets it."""
        statistics = self._socket.getsockopt(_SOL_PACKET, 6, 8)  # PACKET_STATISTICS
        return struct.unpack("II", statistics)[1]

    def close(self):
        """Stops listening."""
        self._closed = True
        self._thread.join(1)
        self._socket.close()
