//! What packets may have in common: the fields that streams are told apart by.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_capture::decode::{Ip, Layers};
use weir_wire::MacAddr;

use crate::model::Model;
use crate::packet::Packet;

/// The fields that make a stream, in the order they were named; none for a single stream of all packets.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    fields: Vec<(&'static str, Field)>,
}

/// Something that a packet says of itself, or that is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    File,
    Signature,
    Subscriber,
    Way,
    SourceMac,
    DestinationMac,
    /// A VLAN tag, counted from the outside.
    Vlan(usize),
    Priority,
    Label,
    Key,
    Session,
    OuterSource,
    OuterDestination,
    Source,
    Destination,
    Protocol,
    SourcePort,
    DestinationPort,
    Flow,
    Dscp,
    Ttl,
    Identification,
    FlowLabel,
    Length,
}

/// All fields: name, and what it is in a few words.
const NAMES: &[(&str, Field, &str)] = &[
    ("file", Field::File, "number of the file among those of its side, from 1"),
    ("signature", Field::Signature, "stream in the generator's signature"),
    (
        "subscriber",
        Field::Subscriber,
        "subscriber, by the table of the model bng; of lwaftr the shared address and PSID",
    ),
    ("way", Field::Way, "what lwaftr does to it: encapsulated, decapsulated or hairpinned"),
    ("smac", Field::SourceMac, "source address of Ethernet"),
    ("dmac", Field::DestinationMac, "destination address of Ethernet"),
    ("vlan", Field::Vlan(0), "identifier of the outermost VLAN tag"),
    ("svlan", Field::Vlan(0), "the same"),
    ("cvlan", Field::Vlan(1), "identifier of the second VLAN tag"),
    ("pcp", Field::Priority, "priority in the outermost VLAN tag"),
    ("mpls", Field::Label, "outermost MPLS label"),
    ("gre", Field::Key, "key of the outermost GRE header"),
    ("pppoe", Field::Session, "session of PPPoE"),
    ("outer-src", Field::OuterSource, "source address of the outermost IP header"),
    ("outer-dst", Field::OuterDestination, "destination address of the outermost IP header"),
    ("src", Field::Source, "source address of the innermost IP header"),
    ("dst", Field::Destination, "destination address of the innermost IP header"),
    ("proto", Field::Protocol, "protocol of the innermost IP header"),
    ("sport", Field::SourcePort, "source port"),
    ("dport", Field::DestinationPort, "destination port"),
    ("flow", Field::Flow, "addresses, protocol and ports together"),
    ("dscp", Field::Dscp, "DSCP of the innermost IP header"),
    ("ttl", Field::Ttl, "TTL or hop limit of the innermost IP header"),
    ("id", Field::Identification, "identification of the innermost IP header"),
    ("flow-label", Field::FlowLabel, "flow label of IPv6"),
    ("length", Field::Length, "bytes of the frame"),
];

/// What lies after the names of fields in the manual: each name and what it is.
pub fn manual() -> impl Iterator<Item = (&'static str, &'static str)> {
    NAMES.iter().map(|(name, _, help)| (*name, *help))
}

impl Fields {
    /// Reads names that are parted by commas.
    ///
    /// # Errors
    ///
    /// What is wrong with each name, a sentence each.
    pub fn parse(text: &str) -> Result<Fields, Vec<String>> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let (mut fields, mut wrong) = (Fields::default(), Vec::new());
        for name in names {
            match NAMES.iter().find(|(known, ..)| *known == name) {
                Some((name, field, _)) => fields.fields.push((name, *field)),
                None => wrong.push(unknown(name)),
            }
        }
        if fields.fields.len() > 8 {
            wrong.push("more than 8 fields; leave some out".to_owned());
        }
        if wrong.is_empty() { Ok(fields) } else { Err(wrong) }
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        self.fields.iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    /// Writes what a packet has in them, each with its length before it. What it does not have is empty.
    #[inline]
    pub(crate) fn write(&self, packet: &Packet<'_>, model: &dyn Model, to: &mut Vec<u8>) {
        for (_, field) in &self.fields {
            let at = to.len();
            to.push(0);
            field.write(packet, model, to);
            // Names of subscribers alone could be longer than the byte tells.
            to.truncate(at + 1 + usize::from(u8::MAX));
            let length = to.len() - at - 1;
            if let Some(byte) = to.get_mut(at) {
                *byte = length as u8;
            }
        }
    }

    /// What was written, for people: the name of each field and its value.
    pub(crate) fn show(&self, mut written: &[u8]) -> Vec<(String, String)> {
        let mut shown = Vec::new();
        for (name, field) in &self.fields {
            let Some((&length, rest)) = written.split_first() else { break };
            let (value, rest) = rest.split_at_checked(length.into()).unwrap_or((rest, &[]));
            written = rest;
            shown.push(((*name).to_owned(), field.show(value)));
        }
        shown
    }
}

/// What to say of a name that is none.
pub(crate) fn unknown(name: &str) -> String {
    let remedy = match weir_config::nearest(name, NAMES.iter().map(|(name, ..)| *name)) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are {}", NAMES.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ")),
    };
    format!("\"{name}\" is no field; {remedy}")
}

