//! What the relay does beside the acceptance cases: changes at run time, attacks, limits, options.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use common::{ACCESS, AFTR, B4, HOST, INTERNET, Rig, SECOND, all_rows, four, six, two, udp, up, usual, wrong};
use serde_json::{Value, json};

fn down(port: u16) -> Vec<u8> {
    four(HOST, "203.0.113.1", 17, 64, &udp(53, port, 30))
}

/// The destination of the only tunnel that a packet went into.
fn wrapped_to(frames: &[Vec<u8>]) -> Option<String> {
    let tunneled: Vec<&Vec<u8>> = frames.iter().filter(|frame| frame[20] == 4).collect();
    match tunneled.as_slice() {
        [] => None,
        [frame] => Some(std::net::Ipv6Addr::from(<[u8; 16]>::try_from(&frame[38..54]).unwrap()).to_string()),
        more => panic!("{} frames", more.len()),
    }
}

fn ipv4_fragment(id: u8, offset: usize, more: bool, data: &[u8]) -> Vec<u8> {
    let mut packet = four(HOST, "203.0.113.1", 17, 64, data);
    let field = (offset / 8) as u16 | u16::from(more) << 13;
    (packet[5], packet[6], packet[7]) = (id, (field >> 8) as u8, field as u8);
    weir_wire::ipv4::write_checksum(&mut packet);
    packet
}

