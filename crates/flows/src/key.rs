//! Which flow a sampled packet belongs to.

use std::net::IpAddr;

use weir_stage::{FlowHop, Sample};
use weir_wire::{Ipv4, Ipv6, View, ethernet, ipv4, ipv6};

/// What packets of a flow have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The number of the interface that they came in by.
    pub input: u16,
    /// The identifiers of their VLAN tags, the outer one first; 0 where there is none.
    pub vlans: [u16; 2],
    /// The number of the VRF that they came in.
    pub vrf: u16,
    /// Where they go.
    pub hop: FlowHop,
    /// Source and destination, of one family.
    pub addresses: [IpAddr; 2],
    /// The protocol above; behind extension headers that are too many, or cut off, that of the last one seen.
    pub protocol: u8,
    /// Type of service, or traffic class.
    pub class: u8,
    /// The flow label, 0 in IPv4.
    pub label: u32,
    /// Source and destination port, 0 where there are none, as in fragments but the first.
    pub ports: [u16; 2],
    /// Type and code of ICMP, else 0.
    pub icmp: u16,
}

/// What of a packet is not the same for all of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Bytes of the IP packet.
    pub(crate) bytes: u64,
    /// The flags of TCP.
    pub(crate) flags: u8,
}

impl FlowKey {
    /// The flow of a sample, and what it adds to it; `None` if it is no IP packet.
    pub(crate) fn of(sample: &Sample) -> Option<(FlowKey, Part)> {
        match sample.ethertype()? {
            ethernet::IPV4 => four(sample),
            ethernet::IPV6 => six(sample),
            _ => None,
        }
    }
}

fn four(sample: &Sample) -> Option<(FlowKey, Part)> {
    let packet = sample.packet();
    let ip = Ipv4::view(packet)?;
    let is_first = ip.fragment_offset() == 0;
    let above = packet.get(ip.header_len()..).filter(|_| is_first).unwrap_or_default();
    let addresses = [IpAddr::V4(ip.source_addr()), IpAddr::V4(ip.destination_addr())];
    let head = Head { addresses, class: ip.tos, label: 0 };
    Some(flow(sample, head, ip.protocol, above, ip.total_len()))
}

fn six(sample: &Sample) -> Option<(FlowKey, Part)> {
    let packet = sample.packet();
    let ip = Ipv6::view(packet)?;
    let upper = ipv6::upper(packet)?;
    let above = packet.get(upper.at..).filter(|_| upper.whole && !upper.later).unwrap_or_default();
    let addresses = [IpAddr::V6(ip.source_addr()), IpAddr::V6(ip.destination_addr())];
    let head = Head { addresses, class: ip.traffic_class(), label: ip.flow_label() };
    Some(flow(sample, head, upper.protocol, above, Ipv6::LEN + usize::from(ip.payload_length.get())))
}

/// What the network header says of a flow.
struct Head {
    addresses: [IpAddr; 2],
    class: u8,
    label: u32,
}

fn flow(sample: &Sample, head: Head, protocol: u8, above: &[u8], len: usize) -> (FlowKey, Part) {
    let word =
        |at: usize| above.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u16::from_be_bytes(*word));
    let has_ports = matches!(protocol, ipv4::UDP | ipv4::TCP | ipv4::SCTP | ipv4::DCCP | ipv4::UDP_LITE);
    let key = FlowKey {
        input: sample.input,
        vlans: sample.vlans,
        vrf: sample.vrf,
        hop: sample.hop,
        addresses: head.addresses,
        protocol,
        class: head.class,
        label: head.label,
        ports: if has_ports { [word(0), word(2)] } else { [0, 0] },
        icmp: if matches!(protocol, ipv4::ICMP | ipv6::ICMPV6) { word(0) } else { 0 },
    };
    let flags = if protocol == ipv4::TCP { above.get(13).copied().unwrap_or(0) } else { 0 };
    // No more than there was, whatever the header says.
    let there = u64::from(sample.rest()).saturating_sub(sample.l3.into());
    (key, Part { bytes: there.min(len as u64), flags })
}
