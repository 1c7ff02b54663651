"""Random sequences of reloads on every kind of port: after each step Weir does what the file says, or says why not and does what
it did before; nothing is lost where nothing need be; the account is exact; and at the end nothing is left in the kernel.

The seed of each run is printed; WEIR_SEED=N repeats it, WEIR_STEPS=N takes more steps."""

import contextlib
import copy
import json
import os
import pathlib
import random
import tempfile

from lab import pcapfile
from lab.ends import Ends, Numbered, arrived, reaches
from lab.hosts import HOST_MACS
from lab.netns import Lab
from lab.packets import ICMP, IP, UDP, Ether, raw
from lab.weir import Weir, check_account, drops_of, wait_for

STEPS = int(os.environ.get("WEIR_STEPS", "40"))

CONFIG = """
engine {{ idle = "{idle}" }}
port {{ name = "wan", device = "{wan}", address = "192.0.2.1/24" {wan_mtu} }}
port {{ name = "lan", device = "{lan}", address = {{ "10.0.0.1/24"{address} }} {lan_mtu} }}
router {{
  ports     = {{ "wan", "lan" }},
  workers   = {{ {workers} }},
  layout    = "{layout}",
  hash_seed = {hash_seed},
  icmp_rate = "{icmp_rate} pps",
  routes    = {{ ["0.0.0.0/0"] = "192.0.2.254"{routes} }},
  neighbors = {{ ["192.0.2.254"] = "{wan_host}", ["10.0.0.2"] = "{lan_host}" }},
  {mistake}
}}
{second}
"""

SECOND = """
port { name = "in", device = "mem:loop" }
port { name = "out", device = "mem:null" }
forward { name = "second", pairs = { { "in", "out" } }, workers = { 0 } }
"""


class State:
    """What a configuration says."""

    def __init__(self):
        self.workers, self.layout = [1], "run-to-completion"
        self.moved = {"lan": False, "wan": False}
        self.mtu = {"lan": None, "wan": None}
        self.address, self.second = False, False
        self.routes, self.icmp_rate, self.hash_seed = 0, 100, 1
        self.idle, self.mistake, self.nowhere = "sleep", "", None

    def script(self, ends):
        """It as a file."""
        device = lambda side: ends.device(side, self.moved[side])
        if self.nowhere:
            wrong = f"{ends.kind}:no-such-if"
            plain, device = device, lambda side: wrong if side == self.nowhere else plain(side)
        mtu = lambda side: f", mtu = {self.mtu[side]}" if self.mtu[side] else ""
        return CONFIG.format(
            idle=self.idle,
            wan=device("wan"),
            lan=device("lan"),
            wan_mtu=mtu("wan"),
            lan_mtu=mtu("lan"),
            address=', "10.9.0.1/24"' if self.address else "",
            workers=", ".join(map(str, self.workers)),
            layout=self.layout,
            hash_seed=self.hash_seed,
            icmp_rate=self.icmp_rate,
            routes="".join(f', ["10.{100 + n}.0.0/16"] = "192.0.2.254"' for n in range(self.routes)),
            wan_host=HOST_MACS["wan"],
            lan_host=HOST_MACS["lan"],
            mistake=self.mistake,
            second=SECOND if self.second else "",
        )

    def queues(self):
        """Queues of each port."""
        return len(self.workers) if self.layout == "run-to-completion" else 1


def _change(state, chance, kind):
    """A random change; answers its name."""
    names = "worker layout address route rate seed second mtu device typo restart both".split()
    if kind in ("af_xdp", "af_packet"):
        # The other kinds make what they are told to open.
        names.append("nowhere")
    name = chance.choice(names)
    side = chance.choice(("lan", "wan"))
    if name in ("worker", "both"):
        state.workers = chance.choice([workers for workers in ([0], [1]) if workers != state.workers])
        state.layout = "run-to-completion"
    if name == "layout":
        # The other end of a memif has one queue, and a worker with another would be heard by nobody.
        layouts = ("pipeline", "distributor") if kind == "memif" else ("pipeline", "distributor", "run-to-completion")
        state.layout = chance.choice(layouts)
        state.workers = chance.choice(([0, 1], [1, 0]))
    if name in ("address", "both"):
        state.address = not state.address
    if name == "route":
        state.routes = chance.randrange(6)
    if name == "rate":
        state.icmp_rate = chance.randrange(50, 5000)
    if name == "seed":
        state.hash_seed = chance.randrange(1, 1000)
    if name == "second":
        state.second = not state.second
    if name in ("mtu", "both"):
        state.mtu[side] = chance.choice([mtu for mtu in (None, 1280, 1400, 1500) if mtu != state.mtu[side]])
    if name == "device":
        state.moved[side] = not state.moved[side]
    if name == "typo":
        state.mistake = chance.choice(('colour = "blue",', "reassembly = 7 7,", "workers = {},"))
    if name == "nowhere":
        state.nowhere = side
    if name == "restart":
        state.idle = "relax" if state.idle == "sleep" else "sleep"
    return name