/// What the relay takes, what it refuses, and what it leaves to the network layer.
#[test]
fn interfaces_count_what_comes_and_goes_once() {
    let mut rig = Rig::new(usual());
    let count = |rig: &Rig, name: &str, key: &str| {
        let row = rig.show("interfaces", None).into_iter().find(|row| row["name"] == name).unwrap();
        row[key].as_u64().unwrap()
    };
    let keys = [("internet", "rx_packets"), ("access", "rx_packets"), ("access", "tx_packets")];
    let before = keys.map(|(name, key)| count(&rig, name, key));
    let ping = four("192.0.2.254", "192.0.2.1", 1, 64, &[8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
    rig.pass(INTERNET, &[down(5000), down(5001), down(100), ping]);
    rig.pass(ACCESS, &[up(B4, AFTR, 5000), up(B4, AFTR, 1)]);
    let now = keys.map(|(name, key)| count(&rig, name, key));
    let grown: Vec<u64> = now.iter().zip(before).map(|(now, before)| now - before).collect();
    // Three answers go out by `access`: two tunnels, and an ICMPv6 error.
    assert_eq!(grown, [4, 2, 3]);
    rig.finish();
}

#[test]
fn softwires_come_change_and_go_and_nobody_gets_another_s_packets() {
    let mut rig = Rig::new(usual());
    assert_eq!(wrapped_to(&rig.pass(INTERNET, &[down(5000)])[ACCESS]).as_deref(), Some(B4));
    let key = |psid: u16| json!({ "ipv4": "203.0.113.1", "psid": psid });
    let with = |psid: u16, b4: &str| json!({ "ipv4": "203.0.113.1", "psid": psid, "b4": b4, "psid_length": 4 });
    let change = |rig: &Rig, verb: &str, arguments: Value| rig.request(&format!("softwire {verb}"), arguments);
    change(&rig, "set", with(1, "2001:db8:c::55")).unwrap();
    assert_eq!(wrapped_to(&rig.pass(INTERNET, &[down(5000)])[ACCESS]).as_deref(), Some("2001:db8:c::55"));
    // The one before is out at once, and its packets go nowhere.
    assert_eq!(rig.pass(ACCESS, &[up(B4, AFTR, 5000)])[INTERNET].len(), 0);
    change(&rig, "del", key(1)).unwrap();
    assert_eq!(wrapped_to(&rig.pass(INTERNET, &[down(5000)])[ACCESS]).as_deref(), Some(B4));
    let rows = rig.show("softwires", Some("psid=1"));
    assert_eq!(rows[0]["down_packets"], json!(3), "what was counted goes on");
    change(&rig, "add", with(3, "2001:db8:c::33")).unwrap();
    assert_eq!(wrapped_to(&rig.pass(INTERNET, &[down(3 * 4096)])[ACCESS]).as_deref(), Some("2001:db8:c::33"));
    let saved = all_rows(rig.instance.save());
    assert_eq!(saved.len(), 1);
    assert_eq!((saved[0].verb.as_str(), saved[0].key.as_str()), ("softwire set", "softwires"));
    change(&rig, "del", key(3)).unwrap();
    let [told, none] = rig.pass(INTERNET, &[down(3 * 4096)]);
    // ICMP 3/1.
    assert_eq!((none.len(), &told[0][34..36]), (0, &[3, 1][..]));
    assert_eq!(all_rows(rig.instance.save()).len(), 0);
    let refused = [
        ("add", with(1, B4), "there is a softwire 203.0.113.1 psid 1 already; `softwire set` changes it"),
        ("del", key(1), "softwire 203.0.113.1 psid 1 stands in the configuration; delete it there and reload"),
        ("del", key(7), "there is no softwire 203.0.113.1 psid 7; `show softwires` lists them"),
        ("add", key(7), "b4 is missing"),
        (
            "add",
            json!({ "ipv4": "203.0.113.1", "psid": 7, "b4": B4, "psid_length": 5 }),
            "203.0.113.1 psid 7: other softwires of the address have psid_length 4, psid_offset 0; all of one address have the same",
        ),
        (
            "add",
            json!({ "ipv4": "203.0.113.1", "psid": 16, "b4": B4, "psid_length": 4 }),
            "203.0.113.1 psid 16: psid: 16 is no PSID of 4 bits; the highest is 15",
        ),
        (
            "add",
            json!({ "ipv4": "203.0.113.1", "psid": 7, "b4": B4, "psid_length": 4, "aftr": "2001:db8::99" }),
            "203.0.113.1 psid 7: aftr: 2001:db8::99 is none of the relay's addresses; add it to the key aftr of the function",
        ),
    ];
    let before = rig.show("softwires", None);
    for (verb, arguments, problem) in refused {
        assert_eq!(change(&rig, verb, arguments), Err(problem.to_owned()));
    }
    let list = json!([with(5, "2001:db8:c::5"), with(6, "2001:db8:c::6"), with(1, B4)]);
    assert!(change(&rig, "add", list).unwrap_err().starts_with("entry 3: "));
    assert_eq!(rig.show("softwires", None), before, "all or nothing");
    rig.finish();
}

/// ICMPv6 Packet Too Big about a packet of a tunnel (RFC 4443 section 3.2).
fn too_big(b4: &str, mtu: u32) -> Vec<u8> {
    let quoted = six(AFTR, b4, 4, 60, &four(HOST, "203.0.113.1", 17, 60, &udp(53, 5000, 8)));
    let mut message = [&[2, 0, 0, 0][..], &mtu.to_be_bytes(), &quoted].concat();
    let router = "2001:db8:7::7";
    let whole = six(router, AFTR, 58, 60, &message);
    let sum = weir_wire::checksum::Sum::new().bytes(&whole[8..40]).word(message.len() as u16).word(58).bytes(&message);
    message[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
    six(router, AFTR, 58, 60, &message)
}

/// RFC 2473 section 7.2: what is longer than the path of its tunnel is told so, or sent in fragments of the tunnel's packet.
#[test]
fn the_path_of_a_tunnel_is_learnt_from_routers_on_it() {
    let mut rig = Rig::new(usual());
    let of = |bytes: usize, dont_fragment: bool, port: u16| {
        let mut packet = four(HOST, "203.0.113.1", 17, 64, &udp(53, port, bytes - 28));
        packet[6] = if dont_fragment { 0x40 } else { 0 };
        weir_wire::ipv4::write_checksum(&mut packet);
        packet
    };
    let lengths = |frames: &[Vec<u8>]| frames.iter().map(|frame| frame.len() - 14).collect::<Vec<_>>();
    assert_eq!(lengths(&rig.pass(INTERNET, &[of(1400, true, 5000)])[ACCESS]), [1440]);
    // About other ends, below what IPv6 carries, and longer than before: nothing follows.
    rig.pass(ACCESS, &[too_big("2001:db8:c::2", 1300), too_big(B4, 1279)]);
    assert_eq!(lengths(&rig.pass(INTERNET, &[of(1400, true, 5000)])[ACCESS]), [1440]);
    rig.pass(ACCESS, &[too_big(B4, 1320), too_big(B4, 1400)]);
    let path = |rig: &Rig| rig.show("softwires", Some("203.0.113.1:5000"))[0]["path_mtu"].clone();
    assert_eq!(path(&rig), json!(1320));
    assert_eq!(lengths(&rig.pass(INTERNET, &[of(1280, true, 5000)])[ACCESS]), [1320]);
    let [told, none] = rig.pass(INTERNET, &[of(1281, true, 5000)]);
    // ICMP 3/4 with the MTU of what goes into the tunnel.
    assert_eq!((none.len(), &told[0][34..36], &told[0][40..42]), (0, &[3, 4][..], &1280_u16.to_be_bytes()[..]));
    let pieces = rig.pass(INTERNET, &[of(1400, false, 5000)])[ACCESS].clone();
    assert!(pieces.len() == 2 && pieces.iter().all(|piece| piece[20] == 44 && piece.len() <= 14 + 1320));
    // Another customer's path is its own.
    assert_eq!(lengths(&rig.pass(INTERNET, &[of(1400, true, 8192)])[ACCESS]), [1440]);
    // It is forgotten after ten minutes, and with the customer.
    rig.run(601 * SECOND);
    assert_eq!(path(&rig), Value::Null);
    assert_eq!(lengths(&rig.pass(INTERNET, &[of(1400, true, 5000)])[ACCESS]), [1440]);
    rig.pass(ACCESS, &[too_big(B4, 1320)]);
    let other = json!({ "ipv4": "203.0.113.1", "psid": 1, "b4": "2001:db8:c::55" });
    rig.request("softwire set", other).unwrap();
    assert_eq!((path(&rig), lengths(&rig.pass(INTERNET, &[of(1400, true, 5000)])[ACCESS])), (Value::Null, vec![1440]));
    rig.finish();
}

#[test]
fn a_reload_changes_what_it_says_and_keeps_the_rest() {
    let mut rig = Rig::new(usual());
    rig.request("softwire add", json!({ "ipv4": "203.0.113.20", "b4": "2001:db8:c::20" })).unwrap();
    rig.pass(INTERNET, &[down(5000)]);
    let mut config = usual();
    // The address is divided otherwise, by the key for addresses.
    config["softwires"] = json!([
        { "ipv4": "203.0.113.1", "psid": 1, "b4": B4 },
        { "ipv4": "203.0.113.1", "psid": 5, "b4": "2001:db8:c::2" },
    ]);
    config["port_sets"] = json!({ "203.0.113.0-203.0.113.3": { "psid_length": 8, "psid_offset": 4 } });
    for is_live in [true, false] {
        if is_live {
            rig.reload(&config)
        } else {
            rig.rebuild(&config)
        }
        let rows = rig.show("softwires", None);
        let named: Vec<String> =
            rows.iter().map(|row| format!("{}/{} {}", row["ipv4"], row["psid"], row["source"])).collect();
        assert_eq!(
            named,
            ["\"203.0.113.1\"/1 \"config\"", "\"203.0.113.1\"/5 \"config\"", "\"203.0.113.20\"/0 \"cli\""]
        );
        // RFC 7597: PSID 1 of 8 bits behind 4 has 0x1010 to 0x101f, and none below 0x1000.
        assert_eq!(wrapped_to(&rig.pass(INTERNET, &[down(0x1010)])[ACCESS]).as_deref(), Some(B4));
        for port in [0x0010, 0x100f, 0x1020] {
            assert_eq!(wrapped_to(&rig.pass(INTERNET, &[down(port)])[ACCESS]), None, "{port:x}");
        }
    }
    rig.finish();
}

#[test]
fn what_is_wrong_with_a_configuration_is_told_with_its_place() {
    let told = |key: &str, value: Value| {
        let mut config = usual();
        config[key] = value;
        wrong(&config, None)
    };
    let one = |more: Value| {
        let mut softwire = json!({ "ipv4": "203.0.113.1", "b4": B4 });
        softwire.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([{ "ipv4": "203.0.113.1", "psid": 1, "psid_length": 4, "b4": B4 }, softwire])
    };
    let cases = [
        (
            "softwires",
            one(json!({ "psid": 1, "psid_length": 4 })),
            "softwires[2]: 203.0.113.1 psid 1 is number 1, too; leave one out",
        ),
        ("softwires", one(json!({ "psid": 1, "psid_length": 5 })), "all softwires of an address have the same"),
        ("softwires", one(json!({ "psid": 16, "psid_length": 4 })), "16 is no PSID of 4 bits; the highest is 15"),
        ("softwires", one(json!({ "psid": 2, "psid_length": 14, "psid_offset": 3 })), "more than the 16 of a port"),
        ("softwires", one(json!({ "psid": 2, "psid_length": 4, "aftr": "::9" })), "none of the relay's addresses"),
        (
            "softwires",
            one(json!({ "psid": 2, "psid_length": 4, "b4": "ff02::1" })),
            "ff02::1 is not the address of one station",
        ),
        ("ipv4", json!({ "interfaces": ["nowhere"] }), "\"nowhere\" is no interface of this function"),
        ("ipv6", json!({ "ingress_filter": "ip6 andd tcp" }), "ingress_filter"),
        (
            "port_sets",
            json!({ "203.0.113.0/24": { "psid_length": 9, "psid_offset": 8 } }),
            "more than the 16 of a port",
        ),
        ("table_limits", json!({ "softwires": 2 }), "2 is too few: the configuration has 3"),
    ];
    for (key, value, problem) in cases {
        let all = told(key, value);
        assert!(all.iter().any(|told| told.contains(problem)), "{problem}: {all:?}");
    }
    assert_eq!(wrong(&usual(), None), Vec::<String>::new());
}

#[test]
fn fragments_wait_within_bounds_and_what_is_hostile_is_dropped_whole() {
    let mut config = usual();
    config["ipv4"] = json!({ "reassembly": { "fragments": 64, "per_packet": 4 } });
    let mut rig = Rig::new(config);
    let datagram = udp(53, 5000, 48);
    let cut = |id: u8, from: usize, to: usize| ipv4_fragment(id, from, to < datagram.len(), &datagram[from..to]);
    // In any order, and one twice.
    let [_, sent] = rig.pass(INTERNET, &[cut(1, 40, 56), cut(1, 0, 24), cut(1, 0, 24), cut(1, 24, 40)]);
    let mut expected = four(HOST, "203.0.113.1", 17, 63, &datagram);
    expected[4..6].copy_from_slice(&[0x12, 1]);
    weir_wire::ipv4::write_checksum(&mut expected);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][54..], expected);
    // Overlapping, too many, tiny with its rest over the ports (RFC 1858): nothing comes out.
    let overlap = [cut(2, 0, 24), cut(2, 16, 40), cut(2, 40, 56)];
    let many = [cut(3, 0, 8), cut(3, 8, 16), cut(3, 16, 24), cut(3, 24, 32), cut(3, 32, 40), cut(3, 40, 56)];
    let tiny = [ipv4_fragment(4, 0, true, &datagram[..8]), ipv4_fragment(4, 0, true, &udp(53, 9000, 8)), cut(4, 8, 56)];
    for hostile in [&overlap[..], &many, &tiny] {
        let sent = rig.pass(INTERNET, hostile);
        assert!(sent.iter().all(Vec::is_empty), "{sent:?}");
    }
    // Endless first fragments take no more than their room, and others pass beside them.
    for n in 0..500_u16 {
        let mut first = cut(0, 0, 24);
        first[4..6].copy_from_slice(&(1000 + n).to_be_bytes());
        weir_wire::ipv4::write_checksum(&mut first);
        rig.handles[INTERNET].send(common::framed(INTERNET, &first));
    }
    rig.settle();
    assert!(rig.account().held <= 64, "{:?}", rig.account());
    assert_eq!(wrapped_to(&rig.pass(INTERNET, &[down(5000)])[ACCESS]).as_deref(), Some(B4));
    rig.run(61 * SECOND);
    let drops = rig.drops();
    assert_eq!(rig.account().held, 0);
    assert_eq!(drops["lwaftr.relay/fragment-duplicate"], 1);
    assert!(drops["lwaftr.relay/fragment-overlap"] >= 3 && drops["lwaftr.relay/fragments-too-many"] >= 5, "{drops:?}");
    assert!(
        drops["lwaftr.relay/fragment-queue-full"] >= 436 && drops["lwaftr.relay/fragment-timeout"] > 0,
        "{drops:?}"
    );
    rig.finish();
}

#[test]
fn ipv4_fragments_in_tunnels_are_put_together_before_their_source_is_believed() {
    let mut rig = Rig::new(usual());
    let datagram = udp(5000, 53, 48);
    let inner = |from: usize, to: usize| {
        let mut packet = four("203.0.113.1", HOST, 17, 64, &datagram[from..to]);
        let field = (from / 8) as u16 | u16::from(to < datagram.len()) << 13;
        packet[6..8].copy_from_slice(&field.to_be_bytes());
        weir_wire::ipv4::write_checksum(&mut packet);
        packet
    };
    let in_tunnel = |b4: &str| [inner(32, 56), inner(0, 32)].map(|inner| six(b4, AFTR, 4, 64, &inner));
    let [sent, _] = rig.pass(ACCESS, &in_tunnel(B4));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][14..], four("203.0.113.1", HOST, 17, 64, &datagram));
    let [sent, told] = rig.pass(ACCESS, &in_tunnel("2001:db8:c::2"));
    assert_eq!((sent.len(), told.len()), (0, 1));
    // Pieces of different tunnels do not go together.
    let [[first, _], [_, second]] = [in_tunnel(B4), in_tunnel("2001:db8:c::2")];
    assert_eq!(rig.pass(ACCESS, &[first, second]), [Vec::<Vec<u8>>::new(), Vec::new()]);
    rig.run(61 * SECOND);
    rig.finish();
}

