"""VXLAN tunnels of a bridge and of a switch: byte by byte as scapy has it, floods among several tunnels, and hosts that talk with hosts behind Open vSwitch."""

import re
import shutil
import tempfile

from scapy.layers.vxlan import VXLAN

from lab import Skipped
from lab.hosts import ping
from lab.netns import Lab, run
from lab.openvswitch import OpenVSwitch
from lab.packets import IP, UDP, Ether, IPv6, payload, raw
from lab.weir import Weir, somebody_listens, wait_for

COMPANY = "no guest"

_MACS = {"wan": "02:00:00:00:00:01", "lan": "02:00:00:00:00:02"}
_NEXT = "02:00:00:00:01:01"
_HOST = "02:00:00:00:01:02"
_ENDS = {"berlin": ("192.0.2.1", "198.51.100.7"), "oslo": ("2001:db8::1", "2001:db8:5::7")}
_STATION = "02:aa:00:00:00:0{}"

_CONFIG = """
port {{ name = "wan", device = "af_packet:wan", address = {{ "192.0.2.1/24", "2001:db8::1/64" }}, mtu = {mtu} }}
port {{ name = "lan", device = "af_packet:lan" }}
{ports}
bridge {{ ports = {{ lan = {{}}, {bridged} }} }}
vxlan {{
  ports = {{ "wan" }}, {more}
  tunnels = {{ {tunnels} }},
  routes = {{ ["198.51.100.0/24"] = "192.0.2.254", ["2001:db8:5::/48"] = "2001:db8::ff" }},
  neighbors = {{ ["192.0.2.254"] = "{next}", ["2001:db8::ff"] = "{next}" }},
}}
"""


def _config(tunnels, mtu=1500, more=""):
    """A bridge of one port and these tunnels, VNI 100."""
    ports = "".join(f'port {{ name = "{end}-{name}", device = "joint:{name}" }}\n' for name in tunnels for end in ("vx", "tunnel"))
    bridged = ", ".join(f'["vx-{name}"] = {{ isolated = true }}' for name in tunnels)
    said = ", ".join(f'["tunnel-{name}"] = {{ vni = 100, source = "{source}", remote = "{remote}" }}' for name, (source, remote) in tunnels.items())
    return _CONFIG.format(ports=ports, bridged=bridged, tunnels=said, mtu=mtu, more=more, next=_NEXT)


def _frame(source, to, number, length=46):
    address = _STATION.format(to) if to else "ff:ff:ff:ff:ff:ff"
    return raw(Ether(dst=address, src=_STATION.format(source), type=0x88B5) / (number.to_bytes(4, "big") + payload(length)))


def _outer(name, frame, outward, port=50_000):
    """The packet around a frame, on its way out or in."""
    source, remote = _ENDS[name] if outward else _ENDS[name][::-1]
    is_six = ":" in source
    ip = IPv6(src=source, dst=remote, hlim=64) if is_six else IP(src=source, dst=remote, id=0, flags="DF", ttl=64)
    link = Ether(src=_MACS["wan"], dst=_NEXT) if outward else Ether(src=_NEXT, dst=_MACS["wan"])
    return raw(link / ip / UDP(sport=port, dport=4789, chksum=0) / VXLAN(flags=8, vni=100) / frame)


def _around(got):
    """A packet without what may be anything: the port from 49152 on, and the flow label."""
    packet = Ether(got)
    assert packet[UDP].sport >= 49152
    at = 14 + (40 if IPv6 in packet else 20)
    plain = bytearray(got)
    plain[at : at + 2] = (50_000).to_bytes(2, "big")
    if IPv6 in packet:
        plain[15] &= 0xF0
        plain[16:18] = b"\0\0"
    return bytes(plain)


