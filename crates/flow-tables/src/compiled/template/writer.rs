//! Writes the program of a template: for each kind of frame, what is looked at first, and what changes then.

use weir_codegen::{Builder, Fault, Label, Program, Test, Value};
use weir_openflow::Field;

use super::sheet::{Inner, Ip, Mpls, Sheet};
use super::{
    CHANGED, Kind, LEFT_ALONE, POPPED, Template, is_carried, is_of_arp, is_of_ip, is_of_mpls, is_of_neighbours,
    kind_words,
};
use crate::compiled::Version;
use crate::fast::frame::TAG;
use crate::tags::{FIRST_TYPE, LEAST};

/// So many tags are looked behind.
const MOST_TAGS: usize = 2;

/// The inputs of a program: how long the frame is, and of which [kind](Found::kind).
const LENGTH: usize = 0;
const KIND: usize = 1;

/// What IP carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carried {
    Tcp,
    Udp,
    Sctp,
    Icmpv4,
    Icmpv6,
    /// Neighbour discovery, with its target, and with this address in its first option, if that was looked at.
    Neighbours(Option<Field>),
    Other,
    /// It was not looked at.
    Unknown,
}

impl Carried {
    /// Its number, and how long it is as far as code looks.
    const fn known(self) -> Option<(u64, usize)> {
        match self {
            Carried::Tcp => Some((6, 18)),
            Carried::Udp => Some((17, 8)),
            Carried::Sctp => Some((132, 4)),
            Carried::Icmpv4 => Some((1, 4)),
            Carried::Icmpv6 | Carried::Neighbours(_) => Some((58, 4)),
            Carried::Other | Carried::Unknown => None,
        }
    }

    /// Where its checksum stands, if it is a sum.
    pub(super) const fn sum_at(self) -> Option<usize> {
        match self {
            Carried::Tcp => Some(16),
            Carried::Udp => Some(6),
            Carried::Icmpv4 | Carried::Icmpv6 | Carried::Neighbours(_) => Some(2),
            Carried::Sctp | Carried::Other | Carried::Unknown => None,
        }
    }
}

/// The program of a template.
pub(super) fn write(template: &Template) -> Result<Program, Fault> {
    let mut builder = Builder::new();
    let left_alone = builder.answer(LEFT_ALONE);
    builder.have_data(template.kinds.iter().map(|kind| kind_words(*kind)).sum());
    let mut writer = Writer { template, builder, left_alone };
    let entry = writer.kinds();
    writer.builder.finish(entry)
}

struct Writer<'t> {
    template: &'t Template,
    builder: Builder,
    left_alone: Label,
}

