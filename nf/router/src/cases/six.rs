//! Cases with IPv6. The ports have 2001:db8:1::1/64 and 2001:db8:2::1/64 beside their addresses of IPv4, and behind `out` are as many next
//! hops as in the cases with IPv4.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use ipnet::Ipv6Net;
use serde_json::json;
use weir_stage::case::{HEADER, Prepare, Traffic};
use weir_stage::{Case, Chosen, Instance, PortInfo, Random};
use weir_table::lpm6::{Prefix6, sample};
use weir_wire::{Ethernet, Ipv6, MacAddr, View, ethernet, ipv6, validity6};

use super::table::read;
use super::{
    DESTINATION, FRAMES, KNOBS, NEXT_HOPS, add_routes, check_next_hop, gateway as gateway4, ingress_mac,
    mac_of as mac_of4, one_route, traffic, usual_ttl,
};

/// The real table: a CSV file with the columns `prefix` and `origin_as`.
const FIB_FILE: &str = "ipv6-2015-11-01.csv.gz";

/// Prefixes of the case with a table that is made up.
const MANY: usize = 200_000;

const HOP_LIMIT: u8 = 64;

pub(super) fn all() -> [Case; 4] {
    [
        case("one-destination6", "64-byte IPv6 packets to one address", &[], one_destination),
        case("fib6-real", "a real table of 27,693 IPv6 prefixes, a million destinations", &[FIB_FILE], fib_real),
        case(
            "fib6-200k",
            "200,000 made-up IPv6 prefixes with the lengths of the real ones, a million destinations",
            &[],
            fib_many,
        ),
        case("mixed", "IPv4 and IPv6 packets to one address each, in turn", &[], mixed),
    ]
}

fn case(name: &'static str, help: &'static str, needs: &'static [&'static str], prepare: Prepare) -> Case {
    let script = "router { ports = { \"in\", \"out\" } }".to_owned();
    Case { name, help, needs, script, port_keys: "", knobs: KNOBS, prepare }
}

/// A host on the link of a port.
const fn host(port: u16, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, port, 0, 0, 0, 0, host)
}

const SOURCE: Ipv6Addr = host(1, 9);

/// The address of the cases with one destination.
const DESTINATION6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb9, 1, 2, 0, 0, 0, 3);

/// The next hop of a number.
fn gateway(n: u32) -> Ipv6Addr {
    host(2, 2 + (n % NEXT_HOPS) as u16)
}

fn mac_of(host: Ipv6Addr) -> MacAddr {
    let [.., high, low] = host.octets();
    MacAddr([2, 0, 0, 6, high, low])
}

/// Gives the ports their addresses, and enters the next hops by hand.
fn address(instance: &dyn Instance) -> Result<(), String> {
    let request = |verb, list: serde_json::Value| instance.request(verb, &list, 0).map_err(|error| error.0).map(drop);
    let set = |name, four, n| json!({ "name": name, "address": [four, format!("{}/64", host(n, 1))] });
    request("interface set", json!([set("in", "192.0.2.1/24", 1), set("out", "198.51.100.1/24", 2)]))?;
    let six =
        (0..NEXT_HOPS).map(gateway).map(|host| json!({ "address": host.to_string(), "mac": mac_of(host).to_string() }));
    let four = json!({ "address": gateway4(0).to_string(), "mac": mac_of4(gateway4(0)).to_string() });
    request("neighbor add", six.chain([four]).collect::<Vec<_>>().into())
}

/// A frame of which the headers are written.
fn write(bytes: &mut [u8; HEADER], to: MacAddr, destination: Ipv6Addr, chosen: &FrameLength) -> usize {
    let payload = (chosen.0 - Ethernet::LEN - Ipv6::LEN) as u16;
    let start = [0x60, 0, 0, 0];
    let parts: [&[u8]; 8] = [
        &to.0,
        &[2, 0, 0, 6, 0, 9],
        &ethernet::IPV6.to_be_bytes(),
        &start,
        &payload.to_be_bytes(),
        &[ipv6::NO_NEXT, HOP_LIMIT],
        &SOURCE.octets(),
        &destination.octets(),
    ];
    bytes.iter_mut().zip(parts.into_iter().flatten()).for_each(|(to, from)| *to = *from);
    chosen.0
}

/// Bytes of a frame without its check sequence.
struct FrameLength(usize);

impl FrameLength {
    fn of(chosen: &Chosen) -> FrameLength {
        FrameLength(chosen.frame_len())
    }
}

/// Whether a frame was forwarded as it should be, and to the station that `expected` says of its destination.
fn check_six(bytes: &[u8], expected: impl FnOnce(Ipv6Addr) -> Option<MacAddr>) -> Result<(), String> {
    let (link, packet) = Ethernet::split(bytes).ok_or("a frame came out without an Ethernet header")?;
    if link.destination.is_group() {
        // The ports tell their links of their addresses, so that some of it is met.
        return Ok(());
    }
    validity6::check_slice(packet).map_err(|defect| format!("a packet came out that is not valid: {defect}"))?;
    let ip = Ipv6::view(packet).ok_or("a packet came out without an IPv6 header")?;
    let destination = ip.destination_addr();
    if (link.ethertype.get(), ip.hop_limit) != (ethernet::IPV6, HOP_LIMIT - 1) {
        return Err(format!("a packet to {destination} came out with a hop limit of {}", ip.hop_limit));
    }
    match expected(destination) {
        Some(mac) if mac == link.destination => Ok(()),
        Some(mac) => {
            Err(format!("a packet to {destination} was sent to {}, and its next hop is {mac}", link.destination))
        }
        None => Err(format!("a packet to {destination} came out, to which no route leads")),
    }
}

