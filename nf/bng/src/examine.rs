//! What a packet from a customer is, looked at one by one and clause by clause: for those that the fast path refused.

use weir_ip::InterfaceId;
use weir_packet::Packet;
use weir_wire::validity::{self, Defect};
use weir_wire::vlan::Vlan;
use weir_wire::{Ethernet, Ipv4, MacAddr, View, ethernet, ipv6, martian};

use crate::core::{Routed, Stop, flow_of};
use crate::encap::{TAGGED, mac_word};
use crate::ports::WorkerPort;
use crate::table::{SubscriberRecord, Subscribers};
use crate::upstream::{Exit, Shared};

/// What was found out about a packet.
pub(crate) struct Examined<'t> {
    /// The number of its subscriber, if that is known.
    pub(crate) subscriber: Option<u32>,
    /// Whose it is and where it goes, or what else becomes of it.
    pub(crate) fate: Result<(SubscriberRecord<'t>, Onto<'t>), Exit>,
    /// The interface that it is of, where that is one beside customers' lines.
    pub(crate) beside: Option<InterfaceId>,
}

/// Where a customer's packet goes.
pub(crate) enum Onto<'t> {
    /// To the core.
    Core(Routed<'t>),
    /// To a customer's address.
    Customer(u32),
}

/// Looks at a packet that came in by the port of this index.
pub(crate) fn examine<'t, const TUNNEL: bool>(shared: &'t Shared, packet: &Packet, port: u16) -> Examined<'t> {
    let bytes = packet.bytes();
    let is_shut = || if shared.tally.is_shut(port) { Err(Exit::InterfaceDown) } else { Ok(()) };
    match is_shut().and_then(|()| whose(shared, bytes, shared.ports.ingress(port))) {
        Err(exit) => {
            let beside = shared.tally.ingress().beside_lines(port, packet.window(0));
            Examined { subscriber: None, fate: Err(if beside.is_some() { Exit::Interface } else { exit }), beside }
        }
        Ok((record, ethertype)) => Examined {
            subscriber: Some(record.number()),
            fate: network::<TUNNEL>(shared, packet, record, ethertype).map(|onto| (record, onto)),
            beside: None,
        },
    }
}

/// The subscriber behind a frame's tags, and the EtherType behind them.
fn whose<'t>(shared: &'t Shared, frame: &[u8], station: WorkerPort) -> Result<(SubscriberRecord<'t>, u16), Exit> {
    let (link, rest) = Ethernet::split(frame).ok_or(Exit::TooShort)?;
    if mac_word(link.destination) != station.mac && !link.destination.is_group() {
        return Err(Exit::NotForUs);
    }
    if link.ethertype.get() != shared.tpid {
        return Err(Exit::NoSvlan);
    }
    let (outer, rest) = Vlan::split(rest).ok_or(Exit::TooShort)?;
    if outer.ethertype.get() != ethernet::CVLAN {
        return Err(Exit::NoCvlan);
    }
    let (inner, _) = Vlan::split(rest).ok_or(Exit::TooShort)?;
    let tables: &Subscribers = &shared.subscribers;
    let place = tables.by_tags(station.position, outer.id(), inner.id()).ok_or(Exit::UnknownSubscriber)?;
    let record = tables.subscriber(place).ok_or(Exit::UnknownSubscriber)?;
    Ok((record, inner.ethertype.get()))
}

/// Where a subscriber's frame goes.
fn network<'t, const TUNNEL: bool>(
    shared: &'t Shared,
    whole: &Packet,
    record: SubscriberRecord<'_>,
    ethertype: u16,
) -> Result<Onto<'t>, Exit> {
    let frame = whole.bytes();
    let Some(link) = Ethernet::view(frame) else { return Err(Exit::TooShort) };
    if !record.may_send_from(mac_word(link.source)) {
        return Err(Exit::WrongMac);
    }
    let packet = frame.get(TAGGED..).unwrap_or_default();
    match ethertype {
        ethernet::IPV4 => {}
        ethernet::ARP => return Err(Exit::Arp),
        ethernet::IPV6 => return Err(if is_neighbor_discovery(packet) { Exit::Nd } else { Exit::Ipv6 }),
        _ => return Err(Exit::UnknownEthertype),
    }
    let ip = sound(packet).map_err(Exit::from)?;
    addresses(ip, link.destination)?;
    let source = ip.source.get();
    if !record.is_first_source4(source) && !is_bound(&shared.subscribers, record, source) {
        return Err(Exit::UnknownSource);
    }
    let answer = shared.core.onward.lookup(ip.destination.get());
    match shared.core.view().hop::<TUNNEL>(answer, || flow_of(whole)) {
        Ok(_) | Err(Stop::Unresolved | Stop::Customer) if ip.ttl < 2 => Err(Exit::TtlExpired),
        Ok(hop) => Ok(Onto::Core(hop)),
        Err(Stop::Customer) => Ok(Onto::Customer(ip.destination.get())),
        Err(stop) => Err(stop.into()),
    }
}

/// Whether an address was entered or learned for this subscriber.
fn is_bound(tables: &Subscribers, record: SubscriberRecord<'_>, source: u32) -> bool {
    let key = tables.key4(record.scope(), source);
    let binding = tables.find(key, tables.hash(key)).and_then(|place| tables.binding(place));
    binding.is_some_and(|binding| binding.subscriber() == record.number())
}

/// The header of a packet that is valid IPv4.
pub(crate) fn sound(packet: &[u8]) -> Result<&Ipv4, Defect> {
    validity::check_slice(packet)?;
    Ipv4::view(packet).ok_or(Defect::TooShort)
}

impl From<Defect> for Exit {
    fn from(defect: Defect) -> Exit {
        match defect {
            Defect::TooShort => Exit::IpTooShort,
            Defect::Version => Exit::IpVersion,
            Defect::HeaderLength => Exit::IpHeaderLength,
            Defect::Checksum => Exit::IpChecksum,
            Defect::TotalLength => Exit::IpTotalLength,
            Defect::Truncated => Exit::IpTruncated,
        }
    }
}

/// Whether a packet may be forwarded from and to its addresses, having been sent to this MAC address.
fn addresses(ip: &Ipv4, sent_to: MacAddr) -> Result<(), Exit> {
    let (source, destination) = (ip.source.get(), ip.destination.get());
    if martian::is_multicast(destination) {
        return Err(Exit::Multicast);
    }
    if martian::is_limited_broadcast(destination) {
        return Err(Exit::Broadcast);
    }
    if martian::is_martian_source(source) {
        return Err(Exit::MartianSource);
    }
    if martian::is_martian_destination(destination) {
        return Err(Exit::MartianDestination);
    }
    if martian::is_link_local(source) || martian::is_link_local(destination) {
        return Err(Exit::LinkLocal);
    }
    if sent_to.is_group() {
        return Err(Exit::LinkBroadcast);
    }
    Ok(())
}

/// ICMPv6 messages of RFC 4861: from router solicitations to redirects.
pub(crate) const DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;

/// Whether an IPv6 packet is neighbour discovery: it follows the header at once (RFC 4861 has no extension headers there).
pub(crate) fn is_neighbor_discovery(packet: &[u8]) -> bool {
    let is_icmp = weir_wire::Ipv6::view(packet).is_some_and(|ip| ip.next_header == ipv6::ICMPV6);
    is_icmp && packet.get(40).is_some_and(|kind| DISCOVERY.contains(kind))
}
