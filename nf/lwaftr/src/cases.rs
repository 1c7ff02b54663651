//! What `weir bench cpp lwaftr` measures: 64-byte IPv4 packets into tunnels, to softwires that are hit at random. Sixteen customers share an address.
//!
//! A case writes the first 64 bytes of a frame; what tells packets in tunnels apart lies behind them, so that the way out of tunnels is no case yet.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};
use weir_stage::case::{HEADER, Prepare, Traffic};
use weir_stage::{Case, Instance, PortInfo, Random};
use weir_wire::build::UdpFrame;
use weir_wire::{Ethernet, Ipv4, Ipv6, MacAddr, View, validity};

/// Frames in a round.
const FRAMES: u64 = 1 << 18;

/// The relay's end of tunnels.
const AFTR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xa, 0, 0, 0, 0, 1);

/// Softwires that are entered by one request.
const AT_ONCE: usize = 1 << 16;

/// Bytes of frames from the Internet, without the check sequence, and of those in tunnels.
const PLAIN: usize = 60;
const TUNNELED: usize = PLAIN + Ipv6::LEN;

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    vec![
        case("encap-1k", "64-byte packets to 1,000 softwires at random", |i, p, _| into(i, p, 1000)),
        case("encap-100k", "the same to 100,000 softwires", |i, p, _| into(i, p, 100_000)),
        case("encap-1m", "the same to 1,000,000 softwires", |i, p, _| into(i, p, 1_000_000)),
    ]
}

/// What comes in by one port leaves by the other.
fn case(name: &'static str, help: &'static str, prepare: Prepare) -> Case {
    let script = format!(
        "lwaftr {{ ports = {{ 'in', 'out' }}, aftr = '{AFTR}', icmp_source = '192.0.2.1',\n\
         routes = {{ ['0.0.0.0/0'] = '192.0.2.2%out', ['::/0'] = 'fe80::2%out' }},\n\
         neighbors = {{ ['192.0.2.2%out'] = '{NEXT}', ['fe80::2%out'] = '{NEXT}' }} }}"
    );
    Case { name, help, needs: &[], script, port_keys: "", knobs: &[], prepare }
}

/// The next router.
const NEXT: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

/// A customer of a case.
#[derive(Clone, Copy)]
struct Customer(u32);

impl Customer {
    fn b4(self) -> Ipv6Addr {
        let [a, b, c, d] = self.0.to_be_bytes();
        Ipv6Addr::from([0x20, 1, 0xd, 0xb8, 0, 0xc, 0, 0, 0, 0, 0, 0, a, b, c, d])
    }

    /// Its address and PSID of four bits where it shares one.
    fn shared(self) -> (Ipv4Addr, u16) {
        ((0x0b00_0000 + self.0 / 16).into(), (self.0 % 16) as u16)
    }
}

/// Enters softwires.
fn enter(instance: &dyn Instance, count: u32, entry: impl Fn(Customer) -> Value) -> Result<(), String> {
    let all: Vec<Value> = (0..count).map(Customer).map(entry).collect();
    for piece in all.chunks(AT_ONCE) {
        instance.request("softwire add", &Value::from(piece), 0).map_err(|error| error.0)?;
    }
    Ok(())
}

fn mac_of(ports: &[PortInfo], name: &str) -> MacAddr {
    ports.iter().find(|port| port.name == name).map_or(MacAddr::ZERO, |port| MacAddr(port.facts.mac))
}

/// A UDP packet between ports, in a frame of [`PLAIN`] bytes.
fn plain(to: MacAddr, source: Ipv4Addr, destination: Ipv4Addr, port: u16) -> Vec<u8> {
    let frame = UdpFrame {
        source_mac: NEXT,
        destination_mac: to,
        source,
        destination,
        destination_port: port,
        ..UdpFrame::default()
    };
    frame.to_vec(&[0; PLAIN - Ethernet::LEN - Ipv4::LEN - 8])
}

/// Traffic to softwires.
fn into(instance: &dyn Instance, ports: &[PortInfo], count: u32) -> Result<Traffic, String> {
    enter(instance, count, |customer| {
        let (ipv4, psid) = customer.shared();
        json!({ "ipv4": ipv4.to_string(), "psid": psid, "psid_length": 4, "b4": customer.b4().to_string() })
    })?;
    let (mac, mut random) = (mac_of(ports, "in"), Random::new(1));
    let frame = move |_: u64, bytes: &mut [u8; HEADER]| {
        let (ipv4, psid) = Customer((random.next() % u64::from(count)) as u32).shared();
        let port = psid << 12 | (random.next() & 0xfff) as u16;
        let frame = plain(mac, Ipv4Addr::new(192, 0, 2, 77), ipv4, port);
        bytes.iter_mut().zip(frame).for_each(|(to, from)| *to = from);
        PLAIN
    };
    let check = move |frame: &[u8]| {
        let (outer, inner) = frame.get(Ethernet::LEN..).and_then(Ipv6::split).ok_or("it is short")?;
        let ip = Ipv4::view(inner).ok_or("it has no IPv4 packet")?;
        let port = inner.get(22..).and_then(<[u8]>::first_chunk).map_or(0, |port| u16::from_be_bytes(*port));
        let number = (ip.destination.get() - 0x0b00_0000) * 16 + u32::from(port >> 12);
        let is_right = frame.len() == TUNNELED
            && outer.destination_addr() == Customer(number).b4()
            && outer.source_addr() == AFTR
            && ip.ttl == 63
            && validity::check_slice(inner).is_ok();
        if is_right { Ok(()) } else { Err(format!("a frame to {} came out wrong", outer.destination_addr())) }
    };
    Ok(Traffic { frame: Box::new(frame), frames: FRAMES, check: Box::new(check) })
}
