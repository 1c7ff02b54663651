"""Interfaces with VLAN tags on real devices: a router on a stick, changed while packets flow."""

import struct
import time

from lab.hosts import HOST_MACS, MACS, Between, Stream
from lab.netns import Lab
from lab.packets import IP, UDP, Dot1AD, Dot1Q, Ether, payload, raw
from lab.weir import wait_for

_SCRIPT = """
port {{ name = "lan", device = "{driver}:lan", address = "10.0.0.1/24" }}
port {{ name = "wan", device = "{driver}:wan" }}
interface {{ name = "wan.10", on = "wan", vlan = 10, address = "192.0.10.1/24" }}
interface {{ name = "wan.7.9", on = "wan", vlan = 7, inner_vlan = 9, address = "192.0.79.1/24" }}
interface {{ name = "lo0", address = "203.0.113.1/32" }}
{more}
router {{
  ports     = {{ "lan", "wan" }},
  workers   = {{ 1 }},
  routes    = {{ ["198.51.100.0/24"] = "192.0.10.9" }},
  neighbors = {{ ["10.0.0.2"] = "{lan}", ["192.0.10.9"] = "{wan}", ["192.0.79.9"] = "{wan}" }},
}}
"""


def _script(driver, more=""):
    return _SCRIPT.format(driver=driver, more=more, lan=HOST_MACS["lan"], wan=HOST_MACS["wan"])


def _to_lan(tags, source, n):
    header = Ether(src=HOST_MACS["wan"], dst=MACS["wan"])
    for tag in tags:
        header = header / tag
    return raw(header / IP(src=source, dst="10.0.0.2") / UDP(sport=n, dport=n) / payload(40))


def _came(wire, tags):
    """UDP packets that came with these tags, as (TPID, VLAN)."""
    header = b"".join(struct.pack("!HH", *tag) for tag in tags) + b"\x08\x00\x45"
    return [frame for frame in wire.frames() if frame[12:].startswith(header) and frame[12 + len(header) + 8] == 17]


def _numbers(frames, header):
    return [struct.unpack_from("!Q", frame, header + 28)[0] for frame in frames]


def test_packets_cross_between_tags_and_none():
    """Both ways, with one tag and with two, over devices that may keep tags beside the frame."""
    for driver in ("af_packet", "af_xdp"):
        with Lab() as lab:
            net = Between(lab, _script(driver), bare=True)
            for n in range(1, 51):
                net.wan_wire.send(_to_lan([Dot1Q(vlan=10)], "192.0.10.9", n))
                net.wan_wire.send(_to_lan([Dot1AD(vlan=7), Dot1Q(vlan=9)], "192.0.79.9", n))
            udp = lambda: [Ether(frame) for frame in _came(net.lan_wire, [])]
            assert wait_for(lambda: len(udp()) == 100), (driver, len(udp()), net.weir.drops())
            for source in ("192.0.10.9", "192.0.79.9"):
                assert [packet[UDP].sport for packet in udp() if packet[IP].src == source] == list(range(1, 51)), source
            for n in range(1, 51):
                for to in ("192.0.10.9", "192.0.79.9"):
                    header = Ether(src=HOST_MACS["lan"], dst=MACS["lan"])
                    net.lan_wire.send(raw(header / IP(src="10.0.0.2", dst=to) / UDP(sport=n, dport=n) / payload(40)))
            tags = ([(0x8100, 10)], [(0x88A8, 7), (0x8100, 9)])
            counts = lambda: [len(_came(net.wan_wire, some)) for some in tags]
            assert wait_for(lambda: counts() == [50, 50]), (driver, counts(), net.weir.drops())
            shown = {row["name"]: row for row in net.weir.show("interfaces")}
            for name in ("wan.10", "wan.7.9"):
                assert shown[name]["rx_packets"] == 50 and shown[name]["tx_packets"] >= 50, shown[name]
            assert shown["lan"]["rx_packets"] >= 100 and shown["lo0"]["port"] is None, shown
            net.wan_wire.send(_to_lan([Dot1Q(vlan=11)], "192.0.10.9", 1))
            assert wait_for(lambda: net.weir.drops().get("router.forward unknown-tag") == 1), net.weir.drops()
            unknown = lambda: {row["name"]: row["unknown_tags"] for row in net.weir.show("interfaces")}["wan"]
            assert wait_for(lambda: unknown() == "11"), unknown()
            net.weir.stop()


