"""Network cards (`pci:`) in an emulated machine: binding, traffic, links, receive-side scaling, memory with and without an IOMMU.

The cards are qemu's, so nothing here says how fast a card is; but DPDK's drivers are the real ones, and so are the kernel's
vfio-pci and uio_pci_generic.
"""

import collections
import socket
import threading

from lab import PATIENCE
from lab.guest import Card, Guest, Inside
from lab.hosts import addresses
from lab.netns import Lab
from lab.packets import IP, UDP, Ether, payload, raw
from lab.weir import PROGRAM, wait_for

COMPANY = "no guest"

LAN, WAN = "02:00:00:00:00:02", "02:00:00:00:00:01"
LAN_HOST, WAN_HOST = "02:00:00:00:01:02", "02:00:00:00:01:01"

CONFIG = """
port {{ name = "lan", device = "pci:{lan}", address = "10.0.0.1/24" }}
port {{ name = "wan", device = "pci:{wan}", address = "192.0.2.1/24" }}
router {{
  ports = {{ "wan", "lan" }}, workers = {{ {workers} }}, layout = "{layout}",
  routes = {{ ["0.0.0.0/0"] = "192.0.2.254" }},
}}
"""

# Behind an IOMMU, which only virtio cards have to be told.
VIRTIO = "virtio-net-pci,disable-legacy=on,iommu_platform=on"


class _Pair:
    """A guest's two cards, and a Linux host at the other end of each: 10.0.0.2, and 192.0.2.254 with what is behind it."""

    def __init__(self, lab, models, iommu=True, queues=1):
        self.lan, self.wan = lab.namespace("lan"), lab.namespace("wan")
        lan, wan = models
        self.guest = Guest(
            lab,
            [
                Card(lan, LAN, self.lan, "eth0", LAN_HOST, queues),
                Card(wan, WAN, self.wan, "eth0", WAN_HOST, queues),
            ],
            iommu,
        )
        addresses(self.lan, "10.0.0.2/24", "10.0.0.1")
        addresses(self.wan, "192.0.2.254/24", "192.0.2.1")
        self.lan_wire, self.wan_wire = lab.tap(self.lan, "eth0"), lab.tap(self.wan, "eth0")

    def config(self, workers="1", layout="run-to-completion"):
        lan, wan = self.guest.address(0), self.guest.address(1)
        return CONFIG.format(lan=lan, wan=wan, workers=workers, layout=layout)

    def refused(self, config):
        """What Weir says of a configuration that it cannot run."""
        command = f"cat >wrong.lua <<'END'\n{config}\nEND\ntimeout 300 {PROGRAM.resolve()} run wrong.lua"
        status, said = self.guest.run(command, check=False, patience=360)
        assert status == 1, (status, said)
        return said

    def doctor(self):
        """What the doctor says of the cards."""
        return self.guest.run(f"{PROGRAM.resolve()} doctor")

    def interrupts(self):
        """Interrupts of receive queues that the kernel has handed over so far: the first vector of a card is for its link."""
        lines = [line.split() for line in self.guest.run("cat /proc/interrupts").splitlines()]
        vectors = [words for words in lines if words and words[-1].startswith("vfio-msi") and "[0]" not in words[-1]]
        return sum(int(word) for words in vectors for word in words[1:] if word.isdigit())

    def ping(self):
        """Both hosts reach each other. One at a time: of several, ping only waits a little for the last ones."""
        for host, target in ((self.lan, "192.0.2.254"), (self.wan, "10.0.0.2")):
            # An emulated machine may take longer to answer ARP than the three seconds after which Linux gives up.
            host.run("sh", "-c", "for f in /proc/sys/net/ipv4/neigh/*/mcast_solicit; do echo 90 >$f; done")
            for _ in range(4):
                host.run("ping", "-n", "-q", "-c", "1", "-W", "90", target)

    def transfer(self):
        """A file by TCP, from kernel to kernel. Both leave checksums to their interfaces, as they would with real cards."""
        data = payload(200_000)
        with self.wan.entered():
            server = socket.create_server(("192.0.2.254", 7))
        with self.lan.entered():
            client = socket.create_connection(("192.0.2.254", 7), timeout=PATIENCE)
        with server, client:
            server.settimeout(PATIENCE)
            peer = server.accept()[0]
            with peer:
                peer.settimeout(PATIENCE)
                sender = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)), daemon=True)
                sender.start()
                got = b"".join(iter(lambda: peer.recv(65536), b""))
                sender.join()
        assert got == data, (len(got), len(data))

    def carry(self, flows, rounds, first=0):
        """Sends so many packets of each flow, as many at once as any ring has room for; all arrive once and as they should, those
        of a flow in order."""
        for number in range(rounds):
            self.wan_wire.clear()
            sent, expected = [], collections.Counter()
            for flow in range(first, first + flows):
                packet = IP(src="10.0.0.2", dst=f"198.51.100.{flow % 200}", id=number, ttl=64) / UDP(sport=1024 + flow, dport=9)
                sent += [raw(Ether(src=LAN_HOST, dst=LAN) / packet / payload(2 * n + number)) for n in range(4)]
                packet.ttl = 63
                expected.update(raw(Ether(src=WAN, dst=WAN_HOST) / packet / payload(2 * n + number)) for n in range(4))
            self.lan_wire.send(*sent)
            got = self.wan_wire.wait(lambda frames: len(_routed(frames)) >= len(sent))
            assert collections.Counter(map(_unpadded, _routed(got))) == expected, (number, len(_routed(got)), len(sent))
            lengths = collections.defaultdict(list)
            for frame in _routed(got):
                lengths[frame[34:36]].append(int.from_bytes(frame[16:18], "big"))
            assert all(of_flow == sorted(of_flow) for of_flow in lengths.values()), lengths

    def follow_the_cable(self, weir):
        """A cable that is pulled out and put back, at either card."""
        for card, port in enumerate(("lan", "wan")):
            for plugged in (False, True):
                self.guest.cable(card, plugged)
                assert wait_for(lambda: weir.link_up(port) == plugged), (port, plugged)
        self.ping()