def _ping(ends, mac, second):
    """Whether the router answers on lan. No answer is on its way then."""
    wire = ends.refresh("lan", second)
    header = Ether(src=HOST_MACS["lan"], dst=mac) / IP(src="10.0.0.2", dst="10.0.0.1")
    first, last = (raw(header / ICMP(id=number) / b"weir") for number in (77, 78))
    # An answer to an echo request, RFC 792: type 0, code 0, to us, with the identifier of the request.
    is_reply = lambda frame: frame[:6] == raw(Ether(dst=HOST_MACS["lan"]))[:6] and frame[34:36] == b"\0\0" and frame[23] == 1
    has_come = lambda ping: any(is_reply(frame) and frame[38:40] == ping[38:40] for frame in wire.frames())

    def answered():
        with contextlib.suppress(OSError):
            wire.send(first)
        return has_come(first)

    wire.clear()
    if not wait_for(answered, interval=0.02):
        return False
    # Of those that were sent until the first answer came, the others are answered before this one.
    wire.send(last)
    return wait_for(lambda: has_come(last))


def _drops(stats):
    """Packets dropped, less those on the way from the slow path to a port: the router made them, such as announcements of a new address, and
    a reload may come upon them there. A packet of the stream that is lost there is missed where it should arrive."""
    return sum(packets for place, packets in drops_of(stats).items() if not place.startswith("control -> "))


def _disorder(numbers):
    return [(before, after) for before, after in zip(numbers, numbers[1:]) if after < before][:10]


