//! A frame that is changed where it lies.

use weir_codegen::WINDOW;
use weir_wire::{Ipv4, Ipv6, View};

use super::program::{Edit, Op};
use crate::compiled::{Found, Version};
use crate::parse::{self, Layout};
use crate::rewrite;
use crate::tags::{self, FIRST_TYPE, LEAST};
use crate::ttl;

/// The bytes of a VLAN tag.
pub(crate) const TAG: usize = 4;

/// A frame in a buffer.
pub trait Frame {
    /// Its bytes, from the destination address on.
    fn bytes(&self) -> &[u8];

    /// The same, to be changed.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// The first bytes of the buffer, whatever the frame's length: what is behind its end is of no meaning, and stays as it is. Nothing where the buffer is
    /// shorter.
    fn window(&mut self) -> Option<&mut [u8; WINDOW]>;

    /// Whether it may become longer in front by `back` bytes, and then, or instead, shorter by `forward` bytes.
    fn has_room(&self, back: usize, forward: usize) -> bool;

    /// Makes it longer in front. It [has room](Frame::has_room) for all that is asked for.
    fn prepend(&mut self, bytes: usize);

    /// Makes it shorter in front, as before.
    fn trim_front(&mut self, bytes: usize);

    /// Makes it as long as this, which is no more than it once was; what is added are zeroes.
    fn lengthen(&mut self, length: usize);

    /// Makes it one with these bytes, of which there are no more than there is [room](Frame::has_room) for.
    fn replace(&mut self, bytes: &[u8]);
}

/// A frame of its own, which grows as it needs.
impl Frame for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }

    fn window(&mut self) -> Option<&mut [u8; WINDOW]> {
        self.first_chunk_mut()
    }

    fn has_room(&self, _: usize, _: usize) -> bool {
        true
    }

    fn prepend(&mut self, bytes: usize) {
        self.splice(..0, std::iter::repeat_n(0, bytes));
    }

    fn trim_front(&mut self, bytes: usize) {
        self.drain(..bytes.min(self.len()));
    }

    fn lengthen(&mut self, length: usize) {
        self.resize(length, 0);
    }

    fn replace(&mut self, bytes: &[u8]) {
        self.clear();
        self.extend_from_slice(bytes);
    }
}

/// Where things are in a frame, as it changes.
#[derive(Clone, Debug, Default)]
pub(super) struct At {
    /// Where IP begins, and whether it is of version 6.
    ip: Option<(usize, bool)>,
    pub(super) tags: usize,
}

impl At {
    #[inline]
    pub(super) fn of(layout: &Layout) -> At {
        At { ip: layout.ip.map(|ip| (ip.start, ip.is_v6)), tags: layout.tags }
    }

    /// As code found it.
    #[inline]
    pub(super) fn found(found: Found) -> At {
        let start = FIRST_TYPE + 2 + TAG * found.tags();
        let ip = match found.ip() {
            Version::None | Version::Mpls | Version::Arp => None,
            Version::Four => Some((start, false)),
            Version::Six => Some((start, true)),
        };
        At { ip, tags: found.tags() }
    }

    /// The TTL, or hop limit, of IP.
    #[inline]
    pub(super) fn ttl(&self, bytes: &[u8]) -> Option<u8> {
        let (start, is_v6) = self.ip?;
        bytes.get(start + if is_v6 { 7 } else { 8 }).copied()
    }

    /// Whether headers that are cut off may be completed by what fills a frame up that loses its tag: where they begin so late. Other headers
    /// are whole in the shortest frame.
    #[inline]
    pub(super) fn headers_may_grow(&self, bytes: &[u8]) -> bool {
        (LEAST..LEAST + TAG).contains(&bytes.len())
            && self.ip.is_some_and(|(start, is_v6)| is_v6 || bytes.get(start).is_none_or(|first| first & 0xf > 5))
    }

    /// Carries changes out.
    #[inline]
    pub(super) fn change(&mut self, frame: &mut impl Frame, ops: &[Op]) {
        // Setting a field moves no other one, so that the frame is looked into once for all of them.
        let mut seen = None;
        for op in ops {
            match *op {
                Op::EthDst(address) => write(frame, 0, address),
                Op::EthSrc(address) => write(frame, 6, address),
                Op::DecrementTtl => self.decrement_ttl(frame.bytes_mut()),
                Op::PushVlan(kind) => {
                    self.push_vlan(frame, kind);
                    seen = None;
                }
                Op::PopVlan => {
                    self.pop_vlan(frame);
                    seen = None;
                }
                Op::PushMpls(kind) => {
                    self.push_mpls(frame, kind);
                    seen = None;
                }
                Op::PopMpls(kind) => {
                    self.pop_mpls(frame, kind);
                    seen = None;
                }
                Op::SetTtl(to) => ttl::set_ip(frame.bytes_mut(), to),
                Op::SetMplsTtl(to) => ttl::set_mpls(frame.bytes_mut(), to),
                // Whether it ends was seen before.
                Op::DecrementMplsTtl => drop(ttl::decrement_mpls(frame.bytes_mut())),
                Op::CopyTtlOut => ttl::copy_out(frame.bytes_mut()),
                Op::CopyTtlIn => ttl::copy_in(frame.bytes_mut()),
                Op::Set(field, value) => {
                    let (fields, layout) = seen.get_or_insert_with(|| parse::parse(frame.bytes()));
                    rewrite::set_in(frame.bytes_mut(), fields, layout, field, value);
                }
            }
        }
    }

