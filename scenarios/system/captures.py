"""Capture files that are odd, damaged, far too large, or lie on a disk that is full: told, bounded, and never silently half done."""

import gzip
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile

from lab import PATIENCE, Skipped, pcapfile
from lab.packets import IP, UDP, Ether, IPv6, payload, raw
from lab.weir import PROGRAM, ROOT, check_account, drops_of

NEEDS_ROOT = False

DAY = 86_400
FRAME = raw(Ether(src="02:00:00:00:01:01", dst="02:00:00:00:00:01") / IP(src="10.0.0.2", dst="10.0.0.9") / UDP() / payload(60))


def _run(*command):
    """A finished command."""
    return subprocess.run((PROGRAM, *command), capture_output=True, text=True, check=False, timeout=PATIENCE)


def _forward(folder, source, output="out.pcap", more=""):
    """Forwards a file to another under the virtual clock; the finished program and its numbers."""
    script = pathlib.Path(folder) / "test.lua"
    script.write_text(
        f"""engine {{ clock = "virtual" }}
        port {{ name = "a", device = "pcap:{source}{more}" }}
        port {{ name = "b", device = "pcap:,{output}" }}
        forward {{ pairs = {{ {{ "a", "b" }} }} }}""",
        encoding="utf-8",
    )
    done = _run("run", script, "--until-drained", "--json", "--socket", script.with_suffix(".sock"))
    stats = json.loads(done.stdout[done.stdout.index("{") :])
    check_account(stats)
    return done, stats


