"""Multicast groups on a bridge that asks who listens: Linux hosts with sockets in groups, and a bridge of Linux that asks, too."""

import contextlib
import ipaddress
import socket
import struct
import time

from lab.netns import Lab
from lab.weir import Weir, drops_of, wait_for

# Robustness x interval + response is less than the membership (RFC 3376 section 8.4); the kernel of a busy machine may take seconds for an answer.
_INTERVAL, _RESPONSE, _ROBUSTNESS, _MEMBERSHIP, _LAST_MEMBER = 2.0, 1.0, 4, 10.0, 1.0
_PRESENT = _ROBUSTNESS * _INTERVAL + _RESPONSE / 2  # RFC 3376 section 8.5, RFC 3810 section 9.5

_PORTS = ("p0", "p1", "p2", "p3")
_GROUPS = ("239.1.2.3", "ff05::1:3")
_OTHERS = ("239.9.9.9", "ff05::9:9")
_TO = 5001

_OWN, _OWN_IPV6 = "10.0.0.5", "fe80::5"

_DEVICES = "".join(f'port {{ name = "{port}", device = "af_packet:{port}" }}\n' for port in _PORTS)

_BRIDGE = """
bridge {{
  ports = {{ p0 = {{}}, p1 = {{}}, p2 = {{}}, p3 = {{}} }},
  snooping = {{
    enabled = true, unregistered = "routers", membership = "10 s", last_member = "1 s", router = "10 s",
    querier = {{ enabled = {asks}, interval = "2 s", response = "1 s", robustness = 4{own} }},
  }},
}}
"""


def _script(asks=True):
    addresses = f', address = "{_OWN}", address_ipv6 = "{_OWN_IPV6}"'
    return _DEVICES + _BRIDGE.format(asks=str(asks).lower(), own=addresses)


def _speaks(namespace, device, last):
    """Gives a host addresses of both families, at once."""
    namespace.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0", f"net.ipv6.conf.{device}.accept_dad=0", f"net.ipv6.conf.{device}.disable_ipv6=0")
    namespace.run("ip", "address", "add", f"10.0.0.{last}/24", "dev", device)
    namespace.run("ip", "route", "add", "224.0.0.0/4", "dev", device)


def _host(lab, ours, port, last):
    host = lab.namespace(f"host{last}")
    lab.wire((ours, port, f"02:60:00:00:00:{last:02x}"), (host, "eth0", f"02:61:00:00:00:{last:02x}"))
    _speaks(host, "eth0", last)
    return host


def _ear(lab, ours, port):
    """Somebody who says nothing."""
    lab.wire((ours, port, f"02:60:00:00:01:0{port[1]}"), (lab.namespace(port), "eth0", f"02:61:00:00:01:0{port[1]}"))


def _versions(host, igmp, mld):
    """The versions of IGMP and MLD that a host speaks."""
    host.run("sysctl", "-qw", f"net.ipv4.conf.eth0.force_igmp_version={igmp}", f"net.ipv6.conf.eth0.force_mld_version={mld}")


class _Listener:
    """Sockets of a host that are in groups, one for each, and what they get. It leaves them when it is closed."""

    def __init__(self, host, groups, device="eth0"):
        self.sockets = []
        with host.entered():
            number = socket.if_nametoindex(device)
            for group in groups:
                is_six = ":" in group
                one = socket.socket(socket.AF_INET6 if is_six else socket.AF_INET, socket.SOCK_DGRAM)
                one.bind((group, _TO, 0, number) if is_six else (group, _TO))
                address = socket.inet_pton(one.family, group)
                if is_six:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, address + struct.pack("@I", number))
                else:
                    one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, address + bytes(4) + struct.pack("@I", number))
                one.setblocking(False)
                self.sockets.append(one)

    def got(self):
        """What came since it was last asked, by group."""
        all_of = []
        for one in self.sockets:
            came = []
            with contextlib.suppress(BlockingIOError):
                while True:
                    came.append(one.recv(2048))
            all_of.append(came)
        return all_of

    def close(self):
        for one in self.sockets:
            one.close()


