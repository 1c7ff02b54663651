"""The generator: its packets are those that scapy makes of the same fields, and Linux answers it."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from lab import PATIENCE, pcapfile
from lab.packets import IP, UDP, Ether, raw
from lab.weir import PROGRAM, ROOT
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q

NEEDS_ROOT = False

MACS = ("--src-mac", "02:00:00:00:00:01", "--dst-mac", "02:00:00:00:00:02")


def _generate(folder, *options):
    """The frames of a file that the generator writes, and its report."""
    file = pathlib.Path(folder) / "out.pcap"
    command = (PROGRAM, "gen", "--port", f"pcap:,{file}", *MACS, *options, "--json")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr + done.stdout
    report = json.loads(done.stdout)
    assert report["complete"] and report["account"]["unaccounted"] == 0, report
    return file.read_bytes(), [frame for _, frame in pcapfile.read(file)], report


def test_packets_are_those_of_scapy():
    """IPv4 behind two tags, and IPv6, byte for byte; checksums are scapy's."""
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        options = ("--src", "198.18.0.1", "--dst", "198.19.0.0/29,203.0.113.7", "--dport", "1-3", "--size", "64-80")
        _, frames, report = _generate(folder, *options, "--vlan", "100,200", "--count", "200")
        assert len(frames) == 200 and report["streams"][0]["sent"]["packets"] == 200
        hosts = [f"198.19.0.{n}" for n in range(1, 7)] + ["203.0.113.7"]
        for n, frame in enumerate(frames):
            length = 60 + n % 17
            ether = Ether(src=MACS[1], dst=MACS[3], type=0x88A8) / Dot1Q(vlan=100) / Dot1Q(vlan=200)
            ip = IP(src="198.18.0.1", dst=hosts[n % 7], id=0, ttl=64)
            expected = raw(ether / ip / UDP(sport=0xC020, dport=1 + n % 3) / bytes(length - 22 - 28))
            assert frame == expected, f"{n}: {frame.hex()} is not {expected.hex()}"
        options = ("--src", "2001:db8::1-2001:db8::ff", "--dst", "2001:db8:1::9", "--size", "imix:{7}A{4}Bg,A=70,B=594")
        _, frames, _ = _generate(folder, *options, "--count", "100")
        lengths = [66] * 7 + [590] * 4 + [1514]
        for n, frame in enumerate(frames):
            length = lengths[n % 12]
            ip = IPv6(src=f"2001:db8::{n + 1:x}", dst="2001:db8:1::9", hlim=64)
            expected = raw(Ether(src=MACS[1], dst=MACS[3]) / ip / UDP(sport=0xC020, dport=9) / bytes(length - 62))
            assert frame == expected, f"{n}: {frame.hex()} is not {expected.hex()}"


def test_a_seed_gives_the_same_bytes():
    """Two runs write the same file, stamps and signatures included; another seed another one."""
    options = ("--src", "10.0.0.0/8 random", "--size", "imix", "--rate", "1 Mpps", "--gaps", "poisson", "--signature")
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        once, frames, _ = _generate(folder, *options, "--count", "5000", "--seed", "7")
        again, _, _ = _generate(folder, *options, "--count", "5000", "--seed", "7")
        other, _, _ = _generate(folder, *options, "--count", "5000", "--seed", "8")
        assert len(frames) == 5000 and once == again and once != other


