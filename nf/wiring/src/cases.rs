//! What `weir bench cpp wiring` measures.

use std::net::Ipv6Addr;

use weir_stage::case::{HEADER, Prepare, Traffic};
use weir_stage::{Case, PortInfo};
use weir_wire::build::{UDP_OVERHEAD, UdpFrame};
use weir_wire::{Ethernet, Ipv6, MacAddr, View, ethernet};

/// The station behind the port `out`.
const NEXT_HOP: &str = "02:00:00:00:00:07";

/// Bytes of a frame, 64 with its check sequence.
const LENGTH: usize = 60;

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let matching = "wiring { receive = { [\"in\"] = \"udp\" },
        stages = { udp = { kind = \"match\", filter = \"udp\", ways = { out = \"port out\" } } } }";
    // Packets that are asked all that it has to ask of UDP, and of TCP once.
    let either = |compile: bool| {
        format!(
            "wiring {{ receive = {{ [\"in\"] = \"either\" }}, stages = {{ either = {{
                kind = \"match\", filter = \"udp dst port 53 or (tcp and net 10.0.0.0/8)\", compile = {compile},
                ways = {{ out = \"drop\", other = \"port out\" }} }} }} }}"
        )
    };
    let steps4 = steps("ipv4", ("198.51.100.2", "198.18.0.0/15"), &["options", "arp"]);
    let steps6 = steps("ipv6", ("2001:db8:2::2", "2001:db9::/32"), &["options", "nd", "link"]);
    let routed: Prepare = |_, ports, _| routed(ports);
    let routed6: Prepare = |_, ports, _| routed6(ports);
    let router =
        |name, help, script, prepare| Case { name, help, needs: &[], script, port_keys: "", knobs: &[], prepare };
    vec![
        Case::plain("match", "64-byte UDP packets through a stage that matches them", matching.to_owned()),
        Case::plain(
            "match-either",
            "the same that are neither DNS nor TCP of a network, which a stage asks for",
            either(true),
        ),
        Case::plain("match-either-tests", "the same without machine code", either(false)),
        router(
            "router",
            "the same to one address through the steps of the router: check, look up, rewrite",
            steps4,
            routed,
        ),
        router("router6", "64-byte IPv6 packets to one address through the same steps of IPv6", steps6, routed6),
    ]
}

/// The steps of a family to one next hop, by its address and a route there; what leaves by other ways is dropped.
fn steps(family: &str, (next_hop, prefix): (&str, &str), aside: &[&str]) -> String {
    let aside: String = aside.iter().map(|way| format!(", {way} = \"drop\"")).collect();
    format!(
        "wiring {{ receive = {{ [\"in\"] = \"check\" }}, stages = {{
            check = {{ kind = \"{family}-check\", ways = {{ out = \"route\"{aside} }} }},
            route = {{ kind = \"{family}-route\", next_hops = {{ \"{next_hop}\" }}, routes = {{ [\"{prefix}\"] = \"{next_hop}\" }},
                      ways = {{ [\"no-route\"] = \"drop\", [\"way[0]\"] = \"to\" }} }},
            to    = {{ kind = \"{family}-rewrite\", from = \"out\", to = \"{NEXT_HOP}\",
                      ways = {{ out = \"port out\", expired = \"drop\", [\"too-big\"] = \"drop\" }} }},
        }} }}"
    )
}

/// The Ethernet addresses of the ports, and that of the next hop.
fn stations(ports: &[PortInfo]) -> Result<[MacAddr; 3], String> {
    let mac = |name| {
        let port = ports.iter().find(|port| port.name == name);
        port.map(|port| MacAddr(port.facts.mac)).ok_or_else(|| format!("there is no port \"{name}\""))
    };
    let next_hop: MacAddr = NEXT_HOP.parse().map_err(|_| format!("{NEXT_HOP} is no Ethernet address"))?;
    Ok([mac("in")?, mac("out")?, next_hop])
}

/// Frames for the router, which leave for the next hop with one off their TTL.
fn routed(ports: &[PortInfo]) -> Result<Traffic, String> {
    let [ingress, egress, next_hop] = stations(ports)?;
    let data = [0; LENGTH - UDP_OVERHEAD];
    let comes = UdpFrame { destination_mac: ingress, ..UdpFrame::default() };
    let goes = UdpFrame { source_mac: egress, destination_mac: next_hop, ttl: comes.ttl - 1, ..comes };
    Ok(traffic(comes.to_vec(&data), goes.to_vec(&data)))
}

/// The same of IPv6.
fn routed6(ports: &[PortInfo]) -> Result<Traffic, String> {
    let [ingress, egress, next_hop] = stations(ports)?;
    let host = MacAddr([2, 0, 0, 0, 0, 9]);
    Ok(traffic(frame6(ingress, host, 64), frame6(next_hop, egress, 63)))
}

/// A frame with an IPv6 packet that has nothing behind its header but bytes without a meaning (RFC 8200 section 4.7).
fn frame6(to: MacAddr, from: MacAddr, hop_limit: u8) -> Vec<u8> {
    const NO_NEXT_HEADER: u8 = 59;
    let source = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 9).octets();
    let destination = Ipv6Addr::new(0x2001, 0xdb9, 1, 2, 0, 0, 0, 3).octets();
    let payload = [0; LENGTH - Ethernet::LEN - Ipv6::LEN];
    let start = [0x60, 0, 0, 0, 0, payload.len() as u8, NO_NEXT_HEADER, hop_limit];
    let ethertype = ethernet::IPV6.to_be_bytes();
    [&to.0[..], &from.0, &ethertype, &start, &source, &destination, &payload].concat()
}

/// Always the same frame, and what it comes out as.
fn traffic(comes: Vec<u8>, goes: Vec<u8>) -> Traffic {
    let frame = move |_: u64, bytes: &mut [u8; HEADER]| {
        bytes.iter_mut().zip(&comes).for_each(|(to, from)| *to = *from);
        LENGTH
    };
    let check = move |bytes: &[u8]| match bytes == goes {
        true => Ok(()),
        false => Err(format!("{bytes:?} came out in place of {goes:?}")),
    };
    Traffic { frame: Box::new(frame), frames: 1, check: Box::new(check) }
}
