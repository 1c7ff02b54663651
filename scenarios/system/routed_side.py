"""The routed side of a bridge: `interface { on = "bridge:lan" }`, between Linux hosts in VLANs of the bridge."""

import subprocess

from lab import PATIENCE
from lab.hosts import PATIENT, check_answered, ping, speaks_ipv6
from lab.netns import Lab
from lab.packets import ARP, Dot1Q, Ether, raw
from lab.weir import Weir, wait_for

_SCRIPT = """
port {{ name = "p0", device = "af_packet:p0" }}
port {{ name = "p1", device = "af_packet:p1" }}
port {{ name = "p2", device = "af_packet:p2" }}
port {{ name = "p3", device = "af_packet:p3" }}
port {{ name = "p4", device = "af_packet:p4" }}
interface {{ name = "office", on = "bridge:lan", vlan = 10, address = {{ "10.0.10.1/24", "2001:db8:10::1/64" }} }}
interface {{ name = "guests", on = "bridge:lan", vlan = 20, address = {{ "10.0.20.1/24", "2001:db8:20::1/64" }} }}
{more}
bridge {{
  name    = "lan",
  tagging = "802.1q",
  workers = {{ {workers[0]} }},
  ports   = {{ p0 = {{ vlan = 10 }}, p1 = {{ vlan = 20 }}, p2 = {{ vlan = 10 }}, p3 = {{ vlan = 30 }}, {ports} }},
}}
router {{ workers = {{ {workers[1]} }}, {router} }}
"""

_MAC = "02:51:00:00:00:0{}"

# Name, ports of the bridge that lead to it, VLAN.
_HOSTS = (("one", ("p0", "p2"), 10), ("two", ("p1",), 20), ("three", ("p3",), 30))


def _script(more="", ports="", router="", workers=(0, 0)):
    return _SCRIPT.format(more=more, ports=ports, router=router, workers=workers)


