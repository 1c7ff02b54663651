"""The broadband gateway on files: every size, all depths of labels, and what tshark says to it."""

import json
import pathlib
import random
import shutil
import subprocess
import tempfile

from lab import PATIENCE, pcapfile
from lab.packets import ARP, GRE, ICMP, IP, MPLS, UDP, Dot1AD, Dot1Q, Ether, payload, raw
from lab.scenario import run_until_drained
from lab.weir import check_account, drops_of

NEEDS_ROOT = False

CUSTOMERS = 300
CONFIG = """
engine { clock = "virtual" }
port { name = "cpe",  device = "pcap:cpe.in,cpe.out,timing=clock,mac=02:00:00:00:00:01" }
port { name = "core", device = "pcap:core.in,core.out,timing=clock,mac=02:00:00:00:00:02", address = "198.51.100.1/24" }
local gateways, routes = {}, {}
for labels = 0, 3 do
  local stack = {}
  for n = 1, labels do stack[n] = { label = 100 * labels + n, tc = n, ttl = 60 + n } end
  gateways["g" .. labels] = { port = "core", address = "198.51.100." .. 10 + labels, mac = "02:00:00:00:02:0" .. labels, labels = stack }
  routes[string.format("203.0.%d.0/24", labels)] = "g" .. labels
end
bng {
  access = { "cpe" }, core = { "core" }, local_address = "21.22.23.24", subscribers = "subscribers.csv",
  gateways = gateways, routes = routes, pcp = { [46] = 5 },
}
"""


def _line(n):
    """Tags, key, address and Ethernet address of a customer."""
    return 1 + n // 100, 1 + n % 100, 1000 + n, f"10.1.{n // 250}.{1 + n % 250}", f"02:00:00:01:{n // 256:02x}:{n % 256:02x}"


