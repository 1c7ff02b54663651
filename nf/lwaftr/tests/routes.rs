//! The relay among routes: what it owns, by whichever interface and from whichever VRF packets come.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use common::{ACCESS, AFTR, B4, HOST, INTERNET, PortSpec, ROUTERS, Rig, four, framed, six, two, udp, usual};
use serde_json::{Value, json};
use weir_stage::InterfaceInfo;

fn down(ttl: u8) -> Vec<u8> {
    four(HOST, "203.0.113.1", 17, ttl, &udp(53, 5000, 30))
}

fn up() -> Vec<u8> {
    six(B4, AFTR, 4, 64, &four("203.0.113.1", HOST, 17, 64, &udp(5000, 53, 30)))
}

/// The routes of the relay: VRF, prefix, whether packets follow it.
fn owned(rig: &Rig) -> Vec<(String, String, bool)> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let rows = rig.show("routes", Some("lwaftr"));
    assert!(rows.iter().all(|row| row["via"] == json!(["@lwaftr"]) && row["source"] == "lwaftr"), "{rows:?}");
    rows.iter().map(|row| (text(row, "vrf"), text(row, "prefix"), row["active"] == json!(true))).collect()
}

fn prefixes(rig: &Rig) -> Vec<String> {
    owned(rig).into_iter().map(|(_, prefix, _)| prefix).filter(|prefix| !prefix.contains(':')).collect()
}

#[test]
fn shared_addresses_and_ends_of_tunnels_are_routes_that_follow_the_table() {
    let mut rig = Rig::new(usual());
    let of = |prefix: &str| ("default".to_owned(), prefix.to_owned());
    let all: Vec<_> = owned(&rig).into_iter().map(|(vrf, prefix, _)| (vrf, prefix)).collect();
    let expected = ["203.0.113.1/32", "203.0.113.9/32", "2001:db8:a::1/128", "2001:db8:a::2/128"].map(of);
    assert_eq!(all, expected);
    assert!(owned(&rig).iter().all(|(.., is_active)| *is_active));
    let add = |rig: &Rig, ipv4: &str| rig.request("softwire add", json!([{ "ipv4": ipv4, "b4": B4 }])).unwrap();
    ["203.0.113.8", "203.0.113.11"].into_iter().for_each(|ipv4| drop(add(&rig, ipv4)));
    assert_eq!(prefixes(&rig), ["203.0.113.1/32", "203.0.113.8/31", "203.0.113.11/32"]);
    add(&rig, "203.0.113.10");
    assert_eq!(prefixes(&rig), ["203.0.113.1/32", "203.0.113.8/30"]);
    rig.request("softwire del", json!([{ "ipv4": "203.0.113.8" }])).unwrap();
    assert_eq!(prefixes(&rig), ["203.0.113.1/32", "203.0.113.9/32", "203.0.113.10/31"]);
    // What is refused changes nothing, be it half done.
    let refused = json!([{ "ipv4": "203.0.113.77", "b4": B4 }, { "ipv4": "203.0.113.78", "b4": "ff02::1" }]);
    rig.request("softwire add", refused).unwrap_err();
    assert_eq!(prefixes(&rig).len(), 3);
    let mut config = usual();
    config["softwires"] = json!([{ "ipv4": "203.0.113.4", "b4": B4 }]);
    rig.reload(&config);
    assert_eq!(prefixes(&rig), ["203.0.113.4/32", "203.0.113.10/31"]);
    // Somebody else's word on a prefix counts where a person's does.
    rig.request("route add", json!([{ "prefix": "203.0.113.4/32", "via": ["blackhole"] }])).unwrap();
    assert!(owned(&rig).contains(&("default".to_owned(), "203.0.113.4/32".to_owned(), false)));
    let refusal = rig.request("route add", json!([{ "prefix": "203.0.113.4/32", "via": ["@bng"] }])).unwrap_err();
    assert!(refusal.contains("there is no inlet \"bng\"; write one of @lwaftr"), "{refusal}");
    rig.finish();
}

/// Two ports without addresses of their own, and interfaces with tags on them.
fn tagged_ports() -> Vec<PortSpec> {
    two().into_iter().map(|port| PortSpec { addresses: Vec::new(), ..port }).collect()
}

