"""Changes and accidents while packets flow: nothing is lost that need not be, and the account stays exact."""

import json
import signal
import time

from lab.hosts import HOST_MACS, MACS, STATIC, Between, Stream, check_all_arrived, config, numbers
from lab.netns import Lab
from lab.packets import IP, UDP, Ether, is_of_the_link, raw
from lab.weir import check_account, drops_of, wait_for

# Two next hops on the same wire, so that a change of route loses nothing.
_HOPS = """neighbors = {
    ["192.0.2.253"] = "02:00:00:00:02:01", ["192.0.2.254"] = "02:00:00:00:01:01", ["10.0.0.2"] = "02:00:00:00:01:02",
  },"""


def test_route_changes_lose_nothing():
    """Single changes and batches, of the route in use and of others around it."""
    with Lab() as lab:
        net = Between(lab, config("af_xdp", _HOPS), bare=True)
        stream = Stream(net.lan_wire, 5000, sink=net.wan_wire)
        for n in range(20):
            hop = f"192.0.2.{253 + n % 2}"
            net.weir.command("route", "add", "198.51.100.0/24", "via", hop)
            net.weir.command("route", "add", "198.51.100.7/32", "via", "192.0.2.253", "192.0.2.254")
            net.weir.command("route", "del", "198.51.100.7/32")
            net.weir.command("route", "del", "198.51.100.0/24")
        batch = "".join(f"198.{18 + n // 65536}.{n // 256 % 256}.{n % 256}/32 via 192.0.2.253\n" for n in range(4000))
        flips = "".join(f"198.51.100.0/24 via 192.0.2.{253 + n % 2}\n" for n in range(4001))
        net.weir.command("route", "add", "--from", "-", text=batch)
        net.weir.command("route", "add", "--from", "-", text=flips)
        sent = stream.stop()
        check_all_arrived(net.wan_wire, sent)
        routes = {row["prefix"] for row in net.weir.show("routes")}
        assert "198.18.15.159/32" in routes and "198.51.100.0/24" in routes
        stats = net.weir.stats()
        assert not drops_of(stats), drops_of(stats)
        net.check_against_kernel()
        net.weir.stop()


def test_a_hundred_reloads_lose_nothing():
    """Reloads that change live keys: routes come and go, the stream goes on."""
    with Lab() as lab:
        def script(n):
            more = f'icmp_rate = "{100 + n} pps", {_HOPS}'
            text = config("af_xdp", more)
            return text.replace('["0.0.0.0/0"]', f'["10.{n}.0.0/16"] = "192.0.2.253", ["0.0.0.0/0"]')

        net = Between(lab, script(1), bare=True)
        stream = Stream(net.lan_wire, 3000, sink=net.wan_wire)
        for n in range(2, 102):
            net.weir.reload(script(n))
        sent = stream.stop()
        check_all_arrived(net.wan_wire, sent)
        prefixes = {row["prefix"] for row in net.weir.show("routes")}
        assert "10.101.0.0/16" in prefixes and "10.100.0.0/16" not in prefixes, prefixes
        stats = net.weir.stats()
        assert not drops_of(stats), drops_of(stats)
        net.check_against_kernel()
        net.weir.stop()


def test_rebuilds_keep_the_account():
    """Reloads that rebuild the router: what they must drop is dropped by name."""
    with Lab() as lab:
        def script(n):
            return config("af_packet", f"hash_seed = {n}, {STATIC}")

        net = Between(lab, script(1), bare=True)
        stream = Stream(net.lan_wire, 3000, sink=net.wan_wire)
        for n in range(2, 12):
            net.weir.reload(script(n))
            net.weir.stats()
        sent = stream.stop()
        assert wait_for(lambda: net.weir.stats()["ports"]["lan"]["rx_packets"] >= sent)
        stats = net.weir.stats()
        lost = sum(drops_of(stats).values())
        assert set(drops_of(stats)) <= {key for key in drops_of(stats) if key.endswith(" reload")}, drops_of(stats)
        frames = net.wan_wire.wait(lambda frames: len(numbers(frames)) >= sent - lost)
        assert len(numbers(frames)) == sent - lost
        net.check_against_kernel()
        net.weir.stop()


