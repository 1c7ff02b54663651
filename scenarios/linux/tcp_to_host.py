#!/usr/bin/python3
"""How fast TCP is between a host on a link and Linux behind the router's TAP, each way, and how long Weir's threads ran for it; beside it the same
hosts on one veth pair, without Weir.

scenarios/linux/tcp_to_host.py [--seconds N]

WEIR=PROGRAM says which program to measure, target/release/weir otherwise. Needs root and iperf3; all of it is in network namespaces, which are gone at
the end.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("WEIR", str(HERE.parents[1] / "target/release/weir"))

# pylint: disable=wrong-import-position
from lab.netns import Lab  # noqa: E402
from lab.weir import check_account  # noqa: E402
from system.linux_control import Controlled  # noqa: E402


def _iperf(server, client, address, seconds, *more):
    """Gigabits a second that arrived."""
    with server.popen("iperf3", "-s", "-1", "--forceflush", stdout=subprocess.PIPE) as listening:
        assert any("listening" in line for line in listening.stdout)
        said = json.loads(client.run("iperf3", "-J", "-c", address, "-t", str(seconds), *more))
        listening.wait(20)
    return said["end"]["sum_received"]["bits_per_second"] / 1e9


def _measure(net, seconds, what, *more):
    before = net.weir.ran()
    rate = _iperf(net.control, net.lan, "10.0.0.1", seconds, *more)
    gigabytes = rate * seconds / 8
    cost = {name: (ran - before.get(name, 0)) / gigabytes for name, ran in net.weir.ran().items()}
    told = ", ".join(f"{name} {spent:.2f}" for name, spent in sorted(cost.items()) if spent >= 0.1)
    print(f"{what}: {rate:.2f} Gbit/s; seconds of a core for a gigabyte: {told}", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=int, default=5)
    seconds = arguments.parse_args().seconds
    with Lab() as lab:
        net = Controlled(lab, more='punt_rate = "4 Mpps",')
        _measure(net, seconds, "TCP to Linux behind the TAP")
        _measure(net, seconds, "back", "-R")
        check_account(net.weir.stats())
        print(f"drops: {net.weir.drops()}")
    with Lab() as lab:
        one, other = lab.namespace("one"), lab.namespace("other")
        lab.wire((one, "eth0", "02:00:00:00:00:01"), (other, "eth0", "02:00:00:00:00:02"))
        one.run("ip", "address", "add", "10.0.0.1/24", "dev", "eth0")
        other.run("ip", "address", "add", "10.0.0.2/24", "dev", "eth0")
        print(f"the same without Weir: {_iperf(one, other, '10.0.0.1', seconds):.2f} Gbit/s")


if __name__ == "__main__":
    main()
