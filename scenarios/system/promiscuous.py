"""Which frames ports receive: promiscuous mode where a function takes frames to whatever address, and nowhere else."""

import json

from lab.hosts import HOST_MACS, MACS, STATIC, Between, config, numbers
from lab.netns import Lab
from lab.packets import IP, UDP, Ether, raw
from lab.weir import wait_for

_FORWARD = """
port {{ name = "lan", device = "{driver}:lan" }}
port {{ name = "wan", device = "{driver}:wan" }}
forward {{ pairs = {{ {{ "lan", "wan" }} }}, workers = {{ 1 }} }}
"""

_STRANGER = "02:00:00:00:77:77"


def _packet(number, mac):
    header = Ether(src=HOST_MACS["lan"], dst=mac) / IP(src="10.0.0.2", dst="198.51.100.7", flags="DF")
    return raw(header / UDP(sport=7, dport=7, chksum=0) / (number.to_bytes(8, "big") + bytes(14)))


def _kernels(net):
    """(promiscuity, wishes for all groups) of both interfaces, as the kernel counts them."""
    links = {row["ifname"]: row for row in json.loads(net.router.run("ip", "-d", "-j", "link", "show"))}
    return [(links[name]["promiscuity"], links[name]["allmulti"]) for name in ("lan", "wan")]


def _told(net):
    return {row["name"]: row["promiscuous"] for row in net.weir.show("ports")}


def test_ports_are_promiscuous_only_where_a_function_needs_it():
    """A router's are not, those of `forward` are; a reload from one to the other changes that on ports that stay open. What a device lets
    through to other stations is dropped by name."""
    for driver in ("af_packet", "af_xdp"):
        with Lab() as lab:
            router, forward = config(driver, more=STATIC), _FORWARD.format(driver=driver)
            net = Between(lab, router, bare=True)
            assert _kernels(net) == [(0, 1), (0, 1)], (driver, _kernels(net))
            assert _told(net) == {"lan": False, "wan": False}
            assert wait_for(lambda: all(row["link_up"] for row in net.weir.show("ports")))
            # A veth has nothing to pick frames by: what is for another station comes, and goes no further.
            net.lan_wire.send(_packet(1, _STRANGER), _packet(2, MACS["lan"]))
            assert wait_for(lambda: numbers(net.wan_wire.frames()) == [2]), (driver, net.weir.drops())
            assert net.weir.drops()["router.forward not-for-us"] == 1, net.weir.drops()
            net.weir.reload(forward)
            assert _kernels(net) == [(1, 1), (1, 1)], (driver, _kernels(net))
            assert _told(net) == {"lan": True, "wan": True}
            net.lan_wire.send(_packet(3, _STRANGER))
            assert wait_for(lambda: numbers(net.wan_wire.frames()) == [2, 3]), (driver, net.weir.drops())
            net.weir.reload(router)
            assert _kernels(net) == [(0, 1), (0, 1)], (driver, _kernels(net))
            assert _told(net) == {"lan": False, "wan": False}
            net.weir.stats()
            net.weir.stop()
            assert _kernels(net) == [(0, 0), (0, 0)], (driver, _kernels(net))
