"""Tags that a Linux host hands to its end of a veth beside the frame, and AF_XDP ports at the other end."""

from lab.hosts import HOST_MACS, MACS
from lab.netns import Lab
from lab.packets import Dot1AD, Dot1Q, Ether, payload, raw
from lab.weir import Weir, wait_for

SCRIPT = """
port { name = "lan", device = "af_xdp:lan" }
port { name = "wan", device = "af_packet:wan" }
forward { pairs = { { "lan", "wan" } }, workers = { 1 } }
"""

# One tag of either kind, and two: Linux hands over the outer one beside the frame.
TAGS = (Dot1Q(vlan=7, prio=3), Dot1AD(vlan=8), Dot1AD(vlan=100) / Dot1Q(vlan=200))
UNTAGGED = raw(Ether(src=HOST_MACS["lan"], dst=MACS["lan"], type=0x88B5) / payload(80))
TAGGED = [UNTAGGED[:12] + raw(Ether() / tags / b"x")[12:-3] + UNTAGGED[12:] for tags in TAGS]


def _host(lab, router, host):
    """A host that hands tags over as Linux does: its bridge takes them off what comes to it at `outside`, and sends it by eth0 with the tag
    beside it. Returns the wire that ends at `outside`."""
    lab.wire((router, "lan", MACS["lan"]), (host, "eth0", HOST_MACS["lan"]))
    lab.wire((host, "inside", "02:00:00:00:02:01"), (host, "outside", "02:00:00:00:02:02"))
    host.run("ip", "link", "add", "name", "bridge", "type", "bridge", "mcast_snooping", "0")
    for interface in ("eth0", "inside"):
        host.run("ip", "link", "set", "dev", interface, "master", "bridge")
    host.run("ip", "link", "set", "dev", "bridge", "up")
    return lab.tap(host, "outside")


def _sent(outside, wan, frames):
    """What arrives at wan of frames that are sent into the bridge, in order."""
    wan.clear()
    outside.send(*frames)
    # Theirs is the only such type.
    ours = lambda got: [frame for frame in got if b"\x88\xb5" in frame[12:24]]
    return ours(wan.wait(lambda got: len(ours(got)) >= len(frames)))


def _told(weir):
    return [line for line in weir.log().splitlines() if "txvlan off" in line and "port=lan" in line]


def test_tags_that_a_host_here_hands_over_arrive():
    """The other end is in Weir's network namespace: Weir has it put tags in, and says nothing."""
    with Lab() as lab:
        router, far = lab.namespace("r"), lab.namespace("wan")
        outside = _host(lab, router, router)
        lab.wire((router, "wan", MACS["wan"]), (far, "eth0", HOST_MACS["wan"]))
        wan = lab.tap(far, "eth0")
        before = router.run("ethtool", "-k", "eth0")
        with Weir(router, SCRIPT) as weir:
            assert wait_for(lambda: all(port["link_up"] for port in weir.show("ports")))
            assert _sent(outside, wan, TAGGED) == TAGGED
            weir.stats()
            assert not _told(weir), weir.log()
            weir.stop()
        assert router.run("ethtool", "-k", "eth0") == before, "as it was"


def test_tags_that_a_host_elsewhere_hands_over_are_told_of():
    """The other end is out of reach: the log says what is lost and what to do about it there; once that is done, tags arrive."""
    with Lab() as lab:
        router, host, far = lab.namespace("r"), lab.namespace("lan"), lab.namespace("wan")
        outside = _host(lab, router, host)
        lab.wire((router, "wan", MACS["wan"]), (far, "eth0", HOST_MACS["wan"]))
        wan = lab.tap(far, "eth0")
        with Weir(router, SCRIPT) as weir:
            assert wait_for(lambda: _told(weir)), weir.log()
            (line,) = _told(weir)
            index = host.link("eth0")["ifindex"]
            assert "level=warn" in line and "af_xdp:lan" in line and f"interface number {index} there" in line, line
            assert wait_for(lambda: all(port["link_up"] for port in weir.show("ports")))
            # What docs/ports.md says of AF_XDP: the outer tag is gone.
            without = [UNTAGGED, UNTAGGED, UNTAGGED[:12] + TAGGED[2][16:20] + UNTAGGED[12:]]
            assert _sent(outside, wan, TAGGED) == without
            command = line.split("run there ")[1].split(" (")[0].replace("DEV", "eth0").split()
            host.run(*command)
            assert _sent(outside, wan, TAGGED) == TAGGED
            weir.stats()
            weir.stop()
