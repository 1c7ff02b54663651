//! Captures of devices that change packets, against the definitions. What a packet is, is known from how it was made, not from its bytes.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;
#[path = "common/twin.rs"]
mod twin;

use common::{Fate, Frame, arrivals, fate, options, run};
use proptest::prelude::*;
use twin::{Judge, Seen, agree};
use weir_flowstat::models::{self, Bng, Custom, MatchConfig, Nat, Router};
use weir_flowstat::{Fields, Model, Order, Report, Routes, Subscribers};

/// What a packet is, whatever stands around it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kind {
    source: u8,
    destination: u8,
    id: u16,
    port: u16,
    /// UDP, TCP or ICMP.
    protocol: u8,
    six: bool,
    data: u8,
}

fn kind(variety: u8) -> impl Strategy<Value = Kind> {
    let names = (0..2u8, 0..2u8, 0..2u16);
    (names, 0..u16::from(variety), prop_oneof![Just(17u8), Just(6), Just(1)], any::<bool>(), 0..2u8).prop_map(
        |((source, destination, port), id, protocol, six, data)| {
            // ICMP over IPv6 is another protocol.
            let six = six && protocol != 1;
            Kind { source, destination, id: if six { 0 } else { id }, port, protocol, six, data }
        },
    )
}

/// What differs between both sides.
#[derive(Clone, Copy, Debug)]
struct Look {
    ttl: u8,
    ecn: u8,
    /// What flows are called there.
    offset: u8,
}

fn transport(kind: &Kind, look: Look) -> Vec<u8> {
    let (port, data) = (1000 + kind.port + 10 * u16::from(look.offset), vec![kind.data; 9]);
    // Checksums follow from the addresses, so that they differ where these do.
    let sum = [look.offset, kind.data];
    let mut bytes = Vec::new();
    match kind.protocol {
        17 => {
            bytes.extend(port.to_be_bytes());
            bytes.extend(53u16.to_be_bytes());
            bytes.extend([0, 17]);
            bytes.extend(sum);
        }
        6 => {
            bytes.extend(port.to_be_bytes());
            bytes.extend([0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 1]);
            bytes.extend(sum);
            bytes.extend([0, 0]);
        }
        _ => {
            bytes.extend([8, 0]);
            bytes.extend(sum);
            bytes.extend(port.to_be_bytes());
            bytes.extend([0, 1]);
        }
    }
    bytes.extend(data);
    bytes
}

fn ip(kind: &Kind, look: Look) -> Vec<u8> {
    let transport = transport(kind, look);
    let mut bytes = Vec::new();
    if kind.six {
        bytes.extend([0x60, look.ecn << 4, 0, 0]);
        bytes.extend((transport.len() as u16).to_be_bytes());
        bytes.extend([kind.protocol, look.ttl]);
        for host in [kind.source + 10 * look.offset, 100 + kind.destination] {
            bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
        }
    } else {
        bytes.extend([0x45, look.ecn]);
        bytes.extend((20 + transport.len() as u16).to_be_bytes());
        bytes.extend(kind.id.to_be_bytes());
        bytes.extend([0, 0, look.ttl, kind.protocol, 0, 0]);
        bytes.extend([10, 0, 0, kind.source + 10 * look.offset, 10, 1, 0, kind.destination]);
        let sum = weir_wire::checksum::Sum::new().bytes(&bytes).checksum();
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    bytes.extend(transport);
    bytes
}

/// A frame around it, behind headers of so many bytes, padded to the least length.
fn framed(mac: u8, between: &[u8], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, mac, 2, 0, 0, 0, 1, mac];
    bytes.extend(between);
    bytes.extend(ethertype.to_be_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().max(60), 0);
    bytes
}

fn ethertype(kind: &Kind) -> u16 {
    if kind.six { 0x86dd } else { 0x0800 }
}

const BEFORE: Look = Look { ttl: 64, ecn: 0, offset: 0 };
const BEHIND: Look = Look { ttl: 63, ecn: 3, offset: 0 };

