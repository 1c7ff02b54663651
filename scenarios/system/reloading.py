"""Reloads on Linux interfaces: queues move between workers while packets flow, and a port that cannot be opened again is told."""

import threading

from lab.hosts import HOST_MACS, MACS, STATIC, Between, Stream, check_all_arrived, config, numbers
from lab.netns import Lab
from lab.packets import ARP, IP, UDP, Ether, payload, raw
from lab.weir import Weir, wait_for


def test_workers_move_and_nothing_is_lost():
    """From core to core under a stream of numbered packets: all arrive, in order, and the router's addresses stay its own."""
    for driver in ("af_packet", "af_xdp"):
        with Lab() as lab:
            script = lambda worker, driver=driver: config(driver, STATIC).replace("{ 1 }", f"{{ {worker} }}")
            net = Between(lab, script(1), bare=True)
            before = net.weir.show("ports")
            stream = Stream(net.lan_wire, 3000, sink=net.wan_wire)
            for n in range(10):
                printed = net.weir.reload(script(n % 2))
                assert "closed" not in printed, printed
                assert [row["mac"] for row in net.weir.show("ports")] == [row["mac"] for row in before]
            check_all_arrived(net.wan_wire, stream.stop())
            net.check_against_kernel()
            assert not net.weir.drops(), net.weir.drops()
            net.weir.stop()


def test_a_port_goes_to_a_function_with_tags_and_back():
    """Its interface has room for them as long as it needs it: 8 bytes on top of the MTU of the port."""
    script = """
        port {{ name = "lan", device = "{driver}:lan" }}
        port {{ name = "wan", device = "{driver}:wan" }}
        {function}"""
    plain = 'forward { pairs = { { "lan", "wan" } }, workers = { 1 } }'
    tagged = """qos {
        from = "lan", to = "wan", workers = { 1 }, users = { { tags = "100.1-8", profile = "user" } },
        scheduler = { rate = "1 Gbit/s", profiles = { user = { tb_rate = "1 Mbit/s" } } },
    }"""
    for driver in ("af_packet", "af_xdp"):
        with Lab() as lab:
            net = Between(lab, script.format(driver=driver, function=tagged), bare=True)
            for function, mtu in ((plain, 1500), (tagged, 1508)):
                printed = net.weir.reload(script.format(driver=driver, function=function))
                assert [net.router.link(name)["mtu"] for name in ("lan", "wan")] == [mtu, mtu], printed
                assert {row["mtu"] for row in net.weir.show("ports")} == {1500}
            net.weir.stats()
            net.weir.stop()


def test_a_port_that_does_not_open_again():
    """Its interface has another name when it is to be opened anew: the reload says what is closed, the rest goes on, and the port
    comes back with the name."""
    for driver in ("af_packet", "af_xdp"):
        with Lab() as lab:
            net = Between(lab, config(driver, STATIC), bare=True)
            rename = lambda old, new: net.router.run("ip", "link", "set", "dev", old, "name", new)
            rename("wan", "elsewhere")
            net.weir.config.write_text(config(driver, STATIC, wan=", mtu = 1400"), encoding="utf-8")
            refused = net.weir.command("reload", net.weir.config, check=False)
            assert refused.returncode != 0 and "do not open again" in refused.stderr, refused.stderr
            ports = {row["name"]: row for row in net.weir.show("ports")}
            assert not ports["wan"]["link_up"] and ports["lan"]["link_up"], ports
            stream = Stream(net.lan_wire, 500)
            # The link is down, so that no route leads there any more.
            no_route = ("router.control no-route", "router.forward punt-policed-no-route")
            assert wait_for(lambda: sum(net.weir.drops().get(key, 0) for key in no_route) > 50), net.weir.drops()
            rename("elsewhere", "wan")
            assert wait_for(lambda: numbers(net.wan_wire.frames())), net.weir.log()
            stream.stop()
            assert wait_for(lambda: "open again" in net.weir.log()), net.weir.log()
            assert {row["name"]: row["mtu"] for row in net.weir.show("ports")}["wan"] == ports["wan"]["mtu"]
            net.weir.reload(config(driver, STATIC, wan=", mtu = 1400"))
            net.weir.stop()


