//! MPLS entries on the way of a packet: they come and go, and their TTLs change.

use weir_openflow::Field;

use super::{NeedsInterpreter, Way};
use crate::fast::frame::TAG;
use crate::fields::Fields;
use crate::parse::{self, Layout, MPLS_TYPES, VLAN_TYPES};
use crate::tags::LEAST;
use crate::ttl;
use crate::words::presence;

/// An MPLS entry, as it changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Nothing if it is not known.
    pub(super) ttl: Option<u8>,
    /// Where what is behind it stands in the frame as it came; nothing if the entry was pushed since.
    behind: Option<usize>,
    /// The TTL that was copied to what is behind it.
    pub(super) copied: Option<u8>,
}

impl Entry {
    /// The one at a place of a frame.
    pub(super) fn at(bytes: &[u8], at: usize) -> Entry {
        Entry { ttl: bytes.get(at + 3).copied(), behind: Some(at + 4), copied: None }
    }
}

impl Way<'_> {
    /// The fields that stand before the type of a frame, behind which something else comes.
    fn before_type(&self) -> Fields {
        let mut fields = Fields::default();
        let before = [
            Field::InPort,
            Field::InPhyPort,
            Field::Metadata,
            Field::TunnelId,
            Field::EthDst,
            Field::EthSrc,
            Field::VlanVid,
            Field::VlanPcp,
        ];
        let known = before.into_iter().filter_map(|field| Some((field, self.fields.get(field)?)));
        known.for_each(|(field, value)| fields.set(field, value));
        fields
    }

    /// An entry before all others, and before VLAN tags.
    #[inline(never)]
    pub(super) fn push_mpls(&mut self, kind: u16) -> Result<(), NeedsInterpreter> {
        if self.fields.get(Field::EthType).is_none() {
            return Err(NeedsInterpreter);
        }
        let outer = self.state.mpls.filter(|_| self.state.tags == 0);
        let ttl = outer.map_or(Some(self.state.ttl.unwrap_or(0)), |outer| outer.ttl);
        let copied = |field| outer.and_then(|_| self.fields.get(field)).unwrap_or(0);
        let (label, class) = (copied(Field::MplsLabel), copied(Field::MplsTc));
        let mut fields = self.before_type();
        let (word, bit) = presence(Field::VlanPcp);
        fields.set(Field::VlanPcp, 0);
        fields.0[word] &= !bit;
        fields.set(Field::VlanVid, 0);
        fields.set(Field::EthType, kind.into());
        fields.set(Field::MplsLabel, label);
        fields.set(Field::MplsTc, class);
        fields.set(Field::MplsBos, outer.is_none().into());
        *self.fields = fields;
        (self.state.tags, self.state.ttl) = (0, None);
        self.state.mpls = Some(Entry { ttl, behind: None, copied: None });
        self.count_pushed();
        Ok(())
    }

    /// The outer entry comes off; what is behind it is looked into.
    #[inline(never)]
    pub(super) fn pop_mpls(&mut self, kind: u16) -> Result<(), NeedsInterpreter> {
        let Some(entry) = self.state.mpls else { return Ok(()) };
        let at = entry.behind.ok_or(NeedsInterpreter)?;
        // A TTL that was copied is known only where it stands in what is there now.
        let is_last = self.fields.get(Field::MplsBos) == Some(1);
        let keeps = if is_last { matches!(kind, 0x0800 | 0x86dd) } else { MPLS_TYPES.contains(&kind) };
        if VLAN_TYPES.contains(&kind) || entry.copied.is_some() && !keeps {
            return Err(NeedsInterpreter);
        }
        // What fills a short frame up counts as its headers.
        let mut filled = [0; LEAST + TAG];
        let bytes = match self.was_filled_up(1) {
            false => self.bytes,
            true if self.state.pushed + self.state.popped > 0 => return Err(NeedsInterpreter),
            true => {
                filled.iter_mut().zip(self.bytes).for_each(|(place, byte)| *place = *byte);
                &filled
            }
        };
        let (mut fields, mut layout) = (self.before_type(), Layout::default());
        parse::parse_behind(kind, bytes, at, &mut fields, &mut layout);
        let ttl = layout.ip.and_then(|ip| bytes.get(at + if ip.is_v6 { 7 } else { 8 }).copied());
        self.state.ttl = ttl.map(|ttl| entry.copied.filter(|_| is_last).unwrap_or(ttl));
        self.state.mpls = layout.mpls.map(|at| Entry::at(bytes, at));
        if let (Some(next), Some(copied), false) = (&mut self.state.mpls, entry.copied, is_last) {
            next.ttl = Some(copied);
        }
        *self.fields = fields;
        self.count_popped();
        Ok(())
    }

    /// Copies the TTL of the outer entry, or to it, if there is one behind it.
    pub(super) fn copy_ttl(&mut self, copy: impl Fn(&mut Entry, Option<u8>)) -> Result<(), NeedsInterpreter> {
        let (is_last, was_filled_up) = (self.fields.get(Field::MplsBos) == Some(1), self.was_filled_up(0));
        let Some(entry) = &mut self.state.mpls else { return Ok(()) };
        let Some(at) = entry.behind else {
            // What is behind an entry that was pushed comes to light no more.
            entry.ttl = None;
            return Ok(());
        };
        if was_filled_up {
            return Err(NeedsInterpreter);
        }
        if let Some(inner) = ttl::of_behind(self.bytes, at, is_last) {
            let inner = entry.copied.unwrap_or(inner);
            copy(entry, Some(inner));
        }
        Ok(())
    }
}
