//! What `weir bench cpp router` measures.
//!
//! [`six`] has those with IPv6. The port `in` has the address 192.0.2.1/24 and the port `out` 198.51.100.1/24. Behind `out` are as many next hops as the
//! access router of the UNIFY project (deliverable D5.4, 2015) had; their Ethernet addresses are entered by hand, so that no ARP is measured.

mod acl;
mod six;
mod table;
mod vlan;

use std::net::Ipv4Addr;

use serde_json::json;
use weir_stage::case::{FRAME, HEADER, Prepare, Traffic};
use weir_stage::{Case, Chosen, Instance, Knob, PortInfo, Random};
use weir_wire::build::UdpFrame;
use weir_wire::{Ethernet, Ipv4, MacAddr, View, validity};

use table::{FIB_FILE, Fill, Prefixes};

/// Next hops of the tables.
const NEXT_HOPS: u32 = 194;

/// Frames in a round of the cases with a table.
const FRAMES: u64 = 1_000_000;

const KNOBS: &[Knob] = &[FRAME];

const NETWORKS: Knob = Knob {
    name: "networks",
    help: "different networks to which packets go, all with a route",
    usual: 65_536,
    least: 1,
    most: 1 << 24,
};

const LENGTH: Knob = Knob { name: "length", help: "length of the networks' prefixes", usual: 24, least: 24, most: 28 };

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let mut all = all_of_four();
    all.extend(six::all());
    all.extend(acl::all());
    all
}

fn all_of_four() -> Vec<Case> {
    vec![
        case("one-destination", "64-byte UDP packets to one address", &[], "", one_destination),
        case(
            "fib-410k",
            "410,000 prefixes with the length mix of an access router, a million destinations",
            FIB,
            "",
            fib_410k,
        ),
        case("fib-410k-packed", "the same in the packed table", FIB, PACKED, fib_410k),
        case("fib-real", "a real table of 606,138 prefixes, a million destinations", FIB, "", fib_real),
        case("fib-real-packed", "the same in the packed table", FIB, PACKED, fib_real),
        case("fib-1m", "1,000,000 prefixes, a million destinations", FIB, "", fib_1m),
        case("fib-1m-packed", "the same in the packed table", FIB, PACKED, fib_1m),
        case("exceptions", "one destination, one packet in 16 at the end of its TTL", &[], "", exceptions),
        case("ttl-flood", "one destination, every other packet at the end of its TTL", &[], "", ttl_flood),
        case("ttl-flood-dropped", "the same, but the slow path takes none of them", &[], CLOSED, ttl_flood),
        case("two-ports", "packets to addresses behind either port in turn", &[], "", two_ports),
        Case {
            knobs: &[],
            ..case("imix", "one destination, frames of 64, 594 and 1,518 bytes as 7 : 4 : 1", &[], "", imix)
        },
        vlan::one(),
        vlan::many(),
        two_vrfs(),
        case("ecmp-4", "one destination, four next hops, many flows", &[], "", ecmp),
        case(
            "redirects",
            "one destination, and sources are told of nearer routers",
            &[],
            "redirects = true,",
            one_destination,
        ),
        Case {
            knobs: &[FRAME, NETWORKS, LENGTH],
            ..case("networks", "random addresses in as many networks as asked for", &[], MANY, networks)
        },
        Case {
            knobs: &[FRAME, NETWORKS, LENGTH],
            ..case("networks-packed", "the same in the packed table", &[], &format!("{PACKED} {MANY}"), networks)
        },
    ]
}

/// The same as `one-destination`, but that both ports are in a VRF beside the default one.
fn two_vrfs() -> Case {
    let host = |host| format!("[\"{host}\"] = \"{}\"", mac_of(host));
    let neighbors = format!("{}, {}", host(gateway(0)), host(SOURCE));
    Case {
        script: format!(
            "router {{ ports = {{ \"in\", \"out\" }}, vrfs = {{ two = {{ neighbors = {{ {neighbors} }} }} }} }}"
        ),
        port_keys: "vrf = \"two\"",
        ..case("two-vrfs", "one destination, in a VRF beside the default one", &[], "", in_second_vrf)
    }
}

fn in_second_vrf(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    let route = json!({ "prefix": "10.0.0.0/8", "via": [gateway(0).to_string()], "vrf": "two" });
    instance.request("route add", &json!([route]), 0).map_err(|error| error.0)?;
    let expected = |to, mac| check_next_hop(to, mac, mac_of(gateway(0)));
    Ok(traffic(ingress_mac(ports)?, chosen, 1, |_| (DESTINATION, 9, usual_ttl()), expected))
}

