"""Labs that many tests start from: Linux hosts on either side of a router, and streams of numbered packets."""

import re
import struct
import threading
import time

from . import PATIENCE
from .packets import IP, UDP, Ether, raw
from .weir import Weir, wait_for

MACS = {"lan": "02:00:00:00:00:02", "wan": "02:00:00:00:00:01"}
HOST_MACS = {"lan": "02:00:00:00:01:02", "wan": "02:00:00:00:01:01"}

# The configuration of most tests; `more` holds further keys of the router, `wan` and `lan` further keys of the ports.
CONFIG = """
{head}
port {{ name = "wan", device = "{driver}:wan", address = "192.0.2.1/24" {wan} }}
port {{ name = "lan", device = "{driver}:lan", address = "10.0.0.1/24" {lan} }}
router {{
  ports   = {{ "wan", "lan" }},
  workers = {{ 1 }},
  routes  = {{ ["0.0.0.0/0"] = "192.0.2.254" }},
  {more}
}}
"""


def config(driver, more="", head="", wan="", lan=""):
    """The usual configuration with a driver of ports."""
    return CONFIG.format(driver=driver, more=more, head=head, wan=wan, lan=lan)


# For tests that are hosts themselves: nobody needs to be asked for.
STATIC = 'neighbors = { ["192.0.2.254"] = "02:00:00:00:01:01", ["10.0.0.2"] = "02:00:00:00:01:02" },'


class Between:
    """Weir between two hosts: `lan` is 10.0.0.2, `wan` 192.0.2.254 and 198.51.100.1. With bare=True the hosts have no
    addresses: the test speaks for them by raw sockets, `lan_wire` and `wan_wire`."""

    def __init__(self, lab, script, bare=False, arguments=(), folder=None):
        self.lab = lab
        self.router, self.lan, self.wan = lab.namespace("r"), lab.namespace("lan"), lab.namespace("wan")
        for name, host in (("lan", self.lan), ("wan", self.wan)):
            lab.wire((self.router, name, MACS[name]), (host, "eth0", HOST_MACS[name]))
        if bare:
            self.lan_wire, self.wan_wire = lab.tap(self.lan, "eth0"), lab.tap(self.wan, "eth0")
        else:
            addresses(self.lan, "10.0.0.2/24", "10.0.0.1")
            addresses(self.wan, "192.0.2.254/24", "192.0.2.1")
            self.wan.run("ip", "address", "add", "198.51.100.1/32", "dev", "lo")
        self._before = {"lan": self._counters(self.lan), "wan": self._counters(self.wan)}
        self.weir = Weir(self.router, script, folder, arguments)
        lab.at_end(lambda: self.weir.__exit__(None, None, None))

    def _counters(self, host):
        return host.sent("eth0"), host.received("eth0")

    def check_against_kernel(self):
        """What the hosts' kernels sent is what Weir received or its device lost, and what Weir sent they received."""
        wrong = []

        def agree():
            # Between asking the one and the other something may have been sent; then they agree a moment later.
            wrong[:] = self._differences(self.weir.stats()["ports"])
            return not wrong

        if not wait_for(agree):
            raise AssertionError("\n".join(wrong))

    def _differences(self, ports):
        for name, host in (("lan", self.lan), ("wan", self.wan)):
            sent, received = (now - then for now, then in zip(self._counters(host), self._before[name]))
            port = ports[name]
            lost = (port["rx_missed"] or 0) + (port["rx_nobuf"] or 0)
            if port["rx_packets"] + lost != sent:
                yield f"{name}: the kernel sent {sent} packets, Weir received {port}"
            if port["tx_packets"] - (port["tx_errors"] or 0) != received:
                yield f"{name}: the kernel received {received} packets, Weir sent {port}"


def addresses(host, address, gateway):
    """Gives a host's eth0 an address and a default route."""
    host.run("ip", "address", "add", address, "dev", "eth0")
    host.run("ip", "route", "add", "default", "via", gateway)


# Words of a ping that waits for the last answers as long as for others: with a deadline it ends when so many have come as `-c` says. Without one it
# ends two round trips, or one interval, after the last question, which a busy machine may need longer to answer. Until then it asks on.
PATIENT = ("-w", str(int(PATIENCE * 0.8)))


