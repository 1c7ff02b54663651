//! Writes the program of a template: for each kind of frame, what is looked at first, and what changes then.

use weir_codegen::{Builder, Fault, Label, Program, Test, Value};
use weir_openflow::Field;

use super::sheet::{Ip, Sheet};
use super::{CHANGED, Kind, LEFT_ALONE, POPPED, Template, is_carried, is_of_ip, kind_words};
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
    Icmpv6,
    Other,
}

impl Carried {
    /// Its number, where its checksum stands, and how long it is as far as code looks.
    pub(super) const fn known(self) -> Option<(u64, usize, usize)> {
        match self {
            Carried::Tcp => Some((6, 16, 18)),
            Carried::Udp => Some((17, 6, 8)),
            Carried::Icmpv6 => Some((58, 2, 4)),
            Carried::Other => None,
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

    /// Frames of all kinds.
    fn kinds(&mut self) -> Label {
        let asks_ip = self.has(|kind| match kind {
            Kind::Ttl => true,
            Kind::Set(field) => is_of_ip(field) || is_carried(field),
            _ => false,
        });
        let asks_tags = asks_ip || self.has(|kind| !matches!(kind, Kind::Destination | Kind::Source));
        if !asks_tags {
            return self.of_kind(0, Version::None);
        }
        let versions = if asks_ip { &[Version::None, Version::Six, Version::Four][..] } else { &[Version::None] };
        let mut kind = self.builder.input(KIND);
        if !asks_ip {
            kind = self.builder.right(kind, 4);
        }
        let mut label = self.left_alone;
        for tags in (0..=MOST_TAGS).rev() {
            for version in versions {
                let of_kind = self.of_kind(tags, *version);
                let number = if asks_ip { (tags as u64) << 4 | *version as u64 } else { tags as u64 };
                label = self.if_is(kind, number, of_kind, label);
            }
        }
        label
    }

    /// Frames with so many tags, and of this version of IP.
    fn of_kind(&mut self, tags: usize, version: Version) -> Label {
        let asks_carried = self.has(|kind| match kind {
            Kind::Set(Field::Ipv4Src | Field::Ipv4Dst) => version == Version::Four,
            Kind::Set(Field::Ipv6Src | Field::Ipv6Dst) => version == Version::Six,
            Kind::Set(field) => is_carried(field) && version != Version::None,
            _ => false,
        });
        // With more than one tag it is not known what is behind the first.
        if self.template.pops && tags > 1 {
            return self.left_alone;
        }
        let mut label = self.changed(tags, version, Carried::Other);
        let start = TAG * self.template.pushed;
        let at = start + FIRST_TYPE + 2 + TAG * tags;
        if asks_carried {
            let is_v6 = version == Version::Six;
            let protocol = self.builder.bytes(at + if is_v6 { 6 } else { 9 }, 1);
            if is_v6 {
                // What is behind extension headers is not looked for.
                for header in [0, 43, 44, 50, 51, 59, 60] {
                    label = self.if_is(protocol, header, self.left_alone, label);
                }
            }
            let carried = [Carried::Icmpv6, Carried::Tcp, Carried::Udp];
            for carried in carried.into_iter().filter(|carried| is_v6 || *carried != Carried::Icmpv6) {
                let Some((number, _, length)) = carried.known() else { continue };
                let mut those = self.changed(tags, version, carried);
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
        if self.template.pops && tags > 0 && version == Version::Six {
            // What fills such a frame up would be its headers.
            let frame = self.builder.input(LENGTH);
            label = self.only_at_least(frame, (LEAST + TAG) as u64, label);
        }
        label
    }

    /// All changes of frames that carry this.
    fn changed(&mut self, tags: usize, version: Version, carried: Carried) -> Label {
        let start = TAG * self.template.pushed;
        let ip = (version != Version::None).then(|| Ip {
            at: start + FIRST_TYPE + 2 + TAG * tags,
            is_v6: version == Version::Six,
            carried,
        });
        let mut sheet = Sheet::new(&mut self.builder, start, tags, ip);
        let mut data = 0;
        for kind in &self.template.kinds {
            sheet.change(*kind, data);
            data += kind_words(*kind);
        }
        sheet.write_sums();
        let (hops, changes) = (sheet.hops(), sheet.changes());
        let answer = if self.template.pops && tags > 0 { POPPED } else { CHANGED };
        let label = self.builder.change_and_answer(&changes, answer);
        match ip {
            Some(ip) if hops > 0 => {
                let ttl = self.builder.bytes(ip.at + if ip.is_v6 { 7 } else { 8 }, 1);
                self.only_at_least(ttl, hops + 1, label)
            }
            _ => label,
        }
    }
}
