//! Packets that do not fit and may be fragmented (RFC 791 section 3.2): their pieces go the way that they were on.

use weir_net::fragment::Fragments;
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

    fn pieces(&mut self, subscriber: u32, mut packet: Held, whole: Whole, way: Exit) -> Result<(), Held> {
        let (port, now) = (packet.port(), self.out.now());
        let frame = packet.packet().bytes();
        let fragments = frame.get(whole.at..).and_then(|packet| Fragments::new(packet, whole.mtu).ok());
        let (Some(fragments), Some(head)) = (fragments, frame.get(..whole.at)) else { return Err(packet) };
        let mut made = Vec::new();
        let mut complete = true;
        for fragment in fragments {
            let Some(mut piece) = self.fresh(whole.at + fragment.total_len()) else {
                complete = false;
                break;
            };
            let written = piece.bytes_mut().split_at_mut_checked(whole.at).and_then(|(front, rest)| {
                front.copy_from_slice(head);
                fragment.write(rest)
            });
            complete &= written.is_some() && whole.outer.is_none_or(|outer| lengthen(&mut piece, outer).is_some());
            made.push(piece);
        }
        // All of them or none: what is left would only be waited for.
        if !complete {
            made.into_iter().for_each(|piece| self.out.unalloc(piece));
            self.lose(subscriber, packet, Exit::NoBuffer);
            return Ok(());
        }
        made.into_iter().for_each(|piece| self.out.emit(Held::fresh(piece, port, now), way, Exit::Piece));
        self.out.send(packet, Exit::Fragmented);
        Ok(())
    }
}

/// Makes an outer IPv4 header say how long its packet is now.
fn lengthen(piece: &mut Packet, outer: usize) -> Option<()> {
    let packet = piece.bytes_mut().get_mut(outer..)?;
    let total = u16::try_from(packet.len()).ok()?;
    Ipv4::view_mut(packet)?.total_length = U16::new(total);
    ipv4::write_checksum(packet).then_some(())
}
