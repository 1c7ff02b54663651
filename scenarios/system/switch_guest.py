"""Guests behind a switch: the shipped configurations joined by vhost and virtio, guests and hosts that die and come again, links of several queues, and
ports that come and go while packets flow."""

import contextlib
import pathlib
import shutil
import signal
import subprocess
import tempfile

from lab import PATIENCE, Skipped, pcapfile
from lab.guest import Guest, Inside, VhostCard
from lab.netns import Lab
from lab.packets import IP, UDP, Ether, payload, raw
from lab.weir import Weir, somebody_listens, wait_for

COMPANY = "no guest"

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"


def _config(name, folder):
    """A shipped configuration with its sockets below a folder."""
    return (CONFIGS / name).read_text(encoding="utf-8").replace("/run/weir-", f"{folder}/")


def _frame(number):
    header = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=number % 50_000, dport=9)
    return raw(header / (number.to_bytes(4, "big") + payload(20 + number % 1000)))


class _Guests:
    """The shipped switch between two raw sockets, and a folder for its guests."""

    def __init__(self, lab):
        if shutil.which("ovs-ofctl") is None:
            raise Skipped("ovs-ofctl is missing (package openvswitch-common)")
        folder = tempfile.TemporaryDirectory(prefix="weir-guests-")  # pylint: disable=consider-using-with
        lab.at_end(folder.cleanup)
        self.folder, outside = pathlib.Path(folder.name), lab.namespace("outside")
        self.namespace = lab.namespace("switch")
        for number, name in enumerate(("left", "right"), 1):
            lab.wire((self.namespace, f"veth-{name}", f"02:00:00:00:02:0{number}"), (outside, name, f"02:00:00:00:03:0{number}"))
        self.left, self.right = lab.tap(outside, "left"), lab.tap(outside, "right")
        self.number, self._lab, self._runs = 0, lab, 0
        self.script = _config("switch-guest.lua", self.folder)
        self.host = self.weir(self.namespace, self.script)

    def weir(self, namespace, config):
        """A Weir in a folder of its own."""
        self._runs += 1
        folder = self.folder / str(self._runs)
        folder.mkdir()
        weir = Weir(namespace, config, folder)
        self._lab.at_end(lambda: weir.__exit__(None, None, None))
        return weir

    def guest(self, name):
        """A guest by one of the shipped configurations."""
        return self.weir(None, _config(name, self.folder))

    def flows(self, *flows):
        """Gives the switch these flows, and no others."""
        assert wait_for(lambda: somebody_listens(f"{self.folder}/guests.mgmt")), self.host.log()
        for words in (("del-flows",), *(("add-flow", flow) for flow in flows)):
            command, *rest = words
            done = subprocess.run(
                ("timeout", str(int(PATIENCE)), "ovs-ofctl", "-O", "OpenFlow13", command, f"unix:{self.folder}/guests.mgmt", *rest), capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr

    def passes(self, source, to, count):
        """So many frames go from a wire to another, whole and in their order."""
        frames = [_frame(self.number + n) for n in range(count)]
        self.number += count
        to.clear()
        for start in range(0, count, 20):
            source.send(*frames[start : start + 20])
            ours = lambda got, end=start + 20: [frame for frame in got if frame[12:14] == b"\x08\0"][:end]
            got = ours(to.wait(lambda got, end=min(start + 20, count): len(ours(got, end)) >= end))
        assert got == frames, (len(got), count, self.host.drops(), self.host.log())

    def comes(self, source, to):
        """Sends frames until one arrives: a link has come up again."""

        def one():
            self.number += 1
            frame = _frame(self.number)
            source.send(frame)
            return frame in to.wait(lambda got: frame in got, 0.2)

        assert wait_for(one), f"{self.host.drops()}\n{self.host.log()}"


def _kill(weir):
    weir.process.send_signal(signal.SIGKILL)
    weir.process.wait()


_TWO = ("in_port=1,actions=output:3", "in_port=4,actions=output:2", "in_port=2,actions=output:4", "in_port=3,actions=output:1")
_SINGLE = ("in_port=1,actions=output:5", "in_port=5,actions=output:2")


def test_guests_with_one_port_and_with_two():
    """Packets go through either guest, through both one after the other, and back: all arrive, in order, and all are accounted for."""
    with Lab() as lab:
        net = _Guests(lab)
        two, single = net.guest("guest.lua"), net.guest("guest-loop.lua")
        net.flows(*_TWO)
        net.comes(net.left, net.right)
        net.passes(net.left, net.right, 300)
        net.passes(net.right, net.left, 300)
        net.flows(*_SINGLE)
        net.comes(net.left, net.right)
        net.passes(net.left, net.right, 300)
        net.flows("in_port=1,actions=output:3", "in_port=4,actions=output:5", "in_port=5,actions=output:2")
        net.passes(net.left, net.right, 300)
        for weir in (two, single, net.host):
            weir.stats()
            weir.stop()


def test_a_virtual_machine_behind_the_switch():
    """The guest with one port in an emulated machine, whose virtio card has the other end of the switch's vhost port."""
    with Lab() as lab:
        net = _Guests(lab)
        net.flows(*_SINGLE)
        machine = Guest(lab, [VhostCard(f"{net.folder}/single.sock", "02:00:00:00:04:01")], iommu=False, shared=True)
        machine.bind("uio_pci_generic", 0)
        machine.run("sysctl -q vm.nr_hugepages=160")
        config = _config("guest-loop.lua", net.folder).replace(f"virtio_user:{net.folder}/single.sock", f"pci:{machine.address(0)}")
        assert config.count("pci:") == 1, config
        guest = Inside(machine, config)
        net.comes(net.left, net.right)
        net.passes(net.left, net.right, 100)
        guest.stats()
        guest.stop()
        net.host.stats()
        net.host.stop()


def test_a_guest_that_dies_comes_again():
    """Killed in the middle, gone properly, and killed again: the switch goes on, and so do packets once there is a guest."""
    with Lab() as lab:
        net = _Guests(lab)
        net.flows(*_SINGLE)
        for end in (_kill, lambda weir: weir.stop(), _kill):
            guest = net.guest("guest-loop.lua")
            net.comes(net.left, net.right)
            net.passes(net.left, net.right, 100)
            end(guest)
            net.left.send(*(_frame(n) for n in range(20)))
            assert wait_for(lambda: not {row["name"]: row["link_up"] for row in net.host.show("ports")}["single"])
            net.host.stats()
        assert len(net.host.show("flows")) == len(_SINGLE)
        net.host.stop()


def test_a_host_that_dies_comes_again():
    """The guest finds the switch that was started anew by itself: its port is closed, and opened as soon as somebody listens."""
    with Lab() as lab:
        net = _Guests(lab)
        guest = net.guest("guest-loop.lua")
        net.flows(*_SINGLE)
        net.comes(net.left, net.right)
        for _ in range(2):
            _kill(net.host)
            assert wait_for(lambda: not guest.show("ports")[0]["link_up"])
            guest.stats()
            net.host = net.weir(net.namespace, net.script)
            net.flows(*_SINGLE)
            net.comes(net.left, net.right)
            net.passes(net.left, net.right, 100)
        guest.stats()
        guest.stop()
        net.host.stop()


def test_ports_come_and_go_while_packets_flow():
    """A reload gives the switch one more guest, and takes one away: flows stay, and packets between the other ports are not lost."""
    with Lab() as lab:
        net = _Guests(lab)
        single = net.guest("guest-loop.lua")
        net.flows(*_SINGLE, "in_port=2,actions=output:1")
        net.comes(net.left, net.right)
        device = f'port {{ name = "more", device = "vhost:{net.folder}/more.sock" }}\n'
        more = device + net.script.replace('"single" }', '"single", "more" }')
        assert more.count('"more"') == 2
        for script in (more, net.script):
            flows = len(net.host.show("flows"))
            net.passes(net.right, net.left, 100)
            net.host.reload(script)
            assert len(net.host.show("flows")) == flows
            net.passes(net.right, net.left, 100)
            net.comes(net.left, net.right)
            net.passes(net.left, net.right, 100)
            if script == more:
                another = net.weir(None, _config("guest-loop.lua", net.folder).replace("single.sock", "more.sock"))
                net.flows("in_port=1,actions=output:6", "in_port=6,actions=output:2", "in_port=2,actions=output:1")
                net.comes(net.left, net.right)
                net.passes(net.left, net.right, 100)
                another.stop()
                net.flows(*_SINGLE, "in_port=2,actions=output:1")
        net.host.stats()
        single.stop()
        net.host.stop()


_LINKS = {
    "vhost": ("vhost:{0}/link.sock", "virtio_user:{0}/link.sock"),
    "memif": ("memif:0,role=server,socket={0}/link.sock", "memif:0,role=client,socket={0}/link.sock"),
}
_LISTENS = """
port {{ name = "link", device = "{0}" }}
port {{ name = "sink", device = "mem:null" }}
forward {{ pairs = {{ {{ "link", "sink" }} }}, workers = {{ {1} }} }}
"""
_SENDS = """
port {{ name = "source", device = "mem:replay=in.pcap,rate=20 kpps" }}
port {{ name = "link", device = "{0}" }}
forward {{ pairs = {{ {{ "source", "link" }} }}, {1} }}
"""


@contextlib.contextmanager
def _folder():
    with tempfile.TemporaryDirectory(prefix="weir-links-") as name:
        folder = pathlib.Path(name)
        for end in ("listens", "sends"):
            (folder / end).mkdir()
        pcapfile.write(folder / "sends/in.pcap", [(number * 1e-6, _frame(number)) for number in range(1000)])
        yield folder


def _grows(weir, port, what="rx_packets"):
    """Waits until a port counts more."""
    before = weir.stats()["ports"][port][what]
    assert wait_for(lambda: weir.stats()["ports"][port][what] > before + 1000), f"{port} {what} stays at {before}:\n{weir.output()}\n{weir.log()}"


def test_either_end_of_a_link_may_go_and_come():
    """Of vhost and of memif: whichever end is killed and started again, packets flow again, and the one that stayed knows of each of its own."""
    for listens, connects in _LINKS.values():
        with _folder() as folder:
            server = lambda: Weir(None, _LISTENS.format(listens.format(folder), 0), folder / "listens")
            client = lambda: Weir(None, _SENDS.format(connects.format(folder), "workers = { 1 }"), folder / "sends")
            sink, source = server(), client()
            try:
                _grows(sink, "link")
                for _ in range(2):
                    _kill(source)
                    sink.stats()
                    source = client()
                    _grows(sink, "link")
                    _kill(sink)
                    source.stats()
                    sink = server()
                    _grows(sink, "link")
                source.stop()
                sink.stop()
            finally:
                for weir in (sink, source):
                    weir.process.kill()
                    weir.process.wait()


def test_links_of_two_queues():
    """Two workers on either side have a queue each, both of which carry packets."""
    endless = 'port {{ name = "source", device = "null" }}\nport {{ name = "link", device = "{0}" }}\nforward {{ paths = {{ "source -> link" }}, workers = {{ 0, 1 }} }}\n'
    for listens, connects in _LINKS.values():
        with _folder() as folder:
            with Weir(None, _LISTENS.format(listens.format(folder), "0, 1"), folder / "listens") as sink:
                with Weir(None, endless.format(connects.format(folder)), folder / "sends") as source:
                    came = lambda weir: [worker["packets"] for worker in weir.stats()["workers"] if worker["core"] is not None]
                    assert wait_for(lambda: all(count > 10_000 for count in came(sink))), f"{came(sink)} of {came(source)}: {source.log()}"
                    source.stop()
                sink.stop()
