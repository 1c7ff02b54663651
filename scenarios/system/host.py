"""What `weir doctor` finds on a host."""

import json

from lab.netns import Lab, run
from lab.weir import PROGRAM


def _finding(namespace, name):
    findings = json.loads(namespace.run(str(PROGRAM.resolve()), "doctor", "--json"))["findings"]
    found = [finding for finding in findings if finding["name"] == name]
    assert len(found) == 1, findings
    return found[0]


def test_doctor_knows_virtual_pairs_by_what_they_are():
    """A pair whose ends have the same index, each in a namespace of its own; what is said follows the checksums."""
    with Lab() as lab:
        one, other = lab.namespace("one"), lab.namespace("other")
        run(
            *("ip", "link", "add", "name", "near", "index", "4711", "netns", one.name, "type", "veth"),
            *("peer", "name", "far", "index", "4711", "netns", other.name),
        )
        assert one.link("near")["ifindex"] == other.link("far")["ifindex"] == 4711
        finding = _finding(one, "veth near")
        assert finding["state"] == "attention" and "ethtool -K near tx off" in finding["remedy"], finding
        one.run("ethtool", "-K", "near", "tx", "off")
        finding = _finding(one, "veth near")
        assert finding["state"] == "ok" and not finding["remedy"], finding
        assert _finding(other, "veth far")["state"] == "attention"