class _Bridged:
    """A bridge with tunnels to two places, between raw sockets."""

    def __init__(self, lab, change=lambda script: script):
        weir, outside, host = lab.namespace("weir"), lab.namespace("outside"), lab.namespace("host")
        lab.wire((weir, "wan", _MACS["wan"]), (outside, "eth0", _NEXT))
        lab.wire((weir, "lan", _MACS["lan"]), (host, "eth0", _HOST))
        self.wan, self.lan = lab.tap(outside, "eth0"), lab.tap(host, "eth0")
        self.weir = Weir(weir, change(_config(_ENDS)))
        lab.at_end(lambda: self.weir.__exit__(None, None, None))
        assert wait_for(lambda: all(row["usable"] for row in self.weir.show("addresses")))

    def tunneled(self, count):
        """So many packets of tunnels that have left since the last call."""
        ours = lambda frames: [_around(frame) for frame in frames if VXLAN in Ether(frame)]
        got = ours(self.wan.wait(lambda frames: len(ours(frames)) >= count))
        self.wan.clear()
        return sorted(got)

    def arrived(self, count):
        """So many frames that have come to the host since the last call."""
        ours = lambda frames: [frame for frame in frames if frame[12:14] == b"\x88\xb5"]
        got = ours(self.lan.wait(lambda frames: len(ours(frames)) >= count))
        self.lan.clear()
        return got


def test_a_bridge_floods_to_each_tunnel():
    """What is flooded goes to both tunnels, and from a tunnel to no other; what is known goes where it is."""
    with Lab() as lab:
        net = _Bridged(lab)
        broadcast = _frame(1, 0, 1)
        net.lan.send(broadcast)
        assert net.tunneled(2) == sorted(_outer(name, broadcast, True) for name in _ENDS)
        for number, name in enumerate(_ENDS, 2):
            flood = _frame(number, 0, number)
            net.wan.send(_outer(name, flood, False, 1000 + number))
            assert net.arrived(1) == [flood]
        for number, name in enumerate(_ENDS, 2):
            frame = _frame(1, number, 10 + number, 1400)
            net.lan.send(frame)
            assert net.tunneled(1) == [_outer(name, frame, True)]
            answer = _frame(number, 1, 20 + number, 1400)
            net.wan.send(_outer(name, answer, False))
            assert net.arrived(1) == [answer]
        # Nothing has gone from tunnel to tunnel: all that left was awaited above.
        assert not [frame for frame in net.wan.frames() if VXLAN in Ether(frame)]
        net.weir.stop()


def test_the_longest_frames_and_strangers():
    """A frame that fits to the byte, one that is longer, and packets of others: each drop has its name."""
    with Lab() as lab:
        net = _Bridged(lab)
        net.wan.send(_outer("berlin", _frame(2, 0, 1), False), _outer("oslo", _frame(3, 0, 2), False))
        net.arrived(2)
        for to, name, longest in ((2, "berlin", 1464), (3, "oslo", 1444)):
            fits, longer = (_frame(1, to, 5, longest - 18 + more) for more in (0, 1))
            net.lan.send(longer, fits)
            assert net.tunneled(1) == [_outer(name, fits, True)]
        stranger = raw(Ether(src=_NEXT, dst=_MACS["wan"]) / IP(src="203.0.113.9", dst="192.0.2.1") / UDP(dport=4789, chksum=0) / VXLAN(vni=100) / _frame(2, 1, 9))
        unknown = raw(Ether(src=_NEXT, dst=_MACS["wan"]) / IP(src="198.51.100.7", dst="192.0.2.1") / UDP(dport=4789, chksum=0) / VXLAN(vni=101) / _frame(2, 1, 9))
        net.wan.send(stranger, unknown, _outer("berlin", _frame(2, 1, 10), False))
        assert net.arrived(1) == [_frame(2, 1, 10)]
        drops = net.weir.drops()
        expected = {"vxlan.decap vxlan-unknown-peer": 1, "vxlan.decap vxlan-unknown-vni": 1, "vxlan.encap too-long": 2}
        assert {name: drops.get(name) for name in expected} == expected, drops
        assert [row["port"] for row in net.weir.show("vxlans", "198.51.100.7")] == ["tunnel-berlin"]
        net.weir.stop()