    /// Carries a change out, if that goes: the TTL does not end, and there is one tag where one is taken off, and room.
    #[inline]
    pub(super) fn try_edit(&mut self, frame: &mut impl Frame, edit: &Edit) -> bool {
        if edit.decrements_ttl && self.ttl(frame.bytes()).is_some_and(|ttl| ttl <= 1) {
            return false;
        }
        let pops = edit.pops_vlan && self.tags > 0;
        if pops && (self.tags > 1 || !frame.has_room(0, TAG) || self.headers_may_grow(frame.bytes())) {
            return false;
        }
        // Every frame has room for its addresses.
        let Some(start) = frame.bytes_mut().first_chunk_mut::<12>() else { return false };
        if let Some(address) = edit.destination {
            start[..6].copy_from_slice(&address);
        }
        if let Some(address) = edit.source {
            start[6..].copy_from_slice(&address);
        }
        if edit.decrements_ttl {
            self.decrement_ttl(frame.bytes_mut());
        }
        if pops {
            self.pop_vlan(frame);
        }
        true
    }

    #[inline]
    fn decrement_ttl(&self, bytes: &mut [u8]) {
        match self.ip {
            Some((start, true)) => {
                if let Some(ip) = bytes.get_mut(start..).and_then(Ipv6::view_mut) {
                    ip.hop_limit = ip.hop_limit.wrapping_sub(1);
                }
            }
            Some((start, false)) => {
                if let Some(ip) = bytes.get_mut(start..).and_then(Ipv4::view_mut) {
                    ip.decrement_ttl();
                }
            }
            None => {}
        }
    }

    fn push_vlan(&mut self, frame: &mut impl Frame, kind: u16) {
        let tag = tags::new_tag(frame.bytes(), kind);
        frame.prepend(TAG);
        let Some(start) = frame.bytes_mut().first_chunk_mut::<16>() else { return };
        start.copy_within(4.., 0);
        if let Some(place) = start.last_chunk_mut::<4>() {
            *place = tag;
        }
        self.tags += 1;
        self.ip = self.ip.map(|(start, is_v6)| (start + TAG, is_v6));
    }

    fn push_mpls(&mut self, frame: &mut impl Frame, kind: u16) {
        let Some(entry) = tags::new_entry(frame.bytes()) else { return };
        frame.prepend(TAG);
        let Some(start) = frame.bytes_mut().first_chunk_mut::<18>() else { return };
        start.copy_within(TAG..TAG + FIRST_TYPE, 0);
        let behind = kind.to_be_bytes().into_iter().chain(entry.to_be_bytes());
        start.iter_mut().skip(FIRST_TYPE).zip(behind).for_each(|(place, byte)| *place = byte);
        *self = At::of(&parse::parse(frame.bytes()).1);
    }

    fn pop_mpls(&mut self, frame: &mut impl Frame, kind: u16) {
        let Layout { mpls: Some(at), ether_type, .. } = parse::parse(frame.bytes()).1 else { return };
        Self::take(frame, at);
        if let Some(place) = frame.bytes_mut().get_mut(ether_type..ether_type + 2) {
            place.copy_from_slice(&kind.to_be_bytes());
        }
        *self = At::of(&parse::parse(frame.bytes()).1);
    }

    /// Takes what is as long as a tag out. A frame that was long enough is filled up.
    fn take(frame: &mut impl Frame, at: usize) {
        let before = frame.bytes().len();
        if let Some(start) = frame.bytes_mut().get_mut(..at + TAG) {
            start.copy_within(..at, TAG);
        }
        frame.trim_front(TAG);
        if before >= LEAST && before - TAG < LEAST {
            frame.lengthen(LEAST);
        }
    }

    fn pop_vlan(&mut self, frame: &mut impl Frame) {
        if self.tags == 0 {
            return;
        }
        Self::take(frame, FIRST_TYPE);
        self.tags -= 1;
        self.ip = self.ip.map(|(start, is_v6)| (start.saturating_sub(TAG), is_v6));
    }
}

#[inline]
fn write(frame: &mut impl Frame, at: usize, address: [u8; 6]) {
    if let Some(place) = frame.bytes_mut().get_mut(at..at + 6) {
        place.copy_from_slice(&address);
    }
}
