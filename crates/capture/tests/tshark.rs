//! What is decoded is what tshark decodes, field by field, of every packet of a mixed corpus.
//!
//! Compared are headers that are whole: a header that the capture cuts off in the middle is none here, and a part of one there.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod common;
#[path = "common/packets.rs"]
mod packets;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use common::{Folder, Order, classic_header, classic_record};
use packets::{Chance, frame, on_link};
use serde_json::Value;
use weir_capture::decode::{Ip, Layers};
use weir_capture::{LinkType, Reader};
use weir_wire::View;

/// The headers of a packet by kind, the outermost first: each its fields, as numbers or addresses.
type Headers = BTreeMap<&'static str, Vec<Vec<String>>>;

/// The layers of tshark and their fields, of which the last tells whether the header is whole. A bar parts two names, of which a
/// header has one: below 1,536 an EtherType is a length.
const FIELDS: &[(&str, &[&str])] = &[
    ("eth", &["eth.dst", "eth.src", "eth.type|eth.len"]),
    ("vlan", &["vlan.priority", "vlan.dei", "vlan.id", "vlan.etype|vlan.len"]),
    ("ieee8021ad", &["ieee8021ad.priority", "ieee8021ad.dei", "ieee8021ad.id", "ieee8021ah.etype|ieee8021ah.len"]),
    ("mpls", &["mpls.label", "mpls.exp", "mpls.bottom", "mpls.ttl"]),
    ("pppoes", &["pppoe.session_id", "pppoe.payload_length"]),
    ("gre", &["gre.key", "gre.sequence_number", "gre.checksum", "gre.proto"]),
    (
        "ip",
        &[
            "ip.dsfield.dscp",
            "ip.dsfield.ecn",
            "ip.len",
            "ip.id",
            "ip.flags.df",
            "ip.flags.mf",
            "ip.frag_offset",
            "ip.ttl",
            "ip.proto",
            "ip.src",
            "ip.dst",
        ],
    ),
    (
        "ipv6",
        &[
            "ipv6.tclass.dscp",
            "ipv6.tclass.ecn",
            "ipv6.flow",
            "ipv6.plen",
            "ipv6.hlim",
            "ipv6.fraghdr.ident",
            "ipv6.fraghdr.offset",
            "ipv6.fraghdr.more",
            "ipv6.src",
            "ipv6.dst",
        ],
    ),
    ("udp", &["udp.srcport", "udp.dstport", "udp.length", "udp.checksum"]),
    (
        "tcp",
        &[
            "tcp.srcport",
            "tcp.dstport",
            "tcp.seq_raw",
            "tcp.ack_raw",
            "tcp.flags",
            "tcp.window_size_value",
            "tcp.checksum",
            "tcp.urgent_pointer",
        ],
    ),
    ("icmp", &["icmp.type", "icmp.code", "icmp.checksum"]),
    ("icmpv6", &["icmpv6.type", "icmpv6.code", "icmpv6.checksum"]),
];

/// A field of tshark's as a decimal number where it is a number.
fn plain(text: &str) -> String {
    match text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16)) {
        Some(Ok(number)) => number.to_string(),
        _ => text.to_owned(),
    }
}

/// A field of a layer, in its tree or a tree below.
fn find<'v>(layer: &'v Value, name: &str) -> Option<&'v str> {
    let fields = layer.as_object()?;
    if let Some(value) = name.split('|').find_map(|name| fields.get(name)) {
        return value.as_str();
    }
    // The options of an extension header are a tree without a field of its own.
    fields.iter().filter(|(key, _)| *key != "icmp" && !key.ends_with("addr")).find_map(|(_, value)| find(value, name))
}

/// Two service tags after each other are one layer of tshark's.
fn one_by_one(layer: &Value) -> Vec<Value> {
    let (Some(outer), inner) = (layer.get("ieee8021ad.svid"), layer.get("ieee8021ad.cvid")) else {
        return vec![layer.clone()];
    };
    let tag = |n: usize, id: Option<&Value>, ethertype: Option<&Value>| {
        let of = |name: &str| match &layer[name] {
            Value::Array(both) => both.get(n).cloned(),
            one => Some(one.clone()).filter(|_| n == 0),
        };
        let mut tag = serde_json::Map::new();
        for (name, value) in [
            ("ieee8021ad.priority", of("ieee8021ad.priority")),
            ("ieee8021ad.dei", of("ieee8021ad.dei")),
            ("ieee8021ad.id", id.cloned()),
            ("ieee8021ah.etype", ethertype.cloned()),
        ] {
            tag.extend(value.map(|value| (name.to_owned(), value)));
        }
        Value::Object(tag)
    };
    let ethertype = layer.get("ieee8021ah.etype").or_else(|| layer.get("ieee8021ah.len"));
    vec![tag(0, Some(outer), Some(&Value::from("0x88a8"))), tag(1, inner, ethertype)]
}

