"""A part of the switch certification of os-ken against the running switch; `scenarios/certification.py` runs all of it."""

import os

import certification

from lab import Skipped, openvswitch

NEEDS_ROOT = False

# Files that take a second or two each: every kind of action, fields of each layer, and masks. Those of rates send for 30 seconds each.
_PART = (
    "action/00_OUTPUT",
    "action/17_PUSH_VLAN",
    "action/19_PUSH_MPLS",
    "action/24_DEC_NW_TTL_IPv4",
    "action/25_SET_FIELD/03_ETH_DST",
    "action/25_SET_FIELD/11_IPV4_SRC",
    "action/25_SET_FIELD/13_TCP_SRC_IPv6",
    "match/00_IN_PORT",
    "match/04_ETH_SRC_Mask",
)

# The same where Open vSwitch sends, and Linux' wires are between.
_PART_BY_OPENVSWITCH = (
    "action/00_OUTPUT",
    "action/17_PUSH_VLAN",
    "action/19_PUSH_MPLS",
    "action/25_SET_FIELD/11_IPV4_SRC",
    "match/04_ETH_SRC_Mask",
)


def test_a_part_of_the_certification():
    """Nothing fails but provider backbone bridges."""
    _certify(_PART, "weir")


def test_a_part_of_the_certification_by_open_vswitch():
    """The same, where Open vSwitch sends what the switch gets, and gets what it sends."""
    if openvswitch.missing():
        raise Skipped(openvswitch.missing())
    _certify(_PART_BY_OPENVSWITCH, "openvswitch")


def _certify(part, tester):
    python = os.environ.get("WEIR_OS_KEN_PYTHON", "python3")
    folder = certification.patterns(python)
    if folder is None:
        raise Skipped(f"{python} has no os-ken 2.8.2 (name one that has in WEIR_OS_KEN_PYTHON)")
    passed, failed = 0, []
    for file in part:
        for name, result, why in certification.run(python, folder, folder / "of13" / f"{file}.json", tester):
            passed += result == "OK"
            if result != "OK" and not certification.is_expected(file, name):
                failed.append(f"{file}: {name}: {why}")
    assert not failed and passed > 12, (passed, failed)
