//! Writes the program of a template: for each kind of frame, what is looked at first, and what changes then.

use weir_codegen::{Builder, Fault, Label, Program, Test, Value};
use weir_openflow::Field;

use super::answer::LEFT_ALONE;
use super::sheet::{Behind, Ip, Mpls, Sheet};
use super::{Kind, Template, is_carried, is_of_arp, is_of_ip, is_of_mpls, is_of_neighbours, kind_words};
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

/// Writes what is done with frames of IP that carry this.
type WriteCarried<'w, 't> = &'w dyn Fn(&mut Writer<'t>, Carried) -> Label;

/// Whether these changes ask for what IP carries: they change it, or addresses that its checksum covers.
fn ask_carried(kinds: &[Kind], is_v6: bool) -> bool {
    kinds.iter().any(|kind| match kind {
        Kind::Set(Field::Ipv4Src | Field::Ipv4Dst) => !is_v6,
        Kind::Set(Field::Ipv6Src | Field::Ipv6Dst) => is_v6,
        Kind::Set(field) => is_carried(*field),
        _ => false,
    })
}

impl<'t> Writer<'t> {
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

    /// Where a frame begins in the window.
    fn start(&self) -> usize {
        TAG * self.template.pushed
    }

    /// Goes on with frames that go on until there in the window.
    fn if_long(&mut self, end: usize, then: Label) -> Label {
        let (length, end) = (self.builder.input(LENGTH), end.saturating_sub(self.start()));
        self.only_at_least(length, end as u64, then)
    }

    /// The same with those that are not filled up, however many tags come off.
    fn if_not_filled_up(&mut self, then: Label) -> Label {
        let length = self.builder.input(LENGTH);
        self.only_at_least(length, (LEAST + TAG * self.template.popped) as u64, then)
    }

    /// Frames with so many tags, behind which this is.
    fn of_kind(&mut self, tags: usize, version: Version) -> Label {
        let at = self.start() + FIRST_TYPE + 2 + TAG * tags;
        let is_v6 = version == Version::Six;
        let of_ip = |carried| Behind::Ip(Ip { at, is_v6, carried });
        let mut label = match version {
            Version::Mpls => return self.of_mpls(tags, at),
            Version::Arp => self.changed(tags, Behind::Arp(at)),
            Version::None => self.changed(tags, Behind::Other),
            Version::Four | Version::Six if ask_carried(&self.template.kinds, is_v6) => {
                self.carried((at, is_v6), &|writer, carried| writer.changed(tags, of_ip(carried)))
            }
            Version::Four | Version::Six => self.changed(tags, of_ip(Carried::Other)),
        };
        if is_v6 && tags > 0 && self.has(|kind| kind == Kind::Pop) {
            // What fills such a frame up would be its headers.
            label = self.if_not_filled_up(label);
        }
        label
    }

    /// Frames of IP that begins there in the window, by what it carries.
    fn carried(&mut self, (at, is_v6): (usize, bool), changed: WriteCarried<'_, 't>) -> Label {
        let mut label = changed(self, Carried::Other);
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
            let mut those = changed(self, carried);
            match carried {
                Carried::Icmpv6 => those = self.neighbours(at, those, changed),
                Carried::Sctp => those = self.only_if_crc_stays((at, is_v6), those),
                _ => {}
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
            those = self.if_long(at + if is_v6 { 40 } else { 20 } + length, those);
            label = self.if_is(protocol, number, those, label);
        }
        label
    }

    /// Packets of SCTP whose CRC is of as many bytes in the end as it was before: they are whole, or the frame is not filled up.
    fn only_if_crc_stays(&mut self, (at, is_v6): (usize, bool), then: Label) -> Label {
        if self.template.popped == 0 {
            return then;
        }
        let said = self.builder.bytes(at + if is_v6 { 4 } else { 2 }, 2);
        let before = self.builder.constant((at - self.start() + if is_v6 { 40 } else { 0 }) as u64);
        let (end, length) = (self.builder.add(said, before), self.builder.input(LENGTH));
        let otherwise = self.if_not_filled_up(then);
        self.builder.branch(Test::AtLeast(length, end), then, otherwise)
    }