/// Whether a layer has the parts that its flags announce.
fn has_parts(layer: &Value) -> bool {
    let parts = [
        ("gre.flags.checksum", "gre.offset"),
        ("gre.flags.key", "gre.key"),
        ("gre.flags.sequence_number", "gre.sequence_number"),
    ];
    parts.iter().all(|(flag, part)| find(layer, flag) != Some("1") || find(layer, part).is_some())
}

/// What tshark found.
fn theirs(packet: &Value) -> Headers {
    let layers = &packet["_source"]["layers"];
    let mut headers = Headers::new();
    for (layer, fields) in FIELDS {
        let of_kind = match &layers[*layer] {
            Value::Null => continue,
            Value::Array(many) => many.iter().collect(),
            one => vec![one],
        };
        let of_kind: Vec<Vec<String>> = of_kind
            .into_iter()
            .flat_map(one_by_one)
            .collect::<Vec<Value>>()
            .iter()
            .filter(|layer| find(layer, fields.last().unwrap()).is_some() && has_parts(layer))
            .map(|layer| fields.iter().map(|field| plain(find(layer, field).unwrap_or("-"))).collect())
            .collect();
        if !of_kind.is_empty() {
            headers.insert(layer, of_kind);
        }
    }
    // The header of PPPoE takes in the protocol field of PPP here.
    if find(&layers["ppp"], "ppp.protocol").is_none() {
        headers.remove("pppoes");
    }
    headers
}

fn texts<const N: usize>(values: [&dyn ToString; N]) -> Vec<String> {
    values.iter().map(|value| value.to_string()).collect()
}

fn or_none<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// The same of ours.
fn ours(layers: &Layers<'_>, link: LinkType) -> Headers {
    let mut headers = Headers::new();
    let mut add = |kind, fields| headers.entry(kind).or_default().push(fields);
    for at in layers.ethernets_at() {
        let ethernet = weir_wire::Ethernet::view(&layers.data()[at..]).unwrap();
        add("eth", texts([&ethernet.destination, &ethernet.source, &ethernet.ethertype]));
    }
    for (at, tag) in layers.tags_at().zip(layers.tags()) {
        let own = if link == LinkType::LINUX_SLL2 && at == 20 { 0 } else { at - 2 };
        let own = &layers.data()[own..own + 2];
        let kind = if own == [0x88, 0xa8] { "ieee8021ad" } else { "vlan" };
        let dei = u8::from(tag.drop_eligible());
        add(kind, texts([&tag.priority(), &dei, &tag.id(), &tag.ethertype.get()]));
    }
    for label in layers.labels() {
        add("mpls", texts([&label.value(), &label.class(), &u8::from(label.is_bottom()), &label.ttl()]));
    }
    if let Some(pppoe) = layers.pppoe() {
        add("pppoes", texts([&pppoe.session.get(), &pppoe.length.get()]));
    }
    for gre in layers.gres() {
        add("gre", vec![or_none(gre.key), or_none(gre.sequence), or_none(gre.checksum), gre.protocol.to_string()]);
    }
    for ip in layers.ips() {
        let (kind, fields) = ip_fields(ip);
        add(kind, fields);
    }
    if let Some(udp) = layers.udp() {
        add("udp", texts([&udp.source, &udp.destination, &udp.length, &udp.checksum]));
    }
    if let Some(tcp) = layers.tcp() {
        let flags = u16::from(tcp.data_offset & 0xf) << 8 | u16::from(tcp.flags);
        let numbers: [&dyn ToString; 2] = [&tcp.sequence, &tcp.acknowledgement];
        let [sequence, acknowledgement] = numbers;
        add(
            "tcp",
            texts([
                &tcp.source,
                &tcp.destination,
                sequence,
                acknowledgement,
                &flags,
                &tcp.window,
                &tcp.checksum,
                &tcp.urgent,
            ]),
        );
    }
    if let Some(icmp) = layers.icmp() {
        let name = if layers.transport().unwrap().0 == 1 { "icmp" } else { "icmpv6" };
        add(name, texts([&icmp.kind, &icmp.code, &icmp.checksum]));
    }
    headers
}

fn ip_fields(ip: Ip<'_>) -> (&'static str, Vec<String>) {
    let more = u8::from(ip.more_fragments());
    match (ip.v4(), ip.v6()) {
        (Some(v4), _) => {
            let fields = texts([
                &ip.dscp(),
                &ip.ecn(),
                &v4.total_len(),
                &ip.identification().unwrap(),
                &u8::from(v4.dont_fragment()),
                &more,
                &(ip.fragment_offset() / 8),
                &ip.ttl(),
                &v4.protocol,
                &ip.source_addr(),
                &ip.destination_addr(),
            ]);
            ("ip", fields)
        }
        (_, Some(v6)) => {
            let is_part = ip.fragment_header_at().is_some();
            let part = |value: &dyn ToString| if is_part { value.to_string() } else { "-".to_owned() };
            let fields = texts([
                &ip.dscp(),
                &ip.ecn(),
                &ip.flow_label().unwrap(),
                &v6.payload_length,
                &ip.ttl(),
                &or_none(ip.identification()),
                &part(&(ip.fragment_offset() / 8)),
                &part(&more),
                &ip.source_addr(),
                &ip.destination_addr(),
            ]);
            ("ipv6", fields)
        }
        _ => unreachable!("either"),
    }
}