def ping(host, target, count, *more, interval=None):
    """Pings so many times; each question must be answered, once and in order. Answers what ping says. One by itself may have to wait until
    neighbours are found, and is followed by others only slowly."""
    interval = interval or (1 if count == 1 else 0.02)
    said = host.run("ping", "-n", "-c", str(count), "-i", str(interval), *PATIENT, *more, target, check=False)
    check_answered(said, count)
    return said


def check_answered(said, count):
    """The questions of a patient ping, so many or more, were answered one after the other, but for the last ones beyond so many."""
    answered = [int(number) for number in re.findall(r" bytes from .* icmp_seq=(\d+) ", said)]
    wrong = [(number, expected) for expected, number in enumerate(answered, 1) if number != expected]
    assert len(answered) >= count and not wrong, f"{len(answered)} answers; not {count} one after the other: {wrong[:5]}\n{said[-1000:]}"


def asked(said):
    """The questions that a ping says it has sent."""
    return int(re.search(r"(\d+) packets transmitted", said)[1])


def speaks_ipv6(namespace):
    """Lets a host speak IPv6, and take what routers tell; it asks nobody whether its addresses are another's."""
    every = ("all", "default")
    namespace.run("sysctl", "-qw", *(f"net.ipv6.conf.{name}.disable_ipv6=0" for name in every))
    namespace.run("sysctl", "-qw", *(f"net.ipv6.conf.{name}.accept_dad=0" for name in every))


class Stream:
    """Numbered packets from the bare `lan` host to 198.51.100.7, sent by a thread until it is stopped. Where `sink` is given, so few of them are on
    their way to it that a ring has room for all, though nobody should read it for a second: where none may be lost, on a busy machine either."""

    _AHEAD = 1000

    def __init__(self, wire, rate, destination="198.51.100.7", ttl=64, sink=None):
        self._wire, self._rate, self._sink = wire, rate, sink
        header = Ether(src=HOST_MACS["lan"], dst=MACS["lan"]) / IP(src="10.0.0.2", dst=destination, ttl=ttl, flags="DF")
        # UDP without a checksum, so that the number can be written without one.
        self._template = bytearray(raw(header / UDP(sport=7, dport=7, chksum=0) / bytes(22)))
        self._stopping = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        start = time.monotonic()
        while not self._stopping.is_set():
            due = int((time.monotonic() - start) * self._rate) if self._rate else self.sent + 64
            if self._sink:
                due = min(due, self._sink.count() + self._AHEAD)
            while self.sent < due and not self._stopping.is_set():
                struct.pack_into("!Q", self._template, 42, self.sent)
                try:
                    self._wire.send(self._template)
                except OSError as error:
                    if error.errno != 100:  # ENETDOWN: a test that flaps links knows.
                        raise
                    time.sleep(0.001)
                self.sent += 1
            if self._rate:
                time.sleep(0.001)

    def hurry(self):
        """From now on as fast as possible."""
        self._rate = 0

    def stop(self):
        """Stops; answers how many packets were sent."""
        self._stopping.set()
        self._thread.join()
        return self.sent


def numbers(frames):
    """The numbers of the packets of a Stream among some frames, in order of arrival."""
    return [struct.unpack_from("!Q", frame, 42)[0] for frame in frames if len(frame) == 64 and frame[34:38] == b"\0\7\0\7"]


def check_all_arrived(wire, sent):
    """Every number from 0 arrived once and in order."""
    # Other frames come too (ARP); to look for numbers each time would be quadratic.
    got = numbers(wire.wait(lambda frames: len(frames) >= sent and len(numbers(frames)) >= sent))
    if wire.lost():
        raise AssertionError("the sink itself lost packets")
    if got != list(range(sent)):
        missing = sorted(set(range(sent)) - set(got))
        raise AssertionError(
            f"{sent} packets were sent, {len(got)} arrived, {len(got) - len(set(got))} of them twice; "
            f"missing {missing[:10]}, {'in order' if got == sorted(got) else 'out of order'}"
        )