#[test]
fn errors_are_limited_and_there_are_none_about_errors() {
    let mut config = usual();
    config["ipv4"] = json!({ "error_rate": { "packets": 5, "period": "1 s" } });
    let mut rig = Rig::new(config);
    let misses = vec![down(60_000); 100];
    assert_eq!(rig.pass(INTERNET, &misses)[INTERNET].len(), 5);
    assert_eq!(rig.pass(INTERNET, &misses)[INTERNET].len(), 0);
    rig.run(SECOND);
    assert_eq!(rig.pass(INTERNET, &misses)[INTERNET].len(), 5);
    rig.run(SECOND);
    // A storm of ICMP to ports of nobody.
    let mut echo = vec![8, 0, 0, 0, 0xff, 0xff, 0, 1];
    weir_wire::icmp::write_header(&mut echo, 8, 0, [0xff, 0xff, 0, 1]);
    let storm = vec![four(HOST, "203.0.113.1", 1, 64, &echo); 100];
    assert_eq!(rig.pass(INTERNET, &storm), [Vec::<Vec<u8>>::new(), Vec::new()]);
    assert_eq!(rig.counts()["drop-over-rate-limit-icmpv4-packets"], 290);
    rig.finish();
}

#[test]
fn a_loop_between_two_customers_ends_with_its_ttl() {
    let mut rig = Rig::new(usual());
    let mut packet = six(B4, AFTR, 4, 64, &four("203.0.113.1", "203.0.113.9", 17, 8, &udp(5000, 7, 30)));
    let mut rounds = 0;
    // Each customer sends back what it gets, as if it were its own.
    loop {
        let [plain, frames] = rig.pass(ACCESS, &[packet]);
        assert_eq!((plain.len(), frames.len()), (0, 1));
        let back = &frames[0][14..];
        let inner = &back[40..];
        if inner[9] == 1 {
            break;
        }
        let mut inner = inner.to_vec();
        let (from, to) = if rounds % 2 == 0 { ("2001:db8:c::9", 12) } else { (B4, 12) };
        let ends = inner[to..20].to_vec();
        inner[12..16].copy_from_slice(&ends[4..]);
        inner[16..20].copy_from_slice(&ends[..4]);
        let ports = inner[20..24].to_vec();
        inner[20..22].copy_from_slice(&ports[2..]);
        inner[22..24].copy_from_slice(&ports[..2]);
        weir_wire::ipv4::write_checksum(&mut inner);
        packet = six(from, AFTR, 4, 64, &inner);
        rounds += 1;
        assert!(rounds < 10);
    }
    assert_eq!(rounds, 7);
    rig.finish();
}