fn tshark(file: &Path) -> Vec<Value> {
    let output = Command::new("tshark")
        .args(["-n", "-T", "json", "--no-duplicate-keys"])
        .args(["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE", "-o", "tcp.desegment_tcp_streams:FALSE"])
        .arg("-r")
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether tshark is there.
fn there() -> bool {
    Command::new("tshark").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Whether a difference is tshark's: it gave up over the content of an option, or guessed at Ethernet below MPLS labels, which
/// nothing announces.
fn excused(packet: &Value) -> bool {
    let layers = &packet["_source"]["layers"];
    !layers["_ws.malformed"].is_null() || !layers["pwethcw"].is_null()
}

fn compare(name: &str, link: LinkType, packets: &[(Vec<u8>, usize)]) {
    let folder = Folder::new(name);
    let mut file = classic_header(Order::Little, 0xa1b2_3c4d, link.0);
    for (packet, captured) in packets {
        file.extend(classic_record(Order::Little, 1, 0, packet.len() as u32, &packet[..*captured]));
    }
    let path = folder.put("corpus.pcap", &file);
    let theirs_of = tshark(&path);
    assert_eq!(theirs_of.len(), packets.len());
    let mut reader = Reader::open(&path).unwrap();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut excuses = 0;
    for (number, packet) in theirs_of.iter().enumerate() {
        let record = reader.next().unwrap().unwrap();
        let layers = Layers::of(record.data, record.link);
        let (mut ours, mut theirs) = (ours(&layers, link), theirs(packet));
        if layers.icmp().is_none() {
            // tshark shows some of a message of which less than its header was captured.
            theirs.retain(|kind, _| !kind.starts_with("icmp"));
        }
        // Where the options of IPv4 are cut, tshark goes without the addresses if it cannot look for a source route.
        let found = theirs.get("ip").map_or(0, Vec::len);
        if layers.inner().is_some_and(|ip| ip.version() == 4 && ip.payload_at() > ip.end()) {
            ours.entry("ip").and_modify(|headers| headers.truncate(found));
            ours.retain(|_, headers| !headers.is_empty());
        }
        let bytes: String = record.data.iter().map(|byte| format!("{byte:02x}")).collect();
        if ours != theirs && excused(packet) {
            excuses += 1;
            continue;
        }
        assert_eq!(
            ours,
            theirs,
            "packet {} of {name} ({}): {bytes}",
            number + 1,
            packet["_source"]["layers"]["frame"]["frame.protocols"]
        );
        for (kind, headers) in &ours {
            *seen.entry(kind).or_default() += headers.len();
        }
    }
    println!("{name}: {} packets, {excuses} excused, {seen:?}", packets.len());
    assert!(excuses <= packets.len() / 100, "{name}: {excuses} of {}", packets.len());
    for (kind, _) in FIELDS.iter().filter(|_| link == LinkType::ETHERNET) {
        assert!(seen.get(kind).is_some_and(|count| *count > 50), "too few of {kind} in {name}: {seen:?}");
    }
}

#[test]
fn every_packet_of_a_mixed_corpus_is_decoded_as_tshark_does() {
    if !there() {
        println!("skipped: decoding as tshark does: tshark is missing (apt-get install tshark)");
        return;
    }
    let mut chance = Chance(1);
    let whole: Vec<_> = (0..4000)
        .map(|_| {
            let frame = frame(&mut chance);
            let captured = frame.len();
            (frame, captured)
        })
        .collect();
    compare("whole", LinkType::ETHERNET, &whole);
    let odd: Vec<_> = (0..2000)
        .map(|_| {
            let mut frame = frame(&mut chance);
            for _ in 0..1 + chance.below(3) {
                let at = 12 + chance.below(80) as usize;
                if let Some(byte) = frame.get_mut(at) {
                    *byte ^= 1 << chance.below(8);
                }
            }
            let captured = frame.len();
            (frame, captured)
        })
        .collect();
    compare("odd", LinkType::ETHERNET, &odd);
    let cut: Vec<_> = (0..4000)
        .map(|_| {
            let frame = frame(&mut chance);
            let captured = chance.below(frame.len() as u64 + 1) as usize;
            (frame, captured)
        })
        .collect();
    compare("cut", LinkType::ETHERNET, &cut);
    for (name, link) in [
        ("raw", LinkType::RAW),
        ("ipv4", LinkType::IPV4),
        ("ipv6", LinkType::IPV6),
        ("null", LinkType::NULL),
        ("loop", LinkType::LOOP),
        ("sll", LinkType::LINUX_SLL),
        ("sll2", LinkType::LINUX_SLL2),
    ] {
        let packets: Vec<_> = (0..400)
            .map(|n| {
                let packet = on_link(&mut chance, link);
                let captured = if n % 2 == 0 { packet.len() } else { chance.below(packet.len() as u64) as usize };
                (packet, captured)
            })
            .collect();
        compare(name, link, &packets);
    }
}
