//! Fragments to the router's own addresses: put together, or given up (RFC 791 section 3.2, RFC 1122 section 3.3.2; RFC 8200 section 4.5).

use std::net::IpAddr;

use weir_net::VrfId;
use weir_net::reassembly::six::{Part, Whole6, join6, part_of};
use weir_net::reassembly::{self, Piece, Verdict, Whole};
use weir_wire::{Ipv4, View, ipv6};

use super::parcel::{Parcel, is_of_link};
use super::{Call, Exit};
use crate::InterfaceId;
use crate::slow::answer::Trouble;

/// What the fragments of one packet have in common: of other packets that are alike, but from another link or line, or in another VRF,
/// nothing is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Original {
    Four(VrfId, Option<u32>, Whole),
    Six(VrfId, Option<u32>, Whole6),
    /// From or to an address that counts on its link only.
    OnLink(InterfaceId, Whole6),
}

/// What a fragment is.
enum Fragment {
    Piece(Original, Piece),
    /// A whole packet with the header of a fragment.
    Atomic,
    /// Of no packet that could be; what its source is told.
    Bad(Option<Trouble>),
}

impl Call<'_, '_> {
    /// A fragment came for one of the router's own addresses. Once all are there, the first one stands for the whole packet.
    pub(super) fn reassemble(&mut self, fragment: Parcel) {
        let now = self.out.now();
        let (original, piece) = match look_at(&fragment) {
            Fragment::Piece(original, piece) => (original, piece),
            Fragment::Atomic => return self.put_together(vec![fragment]),
            Fragment::Bad(Some(trouble)) => return self.refuse(fragment, trouble, Exit::FragmentMalformed),
            Fragment::Bad(None) => return self.end(fragment, Exit::FragmentMalformed),
        };
        match self.fragments.add(now, original, piece, fragment) {
            Verdict::Kept => {}
            Verdict::Complete(fragments) => self.put_together(fragments),
            Verdict::Duplicate(fragment) => self.end(fragment, Exit::FragmentDuplicate),
            Verdict::Overlap(fragments) => self.end_all(fragments, Exit::FragmentOverlap),
            Verdict::Full(fragment) => self.end(fragment, Exit::FragmentQueueFull),
            Verdict::TooMany(fragments) => self.end_all(fragments, Exit::FragmentQueueFull),
        }
    }

    fn put_together(&mut self, fragments: Vec<Parcel>) {
        let is_six = fragments.first().is_some_and(Parcel::is_six);
        let pieces = fragments.iter().map(Parcel::ip);
        let packet = if is_six { join6(pieces) } else { reassembly::join(pieces) };
        let Some(packet) = packet else {
            // Its header has grown by options that the first fragment does not have, so that it is too long after all.
            return self.end_all(fragments, Exit::FragmentMalformed);
        };
        let mut fragments = fragments.into_iter();
        let Some(first) = fragments.next() else { return };
        self.end_all(fragments, Exit::Reassembled);
        self.deliver_whole(first, Some(&packet));
    }

    fn end_all(&mut self, fragments: impl IntoIterator<Item = Parcel>, exit: Exit) {
        fragments.into_iter().for_each(|fragment| self.end(fragment, exit));
    }

    /// Gives up packets that did not become whole in time; answers when it is to be called next.
    pub(super) fn expire_fragments(&mut self) -> u64 {
        let now = self.out.now();
        while let Some(fragments) = self.fragments.expire(now) {
            for fragment in fragments {
                // "an ICMP Time Exceeded message sent to the source host (if fragment zero has been received)".
                match is_first(&fragment) {
                    true => self.refuse(fragment, Trouble::ReassemblyExceeded, Exit::FragmentTimeout),
                    false => self.end(fragment, Exit::FragmentTimeout),
                }
            }
        }
        self.fragments.next_deadline().unwrap_or(u64::MAX)
    }
}

fn look_at(fragment: &Parcel) -> Fragment {
    let (origin, line) = (fragment.origin, fragment.origin.line.map(|line| line.number));
    if !fragment.is_six() {
        let piece = Piece::of(fragment.ip());
        return piece.map_or(Fragment::Bad(None), |(whole, piece)| {
            Fragment::Piece(Original::Four(origin.looked_up_in(), line, whole), piece)
        });
    }
    match part_of(fragment.ip()) {
        Ok(Part::Piece(whole, piece)) if is_of_a_link(fragment) => {
            Fragment::Piece(Original::OnLink(origin.interface, whole), piece)
        }
        Ok(Part::Piece(whole, piece)) => Fragment::Piece(Original::Six(origin.looked_up_in(), line, whole), piece),
        Ok(Part::Atomic) => Fragment::Atomic,
        Err(bad) => Fragment::Bad(bad.problem().map(Trouble::Six)),
    }
}

fn is_of_a_link(fragment: &Parcel) -> bool {
    let ends = |source: IpAddr, destination: IpAddr| is_of_link(source) || is_of_link(destination);
    fragment.header().is_some_and(|header| ends(header.source, header.destination))
}

fn is_first(fragment: &Parcel) -> bool {
    match fragment.is_six() {
        true => ipv6::upper(fragment.ip()).is_some_and(|upper| !upper.later),
        false => Ipv4::view(fragment.ip()).is_some_and(|ip| ip.fragment_offset() == 0),
    }
}
