"""Packets through DPDK's virtual devices, in whole programs; interfaces have scenarios of their own."""

import json
import pathlib
import socket
import tempfile

from lab import PATIENCE, pcapfile
from lab.packets import IP, UDP, Ether, payload, raw
from lab.weir import Weir, check_account, wait_for

NEEDS_ROOT = False


def _last_numbers(printed):
    """The account that a Weir prints when it ends."""
    stats = json.loads(printed[printed.index("{") :])
    check_account(stats)
    assert stats["account"]["held"] == 0, stats
    return stats


def test_null_and_ring():
    """What a null device makes goes into a ring, and what comes out of the ring goes back."""
    script = """
    port { name = "null", device = "null:size=64" }
    port { name = "ring", device = "vdev:net_ring0" }
    forward { pairs = { { "null", "ring" } }, workers = { 1 } }
    """
    with Weir(None, script, arguments=("--json",)) as weir:
        assert wait_for(lambda: weir.stats()["ports"]["null"]["tx_packets"] > 10_000), weir.output()
        stats = _last_numbers(weir.stop())
    ports = stats["ports"]
    for port in ports.values():
        assert port["rx_bytes"] == 64 * port["rx_packets"] and port["tx_bytes"] == 64 * port["tx_packets"], ports
    # What is in the ring when Weir ends stays there, and that is all that is missing.
    assert stats["missing_buffers"] == ports["ring"]["tx_packets"] - ports["ring"]["rx_packets"], stats


def test_memif_between_two_processes():
    """Everything that one Weir says it has sent is in the file that the other one writes, whole and in order."""
    with tempfile.TemporaryDirectory(prefix="weir-memif-") as folder:
        folder = pathlib.Path(folder)
        header = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(dst="192.0.2.1") / UDP()
        frames = [raw(header / payload(number)) for number in range(20, 1020)]
        pcapfile.write(folder / "in.pcap", [(number * 1e-6, frame) for number, frame in enumerate(frames)])
        count = 20 * len(frames)
        listens = f"""
        port {{ name = "link", device = "memif:0,role=server,socket={folder}/memif.sock" }}
        port {{ name = "file", device = "pcap:,out.pcap" }}
        forward {{ pairs = {{ {{ "link", "file" }} }}, workers = {{ 0 }} }}
        """
        sends = f"""
        port {{ name = "file", device = "mem:replay=in.pcap,rate=10 kpps,count={count}" }}
        port {{ name = "link", device = "memif:0,role=client,socket={folder}/memif.sock" }}
        forward {{ pairs = {{ {{ "file", "link" }} }}, workers = {{ 1 }} }}
        """
        (folder / "sends").mkdir()
        (folder / "in.pcap").rename(folder / "sends/in.pcap")
        with Weir(None, listens, folder=folder, arguments=("--json",)) as sink:
            # What comes before there is a link is lost: nothing does.
            idle = sends.replace(f"mem:replay=in.pcap,rate=10 kpps,count={count}", "mem:null")
            with Weir(None, idle, folder=folder / "sends", arguments=("--json",)) as source:
                assert wait_for(lambda: all(row["link_up"] for weir in (sink, source) for row in weir.show("ports"))), source.output()
                source.reload(sends)
                assert wait_for(lambda: source.stats()["ports"]["file"]["rx_packets"] == count), source.output()
                # What is in the ring when one end goes is lost, and no end can know: so both are still there.
                said = lambda: source.stats()["ports"]["link"]["tx_packets"]
                assert wait_for(lambda: sink.stats()["ports"]["file"]["tx_packets"] == said()), (said(), sink.stats())
                sent = said()
                assert sent > 3 * len(frames), source.output() + sink.output()
                assert _last_numbers(source.stop())["missing_buffers"] == 0
            assert _last_numbers(sink.stop())["missing_buffers"] == 0
        written = [frame for _, frame in pcapfile.read(folder / "out.pcap")]
        assert len(written) == sent
        # The replay goes round and round; what found a full link is missing in between.
        assert set(written) <= set(frames)
        turns = sum(len(one) >= len(next_one) for one, next_one in zip(written, written[1:]))
        assert turns < count / len(frames), turns


def test_a_memif_whose_first_peer_hangs_up_finds_the_next():
    """Whoever takes the connection and goes before the link is up leaves no trace in the driver: the port is opened again until there is a link."""
    with tempfile.TemporaryDirectory(prefix="weir-memif-") as folder:
        folder = pathlib.Path(folder)
        path = folder / "memif.sock"
        script = """
        port {{ name = "link", device = "memif:0,role={role},socket={path}" }}
        port {{ name = "null", device = "mem:null" }}
        forward {{ pairs = {{ {{ "link", "null" }} }}, workers = {{ 0 }} }}
        """
        link_up = lambda weir: any(row["link_up"] for row in weir.show("ports") if row["name"] == "link")
        ends = {role: folder / role for role in ("client", "server")}
        for end in ends.values():
            end.mkdir()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(path))
            listener.listen()
            listener.settimeout(PATIENCE)
            with Weir(None, script.format(role="client", path=path), ends["client"]) as client:
                listener.accept()[0].close()
                listener.close()
                path.unlink()
                assert not link_up(client)
                with Weir(None, script.format(role="server", path=path), ends["server"]) as server:
                    assert wait_for(lambda: link_up(client) and link_up(server)), client.log()
                    assert "the link did not come up" in client.log(), client.log()
                    client.stop()
                    server.stop()
