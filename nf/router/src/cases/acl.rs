//! Cases with access lists: rules as lists of routers have them, and packets each of which matches a rule that is drawn at random.

use std::net::Ipv4Addr;

use weir_stage::case::{HEADER, Prepare, Traffic};
use weir_stage::{Case, Chosen, Instance, PortInfo, Random};
use weir_wire::build::UdpFrame;

use super::{FRAMES, case, check, check_next_hop, gateway, ingress_mac, mac_of, one_route, usual_ttl};

pub(super) fn all() -> Vec<Case> {
    vec![
        none(),
        with(
            "acl-100",
            "an access list of 100 rules, of which each packet matches one at random",
            100,
            "",
            |i, p, c| packets(i, p, c, 100),
        ),
        with("acl-1k", "the same with 1,000 rules", 1000, "", thousand),
        with("acl-10k", "the same with 10,000 rules", 10_000, "", |i, p, c| packets(i, p, c, 10_000)),
        with("acl-1k-log", "acl-1k with rules that log", 1000, " log", thousand),
        with("acl-1k-police", "acl-1k with rules that police, at a rate that nothing exceeds", 1000, POLICE, thousand),
        redirecting(),
    ]
}

/// A rate that one core does not reach.
const POLICE: &str = " police 100Gbit/s";

/// Each rule redirects into a VRF, where alone there is a route.
fn redirecting() -> Case {
    let gateway = gateway(0);
    let keys = format!("vrfs = {{ web = {{ routes = {{ [\"10.0.0.0/8\"] = \"{gateway}%out\" }} }} }},");
    let help = "acl-1k with rules that redirect into another VRF";
    case("acl-1k-redirect", help, &[], &format!("{} {keys}", list(1000, " redirect vrf web")), |_, ports, chosen| {
        matching(ports, chosen, 1000)
    })
}

fn thousand(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    packets(instance, ports, chosen, 1000)
}

/// What the others are compared with: the packets of `acl-10k`.
fn none() -> Case {
    case("acl-none", "the packets of acl-10k without an access list", &[], "", |i, p, c| packets(i, p, c, 10_000))
}

/// A case with a list of so many rules, each of which does something `more` than permitting.
fn with(name: &'static str, help: &'static str, count: usize, more: &str, prepare: Prepare) -> Case {
    case(name, help, &[], &list(count, more), prepare)
}

/// The keys of a list of so many rules, for what comes in.
fn list(count: usize, more: &str) -> String {
    let rules: Vec<String> = rules(count).iter().map(|rule| format!("\"{}{more}\"", rule.text())).collect();
    format!(
        "acls = {{ edge = {{ default = \"deny\", rules = {{ {} }} }} }}, acl_in = {{ [\"in\"] = \"edge\" }},",
        rules.join(", ")
    )
}

/// A rule: sources, destinations, and ports of the destination.
struct Permit {
    source: (u32, u32),
    destination: (u32, u32),
    ports: (u16, u16),
}

impl Permit {
    fn text(&self) -> String {
        let net = |(address, length): (u32, u32)| format!("{}/{length}", Ipv4Addr::from_bits(address));
        let (source, destination, (least, most)) = (net(self.source), net(self.destination), self.ports);
        format!("permit protocol udp from {source} to {destination} to-port {least}-{most}")
    }
}

/// So many rules: networks of few sites, each with a few of their own; one in seven is for any source.
fn rules(count: usize) -> Vec<Permit> {
    let mut random = Random::new(15);
    let sites: Vec<u32> = (0..(count / 8).max(4)).map(|_| random.below(1 << 24) as u32).collect();
    let prefix = |side: u32, lengths: &[u32], random: &mut Random| {
        let site = sites.get(random.below(sites.len() as u64) as usize).copied().unwrap_or_default();
        let length = lengths.get(random.below(lengths.len() as u64) as usize).copied().unwrap_or(24);
        let address = side << 24 | site & 0xff_ff00 | random.below(256) as u32;
        (address & u32::MAX << (32 - length), length)
    };
    let known = [53, 80, 123, 161, 443, 500, 514, 1194, 4500, 8080];
    (0..count)
        .map(|_| {
            let any = random.below(7) == 0;
            let source = if any { (16 << 24, 4) } else { prefix(20, &[16, 20, 24, 24, 28, 32], &mut random) };
            let destination = prefix(10, &[20, 22, 24, 24, 26, 28, 30, 32, 32, 32], &mut random);
            let port = known.get(random.below(10) as usize).copied().unwrap_or_default();
            let ports = [(port, port), (port, port), (port, port), (0, u16::MAX), (1024, u16::MAX)];
            let ports = ports.get(random.below(5) as usize).copied().unwrap_or_default();
            Permit { source, destination, ports }
        })
        .collect()
}

fn packets(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen, count: usize) -> Result<Traffic, String> {
    one_route(instance, 1)?;
    matching(ports, chosen, count)
}

/// Packets each of which matches one of so many rules.
fn matching(ports: &[PortInfo], chosen: &Chosen, count: usize) -> Result<Traffic, String> {
    let (rules, mut random, to) = (rules(count), Random::new(16), ingress_mac(ports)?);
    let mut whole = vec![0; chosen.frame_len()];
    let frame = move |_: u64, bytes: &mut [u8; HEADER]| {
        let mut within = |(address, length): (u32, u32)| address | random.below(1 << (32 - length)) as u32;
        if let Some(rule) = rules.get(within((0, 0)) as usize % rules.len().max(1)) {
            let (source, destination) = (within(rule.source), within(rule.destination));
            let (least, most) = rule.ports;
            let frame = UdpFrame {
                source_mac: mac_of(super::SOURCE),
                destination_mac: to,
                source: Ipv4Addr::from_bits(source),
                destination: Ipv4Addr::from_bits(destination),
                destination_port: least + (within((0, 0)) % (u32::from(most - least) + 1)) as u16,
                ttl: usual_ttl(),
                ..UdpFrame::default()
            };
            frame.write_around(&mut whole);
        }
        bytes.iter_mut().zip(&whole).for_each(|(to, from)| *to = *from);
        whole.len()
    };
    let check = move |bytes: &[u8]| {
        check(bytes).and_then(|(destination, mac)| check_next_hop(destination, mac, mac_of(gateway(0))))
    };
    Ok(Traffic { frame: Box::new(frame), frames: FRAMES, check: Box::new(check) })
}
