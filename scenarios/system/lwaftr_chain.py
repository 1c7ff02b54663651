"""The relay as a guest behind `forward`: the two shipped configurations, joined by vhost and virtio, between hosts on veth pairs. What the chain
carries in a second says `scenarios/chain.py`."""

import csv
import pathlib
import tempfile

from lab.aftr import ACCESS, INTERNET, Relay, Softwire, reassembled
from lab.guest import Guest, Inside, VhostCard
from lab.netns import Lab
from lab.packets import is_of_the_link
from lab.weir import Weir, drops_of, wait_for

from .lwaftr_bytes import AFTRS, MACS, cases_of

COMPANY = "no guest"

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"
INTERFACES = {INTERNET: "veth-inet", ACCESS: "veth-access"}


def _softwires():
    """The shipped ones: 64 customers share an address, ports below 4096 are nobody's; one has an address alone."""
    with open(CONFIGS / "softwires.csv", encoding="ascii") as file:
        for row in csv.DictReader(file):
            bits = (0, 0) if row["ipv4"] == "203.0.113.9" else (6, 4)
            yield Softwire(row["ipv4"], row["b4"], row["aftr"] or AFTRS[0], int(row["psid"]), *bits)


def _config(name, folder):
    """A shipped configuration with its sockets below a folder, on devices that hosts without AF_XDP have, too."""
    text = (CONFIGS / name).read_text(encoding="utf-8")
    neighbors = f'neighbors = {{ ["192.0.2.254"] = "{MACS["internet_peer"]}", ["2001:db8:f::2"] = "{MACS["access_peer"]}" }},\n  routes '
    return text.replace("/run/weir-", f"{folder}/").replace("af_xdp:", "af_packet:").replace("routes ", neighbors)


class _Switch:
    """The shipped switch between two wires, on which the test speaks for the hosts; the relay's part is up to the test."""

    def __init__(self, lab):
        folder = tempfile.TemporaryDirectory(prefix="weir-chain-")  # pylint: disable=consider-using-with
        lab.at_end(folder.cleanup)
        self.folder, self.wires = pathlib.Path(folder.name), {}
        for name in ("host", "guest"):
            (self.folder / name).mkdir()
        (self.folder / "guest/softwires.csv").write_bytes((CONFIGS / "softwires.csv").read_bytes())
        outside, switch = lab.namespace("outside"), lab.namespace("switch")
        for port, interface in INTERFACES.items():
            lab.wire((switch, interface, f"02:00:00:00:02:0{len(self.wires)}"), (outside, port, MACS[f"{port}_peer"]))
            self.wires[port] = lab.tap(outside, port)
        self.host = Weir(switch, _config("chain-host.lua", self.folder), self.folder / "host")
        lab.at_end(lambda: self.host.__exit__(None, None, None))

    def carry(self, guest, count):
        """So many random packets of both sides, through the switch and a guest: what leaves is what the standards have it be, and either Weir knows
        where each packet went."""
        assert wait_for(lambda: all(row["link_up"] for weir in (self.host, guest) for row in weir.show("ports")))
        # Until its own addresses have been tried, the relay uses none (RFC 4862 section 5.4).
        assert wait_for(lambda: all(row["usable"] for row in guest.show("addresses")))
        cases = list(cases_of(21, count, Relay(list(_softwires()), "192.0.2.1")))
        ours = lambda wire: [frame for frame in wire.frames() if not is_of_the_link(frame)]
        # No more at once than every ring has room for, while nobody reads it.
        for start in range(0, len(cases), 50):
            for case in cases[start : start + 50]:
                self.wires[case.port].send(*case.frames)
            for port, wire in self.wires.items():
                count = sum(to == port for case in cases[: start + 50] for to, _ in case.expected)
                assert wait_for(lambda w=wire, n=count: _packets(ours(w)) >= n), f"{port}: {_packets(ours(wire))} of {count}"
        for port, wire in self.wires.items():
            expected = sorted(packet for case in cases for to, packet in case.expected if to == port)
            got, longest = reassembled(ours(wire))
            assert sorted(got) == expected and longest <= 1500, port
        guest.stats()
        assert not drops_of(self.host.stats()), self.host.drops()
        guest.stop()
        self.host.stop()


def _packets(frames):
    """How many packets are there whole; a last piece may be missing yet."""
    try:
        return len(reassembled(frames)[0])
    except AssertionError:
        return 0


def test_the_relay_as_another_program():
    """Both shipped configurations: virtio_user connects to vhost, as from a container."""
    with Lab() as lab:
        switch = _Switch(lab)
        with Weir(None, _config("chain-guest.lua", switch.folder), switch.folder / "guest") as guest:
            switch.carry(guest, 300)


def test_the_relay_in_a_virtual_machine():
    """The relay has two virtio cards of an emulated machine, whose other ends are the switch's vhost ports."""
    with Lab() as lab:
        switch = _Switch(lab)
        cards = [VhostCard(f"{switch.folder}/{port}.sock", MACS[port]) for port in INTERFACES]
        guest = Guest(lab, cards, iommu=False, shared=True)
        guest.bind("uio_pci_generic", 0, 1)
        guest.run("sysctl -q vm.nr_hugepages=160")
        config = _config("chain-guest.lua", switch.folder)
        for card, port in enumerate(INTERFACES):
            config = config.replace(f"virtio_user:{switch.folder}/{port}.sock,mac={MACS[port]}", f"pci:{guest.address(card)}")
        assert config.count('device = "pci:') == 2, config
        guest.run(f"cat >softwires.csv <<'END'\n{(CONFIGS / 'softwires.csv').read_text(encoding='ascii')}END")
        switch.carry(Inside(guest, config), 100)
