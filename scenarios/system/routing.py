"""Routes on real links: equal-cost paths, links that go down and up, changes by the socket."""

import collections
import struct

from lab.hosts import STATIC, Between, config
from lab.netns import Lab
from lab.packets import ICMP, IP, UDP, Ether, raw
from lab.weir import Weir, drops_of, wait_for

FLOWS = 400
HOST = "02:00:00:00:01:01"
ROUTER = "02:00:00:00:00:01"


def _flow(n):
    """A packet of the n-th flow; its number is in the source port."""
    header = Ether(src=HOST, dst=ROUTER) / IP(src=f"10.0.{n % 3}.{n % 250 + 2}", dst=f"198.51.100.{n % 7}")
    return raw(header / UDP(sport=1024 + n, dport=53) / bytes(18))


def _paths(frames):
    """{flow: {Ethernet addresses it was sent to}}."""
    paths = collections.defaultdict(set)
    for frame in frames:
        if frame[12:14] == b"\x08\x00" and frame[23] == 17:
            paths[struct.unpack_from("!H", frame, 34)[0] - 1024].add(frame[:6].hex(":"))
    return paths


class _Fan:
    """A router with a port `in` and two ports out, `a` and `b`, with two neighbours each."""

    MACS = {f"{net}.{host}": f"02:00:00:0{net}:00:0{host}" for net in (1, 2) for host in (2, 3)}

    def __init__(self, lab, driver):
        self.router = lab.namespace("r")
        self.hosts, self.wires = {}, {}
        for n, name in enumerate(("in", "a", "b"), 1):
            self.hosts[name] = lab.namespace(name)
            lab.wire((self.router, name, f"02:00:00:00:00:0{n}"), (self.hosts[name], "eth0", f"02:00:00:00:01:0{n}"))
            self.wires[name] = lab.tap(self.hosts[name], "eth0")
        neighbors = ", ".join(f'["192.0.{where}"] = "{mac}"' for where, mac in self.MACS.items())
        self.weir = Weir(
            self.router,
            f"""port {{ name = "in", device = "{driver}:in", address = "10.0.0.1/16" }}
            port {{ name = "a", device = "{driver}:a", address = "192.0.1.1/24" }}
            port {{ name = "b", device = "{driver}:b", address = "192.0.2.1/24" }}
            router {{
              ports = {{ "in", "a", "b" }}, workers = {{ 1 }},
              neighbors = {{ {neighbors}, ["10.0.0.2"] = "{HOST}" }},
            }}""",
        )
        lab.at_end(lambda: self.weir.__exit__(None, None, None))
        self.route("192.0.1.2", "192.0.1.3", "192.0.2.2", "192.0.2.3")

    def route(self, *gateways):
        """Makes these the next hops of all flows."""
        self.weir.command("route", "add", "198.51.100.0/24", *(word for hop in gateways for word in ("via", hop)))

    def send(self, rounds=3):
        """Sends a few packets of each flow; answers their paths once all arrived."""
        for wire in self.wires.values():
            wire.clear()
        packets = [_flow(n) for n in range(FLOWS)]
        for _ in range(rounds):
            self.wires["in"].send(*packets)

        def arrived():
            return sum(len(self._udp(name)) for name in ("a", "b")) >= rounds * FLOWS

        assert wait_for(arrived), f"{[len(self._udp(name)) for name in ('a', 'b')]} arrived: {drops_of(self.weir.stats())}"
        assert sum(len(self._udp(name)) for name in ("a", "b")) == rounds * FLOWS
        return _paths(self._udp("a") + self._udp("b"))

    def _udp(self, name):
        return [frame for frame in self.wires[name].frames() if frame[12:14] == b"\x08\x00" and frame[23] == 17]


def _one_path_each(paths):
    assert len(paths) == FLOWS
    assert all(len(path) == 1 for path in paths.values()), "a flow took two paths"
    return {flow: next(iter(path)) for flow, path in paths.items()}


