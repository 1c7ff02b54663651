"""ICMP redirects: a Linux host that is told of a nearer router goes to it from then on."""

import subprocess

from lab import PATIENCE
from lab.hosts import addresses, ping
from lab.netns import Lab
from lab.weir import Weir, wait_for

FAR = "198.51.100.1"

CONFIG = """
port {{ name = "lan", device = "{driver}:lan", address = "10.0.0.1/24" }}
router {{ ports = {{ "lan" }}, routes = {{ ["198.51.100.0/24"] = "10.0.0.9" }}, redirects = {redirects} }}
"""


def via(host):
    """The next hop that a host would take to FAR."""
    words = host.run("ip", "route", "get", FAR).split()
    return words[words.index("via") + 1]


def one_lan(lab, driver, redirects):
    """A host, Weir and a second router on one network; behind the second router is FAR. Returns the host and Weir."""
    switch = lab.namespace("switch")
    switch.run("ip", "link", "add", "name", "lan", "type", "bridge")
    switch.run("ip", "link", "set", "dev", "lan", "up")
    members = {}
    for number, name in enumerate(("weir", "host", "other")):
        member = members[name] = lab.namespace(name)
        inside = "lan" if name == "weir" else "eth0"
        lab.wire((member, inside, f"02:00:00:00:01:0{number}"), (switch, name, f"02:00:00:00:02:0{number}"))
        switch.run("ip", "link", "set", "dev", name, "master", "lan")
    host, other = members["host"], members["other"]
    host.run("sysctl", "-qw", "net.ipv4.conf.all.accept_redirects=1", "net.ipv4.conf.eth0.accept_redirects=1")
    addresses(host, "10.0.0.2/24", "10.0.0.1")
    addresses(other, "10.0.0.9/24", "10.0.0.1")
    other.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    other.run("ip", "address", "add", f"{FAR}/32", "dev", "lo")
    weir = Weir(members["weir"], CONFIG.format(driver=driver, redirects=str(redirects).lower()))
    lab.at_end(lambda: weir.__exit__(None, None, None))
    return host, weir


def test_linux_follows_a_redirect():
    """RFC 1812 section 5.2.7.2: the packets arrive, and the host that sent them learns the shorter way (RFC 1122 section 3.2.2.2)."""
    for driver in ("af_packet", "af_xdp"):
        with Lab() as lab:
            host, weir = one_lan(lab, driver, redirects=True)
            assert via(host) == "10.0.0.1"
            # It goes on sending until it is told: Linux takes a redirect only while the socket is there whose packet it is about, and
            # after the first it asks for the gateway's link address (RFC 1812 section 5.2.7.2 makes redirects advice).
            pings = host.popen("ping", "-i", "0.1", "-w", str(int(PATIENCE)), FAR, stdout=subprocess.DEVNULL)
            try:
                assert wait_for(lambda: via(host) == "10.0.0.9"), host.run("ip", "route", "get", FAR)
            finally:
                pings.kill()
                pings.wait()
            # From here on nothing comes by Weir.
            before = weir.stats()["ports"]["lan"]["rx_packets"]
            ping(host, FAR, 20)
            assert weir.stats()["ports"]["lan"]["rx_packets"] - before < 20, "the host still goes by Weir"


def test_nobody_is_told_unless_asked_for():
    """Without the key the packets arrive all the same, and the host stays with Weir."""
    with Lab() as lab:
        host, _ = one_lan(lab, "af_packet", redirects=False)
        ping(host, FAR, 5, interval=0.05)
        assert via(host) == "10.0.0.1"
