//! Writes the program of a table: what it looks into, what its flows ask, what they change.
//!
//! The program follows the parser (`parse.rs`) frame by frame: for each kind of frame it knows which fields there are, so that only flows which that
//! kind can meet are tried there, and only bits are compared that are not known already. What is not as most frames are (cut off, more than
//! two tags, options or extension headers, fragments where ports are asked for) is left to the usual way.

use weir_codegen::{Builder, Fault, Label, Program, Test, Value};
use weir_openflow::Field;
use weir_openflow::oxm::VLAN_PRESENT;

use super::USUAL;
use super::shape::{Ask, Does, FlowShape, Shape, kind_bits};
use crate::depth::Depth;
use crate::parse::{MPLS_TYPES, VLAN_TYPES};
use crate::words::{WORDS, location, presence};

/// The inputs of a program.
const LENGTH: usize = 0;
const IN_PORT: usize = 1;

/// So many tags are looked behind.
const MOST_TAGS: usize = 2;

/// The program of a table.
pub(super) fn write(shape: &Shape) -> Result<Program, Fault> {
    let mut builder = Builder::new();
    let usual = builder.answer(USUAL);
    // No frame may meet some flows; they have data all the same.
    builder.have_data(shape.flows.iter().map(FlowShape::words).sum());
    let mut writer = Writer { shape, builder, usual };
    let known = Known::of_port(&mut writer.builder);
    let frame = if shape.depth == Depth::Port { writer.flows(&known, None) } else { writer.ethernet(&known, 0) };
    let entry = writer.if_long(14, frame);
    writer.builder.finish(entry)
}

/// What is known of a word of a packet: bits that every frame of a kind has, and where the others come from.
#[derive(Clone, Copy)]
struct Word {
    /// Which bits are known.
    known: u32,
    /// What they are; the others are zeroes.
    value: u32,
    /// The others; what is known is zeroes here.
    given: Option<Value>,
}

/// What is known of a packet. Fields that it does not have are zeroes, as are the bits that say that it has them.
#[derive(Clone)]
struct Known([Word; WORDS]);

impl Known {
    /// Of every packet: where it came in.
    fn of_port(builder: &mut Builder) -> Known {
        let mut known = Known([Word { known: u32::MAX, value: 0, given: None }; WORDS]);
        let port = builder.input(IN_PORT);
        for field in [Field::InPort, Field::InPhyPort] {
            known.set(builder, field, &[port]);
        }
        for field in [Field::Metadata, Field::TunnelId] {
            known.has(field);
        }
        known
    }

    /// It has a field.
    fn has(&mut self, field: Field) {
        let (word, bit) = presence(field);
        self.0[word].value |= bit;
    }

    /// It has a field that is this number.
    fn is(&mut self, field: Field, number: u32) {
        self.has(field);
        let location = location(field);
        let Word { known, value, .. } = &mut self.0[location.word];
        let bits = (field.ones() as u32) << location.shift;
        (*known, *value) = (*known | bits, *value & !bits | number << location.shift & bits);
    }

    /// It has a field that is these words, the most significant first. The last ones of each count, as many as the field has bits.
    fn set(&mut self, builder: &mut Builder, field: Field, words: &[Value]) {
        self.has(field);
        let location = location(field);
        let mut below = 32 * words.len() as u32;
        for (value, number) in words.iter().zip(location.word..) {
            below -= 32;
            let ones = (field.ones() >> below) as u32;
            let mask = builder.constant(ones.into());
            let masked = builder.and(*value, mask);
            let shifted = builder.left(masked, location.shift);
            let word = &mut self.0[number];
            word.given = Some(match word.given {
                Some(given) => builder.or(given, shifted),
                None => shifted,
            });
            word.known &= !(ones << location.shift);
            word.value &= word.known;
        }
    }
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
    /// Whether some flow asks for a field.
    fn asks(&self, field: Field) -> bool {
        let (word, bit) = presence(field);
        let asks = self.shape.flows.iter().flat_map(|flow| &flow.asks);
        asks.into_iter().any(|ask| ask.word == word && ask.mask & bit != 0)
    }