/// What was sent, what it was, and when each of it arrives.
type Sent = (Vec<Frame>, Vec<Kind>, Vec<Fate>);

fn sent(variety: u8, before: fn(&Kind) -> Vec<u8>) -> impl Strategy<Value = Sent> {
    let packet = (0..50i64, kind(variety), fate(300));
    proptest::collection::vec(packet, 0..50).prop_map(move |packets| {
        let (mut time, mut sent) = (0, (Vec::new(), Vec::new(), Vec::new()));
        for (pause, kind, fate) in packets {
            time += pause;
            let data = before(&kind);
            sent.0.push(Frame { time, length: data.len() as u32, data, file: 0 });
            sent.1.push(kind);
            sent.2.push(fate);
        }
        sent
    })
}

/// What arrives, and what it is.
fn received(sent: &Sent, behind: impl Fn(&Kind) -> Vec<u8>) -> (Vec<Frame>, Vec<Kind>) {
    let (frames, kinds, fates) = sent;
    // The number of the packet takes the place of its bytes until it has arrived.
    let numbered: Vec<Frame> =
        frames.iter().enumerate().map(|(n, frame)| Frame { data: n.to_be_bytes().to_vec(), ..frame.clone() }).collect();
    let arrived = arrivals(&numbered, fates, &[], |frame| frame.data.clone());
    let kind = |frame: &Frame| kinds[usize::from_be_bytes(frame.data.as_slice().try_into().unwrap())];
    let kinds: Vec<Kind> = arrived.iter().map(kind).collect();
    let frame = |(frame, kind): (&Frame, &Kind)| {
        let data = behind(kind);
        Frame { length: data.len() as u32, data, ..frame.clone() }
    };
    (arrived.iter().zip(&kinds).map(frame).collect(), kinds)
}

fn judge() -> Judge {
    Judge { window: 1_000_000_000, after: 0, corrected: Box::new(|time| time), synchronised: true, profile: None }
}

type Named = fn(&Kind) -> Vec<(String, String)>;

fn check(
    model: Box<dyn Model>,
    by: &str,
    sent: &Sent,
    behind: impl Fn(&Kind) -> Vec<u8>,
    stream: Named,
) -> Result<Report, String> {
    let (arrived, kinds) = received(sent, behind);
    let mut options = options(model);
    options.by = Fields::parse(by).unwrap();
    options.order = Order::Key;
    let report = run(&options, &sent.0, &arrived);
    let seen = |frames: &[Frame], kinds: &[Kind]| -> Vec<Seen> {
        let one = |(frame, kind): (&Frame, &Kind)| Seen {
            time: frame.time,
            key: format!("{kind:?}").into_bytes(),
            length: frame.length,
            stream: stream(kind),
        };
        frames.iter().zip(kinds).map(one).collect()
    };
    agree(&report, &judge(), &seen(&sent.0, &sent.1), &seen(&arrived, &kinds))?;
    Ok(report)
}

fn no_stream(_: &Kind) -> Vec<(String, String)> {
    Vec::new()
}

fn address(kind: &Kind, host: u8, net: u8) -> String {
    let six = std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(host + 100 * net));
    if kind.six { six.to_string() } else { format!("10.{net}.0.{host}") }
}

fn by_addresses(kind: &Kind) -> Vec<(String, String)> {
    let (source, destination) = (address(kind, kind.source, 0), address(kind, kind.destination, 1));
    [("src", source), ("dst", destination)].map(|(name, value)| (name.to_owned(), value)).to_vec()
}

fn untagged(kind: &Kind) -> Vec<u8> {
    framed(1, &[], ethertype(kind), &ip(kind, BEFORE))
}

/// With two tags of VLANs that say who the subscriber is.
fn subscribed(kind: &Kind) -> Vec<u8> {
    framed(1, &[0x88, 0xa8, 0, 7, 0x81, 0, 0x20, kind.source], ethertype(kind), &ip(kind, BEFORE))
}

