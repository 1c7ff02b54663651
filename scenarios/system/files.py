"""What needs no root: configurations that are shipped, and packets of all kinds in files."""

import pathlib
import random
import subprocess
import tempfile

from lab import PATIENCE, pcapfile
from lab.packets import IP, TCP, UDP, Ether, payload, raw
from lab.scenario import run_until_drained
from lab.weir import PROGRAM, ROOT, check_account, drops_of

NEEDS_ROOT = False


def test_shipped_configurations_are_right():
    """`weir check` finds nothing wrong with any file in configs/."""
    wrong = []
    files = sorted((ROOT / "configs").glob("*.lua"))
    assert files
    for file in files:
        done = subprocess.run((PROGRAM, "check", file), capture_output=True, text=True, check=False, timeout=PATIENCE)
        if done.returncode != 0:
            wrong.append(done.stdout + done.stderr)
    assert not wrong, "\n".join(wrong)


def _tree(folder):
    """All files below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_uninstall_removes_what_install_put_there():
    """Exactly that, below DESTDIR, with what others have there left alone; the installed program runs, and has no line tables."""
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        root = pathlib.Path(folder)
        others = {"usr/bin/weird", "usr/share/fish/vendor_completions.d/other.fish"}
        for name in others:
            (root / name).parent.mkdir(parents=True)
            (root / name).write_text("others'")
        # `-o build`: what is installed is the program under test, and nothing is built.
        make = ("make", "-s", "-o", "build", f"weir={PROGRAM}", f"DESTDIR={root}", "PREFIX=/usr")

        def call(target):
            done = subprocess.run((*make, target), cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
            assert done.returncode == 0, done.stdout + done.stderr

        call("uninstall")
        assert _tree(root) == others, "nothing was installed, so that nothing was to be removed"
        call("install")
        completions = {
            "usr/share/bash-completion/completions/weir",
            "usr/share/zsh/site-functions/_weir",
            "usr/share/fish/vendor_completions.d/weir.fish",
        }
        assert _tree(root) == others | completions | {"usr/bin/weir"}, _tree(root)
        installed = root / "usr/bin/weir"
        assert all((root / name).stat().st_size > 100 for name in completions)
        assert subprocess.run((installed, "version"), capture_output=True, check=True, timeout=PATIENCE).stdout
        assert installed.stat().st_size < PROGRAM.stat().st_size
        sections = subprocess.run(("readelf", "-SW", installed), capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
        assert ".symtab" in sections and ".debug_line" not in sections, sections
        call("uninstall")
        assert _tree(root) == others, _tree(root)


def _random_frame(dice):
    """A frame of 1 to 9,000 bytes, in all states of repair."""
    length = dice.choice((dice.randint(1, 80), dice.randint(60, 1514), dice.randint(1, 9000)))
    ether = Ether(src="02:00:00:00:01:01", dst="02:00:00:00:00:01")
    if dice.random() < 0.1:
        ether.dst = dice.choice(("ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "02:99:99:99:99:99"))
    if dice.random() < 0.1:
        return raw(ether)[:12] + dice.choice((b"\x08\x06", b"\x86\xdd", b"\x00\x40")) + dice.randbytes(length)
    source = dice.choice(("192.0.2.254", "198.51.100.9", "127.0.0.1", "10.0.0.1", "224.0.0.1"))
    destination = dice.choice(("10.0.0.2", "10.0.0.1", "10.0.0.255", "203.0.113.5", "10.0.0.77", "255.255.255.255"))
    ip = IP(src=source, dst=destination, ttl=dice.choice((0, 1, 2, 64, 255)), id=dice.getrandbits(16))
    ip.flags = dice.choice(("", "DF", "MF"))
    if dice.random() < 0.1:
        ip.frag = dice.getrandbits(13)
    if dice.random() < 0.1:
        ip.options = dice.randbytes(4 * dice.randint(1, 10))
    frame = bytearray(raw(ether / ip / dice.choice((UDP(), TCP(), b"")) / payload(max(0, length - 54))))
    for _ in range(dice.choice((0, 0, 0, 1, 8))):
        frame[dice.randrange(len(frame))] = dice.getrandbits(8)
    return bytes(frame[: dice.choice((length, length, len(frame), dice.randint(1, length))) or 1])


def test_random_packets_of_all_lengths():
    """Valid and invalid packets of 1 to 9,000 bytes: the account agrees with what the files hold."""
    dice = random.Random(20261121)
    frames = [(0.5 + n * 1e-5, _random_frame(dice)) for n in range(6_000)]
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        folder = pathlib.Path(folder)
        pcapfile.write(folder / "wan.in", frames)
        script = folder / "test.lua"
        script.write_text(
            """engine { clock = "virtual" }
            port { name = "wan", device = "pcap:wan.in,wan.out,timing=clock,mac=02:00:00:00:00:01",
                   address = "192.0.2.1/24", mtu = 9000 }
            port { name = "lan", device = "pcap:,lan.out,mac=02:00:00:00:00:02", address = "10.0.0.1/24", mtu = 1500 }
            router {
              ports = { "wan", "lan" },
              routes = { ["198.51.100.0/24"] = "192.0.2.254" },
              neighbors = { ["192.0.2.254"] = "02:00:00:00:01:01", ["10.0.0.2"] = "02:00:00:00:01:02" },
            }""",
            encoding="utf-8",
        )
        stats = run_until_drained(script)
        check_account(stats)
        ports, out = stats["ports"], {name: pcapfile.read(folder / f"{name}.out") for name in ("wan", "lan")}
        assert ports["wan"]["rx_packets"] == len(frames), ports["wan"]
        assert ports["wan"]["rx_bytes"] == sum(len(frame) for _, frame in frames)
        for name, sent in out.items():
            assert ports[name]["tx_packets"] == len(sent), name
            assert ports[name]["tx_bytes"] == sum(len(frame) for _, frame in sent), name
            assert max(len(frame) for _, frame in sent) <= {"wan": 9014, "lan": 1514}[name]
        # The mix is worth something: much is forwarded, and nearly every reason to drop occurs.
        assert len(out["lan"]) > 200 and len(out["wan"]) > 200, {name: len(sent) for name, sent in out.items()}
        assert len(drops_of(stats)) >= 20, drops_of(stats)
