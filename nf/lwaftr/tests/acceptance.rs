//! The acceptance cases of Snabb's lwAFTR: its configurations, imported, and its packets and counters; each once more with VLAN tags on both sides.
//!
//! They are looked for in `../shared/data/lwaftr` beside the repository, or where `WEIR_LWAFTR_CASES` says; without them there is nothing to show.
//! What is different by design is masked, here and nowhere else:
//!
//! - Packets come to whatever MAC address; they are sent to the port's. ARP keeps its own; so does neighbour discovery, but for a
//!   solicitation of one address that came to all stations.
//! - Answers to pings go where routes lead, to the next hop, and not back to where the frame came from: their MAC addresses are not compared.
//! - An IPv4 packet that is cut or put together keeps its identification (RFC 791); Snabb writes its own. It is not compared, with the header's
//!   checksum, nor are identifications of IPv6 fragments; that fragments of a packet have one in common is checked.
//! - Advertisements have the override flag (RFC 4861 section 7.2.4); Snabb does not set it.
//! - ARP and neighbour discovery are counted by the network layer and not by the relay.
//! - Multicast listener reports and announcements of own addresses are left out: Snabb sends none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::{PortSpec, Rig, interface};
use serde_json::{Value, json};
use weir_lwaftr::import_snabb;

const MASKED_LAYER: [&str; 12] = [
    "in-arp-request-packets",
    "in-arp-request-bytes",
    "out-arp-reply-packets",
    "out-arp-reply-bytes",
    "in-ndp-ns-packets",
    "in-ndp-ns-bytes",
    "out-ndp-ns-packets",
    "out-ndp-ns-bytes",
    "out-ndp-na-packets",
    "out-ndp-na-bytes",
    "memuse-ipv4-frag-reassembly-buffer",
    "memuse-ipv6-frag-reassembly-buffer",
];

fn folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/lwaftr");
    let further = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/lwaftr");
    let said = std::env::var_os("WEIR_LWAFTR_CASES").map(PathBuf::from);
    said.into_iter().chain([beside, further]).find(|folder| folder.join("cases.csv").exists())
}

/// The frames of a capture file.
fn frames(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).unwrap();
    let little = bytes[..4] == [0xd4, 0xc3, 0xb2, 0xa1];
    let number = |at: usize| {
        let four: [u8; 4] = bytes[at..at + 4].try_into().unwrap();
        (if little { u32::from_le_bytes(four) } else { u32::from_be_bytes(four) }) as usize
    };
    let (mut at, mut found) = (24, Vec::new());
    while at + 16 <= bytes.len() {
        let length = number(at + 8);
        found.push(bytes[at + 16..at + 16 + length].to_vec());
        at += 16 + length;
    }
    found
}

fn named(folder: &Path, name: &str) -> Vec<Vec<u8>> {
    if name.is_empty() { Vec::new() } else { frames(&folder.join(format!("{name}.pcap"))) }
}

