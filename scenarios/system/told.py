"""What the log tells of what happens on real devices, and what signals leave behind."""

import re
import signal

from lab.hosts import Between, config, ping
from lab.netns import Lab
from lab.weir import check_account, wait_for


def _line(weir, *words):
    """Waits for a line of the log with all the words."""
    if not wait_for(lambda: _lines(weir, *words)):
        raise AssertionError(f"no line with {words} in:\n{weir.log()}")
    return _lines(weir, *words)[0]


def _lines(weir, *words):
    return [line for line in weir.log().splitlines() if all(word in line for word in words)]


def _links_are_told(driver):
    with Lab() as lab:
        net = Between(lab, config(driver))
        net.wan.run("ip", "link", "set", "dev", "eth0", "down")
        line = _line(net.weir, 'message="the link went down"', "port=wan")
        assert "level=warn at=port" in line and f"device={driver}:wan" in line, line
        assert not _lines(net.weir, "the link", "port=lan"), net.weir.log()
        net.wan.run("ip", "link", "set", "dev", "eth0", "up")
        assert "level=info" in _line(net.weir, 'message="the link is up"', "port=wan")
        net.weir.stop()


def test_links_are_told_on_af_xdp():
    """A link that goes down and comes up: a line each, with port and device."""
    _links_are_told("af_xdp")


def test_links_are_told_on_af_packet():
    """The same on AF_PACKET."""
    _links_are_told("af_packet")


def _on_xdp_and_for_groups(net):
    details = net.router.run("ip", "-d", "link", "show")
    return len(re.findall(r"prog/xdp", details)), len(re.findall(r"allmulti [1-9]", details))


def test_signals_leave_nothing_behind():
    """SIGHUP and signals that mean nothing leave Weir running; after SIGTERM, interfaces have neither a program nor a wish for frames."""
    with Lab() as lab:
        net = Between(lab, config("af_xdp"))
        assert _on_xdp_and_for_groups(net) == (2, 2)
        for sign in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT, signal.SIGHUP, signal.SIGRTMIN):
            net.weir.process.send_signal(sign)
        _line(net.weir, "the configuration was replaced", "signal=SIGHUP")
        _line(net.weir, "a signal that means nothing here was ignored", "signal=SIGQUIT")
        ping(net.lan, "198.51.100.1", 3, interval=0.1)
        check_account(net.weir.stats())
        assert re.search(r"unaccounted +0\n", net.weir.stop(signal.SIGTERM))
        assert _lines(net.weir, "a signal asks Weir to stop", "signal=SIGTERM", "user=0"), net.weir.log()
        assert _on_xdp_and_for_groups(net) == (0, 0)