/// A softwire knows where its tunnel leads, until that changes: by its route, a longer one, and the neighbour's Ethernet address.
#[test]
fn tunnels_follow_their_routes() {
    let mut config = usual();
    config["neighbors"]["2001:db8:f::8"] = json!("02:00:00:00:02:08");
    let mut rig = Rig::new(config);
    let leads_to = |rig: &mut Rig| {
        let [_, sent] = rig.pass(INTERNET, &[down(5000), down(5001)]);
        assert!(sent.len() == 2 && sent[0][..6] == sent[1][..6], "{sent:?}");
        sent[0][5]
    };
    assert_eq!((leads_to(&mut rig), leads_to(&mut rig)), (2, 2));
    let longer = format!("{B4}/128");
    for (verb, arguments, last) in [
        ("route add", json!({ "prefix": longer, "via": ["2001:db8:f::8"] }), 8),
        ("route del", json!({ "prefix": longer }), 2),
        ("neighbor add", json!({ "address": "2001:db8:f::9", "mac": "02:00:00:00:02:77" }), 0x77),
    ] {
        rig.request(verb, arguments).unwrap();
        rig.settle();
        assert_eq!((leads_to(&mut rig), leads_to(&mut rig)), (last, last), "{verb}");
    }
    rig.request("route add", json!({ "prefix": longer, "via": ["blackhole"] })).unwrap();
    rig.settle();
    assert!(rig.pass(INTERNET, &[down(5000)])[ACCESS].is_empty());
    assert_eq!(rig.drops().values().sum::<u64>(), 1, "{:?}", rig.drops());
    rig.finish();
}