def _routed(frames):
    """The test's own packets."""
    return [frame for frame in frames if frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == b"\0\x09"]


def _unpadded(frame):
    """A frame without what fills it up to 60 bytes."""
    return frame[: 14 + int.from_bytes(frame[16:18], "big")]


def _packets(weir):
    """{worker: packets}, without the control thread."""
    return {worker["id"]: worker["packets"] for worker in weir.stats()["workers"] if worker["core"] is not None}


def test_cards_are_bound_and_carry_packets():
    """Intel's 82574L and VMware's vmxnet3 behind an IOMMU, in ordinary memory: kept by the kernel, then bound as the error says."""
    with Lab() as lab:
        pair = _Pair(lab, ("e1000e", "vmxnet3"))
        lan, wan = pair.guest.address(0), pair.guest.address(1)
        said = pair.doctor()
        assert "the kernel drives it with e1000e as eth" in said and "the kernel drives it with vmxnet3 as eth" in said, said
        said = pair.refused(pair.config())
        assert f"pci:{lan} is still bound to the kernel's driver e1000e" in said, said
        assert f"dpdk-devbind.py -b vfio-pci {lan}" in said, said
        pair.guest.run(f"dpdk-devbind.py -b vfio-pci {lan} {wan}", check=False)
        said = pair.doctor()
        assert f"vfio-pci: ready as pci:{lan}" in said and f"vfio-pci: ready as pci:{wan}" in said, said
        weir = Inside(pair.guest, pair.config())
        # Of the two, the driver of the second is known to ring; a worker with both has to look.
        assert [port["wakes"] for port in weir.show("ports")] == [False, True], weir.show("ports")
        pair.ping()
        pair.carry(flows=8, rounds=4)
        pair.transfer()
        pair.follow_the_cable(weir)
        # The one negotiates it, the driver of the other knows no other.
        speeds = lambda: {row["name"]: row["speed_bps"] for row in weir.show("ports")}
        assert wait_for(lambda: speeds() == {"lan": 10**9, "wan": 10**10}), speeds()
        pair.carry(flows=8, rounds=1)
        weir.stats()
        assert "unaccounted    0" in weir.stop()


def test_virtio_spreads_flows_over_workers():
    """Receive-side scaling: two queues for two workers. A flow stays with one worker; flows are spread over both."""
    with Lab() as lab:
        pair = _Pair(lab, (f"{VIRTIO},rss=on", f"{VIRTIO},rss=on"), queues=2)
        pair.guest.bind("vfio-pci", 0, 1)
        said = pair.refused(pair.config(workers="0, 1, 2"))
        assert "has 2 receive and 2 transmit queues, and 3 workers want one each" in said, said
        weir = Inside(pair.guest, pair.config(workers="1, 2"))
        assert all("rss" in port["offloads"] for port in weir.show("ports")), weir.show("ports")
        # Each ping finds workers that sleep.
        assert all(port["wakes"] for port in weir.show("ports")), weir.show("ports")
        before = pair.interrupts()
        pair.ping()
        assert pair.interrupts() >= before + 2, (before, pair.interrupts())
        pair.carry(flows=24, rounds=8)
        pair.transfer()
        busy = set()
        for flow in range(8):
            before = _packets(weir)
            pair.carry(flows=1, rounds=4, first=flow)
            # Neighbours are asked for now and then, by whichever worker; a flow has 16 packets.
            gained = {worker: packets - before[worker] for worker, packets in _packets(weir).items()}
            main = max(gained, key=gained.get)
            assert gained[main] >= 16 and sum(gained.values()) - gained[main] < 8, gained
            busy.add(main)
        assert len(busy) == 2, busy
        pair.follow_the_cable(weir)
        weir.stats()
        assert "unaccounted" in weir.stop()


def test_vmxnet3_wakes_workers():
    """Receive interrupts of both cards' first queues, also once a cable was pulled out."""
    with Lab() as lab:
        pair = _Pair(lab, ("vmxnet3", "vmxnet3"))
        pair.guest.bind("vfio-pci", 0, 1)
        weir = Inside(pair.guest, pair.config())
        assert all(port["wakes"] for port in weir.show("ports")), weir.show("ports")
        for _ in range(2):
            # Each ping finds a worker that sleeps.
            before = pair.interrupts()
            pair.ping()
            assert pair.interrupts() >= before + 2, (before, pair.interrupts())
            pair.follow_the_cable(weir)
        pair.carry(flows=8, rounds=4)
        weir.stats()
        assert "unaccounted    0" in weir.stop()


def test_cards_without_an_iommu_want_huge_pages():
    """A card of virtio 0.9 and Intel's 82540EM at uio_pci_generic: told what is missing, and then carrying packets."""
    with Lab() as lab:
        pair = _Pair(lab, ("virtio-net-pci,disable-modern=on", "e1000"), iommu=False)
        pair.guest.bind("uio_pci_generic", 0, 1)
        said = pair.refused(pair.config())
        assert "can have buffers in huge pages only" in said, said
        pair.guest.run("sysctl -q vm.nr_hugepages=160")
        weir = Inside(pair.guest, pair.config())
        pair.ping()
        pair.carry(flows=8, rounds=4)
        pair.transfer()
        pair.follow_the_cable(weir)
        weir.stats()
        assert "unaccounted" in weir.stop()
