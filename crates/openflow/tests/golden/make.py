#!/usr/bin/env python3
"""Writes os-ken.txt: messages of OpenFlow 1.3 as the controller framework os-ken 2.8.2 writes them.

    pip install os-ken==2.8.2 && python3 make.py > os-ken.txt

One line each: a name, and the bytes in hexadecimal.
"""

import struct

from os_ken.ofproto import ofproto_v1_3 as ofp, ofproto_v1_3_parser as p
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

dp = ProtocolDesc(version=ofp.OFP_VERSION)


def show(name, message):
    message.set_xid(0x01020304)
    message.serialize()
    print(name, bytes(message.buf).hex())


MATCHES = {
    "all": {},
    "ports": dict(in_port=1, in_phy_port=2, metadata=(0x1234, 0xffff), tunnel_id=(7, 0xff)),
    "tcp": dict(in_port=1, eth_dst=("02:00:00:00:00:01", "ff:ff:ff:00:00:01"), eth_src="02:00:00:00:00:02", eth_type=0x0800,
                vlan_vid=0x1064, vlan_pcp=5, ip_dscp=10, ip_ecn=1, ip_proto=6, ipv4_src=("10.0.0.0", "255.0.0.0"),
                ipv4_dst="192.0.2.1", tcp_src=1000, tcp_dst=80),
    "udp": dict(eth_type=0x0800, ip_proto=17, udp_src=53, udp_dst=5353),
    "sctp": dict(eth_type=0x86dd, ip_proto=132, sctp_src=1, sctp_dst=2),
    "icmp": dict(eth_type=0x0800, ip_proto=1, icmpv4_type=8, icmpv4_code=0),
    "arp": dict(eth_type=0x0806, arp_op=1, arp_spa="10.0.0.1", arp_tpa=("10.0.0.0", "255.255.255.0"),
                arp_sha="02:00:00:00:00:01", arp_tha=("00:00:00:00:00:00", "ff:00:00:00:00:00")),
    "nd": dict(eth_type=0x86dd, ip_proto=58, ipv6_src=("2001:db8::", "ffff:ffff::"), ipv6_dst="2001:db8::1",
               ipv6_flabel=(0x12300, 0xfff00), icmpv6_type=135, icmpv6_code=0, ipv6_nd_target="2001:db8::9",
               ipv6_nd_sll="02:00:00:00:00:03", ipv6_exthdr=(64, 64)),
    "na": dict(eth_type=0x86dd, ip_proto=58, icmpv6_type=136, ipv6_nd_target="2001:db8::9", ipv6_nd_tll="02:00:00:00:00:04"),
    "mpls": dict(eth_type=0x8847, mpls_label=16, mpls_tc=3, mpls_bos=1),
    "pbb": dict(eth_type=0x88e7, pbb_isid=(1, 0xffffff)),
}

for name, fields in MATCHES.items():
    show("flow-mod-match-" + name, p.OFPFlowMod(dp, cookie=1, cookie_mask=2, table_id=3, command=ofp.OFPFC_ADD, idle_timeout=4,
         hard_timeout=5, priority=6, buffer_id=ofp.OFP_NO_BUFFER, out_port=ofp.OFPP_ANY, out_group=ofp.OFPG_ANY, flags=1,
         match=p.OFPMatch(**fields), instructions=[]))

ACTIONS = [
    p.OFPActionOutput(ofp.OFPP_CONTROLLER, ofp.OFPCML_NO_BUFFER), p.OFPActionCopyTtlOut(), p.OFPActionCopyTtlIn(),
    p.OFPActionSetMplsTtl(9), p.OFPActionDecMplsTtl(), p.OFPActionPushVlan(0x88a8), p.OFPActionPopVlan(),
    p.OFPActionPushMpls(0x8848), p.OFPActionPopMpls(0x0800), p.OFPActionSetQueue(11), p.OFPActionGroup(12),
    p.OFPActionSetNwTtl(13), p.OFPActionDecNwTtl(), p.OFPActionSetField(ipv6_dst="2001:db8::1"),
    p.OFPActionSetField(eth_dst="02:00:00:00:00:05"), p.OFPActionSetField(vlan_vid=0x1005), p.OFPActionPushPbb(0x88e7),
    p.OFPActionPopPbb(),
]
INSTRUCTIONS = [
    p.OFPInstructionMeter(1), p.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, ACTIONS),
    p.OFPInstructionActions(ofp.OFPIT_CLEAR_ACTIONS, []), p.OFPInstructionActions(ofp.OFPIT_WRITE_ACTIONS, ACTIONS),
    p.OFPInstructionWriteMetadata(0x1122334455667788, 0xffff0000ffff0000), p.OFPInstructionGotoTable(9),
]
show("flow-mod-instructions", p.OFPFlowMod(dp, instructions=INSTRUCTIONS))
for name, command in dict(modify=1, modify_strict=2, delete=3, delete_strict=4).items():
    show("flow-mod-" + name, p.OFPFlowMod(dp, command=command, table_id=ofp.OFPTT_ALL, out_port=7, out_group=8))

