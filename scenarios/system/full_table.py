"""A table as large as the Internet's by BGP, over a session that crosses the router itself, and all that may become of it.

With WEIR_FULL_TABLE=DIR, where DIR holds ipv4-2015-11-01.csv.gz and ipv6-2015-11-01.csv.gz (RouteViews), the real table is taken as well; with
WEIR_FULL_TABLE=made, a table of twice its size that is made at random, with the same mix of lengths.
"""

import functools
import ipaddress
import json
import os
import pathlib
import re
import subprocess
import threading
import time

from lab import PATIENCE, Skipped
from lab.daemons import Bird, Frr
from lab.fulltable import Arrivals, Messages, Table, frame, gateway, neighbors
from lab.netns import Lab
from lab.weir import Weir, wait_for

_MADE = "made"
_LONG = 600  # seconds that a table of the Internet may take to come

_WEIR = """
port {{ name = "lan", device = "af_packet:lan", address = {{ "10.254.0.1/23", "2001:db8:b::1/64" }} }}
port {{ name = "wan", device = "af_packet:wan", address = {{ "10.255.0.1/24", "2001:db8:a::1/64" }} }}
router {{
  ports = {{ "lan", "wan" }}, workers = {{ 1 }}, linux = {{ netns = "{netns}", {more} }},
  neighbors = {{ ["10.255.0.9"] = "02:00:00:00:01:09", ["2001:db8:a::9"] = "02:00:00:00:01:09", {gateways} }},
}}
"""

# The peer: each part of the table is a protocol that can be told to be there, or not. What it prefers are the same prefixes with other gateways.
_PEER = """
router id 10.254.1.2;
protocol device {{ scan time 1; }}
{parts}
protocol bgp four {{
  local 10.254.1.2 as 65002; neighbor 10.254.0.1 as 65001; hold time 90; connect delay time 1; error wait time 1, 2;
  ipv4 {{ import none; export all; }};
}}
protocol bgp six {{
  local 2001:db8:b::1:2 as 65002; neighbor 2001:db8:b::1 as 65001; hold time 90; connect delay time 1; error wait time 1, 2;
  ipv6 {{ import none; export all; }};
}}
"""
_PART = 'protocol static {name} {{ {state} ipv{family} {{ preference {preference}; }};\n{routes}}}\n'

_BIRD = """
router id 10.254.0.1;
protocol device { scan time 1; }
protocol kernel { scan time 3600; ipv4 { import none; export where source = RTS_BGP; }; }
protocol kernel { scan time 3600; ipv6 { import none; export where source = RTS_BGP; }; }
protocol bgp four {
  local 10.254.0.1 as 65001; neighbor 10.254.1.2 as 65002; hold time 90; connect delay time 1; error wait time 1, 2;
  ipv4 { import all; export none; };
}
protocol bgp six {
  local 2001:db8:b::1 as 65001; neighbor 2001:db8:b::1:2 as 65002; hold time 90; connect delay time 1; error wait time 1, 2;
  ipv6 { import all; export none; };
}
"""

_FRR = {
    "zebra": "fpm address 127.0.0.1 port 2620\n",
    "bgpd": """
router bgp 65001
 bgp router-id 10.254.0.1
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 neighbor 10.254.1.2 remote-as 65002
 neighbor 10.254.1.2 timers connect 1
 neighbor 2001:db8:b::1:2 remote-as 65002
 neighbor 2001:db8:b::1:2 timers connect 1
 address-family ipv4 unicast
  neighbor 10.254.1.2 activate
 exit-address-family
 address-family ipv6 unicast
  neighbor 2001:db8:b::1:2 activate
 exit-address-family
""",
}