const FIB: &[&str] = &[FIB_FILE];

/// Keys of a script that choose the packed table.
const PACKED: &str = "table = \"packed\",";

/// Keys of a script that let a router have as many routes as `NETWORKS` may ask for.
const MANY: &str = "limits = { routes = 17000000, long_prefix_networks = 1100000 },";

/// Keys of a script that close the slow path, as far as a policer can.
const CLOSED: &str = "punt_rate = \"1 pps\",";

fn case(name: &'static str, help: &'static str, needs: &'static [&'static str], keys: &str, prepare: Prepare) -> Case {
    let neighbors = (0..NEXT_HOPS).map(|n| format!("[\"{}\"] = \"{}\", ", gateway(n), mac_of(gateway(n))));
    let neighbors: String = neighbors.collect();
    let host = format!("[\"{SOURCE}\"] = \"{}\"", mac_of(SOURCE));
    let script = format!("router {{ ports = {{ \"in\", \"out\" }}, {keys} neighbors = {{ {neighbors}{host} }} }}");
    Case { name, help, needs, script, port_keys: "", knobs: KNOBS, prepare }
}

/// Where all packets come from: a host behind the port `in`.
const SOURCE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);

/// The next hop of a number.
fn gateway(n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(198, 51, 100, 2).to_bits() + n % NEXT_HOPS)
}

/// The Ethernet address of a host behind either port.
fn mac_of(host: Ipv4Addr) -> MacAddr {
    let [.., third, fourth] = host.octets();
    MacAddr([2, 0, 0, 1, third, fourth])
}

/// The Ethernet address of the port that packets come in by.
fn ingress_mac(ports: &[PortInfo]) -> Result<MacAddr, String> {
    let port = ports.iter().find(|port| port.name == "in");
    port.map(|port| MacAddr(port.facts.mac)).ok_or_else(|| "there is no port \"in\"".to_owned())
}

fn add_routes(instance: &dyn Instance, routes: &[(String, Vec<String>)]) -> Result<(), String> {
    for some in routes.chunks(10_000) {
        let list: Vec<_> = some.iter().map(|(prefix, via)| json!({ "prefix": prefix, "via": via })).collect();
        instance.request("route add", &list.into(), 0).map_err(|error| error.0)?;
    }
    Ok(())
}

fn one_route(instance: &dyn Instance, gateways: u32) -> Result<(), String> {
    let via = (0..gateways).map(|n| gateway(n).to_string()).collect();
    add_routes(instance, &[("10.0.0.0/8".to_owned(), via)])
}

/// Frames to what `destination` says, from `source_port`s that it says too, with a TTL.
fn traffic(
    to: MacAddr,
    chosen: &Chosen,
    frames: u64,
    mut vary: impl FnMut(u64) -> (Ipv4Addr, u16, u8) + Send + 'static,
    mut expected: impl FnMut(Ipv4Addr, MacAddr) -> Result<(), String> + Send + 'static,
) -> Traffic {
    let mut whole = vec![0; chosen.frame_len()];
    let frame = move |n: u64, bytes: &mut [u8; HEADER]| {
        let (destination, source_port, ttl) = vary(n);
        let frame = UdpFrame {
            source_mac: mac_of(SOURCE),
            destination_mac: to,
            source: SOURCE,
            destination,
            source_port,
            ttl,
            ..UdpFrame::default()
        };
        frame.write_around(&mut whole);
        bytes.iter_mut().zip(&whole).for_each(|(to, from)| *to = *from);
        whole.len()
    };
    let check = move |bytes: &[u8]| check(bytes).and_then(|(destination, mac)| expected(destination, mac));
    Traffic { frame: Box::new(frame), frames, check: Box::new(check) }
}

/// Whether a frame was forwarded as it should be; answers its destination and whom it was sent to.
fn check(bytes: &[u8]) -> Result<(Ipv4Addr, MacAddr), String> {
    let (ethernet, packet) = Ethernet::split(bytes).ok_or("a frame came out without an Ethernet header")?;
    validity::check_slice(packet).map_err(|defect| format!("a packet came out that is not valid: {defect}"))?;
    let ip = Ipv4::view(packet).ok_or("a packet came out without an IPv4 header")?;
    if ip.ttl != UdpFrame::default().ttl - 1 {
        return Err(format!("a packet came out with a TTL of {}", ip.ttl));
    }
    Ok((ip.destination_addr(), ethernet.destination))
}