def test_interfaces_change_while_packets_flow():
    """By command and by reload; not one packet of a stream by another interface of the same port is lost."""
    with Lab() as lab:
        net = Between(lab, _script("af_packet"), bare=True)
        assert wait_for(lambda: net.weir.show("interfaces")[0]["link"] == "up")
        stream = Stream(net.lan_wire, 1000, sink=net.wan_wire)
        for n in range(20):
            net.weir.command("interface", "add", f"wan.{100 + n}", "on", "wan", "vlan", str(100 + n), "address", f"192.1.{n}.1/24")
            net.weir.command("route", "add", f"198.{n + 60}.0.0/16", "via", f"192.1.{n}.9")
            if n % 2:
                net.weir.command("interface", "set", f"wan.{100 + n}", "state", "down")
                net.weir.command("interface", "del", f"wan.{100 + n}")
        batch = "".join(f"x{n} on wan vlan {1000 + n} address 192.2.{n}.1/24\n" for n in range(200))
        net.weir.command("interface", "add", "--from", "-", text=batch)
        assert len(net.weir.show("interfaces")) == 5 + 10 + 200
        net.weir.reload(_script("af_packet", 'interface { name = "wan.30", on = "wan", vlan = 30, address = "192.0.30.1/24" }'))
        names = {row["name"]: row for row in net.weir.show("interfaces")}
        assert "wan.30" in names and "wan.100" in names and "x199" in names and "wan.101" not in names, sorted(names)
        saved = net.weir.command("save")
        assert "wan.100" in saved and "wan.30" not in saved, saved
        net.weir.reload(_script("af_packet"))
        assert "wan.30" not in {row["name"] for row in net.weir.show("interfaces")}
        sent = stream.stop()
        arrived = lambda: _numbers(_came(net.wan_wire, [(0x8100, 10)]), 18)
        assert wait_for(lambda: len(arrived()) == sent), (len(arrived()), sent, net.weir.drops())
        assert arrived() == list(range(sent)), "out of order, or twice"
        net.weir.stop()


# Two routers on the same two ports, of which each has its own tags: `a` lan untagged and wan.10, `b` lan.5 and wan.20; the same
# addresses on either side.
_TWO = """
port {{ name = "lan", device = "{driver}:lan", address = "10.0.0.1/24", of = "a" }}
port {{ name = "wan", device = "{driver}:wan" }}
interface {{ name = "lan.6", on = "lan", of = "a", vlan = 6, address = "10.6.0.1/24" }}
interface {{ name = "wan.10", on = "wan", of = "a", vlan = 10, address = "192.0.10.1/24" }}
{more}
router {{
  name = "a", ports = {{ "lan", "wan" }}, workers = {{ 1 }}, routes = {{ ["198.51.100.0/24"] = "192.0.10.9" }},
  neighbors = {{ ["10.0.0.2"] = "{lan}", ["192.0.10.9"] = "{wan}" }},
}}
{b}
"""

_B = """
interface {{ name = "lan.5", on = "lan", of = "b", vlan = 5, address = "10.0.0.1/24" }}
interface {{ name = "wan.20", on = "wan", of = "b", vlan = 20, address = "192.0.10.1/24" }}
router {{
  name = "b", ports = {{ "wan", "lan" }}, workers = {{ {worker} }}, routes = {{ ["198.51.100.0/24"] = "192.0.10.9" }},
  neighbors = {{ ["10.0.0.2"] = "{lan}", ["192.0.10.9"] = "{wan}" }},
}}
"""


def _two(driver, worker, more=""):
    macs = {"lan": HOST_MACS["lan"], "wan": HOST_MACS["wan"]}
    b = _B.format(worker=worker, **macs) if worker is not None else ""
    return _TWO.format(driver=driver, b=b, more=more, **macs)


def _to_wan(tags, n):
    header = Ether(src=HOST_MACS["lan"], dst=MACS["lan"])
    for tag in tags:
        header = header / tag
    return raw(header / IP(src="10.0.0.2", dst="198.51.100.9") / UDP(sport=n, dport=n) / payload(40))


def _ports(wire, tags):
    """The source ports of the UDP packets that came with these tags, but for those of streams."""
    at = 12 + 4 * len(tags) + 2 + 20
    found = [struct.unpack_from("!H", frame, at)[0] for frame in _came(wire, tags)]
    return [port for port in found if port != 7]


