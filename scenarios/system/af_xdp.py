"""What AF_XDP ports do to the kernel's interfaces, and what becomes of them when these change."""

import os
import random
import re
import time

from lab.hosts import STATIC, Between, Stream, config, numbers
from lab.netns import Lab
from lab.weir import wait_for


def _flow(net, seconds=0.0):
    """Sends a stream for a while and until something has arrived; answers how many packets were sent and arrived."""
    net.wan_wire.clear()
    stream = Stream(net.lan_wire, 2000)
    time.sleep(seconds)
    arrived = wait_for(lambda: len(numbers(net.wan_wire.frames())) > 100)
    sent = stream.stop()
    if not arrived:
        raise AssertionError(f"{sent} packets were sent, and none arrived:\n{net.weir.log()}")


def test_a_restarted_process_opens_af_xdp_again():
    """`weir reload --allow-restart` runs the program anew in the same process."""
    with Lab() as lab:
        net = Between(lab, config("af_xdp", STATIC), bare=True)
        _flow(net)
        for buffers in (30000, 40000, 50000):
            net.weir.restart(config("af_xdp", STATIC, head=f"engine {{ buffers = {buffers} }}"))
            _flow(net)
        net.weir.stats()
        net.weir.stop()


def test_link_flaps_leave_af_xdp_ports_hearing():
    """Links that go down and up two hundred times under load: packets are lost meanwhile, no buffer is, and afterwards all arrive."""
    seed = int(os.environ.get("WEIR_SEED", random.randrange(1 << 32)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    with Lab() as lab:
        net = Between(lab, config("af_xdp", STATIC), bare=True)
        stream = Stream(net.lan_wire, 0)
        ends = ((net.lan, "eth0"), (net.wan, "eth0"), (net.router, "lan"), (net.router, "wan"))
        for _ in range(200):
            namespace, interface = chance.choice(ends)
            namespace.run("ip", "link", "set", "dev", interface, "down")
            time.sleep(chance.choice((0, 0, 0.002, 0.02)))
            namespace.run("ip", "link", "set", "dev", interface, "up")
            time.sleep(chance.choice((0, 0, 0.002, 0.02)))
        stream.stop()
        assert wait_for(lambda: all(port["link_up"] for port in net.weir.show("ports"))), net.weir.show("ports")
        _flow(net)
        net.weir.stats()
        net.weir.stop()
        assert "buffers did not come back" not in net.weir.log(), net.weir.log()