/// Whether a frame was sent to the right next hop.
fn check_next_hop(destination: Ipv4Addr, mac: MacAddr, expected: MacAddr) -> Result<(), String> {
    if mac == expected {
        return Ok(());
    }
    Err(format!("a packet to {destination} was sent to {mac}, and its next hop is {expected}"))
}

/// The address of the cases with one destination.
const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);

/// The TTL of packets that are forwarded.
fn usual_ttl() -> u8 {
    UdpFrame::default().ttl
}

fn one_destination(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    one_route(instance, 1)?;
    let expected = |to, mac| check_next_hop(to, mac, mac_of(gateway(0)));
    Ok(traffic(ingress_mac(ports)?, chosen, 1, |_| (DESTINATION, 9, usual_ttl()), expected))
}

/// Frames of several lengths, in the mix that the generator calls so too.
fn imix(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    one_route(instance, 1)?;
    let to = ingress_mac(ports)?;
    let expected = |to, mac| check_next_hop(to, mac, mac_of(gateway(0)));
    let of_length = |frame| {
        let mut chosen = chosen.clone();
        chosen.numbers.insert(FRAME.name, frame);
        traffic(to, &chosen, 1, |_| (DESTINATION, 9, usual_ttl()), expected)
    };
    let [mut short, mut middle, mut long] = [64, 594, 1518].map(of_length);
    let frame = move |n: u64, bytes: &mut [u8; HEADER]| match n {
        0..7 => (short.frame)(n, bytes),
        7..11 => (middle.frame)(n, bytes),
        _ => (long.frame)(n, bytes),
    };
    Ok(Traffic { frame: Box::new(frame), frames: 12, check: short.check })
}

fn exceptions(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    one_in(16, instance, ports, chosen)
}

fn ttl_flood(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    one_in(2, instance, ports, chosen)
}

/// One packet in so many is at the end of its TTL.
fn one_in(every: u64, instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    one_route(instance, 1)?;
    let vary = move |n| (DESTINATION, 9, if n % every == every - 1 { 1 } else { usual_ttl() });
    let expected = |to, mac| check_next_hop(to, mac, mac_of(gateway(0)));
    Ok(traffic(ingress_mac(ports)?, chosen, every, vary, expected))
}

fn two_ports(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    one_route(instance, 1)?;
    add_routes(instance, &[("11.0.0.0/8".to_owned(), vec![SOURCE.to_string()])])?;
    let back = Ipv4Addr::new(11, 1, 2, 3);
    let vary = move |n| (if n % 2 == 0 { DESTINATION } else { back }, 9, usual_ttl());
    let expected = |to, mac| check_next_hop(to, mac, mac_of(gateway(0)));
    Ok(traffic(ingress_mac(ports)?, chosen, 2, vary, expected))
}

fn ecmp(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    const MEMBERS: u32 = 4;
    one_route(instance, MEMBERS)?;
    let expected = |to, mac| {
        let members = (0..MEMBERS).map(|n| mac_of(gateway(n)));
        if members.into_iter().any(|member| member == mac) {
            return Ok(());
        }
        Err(format!("a packet to {to} was sent to {mac}, which is none of its next hops"))
    };
    Ok(traffic(ingress_mac(ports)?, chosen, 4096, |n| (DESTINATION, n as u16, usual_ttl()), expected))
}

fn fib_410k(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    with_table(instance, ports, chosen, Fill::Usual(410_000))
}

fn fib_real(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    with_table(instance, ports, chosen, Fill::Real)
}

fn fib_1m(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    with_table(instance, ports, chosen, Fill::Padded(1_000_000))
}

fn with_table(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen, fill: Fill) -> Result<Traffic, String> {
    let prefixes = Prefixes::read(chosen.folder.as_deref().ok_or("the folder of the table is not known")?, fill)?;
    let routes: Vec<_> =
        prefixes.iter().map(|(prefix, n)| (prefix.to_string(), vec![gateway(n).to_string()])).collect();
    add_routes(instance, &routes)?;
    let destinations = prefixes.destinations(FRAMES);
    let vary = move |n: u64| {
        let destination = destinations.get(n as usize).copied().unwrap_or(DESTINATION);
        (destination, 9, usual_ttl())
    };
    let expected = move |to, mac| match prefixes.lookup(to) {
        Some(n) => check_next_hop(to, mac, mac_of(gateway(n))),
        None => Err(format!("a packet to {to} came out, to which no route leads")),
    };
    Ok(traffic(ingress_mac(ports)?, chosen, FRAMES, vary, expected))
}

