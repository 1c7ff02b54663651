"""Devices of Linux that the kernel here may lack, in an emulated machine, as peers of a router with interfaces: VLANs, QinQ, and a VRF."""

from lab.guest import BOOT, Card, Guest
from lab.netns import Lab
from lab.weir import Weir, wait_for

COMPANY = "no guest"

_TRUNK, _GUEST = "02:00:00:00:00:01", "02:00:00:00:01:01"

# The same addresses in both routers: on `red`'s side they are in a VRF of the guest's.
_SCRIPT = """
port { name = "lan", device = "af_packet:lan", address = "10.0.0.1/24" }
port { name = "red", device = "af_packet:red", address = "10.0.0.1/24" }
port { name = "trunk", device = "af_packet:trunk", address = "192.0.2.1/24", of = "plain" }
interface { name = "trunk.10", on = "trunk", of = "plain", vlan = 10, address = "192.0.10.1/24" }
interface { name = "trunk.7.9", on = "trunk", of = "plain", vlan = 7, inner_vlan = 9, address = "192.0.79.1/24" }
interface { name = "trunk.20", on = "trunk", of = "vrf", vlan = 20, address = "192.0.10.1/24" }
router { name = "plain", ports = { "lan", "trunk" }, workers = { 1 } }
router { name = "vrf", ports = { "red", "trunk" }, workers = { 1 } }
"""

# s7 is there for q9 only: by IPv6 it would ask for routers behind one tag, which no interface here has.
_DEVICES = """set -e
ip link set dev eth0 mtu 1508 up
ip address add 192.0.2.9/24 dev eth0
ip link add link eth0 name v10 mtu 1500 type vlan id 10
ip link add link eth0 name s7 mtu 1504 type vlan protocol 802.1ad id 7
ip link add link s7 name q9 mtu 1500 type vlan id 9
ip link add name red type vrf table 100
ip link add link eth0 name v20 mtu 1500 type vlan id 20
ip link set dev v20 master red
ip address add 192.0.10.9/24 dev v10
ip address add 192.0.79.9/24 dev q9
ip address add 192.0.10.9/24 dev v20
echo 1 > /proc/sys/net/ipv6/conf/s7/disable_ipv6
for device in red v10 s7 q9 v20; do ip link set dev $device up; done
ip route add 10.0.0.2 via 192.0.10.1
ip route add 10.0.0.3 via 192.0.79.1
ip route add 10.0.0.4 via 192.0.2.1
ip route add vrf red 10.0.0.0/24 via 192.0.10.1
"""


def _host(lab, router, name, mac):
    """A host on a port of the router, 10.0.0.2 to 10.0.0.4."""
    host = lab.namespace(name)
    lab.wire((router, name, mac), (host, "eth0", mac[:-2] + "ff"))
    for last in (2, 3, 4):
        host.run("ip", "address", "add", f"10.0.0.{last}/24", "dev", "eth0")
    host.run("ip", "route", "add", "default", "via", "10.0.0.1")
    return host


def test_vlans_qinq_and_a_vrf_of_linux():
    """Packets of full size each way between hosts and the guest's devices, one tag, two and none; what is in a VRF there meets only the router
    whose interface it is on, though addresses are the same."""
    with Lab() as lab:
        router = lab.namespace("r")
        hosts = {"lan": _host(lab, router, "lan", "02:00:00:00:00:02"), "red": _host(lab, router, "red", "02:00:00:00:00:03")}
        guest = Guest(lab, [Card("virtio-net-pci", _GUEST, router, "trunk", _TRUNK)], iommu=False, memory=512, cores=1)
        guest.run(_DEVICES)
        with Weir(router, _SCRIPT) as weir:
            assert wait_for(lambda: all(row["link_up"] for row in weir.show("ports")))
            received = lambda function: {row["name"]: row["rx_packets"] for row in weir.show("interfaces", "--function", function)}
            whole = ("-n", "-q", "-c", "1", "-W", "90", "-M", "do", "-s", "1472")
            ways = (
                ("plain", "trunk.10", "lan", "10.0.0.2", "192.0.10.9", ""),
                ("plain", "trunk.7.9", "lan", "10.0.0.3", "192.0.79.9", ""),
                ("plain", "trunk", "lan", "10.0.0.4", "192.0.2.9", ""),
                ("vrf", "trunk.20", "red", "10.0.0.2", "192.0.10.9", "-I red"),
            )
            for function, interface, host, near, far, by in ways:
                before = received(function)
                guest.run(f"ping {' '.join(whole)} {by} {near}", patience=BOOT)
                hosts[host].run("ping", *whole, "-I", near, far)
                after = received(function)
                # A question and an answer came by each; by others may have come what kernels ask of their neighbours now and then.
                assert all(after[name] >= before[name] + 2 for name in (interface, host)), (interface, before, after)
            assert not [drop for drop in weir.drops() if "unknown-tag" in drop], weir.drops()
            # A VLAN that nobody has here.
            guest.run("ip link add link eth0 name v99 type vlan id 99 && ip address add 192.0.99.9/24 dev v99 && ip link set dev v99 up")
            guest.run("ping -n -q -c 1 -W 1 192.0.99.1", check=False)
            assert wait_for(lambda: weir.drops().get("plain.forward unknown-tag")), weir.drops()
            unknown = lambda: {row["name"]: row["unknown_tags"] for row in weir.show("interfaces", "--function", "plain")}["trunk"]
            assert wait_for(lambda: unknown() == "99"), unknown()
            weir.stats()
            weir.stop()
