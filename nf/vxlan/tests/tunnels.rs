//! What becomes of frames and packets, by RFC 7348.

use serde_json::json;

use crate::common::{BLUE, MAC, MTU, Outer, RED, ROUTER, Rig, SIX, WAN, frame, plain, tagged, usual};

/// The UDP source port and the rest of a packet that left, whose flow label counts as part of the port.
fn parted(sent: &[u8]) -> (u16, Vec<u8>) {
    assert_eq!(sent[..12], [ROUTER, MAC].concat());
    let mut packet = sent[14..].to_vec();
    let is_six = packet[0] >> 4 == 6;
    assert_eq!(sent[12..14], if is_six { [0x86, 0xdd] } else { [8, 0] });
    if is_six {
        packet[1] &= 0xf0;
        packet[2..4].fill(0);
    }
    let at = if is_six { 40 } else { 20 };
    let port = u16::from_be_bytes([packet[at], packet[at + 1]]);
    packet[at..at + 2].fill(0);
    (port, packet)
}

fn expected(outer: &Outer, frame: &[u8]) -> Vec<u8> {
    Outer { port: 0, ..outer.clone() }.packet(frame)
}

/// What each tunnel sends: the other way round than it comes, "don't fragment", the TTL and DSCP of the configuration, no UDP checksum.
fn sent(port: usize) -> Outer {
    let outer =
        |came: Outer, ttl, class| Outer { from: came.to, to: came.from, ttl, class, flags_offset: 0x4000, ..came };
    match port {
        RED => outer(Outer::red(), 64, 0),
        BLUE => outer(Outer::blue(), 9, 46 << 2),
        _ => outer(Outer::six(), 64, 46 << 2),
    }
}

#[test]
fn frames_leave_by_the_tunnel_of_their_port() {
    let mut rig = Rig::new(&usual());
    for port in [RED, BLUE, SIX] {
        for length in [14, 60, 61, 1400] {
            let [left, ..] = rig.pass(port, vec![plain(length)]);
            let [one] = &left[..] else { panic!("{port}: {left:?}") };
            let (source, packet) = parted(one);
            assert_eq!(packet, expected(&sent(port), &plain(length)));
            assert!(source >= 49_152, "{source}");
        }
    }
    assert_eq!(rig.drops(), [].into());
    rig.finish();
}

#[test]
fn frames_of_several_tunnels_in_a_batch_go_each_to_its_own_next_hop() {
    let mut config = usual();
    config["routes"]["198.51.100.0/24"] = json!("192.0.2.8");
    config["neighbors"] = json!({ "192.0.2.9": "02:00:00:00:02:01", "192.0.2.8": "02:00:00:00:02:08", "2001:db8::9": "02:00:00:00:02:06" });
    let mut rig = Rig::new(&config);
    let [left, ..] = rig.pass_together([RED, BLUE, SIX].map(|port| (port, vec![plain(60); 3])).to_vec());
    // The next hop, and the last byte of the other end's address.
    let ends = |sent: &Vec<u8>| (sent[5], if sent[12] == 8 { sent[33] } else { sent[53] });
    assert_eq!(left.iter().map(ends).collect::<Vec<_>>(), [[(1, 9); 3], [(8, 7); 3], [(6, 9); 3]].concat());
    assert_eq!(rig.drops(), [].into());
    rig.finish();
}

#[test]
fn frames_come_out_at_the_port_of_their_tunnel() {
    let mut rig = Rig::new(&usual());
    for (port, outer) in [(RED, Outer::red()), (BLUE, Outer::blue()), (SIX, Outer::six())] {
        for checksum in [None, Some(true)] {
            // "The remaining bits ... are reserved fields and MUST be set to zero on transmission and ignored on receipt."
            for (flags, reserved) in [(8, [0; 4]), (0xff, [0xff; 4])] {
                let outer = Outer { checksum, flags, reserved, ..outer.clone() };
                for inner in [plain(14), plain(60), plain(1400)] {
                    let mut padded = outer.framed(&inner);
                    padded.extend([0xee; 7]);
                    let got = rig.pass(WAN, vec![padded]);
                    let mut should: [Vec<Vec<u8>>; 4] = Default::default();
                    should[port] = vec![inner];
                    assert_eq!(got, should);
                }
            }
        }
    }
    assert_eq!(rig.drops(), [].into());
    rig.finish();
}