fn interface(name: &str, on: usize, vlan: u16, address: &str, vrf: Option<&str>) -> InterfaceInfo {
    let on = ["internet", "access"][on];
    InterfaceInfo { vrf: vrf.map(str::to_owned), ..common::interface(name, on, vlan, &[address]) }
}

/// A frame with a tag.
fn tagged(port: usize, vlan: u8, packet: &[u8]) -> Vec<u8> {
    let mut frame = framed(port, packet);
    frame.splice(12..12, [0x81, 0, 0, vlan]);
    frame
}

/// Sends a packet by a VLAN of a port; answers what both ports send, by VLAN, without the link's headers.
fn pass(rig: &mut Rig, port: usize, vlan: u8, packet: &[u8]) -> Vec<(usize, u8, Vec<u8>)> {
    let sent = rig.pass_frames(port, vec![tagged(port, vlan, packet)]);
    let of = |port: usize, frames: Vec<Vec<u8>>| {
        frames.into_iter().map(move |frame| {
            let end = frame.len().min(18 + length_of(&frame[18..]));
            (port, frame[15], frame[18..end].to_vec())
        })
    };
    let [first, second] = sent;
    of(INTERNET, first).chain(of(ACCESS, second)).collect()
}

/// Bytes of an IP packet, without what fills its frame up.
fn length_of(packet: &[u8]) -> usize {
    let field = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    if packet[0] >> 4 == 6 { 40 + field(4) } else { field(2) }
}

/// What has the relay in two VRFs, and one beside from which nothing leads to it but what is said.
fn in_vrfs(blue: Value) -> Rig {
    let interfaces = vec![
        interface("out", INTERNET, 10, "192.0.2.1/24", Some("outside")),
        interface("in", ACCESS, 20, "2001:db8:f::1/64", Some("inside")),
        interface("blue4", INTERNET, 30, "198.51.100.1/24", Some("blue")),
        interface("blue6", ACCESS, 40, "2001:db8:e::1/64", Some("blue")),
    ];
    let mut config = usual();
    for key in ["routes", "neighbors"] {
        config.as_object_mut().unwrap().remove(key);
    }
    (config["ipv4"], config["ipv6"]) = (json!({ "vrf": "outside" }), json!({ "vrf": "inside" }));
    config["vrfs"] = json!({
        "outside": { "routes": { "0.0.0.0/0": "192.0.2.9" }, "neighbors": { "192.0.2.9": "02:00:00:00:02:01" } },
        "inside": {
            "routes": { "2001:db8:c::/48": "2001:db8:f::9" },
            "neighbors": { "2001:db8:f::9": "02:00:00:00:02:02" },
        },
        "blue": { "routes": blue, "neighbors": { "198.51.100.3": "02:00:00:00:02:01" } },
    });
    Rig::with(&tagged_ports(), interfaces, config)
}

fn wrapped(ttl: u8) -> Vec<u8> {
    six(AFTR, B4, 4, 255, &four(HOST, "203.0.113.1", 17, ttl, &udp(53, 5000, 30)))
}

fn unwrapped() -> Vec<u8> {
    four("203.0.113.1", HOST, 17, 64, &udp(5000, 53, 30))
}

#[test]
fn each_side_is_in_the_vrf_that_the_configuration_says() {
    let mut rig = in_vrfs(json!({}));
    assert_eq!(pass(&mut rig, INTERNET, 10, &down(64)), [(ACCESS, 20, wrapped(63))]);
    assert_eq!(pass(&mut rig, ACCESS, 20, &up()), [(INTERNET, 10, unwrapped())]);
    let vrfs: Vec<_> = owned(&rig).into_iter().map(|(vrf, prefix, _)| (prefix.contains(':'), vrf)).collect();
    let of = |is_six, vrf: &str| (is_six, vrf.to_owned());
    let expected = [of(false, "outside"), of(false, "outside"), of(true, "inside"), of(true, "inside")];
    assert_eq!(vrfs.iter().collect::<std::collections::BTreeSet<_>>(), expected.iter().collect());
    // Without a route of theirs, others do not reach it.
    for (port, vlan, packet) in [(INTERNET, 30, down(64)), (ACCESS, 40, up())] {
        let sent = pass(&mut rig, port, vlan, &packet);
        assert!(sent.iter().all(|(at, of, _)| (*at, *of) == (port, vlan)), "an error at most: {sent:?}");
    }
    rig.finish();
}

