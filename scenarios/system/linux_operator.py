"""What an operator does with a router for which a Linux namespace speaks: logs in by ssh, asks by SNMP, looks with tcpdump."""

import json
import re

from lab.hosts import ping
from lab.netns import Lab
from lab.servers import Snmp, Ssh, Tcpdump
from lab.weir import check_account, wait_for

from .linux_control import Controlled

_SYS_NAME = "1.3.6.1.2.1.1.5.0"
_IF_MTU, _IF_MAC, _IF_STATE = (f"1.3.6.1.2.1.2.2.1.{column}" for column in (4, 6, 8))
_IF_NAME, _IF_IN_OCTETS = (f"1.3.6.1.2.1.31.1.1.1.{column}" for column in (1, 6))


def test_an_operator_logs_in():
    """By ssh from either side, to the address of the near side and of the far one; what a command prints comes back as it is."""
    with Lab() as lab:
        net = Controlled(lab)
        ssh = Ssh(lab, net.control, "10.0.0.1")
        # What the kernel prints of them changes once it has made sure that nobody else has its link-local addresses.
        assert wait_for(lambda: "tentative" not in net.control.run("ip", "-j", "address"))
        for host, address in ((net.lan, "10.0.0.2"), (net.wan, "192.0.2.254")):
            came = ssh.log_in(host, "echo $SSH_CONNECTION").split()
            assert (came[0], came[2:]) == (address, ["10.0.0.1", "22"]), came
            there = json.loads(ssh.log_in(host, "ip", "-j", "address"))
            assert there == json.loads(net.control.run("ip", "-j", "address")), there
            assert {"lan", "wan"} <= {link["ifname"] for link in there}, there
            numbers = ssh.log_in(host, "seq", "100000").splitlines()
            assert numbers == [str(number) for number in range(1, 100_001)], len(numbers)
        # What is done there is done to the router.
        ssh.log_in(net.wan, "ip", "route", "add", "10.1.0.0/16", "via", "10.0.0.2")
        net.follows("10.1.0.0/16", ["10.0.0.2%lan"])
        check_account(net.weir.show("stats"))


def test_an_operator_asks_by_snmp():
    """The name of the system; interfaces by name with MAC address, MTU and state; octets that grow by what was received, and no more."""
    with Lab() as lab:
        net = Controlled(lab)
        # An interface with a tag is one like any other.
        net.weir.command("interface", "add", "lan.7", "on", "lan", "vlan", "7", "mtu", "1400", "address", "10.7.0.1/24")
        assert wait_for(lambda: "lan.7" in net.links()), net.weir.log()
        snmp = Snmp(lab, net.control, "192.0.2.1", "weir-edge")
        # From the far side, so that nothing but pings comes by `lan`.
        name = snmp.get(net.wan, _SYS_NAME)
        assert name == ["weir-edge"], name
        index = {name: number for number, name in snmp.walk(net.wan, _IF_NAME).items()}
        assert {"lan", "wan", "lan.7"} <= set(index), index
        for name, mac, mtu in (("lan", "02 00 00 00 00 02", "1500"), ("wan", "02 00 00 00 00 01", "1500"), ("lan.7", "02 00 00 00 00 02", "1400")):
            answer = snmp.get(net.wan, *(f"{column}.{index[name]}" for column in (_IF_MTU, _IF_MAC, _IF_STATE)))
            assert answer == [mtu, mac, "1"], (name, answer)
        octets = lambda name: int(snmp.get(net.wan, f"{_IF_IN_OCTETS}.{index[name]}")[0])
        kernel = lambda: net.control.link("lan")["stats64"]["rx"]["bytes"]
        # The first packet asks for its sender.
        ping(net.lan, "10.0.0.1", 1)
        # It looks only so often.
        assert wait_for(lambda: octets("lan") == kernel(), interval=0.5), (octets("lan"), kernel())
        before = {name: octets(name) for name in ("lan", "lan.7", "wan")}
        ping(net.lan, "10.0.0.1", 20, "-s", "1000", interval=0.05)
        grown = 20 * (14 + 20 + 8 + 1000)
        assert wait_for(lambda: octets("lan") - before["lan"] >= grown, interval=0.5), (octets("lan"), before)
        assert octets("lan") - before["lan"] == grown == kernel() - before["lan"], (octets("lan"), before)
        assert octets("lan.7") == before["lan.7"] and octets("wan") > before["wan"]
        net.lan.run("ip", "link", "set", "eth0", "down")
        state = lambda: snmp.get(net.wan, f"{_IF_STATE}.{index['lan']}")
        assert wait_for(lambda: state() == ["2"], interval=0.5), state()
        check_account(net.weir.show("stats"))


def test_an_operator_looks_with_tcpdump():
    """On a TAP: each packet to the router's own address once, and each answer; what the router forwards is not there."""
    with Lab() as lab:
        net = Controlled(lab)
        dumps = {
            (link, direction): Tcpdump(lab, net.control, link, direction, "icmp") for link in ("lan", "wan") for direction in ("in", "out")
        }
        ping(net.lan, "198.51.100.1", 11, interval=0.05)
        ping(net.lan, "10.0.0.1", 7, "-s", "1400", interval=0.05)
        ping(net.control, "192.0.2.254", 5, interval=0.05)
        expected = {
            ("lan", "in"): ("10.0.0.2 > 10.0.0.1: ICMP echo request", "length 1408", 7),
            ("lan", "out"): ("10.0.0.1 > 10.0.0.2: ICMP echo reply", "length 1408", 7),
            ("wan", "in"): ("192.0.2.254 > 192.0.2.1: ICMP echo reply", "length 64", 5),
            ("wan", "out"): ("192.0.2.1 > 192.0.2.254: ICMP echo request", "length 64", 5),
        }
        for key, (packet, length, count) in expected.items():
            assert wait_for(lambda k=key, n=count: len(dumps[k].lines()) >= n), dumps[key].lines()
        for key, (packet, length, count) in expected.items():
            lines, end = dumps[key].stop()
            sequence = [f"IP {packet}, seq {number}, {length}" for number in range(1, count + 1)]
            assert [re.sub(" id [0-9]+,", "", line) for line in lines] == sequence, (key, lines)
            assert f"{count} packets captured" in end and "0 packets dropped by kernel" in end, (key, end)
        check_account(net.weir.show("stats"))
