"""The switch and who drives it over TLS, where both ends prove who they are, and over UNIX sockets."""

import pathlib
import shutil
import socket
import ssl
import stat
import tempfile

from lab.netns import Lab
from lab.openflow import CONTROLLER, LISTEN, Controller, Switch
from lab.weir import ROOT, wait_for

_KEYS = ROOT / "crates/tls/tests/keys"
_TLS = 'tls = { certificate = "own.pem", private_key = "own.key", ca = "ca.pem" }'


def _folder(lab):
    """A folder with what the switch proves itself by."""
    # pylint: disable=consider-using-with
    folder = tempfile.TemporaryDirectory(prefix="weir-test-")
    lab.at_end(folder.cleanup)
    folder = pathlib.Path(folder.name)
    _be(folder, "switch", "ca")
    return folder


def _be(folder, name, ca):
    """Lets the switch have this certificate, and trust this CA."""
    for key, file in ((f"{name}.pem", "own.pem"), (f"{name}.key", "own.key"), (f"{ca}.pem", "ca.pem")):
        shutil.copy(_KEYS / key, folder / file)


def _as(name, ca="ca"):
    """Options of `ovs-ofctl` that let it be somebody."""
    return ("-p", _KEYS / f"{name}.key", "-c", _KEYS / f"{name}.pem", "-C", _KEYS / f"{ca}.pem")


def _controller_as(name, ca="ca"):
    """A context of TLS of a controller."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_KEYS / f"{name}.pem", _KEYS / f"{name}.key")
    context.load_verify_locations(_KEYS / f"{ca}.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _says(switch, *words):
    """Waits until a controller's state has these words."""
    said = lambda: [row["state"] for row in switch.weir.show("controllers")]
    has = lambda: any(all(word in state for word in words) for state in said())
    assert wait_for(has), f"{words} not in {said()}\n{switch.weir.log()}"


def test_who_comes_by_tls_proves_who_they_are():
    """`ovs-ofctl` over TLS; strangers, expired certificates, and who says something else or nothing are refused; packets go on."""
    with Lab() as lab:
        switch = Switch(lab, f'listen = "tls:127.0.0.1:{LISTEN}", {_TLS}', _folder(lab))
        ofctl = lambda *words, name="controller", ca="ca": switch.ofctl(
            *words, check=False, to=f"ssl:127.0.0.1:{LISTEN}", options=_as(name, ca)
        )
        assert wait_for(lambda: "LIVE" in ofctl("show")), ofctl("show")
        ofctl("add-flow", "in_port=1,actions=output:2")
        assert "actions=output:2" in ofctl("dump-flows")
        switch.passes(1, 2, [2])
        for name, why in (("stranger", "not signed by the CA"), ("expired", "has expired"), ("mail", "another purpose")):
            said = ofctl("dump-flows", name=name)
            assert "actions=output" not in said, said
            _says(switch, "listening; refused 127.0.0.1:", why)
            assert wait_for(lambda words=why: words in switch.weir.log()), switch.weir.log()
        # It does not let itself be driven by who does not trust it either.
        assert "actions=output" not in ofctl("dump-flows", ca="other-ca")
        _says(switch, "it refuses the certificate that it is shown")
        assert "actions=output" not in switch.ofctl("dump-flows", check=False)
        _says(switch, "what it sends is not TLS")
        # Many come and say nothing: nobody is kept away.
        with switch.namespace.entered():
            silent = [socket.create_connection(("127.0.0.1", LISTEN)) for _ in range(40)]
        assert "actions=output:2" in ofctl("dump-flows")
        switch.passes(1, 2, [2])
        assert wait_for(lambda: "has not proved who it is in time" in switch.weir.log()), switch.weir.log()
        for one in silent:
            one.close()
        # Others are trusted from now on, and it is another one itself.
        _be(switch.weir.folder, "stranger", "other-ca")
        switch.weir.command("reload")
        assert "actions=output" not in ofctl("dump-flows")
        assert "actions=output:2" in ofctl("dump-flows", name="stranger", ca="other-ca")
        _be(switch.weir.folder, "controller", "ca")
        shutil.copy(_KEYS / "switch.key", switch.weir.folder / "own.key")
        refused = switch.weir.command("reload", check=False).stderr
        assert 'switch.tls.private_key: "own.key" does not belong to the certificate' in refused, refused
        switch.passes(1, 2, [2])
        stats = switch.weir.stats()
        switch.weir.stop()
        assert stats["account"]["unaccounted"] == 0, stats["account"]


def test_a_controller_over_tls_proves_who_it_is():
    """The switch connects to a controller that has a wrong certificate, trusts another CA, and is the right one at last."""
    with Lab() as lab:
        keys = f'controllers = {{ "tls:127.0.0.1:{CONTROLLER}" }}, fail = "standalone", {_TLS}'
        switch = Switch(lab, keys, _folder(lab))
        for context, why in (
            (_controller_as("stranger"), "not signed by the CA"),
            (_controller_as("expired"), "has expired"),
            (_controller_as("controller", "other-ca"), "a CA that it does not trust has signed that"),
        ):
            controller = Controller(switch.namespace, context)
            _says(switch, "not connected", why)
            assert switch.mode() == "standalone"
            switch.passes(1, 0, [2, 3])
            controller.die()
        controller = Controller(switch.namespace, _controller_as("controller"))
        switch.is_in("controlled")
        switch.passes(1, 0, [])
        assert [row["state"] for row in switch.weir.show("controllers")] == ["connected"]
        controller.die()
        switch.is_in("standalone")
        switch.weir.stop()


def test_unix_sockets():
    """`ovs-ofctl` by the path of a socket, whose file is the user's alone; a file that was left behind is replaced, others are not."""
    with Lab() as lab:
        folder = _folder(lab)
        there, left, other = folder / "br0.mgmt", folder / "left", folder / "other"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(left))
        other.write_text("precious", encoding="utf-8")
        listen = ", ".join(f'"unix:{path}"' for path in (there, left, other))
        keys = f'listen = {{ {listen} }}, controllers = {{ "unix:{folder}/c.sock" }}'
        switch = Switch(lab, keys, folder)
        ofctl = lambda path, *words: switch.ofctl(*words, to=f"unix:{path}")
        _says(switch, "not connected: No such file or directory")
        # Each has a thread of its own; what was left behind is a socket, too, at which nobody listens any more.
        answers = lambda path: "LIVE" in switch.ofctl("show", check=False, to=f"unix:{path}")
        assert wait_for(lambda: answers(there)) and wait_for(lambda: answers(left)), switch.weir.log()
        ofctl(there, "add-flow", "in_port=1,actions=output:2")
        assert "actions=output:2" in ofctl(left, "dump-flows")
        for path in (there, left):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        rows = lambda: {row["name"]: row for row in switch.weir.show("services")["services"]}
        assert wait_for(lambda: "is no socket" in (rows()[f"switch.listen:unix:{other}"]["failure"] or "")), rows()
        assert other.read_text(encoding="utf-8") == "precious"
        controller = Controller(switch.namespace, path=folder / "c.sock")
        switch.is_in("controlled")
        switch.passes(1, 2, [2])
        controller.die()
        switch.is_in("secure")
        switch.weir.stop()
        assert not there.exists() and not left.exists() and other.exists()
