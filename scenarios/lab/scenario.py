"""Scenarios: a configuration, packets in, packets expected out, counters. README.md says how one is written.

Each runs in memory (capture files as ports, virtual clock: no time passes), and on veth pairs where there is root.
"""

import collections
import copy
import itertools
import json
import pathlib
import re
import subprocess
import tempfile
import time

from . import PATIENCE, pcapfile
from .netns import Lab
from .packets import VOCABULARY, compare, difference, flatten, is_an_announcement, is_of_the_link, raw, Ether
from .weir import PROGRAM, Weir, check_account, drops_of, wait_for

_SECTION = re.compile(r"^== (\w+)\s*(.*)$")
_ROUTER = re.compile(r"^router \{", re.MULTILINE)
_DEVICE = re.compile(r'"@(\w+)"')

# RFC 5227 section 1.1: ANNOUNCE_INTERVAL, in seconds.
_ANNOUNCE_INTERVAL = 2


class Malformed(Exception):
    """A scenario that is not written as README.md says."""


class Scenario:
    """A scenario, read from its file."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.name = self.path.stem
        sections = self._sections()
        self.config = sections.get("config", "")
        self.one_stage = False
        self.ports = list(dict.fromkeys(_DEVICE.findall(self.config)))
        if not self.ports:
            raise Malformed(f'{self.path}: no port has a device of the kind "@NAME"')
        self.options = set(sections.get("options", "").split())
        unknown = self.options - {"memory", "arp", "unordered"}
        if unknown:
            raise Malformed(f"{self.path}: unknown options {unknown}")
        self._names = dict(VOCABULARY)
        self._names.update(R=self.router_mac, H=self.host_mac, to=self._to, by=self._by)
        self.sent = [(float(at), port, frame) for (at, port), frame in self._packets(sections.get("send", ""), 2)]
        self.expected = {port: [] for port in self.ports}
        for (port,), frame in self._packets(sections.get("expect", ""), 1):
            self.expected[self._known(port)].append(frame)
        for _, port, _ in self.sent:
            self._known(port)
        self.drops = self._counts(sections.get("drops", ""))

    def _sections(self):
        sections, name = {}, None
        for line in self.path.read_text(encoding="utf-8").splitlines():
            start = _SECTION.match(line)
            if start:
                name = start.group(1)
                sections[name] = start.group(2)
                if name not in ("config", "options", "send", "expect", "drops"):
                    raise Malformed(f"{self.path}: unknown section {name}")
            elif name:
                sections[name] += "\n" + line
        return sections

    def _known(self, port):
        if port not in self.ports:
            raise Malformed(f"{self.path}: no port {port}")
        return port

    def router_mac(self, port):
        """The router's Ethernet address on a port."""
        return f"02:00:00:00:00:{self.ports.index(self._known(port)) + 1:02x}"

    def host_mac(self, port, host=1):
        """The Ethernet address of a host on a port."""
        return f"02:00:00:00:{host:02x}:{self.ports.index(self._known(port)) + 1:02x}"

    def _to(self, port, host=1):
        return Ether(src=self.host_mac(port, host), dst=self.router_mac(port))

    def _by(self, port, host=1):
        return Ether(src=self.router_mac(port), dst=self.host_mac(port, host))

    def _packets(self, text, words):
        """Lines of so many words and a packet; `let NAME = PACKET` names one. An indented line goes on with the last."""
        lines = []
        for line in text.splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            if line[0].isspace() and lines:
                lines[-1] += " " + line.strip()
            else:
                lines.append(line.strip())
        for line in lines:
            let = re.match(r"let (\w+) = (.*)", line)
            if let:
                self._names[let.group(1)] = self._evaluate(let.group(2))
                continue
            parts = line.split(None, words)
            if len(parts) != words + 1:
                raise Malformed(f"{self.path}: {line}")
            for packet in flatten(self._evaluate(parts[-1])):
                yield parts[:-1], raw(packet)

    def _evaluate(self, expression):
        try:
            names = {"__builtins__": {"range": range, "bytes": bytes}, **self._names}
            return eval(expression, names)  # pylint: disable=eval-used
        except Exception as error:
            raise Malformed(f"{self.path}: {expression}: {error}") from error

    def _counts(self, text):
        counts = {}
        for line in text.splitlines():
            if line.strip() and not line.startswith("#"):
                place, count = line.rsplit(None, 1)
                counts[" ".join(place.split())] = int(count)
        return counts

    def _script(self, device, head=""):
        return head + _DEVICE.sub(lambda found: f'"{device(found.group(1))}"', self.config)

    def problems(self, out, drops):
        """What is wrong with the frames that came out per port, and with the drops."""
        problems = []
        for port, frames in out.items():
            if "arp" not in self.options:
                frames = [frame for frame in frames if not is_of_the_link(frame)]
            expected = self.expected[port]
            if "unordered" in self.options:
                frames, expected = sorted(frames), sorted(expected)
            problems += [f"{port}: {problem}" for problem in compare(expected, frames)]
        if drops != self.drops:
            problems.append(f"drops: expected {self.drops}\n    got            {drops}")
        return problems

    def in_a_pipeline(self):
        """The same for a router whose fast path is parted between two workers; None where the configuration has no router, or says how
        it is laid out. What its first part drops counts as the whole's."""
        if not _ROUTER.search(self.config) or "layout" in self.config or "workers" in self.config:
            return None
        other = copy.copy(self)
        other.config = _ROUTER.sub('router { workers = { 0, 1 }, layout = "pipeline", ', self.config)
        other.one_stage = True
        return other

    def _drops_of(self, stats):
        drops = collections.Counter()
        for place, count in drops_of(stats).items():
            drops[place.replace("router.check ", "router.forward ") if self.one_stage else place] += count
        return dict(drops)

    def run_in_memory(self):
        """Runs it on capture files under the virtual clock; answers what went wrong."""
        with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
            folder = pathlib.Path(folder)
            for port in self.ports:
                frames = [(at, frame) for at, name, frame in self.sent if name == port]
                pcapfile.write(folder / f"{port}.in.pcap", frames)

            def device(port):
                return f"pcap:{port}.in.pcap,{port}.out.pcap,timing=clock,mac={self.router_mac(port)}"

            script = folder / "scenario.lua"
            script.write_text(self._script(device, 'engine { clock = "virtual" } '), encoding="utf-8")
            stats = run_until_drained(script)
            check_account(stats)
            out = {port: [frame for _, frame in pcapfile.read(folder / f"{port}.out.pcap")] for port in self.ports}
            problems = self.problems(out, self._drops_of(stats))
            received = stats["account"]["received"]
            if received != len(self.sent):
                problems.append(f"received {received} packets of {len(self.sent)}")
            transmitted = stats["account"]["transmitted"]
            if transmitted != sum(map(len, out.values())):
                problems.append(f"transmitted {transmitted} packets; the files hold {sum(map(len, out.values()))}")
            return problems

    def run_on_veth(self, driver):
        """Runs it on veth pairs with the driver af_packet or af_xdp; answers what went wrong."""
        with Lab() as lab:
            router = lab.namespace("r")
            hosts, wires = {}, {}
            for port in self.ports:
                hosts[port] = lab.namespace(port)
                lab.wire((router, port, self.router_mac(port)), (hosts[port], "eth0", self.host_mac(port)))
                wires[port] = lab.tap(hosts[port], "eth0")
            begun = time.monotonic()
            device = lambda port: f"{driver}:{port}"
            with Weir(router, self._script(device)) as weir:
                # What it says when a link comes up comes first.
                links = lambda: [row["link_up"] for row in weir.show("ports") if row["device"] in map(device, self.ports)]
                if not wait_for(lambda: len(links()) == len(self.ports) and all(links())):
                    return [f"a link stays down: {weir.show('ports')}"]
                before = {port: host.sent("eth0") for port, host in hosts.items()}
                start, count = time.monotonic(), 0
                for at, group in itertools.groupby(sorted(self.sent, key=lambda sent: sent[0]), lambda sent: sent[0]):
                    time.sleep(max(0.0, start + at - time.monotonic()))
                    for _, port, frame in group:
                        wires[port].send(frame)
                        count += 1
                    # On a busy machine what is sent next could overtake them, by another port or past the slow path.
                    if not _rests(weir, count):
                        return [f"{at} s: Weir has not done with {count} packets: {weir.stats()['account']}"]
                for port, wire in wires.items():
                    wanted = len(self.expected[port])
                    wire.wait(lambda frames, port=port, n=wanted: self._count(self._once(port, frames, begun)) >= n)
                wait_for(lambda: weir.stats()["account"]["received"] >= len(self.sent))
                wait_for(lambda: drops_of(weir.stats()) == self.drops)
                stats = weir.stats()
                sent = {port: host.sent("eth0") - before[port] for port, host in hosts.items()}
                out = {port: self._once(port, wire.frames(), begun) for port, wire in wires.items()}
                problems = self.problems(out, drops_of(stats))
                for port, figures in stats["ports"].items():
                    if figures["rx_packets"] != sent[port]:
                        problems.append(f"{port}: the host sent {sent[port]}, Weir received {figures['rx_packets']}")
                weir.stop()
                return problems

    def _once(self, port, frames, begun):
        """Frames that came out, without what the router announces a second time: on real devices time passes, and whoever takes as long as that
        sees what the scenario has no time for."""
        if time.monotonic() - begun < _ANNOUNCE_INTERVAL:
            return frames
        kept = list(frames)
        for announcement in {frame for frame in self.expected[port] if is_an_announcement(frame)}:
            same = [n for n, frame in enumerate(kept) if difference(announcement, frame) is None]
            if len(same) == self.expected[port].count(announcement) + 1:
                del kept[same[-1]]
        return kept

    def _count(self, frames):
        return len(frames) if "arp" in self.options else sum(not is_of_the_link(frame) for frame in frames)


def _rests(weir, count):
    """Waits until so many packets were received and nobody has anything to do with them: who tells his numbers goes once round his loop, the control side
    as well, and twice they are the same."""
    seen = []

    def is_at_rest():
        stats = weir.stats()
        seen.append([worker["account"] for worker in stats["workers"]])
        return stats["account"]["received"] >= count and seen[-2:-1] == seen[-1:]

    return wait_for(is_at_rest, interval=0)


def run_until_drained(script, timeout=PATIENCE):
    """Runs a configuration until its files are read and all is done; answers the last numbers."""
    done = subprocess.run(
        (PROGRAM, "run", script, "--until-drained", "--json", "--socket", script.with_suffix(".sock")),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"weir run ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout[done.stdout.index("{") :])