#[test]
fn a_neighbour_that_is_not_known_is_asked_for_and_packets_wait() {
    let mut config = usual();
    config["neighbors"] = json!({});
    config["routes"] = json!({ "0.0.0.0/0": "192.0.2.9", "2001:db8:c::/48": "2001:db8:f::9" });
    let mut rig = Rig::new(config);
    assert_eq!(rig.pass(INTERNET, &[down(5000)])[ACCESS].iter().filter(|frame| frame[20] == 4).count(), 0);
    // The router's advertisement.
    let mut advertisement = vec![136, 0, 0, 0, 0xe0, 0, 0, 0];
    advertisement.extend("2001:db8:f::9".parse::<std::net::Ipv6Addr>().unwrap().octets());
    advertisement.extend([2, 1]);
    advertisement.extend(common::ROUTERS[1]);
    let mut packet = six("2001:db8:f::9", "2001:db8:f::1", 58, 255, &advertisement);
    let sum = weir_wire::checksum::Sum::new().bytes(&packet[8..40]).word(32).word(58).bytes(&packet[40..]).checksum();
    packet[42..44].copy_from_slice(&sum.to_be_bytes());
    let [_, sent] = rig.pass(ACCESS, &[packet]);
    let waited: Vec<&Vec<u8>> = sent.iter().filter(|frame| frame[20] == 4).collect();
    assert_eq!(waited.len(), 1);
    assert_eq!(waited[0][14..], six(AFTR, B4, 4, 255, &four(HOST, "203.0.113.1", 17, 63, &udp(53, 5000, 30))));
    rig.finish();
}