def test_equal_cost_paths_spread_flows_and_keep_them():
    """Each flow keeps its path, all paths get their share; who keeps its next hop keeps it when another goes."""
    with Lab() as lab:
        fan = _Fan(lab, "af_xdp")
        before = _one_path_each(fan.send())
        assert _one_path_each(fan.send()) == before
        shares = collections.Counter(before.values())
        assert set(shares) == set(fan.MACS.values()), shares
        # 400 flows on 4 paths: 100 each, standard deviation 8.7; six of them either way.
        assert all(48 <= share <= 152 for share in shares.values()), shares
        gone = fan.MACS["1.3"]
        fan.route("192.0.1.2", "192.0.2.2", "192.0.2.3")
        after = _one_path_each(fan.send())
        assert gone not in after.values()
        moved = [flow for flow, path in before.items() if path != gone and after[flow] != path]
        assert not moved, f"{len(moved)} of {FLOWS} flows moved though their next hop stayed"
        fan.weir.stats()


def test_routes_follow_links():
    """Paths by a port whose link goes down move to the other port, and come back; a connected network goes with its link."""
    for driver in ("af_packet", "af_xdp"):
        with Lab() as lab:
            fan = _Fan(lab, driver)
            before = _one_path_each(fan.send())
            fan.hosts["a"].run("ip", "link", "set", "dev", "eth0", "down")
            assert wait_for(lambda: not fan.weir.stats()["ports"]["a"]["link_up"]), "the link is still up"
            during = _one_path_each(fan.send())
            assert set(during.values()) == {fan.MACS["2.2"], fan.MACS["2.3"]}, collections.Counter(during.values())
            stayed = {flow for flow, path in before.items() if path in during.values()}
            assert all(during[flow] == before[flow] for flow in stayed), "flows moved though their link is up"
            # Who lives there cannot be reached, and that is said.
            lost = Ether(src=HOST, dst=ROUTER) / IP(src="10.0.0.2", dst="192.0.1.2") / UDP(sport=9, dport=9)
            fan.wires["in"].clear()
            fan.wires["in"].send(raw(lost))
            frames = fan.wires["in"].wait(lambda frames: any(frame[23] == 1 for frame in frames))
            errors = [Ether(frame)[ICMP] for frame in frames if frame[12:14] == b"\x08\x00" and frame[23] == 1]
            assert [(error.type, error.code) for error in errors] == [(3, 0)], errors
            fan.hosts["a"].run("ip", "link", "set", "dev", "eth0", "up")
            assert wait_for(lambda: fan.weir.stats()["ports"]["a"]["link_up"]), "the link is still down"
            # Static neighbours need no asking, so all paths are as they were.
            after = _one_path_each(fan.send())
            assert set(after.values()) == set(before.values())
            fan.weir.stats()
            fan.weir.stop()


def test_changes_by_the_socket():
    """Routes and neighbours are added, shown and deleted one by one and in batches; what is wrong is refused and told."""
    with Lab() as lab:
        net = Between(lab, config("af_packet", STATIC), bare=True)
        weir = net.weir

        def routes():
            return {row["prefix"] for row in weir.show("routes")}

        weir.command("route", "add", "203.0.113.0/24", "via", "192.0.2.9")
        assert "203.0.113.0/24" in routes()
        refused = weir.command("route", "del", "203.0.114.0/24", check=False)
        assert refused.returncode != 0 and "203.0.114.0/24" in refused.stderr, refused
        refused = weir.command("route", "add", "203.0.113.0/24", "via", "10.99.0.1", check=False)
        assert refused.returncode != 0 and "10.99.0.1" in refused.stderr, refused
        batch = "".join(f"10.{64 + n // 256}.{n % 256}.0/24 via 192.0.2.254\n" for n in range(10_000))
        weir.command("route", "add", "--from", "-", text=batch)
        assert len(routes()) >= 10_001
        weir.command("route", "del", "--from", "-", text=batch.replace(" via 192.0.2.254", ""))
        weir.command("route", "del", "203.0.113.0/24")
        assert not {prefix for prefix in routes() if prefix.startswith(("10.64.", "203."))}
        weir.command("neighbor", "add", "192.0.2.9", "mac", "02:00:00:00:09:09")
        assert "192.0.2.9" in {row["address"] for row in weir.show("neighbors")}
        weir.command("neighbor", "del", "192.0.2.9")
        assert "192.0.2.9" not in {row["address"] for row in weir.show("neighbors")}
        weir.stats()
        weir.stop()
