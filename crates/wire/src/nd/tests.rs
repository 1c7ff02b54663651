use super::*;
use proptest::prelude::*;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// Ethernet, IPv6 and checksum around a message by hand; `hop_limit` and all others as they are told.
fn packet(from: Ipv6Addr, to: Ipv6Addr, hop_limit: u8, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let fixed = [0x60, 0, 0, 0, 0, message.len() as u8, 58, hop_limit];
    let mut packet = [&fixed[..], &from.octets(), &to.octets()].concat();
    message[2..4].fill(0);
    let sum = pseudo(Ipv6::view(&packet).unwrap(), message.len()).bytes(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    packet.extend(message);
    packet
}

fn is_valid(frame: &[u8]) -> bool {
    let (ip, message) = Ipv6::split(&frame[14..]).unwrap();
    usize::from(ip.payload_length.get()) == message.len() && pseudo(ip, message.len()).bytes(message).fold() == 0xffff
}

fn solicitation(target: Ipv6Addr, options: &[u8]) -> Vec<u8> {
    [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target.octets(), options].concat()
}

fn advertisement(target: Ipv6Addr, flags: u8, options: &[u8]) -> Vec<u8> {
    [&[136, 0, 0, 0, flags, 0, 0, 0][..], &target.octets(), options].concat()
}

#[test]
fn a_solicitation_goes_to_the_solicited_node() {
    // RFC 4291 section 2.7.1: 4037::01:800:200e:8c6c has the solicited-node address ff02::1:ff0e:8c6c.
    assert_eq!(solicited_node(ip("4037::01:800:200e:8c6c")), ip("ff02::1:ff0e:8c6c"));
    let mut frame = [0; FRAME_LEN];
    assert_eq!(write_solicitation(&mut frame, OWN, ip("2001:db8::1"), ip("2001:db8::2")), Some(86));
    assert_eq!(frame[..6], [0x33, 0x33, 0xff, 0, 0, 2]);
    let expected = Message::solicitation(ip("2001:db8::1"), OWN, ip("2001:db8::2"));
    assert_eq!(parse(&frame[14..]), Some(expected));
    assert_eq!(expected.group(), Some(MacAddr([0x33, 0x33, 0xff, 0, 0, 2])));
    assert_eq!(frame[14..22], [0x60, 0, 0, 0, 0, 32, 58, 255]);
    assert_eq!(frame[78..], [1, 1, 2, 0, 0, 0, 0, 1]);
    assert_eq!(write_solicitation(&mut [0; 85], OWN, ip("2001:db8::1"), ip("2001:db8::2")), None);
}

/// RFC 4861 section 7.2.4.
#[test]
fn an_advertisement_goes_back_or_to_all_where_nobody_is_named() {
    let (target, asker) = (ip("2001:db8::1"), ip("2001:db8::2"));
    for router in [false, true] {
        let answer = Message::advertisement(target, OWN, asker, router);
        let mut frame = [0; FRAME_LEN];
        assert_eq!(answer.write(&mut frame, OWN, OTHER), Some(FRAME_LEN));
        assert_eq!((&frame[..6], frame[58]), (&OTHER.0[..], 0x60 | u8::from(router) << 7));
        assert_eq!(parse(&frame[14..]), Some(answer));
        let to_all = Message::advertisement(target, OWN, Ipv6Addr::UNSPECIFIED, router);
        assert_eq!((to_all.destination, to_all.group()), (ALL_NODES, Some(MacAddr([0x33, 0x33, 0, 0, 0, 1]))));
        assert!(matches!(to_all.body, Body::Advertisement { flags: Flags { solicited: false, over: true, .. }, .. }));
    }
}

/// RFC 4861 section 7.1.1, clause by clause.
#[test]
fn solicitations_are_valid_or_discarded() {
    let (host, target, node) = (ip("fe80::9"), ip("fe80::1"), ip("ff02::1:ff00:1"));
    let nobody = Ipv6Addr::UNSPECIFIED;
    let link = [1, 1, 2, 0, 0, 0, 0, 9];
    let parses = |packet: Vec<u8>| parse(&packet).is_some();
    assert!(parses(packet(host, node, 255, &solicitation(target, &link))));
    assert!(parses(packet(host, target, 255, &solicitation(target, &[]))));
    // "The IP Hop Limit field has a value of 255".
    assert!((0..=254).all(|limit| !parses(packet(host, node, limit, &solicitation(target, &link)))));
    // "ICMP Code is 0."
    let mut message = solicitation(target, &link);
    message[1] = 1;
    assert!(!parses(packet(host, node, 255, &message)));
    // "ICMP length (derived from the IP length) is 24 or more octets."
    assert!(!parses(packet(host, node, 255, &solicitation(target, &[])[..23])));
    // "Target Address is not a multicast address."
    assert!(!parses(packet(host, node, 255, &solicitation(ip("ff02::1"), &link))));
    // "All included options have a length that is greater than zero." Be it before or behind the one that is looked for.
    for options in [[&[77, 0][..], &[0; 6], &link].concat(), [&link[..], &[77, 0], &[0; 6]].concat()] {
        assert!(!parses(packet(host, node, 255, &solicitation(target, &options))));
    }
    assert!(!parses(packet(host, node, 255, &solicitation(target, &[77, 2, 0, 0, 0, 0, 0, 0]))), "beyond the message");
    assert!(!parses(packet(host, node, 255, &solicitation(target, &[77]))));
    // "If the IP source address is the unspecified address, the IP destination address is a solicited-node multicast address."
    assert!(parses(packet(nobody, node, 255, &solicitation(target, &[]))));
    assert!(!parses(packet(nobody, target, 255, &solicitation(target, &[]))));
    assert!(!parses(packet(nobody, ALL_NODES, 255, &solicitation(target, &[]))));
    // "[...] there is no source link-layer address option in the message."
    assert!(!parses(packet(nobody, node, 255, &solicitation(target, &link))));
    // "The contents of any options not specified MUST be ignored", and so is an address that is no Ethernet address.
    let long = [&[1, 2][..], &[9; 14], &[200, 1, 1, 2, 3, 4, 5, 6]].concat();
    let found = parse(&packet(host, node, 255, &solicitation(target, &long))).unwrap();
    assert_eq!(found.body, Body::Solicitation { target, link: None, nonce: None });
    // RFC 7527.
    let nonce = [14, 1, 1, 2, 3, 4, 5, 6];
    let found = parse(&packet(nobody, node, 255, &solicitation(target, &nonce))).unwrap();
    assert_eq!(found.body, Body::Solicitation { target, link: None, nonce: Some([1, 2, 3, 4, 5, 6]) });
}

/// RFC 4861 section 7.1.2, clause by clause.
#[test]
fn advertisements_are_valid_or_discarded() {
    let (host, own) = (ip("fe80::9"), ip("fe80::1"));
    let parses = |packet: Vec<u8>| parse(&packet).is_some();
    for flags in 0..=255 {
        assert!(parses(packet(host, own, 255, &advertisement(host, flags, &[]))));
        // "If the IP Destination Address is a multicast address the Solicited flag is zero."
        assert_eq!(parses(packet(host, ALL_NODES, 255, &advertisement(host, flags, &[]))), flags & 0x40 == 0);
    }
    assert!(!parses(packet(host, own, 254, &advertisement(host, 0x60, &[]))));
    assert!(!parses(packet(host, own, 255, &advertisement(ip("ff02::5"), 0x60, &[]))));
    assert!(!parses(packet(host, own, 255, &advertisement(host, 0x60, &[2, 0, 0, 0, 0, 0, 0, 0]))));
    assert!(!parses(packet(host, own, 255, &advertisement(host, 0x60, &[])[..23])));
}

#[test]
fn router_solicitations_are_read() {
    let (nobody, host) = (Ipv6Addr::UNSPECIFIED, ip("fe80::9"));
    let ask = |from, option: &[u8]| packet(from, ALL_ROUTERS, 255, &[&[133, 0, 0, 0, 0, 0, 0, 0][..], option].concat());
    let option = [1, 1, 2, 0, 0, 0, 0, 9];
    let none = RouterSolicitation { source: nobody, link: None };
    assert_eq!(parse_router_solicitation(&ask(nobody, &[])), Some(none));
    let valid = ask(host, &option);
    let expected = RouterSolicitation { source: host, link: Some(MacAddr([2, 0, 0, 0, 0, 9])) };
    assert_eq!(parse_router_solicitation(&valid), Some(expected));
    assert_eq!(parse_router_solicitation(&ask(nobody, &option)), None);
    assert!((0..valid.len()).all(|len| parse_router_solicitation(&valid[..len]).is_none()));
    for bit in (0..valid.len() * 8).filter(|bit| !(4..32).contains(bit)) {
        let mut broken = valid.clone();
        broken[bit / 8] ^= 1 << (7 - bit % 8);
        assert_eq!(parse_router_solicitation(&broken), None, "bit {bit}");
    }
}

#[test]
fn a_router_advertisement_lies_as_rfc_4861_draws_it() {
    let own = link_local(OWN);
    assert_eq!(own, ip("fe80::ff:fe00:1"));
    let prefixes = [PrefixInformation::new(ip("2001:db8:0:7::9"), 64)];
    let says = RouterAdvertisement {
        mtu: Some(1500),
        prefixes: &prefixes,
        ..RouterAdvertisement::new(OWN, own, (OTHER, ip("fe80::9")), 1800)
    };
    let frame = says.to_frame();
    assert_eq!(frame.len(), 14 + 40 + 16 + 8 + 8 + 32);
    assert!(is_valid(&frame));
    assert_eq!(frame[14..22], [0x60, 0, 0, 0, 0, 64, 58, 255]);
    let message = &frame[54..];
    assert_eq!(message[..2], [134, 0]);
    assert_eq!(message[4..16], [64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(message[16..32], [1, 1, 2, 0, 0, 0, 0, 1, 5, 1, 0, 0, 0, 0, 5, 0xdc]);
    assert_eq!(message[32..48], [3, 4, 64, 0xc0, 0, 0x27, 0x8d, 0, 0, 9, 0x3a, 0x80, 0, 0, 0, 0]);
    assert_eq!(message[48..], [0x20, 1, 0xd, 0xb8, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0], "host bits are zero");
    let flags = RouterAdvertisement { managed: true, other: true, reachable: 1, retransmit: 2, ..says };
    assert_eq!(flags.to_frame()[58..70], [64, 0xc0, 7, 8, 0, 0, 0, 1, 0, 0, 0, 2]);
}

/// RFC 8106 sections 5.1 and 5.2.
#[test]
fn name_servers_and_domains_are_told() {
    let servers = [ip("2001:db8::53"), ip("2001:db8::54")];
    let domains = ["example.com".to_owned(), "x.example.".to_owned(), "..".to_owned(), "y".repeat(64)];
    let says = RouterAdvertisement {
        dns: Some(Dns { lifetime: 1800, servers: &servers }),
        search: Some(Search { lifetime: 900, domains: &domains }),
        ..RouterAdvertisement::new(OWN, link_local(OWN), (group_mac(ALL_NODES), ALL_NODES), 1800)
    };
    let frame = says.to_frame();
    assert!(is_valid(&frame));
    let options: Vec<_> = Options(&frame[70..]).map(Option::unwrap).collect();
    assert_eq!(options.len(), 3);
    assert_eq!(options[1][..8], [25, 5, 0, 0, 0, 0, 7, 8]);
    assert_eq!(options[1][8..], [servers[0].octets(), servers[1].octets()].concat());
    assert_eq!(options[2][..8], [31, 4, 0, 0, 0, 0, 3, 0x84]);
    assert_eq!(options[2][8..], *b"\x07example\x03com\0\x01x\x07example\0");
    let none = RouterAdvertisement {
        dns: Some(Dns { lifetime: 1, servers: &[] }),
        search: Some(Search { lifetime: 1, domains: &domains[2..] }),
        ..says
    };
    assert_eq!(none.to_frame().len(), 14 + 40 + 16 + 8);
    let many = vec![ip("::9"); 200];
    let full = RouterAdvertisement { dns: Some(Dns { lifetime: 1, servers: &many }), search: None, ..says }.to_frame();
    assert!(Options(&full[70..]).all(|option| option.is_some()) && is_valid(&full));
}

/// RFC 4861 section 4.5: as much of the packet as 1,280 bytes allow.
#[test]
fn a_redirect_quotes_the_packet() {
    for (length, link) in (0..1500).step_by(7).flat_map(|length| [(length, None), (length, Some(OTHER))]) {
        let about = vec![0x5a; length];
        let redirect = Redirect {
            from: (OWN, link_local(OWN)),
            to: (OTHER, ip("2001:db8::9")),
            target: ip("fe80::7"),
            destination: ip("2001:db8:7::1"),
            link,
            packet: &about,
        };
        let frame = redirect.to_frame();
        assert!(is_valid(&frame) && frame.len() - 14 <= 1280);
        assert_eq!((frame[54], &frame[62..78]), (137, &ip("fe80::7").octets()[..]));
        assert_eq!(frame[78..94], ip("2001:db8:7::1").octets());
        let options: Vec<_> = Options(&frame[94..]).map(Option::unwrap).collect();
        assert_eq!(options.len(), 1 + usize::from(link.is_some()));
        let quote = options.last().unwrap();
        let least = length.min(1280 - 40 - 40 - 8 - if link.is_some() { 8 } else { 0 } - 7);
        assert!(quote[0] == 4 && quote.len() >= 8 + least && quote[8..8 + least].iter().all(|&byte| byte == 0x5a));
    }
}

/// RFC 4861 sections 6.1.2 and 8.1.
#[test]
fn advertisements_and_redirects_of_others_are_known() {
    let own = link_local(OWN);
    let to = (group_mac(ALL_NODES), ALL_NODES);
    let advertises = |own| RouterAdvertisement::new(OWN, own, to, 1800).to_frame();
    assert!(is_router_advertisement(&advertises(own)[14..]));
    assert!(!is_router_advertisement(&advertises(ip("2001:db8::1"))[14..]), "its source is not link-local");
    let redirects = |own, target, destination| {
        let to = (OTHER, ip("2001:db8::9"));
        Redirect { from: (OWN, own), to, target, destination, link: None, packet: &[0; 48] }.to_frame()
    };
    let far = ip("2001:db8:7::1");
    assert!(is_redirect(&redirects(own, ip("fe80::7"), far)[14..]) && is_redirect(&redirects(own, far, far)[14..]));
    let wrong = [(ip("2001:db8::1"), ip("fe80::7"), far), (own, ip("2001:db8::7"), far), (own, own, ip("ff02::1"))];
    for (own, target, destination) in wrong {
        assert!(!is_redirect(&redirects(own, target, destination)[14..]));
    }
    for frame in [advertises(own), redirects(own, far, far)] {
        let [mut forwarded, mut broken] = [frame.clone(), frame];
        (forwarded[21], broken[60]) = (254, 1);
        for packet in [&forwarded[14..], &broken[14..]] {
            assert!(!is_router_advertisement(packet) && !is_redirect(packet));
        }
    }
}

#[test]
fn what_was_forwarded_or_changed_is_refused() {
    let mut frame = [0; FRAME_LEN];
    write_solicitation(&mut frame, OWN, ip("2001:db8::1"), ip("2001:db8::2"));
    for bit in (14 * 8..frame.len() * 8).filter(|bit| !(14 * 8 + 4..18 * 8).contains(bit)) {
        let mut other = frame;
        other[bit / 8] ^= 1 << (7 - bit % 8);
        assert_eq!(parse(&other[14..]), None, "bit {bit}");
    }
    assert!((14..86).all(|end| parse(&frame[14..end]).is_none()));
}

fn address() -> impl Strategy<Value = Ipv6Addr> {
    any::<u128>().prop_map(|bits| Ipv6Addr::from_bits(bits & !(0x80 << 120) | 1))
}

fn bodies() -> impl Strategy<Value = Body> {
    let mac = || proptest::option::of(any::<[u8; 6]>().prop_map(MacAddr));
    let flags = any::<u8>().prop_map(Flags::of);
    prop_oneof![
        (address(), mac(), proptest::option::of(any::<Nonce>())).prop_map(|(target, link, nonce)| Body::Solicitation {
            target,
            link,
            nonce
        }),
        (address(), mac(), flags).prop_map(|(target, link, flags)| Body::Advertisement { target, link, flags }),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(source in address(), destination in address(), body in bodies()) {
        let message = Message { source, destination, body };
        let mut frame = [0xee; FRAME_LEN + OPTION];
        let len = message.write(&mut frame, OWN, OTHER).unwrap();
        prop_assert!(is_valid(&frame[..len]));
        prop_assert_eq!(parse(&frame[14..len]), Some(message));
        prop_assert!(frame[len..].iter().all(|&byte| byte == 0xee));
    }

    #[test]
    fn any_bytes_are_answered(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), start: bool) {
        if start && bytes.len() > 8 {
            bytes[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 32, 58, 255]);
        }
        parse(&bytes);
        parse_router_solicitation(&bytes);
        is_router_advertisement(&bytes);
        is_redirect(&bytes);
        prop_assert!(Options(&bytes).count() <= bytes.len());
    }
}
