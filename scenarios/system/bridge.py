"""The same frames to a bridge of Linux and to Weir's: the same come out of both."""

import collections
import random

from lab.guest import BOOT, Card, Guest
from lab.hosts import ping
from lab.netns import Lab
from lab.packets import Dot1AD, Dot1Q, Ether, raw
from lab.weir import Weir, wait_for

COMPANY = "no guest"

_PORTS = ("p0", "p1", "p2", "p3")
_STATIONS = [f"02:aa:00:00:00:{n:02x}" for n in range(1, 9)]
_STICKY = "02:aa:00:00:00:77"
_GROUPS = ("ff:ff:ff:ff:ff:ff", "01:00:5e:01:02:03", "33:33:00:00:00:05", "01:80:c2:00:00:00", "01:80:c2:00:00:10")
_KEPT = ("01:80:c2:00:00:02", "01:80:c2:00:00:0e")
_NO_STATIONS = ("00:00:00:00:00:00", "01:02:03:04:05:06")

_DEVICES = "".join(f'port {{ name = "{port}", device = "af_packet:{port}" }}\n' for port in _PORTS)


def _mac(side, port):
    return f"02:{side:02x}:00:00:00:0{port + 1}"


def _ends(lab, side, bridge):
    """Joins a bridge's ports in a namespace to raw sockets in another."""
    hosts = lab.namespace(f"hosts{side}")
    for n, port in enumerate(_PORTS):
        lab.wire((bridge, port, _mac(side, n)), (hosts, f"h{n}", _mac(side + 1, n)))
    return [lab.tap(hosts, f"h{n}") for n in range(len(_PORTS))]


def _frames(rng, count, tags):
    """Frames of few stations at random, most of them from where the station was before; (port, bytes) each."""
    at = {station: rng.randrange(len(_PORTS)) for station in _STATIONS + [_STICKY]}
    for number in range(count):
        source = rng.choice(_STATIONS + [_STICKY])
        if rng.random() < 0.1:
            at[source] = rng.randrange(len(_PORTS))
        port = at[source]
        if rng.random() < 0.05:
            source = rng.choice(_NO_STATIONS)
        kinds = ((_STATIONS + [_STICKY], 12), (_GROUPS, 4), (_KEPT, 1))
        to = rng.choice(rng.choices([which for which, _ in kinds], [weight for _, weight in kinds])[0])
        frame = Ether(dst=to, src=source)
        for _ in range(rng.choices((0, 1, 2), tags)[0]):
            tag = Dot1Q if rng.random() < 0.6 else Dot1AD
            frame = frame / tag(vlan=rng.choice((0, 1, 2, 3, 4, 9)), prio=rng.randrange(8))
        # Behind the tags stands an EtherType for experiments (IEEE 802), and the frame's number.
        text = raw(frame)[:-2] + b"\x88\xb5" + number.to_bytes(4, "big")
        yield port, text.ljust(64, b"\0")


def _counts(wires):
    return [len(wire.frames()) for wire in wires]


def _mark(port, number, tagged):
    """A broadcast that shows that what was sent to a port before has been switched; in VLAN 1, with a tag where `tagged` says so."""
    frame = Ether(dst="ff:ff:ff:ff:ff:ff", src=f"02:bb:00:00:00:0{port}")
    frame = frame / tagged(vlan=1) if tagged else frame
    return raw(frame)[:-2] + b"\x88\xb6" + number.to_bytes(4, "big") + bytes(46)


def _compare(frames, linux, weir, tag_of=lambda port: None):
    """Sends each frame to both, and goes on when a mark that follows it has come out; in the end all that came must be the same, in its order."""
    for number, (port, frame) in enumerate(frames):
        mark = _mark(port, number, tag_of(port))
        ending = mark[-52:]
        for wires in (linux, weir):
            wires[port].send(frame, mark)
        seen = lambda frames, ending=ending: any(ending in frame for frame in frames[-2:])
        for wires in (linux, weir):
            # A port that all others may send to; the last one may, in turn, send to the one before.
            assert seen(wires[3 if port != 3 else 2].wait(seen)), f"frame {number} by p{port}: {frame.hex()}"
    wait_for(lambda: _counts(linux) == _counts(weir))
    for n, (one, other) in enumerate(zip(linux, weir)):
        by_linux, by_weir = (collections.Counter(frame.hex() for frame in wire.frames()) for wire in (one, other))
        assert by_linux == by_weir, f"p{n}: only by Linux {by_linux - by_weir}, only by Weir {by_weir - by_linux}"
    for n, (one, other) in enumerate(zip(linux, weir)):
        for number, (by_linux, by_weir) in enumerate(zip(one.frames(), other.frames())):
            assert by_linux == by_weir, f"p{n}, frame {number}: {by_linux.hex()} by Linux, {by_weir.hex()} by Weir"
        one.clear()
        other.clear()


