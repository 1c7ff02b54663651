"""The switch and who drives it: Open vSwitch's `ovs-ofctl`, and controllers that die and come back."""

import struct

from lab.netns import Lab
from lab.openflow import CONTROLLER, FLOW_MOD, LISTEN, PACKET_IN, PORT_STATUS, Controller, Switch, frame_of, station
from lab.packets import IP, UDP, Ether, raw
from lab.weir import wait_for


def _account(switch):
    """Stops it; everything was accounted for, and how many frames it could not place."""
    stats = switch.weir.stats()
    switch.weir.stop()
    return stats["account"]


def test_ovs_ofctl_drives_it():
    """Flows, groups, meters, statistics and packets of a controller; what makes no sense is refused, and changes nothing."""
    with Lab() as lab:
        switch = Switch(lab, f'listen = "127.0.0.1:{LISTEN}", tables = 4')
        assert wait_for(lambda: "LIVE" in switch.ofctl("show")), switch.ofctl("show")
        shown = switch.ofctl("show")
        for said in ("dpid:00000000000000aa", "n_tables:4", "1(p1): addr:02:01:00:00:00:01", "3(p3)"):
            assert said in shown, shown
        # A veth pair says of itself that it is copper at 10 Gbit/s.
        assert shown.count("current:    10GB-FD COPPER") == 3, shown
        assert shown.count("speed: 10000 Mbps now, 10000 Mbps max") == 3, shown
        assert [row["speed_bps"] for row in switch.weir.show("ports")] == [10**10] * 3, switch.weir.show("ports")
        switch.ofctl("add-flow", "in_port=1,priority=5,actions=output:2")
        switch.ofctl("add-flow", "table=0,priority=1,actions=goto_table:1")
        switch.passes(1, 2, [2])
        # What comes in by the second port goes by a group, at a rate that a meter bounds.
        switch.ofctl("add-group", "group_id=7,type=all,bucket=output:1,bucket=output:3")
        switch.ofctl("add-meter", "meter=1,pktps,burst,band=type=drop,rate=1000,burst_size=1000")
        switch.ofctl("add-flow", "table=1,in_port=2,actions=meter:1,group:7")
        switch.passes(2, 0, [1, 3])
        assert "n_packets=0" not in next(line for line in switch.ofctl("dump-flows").splitlines() if "in_port=1" in line)
        assert "band=type=drop" in switch.ofctl("dump-meters").replace("\n", " ").replace("bands= type", "band=type")
        assert "group_id=7" in switch.ofctl("dump-groups") and "packet_count=0" not in switch.ofctl("dump-group-stats")
        ports = switch.ofctl("dump-ports", "1")
        assert "rx pkts=0" not in ports and "tx pkts=0" not in ports, ports
        # A frame of a controller.
        frame = frame_of(9, 3, 7)
        switch.ofctl("packet-out", f"in_port=CONTROLLER,packet={frame.hex()},actions=output:3")
        has = lambda frames: any(got[: len(frame)] == frame for got in frames)
        assert has(switch.wires[2].wait(has)), switch.weir.log()
        before = switch.ofctl("dump-flows", "table=1")
        for wrong, error in (
            ("table=9,actions=output:1", "OFPFMFC_BAD_TABLE_ID"),
            ("table=1,priority=9,actions=group:8", "OFPBAC_BAD_OUT_GROUP"),
            ("table=1,priority=9,actions=output:999", "OFPBAC_BAD_OUT_PORT"),
        ):
            said = switch.ofctl("add-flow", wrong, check=False)
            assert error in said, said
        assert switch.ofctl("dump-flows", "table=1").count("\n") == before.count("\n")
        rows = switch.weir.show("flows")
        assert [(row["table"], row["priority"]) for row in rows] == [(0, 5), (0, 1), (1, 32768)], rows
        switch.ofctl("del-flows")
        assert switch.weir.show("flows") == []
        switch.passes(1, 2, [])
        # That it has not come yet does not say that it was dropped already.
        assert wait_for(lambda: switch.weir.drops().get("switch.tables table-miss", 0) > 0), switch.weir.drops()
        account = _account(switch)
        assert account["created"] > 0 and account["unaccounted"] == 0, account


