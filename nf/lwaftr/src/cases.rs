//! What `weir bench cpp lwaftr` measures: 64-byte IPv4 packets into tunnels, out of them, and from customer to customer, of softwires that are
//! hit at random. Sixteen customers share an address.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};
use weir_stage::case::{CheckFrame, HEADER, Prepare, Traffic};
use weir_stage::{Case, Chosen, Instance, Knob, PortInfo, Random};
use weir_wire::build::UdpFrame;
use weir_wire::{Ethernet, Ipv4, Ipv6, MacAddr, View, ethernet, icmp, ipv4, validity};

/// Frames in a round.
const FRAMES: u64 = 1 << 18;

/// The relay's end of tunnels.
const AFTR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xa, 0, 0, 0, 0, 1);

/// Who is on the Internet.
const HOST: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);

/// Softwires that are entered by one request.
const AT_ONCE: usize = 1 << 16;

/// Bytes of frames from the Internet, without the check sequence.
const PLAIN: usize = 60;

const SOFTWIRES: Knob = Knob {
    name: "softwires",
    help: "softwires that packets are of, all at random",
    usual: 1000,
    least: 16,
    most: 4_000_000,
};

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let million = |name, help, prepare| case(name, help, prepare, 1_000_000, &[]);
    let any = |name, help, prepare| case(name, help, prepare, SOFTWIRES.most, &[SOFTWIRES]);
    vec![
        million("encap-1k", "64-byte packets to 1,000 softwires at random", |i, p, _| into(i, p, 1000)),
        million("encap-100k", "the same to 100,000 softwires", |i, p, _| into(i, p, 100_000)),
        million("encap-1m", "the same to 1,000,000 softwires", |i, p, _| into(i, p, 1_000_000)),
        million("decap-1k", "64-byte packets in tunnels from 1,000 softwires at random", |i, p, _| from(i, p, 1000)),
        million("decap-100k", "the same from 100,000 softwires", |i, p, _| from(i, p, 100_000)),
        million("decap-1m", "the same from 1,000,000 softwires", |i, p, _| from(i, p, 1_000_000)),
        million("hairpin-1k", "64-byte packets from one of 1,000 softwires to another", |i, p, _| hairpin(i, p, 1000)),
        million("hairpin-1m", "the same of 1,000,000 softwires", |i, p, _| hairpin(i, p, 1_000_000)),
        million(
            "encap-mixed",
            "as encap-1k, and one packet in a hundred a fragment, one in a thousand an ICMP echo",
            |i, p, _| mixed(i, p, 1000),
        ),
        any("encap", "64-byte packets to so many softwires at random", |i, p, chosen| into(i, p, count(chosen))),
        any("decap", "64-byte packets in tunnels from so many softwires", |i, p, chosen| from(i, p, count(chosen))),
    ]
}

fn count(chosen: &Chosen) -> u32 {
    chosen.number(SOFTWIRES.name) as u32
}

/// What comes in by one port leaves by the other; there is room for so many softwires.
fn case(name: &'static str, help: &'static str, prepare: Prepare, room: u64, knobs: &'static [Knob]) -> Case {
    let script = format!(
        "lwaftr {{ ports = {{ 'in', 'out' }}, aftr = '{AFTR}', icmp_source = '192.0.2.1',\n\
         table_limits = {{ softwires = {room}, addresses = {addresses} }},\n\
         routes = {{ ['0.0.0.0/0'] = '198.51.100.2%out', ['::/0'] = 'fe80::2%out' }},\n\
         neighbors = {{ ['198.51.100.2%out'] = '{NEXT}', ['fe80::2%out'] = '{NEXT}' }} }}",
        addresses = room / SHARED + 1,
    );
    Case { name, help, needs: &[], script, port_keys: "", knobs, prepare }
}

/// The next router.
const NEXT: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

/// Customers of an address, and bits of their PSIDs.
const SHARED: u64 = 1 << PSID_BITS;
const PSID_BITS: u32 = 4;

/// The first shared address.
const FIRST: u32 = 0x0b00_0000;

/// A customer of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Customer(u32);

impl Customer {
    fn b4(self) -> Ipv6Addr {
        let [a, b, c, d] = self.0.to_be_bytes();
        Ipv6Addr::from([0x20, 1, 0xd, 0xb8, 0, 0xc, 0, 0, 0, 0, 0, 0, a, b, c, d])
    }

    /// Its address and PSID.
    fn shared(self) -> (Ipv4Addr, u16) {
        ((FIRST + (self.0 >> PSID_BITS)).into(), (self.0 % SHARED as u32) as u16)
    }

