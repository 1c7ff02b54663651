#!/usr/bin/python3
"""A switch with two guests, as configs/ has them, and what goes through (Unify D5.4, chapter 3 and section 4.3; figure 3-5).

scenarios/guest.py [ROUNDS]     WEIR=PROGRAM says which program to measure, target/release/weir otherwise

Starts configs/switch-guest.lua, configs/guest.lua (two ports) and configs/guest-loop.lua (one port, handle_none), with 64-byte frames from memory in place of
the card on the left, as fast as they are taken, and counts what comes out on the right. In turns: through the guest with one port, the one with two, and
both; and, to tell what the switch costs, with `forward` in its place, which knows nothing but vhost ports. Needs `ovs-ofctl`, two cores to itself, and no root.
"""

import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("WEIR", str(HERE.parent / "target/release/weir"))

# pylint: disable=wrong-import-position
from lab import pcapfile  # noqa: E402
from lab.packets import IP, UDP, Ether, raw  # noqa: E402
from lab.weir import PROGRAM, check_account, somebody_listens, wait_for  # noqa: E402

CONFIGS = HERE.parent / "configs"
FLOWS, FRAMES = 1000, 4096
# A name, the guests, the flows that lead through them, and the paths of `forward` where that is in place of the switch.
CASES = (
    ("a guest with one port", ("guest-loop.lua",), ("in_port=1,actions=output:5", "in_port=5,actions=output:2"), ()),
    ("a guest with two ports", ("guest.lua",), ("in_port=1,actions=output:3", "in_port=4,actions=output:2"), ()),
    ("both", ("guest.lua", "guest-loop.lua"), ("in_port=1,actions=output:3", "in_port=4,actions=output:5", "in_port=5,actions=output:2"), ()),
    ("one port, without the switch", ("guest-loop.lua",), (), ("left -> single", "single -> right")),
    ("two ports, without the switch", ("guest.lua",), (), ("left -> two-a", "two-b -> right")),
)


def config(name, folder, paths=()):
    """A shipped configuration with its sockets below a folder, frames from memory, and `forward` in place of the switch where there are paths."""
    text = (CONFIGS / name).read_text(encoding="utf-8").replace("/run/weir-", f"{folder}/")
    text = text.replace("af_packet:veth-left", "mem:replay=in.pcap").replace("af_packet:veth-right", "mem:null")
    if paths:
        text = text[: text.index("switch {")] + f"forward {{ paths = {{ {', '.join(map(json.dumps, paths))} }}, workers = {{ 0 }} }}\n"
    return text


class Running:
    """A Weir with this configuration, until it is ended."""

    def __init__(self, folder, name, text):
        script, self.socket = folder / f"{name}.running.lua", folder / f"{name}.ctl"
        script.write_text(text, encoding="utf-8")
        command = (PROGRAM, "run", script, "--socket", self.socket, "--name", f"{name}-{os.getpid()}")
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit(self.process.communicate()[1])

    def end(self):
        """Ends it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate()

    def sent(self):
        """Frames that came out on the right."""
        stats = json.loads(subprocess.check_output((PROGRAM, "show", "stats", "--json", "--socket", self.socket), text=True))
        check_account(stats)
        return stats["ports"]["right"]["tx_packets"]


def rate(folder, case, seconds):
    """Frames in a second."""
    _, guests, flows, paths = case
    running = [Running(folder, "host", config("switch-guest.lua", folder, paths))]
    try:
        running += [Running(folder, name, config(name, folder)) for name in guests]
        if not wait_for(lambda: somebody_listens(folder / "guests.mgmt"), 30.0):
            raise SystemExit(f"the switch does not listen at {folder}/guests.mgmt")
        for flow in flows:
            subprocess.run(("ovs-ofctl", "-O", "OpenFlow13", "add-flow", f"unix:{folder}/guests.mgmt", flow), check=True)
        if not wait_for(lambda: running[0].sent() > 0, 30.0):
            return 0.0
        before, start = running[0].sent(), time.monotonic()
        time.sleep(seconds)
        after, took = running[0].sent(), time.monotonic() - start
        return (after - before) / took
    finally:
        for one in reversed(running):
            one.end()


def main(rounds, seconds=1.0):
    """Measures and prints."""
    totals = {case[0]: [] for case in CASES}
    with tempfile.TemporaryDirectory(prefix="weir-guests-") as name:
        folder = pathlib.Path(name)
        link = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        flow = lambda n: raw(link / IP(src=f"10.0.{n // 256}.{n % 256}", dst="192.0.2.1") / UDP(sport=n, dport=9) / bytes(18))
        pcapfile.write(folder / "in.pcap", [(0, flow(n % FLOWS)) for n in range(FRAMES)])
        for number in range(1, rounds + 1):
            for case in CASES:
                totals[case[0]].append(rate(folder, case, seconds) / 1e6)
                print(f"round {number}: {case[0]}: {totals[case[0]][-1]:.2f} Mpps", flush=True)
    for case, each in totals.items():
        print(f"{case}: median {statistics.median(each):.2f} Mpps, from {min(each):.2f} to {max(each):.2f}")
    return 0 if all(min(each) > 0 for each in totals.values()) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
