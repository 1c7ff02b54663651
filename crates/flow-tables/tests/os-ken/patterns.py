#!/usr/bin/env python3
"""Writes the switch certification patterns of os-ken 2.8.2 as bytes, for the test `certification`.

    pip install os-ken==2.8.2 && python3 patterns.py > patterns.txt

Lines: `T name` begins a test, `M message` is a message to send first, `I frame` comes in by port 1; of it must become `O frame`
(sent by port 2), `P frame` (to the controller), or `D` (dropped). A test of rates has `R packets-per-second` and frames
`F length beginning`, and expects `K kbit/s flow` or `N packets/s flow`, where `flow` is a message whose match says what counts.
"""

import glob
import importlib
import inspect
import json
import os
import random

import netaddr
from os_ken.ofproto import ofproto_parser
from os_ken.ofproto.ofproto_protocol import ProtocolDesc
from os_ken.ofproto import ofproto_v1_3_parser  # noqa: F401

import os_ken.tests

import mended

ALIASES = {"option": "ipv6option", "echo": "icmpv6echo"}
NAMES = {"netaddr": netaddr, "randint": random.randint}
# The protocols that patterns name; `ipv6option` and `icmpv6echo` are what they call two that share their names.
for module in ["arp", "ethernet", "icmp", "icmpv6", "ipv4", "ipv6", "mpls", "pbb", "sctp", "tcp", "udp", "vlan"]:
    module = importlib.import_module("os_ken.lib.packet." + module)
    for name, thing in inspect.getmembers(module, inspect.isclass):
        if thing.__module__ == module.__name__:
            if module.__name__.endswith((".ipv6", ".icmpv6")):
                name = ALIASES.get(name, name)
            NAMES[name] = thing


mended.mend()
random.seed(1)
dp = ProtocolDesc(version=4)


def frame(parts):
    data = eval("/".join(parts), NAMES)
    data.serialize()
    return bytes(data.data)


def message(description):
    message = ofproto_parser.ofp_msg_from_jsondict(dp, description)
    message.set_xid(7)
    message.serialize()
    return bytes(message.buf).hex()


PORTS = {"target_recv_port": 1, "target_send_port_1": 2, "target_send_port_2": 3,
         "tester_send_port": 1, "tester_recv_port_1": 2, "tester_recv_port_2": 3}


def numbered(value):
    """The value with names of ports replaced by their numbers."""
    if isinstance(value, dict):
        return {key: numbered(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbered(item) for item in value]
    return PORTS.get(value, value) if isinstance(value, str) else value


folder = os.path.join(os.path.dirname(os_ken.tests.__file__), "switch", "of13")
for path in sorted(glob.glob(folder + "/**/*.json", recursive=True)):
    for test in json.load(open(path)):
        if isinstance(test, str):
            title = test
            continue
        test = numbered(test)
        print("T", title, "|", test["description"])
        for step in test["prerequisite"]:
            print("M", message(step))
        for step in test["tests"]:
            ingress = step["ingress"]
            if isinstance(ingress, list):
                print("I", frame(ingress).hex())
                if "egress" in step:
                    print("O", frame(step["egress"]).hex())
                elif "PACKET_IN" in step:
                    print("P", frame(step["PACKET_IN"]).hex())
                else:
                    print("D")
                continue
            packets = ingress["packets"]
            print("R", packets.get("pktps", 1000))
            varied = any("randint" in part for part in packets["data"])
            for _ in range(2000 if varied else 1):
                whole = frame(packets["data"])
                print("F", len(whole), whole[:100].hex())
            for rate in step["egress"]["throughput"]:
                flow = message({"OFPFlowMod": {"match": {"OFPMatch": rate["OFPMatch"]}}})
                print("K" if "kbps" in rate else "N", rate.get("kbps", rate.get("pktps")), flow)
