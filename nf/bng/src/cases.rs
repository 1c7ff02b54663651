//! What `weir bench cpp bng` measures.
//!
//! Packets are those of the papers' tests: 64 bytes from customers, filled up; 78 bytes from the core, with one label. Subscribers
//! are hit at random. Upstream there are 8,192 routes to 64 gateways, each with a label.

mod six;

use std::net::Ipv4Addr;

use serde_json::json;
use weir_stage::case::{HEADER, Prepare, Traffic};
use weir_stage::{Case, Instance, PortInfo, Random};
use weir_wire::build::UdpFrame;
use weir_wire::mpls::Label;
use weir_wire::vlan::Vlan;
use weir_wire::{Ethernet, Ipv4, MacAddr, View, ethernet, gre, ipv4, validity};

use crate::encap::{TAGGED, TUNNEL};

/// Frames in a round.
const FRAMES: u64 = 1 << 18;

/// /24 networks that there are routes to, and gateways that they lead to in turn.
const NETWORKS: u32 = 8192;
const GATEWAYS: u32 = 64;

/// Subscribers with one SVLAN.
const LINES: u32 = 1024;

/// The gateway's end of tunnels.
const LOCAL: Ipv4Addr = Ipv4Addr::new(21, 22, 23, 24);

/// All cases: each without schedulers, then the same with them.
pub(crate) fn all() -> Vec<Case> {
    let mut all = plain();
    all.extend(six::all());
    all.extend([
        shaped("up-4k-qos", UP, 4 << 10, |i, p, _| up(i, p, 4 << 10, 0)),
        shaped("up-32k-qos", UP, 32 << 10, |i, p, _| up(i, p, 32 << 10, 0)),
        shaped("up-64k-qos", UP, 64 << 10, |i, p, _| up(i, p, 64 << 10, 0)),
        shaped("down-4k-qos", DOWN, 4 << 10, |i, p, _| down(i, p, 4 << 10)),
        shaped("down-32k-qos", DOWN, 32 << 10, |i, p, _| down(i, p, 32 << 10)),
        shaped("down-64k-qos", DOWN, 64 << 10, |i, p, _| down(i, p, 64 << 10)),
        // All users may send what those who send most of it do.
        shaped("up-64k-skewed-qos", UP, 512, |i, p, _| up(i, p, 64 << 10, 80)),
    ]);
    all
}

/// Cases without schedulers.
fn plain() -> Vec<Case> {
    vec![
        case("up-4k", "64-byte packets from 4,096 subscribers at random", UP, |i, p, _| up(i, p, 4 << 10, 0)),
        case("up-32k", "the same from 32,768 subscribers", UP, |i, p, _| up(i, p, 32 << 10, 0)),
        case("up-64k", "the same from 65,536 subscribers", UP, |i, p, _| up(i, p, 64 << 10, 0)),
        case("down-4k", "78-byte packets to 4,096 subscribers at random", DOWN, |i, p, _| down(i, p, 4 << 10)),
        case("down-32k", "the same to 32,768 subscribers", DOWN, |i, p, _| down(i, p, 32 << 10)),
        case("down-64k", "the same to 65,536 subscribers", DOWN, |i, p, _| down(i, p, 64 << 10)),
        case("up-64k-skewed", "65,536 subscribers, one in 100 of whom sends 80 % of the packets", UP, |i, p, _| {
            up(i, p, 64 << 10, 80)
        }),
    ]
}

/// Which port is the customers'.
const UP: (&str, &str) = ("in", "out");
const DOWN: (&str, &str) = ("out", "in");

/// Rate of a port's users together, kbit/s: 82 % of 40 Gbit/s.
const ALL_USERS: u64 = 32_800_000;

/// A case whose packets pass a scheduler in which each user may send its share of the port's rate.
fn shaped(name: &'static str, way: (&str, &str), share: u64, prepare: Prepare) -> Case {
    let rate = ALL_USERS / share;
    let scheduler = format!(
        "{{ rate = '40 Gbit/s', users = 65536, buffers = 8192,\n\
         profiles = {{ user = {{ tb_rate = '{rate} kbit/s', tb_size = '2 KiB' }} }} }}"
    );
    let keys = format!(", qos = {{ up = {scheduler}, down = {scheduler}, usual = 'user' }}");
    with(name, "the same through a scheduler", way, &keys, prepare)
}

fn case(name: &'static str, help: &'static str, way: (&str, &str), prepare: Prepare) -> Case {
    with(name, help, way, "", prepare)
}