def _run(folder, up, down):
    """Sends frames both ways; answers what came out of both ports, and the drops."""
    rows = ["svlan,cvlan,key,ipv4,mac", *(",".join(map(str, _line(n))) for n in range(CUSTOMERS))]
    (folder / "subscribers.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for name, frames in (("cpe", up), ("core", down)):
        pcapfile.write(folder / f"{name}.in", [(0.5 + n * 1e-5, frame) for n, frame in enumerate(frames)])
    script = folder / "test.lua"
    script.write_text(CONFIG, encoding="utf-8")
    stats = run_until_drained(script)
    check_account(stats)
    out = {name: [frame for _, frame in pcapfile.read(folder / f"{name}.out")] for name in ("cpe", "core")}
    return out["cpe"], [frame for frame in out["core"] if frame[12:14] != b"\x08\x06"], drops_of(stats)


def _suspicious(capture, wrong="_ws.malformed or ip.checksum.status == 0 or udp.checksum.status == 0"):
    """What tshark finds malformed, or with a wrong checksum."""
    options = ("-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE")
    done = subprocess.run(
        ("tshark", "-r", capture, *options, "-Y", wrong, "-T", "json"),
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return json.loads(done.stdout)


def test_every_size_grows_by_24_bytes_and_shrinks_again():
    """Up, packets of all sizes with 0 to 3 labels; down, the same: lengths are exact, and tshark finds nothing wrong."""
    dice = random.Random(20261122)
    up, down, expected_up, expected_down = [], [], [], []
    for data in [*range(0, 64), *range(64, 1427, 7), 1420]:
        n, labels = dice.randrange(CUSTOMERS), data % 4
        svlan, cvlan, key, address, mac = _line(n)
        tos = dice.choice((0, 46 << 2, 10 << 2, 1, 2))
        packet = IP(src=address, dst=f"203.0.{labels}.7", ttl=64, tos=tos) / UDP(sport=1000, dport=2000) / payload(data)
        tags = Dot1AD(vlan=svlan) / Dot1Q(vlan=cvlan)
        frame = raw(Ether(src=mac, dst="02:00:00:00:00:01") / tags / packet)
        up.append(frame.ljust(60, b"\xee"))
        expected_up.append(len(frame) + 20 + 4 * labels)
        back = IP(src=f"203.0.{labels}.7", dst=address, ttl=64, tos=tos) / UDP(sport=2000, dport=1000) / payload(data)
        outer = IP(src="198.51.100.10", dst="21.22.23.24", flags="DF", id=0) / GRE(key_present=1, key=key)
        frame = Ether(src="02:00:00:00:02:00", dst="02:00:00:00:00:02")
        for depth in range(labels):
            frame = frame / MPLS(label=16 + depth, s=int(depth + 1 == labels), ttl=9)
        down.append(raw(frame / outer / back))
        expected_down.append(len(down[-1]) - 20 - 4 * labels)
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        folder = pathlib.Path(folder)
        cpe, core, drops = _run(folder, up, down)
        assert not drops, drops
        assert [len(frame) for frame in core] == expected_up
        assert [len(frame) for frame in cpe] == expected_down
        if shutil.which("tshark"):
            for name in ("cpe.out", "core.out"):
                wrong = _suspicious(folder / name)
                assert not wrong, f"{name}: {wrong[:3]}"


def test_damaged_frames_are_dropped_by_name_or_right():
    """Frames both ways with bytes set, bits flipped and ends cut: the account is exact, and what comes out is sound."""
    dice = random.Random(7)

    def damaged(frame):
        frame = bytearray(frame)
        for _ in range(dice.choice((1, 1, 2, 8))):
            frame[dice.randrange(min(len(frame), 80))] = dice.getrandbits(8)
        return bytes(frame[: dice.choice((len(frame), len(frame), dice.randint(1, len(frame))))])

    up, down = [], []
    for _ in range(1_000):
        svlan, cvlan, key, address, mac = _line(dice.randrange(CUSTOMERS))
        packet = IP(src=address, dst="203.0.1.7", ttl=64) / UDP() / payload(dice.randrange(200))
        up.append(damaged(raw(Ether(src=mac, dst="02:00:00:00:00:01") / Dot1AD(vlan=svlan) / Dot1Q(vlan=cvlan) / packet)))
        outer = IP(src="198.51.100.10", dst="21.22.23.24", id=0) / GRE(key_present=1, key=key)
        back = IP(src="203.0.1.7", dst=address, ttl=64) / UDP() / payload(dice.randrange(200))
        label = MPLS(label=3, s=1, ttl=9)
        down.append(damaged(raw(Ether(src="02:00:00:00:02:00", dst="02:00:00:00:00:02") / label / outer / back)))
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        folder = pathlib.Path(folder)
        cpe, core, drops = _run(folder, up, down)
        assert cpe and core and drops
        if shutil.which("tshark"):
            # What is behind the IPv4 header is the customer's, who may damage it.
            for name in ("cpe.out", "core.out"):
                wrong = _suspicious(folder / name, "ip.checksum.status == 0")
                assert not wrong, f"{name}: {wrong[:3]}"



SHARED = """
engine { clock = "virtual" }
port { name = "cpe",  device = "pcap:cpe.in,cpe.out,timing=clock,mac=02:00:00:00:00:01" }
port { name = "core", device = "pcap:core.in,core.out,timing=clock,mac=02:00:00:00:00:02", address = "198.51.100.1/24" }
port { name = "office", device = "pcap:office.in,office.out,timing=clock,mac=02:00:00:00:00:03", address = "192.0.2.1/24" }
interface { name = "cpe.4000", on = "cpe", vlan = 4000, address = "172.16.0.1/24", of = "business" }
interface { name = "cpe.4001", on = "cpe", vlan = 4001, address = "172.17.0.1/24", of = "bng" }
router { name = "business", ports = { "cpe", "office" },
         neighbors = { ["192.0.2.9"] = "02:00:00:00:03:09", ["172.16.0.9"] = "02:00:00:00:04:09" } }
bng {
  access = { "cpe" }, core = { "core" }, local_address = "21.22.23.24", subscribers = "subscribers.csv",
  gateways = { west = { port = "core", address = "198.51.100.10", mac = "02:00:00:00:02:00" } }, routes = { ["0.0.0.0/0"] = "west" },
}
"""


def test_a_router_and_a_node_beside_customers():
    """Customers, a router's interface and one of the gateway's own on one port: each packet goes to whoever has its tags."""
    frames = {"cpe": [], "core": [], "office": []}
    udp = lambda src, dst: IP(src=src, dst=dst, ttl=64) / UDP(sport=1000, dport=2000) / payload(100)
    to = lambda tags, packet, mac="02:00:00:00:04:09": raw(Ether(src=mac, dst="02:00:00:00:00:01") / tags / packet)
    for n in range(50):
        svlan, cvlan, _, address, mac = _line(n)
        frames["cpe"] += [
            to(Dot1AD(vlan=svlan) / Dot1Q(vlan=cvlan), udp(address, "203.0.113.7"), mac),
            to(Dot1Q(vlan=4000), udp("172.16.0.9", "192.0.2.9")),
            to(Dot1Q(vlan=4001), IP(src="172.17.0.9", dst="172.17.0.1", ttl=64) / ICMP(id=n)),
            to(Dot1Q(vlan=4002), udp("172.16.0.9", "192.0.2.9")),
        ]
        back = raw(Ether(src="02:00:00:00:03:09", dst="02:00:00:00:00:03") / udp("192.0.2.9", "172.16.0.9"))
        frames["office"].append(back)
    asks = Ether(src="02:00:00:00:04:09", dst="ff:ff:ff:ff:ff:ff") / Dot1Q(vlan=4001)
    frames["cpe"].insert(0, raw(asks / ARP(hwsrc="02:00:00:00:04:09", psrc="172.17.0.9", pdst="172.17.0.1")))
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        folder = pathlib.Path(folder)
        rows = ["svlan,cvlan,key,ipv4,mac", *(",".join(map(str, _line(n))) for n in range(CUSTOMERS))]
        (folder / "subscribers.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        for name, some in frames.items():
            pcapfile.write(folder / f"{name}.in", [(5 + n * 1e-3, frame) for n, frame in enumerate(some)])
        script = folder / "test.lua"
        script.write_text(SHARED, encoding="utf-8")
        stats = run_until_drained(script)
        check_account(stats)
        out = {name: [frame for _, frame in pcapfile.read(folder / f"{name}.out")] for name in frames}
    ip = lambda some, at, protocol: [frame for frame in some if frame[at - 2 : at] == b"\x08\x00" and frame[at + 9] == protocol]
    behind = lambda vlan: [frame for frame in out["cpe"] if frame[12:16] == b"\x81\x00" + vlan.to_bytes(2, "big")]
    assert len(ip(out["core"], 14, 47)) == 50, "customers' packets in tunnels"
    assert len(ip(out["office"], 14, 17)) == 50 and len(ip(behind(4000), 18, 17)) == 50, "through the router, both ways"
    assert len(ip(behind(4001), 18, 1)) == 50, "answers of the gateway's own interface"
    assert drops_of(stats) == {"business.forward unknown-tag": 50}, drops_of(stats)