def _stamped(path, seconds):
    """Writes a file whose packets have these stamps, in seconds."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for second in seconds:
            file.write(struct.pack("<IIII", second, 0, len(FRAME), len(FRAME)) + FRAME)


def _replay(folder, *options):
    """Sends in.pcap again; the finished program, its report and the stamps that it wrote."""
    out = pathlib.Path(folder) / "out.pcap"
    done = _run("gen", "--port", f"pcap:,{out}", "--replay", f"{folder}/in.pcap", "--timing", "recorded", "--json", *options)
    assert done.returncode == 0, done.stderr + done.stdout
    first, *rest = (at for at, _ in pcapfile.read(out))
    return json.loads(done.stdout), [round(at - first) for at in rest]


def test_replays_leap_over_days():
    """Packets that lie days apart are sent at once under the virtual clock, each at its time."""
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        _stamped(f"{folder}/in.pcap", (1_000_000_000 + day * DAY for day in (0, 1, 2, 30, 300)))
        report, times = _replay(folder)
        assert times == [DAY, 2 * DAY, 30 * DAY, 300 * DAY], times
        assert report["notes"] == [] and report["complete"], report


def test_replays_tell_and_bound_odd_stamps():
    """Stamps that run backwards, and ones from 1970 to 2106, are told; nothing waits for them."""
    last = 2**32 - 1
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        for stamps, expected, said in (
            ((100, 200, 150, 160, 170), (100, 100, 110, 120), "1 stamp runs backwards"),
            ((5, last, 6, 7), (0, 0, 1), "1 stamp runs backwards and 1 stamp lies more than 366 days behind"),
            ((last - DAY, last), (DAY,), None),
            ((0, last), (0,), "1 stamp lies more than 366 days behind the one before"),
        ):
            _stamped(f"{folder}/in.pcap", stamps)
            report, times = _replay(folder)
            assert times == list(expected), (stamps, times)
            assert len(report["notes"]) == (said is not None), report["notes"]
            assert said is None or said in report["notes"][0], report["notes"]


def test_ports_leap_over_days_and_tell_odd_stamps():
    """The same for ports that keep the timing of their file."""
    last = 2**32 - 1
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        _stamped(f"{folder}/in.pcap", (0, DAY, 30 * DAY))
        done, stats = _forward(folder, "in.pcap", more=",,timing=keep")
        assert done.returncode == 0 and stats["account"]["transmitted"] == 3, done.stderr
        assert [round(at / DAY) for at, _ in pcapfile.read(f"{folder}/out.pcap")] == [0, 1, 30]
        _stamped(f"{folder}/in.pcap", (last, 5, 6, last))
        done, stats = _forward(folder, "in.pcap", more=",,timing=keep")
        assert done.returncode == 0 and stats["account"]["transmitted"] == 4, done.stderr
        assert "1 stamp runs backwards and 1 stamp lies more than 366 days behind" in done.stderr, done.stderr


def test_replays_of_huge_files_are_refused_while_they_are_read():
    """A small file that becomes gigabytes is refused in bounded memory, with what to do."""
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        file = pathlib.Path(folder) / "in.pcap"
        # 96,000 bytes each: 24,000 of them are more than 2 GiB, and take no room when compressed.
        record = struct.pack("<IIII", 1, 0, 96_000, 96_000) + bytes(96_000)
        with gzip.open(file, "wb", compresslevel=1) as out:
            out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
            for _ in range(230):
                out.write(record * 100)
        shell = 'ulimit -v 4194304; exec "$0" "$@"'
        command = ("sh", "-c", shell, PROGRAM, "gen", "--port", "pcap:,/dev/null", "--replay", file)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == 1 and "as much as is kept in memory" in done.stderr, done
        assert "editcap -r FILE PART 1-" in done.stderr, done.stderr


def test_damaged_captures_are_told():
    """A capture that ends within a record, as pcap, pcapng and zstd: what there is goes through, the rest is told, the status is 1."""
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        folder = pathlib.Path(folder)
        pcapfile.write(folder / "whole.pcap", [(n, FRAME) for n in range(10)])
        (folder / "cut.pcap").write_bytes((folder / "whole.pcap").read_bytes()[:-7])
        subprocess.run(("editcap", "-F", "pcapng", folder / "whole.pcap", folder / "whole.pcapng"), check=True)
        (folder / "cut.pcapng").write_bytes((folder / "whole.pcapng").read_bytes()[:-7])
        for name in ("whole.pcap", "cut.pcap"):
            subprocess.run(("zstd", "-q", folder / name), check=True)
        squeezed = (folder / "whole.pcap.zst").read_bytes()
        (folder / "torn.pcap.zst").write_bytes(squeezed[: len(squeezed) - 9])
        for name, count in (("cut.pcap", 9), ("cut.pcapng", 9), ("cut.pcap.zst", 9)):
            done, stats = _forward(folder, name)
            assert done.returncode == 1, (name, done.stderr)
            assert f"{name} is damaged at byte" in done.stderr, (name, done.stderr)
            assert stats["account"]["transmitted"] == count, (name, stats["account"])
            assert len(pcapfile.read(folder / "out.pcap")) == count, name
        # Of a file whose compression is torn in its only block there is nothing at all.
        (folder / "test.lua").write_text((folder / "test.lua").read_text().replace("cut.pcap.zst", "torn.pcap.zst"))
        done = _run("run", folder / "test.lua", "--until-drained", "--socket", folder / "test.sock")
        assert done.returncode == 1 and "what is compressed with zstd is damaged" in done.stderr, done
        done, stats = _forward(folder, "whole.pcap.zst")
        assert done.returncode == 0 and stats["account"]["transmitted"] == 10, done.stderr


def _full(folder, output, frames):
    """Forwards more than there is room for; what is in the file is what counts as transmitted, and the rest is told and named."""
    done, stats = _forward(folder, "in.pcap", output)
    kept, drops = pcapfile.read(pathlib.Path(folder) / output), drops_of(stats)
    assert done.returncode == 1 and "the disk is full" in done.stderr, done.stderr
    assert done.stderr.count("the disk is full") == 1, done.stderr
    assert stats["account"]["transmitted"] == len(kept) < frames, (stats["account"], len(kept))
    assert sum(drops.values()) == frames - len(kept) and all("link-down" in place for place in drops), drops
    return kept


def test_a_full_disk_is_told():
    """A disk that has room for a part of the packets: they count, the others are dropped by name, and the status is 1."""
    if os.geteuid() != 0:
        raise Skipped("mounting a small disk needs root")
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        disk = pathlib.Path(folder) / "disk"
        disk.mkdir()
        subprocess.run(("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk), check=True)
        try:
            pcapfile.write(f"{folder}/in.pcap", [(n * 1e-6, FRAME) for n in range(1237)])
            assert _full(folder, "disk/out.pcap", 1237), "nothing was written at all"
            # No room for a single page: the header of the file already fails.
            (disk / "rest").write_bytes(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))
            (disk / "out.pcap").unlink()
            free = os.statvfs(disk)
            (disk / "more").write_bytes(bytes(free.f_bavail * free.f_frsize))
            done = _run("run", f"{folder}/test.lua", "--until-drained", "--socket", f"{folder}/weir.sock")
            assert done.returncode == 1 and "the disk is full; make room" in done.stderr, done
        finally:
            subprocess.run(("umount", disk), check=True)


def test_a_disk_that_is_full_from_the_start_is_told():
    """/dev/full takes nothing: `run` and `gen` refuse to start, and say why."""
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        pcapfile.write(f"{folder}/in.pcap", [(0, FRAME)])
        script = pathlib.Path(folder) / "test.lua"
        script.write_text(
            'port { name = "a", device = "pcap:in.pcap" } port { name = "b", device = "pcap:,/dev/full" }'
            'forward { pairs = { { "a", "b" } } }',
            encoding="utf-8",
        )
        for command in (("run", script, "--until-drained", "--socket", f"{folder}/weir.sock"), ("gen", "--port", "pcap:,/dev/full", "--count", "9")):
            done = _run(*command)
            assert done.returncode == 1 and "the disk is full; make room and start again" in done.stderr, done


def test_what_a_relay_did_is_found():
    """What a lwAFTR makes of traffic by the shipped table, but for some packets that it loses, copies, or sends to another customer."""
    with tempfile.TemporaryDirectory(prefix="weir-scenario-") as folder:
        folder = pathlib.Path(folder)
        for name in ("gen-softwires.lua", "gen-softwires.csv"):
            shutil.copy(ROOT / "configs" / name, folder)
        assert _run("gen", folder / "gen-softwires.lua").returncode == 0
        lines = (folder / "gen-softwires.csv").read_text(encoding="utf-8").splitlines()[2:]
        rows = [line.split(",") for line in lines]
        relayed, lost = [], 0
        for side in ("internet", "customers"):
            for n, (time, frame) in enumerate(pcapfile.read(folder / f"{side}.pcap")):
                inner = Ether(frame)[IP]
                if side == "customers":
                    inner.ttl -= 1
                    out = Ether(src="02:00:00:00:00:09", dst="02:00:00:00:00:08") / inner
                else:
                    port = inner[UDP].dport
                    mine = [row for row in rows if row[0] == inner.dst and _psid(row, port) == int(row[1])]
                    (row,) = mine
                    wrong = n % 20 == 1
                    b4 = rows[(rows.index(row) + 1) % len(rows)][4] if wrong else row[4]
                    out = Ether(src="02:00:00:00:00:09", dst="02:00:00:00:00:08") / IPv6(src=row[5], dst=b4, nh=4) / inner
                if n % 10 == 0:
                    lost += 1
                    continue
                relayed += [(time + 10e-6, raw(out))] * (2 if n % 50 == 7 else 1)
        pcapfile.write(folder / "out.pcap", sorted(relayed, key=lambda packet: packet[0]))
        done = _run("flowstat", folder / "internet.pcap", folder / "out.pcap", "--also-sent", folder / "customers.pcap", "--model", "lwaftr",
                    "--softwires", folder / "gen-softwires.csv", "--by", "way", "--order", "key", "--json")
        assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    total = report["total"]
    assert (total["sent"], total["duplicated"], total["unmatched"]) == (2000, 40, 0), total
    assert report["received"]["misaddressed"] == 50 and total["lost"] == lost + 50 == 250, report
    assert [(stream["key"], stream["lost"]) for stream in report["streams"]] == [({"way": "decapsulated"}, 100), ({"way": "encapsulated"}, 150)], report["streams"]
    assert abs(total["latency_ns"]["p50"] - 10_000) <= 1_000, total


def _psid(row, port):
    """Whose a port is, by RFC 7597 section 5.1."""
    length, offset = (int(bits or 0) for bits in row[2:4])
    return port >> (16 - offset - length) & ((1 << length) - 1)
