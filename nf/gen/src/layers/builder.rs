//! Puts down the headers of a chain of layers one behind the other.

use weir_wire::ipv4;

use super::{Around, Built, ICMPV6, LengthPlace, One, Part, Place, SumPlace, Wrong};
use crate::config::{
    ArpLayer, EthernetLayer, GreLayer, IcmpLayer, Ipv4Layer, Ipv6Layer, MplsLayer, RawLayer, TcpLayer, UdpLayer,
    VlanLayer, VxlanLayer,
};
use crate::values::{Field, Kind, Values};

/// Where packets go when nothing says.
const USUAL_DESTINATION: u128 = 0x0200_0000_0002;
const VXLAN_PORT: u128 = 4789;

/// The bytes of `chain` and what varies in them.
///
/// # Errors
///
/// `wrong`, and what else is wrong with the layers.
pub(super) fn put_down(chain: &[One<'_>], wrong: Vec<Wrong>, around: Around) -> Result<Built, Vec<Wrong>> {
    let mut builder = Builder { built: Built::default(), wrong, layer: 0, ip: None, around };
    for (n, one) in chain.iter().enumerate() {
        builder.layer = n;
        builder.add(*one, chain.get(n + 1).copied(), chain.get(n + 2).copied());
    }
    if builder.wrong.is_empty() { Ok(builder.built) } else { Err(builder.wrong) }
}

/// The IP header that was last put down: where its addresses lie.
#[derive(Clone, Copy)]
struct Ip {
    version: u8,
    addresses: (usize, usize),
}

struct Builder {
    built: Built,
    wrong: Vec<Wrong>,
    layer: usize,
    ip: Option<Ip>,
    around: Around,
}

impl Builder {
    fn add(&mut self, one: One<'_>, next: Option<One<'_>>, after: Option<One<'_>>) {
        let ethertype = next.and_then(|next| next.ethertype(after));
        match one {
            One::Ethernet(layer) => self.ethernet(layer, ethertype),
            One::Vlan(layer) => self.vlan(layer, ethertype),
            One::Mpls(layer) => self.mpls(layer, next),
            One::Arp(layer) => self.arp(layer),
            One::Ipv4(layer) => self.ipv4(layer, next),
            One::Ipv6(layer) => self.ipv6(layer, next),
            One::Gre(layer) => self.gre(layer, ethertype),
            One::Udp(layer) => self.udp(layer, next),
            One::Tcp(layer) => self.tcp(layer),
            One::Icmp(layer) => self.icmp(layer),
            One::Vxlan(layer) => self.vxlan(layer),
            One::Raw(layer) => self.raw(layer),
        }
    }

    /// Puts down a header of zeroes; returns where it begins.
    fn header(&mut self, len: usize) -> usize {
        let start = self.built.bytes.len();
        self.built.bytes.resize(start + len, 0);
        start
    }

    /// Writes a value of `bits` bits whose first one is `bit` bits behind the position `start`.
    fn write(&mut self, start: usize, bit: usize, bits: u32, value: u128) {
        let end = start * 8 + bit + bits as usize;
        for n in 0..bits as usize {
            let at = end - 1 - n;
            if let Some(byte) = self.built.bytes.get_mut(at / 8) {
                *byte |= ((value >> n & 1) as u8) << (7 - at % 8);
            }
        }
    }

    /// Puts a field down: a fixed value at once, any other as a place.
    fn field<K: Kind>(&mut self, start: usize, bit: usize, name: &str, field: &Option<Field<K>>, usual: u128) {
        let values = field.as_ref().map_or_else(|| Values::fixed(usual), Field::values);
        if values.cell.is_some() && field.as_ref().is_some_and(|field| field.len() > 1) {
            let problem = format!("takes {name} from a table and from elsewhere; write the one or the other");
            return self.wrong.push((self.layer, problem));
        }
        let bits = K::BITS;
        if values.is_fixed() {
            return self.write(start, bit, bits, values.first());
        }
        if bits <= 64 {
            return self.place(start, bit, bits, name, (Part::Whole, values), K::PORTS);
        }
        let (upper, lower) = (bits - 64, bit + bits as usize - 64);
        if let Some(alike) = values.common_upper() {
            // Of a long field only the lower half varies, which is the sooner written.
            self.write(start, bit, upper, alike);
            return self.place(start, lower, 64, name, (Part::Whole, values), false);
        }
        self.place(start, bit, upper, name, (Part::Upper, values.clone()), false);
        self.place(start, lower, 64, name, (Part::Lower, values), false);
    }

    /// Puts down the place of a field of at most 64 bits, or of half of one.
    fn place(
        &mut self,
        start: usize,
        bit: usize,
        bits: u32,
        name: &str,
        (part, values): (Part, Values),
        is_port: bool,
    ) {
        // The smallest word at an even position that holds the field.
        let first = start * 8 + bit;
        let end = first + bits as usize;
        let word = [2_usize, 4, 8].into_iter().find_map(|width| {
            let at = first / 16 * 2;
            (at * 8 + width * 8 >= end).then_some((at, width))
        });
        let Some((at, width)) = word else { return };
        let shift = (at * 8 + width * 8 - end) as u32;
        self.built.places.push(Place { name: name.to_owned(), at, width, shift, bits, is_port, part, values });
    }

    /// A field that says what follows: it varies only where nothing known follows.
    fn next_field<K: Kind>(
        &mut self,
        start: usize,
        bit: usize,
        name: &str,
        field: &Option<Field<K>>,
        next: Option<u16>,
    ) {
        if let Some(field) = field
            && !field.values().is_fixed()
            && next.is_some()
        {
            let problem =
                format!("varies {name}, which says what the next layer is; give it one value, or no next layer");
            return self.wrong.push((self.layer, problem));
        }
        self.field(start, bit, name, field, u128::from(next.unwrap_or(0)));
    }

    fn ethernet(&mut self, layer: &EthernetLayer, next: Option<u16>) {
        let start = self.header(14);
        self.field(start, 0, "ethernet.destination", &layer.destination, USUAL_DESTINATION);
        let [a, b, c, d, e, f] = self.around.mac;
        let own = u128::from(u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
        self.field(start, 48, "ethernet.source", &layer.source, own);
        // Where nothing known follows: an experimental EtherType (IEEE 802, local experimental 1).
        let next = next.or_else(|| layer.ethertype.is_none().then_some(0x88b5));
        self.next_field(start, 96, "ethernet.ethertype", &layer.ethertype, next);
    }

    fn vlan(&mut self, layer: &VlanLayer, next: Option<u16>) {
        let start = self.header(4);
        self.field(start, 0, "vlan.priority", &layer.priority, 0);
        self.field(start, 3, "vlan.drop_eligible", &layer.drop_eligible, 0);
        self.field(start, 4, "vlan.id", &layer.id, 1);
        self.write(start, 16, 16, u128::from(next.unwrap_or(0x88b5)));
    }

    fn mpls(&mut self, layer: &MplsLayer, next: Option<One<'_>>) {
        let start = self.header(4);
        let usual = 16; // the first label that has no meaning of its own (RFC 3032 section 2.1)
        self.field(start, 0, "mpls.label", &layer.label, usual);
        self.field(start, 20, "mpls.class", &layer.class, 0);
        self.write(start, 23, 1, u128::from(!matches!(next, Some(One::Mpls(_)))));
        self.field(start, 24, "mpls.ttl", &layer.ttl, 64);
    }

    fn arp(&mut self, layer: &ArpLayer) {
        let start = self.header(28);
        self.write(start, 0, 64, 0x0001_0800_0604_0000);
        let [a, b, c, d, e, f] = self.around.mac;
        let own = u128::from(u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
        self.field(start, 48, "arp.operation", &layer.operation, 1);
        self.field(start, 64, "arp.sender_mac", &layer.sender_mac, own);
        self.field(start, 112, "arp.sender", &layer.sender, SOURCE);
        self.field(start, 144, "arp.target_mac", &layer.target_mac, 0);
        self.field(start, 192, "arp.target", &layer.target, DESTINATION);
    }

    fn ipv4(&mut self, layer: &Ipv4Layer, next: Option<One<'_>>) {
        let start = self.header(20);
        self.write(start, 0, 8, 0x45);
        self.field(start, 8, "ipv4.dscp", &layer.dscp, 0);
        self.field(start, 14, "ipv4.ecn", &layer.ecn, 0);
        self.field(start, 32, "ipv4.identification", &layer.identification, 0);
        self.field(start, 49, "ipv4.dont_fragment", &layer.dont_fragment, 0);
        self.field(start, 64, "ipv4.ttl", &layer.ttl, 64);
        let protocol = next.and_then(|next| next.protocol(4)).map(u16::from);
        self.protocol(start, 72, "ipv4.protocol", &layer.protocol, protocol);
        self.field(start, 96, "ipv4.source", &layer.source, SOURCE);
        self.field(start, 128, "ipv4.destination", &layer.destination, DESTINATION);
        self.built.lengths.push(LengthPlace { at: start + 2, from: start });
        self.built.sums.push(SumPlace {
            at: start + 10,
            from: start,
            to: Some(start + 20),
            pseudo: None,
            protocol: 0,
            never_zero: false,
        });
        self.ip = Some(Ip { version: 4, addresses: (start + 12, start + 20) });
    }

    fn ipv6(&mut self, layer: &Ipv6Layer, next: Option<One<'_>>) {
        let start = self.header(40);
        self.write(start, 0, 4, 6);
        self.field(start, 4, "ipv6.traffic_class", &layer.traffic_class, 0);
        self.field(start, 12, "ipv6.flow_label", &layer.flow_label, 0);
        let protocol = next.and_then(|next| next.protocol(6)).map(u16::from);
        self.protocol(start, 48, "ipv6.next_header", &layer.next_header, protocol);
        self.field(start, 56, "ipv6.hop_limit", &layer.hop_limit, 64);
        self.field(start, 64, "ipv6.source", &layer.source, SOURCE6);
        self.field(start, 192, "ipv6.destination", &layer.destination, DESTINATION6);
        self.built.lengths.push(LengthPlace { at: start + 4, from: start + 40 });
        self.ip = Some(Ip { version: 6, addresses: (start + 8, start + 40) });
    }

    /// The protocol of an IP header: where nothing known follows, one for experiments (RFC 3692).
    fn protocol<K: Kind>(&mut self, start: usize, bit: usize, name: &str, field: &Option<Field<K>>, next: Option<u16>) {
        let next = next.or_else(|| field.is_none().then_some(253));
        self.next_field(start, bit, name, field, next);
    }

    fn gre(&mut self, layer: &GreLayer, next: Option<u16>) {
        let keyed = layer.key.is_some();
        let start = self.header(if keyed { 8 } else { 4 });
        self.write(start, 2, 1, u128::from(keyed));
        let next = next.or_else(|| layer.protocol.is_none().then_some(0x88b5));
        self.next_field(start, 16, "gre.protocol", &layer.protocol, next);
        if keyed {
            self.field(start, 32, "gre.key", &layer.key, 0);
        }
    }

    fn udp(&mut self, layer: &UdpLayer, next: Option<One<'_>>) {
        let start = self.header(8);
        let tunnel = matches!(next, Some(One::Vxlan(_)));
        self.field(start, 0, "udp.source", &layer.source, 0xc020);
        self.field(start, 16, "udp.destination", &layer.destination, if tunnel { VXLAN_PORT } else { 9 });
        self.built.lengths.push(LengthPlace { at: start + 4, from: start });
        // A tunnel's outer checksum is 0: RFC 7348 section 5 for IPv4, RFC 6935 section 5 for IPv6.
        if !tunnel {
            self.transport_sum(start, start + 6, ipv4::UDP, true);
        }
    }

    fn tcp(&mut self, layer: &TcpLayer) {
        let start = self.header(20);
        self.field(start, 0, "tcp.source", &layer.source, 0xc020);
        self.field(start, 16, "tcp.destination", &layer.destination, 9);
        self.field(start, 32, "tcp.sequence", &layer.sequence, 0);
        self.field(start, 64, "tcp.acknowledgement", &layer.acknowledgement, 0);
        self.write(start, 96, 4, 5);
        self.field(start, 104, "tcp.flags", &layer.flags, 0x10);
        self.field(start, 112, "tcp.window", &layer.window, 0xffff);
        self.transport_sum(start, start + 16, ipv4::TCP, false);
    }

    fn icmp(&mut self, layer: &IcmpLayer) {
        let start = self.header(8);
        let version = self.ip.map_or(4, |ip| ip.version);
        self.field(start, 0, "icmp.kind", &layer.kind, if version == 6 { 128 } else { 8 });
        self.field(start, 8, "icmp.code", &layer.code, 0);
        self.field(start, 32, "icmp.identifier", &layer.identifier, 0);
        self.field(start, 48, "icmp.sequence", &layer.sequence, 0);
        if version == 6 {
            return self.transport_sum(start, start + 2, ICMPV6, false);
        }
        let sum = SumPlace { at: start + 2, from: start, to: None, pseudo: None, protocol: 0, never_zero: false };
        self.built.sums.push(sum);
    }

    fn transport_sum(&mut self, from: usize, at: usize, protocol: u8, never_zero: bool) {
        let pseudo = self.ip.map(|ip| ip.addresses);
        self.built.sums.push(SumPlace { at, from, to: None, pseudo, protocol, never_zero });
    }

    fn vxlan(&mut self, layer: &VxlanLayer) {
        let start = self.header(8);
        self.write(start, 0, 8, 0x08); // the identifier is valid
        self.field(start, 32, "vxlan.vni", &layer.vni, 1);
    }

    fn raw(&mut self, layer: &RawLayer) {
        let digits: Vec<u8> = layer.bytes.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let byte = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(|pair| byte(pair).filter(|_| pair.len() == 2)).collect();
        match bytes {
            Some(bytes) if !bytes.is_empty() => self.built.bytes.extend(bytes),
            _ => {
                let problem = "has raw bytes that are not pairs of hexadecimal digits, as in \"dead beef\"".to_owned();
                self.wrong.push((self.layer, problem));
            }
        }
    }
}

/// Addresses for tests of devices (RFC 2544, RFC 5180).
const SOURCE: u128 = 0xc612_0001;
const DESTINATION: u128 = 0xc613_0001;
const SOURCE6: u128 = 0x2001_0002_0000_0000_0000_0000_0000_0001;
const DESTINATION6: u128 = 0x2001_0002_0000_8000_0000_0000_0000_0001;
