//! Whose a packet is, one by one: the relay's, or all others'.

use std::net::IpAddr;

use weir_ip::{InterfaceId, NO_INTERFACE};
use weir_packet::Packet;
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet, ipv4, ipv6, validity, validity6};

use super::fragments::Fragment;
use super::{Fate, Relay, Stand};
use crate::border::{Verdict, tunnel_of};
use crate::exit::Exit;
use crate::rules::Side;
use crate::tally::Count;

/// Where a packet came in.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    interface: InterfaceId,
    /// Where its network header begins.
    l3: usize,
    /// Bytes of the frame without tags.
    l2: u64,
    /// Whether a route led it here: it is the relay's, by whichever interface it came.
    is_led: bool,
}

/// How one side counts packets, and what it keeps out.
struct Gate {
    is_six: bool,
    whole: Count,
    misplaced: (Count, Exit),
    filtered: (Count, Exit),
}

const FOUR: Gate = Gate {
    is_six: false,
    whole: Count::WholeFour,
    misplaced: (Count::MisplacedFour, Exit::MisplacedFour),
    filtered: (Count::FilteredInFour, Exit::FilteredInFour),
};

const SIX: Gate = Gate {
    is_six: true,
    whole: Count::WholeSix,
    misplaced: (Count::MisplacedSix, Exit::MisplacedSix),
    filtered: (Count::FilteredInSix, Exit::FilteredInSix),
};

impl Relay {
    /// What becomes of a packet that came in by the port of this index; behind the network layer it is known where its network header begins.
    pub(super) fn sort(&mut self, packet: &Packet, (port, known): (u16, u8), now: u64) -> Fate {
        let (interface, l3, vrf) = match &self.stand {
            Stand::First(ingress, _) => {
                let entered = ingress.enter(port, packet.window(0));
                if !entered.is_ours {
                    return Fate::Others;
                }
                (entered.interface, usize::from(entered.l3), Some(ingress.vrf_of(entered.interface)))
            }
            Stand::Inlet(_) => (NO_INTERFACE, usize::from(known), None),
        };
        let l2 = packet.len().saturating_sub(tags_in_front(l3)) as u64;
        let arrival = Arrival { interface, l3, l2, is_led: vrf.is_none() };
        let bytes = packet.bytes().get(l3..).unwrap_or_default();
        // What the slow path made has no EtherType that means anything.
        let [four, six] = self.border.rules.vrfs.map(|side| vrf.is_none_or(|vrf| vrf == side));
        let version = bytes.first().map_or(0, |first| first >> 4);
        match u16::from_be_bytes(*packet.window(l3.saturating_sub(2))) {
            _ if arrival.is_led && version == 6 => self.sort_six(packet, bytes, arrival, now),
            _ if arrival.is_led => self.sort_four(packet, bytes, arrival, now),
            ethernet::IPV4 if four => self.sort_four(packet, bytes, arrival, now),
            ethernet::IPV6 if six => self.sort_six(packet, bytes, arrival, now),
            _ => Fate::Others,
        }
    }

    fn sort_four(&mut self, packet: &Packet, bytes: &[u8], arrival: Arrival, now: u64) -> Fate {
        let Some(ip) = Ipv4::view(bytes).filter(|_| validity::check_slice(bytes).is_ok()) else { return Fate::Others };
        let Some(bytes) = bytes.get(..ip.total_len()) else { return Fate::Others };
        let to = ip.destination_addr();
        let is_ours = self.border.softwires.sets_of(to).is_some();
        if !is_ours && !arrival.is_led && !self.is_owned(to.into()) {
            return Fate::Others;
        }
        if let Some(kept_out) = self.kept_out(packet, arrival, FOUR) {
            return Fate::Decided(kept_out);
        }
        if ip.is_fragment() {
            self.border.tally.one(Count::FragmentInFour, 0);
            return Fragment::of_four(bytes, arrival.l3)
                .map_or(Fate::Decided(Exit::FragmentMalformed.into()), Fate::Fragment);
        }
        self.border.tally.one(Count::WholeFour, 0);
        Fate::Decided(self.border.receive_four(now, bytes, arrival.l2))
    }

