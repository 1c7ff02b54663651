//! Writes a program: what it looks into, what the flows of tables ask, what they change, and what it hands on.
//!
//! The program follows the parser (`parse.rs`) frame by frame: for each kind of frame it knows which fields there are, so that only flows which that
//! kind can meet are tried there, and only bits are compared that are not known already. What is not as most frames are (cut off, more than
//! two tags, options or extension headers, fragments where ports are asked for) is left to the usual way.

mod known;

use weir_codegen::{Builder, Fault, Label, Program, Test, Value};
use weir_openflow::Field;
use weir_openflow::oxm::VLAN_PRESENT;

use self::known::{Ip, Known, Word};
use super::shape::{Ask, Changes, Does, FlowShape, METADATA_WORDS, Node, Shape, kind_bits};
use super::{NO_TABLE, USUAL, Version};
use crate::depth::Depth;
use crate::fields::HASHED_WORDS;
use crate::parse::{MPLS_TYPES, VLAN_TYPES};
use crate::words::{PRESENCE, WORDS, location};

/// The inputs of a program.
const LENGTH: usize = 0;
const IN_PORT: usize = 1;

/// So many tags are looked behind.
const MOST_TAGS: usize = 2;

/// The program of some tables.
pub(super) fn write(shape: &Shape) -> Result<Program, Fault> {
    let mut builder = Builder::new();
    let usual = builder.answer(USUAL);
    // No frame may meet some flows; they have data all the same.
    builder.have_data(shape.root.words());
    let mut writer = Writer { shape, builder, usual };
    let known = Known::of_port(&mut writer.builder);
    let frame = if shape.needs.depth == Depth::Port { writer.tables(&known) } else { writer.ethernet(&known, 0) };
    let entry = writer.if_long(14, frame);
    writer.builder.finish(entry)
}

struct Writer<'s> {
    shape: &'s Shape,
    builder: Builder,
    /// Leaves a frame to the usual way.
    usual: Label,
}

/// Writes what is done with frames of one kind, of which this is known, and whose header begins there.
type WriteKind<'s> = fn(&mut Writer<'s>, &Known, usize) -> Label;

impl<'s> Writer<'s> {
    /// Whether somebody asks for one of these fields.
    fn asks_any(&self, fields: &[Field]) -> bool {
        fields.iter().any(|field| self.shape.needs.has(*field))
    }

    /// Goes on if a value is this number, and elsewhere if not.
    fn if_is(&mut self, value: Value, number: u64, yes: Label, no: Label) -> Label {
        let number = self.builder.constant(number);
        self.builder.branch(Test::Same(value, number), yes, no)
    }

    /// Goes on if a value is this number; else it is the usual way.
    fn only_if_is(&mut self, value: Value, number: u64, then: Label) -> Label {
        self.if_is(value, number, then, self.usual)
    }

    fn only_at_least(&mut self, value: Value, number: u64, then: Label) -> Label {
        let number = self.builder.constant(number);
        self.builder.branch(Test::AtLeast(value, number), then, self.usual)
    }

    /// Goes on with frames of so many bytes at least.
    fn if_long(&mut self, bytes: usize, then: Label) -> Label {
        let length = self.builder.input(LENGTH);
        self.only_at_least(length, bytes as u64, then)
    }

    /// Some bits of a value, from one on.
    fn bits(&mut self, value: Value, from: u32, mask: u64) -> Value {
        let mask = self.builder.constant(mask);
        let shifted = self.builder.right(value, from);
        self.builder.and(shifted, mask)
    }

    /// `count` words at a place.
    fn words(&mut self, at: usize, count: usize) -> Vec<Value> {
        (0..count).map(|number| self.builder.bytes(at + 4 * number, 4)).collect()
    }

    /// An Ethernet address at a place.
    fn address(&mut self, at: usize) -> [Value; 2] {
        [self.builder.bytes(at, 2), self.builder.bytes(at + 2, 4)]
    }