impl Field {
    pub(crate) fn named(name: &str) -> Option<Field> {
        NAMES.iter().find(|(known, ..)| *known == name).map(|(_, field, _)| *field)
    }

    /// Writes its value; nothing if the packet has none.
    pub(crate) fn write(self, packet: &Packet<'_>, model: &dyn Model, to: &mut Vec<u8>) {
        match self {
            Field::File => to.extend_from_slice(&(packet.file as u32 + 1).to_be_bytes()),
            Field::Signature => {
                let signature = weir_measure::signature::read(packet.data);
                put(to, signature.map(|signature| signature.stream.to_be_bytes()));
            }
            Field::Subscriber => model.subscriber(packet, to),
            Field::Way => put(to, model.way(packet)),
            Field::Length => to.extend_from_slice(&packet.length.to_be_bytes()),
            _ => self.of_layers(packet.layers(), to),
        }
    }

    fn of_layers(self, layers: &Layers<'_>, to: &mut Vec<u8>) {
        match self {
            Field::SourceMac => put(to, layers.ethernet().map(|ethernet| ethernet.source.0)),
            Field::DestinationMac => put(to, layers.ethernet().map(|ethernet| ethernet.destination.0)),
            Field::Vlan(n) => put(to, layers.tags().nth(n).map(|tag| tag.id().to_be_bytes())),
            Field::Priority => put(to, layers.tags().next().map(|tag| [tag.priority()])),
            Field::Label => put(to, layers.labels().next().map(|label| label.value().to_be_bytes())),
            Field::Key => put(to, layers.gres().next().and_then(|gre| Some(gre.key?.to_be_bytes()))),
            Field::Session => put(to, layers.pppoe().map(|pppoe| pppoe.session.get().to_be_bytes())),
            Field::OuterSource => put(to, layers.outer().map(|ip| ip.source())),
            Field::OuterDestination => put(to, layers.outer().map(|ip| ip.destination())),
            Field::SourcePort => put(to, layers.ports().map(|(source, _)| source.to_be_bytes())),
            Field::DestinationPort => put(to, layers.ports().map(|(_, destination)| destination.to_be_bytes())),
            _ => layers.inner().into_iter().for_each(|ip| self.of_ip(&ip, layers, to)),
        }
    }

    fn of_ip(self, ip: &Ip<'_>, layers: &Layers<'_>, to: &mut Vec<u8>) {
        match self {
            Field::Source => to.extend_from_slice(ip.source()),
            Field::Destination => to.extend_from_slice(ip.destination()),
            Field::Protocol => to.push(ip.protocol()),
            Field::Dscp => to.push(ip.dscp()),
            Field::Ttl => to.push(ip.ttl()),
            Field::Identification => put(to, ip.identification().map(u32::to_be_bytes)),
            Field::FlowLabel => put(to, ip.flow_label().map(u32::to_be_bytes)),
            Field::Flow => {
                to.push(ip.protocol());
                to.extend_from_slice(ip.source());
                to.extend_from_slice(ip.destination());
                if let Some((source, destination)) = layers.ports() {
                    to.extend_from_slice(&source.to_be_bytes());
                    to.extend_from_slice(&destination.to_be_bytes());
                }
            }
            _ => {}
        }
    }

    fn show(self, value: &[u8]) -> String {
        match self {
            _ if value.is_empty() => "-".to_owned(),
            Field::Subscriber | Field::Way => String::from_utf8_lossy(value).into_owned(),
            Field::SourceMac | Field::DestinationMac => {
                value.first_chunk().map_or_else(String::new, |mac| MacAddr(*mac).to_string())
            }
            Field::OuterSource | Field::OuterDestination | Field::Source | Field::Destination => {
                address(value).to_string()
            }
            Field::Flow => flow(value),
            _ => number(value).to_string(),
        }
    }
}

fn put(to: &mut Vec<u8>, value: Option<impl AsRef<[u8]>>) {
    value.into_iter().for_each(|value| to.extend_from_slice(value.as_ref()));
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Of 4 or 16 bytes.
fn address(bytes: &[u8]) -> IpAddr {
    match bytes.first_chunk::<16>() {
        Some(six) => Ipv6Addr::from(*six).into(),
        None => bytes.first_chunk::<4>().map_or(Ipv4Addr::UNSPECIFIED, |four| Ipv4Addr::from(*four)).into(),
    }
}

fn flow(value: &[u8]) -> String {
    let Some((protocol, rest)) = value.split_first() else { return String::new() };
    let (addresses, ports) = if rest.len() >= 32 { rest.split_at(32) } else { rest.split_at(rest.len().min(8)) };
    let (source, destination) = addresses.split_at(addresses.len() / 2);
    let port = |at: usize| ports.get(at..at + 2).map_or_else(String::new, |port| format!(" {}", number(port)));
    format!("{}{} > {}{} protocol {protocol}", address(source), port(0), address(destination), port(2))
}
