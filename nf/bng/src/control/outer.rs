//! Fragments of outer packets: those that a customer's packet is sent in because it does not fit, and those that come from the core
//! (RFC 7588, RFC 791 section 3.2).

use std::collections::HashMap;

use weir_net::fragment::Fragments;
use weir_net::limit::{Rate, TokenBucket};
use weir_net::reassembly::{self, Piece, Verdict};
use weir_packet::{Held, Packet};
use weir_wire::{Ipv4, View, ipv4};

use super::outward::behind_labels;
use super::{Call, Customer, Exit};
use crate::encap::{TAGGED, TUNNEL};
use crate::identification::SLOW_PATH;
use crate::lines::{Wrapped, one_hop_less, wrap};
use crate::table::counters::Direction;

/// Identifications of outer packets that are fragmented, by who they are for: "sources emitting non-atomic datagrams MUST NOT repeat
/// IPv4 ID values within one MDL for a given source address/destination address/protocol tuple" (RFC 6864 section 4.3). The maximum
/// datagram lifetime is two minutes (RFC 791).
#[derive(Debug)]
pub(crate) struct Identifications {
    last: HashMap<u32, (u16, TokenBucket)>,
    /// As many there are, from 0 on; workers have the others.
    count: u32,
    rate: Rate,
}

/// 64 at once and 545 more in each second are no more than 65,536 in any 120 seconds.
const RATE_OF_ALL: Rate = match Rate::new(545, 64) {
    Some(rate) => rate,
    None => panic!(),
};

/// 64 and 136 are no more than [`SLOW_PATH`].
const RATE_OF_SOME: Rate = match Rate::new(136, 64) {
    Some(rate) => rate,
    None => panic!(),
};

impl Identifications {
    /// All of them, or those that are left where packets of workers `may_fragment`, too.
    pub(crate) fn new(may_fragment: bool) -> Identifications {
        let count = if may_fragment { SLOW_PATH } else { 1 << 16 };
        Identifications { last: HashMap::new(), count, rate: if may_fragment { RATE_OF_SOME } else { RATE_OF_ALL } }
    }

    /// The next for a destination, of which there are as many as gateways; `None` if it would come too soon.
    fn next(&mut self, now: u64, destination: u32) -> Option<u16> {
        let Identifications { last, count, rate } = self;
        let (last, bucket) = last.entry(destination).or_insert_with(|| (0, TokenBucket::new(*rate, now)));
        if !bucket.take(now, 1) {
            return None;
        }
        *last = ((u32::from(*last) + 1) % *count) as u16;
        Some(*last)
    }

    /// Gives an outer packet an identification, so that it may be fragmented. Answers whether there was one: otherwise it must not be
    /// (RFC 6864 section 4.1).
    pub(crate) fn identify(&mut self, now: u64, outer: &mut [u8]) -> bool {
        let Some(ip) = Ipv4::view_mut(outer) else { return false };
        let identification = self.next(now, ip.destination.get());
        ip.identification = identification.unwrap_or(0).into();
        ip.set_fragment(identification.is_none(), false, 0);
        ipv4::write_checksum(outer);
        identification.is_some()
    }
}

impl Call<'_, '_> {
    /// Sends a customer's packet that does not fit in fragments of the outer packet.
    pub(super) fn fragment_outer(&mut self, customer: Customer, packet: Held) {
        match self.send_in_fragments(customer.subscriber, packet.packet()) {
            Ok(true) => self.out.send(packet, Exit::Fragmented),
            // Its route, or the next router, has changed meanwhile: it is looked up anew.
            Ok(false) => self.send_up(packet),
            Err(exit) => self.lose(customer.subscriber, packet, exit),
        }
    }

    /// Answers whether there is a way to send it.
    fn send_in_fragments(&mut self, subscriber: u32, packet: &Packet) -> Result<bool, Exit> {
        let Some(mut whole) = self.fresh(packet.len()) else { return Err(Exit::NoBuffer) };
        whole.bytes_mut().copy_from_slice(packet.bytes());
        one_hop_less(whole.bytes_mut().get_mut(TAGGED..).unwrap_or_default());
        let now = self.out.now();
        let control = &mut *self.control;
        let key = control.registry.subscriber(subscriber).and_then(|one| one.fields().key).unwrap_or(0);
        let wrapped = wrap(&control.core, key, &mut whole);
        let outer = match wrapped {
            Some(Wrapped { total, .. }) => whole.len().saturating_sub(usize::from(total) + TUNNEL),
            None => 0,
        };
        let identified = control.identifications.identify(now, whole.bytes_mut().get_mut(outer..).unwrap_or_default());
        let made = match wrapped {
            Some(Wrapped { longest, .. }) if identified => self.cut(whole.bytes(), outer, longest + TUNNEL as u16),
            Some(_) => Err(Exit::NoIdentification),
            None => Ok(Vec::new()),
        };
        self.out.unalloc(whole);
        let (made, Some(Wrapped { port, total, .. })) = (made?, wrapped) else { return Ok(false) };
        for piece in made {
            let index = self.control.ports.list().get(usize::from(port)).map_or(0, |port| port.index);
            let held = Held::fresh(piece, index, now);
            self.out.emit_indexed(held, port, Exit::Piece);
        }
        self.drops.counters.count(subscriber, Direction::Up, TAGGED as u64 + u64::from(total));
        Ok(true)
    }