    /// A frame with so many tags at least; it is as long as these take, and its type.
    fn ethernet(&mut self, known: &Known, tags: usize) -> Label {
        let at = 12 + 4 * tags;
        let kind = self.builder.bytes(at, 2);
        let mut untagged = known.clone();
        if tags == 0 {
            for (field, place) in [(Field::EthDst, 0), (Field::EthSrc, 6)] {
                let address = self.address(place);
                untagged.set(&mut self.builder, field, &address);
            }
            untagged.is(Field::VlanVid, 0);
        }
        let tagged = if tags < MOST_TAGS {
            let mut tagged = untagged.clone();
            tagged.tags += 1;
            if tags == 0 {
                let tag = self.builder.bytes(at + 2, 2);
                let (vid, present) = (self.bits(tag, 0, 0x0fff), self.builder.constant(VLAN_PRESENT as u64));
                let vid = self.builder.or(vid, present);
                let priority = self.bits(tag, 13, 7);
                tagged.set(&mut self.builder, Field::VlanVid, &[vid]);
                tagged.set(&mut self.builder, Field::VlanPcp, &[priority]);
            }
            let inner = self.ethernet(&tagged, tags + 1);
            self.if_long(at + 6, inner)
        } else {
            self.usual
        };
        self.typed(&untagged, at + 2, kind, tagged)
    }