/// A flat table of numbers.
fn counters(path: &Path) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(path).unwrap();
    let line = |line: &str| {
        let (name, number) = line.trim().strip_prefix("[\"")?.split_once("\"] = ")?;
        Some((name.to_owned(), number.trim_end_matches(',').parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

fn mac(text: &str) -> [u8; 6] {
    let bytes: Vec<u8> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    bytes.try_into().unwrap()
}

/// The VLANs of both sides where packets are tagged.
const VLANS: [u16; 2] = [1092, 1638];

/// A configuration, with tags if there are none.
fn conf(path: &Path, is_tagged: bool) -> String {
    let text = fs::read_to_string(path).unwrap();
    if !is_tagged || text.contains("vlan-tag") {
        return text;
    }
    let [four, six] = VLANS.map(|vlan| format!("vlan-tag {vlan};\n        next-hop {{"));
    // The side of the Internet comes first.
    let (before, behind) = text.rsplit_once("next-hop {").unwrap();
    let before = before.replacen("next-hop {", &four, 1);
    format!("{before}{six}{behind}")
}

/// A frame with the tag of a side, where packets are tagged.
fn with_tag(mut frame: Vec<u8>, port: usize, is_tagged: bool) -> Vec<u8> {
    if is_tagged && frame[12..14] != [0x81, 0] {
        let [high, low] = VLANS[port].to_be_bytes();
        frame.splice(12..12, [0x81, 0, high, low]);
    }
    frame
}

/// A relay as a configuration has it.
fn relay(conf: &str) -> (Rig, [[u8; 6]; 2]) {
    let imported = import_snabb(conf).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let macs = [0, 1].map(|n| mac(imported.macs[n].as_deref().unwrap()));
    let (mut ports, mut interfaces, mut config) = (Vec::new(), Vec::new(), json!({}));
    for (kind, value) in &imported.declarations {
        match *kind {
            "port" => ports.push(PortSpec {
                name: if value["name"] == "internet" { "internet" } else { "access" },
                addresses: value["address"].as_str().map(str::to_owned).into_iter().collect(),
                mac: macs[ports.len()],
                mtu: 9000,
            }),
            "interface" => {
                let text = |key: &str| value[key].as_str().unwrap();
                let vlan = value["vlan"].as_u64().unwrap() as u16;
                interfaces.push(interface(text("name"), text("on"), vlan, &[text("address")]));
            }
            _ => config = value.clone(),
        }
    }
    config["neighbor_timers"] = json!({ "own_probes": 0 });
    (Rig::with(&ports, interfaces, config), macs)
}

/// Where the network header begins.
fn l3(frame: &[u8]) -> usize {
    if frame[12..14] == [0x81, 0] { 18 } else { 14 }
}

fn is_ip(frame: &[u8]) -> bool {
    let at = l3(frame);
    matches!(frame[at - 2..at], [8, 0]) || (matches!(frame[at - 2..at], [0x86, 0xdd]) && !is_discovery(frame))
}

/// Neighbour discovery and multicast listeners.
fn is_discovery(frame: &[u8]) -> bool {
    let at = l3(frame);
    let next = frame[at + 6];
    next == 58 && (133..=137).contains(&frame[at + 40]) || next == 0
}

/// Whether a frame asks for a neighbour: ARP, or a solicitation for somebody else's address.
fn asks(frame: &[u8]) -> bool {
    let at = l3(frame);
    let is_arp = frame[at - 2..at] == [8, 6] && frame[at + 14..at + 18] != frame[at + 24..at + 28];
    // As long as its own address is tried (RFC 4862), the relay asks from a link-local one.
    let is_own = frame[at + 8..at + 24] != [0; 16] && frame[at + 8] != 0xfe;
    is_arp || (is_discovery(frame) && frame[at + 40] == 135 && is_own)
}

/// Whether a frame tells routers of multicast groups: it begins with hop-by-hop options.
fn reports(frame: &[u8]) -> bool {
    let at = l3(frame);
    frame[at - 2..at] == [0x86, 0xdd] && frame[at + 6] == 0
}

/// What is compared of a frame that was sent, in a case in which packets are cut or put together or not.
fn masked(frame: &[u8], is_cut: bool) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let at = l3(&frame);
    match frame[at - 2..at] {
        [8, 0] => mask_four(&mut frame, at, is_cut),
        [0x86, 0xdd] => mask_six(&mut frame, at, is_cut),
        _ => {}
    }
    frame
}

/// Whether a frame has a fragment, or an IPv4 fragment in a tunnel.
fn is_fragment(frame: &[u8]) -> bool {
    let at = l3(frame);
    let is_four = |at: usize| frame[at + 6] & 0x3f != 0 || frame[at + 7] != 0;
    match frame[at - 2..at] {
        [8, 0] => is_four(at),
        [0x86, 0xdd] => frame[at + 6] == 44 || frame[at + 6] == 4 && is_four(at + 40),
        _ => false,
    }
}

fn mask_four(frame: &mut [u8], at: usize, is_cut: bool) {
    if is_cut {
        frame[at + 4..at + 6].fill(0);
        frame[at + 10..at + 12].fill(0);
    }
    if at < 20 && frame[at + 9] == 1 && frame[at + 20] == 0 {
        frame[..12].fill(0);
    }
}

fn mask_six(frame: &mut [u8], at: usize, is_cut: bool) {
    match frame[at + 6] {
        4 if frame.len() >= at + 60 => mask_four(frame, at + 40, is_cut),
        44 => {
            frame[at + 44..at + 48].fill(0);
            if frame[at + 42..at + 44] == [0, 1] && frame[at + 40] == 4 {
                mask_four(frame, at + 48, is_cut);
            }
        }
        58 if frame[at + 40] == 129 => frame[..12].fill(0),
        58 if frame[at + 40] == 136 => {
            frame[at + 42..at + 44].fill(0);
            frame[at + 44] &= !0x20;
        }
        _ => {}
    }
}

/// Fragments of one packet have one identification.
fn check_fragments(sent: &[Vec<u8>]) {
    let ids =
        |is: fn(&[u8]) -> Option<Vec<u8>>| -> Vec<Vec<u8>> { sent.iter().filter_map(|frame| is(frame)).collect() };
    let four = ids(|frame| {
        let at = l3(frame);
        let cut = frame[at - 2..at] == [8, 0] && (frame[at + 6] & 0x3f != 0 || frame[at + 7] != 0);
        cut.then(|| frame[at + 4..at + 6].to_vec())
    });
    let six = ids(|frame| {
        let at = l3(frame);
        (frame[at - 2..at] == [0x86, 0xdd] && frame[at + 6] == 44).then(|| frame[at + 44..at + 48].to_vec())
    });
    for ids in [four, six] {
        assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{ids:?}");
    }
}

fn hex(frames: &[Vec<u8>]) -> String {
    let line = |frame: &Vec<u8>| frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    frames.iter().map(|frame| format!("    {}\n", line(frame))).collect()
}

/// Plays a case; answers what is wrong.
fn play(folder: &Path, case: &[String], is_tagged: bool) -> Result<(), String> {
    let [_, _, named_conf, in_v4, in_v6, out_v4, out_v6, counted] = case else { panic!("{case:?}") };
    let (mut rig, macs) = relay(&conf(&folder.join(format!("{named_conf}.conf")), is_tagged));
    for (port, name) in [in_v4, in_v6].into_iter().enumerate() {
        let frames = named(folder, name).into_iter().map(|mut frame| {
            if is_ip(&frame) || frame[..6] == [0xff; 6] && frame[12..14] == [0x86, 0xdd] {
                frame[..6].copy_from_slice(&macs[port]);
            }
            with_tag(frame, port, is_tagged)
        });
        rig.handles[port].send_all(frames);
    }
    rig.settle();
    let all = [in_v4, in_v6, out_v4, out_v6].map(|name| named(folder, name));
    let is_cut = all.iter().flatten().any(|frame| is_fragment(frame));
    let mut problems = String::new();
    for (port, name) in [out_v4, out_v6].into_iter().enumerate() {
        let mut sent: Vec<Vec<u8>> = rig.first[port].iter().filter(|frame| asks(frame)).cloned().collect();
        sent.extend(rig.handles[port].received());
        check_fragments(&sent);
        let mut sent: Vec<Vec<u8>> =
            sent.iter().filter(|frame| !reports(frame)).map(|frame| masked(frame, is_cut)).collect();
        // The same question again and again, as long as nobody answers.
        sent.dedup_by(|one, other| one == other && asks(one));
        let expected = named(folder, name).into_iter().map(|frame| with_tag(frame, port, is_tagged));
        let expected: Vec<Vec<u8>> = expected.map(|frame| masked(&frame, is_cut)).collect();
        for (frame, expected) in sent.iter_mut().zip(&expected) {
            // What fills a short frame up is none of its packet.
            if frame.len() <= 64 && frame[expected.len().min(frame.len())..].iter().all(|byte| *byte == 0) {
                frame.truncate(expected.len());
            }
        }
        if sent != expected {
            problems += &format!("  port {port}: sent\n{}  expected\n{}", hex(&sent), hex(&expected));
        }
    }
    let mut expected = counters(&folder.join(format!("counters/{counted}.lua")));
    expected.retain(|name, _| !MASKED_LAYER.contains(&name.as_str()) && !name.contains("-echo-"));
    let mut found = rig.counts();
    // What is the network layer's was not looked at for fragments here.
    if !found.keys().any(|name| name.starts_with("in-ipv")) && !found.keys().any(|name| name.contains("misplaced")) {
        expected.retain(|name, _| !name.contains("-frag"));
        found.retain(|name, _| !name.contains("-frag"));
    }
    let is_layer_too = in_v4.starts_with("ping-v4-and");
    if is_layer_too {
        for name in ["in-ipv4-frag-reassembly-unneeded", "out-ipv4-frag-not"] {
            let layer = expected.get_mut(name).unwrap();
            *layer -= 1;
        }
        expected.retain(|_, count| *count > 0);
    }
    if found != expected {
        let differ = |name: &String| found.get(name) != expected.get(name);
        let names: Vec<&String> = found.keys().chain(expected.keys()).filter(|name| differ(name)).collect();
        for name in names {
            problems += &format!("  {name}: {:?}, expected {:?}\n", found.get(name), expected.get(name));
        }
    }
    let drops = rig.drops();
    rig.finish();
    if problems.is_empty() { Ok(()) } else { Err(format!("{problems}  drops {drops:?}\n")) }
}

/// The fields of a line of CSV.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            letter => fields.last_mut().unwrap().push(letter),
        }
    }
    fields
}

