//! Captures of devices that change packets, against the definitions. What a packet is, is known from how it was made, not from its bytes.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;
#[path = "common/packets.rs"]
mod packets;
#[path = "common/twin.rs"]
mod twin;

use common::{Fate, Frame, arrivals, fate, options, run};
use packets::{BEFORE, BEHIND, Kind, Look, ethertype, framed, ip};
use proptest::prelude::*;
use twin::{Judge, Seen, agree};
use weir_flowstat::models::{self, Bng, Custom, Lwaftr, MatchConfig, Nat, Router};
use weir_flowstat::{Fields, Model, Order, Report, Routes, Softwires, Subscribers};

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

/// Customers who share 10.0.0.0 and 10.0.0.1 by the ports that packets come from, and one who has 10.1.0.0 alone.
fn softwires() -> Softwires {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("softwires.csv");
    let shared =
        (0..4).map(|n| format!("10.0.0.{},{},16,2001:db8:{}::b4,2001:db8::{}\n", n / 2, 1000 + n % 2, n, n % 2));
    let lines: String = shared.collect();
    std::fs::write(&path, format!("ipv4,psid,psid_length,b4,aftr\n{lines}10.1.0.0,,,2001:db8:9::b4,2001:db8::9\n"))
        .unwrap();
    Softwires::read(&path).unwrap()
}

/// The ends of a customer's tunnel, and of the relay's: of who a packet comes from, or of who has 10.1.0.0.
fn ends(kind: Option<&Kind>) -> [std::net::Ipv6Addr; 2] {
    let (network, relay) = match kind {
        Some(kind) => (2 * u16::from(kind.source) + kind.port, kind.port),
        None => (9, 9),
    };
    [(network, 0xb4), (0, relay)]
        .map(|(network, host)| std::net::Ipv6Addr::new(0x2001, 0xdb8, network, 0, 0, 0, 0, host))
}

/// An IPv4 packet in IPv6 (RFC 2473).
fn in_ipv6([source, destination]: [std::net::Ipv6Addr; 2], packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend((packet.len() as u16).to_be_bytes());
    bytes.extend([4, 255]);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend(packet);
    framed(5, &[], 0x86dd, &bytes)
}

/// What customers send, whoever it is for.
fn from_customer(kind: &Kind) -> Vec<u8> {
    in_ipv6(ends(Some(kind)), &ip(&Kind { six: false, ..*kind }, BEFORE))
}

/// What goes to the customer who has an address alone.
fn to_customer(kind: &Kind) -> Vec<u8> {
    let [b4, aftr] = ends(None);
    in_ipv6([aftr, b4], &ip(&Kind { six: false, ..*kind }, BEHIND))
}

/// What comes of packets of customers: to another customer, or to the Internet.
fn relayed(kind: &Kind) -> Vec<u8> {
    let packet = ip(&Kind { six: false, ..*kind }, BEHIND);
    if kind.destination == 0 { to_customer(kind) } else { framed(6, &[], 0x0800, &packet) }
}

fn by_customer_and_way(kind: &Kind) -> Vec<(String, String)> {
    let way = if kind.destination == 0 { "hairpinned" } else { "decapsulated" };
    let subscriber = format!("10.0.0.{} {}", kind.source, 1000 + kind.port);
    [("subscriber", subscriber), ("way", way.to_owned())].map(|(name, value)| (name.to_owned(), value)).to_vec()
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

    #[test]
    fn a_relay_takes_packets_out_of_tunnels_and_into_others(sent in sent(12, from_customer), split: bool) {
        // What looks like IPv6 elsewhere is IPv4 here.
        let four = |kind: &Kind| Kind { six: false, ..*kind };
        let model = || Box::new(Lwaftr { softwires: softwires(), ..Lwaftr::default() });
        let stream: Named = if split { by_customer_and_way } else { no_stream };
        let by = if split { "subscriber,way" } else { "" };
        let (frames, kinds, fates) = sent;
        let sent: Sent = (frames, kinds.iter().map(four).collect(), fates);
        let found = check(model(), by, &sent, relayed, stream);
        prop_assert!(found.is_ok(), "{:?}", found.err());
        // The other way: what was sent comes from the Internet.
        let (frames, kinds, fates) = sent;
        let kinds: Vec<Kind> = kinds.iter().map(|kind| Kind { destination: 0, ..*kind }).collect();
        let frame = |(frame, kind): (&Frame, &Kind)| {
            let data = framed(1, &[], 0x0800, &ip(kind, BEFORE));
            Frame { length: data.len() as u32, data, ..frame.clone() }
        };
        let down: Sent = (frames.iter().zip(&kinds).map(frame).collect(), kinds, fates);
        let named: Named = |_| vec![("way".to_owned(), "encapsulated".to_owned())];
        let found = check(model(), "way", &down, to_customer, named);
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
        assert!(made.is_ok_and(|model| model.name() == name) || ["bng", "lwaftr", "custom"].contains(&name), "{name}");
    }
}

