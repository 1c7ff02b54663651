"""What functions need done beside packets: the counters of users, written to a file from time to time."""

import json
import os

from lab import Skipped
from lab.weir import Weir, torment, wait_for

NEEDS_ROOT = False

_CONFIG = """
port {{ name = "in",  device = "mem:null" }}
port {{ name = "out", device = "mem:null" }}
qos {{
  from      = "in",
  to        = "out",
  users     = {{ {{ tags = "100.1-2000", profile = "user" }} }},
  scheduler = {{ rate = "1 Gbit/s", profiles = {{ user = {{ tb_rate = "1 Mbit/s" }} }} }},
  {usage}
}}
"""


def _config(file=None, every="100 ms"):
    return _CONFIG.format(usage=f'usage = {{ file = "{file}", every = "{every}" }},' if file else "")


def _text(path):
    """What a file holds, as it was at one moment.

    A round that fails is taken out again, and another written in its place: who reads at that moment gets the beginning of the one and the end
    of the other. Who reads once more finds another beginning then.
    """
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    while not (again := path.read_text(encoding="utf-8") if path.exists() else "").startswith(text):
        text = again
    return text


def _rounds(path):
    """The whole rounds of a file: [[row, ...], ...]; what is being written is left out."""
    rounds, rows = [], []
    text = _text(path)
    for line in text[: text.rfind("\n") + 1].splitlines():
        row = json.loads(line)
        assert (row["function"], row["table"]) == ("qos", "users") and row["time"], row
        if "rows" in row:
            # Whoever reads while a round that failed is taken out again may have read some of it: it has another time.
            rows = [other for other in rows if other["time"] == row["time"]]
            assert row == {**row, "version": 1, "rows": len(rows)}, (row, len(rows))
            rounds.append(rows)
            rows = []
        else:
            rows.append(row)
    return rounds


def _grows(path, by=2):
    before = len(_rounds(path))
    assert wait_for(lambda: len(_rounds(path)) >= before + by), f"{path} does not grow beyond {before} rounds"


def _services(weir):
    return {service["name"]: service for service in weir.show("services")["services"] if service["owner"] == "qos"}


def test_usage_is_written_round_by_round():
    """Every user is in every round, as `weir show users` has it; a file that is moved away is begun anew."""
    with Weir(None, _config("usage.jsonl")) as weir:
        file, moved = weir.folder / "usage.jsonl", weir.folder / "moved.jsonl"
        _grows(file)
        shown = weir.show("users")
        assert len(shown) == 2000
        for rows in _rounds(file):
            bare = [{key: row[key] for key in row if key not in ("time", "function", "table")} for row in rows]
            assert sorted(map(str, bare)) == sorted(map(str, shown))
        os.rename(file, moved)
        _grows(file)
        assert _services(weir)["qos.users"]["state"] == "running"
        weir.stop()


def test_usage_follows_reloads():
    """It begins, changes and ends with the configuration, while its function goes on."""
    with Weir(None, _config()) as weir:
        one, two = weir.folder / "one.jsonl", weir.folder / "two.jsonl"
        assert not _services(weir)
        weir.reload(_config("one.jsonl"))
        _grows(one)
        weir.reload(_config("two.jsonl"))
        _grows(two)
        weir.reload(_config())
        assert not _services(weir)
        weir.stop()


def test_reloads_put_no_round_off():
    """Again and again, more often than rounds are due."""
    with Weir(None, _config("usage.jsonl", "2 s")) as weir:
        file, reloads = weir.folder / "usage.jsonl", []

        def written():
            reloads.append(weir.reload(_config("usage.jsonl", "2 s")))
            return len(_rounds(file)) >= 2

        assert wait_for(written), f"{len(reloads)} reloads put it off"
        weir.stop()


def test_usage_survives_a_full_disk():
    """A round that finds no room is told, tried again, and leaves nothing behind."""
    with Weir(None, _config()) as weir:
        file = weir.folder / "usage.jsonl"
        file.symlink_to("/dev/full")
        weir.reload(_config("usage.jsonl"))
        assert wait_for(lambda: _services(weir)["qos.users"]["restarts"] >= 2), _services(weir)
        assert "No space left" in _services(weir)["qos.users"]["failure"], _services(weir)
        file.unlink()
        _grows(file)
        assert wait_for(lambda: _services(weir)["qos.users"]["state"] == "running")
        weir.stop()


def test_usage_survives_its_own_faults():
    """It panics and hangs, and goes on with whole rounds."""
    with Weir(None, _config("usage.jsonl")) as weir:
        file = weir.folder / "usage.jsonl"
        _grows(file)
        for fault, told in (("panic", "it panicked"), ("hang", "has not ended")):
            if not torment(weir, "qos.users", fault):
                raise Skipped("this program is no build for tests")
            assert wait_for(lambda words=told: words in (_services(weir)["qos.users"]["failure"] or ""))
            assert wait_for(lambda: _services(weir)["qos.users"]["state"] == "running")
            _grows(file)
        assert _services(weir)["qos.users"]["restarts"] == 2, _services(weir)
        weir.stop()


def test_a_wrong_usage_is_refused():
    """A path that leads out of the folder, and a time that is too short."""
    with Weir(None, _config()) as weir:
        for file, every, wanted in (("../x", "1 s", "below the folder"), ("x", "1 ms", "100 ms")):
            weir.config.write_text(_config(file, every), encoding="utf-8")
            refused = weir.command("reload", weir.config, check=False)
            assert refused.returncode == 1 and wanted in refused.stderr, refused.stderr
        weir.stop()