def test_a_switch_has_tunnels_for_ports():
    """The same tunnels as ports of an OpenFlow switch, whose flows lead frames into them and out of them."""
    if shutil.which("ovs-ofctl") is None:
        raise Skipped("ovs-ofctl is missing (package openvswitch-common)")
    with Lab() as lab, tempfile.TemporaryDirectory(prefix="weir-vxlan-") as folder:
        path = f"unix:{folder}/switch.mgmt"
        keys = f'ports = {{ "lan", "vx-berlin", "vx-oslo" }}, listen = "{path}"'
        net = _Bridged(lab, lambda script: re.sub(r"(?m)^bridge .*$", f"switch {{ {keys} }}", script))
        assert wait_for(lambda: somebody_listens(f"{folder}/switch.mgmt")), net.weir.log()
        for flow in ("in_port=1,actions=output:2,output:3", "in_port=2,actions=output:1", "in_port=3,actions=set_field:02:aa:00:00:00:09->eth_dst,output:1"):
            run("ovs-ofctl", "-O", "OpenFlow13", "add-flow", path, flow)
        frame = _frame(1, 2, 1, 1000)
        net.lan.send(frame)
        assert net.tunneled(2) == sorted(_outer(name, frame, True) for name in _ENDS)
        net.wan.send(_outer("berlin", _frame(2, 1, 2), False))
        assert net.arrived(1) == [_frame(2, 1, 2)]
        net.wan.send(_outer("oslo", _frame(3, 1, 3), False))
        assert net.arrived(1) == [_frame(3, 9, 3)]
        net.weir.stop()


def test_hosts_talk_through_a_tunnel_with_open_vswitch():
    """Two Linux hosts in one network: one behind a bridge of Weir, the other behind one of Open vSwitch, over IPv4 with a router's ARP between."""
    with Lab() as lab:
        weir, ovs, near, far = (lab.namespace(name) for name in ("weir", "ovs", "near", "far"))
        lab.wire((weir, "wan", _MACS["wan"]), (ovs, "under", "02:00:00:00:03:01"), mtu=1600)
        lab.wire((weir, "lan", _MACS["lan"]), (near, "eth0", _HOST))
        lab.wire((ovs, "lan", "02:00:00:00:03:02"), (far, "eth0", "02:00:00:00:03:03"))
        for host, address in ((near, "10.0.0.1/24"), (far, "10.0.0.2/24")):
            host.run("ip", "address", "add", address, "dev", "eth0")
        switch = OpenVSwitch(lab, ovs)
        netdev = ("datapath_type=netdev",)
        switch.vsctl("add-br", "br-under", "--", "set", "bridge", "br-under", *netdev, "--", "add-port", "br-under", "under")
        ovs.run("ip", "address", "add", "192.0.2.9/24", "dev", "br-under")
        ovs.run("ip", "link", "set", "dev", "br-under", "mtu", "1600", "up")
        switch.vsctl("add-br", "br-lan", "--", "set", "bridge", "br-lan", *netdev, "--", "add-port", "br-lan", "lan")
        switch.vsctl("add-port", "br-lan", "vx", "--", "set", "interface", "vx", "type=vxlan", "options:remote_ip=192.0.2.1", "options:key=100")
        config = _config({"far": ("192.0.2.1", "192.0.2.9")}, mtu=1600)
        with Weir(weir, config) as bridge:
            talks = lambda *more: "1 received" in near.run("ping", "-n", "-c", "1", "-W", "1", *more, "10.0.0.2", check=False)
            assert wait_for(talks), f"{bridge.drops()}\n{switch.vsctl('show')}"
            # 1,500 bytes of IP, which take 1,550 in the tunnel.
            assert wait_for(lambda: talks("-M", "do", "-s", "1472")), bridge.drops()
            ping(near, "10.0.0.2", 50)
            rows = {row["mac"]: row["port"] for row in bridge.show("macs")}
            assert rows["02:00:00:00:03:03"] == "vx-far", rows
            bridge.stop()