def test_two_routers_share_ports_by_their_tags():
    """Each gets what has its tags, on one worker and on two; interfaces that are added, moved and deleted meanwhile lead to the right one, and
    nothing of a stream through the other is lost."""
    for driver, worker in (("af_packet", 1), ("af_packet", 0), ("af_xdp", 1)):
        with Lab() as lab:
            net = Between(lab, _two(driver, worker), bare=True)
            weir, lan, wan = net.weir, net.lan_wire, net.wan_wire
            assert wait_for(lambda: all(row["link_up"] for row in weir.show("ports")))
            stream = Stream(lan, 500, sink=wan)
            ten, twenty, five = [(0x8100, 10)], [(0x8100, 20)], [(0x8100, 5)]
            lan.send(*(_to_wan([Dot1Q(vlan=5)], n) for n in range(100, 150)))
            assert wait_for(lambda: _ports(wan, twenty) == list(range(100, 150))), (_ports(wan, twenty), weir.drops())
            wan.send(*(_to_lan([Dot1Q(vlan=10)], "192.0.10.9", n) for n in range(200, 250)))
            wan.send(*(_to_lan([Dot1Q(vlan=20)], "192.0.10.9", n) for n in range(300, 350)))
            assert wait_for(lambda: len(_ports(lan, [])) + len(_ports(lan, five)) == 100), weir.drops()
            assert (_ports(lan, []), _ports(lan, five)) == (list(range(200, 250)), list(range(300, 350)))
            counts = {name: {row["name"]: row for row in weir.show("interfaces", "--function", name)} for name in "ab"}
            assert counts["b"]["wan.20"]["rx_packets"] == 50 and "wan" not in counts["b"] and "lan" not in counts["b"], counts
            assert counts["a"]["wan.10"]["rx_packets"] == 50, counts
            # Nobody's: told once, by the first.
            wan.send(_to_lan([Dot1Q(vlan=30)], "192.0.30.9", 1))
            assert wait_for(lambda: weir.drops().get("a.forward unknown-tag") == 1), weir.drops()
            assert "b.forward unknown-tag" not in weir.drops()

            def goes(tags, number):
                wan.send(_to_lan([Dot1Q(vlan=30)], "192.0.30.9", number))
                assert wait_for(lambda: number in _ports(lan, tags)), (number, weir.drops())

            add = ("interface", "add", "wan.30", "on", "wan", "vlan", "30", "address", "192.0.30.1/24", "--function")
            weir.command(*add, "b")
            goes(five, 400)
            refused = weir.command(*add, "a", check=False)
            assert refused.returncode == 1 and "an interface of b has the tags 30 on port wan already" in refused.stderr, refused
            weir.command("interface", "del", "wan.30", "--function", "b")
            weir.command(*add, "a")
            goes([], 401)
            # The configuration takes it away from who had it by command.
            declared = 'interface { name = "w30", on = "wan", of = "b", vlan = 30, address = "192.0.30.1/24" }'
            weir.reload(_two(driver, worker, declared))
            goes(five, 402)
            assert "wan.30" not in {row["name"] for row in weir.show("interfaces", "--function", "a")}
            # One of both goes, and comes again.
            weir.reload(_two(driver, None))
            lan.send(_to_wan([Dot1Q(vlan=5)], 500))
            assert wait_for(lambda: weir.drops().get("a.forward unknown-tag") == 2), weir.drops()
            weir.reload(_two(driver, worker))
            lan.send(_to_wan([Dot1Q(vlan=5)], 501))
            assert wait_for(lambda: 501 in _ports(wan, twenty)), weir.drops()
            sent = stream.stop()
            arrived = lambda: [n for frame, n in zip(_came(wan, ten), _numbers(_came(wan, ten), 18)) if frame[38:40] == b"\0\7"]
            assert wait_for(lambda: len(arrived()) == sent), (len(arrived()), sent, weir.drops())
            assert arrived() == list(range(sent)), "out of order, or twice"
            weir.stats()
            weir.stop()


def test_thousands_of_interfaces_come_and_go():
    """5,000 are added and deleted, 500 at once, each with a network and a route by it, and their tags over and over: of a stream through
    another interface of the port nothing is lost, and nothing is left of them."""
    with Lab() as lab:
        net = Between(lab, _script("af_packet"), bare=True)
        weir, rounds, count = net.weir, 10, 500
        assert wait_for(lambda: weir.show("interfaces")[0]["link"] == "up")
        before = {what: len(weir.show(what)) for what in ("interfaces", "routes")}
        nets = [f"{n // 250}.{n % 250}" for n in range(count)]
        lines = {
            ("interface", "add"): "".join(f"c{n} on wan vlan {100 + n} address 10.10{net}.1/24\n" for n, net in enumerate(nets)),
            ("route", "add"): "".join(f"172.1{net}.0/24 via 10.10{net}.9\n" for net in nets),
            ("route", "del"): "".join(f"172.1{net}.0/24\n" for net in nets),
            ("interface", "del"): "".join(f"c{n}\n" for n in range(count)),
        }
        stream = Stream(net.lan_wire, 1000, sink=net.wan_wire)
        began = time.monotonic()
        for number in range(rounds):
            for verb, text in lines.items():
                weir.command(*verb, "--from", "-", text=text)
                if verb == ("route", "add") and number == 0:
                    routes = {row["prefix"] for row in weir.show("routes")}
                    assert len(weir.show("interfaces")) == before["interfaces"] + count
                    assert {f"172.1{net}.0/24" for net in nets} <= routes, len(routes)
        took = time.monotonic() - began
        sent = stream.stop()
        print(f"{2 * rounds * count / took:.0f} interfaces added and deleted per second, {2 * rounds * count / took:.0f} routes")
        arrived = lambda: _numbers(_came(net.wan_wire, [(0x8100, 10)]), 18)
        assert wait_for(lambda: len(arrived()) == sent), (len(arrived()), sent, weir.drops())
        assert arrived() == list(range(sent)), "out of order, or twice"
        assert sent > 0 and not net.wan_wire.lost()
        assert {what: len(weir.show(what)) for what in before} == before
        weir.stats()
        weir.stop()