fn with(name: &'static str, help: &'static str, (access, core): (&str, &str), keys: &str, prepare: Prepare) -> Case {
    let script = format!(
        "local gateways, routes = {{}}, {{}}\n\
         for n = 0, {GATEWAYS} - 1 do\n\
         gateways['g' .. n] = {{ port = '{core}', address = '198.51.100.' .. n + 2, labels = {{ 1000 + n }},\n\
         mac = string.format('02:00:00:02:00:%02x', n) }}\nend\n\
         for n = 0, {NETWORKS} - 1 do\n\
         routes[string.format('11.%d.%d.0/24', math.floor(n / 256), n % 256)] = 'g' .. n % {GATEWAYS}\nend\n\
         bng {{ access = {{ '{access}' }}, core = {{ '{core}' }}, local_address = '{LOCAL}', gateways = gateways, routes = routes{keys} }}"
    );
    Case { name, help, needs: &[], script, port_keys: "", knobs: &[], prepare }
}

/// A subscriber of a case.
#[derive(Clone, Copy)]
struct Line(u32);

impl Line {
    fn svlan(self) -> u16 {
        (1 + self.0 / LINES) as u16
    }

    fn cvlan(self) -> u16 {
        (1 + self.0 % LINES) as u16
    }

    fn key(self) -> u32 {
        self.0
    }

    /// Its last two bytes are 0: of a packet from the core they lie behind the 64 bytes that these cases write. Keys tell equal addresses
    /// apart.
    fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, (self.0 % 250) as u8, 0, 0)
    }

    /// Who is behind these tags.
    fn behind(svlan: u16, cvlan: u16) -> Line {
        Line(u32::from(svlan).wrapping_sub(1) * LINES + u32::from(cvlan).wrapping_sub(1))
    }

    fn mac(self) -> MacAddr {
        let [a, b, c, d] = self.0.to_be_bytes();
        MacAddr([2, 1, a, b, c, d])
    }
}

