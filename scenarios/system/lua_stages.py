"""Stages in Lua that nobody allowed, that compute at load, and that never come to an end."""

import pathlib
import signal
import subprocess
import tempfile

from lab import PATIENCE, pcapfile
from lab.packets import UDP, IP, Ether, raw
from lab.weir import PROGRAM, Weir, wait_for

NEEDS_ROOT = False

_PORTS = """
port { name = "a", device = "pcap:in.pcap,a.out" }
port { name = "b", device = "pcap:,b.out" }
"""
_FORWARD = _PORTS + 'forward { pairs = { { "a", "b" } } }\n'
_STAGE = _PORTS + 'lua { file = "stage.lua", paths = { "a -> b", "b -> a" }, raw_ffi = %s }\n'

# Longer than the universe lasts, in one call.
_COMPUTES = "local found = ('a'):rep(1e5):find(('a*'):rep(50) .. 'b')\nfunction run() end\n"


def _folder(stage):
    """A folder with a capture file and the script of a stage."""
    own = tempfile.TemporaryDirectory(prefix="weir-lua-")
    folder = pathlib.Path(own.name)
    frame = raw(Ether(src="02:00:00:00:01:01", dst="02:00:00:00:00:01") / IP(src="192.0.2.1", dst="192.0.2.2") / UDP())
    pcapfile.write(folder / "in.pcap", [(0.1, frame)])
    (folder / "stage.lua").write_text(stage, encoding="utf-8")
    return own, folder


def _check(folder, *arguments, limit=None):
    file = folder / "check.lua"
    program = f'{f"ulimit -v {limit}; " if limit else ""}exec "$0" "$@"'
    return subprocess.run(
        ("bash", "-c", program, PROGRAM, "check", file, *arguments), capture_output=True, text=True, timeout=PATIENCE, check=False,
    )


def test_a_stage_that_nobody_allowed_is_not_run():
    """A reload refuses it before anything of it runs, and the next reload is carried out."""
    own, folder = _folder(_COMPUTES)
    with own, Weir(None, _FORWARD, folder) as weir:
        (folder / "test.lua").write_text(_STAGE % "false", encoding="utf-8")
        refused = weir.command("reload", folder / "test.lua", check=False)
        assert refused.returncode == 1, refused
        assert "was not allowed" in refused.stderr and "--allow-lua-stages" in refused.stderr, refused.stderr
        assert "still running" not in refused.stderr, refused.stderr
        assert "done" in weir.reload(_FORWARD)
        weir.stop()


def test_a_stage_that_computes_at_load_is_told():
    """`weir check` and an allowed reload say where it is, and nothing hangs."""
    own, folder = _folder(_COMPUTES)
    with own:
        (folder / "check.lua").write_text(_STAGE % "false", encoding="utf-8")
        done = _check(folder)
        assert done.returncode == 1 and "stage.lua:1: is still running; look for" in done.stderr, done
        with Weir(None, _FORWARD, folder, ("--allow-lua-stages",)) as weir:
            refused = weir.command("reload", folder / "check.lua", check=False)
            assert "stage.lua:1: is still running; look for" in refused.stderr, refused
            assert "done" in weir.reload(_FORWARD)
            weir.stop()


def test_a_changed_script_is_a_change():
    """A reload says so, and takes it over."""
    own, folder = _folder("function run() end\n")
    with own, Weir(None, _STAGE % "false", folder, ("--allow-lua-stages",)) as weir:
        assert "= lua: unchanged" in weir.command("reload", folder / "test.lua")
        (folder / "stage.lua").write_text("function run(batch) end\n", encoding="utf-8")
        for arguments in (("--dry-run",), ()):
            said = weir.command("reload", folder / "test.lua", *arguments)
            assert "~ lua: changed (live)" in said and 'lua.file: "stage.lua" as it was -> as it is now' in said, said
        assert "= lua: unchanged" in weir.command("reload", folder / "test.lua")
        weir.stop()


def test_a_stuck_worker_does_not_hold_up_the_end():
    """One SIGTERM ends Weir, and the worker is named. Only a script that may do anything can be stuck for good."""
    own, folder = _folder("function run() while true do end end\n")
    with own, Weir(None, _STAGE % "true", folder, ("--allow-lua-stages", "--allow-lua-ffi")) as weir:
        wait_for(lambda: "stands still" in weir.log())
        weir.process.send_signal(signal.SIGTERM)
        weir.finish(expected=1)
        assert "weir: stuck in a stage and left behind: worker 0;" in weir.log(), weir.output()


def test_a_disabled_stage_is_logged():
    """Once, with the replica and the last error."""
    own, folder = _folder("function run() error('no \\27[2J') end\n")
    with own:
        frames = [(0.1 * n, b"\0" * 60) for n in range(10)]
        pcapfile.write(folder / "in.pcap", frames)
        virtual = 'engine { clock = "virtual" }\n' + (_STAGE % "false").replace("in.pcap,a.out", "in.pcap,a.out,timing=clock")
        (folder / "test.lua").write_text(virtual, encoding="utf-8")
        done = subprocess.run(
            (PROGRAM, "run", folder / "test.lua", "--allow-lua-stages", "--until-drained", "--socket", folder / "s"),
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )
        told = [line for line in done.stderr.splitlines() if "a stage in Lua is disabled" in line]
        assert len(told) == 1 and "function=lua" in told[0] and "replica=0" in told[0] and "stage.lua:1: no" in told[0], done.stderr
        assert "\x1b" not in done.stdout + done.stderr


def test_a_script_s_error_is_shown_and_not_obeyed():
    """Neither what a terminal obeys nor what is endless gets out."""
    own, folder = _folder("")
    with own:
        (folder / "check.lua").write_text("error('\\27]0;title\\7' .. ('x'):rep(1e8))", encoding="utf-8")
        done = _check(folder)
        assert done.returncode == 1 and done.stderr.startswith(f"{folder}/check.lua:1: \\u{{1b}}]0;title\\u{{7}}xxx"), done.stderr[:99]
        assert "... (cut: 100000010 bytes)" in done.stderr and len(done.stderr) < 5_000, len(done.stderr)
        assert len(_check(folder, "--json").stdout) < 10_000


def test_it_runs_with_less_memory_than_a_script_may_use():
    """The bounds of a script's process are never above those that Weir was given."""
    own, folder = _folder("function run() end\n")
    with own:
        (folder / "check.lua").write_text(_STAGE % "false", encoding="utf-8")
        for megabytes in (400, 1_000):
            done = _check(folder, limit=megabytes << 10)
            assert done.returncode == 0, (megabytes, done)