/// In GRE with a key, in IPv4, behind a label.
fn tunnelled(kind: &Kind) -> Vec<u8> {
    let inner = ip(kind, BEHIND);
    let mut outer = vec![0x45, 0];
    outer.extend((28 + inner.len() as u16).to_be_bytes());
    outer.extend([0, 0, 0x40, 0, 64, 47, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    let sum = weir_wire::checksum::Sum::new().bytes(&outer).checksum();
    outer[10..12].copy_from_slice(&sum.to_be_bytes());
    outer.extend([0x20, 0]);
    outer.extend(ethertype(kind).to_be_bytes());
    outer.extend([0, 0, 1, kind.source]);
    outer.extend(inner);
    let mut labelled = vec![0, 0, 0x11, 0xff];
    labelled.extend(outer);
    framed(9, &[], 0x8847, &labelled)
}

fn subscribers() -> Subscribers {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("subscribers.csv");
    std::fs::write(&path, "svlan,cvlan,gre,subscriber\n7,0,256,anna\n7,1,257,bert\n").unwrap();
    Subscribers::read(&path).unwrap()
}

fn by_subscriber(kind: &Kind) -> Vec<(String, String)> {
    vec![("subscriber".to_owned(), ["anna", "bert"][usize::from(kind.source)].to_owned())]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_router_changes_link_ttl_checksum_and_ecn(sent in sent(12, untagged), tagged: bool, split: bool) {
        let behind = |kind: &Kind| {
            let tag: &[u8] = if tagged { &[0x81, 0, 0, 99] } else { &[] };
            let mut frame = framed(7, tag, ethertype(kind), &ip(kind, BEHIND));
            // Padding is no part of the packet.
            frame.extend([0xee; 5]);
            frame
        };
        let stream: Named = if split { by_addresses } else { no_stream };
        let by = if split { "src,dst" } else { "" };
        let found = check(Box::new(Router::default()), by, &sent, behind, stream);
        prop_assert!(found.is_ok(), "{:?}", found.err());
    }

    #[test]
    fn a_gateway_turns_tags_into_keys_and_back(sent in sent(12, subscribed), split: bool) {
        let model = || Box::new(Bng { subscribers: subscribers(), ..Bng::default() });
        let stream: Named = if split { by_subscriber } else { no_stream };
        let by = if split { "subscriber" } else { "" };
        let found = check(model(), by, &sent, tunnelled, stream);
        prop_assert!(found.is_ok(), "{:?}", found.err());
        // The other way: what was sent comes from the core.
        let (frames, kinds, fates) = sent;
        let frame = |(frame, kind): (&Frame, &Kind)| {
            let data = tunnelled(kind);
            Frame { length: data.len() as u32, data, ..frame.clone() }
        };
        let down: Sent = (frames.iter().zip(&kinds).map(frame).collect(), kinds, fates);
        let found = check(model(), by, &down, subscribed, stream);
        prop_assert!(found.is_ok(), "{:?}", found.err());
    }

    /// Each flow shows by a packet of its own kind what it is called behind the device; then packets that look like those of
    /// other flows are told apart all the same.
    #[test]
    fn a_translator_shows_which_flow_becomes_which(sent in sent(3, untagged)) {
        let (mut frames, mut kinds, mut fates) = (Vec::new(), Vec::new(), Vec::new());
        let mut flows: Vec<(u8, u8, u16, u8, bool)> = Vec::new();
        let flow = |kind: &Kind| (kind.source, kind.destination, kind.port, kind.protocol, kind.six);
        for kind in &sent.1 {
            if !flows.contains(&flow(kind)) {
                flows.push(flow(kind));
                let first = Kind { data: 100 + flows.len() as u8, ..*kind };
                let data = untagged(&first);
                frames.push(Frame { time: -1000, length: data.len() as u32, data, file: 0 });
                kinds.push(first);
                fates.push(Fate::Through(5));
            }
        }
        frames.extend(sent.0);
        kinds.extend(sent.1);
        fates.extend(sent.2);
        let behind = |kind: &Kind| {
            framed(3, &[], ethertype(kind), &ip(kind, Look { ttl: 63, ecn: 0, offset: 3 }))
        };
        let found = check(Box::new(Nat::default()), "src,dst", &(frames, kinds, fates), behind, by_addresses);
        prop_assert!(found.is_ok(), "{:?}", found.err());
        prop_assert_eq!(found.unwrap().total.bindings, Some(flows.len() as u64));
    }

    #[test]
    fn a_script_says_what_is_kept(sent in sent(12, subscribed)) {
        let parts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        // The tag is two bytes wide, and so is what stands for it behind the device: the lower half of the key.
        let config = MatchConfig {
            sent: parts(&["cvlan", "inner", "payload"]),
            received: parts(&["frame[44:2]", "inner", "payload"]),
        };
        let behind = |kind: &Kind| {
            let mut frame = tunnelled(kind);
            frame[44] = 0;
            frame
        };
        let found = check(Box::new(Custom::new(&config).unwrap()), "", &sent, behind, no_stream);
        prop_assert!(found.is_ok(), "{:?}", found.err());
    }
}

#[test]
fn packets_that_leave_elsewhere_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("routes.csv");
    std::fs::write(&path, "prefix,port\n10.1.0.0/32,east\n10.1.0.1/32,west\n").unwrap();
    let routes = Some(Routes::read(&path, &["east".to_owned()]).unwrap());
    let kind = |destination| Kind { source: 0, destination, id: 1, port: 1, protocol: 17, six: false, data: 1 };
    let frame = |destination, look| {
        let data = framed(1, &[], 0x0800, &ip(&kind(destination), look));
        Frame { time: 0, length: data.len() as u32, data, file: 0 }
    };
    let sent: Vec<Frame> = [0, 1, 2, 0].map(|destination| frame(destination, BEFORE)).to_vec();
    let received = vec![frame(0, BEHIND)];
    let report = run(&options(Box::new(Router { routes, ..Router::default() })), &sent, &received);
    assert_eq!((report.sent.elsewhere, report.total.filtered_sent, report.total.sent), (2, 2, 2));
    assert_eq!((report.total.matched, report.total.lost, report.total.ambiguous), (1, 1, 1));
}

#[test]
fn packets_of_nobody_are_told() {
    let kind = Kind { source: 5, destination: 0, id: 1, port: 1, protocol: 17, six: false, data: 1 };
    let frame = |data: Vec<u8>| Frame { time: 0, length: data.len() as u32, data, file: 0 };
    let sent = vec![frame(subscribed(&kind)), frame(subscribed(&Kind { source: 0, ..kind }))];
    // It comes out for somebody else.
    let mut received = tunnelled(&Kind { source: 0, ..kind });
    received[45] = 1;
    let model = Bng { subscribers: subscribers(), ..Bng::default() };
    let report = run(&options(Box::new(model)), &sent, &[frame(received)]);
    assert_eq!((report.sent.unidentified, report.total.lost, report.total.unmatched), (1, 1, 1));
}

#[test]
fn what_does_not_fit_together_is_told_at_once() {
    let sources = models::Sources { bytes: Some(9), captured: vec!["a".to_owned()], ..models::Sources::default() };
    assert_eq!(models::make("signature", &sources).err().unwrap().len(), 3);
    assert_eq!(models::make("bng", &models::Sources::default()).err().unwrap(), ["--model bng needs --subscribers"]);
    let wrong = |sent: &[&str], received: &[&str]| {
        let parts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Custom::new(&MatchConfig { sent: parts(sent), received: parts(received) }).unwrap_err()
    };
    let told = wrong(&["scr", "frame[x:2]", "top[1:2]"], &["src", "frame[0:0]", "subscriber", "id"]);
    assert_eq!(told.len(), 6, "{told:#?}");
    assert!(told[0].contains("did you mean src?"), "{told:#?}");
    for (name, _) in models::MODELS {
        let made = models::make(name, &models::Sources::default());
        assert!(made.is_ok_and(|model| model.name() == name) || ["bng", "custom"].contains(&name), "{name}");
    }
}
