//! Fragments that wait for the rest of their packets: of IPv4, of IPv6, and of IPv4 inside IPv6. All are put together before anything is decided
//! about their packets, so that nothing can be hidden in how it is cut (RFC 1858, RFC 3128); what overlaps is dropped as a whole (RFC 5722).

use std::net::Ipv6Addr;

use weir_net::reassembly::six::{BadFragment, Part, Whole6, join6, part_of};
use weir_net::reassembly::{Piece, Reassembly, Verdict as Added, Whole, join};
use weir_packet::Held;
use weir_stage::Out;
use weir_wire::{Ipv4, Ipv6, View, ipv4, ipv6};

use super::Relay;
use crate::border::{HEADER, Outer, Verdict};
use crate::exit::Exit;
use crate::rules::Rules;
use crate::tally::Count;

/// What fragments of one packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Original {
    Four(Whole),
    Six(Whole6),
    /// In a tunnel with these ends.
    Inside([Ipv6Addr; 2], Whole),
}

impl Original {
    const fn is_four(self) -> bool {
        matches!(self, Original::Four(_))
    }
}

/// A fragment that came.
pub(crate) struct Fragment {
    original: Original,
    piece: Piece,
    /// Where its packet begins in the frame.
    pub(crate) at: usize,
}

impl Fragment {
    /// The fragment in an IPv4 packet at a place; `None` if there can be no such one.
    pub(crate) fn of_four(packet: &[u8], at: usize) -> Option<Fragment> {
        Piece::of(packet).map(|(whole, piece)| Fragment { original: Original::Four(whole), piece, at })
    }

    /// The same of IPv6; `None` if it is a whole packet all the same.
    pub(super) fn of_six(packet: &[u8], at: usize) -> Result<Option<Fragment>, BadFragment> {
        Ok(match part_of(packet)? {
            Part::Piece(whole, piece) => Some(Fragment { original: Original::Six(whole), piece, at }),
            Part::Atomic => None,
        })
    }

    /// The fragment inside an IPv6 packet at a place, which holds IPv4 at `inside`; `None` if what is there is whole, or nothing.
    pub(super) fn inside(packet: &[u8], inside: usize, at: usize) -> Option<Fragment> {
        let (outer, inner) = (Ipv6::view(packet)?, packet.get(inside..)?);
        Ipv4::view(inner).filter(|ip| ip.is_fragment())?;
        let (whole, piece) = Piece::of(inner)?;
        let original = Original::Inside([outer.source_addr(), outer.destination_addr()], whole);
        Some(Fragment { original, piece, at })
    }
}

/// A fragment that waits.
pub(crate) struct Kept {
    pub(crate) packet: Held,
    pub(crate) at: usize,
}

/// Why a fragment waits no more, though its packet is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// It came before.
    Duplicate,
    /// It overlaps others of its packet.
    Overlap,
    /// Its packet has more of them than it may have.
    TooMany,
    /// There was no room.
    Full,
}

impl From<Loss> for Exit {
    fn from(loss: Loss) -> Exit {
        match loss {
            Loss::Duplicate => Exit::FragmentDuplicate,
            Loss::Overlap => Exit::FragmentOverlap,
            Loss::TooMany => Exit::FragmentsTooMany,
            Loss::Full => Exit::FragmentQueueFull,
        }
    }
}

impl Kept {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.packet.packet().bytes().get(self.at..).unwrap_or_default()
    }
}

/// All that wait. Each side has room of its own: a flood of one does not take the other's.
pub(crate) struct Waiting {
    four: Reassembly<Kept, Original>,
    six: Reassembly<Kept, Original>,
}

impl Waiting {
    pub(crate) fn new(rules: &Rules) -> Waiting {
        let [four, six] = [&rules.four, &rules.six].map(|side| {
            let (all, one) = side.fragments;
            Reassembly::new(all).with_most_of_one(one)
        });
        Waiting { four, six }
    }

    fn side(&mut self, fragment: &Fragment) -> &mut Reassembly<Kept, Original> {
        if fragment.original.is_four() { &mut self.four } else { &mut self.six }
    }

    /// A fragment came: it waits, or all pieces of its packet are there, which are answered in their order. What can wait no longer is given up, and why.
    pub(crate) fn take(
        &mut self,
        now: u64,
        fragment: &Fragment,
        kept: Kept,
        mut lose: impl FnMut(Kept, Loss),
    ) -> Option<Vec<Kept>> {
        while let Some(oldest) = self.make_room(fragment) {
            oldest.into_iter().for_each(|kept| lose(kept, Loss::Full));
        }
        match self.side(fragment).add(now, fragment.original, fragment.piece, kept) {
            Added::Complete(pieces) => return Some(pieces),
            Added::Kept => {}
            Added::Duplicate(kept) => lose(kept, Loss::Duplicate),
            Added::Overlap(pieces) => pieces.into_iter().for_each(|kept| lose(kept, Loss::Overlap)),
            Added::TooMany(pieces) => pieces.into_iter().for_each(|kept| lose(kept, Loss::TooMany)),
            Added::Full(kept) => lose(kept, Loss::Full),
        }
        None
    }

