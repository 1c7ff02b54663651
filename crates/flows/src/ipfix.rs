//! Flows in messages of IPFIX (RFC 7011).
//!
//! A collector reads records by templates, which are sent before the first record and from time to time again, as datagrams may be lost (section 8.4).
//! Options tell how packets were sampled (RFC 5477), and the names of interfaces and VRFs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_stage::Output;

use crate::{DATAGRAM, EndReason, Ended, FlowKey, if_index};

/// Version of the protocol (RFC 7011 section 3.1).
const VERSION: u16 = 10;

/// Bytes of a message's header.
const HEADER: usize = 16;

/// Bytes of a set's header (section 3.3.2).
const SET: usize = 4;

/// The sets of templates and of templates for options (section 3.3.2).
const TEMPLATES: u16 = 2;
const OPTIONS_TEMPLATES: u16 = 3;

/// Numbers of our templates.
const SAMPLING: u16 = 256;
const INTERFACES: u16 = 257;
const VRFS: u16 = 258;
const FLOWS: u16 = 259;

/// The length of a field that says itself how long it is (section 7).
const VARIABLE: u16 = u16::MAX;

/// Bytes of a name at most.
const NAME: usize = 64;

/// An information element (IANA, IPFIX information elements) and its length.
type Field = (u16, u16);

/// What a template for options says: the first fields are its scope.
const SAMPLING_FIELDS: &[Field] = &[(302, 8), (304, 2), (309, 4), (310, 4), (34, 4), (35, 1)];
const INTERFACE_FIELDS: &[Field] = &[(10, 4), (82, VARIABLE)];
const VRF_FIELDS: &[Field] = &[(234, 4), (236, VARIABLE)];

/// The only selector there is.
const SELECTOR: u64 = 1;

/// Random n-out-of-N sampling (RFC 5477 section 8.2.1), and what that is to `samplingAlgorithm`: random.
const N_OUT_OF_N: u16 = 3;
const RANDOM: u8 = 2;

/// Which fields a record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// IPv4 by a router with an IPv4 address, or by none.
    Four = 0,
    /// IPv4 by a router with an IPv6 address (RFC 8950).
    FourBySix = 1,
    /// IPv6.
    Six = 2,
}

impl Shape {
    const ALL: [Shape; 3] = [Shape::Four, Shape::FourBySix, Shape::Six];

    fn of(key: &FlowKey) -> Shape {
        match (key.addresses, key.hop.next_hop) {
            ([IpAddr::V6(_), _], _) => Shape::Six,
            (_, Some(IpAddr::V6(_))) => Shape::FourBySix,
            _ => Shape::Four,
        }
    }

    const fn template(self) -> u16 {
        FLOWS + self as u16
    }

    /// The fields of its records, in the order of [`record`].
    fn fields(self) -> Vec<Field> {
        let addresses: &[Field] = match self {
            Shape::Four => &[(8, 4), (12, 4), (15, 4), (9, 1), (13, 1), (32, 2)],
            Shape::FourBySix => &[(8, 4), (12, 4), (62, 16), (9, 1), (13, 1), (32, 2)],
            Shape::Six => &[(27, 16), (28, 16), (62, 16), (29, 1), (30, 1), (139, 2), (31, 4)],
        };
        // Interfaces, VRFs, both VLANs in and out, ports, protocol, class, TCP flags, packets, bytes, first, last, why it ended.
        let others: &[Field] = &[
            (10, 4),
            (14, 4),
            (234, 4),
            (235, 4),
            (58, 2),
            (245, 2),
            (59, 2),
            (255, 2),
            (7, 2),
            (11, 2),
            (4, 1),
            (5, 1),
            (6, 2),
            (2, 8),
            (1, 8),
            (152, 8),
            (153, 8),
            (136, 1),
        ];
        [addresses, others].concat()
    }
}

/// Names that collectors should know.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Of interfaces, with their numbers.
    pub interfaces: Vec<(u16, String)>,
    /// Of VRFs, by number.
    pub vrfs: Vec<String>,
}

/// Writes messages to a collector, or to several that get the same.
#[derive(Debug)]
pub struct Ipfix {
    domain: u32,
    rate: u32,
    /// Records of data that were sent.
    sequence: u32,
    messages: Vec<Vec<u8>>,
    /// The message that is written.
    message: Vec<u8>,
    /// Where its last set begins, and of what it is.
    set: Option<(usize, u16)>,
    /// Records of data in it.
    records: u32,
}

impl Ipfix {
    /// Of an observation domain (section 3.1), where one of `rate` packets is sampled.
    pub fn new(domain: u32, rate: u32) -> Ipfix {
        Ipfix { domain, rate, sequence: 0, messages: Vec::new(), message: Vec::new(), set: None, records: 0 }
    }