    fn asks_any(&self, fields: &[Field]) -> bool {
        fields.iter().any(|field| self.asks(*field))
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
        let mut label = self.flows(&other, None);
        if self.shape.depth >= Depth::Network {
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
        if self.shape.depth >= Depth::Network {
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
        let flows = self.flows(&known, None);
        self.if_long(at + 4, flows)
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
        let mut label = self.flows(&known, None);
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
        let ip = Ip { at, is_v6: false };
        let carried = self.carried(&known, protocol, ip, at + 20, |writer, label| {
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
        let mut label = self.carried(&known, next, Ip { at, is_v6: true }, at + 40, |writer, label| {
            // No length is that of a jumbogram, or unknown; less cuts ports off.
            let length = writer.builder.bytes(at + 4, 2);
            writer.only_at_least(length, 4, label)
        });
        let behind = [Field::IpProto, Field::Ipv6Exthdr];
        if self.asks_any(&behind) || self.shape.depth == Depth::Whole {
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
        ip: Ip,
        at: usize,
        are_there: impl Fn(&mut Self, Label) -> Label,
    ) -> Label {
        use Field::{Icmpv4Code, Icmpv4Type, Icmpv6Code, Icmpv6Type, SctpDst, SctpSrc, TcpDst, TcpSrc, UdpDst, UdpSrc};
        let mut other = known.clone();
        other.set(&mut self.builder, Field::IpProto, &[protocol]);
        let mut label = self.flows(&other, Some(ip));
        let pairs = [
            (132, [SctpSrc, SctpDst], 2, true),
            (1, [Icmpv4Type, Icmpv4Code], 1, !ip.is_v6),
            (58, [Icmpv6Type, Icmpv6Code], 1, ip.is_v6),
            (17, [UdpSrc, UdpDst], 2, true),
            (6, [TcpSrc, TcpDst], 2, true),
        ];
        for (number, fields, count, is_there) in pairs {
            // What neighbour discovery says is not looked for here.
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
            let mut those = if asks_more { self.usual } else { self.flows(&with, Some(ip)) };
            those = are_there(self, those);
            those = self.if_long(at + 4, those);
            label = self.if_is(protocol, number.into(), those, label);
        }
        label
    }

    /// Tries flows, one after the other.
    fn flows(&mut self, known: &Known, ip: Option<Ip>) -> Label {
        let mut ends = Vec::new();
        let mut data = 0;
        for (number, flow) in (0..).zip(&self.shape.flows) {
            ends.push((number, flow, data));
            data += flow.words();
        }
        let mut label = self.usual;
        for (number, flow, data) in ends.into_iter().rev() {
            label = self.flow(known, ip, (number, flow, data), label);
        }
        label
    }

    /// Tries a flow, whose data begin at `data`; where it is not met, it goes on elsewhere.
    fn flow(
        &mut self,
        known: &Known,
        ip: Option<Ip>,
        (number, flow, data): (u32, &FlowShape, usize),
        otherwise: Label,
    ) -> Label {
        if flow.asks.iter().any(|ask| ask.is_missed(&known.0)) {
            return otherwise;
        }
        let met = match flow.does {
            Some(does) => self.change(number, does, data + flow.asks.len(), ip),
            None => self.usual,
        };
        let mut differs: Option<Value> = None;
        for (ask, data) in flow.asks.iter().zip(data..) {
            let Some(bits) = self.difference(ask, &known.0, data) else { continue };
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

    /// Changes a frame as a flow says, and answers its number. What it takes the addresses from begins at `data`.
    fn change(&mut self, number: u32, does: Does, data: usize, ip: Option<Ip>) -> Label {
        let (mut changes, mut data) = (Vec::new(), data);
        for at in [(0, does.sets_destination), (6, does.sets_source)].into_iter().filter(|(_, sets)| *sets) {
            let (at, _) = at;
            changes.push((at, 2, self.builder.data(data)));
            changes.push((at + 2, 4, self.builder.data(data + 1)));
            data += 2;
        }
        let Some(ip) = ip.filter(|_| does.decrements_ttl) else {
            return self.builder.change_and_answer(&changes, number);
        };
        let ttl = self.builder.bytes(ip.ttl_at(), 1);
        let less = self.builder.constant(u64::MAX);
        let after = self.builder.add(ttl, less);
        changes.push((ip.ttl_at(), 1, after));
        if !ip.is_v6 {
            changes.push((ip.at + 10, 2, self.checksum(ip.at)));
        }
        let changed = self.builder.change_and_answer(&changes, number);
        // What ends here goes the usual way.
        self.only_at_least(ttl, 2, changed)
    }

    /// The checksum of IPv4 when its TTL is one less: RFC 1624, equation 3. The word of TTL and protocol, m, becomes m - 0x100, so that ~m + m' is the same for
    /// all: 0xfeff. One carry comes of the sum at most.
    fn checksum(&mut self, at: usize) -> Value {
        let before = self.builder.bytes(at + 10, 2);
        let (ones, less) = (self.builder.constant(0xffff), self.builder.constant(0xfeff));
        let sum = self.builder.xor(before, ones);
        let sum = self.builder.add(sum, less);
        let (high, low) = (self.builder.right(sum, 16), self.builder.and(sum, ones));
        let sum = self.builder.add(high, low);
        self.builder.xor(sum, ones)
    }
}

/// Where IP begins.
#[derive(Clone, Copy)]
struct Ip {
    at: usize,
    is_v6: bool,
}

impl Ip {
    fn ttl_at(self) -> usize {
        self.at + if self.is_v6 { 7 } else { 8 }
    }
}

impl FlowShape {
    /// How many words of data it has.
    fn words(&self) -> usize {
        let addresses = self.does.map_or(0, |does| usize::from(does.sets_destination) + usize::from(does.sets_source));
        self.asks.len() + 2 * addresses
    }
}

impl Ask {
    /// Whether no packet of which this is known is what it asks for, whatever the data.
    fn is_missed(&self, known: &[Word; WORDS]) -> bool {
        let word = known.get(self.word);
        word.is_some_and(|word| (self.fixed ^ word.value) & self.mask & word.known & kind_bits(self.word) != 0)
    }
}