def test_layouts_keep_the_order():
    """Two workers, as a distributor and as a pipeline: every packet arrives, in the order it was sent."""
    for layout in ("distributor", "pipeline"):
        with Lab() as lab:
            script = config("af_packet", f'layout = "{layout}", {STATIC}').replace("workers = { 1 }", "workers = { 0, 1 }")
            net = Between(lab, script, bare=True)
            stream = Stream(net.lan_wire, 4000, sink=net.wan_wire)
            assert wait_for(lambda: stream.sent >= 4000), stream.sent
            check_all_arrived(net.wan_wire, stream.stop())
            crossed = {worker["id"]: worker["account"]["links_in"] for worker in net.weir.stats()["workers"]}
            assert crossed["1"] > 3000, (layout, crossed)
            net.check_against_kernel()
            net.weir.stop()


def _last_numbers(printed):
    return json.loads(printed[printed.index("{") :])


def test_sigterm_in_the_middle_of_a_burst():
    """What was received leaves or is dropped by name, and the last numbers are right against the kernel's."""
    for sign in (signal.SIGTERM, signal.SIGINT):
        with Lab() as lab:
            net = Between(lab, config("af_packet", STATIC), bare=True, arguments=("--json",))
            stream = Stream(net.lan_wire, 0)
            assert wait_for(lambda: net.weir.stats()["account"]["transmitted"] > 1000)
            stats = _last_numbers(net.weir.stop(sign))
            stream.stop()
            check_account(stats)
            assert stats["account"]["held"] == 0, stats["account"]
            routed = stats["ports"]["lan"]["rx_packets"] - sum(drops_of(stats).values())
            lost = []

            def arrived():
                # To be told of those that were lost makes the kernel forget them.
                lost.append(net.wan_wire.lost())
                return len(numbers(net.wan_wire.frames())) + sum(lost)

            assert wait_for(lambda: arrived() == routed), (arrived(), routed, stats["ports"], drops_of(stats))


def test_an_overrun_worker():
    """More comes than its rings and few buffers hold, as it stands still meanwhile: the device loses the rest, and says how
    many where it can; the account is exact, and what was received goes on in order."""
    for driver in ("af_packet", "af_xdp"):
        with Lab() as lab:
            net = Between(lab, config(driver, STATIC, head="engine { buffers = 10240 }"), bare=True)
            stream = Stream(net.lan_wire, 5000)
            assert wait_for(lambda: len(numbers(net.wan_wire.frames())) > 100)
            net.weir.process.send_signal(signal.SIGSTOP)
            enough = stream.sent + 30000
            stream.hurry()
            assert wait_for(lambda: stream.sent > enough)
            net.weir.process.send_signal(signal.SIGCONT)
            sent = stream.stop()
            assert wait_for(lambda: _settled(net.weir))
            port = lambda: net.weir.stats()["ports"]["lan"]
            if port()["rx_missed"] is not None:
                # The kernel may still have some in hand.
                told = lambda lan: lan["rx_packets"] + lan["rx_missed"] + (lan["rx_nobuf"] or 0)
                assert wait_for(lambda: told(port()) == sent), (driver, sent, port())
            stats = net.weir.stats()
            lan, wan = stats["ports"]["lan"], stats["ports"]["wan"]
            assert lan["rx_packets"] < sent, f"{driver}: nothing was overrun"
            frames = net.wan_wire.wait(lambda frames: len(frames) >= wan["tx_packets"])
            arrived = numbers(frames)
            assert len(arrived) == lan["rx_packets"] - sum(drops_of(stats).values()), (driver, len(arrived), lan, stats["drops"])
            assert arrived == sorted(set(arrived)), "out of order or twice"
            # Something may be sent between asking the one and the other; then they agree a moment later.
            ends = lambda: (net.weir.stats()["ports"]["wan"]["tx_packets"], len(net.wan_wire.frames()), net.wan.received("eth0"))
            assert wait_for(lambda: len(set(ends())) == 1), (driver, ends())
            net.weir.stop()


def _settled(weir):
    before = weir.stats()["account"]
    time.sleep(0.1)
    after = weir.stats()["account"]
    return before == after and after["held"] == 0