    /// Writes the templates, how packets are sampled, and names. Comes first, and again from time to time.
    pub fn describe(&mut self, names: &Names) {
        for shape in Shape::ALL {
            let fields = shape.fields();
            let template = [[shape.template(), fields.len() as u16].as_slice(), &pairs(&fields)].concat();
            self.put(TEMPLATES, &bytes(&template));
        }
        for (template, fields) in [(SAMPLING, SAMPLING_FIELDS), (INTERFACES, INTERFACE_FIELDS), (VRFS, VRF_FIELDS)] {
            let template = [[template, fields.len() as u16, 1].as_slice(), &pairs(fields)].concat();
            self.put(OPTIONS_TEMPLATES, &bytes(&template));
        }
        let [one, rate] = [1u32, self.rate].map(u32::to_be_bytes);
        let sampling: [&[u8]; 6] = [&SELECTOR.to_be_bytes(), &N_OUT_OF_N.to_be_bytes(), &one, &rate, &rate, &[RANDOM]];
        self.put(SAMPLING, &sampling.concat());
        for (id, name) in &names.interfaces {
            self.put(INTERFACES, &named(if_index(*id), name));
        }
        for (vrf, name) in (0..).zip(&names.vrfs) {
            self.put(VRFS, &named(vrf, name));
        }
    }

    /// Writes a flow, whose times are milliseconds since 1970.
    pub fn flow(&mut self, flow: &Ended) {
        let shape = Shape::of(&flow.key);
        self.put(shape.template(), &record(shape, flow));
    }

    /// The messages written, of which the last is ended, to be sent at `now`, seconds since 1970.
    pub fn take(&mut self, now: u32) -> Vec<Vec<u8>> {
        self.end_message();
        let mut messages = std::mem::take(&mut self.messages);
        for message in &mut messages {
            if let Some(time) = message.get_mut(4..8) {
                time.copy_from_slice(&now.to_be_bytes());
            }
        }
        messages
    }

    /// Puts a record into a set of its kind.
    fn put(&mut self, set: u16, record: &[u8]) {
        let head = if self.set.is_some_and(|(_, last)| last == set) { 0 } else { SET };
        if !self.message.is_empty() && self.message.len() + head + record.len() > DATAGRAM {
            self.end_message();
        }
        if self.message.is_empty() {
            self.message.resize(HEADER, 0);
        }
        if self.set.is_none_or(|(_, last)| last != set) {
            self.end_set();
            self.set = Some((self.message.len(), set));
            self.message.resize(self.message.len() + SET, 0);
        }
        self.message.extend_from_slice(record);
        // Of records of data, options among them, and not of templates (section 3.1).
        self.records += u32::from(set >= SAMPLING);
    }

    /// Writes the header of the last set: its kind and its length.
    fn end_set(&mut self) {
        let Some((at, set)) = self.set.take() else { return };
        let len = (self.message.len() - at) as u16;
        if let Some(header) = self.message.get_mut(at..at + SET) {
            header.copy_from_slice(&bytes(&[set, len]));
        }
    }

    fn end_message(&mut self) {
        self.end_set();
        let mut message = std::mem::take(&mut self.message);
        if message.is_empty() {
            return;
        }
        // When it is sent is written when it is.
        let head = [bytes(&[VERSION, message.len() as u16, 0, 0]), bytes32(&[self.sequence, self.domain])].concat();
        if let Some(header) = message.get_mut(..HEADER) {
            header.copy_from_slice(&head);
        }
        self.sequence = self.sequence.wrapping_add(std::mem::take(&mut self.records));
        self.messages.push(message);
    }
}

/// The fields of a template as they are written.
fn pairs(fields: &[Field]) -> Vec<u16> {
    fields.iter().flat_map(|&(element, len)| [element, len]).collect()
}

fn bytes(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn bytes32(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A number and a name, which is written with its length (section 7).
fn named(number: u32, name: &str) -> Vec<u8> {
    let name = name.get(..name.floor_char_boundary(NAME)).unwrap_or_default();
    [number.to_be_bytes().as_slice(), &[name.len() as u8], name.as_bytes()].concat()
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// A record of a flow, in the order of [`Shape::fields`].
fn record(shape: Shape, flow: &Ended) -> Vec<u8> {
    let Ended { key, packets, bytes, flags, first, last, reason } = flow;
    let mut record = Vec::with_capacity(192);
    let mut put = |bytes: &[u8]| record.extend_from_slice(bytes);
    key.addresses.iter().for_each(|address| put(&octets(*address)));
    let none = match shape {
        Shape::Four => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Shape::FourBySix | Shape::Six => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    put(&octets(key.hop.next_hop.filter(|hop| hop.is_ipv4() == none.is_ipv4()).unwrap_or(none)));
    put(&[key.hop.source_len, key.hop.destination_len]);
    put(&key.icmp.to_be_bytes());
    if shape == Shape::Six {
        put(&key.label.to_be_bytes());
    }
    let output = match key.hop.output {
        Output::Interface(id) => if_index(id),
        Output::Here | Output::Nowhere | Output::Unknown => 0,
    };
    [if_index(key.input), output, key.vrf.into(), key.hop.vrf.into()].iter().for_each(|word| put(&word.to_be_bytes()));
    [key.vlans, key.hop.vlans, key.ports].iter().flatten().for_each(|word| put(&word.to_be_bytes()));
    put(&[key.protocol, key.class]);
    put(&u16::from(*flags).to_be_bytes());
    [packets, bytes, first, last].iter().for_each(|word| put(&word.to_be_bytes()));
    put(&[number(*reason)]);
    record
}

const fn number(reason: EndReason) -> u8 {
    reason as u8
}