def test_mistakes_are_told():
    """What cannot be sent is refused with a sentence that says what to do."""
    cases = {
        ("--port", "pcap:out.pcap"): "write pcap:,out.pcap to write it",
        ("--port", "mem:null", "--rate", "50 %"): "link_speed",
        ("--port", "mem:null", "--size", "63"): "a frame has 64 to",
        ("--port", "mem:null", "--duration", "-1 s"): "is not a time",
        ("--port", "mem:null", "--dst", "192.0.2.1/24"): "is not an IPv4 address",
        ("--port", "pcap:,/nonexistent/out.pcap", "--count", "1"): "its folder does not exist",
    }
    for options, sentence in cases.items():
        words = [f"{word}={value}" for word, value in zip(options[::2], options[1::2])]
        done = subprocess.run((PROGRAM, "gen", *words), capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == 1 and sentence in done.stderr, (options, done.returncode, done.stderr)
    full = subprocess.run((PROGRAM, "gen", "--port", "pcap:,/dev/full", "--count", "100000", "--json"), capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert full.returncode == 1, full


def test_capture_files_are_sent_again():
    """All packets in order, at the distances of their stamps, at a rate, and round and round."""
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        frames = [raw(Ether(src=MACS[1], dst=MACS[3]) / IP() / UDP() / bytes(20 + n)) for n in range(5)]
        times = [1000.0, 1000.001, 1000.004, 1000.0041, 1000.01]
        pcapfile.write(pathlib.Path(folder) / "in.pcap", list(zip(times, frames)))
        file = pathlib.Path(folder) / "out.pcap"
        common = (PROGRAM, "gen", "--port", f"pcap:,{file}", "--replay", f"{folder}/in.pcap")
        for more, count in ((("--timing", "recorded"), 5), (("--rate", "1 kpps"), 5), (("--count", "12"), 12)):
            done = subprocess.run((*common, *more, "--json"), capture_output=True, text=True, check=False, timeout=PATIENCE)
            assert done.returncode == 0, done.stderr + done.stdout
            sent = pcapfile.read(file)
            assert [frame for _, frame in sent] == [frames[n % 5] for n in range(count)], more
            if "recorded" in more:
                gaps = [round((stamp - sent[0][0]) * 1e6) for stamp, _ in sent]
                assert gaps == [0, 1000, 4000, 4100, 10000], gaps


def test_fields_come_from_a_table():
    """Each packet takes a row; a wrong one is told with its line."""
    script = """engine { clock = "virtual" }
        port { name = "out", device = "pcap:,out.pcap" }
        gen { streams = { { port = "out", size = "100", count = 5, table = "rows.csv", layers = {
          { ethernet = {} }, { ipv4 = { source = "column" } }, { udp = { destination = "column" } } } } } }"""
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        folder = pathlib.Path(folder)
        (folder / "test.lua").write_text(script, encoding="utf-8")
        (folder / "rows.csv").write_text("udp.destination,ipv4.source\n53,10.0.0.1\n443,10.0.0.2\n", encoding="utf-8")
        command = (PROGRAM, "gen", folder / "test.lua")
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        seen = [(Ether(frame)[IP].src, Ether(frame)[UDP].dport) for _, frame in pcapfile.read(folder / "out.pcap")]
        assert seen == [("10.0.0.1", 53), ("10.0.0.2", 443)] * 2 + [("10.0.0.1", 53)], seen
        (folder / "rows.csv").write_text("udp.destination,ipv4.source\n53,10.0.0.1\n70000,10.0.0.2\n", encoding="utf-8")
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == 1 and "rows.csv:3:1" in done.stderr and "70000" in done.stderr, done.stderr


def test_a_binding_table_makes_the_traffic_of_both_sides():
    """Byte for byte what scapy makes of the row, with a port of its port set; all rows come, in no order, and the table is the shipped one."""
    table = (ROOT / "configs" / "gen-softwires.csv").read_text(encoding="utf-8").splitlines()
    rows = [dict(zip(table[1].split(","), line.split(","))) for line in table[2:]]
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        folder = pathlib.Path(folder)
        for name in ("gen-softwires.lua", "gen-softwires.csv"):
            shutil.copy(ROOT / "configs" / name, folder)
        done = subprocess.run((PROGRAM, "gen", folder / "gen-softwires.lua"), capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr + done.stdout
        sides = {side: [frame for _, frame in pcapfile.read(folder / f"{side}.pcap")] for side in ("internet", "customers")}
    hits = {side: [] for side in sides}
    for side, frames in sides.items():
        assert len(frames) == 1000
        for frame in frames:
            ether = Ether(frame)
            inner, (near, far) = ether[IP], ("src", "dst") if side == "customers" else ("dst", "src")
            port = inner[UDP].sport if side == "customers" else inner[UDP].dport
            owners = [n for n, row in enumerate(rows) if row["ipv4"] == getattr(inner, near) and _is_port_of(row, port)]
            assert len(owners) == 1, (side, frame.hex())
            row = rows[owners[0]]
            ports = {"sport": port, "dport": 53} if side == "customers" else {"sport": 53, "dport": port}
            expected = IP(**{near: row["ipv4"], far: getattr(inner, far)}, id=0, ttl=64) / UDP(**ports)
            outer = IPv6(src=row["b4"], dst=row["aftr"], hlim=64, nh=4) if side == "customers" else None
            head = Ether(src=ether.src, dst=ether.dst) / outer if outer else Ether(src=ether.src, dst=ether.dst)
            data = len(frame) - len(raw(head)) - 28
            assert frame == raw(head / expected / bytes(data)), f"{side}: {frame.hex()}"
            hits[side].append((owners[0], port))
        assert {row for row, _ in hits[side]} == set(range(len(rows)))
        assert len(set(hits[side])) > 500, "ports vary"
    assert hits["internet"] != sorted(hits["internet"])


def _is_port_of(row, port):
    """Whether a port is in a row's port set, by RFC 7597 section 5.1."""
    length, offset = (int(row[column] or 0) for column in ("psid_length", "psid_offset"))
    psid = port >> (16 - offset - length) & ((1 << length) - 1)
    return psid == int(row["psid"]) and (offset == 0 or port >> (16 - offset) > 0)


TWO_WORKERS = """
port { name = "loop", device = "mem:loop" }
local layers = { { ethernet = {} }, { ipv4 = { source = "198.18.0.0/16 random" } }, { udp = {} } }
gen {
  workers = { %d, %d },
  streams = {
    { name = "one", port = "loop", rate = "1 kpps", count = 300, signature = true, layers = layers },
    { name = "two", port = "loop", rate = "2 kpps", count = 400, signature = true, layers = layers },
  },
}
"""


def test_two_workers_share_the_streams():
    """Each stream is sent once, whole and in order, and found to be so by what comes back. The loop has room for all of it."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        file = pathlib.Path(folder) / "gen.lua"
        file.write_text(TWO_WORKERS % (cores[0], cores[1]), encoding="utf-8")
        done = subprocess.run((PROGRAM, "gen", file, "--linger", "5 s", "--json"), capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr + done.stdout
    report = json.loads(done.stdout)
    assert report["complete"] and report["account"]["unaccounted"] == 0, report
    for stream, count in zip(report["streams"], (300, 400)):
        assert stream["sent"]["packets"] == count, report
        received = stream["received"]
        assert (received["received"], received["lost"], received["corrupt"]) == (count, 0, 0), stream
        assert received["order"]["reordered"] == received["duplicated"] == 0, stream