BUCKETS = [p.OFPBucket(10, ofp.OFPP_ANY, ofp.OFPG_ANY, ACTIONS[:3]), p.OFPBucket(0, 3, 4, [])]
for kind in range(4):
    show(f"group-mod-{kind}", p.OFPGroupMod(dp, kind % 3, kind, 77, BUCKETS))
show("meter-mod", p.OFPMeterMod(dp, ofp.OFPMC_MODIFY, ofp.OFPMF_PKTPS | ofp.OFPMF_BURST, 5,
     [p.OFPMeterBandDrop(100, 10), p.OFPMeterBandDscpRemark(50, 5, 1)]))
show("table-mod", p.OFPTableMod(dp, 1, 3))
show("port-mod", p.OFPPortMod(dp, 1, "02:00:00:00:00:01", ofp.OFPPC_PORT_DOWN, 0x65, 0x3f))
show("hello", p.OFPHello(dp, [p.OFPHelloElemVersionBitmap([1, 4])]))
show("echo-request", p.OFPEchoRequest(dp, b"abc"))
show("echo-reply", p.OFPEchoReply(dp, b"abc"))
show("error", p.OFPErrorMsg(dp, type_=4, code=9, data=b"xyz"))
show("experimenter", p.OFPExperimenter(dp, 0x2320, 9, b"12345678"))
show("features-request", p.OFPFeaturesRequest(dp))
show("get-config-request", p.OFPGetConfigRequest(dp))
show("set-config", p.OFPSetConfig(dp, ofp.OFPC_FRAG_DROP, 128))
show("barrier-request", p.OFPBarrierRequest(dp))
show("barrier-reply", p.OFPBarrierReply(dp))
show("queue-get-config-request", p.OFPQueueGetConfigRequest(dp, ofp.OFPP_ANY))
show("role-request", p.OFPRoleRequest(dp, ofp.OFPCR_ROLE_MASTER, 99))
show("get-async-request", p.OFPGetAsyncRequest(dp))
show("set-async", p.OFPSetAsync(dp, [1, 2], [3, 4], [5, 6]))
show("packet-out", p.OFPPacketOut(dp, ofp.OFP_NO_BUFFER, ofp.OFPP_CONTROLLER, ACTIONS, b"packet"))

match = p.OFPMatch(eth_type=0x0800, ip_proto=17)
show("desc-request", p.OFPDescStatsRequest(dp, 0))
show("flow-request", p.OFPFlowStatsRequest(dp, 0, 1, 2, 3, 4, 5, match))
show("aggregate-request", p.OFPAggregateStatsRequest(dp, 0, 1, 2, 3, 4, 5, match))
show("table-request", p.OFPTableStatsRequest(dp, 0))
show("port-request", p.OFPPortStatsRequest(dp, 0, 5))
show("queue-request", p.OFPQueueStatsRequest(dp, 0, 5, 6))
show("group-request", p.OFPGroupStatsRequest(dp, 0, 7))
show("group-desc-request", p.OFPGroupDescStatsRequest(dp, 0))
show("group-features-request", p.OFPGroupFeaturesStatsRequest(dp, 0))
show("meter-request", p.OFPMeterStatsRequest(dp, 0, 8))
show("meter-config-request", p.OFPMeterConfigStatsRequest(dp, 0, 9))
show("meter-features-request", p.OFPMeterFeaturesStatsRequest(dp, 0))
show("port-desc-request", p.OFPPortDescStatsRequest(dp, 0))
TABLE = p.OFPTableFeaturesStats(table_id=1, name=b"first", metadata_match=1, metadata_write=2, config=3, max_entries=4, properties=[
    p.OFPTableFeaturePropInstructions(type_=0, instruction_ids=[p.OFPInstructionId(1, 4), p.OFPInstructionId(4, 4)]),
    p.OFPTableFeaturePropNextTables(type_=2, table_ids=[2, 3, 4]),
    p.OFPTableFeaturePropActions(type_=6, action_ids=[p.OFPActionId(0, 4), p.OFPActionId(22, 4), p.OFPActionId(25, 4)]),
    p.OFPTableFeaturePropOxm(type_=8, oxm_ids=[p.OFPOxmId("in_port"), p.OFPOxmId("eth_dst", 1)]),
    p.OFPTableFeaturePropOxm(type_=14, oxm_ids=[p.OFPOxmId("ipv6_src")]),
])
show("table-features-request", p.OFPTableFeaturesStatsRequest(dp, 0, [TABLE, TABLE]))
