"""Ports on Linux interfaces: what crosses them whole, and what they leave behind."""

import json
import pathlib
import signal
import subprocess
import tempfile

from lab import PATIENCE
from lab.hosts import Between, config, ping
from lab.netns import Lab
from lab.packets import GRE, IP, UDP, Dot1AD, Dot1Q, Ether, is_of_the_link, payload, raw
from lab.weir import PROGRAM, Weir, wait_for

GATEWAY = """
port {{ name = "cpe",  device = "{driver}:cpe" }}
port {{ name = "core", device = "{driver}:core", address = "198.51.100.1/24", mtu = 1600 }}
bng {{
  access = {{ "cpe" }}, core = {{ "core" }}, local_address = "21.22.23.24", workers = {{ 1 }},
  subscribers = {{ {{ svlan = 100, cvlan = 200, key = 7, ipv4 = "10.0.0.9", mac = "02:00:00:00:01:01" }} }},
  gateways = {{ west = {{ port = "core", address = "198.51.100.2", mac = "02:00:00:00:01:02" }} }},
  routes   = {{ ["0.0.0.0/0"] = "west" }},
}}
"""


def _customers_packets(driver):
    """Packets of 1,500 bytes behind two tags, up and down; one of 1,501 does not go down."""
    with Lab() as lab:
        gateway, cpe, core = lab.namespace("g"), lab.namespace("cpe"), lab.namespace("core")
        lab.wire((gateway, "cpe", "02:00:00:00:00:01"), (cpe, "eth0", "02:00:00:00:01:01"))
        lab.wire((gateway, "core", "02:00:00:00:00:02"), (core, "eth0", "02:00:00:00:01:02"), mtu=1600)
        # The customers' side has room for its tags.
        cpe.run("ip", "link", "set", "dev", "eth0", "mtu", "1508")
        customer, west = lab.tap(cpe, "eth0"), lab.tap(core, "eth0")
        with Weir(gateway, GATEWAY.format(driver=driver)) as weir:
            assert next(row["mtu"] for row in weir.show("ports") if row["name"] == "cpe") == 1500
            assert gateway.link("cpe")["mtu"] == 1508
            tags = Dot1AD(vlan=100) / Dot1Q(vlan=200)
            up = IP(src="10.0.0.9", dst="203.0.113.5", ttl=64) / UDP() / payload(1472)
            customer.send(raw(Ether(src="02:00:00:00:01:01", dst="02:00:00:00:00:01") / tags / up))
            got = west.wait(lambda frames: any(not is_of_the_link(frame) for frame in frames))
            got = [frame for frame in got if not is_of_the_link(frame)]
            assert len(got) == 1 and len(got[0]) == 14 + 28 + 1500, ([len(frame) for frame in got], weir.drops())
            outer = IP(src="198.51.100.2", dst="21.22.23.24", id=0) / GRE(key_present=1, key=7)
            for size, name in ((1472, "whole"), (1473, "too long")):
                down = IP(src="203.0.113.5", dst="10.0.0.9", ttl=64, flags="DF") / UDP() / payload(size)
                west.send(raw(Ether(src="02:00:00:00:01:02", dst="02:00:00:00:00:02") / outer / down))
                assert wait_for(lambda n=size - 1471: weir.stats()["ports"]["core"]["rx_packets"] >= n), name
            whole = raw(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:01:01") / tags)[:-2]
            got = customer.wait(lambda frames: any(len(frame) > 1000 for frame in frames))
            lengths = [len(frame) for frame in got if len(frame) > 1000]
            assert lengths == [len(whole) + 2 + 1500], (lengths, weir.drops())
            assert weir.stats()["ports"]["cpe"]["tx_errors"] in (0, None), weir.stats()["ports"]
            weir.stop()
        assert gateway.link("cpe")["mtu"] == 1500, "as it was"


def test_customers_packets_are_whole_by_af_packet():
    """Two tags do not count towards the port's MTU, nor does the default TPID get lost."""
    _customers_packets("af_packet")


def test_customers_packets_are_whole_by_af_xdp():
    """The same by AF_XDP."""
    _customers_packets("af_xdp")


def test_fragments_cross_the_router():
    """Pings of three fragments, between Linux hosts."""
    for driver in ("af_packet", "af_xdp"):
        with Lab() as lab:
            net = Between(lab, config(driver))
            ping(net.lan, "198.51.100.1", 5, "-s", "4000", interval=0.1)
            net.check_against_kernel()
            net.weir.stop()


def test_an_af_packet_port_needs_no_help_with_checksums():
    """TCP connects though the hosts leave checksums to their devices."""
    with Lab() as lab:
        net = Between(lab, config("af_packet"))
        for host in (net.lan, net.wan):
            host.run("ethtool", "-K", "eth0", "tx", "on", "tso", "off", "gso", "off")
        code = "import socket; s = socket.create_server(('', 7000)); c = s.accept()[0]; c.sendall(c.recv(9)); c.recv(1)"
        server = net.wan.popen("python3", "-c", code)
        lab.at_end(server.kill)
        assert wait_for(lambda: "7000" in net.wan.run("ss", "-ltn"))
        code = "import socket; c = socket.create_connection(('198.51.100.1', 7000), 60); c.sendall(b'hello'); print(c.recv(9))"
        said = net.lan.run("python3", "-c", code)
        assert "hello" in said, said
        server.wait(PATIENCE)


def _state(namespace, interface):
    """What a port may have changed."""
    link = json.loads(namespace.run("ip", "-d", "-j", "link", "show", "dev", interface))[0]
    return link["mtu"], link["promiscuity"]


def _files(weir):
    return sorted(path.name for path in weir.folder.iterdir())


SMALLER = "port {{ name = 'a', device = '{driver}:a', mtu = 1400 }} port {{ name = 'b', device = 'null:no-rx=1' }} forward {{ pairs = {{ {{ 'a', 'b' }} }} }}"


def test_an_interface_is_left_as_it_was():
    """MTU and promiscuity are as before after a clean end, and after a killed process by the next start; no files are left."""
    for driver in ("af_packet", "af_xdp"):
        with Lab() as lab, tempfile.TemporaryDirectory(prefix="weir-left-") as folder:
            own, peer = lab.namespace("own"), lab.namespace("peer")
            lab.wire((own, "a", "02:00:00:00:00:01"), (peer, "eth0", "02:00:00:00:01:01"))
            script = SMALLER.format(driver=driver)
            with Weir(own, script, folder=folder) as weir:
                assert _state(own, "a") == (1400, 1), _state(own, "a")
                weir.stop()
                assert _files(weir) == ["test.lua"], _files(weir)
            assert _state(own, "a") == (1500, 0), _state(own, "a")
            with Weir(own, script, folder=folder) as weir:
                weir.process.send_signal(signal.SIGKILL)
                weir.process.wait(PATIENCE)
            own.run("ip", "link", "set", "dev", "a", "xdp", "off", check=False)
            assert _state(own, "a") == (1400, 0), _state(own, "a")
            # Another name, and another port: it mends what it finds.
            other = "port { name = 'x', device = 'null:no-rx=1' } port { name = 'y', device = 'mem:null' } forward { pairs = { { 'x', 'y' } } }"
            with Weir(own, other, folder=folder) as weir:
                assert _state(own, "a") == (1500, 0), _state(own, "a")
                weir.stop()
                assert _files(weir) == ["test.lua"], _files(weir)


def test_a_generator_leaves_no_files():
    """Its lock and log are in nobody's way in the folder for temporary files, and gone at the end."""
    with Lab() as lab, tempfile.TemporaryDirectory(prefix="weir-left-") as folder:
        own = lab.namespace("own")
        lab.wire((own, "a", "02:00:00:00:00:01"), (own, "b", "02:00:00:00:00:02"))
        options = ("--port", "af_packet:a", "--rx", "af_packet:b", "--dst", "192.0.2.1", "--count", "10", "--rate", "100 pps")
        words = ("env", f"TMPDIR={folder}", str(PROGRAM), "gen", *options, "--linger", "100 ms")
        generator = own.popen(*words, stdout=subprocess.DEVNULL)
        assert generator.wait(PATIENCE) == 0
        assert not list(pathlib.Path(folder).iterdir()), list(pathlib.Path(folder).iterdir())
        # Each program in the row becomes the next one, so that this is the generator's number.
        left = list(pathlib.Path("/run/weir").glob(f"generator-{generator.pid}*"))
        assert not left, left
