//! MPLS entries of a frame as it is changed: they come and go, and their fields and TTLs change.

use weir_openflow::Field;

use super::{Mpls, Sheet};
use crate::fast::frame::TAG;
use crate::parse::MPLS_TYPES;
use crate::tags::FIRST_TYPE;

/// The bit of an entry that says that it is the last one, as it stands in memory.
const LAST: u32 = 0x100_u32.swap_bytes();

impl Sheet<'_> {
    /// An MPLS entry before all tags, with what the outer one says where no tag is before that, or else with the TTL of IP.
    pub(super) fn push_mpls(&mut self, kind: u16) {
        let outer = self.mpls.filter(|_| self.tags == 0);
        let entry = match (outer, self.ip) {
            (Some(outer), _) => {
                let (entry, kept) = (self.double(outer.at), self.builder.constant((!LAST).into()));
                self.builder.and(entry, kept)
            }
            (None, Some(ip)) => {
                let (ttl, is_last) = (self.ttl(ip), self.builder.constant(LAST.into()));
                let ttl = self.builder.left(ttl, 24);
                self.builder.or(ttl, is_last)
            }
            (None, None) => self.builder.constant(LAST.into()),
        };
        let (labels, behind) = match outer {
            Some(outer) => (outer.labels + 1, outer.ip),
            None => (0, self.ip.filter(|_| self.tags == 0)),
        };
        self.write_sums();
        self.move_start(self.start - TAG, 0);
        let kind = self.number(kind);
        self.put(self.start + FIRST_TYPE, kind);
        let at = self.start + FIRST_TYPE + 2;
        self.put_double(at, entry);
        (self.ip, self.arp, self.tags) = (None, None, 0);
        self.mpls = Some(Mpls { at, labels, ip: behind });
    }

    /// The outer entry comes off; what is behind it is of this type.
    pub(super) fn pop_mpls(&mut self, kind: u16) {
        let Some(Mpls { at, labels, ip }) = self.mpls.take() else { return };
        self.move_start(self.start + TAG, self.tags);
        let number = self.number(kind);
        self.put(at + 2, number);
        let next = at + TAG;
        match kind {
            _ if labels == 0 && ip.is_none() => self.is_unknown = true,
            kind if MPLS_TYPES.contains(&kind) => {
                self.mpls = Some(match labels.checked_sub(1) {
                    Some(labels) => Mpls { at: next, labels, ip },
                    // What begins as IP counts as an entry.
                    None => Mpls::alone(next),
                });
            }
            0x0800 | 0x86dd | 0x0806 if labels > 0 => self.is_unknown = true,
            0x0800 => self.ip = ip.filter(|ip| !ip.is_v6),
            0x86dd => self.ip = ip.filter(|ip| ip.is_v6),
            _ => {}
        }
        self.popped += 1;
    }

    pub(super) fn set_mpls_ttl(&mut self, data: usize) {
        let Some(Mpls { at, .. }) = self.mpls else { return };
        let value = self.builder.data(data);
        self.put_bits(at + 2, 0xff, 0, value);
    }

    pub(super) fn take_mpls_hop(&mut self) {
        let Some(Mpls { at, .. }) = self.mpls else { return };
        let before = self.byte(at + 2, 1);
        self.hops.push(before);
        self.take_one(at + 2, 1);
    }

    /// Copies the TTL behind the outer entry to it (`out`), or the other way round; nothing if it is not known what is behind.
    pub(super) fn copy_ttl(&mut self, out: bool) -> Option<()> {
        let Some(Mpls { at, labels, ip }) = self.mpls else { return Some(()) };
        let ip = ip.filter(|_| labels == 0);
        let (behind, byte, shift) = match ip {
            Some(ip) if ip.is_v6 => (ip.at + 6, 1, 0),
            Some(ip) => (ip.at + 8, 0, 8),
            None if labels > 0 => (at + TAG + 2, 1, 0),
            None => return None,
        };
        if out {
            let ttl = self.byte(behind, byte);
            self.put_bits(at + 2, 0xff, 0, ttl);
            return Some(());
        }
        let (outer, before) = (self.byte(at + 2, 1), self.word(behind));
        self.put_bits(behind, 0xff, shift, outer);
        if let Some(ip) = ip.filter(|ip| !ip.is_v6) {
            let sum_at = ip.at + 10;
            let (after, ones) = (self.word(behind), self.builder.constant(0xffff));
            let (old, before) = (self.word(sum_at), self.builder.xor(before, ones));
            let old = self.builder.xor(old, ones);
            let sum = self.builder.add(old, before);
            let sum = self.builder.add(sum, after);
            let sum = self.fold((sum, 3 * 0xffff));
            self.put(sum_at, sum);
        }
        Some(())
    }

    pub(super) fn set_in_mpls(&mut self, field: Field, data: usize) {
        let Some(mpls) = &mut self.mpls else { return };
        let (at, value) = (mpls.at, self.builder.data(data));
        match field {
            Field::MplsLabel => {
                let high = self.builder.right(value, 4);
                let high = self.builder.swapped(high, 2);
                self.put(at, high);
                self.put_bits(at + 2, 0xf, 12, value);
            }
            Field::MplsTc => self.put_bits(at + 2, 7, 9, value),
            _ => {
                // What is behind it is something else now.
                *mpls = Mpls::alone(at);
                self.put_bits(at + 2, 1, 8, value);
            }
        }
    }
}
