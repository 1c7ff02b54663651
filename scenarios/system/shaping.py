"""Profiles of subscribers change while their packets wait: nothing that waits is lost, and all of it goes by the new profile."""

from lab.netns import Lab
from lab.packets import IP, UDP, Ether, payload, raw
from lab.weir import Weir, wait_for

CONFIG = """
port {{ name = "cpe",  device = "af_xdp:cpe" }}
port {{ name = "core", device = "af_xdp:core", address = "198.51.100.1/24" }}
bng {{
  access = {{ "cpe" }}, core = {{ "core" }}, core_encapsulation = "ip", limits = {{ subscribers = 16 }},
  subscribers = {{ {{ svlan = 100, cvlan = 7, ipv4 = "10.0.0.9", mac = "02:00:00:00:01:01" }} }},
  gateways = {{ west = {{ port = "core", address = "198.51.100.2", mac = "02:00:00:00:01:02" }} }},
  routes = {{ ["0.0.0.0/0"] = "west" }},
  qos = {{ usual = "narrow", down = {{
    rate = "10 Gbit/s", users = 16, buffers = {buffers},
    profiles = {{
      narrow = {{ tb_rate = "{narrow}", classes = {{ {{}}, {{}}, {{}}, {{ queue_size = 512 }} }} }},
      wide   = {{ tb_rate = "1 Gbit/s" }},
    }},
  }} }},
}}
"""

# At 8 kbit/s each takes 1.4 s, all of them 5 minutes: longer than any test is waited for.
COUNT = 200
PACKET = IP(src="203.0.113.5", dst="10.0.0.9", ttl=64) / UDP(sport=1, dport=2) / payload(1350)


def _config(narrow, buffers=1024):
    return CONFIG.format(narrow=narrow, buffers=buffers)


def _queue_up(weir, wire):
    """Sends packets most of which have to wait."""
    before = weir.stats()["ports"]["core"]["rx_packets"]
    frame = raw(Ether(src="02:00:00:00:01:02", dst="02:00:00:00:00:02") / PACKET)
    wire.send(*([frame] * COUNT))
    assert wait_for(lambda: weir.stats()["ports"]["core"]["rx_packets"] == before + COUNT)
    assert weir.stats()["account"]["held"] > COUNT / 2, weir.stats()["account"]


def test_profiles_change_while_packets_wait():
    """By a reload that changes the profile, and by giving the subscriber another one."""
    with Lab() as lab:
        gateway, customer, core = (lab.namespace(name) for name in ("gw", "customer", "core"))
        lab.wire((gateway, "cpe", "02:00:00:00:00:01"), (customer, "eth0", "02:00:00:00:01:01"))
        lab.wire((gateway, "core", "02:00:00:00:00:02"), (core, "eth0", "02:00:00:00:01:02"))
        here, there = lab.tap(customer, "eth0"), lab.tap(core, "eth0")
        with Weir(gateway, _config("8 kbit/s")) as weir:
            def all_arrived(times):
                return wait_for(lambda: sum(len(frame) > 1000 for frame in here.frames()) == times * COUNT)

            _queue_up(weir, there)
            weir.reload(_config("1 Gbit/s"))
            assert all_arrived(1), weir.stats()
            weir.reload(_config("8 kbit/s"))
            _queue_up(weir, there)
            weir.command("subscriber", "set", "100", "7", "profile", "wide")
            assert all_arrived(2), weir.stats()
            assert wait_for(lambda: weir.stats()["account"]["held"] == 0), weir.stats()["account"]
            assert not weir.drops(), weir.drops()
            row, = weir.show("subscribers")
            assert (row["down_packets"], row["shaped_off"]) == (2 * COUNT, 0), row
            # The process has buffers for 1,024 packets that wait, and asks for a restart rather than starve its rings.
            weir.config.write_text(_config("8 kbit/s", buffers=8192), encoding="utf-8")
            refused = weir.command("reload", weir.config, check=False)
            assert refused.returncode != 0 and "restart" in refused.stderr + refused.stdout, refused
            assert not there.lost() and not here.lost()
            weir.stop()