#[test]
fn all_cases_pass() {
    let Some(folder) = folder() else {
        println!(
            "skipped: the acceptance cases are not in ../shared/data/lwaftr; WEIR_LWAFTR_CASES may name their folder"
        );
        return;
    };
    let cases = fs::read_to_string(folder.join("cases.csv")).unwrap();
    let (mut wrong, mut played) = (String::new(), 0);
    for line in cases.lines().skip(1) {
        let case = fields(line);
        played += 1;
        for is_tagged in [false, true] {
            if let Err(problem) = play(&folder, &case, is_tagged) {
                let how = if is_tagged { ", tagged" } else { "" };
                wrong += &format!("case {}{how} ({}):\n{problem}", case[0], case[1]);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(played >= 42, "{played}");
}

/// Answers depend on nothing but the packets of a case: whatever is imported can be written and read as a script.
#[test]
fn every_configuration_is_imported() {
    let Some(folder) = folder() else {
        println!("skipped: the acceptance cases are not in ../shared/data/lwaftr");
        return;
    };
    let all = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut count = 0;
    for conf in all.filter(|path| path.extension().is_some_and(|extension| extension == "conf")) {
        let imported = import_snabb(&fs::read_to_string(&conf).unwrap()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let (_, relay) = imported.declarations.last().unwrap();
        let softwires: &Vec<Value> = relay["softwires"].as_array().unwrap();
        assert_eq!(softwires.len(), 12, "{}", conf.display());
        assert_eq!(imported.to_lua().matches("psid_length").count(), 12);
        count += 1;
    }
    assert!(count >= 9, "{count}");
}
