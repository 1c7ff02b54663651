//! Others read what we write: Open vSwitch's `ovs-ofctl ofp-print`, and tshark.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Write;
use std::process::{Command, Stdio};

use weir_openflow::field::Field;
use weir_openflow::flow::{FlowStats, PacketIn, PacketInReason};
use weir_openflow::group::{Bucket, GroupDesc, GroupKind};
use weir_openflow::meter::{Band, BandKind, MeterConfig};
use weir_openflow::port::Duration;
use weir_openflow::{Action, Body, Instruction, Match, Message, Oxm, Reply};

fn missing(program: &str) -> bool {
    let there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !there {
        println!("skipped: {program} is missing");
    }
    !there
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn reply(reply: &Reply) -> Vec<u8> {
    Message::new(1, Body::MultipartReply(reply.parts().remove(0))).write().unwrap()
}

fn ovs(bytes: &[u8]) -> String {
    let output = Command::new("ovs-ofctl").args(["ofp-print", &hex(bytes), "2"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn flow() -> FlowStats {
    FlowStats {
        table: 3,
        duration: Duration { seconds: 7, nanoseconds: 500_000_000 },
        priority: 1000,
        idle_timeout: 60,
        hard_timeout: 0,
        flags: 1,
        cookie: 0x99,
        packets: 5,
        bytes: 500,
        matches: Match::new(vec![
            Oxm::exact(Field::InPort, 1),
            Oxm::exact(Field::EthType, 0x0800),
            Oxm::exact(Field::IpProto, 6),
            Oxm::masked(Field::Ipv4Dst, 0x0a01_0000, 0xffff_0000),
            Oxm::exact(Field::TcpDst, 80),
        ])
        .unwrap(),
        instructions: vec![
            Instruction::Meter(4),
            Instruction::ApplyActions(vec![
                Action::DecNwTtl,
                Action::SetField(Oxm::exact(Field::EthDst, 0x0200_0000_0001)),
                Action::Output { port: 2, max_len: 0 },
            ]),
            Instruction::WriteMetadata { metadata: 0x10, mask: 0xff },
            Instruction::GotoTable(9),
        ],
    }
}

#[test]
fn open_vswitch_reads_our_replies() {
    if missing("ovs-ofctl") {
        return;
    }
    let text = ovs(&reply(&Reply::Flow(vec![flow()])));
    for said in [
        "OFPST_FLOW reply (OF1.3)",
        "cookie=0x99",
        "duration=7.500s",
        "table=3",
        "n_packets=5, n_bytes=500",
        "idle_timeout=60",
        "send_flow_rem",
        "priority=1000,tcp,in_port=1,nw_dst=10.1.0.0/16,tp_dst=80",
        "actions=meter:4,dec_ttl,set_field:02:00:00:00:00:01->eth_dst,output:2,write_metadata:0x10/0xff,goto_table:9",
    ] {
        assert!(text.contains(said), "{said:?} is missing from {text}");
    }
    let bucket = Bucket {
        weight: 0,
        watch_port: 2,
        watch_group: u32::MAX,
        actions: vec![Action::Output { port: 2, max_len: 0 }],
    };
    let groups = Reply::GroupDesc(vec![GroupDesc { kind: GroupKind::FastFailover, group: 8, buckets: vec![bucket] }]);
    let text = ovs(&reply(&groups));
    assert!(text.contains("group_id=8,type=ff,bucket=") && text.contains("watch_port:2,actions=output:2"), "{text}");
    let bands = vec![Band { rate: 1000, burst: 100, kind: BandKind::DscpRemark(1) }];
    let text = ovs(&reply(&Reply::MeterConfig(vec![MeterConfig { flags: 0b1101, meter: 4, bands }])));
    assert!(text.contains("meter=4 kbps burst stats bands=") && text.contains("type=dscp_remark rate=1000"), "{text}");
}

#[test]
fn open_vswitch_knows_our_errors_by_the_same_names() {
    if missing("ovs-ofctl") {
        return;
    }
    // The names differ in spelling only: BadMatch/DupField is OFPBMC_DUP_FIELD.
    let (mut known, mut other) = (0, Vec::new());
    for (error, kind, code) in weir_openflow::error::ALL {
        let text = ovs(&Message::new(1, Body::Error { error: *error, data: vec![0; 8] }).write().unwrap());
        let name: String = code.to_lowercase();
        if text.to_lowercase().replace('_', "").contains(&name) {
            known += 1;
        } else {
            other.push(format!("{kind}/{code}: {}", text.lines().next().unwrap_or_default()));
        }
    }
    assert!(known > 90, "{known} known; others: {other:#?}");
}

/// The dissector finds nothing malformed, and the values that were written.
#[test]
fn tshark_dissects_our_messages() {
    if missing("tshark") || missing("text2pcap") {
        return;
    }
    let packet = PacketIn {
        buffer: u32::MAX,
        total_len: 60,
        reason: PacketInReason::InvalidTtl,
        table: 7,
        cookie: 0x1234,
        matches: Match::new(vec![Oxm::exact(Field::InPort, 5)]).unwrap(),
        data: vec![0xff; 60],
    };
    let messages = [
        Message::new(1, Body::PacketIn(packet)).write().unwrap(),
        reply(&Reply::Flow(vec![flow()])),
        Message::new(3, Body::Hello(weir_openflow::message::Hello::only(4))).write().unwrap(),
    ];
    let capture = std::env::temp_dir().join(format!("weir-openflow-{}.pcap", std::process::id()));
    let mut child = Command::new("text2pcap")
        .args(["-q", "-T", "40000,6653", "-"])
        .arg(&capture)
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut dump = String::new();
    for message in &messages {
        for (row, bytes) in message.chunks(16).enumerate() {
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            dump.push_str(&format!("{:06x} {}\n", row * 16, bytes.join(" ")));
        }
        dump.push('\n');
    }
    child.stdin.take().unwrap().write_all(dump.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let output = Command::new("tshark")
        .args(["-V", "-d", "tcp.port==6653,openflow", "-o", "tcp.desegment_tcp_streams:FALSE", "-r"])
        .arg(&capture)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    std::fs::remove_file(&capture).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("Malformed") && !text.contains("[Expert Info (Error"), "{text}");
    for said in [
        "Type: OFPT_PACKET_IN (10)",
        "Reason: OFPR_INVALID_TTL (2)",
        "Table ID: 7",
        "Field: OFPXMT_OFB_IN_PORT (0)",
        "Type: OFPMP_FLOW (1)",
        "Duration sec: 7",
        "Packet count: 5",
        "Type: OFPIT_GOTO_TABLE (1)",
        "Type: OFPAT_DEC_NW_TTL (24)",
        "Type: OFPHET_VERSIONBITMAP (1)",
    ] {
        assert!(text.contains(said), "{said:?} is missing from {text}");
    }
}