/// Enters subscribers, whose MAC addresses may be `fixed`, each with an address or network under its key.
fn subscribe(
    instance: &dyn Instance,
    count: u32,
    fixed: bool,
    address: fn(Line) -> (&'static str, String),
) -> Result<(), String> {
    let lines: Vec<_> = (0..count).map(Line).collect();
    for some in lines.chunks(8192) {
        let list = some.iter().map(|line| {
            let (family, address) = address(*line);
            let mut one = json!({ "svlan": line.svlan(), "cvlan": line.cvlan(), "key": line.key(), family: address });
            if let Some(table) = one.as_object_mut().filter(|_| fixed) {
                table.insert("mac".to_owned(), line.mac().to_string().into());
            }
            one
        });
        instance.request("subscriber add", &list.collect(), 0).map_err(|error| error.0)?;
    }
    Ok(())
}

/// The Ethernet address of the port that packets come in by.
fn ingress_mac(ports: &[PortInfo]) -> Result<MacAddr, String> {
    let port = ports.iter().find(|port| port.name == "in");
    port.map(|port| MacAddr(port.facts.mac)).ok_or_else(|| "there is no port \"in\"".to_owned())
}

fn below(random: &mut Random, bound: u32) -> u32 {
    random.below(bound.into()) as u32
}

/// A UDP packet without data, from the network header on.
fn packet(source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let mut frame = UdpFrame { source, destination, ..UdpFrame::default() }.to_vec(&[]);
    frame.drain(..Ethernet::LEN);
    frame
}

/// Bytes of a UDP packet without data.
const PACKET: usize = 28;

/// Writes parts one after the other, as far as there is room.
fn write(to: &mut [u8], parts: &[&[u8]]) {
    to.iter_mut().zip(parts.iter().copied().flatten()).for_each(|(to, from)| *to = *from);
}

fn up(instance: &dyn Instance, ports: &[PortInfo], count: u32, skew: u32) -> Result<Traffic, String> {
    /// The least frame without its check sequence.
    const LEN: usize = 60;
    subscribe(instance, count, false, |line| ("ipv4", line.address().to_string()))?;
    let to = ingress_mac(ports)?;
    let mut random = Random::new(1);
    let frame = move |_: u64, bytes: &mut [u8; HEADER]| {
        let hot = random.below(100) < u64::from(skew);
        let line = Line(below(&mut random, if hot { count / 100 } else { count }));
        let network = below(&mut random, NETWORKS);
        let destination = Ipv4Addr::from_bits(u32::from_be_bytes([11, 0, 0, 1]) + (network << 8));
        let tags = [line.svlan().to_be_bytes(), ethernet::CVLAN.to_be_bytes(), line.cvlan().to_be_bytes()];
        let types = [ethernet::SVLAN.to_be_bytes(), ethernet::IPV4.to_be_bytes()];
        let [s, c, v] = &tags;
        let [outer, inner] = &types;
        let packet = packet(line.address(), destination);
        write(bytes, &[&to.0, &line.mac().0, outer, s, c, v, inner, &packet]);
        LEN
    };
    Ok(Traffic { frame: Box::new(frame), frames: FRAMES, check: Box::new(check_up) })
}

fn check_up(bytes: &[u8]) -> Result<(), String> {
    let len = Ethernet::LEN + Label::LEN + TUNNEL + PACKET;
    if bytes.len() != len {
        return Err(format!("a packet came out with {} bytes, and not {len}", bytes.len()));
    }
    let (link, rest) = Ethernet::split(bytes).ok_or("a frame came out without an Ethernet header")?;
    let (label, outer) = Label::split(rest).ok_or("a frame came out without a label")?;
    validity::check_slice(outer).map_err(|defect| format!("an outer packet is not valid: {defect}"))?;
    let tunnel = ipv4::payload(outer).and_then(gre::Gre::parse).ok_or("a packet came out without GRE")?;
    let inner = outer.get(TUNNEL..).unwrap_or_default();
    validity::check_slice(inner).map_err(|defect| format!("a packet is not valid: {defect}"))?;
    let ip = Ipv4::view(inner).ok_or("a packet came out without an IPv4 header")?;
    let line = Line(tunnel.key.ok_or("a packet came out without a key")?);
    let gateway = (ip.destination.get() >> 8) % GATEWAYS;
    let right = link.ethertype.get() == ethernet::MPLS
        && link.destination == MacAddr([2, 0, 0, 2, 0, gateway as u8])
        && (label.value(), label.is_bottom()) == (1000 + gateway, true)
        && ip.source_addr() == line.address()
        && ip.ttl == UdpFrame::default().ttl - 1;
    if right { Ok(()) } else { Err(format!("a packet came out wrong: {bytes:02x?}")) }
}

fn down(instance: &dyn Instance, ports: &[PortInfo], count: u32) -> Result<Traffic, String> {
    subscribe(instance, count, true, |line| ("ipv4", line.address().to_string()))?;
    let to = ingress_mac(ports)?;
    let mut random = Random::new(2);
    let frame = move |_: u64, bytes: &mut [u8; HEADER]| {
        let line = Line(below(&mut random, count));
        let inner = packet(Ipv4Addr::new(11, 0, 0, 1), line.address());
        let mut outer = vec![0x45, 0, 0, (TUNNEL + PACKET) as u8, 0, 0, 0x40, 0, 64, ipv4::GRE, 0, 0, 198, 51, 100, 1];
        outer.extend(LOCAL.octets());
        ipv4::write_checksum(&mut outer);
        let label = [0, 3, 1, 64];
        let gre = [0x20, 0, 8, 0];
        let ethertype = ethernet::MPLS.to_be_bytes();
        let from = [2, 0, 0, 2, 0, 0];
        // Behind the first cache line nothing varies: it is left alone, so that the source brings it no nearer.
        let (first_line, _) = bytes.split_at_mut(64);
        write(first_line, &[&to.0, &from, &ethertype, &label, &outer, &gre, &line.key().to_be_bytes(), &inner]);
        Ethernet::LEN + label.len() + TUNNEL + PACKET
    };
    Ok(Traffic { frame: Box::new(frame), frames: FRAMES, check: Box::new(check_down) })
}

fn check_down(bytes: &[u8]) -> Result<(), String> {
    if bytes.len() != TAGGED + PACKET {
        return Err(format!("a packet came out with {} bytes, and not {}", bytes.len(), TAGGED + PACKET));
    }
    let (link, rest) = Ethernet::split(bytes).ok_or("a frame came out without an Ethernet header")?;
    let (outer, rest) = Vlan::split(rest).ok_or("a frame came out without an outer tag")?;
    let (inner, packet) = Vlan::split(rest).ok_or("a frame came out without an inner tag")?;
    validity::check_slice(packet).map_err(|defect| format!("a packet is not valid: {defect}"))?;
    let ip = Ipv4::view(packet).ok_or("a packet came out without an IPv4 header")?;
    let line = Line::behind(outer.id(), inner.id());
    let right = link.ethertype.get() == ethernet::SVLAN
        && outer.ethertype.get() == ethernet::CVLAN
        && link.destination == line.mac()
        && ip.destination_addr() == line.address()
        && ip.ttl == UdpFrame::default().ttl - 1;
    if right { Ok(()) } else { Err(format!("a packet came out wrong: {bytes:02x?}")) }
}