#[test]
fn a_syn_asks_for_segments_that_fit() {
    let mut config = usual();
    config["mss"] = json!(1400);
    let mut rig = Rig::new(config);
    let mut syn = udp(53, 5000, 16);
    syn.splice(4..24, [0, 0, 0, 1, 0, 0, 0, 0, 0x60, 2, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 5, 0xb4]);
    let [_, sent] = rig.pass(INTERNET, &[four(HOST, "203.0.113.1", 6, 64, &syn)]);
    assert_eq!(sent[0][54 + 42..54 + 44], 1400_u16.to_be_bytes());
    rig.finish();
}

#[test]
fn one_arm_with_tags_and_what_is_on_the_wrong_side() {
    let ports = vec![common::PortSpec { addresses: Vec::new(), ..two()[0].clone() }];
    let interfaces = vec![
        common::interface("four", "internet", 10, &["192.0.2.1/24"]),
        common::interface("six", "internet", 20, &["2001:db8:f::1/64"]),
    ];
    let mut config = usual();
    (config["ipv4"], config["ipv6"]) = (json!({ "interfaces": "four" }), json!({ "interfaces": "six" }));
    let mut rig = Rig::with(&ports, interfaces, config);
    let tagged = |vlan: u8, packet: &[u8]| {
        let mut frame = common::framed(0, packet);
        frame.splice(12..12, [0x81, 0, 0, vlan]);
        frame
    };
    rig.handles[0].send_all([tagged(10, &down(5000)), tagged(20, &up(B4, AFTR, 5000))]);
    rig.settle();
    let sent = rig.handles[0].received();
    let tags: Vec<&[u8]> = sent.iter().map(|frame| &frame[12..18]).collect();
    assert_eq!(tags, [&[0x81, 0, 0, 20, 0x86, 0xdd], &[0x81, 0, 0, 10, 8, 0]]);
    rig.handles[0].send_all([tagged(20, &down(5000)), tagged(10, &up(B4, AFTR, 5000))]);
    rig.settle();
    assert_eq!(rig.handles[0].received(), Vec::<Vec<u8>>::new());
    let drops = rig.drops();
    assert_eq!((drops["lwaftr.relay/misplaced-ipv4"], drops["lwaftr.relay/misplaced-ipv6"]), (1, 1));
    rig.finish();
}
