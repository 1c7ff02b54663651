#!/usr/bin/python3
"""What a router takes of a processor while nothing comes to it, and how long pings after pauses take.

scenarios/linux/idle.py [--seconds N]

Over AF_PACKET, over AF_XDP, and over AF_PACKET with Linux as its control plane. WEIR=PROGRAM says which program to measure, target/release/weir otherwise.
Needs root; all of it is in network namespaces, which are gone at the end.
"""

import argparse
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("WEIR", str(HERE.parents[1] / "target/release/weir"))

# pylint: disable=wrong-import-position
from lab.hosts import ping  # noqa: E402
from lab.netns import Lab  # noqa: E402
from lab.weir import Weir  # noqa: E402

_CONFIG = """
port {{ name = "lan", device = "{driver}:lan", address = "10.0.0.1/24" }}
port {{ name = "wan", device = "{driver}:wan", address = "192.0.2.1/24" }}
router {{ ports = {{ "lan", "wan" }}{more} }}
"""


def switches(weir):
    """How often threads of Weir's gave up their core so far."""
    statuses = pathlib.Path(f"/proc/{weir.process.pid}/task").glob("*/status")
    lines = [line for status in statuses for line in status.read_text(encoding="ascii").splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def measure(driver, has_linux, seconds):
    """One router, with a host on its `lan`, and one that says nothing on its `wan`."""
    with Lab() as lab:
        ours, host, other, control = (lab.namespace(name) for name in ("weir", "host", "other", "control"))
        lab.wire((ours, "lan", "02:00:00:00:00:01"), (host, "eth0", "02:00:00:00:01:01"))
        lab.wire((ours, "wan", "02:00:00:00:00:02"), (other, "eth0", "02:00:00:00:01:02"))
        host.run("ip", "address", "add", "10.0.0.2/24", "dev", "eth0")
        more = f', linux = {{ netns = "{control.name}" }}' if has_linux else ""
        with Weir(ours, _CONFIG.format(driver=driver, more=more)) as weir:
            # Until then it looks for others with its addresses.
            time.sleep(5)
            before, ran = switches(weir), sum(weir.ran().values())
            time.sleep(seconds)
            ran, changes = sum(weir.ran().values()) - ran, switches(weir) - before
            times = ping(host, "10.0.0.1", 20, interval=0.05).splitlines()[-1]
            with_linux = " with Linux" if has_linux else ""
            print(f"{driver}{with_linux}: {100 * ran / seconds:.1f} % of a core, {changes / seconds:.0f} switches a second; {times}", flush=True)
            weir.stats()
            weir.stop()


def main():
    """Measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=10)
    seconds = parser.parse_args().seconds
    for driver, has_linux in (("af_packet", False), ("af_xdp", False), ("af_packet", True)):
        measure(driver, has_linux, seconds)


if __name__ == "__main__":
    main()
