"""Flow export: what nfdump and tshark read of sFlow and IPFIX agrees with the traffic that was sent."""

import csv
import re
import shutil
import signal
import subprocess
import tempfile

from lab import PATIENCE, Skipped, pcapfile
from lab.hosts import HOST_MACS, MACS, STATIC, Between, config
from lab.netns import Lab
from lab.packets import GRE, IP, MPLS, UDP, Dot1AD, Dot1Q, Ether, IPv6, payload, raw
from lab.weir import check_account, wait_for

_PORTS = {"sflow": 6343, "ipfix": 4739}
_DAEMONS = {"sflow": "sfcapd", "ipfix": "nfcapd"}

_HEAD = """
interface { name = "lan.7", on = "lan", vlan = 7, address = "10.7.0.1/24", vrf = "blue" }
"""
_VRFS = """
  vrfs = {{ blue = {{ routes = {{ ["0.0.0.0/0"] = "192.0.2.254%wan" }} }} }},
"""
_KEY = """
  flow_export = {{ collector = "127.0.0.1:{port}", protocol = "{protocol}", sample = {sample}, netns = "{netns}",
                  domain = 77, inactive = "{inactive}", agent = "192.0.2.1", counters_every = "1 s" }},
"""
_MORE = _VRFS + _KEY

# A gateway with two customers behind `lan`, whose packets go to a gateway of the core behind `wan` in GRE below a label.
_BNG = """
port {{ name = "lan", device = "af_packet:lan" }}
port {{ name = "wan", device = "af_packet:wan", address = "192.0.2.1/24" }}
bng {{
  access = {{ "lan" }}, core = {{ "wan" }}, workers = {{ 1 }}, local_address = "192.0.2.1",
  subscribers = {{
    {{ svlan = 100, cvlan = 7, key = 77, ipv4 = "10.0.0.2", mac = "02:00:00:00:01:02" }},
    {{ svlan = 100, cvlan = 8, key = 88, ipv4 = "10.0.0.3", mac = "02:00:00:00:01:02" }},
  }},
  gateways = {{ west = {{ port = "wan", address = "198.51.100.1", via = "192.0.2.254", mac = "02:00:00:00:01:01", labels = {{ 17 }} }} }},
  routes = {{ ["0.0.0.0/0"] = "west" }},
"""

# A relay with two customers behind `lan`, who share an address.
_LWAFTR = """
port {{ name = "lan", device = "af_packet:lan", address = "2001:db8:f::1/64" }}
port {{ name = "wan", device = "af_packet:wan", address = "192.0.2.1/24" }}
lwaftr {{
  ports = {{ "lan", "wan" }}, workers = {{ 1 }}, aftr = "2001:db8:a::1",
  softwires = {{
    {{ ipv4 = "203.0.113.1", psid = 1, psid_length = 4, b4 = "2001:db8:c::1" }},
    {{ ipv4 = "203.0.113.1", psid = 2, psid_length = 4, b4 = "2001:db8:c::2" }},
  }},
  routes = {{ ["0.0.0.0/0"] = "192.0.2.254", ["2001:db8:c::/48"] = "2001:db8:f::2" }},
  neighbors = {{ ["192.0.2.254"] = "02:00:00:00:01:01", ["2001:db8:f::2"] = "02:00:00:00:01:02" }},
"""