    fn sort_six(&mut self, packet: &Packet, bytes: &[u8], arrival: Arrival, now: u64) -> Fate {
        let Some(ip) = Ipv6::view(bytes).filter(|_| validity6::check_slice(bytes).is_ok()) else { return Fate::Others };
        let Some(bytes) = bytes.get(..Ipv6::LEN + usize::from(ip.payload_length.get())) else { return Fate::Others };
        let to = ip.destination_addr();
        let is_aftr = self.border.rules.is_aftr(to);
        if !is_aftr && !arrival.is_led && !self.is_owned(to.into()) {
            return Fate::Others;
        }
        let Some(upper) = ipv6::upper(bytes).filter(|upper| upper.whole) else { return Fate::Others };
        let message = bytes.get(upper.at..).unwrap_or_default();
        let is_icmp = upper.protocol == ipv6::ICMPV6 && upper.fragment.is_none();
        let tells = is_aftr && is_icmp && tunnel_of(message).is_some();
        if upper.protocol != ipv4::IPIP && !tells {
            // Pings, neighbours, and what else is said to the relay itself.
            let is_others = is_aftr && !arrival.is_led;
            return if is_others { Fate::Others } else { self.unknown(packet, arrival) };
        }
        if let Some(kept_out) = self.kept_out(packet, arrival, SIX) {
            return Fate::Decided(kept_out);
        }
        if upper.fragment.is_some() {
            self.border.tally.one(Count::FragmentInSix, 0);
            return match Fragment::of_six(bytes, arrival.l3) {
                Ok(Some(fragment)) => Fate::Fragment(fragment),
                Ok(None) => self.in_tunnel(bytes, arrival, now),
                Err(_) => Fate::Decided(self.border.stop(true, Exit::FragmentMalformed, arrival.l2)),
            };
        }
        self.border.tally.one(Count::WholeSix, 0);
        if tells {
            return Fate::Decided(self.border.told_of_tunnel(now, bytes, upper.at, arrival.l2));
        }
        self.in_tunnel(bytes, arrival, now)
    }

    /// A whole IPv6 packet came with an IPv4 packet in it, which may be a fragment itself.
    fn in_tunnel(&mut self, bytes: &[u8], arrival: Arrival, now: u64) -> Fate {
        let at = ipv6::upper(bytes).map_or(bytes.len(), |upper| upper.at);
        match Fragment::inside(bytes, at, arrival.l3) {
            Some(fragment) => Fate::Fragment(fragment),
            None => Fate::Decided(self.unwrap(bytes, arrival.l2, now)),
        }
    }

    /// IPv6 came for one of the relay's prefixes, and from no tunnel.
    fn unknown(&mut self, packet: &Packet, arrival: Arrival) -> Fate {
        if let Some(kept_out) = self.kept_out(packet, arrival, SIX) {
            return Fate::Decided(kept_out);
        }
        self.border.tally.one(Count::InSix, arrival.l2);
        self.border.tally.one(Count::UnknownSix, arrival.l2);
        Fate::Decided(self.border.stop(true, Exit::UnknownProtocol, arrival.l2))
    }

    /// Whether an address is one of the relay's prefixes, and neither its own, nor what counts on a link, nor a group.
    fn is_owned(&self, to: IpAddr) -> bool {
        use weir_ip::Fate as Way;
        if !self.border.rules.owns(to)
            || to.is_multicast()
            || matches!(to, IpAddr::V6(to) if to.is_unicast_link_local())
        {
            return false;
        }
        let answer = match to {
            IpAddr::V4(to) => self.border.onward.lookup(to.to_bits()),
            IpAddr::V6(to) => self.border.onward.lookup6(to.to_bits()),
        };
        let found = self.border.onward.leaving(answer, || 0);
        !matches!(found, Err(Way::Receive | Way::Broadcast | Way::LinkLocal))
    }

    /// Whether a packet may not come in by its interface, or not at all as the filter says.
    fn kept_out(&mut self, packet: &Packet, arrival: Arrival, gate: Gate) -> Option<Verdict> {
        let rules = &self.border.rules;
        let side: &Side = if gate.is_six { &rules.six } else { &rules.four };
        let (is_here, filter) = (side.has(arrival.interface), side.ingress.clone());
        let tally = &self.border.tally;
        if !is_here && !arrival.is_led {
            // It counts as what the other side got.
            let (count, exit) = gate.misplaced;
            tally.one(count, arrival.l2);
            tally.one(if gate.is_six { Count::WholeFour } else { Count::WholeSix }, 0);
            return Some(self.border.stop(!gate.is_six, exit, arrival.l2));
        }
        let matches = filter.is_none_or(|filter| filter.matches_untagged(packet.bytes(), tags_in_front(arrival.l3)));
        if matches {
            return None;
        }
        let (count, exit) = gate.filtered;
        tally.one(gate.whole, 0);
        tally.one(count, arrival.l2);
        Some(self.border.stop(gate.is_six, exit, arrival.l2))
    }
}

/// Bytes of the tags in front of a network header that begins here.
pub(super) const fn tags_in_front(l3: usize) -> usize {
    l3.saturating_sub(Ethernet::LEN)
}
