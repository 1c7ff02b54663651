"""Reloads on Linux interfaces: queues move between workers while packets flow, and a port that cannot be opened again is told."""

import threading

from lab.hosts import STATIC, Between, Stream, check_all_arrived, config, numbers
from lab.netns import Lab
from lab.weir import Weir, wait_for


def test_workers_move_and_nothing_is_lost():
    """From core to core under a stream of numbered packets: all arrive, in order, and the router's addresses stay its own."""
    for driver in ("af_packet", "af_xdp"):
        with Lab() as lab:
            script = lambda worker, driver=driver: config(driver, STATIC).replace("{ 1 }", f"{{ {worker} }}")
            net = Between(lab, script(1), bare=True)
            before = net.weir.show("ports")
            stream = Stream(net.lan_wire, 3000)
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
            assert "open again" in net.weir.log(), net.weir.log()
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