def _host(lab, ours, name, ports, vlan):
    """A host at `.9` of its network, whose gateway is at `.1`, on the first of its devices."""
    host = lab.namespace(name)
    # Devices are silent until they have addresses.
    host.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0")
    for number, port in enumerate(ports):
        lab.wire((ours, port, f"02:50:00:00:{vlan:02x}:0{number}"), (host, f"eth{number}", _MAC.format(vlan // 10)))
    _address(host, "eth0", vlan)
    return host


def _address(host, device, vlan):
    host.run("sysctl", "-qw", f"net.ipv6.conf.{device}.accept_dad=0", f"net.ipv6.conf.{device}.disable_ipv6=0")
    host.run("ip", "address", "add", f"10.0.{vlan}.9/24", "dev", device)
    host.run("ip", "address", "add", f"2001:db8:{vlan}::9/64", "dev", device, "nodad")
    host.run("ip", "route", "add", "default", "via", f"10.0.{vlan}.1")
    host.run("ip", "-6", "route", "add", "default", "via", f"2001:db8:{vlan}::1", "dev", device)


def _lab(lab):
    ours = lab.namespace("weir")
    hosts = {name: _host(lab, ours, name, ports, vlan) for name, ports, vlan in _HOSTS}
    far = lab.namespace("far")
    lab.wire((ours, "p4", "02:50:00:00:ff:00"), (far, "eth0", "02:50:00:00:ff:01"))
    return ours, hosts, lab.tap(far, "eth0")


def _ping(host, *targets, count=5):
    for target in targets:
        ping(host, target, count, interval=0.05)


def _hops(host, target):
    """The addresses that traceroute finds on the way, by one probe at a time: of several it waits for one hardly longer than for the next."""
    family = "-6" if ":" in target else "-4"
    lines = host.run("traceroute", family, "-n", "-N", "1", "-q", "1", "-w", "20", "-m", "5", target).splitlines()[1:]
    return [line.split()[1] for line in lines]


def _both(host, vlan, last):
    _ping(host, f"10.0.{vlan}.{last}", f"2001:db8:{vlan}::{last}")


def _can_speak(weir):
    """The interfaces' addresses of IPv6 are used once nobody else was found to have them."""
    usable = lambda: all(row["usable"] for row in weir.show("addresses"))
    assert wait_for(usable), weir.show("addresses")


def test_hosts_in_two_vlans_reach_each_other():
    """Both families, on one worker and on two: the gateway answers, and is the one hop on the way; a host moves from port to port, and the gateway does not
    though a host says that it has its address."""
    for workers in ((0, 0), (0, 1)):
        with Lab() as lab:
            ours, hosts, _ = _lab(lab)
            with Weir(ours, _script(workers=workers)) as weir:
                _can_speak(weir)
                one, two = hosts["one"], hosts["two"]
                for host, own, other in ((one, 10, 20), (two, 20, 10)):
                    _both(host, own, 1)
                    _both(host, other, 1)
                    _both(host, other, 9)
                    assert _hops(host, f"10.0.{other}.9") == [f"10.0.{own}.1", f"10.0.{other}.9"]
                    assert _hops(host, f"2001:db8:{other}::9") == [f"2001:db8:{own}::1", f"2001:db8:{other}::9"]
                macs = {(row["mac"], row["vlan"]): (row["port"], row["source"]) for row in weir.show("macs")}
                gateway = {row["mac"] for row in weir.show("interfaces") if row["name"] == "office"}.pop()
                assert macs[gateway, 10] == macs[gateway, 20] == ("lan:routed", "interface"), macs
                assert (gateway, 30) not in macs and macs[_MAC.format(1), 10] == ("p0", "learned"), macs
                names = {row["name"]: row["port"] for row in weir.show("interfaces")}
                assert names == {"office": "bridge:lan", "guests": "bridge:lan"}, names

                # The host is behind p2 from now on.
                one.run("ip", "address", "flush", "dev", "eth0")
                one.run("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=1")
                _address(one, "eth1", 10)
                _both(one, 20, 9)
                _both(two, 10, 9)
                moved = {row["port"]: row["moves"] for row in weir.show("bridge-ports")}
                assert moved["p2"] >= 1 and moved["lan:routed"] == 0, moved

                # One that says it is the gateway is not believed.
                wire = lab.tap(two, "eth0")
                wire.send(raw(Ether(dst="ff:ff:ff:ff:ff:ff", src=gateway, type=0x88B5)) + bytes(46))
                assert wait_for(lambda: weir.stats()["ports"]["p1"]["rx_packets"] > 0)
                _both(one, 20, 9)
                assert {row["port"] for row in weir.show("macs", gateway)} == {"lan:routed"}
                weir.stats()
                weir.stop()


def test_interfaces_come_and_go_while_packets_flow():
    """By command and by reload: not a ping of others is lost; floods of a VLAN go to the router as long as it has an interface there."""
    with Lab() as lab:
        ours, hosts, _ = _lab(lab)
        with Weir(ours, _script()) as weir:
            _can_speak(weir)
            one, three = hosts["one"], hosts["three"]
            _both(one, 20, 9)
            carried = lambda: {row["vlan"] for row in weir.show("vlans") if "lan:routed" in row["tagged"].split()}
            assert carried() == {10, 20}
            flowing = one.popen("ping", "-n", "-i", "0.02", "-c", "300", *PATIENT, "10.0.20.9", stdout=subprocess.PIPE)
            weir.command("interface", "add", "lab", "on", "bridge:lan", "vlan", "30", "address", "10.0.30.1/24", "2001:db8:30::1/64")
            assert carried() == {10, 20, 30}
            _can_speak(weir)
            _both(three, 30, 1)
            _both(three, 10, 9)
            weir.command("interface", "del", "lab")
            assert carried() == {10, 20}
            assert "0 received" in three.run("ping", "-n", "-c", "2", "-i", "0.2", "-W", "1", "10.0.30.1", check=False)

            lab_30 = 'interface { name = "lab", on = "bridge:lan", vlan = 30, address = { "10.0.30.1/24", "2001:db8:30::1/64" } }'
            weir.reload(_script(more=lab_30))
            assert carried() == {10, 20, 30}
            _can_speak(weir)
            _both(three, 20, 9)
            weir.reload(_script())
            assert carried() == {10, 20}
            check_answered(flowing.communicate(timeout=PATIENCE)[0], 300)

            # Another port builds the bridge anew, which knows the interfaces all the same.
            weir.reload(_script(ports="p4 = { vlan = 10 }"))
            _both(one, 20, 9)
            # Without interfaces there is no routed side any more, and the bridge goes on without.
            alone = _script(router='ports = { "p4" }').replace("interface {", "-- ").replace('"af_packet:p4"', '"af_packet:p4", address = "192.0.2.1/24"')
            weir.reload(alone)
            assert "lan:routed" not in {row["port"] for row in weir.show("bridge-ports")}
            weir.reload(_script())
            _can_speak(weir)
            _both(one, 20, 9)
            weir.stats()
            weir.stop()


def test_a_bridge_without_vlans_and_two_tags_inside_of_one():
    """Frames without a tag belong to one interface, those with a tag to others; in a bridge of service tags, `inner_vlan` is the customer's."""
    with Lab() as lab:
        ours, hosts, far = _lab(lab)
        plain = """
        port { name = "p0", device = "af_packet:p0" }
        port { name = "p4", device = "af_packet:p4" }
        interface { name = "inside", on = "bridge:lan", address = { "10.0.10.1/24", "2001:db8:10::1/64" } }
        interface { name = "seven", on = "bridge:lan", vlan = 7, address = "10.0.7.1/24" }
        bridge { name = "lan", ports = { p0 = {}, p4 = {} } }
        router {}
        """
        ask = lambda tags, last: raw(_asking(tags, last))
        with Weir(ours, plain) as weir:
            _can_speak(weir)
            _both(hosts["one"], 10, 1)
            far.send(ask([Dot1Q(vlan=7)], "10.0.7"))
            assert _answered(far, "81000007", "0a000701"), weir.drops()
            weir.reload(plain.replace('name = "lan",', 'name = "lan", tagging = "802.1ad",').replace("p4 = {}", 'p4 = { tagged = "7" }').replace(
                "p0 = {}", "p0 = { vlan = 10 }").replace('name = "inside", on = "bridge:lan",', 'name = "inside", on = "bridge:lan", vlan = 10,').replace(
                "vlan = 7,", "vlan = 7, inner_vlan = 9,"))
            _can_speak(weir)
            _both(hosts["one"], 10, 1)
            far.clear()
            frame = ask([Dot1Q(vlan=7), Dot1Q(vlan=9)], "10.0.7")
            far.send(frame[:12] + b"\x88\xa8" + frame[14:])
            assert _answered(far, "88a8000781000009", "0a000701"), weir.drops()
            weir.stop()


def _asking(tags, network):
    """An ARP request for `.1`, with tags."""
    frame = Ether(dst="ff:ff:ff:ff:ff:ff", src="02:50:00:00:ff:01")
    for tag in tags:
        frame = frame / tag
    return frame / ARP(op=1, hwsrc="02:50:00:00:ff:01", psrc=f"{network}.9", pdst=f"{network}.1")


def _answered(wire, tags, address):
    """Whether an ARP answer came with these tags from this address, in hexadecimal digits."""
    reply = f"{tags}08060001080006040002"
    is_it = lambda frame: frame[12:].hex().startswith(reply) and address in frame[12:].hex()
    return wait_for(lambda: any(is_it(frame) for frame in wire.frames()))


def test_linux_speaks_for_the_interfaces():
    """Each has a TAP in the namespace, through which Linux reaches the hosts behind the bridge."""
    with Lab() as lab:
        ours, hosts, _ = _lab(lab)
        plane = lab.namespace("plane")
        speaks_ipv6(plane)
        with Weir(ours, _script(router=f'linux = {{ netns = "{plane.name}" }}')) as weir:
            _can_speak(weir)
            _both(hosts["one"], 20, 9)
            gateway = {row["mac"] for row in weir.show("interfaces") if row["name"] == "office"}.pop()
            assert wait_for(lambda: gateway in plane.run("ip", "link", "show", "dev", "office", check=False))
            _ping(hosts["one"], "10.0.10.1")
            assert wait_for(lambda: "10.0.10.1/24" in plane.run("ip", "address", "show", "dev", "office"))
            _ping(plane, "10.0.10.9", "10.0.20.9")
            weir.stop()


_BARE = """
port {{ name = "p0", device = "af_packet:p0" }}
port {{ name = "p1", device = "af_packet:p1" }}
port {{ name = "p4", device = "af_packet:p4" }}
port {{ name = "up", device = "null", address = "192.0.2.1/24" }}
bridge {{
  name = "lan", tagging = "802.1q", workers = {{ 0 }},
  ports = {{ p0 = {{ vlan = 10 }}, p1 = {{ vlan = 20 }}, p4 = {{ vlan = 10 }}{ports} }},
}}
router {{ name = "core", ports = {{ "up" }} }}
{more}
"""


def _refused(weir, *words):
    """What is said of an interface that is not added."""
    done = weir.command("interface", "add", *words, check=False)
    assert done.returncode != 0, words
    return done.stderr


def _sides(weir):
    return [row["port"] for row in weir.show("bridge-ports") if row["port"] == "lan:routed"]


def test_the_first_interface_is_added_while_packets_flow():
    """On a bridge that had none, and by either of two routers: the routed side is made for it, stays across reloads as long as there is one, and goes with the
    reload after the last. Not a ping through the bridge is lost."""
    office = ("office", "on", "bridge:lan", "vlan", "10", "address", "10.0.10.1/24", "2001:db8:10::1/64")
    guests = ("guests", "on", "bridge:lan", "vlan", "20", "address", "10.0.20.1/24", "2001:db8:20::1/64")
    with Lab() as lab:
        ours = lab.namespace("weir")
        one, two = _host(lab, ours, "one", ("p0",), 10), _host(lab, ours, "two", ("p1",), 20)
        other = lab.namespace("other")
        lab.wire((ours, "p4", "02:50:00:00:ff:00"), (other, "eth0", "02:50:00:00:ff:01"))
        other.run("ip", "address", "add", "10.0.10.8/24", "dev", "eth0")
        with Weir(ours, _BARE.format(ports="", more="")) as weir:
            carried = lambda: {row["vlan"] for row in weir.show("vlans") if "lan:routed" in row["tagged"].split()}
            assert not _sides(weir)
            _ping(one, "10.0.10.8")
            flowing = one.popen("ping", "-n", "-i", "0.02", "-c", "1000", *PATIENT, "10.0.10.8", stdout=subprocess.PIPE)
            assert "vlan is missing: bridge:lan tells VLANs apart; write one of 10, 20" in _refused(weir, "office", "on", "bridge:lan")
            assert 'there is no bridge "wan"; an interface is on a port, or one of bridge:lan' in _refused(weir, "office", "on", "bridge:wan", "vlan", "10")
            assert not _sides(weir)

            weir.command("interface", "add", *office)
            assert _sides(weir) and carried() == {10}
            weir.command("interface", "add", *guests)
            assert carried() == {10, 20}
            rows = {row["name"]: (row["port"], row["mtu"]) for row in weir.show("interfaces")}
            assert rows["office"] == rows["guests"] == ("bridge:lan", 1500), rows
            _can_speak(weir)
            for host, own, far in ((one, 10, 20), (two, 20, 10)):
                _both(host, own, 1)
                _both(host, far, 9)

            # The configuration names no interface, and a reload of it leaves them where they are.
            weir.reload(_BARE.format(ports="", more=""))
            _both(one, 20, 9)
            weir.reload(_BARE.format(ports=', p5 = { tagged = "10,20" }', more='port { name = "p5", device = "null" }'))
            assert carried() == {10, 20}
            _both(two, 10, 9)

            # Another router has its own there.
            weir.reload(_BARE.format(ports="", more='port { name = "up2", device = "null", address = "192.0.3.1/24" }\nrouter { name = "edge", ports = { "up2" } }'))
            lab_30 = ("lab", "on", "bridge:lan", "vlan", "30", "address", "10.0.30.1/24")
            assert "name one with --function" in _refused(weir, *lab_30)
            weir.command("interface", "add", *lab_30, "--function", "edge")
            assert carried() == {10, 20, 30}
            owners = {name: {row["name"] for row in weir.show("interfaces", "--function", name)} for name in ("core", "edge")}
            assert owners == {"core": {"office", "guests", "up"}, "edge": {"lab", "up2"}}, owners
            _both(one, 20, 9)
            weir.command("interface", "del", "lab", "--function", "edge")
            weir.reload(_BARE.format(ports="", more=""))

            # Without interfaces it is in no VLAN; the next reload takes it away.
            weir.command("interface", "del", "office")
            weir.command("interface", "del", "guests")
            assert _sides(weir) and not carried()
            weir.command("interface", "add", *office)
            _can_speak(weir)
            _both(one, 10, 1)
            weir.command("interface", "del", "office")
            weir.reload(_BARE.format(ports="", more=""))
            assert not _sides(weir)

            weir.command("interface", "add", *office)
            weir.command("interface", "add", *guests)
            _can_speak(weir)
            _both(two, 10, 9)
            check_answered(flowing.communicate(timeout=PATIENCE)[0], 1000)
            weir.stats()
            weir.stop()


def test_the_first_interface_on_a_bridge_without_vlans():
    """It has the frames without a tag, and no second one may."""
    plain = 'port { name = "p0", device = "af_packet:p0" }\nport { name = "up", device = "null", address = "192.0.2.1/24" }\nbridge { name = "lan", ports = { p0 = {} } }\nrouter { ports = { "up" } }'
    with Lab() as lab:
        ours = lab.namespace("weir")
        one = _host(lab, ours, "one", ("p0",), 10)
        with Weir(ours, plain) as weir:
            weir.command("interface", "add", "inside", "on", "bridge:lan", "address", "10.0.10.1/24", "2001:db8:10::1/64")
            _can_speak(weir)
            _both(one, 10, 1)
            assert "interface inside has the untagged packets of its port" in _refused(weir, "more", "on", "bridge:lan")
            weir.reload(plain)
            _both(one, 10, 1)
            weir.command("interface", "del", "inside")
            weir.command("interface", "add", "inside", "on", "bridge:lan", "address", "10.0.10.1/24")
            _ping(one, "10.0.10.1")
            weir.stop()
