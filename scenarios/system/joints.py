"""Functions that are joined inside one process: three between two hosts, reloads of each, and a line card on files."""

import json
import pathlib
import tempfile

from lab import pcapfile
from lab.hosts import MACS, STATIC, Between, Stream, numbers, ping
from lab.netns import Lab
from lab.packets import ARP, IP, UDP, Dot1AD, Dot1Q, Ether, is_of_the_link, payload, raw
from lab.scenario import run_until_drained
from lab.weir import check_account, drops_of, wait_for

_CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"

# lan - forward - joint - router - joint - forward - wan
_CHAIN = """
port {{ name = "lan", device = "af_packet:lan" }}
port {{ name = "l1", device = "joint:left" }}
port {{ name = "l2", device = "joint:left,mac={lan}", address = "10.0.0.1/24" }}
port {{ name = "r1", device = "joint:right,mac={wan}", address = "192.0.2.1/24" }}
port {{ name = "r2", device = "joint:right" }}
port {{ name = "wan", device = "af_packet:wan" }}
forward {{ name = "left", pairs = {{ {{ "lan", "l1" }} }}, workers = {{ {workers[0]} }} }}
router {{ ports = {{ "l2", "r1" }}, workers = {{ {workers[1]} }}, routes = {{ ["0.0.0.0/0"] = "192.0.2.254" }}, {more} }}
forward {{ name = "right", pairs = {{ {{ "r2", "wan" }} }}, workers = {{ {workers[2]} }} }}
"""


def _chain(workers, more=""):
    return _CHAIN.format(workers=workers, more=more, lan=MACS["lan"], wan=MACS["wan"])


def test_hosts_talk_through_three_functions():
    """ARP and pings, and what figures, a trace and a capture show of them: on one worker, and from worker to worker and back."""
    for workers in ((1, 1, 1), (0, 1, 0)):
        with Lab() as lab, tempfile.TemporaryDirectory(prefix="weir-joints-") as folder:
            net = Between(lab, _chain(workers))
            ping(net.lan, "198.51.100.1", 20)
            net.check_against_kernel()
            ports = net.weir.stats()["ports"]
            for here, there in (("l1", "l2"), ("l2", "l1"), ("r1", "r2"), ("r2", "r1")):
                sent, received = (ports[here][f"tx_{what}"] for what in ("packets", "bytes")), ports[there]
                assert list(sent) == [received["rx_packets"], received["rx_bytes"]], (here, ports)
                assert received["rx_packets"] >= 20 and received["rx_missed"] == 0, (there, ports)
            pinging = net.lan.popen("ping", "-n", "-i", "0.02", "198.51.100.1")
            try:
                lines = net.weir.command("trace", "-n", "1", "--json", "icmp", "and", "src", "10.0.0.2").splitlines()
                steps = [json.loads(line).get("step", {}) for line in lines]
                crossed = [step["place"] for step in steps if step.get("event") == "crossed"]
                assert crossed == ["l1 -> l2", "r1 -> r2"], steps
                file = pathlib.Path(folder) / "l2.pcap"
                net.weir.command("capture", "l2", "-n", "4", "-w", file, "icmp")
                assert file.read_bytes().count(bytes([10, 0, 0, 2, 198, 51, 100, 1])) == 2, "a request and an answer, twice"
            finally:
                pinging.kill()
                pinging.wait()
            net.weir.stop()


def test_joined_functions_move_from_worker_to_worker():
    """Each of three goes from core to core and back under a stream of numbered packets. What arrives is in order, and what does not
    was in a link that went and was dropped for the reload; nothing is where it cannot be found."""
    with Lab() as lab:
        net = Between(lab, _chain((1, 1, 1), STATIC), bare=True)
        stream = Stream(net.lan_wire, 2000)
        for workers in ((1, 0, 1), (0, 0, 1), (0, 1, 0), (1, 1, 0), (1, 1, 1), (0, 0, 0)):
            assert wait_for(lambda sent=stream.sent: stream.sent > sent + 200)
            net.weir.reload(_chain(workers, STATIC))
        # The joint gets another name: to the functions it is another device.
        net.weir.reload(_chain((0, 0, 0), STATIC).replace("joint:left", "joint:port-side"))
        sent = stream.stop()
        lost = lambda: sum(packets for key, packets in net.weir.drops().items() if key.endswith(" reload"))
        missed = lambda: net.weir.stats()["ports"]["lan"]["rx_missed"] or 0
        arrived = lambda: numbers(net.wan_wire.frames())
        assert wait_for(lambda: len(arrived()) + lost() + missed() == sent), (len(arrived()), lost(), sent, net.weir.drops())
        assert arrived() == sorted(set(arrived())), "out of order, or twice"
        assert arrived(), "nothing got through"
        net.weir.stop()