class Run:
    """A Weir between two ends, taken from state to state."""

    def __init__(self, lab, kind, seed):
        self.kind, self.chance = kind, random.Random(seed)
        self.ends = Ends(lab, kind)
        self.kernel_before = self.ends.kernel_state()
        self.state = State()
        self.weir = Weir(self.ends.router, self.state.script(self.ends), arguments=("--json",))
        lab.at_end(lambda: self.weir.__exit__(None, None, None))
        self.stream = Numbered(self.ends)
        lab.at_end(self.stream.stop)
        self._follow()
        self.base = self._settled()

    def _ports(self):
        return {row["name"]: row for row in self.weir.show("ports")}

    def _follow(self):
        """Sends and listens where the ports are now; packets go through, and the router answers."""
        mac = self._ports()["lan"]["mac"]
        self.stream.aim(mac, self.state.moved["lan"])
        assert reaches(self.ends, self.stream, self.state.moved["wan"]), "nothing comes through"
        assert _ping(self.ends, mac, self.state.moved["lan"]), "the router does not answer a ping"

    def _settled(self):
        """What was sent, received, dropped and arrived once nothing is on its way; from here on nothing may be lost."""
        wire = lambda: self.ends.wire("wan", self.state.moved["wan"])
        with self.stream.pause():
            # When one that is sent now has arrived, so has all before it: who counts may just not have had a core for a while.
            number = self.stream.sent
            assert wait_for(self.stream.one), "nothing can be sent"
            assert wait_for(lambda: number in arrived(wire().frames())), "a packet that is sent by itself does not arrive"
            last = []

            def quiet():
                stats = self.weir.stats()
                now = (stats["ports"]["lan"]["rx_packets"], _drops(stats), len(arrived(wire().frames())), self._pings())
                last.append(now)
                return len(last) > 1 and last[-2] == now and stats["account"]["held"] == 0

            assert wait_for(quiet, interval=0.02), f"it does not come to rest: {last[-3:]}"
            return (self.stream.sent, *last[-1])

    def _pings(self):
        return len([1 for frame in self.ends.wire("lan", self.state.moved["lan"]).frames() if frame[23:24] == b"\1"])

    def _restart(self, script):
        self.weir.config.write_text(script, encoding="utf-8")
        self.weir.command("reload", "--allow-restart")
        assert wait_for(lambda: self.weir.command("show", "stats", check=False).returncode == 0), "it did not start again"

    def step(self):
        """One change; answers what it was and what came of it."""
        before, new = self.state, copy.deepcopy(self.state)
        name = _change(new, self.chance, self.kind)
        script = new.script(self.ends)
        fails = bool(new.mistake or new.nowhere) or (new.queues() > 1 and self.kind == "af_xdp")
        restarts = new.idle != before.idle
        reopens = (before.moved, before.mtu, before.queues()) != (new.moved, new.mtu, new.queues())
        self.weir.config.write_text(script, encoding="utf-8")
        told = self.weir.command("reload", "--dry-run", self.weir.config, check=False)
        if not new.mistake and not new.nowhere:
            assert ("restart-process" in told.stdout) == restarts, told.stdout
            if not restarts and not fails:
                assert ("restart-port" in told.stdout or "the new device is opened" in told.stdout) == reopens, told.stdout
        if restarts:
            refused = self.weir.command("reload", self.weir.config, check=False)
            assert refused.returncode != 0 and "--allow-restart" in refused.stderr, (refused.stdout, refused.stderr)
            self._restart(script)
        else:
            done = self.weir.command("reload", self.weir.config, check=False)
            assert (done.returncode != 0) == fails, f"{name}: {done.stdout}{done.stderr}\n{script}"
            if fails:
                assert "nothing has changed" in done.stderr + done.stdout, (done.stdout, done.stderr)
        if not fails:
            self.state = new
        rewired = (before.workers, before.layout) != (new.workers, new.layout)
        self._check(fails or not (restarts or reopens), rewired and not fails)
        return f"{name}{' refused' if fails else ''}"

    def _links_are_up(self):
        ports = self._ports()
        return ports["lan"]["link_up"] and ports["wan"]["link_up"]

    def _check(self, lossless, rewired):
        # A port that was opened anew has a link once the peer has shaken hands (memif) or the kernel has looked at the cable (TAP). Other
        # interfaces were up all the time, and a port that stayed open keeps its link.
        if not lossless and self.kind in ("memif", "tap"):
            assert wait_for(self._links_are_up), f"a link stays down: {self._ports()}"
        ports = self._ports()
        for side in ("lan", "wan"):
            row = ports[side]
            assert row["device"] == self.ends.device(side, self.state.moved[side]), row
            assert row["link_up"] and row["mtu"] == (self.state.mtu[side] or row["mtu"]), row
        assert ("in" in ports) == self.state.second, ports
        if not lossless:
            self._follow()
            self.base = self._settled()
            return
        assert reaches(self.ends, self.stream, self.state.moved["wan"]), "nothing comes through"
        sent, received, dropped, came, pings = now = self._settled()
        old_sent, old_received, old_dropped, old_came, old_pings = self.base
        assert pings == old_pings
        assert received - old_received == sent - old_sent, ("lost before it was received", self.base, now, self.weir.stats()["ports"])
        assert came - old_came + dropped - old_dropped == sent - old_sent, ("lost inside", self.base, now, self.weir.stats()["drops"])
        numbers = arrived(self.ends.wire("wan", self.state.moved["wan"]).frames())[old_came:]
        assert len(numbers) == len(set(numbers)), "something arrived twice"
        # Where packets take another way through the workers, the last on the old one may come after the first on the new.
        assert rewired or numbers == sorted(numbers), f"out of order: {_disorder(numbers)}"
        self.base = now

    def end(self):
        """Stops it: the account is exact, every buffer is back, and the kernel is as it was."""
        self.stream.stop()
        printed = self.weir.stop()
        assert "this is a bug" not in self.weir.log(), self.weir.log()
        assert '"missing_buffers":0' in printed.replace(" ", ""), printed[-2000:]
        after = self.ends.kernel_state()
        assert after == self.kernel_before, f"the kernel is not as it was:\n{self.kernel_before}\n{after}"