#[test]
fn routes_of_other_vrfs_lead_to_the_relay() {
    let mut rig = in_vrfs(json!({ "203.0.113.0/24": "@lwaftr" }));
    rig.request("route add", json!([{ "prefix": format!("{AFTR}/128"), "via": ["@lwaftr"], "vrf": "blue" }])).unwrap();
    assert_eq!(pass(&mut rig, INTERNET, 30, &down(64)), [(ACCESS, 20, wrapped(63))]);
    assert_eq!(pass(&mut rig, ACCESS, 40, &up()), [(INTERNET, 10, unwrapped())]);
    // Both are counted at what they were led by.
    let hops = rig.show("nexthops", Some("@lwaftr"));
    assert_eq!(hops.iter().map(|hop| &hop["packets"]).collect::<Vec<_>>(), [&json!(2)], "{hops:?}");
    // Who has neither a softwire's address and port nor a softwire's ends is told so as elsewhere.
    let stranger = four(HOST, "203.0.113.200", 17, 64, &udp(53, 5000, 30));
    let told = pass(&mut rig, INTERNET, 30, &stranger);
    assert!(told.is_empty() || told[0].2[20..22] == [3, 1], "{told:?}");
    // The relay decides of hops, as it does on its own interfaces.
    pass(&mut rig, INTERNET, 30, &down(1));
    pass(&mut rig, INTERNET, 30, &down(0));
    let counts = rig.counts();
    assert_eq!(counts["drop-no-dest-softwire-ipv4-packets"], 1);
    assert_eq!(counts["drop-ttl-zero-ipv4-packets"], 2);
    // Options are the receiver's.
    let mut options = four(HOST, "203.0.113.1", 17, 64, &[&[1, 1, 1, 0], &udp(53, 5000, 30)[..]].concat());
    options[0] = 0x46;
    weir_wire::ipv4::write_checksum(&mut options);
    let sent = pass(&mut rig, INTERNET, 30, &options);
    assert_eq!((sent.len(), sent[0].0, &sent[0].2[24..40]), (1, ACCESS, &wrapped(63)[24..40]));
    // Fragments wait as elsewhere.
    let datagram = udp(53, 5000, 30);
    let fragment = |from: usize, to: usize| {
        let mut packet = four(HOST, "203.0.113.1", 17, 64, &datagram[from..to]);
        let field = (from / 8) as u16 | u16::from(to < datagram.len()) << 13;
        packet[6..8].copy_from_slice(&field.to_be_bytes());
        weir_wire::ipv4::write_checksum(&mut packet);
        packet
    };
    assert!(pass(&mut rig, INTERNET, 30, &fragment(16, 38)).is_empty());
    assert_eq!(pass(&mut rig, INTERNET, 30, &fragment(0, 16)), [(ACCESS, 20, wrapped(63))]);
    rig.request("route del", json!([{ "prefix": format!("{AFTR}/128"), "vrf": "blue" }])).unwrap();
    assert!(pass(&mut rig, ACCESS, 40, &up()).iter().all(|(port, ..)| *port == ACCESS));
    rig.finish();
}

#[test]
fn what_the_router_says_to_customers_goes_into_their_tunnels() {
    let mut rig = Rig::new(usual());
    let mut echo = vec![0; 8];
    weir_wire::icmp::write_header(&mut echo, 8, 0, [0x13, 0x88, 0, 1]);
    let ping = six(B4, AFTR, 4, 64, &four("203.0.113.1", "192.0.2.1", 1, 64, &echo));
    let [plain, frames] = rig.pass(ACCESS, &[ping]);
    assert_eq!((plain.len(), frames.len()), (0, 1));
    assert_eq!(frames[0][..6], ROUTERS[1]);
    let reply = &frames[0][14..];
    assert_eq!(
        (&reply[8..24], &reply[24..40]),
        (&six(AFTR, B4, 4, 255, &[])[8..24], &six(AFTR, B4, 4, 255, &[])[24..])
    );
    assert_eq!((reply[6], &reply[52..60], reply[60]), (4, &[192, 0, 2, 1, 203, 0, 113, 1][..], 0));
    rig.finish();
}