class _Export:
    """A router, or what begins like `other`, that exports to a collector in a namespace of its own; `lan` and `wan` are spoken for by the test."""

    def __init__(self, lab, protocol, sample, other=None, inactive="1 s"):
        missing = [tool for tool in (*_DAEMONS.values(), "nfdump", "tshark") if not shutil.which(tool)]
        if missing:
            raise Skipped(f"{', '.join(missing)}: not installed")
        self.protocol, self.port = protocol, _PORTS[protocol]
        self.collector = lab.namespace("col")
        # pylint: disable=consider-using-with
        self.folder = tempfile.TemporaryDirectory(prefix="weir-test-")
        lab.at_end(self.folder.cleanup)
        self.daemon = self.collector.popen(
            *(_DAEMONS[protocol], "-w", self.folder.name, "-p", str(self.port), "-b", "127.0.0.1", "-B", "4000000"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        lab.at_end(self.daemon.kill)
        listening = f"127.0.0.1:{self.port}"
        assert wait_for(lambda: listening in self.collector.run("ss", "-lun")), self.daemon.poll()
        self.datagrams = lab.tap(self.collector, "lo")
        keys = {"port": self.port, "protocol": protocol, "sample": sample, "netns": self.collector.name, "inactive": inactive}
        script = f"{other.format()}{_KEY.format(**keys)}}}" if other else config("af_packet", STATIC + _MORE.format(**keys), head=_HEAD)
        self.net = Between(lab, script, bare=True)
        self.sent = 0
        self.weir = self.net.weir

    def row(self):
        """What Weir says of its collector."""
        return self.weir.show("collectors")[0]

    def send(self, frames, wire=None):
        """Sends frames by `lan`, or another wire, no more at once than samples may wait, and waits until all were looked at."""
        for at in range(0, len(frames), 500):
            some = frames[at : at + 500]
            (wire or self.net.lan_wire).send(*some)
            self.sent += len(some)
            assert wait_for(lambda: self.row()["packets"] >= self.sent), (self.row(), self.weir.log())
        assert self.row()["packets"] == self.sent, self.row()

    def end(self):
        """Ends Weir, which tells what it has not told yet, and then the collector; answers what became of samples."""
        if self.protocol == "sflow":
            # Counters of all interfaces, behind the last packet.
            before = self.row()["datagrams"]
            assert wait_for(lambda: self.row()["datagrams"] >= before + 3)
        check_account(self.weir.show("stats"))
        row = self.row()
        assert (row["lost"], row["unsent"], row["why"]) == (0, 0, None), row
        self.weir.stop()
        # The daemon reads no more once it is told to end.
        assert wait_for(lambda: self._unread() == 0), self.collector.run("ss", "-lun")
        self.daemon.send_signal(signal.SIGTERM)
        said = self.daemon.communicate(timeout=PATIENCE)[1]
        assert "Sequence Errors: 0, Bad Packets: 0" in said, said
        return row

    def _unread(self):
        """Bytes of datagrams that wait for the daemon."""
        rows = (line.split() for line in self.collector.run("ss", "-Hlun").splitlines())
        return next(int(row[1]) for row in rows if row[3] == f"127.0.0.1:{self.port}")

    def _datagrams(self):
        """Those that came to the collector, and how many its kernel says they are."""
        port = self.port.to_bytes(2, "big")
        frames = [frame for frame in self.datagrams.frames() if frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == port]
        udp = [line.split() for line in self.collector.run("cat", "/proc/net/snmp").splitlines() if line.startswith("Udp:")]
        return frames, int(dict(zip(*udp))["InDatagrams"])

    def flows(self):
        """The flows that nfdump reads: {(source, source port): (packets, bytes, a row)}."""
        command = ("nfdump", "-R", self.folder.name, "-o", "csv")
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        flows = {}
        for row in csv.DictReader(text.splitlines()):
            if (row["ipkt"] or "").isdigit() and row["sa"]:
                key = (row["sa"], int(row["sp"]))
                packets, octets, _ = flows.get(key, (0, 0, None))
                flows[key] = (packets + int(row["ipkt"]), octets + int(row["ibyt"]), row)
        return flows

    def told(self):
        """What tshark reads, in its verbose form: nothing of it is malformed."""
        decode = {"sflow": "sflow", "ipfix": "cflow"}[self.protocol]
        file = f"{self.folder.name}/all.pcap"

        def all_are_here():
            frames, count = self._datagrams()
            return len(frames) == count > 0

        assert wait_for(all_are_here), self._datagrams()[1]
        pcapfile.write(file, [(n, frame) for n, frame in enumerate(self._datagrams()[0])])
        text = tshark(file, "-V", "-d", f"udp.port=={self.port},{decode}")
        assert "Malformed" not in text, text
        return text


def tshark(file, *options):
    """What tshark says of a capture."""
    return subprocess.run(("tshark", "-r", file, *options), check=True, capture_output=True, text=True).stdout


def _frames(count, tagged=False):
    """Frames of so many IPv4 packets of 100 bytes, one of each of ten flows in turn."""
    source = "10.7.0.2" if tagged else "10.0.0.2"
    head = Ether(src=HOST_MACS["lan"], dst=MACS["lan"])
    head = head / Dot1Q(vlan=7) if tagged else head
    flows = [raw(head / IP(src=source, dst="198.51.100.7") / UDP(sport=1000 + n, dport=53) / payload(72)) for n in range(10)]
    return [flows[n % 10] for n in range(count)]


def _sums(flows, source):
    """Packets and bytes of each flow of a source, by its port."""
    return {port: (packets, octets) for (sender, port), (packets, octets, _) in flows.items() if sender == source}


def _expect(text, *lines):
    for line in lines:
        alike = sorted({other.strip() for other in text.splitlines() if line.split(":")[0] in other})
        assert line in text, f"no line {line!r} among {alike}"


def test_every_packet_is_told_by_ipfix():
    """One in one: nfdump has the packets and bytes of each flow as they were sent, its next hop and its interfaces; tshark, names and VRFs."""
    with Lab() as lab:
        # Long enough for what is asked between the last packets and the end.
        export = _Export(lab, "ipfix", 1, inactive="10 s")
        export.send(_frames(1000) + _frames(500, tagged=True))
        assert wait_for(lambda: export.row()["flows"] == 0), export.row()  # they have ended
        # One that has not ended when Weir stops is told of all the same.
        export.net.lan_wire.send(*_frames(10))
        assert wait_for(lambda: export.row()["packets"] == 1510)
        assert export.end()["samples"] == 1510
        flows, text = export.flows(), export.told()
        assert _sums(flows, "10.0.0.2") == {1000 + n: (101, 10100) for n in range(10)}, flows
        assert _sums(flows, "10.7.0.2") == {1000 + n: (50, 5000) for n in range(10)}, flows
        assert all((row["nh"], row["out"]) == ("192.0.2.254", "1") for _, _, row in flows.values()), flows
        assert {row["in"] for (sender, _), (_, _, row) in flows.items() if sender == "10.7.0.2"} == {"3"}
        _expect(text, "IfName: lan.7", "VRFname: blue", "Ingress VRFID: 1", "Sampling interval: 1", "Observation Domain Id: 77")
        _expect(text, "Flow End Reason: Idle timeout (1)", "Flow End Reason: Forced end (4)", "Vlan Id: 7")
        assert "Expected Sequence Number" not in text, text


def test_every_packet_is_told_by_sflow():
    """One in one: sfcapd has each packet, with the bytes of its frame; counters of interfaces are Weir's own."""
    with Lab() as lab:
        export = _Export(lab, "sflow", 1)
        export.send(_frames(1000) + _frames(500, tagged=True))
        sent = lambda: export.weir.show("interfaces", "wan")[0]["tx_packets"]
        # They are looked at before they leave.
        assert wait_for(lambda: sent() >= 1500), sent()
        left = sent()
        assert export.end()["samples"] == 1500
        flows, text = export.flows(), export.told()
        # Frames of 114 and 118 bytes, and the four of their check sequence.
        assert _sums(flows, "10.0.0.2") == {1000 + n: (100, 11800) for n in range(10)}, flows
        assert _sums(flows, "10.7.0.2") == {1000 + n: (50, 6100) for n in range(10)}, flows
        assert all((row["nh"], row["out"]) == ("192.0.2.254", "1") for _, _, row in flows.values())
        _expect(text, "Agent address: 192.0.2.1", "Sub-agent ID: 77", "Sampling rate: 1 out of 1 packets")
        _expect(text, "Sample pool: 1000 total packets", "Sample pool: 500 total packets", "Next hop: 192.0.2.254", "Next hop destination mask: 0")
        _expect(text, "Input Packets: 1000", "Input Packets: 500", "Interface Type: 135")
        # What the router sends of its own goes on meanwhile: an announcement now and then.
        told = max(int(count) for count in re.findall(r"Output Packets: (\d+)", text))
        assert left <= told <= left + 10, (left, told)


def _packets(source, destination, ports, count):
    """So many IPv4 packets of 100 bytes, of ten flows in turn, by the source and destination port of the first; the customer's port counts."""
    own, other = ports
    flows = [(own + n, other) if own > other else (own, other + n) for n in range(10)]
    made = [IP(src=source, dst=destination, ttl=64) / UDP(sport=sport, dport=dport) / payload(72) for sport, dport in flows]
    return [made[n % 10] for n in range(count)]


def _told_of(lab, protocol, other, up, down):
    """What collectors know of packets from customers and to them, one in one: flows as nfdump reads them, and what tshark says."""
    export = _Export(lab, protocol, 1, other)
    export.send([raw(frame) for frame in up])
    export.send([raw(frame) for frame in down], export.net.wan_wire)
    assert export.end()["samples"] == len(up) + len(down)
    ours = lambda frames: len([frame for frame in frames if payload(72) in frame])
    arrived = [
        ours(wire.wait(lambda frames, n=len(sent): ours(frames) >= n)) for wire, sent in ((export.net.wan_wire, up), (export.net.lan_wire, down))
    ]
    assert arrived == [len(up), len(down)], arrived
    return export.flows(), export.told()


def _bytes(flows, source):
    """Packets and bytes of all flows of a source."""
    sums = _sums(flows, source).values()
    return sum(packets for packets, _ in sums), sum(octets for _, octets in sums)


def _of_gateway(lab, protocol):
    link, core = Ether(src=HOST_MACS["lan"], dst=MACS["lan"]), Ether(src=HOST_MACS["wan"], dst=MACS["wan"])
    customers = (("10.0.0.2", 7, 77, 300), ("10.0.0.3", 8, 88, 200))
    up, down = [], []
    for address, cvlan, key, count in customers:
        tags = Dot1AD(vlan=100) / Dot1Q(vlan=cvlan)
        up += [link / tags / packet for packet in _packets(address, "198.51.100.7", (1000, 53), count)]
        outer = MPLS(label=17, s=1, ttl=9) / IP(src="198.51.100.1", dst="192.0.2.1", flags="DF", id=0) / GRE(key_present=1, key=key)
        down += [core / outer / packet for packet in _packets(f"198.51.100.{cvlan}", address, (53, 2000), count)]
    return _told_of(lab, protocol, _BNG, up, down)


def _of_relay(lab, protocol):
    link, internet = Ether(src=HOST_MACS["lan"], dst=MACS["lan"]), Ether(src=HOST_MACS["wan"], dst=MACS["wan"])
    up, down = [], []
    for psid, count in ((1, 300), (2, 200)):
        tunnel = IPv6(src=f"2001:db8:c::{psid}", dst="2001:db8:a::1", nh=4, hlim=64)
        up += [link / tunnel / packet for packet in _packets("203.0.113.1", f"198.51.100.{psid}", (4096 * psid, 53), count)]
        down += [internet / packet for packet in _packets(f"198.51.100.{psid}", "203.0.113.1", (53, 4096 * psid), count)]
    return _told_of(lab, protocol, _LWAFTR, up, down)


def test_a_gateway_tells_of_customers_packets():
    """One in one: nfdump and tshark have the packets that customers sent and got, without tunnels, with tags, interfaces and next hops."""
    with Lab() as lab:
        flows, text = _of_gateway(lab, "ipfix")
        sums = {source: _bytes(flows, source) for source in ("10.0.0.2", "10.0.0.3", "198.51.100.7", "198.51.100.8")}
        assert sums == {source: (count, 100 * count) for source, count in zip(sums, (300, 200, 300, 200))}, (sums, flows)
        for (source, _), (_, _, row) in flows.items():
            is_up = source.startswith("10.")
            assert (row["nh"], row["in"], row["out"]) == (("198.51.100.1", "1", "2") if is_up else ("0.0.0.0", "2", "1")), row
        _expect(text, "Vlan Id: 100", "Dot1q Customer Vlan Id: 7", "Post Vlan Id: 100", "Post Dot1q Customer Vlan Id: 8", "IfName: lan")
    with Lab() as lab:
        flows, text = _of_gateway(lab, "sflow")
        assert {source: _bytes(flows, source)[0] for source in ("10.0.0.2", "198.51.100.8")} == {"10.0.0.2": 300, "198.51.100.8": 200}, flows
        # With the tunnel: 14, a label, outer headers of 28 bytes, the packet's 100 and the check sequence, of which all but the packet is stripped.
        _expect(text, "Header protocol: IPv4 (11)", "Frame Length: 150", "Payload stripped: 50", "Next hop: 198.51.100.1", "Outgoing 802.1Q VLAN: 100")
        _expect(text, "Interface index: 1", "Sample pool: 500 total packets")


def test_a_relay_tells_of_packets_in_tunnels():
    """One in one: nfdump and tshark have the IPv4 packets of both sides, with customers' ends as next hops."""
    with Lab() as lab:
        flows, text = _of_relay(lab, "ipfix")
        sums = {source: _bytes(flows, source) for source in ("203.0.113.1", "198.51.100.1", "198.51.100.2")}
        assert sums == {source: (count, 100 * count) for source, count in zip(sums, (500, 300, 200))}, (sums, flows)
        assert _sums(flows, "203.0.113.1") == {**{4096 + n: (30, 3000) for n in range(10)}, **{8192 + n: (20, 2000) for n in range(10)}}
        assert {(row["nh"], row["in"], row["out"]) for (source, _), (_, _, row) in flows.items() if source == "203.0.113.1"} == {("192.0.2.254", "1", "2")}
        _expect(text, "NextHop: 2001:db8:c::1", "NextHop: 2001:db8:c::2", "NextHop: 192.0.2.254")
    with Lab() as lab:
        flows, text = _of_relay(lab, "sflow")
        assert [_bytes(flows, source)[0] for source in ("203.0.113.1", "198.51.100.2")] == [500, 200], flows
        _expect(text, "Header protocol: IPv4 (11)", "Frame Length: 158", "Payload stripped: 58", "Next hop: 2001:db8:c::1", "Next hop: 192.0.2.254")


def test_one_packet_in_so_many_is_told():
    """One in ten of each interface: of each ten packets in a row one is taken, so that their number is known; nfdump counts each of sFlow as ten."""
    for protocol in ("ipfix", "sflow"):
        with Lab() as lab:
            export = _Export(lab, protocol, 10)
            export.send(_frames(1000) + _frames(505, tagged=True))
            samples = export.end()["samples"]
            flows, text = export.flows(), export.told()
            sums = [sum(packets for packets, _ in _sums(flows, source).values()) for source in ("10.0.0.2", "10.7.0.2")]
            one = 10 if protocol == "sflow" else 1
            assert sums[0] == 100 * one and sums[1] in (50 * one, 51 * one), (sums, flows)
            assert samples == sum(sums) // one, (samples, sums)
            _expect(text, "Sampling rate: 1 out of 10 packets" if protocol == "sflow" else "Sampling Population: 10")


def test_the_export_is_changed_and_mended():
    """Nobody who listens, a namespace that is not there, and changes of the configuration cost no packet, and are told."""
    with Lab() as lab:
        keys = {"port": 6343, "protocol": "sflow", "sample": 1, "netns": "weir-no-such-namespace", "inactive": "1 s"}
        script = lambda **more: config("af_packet", STATIC + _MORE.format(**{**keys, **more}), head=_HEAD)
        net = Between(lab, script(), bare=True)
        service = lambda: [one for one in net.weir.show("services")["services"] if one["name"] == "router.flows"]
        assert wait_for(lambda: "no network namespace" in (service()[0]["failure"] or "")), net.weir.log()
        collector = lab.namespace("col")
        net.weir.reload(script(netns=collector.name))
        assert wait_for(lambda: service()[0]["state"] == "running"), service()
        net.lan_wire.send(*_frames(100))
        row = lambda: net.weir.show("collectors")[0]
        assert wait_for(lambda: row()["samples"] == 100 and row()["why"] == "nobody listens there"), row()
        net.weir.reload(script(netns=collector.name, protocol="ipfix", sample=2))
        net.lan_wire.send(*_frames(100))
        assert wait_for(lambda: row()["packets"] == 200 and row()["protocol"] == "ipfix"), row()
        # They are taken by the exporter, which has a thread of its own.
        assert wait_for(lambda: row()["samples"] >= 150) and row()["samples"] == 150, row()
        net.weir.reload(config("af_packet", STATIC, head=_HEAD.replace(', vrf = "blue"', "")))
        assert wait_for(lambda: not service()), service()
        net.lan_wire.send(*_frames(100))
        arrived = net.wan_wire.wait(lambda frames: len([frame for frame in frames if frame[12:14] == b"\x08\0"]) >= 300)
        assert len([frame for frame in arrived if frame[12:14] == b"\x08\0"]) == 300
        check_account(net.weir.show("stats"))