def test_a_veth_deleted_while_running():
    """Its packets are dropped as link-down or have no way; the other port goes on and the account is exact."""
    for driver in ("af_packet", "af_xdp"):
        with Lab() as lab:
            net = Between(lab, config(driver, STATIC), bare=True)
            # None may be lost before it is received, and where most lead nowhere nobody sees how far behind a busy machine is: so they are few.
            stream = Stream(net.lan_wire, 1000)
            assert wait_for(lambda: len(numbers(net.wan_wire.frames())) > 300)
            net.wan.run("ip", "link", "del", "eth0")
            assert wait_for(lambda: not net.weir.stats()["ports"]["wan"]["link_up"]), "the port is still up"
            assert wait_for(lambda enough=stream.sent + 300: stream.sent > enough)
            sent = stream.stop()
            assert wait_for(lambda: net.weir.stats()["ports"]["lan"]["rx_packets"] >= sent)
            # The router still answers on its other port.
            net.lan_wire.clear()
            ping = Ether(src=HOST_MACS["lan"], dst=MACS["lan"]) / IP(src="10.0.0.2", dst="10.0.0.1") / UDP(dport=9)
            net.lan_wire.send(raw(ping))
            assert net.lan_wire.wait(lambda frames: any(frame[34:36] == b"\3\3" for frame in frames)), "no answer"
            stats = net.weir.stats()
            arrived = len(numbers(net.wan_wire.frames()))
            dropped = sum(drops_of(stats).values())
            announced = sum(map(is_of_the_link, net.wan_wire.frames()))
            routed = stats["ports"]["wan"]["tx_packets"] - announced
            lost = routed - arrived
            # Frames on the wire when it was cut are nobody's.
            assert 0 <= lost <= 2048, (stats["ports"], arrived)
            assert sent + 1 == stats["ports"]["lan"]["rx_packets"]
            assert dropped == sent + 1 - routed, (stats["account"], drops_of(stats))
            net.weir.stop()


def test_a_neighbor_or_route_deleted_while_packets_wait():
    """What waits for a neighbour is dropped by name when the neighbour or the link goes."""
    with Lab() as lab:
        timers = 'neighbor_timers = { retransmit = "60 s" },'
        net = Between(lab, config("af_packet", timers), bare=True)

        def send(destination, count):
            before = net.weir.stats()["ports"]["lan"]["rx_packets"]
            packet = Ether(src=HOST_MACS["lan"], dst=MACS["lan"]) / IP(src="10.0.0.2", dst=destination) / UDP() / b"x"
            net.lan_wire.send(*[raw(packet)] * count)
            assert wait_for(lambda: net.weir.stats()["ports"]["lan"]["rx_packets"] == before + count)

        send("192.0.2.9", 5)
        assert wait_for(lambda: net.weir.stats()["account"]["held"] == 5), net.weir.stats()["account"]
        net.weir.command("neighbor", "del", "192.0.2.9")
        assert wait_for(lambda: net.weir.drops() == {"router.control neighbor-gone": 5}), net.weir.drops()
        # A route that goes while its packets wait leads them nowhere once the neighbour answers.
        net.weir.command("route", "add", "203.0.113.0/24", "via", "192.0.2.10")
        send("203.0.113.1", 4)
        assert wait_for(lambda: net.weir.stats()["account"]["held"] == 4)
        net.weir.command("route", "del", "203.0.113.0/24")
        net.weir.command("neighbor", "add", "192.0.2.10", "mac", "02:00:00:00:03:01")
        # By the default route they wait for its next hop instead. It was asked for before the link goes: who asks is a packet, too.
        asks = lambda frame: is_of_the_link(frame) and frame[38:42] == bytes([192, 0, 2, 254])
        assert net.wan_wire.wait(lambda frames: any(map(asks, frames))), "nobody asked for the next hop"
        assert wait_for(lambda: net.weir.stats()["account"]["held"] == 4)
        net.wan.run("ip", "link", "set", "eth0", "down")
        assert wait_for(lambda: net.weir.stats()["account"]["held"] == 0), net.weir.stats()["account"]
        drops = net.weir.drops()
        assert sum(drops.values()) == 9, drops
        net.weir.stop()
