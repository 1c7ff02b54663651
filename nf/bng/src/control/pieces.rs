//! Packets that do not fit and may be fragmented (RFC 791 section 3.2): their pieces go the way that they were on.

use weir_net::fragment::{Fragments, Refused};
use weir_packet::{Held, Packet};
use weir_wire::{Ipv4, U16, View, ipv4};

use super::outward::Inner;
use super::{Exit, Line, Turn};
use crate::encap::TAGGED;

/// A packet that is to be taken apart.
#[derive(Clone, Copy)]
struct Whole {
    /// Where it begins in its frame.
    at: usize,
    /// Where an outer IPv4 header begins, whose length follows.
    outer: Option<usize>,
    mtu: u16,
}

impl Turn<'_, '_> {
    /// Sends a customer's packet to the core in pieces no longer than `mtu`. Gives it back if it must not be fragmented.
    pub(super) fn pieces_up(&mut self, line: Line, packet: Held, mtu: u16) -> Result<(), Held> {
        let whole = Whole { at: TAGGED, outer: None, mtu };
        self.pieces(line.subscriber, packet, whole, Exit::Up)
    }

    /// The same for a packet to a customer.
    pub(super) fn pieces_down(&mut self, subscriber: u32, packet: Held, inner: Inner, mtu: u16) -> Result<(), Held> {
        let whole = Whole { at: inner.at, outer: inner.outer, mtu };
        self.pieces(subscriber, packet, whole, Exit::Down)
    }

    fn pieces(&mut self, subscriber: u32, packet: Held, whole: Whole, way: Exit) -> Result<(), Held> {
        let (mut packet, now) = (packet, self.out.now());
        let port = packet.port();
        let mut made = match self.cut(packet.packet().bytes(), whole.at, whole.mtu) {
            Ok(made) => made,
            Err(Uncut::TooBig) => return Err(packet),
            Err(Uncut::For(exit)) => {
                self.lose(subscriber, packet, exit);
                return Ok(());
            }
        };
        if let Some(outer) = whole.outer {
            // Each was an IPv4 header before it was copied.
            made.iter_mut().for_each(|piece| lengthen(piece, outer));
        }
        made.into_iter().for_each(|piece| self.out.emit(Held::fresh(piece, port, now), way, Exit::Piece));
        self.out.send(packet, Exit::Fragmented);
        Ok(())
    }

    /// The pieces, none longer than `mtu`, of the packet that begins at `at` in a frame, each behind a copy of what stands before it:
    /// all of them or none, as what is left would only be waited for.
    pub(super) fn cut(&mut self, frame: &[u8], at: usize, mtu: u16) -> Result<Vec<Packet>, Uncut> {
        let (Some(head), Some(packet)) = (frame.get(..at), frame.get(at..)) else { return Err(Uncut::TooBig) };
        let fragments = Fragments::new(packet, mtu).map_err(|refused| match refused {
            Refused::DontFragment | Refused::MtuTooSmall => Uncut::TooBig,
            Refused::BeyondLongest => Uncut::For(Exit::FragmentBeyond),
            Refused::Invalid => Uncut::For(Exit::BadOptions),
        })?;
        let mut made = Vec::new();
        for fragment in fragments {
            let piece = self.fresh(at + fragment.total_len());
            let written = piece.and_then(|mut piece| {
                let (front, rest) = piece.bytes_mut().split_at_mut_checked(at)?;
                front.copy_from_slice(head);
                fragment.write(rest).map(|_| piece)
            });
            let Some(piece) = written else {
                made.into_iter().for_each(|piece| self.out.unalloc(piece));
                return Err(Uncut::For(Exit::NoBuffer));
            };
            made.push(piece);
        }
        Ok(made)
    }
}

/// Why a packet has no pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uncut {
    /// It must not be fragmented: its source may be told what would fit.
    TooBig,
    /// It can not be, for a reason of which a smaller MTU at its source would change nothing.
    For(Exit),
}

/// Makes an outer IPv4 header say how long its packet is now.
fn lengthen(piece: &mut Packet, outer: usize) {
    let packet = piece.bytes_mut().get_mut(outer..).unwrap_or_default();
    // No piece is longer than a packet.
    let total = packet.len() as u16;
    if let Some(ip) = Ipv4::view_mut(packet) {
        ip.total_length = U16::new(total);
        ipv4::write_checksum(packet);
    }
}