    /// The pieces, none longer than `mtu`, of the outer packet that begins at `at` in a frame, each behind a copy of what stands before it:
    /// all of them or none, as what is left would only be waited for.
    fn cut(&mut self, frame: &[u8], at: usize, mtu: u16) -> Result<Vec<Packet>, Exit> {
        let (Some(head), Some(packet)) = (frame.get(..at), frame.get(at..)) else { return Err(Exit::TooBig) };
        let mut made = Vec::new();
        for fragment in Fragments::new(packet, mtu).map_err(|_| Exit::TooBig)? {
            let piece = self.fresh(at + fragment.total_len());
            let written = piece.and_then(|mut piece| {
                let (front, rest) = piece.bytes_mut().split_at_mut_checked(at)?;
                front.copy_from_slice(head);
                fragment.write(rest).map(|_| piece)
            });
            let Some(piece) = written else {
                made.into_iter().for_each(|piece| self.out.unalloc(piece));
                return Err(Exit::NoBuffer);
            };
            made.push(piece);
        }
        Ok(made)
    }

    /// A fragment of an outer packet came from the core. Once all are there, the packet goes on as if it had come whole.
    pub(super) fn outer_fragment(&mut self, fragment: Held) {
        let now = self.out.now();
        let Some((whole, piece)) = Piece::of(outer(fragment.packet().bytes())) else {
            return self.out.send(fragment, Exit::FragmentMalformed);
        };
        match self.fragments.add(now, whole, piece, fragment) {
            Verdict::Kept => {}
            Verdict::Complete(fragments) => self.put_together(fragments),
            Verdict::Duplicate(fragment) => self.out.send(fragment, Exit::FragmentDuplicate),
            Verdict::Overlap(fragments) => self.give_up_fragments(fragments, Exit::FragmentOverlap),
            Verdict::Full(fragment) => self.out.send(fragment, Exit::FragmentsFull),
            Verdict::TooMany(fragments) => self.give_up_fragments(fragments, Exit::FragmentsFull),
        }
    }

    fn put_together(&mut self, mut fragments: Vec<Held>) {
        let port = fragments.first_mut().map_or(0, Held::port);
        let joined = reassembly::join(fragments.iter().map(|fragment| outer(fragment.packet().bytes())));
        let head = fragments.first().map(|first| {
            let frame = first.packet().bytes();
            frame.get(..behind_labels(frame).unwrap_or_default()).unwrap_or_default()
        });
        let Some((head, joined)) = head.zip(joined) else {
            // Its header has grown by options that the first fragment does not have, so that it is too long after all.
            return self.give_up_fragments(fragments, Exit::FragmentMalformed);
        };
        let Some(mut packet) = self.fresh(head.len() + joined.len()) else {
            return self.give_up_fragments(fragments, Exit::NoBuffer);
        };
        if let Some((front, rest)) = packet.bytes_mut().split_at_mut_checked(head.len()) {
            front.copy_from_slice(head);
            rest.copy_from_slice(&joined);
        }
        self.out.emit(Held::fresh(packet, port, self.out.now()), Exit::Down, Exit::Whole);
        self.give_up_fragments(fragments, Exit::Reassembled);
    }

    fn give_up_fragments(&mut self, fragments: Vec<Held>, exit: Exit) {
        fragments.into_iter().for_each(|fragment| self.out.send(fragment, exit));
    }

    /// Gives up packets that did not become whole in time; answers when it is to be called next.
    pub(super) fn expire_fragments(&mut self) -> u64 {
        let now = self.out.now();
        while let Some(fragments) = self.fragments.expire(now) {
            self.give_up_fragments(fragments, Exit::FragmentTimeout);
        }
        self.fragments.next_deadline().unwrap_or(u64::MAX)
    }
}

/// The outer packet in a frame from the core.
fn outer(frame: &[u8]) -> &[u8] {
    behind_labels(frame).and_then(|at| frame.get(at..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn no_identification_comes_twice_within_two_minutes() {
        for (may_fragment, rate) in [(false, 545), (true, 136)] {
            let mut identifications = Identifications::new(may_fragment);
            let mut given: HashMap<u16, u64> = HashMap::new();
            let (mut now, mut count) = (0, 0);
            while now < 400 * SECOND {
                if let Some(identification) = identifications.next(now, 1) {
                    let before = given.insert(identification, now);
                    assert!(before.is_none_or(|before| now - before > 120 * SECOND), "{identification} at {now}");
                    assert!(!may_fragment || u32::from(identification) < SLOW_PATH, "{identification} is a worker's");
                    count += 1;
                }
                now += SECOND / 1000;
            }
            assert_eq!(count, 400 * rate + 64 - 1);
            assert_eq!(identifications.next(now, 2), Some(1), "each destination has its own");
        }
    }
}
