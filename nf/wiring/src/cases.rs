//! What `weir bench cpp wiring` measures.

use weir_stage::case::{HEADER, Prepare, Traffic};
use weir_stage::{Case, PortInfo};
use weir_wire::MacAddr;
use weir_wire::build::{UDP_OVERHEAD, UdpFrame};

/// The station behind the port `out`.
const NEXT_HOP: &str = "02:00:00:00:00:07";

/// Bytes of a frame, 64 with its check sequence.
const LENGTH: usize = 60;

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let matching = "wiring { receive = { [\"in\"] = \"udp\" },
        stages = { udp = { kind = \"match\", filter = \"udp\", ways = { out = \"port out\" } } } }";
    let steps = format!(
        "wiring {{ receive = {{ [\"in\"] = \"check\" }}, stages = {{
            check = {{ kind = \"ipv4-check\", ways = {{ out = \"route\", options = \"drop\", arp = \"drop\" }} }},
            route = {{ kind = \"ipv4-route\", next_hops = {{ \"198.51.100.2\" }}, routes = {{ [\"198.18.0.0/15\"] = \"198.51.100.2\" }},
                      ways = {{ [\"no-route\"] = \"drop\", [\"way[0]\"] = \"to\" }} }},
            to    = {{ kind = \"ipv4-rewrite\", from = \"out\", to = \"{NEXT_HOP}\",
                      ways = {{ out = \"port out\", expired = \"drop\", [\"too-big\"] = \"drop\" }} }},
        }} }}"
    );
    let routed: Prepare = |_, ports, _| routed(ports);
    vec![
        Case::plain("match", "64-byte UDP packets through a stage that matches them", matching.to_owned()),
        Case {
            name: "router",
            help: "the same to one address through the steps of the router: check, look up, rewrite",
            needs: &[],
            script: steps,
            port_keys: "",
            knobs: &[],
            prepare: routed,
        },
    ]
}

/// Frames for the router, which leave for the next hop with one off their TTL.
fn routed(ports: &[PortInfo]) -> Result<Traffic, String> {
    let mac = |name| {
        let port = ports.iter().find(|port| port.name == name);
        port.map(|port| MacAddr(port.facts.mac)).ok_or_else(|| format!("there is no port \"{name}\""))
    };
    let data = [0; LENGTH - UDP_OVERHEAD];
    let comes = UdpFrame { destination_mac: mac("in")?, ..UdpFrame::default() };
    let next_hop: MacAddr = NEXT_HOP.parse().map_err(|_| format!("{NEXT_HOP} is no Ethernet address"))?;
    let goes = UdpFrame { source_mac: mac("out")?, destination_mac: next_hop, ttl: comes.ttl - 1, ..comes };
    let (comes, goes) = (comes.to_vec(&data), goes.to_vec(&data));
    let frame = move |_: u64, bytes: &mut [u8; HEADER]| {
        bytes.iter_mut().zip(&comes).for_each(|(to, from)| *to = *from);
        LENGTH
    };
    let check = move |bytes: &[u8]| match bytes == goes {
        true => Ok(()),
        false => Err(format!("{bytes:?} came out in place of {goes:?}")),
    };
    Ok(Traffic { frame: Box::new(frame), frames: 1, check: Box::new(check) })
}