#[test]
fn what_is_wrong_is_dropped_by_name() {
    let tagged = [&plain(14)[..12], &[0x81, 0, 0, 7], &plain(60)[12..]].concat();
    let short = |length: u16| {
        let mut packet = Outer::red().framed(&plain(60));
        packet[14 + 24..14 + 26].copy_from_slice(&length.to_be_bytes());
        packet
    };
    let red = Outer::red();
    let cases = [
        ("vxlan-no-vni", Outer { flags: 0xf7, ..red.clone() }.framed(&plain(60))),
        ("vxlan-unknown-vni", Outer { vni: 101, ..red.clone() }.framed(&plain(60))),
        // The VNI of another tunnel, whose other end is another.
        ("vxlan-unknown-peer", Outer { vni: 0x00ab_cdef, ..red.clone() }.framed(&plain(60))),
        ("vxlan-unknown-peer", Outer::from("203.0.113.5", "192.0.2.1", 100).framed(&plain(60))),
        ("vxlan-checksum", Outer { checksum: Some(false), ..red.clone() }.framed(&plain(60))),
        ("vxlan-checksum", Outer { checksum: Some(false), ..Outer::six() }.framed(&plain(60))),
        ("vxlan-inner-too-short", red.framed(&plain(14)[..13])),
        ("vxlan-inner-too-short", red.framed(&[])),
        ("vxlan-inner-tagged", red.framed(&tagged)),
        ("vxlan-length", short(15)),
        ("vxlan-length", short(77)),
        ("vxlan-fragment", Outer { flags_offset: 0x2000, ..red.clone() }.framed(&plain(60))),
        (
            "vxlan-congestion",
            Outer { class: 3, ..red.clone() }.framed(&frame(&[&[0x45, 0, 0, 20][..], &[0; 16]].concat())),
        ),
    ];
    for (reason, packet) in cases {
        let mut rig = Rig::new(&usual());
        assert_eq!(rig.pass(WAN, vec![packet]), <[Vec<Vec<u8>>; 4]>::default(), "{reason}");
        assert_eq!(rig.drops(), [(format!("vxlan.decap/{reason}"), 1)].into());
        rig.finish();
    }
    let mut rig = Rig::new(&usual());
    let [out, _, blue, _] = rig.pass(WAN, vec![Outer::blue().framed(&tagged)]);
    assert_eq!((out, blue), (vec![], vec![tagged.clone()]), "blue may have tags");
    let [left, ..] = rig.pass(BLUE, vec![tagged.clone()]);
    assert_eq!(parted(&left[0]).1, expected(&sent(BLUE), &tagged));
    let [left, ..] = rig.pass(RED, vec![tagged, plain(14)[..13].to_vec()]);
    assert!(left.is_empty());
    let counted = [("vxlan.encap/vxlan-inner-tagged".to_owned(), 1), ("vxlan.encap/too-short".to_owned(), 1)];
    assert_eq!(rig.drops(), counted.into());
    rig.finish();
}

/// What is for the own address and no tunnel is answered by the network layer as any router does.
#[test]
fn all_else_is_the_network_layers() {
    let mut rig = Rig::new(&usual());
    let mut ping =
        vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 192, 0, 2, 9, 192, 0, 2, 1, 8, 0, 0xf7, 0xff, 0, 0, 0, 0];
    weir_wire::ipv4::write_checksum(&mut ping);
    let ping = [&MAC[..], &ROUTER, &[8, 0], &ping].concat();
    let [left, ..] = rig.pass(WAN, vec![ping]);
    assert_eq!(left[0][14 + 20], 0, "an echo reply");
    // To another UDP port: nobody is there.
    let [left, ..] = rig.pass(WAN, vec![Outer { to_port: 4790, ..Outer::red() }.framed(&plain(60))]);
    assert_eq!(left[0][14 + 20..14 + 22], [3, 3], "port unreachable");
    rig.finish();
}