def _ready(linux, weir):
    """A broadcast without a tag passes from p0 to p1 in both; what came until then is forgotten."""
    number = 0
    for wires in (linux, weir):

        def passes(wires=wires):
            nonlocal number
            number += 1
            hello = raw(Ether(dst="ff:ff:ff:ff:ff:ff", src="02:bb:00:00:00:01", type=0x88B5)) + number.to_bytes(4, "big") + bytes(46)
            wires[0].send(hello)
            # To some with a tag. When this one has come, those before it came, or never will.
            has = lambda frames: any(frame.endswith(hello[14:]) for frame in frames)
            return all(has(wire.wait(has, 1.0)) for wire in wires[1:])

        assert wait_for(passes, BOOT), "no broadcast passes"
    last = None
    while last != (last := (_counts(linux), _counts(weir))):
        wait_for(lambda: False, 1.0)
    for wire in linux + weir:
        wire.clear()


def test_a_bridge_of_linux_and_weirs():
    """Frames without tags and with any, floods, moves, groups, addresses that bridges keep to themselves, senders that are none; then with isolated
    ports, a port that does not learn, and a station that stays where it is."""
    rng = random.Random(7)
    with Lab() as lab:
        kernel, ours = lab.namespace("linux"), lab.namespace("weir")
        linux, weir_wires = _ends(lab, 0x10, kernel), _ends(lab, 0x20, ours)
        kernel.run("ip", "link", "add", "br0", "type", "bridge", "stp_state", "0", "forward_delay", "0", "mcast_snooping", "0", "no_linklocal_learn", "1")
        for port in _PORTS:
            kernel.run("ip", "link", "set", port, "master", "br0")
        kernel.run("ip", "link", "set", "br0", "up")
        ports = ", ".join(f"{port} = {{}}" for port in _PORTS)
        plain = f'{_DEVICES}bridge {{ ports = {{ {ports} }}, control_frames = "stp" }}'
        with Weir(ours, plain) as weir:
            _ready(linux, weir_wires)
            _compare(_frames(rng, 800, (6, 3, 1)), linux, weir_wires)
            for port, option in (("p0", "isolated"), ("p1", "isolated"), ("p2", "learning")):
                kernel.run("bridge", "link", "set", "dev", port, option, "off" if option == "learning" else "on")
            kernel.run("bridge", "fdb", "flush", "dev", "br0", "dynamic")
            kernel.run("bridge", "fdb", "replace", _STICKY, "dev", "p3", "master", "static", "sticky")
            special = plain.replace("p0 = {}", "p0 = { isolated = true }").replace("p1 = {}", "p1 = { isolated = true }")
            special = special.replace("p2 = {}", "p2 = { learn = false }")
            weir.reload(special.replace("control_frames", f'macs = {{ {{ mac = "{_STICKY}", port = "p3" }} }}, control_frames'))
            weir.command("mac", "flush")
            _compare(_frames(rng, 800, (6, 3, 1)), linux, weir_wires)
            assert weir.stats()
            weir.stop()


# VLANs of ports: that of frames without a tag, and those of frames with one.
_VLANS = (("p0", 1, ()), ("p1", 1, (2, 3)), ("p2", 2, (1, 4)), ("p3", None, (1, 2, 3, 4)))


def _filtering(protocol):
    """Makes a bridge of Linux that is aware of VLANs, over the guest's cards."""
    lines = [
        "set -e; ip link del br0 2>/dev/null || true",
        f"ip link add br0 type bridge forward_delay 0 mcast_snooping 0 no_linklocal_learn 1 vlan_filtering 1 vlan_default_pvid 0 vlan_protocol {protocol}",
    ]
    for n, (_, native, tagged) in enumerate(_VLANS):
        lines.append(f"ip link set eth{n} mtu 1600 master br0 up; bridge vlan del dev eth{n} vid 1 2>/dev/null || true")
        lines += [f"bridge vlan add dev eth{n} vid {native} pvid untagged"] if native else []
        lines += [f"bridge vlan add dev eth{n} vid {vlan}" for vlan in tagged]
    return "\n".join([*lines, "echo 1 >/proc/sys/net/ipv6/conf/br0/disable_ipv6", "ip link set br0 up"])