def test_others_are_answered_while_a_reload_changes_many_routes():
    """Somebody who asks meanwhile sees the change half done: so nobody waits for its end."""
    ports = """port { name = "a", device = "mem:null", address = "10.0.0.1/16" }
    port { name = "b", device = "mem:null", address = "192.0.2.1/24" }
    """
    many = """for n = 0, 299999 do
      routes[string.format("%d.%d.%d.0/24", 20 + math.floor(n / 65536), math.floor(n / 256) % 256, n % 256)] = "192.0.2.9"
    end
    """
    script = lambda more: f'{ports} local routes = {{}}\n{more} router {{ ports = {{ "a", "b" }}, workers = {{ 0 }}, routes = routes }}'
    with Weir(None, script("")) as weir:
        count = lambda: weir.show("fib")[0]["prefixes"]
        least, seen = count(), []

        def half_done():
            """One way and back, and whether anybody saw it between."""
            for more, ends in ((many, least + 300_000), ("", least)):
                client = threading.Thread(target=weir.reload, args=(script(more),))
                client.start()
                while client.is_alive():
                    seen.append(count())
                    weir.stats()
                client.join()
                assert count() == ends, (count(), ends)
            return any(least < n < least + 300_000 for n in seen)

        assert wait_for(half_done), set(seen)
        weir.stop()


def _with_dmz(script, more):
    """A configuration with a third port, whose name stands between those of the others."""
    port = 'port { name = "dmz", device = "%s:dmz", address = "172.16.0.1/24" }' % ("af_xdp" if "af_xdp" in script else "af_packet")
    return script.replace("router {", port + "\nrouter {").replace('"wan", "lan"', '"wan", "dmz", "lan"').replace(STATIC, more)


def test_a_port_is_added_and_the_router_goes_on():
    """Under a stream of numbered packets: nothing of it is lost, and what the router knows and holds stays with it, down to a packet that waits
    for a neighbour. The port that is taken away again has it built anew, and it goes on with what was added by command."""
    for driver, workers in (("af_packet", "{ 1 }"), ("af_packet", '{ 0, 1 }, layout = "pipeline"'), ("af_xdp", "{ 1 }")):
        with Lab() as lab:
            patient = 'neighbor_timers = { retransmit = "60 s" },'
            script = config(driver, STATIC + patient, head="engine { buffers = 16384 }").replace("{ 1 }", workers)
            net = Between(lab, script, bare=True)
            weir, lan, wan = net.weir, net.lan_wire, net.wan_wire
            host = lab.namespace("dmz")
            lab.wire((net.router, "dmz", "02:00:00:00:00:03"), (host, "eth0", "02:00:00:00:01:03"))
            dmz = lab.tap(host, "eth0")
            udp = lambda ether, source, to: raw(ether / IP(src=source, dst=to) / UDP(sport=9, dport=9) / payload(40))
            of_lan = lambda to: udp(Ether(src=HOST_MACS["lan"], dst=MACS["lan"]), "10.0.0.2", to)
            came = lambda wire, to: [frame for frame in wire.frames() if frame[30:34] == bytes(map(int, to.split(".")))]
            assert wait_for(lambda: all(row["link_up"] for row in weir.show("ports")))
            stream = Stream(lan, 1000, sink=wan)
            weir.command("route", "add", "203.0.113.0/24", "via", "192.0.2.77")
            lan.send(of_lan("203.0.113.5"))
            asked = lambda: [frame for frame in wan.frames() if Ether(frame).type == 0x0806 and ARP(frame[14:]).pdst == "192.0.2.77"]
            assert wait_for(asked), weir.drops()
            new = STATIC.replace("{ [", '{ ["172.16.0.2"] = "02:00:00:00:01:03", [', 1)
            printed = weir.reload(_with_dmz(script, new))
            assert wait_for(lambda: all(row["link_up"] for row in weir.show("ports"))), printed
            answer = Ether(src=HOST_MACS["wan"], dst=MACS["wan"]) / ARP(op=2, psrc="192.0.2.77", hwsrc=HOST_MACS["wan"], pdst="192.0.2.1", hwdst=MACS["wan"])
            wan.send(raw(answer))
            assert wait_for(lambda: came(wan, "203.0.113.5")), (weir.drops(), "the packet that waited")
            lan.send(of_lan("172.16.0.2"))
            assert wait_for(lambda: came(dmz, "172.16.0.2")), weir.drops()
            dmz.send(udp(Ether(src="02:00:00:00:01:03", dst="02:00:00:00:00:03"), "172.16.0.2", "198.51.100.9"))
            assert wait_for(lambda: came(wan, "198.51.100.9")), weir.drops()
            shown = {row["name"]: row for row in weir.show("interfaces")}
            assert shown["dmz"]["rx_packets"] >= 1 and shown["dmz"]["tx_packets"] >= 1, shown
            check_all_arrived(wan, stream.stop())
            assert not [drop for drop in weir.drops() if "reload" in drop], weir.drops()
            weir.reload(script)
            assert "dmz" not in {row["name"] for row in weir.show("interfaces")}
            assert "203.0.113.0/24" in {row["prefix"] for row in weir.show("routes")}
            lan.send(of_lan("198.51.100.8"))
            assert wait_for(lambda: came(wan, "198.51.100.8")), weir.drops()
            weir.stats()
            weir.stop()
