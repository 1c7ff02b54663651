"""The control socket and the metrics when others take all that there is: places, time, descriptors."""

import contextlib
import os
import pathlib
import resource
import socket
import subprocess
import tempfile

from lab import PATIENCE
from lab.weir import Weir, wait_for

_CONFIG = """
port { name = "a", device = "null" }
port { name = "b", device = "null" }
forward { pairs = { { "a", "b" } } }
"""

_STATS = b'{"version":1,"request":"version"}\n'

# Takes all the places that it gets, says nothing, and tells when it has them.
_SILENT = """
import socket, sys
held = [socket.socket(socket.AF_UNIX) for _ in range(100)]
for each in held:
    each.connect(sys.argv[1])
print("silent", flush=True)
sys.stdin.read()
"""


def _folder():
    """A folder that others can look into, as /run/weir is."""
    own = tempfile.TemporaryDirectory(prefix="weir-door-")
    os.chmod(own.name, 0o755)
    return own, pathlib.Path(own.name)


def _connect(weir):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(PATIENCE)
    client.connect(str(weir.socket))
    return client


def _ask(client):
    """The first line of the answer, or nothing if there is none."""
    try:
        with contextlib.suppress(BrokenPipeError):
            client.sendall(_STATS)  # who is refused at the door finds it closed, yet can read why
        return client.makefile().readline()
    except OSError:
        return ""


def test_silent_members_of_the_group_do_not_lock_root_out():
    """Whatever others take, root is served."""
    own, folder = _folder()
    with own, Weir(None, _CONFIG, folder) as weir:
        command = ("setpriv", "--reuid=65534", "--regid=0", "--clear-groups", "/usr/bin/python3", "-c", _SILENT, weir.socket)
        with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as others:
            assert others.stdout.readline() == "silent\n"
            for _ in range(5):
                assert "account" in weir.show("stats")
            others.stdin.close()
            assert others.wait(PATIENCE) == 0
        weir.stop()


def test_silent_clients_of_root_make_way():
    """Who asks gets the place of who has said nothing, and hears of it."""
    own, folder = _folder()
    with own, Weir(None, _CONFIG, folder) as weir:
        silent = [_connect(weir) for _ in range(60)]
        assert "account" in weir.show("stats")
        assert "you had been silent" in silent[0].makefile().readline()
        for each in silent:
            each.close()
        weir.stop()


def test_without_descriptors_clients_are_told():
    """Nobody waits for an answer that never comes, and all is well again when descriptors are free."""
    own, folder = _folder()
    with own, Weir(None, _CONFIG, folder) as weir:
        # A service that is being made still takes descriptors.
        assert wait_for(lambda: all(each["state"] == "running" for each in weir.show("services")["services"]))
        used = [int(number) for number in os.listdir(f"/proc/{weir.process.pid}/fd")]
        before = resource.prlimit(weir.process.pid, resource.RLIMIT_NOFILE)
        # One client can be served.
        resource.prlimit(weir.process.pid, resource.RLIMIT_NOFILE, (max(used) + 2, before[1]))
        clients = []
        for _ in range(40):
            clients.append(_connect(weir))
            answer = _ask(clients[-1])
            assert answer, "a client waits for an answer that never comes"
            if "no descriptors left" in answer:
                break
        else:
            raise AssertionError(f"nobody was told: {answer}")
        for client in clients:
            client.close()
        assert wait_for(lambda: weir.command("show", "stats", "--json", check=False).returncode == 0)
        resource.prlimit(weir.process.pid, resource.RLIMIT_NOFILE, before)
        assert wait_for(lambda: "a client was turned away: no descriptors are left" in weir.log()), weir.log()
        weir.stop()


def test_slow_scrapes_hold_no_other_up():
    """A hundred clients that never come to the end of their requests, and one that does."""
    own, folder = _folder()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with own, Weir(None, _CONFIG, folder, ("--metrics", f"127.0.0.1:{port}")) as weir:
        slow = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(100)]
        for each in slow[-10:]:
            each.sendall(b"GET /met")
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as good:
            good.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert good.makefile().readline().startswith("HTTP/1.1 200 OK")
        for each in slow:
            each.close()
        weir.stop()
