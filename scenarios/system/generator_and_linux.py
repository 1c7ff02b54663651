"""The generator beside a Linux host: next hops are asked for, and questions answered."""

import json

from lab.netns import Lab
from lab.weir import PROGRAM, wait_for


def test_linux_tells_its_address_and_gets_the_packets():
    """ARP goes both ways; every packet arrives at the host that was asked for, and nobody needs a static neighbour."""
    with Lab() as lab:
        own, host = lab.namespace("gen"), lab.namespace("host")
        lab.wire((own, "a", "02:00:00:00:0a:01"), (host, "b", "02:00:00:00:0b:01"))
        host.run("ip", "address", "add", "192.0.2.1/24", "dev", "b")
        options = ("--port", "af_packet:a", "--address", "192.0.2.2/24", "--via", "192.0.2.1", "--dst", "192.0.2.1")
        # Nobody listens at the port: Linux asks for the sender, whom it wants to tell so.
        more = ("--src", "192.0.2.50-192.0.2.59", "--answer", "192.0.2.48/28", "--dport", "4242")
        sent = ("--rate", "1 kpps", "--count", "200", "--linger", "5 s", "--json")
        report = json.loads(own.run(str(PROGRAM), "gen", *options, *more, *sent))
        assert report["complete"] and report["unresolved"] == [], report
        assert report["streams"][0]["sent"]["packets"] == 200, report

        def counters():
            udp = [line.split() for line in host.run("cat", "/proc/net/snmp").splitlines() if line.startswith("Udp:")]
            return dict(zip(udp[0][1:], map(int, udp[1][1:])))

        # The kernel counts them when it comes to them.
        assert wait_for(lambda: counters()["NoPorts"] >= 200), counters()
        assert counters()["NoPorts"] == 200 and counters()["InCsumErrors"] == 0, counters()
        known = json.loads(host.run("ip", "-j", "neigh", "show", "dev", "b"))
        answered = [entry for entry in known if entry.get("lladdr") == "02:00:00:00:0a:01"]
        assert any(entry["dst"].startswith("192.0.2.5") for entry in answered), known


def test_a_next_hop_that_does_not_answer_is_told():
    """Nothing is sent, and the report says whom it waited for."""
    with Lab() as lab:
        own, host = lab.namespace("gen"), lab.namespace("host")
        lab.wire((own, "a", "02:00:00:00:0a:01"), (host, "b", "02:00:00:00:0b:01"))
        options = ("--port", "af_packet:a", "--address", "192.0.2.2/24", "--via", "192.0.2.1", "--count", "10", "--json")
        process = own.popen(str(PROGRAM), "gen", *options, stdout=-1)
        lab.at_end(process.kill)
        assert wait_for(lambda: process.poll() is not None)
        report = json.loads(process.stdout.read())
        assert process.returncode == 1 and not report["complete"], report
        assert report["streams"][0]["sent"]["packets"] == 0 and "192.0.2.1" in report["notes"][0], report