/// The networks of the case `networks`: side by side from 11.0.0.0 on, as far as addresses are of one host each.
#[derive(Clone, Copy)]
struct Networks {
    count: u32,
    length: u32,
}

impl Networks {
    /// # Errors
    ///
    /// Where not so many have room below 224.0.0.0.
    fn new(count: u64, length: u64) -> Result<Networks, String> {
        let room = (u64::from(Self::END - Self::FIRST) - (1 << 24)) >> (32 - length);
        if count > room {
            return Err(format!(
                "there is room for {room} networks of length {length}, not for {count}; choose a greater length"
            ));
        }
        Ok(Networks { count: count as u32, length: length as u32 })
    }

    const FIRST: u32 = 11 << 24;
    const LOOPBACK: u32 = 127 << 24;
    const END: u32 = 224 << 24;

    /// The first address of a network.
    fn address(self, n: u32) -> u32 {
        let address = Self::FIRST + (n << (32 - self.length));
        if address < Self::LOOPBACK { address } else { address + (1 << 24) }
    }

    /// The number of the network that an address is in.
    fn number(self, address: u32) -> u32 {
        let skipped = if address < Self::LOOPBACK { 0 } else { 1 << 24 };
        (address - Self::FIRST - skipped) >> (32 - self.length)
    }

    /// Whether a network is part of what lies behind a port, where hosts are.
    fn is_of_link(self, n: u32) -> bool {
        let links = [SOURCE, gateway(0)].map(|host| host.to_bits() >> 8);
        links.contains(&(self.address(n) >> 8))
    }

    /// All but those of links.
    fn all(self) -> impl Iterator<Item = u32> {
        (0..self.count).filter(move |n| !self.is_of_link(*n))
    }

    /// An address in one of them: neither its first nor its last.
    fn draw(self, random: &mut Random) -> Ipv4Addr {
        let mut n = random.below(self.count.into()) as u32;
        while self.is_of_link(n) {
            n = random.below(self.count.into()) as u32;
        }
        let host = 1 + random.below((1 << (32 - self.length)) - 2) as u32;
        Ipv4Addr::from_bits(self.address(n) | host)
    }
}

fn networks(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    let networks = Networks::new(chosen.number(NETWORKS.name), chosen.number(LENGTH.name))?;
    let route = |n| {
        let prefix = format!("{}/{}", Ipv4Addr::from_bits(networks.address(n)), networks.length);
        (prefix, vec![gateway(n).to_string()])
    };
    let mut rest = networks.all().map(route);
    loop {
        let some: Vec<_> = rest.by_ref().take(10_000).collect();
        if some.is_empty() {
            break;
        }
        add_routes(instance, &some)?;
    }
    let mut random = Random::new(3);
    let vary = move |_| (networks.draw(&mut random), 9, usual_ttl());
    let expected = move |to: Ipv4Addr, mac| check_next_hop(to, mac, mac_of(gateway(networks.number(to.to_bits()))));
    // In a round as many as there are networks, that most of them are used.
    Ok(traffic(ingress_mac(ports)?, chosen, FRAMES.max(networks.count.into()), vary, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_addresses_of_their_own_that_a_router_forwards_to() {
        for (count, length) in [(1 << 20, 24), (13_893_632, 24), (1 << 24, 25), (1 << 24, 28)] {
            let networks = Networks::new(count, length).unwrap();
            let mut before = 0;
            for n in 0..networks.count {
                let address = networks.address(n);
                let last = address | ((1 << (32 - length)) - 1);
                assert!(address > before && networks.number(address) == n && networks.number(last) == n);
                before = last;
                assert!(!weir_wire::martian::is_martian_destination(address), "{n}");
            }
            let all = networks.all().count() as u64;
            assert!(count - all <= 2 << (length - 24), "{all}");
        }
        assert!(Networks::new(13_893_633, 24).is_err());
    }

    #[test]
    fn no_packet_goes_to_hosts_of_a_link() {
        let networks = Networks::new(13_893_632, 24).unwrap();
        let mut random = Random::new(3);
        for _ in 0..1_000_000 {
            let address = networks.draw(&mut random).to_bits();
            assert!(![SOURCE, gateway(0)].iter().any(|host| host.to_bits() >> 8 == address >> 8));
        }
    }
}