    /// Its address, and one of its ports.
    fn endpoint(self, random: &mut Random) -> (Ipv4Addr, u16) {
        let (address, psid) = self.shared();
        (address, psid << (16 - PSID_BITS) | (random.next() & 0xfff) as u16)
    }

    /// Whose an address and port is.
    fn of(address: Ipv4Addr, port: u16) -> Customer {
        Customer((address.to_bits() - FIRST) << PSID_BITS | u32::from(port >> (16 - PSID_BITS)))
    }
}

/// Enters so many softwires.
fn enter(instance: &dyn Instance, count: u32) -> Result<(), String> {
    let entry = |customer: Customer| {
        let (ipv4, psid) = customer.shared();
        json!({ "ipv4": ipv4.to_string(), "psid": psid, "psid_length": PSID_BITS, "b4": customer.b4().to_string() })
    };
    let all: Vec<u32> = (0..count).collect();
    for piece in all.chunks(AT_ONCE) {
        let entries: Vec<Value> = piece.iter().map(|number| entry(Customer(*number))).collect();
        instance.request("softwire add", &Value::from(entries), 0).map_err(|error| error.0)?;
    }
    Ok(())
}

fn mac_of(ports: &[PortInfo], name: &str) -> MacAddr {
    ports.iter().find(|port| port.name == name).map_or(MacAddr::ZERO, |port| MacAddr(port.facts.mac))
}

/// A UDP packet from one address and port to another, in a frame of [`PLAIN`] bytes.
fn plain(to: MacAddr, (source, source_port): (Ipv4Addr, u16), (destination, port): (Ipv4Addr, u16)) -> Vec<u8> {
    let frame = UdpFrame {
        source_mac: NEXT,
        destination_mac: to,
        source,
        destination,
        source_port,
        destination_port: port,
        ..UdpFrame::default()
    };
    frame.to_vec(&[0; PLAIN - Ethernet::LEN - Ipv4::LEN - 8])
}

/// A frame with the same packet in the tunnel from a customer.
fn tunneled(customer: Customer, frame: &[u8]) -> Vec<u8> {
    let (link, packet) = frame.split_at(Ethernet::LEN.min(frame.len()));
    let mut all = link.get(..12).unwrap_or_default().to_vec();
    all.extend(ethernet::IPV6.to_be_bytes());
    all.extend([0x60, 0, 0, 0, 0, packet.len() as u8, ipv4::IPIP, 64]);
    all.extend(customer.b4().octets());
    all.extend(AFTR.octets());
    all.extend(packet);
    all
}

fn copy(bytes: &mut [u8; HEADER], frame: &[u8]) -> usize {
    bytes.iter_mut().zip(frame).for_each(|(to, from)| *to = *from);
    frame.len()
}

/// The customer, the TTL and the packet of a frame that is in a right tunnel to whoever its packet is for.
fn in_tunnel(frame: &[u8]) -> Result<(Customer, u8, usize), String> {
    let (outer, inner) = frame.get(Ethernet::LEN..).and_then(Ipv6::split).ok_or("it is short")?;
    let (ip, behind) = Ipv4::split(inner).ok_or("it has no IPv4 packet")?;
    // Behind the source port; an echo's identifier stands elsewhere.
    let at = if ip.protocol == ipv4::ICMP { 4 } else { 2 };
    let port = behind.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |port| u16::from_be_bytes(*port));
    let customer = Customer::of(ip.destination_addr(), port);
    let is_right = outer.destination_addr() == customer.b4()
        && outer.source_addr() == AFTR
        && inner.len() == ip.total_len()
        && validity::check_slice(inner).is_ok();
    match is_right {
        true => Ok((customer, ip.ttl, frame.len())),
        false => Err(format!("a frame to {} came out wrong", outer.destination_addr())),
    }
}

fn into_check(length: Option<usize>) -> CheckFrame {
    Box::new(move |frame: &[u8]| {
        let (customer, ttl, bytes) = in_tunnel(frame)?;
        match ttl == 63 && length.is_none_or(|length| bytes == length) {
            true => Ok(()),
            false => Err(format!("a frame to {} has {bytes} bytes and TTL {ttl}", customer.b4())),
        }
    })
}

/// Traffic to softwires.
fn into(instance: &dyn Instance, ports: &[PortInfo], count: u32) -> Result<Traffic, String> {
    enter(instance, count)?;
    let (mac, mut random) = (mac_of(ports, "in"), Random::new(1));
    let frame = move |_: u64, bytes: &mut [u8; HEADER]| {
        let to = Customer(random.below(count.into()) as u32).endpoint(&mut random);
        copy(bytes, &plain(mac, (HOST, 9), to))
    };
    Ok(Traffic { frame: Box::new(frame), frames: FRAMES, check: into_check(Some(PLAIN + Ipv6::LEN)) })
}

