"""Linux hosts on either side of a shaper."""

import json
import time

from lab.hosts import HOST_MACS, MACS
from lab.netns import Lab
from lab.weir import Weir, wait_for

CONFIG = """
port {{ name = "lan", device = "{driver}:lan" }}
port {{ name = "wan", device = "{driver}:wan" }}
qos {{
  from    = "lan",
  to      = "wan",
  user_by = "source",
  others  = "rest", -- ARP, for example
  users   = {{ {{ prefix = "10.0.0.2", profile = "slow" }} }},
  workers = {{ 1 }},
  scheduler = {{
    rate = "1 Gbit/s", users = 16, buffers = 1024,
    profiles = {{
      slow = {{ tb_rate = "{rate}", tb_size = "16 KiB" }},
      fast = {{ tb_rate = "200 Mbit/s" }},
      rest = {{ tb_rate = "1 Mbit/s" }},
    }},
  }},
}}
"""

SLOW = 4_000_000


def _transfer(lab, lan, wan, size):
    """Sends so many bytes by TCP; the bits per second that came, by the time from before the first to after the last."""
    server = wan.popen("iperf3", "-s", "-1", stdout=-3)
    lab.at_end(server.kill)
    assert wait_for(lambda: ":5201" in wan.run("ss", "-ltn"))
    began = time.monotonic()
    report = json.loads(lan.run("iperf3", "-c", "10.0.0.1", "-n", size, "--json"))
    took = time.monotonic() - began
    assert wait_for(lambda: server.poll() is not None)
    return report["end"]["sum_received"]["bytes"] * 8 / took


def _shaped(driver):
    with Lab() as lab:
        router, lan, wan = lab.namespace("r"), lab.namespace("lan"), lab.namespace("wan")
        for name, host, address in (("lan", lan, "10.0.0.2/24"), ("wan", wan, "10.0.0.1/24")):
            lab.wire((router, name, MACS[name]), (host, "eth0", HOST_MACS[name]))
            host.run("ip", "address", "add", address, "dev", "eth0")
        weir = Weir(router, CONFIG.format(driver=driver, rate=f"{SLOW} bit/s"))
        lab.at_end(lambda: weir.__exit__(None, None, None))
        ping = lan.run("ping", "-n", "-q", "-i", "0.02", "-W", "20", "-c", "20", "10.0.0.1")
        assert " 0% packet loss" in ping, ping
        # Its rate counts headers, and 24 bytes for each frame; what is saved up comes on top.
        rate = _transfer(lab, lan, wan, "2M")
        assert rate < SLOW * 1.05, rate
        (user,) = weir.show("users", "10.0.0.2")
        assert user["profile"] == "slow" and user["packets"] > 500, user
        weir.command("user", "set", "10.0.0.2", "profile", "fast")
        _transfer(lab, lan, wan, "10M")
        (user,) = weir.show("users", "10.0.0.2")
        assert (user["profile"], user["author"]) == ("fast", "cli") and user["bytes"] > 10 << 20, user
        assert "10.0.0.2" in weir.command("save")
        weir.stats()
        weir.stop()


def test_a_host_gets_its_rate_on_af_packet():
    """TCP through a shaper is as fast as its user may be, and faster with another profile."""
    _shaped("af_packet")


def test_a_host_gets_its_rate_on_af_xdp():
    """The same on AF_XDP."""
    _shaped("af_xdp")
