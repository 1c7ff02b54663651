"""The learning switch that Ryu brings as an example of OpenFlow 1.3, as it comes, drives the switch among three Linux hosts."""

from lab.controllers import Ryu
from lab.netns import Lab
from lab.openflow import CONTROLLER, PORTS, Switch
from lab.weir import Weir, wait_for

_COUNT = 3


def _ping(hosts, source, to, wait="5"):
    return " bytes from " in hosts[source].run("ping", "-n", "-c", "1", "-W", wait, f"10.0.0.{to + 1}", check=False)


def test_its_learning_switch():
    """First packets go by packet-ins, each pair of hosts gets flows, and what comes later takes no packet-in."""
    Ryu.needed()
    with Lab() as lab:
        namespace = lab.namespace("switch")
        hosts = [lab.namespace(f"host{number}") for number in range(1, _COUNT + 1)]
        for number, host in enumerate(hosts, 1):
            lab.wire((namespace, PORTS[number - 1], f"02:01:00:00:00:0{number}"), (host, "eth0", f"02:aa:00:00:00:0{number}"))
            host.run("ip", "address", "add", f"10.0.0.{number}/24", "dev", "eth0")
            # Hosts know each other's addresses for a while: nobody asks anew, which would be a packet-in.
            host.run("sysctl", "-qw", "net.ipv4.neigh.eth0.base_reachable_time_ms=600000")
        ryu = Ryu(lab, namespace, "ryu.app.simple_switch_13")
        weir = Weir(namespace, Switch.script(f'controllers = {{ "tcp:127.0.0.1:{CONTROLLER}" }}, fail = "secure"'))
        lab.at_end(weir.process.kill)
        state = lambda: "\n".join([*map(str, weir.show("flows")), str(weir.drops()), weir.log(), ryu.told()])
        # Its flow for misses is there.
        assert wait_for(lambda: weir.show("flows")), state()
        pairs = [(source, to) for source in range(_COUNT) for to in range(_COUNT) if source != to]
        for pair in pairs:
            assert wait_for(lambda p=pair: _ping(hosts, *p)), state()
        packets_in = lambda: next(gauge["value"] for gauge in weir.stats()["gauges"] if gauge["name"] == "switch_packets_in")
        flows = lambda: [row for row in weir.show("flows") if row["priority"] == 1]
        # By the port it comes from and both addresses.
        assert wait_for(lambda: len(flows()) == len(pairs)), state()
        assert packets_in() >= len(pairs), state()
        before, carried = packets_in(), sum(row["packets"] for row in flows())
        for pair in pairs:
            assert _ping(hosts, *pair, "60"), state()
        assert packets_in() == before, state()
        assert sum(row["packets"] for row in flows()) >= carried + 2 * len(pairs), state()
        assert "Traceback" not in ryu.told() and "EventOFPErrorMsg received" not in ryu.told(), ryu.told()
        account = weir.stats()["account"]
        weir.stop()
        assert account["consumed"] > 0 and account["created"] > 0 and account["unaccounted"] == 0, account