fn one_route6(instance: &dyn Instance) -> Result<(), String> {
    add_routes(instance, &[("2001:db9::/32".to_owned(), vec![gateway(0).to_string()])])
}

fn one_destination(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    address(instance)?;
    one_route6(instance)?;
    let (to, length) = (ingress_mac(ports)?, FrameLength::of(chosen));
    Ok(Traffic {
        frame: Box::new(move |_, bytes| write(bytes, to, DESTINATION6, &length)),
        frames: 1,
        check: Box::new(|bytes| check_six(bytes, |_| Some(mac_of(gateway(0))))),
    })
}

fn mixed(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    address(instance)?;
    one_route6(instance)?;
    one_route(instance, 1)?;
    let (to, length) = (ingress_mac(ports)?, FrameLength::of(chosen));
    let expected = |to, mac| check_next_hop(to, mac, mac_of4(gateway4(0)));
    let mut four = traffic(to, chosen, 1, |_| (DESTINATION, 9, usual_ttl()), expected);
    let frame = move |n: u64, bytes: &mut [u8; HEADER]| match n % 2 {
        0 => (four.frame)(n, bytes),
        _ => write(bytes, to, DESTINATION6, &length),
    };
    let check = move |bytes: &[u8]| match bytes.get(12..14) {
        Some([0x08, 0x00]) => (four.check)(bytes),
        _ => check_six(bytes, |_| Some(mac_of(gateway(0)))),
    };
    Ok(Traffic { frame: Box::new(frame), frames: 2, check: Box::new(check) })
}

fn fib_real(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    let folder = chosen.folder.as_deref().ok_or("the folder of the table is not known")?;
    let list = read::<Ipv6Net>(&folder.join(FIB_FILE))?.into_iter();
    let prefixes = list.filter_map(|(net, _)| Prefix6::covering(net.addr().to_bits(), net.prefix_len()));
    with_table(instance, ports, chosen, prefixes.collect())
}

fn fib_many(instance: &dyn Instance, ports: &[PortInfo], chosen: &Chosen) -> Result<Traffic, String> {
    let mut random = Random::new(5);
    with_table(instance, ports, chosen, sample::made_up(MANY, || random.next()))
}

/// Packets to random addresses in these prefixes, each of which leads to the next hop of its place.
fn with_table(
    instance: &dyn Instance,
    ports: &[PortInfo],
    chosen: &Chosen,
    prefixes: BTreeSet<Prefix6>,
) -> Result<Traffic, String> {
    address(instance)?;
    let list: Vec<Prefix6> = prefixes.into_iter().collect();
    let routes = list.iter().zip(0..).map(|(prefix, n)| (prefix.to_string(), vec![gateway(n).to_string()]));
    add_routes(instance, &routes.collect::<Vec<_>>())?;
    let mut random = Random::new(6);
    let draw = |_| {
        let prefix = list.get(random.position(list.len())).copied().unwrap_or(Prefix6::DEFAULT);
        let host = u128::from(random.next()) << 64 | u128::from(random.next());
        Ipv6Addr::from_bits(prefix.address() | host & (prefix.last() - prefix.address()))
    };
    let destinations: Vec<Ipv6Addr> = (0..FRAMES).map(draw).collect();
    let (to, length) = (ingress_mac(ports)?, FrameLength::of(chosen));
    let known = Known::of(&list);
    Ok(Traffic {
        frame: Box::new(move |n, bytes| {
            write(bytes, to, destinations.get(n as usize).copied().unwrap_or(DESTINATION6), &length)
        }),
        frames: FRAMES,
        check: Box::new(move |bytes| check_six(bytes, |to| known.lookup(to.to_bits()).map(|n| mac_of(gateway(n))))),
    })
}

/// Sorted prefixes, each with the longest one around it: the slow twin of the router's table, but not so slow that it shows where one packet in a
/// thousand is checked.
struct Known {
    list: Vec<Prefix6>,
    around: Vec<Option<usize>>,
}

impl Known {
    /// Of prefixes in their order, in which those around another come before it.
    fn of(list: &[Prefix6]) -> Known {
        let (mut around, mut open) = (Vec::with_capacity(list.len()), Vec::<usize>::new());
        for (n, prefix) in list.iter().enumerate() {
            while open.pop_if(|last| list.get(*last).is_none_or(|last| !last.covers(prefix.address()))).is_some() {}
            around.push(open.last().copied());
            open.push(n);
        }
        Known { list: list.to_vec(), around }
    }

    /// The place of the longest prefix that covers an address.
    fn lookup(&self, address: u128) -> Option<u32> {
        let mut at = self.list.partition_point(|prefix| prefix.address() <= address).checked_sub(1)?;
        while !self.list.get(at)?.covers(address) {
            at = (*self.around.get(at)?)?;
        }
        Some(at as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_around_an_address_is_known() {
        let mut random = Random::new(7);
        let list: BTreeSet<Prefix6> = sample::made_up(2_000, || random.next());
        let list: Vec<Prefix6> = list.into_iter().collect();
        let known = Known::of(&list);
        let addresses =
            list.iter().flat_map(|prefix| [prefix.address(), prefix.last(), prefix.address().wrapping_sub(1)]);
        for address in addresses {
            let all = list.iter().zip(0..).filter(|(prefix, _)| prefix.covers(address));
            assert_eq!(known.lookup(address), all.max_by_key(|(prefix, _)| prefix.length()).map(|(_, n)| n));
        }
    }
}