def test_vlans_of_a_bridge_of_linux_and_of_weirs():
    """The same with VLANs, of 802.1Q and of 802.1ad, against a bridge in an emulated machine: tags, priorities, native VLANs, frames that are not let in."""
    rng = random.Random(11)
    with Lab() as lab:
        outside, ours = lab.namespace("outside"), lab.namespace("weir")
        cards = [Card("virtio-net-pci", f"02:30:00:00:00:0{n}", outside, f"g{n}", f"02:31:00:00:00:0{n}") for n in range(len(_PORTS))]
        guest = Guest(lab, cards, iommu=False, memory=512, cores=1)
        guest.run("echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6")
        linux = [lab.tap(outside, f"g{n}") for n in range(len(_PORTS))]
        weir_wires = _ends(lab, 0x40, ours)
        of_port = lambda native, tagged: ", ".join(
            ([f"vlan = {native}"] if native else []) + ([f'tagged = "{",".join(map(str, tagged))}"'] if tagged else [])
        )
        ports = ", ".join(f"{name} = {{ {of_port(native, tagged)} }}" for name, native, tagged in _VLANS)
        config = f'{_DEVICES}bridge {{ tagging = "802.1q", ports = {{ {ports} }}, control_frames = "stp" }}'
        with Weir(ours, config) as weir:
            for protocol, tag in (("802.1q", Dot1Q), ("802.1ad", Dot1AD)):
                guest.run(_filtering(protocol))
                weir.reload(config.replace('"802.1q"', f'"{protocol}"'))
                _ready(linux, weir_wires)
                _compare(_frames(rng, 250, (3, 5, 2)), linux, weir_wires, lambda port, tag=tag: tag if port > 1 else None)
            assert weir.stats()
            weir.stop()


# A host behind the bridge and one behind the router.
_ROUTED = """
port {{ name = "p0", device = "af_packet:p0" }}
port {{ name = "p1", device = "af_packet:p1" }}
port {{ name = "inside", device = "joint:lan" }}
port {{ name = "lan", device = "joint:lan" }}
port {{ name = "wan", device = "af_packet:wan", address = "192.0.2.1/24" }}
interface {{ name = "office", on = "lan", vlan = 10, address = "10.0.10.1/24" }}
interface {{ name = "guests", on = "lan", vlan = 20, address = "10.0.20.1/24" }}
bridge {{ tagging = "802.1q", ports = {{ p0 = {{ vlan = 10 }}, p1 = {{ vlan = 20 }}, inside = {{ tagged = "10,20" }} }} }}
router {{ ports = {{ "lan", "wan" }} }}
"""


def test_the_routed_side_is_a_joint():
    """Hosts in two VLANs of a bridge, which reach each other and the world by a router on the other end of a joint; ageing, moves and the account go on."""
    with Lab() as lab:
        ours = lab.namespace("weir")
        hosts = {}
        for name, port, address, gateway in (
            ("one", "p0", "10.0.10.9/24", "10.0.10.1"),
            ("two", "p1", "10.0.20.9/24", "10.0.20.1"),
            ("far", "wan", "192.0.2.9/24", "192.0.2.1"),
        ):
            hosts[name] = host = lab.namespace(name)
            number = len(hosts)
            lab.wire((ours, port, f"02:50:00:00:00:0{number}"), (host, "eth0", f"02:51:00:00:00:0{number}"))
            host.run("ip", "address", "add", address, "dev", "eth0")
            host.run("ip", "route", "add", "default", "via", gateway)
        with Weir(ours, _ROUTED.format()) as weir:
            for target in ("10.0.10.1", "10.0.20.9", "192.0.2.9"):
                ping(hosts["one"], target, 5, interval=0.05)
            known = lambda: {(row["mac"], row["port"], row["vlan"]) for row in weir.show("macs")}
            assert wait_for(lambda: {("02:51:00:00:00:01", "p0", 10), ("02:51:00:00:00:02", "p1", 20)} <= known()), known()
            assert wait_for(lambda: {vlan for _, port, vlan in known() if port == "inside"} == {10, 20}), known()
            weir.stats()
            weir.stop()