    /// Frames of ICMPv6 behind the header of IPv6 there in the window: neighbour discovery (RFC 4861 sections 4.3, 4.4 and 4.6.1) where a change asks for it, whose
    /// option has to be the first one, and what is done with all others. It is known that type and code are there.
    fn neighbours(&mut self, at: usize, others: Label, changed: WriteCarried<'_, 't>) -> Label {
        if !self.has(|kind| matches!(kind, Kind::Set(field) if is_of_neighbours(field))) {
            return others;
        }
        let carried_at = at + 40;
        let (said, kind) = (self.builder.bytes(at + 4, 2), self.builder.bytes(carried_at, 1));
        let mut label = others;
        for (number, field, option) in [(136, Field::Ipv6NdTll, 2), (135, Field::Ipv6NdSll, 1)] {
            let bare = changed(self, Carried::Neighbours(None));
            let mut those = bare;
            if self.has(|kind| kind == Kind::Set(field)) {
                let whole = changed(self, Carried::Neighbours(Some(field)));
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
        let said = self.builder.bytes(at + 4, 2);
        let label = self.if_long(at + 40 + length, then);
        self.only_at_least(said, length as u64, label)
    }

    /// Frames of MPLS with so many tags, whose outer entry is there in the window.
    fn of_mpls(&mut self, tags: usize, at: usize) -> Label {
        let copies = self.has(|kind| matches!(kind, Kind::CopyOut | Kind::CopyIn));
        let asks_inner = copies || self.behind_label().iter().any(|kind| kind.is_behind());
        // Behind each entry that comes off there is another one, or IP, and so behind the one whose TTL is copied.
        let pops = self.template.kinds.iter().filter(|kind| matches!(kind, Kind::PopMpls(_))).count();
        let most = if asks_inner { pops + usize::from(copies) } else { 0 };
        self.behind_entries(tags, Mpls::alone(at), most)
    }

    /// What is done behind the first entry that comes off.
    fn behind_label(&self) -> &'t [Kind] {
        let kinds = &self.template.kinds;
        let first = kinds.iter().position(|kind| matches!(kind, Kind::PopMpls(_)));
        first.and_then(|first| kinds.get(first + 1..)).unwrap_or_default()
    }

    /// Frames of MPLS of whose entries so many are known to be there, by what is behind those: as many as are of account at most.
    fn behind_entries(&mut self, tags: usize, outer: Mpls, most: usize) -> Label {
        if outer.labels >= most {
            return self.changed(tags, Behind::Mpls(outer));
        }
        let last = outer.at + TAG * outer.labels;
        let behind = last + TAG;
        let mut label = self.behind_entries(tags, Mpls { labels: outer.labels + 1, ..outer }, most);
        label = self.if_long(behind + TAG, label);
        let [four, six] = [false, true].map(|is_v6| self.behind_label_is_ip(tags, outer, (behind, is_v6)));
        let (low, first) = (self.builder.bytes(last + 2, 1), self.builder.bytes(behind, 1));
        let (one, version) = (self.builder.constant(1), self.builder.right(first, 4));
        let is_last = self.builder.and(low, one);
        let mut ip = self.if_is(version, 6, six, self.left_alone);
        ip = self.if_is(first, 0x45, four, ip);
        self.if_is(is_last, 0, label, ip)
    }

    /// The same where IP of this version is behind them, and begins there in the window.
    fn behind_label_is_ip(&mut self, tags: usize, outer: Mpls, (at, is_v6): (usize, bool)) -> Label {
        let below = |carried| Behind::Mpls(Mpls { ip: Some(Ip { at, is_v6, carried }), ..outer });
        let header_end = at + if is_v6 { 40 } else { 20 };
        if !ask_carried(self.behind_label(), is_v6) {
            let label = self.changed(tags, below(Carried::Unknown));
            return self.if_long(header_end, label);
        }
        let mut label = self.carried((at, is_v6), &|writer, carried| writer.changed(tags, below(carried)));
        if is_v6 {
            // What fills such a frame up would be its headers.
            label = self.if_not_filled_up(label);
        }
        self.if_long(header_end, label)
    }

    /// All changes of frames with so many tags, behind which this is.
    fn changed(&mut self, tags: usize, behind: Behind) -> Label {
        let start = self.start();
        let mut sheet = Sheet::new(&mut self.builder, start, tags, behind);
        let mut data = 0;
        for kind in &self.template.kinds {
            if sheet.change(*kind, data).is_none() {
                return self.left_alone;
            }
            data += kind_words(*kind);
        }
        sheet.write_sums();
        let (hops, mut label) = sheet.finish();
        // A TTL that ends here is for others.
        for ttl in hops.into_iter().rev() {
            label = self.only_at_least(ttl, 2, label);
        }
        label
    }
}
