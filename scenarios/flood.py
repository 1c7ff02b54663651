#!/usr/bin/python3
"""What a flood for the slow path takes from clean traffic: half the offered load at TTL 1, as fast as one worker can.

scenarios/flood.py [ROUNDS]     WEIR=PROGRAM says which program to measure, target/release/weir otherwise

Clean packets per second when the slow path takes what its policer lets through, against when those packets are simply dropped:
because the slow path takes none (punt_rate = "1 pps"), and, harder, at the first check (a wrong checksum in place of the TTL).
Interleaved rounds, ports in memory. The target is 90 % of the former.
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
from lab.weir import PROGRAM, check_account  # noqa: E402

CONFIG = """
port {{ name = "lan", device = "mem:replay={pcap}.pcap,mac=02:00:00:00:00:02", address = "10.0.0.1/24" }}
port {{ name = "wan", device = "mem:null", address = "192.0.2.1/24" }}
router {{
  {punt} ports = {{ "wan", "lan" }}, workers = {{ 1 }}, routes = {{ ["0.0.0.0/0"] = "192.0.2.254" }},
  neighbors = {{ ["192.0.2.254"] = "02:00:00:00:01:01", ["10.0.0.2"] = "02:00:00:00:01:02" }},
}}
"""


def packet(n, **fields):
    """The n-th packet, 60 bytes."""
    header = Ether(src="02:00:00:00:01:02", dst="02:00:00:00:00:02") / IP(src="10.0.0.2", dst=f"198.51.100.{n % 250}", **fields)
    return raw(header / UDP(sport=n, dport=9) / bytes(18))


def worker_seconds(process):
    """Seconds that the kernel let the worker run."""
    for task in pathlib.Path(f"/proc/{process}/task").iterdir():
        if (task / "comm").read_text(encoding="ascii").strip() == "weir-1":
            return int((task / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    raise AssertionError("no thread is called weir-1")


# What is measured: a name, the file, and keys of the router.
CASES = (("slow path", "ttl", ""), ("policed", "ttl", 'punt_rate = "1 pps",'), ("invalid", "checksum", ""))


def clean_per_second(folder, case, seconds=1.0):
    """Runs it; answers clean packets per second of the worker's time. Of its own time, so that it does not matter how many
    others want the core."""
    script, socket = folder / "flood.lua", folder / "flood.sock"
    script.write_text(CONFIG.format(pcap=case[1], punt=case[2]), encoding="utf-8")
    command = (PROGRAM, "run", script, "--socket", socket)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as weir:

        def sample():
            said = subprocess.check_output((PROGRAM, "show", "stats", "--json", "--socket", socket), text=True)
            stats = json.loads(said)
            check_account(stats)
            return stats["ports"]["wan"]["tx_packets"], worker_seconds(weir.pid)

        assert weir.stdout.readline().strip() == "ready"
        time.sleep(0.3)
        (packets, cpu) = sample()
        time.sleep(seconds)
        (more_packets, more_cpu) = sample()
        weir.send_signal(signal.SIGTERM)
    return (more_packets - packets) / (more_cpu - cpu)


def main(rounds):
    """Measures, prints, and says whether the target is met."""
    with tempfile.TemporaryDirectory(prefix="weir-flood-") as folder:
        folder = pathlib.Path(folder)
        for name, fields in (("ttl", {"ttl": 1}), ("checksum", {"ttl": 64, "chksum": 1})):
            frames = [packet(n, **(fields if n % 2 else {"ttl": 64})) for n in range(4096)]
            pcapfile.write(folder / f"{name}.pcap", [(0, frame) for frame in frames])
        ratios = {"policed": [], "invalid": []}
        for n in range(1, rounds + 1):
            rates = {case[0]: clean_per_second(folder, case) for case in CASES}
            print(f"round {n}: clean Mpps", ", ".join(f"{name} {rate / 1e6:.2f}" for name, rate in rates.items()), flush=True)
            for name, of in ratios.items():
                of.append(rates["slow path"] / rates[name])
    for name, of in ratios.items():
        print(f"against {name}: median {statistics.median(of):.1%}, from {min(of):.1%} to {max(of):.1%}")
    return 0 if statistics.median(ratios["policed"]) >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