def test_workers_go_through_its_tables_at_the_same_time():
    """Packets of many flows come to two workers, by queues of their own and by a distributor, while flows change: each was taken by what is told to all, and counted."""
    sent = 400
    # The first of a distributor's workers takes none itself.
    for layout, takers in (("run-to-completion", 2), ("distributor", 1)):
        with Lab() as lab:
            switch = Switch(lab, f'listen = "127.0.0.1:{LISTEN}", workers = {{ 0, 1 }}, layout = "{layout}"')
            switch.ofctl("add-group", "group_id=7,type=indirect,bucket=output:2")
            switch.ofctl("add-flow", "table=0,in_port=1,actions=goto_table:1")
            switch.ofctl("add-flow", "table=1,udp,actions=dec_ttl,group:7")
            link, ip = Ether(src=station(1), dst=station(2)), IP(src="10.0.0.1", dst="10.0.0.2")
            for number in range(sent):
                switch.wires[0].send(raw(link / ip / UDP(sport=1000 + number, dport=53) / bytes(30)))
                if number % 100 == 50:
                    switch.ofctl("add-flow", f"table=1,priority=1,tcp,tp_dst={number},actions=output:3")
            took = lambda: [stage["packets"] for stage in switch.weir.stats()["stages"] if stage["name"] == "switch.tables"]
            assert wait_for(lambda: sum(took()) == sent), took()
            assert len(took()) == takers and min(took()) > sent // 8, took()
            flows = {(row["table"], row["match"]): row["packets"] for row in switch.weir.show("flows")}
            assert [flows[key] for key in flows if "ip_proto=17" in key[1] or key[0] == 0] == [sent] * 2, flows
            assert f"packet_count={sent}" in switch.ofctl("dump-group-stats"), switch.ofctl("dump-group-stats")
            # Who took it hands it on to who sends it.
            assert wait_for(lambda: f"tx pkts={sent}" in switch.ofctl("dump-ports", "2")), switch.ofctl("dump-ports", "2")
            assert f"rx pkts={sent}" in switch.ofctl("dump-ports", "1")
            account = _account(switch)
            assert account["unaccounted"] == 0 and account["transmitted"] == sent, account


def test_a_controller_that_dies_and_comes_back():
    """In fail-secure mode flows stay as they are; in fail-standalone mode it is a bridge meanwhile. It connects again by itself."""
    with Lab() as lab:
        keys = f'listen = "127.0.0.1:{LISTEN}", controllers = {{ "tcp:127.0.0.1:{CONTROLLER}" }}, fail = "%s"'
        switch = Switch(lab, keys % "secure")
        assert switch.mode() == "secure"
        switch.ofctl("add-flow", "in_port=1,actions=output:2")
        switch.ofctl("add-flow", "priority=0,actions=CONTROLLER:65535")
        controller = Controller(switch.namespace)
        switch.is_in("controlled")
        switch.passes(1, 2, [2])
        switch.passes(2, 1, [])
        controller.hears(PACKET_IN, lambda body: raw(Ether(dst=station(1), src=station(2), type=0x88B5)) in body)
        switch.hosts.run("ip", "link", "set", "dev", "h3", "down")
        controller.hears(PORT_STATUS, lambda body: b"p3" in body and struct.unpack_from("!I", body, 8 + 36)[0] & 1)
        switch.hosts.run("ip", "link", "set", "dev", "h3", "up")
        controller.die()
        switch.is_in("secure")
        switch.passes(1, 2, [2])
        switch.passes(2, 1, [])
        assert wait_for(lambda: switch.weir.drops().get("switch.tables no-controller", 0) > 0), switch.weir.drops()
        switch.weir.reload(switch.script(keys % "standalone"))
        switch.is_in("standalone")
        switch.passes(1, 0, [2, 3])
        switch.passes(2, 1, [1])
        # It is there again: packets go as the flows say, which are all still there.
        controller = Controller(switch.namespace)
        switch.is_in("controlled")
        switch.passes(1, 0, [2])
        switch.passes(2, 1, [])
        controller.hears(PACKET_IN)
        # It sends nonsense, is told so, and is another one then.
        controller.send(FLOW_MOD, b"\xff" * 40)
        controller.hears(1)
        switch.passes(1, 2, [2])
        controller.die()
        switch.is_in("standalone")
        account = _account(switch)
        assert account["consumed"] > 0 and account["unaccounted"] == 0, account