/// RFC 7348 section 4.3: "VTEPs MUST NOT fragment VXLAN packets."
#[test]
fn the_longest_frame_is_the_mtu_less_50_bytes() {
    let mut rig = Rig::new(&usual());
    for (port, in_front) in [(RED, 36), (SIX, 56)] {
        let longest = usize::from(MTU) - in_front;
        let [left, ..] = rig.pass(port, vec![plain(longest)]);
        assert_eq!(left[0].len(), 14 + usize::from(MTU));
        let [left, ..] = rig.pass(port, vec![plain(longest + 1)]);
        assert!(left.is_empty());
    }
    assert_eq!(rig.drops(), [("vxlan.encap/too-long".to_owned(), 2)].into());
    rig.finish();
}

#[test]
fn flows_have_source_ports_of_their_own_and_keep_them() {
    let mut rig = Rig::new(&usual());
    let udp = |source: u16| {
        let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        weir_wire::ipv4::write_checksum(&mut packet);
        packet.extend(source.to_be_bytes());
        packet.extend([0, 53, 0, 8, 0, 0]);
        frame(&packet)
    };
    let mut ports = |frames: Vec<Vec<u8>>| -> Vec<u16> {
        let [left, ..] = rig.pass(RED, frames);
        left.iter().map(|one| parted(one).0).collect()
    };
    let first = ports((0..500).map(udp).collect());
    assert_eq!(first, ports((0..500).map(udp).collect()));
    let mut different = first.clone();
    different.sort_unstable();
    different.dedup();
    // 500 balls in 16,384 bins: 7.5 meet others, by chance.
    assert!(different.len() > 450, "{}", different.len());
    assert!(first.iter().any(|port| *port > 60_000) && first.iter().any(|port| *port < 52_000));
    // What is not IP is told apart by its addresses.
    let mut other = plain(60);
    other[5] = 0xc;
    let both = ports(vec![plain(60), other]);
    assert_ne!(both[0], both[1]);
    rig.finish();
}

#[test]
fn a_neighbour_that_is_not_known_is_asked_for() {
    let mut config = usual();
    config["neighbors"] = json!({});
    let mut rig = Rig::new(&config);
    let [left, ..] = rig.pass(RED, vec![plain(60)]);
    let [question] = &left[..] else { panic!("{left:?}") };
    assert_eq!((&question[..6], &question[12..14]), (&[0xff; 6][..], &[8, 6][..]));
    let answer = [&MAC[..], &ROUTER, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &ROUTER, &[192, 0, 2, 9], &MAC, &[192, 0, 2, 1]];
    let [left, ..] = rig.pass(WAN, vec![answer.concat()]);
    assert_eq!(parted(&left[0]).1, expected(&sent(RED), &plain(60)));
    rig.finish();
}

#[test]
fn without_a_route_nothing_leaves_and_routes_can_be_added() {
    let mut config = usual();
    config["routes"] = json!({});
    let mut rig = Rig::new(&config);
    assert!(rig.pass(BLUE, vec![plain(60)])[WAN].is_empty());
    rig.request("route add", &json!({ "prefix": "198.51.100.0/24", "via": "blackhole" })).unwrap();
    assert!(rig.pass(BLUE, vec![plain(60)])[WAN].is_empty());
    assert_eq!(rig.drops(), [("vxlan.encap/no-route".to_owned(), 1), ("vxlan.encap/blackhole".to_owned(), 1)].into());
    rig.request("route del", &json!({ "prefix": "198.51.100.0/24" })).unwrap();
    rig.request("route add", &json!({ "prefix": "198.51.100.0/24", "via": "192.0.2.9" })).unwrap();
    assert_eq!(rig.pass(BLUE, vec![plain(60)])[WAN].len(), 1);
    rig.finish();
}