def test_a_line_card_of_three_functions():
    """The shipped configuration on files: customers' packets both ways through bng, router and qos."""
    script = (_CONFIGS / "line-card.lua").read_text(encoding="utf-8")
    for side in ("access", "uplink"):
        device = f"pcap:{side}.in,{side}.out,timing=clock,mac=02:00:00:00:00:{'01' if side == 'access' else '02'}"
        script = script.replace(f"af_packet:veth-{side}", device)
    script = script.replace('"joint:uplink", address', '"joint:uplink,mac=02:00:00:00:00:03", address')
    with tempfile.TemporaryDirectory(prefix="weir-line-card-") as folder:
        folder = pathlib.Path(folder)
        (folder / "subscribers.csv").write_bytes((_CONFIGS / "subscribers.csv").read_bytes())
        file = folder / "test.lua"
        file.write_text('engine { clock = "virtual" }\n' + script, encoding="utf-8")
        up, down = [], []
        tags = Ether(src="02:00:00:00:01:01", dst="02:00:00:00:00:01") / Dot1AD(vlan=100) / Dot1Q(vlan=1)
        # The router asks for its next hop when the first packet is there for it; who is asked answers a little later.
        answer = ARP(op="is-at", hwsrc="02:00:00:00:09:09", psrc="192.0.2.254", hwdst="02:00:00:00:00:03", pdst="192.0.2.1")
        down.append((1.005, raw(Ether(src="02:00:00:00:09:09", dst="02:00:00:00:00:03") / answer)))
        for n in range(300):
            packet = IP(src="10.0.0.9", dst="203.0.113.7", ttl=64) / UDP(sport=1000 + n, dport=53) / payload(n)
            up.append((1 + n / 1000, raw(tags / packet)))
            packet = IP(src="203.0.113.7", dst="10.0.0.9", ttl=64) / UDP(sport=53, dport=1000 + n) / payload(n)
            down.append((2 + n / 1000, raw(Ether(src="02:00:00:00:09:09", dst="02:00:00:00:00:03") / packet)))
        pcapfile.write(folder / "access.in", up)
        pcapfile.write(folder / "uplink.in", down)
        stats = run_until_drained(file)
        check_account(stats)
        # What either says of its own address is nothing new to the other.
        drops = {key: packets for key, packets in drops_of(stats).items() if not key.endswith(" arp-ignored")}
        assert not drops, drops
        went = [Ether(frame) for _, frame in pcapfile.read(folder / "uplink.out") if not is_of_the_link(frame)]
        assert len(went) == 300, len(went)
        # Those that waited for a neighbour are let go by the slow path, and others pass them.
        for n, packet in enumerate(sorted(went, key=lambda packet: packet[UDP].sport)):
            assert (packet.src, packet.dst) == ("02:00:00:00:00:03", "02:00:00:00:09:09"), packet.summary()
            # Two routers were passed.
            assert (packet[IP].ttl, packet[UDP].sport, bytes(packet[UDP].payload)) == (62, 1000 + n, payload(n)), packet.show(dump=True)
        came = [Ether(frame) for _, frame in pcapfile.read(folder / "access.out")]
        assert len(came) == 300, len(came)
        for n, packet in enumerate(sorted(came, key=lambda packet: packet[UDP].dport)):
            assert (packet.dst, packet[Dot1AD].vlan, packet[Dot1Q].vlan) == ("02:00:00:00:01:01", 100, 1), packet.summary()
            assert (packet[IP].ttl, packet[UDP].dport, bytes(packet[UDP].payload)) == (62, 1000 + n, payload(n)), packet.show(dump=True)


def test_a_run_ends_when_cables_and_joints_are_empty():
    """All of a file has come out at the end, however many functions it went through, and on whichever workers."""
    script = """
    engine {{ clock = "{clock}" }}
    port {{ name = "in", device = "pcap:test.in" }}
    port {{ name = "a", device = "{device}" }}
    port {{ name = "b", device = "{device}" }}
    port {{ name = "c", device = "joint:y" }}
    port {{ name = "d", device = "joint:y" }}
    port {{ name = "out", device = "pcap:,test.out" }}
    forward {{ name = "one", paths = {{ "in -> a" }}, workers = {{ 0 }} }}
    forward {{ name = "two", paths = {{ "b -> c" }}, workers = {{ 1 }} }}
    forward {{ name = "three", paths = {{ "d -> out" }}, workers = {{ 0 }} }}
    """
    frames = [raw(Ether() / IP() / UDP() / payload(n % 100)) for n in range(900)]
    for clock in ("virtual", "real"):
        for device in ("mem:cable=x", "joint:x"):
            with tempfile.TemporaryDirectory(prefix="weir-drained-") as folder:
                folder = pathlib.Path(folder)
                pcapfile.write(folder / "test.in", [(n / 1000, frame) for n, frame in enumerate(frames)])
                file = folder / "test.lua"
                file.write_text(script.format(clock=clock, device=device), encoding="utf-8")
                check_account(run_until_drained(file))
                assert [frame for _, frame in pcapfile.read(folder / "test.out")] == frames, (clock, device)