impl Writer<'_> {
    fn has(&self, which: impl Fn(Kind) -> bool) -> bool {
        self.template.kinds.iter().any(|kind| which(*kind))
    }

    /// Goes on if a value is this number, and elsewhere if not.
    fn if_is(&mut self, value: Value, number: u64, yes: Label, no: Label) -> Label {
        let number = self.builder.constant(number);
        self.builder.branch(Test::Same(value, number), yes, no)
    }

    fn only_at_least(&mut self, value: Value, number: u64, then: Label) -> Label {
        let number = self.builder.constant(number);
        self.builder.branch(Test::AtLeast(value, number), then, self.left_alone)
    }

    /// What is behind the type is asked for by a change.
    fn asks(kind: Kind, version: Version) -> bool {
        match (kind, version) {
            (Kind::Ttl | Kind::SetTtl | Kind::PushMpls(_), Version::Four | Version::Six) => true,
            (Kind::Set(field), Version::Four | Version::Six) => is_of_ip(field) || is_carried(field),
            (Kind::Set(field), Version::Mpls) => is_of_mpls(field),
            (Kind::Set(field), Version::Arp) => is_of_arp(field),
            (Kind::PushMpls(_) | Kind::PopMpls(_), Version::Mpls) => true,
            (Kind::SetMplsTtl | Kind::MplsTtl | Kind::CopyOut | Kind::CopyIn, Version::Mpls) => true,
            _ => false,
        }
    }

    /// Frames of all kinds.
    fn kinds(&mut self) -> Label {
        let versions = [Version::Arp, Version::Mpls, Version::None, Version::Six, Version::Four];
        let asks_behind = versions.into_iter().any(|version| self.has(|kind| Self::asks(kind, version)));
        let asks_tags = asks_behind || self.has(|kind| !matches!(kind, Kind::Destination | Kind::Source));
        if !asks_tags {
            return self.of_kind(0, Version::None);
        }
        let mut kind = self.builder.input(KIND);
        if !asks_behind {
            kind = self.builder.right(kind, 4);
        }
        let mut label = self.left_alone;
        for tags in (0..=MOST_TAGS).rev() {
            // Nobody asks for what most of them are.
            let plain = self.of_kind(tags, Version::None);
            if !asks_behind {
                label = self.if_is(kind, tags as u64, plain, label);
                continue;
            }
            for version in versions {
                let is_asked = self.has(|kind| Self::asks(kind, version));
                let of_kind = if is_asked { self.of_kind(tags, version) } else { plain };
                label = self.if_is(kind, (tags as u64) << 4 | version as u64, of_kind, label);
            }
        }
        label
    }

    /// Frames with so many tags, behind which this is.
    fn of_kind(&mut self, tags: usize, version: Version) -> Label {
        let asks_carried = self.has(|kind| match kind {
            Kind::Set(Field::Ipv4Src | Field::Ipv4Dst) => version == Version::Four,
            Kind::Set(Field::Ipv6Src | Field::Ipv6Dst) => version == Version::Six,
            Kind::Set(field) => is_carried(field) && matches!(version, Version::Four | Version::Six),
            _ => false,
        });
        let pops_vlan = self.has(|kind| kind == Kind::Pop);
        // With more than one tag it is not known what is behind the first.
        if pops_vlan && tags > 1 {
            return self.left_alone;
        }
        let start = TAG * self.template.pushed;
        let at = start + FIRST_TYPE + 2 + TAG * tags;
        if version == Version::Mpls {
            return self.of_mpls(tags, (start, at));
        }
        let mut label = self.changed(tags, version, (Carried::Other, Inner::Unknown));
        if asks_carried {
            let is_v6 = version == Version::Six;
            let protocol = self.builder.bytes(at + if is_v6 { 6 } else { 9 }, 1);
            if is_v6 {
                // What is behind extension headers is not looked for.
                for header in [0, 43, 44, 50, 51, 59, 60] {
                    label = self.if_is(protocol, header, self.left_alone, label);
                }
            }
            // Addresses of IPv4 are no part of the checksum of ICMP.
            let sets_icmp = self.has(|kind| matches!(kind, Kind::Set(Field::Icmpv4Type | Field::Icmpv4Code)));
            let icmp = if is_v6 { Some(Carried::Icmpv6) } else { sets_icmp.then_some(Carried::Icmpv4) };
            // Nor of the CRC of SCTP.
            let sctp = self.template.sets_sctp.then_some(Carried::Sctp);
            for carried in icmp.into_iter().chain(sctp).chain([Carried::Tcp, Carried::Udp]) {
                let Some((number, length)) = carried.known() else { continue };
                let mut those = self.changed(tags, version, (carried, Inner::Unknown));
                if carried == Carried::Icmpv6 {
                    those = self.neighbours(tags, at, those);
                }
                if is_v6 {
                    let said = self.builder.bytes(at + 4, 2);
                    those = self.only_at_least(said, length as u64, those);
                } else {
                    let (said, fragment) = (self.builder.bytes(at + 2, 2), self.builder.bytes(at + 6, 2));
                    let offset = self.builder.constant(0x1fff);
                    let offset = self.builder.and(fragment, offset);
                    those = self.only_at_least(said, 20 + length as u64, those);
                    those = self.if_is(offset, 0, those, self.left_alone);
                }
                let frame = self.builder.input(LENGTH);
                let end = at - start + if is_v6 { 40 } else { 20 } + length;
                those = self.only_at_least(frame, end as u64, those);
                label = self.if_is(protocol, number, those, label);
            }
        }
        if pops_vlan && tags > 0 && version == Version::Six {
            // What fills such a frame up would be its headers.
            let frame = self.builder.input(LENGTH);
            label = self.only_at_least(frame, (LEAST + TAG) as u64, label);
        }
        label
    }

    /// Frames of ICMPv6 behind the header of IPv6 there in the window: neighbour discovery (RFC 4861 sections 4.3, 4.4 and 4.6.1) where a change asks for it, whose
    /// option has to be the first one, and what is done with all others. It is known that type and code are there.
    fn neighbours(&mut self, tags: usize, at: usize, others: Label) -> Label {
        if !self.has(|kind| matches!(kind, Kind::Set(field) if is_of_neighbours(field))) {
            return others;
        }
        let carried_at = at + 40;
        let (said, kind) = (self.builder.bytes(at + 4, 2), self.builder.bytes(carried_at, 1));
        let mut label = others;
        for (number, field, option) in [(136, Field::Ipv6NdTll, 2), (135, Field::Ipv6NdSll, 1)] {
            let bare = self.changed(tags, Version::Six, (Carried::Neighbours(None), Inner::Unknown));
            let mut those = bare;
            if self.has(|kind| kind == Kind::Set(field)) {
                let whole = self.changed(tags, Version::Six, (Carried::Neighbours(Some(field)), Inner::Unknown));
                let (is, length) = (self.builder.bytes(carried_at + 24, 1), self.builder.bytes(carried_at + 25, 1));
                those = self.only_at_least(length, 1, whole);
                those = self.if_is(is, option, those, self.left_alone);
                those = self.only_as_long(at, 32, those);
                // Behind the target there is nothing, as IP says.
                those = self.if_is(said, 24, bare, those);
            }
            those = self.only_as_long(at, 24, those);
            label = self.if_is(kind, number, those, label);
        }
        label
    }

    /// Goes on if the header of IPv6 there in the window, and the frame, have so many bytes behind it.
    fn only_as_long(&mut self, at: usize, length: usize, then: Label) -> Label {
        let (said, frame) = (self.builder.bytes(at + 4, 2), self.builder.input(LENGTH));
        let end = at - TAG * self.template.pushed + 40 + length;
        let label = self.only_at_least(frame, end as u64, then);
        self.only_at_least(said, length as u64, label)
    }

    /// Frames of MPLS with so many tags, which begin there in the window, and whose outer entry is there.
    fn of_mpls(&mut self, tags: usize, (start, at): (usize, usize)) -> Label {
        let mut behind_pop = self.template.kinds.iter().skip_while(|kind| !matches!(kind, Kind::PopMpls(_))).skip(1);
        let asks_inner =
            self.has(|kind| matches!(kind, Kind::CopyOut | Kind::CopyIn)) || behind_pop.any(|kind| kind.is_behind());
        let unknown = self.changed(tags, Version::Mpls, (Carried::Unknown, Inner::Unknown));
        if !asks_inner {
            return unknown;
        }
        let [label, four, six] = [(Inner::Label, 4), (Inner::Four, 20), (Inner::Six, 40)].map(|(inner, length)| {
            let label = self.changed(tags, Version::Mpls, (Carried::Unknown, inner));
            let frame = self.builder.input(LENGTH);
            self.only_at_least(frame, (at - start + 4 + length) as u64, label)
        });
        let (low, first) = (self.builder.bytes(at + 2, 1), self.builder.bytes(at + 4, 1));
        let (one, version) = (self.builder.constant(1), self.builder.right(first, 4));
        let is_last = self.builder.and(low, one);
        let mut behind = self.if_is(version, 6, six, self.left_alone);
        behind = self.if_is(first, 0x45, four, behind);
        self.if_is(is_last, 0, label, behind)
    }

    /// All changes of frames that carry this.
    fn changed(&mut self, tags: usize, version: Version, (carried, inner): (Carried, Inner)) -> Label {
        let start = TAG * self.template.pushed;
        let at = start + FIRST_TYPE + 2 + TAG * tags;
        let mut sheet = Sheet::new(&mut self.builder, start, tags);
        match version {
            Version::None => {}
            Version::Four | Version::Six => sheet.ip = Some(Ip { at, is_v6: version == Version::Six, carried }),
            Version::Mpls => sheet.mpls = Some(Mpls { at, inner }),
            Version::Arp => sheet.arp = Some(at),
        }
        let mut data = 0;
        for kind in &self.template.kinds {
            if sheet.change(*kind, data).is_none() {
                return self.left_alone;
            }
            data += kind_words(*kind);
        }
        sheet.write_sums();
        let answer = if sheet.has_popped() { POPPED } else { CHANGED };
        let (hops, changes) = sheet.finish();
        let mut label = self.builder.change_and_answer(&changes, answer);
        // A TTL that ends here is for others.
        for ttl in hops.into_iter().rev() {
            label = self.only_at_least(ttl, 2, label);
        }
        label
    }
}
