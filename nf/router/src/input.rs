//! Stage `NAME.input`: is it for the router, and is it a valid IPv4 packet that may be forwarded?
//!
//! Packets that a router sees all day long are checked 64 at a time; whatever that pass refuses is looked at again, clause
//! by clause, to name what is wrong with it or to find who takes care of it.

use std::sync::Arc;

use weir_packet::{Batch, Key, LaneId, Packet};
use weir_simd::Kernel;
use weir_simd::ipv4_check::{self, Destinations, NO_HEADER};
use weir_stage::{Declaration, Out, Stage};
use weir_table::lpm4::Lookup4;
use weir_wire::validity::{self, Defect};
use weir_wire::{Ethernet, Ipv4, View, ethernet, martian};

use crate::fib::{Action, Fib, mac_word};
use crate::punt::Kind;

weir_stage::ways! {
    /// Ways out of [`Input`].
    pub enum Exit {
        /// A valid IPv4 packet that may be forwarded, without options.
        Valid => way "ipv4",
        /// ARP, for the slow path.
        Arp => way "arp",
        /// A valid packet with options, for the slow path.
        Options => way "options",
        /// For one of the router's own addresses, with a TTL that would not do for another hop.
        Local => way "local",
        /// Its TTL ends here: the slow path answers with Time Exceeded.
        TtlExpired => way "ttl-expired",
        /// Shorter than an Ethernet header.
        TooShort => drop "too-short",
        /// Its destination MAC address is another station's.
        NotForUs => drop "not-for-us",
        /// Its EtherType is neither IPv4 nor ARP.
        UnknownEthertype => drop "unknown-ethertype",
        /// Fewer than the 20 bytes of an IPv4 header arrived.
        IpTooShort => drop "ip-too-short",
        /// The version field is not 4.
        IpVersion => drop "ip-version",
        /// The header length field is below 5 words.
        IpHeaderLength => drop "ip-header-length",
        /// The IPv4 header checksum is wrong.
        IpChecksum => drop "ip-checksum",
        /// The total length is less than the header length.
        IpTotalLength => drop "ip-total-length",
        /// The total length is more than what arrived.
        IpTruncated => drop "ip-truncated",
        /// Its source address is one that no host has (RFC 1812 section 5.3.7).
        MartianSource => drop "martian-source",
        /// Its destination address is one that no packet may carry (RFC 1812 section 5.3.7).
        MartianDestination => drop "martian-destination",
        /// From or to a link-local address, which a router must not forward (RFC 3927 section 7).
        LinkLocal => drop "link-local",
        /// To a multicast address; multicast is not routed.
        Multicast => drop "multicast",
        /// To 255.255.255.255, where nothing in this router listens.
        Broadcast => drop "broadcast",
        /// Sent to all stations of the link though its IPv4 destination is a single host (RFC 1812 section 5.3.4).
        LinkBroadcast => drop "link-broadcast",
    }
}

/// The first stage of the router: Ethernet, then the checks of RFC 1812 section 5.2.2.
pub(crate) struct Input<T> {
    table: Arc<T>,
    fib: Arc<Fib>,
    kernel: Kernel,
    kind: Key<Kind>,
    destinations: Destinations,
}

impl<T: Lookup4> Input<T> {
    pub(crate) fn new(table: Arc<T>, fib: Arc<Fib>, kernel: Kernel, kind: Key<Kind>) -> Input<T> {
        Input { table, fib, kernel, kind, destinations: Destinations::default() }
    }

    /// The mask of packets that may be forwarded without a second look.
    #[inline(always)]
    fn check(&mut self, batch: &Batch) -> u64 {
        let mut headers = [&NO_HEADER; ipv4_check::BATCH];
        let mut lengths = [0u16; ipv4_check::BATCH];
        let mut ours = 0;
        let ingress = self.fib.ingress();
        for slot in batch.slots() {
            let Some(packet) = batch.get(slot) else { continue };
            let front = packet.window::<28>(0);
            headers[slot.index()] = packet.window::<20>(Ethernet::LEN);
            // A packet is far shorter than 64 KiB; one without an IPv4 header is refused for its length of 0.
            lengths[slot.index()] = packet.len().saturating_sub(Ethernet::LEN) as u16;
            let is_ours = is_plain(front, ingress.mac_word(batch.lanes.port[slot]));
            ours |= u64::from(is_ours) << slot.index();
        }
        let count = 64 - batch.live().leading_zeros() as usize;
        let table = &*self.table;
        let ahead = |destination| table.prefetch(destination);
        ours & ipv4_check::check(self.kernel, &headers, &lengths, count, &mut self.destinations, ahead)
    }

