"""What stands at either end of a router whose ports may be closed and opened again, for every kind of device."""

import contextlib
import struct
import tempfile
import threading
import time

from . import PATIENCE
from .hosts import HOST_MACS, MACS
from .netns import Wire
from .packets import IP, UDP, Ether, raw
from .weir import Weir, wait_for

_MARK = b"weir-fuzz"


class Ends:
    """`lan` and `wan` of a router in the namespace `router`, by one kind of device: veth pairs for af_xdp and af_packet, TAP
    interfaces, or memif to a second Weir that passes on to veth pairs."""

    NETS = {"lan": "10.0.0", "wan": "192.0.2"}

    def __init__(self, lab, kind):
        self.lab, self.kind, self.router = lab, kind, lab.namespace("r")
        self._wires, self._indexes, self._changing = {}, {}, threading.Lock()
        self._far = None
        # pylint: disable=consider-using-with
        self._folder = tempfile.TemporaryDirectory(prefix="weir-ends-")
        lab.at_end(self._folder.cleanup)
        if kind == "tap":
            return
        near = lab.namespace("far") if kind == "memif" else self.router
        for side in ("lan", "wan"):
            host = lab.namespace(side)
            lab.wire((near, side, MACS[side]), (host, "eth0", HOST_MACS[side]))
            # A second interface to move to: it ends at the same host.
            lab.wire((near, side + "2", MACS[side][:-1] + "9"), (host, "eth1", HOST_MACS[side][:-1] + "9"))
            self._wires[side] = [lab.tap(host, "eth0"), lab.tap(host, "eth1")]
        if kind == "memif":
            self._start_far(near)

    def _start_far(self, near):
        pairs, ports = [], []
        for number, name in enumerate(("lan", "lan2", "wan", "wan2")):
            ports.append(f'port {{ name = "{name}", device = "af_packet:{name}" }}')
            ports.append(f'port {{ name = "m{name}", device = "memif:{number},role=server,socket={self._socket(number)}" }}')
            pairs.append(f'{{ "{name}", "m{name}" }}')
        script = "\n".join([*ports, f'forward {{ pairs = {{ {", ".join(pairs)} }}, workers = {{ 0 }} }}'])
        self._far = Weir(near, script)
        self.lab.at_end(lambda: self._far.__exit__(None, None, None))

    def _socket(self, number):
        return f"{self._folder.name}/{number}.sock"

    def device(self, side, second=False):
        """The device of a side's port: the first or the second."""
        name = side + ("2" if second else "")
        if self.kind == "memif":
            number = ("lan", "lan2", "wan", "wan2").index(name)
            return f"memif:{number},role=client,socket={self._socket(number)}"
        if self.kind == "tap":
            # A name of its own for each run, and an address that does not change.
            return f"tap:{name},mac={MACS[side]}"
        return f"{self.kind}:{name}"

    def wire(self, side, second=False):
        """Where the frames of a side's port come out and go in."""
        if self.kind != "tap":
            return self._wires[side][second]
        with self._changing:
            return self._wires.get((side, second)) or self._attach(side, second)

    def refresh(self, side, second=False):
        """As `wire`, where the interface may be another by the same name: a TAP interface comes and goes with its port."""
        if self.kind != "tap":
            return self.wire(side, second)
        with self._changing:
            return self._attach(side, second)

    def _attach(self, side, second):
        name = side + ("2" if second else "")
        index = self.router.run("cat", f"/sys/class/net/{name}/ifindex", check=False).strip()
        if not index:
            raise OSError(f"{name} is not there")
        if self._indexes.get(name) != index:
            self._wires[side, second] = self.lab.tap(self.router, name)
            self._indexes[name] = index
        return self._wires[side, second]

    def kernel_state(self):
        """What a reload must not leave changed: of each interface that is not Weir's own."""
        if self.kind not in ("af_xdp", "af_packet"):
            return {}
        lines = self.router.run("ip", "-o", "-d", "link", "show").splitlines()
        state = {}
        for line in lines:
            words = line.split()
            name = words[1].split("@")[0].rstrip(":")
            if name != "lo":
                at = lambda word, line=words: line[line.index(word) + 1] if word in line else None
                state[name] = {key: at(key) for key in ("mtu", "promiscuity", "prog/xdp")}
                state[name]["offloads"] = self.router.run("ethtool", "-k", name)
        return state


class Numbered:
    """Numbered UDP packets from lan to wan, at a steady rate, to wherever they go just now; a wire that is gone is waited for."""

    def __init__(self, ends, rate=500):
        self.ends, self._interval = ends, 1 / rate
        header = Ether(src=HOST_MACS["lan"], dst=MACS["lan"]) / IP(src="10.0.0.2", dst="198.51.100.7")
        self._header = header / UDP(sport=7, dport=7, chksum=0)
        self._mac = MACS["lan"]
        self.second = False
        self.sent = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._template = None
        self.aim(MACS["lan"], False)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def aim(self, mac, second):
        """Sends from here on to this address of the router, by the first or second device of lan."""
        with self._lock:
            self._header[Ether].dst = mac
            self._template = bytearray(raw(self._header / (_MARK + bytes(13))))
            self.second = second

    def _run(self):
        while not self._stopping.is_set():
            with self._lock:
                self.one()
            time.sleep(self._interval)

    def one(self):
        """Sends one packet, while it is paused; answers whether there was a wire to send it by."""
        struct.pack_into("!Q", self._template, 42 + len(_MARK), self.sent)
        try:
            self.ends.wire("lan", self.second).send(self._template)
        except OSError:
            with contextlib.suppress(OSError):
                self.ends.refresh("lan", self.second)
            return False
        self.sent += 1
        return True

    def pause(self):
        """Holds sending up in a `with`."""
        return self._lock

    def stop(self):
        """Ends it."""
        self._stopping.set()
        self._thread.join(PATIENCE)


def arrived(frames):
    """The numbers among frames, in order of arrival."""
    at = 42 + len(_MARK)
    return [struct.unpack_from("!Q", frame, at)[0] for frame in frames if frame[42:at] == _MARK]


def reaches(ends, stream, second):
    """Whether packets that are sent from now on arrive at wan."""
    first = stream.sent
    return wait_for(lambda: any(number >= first for number in arrived(ends.refresh("wan", second).frames())))
