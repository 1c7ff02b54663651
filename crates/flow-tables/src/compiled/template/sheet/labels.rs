//! MPLS entries of a frame as it is changed: they come and go, and their fields and TTLs change.

use weir_openflow::Field;

use super::{Inner, Ip, Mpls, Sheet};
use crate::compiled::template::writer::Carried;
use crate::fast::frame::TAG;
use crate::parse::MPLS_TYPES;
use crate::tags::FIRST_TYPE;

impl Sheet<'_> {
    /// An MPLS entry before all tags, with what the outer one says where no tag is before that, or else with the TTL of IP.
    pub(super) fn push_mpls(&mut self, kind: u16) {
        let outer = self.mpls.filter(|_| self.tags == 0);
        let entry = match (outer, self.ip) {
            (Some(outer), _) => {
                let (entry, kept) = (self.double(outer.at), self.builder.constant(u64::from(!0x100_u32)));
                self.builder.and(entry, kept)
            }
            (None, Some(ip)) => {
                let (ttl, is_last) = (self.ttl(ip), self.builder.constant(0x100));
                self.builder.or(ttl, is_last)
            }
            (None, None) => self.builder.constant(0x100),
        };
        let inner = match (outer, self.ip.filter(|_| self.tags == 0)) {
            (Some(_), _) => Inner::Label,
            (None, Some(ip)) if ip.is_v6 => Inner::Six,
            (None, Some(_)) => Inner::Four,
            (None, None) => Inner::Unknown,
        };
        self.write_sums();
        self.move_start(self.start - TAG, 0);
        let kind = self.builder.constant(kind.into());
        self.put(self.start + FIRST_TYPE, kind);
        let at = self.start + FIRST_TYPE + 2;
        self.put_double(at, entry);
        (self.ip, self.arp, self.tags) = (None, None, 0);
        self.mpls = Some(Mpls { at, inner });
    }

    /// The outer entry comes off; what is behind it is of this type.
    pub(super) fn pop_mpls(&mut self, kind: u16) {
        let Some(Mpls { at, inner }) = self.mpls.take() else { return };
        self.move_start(self.start + TAG, self.tags);
        let number = self.builder.constant(kind.into());
        self.put(at + 2, number);
        let at = at + 4;
        let ip = |is_v6| Some(Ip { at, is_v6, carried: Carried::Unknown });
        match (kind, inner) {
            (_, Inner::Unknown) | (0x0800 | 0x86dd | 0x0806, Inner::Label) => self.is_unknown = true,
            (0x0800, Inner::Four) => self.ip = ip(false),
            (0x86dd, Inner::Six) => self.ip = ip(true),
            (kind, _) if MPLS_TYPES.contains(&kind) => self.mpls = Some(Mpls { at, inner: Inner::Unknown }),
            _ => {}
        }
        self.has_popped = true;
    }

    pub(super) fn set_mpls_ttl(&mut self, data: usize) {
        let Some(Mpls { at, .. }) = self.mpls else { return };
        let value = self.builder.data(data);
        self.put_bits(at + 2, 0xff, 0, value);
    }

    pub(super) fn take_mpls_hop(&mut self) {
        let Some(Mpls { at, .. }) = self.mpls else { return };
        let word = self.word(at + 2);
        let before = self.low(word);
        self.hops.push(before);
        // It does not end, so that nothing is borrowed.
        let less = self.builder.constant(u64::MAX);
        let less = self.builder.add(word, less);
        self.put(at + 2, less);
    }

    /// Copies the TTL behind the outer entry to it (`out`), or the other way round; nothing if it is not known what is behind.
    pub(super) fn copy_ttl(&mut self, out: bool) -> Option<()> {
        let Some(Mpls { at, inner }) = self.mpls else { return Some(()) };
        let (behind, shift) = match inner {
            Inner::Unknown => return None,
            Inner::Label => (at + 6, 0),
            Inner::Four => (at + 12, 8),
            Inner::Six => (at + 10, 0),
        };
        let (outer, before) = (self.word(at + 2), self.word(behind));
        if out {
            let ttl = self.builder.right(before, shift);
            self.put_bits(at + 2, 0xff, 0, ttl);
            return Some(());
        }
        self.put_bits(behind, 0xff, shift, outer);
        if inner == Inner::Four {
            let (after, ones) = (self.word(behind), self.builder.constant(0xffff));
            let (old, before) = (self.word(at + 14), self.builder.xor(before, ones));
            let old = self.builder.xor(old, ones);
            let sum = self.builder.add(old, before);
            let sum = self.builder.add(sum, after);
            let sum = self.fold(sum);
            self.put(at + 14, sum);
        }
        Some(())
    }

    pub(super) fn set_in_mpls(&mut self, field: Field, data: usize) {
        let Some(mpls) = &mut self.mpls else { return };
        let (at, value) = (mpls.at, self.builder.data(data));
        match field {
            Field::MplsLabel => {
                let high = self.builder.right(value, 4);
                self.put(at, high);
                self.put_bits(at + 2, 0xf, 12, value);
            }
            Field::MplsTc => self.put_bits(at + 2, 7, 9, value),
            _ => {
                // What is behind it is something else now.
                mpls.inner = Inner::Unknown;
                self.put_bits(at + 2, 1, 8, value);
            }
        }
    }
}