    /// Takes care of the packets that are not straight on.
    #[inline(never)]
    fn sort_out(&self, batch: &mut Batch, mask: u64, out: &mut Out<'_>) {
        batch.each_in(mask, |slot, packet, lanes| {
            let exit = self.classify(packet, lanes.port[slot]);
            if let Some(kind) = exit.kind() {
                lanes.set(self.kind, slot, kind);
            }
            out.answer(slot, exit);
        });
    }

    fn classify(&self, packet: &Packet, port: u16) -> Exit {
        let Some(ethernet) = Ethernet::view(packet.bytes()) else { return Exit::TooShort };
        let to_all = ethernet.destination.is_group();
        if !to_all && mac_word(ethernet.destination) != self.fib.ingress().mac_word(port) {
            return Exit::NotForUs;
        }
        match ethernet.ethertype.get() {
            ethernet::IPV4 => self.classify_ipv4(packet, to_all),
            ethernet::ARP => Exit::Arp,
            _ => Exit::UnknownEthertype,
        }
    }

    fn classify_ipv4(&self, packet: &Packet, to_all: bool) -> Exit {
        let window = packet.window::<64>(Ethernet::LEN);
        if let Err(defect) = validity::check(window, packet.len() - Ethernet::LEN) {
            return Exit::of_defect(defect);
        }
        let Some(ip) = Ipv4::view(window) else { return Exit::IpTooShort };
        let (source, destination) = (ip.source.get(), ip.destination.get());
        if martian::is_martian_source(source) {
            return Exit::MartianSource;
        }
        if martian::is_limited_broadcast(destination) {
            return Exit::Broadcast;
        }
        if martian::is_multicast(destination) {
            return Exit::Multicast;
        }
        if martian::is_martian_destination(destination) {
            return Exit::MartianDestination;
        }
        // RFC 1812 section 5.3.4: "A router MUST NOT forward any packet that the router received as a Link Layer
        // broadcast, unless it is directed to an IP Multicast address."
        if to_all {
            return Exit::LinkBroadcast;
        }
        if martian::is_link_local(source) || martian::is_link_local(destination) {
            return Exit::LinkLocal;
        }
        if ip.has_options() {
            return Exit::Options;
        }
        if ip.ttl > 1 { Exit::Valid } else { self.at_last_hop(destination) }
    }

    /// What becomes of a packet that can not go another hop: it may have arrived.
    fn at_last_hop(&self, destination: u32) -> Exit {
        let place = self.fib.place(self.table.lookup(destination), || 0);
        if self.fib.entry(place).action() == Action::Local { Exit::Local } else { Exit::TtlExpired }
    }
}

impl<T: Lookup4> Stage for Input<T> {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().reads(&[LaneId::Port]).writes(&[LaneId::L3, self.kind.into()])
    }

    #[inline]
    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let good = self.check(batch);
        batch.lanes.l3.all_mut().fill(Ethernet::LEN as u8);
        let rest = batch.live() & !good;
        if rest != 0 {
            self.sort_out(batch, rest, out);
        }
    }
}

/// Whether the front of a packet says: to this station, IPv4, and not from a link-local address (which the vector pass knows
/// nothing of).
#[inline(always)]
fn is_plain(front: &[u8; 28], mac: u64) -> bool {
    const IPV4: [u8; 2] = ethernet::IPV4.to_be_bytes();
    let &[a, b, c, d, e, f, _, _, _, _, _, _, type_high, type_low, .., source_first, source_second] = front;
    let destination = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    destination == mac && [type_high, type_low] == IPV4 && [source_first, source_second] != [169, 254]
}

impl Exit {
    fn of_defect(defect: Defect) -> Exit {
        match defect {
            Defect::TooShort => Exit::IpTooShort,
            Defect::Version => Exit::IpVersion,
            Defect::HeaderLength => Exit::IpHeaderLength,
            Defect::Checksum => Exit::IpChecksum,
            Defect::TotalLength => Exit::IpTotalLength,
            Defect::Truncated => Exit::IpTruncated,
        }
    }

    /// What the slow path is asked for.
    fn kind(self) -> Option<Kind> {
        match self {
            Exit::Arp => Some(Kind::Arp),
            Exit::Options => Some(Kind::Options),
            Exit::Local => Some(Kind::Local),
            Exit::TtlExpired => Some(Kind::TtlExpired),
            _ => None,
        }
    }
}
