//! The cases of IPv6. Headers of 40 bytes leave no room for more in the 64 bytes that these cases write: upstream they are 62 bytes with tags,
//! to the core in GRE below a label; downstream they come as plain IPv6, as behind a tunnel's headers there would be none left.

use std::net::Ipv6Addr;

use weir_stage::case::{HEADER, Traffic};
use weir_stage::{Case, Instance, PortInfo, Random};
use weir_wire::mpls::Label;
use weir_wire::vlan::Vlan;
use weir_wire::{Ethernet, Ipv6, View, ethernet, gre, ipv4, ipv6, validity};

use super::{DOWN, FRAMES, GATEWAYS, LOCAL, Line, NETWORKS, UP, below, ingress_mac, subscribe, write};
use crate::encap::{TAGGED, TUNNEL};

/// Bytes of an IPv6 packet without data.
const PACKET: usize = Ipv6::LEN;

const HOP_LIMIT: u8 = 64;

/// Both cases.
pub(super) fn all() -> [Case; 2] {
    [
        Case {
            name: "up-64k-ipv6",
            help: "62-byte IPv6 packets from 65,536 subscribers at random",
            needs: &[],
            script: script(UP, &format!(", local_address = '{LOCAL}'"), "labels = { 1000 + n },"),
            port_keys: "",
            knobs: &[],
            prepare: |instance, ports, _| up(instance, ports, 64 << 10),
        },
        Case {
            name: "down-64k-ipv6",
            help: "54-byte packets of plain IPv6 to 65,536 subscribers at random",
            needs: &[],
            script: script(DOWN, ", core_encapsulation = 'ip'", ""),
            port_keys: "",
            knobs: &[],
            prepare: |instance, ports, _| down(instance, ports, 64 << 10),
        },
    ]
}

fn script((access, core): (&str, &str), keys: &str, labels: &str) -> String {
    format!(
        "local gateways, routes = {{}}, {{}}\n\
         for n = 0, {GATEWAYS} - 1 do\n\
         gateways['g' .. n] = {{ port = '{core}', address = '198.51.100.' .. n + 2, {labels}\n\
         mac = string.format('02:00:00:02:00:%02x', n) }}\nend\n\
         for n = 0, {NETWORKS} - 1 do\n\
         routes[string.format('2001:db9:%x::/48', n)] = 'g' .. n % {GATEWAYS}\nend\n\
         bng {{ access = {{ '{access}' }}, core = {{ '{core}' }}, gateways = gateways, routes_ipv6 = routes{keys} }}"
    )
}

impl Line {
    /// Its network.
    fn network(self) -> Ipv6Addr {
        let [a, b, c, d] = self.0.to_be_bytes().map(u16::from);
        Ipv6Addr::new(0x2001, 0xdb8, a << 8 | b, c << 8 | d, 0, 0, 0, 0)
    }

    fn host(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.network().to_bits() | 9)
    }
}

fn packet(source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    let start = [0x60, 0, 0, 0, 0, 0, ipv6::NO_NEXT, HOP_LIMIT];
    [&start[..], &source.octets(), &destination.octets()].concat()
}

/// A host in one of the networks that there are routes to.
fn far(network: u32) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb9, network as u16, 0, 0, 0, 0, 1)
}

fn up(instance: &dyn Instance, ports: &[PortInfo], count: u32) -> Result<Traffic, String> {
    subscribe(instance, count, true, |line| ("ipv6", format!("{}/64", line.network())))?;
    let to = ingress_mac(ports)?;
    let mut random = Random::new(3);
    let frame = move |_: u64, bytes: &mut [u8; HEADER]| {
        let (line, network) = (Line(below(&mut random, count)), below(&mut random, NETWORKS));
        let tags = [line.svlan().to_be_bytes(), ethernet::CVLAN.to_be_bytes(), line.cvlan().to_be_bytes()];
        let types = [ethernet::SVLAN.to_be_bytes(), ethernet::IPV6.to_be_bytes()];
        let [s, c, v] = &tags;
        let [outer, inner] = &types;
        write(bytes, &[&to.0, &line.mac().0, outer, s, c, v, inner, &packet(line.host(), far(network))]);
        TAGGED + PACKET
    };
    Ok(Traffic { frame: Box::new(frame), frames: FRAMES, check: Box::new(check_up) })
}

fn check_up(bytes: &[u8]) -> Result<(), String> {
    let (link, rest) = Ethernet::split(bytes).ok_or("a frame came out without an Ethernet header")?;
    let (label, outer) = Label::split(rest).ok_or("a frame came out without a label")?;
    validity::check_slice(outer).map_err(|defect| format!("an outer packet is not valid: {defect}"))?;
    let tunnel = ipv4::payload(outer).and_then(gre::Gre::parse).ok_or("a packet came out without GRE")?;
    let ip = outer.get(TUNNEL..).and_then(Ipv6::view).ok_or("a packet came out without an IPv6 header")?;
    let line = Line(tunnel.key.ok_or("a packet came out without a key")?);
    let [_, _, network, ..] = ip.destination_addr().segments();
    let gateway = u32::from(network) % GATEWAYS;
    let right = (link.ethertype.get(), tunnel.protocol) == (ethernet::MPLS, ethernet::IPV6)
        && bytes.len() == Ethernet::LEN + Label::LEN + TUNNEL + PACKET
        && link.destination.0.last() == Some(&(gateway as u8))
        && (label.value(), label.is_bottom()) == (1000 + gateway, true)
        && ip.source_addr() == line.host()
        && ip.hop_limit == HOP_LIMIT - 1;
    if right { Ok(()) } else { Err(format!("a packet came out wrong: {bytes:02x?}")) }
}

fn down(instance: &dyn Instance, ports: &[PortInfo], count: u32) -> Result<Traffic, String> {
    subscribe(instance, count, true, |line| ("ipv6", format!("{}/64", line.network())))?;
    let to = ingress_mac(ports)?;
    let mut random = Random::new(4);
    let frame = move |_: u64, bytes: &mut [u8; HEADER]| {
        let line = Line(below(&mut random, count));
        let from = [2, 0, 0, 2, 0, 0];
        write(bytes, &[&to.0, &from, &ethernet::IPV6.to_be_bytes(), &packet(far(0), line.host())]);
        // Filled up to the least frame.
        60
    };
    Ok(Traffic { frame: Box::new(frame), frames: FRAMES, check: Box::new(check_down) })
}

fn check_down(bytes: &[u8]) -> Result<(), String> {
    let (link, rest) = Ethernet::split(bytes).ok_or("a frame came out without an Ethernet header")?;
    let (outer, rest) = Vlan::split(rest).ok_or("a frame came out without an outer tag")?;
    let (inner, packet) = Vlan::split(rest).ok_or("a frame came out without an inner tag")?;
    let ip = Ipv6::view(packet).ok_or("a packet came out without an IPv6 header")?;
    let line = Line::behind(outer.id(), inner.id());
    let right = (link.ethertype.get(), inner.ethertype.get()) == (ethernet::SVLAN, ethernet::IPV6)
        && bytes.len() == TAGGED + PACKET
        && link.destination == line.mac()
        && ip.destination_addr() == line.host()
        && ip.hop_limit == HOP_LIMIT - 1;
    if right { Ok(()) } else { Err(format!("a packet came out wrong: {bytes:02x?}")) }
}