/// Of packets in wrong tunnels it is told; who is quoted by an ICMP error is found.
#[test]
fn packets_in_the_tunnel_of_another_are_told() {
    let kind = |destination, port| Kind { source: 0, destination, id: port, port, protocol: 17, six: false, data: 1 };
    let frame = |data: Vec<u8>| Frame { time: 0, length: data.len() as u32, data, file: 0 };
    let ([b4, aftr], [other_b4, _]) = (ends(Some(&kind(1, 0))), ends(Some(&kind(1, 1))));
    let from = |ends| frame(in_ipv6(ends, &ip(&kind(1, 0), BEFORE)));
    let sent = vec![
        frame(from_customer(&kind(1, 0))),
        frame(from_customer(&kind(0, 1))),
        // In another's tunnel, to what is no relay, and in nobody's tunnel.
        from([other_b4, aftr]),
        from([b4, other_b4]),
        from([aftr, aftr]),
        // Nobody's without a port: the second fragment of a packet, in a customer's tunnel.
        frame({
            let mut packet = from_customer(&kind(1, 0));
            packet[14 + 40 + 7] = 9;
            packet
        }),
        // From the Internet to nobody.
        frame(framed(1, &[], 0x0800, &ip(&kind(1, 0), BEFORE))),
    ];
    let [to_b4, to_aftr] = ends(None);
    let received = vec![
        frame(relayed(&kind(1, 0))),
        frame(relayed(&kind(1, 0))),
        // It should have come out in the tunnel of 10.1.0.0.
        frame(in_ipv6([aftr, b4], &ip(&kind(0, 1), BEHIND))),
        frame(in_ipv6([to_b4, to_aftr], &ip(&kind(0, 1), BEHIND))),
    ];
    let report = run(&options(Box::new(Lwaftr { softwires: softwires(), ..Lwaftr::default() })), &sent, &received);
    assert_eq!((report.sent.counted, report.sent.misaddressed, report.sent.unidentified), (2, 3, 2));
    assert_eq!((report.received.counted, report.received.misaddressed, report.received.unidentified), (2, 2, 0));
    let total = &report.total;
    assert_eq!((total.matched, total.duplicated, total.lost, total.unmatched), (1, 1, 1, 0));
    assert_eq!(
        report.notes.iter().filter(|note| note.contains("tunnel that is not theirs")).count(),
        1,
        "{:?}",
        report.notes
    );
}

#[test]
fn an_icmp_error_is_for_whoever_sent_what_it_quotes() {
    // From a router of the Internet to 10.0.0.1: a packet of its customer with the port 1001 was too big (RFC 792).
    let sent = Kind { source: 1, destination: 1, id: 1, port: 1, protocol: 17, six: false, data: 1 };
    let error = |ttl: u8| {
        let mut bytes =
            vec![0x45, 0, 0, 56, 0, 9, 0, 0, ttl, 1, 0, 0, 203, 0, 113, 1, 10, 0, 0, 1, 3, 4, 0, 0, 0, 0, 5, 180];
        bytes.extend(ip(&sent, BEFORE).iter().take(28));
        bytes
    };
    let frame = |data: Vec<u8>| Frame { time: 0, length: data.len() as u32, data, file: 0 };
    let [b4, aftr] = ends(Some(&sent));
    let mut options = options(Box::new(Lwaftr { softwires: softwires(), ..Lwaftr::default() }));
    options.by = Fields::parse("way,subscriber").unwrap();
    let before = [frame(framed(1, &[], 0x0800, &error(64)))];
    let report = run(&options, &before, &[frame(in_ipv6([aftr, b4], &error(63)))]);
    assert_eq!((report.total.matched, report.received.misaddressed), (1, 0));
    let key = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(report.streams[0].key, [key("way", "encapsulated"), key("subscriber", "10.0.0.1 1001")]);
    // What the customer says about a packet that came to it goes out (type 3, code 3), by the port that the packet came to.
    let came = ip(&Kind { source: 7, destination: 0, port: 3, ..sent }, BEFORE);
    let mut answer = vec![0x45, 0, 0, 56, 0, 9, 0, 0, 64, 1, 0, 0, 10, 1, 0, 0, 10, 0, 0, 7, 3, 3, 0, 0, 0, 0, 0, 0];
    answer.extend(came.iter().take(28));
    let [b4, aftr] = ends(None);
    let report = run(&options, &[frame(in_ipv6([b4, aftr], &answer))], &[frame(framed(1, &[], 0x0800, &answer))]);
    assert_eq!((report.total.matched, report.streams[0].key[0].1.as_str()), (1, "decapsulated"));
}
