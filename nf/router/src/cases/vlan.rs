//! Cases with VLAN tags: the same as untagged ones, but that packets come and go with a tag.

use std::net::Ipv4Addr;

use serde_json::json;
use weir_ip::Tags;
use weir_ip::tags::{FRONT_LEN, Front, Tag};
use weir_stage::case::{HEADER, Traffic};
use weir_stage::{Case, Chosen, Instance, PortInfo, Random};
use weir_wire::build::UdpFrame;
use weir_wire::vlan::is_tag;
use weir_wire::{MacAddr, ethernet};

use super::{FRAMES, KNOBS, add_routes, check, ingress_mac, usual_ttl};

/// Interfaces on each of both ports in the case with many.
const MANY: u16 = 2048;

pub(super) fn one() -> Case {
    Case {
        name: "vlan",
        help: "one destination, from one VLAN to another (one-destination is the same without tags)",
        needs: &[],
        script: script(1),
        port_keys: "",
        knobs: KNOBS,
        prepare: |instance, ports, chosen| between(instance, ports, chosen, 1),
    }
}

pub(super) fn many() -> Case {
    Case {
        name: "vlan-4096",
        help: "from 2,048 VLANs to 2,048 others, at random (networks, with as many, is the same without tags)",
        script: script(MANY),
        prepare: |instance, ports, chosen| between(instance, ports, chosen, MANY),
        ..one()
    }
}

/// A router with so many interfaces on each port.
fn script(count: u16) -> String {
    let declare = |port: &str, side: u8, n: u16| {
        let [high, low] = n.to_be_bytes();
        format!(
            "interface {{ name = \"{port}.{vlan}\", on = \"{port}\", vlan = {vlan}, address = \"{side}.{high}.{low}.1/24\" }}\n",
            vlan = n + 1
        )
    };
    let all = (0..count).flat_map(|n| [declare("in", INSIDE, n), declare("out", OUTSIDE, n)]);
    format!("{}router {{ ports = {{ \"in\", \"out\" }} }}", all.collect::<String>())
}

/// First bytes of the addresses on either side, and of the networks behind the outside.
const INSIDE: u8 = 20;
const OUTSIDE: u8 = 21;
const BEHIND: u8 = 30;

/// A host of network `n` on a side.
fn host(side: u8, n: u16) -> Ipv4Addr {
    let [high, low] = n.to_be_bytes();
    Ipv4Addr::new(side, high, low, 9)
}

fn mac_of(host: Ipv4Addr) -> MacAddr {
    let [side, high, low, last] = host.octets();
    MacAddr([2, side, 0, high, low, last])
}

fn tag(n: u16) -> Tag {
    Tag { tpid: ethernet::CVLAN, vlan: n + 1 }
}

fn between(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen, count: u16) -> Result<Traffic, String> {
    let neighbors: Vec<_> = (0..count)
        .map(|n| host(OUTSIDE, n))
        .map(|host| json!({ "address": host.to_string(), "mac": mac_of(host).to_string() }))
        .collect();
    for some in neighbors.chunks(1000) {
        instance.request("neighbor add", &some.into(), 0).map_err(|error| error.0)?;
    }
    let network = |n: u16| {
        let [high, low] = n.to_be_bytes();
        format!("{BEHIND}.{high}.{low}.0/24")
    };
    let routes: Vec<_> = (0..count).map(|n| (network(n), vec![host(OUTSIDE, n).to_string()])).collect();
    add_routes(instance, &routes)?;
    let mut random = Random::new(4);
    let to = ingress_mac(ports)?;
    // The tag comes on top, as it does on a line.
    let mut whole = vec![0; chosen.frame_len()];
    let frame = move |_: u64, bytes: &mut [u8; HEADER]| {
        let [from, behind] = [(), ()].map(|()| random.below(count.into()) as u16);
        let source = host(INSIDE, from);
        let frame = UdpFrame {
            source_mac: mac_of(source),
            destination_mac: to,
            source,
            destination: host(BEHIND, behind),
            ttl: usual_ttl(),
            ..UdpFrame::default()
        };
        frame.write_around(&mut whole);
        let header = Tags::of([tag(from)]);
        let behind = header.bytes(ethernet::IPV4);
        let front = whole.iter().take(12).copied().chain(behind.into_iter().take(header.header_len() - 12));
        let all = front.chain(whole.iter().skip(14).copied());
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        whole.len() + 4
    };
    Ok(Traffic { frame: Box::new(frame), frames: if count == 1 { 1 } else { FRAMES }, check: Box::new(check_tagged) })
}

/// Whether a frame went to the network that it was to go to, with the tag of that.
fn check_tagged(bytes: &[u8]) -> Result<(), String> {
    let window: [u8; FRONT_LEN] = bytes.first_chunk().copied().ok_or("a frame came out that is cut short")?;
    let front = Front::parse(&window, is_tag);
    if front.ethertype == ethernet::ARP {
        // Each of the interfaces announces its address, so that some of it is met.
        return Ok(());
    }
    let untagged = [&window[..12], bytes.get(usize::from(front.l3) - 2..).unwrap_or_default()].concat();
    let (destination, mac) = check(&untagged)?;
    let [_, high, low, _] = destination.octets();
    let n = u16::from_be_bytes([high, low]);
    if (front.tags, mac) == (Tags::of([tag(n)]), mac_of(host(OUTSIDE, n))) {
        return Ok(());
    }
    Err(format!("a packet to {destination} was sent to {mac} with the tags {}", front.tags))
}