def _send(host, groups, text):
    """A datagram to each group."""
    with host.entered():
        number = socket.if_nametoindex("eth0")
        for group in groups:
            is_six = ":" in group
            with socket.socket(socket.AF_INET6 if is_six else socket.AF_INET, socket.SOCK_DGRAM) as one:
                if is_six:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, number)
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 5)
                    one.sendto(text, (group, _TO))
                else:
                    one.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, bytes(8) + struct.pack("@I", number))
                    one.sendto(text, (group, _TO))


def _members(weir, groups=_GROUPS):
    """The ports in each of these groups, with the version of their last report."""
    rows = weir.show("groups")
    return {group: {row["port"]: row["version"] for row in rows if row["group"] == group} for group in groups}


def _in_both(weir, *ports):
    return wait_for(lambda: all(set(of) == set(ports) for of in _members(weir).values()))


def _stays(weir, port, seconds, groups=_GROUPS):
    """Whether a port is in these groups all the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not all(port in of for of in _members(weir, groups).values()):
            return False
        time.sleep(0.1)
    return True


def _data(wire, groups):
    """The datagrams to groups that came by an interface."""
    ends = [socket.inet_pton(socket.AF_INET6 if ":" in group else socket.AF_INET, group) for group in groups]
    is_it = lambda frame: frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[30:34] in ends
    is_six = lambda frame: frame[12:14] == b"\x86\xdd" and frame[20] == 17 and frame[38:54] in ends
    return [frame for frame in wire.frames() if is_it(frame) or is_six(frame)]


def _arrives(listener, source, groups, text):
    """Whether what a host sends to groups comes to one that is in them, once each; it may take a moment until workers know of a group."""
    listener.got()

    def once(number=[0]):
        number[0] += 1
        this = text + b" %d" % number[0]
        _send(source, groups, this)
        end, came = time.monotonic() + 1.0, [[] for _ in groups]
        while time.monotonic() < end and not all(this in of for of in came):
            for of, more in zip(came, listener.got()):
                of += more
            time.sleep(0.01)
        return all(of.count(this) == 1 for of in came)

    return wait_for(once, interval=0)


def test_hosts_stay_in_groups_as_long_as_they_listen():
    """With each version of IGMP and MLD: their answers to questions keep the port in the group, frames go to it and to nobody else, and leaving ends that at once;
    with nobody who asks, they are forgotten."""
    with Lab() as lab:
        ours = lab.namespace("weir")
        one, two, source = (_host(lab, ours, port, last) for port, last in (("p0", 11), ("p1", 12), ("p2", 13)))
        _ear(lab, ours, "p3")
        other_wire = lab.tap(two, "eth0")
        with Weir(ours, _script()) as weir:
            for igmp, mld in ((3, 2), (2, 1)):
                _versions(one, igmp, mld)
                listener, elsewhere = _Listener(one, _GROUPS), _Listener(two, _OTHERS)
                assert _in_both(weir, "p0"), weir.show("groups")
                assert _stays(weir, "p0", 1.5 * _MEMBERSHIP), (igmp, weir.show("groups"))
                versions = {group: of["p0"] for group, of in _members(weir).items()}
                assert versions == dict(zip(_GROUPS, (igmp, mld))), versions

                other_wire.clear()
                assert _arrives(listener, source, _GROUPS, b"for one"), weir.show("groups")
                assert _arrives(elsewhere, source, _OTHERS, b"for two"), weir.show("groups")
                assert wait_for(lambda: _data(other_wire, _OTHERS)) and not _data(other_wire, _GROUPS)
                assert not any(listener.got())

                listener.close()
                left = time.monotonic()
                assert _in_both(weir), weir.show("groups")
                assert time.monotonic() - left < _MEMBERSHIP - _INTERVAL, "it was not asked for the group, but forgotten"
                elsewhere.close()
                assert wait_for(lambda: not any(_members(weir, _OTHERS).values())), weir.show("groups")

            # Nobody asks any more, and so nobody answers.
            weir.reload(_script(asks=False))
            listener = _Listener(one, _GROUPS)
            assert _in_both(weir, "p0"), weir.show("groups")
            assert wait_for(lambda: not any(_members(weir).values())), weir.show("groups")
            assert not {"bridge.control.snoop-malformed"} & set(drops_of(weir.stats()))
            listener.close()
            weir.stop()


def test_two_hosts_behind_one_port():
    """When one leaves, the other answers for the group, and goes on to hear it; when it leaves, too, it ends."""
    with Lab() as lab:
        ours, hub = lab.namespace("weir"), lab.namespace("hub")
        source = _host(lab, ours, "p0", 11)
        _ear(lab, ours, "p1")
        _ear(lab, ours, "p2")
        lab.wire((ours, "p3", "02:60:00:00:00:03"), (hub, "uplink", "02:61:00:00:00:03"))
        hosts = [_host(lab, hub, f"h{last}", last) for last in (21, 22)]
        # It hears nothing of groups: whoever is behind it is behind one port.
        hub.run("ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "0", "forward_delay", "0")
        for port in ("uplink", "h21", "h22"):
            hub.run("ip", "link", "set", port, "master", "br0")
        hub.run("ip", "link", "set", "br0", "up")
        with Weir(ours, _script()) as weir:
            for igmp, mld in ((3, 2), (2, 1)):
                for host in hosts:
                    _versions(host, igmp, mld)
                first, second = (_Listener(host, _GROUPS) for host in hosts)
                assert _in_both(weir, "p3"), weir.show("groups")
                assert _arrives(second, source, _GROUPS, b"both")
                first.close()
                assert _stays(weir, "p3", 3 * _LAST_MEMBER), weir.show("groups")
                assert _arrives(second, source, _GROUPS, b"one")
                second.close()
                left = time.monotonic()
                assert _in_both(weir), weir.show("groups")
                assert time.monotonic() - left < _MEMBERSHIP - _INTERVAL, "it was not asked for the group, but forgotten"
            weir.stats()
            weir.stop()


def _linux_asks(lab, ours, last):
    """A bridge of Linux behind p3 that asks, with a host behind it; its address in IPv4 ends in `last`."""
    sw = lab.namespace("linux")
    sw.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.default.disable_ipv6=0", "net.ipv6.conf.default.accept_dad=0")
    lab.wire((ours, "p3", "02:60:00:00:00:03"), (sw, "uplink", "02:61:00:00:00:03"))
    host = _host(lab, sw, "host", 31)
    # Hundredths of a second.
    times = ("mcast_query_interval", "200", "mcast_startup_query_interval", "100", "mcast_query_response_interval", "100", "mcast_querier_interval", "850")
    sw.run("ip", "link", "add", "br0", "type", "bridge", "forward_delay", "0", "mcast_querier", "1", "mcast_query_use_ifaddr", "1", *times)
    for port in ("uplink", "host"):
        sw.run("sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=1")
        sw.run("ip", "link", "set", port, "master", "br0")
    sw.run("ip", "address", "add", f"10.0.0.{last}/24", "dev", "br0")
    sw.run("ip", "link", "set", "br0", "up")
    return sw, host


def _queries(wire):
    """The sources of general questions that came by an interface: addresses."""
    found = []
    for frame in wire.frames():
        if frame[12:14] == b"\x08\x00" and frame[23] == 2:
            header = (frame[14] & 15) * 4
            if frame[14 + header] == 0x11 and frame[14 + header + 4 : 14 + header + 8] == bytes(4):
                found.append(str(ipaddress.ip_address(frame[26:30])))
        # MLD stands behind a hop-by-hop header of eight bytes with a router alert (RFC 3810 section 5).
        elif frame[12:14] == b"\x86\xdd" and frame[20] == 0 and frame[54] == 58 and frame[62] == 130 and frame[70:86] == bytes(16):
            found.append(str(ipaddress.ip_address(frame[22:38])))
    return found


def _queriers(weir):
    return {row["family"]: (row["querier"], row["is_self"]) for row in weir.show("queriers")}


def _ask_alone(weir, wire, wanted):
    """Whether those and no others ask, for as long as several questions take."""

    def settled():
        wire.clear()
        time.sleep(2 * _INTERVAL)
        return set(_queries(wire)) == set(wanted)

    return wait_for(settled, interval=0)


def test_the_lowest_address_asks():
    """A bridge of Linux that asks, on another port: by families it wins where its address is lower, and loses where it is higher; who asks no more is followed
    (RFC 2236 section 3, RFC 3376 section 6.6.2, RFC 3810 section 7.6.2). Hosts behind either stay in their groups, and get what is sent there."""
    with Lab() as lab:
        ours = lab.namespace("weir")
        one, source = _host(lab, ours, "p0", 11), _host(lab, ours, "p2", 13)
        _ear(lab, ours, "p1")
        wire = lab.tap(one, "eth0")
        sw, far = _linux_asks(lab, ours, 3)
        link_local = next(
            word.split("/")[0] for word in sw.run("ip", "-6", "address", "show", "dev", "br0").split() if word.startswith("fe80:")
        )
        assert int(ipaddress.ip_address(link_local)) > int(ipaddress.ip_address(_OWN_IPV6))
        with Weir(ours, _script()) as weir:
            # Linux has the lower address in IPv4, and Weir in IPv6.
            assert _ask_alone(weir, wire, {"10.0.0.3", _OWN_IPV6}), (_queries(wire), _queriers(weir))
            assert _queriers(weir) == {"ipv4": ("10.0.0.3", False), "ipv6": (_OWN_IPV6, True)}, _queriers(weir)
            assert {row["port"] for row in weir.show("multicast-routers")} == {"p3"}
            near, behind = _Listener(one, _GROUPS), _Listener(far, _GROUPS)
            # Linux tells who asks of the host behind it (RFC 4541 section 2.1.1), and Weir takes its port for a router's where it asks itself.
            wanted = {_GROUPS[0]: {"p0"}, _GROUPS[1]: {"p0", "p3"}}
            assert wait_for(lambda: {group: set(of) for group, of in _members(weir).items()} == wanted), weir.show("groups")
            assert _stays(weir, "p0", 1.5 * _MEMBERSHIP) and _stays(weir, "p3", _MEMBERSHIP, _GROUPS[1:]), weir.show("groups")
            for listener in (near, behind):
                assert _arrives(listener, source, _GROUPS, b"both"), weir.show("groups")
            # It knows Weir for whom reports go to.
            assert "uplink" in sw.run("bridge", "-d", "mdb", "show").split("router ports on br0:")[-1], sw.run("bridge", "-d", "mdb", "show")

            # It asks no more: Weir takes over when it has not been heard for long.
            ends = time.monotonic()
            sw.run("ip", "link", "set", "br0", "type", "bridge", "mcast_querier", "0")
            assert wait_for(lambda: _queriers(weir)["ipv4"] == (_OWN, True)), _queriers(weir)
            assert time.monotonic() - ends >= _PRESENT - _INTERVAL - _RESPONSE, "it took over at once"
            assert _in_both(weir, "p0", "p3"), weir.show("groups")

            # It asks again, with a higher address.
            sw.run("ip", "address", "add", "10.0.0.9/24", "dev", "br0")
            sw.run("ip", "address", "del", "10.0.0.3/24", "dev", "br0")
            sw.run("ip", "link", "set", "br0", "type", "bridge", "mcast_querier", "1")
            assert _ask_alone(weir, wire, {_OWN, _OWN_IPV6}), (_queries(wire), _queriers(weir))
            assert _queriers(weir) == {"ipv4": (_OWN, True), "ipv6": (_OWN_IPV6, True)}, _queriers(weir)
            assert _stays(weir, "p0", _MEMBERSHIP) and _stays(weir, "p3", _MEMBERSHIP), weir.show("groups")
            for listener in (near, behind):
                assert _arrives(listener, source, _GROUPS, b"both"), weir.show("groups")
            near.close()
            behind.close()
            assert _in_both(weir), weir.show("groups")
            assert not {"bridge.control.snoop-malformed"} & set(drops_of(weir.stats()))
            weir.stop()
