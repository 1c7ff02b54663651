"""Two lines of a queue (L4S) between Linux hosts: packets with ECT(1) hardly wait beside a TCP that fills the other line, and are marked."""

import json
import select
import socket
import statistics
import struct
import threading
import time

from lab.netns import Lab
from lab.weir import Weir, drops_of, wait_for

COMPANY = "none"

CONFIG = """
port { name = "core",   device = "af_packet:core" }
port { name = "access", device = "af_packet:access" }
qos {
  from = "core", to = "access", user_by = "destination",
  users = { { prefix = "10.0.0.2", profile = "home" } }, others = "home",
  scheduler = {
    rate = "1 Gbit/s", users = 2, buffers = 2048,
    profiles = { home = { tb_rate = "20 Mbit/s", tb_size = "4 KiB", classes = { {}, {}, {}, { l4s = {}, queue_size = 1000 } } } },
  },
}
"""

SECONDS = 8
NOT_ECT, ECT_1, CE = 0, 1, 3


class Probes:
    """Datagrams of one kind, sent at even times from one host to another, and how long each took: both have the same clock."""

    def __init__(self, sender, receiver, port, kind, size, per_second):
        self.kind, self.size, self.gap = kind, size, 1 / per_second
        self.sent, self.delays, self.fields = 0, [], []
        with receiver.entered():
            self._in = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._in.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
            self._in.bind(("10.0.0.2", port))
        with sender.entered():
            self._out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, kind)
            self._out.connect(("10.0.0.2", port))
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=call, daemon=True) for call in (self._send, self._receive)]

    def _send(self):
        due = time.monotonic()
        while not self._is_over.is_set():
            self._out.send(struct.pack("!Q", time.monotonic_ns()).ljust(self.size, b"\0"))
            self.sent += 1
            # Who was kept from sending for a while sends no burst then.
            due = max(due + self.gap, time.monotonic())
            time.sleep(max(0, due - time.monotonic()))

    def _receive(self):
        while True:
            if not select.select([self._in], [], [], 1)[0]:
                if self._is_over.is_set():
                    return
                continue
            data, ancillary, *_ = self._in.recvmsg(2048, 64)
            sent, = struct.unpack("!Q", data[:8])
            self.delays.append((sent, (time.monotonic_ns() - sent) / 1e6))
            self.fields += [content[0] & 3 for level, what, content in ancillary if (level, what) == (0, socket.IP_TOS)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        self._in.close()
        self._out.close()

    def quartile(self, first, last):
        """Milliseconds that a quarter of those took at most that were sent in between: what a queue takes of everybody's time, and a busy machine of few."""
        return statistics.quantiles([delay for sent, delay in self.delays if first <= sent <= last], n=4)[0]


def _tcp(lab, server, client):
    """Goodput of a TCP from one host to another, Mbit/s, for some seconds, and when it filled the queue: from some time after its first packet to the last."""
    listening = client.popen("iperf3", "-s", "-1", stdout=-3)
    lab.at_end(listening.kill)
    assert wait_for(lambda: ":5201" in client.run("ss", "-ltn"))
    words = ("iperf3", "-c", "10.0.0.2", "-t", str(SECONDS), "-C", "cubic", "--json")
    said = json.loads(server.run(*words))
    # Whole seconds of the day, and none of the start.
    start = int(said["start"]["timestamp"]["timesecs"] * 1e9) - time.time_ns() + time.monotonic_ns()
    full = [start + seconds * 10**9 for seconds in (2, SECONDS)]
    return said["end"]["sum_received"]["bits_per_second"] / 1e6, full


def _beside(lab, weir, server, customer):
    """Both kinds of datagrams beside TCP: goodput of TCP, the datagrams, and what is told of it all, which must be true however busy the machine is."""
    before, = weir.show("users", "10.0.0.2")
    with (
        Probes(server, customer, 7001, ECT_1, 1000, 400) as low,
        Probes(server, customer, 7002, NOT_ECT, 100, 100) as classic,
    ):
        rate, full = _tcp(lab, server, customer)
    row, = weir.show("users", "10.0.0.2")
    # What arrives with a mark was marked by the scheduler, and nothing else was.
    marks = low.fields.count(CE)
    waits = [probes.quartile(*full) for probes in (low, classic)]
    told = f"{rate:.1f} Mbit/s; {waits[0]:.2f} and {waits[1]:.2f} ms; {marks} marks of {len(low.delays)} of {low.sent}; {row}"
    assert 20 < marks == row["marked"] - before["marked"] and set(row["marks"]) == {"3"}, told
    assert set(low.fields) == {ECT_1, CE} and set(classic.fields) == {NOT_ECT}, told
    assert row["drops"]["l4s"] > 0 and drops_of(weir.stats())["qos.shape l4s"] == row["drops"]["l4s"], told
    return rate, low, waits, told


def test_packets_of_scalable_senders_hardly_wait_beside_a_classic_tcp():
    """Of 20 Mbit/s, CUBIC takes what two small streams leave. Its line is about 15 ms long; who says ECT(1) waits a fraction of that, loses little
    (TCP's start fills the queue), and is told of it by marks."""
    with Lab() as lab:
        box, server, customer = (lab.namespace(name) for name in ("box", "server", "customer"))
        lab.wire((box, "core", "02:00:00:00:00:01"), (server, "eth0", "02:00:00:00:01:01"))
        lab.wire((box, "access", "02:00:00:00:00:02"), (customer, "eth0", "02:00:00:00:01:02"))
        for host, address in ((server, "10.0.0.1/24"), (customer, "10.0.0.2/24")):
            host.run("ip", "address", "add", address, "dev", "eth0")
        with Weir(box, CONFIG) as weir:
            rate, low, (low_waits, classic_waits), told = _beside(lab, weir, server, customer)
            print(f"        {told}", flush=True)
            assert len(low.delays) > 0.9 * low.sent and 5 < rate < 17.5, told
            assert classic_waits > 4 and low_waits < classic_waits / 3, told
            weir.stop()