class _Stream:
    """Packets to destinations of all tables, one after the other, while routes change; those that follow a route that never was are kept."""

    _SERIES = 1

    def __init__(self, net, rate=1000):
        self._frames, self._may = [], []
        for family, table in net.tables.items():
            for address in table.destinations(2_000, seed=99):
                self._frames.append(frame(net.macs, address, family, len(self._may), self._SERIES))
                self._may.append(table.may_lead(address))
        self._wire, self._rate = net.wire, rate
        self.arrived, self.astray = 0, []
        net.arrivals.hear(self._SERIES, self._hear)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        net.lab.at_end(self.stop)

    def _hear(self, number, by):
        self.arrived += 1
        if by not in self._may[number]:
            self.astray.append((number, by))

    def _run(self):
        number = 0
        while not self._stopping.wait(0.01):
            for _ in range(self._rate // 100):
                self._wire.send(self._frames[number % len(self._frames)])
                number += 7

    def stop(self):
        """Sends no more."""
        self._stopping.set()
        self._thread.join()


def _resident(weir):
    """MiB of the process's own memory."""
    status = pathlib.Path(f"/proc/{weir.process.pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


class _Net:
    """The router, a namespace that speaks for it, a peer that has the table, and a host that sends packets everywhere."""

    def __init__(self, lab, tables, flapping, more=""):
        self.lab, self.tables = lab, tables
        self.router, self.control = lab.namespace("r"), lab.namespace("cp")
        self.lan, self.wan = lab.namespace("lan"), lab.namespace("wan")
        for namespace in (self.control, self.lan):
            namespace.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.default.disable_ipv6=0")
        self.control.run("sysctl", "-qw", "net.ipv6.route.max_size=1000000", check=False)
        lab.wire((self.router, "lan", "02:00:00:00:00:02"), (self.lan, "eth0", "02:00:00:00:01:02"))
        lab.wire((self.router, "wan", "02:00:00:00:00:09"), (self.wan, "eth0", "02:00:00:00:01:09"))
        self.lan.run("ip", "address", "add", "10.254.1.2/23", "dev", "eth0")
        self.lan.run("ip", "address", "add", "2001:db8:b::1:2/64", "dev", "eth0", "nodad")
        self.macs = bytes.fromhex("020000000009" "020000000109")
        self.wire, self.arrivals = lab.tap(self.wan, "eth0"), Arrivals(lab, self.lan, "eth0")
        self.weir = Weir(self.router, _WEIR.format(netns=self.control.name, more=more, gateways=neighbors()))
        lab.at_end(lambda: self.weir.__exit__(None, None, None))
        assert wait_for(lambda: self.control.run("ip", "-o", "link").count("LOWER_UP") == 3), self.weir.log()
        self.before = self.routes()
        # Those that flap, and the others, by family.
        self.flapping = {family: set(list(table.gateways)[:: len(table) // flapping[family]][: flapping[family]]) for family, table in tables.items()}
        self.steady = {family: set(table.gateways) - self.flapping[family] for family, table in tables.items()}
        self.messages = Messages(lab, self.control)
        self._peer, self._series, self._stream = None, 1, _Stream(self)

    def routes(self):
        """Prefixes that workers look up, of both families: those of neighbours and own addresses, which come and go, too."""
        row = next(row for row in self.weir.show("vrfs") if row["name"] == "default")
        return row["ipv4_routes"] + row["ipv6_routes"]

    def has(self, wanted):
        """Whether about so many of them are Linux's."""
        return abs(self.routes() - self.before - wanted) <= 16

    def announce(self):
        """Starts the peer, which announces all."""
        parts = []
        for family, table in self.tables.items():
            part = functools.partial(_PART.format, family=family)
            parts += [
                part(name=f"first{family}", state="", preference=200, routes=table.statements(self.steady[family])),
                part(name=f"other{family}", state="disabled;", preference=210, routes=table.statements(self.steady[family], 1)),
                part(name=f"flap{family}", state="", preference=200, routes=table.statements(self.flapping[family])),
            ]
        self._peer = Bird(self.lab, self.lan, _PEER.format(parts="".join(parts)))

    def tell(self, verb, *parts):
        """Has the peer announce parts of the table, or not."""
        for name in (f"{part}{family}" for part in parts for family in (4, 6)):
            answer = self._peer.ask(verb, name)
            assert f"{name}: {verb}d" in answer, answer

    def ends(self):
        """No packet followed a route that never was, at any time, and no service was given up."""
        log = self.weir.log()
        assert "hangs" not in log and "failed" not in log, log
        self._stream.stop()
        arrived, astray = self._stream.arrived, self._stream.astray
        assert arrived and not astray, (arrived, len(astray), astray[:5])

    def size(self, parts):
        """The number of prefixes of both families in parts of the table."""
        return sum(len(keys) for part in parts for keys in part.values())

    def settles(self, what, change, wanted, at_least=0, ready=lambda: True, quiet=1.5):
        """After a change, once the kernel has told all, Weir soon has so many prefixes, nothing differs, and the account is exact. How soon is told."""
        start, before = time.monotonic(), self.messages.count
        change()
        assert wait_for(
            lambda: self.messages.quiet() > quiet and self.messages.count - before >= at_least and ready(), timeout=_LONG, interval=0.2
        ), (what, self.messages.count - before, at_least, self.routes(), self.weir.log())
        last, told = self.messages.last, self.messages.count - before
        rows = lambda: json.loads(self.weir.command("show", "routes", "--compare", "linux", "--json"))["rows"]
        assert wait_for(lambda: self.has(wanted)), (what, self.routes(), self.before + wanted, self.weir.log())
        assert wait_for(lambda: rows() == []), (what, len(rows()), rows()[:5], self.weir.log())
        print(
            f"        {what}: {told} messages ({self.messages.lost} losses), the last after {max(0, last - start):.1f} s; "
            f"the same in Weir {time.monotonic() - last:.1f} s later at most, {_resident(self.weir):.0f} MiB",
            flush=True,
        )
        # To take so much JSON apart would take longer than all else.
        known = lambda: self.weir.command("show", "routes", "linux", "--json", check=False).stdout.count('"prefix":')
        assert wait_for(lambda: known() == wanted), (what, known(), wanted)
        self.weir.stats()

    def leads(self, count, shifted=False, without=(), anywhere=0.0):
        """Packets to random destinations go where the longest match over the announced table leads."""
        for family, table in self.tables.items():
            self._series += 1
            addresses = table.destinations(count, seed=self._series, anywhere=anywhere if family == 4 else 0)
            gone = {key for part in without for key in part[family]}
            others = self.steady[family] if shifted else ()
            expected = [table.leads(address, others, gone) for address in addresses]
            self._check(family, addresses, expected)

    def _check(self, family, addresses, expected):
        came = {}
        self.arrivals.hear(self._series, lambda number, by: came.setdefault(number, set()).add(by))
        frames = [frame(self.macs, address, family, number, self._series) for number, address in enumerate(addresses)]
        wanted = {number for number, by in enumerate(expected) if by is not None}
        missing = range(len(frames))
        # What a busy machine loses is sent again: what is never forwarded stays missing.
        end = time.monotonic() + PATIENCE
        while True:
            for count, number in enumerate(missing):
                self.wire.send(frames[number])
                if count % 100 == 99:
                    time.sleep(0.005)
            # Where none may come, so long is waited for one that does.
            wait_for(lambda: wanted <= came.keys() if wanted else came, timeout=2)
            missing = sorted(wanted - came.keys())
            if not missing or time.monotonic() > end:
                break
        text = ipaddress.IPv4Address if family == 4 else ipaddress.IPv6Address
        named = lambda number: (str(text(addresses[number])), expected[number], came.get(number))
        assert not missing, (len(missing), [named(number) for number in missing[:5]], self.weir.drops())
        wrong = [number for number, by in came.items() if by != {expected[number]}]
        assert not wrong, (len(wrong), [named(number) for number in wrong[:5]])

    def kernel_agrees(self, count):
        """Linux's own `ip route get` says the same as the definition, which packets follow."""
        for family, table in self.tables.items():
            text = ipaddress.IPv4Address if family == 4 else ipaddress.IPv6Address
            addresses = table.destinations(count, seed=5)
            asked = "".join(f"route get {text(address)}\n" for address in addresses)
            answer = subprocess.run(
                ("ip", "netns", "exec", self.control.name, "ip", f"-{family}", "-force", "-o", "-batch", "-"),
                input=asked, capture_output=True, text=True, timeout=_LONG, check=False,
            )
            says = dict(re.findall(r"^(\S+) .*?via (\S+) dev lan", answer.stdout, re.MULTILINE))
            wrong = [address for address in addresses if says.get(str(text(address))) != gateway(family, table.leads(address))]
            assert not wrong, (len(wrong), [(str(text(address)), says.get(str(text(address)))) for address in wrong[:5]])
            self._series += 1
            self._check(family, addresses, [table.leads(address) for address in addresses])


def _real():
    """The real table; none without WEIR_FULL_TABLE."""
    folder = os.environ.get("WEIR_FULL_TABLE", _MADE)
    if folder == _MADE:
        raise Skipped("WEIR_FULL_TABLE names no folder with a table of the Internet (it takes minutes)")
    return {family: Table.read(folder, family) for family in (4, 6)}


def _made():
    """A table of the Internet as it may be in some years."""
    if os.environ.get("WEIR_FULL_TABLE") != _MADE:
        raise Skipped(f"WEIR_FULL_TABLE is not {_MADE} (it takes a quarter of an hour)")
    return {4: Table.made(4, 1_000_000), 6: Table.made(6, 230_000)}


def _small():
    return {4: Table.made(4, 18_000), 6: Table.made(6, 2_000)}


def _by_bird(tables, flapping, count, turns):
    with Lab() as lab:
        net = _Net(lab, tables, flapping)
        every, steady = net.size([net.steady, net.flapping]), net.size([net.steady])
        control = Bird(lab, net.control, _BIRD)
        count_of = lambda text: sum(int(number) for number in re.findall(r"^(\d+) of \d+ routes.* in table", text, re.MULTILINE))
        has = lambda wanted: lambda: count_of(control.ask("show", "route", "count")) == wanted
        net.settles("announced", net.announce, every, every, has(every))
        net.leads(count, anywhere=0.2)
        net.kernel_agrees(count)
        net.settles("withdrawn", lambda: net.tell("disable", "first", "flap"), 0, every, has(0))
        net.leads(200, without=[net.steady, net.flapping])
        net.settles("announced again", lambda: net.tell("enable", "first", "flap"), every, every, has(every))
        net.leads(count // 10)
        net.settles("killed", control.kill, every)
        net.leads(count // 10)
        net.settles("started again", control.start, every, 1, has(every), quiet=5)
        net.leads(count // 10)
        flaps = lambda: [net.tell(verb, "flap") for verb in ("disable", "enable") * 3 + ("disable",)]
        net.settles("flapped", flaps, steady, net.size([net.flapping]), has(steady))
        net.leads(count // 10, without=[net.flapping])
        net.settles("flapped back", lambda: net.tell("enable", "flap"), every, net.size([net.flapping]), has(every))
        turn = lambda: [net.tell("disable" if number % 2 else "enable", "other") for number in range(turns)]
        net.settles(f"{steady * turns} changes in a row", turn, every, steady)
        net.leads(count, shifted=turns % 2 == 1)
        net.ends()


def test_a_table_by_bird():
    """20,000 prefixes are announced, withdrawn, announced; BIRD is killed and started; prefixes flap, and lead elsewhere."""
    _by_bird(_small(), {4: 1_800, 6: 200}, 20_000, 3)


def test_the_internets_table_by_bird():
    """The same with 606,138 and 27,693 prefixes of the Internet, and 100,000 destinations of each family."""
    _by_bird(_real(), {4: 9_000, 6: 1_000}, 100_000, 1)


def test_a_table_of_twice_the_internets_size_by_bird():
    """The same with 1,000,000 and 230,000 prefixes, made at random with the mix of lengths of the Internet's table."""
    _by_bird(_made(), {4: 9_000, 6: 1_000}, 100_000, 1)


def test_a_table_by_frr():
    """20,000 prefixes by FRR, which tells them by FPM and to the kernel; its bgpd is killed and started."""
    with Lab() as lab:
        net = _Net(lab, _small(), {4: 1_800, 6: 200}, more="fpm = 2620")
        every = net.size([net.steady, net.flapping])
        control = Frr(lab, net.control, _FRR, zebra=("-M", "dplane_fpm_nl"))
        net.settles("announced", net.announce, every, every)
        net.leads(20_000, anywhere=0.2)
        net.settles("withdrawn", lambda: net.tell("disable", "first", "flap"), 0, every)
        net.leads(200, without=[net.steady, net.flapping])
        net.settles("announced again", lambda: net.tell("enable", "first", "flap"), every, every)
        net.settles("bgpd killed", lambda: control.kill("bgpd"), 0, every)
        net.settles("bgpd started", lambda: control.start("bgpd"), every, every)
        net.leads(2_000)
        net.settles("changed", lambda: net.tell("enable", "other"), every, net.size([net.steady]))
        net.leads(20_000, shifted=True)
        net.ends()