/// Traffic from softwires.
fn from(instance: &dyn Instance, ports: &[PortInfo], count: u32) -> Result<Traffic, String> {
    enter(instance, count)?;
    let (mac, mut random) = (mac_of(ports, "in"), Random::new(1));
    let frame = move |_: u64, bytes: &mut [u8; HEADER]| {
        let customer = Customer(random.below(count.into()) as u32);
        let source = customer.endpoint(&mut random);
        copy(bytes, &tunneled(customer, &plain(mac, source, (HOST, 9))))
    };
    let check = move |frame: &[u8]| {
        let packet = frame.get(Ethernet::LEN..).unwrap_or_default();
        let ip = Ipv4::view(packet).ok_or("it is short")?;
        let is_right = frame.len() == PLAIN
            && ip.destination_addr() == HOST
            && (ip.source.get() - FIRST) >> (32 - PSID_BITS) == 0
            && ip.ttl == 64
            && validity::check_slice(packet).is_ok();
        if is_right { Ok(()) } else { Err(format!("a frame from {} came out wrong", ip.source_addr())) }
    };
    Ok(Traffic { frame: Box::new(frame), frames: FRAMES, check: Box::new(check) })
}

/// Traffic from softwires to softwires.
fn hairpin(instance: &dyn Instance, ports: &[PortInfo], count: u32) -> Result<Traffic, String> {
    enter(instance, count)?;
    let (mac, mut random) = (mac_of(ports, "in"), Random::new(1));
    let frame = move |_: u64, bytes: &mut [u8; HEADER]| {
        let [one, other] = [(); 2].map(|()| Customer(random.below(count.into()) as u32));
        let (source, destination) = (one.endpoint(&mut random), other.endpoint(&mut random));
        copy(bytes, &tunneled(one, &plain(mac, source, destination)))
    };
    Ok(Traffic { frame: Box::new(frame), frames: FRAMES, check: into_check(Some(PLAIN + Ipv6::LEN)) })
}

/// Traffic to softwires, of which two frames in two hundred are the fragments of one packet, and one in a thousand is an ICMP echo.
fn mixed(instance: &dyn Instance, ports: &[PortInfo], count: u32) -> Result<Traffic, String> {
    enter(instance, count)?;
    let (mac, mut random) = (mac_of(ports, "in"), Random::new(1));
    let mut second = Vec::new();
    let frame = move |n: u64, bytes: &mut [u8; HEADER]| {
        let (address, port) = Customer(random.below(count.into()) as u32).endpoint(&mut random);
        match n % 1000 {
            n if n % 200 == 1 && !second.is_empty() => copy(bytes, &std::mem::take(&mut second)),
            n if n % 200 == 0 => {
                let [first, last] = fragments(plain(mac, (HOST, 9), (address, port)), random.next() as u16);
                second = last;
                copy(bytes, &first)
            }
            7 => copy(bytes, &echo(plain(mac, (HOST, 9), (address, port)), port)),
            _ => copy(bytes, &plain(mac, (HOST, 9), (address, port))),
        }
    };
    Ok(Traffic { frame: Box::new(frame), frames: FRAMES, check: into_check(None) })
}

/// The two fragments of a packet in a frame.
fn fragments(frame: Vec<u8>, identification: u16) -> [Vec<u8>; 2] {
    const CUT: usize = 16;
    let piece = |offset: usize, data: &[u8], more: bool| {
        let mut piece = frame.get(..Ethernet::LEN + Ipv4::LEN).unwrap_or_default().to_vec();
        piece.extend(data);
        if let Some(ip) = piece.get_mut(Ethernet::LEN..) {
            let total = ip.len() as u16;
            if let Some(header) = Ipv4::view_mut(ip) {
                header.total_length = total.into();
                header.identification = identification.into();
                header.set_fragment(false, more, offset);
            }
            ipv4::write_checksum(ip);
        }
        piece
    };
    let data = frame.get(Ethernet::LEN + Ipv4::LEN..).unwrap_or_default();
    let (first, last) = data.split_at(CUT.min(data.len()));
    [piece(0, first, true), piece(CUT, last, false)]
}

/// An ICMP echo reply with an identifier, in place of a packet in a frame.
fn echo(mut frame: Vec<u8>, identifier: u16) -> Vec<u8> {
    if let Some(packet) = frame.get_mut(Ethernet::LEN..) {
        if let Some(header) = Ipv4::view_mut(packet) {
            header.protocol = ipv4::ICMP;
        }
        ipv4::write_checksum(packet);
        if let Some(message) = packet.get_mut(Ipv4::LEN..) {
            icmp::write_header(message, icmp::ECHO_REPLY, 0, icmp::echo_rest(identifier, 1));
        }
    }
    frame
}