    /// A frame whose type is `kind`, if that is not one of a tag: then it is `tagged`. What it carries begins at `at`.
    fn typed(&mut self, known: &Known, at: usize, kind: Value, tagged: Label) -> Label {
        let mut other = known.clone();
        other.set(&mut self.builder, Field::EthType, &[kind]);
        let mut label = self.tables(&other);
        if self.shape.needs.depth >= Depth::Network {
            let mut kinds: Vec<(u16, WriteKind<'s>)> = Vec::new();
            if self.asks_any(&[Field::MplsLabel, Field::MplsTc, Field::MplsBos]) {
                kinds.extend(MPLS_TYPES.map(|kind| (kind, Self::mpls as WriteKind<'s>)));
            }
            if self.asks_any(&[Field::ArpOp, Field::ArpSha, Field::ArpSpa, Field::ArpTha, Field::ArpTpa]) {
                kinds.push((0x0806, Self::arp));
            }
            kinds.push((0x86dd, Self::ipv6));
            for (number, write) in kinds {
                label = self.of_kind(known, at, kind, (number, write), label);
            }
        }
        for number in VLAN_TYPES {
            label = self.if_is(kind, number.into(), tagged, label);
        }
        // What most frames are is tried first.
        if self.shape.needs.depth >= Depth::Network {
            label = self.of_kind(known, at, kind, (0x0800, Self::ipv4), label);
        }
        label
    }

    /// A frame that is of one kind, or else something else.
    fn of_kind(
        &mut self,
        known: &Known,
        at: usize,
        kind: Value,
        (number, write): (u16, WriteKind<'s>),
        otherwise: Label,
    ) -> Label {
        let mut of_kind = known.clone();
        of_kind.is(Field::EthType, number.into());
        let label = write(self, &of_kind, at);
        self.if_is(kind, number.into(), label, otherwise)
    }

    fn mpls(&mut self, known: &Known, at: usize) -> Label {
        let (mut known, entry) = (known.clone(), self.builder.bytes(at, 4));
        for (field, from) in [(Field::MplsLabel, 12), (Field::MplsTc, 9), (Field::MplsBos, 8)] {
            let value = self.bits(entry, from, field.ones() as u64);
            known.set(&mut self.builder, field, &[value]);
        }
        known.other = Version::Mpls;
        let tables = self.tables(&known);
        self.if_long(at + 4, tables)
    }

    fn arp(&mut self, known: &Known, at: usize) -> Label {
        let (mut known, operation) = (known.clone(), self.builder.bytes(at + 6, 2));
        known.set(&mut self.builder, Field::ArpOp, &[operation]);
        for (field, place) in [(Field::ArpSha, 8), (Field::ArpTha, 18)] {
            let address = self.address(at + place);
            known.set(&mut self.builder, field, &address);
        }
        for (field, place) in [(Field::ArpSpa, 14), (Field::ArpTpa, 24)] {
            let address = self.words(at + place, 1);
            known.set(&mut self.builder, field, &address);
        }
        known.other = Version::Arp;
        let mut label = self.tables(&known);
        // Ethernet and IPv4 (RFC 826).
        let (first, lengths) = (self.builder.bytes(at, 4), self.builder.bytes(at + 4, 2));
        label = self.only_if_is(lengths, 0x0604, label);
        label = self.only_if_is(first, 0x0001_0800, label);
        self.if_long(at + 28, label)
    }

    fn traffic_class(&mut self, known: &mut Known, class: Value) {
        for (field, from) in [(Field::IpDscp, 2), (Field::IpEcn, 0)] {
            let value = self.bits(class, from, field.ones() as u64);
            known.set(&mut self.builder, field, &[value]);
        }
    }

    /// IPv4 without options.
    fn ipv4(&mut self, known: &Known, at: usize) -> Label {
        let (mut known, class) = (known.clone(), self.builder.bytes(at + 1, 1));
        self.traffic_class(&mut known, class);
        for (field, place) in [(Field::Ipv4Src, 12), (Field::Ipv4Dst, 16)] {
            let address = self.words(at + place, 1);
            known.set(&mut self.builder, field, &address);
        }
        let protocol = self.builder.bytes(at + 9, 1);
        known.ip = Some(Ip { at, is_v6: false });
        let carried = self.carried(&known, protocol, at + 20, |writer, label| {
            // Of a fragment only the first has ports. A total length of less is not believed, or cuts them off.
            let (fragment, total) = (writer.builder.bytes(at + 6, 2), writer.builder.bytes(at + 2, 2));
            let offset = writer.bits(fragment, 0, 0x1fff);
            let label = writer.only_at_least(total, 24, label);
            writer.only_if_is(offset, 0, label)
        });
        let first = self.builder.bytes(at, 1);
        let label = self.only_if_is(first, 0x45, carried);
        self.if_long(at + 20, label)
    }

    /// IPv6, without extension headers where somebody asks for what is behind them.
    fn ipv6(&mut self, known: &Known, at: usize) -> Label {
        let (mut known, first) = (known.clone(), self.builder.bytes(at, 4));
        let class = self.bits(first, 20, 0xff);
        self.traffic_class(&mut known, class);
        known.set(&mut self.builder, Field::Ipv6Flabel, &[first]);
        for (field, place) in [(Field::Ipv6Src, 8), (Field::Ipv6Dst, 24)] {
            let address = self.words(at + place, 4);
            known.set(&mut self.builder, field, &address);
        }
        known.is(Field::Ipv6Exthdr, 0);
        let next = self.builder.bytes(at + 6, 1);
        known.ip = Some(Ip { at, is_v6: true });
        let mut label = self.carried(&known, next, at + 40, |writer, label| {
            // No length is that of a jumbogram, or unknown; less cuts ports off.
            let length = writer.builder.bytes(at + 4, 2);
            writer.only_at_least(length, 4, label)
        });
        let behind = [Field::IpProto, Field::Ipv6Exthdr];
        if self.asks_any(&behind) || self.shape.needs.depth == Depth::Whole {
            for header in [0, 43, 44, 50, 51, 59, 60] {
                label = self.if_is(next, header, self.usual, label);
            }
        }
        let version = self.bits(first, 28, 0xf);
        label = self.only_if_is(version, 6, label);
        self.if_long(at + 40, label)
    }

    /// What IP carries at `at`, with its ports where somebody asks for them and they are there: which `are_there` sees, beside the frame's length.
    fn carried(
        &mut self,
        known: &Known,
        protocol: Value,
        at: usize,
        are_there: impl Fn(&mut Self, Label) -> Label,
    ) -> Label {
        use Field::{Icmpv4Code, Icmpv4Type, Icmpv6Code, Icmpv6Type, SctpDst, SctpSrc, TcpDst, TcpSrc, UdpDst, UdpSrc};
        let mut other = known.clone();
        other.set(&mut self.builder, Field::IpProto, &[protocol]);
        let mut label = self.tables(&other);
        let is_v6 = known.ip.is_some_and(|ip| ip.is_v6);
        let pairs = [
            (132, [SctpSrc, SctpDst], 2, true),
            (1, [Icmpv4Type, Icmpv4Code], 1, !is_v6),
            (58, [Icmpv6Type, Icmpv6Code], 1, is_v6),
            (17, [UdpSrc, UdpDst], 2, true),
            (6, [TcpSrc, TcpDst], 2, true),
        ];
        for (number, fields, count, is_there) in pairs {
            let neighbours = [Field::Ipv6NdTarget, Field::Ipv6NdSll, Field::Ipv6NdTll];
            let asks_more = number == 58 && self.asks_any(&neighbours);
            if !is_there || !(asks_more || self.asks_any(&fields)) {
                continue;
            }
            let mut with = known.clone();
            with.is(Field::IpProto, number);
            for (field, place) in fields.into_iter().zip([0, count]) {
                let value = self.builder.bytes(at + place, count);
                with.set(&mut self.builder, field, &[value]);
            }
            let mut those = if asks_more { self.neighbours(&with, at) } else { self.tables(&with) };
            those = are_there(self, those);
            those = self.if_long(at + 4, those);
            label = self.if_is(protocol, number.into(), those, label);
        }
        label
    }

    /// ICMPv6 at `at`, with what neighbour discovery says (RFC 4861 sections 4.3, 4.4 and 4.6.1): its target, and the Ethernet address in an option, if that is
    /// the first one. Others are looked for elsewhere.
    fn neighbours(&mut self, known: &Known, at: usize) -> Label {
        let mut label = self.tables(known);
        let Some(ip) = known.ip else { return label };
        let kind = self.builder.bytes(at, 1);
        let (said, frame) = (self.builder.bytes(ip.at + 4, 2), self.builder.input(LENGTH));
        let target = self.words(at + 8, 4);
        let address = self.address(at + 26);
        for (number, field, option) in [(136, Field::Ipv6NdTll, 2), (135, Field::Ipv6NdSll, 1)] {
            let mut with = known.clone();
            with.set(&mut self.builder, Field::Ipv6NdTarget, &target);
            let none = self.tables(&with);
            with.set(&mut self.builder, field, &address);
            let mut whole = self.tables(&with);
            // An option of no length has no end, and so no address.
            let (is, length) = (self.builder.bytes(at + 24, 1), self.builder.bytes(at + 25, 1));
            whole = self.only_at_least(length, 1, whole);
            whole = self.only_if_is(is, option, whole);
            whole = self.only_at_least(frame, at as u64 + 32, whole);
            whole = self.only_at_least(said, 32, whole);
            // Behind the target there is nothing, as IP says.
            let mut of_kind = self.if_is(said, 24, none, whole);
            of_kind = self.only_at_least(frame, at as u64 + 24, of_kind);
            label = self.if_is(kind, number, of_kind, label);
        }
        label
    }

    /// Takes packets of which this is known through the tables.
    fn tables(&mut self, known: &Known) -> Label {
        self.node(&self.shape.root, known, At::default())
    }

    /// Takes packets through a table.
    fn node(&mut self, node: &'s Node, known: &Known, at: At) -> Label {
        let flows = match node {
            Node::Flows(flows) => flows,
            Node::Search(table) => return self.hand_on(known, at, *table),
        };
        let mut ends = Vec::new();
        let mut next = at;
        for flow in flows {
            ends.push((flow, next));
            next = next.behind(flow);
        }
        let mut label = self.usual;
        for (flow, at) in ends.into_iter().rev() {
            label = self.flow(known, (flow, at), label);
        }
        label
    }

    /// Tries a flow; where it is not met, it goes on elsewhere.
    fn flow(&mut self, known: &Known, (flow, at): (&'s FlowShape, At), otherwise: Label) -> Label {
        if flow.asks.iter().any(|ask| ask.is_missed(&known.words)) {
            return otherwise;
        }
        let behind = At { data: at.data + flow.asks.len(), ..at };
        let met = match &flow.does {
            Does::Usual => self.usual,
            Does::Changes(changes) => self.change(known, *changes, behind),
            Does::Meets => self.hand_on(known, at, NO_TABLE),
            Does::Leads(mask, to) => {
                let mut led = known.clone();
                self.write_metadata(&mut led, *mask, behind.data);
                self.node(to, &led, At { data: behind.data + METADATA_WORDS.len(), ..at })
            }
        };
        let mut differs: Option<Value> = None;
        for (ask, data) in flow.asks.iter().zip(at.data..) {
            let Some(bits) = self.difference(ask, &known.words, data) else { continue };
            differs = Some(match differs {
                Some(before) => self.builder.or(before, bits),
                None => bits,
            });
        }
        match differs {
            Some(bits) => self.if_is(bits, 0, met, otherwise),
            None => met,
        }
    }

    /// Writes metadata, which the data begin with; they have no bits beside the mask.
    fn write_metadata(&mut self, known: &mut Known, mask: u64, data: usize) {
        for ((number, shift), data) in METADATA_WORDS.into_iter().zip(data..) {
            let mask = (mask >> shift) as u32;
            if mask == 0 {
                continue;
            }
            let (written, word) = (self.builder.data(data), &mut known.words[number]);
            let kept = self.builder.constant(u64::from(!mask));
            word.given = Some(match word.given {
                Some(given) => {
                    let given = self.builder.and(given, kept);
                    self.builder.or(given, written)
                }
                None => written,
            });
            word.known &= !mask;
            word.value &= word.known;
        }
    }

    /// Ends with what others ask of the packet.
    fn hand_on(&mut self, known: &Known, at: At, search: u8) -> Label {
        let mut needed = [false; WORDS];
        // Which fields there are. What stands in words of fields that there are not is of no account, but to the hash.
        needed[PRESENCE].fill(true);
        if self.shape.needs.hash {
            needed[HASHED_WORDS].fill(true);
        }
        for field in self.shape.needs.fields().filter(|field| known.has_field(*field)) {
            let location = location(field);
            needed[location.word..location.word + location.words].fill(true);
        }
        let mut words = Vec::new();
        for (number, word) in known.words.iter().enumerate().filter(|(number, _)| needed[*number]) {
            let mut value = self.builder.constant(word.value.into());
            if let Some(given) = word.given {
                value = if word.value == 0 { given } else { self.builder.or(given, value) };
            }
            words.push((number, value));
        }
        self.builder.give_and_answer(&words, known.answer(at.target, search))
    }

    /// The bits in which a packet is not what is asked for; nothing if it always is.
    fn difference(&mut self, ask: &Ask, known: &[Word; WORDS], data: usize) -> Option<Value> {
        let word = known.get(ask.word)?;
        let open = ask.mask & !(word.known & kind_bits(ask.word));
        if open == 0 {
            return None;
        }
        // What stands in the code, on both sides, is one number.
        let mut bits = self.builder.data(data);
        let constant = self.builder.constant(u64::from(ask.fixed ^ word.value));
        bits = self.builder.xor(bits, constant);
        if let Some(given) = word.given {
            bits = self.builder.xor(bits, given);
        }
        let open = self.builder.constant(open.into());
        Some(self.builder.and(bits, open))
    }

    /// Changes a frame as a flow says, and answers that it leaves.
    fn change(&mut self, known: &Known, does: Changes, at: At) -> Label {
        let (mut changes, mut data, answer) = (Vec::new(), at.data, known.answer(at.target, NO_TABLE));
        for at in [(0, does.sets_destination), (6, does.sets_source)].into_iter().filter(|(_, sets)| *sets) {
            let (at, _) = at;
            for (at, count, data) in [(at, 2, data), (at + 2, 4, data + 1)] {
                // Data are as they stand in memory.
                let value = self.builder.data(data);
                changes.push((at, count, self.builder.swapped(value, count)));
            }
            data += 2;
        }
        let Some(ip) = known.ip.filter(|_| does.decrements_ttl) else {
            return self.builder.change_and_answer(&changes, answer);
        };
        let ttl = self.builder.bytes(ip.ttl_at(), 1);
        let less = self.builder.constant(u64::MAX);
        let after = self.builder.add(ttl, less);
        changes.push((ip.ttl_at(), 1, after));
        if !ip.is_v6 {
            changes.push((ip.at + 10, 2, self.checksum(ip.at)));
        }
        let changed = self.builder.change_and_answer(&changes, answer);
        // What ends here goes the usual way.
        self.only_at_least(ttl, 2, changed)
    }

    /// The checksum of IPv4 when its TTL is one less: RFC 1624, equation 3, with words as they stand in memory, which gives the same (RFC 1071, section 2 (B)). That of TTL
    /// and protocol, m, becomes m - 1, so that ~m + m' is the same for all: 0xfffe. One carry comes of the sum at most.
    fn checksum(&mut self, at: usize) -> Value {
        let before = self.builder.bytes(at + 10, 2);
        let before = self.builder.swapped(before, 2);
        let (ones, less) = (self.builder.constant(0xffff), self.builder.constant(0xfffe));
        let sum = self.builder.xor(before, ones);
        let sum = self.builder.add(sum, less);
        let (high, low) = (self.builder.right(sum, 16), self.builder.and(sum, ones));
        let sum = self.builder.add(high, low);
        let sum = self.builder.xor(sum, ones);
        self.builder.swapped(sum, 2)
    }
}

/// Where a flow's data and targets begin.
#[derive(Clone, Copy, Default)]
struct At {
    data: usize,
    target: usize,
}

impl At {
    /// Those of the next flow.
    fn behind(self, flow: &FlowShape) -> At {
        At { data: self.data + flow.words(), target: self.target + flow.answers() }
    }
}
