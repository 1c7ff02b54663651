//! Fragments to the router's own addresses: put together, or given up (RFC 791 section 3.2, RFC 1122 section 3.3.2).

use weir_net::icmp::Problem;
use weir_net::reassembly::{self, Piece, Verdict};
use weir_packet::Held;
use weir_wire::{Ipv4, View};

use super::{Exit, Turn, ip_bytes};

impl Turn<'_, '_> {
    /// A fragment came for one of the router's own addresses. Once all are there, the first one stands for the whole packet.
    pub(super) fn reassemble(&mut self, fragment: Held) {
        let now = self.out.now();
        let Some((whole, piece)) = Piece::of(ip_bytes(fragment.packet())) else {
            return self.out.send(fragment, Exit::FragmentMalformed);
        };
        match self.fragments.add(now, whole, piece, fragment) {
            Verdict::Kept => {}
            Verdict::Complete(fragments) => self.put_together(fragments),
            Verdict::Duplicate(fragment) => self.out.send(fragment, Exit::FragmentDuplicate),
            Verdict::Overlap(fragments) => {
                fragments.into_iter().for_each(|fragment| self.out.send(fragment, Exit::FragmentOverlap));
            }
            Verdict::Full(fragment) => self.out.send(fragment, Exit::FragmentQueueFull),
        }
    }

    fn put_together(&mut self, fragments: Vec<Held>) {
        let packet = reassembly::join(fragments.iter().map(|fragment| ip_bytes(fragment.packet())));
        let Some(packet) = packet else {
            // Its header has grown by options that the first fragment does not have, so that it is too long after all.
            return fragments.into_iter().for_each(|fragment| self.out.send(fragment, Exit::FragmentMalformed));
        };
        let mut fragments = fragments.into_iter();
        let Some(first) = fragments.next() else { return };
        fragments.for_each(|fragment| self.out.send(fragment, Exit::Reassembled));
        self.deliver_whole(first, Some(&packet));
    }

    /// Gives up packets that did not become whole in time; answers when it is to be called next.
    pub(super) fn expire_fragments(&mut self) -> u64 {
        let now = self.out.now();
        while let Some(fragments) = self.fragments.expire(now) {
            for fragment in fragments {
                let starts = Ipv4::view(ip_bytes(fragment.packet())).is_some_and(|ip| ip.fragment_offset() == 0);
                // "an ICMP Time Exceeded message sent to the source host (if fragment zero has been received)".
                match starts {
                    true => self.refuse(fragment, Problem::ReassemblyExceeded, Exit::FragmentTimeout),
                    false => self.out.send(fragment, Exit::FragmentTimeout),
                }
            }
        }
        self.fragments.next_deadline().unwrap_or(u64::MAX)
    }
}