def _fuzz(kind):
    seed = int(os.environ.get("WEIR_SEED", random.randrange(1 << 32)))
    print(f"        {kind}: WEIR_SEED={seed}", flush=True)
    with Lab() as lab:
        run = Run(lab, kind, seed)
        steps = []
        try:
            for _ in range(STEPS):
                steps.append("...")
                steps[-1] = run.step()
            run.end()
        except (AssertionError, RuntimeError) as error:
            raise AssertionError(f"seed {seed}, steps {steps}: {error}\n{run.weir.log()[-3000:]}") from error


def test_random_reloads_on_af_xdp():
    """On AF_XDP."""
    _fuzz("af_xdp")


def test_random_reloads_on_af_packet():
    """On AF_PACKET."""
    _fuzz("af_packet")


def test_random_reloads_on_tap():
    """On TAP."""
    _fuzz("tap")


def test_random_reloads_on_memif():
    """On shared memory with another process."""
    _fuzz("memif")


class Memory:
    """Ports in memory: a source that never ends, and where it leads."""

    def __init__(self, chance):
        self.chance = chance
        self.workers, self.layout, self.rate = [1], "run-to-completion", 5
        self.sink, self.mtu, self.other, self.mistake = "mem:null", None, False, ""

    def change(self):
        """A random change; answers its name."""
        name = self.chance.choice("worker layout rate sink mtu other typo all".split())
        self.mistake = ""
        if name in ("worker", "all"):
            self.workers = self.chance.choice(([0], [1], [0, 1], [1, 0]))
        if name in ("layout", "all"):
            self.layout = self.chance.choice(("run-to-completion", "pipeline", "distributor"))
        if name in ("rate", "all"):
            self.rate = self.chance.randrange(1, 20)
        if name in ("sink", "all"):
            self.sink = self.chance.choice(("mem:null", "mem:loop", "mem:cable=one"))
        if name == "mtu":
            self.mtu = self.chance.choice((None, 1400, 1500))
        if name == "other":
            self.other = not self.other
        if name == "typo":
            self.mistake = "colour = 1,"
        return name

    def script(self):
        """It as a file."""
        ports = [
            f'port {{ name = "in", device = "mem:replay=in.pcap,rate={self.rate} kpps" }}',
            f'port {{ name = "out", device = "{self.sink}"{f", mtu = {self.mtu}" if self.mtu else ""} }}',
        ]
        functions = [
            f'forward {{ name = "first", pairs = {{ {{ "in", "out" }} }}, layout = "{self.layout}", '
            f'workers = {{ {", ".join(map(str, self.workers))} }}, {self.mistake} }}'
        ]
        if self.other:
            ports += ['port { name = "end", device = "mem:cable=one" }', 'port { name = "hole", device = "mem:null" }']
            functions.append('forward { name = "second", pairs = { { "end", "hole" } }, workers = { 0 } }')
        return "\n".join([*ports, *functions])


def test_random_reloads_in_memory():
    """On memory ports: whatever changes, packets go on, and each is accounted for."""
    seed = int(os.environ.get("WEIR_SEED", random.randrange(1 << 32)))
    print(f"        memory: WEIR_SEED={seed}", flush=True)
    now = Memory(random.Random(seed))
    frame = raw(Ether(src=HOST_MACS["lan"], dst=HOST_MACS["wan"]) / IP(dst="192.0.2.1") / UDP() / bytes(64))
    steps = []
    with tempfile.TemporaryDirectory(prefix="weir-fuzz-") as folder:
        pcapfile.write(pathlib.Path(folder) / "in.pcap", [(0, frame)])
        with Weir(None, now.script(), folder=folder, arguments=("--json",)) as weir:
            try:
                for _ in range(STEPS):
                    steps.append(now.change())
                    weir.config.write_text(now.script(), encoding="utf-8")
                    done = weir.command("reload", weir.config, check=False)
                    assert (done.returncode != 0) == bool(now.mistake), f"{done.stdout}{done.stderr}\n{now.script()}"
                    before = weir.stats()["account"]
                    assert wait_for(lambda then=before: weir.stats()["account"]["received"] > then["received"] + 20)
                    unknown = {key for key in drops_of(weir.stats()) if key.rsplit(" ", 1)[1] not in ("reload", "tx-full", "link-down")}
                    assert not unknown, unknown
                printed = weir.stop()
                assert '"missing_buffers":0' in printed.replace(" ", "") and "this is a bug" not in weir.log()
                check_account(json.loads(printed[printed.index("{") :]))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, steps {steps}: {error}\n{weir.log()[-3000:]}") from error