#[test]
fn congestion_is_told_to_who_is_inside() {
    let mut rig = Rig::new(&usual());
    let inside = |tos: u8| {
        let mut packet = vec![0x45, tos, 0, 20, 0, 0, 0, 0, 64, 99, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        weir_wire::ipv4::write_checksum(&mut packet);
        frame(&packet)
    };
    let [_, red, ..] = rig.pass(WAN, vec![Outer { class: 3, ..Outer::red() }.framed(&inside(0xba))]);
    assert_eq!(red, [inside(0xbb)]);
    let six = |class: u8| frame(&[&[0x60 | class >> 4, class << 4, 0, 0, 0, 0, 59, 64][..], &[9; 32]].concat());
    let [.., out] = rig.pass(WAN, vec![Outer { class: 3, ..Outer::six() }.framed(&six(0xb9))]);
    assert_eq!(out, [six(0xbb)]);
    rig.finish();
}

#[test]
fn tunnels_are_shown() {
    let rig = Rig::new(&usual());
    let blue = json!({ "port": "blue", "vni": 0x00ab_cdef, "source": "192.0.2.1", "remote": "198.51.100.7" });
    assert_eq!(rig.show(None).unwrap().len(), 3);
    for filter in ["blue", "11259375", "198.51.100.7"] {
        assert_eq!(rig.show(Some(filter)).unwrap(), std::slice::from_ref(&blue));
    }
    for nobodys in ["7", "192.0.2.77"] {
        assert_eq!(rig.show(Some(nobodys)).unwrap().len(), 0);
    }
    for wrong in ["green", "16777216"] {
        let told = rig.show(Some(wrong)).unwrap_err();
        assert!(told.contains(&format!("\"{wrong}\" selects no tunnels; write one of blue, red, six")), "{told}");
    }
    rig.finish();
}

#[test]
fn another_udp_port_is_taken() {
    let mut config = usual();
    config["udp_port"] = json!(8472);
    let mut rig = Rig::new(&config);
    let [left, ..] = rig.pass(RED, vec![plain(60)]);
    assert_eq!(parted(&left[0]).1, expected(&Outer { to_port: 8472, ..sent(RED) }, &plain(60)));
    let [_, red, ..] = rig.pass(WAN, vec![Outer { to_port: 8472, ..Outer::red() }.framed(&plain(60))]);
    assert_eq!(red, [plain(60)]);
    let [left, red, ..] = rig.pass(WAN, vec![Outer::red().framed(&plain(60))]);
    assert_eq!((&left[0][34..36], red.len()), (&[3, 3][..], 0), "nobody is at the usual port");
    rig.finish();
}

/// The own end of a tunnel may be on an interface with a tag, or on none: then the function has it by itself.
#[test]
fn tunnels_go_by_tagged_interfaces_and_from_addresses_of_their_own() {
    let mut config = usual();
    config["tunnels"]["red"]["source"] = json!("10.7.0.1");
    config["tunnels"]["red"]["remote"] = json!("10.7.0.9");
    config["tunnels"]["blue"]["source"] = json!("10.8.0.1");
    config["neighbors"]["10.7.0.9%seven"] = json!("02:00:00:00:02:01");
    let mut rig = Rig::with(&config, &[tagged("seven", 7, "10.7.0.1/24")]);
    let with_tag = |frame: &[u8]| [&frame[..12], &[0x81, 0, 0, 7], &frame[12..]].concat();
    let ends =
        |from: &str, to: &str, outer: Outer| Outer { from: from.parse().unwrap(), to: to.parse().unwrap(), ..outer };
    let longest = plain(usize::from(MTU) - 36);
    let [left, ..] = rig.pass(RED, vec![longest.clone(), [&longest[..], &[0]].concat()]);
    let [one] = &left[..] else { panic!("{left:?}") };
    assert_eq!(one[12..16], [0x81, 0, 0, 7]);
    let plain_one = [&one[..12], &one[16..]].concat();
    assert_eq!(parted(&plain_one).1, expected(&ends("10.7.0.1", "10.7.0.9", sent(RED)), &longest));
    let came = ends("10.7.0.9", "10.7.0.1", Outer::red()).framed(&plain(60));
    assert_eq!(rig.pass(WAN, vec![with_tag(&came)])[RED], [plain(60)]);
    let [left, ..] = rig.pass(BLUE, vec![plain(60)]);
    assert_eq!(parted(&left[0]).1, expected(&ends("10.8.0.1", "198.51.100.7", sent(BLUE)), &plain(60)));
    let came = ends("198.51.100.7", "10.8.0.1", Outer::blue()).framed(&plain(60));
    assert_eq!(rig.pass(WAN, vec![came])[BLUE], [plain(60)]);
    assert_eq!(rig.drops(), [("vxlan.encap/too-long".to_owned(), 1)].into());
    rig.finish();
}