    /// What has to go for another fragment, if there is no room for it: what has waited longest, so that floods drive out what they have sent.
    fn make_room(&mut self, fragment: &Fragment) -> Option<Vec<Kept>> {
        let side = self.side(fragment);
        if side.is_full(fragment.original) { side.give_up_oldest() } else { None }
    }

    pub(crate) fn expire(&mut self, now: u64) -> Option<Vec<Kept>> {
        self.four.expire(now).or_else(|| self.six.expire(now))
    }

    pub(crate) fn next_deadline(&self) -> u64 {
        [&self.four, &self.six].iter().filter_map(|side| side.next_deadline()).min().unwrap_or(u64::MAX)
    }

    pub(crate) fn held(&self) -> u64 {
        (self.four.held() + self.six.held()) as u64
    }

    pub(crate) fn clear(&mut self) -> Vec<Kept> {
        let mut all = self.four.clear();
        all.extend(self.six.clear());
        all
    }
}

impl Relay {
    /// A fragment came: it waits, or its packet is whole.
    pub(super) fn keep(&mut self, kept: Kept, fragment: Fragment, out: &mut Out<'_>) {
        let now = out.now();
        let pieces = self.waiting.take(now, &fragment, kept, |kept, loss| out.send(kept.packet, Exit::from(loss)));
        if let Some(pieces) = pieces {
            self.complete(fragment.original, pieces, out);
        }
    }

    /// All pieces of a packet are there: the first one stands for it.
    fn complete(&mut self, original: Original, pieces: Vec<Kept>, out: &mut Out<'_>) {
        let now = out.now();
        let joined = match original {
            Original::Four(_) => join(pieces.iter().map(Kept::bytes)),
            Original::Six(_) => join6(pieces.iter().map(Kept::bytes)),
            Original::Inside(..) => around(&pieces),
        };
        let mut pieces = pieces.into_iter();
        let Some(mut first) = pieces.next() else { return };
        let count = if joined.is_some() { Exit::Reassembled } else { Exit::FragmentMalformed };
        pieces.for_each(|kept| out.send(kept.packet, count));
        let Some(joined) = joined else { return out.send(first.packet, Exit::FragmentMalformed) };
        let l2 = (HEADER + joined.len()) as u64;
        let verdict = match original {
            Original::Four(_) => {
                self.border.tally.one(Count::ReassembledFour, 0);
                self.border.receive_four(now, &joined, l2)
            }
            Original::Six(_) => {
                self.border.tally.one(Count::ReassembledSix, 0);
                let inside = ipv6::upper(&joined).map_or(joined.len(), |upper| upper.at);
                if let Some(fragment) = Fragment::inside(&joined, inside, HEADER) {
                    // It waits once more, for the rest of what is in it.
                    if !first.packet.packet_mut().fill(&[&[0; HEADER][..], &joined].concat()) {
                        return out.send(first.packet, Exit::NoBuffer);
                    }
                    return self.keep(Kept { packet: first.packet, at: HEADER }, fragment, out);
                }
                self.unwrap(&joined, l2, now)
            }
            Original::Inside(..) => self.unwrap(&joined, l2, now),
        };
        self.settle_held(first.packet, verdict, out);
    }

    /// What becomes of the whole IPv6 packet `bytes` with a whole IPv4 packet in it.
    pub(super) fn unwrap(&mut self, bytes: &[u8], l2: u64, now: u64) -> Verdict {
        let (outer, upper) = (Ipv6::view(bytes).map(Outer::of), ipv6::upper(bytes));
        let (Some(outer), Some(upper)) = (outer, upper) else { return self.border.stop(true, Exit::BadInner, l2) };
        let inner = bytes.get(upper.at..).unwrap_or_default();
        self.border.receive_tunneled(now, outer, inner, bytes, l2)
    }
}

/// The IPv6 packet that would have brought all fragments at once that came in tunnels: the first one's header, and what is in it whole. It met the
/// congestion that any of them met.
fn around(pieces: &[Kept]) -> Option<Vec<u8>> {
    const CONGESTED: u8 = 3;
    let inside = |kept: &'_ Kept| ipv6::upper(kept.bytes()).map_or(usize::MAX, |upper| upper.at);
    let inner = join(pieces.iter().map(|kept| kept.bytes().get(inside(kept)..).unwrap_or_default()))?;
    let mut header = *Ipv6::view(pieces.first()?.bytes())?;
    let classes = pieces.iter().filter_map(|kept| Ipv6::view(kept.bytes())).map(Ipv6::traffic_class);
    if classes.map(|class| class & CONGESTED).any(|ecn| ecn == CONGESTED) {
        header.set_traffic_class(header.traffic_class() | CONGESTED);
    }
    header.payload_length = u16::try_from(inner.len()).ok()?.into();
    header.next_header = ipv4::IPIP;
    let mut whole = vec![0; Ipv6::LEN];
    *Ipv6::view_mut(&mut whole)? = header;
    whole.extend(inner);
    Some(whole)
}
