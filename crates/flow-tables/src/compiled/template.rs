//! Machine code that changes frames: one program for each list of changes, whatever values they set.
//!
//! Such a program is given what code has found of a frame: its tags and the version of its IP. It knows where everything is then, works the changes out one after the
//! other on what it has read, and writes what is different in the end. What is not as in most frames (fragments, what breaks off, extension headers, a TTL that ends)
//! it leaves alone, and says so.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use weir_codegen::{Builder, Code, Fault, Label, Program, RESULTS, Test, Value};
use weir_openflow::Field;

use super::{Found, Version};
use crate::fast::frame::{Frame, TAG};
use crate::fast::program::Op;
use crate::tags::{FIRST_TYPE, LEAST};

/// So many lists of changes get code.
const MOST_TEMPLATES: usize = 64;

/// So many tags are looked behind.
const MOST_TAGS: usize = 2;

/// Longer lists, and more tags, get no code.
const MOST_CHANGES: usize = 12;
const MOST_PUSHED: usize = 2;

/// The inputs of a program: how long the frame is, and of which [kind](Found::kind).
const LENGTH: usize = 0;
const KIND: usize = 1;

/// Answers of a program.
const LEFT_ALONE: u32 = 0;
const CHANGED: u32 = 1;
/// And a tag was taken off.
const POPPED: u32 = 2;

/// A change without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Destination,
    Source,
    Ttl,
    Push(u16),
    Pop,
    Set(Field),
}

impl Kind {
    /// Nothing if no code is made for it.
    fn of(op: Op) -> Option<Kind> {
        Some(match op {
            Op::EthDst(_) => Kind::Destination,
            Op::EthSrc(_) => Kind::Source,
            Op::DecrementTtl => Kind::Ttl,
            Op::PushVlan(kind) => Kind::Push(kind),
            Op::PopVlan => Kind::Pop,
            Op::Set(field, _) => match field {
                Field::VlanVid | Field::VlanPcp => Kind::Set(field),
                _ if is_of_ip(field) || is_carried(field) => Kind::Set(field),
                _ => return None,
            },
        })
    }
}

/// Whether it is a field of IP that code sets.
fn is_of_ip(field: Field) -> bool {
    use Field::{IpDscp, IpEcn, Ipv4Dst, Ipv4Src, Ipv6Dst, Ipv6Flabel, Ipv6Src};
    matches!(field, IpDscp | IpEcn | Ipv4Src | Ipv4Dst | Ipv6Src | Ipv6Dst | Ipv6Flabel)
}

/// Whether it is one of what IP carries.
fn is_carried(field: Field) -> bool {
    matches!(field, Field::TcpSrc | Field::TcpDst | Field::UdpSrc | Field::UdpDst)
}

/// The words that an operation sets.
fn values(op: Op) -> Vec<u32> {
    let address =
        |[a, b, c, d, e, f]: [u8; 6]| vec![u32::from_be_bytes([0, 0, a, b]), u32::from_be_bytes([c, d, e, f])];
    match op {
        Op::EthDst(to) => address(to),
        Op::EthSrc(from) => address(from),
        Op::DecrementTtl | Op::PushVlan(_) | Op::PopVlan => Vec::new(),
        Op::Set(field, value) => {
            let value = value & field.ones();
            (0..words_of(field)).rev().map(|word| (value >> (32 * word)) as u32).collect()
        }
    }
}

/// How many words of data a field takes.
fn words_of(field: Field) -> usize {
    field.bits().div_ceil(32) as usize
}

/// A list of changes, without their values.
#[derive(Debug)]
pub(crate) struct Template {
    kinds: Box<[Kind]>,
    /// How many tags it pushes.
    pushed: usize,
    pops: bool,
    /// A frame came that it would change.
    is_wanted: AtomicBool,
    code: OnceLock<Result<Code, String>>,
}

/// The changes of a template with their values.
#[derive(Clone, Debug)]
pub(crate) struct Filled {
    template: Arc<Template>,
    values: Box<[u32]>,
}

/// Templates. Changes that differ in values alone have the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Templates {
    all: HashMap<Box<[Kind]>, Arc<Template>>,
}

impl Templates {
    /// These changes; nothing if there is no code for such.
    pub(crate) fn fill(&mut self, ops: &[Op]) -> Option<Filled> {
        let kinds: Box<[Kind]> = ops.iter().map(|op| Kind::of(*op)).collect::<Option<_>>()?;
        let values = ops.iter().flat_map(|op| values(*op)).collect();
        if let Some(known) = self.all.get(&kinds) {
            return Some(Filled { template: Arc::clone(known), values });
        }
        let pushed = kinds.iter().filter(|kind| matches!(kind, Kind::Push(_))).count();
        let popped = kinds.iter().filter(|kind| **kind == Kind::Pop).count();
        // A tag that is pushed is not taken off again: that would fill a short frame up.
        let is_in_order =
            kinds.iter().rev().skip_while(|kind| **kind != Kind::Pop).all(|kind| !matches!(kind, Kind::Push(_)));
        if kinds.is_empty() || kinds.len() > MOST_CHANGES || pushed > MOST_PUSHED || popped > 1 || !is_in_order {
            return None;
        }
        self.tidy();
        if self.all.len() >= MOST_TEMPLATES {
            return None;
        }
        let template = Template {
            kinds: kinds.clone(),
            pushed,
            pops: popped > 0,
            is_wanted: AtomicBool::new(false),
            code: OnceLock::new(),
        };
        let template = Arc::new(template);
        self.all.insert(kinds, Arc::clone(&template));
        Some(Filled { template, values })
    }

    /// Lets those go that nobody has any more, where there is no room.
    fn tidy(&mut self) {
        if self.all.len() >= MOST_TEMPLATES {
            self.all.retain(|_, template| Arc::strong_count(template) > 1);
        }
    }

    /// Those without code that frames have come for.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = Arc<Template>> {
        let is_wanted = |template: &&Arc<Template>| template.is_wanted.load(Ordering::Relaxed);
        self.all.values().filter(is_wanted).filter(|template| template.code.get().is_none()).map(Arc::clone)
    }
}

impl Template {
    /// Makes its code. That takes milliseconds, and memory.
    pub(super) fn compile(&self) {
        self.code.get_or_init(|| {
            let program = write(self).map_err(|fault| fault.to_string());
            program.and_then(|program| Code::compile(&program).map_err(|failed| failed.to_string()))
        });
    }
}

impl Filled {
    /// Changes a frame of which code found this; if not, nothing has happened: there is no code, or the frame is not like most.
    #[inline]
    pub(crate) fn change(&self, frame: &mut impl Frame, found: Found, results: &mut [u32; RESULTS]) -> bool {
        let Template { pushed, pops, is_wanted, code, .. } = &*self.template;
        let Some(Ok(code)) = code.get() else {
            is_wanted.store(true, Ordering::Relaxed);
            return false;
        };
        let length = frame.bytes().len();
        if *pushed == 0 && !*pops {
            let Some(window) = frame.window() else { return false };
            return code.run_with(window, [length as u64, found.kind()], &self.values, results) == Some(CHANGED);
        }
        let (front, back) = (pushed * TAG, if *pops { TAG } else { 0 });
        if !frame.has_room(front, back) {
            return false;
        }
        if front > 0 {
            frame.prepend(front);
        }
        let answer = frame
            .window()
            .and_then(|window| code.run_with(window, [length as u64, found.kind()], &self.values, results));
        match answer {
            Some(CHANGED) => true,
            Some(POPPED) => {
                frame.trim_front(TAG);
                if (LEAST..LEAST + TAG).contains(&length) {
                    frame.lengthen(LEAST + front);
                }
                true
            }
            _ => {
                if front > 0 {
                    frame.trim_front(front);
                }
                false
            }
        }
    }
}

/// What IP carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carried {
    Tcp,
    Udp,
    Icmpv6,
    Other,
}

impl Carried {
    /// Its number, where its checksum stands, and how long it is as far as code looks.
    const fn known(self) -> Option<(u64, usize, usize)> {
        match self {
            Carried::Tcp => Some((6, 16, 18)),
            Carried::Udp => Some((17, 6, 8)),
            Carried::Icmpv6 => Some((58, 2, 4)),
            Carried::Other => None,
        }
    }
}

/// The program of a template.
fn write(template: &Template) -> Result<Program, Fault> {
    let mut builder = Builder::new();
    let left_alone = builder.answer(LEFT_ALONE);
    builder.have_data(template.kinds.iter().map(|kind| kind_words(*kind)).sum());
    let mut writer = Writer { template, builder, left_alone };
    let entry = writer.kinds();
    writer.builder.finish(entry)
}

/// How many words of data a change takes.
fn kind_words(kind: Kind) -> usize {
    match kind {
        Kind::Destination | Kind::Source => 2,
        Kind::Ttl | Kind::Push(_) | Kind::Pop => 0,
        Kind::Set(field) => words_of(field),
    }
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
        let mut sheet = Sheet {
            builder: &mut self.builder,
            start,
            tags,
            ip,
            words: BTreeMap::new(),
            doubles: BTreeMap::new(),
            sums: [None; 2],
            hops: 0,
        };
        let mut data = 0;
        for kind in &self.template.kinds {
            sheet.change(*kind, data);
            data += kind_words(*kind);
        }
        sheet.write_sums();
        let (hops, changes) = (sheet.hops, sheet.changes());
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

/// Where IP begins in the window, and what it carries.
#[derive(Clone, Copy)]
struct Ip {
    at: usize,
    is_v6: bool,
    carried: Carried,
}

impl Ip {
    fn carried_at(self) -> usize {
        self.at + if self.is_v6 { 40 } else { 20 }
    }
}

/// A checksum: of the IPv4 header, or of what is carried.
const HEADER: usize = 0;
const CARRIED: usize = 1;

/// A frame as it is changed. Places are those of the window.
struct Sheet<'b> {
    builder: &'b mut Builder,
    /// Where it begins.
    start: usize,
    tags: usize,
    ip: Option<Ip>,
    /// Words of 16 bits that are other ones now.
    words: BTreeMap<usize, Value>,
    /// Pairs of those that are one value.
    doubles: BTreeMap<usize, Value>,
    /// What is added up for checksums; the checksum is its complement.
    sums: [Option<Value>; 2],
    /// How much is taken off the TTL.
    hops: u64,
}

impl Sheet<'_> {
    fn word(&mut self, at: usize) -> Value {
        let known = self.words.get(&at).copied();
        known.unwrap_or_else(|| self.builder.bytes(at, 2))
    }

    fn put(&mut self, at: usize, value: Value) {
        self.words.insert(at, value);
        self.doubles.remove(&at);
        self.doubles.remove(&at.wrapping_sub(2));
    }

    fn double(&mut self, at: usize) -> Value {
        if let Some(known) = self.doubles.get(&at) {
            return *known;
        }
        if !self.words.contains_key(&at) && !self.words.contains_key(&(at + 2)) {
            return self.builder.bytes(at, 4);
        }
        let [high, low] = [at, at + 2].map(|at| self.word(at));
        let high = self.builder.left(high, 16);
        self.builder.or(high, low)
    }

    fn put_double(&mut self, at: usize, value: Value) {
        let [high, low] = self.halves(value);
        self.put(at, high);
        self.put(at + 2, low);
        self.doubles.insert(at, value);
    }

    fn halves(&mut self, value: Value) -> [Value; 2] {
        let ones = self.builder.constant(0xffff);
        [self.builder.right(value, 16), self.builder.and(value, ones)]
    }

    /// Some bits of a word, to be those of a value.
    fn put_bits(&mut self, at: usize, mask: u64, shift: u32, value: Value) {
        let word = self.word(at);
        let kept = self.builder.constant(0xffff & !(mask << shift));
        let mask = self.builder.constant(mask);
        let (kept, value) = (self.builder.and(word, kept), self.builder.and(value, mask));
        let value = self.builder.left(value, shift);
        let value = self.builder.or(kept, value);
        self.put(at, value);
    }

    fn change(&mut self, kind: Kind, data: usize) {
        match kind {
            Kind::Destination => self.set_address(self.start, data),
            Kind::Source => self.set_address(self.start + 6, data),
            Kind::Ttl => self.take_hop(),
            Kind::Push(kind) => self.push(kind),
            Kind::Pop => self.pop(),
            Kind::Set(field) => self.set(field, data),
        }
    }

    fn set_address(&mut self, at: usize, data: usize) {
        let [high, low] = [data, data + 1].map(|data| self.builder.data(data));
        self.put(at, high);
        self.put_double(at + 2, low);
    }

    /// Takes one off the TTL. The word of TTL and protocol, m, becomes m - 0x100: ~m + m' is the same for all, 0xfeff.
    fn take_hop(&mut self) {
        let Some(ip) = self.ip else { return };
        self.hops += 1;
        let at = ip.at + if ip.is_v6 { 6 } else { 8 };
        let (word, less) = (self.word(at), self.builder.constant(if ip.is_v6 { u64::MAX } else { 0xff00 }));
        let less = self.builder.add(word, less);
        let ones = self.builder.constant(0xffff);
        let less = self.builder.and(less, ones);
        self.put(at, less);
        if !ip.is_v6 {
            let change = self.builder.constant(0xfeff);
            self.add(HEADER, change);
        }
    }

    /// A tag outside all others, with what the outer one says but for the bit between.
    fn push(&mut self, kind: u16) {
        let tag = if self.tags > 0 {
            let (tag, mask) = (self.word(self.start + FIRST_TYPE + 2), self.builder.constant(0xefff));
            self.builder.and(tag, mask)
        } else {
            self.builder.constant(0)
        };
        self.move_addresses(self.start - TAG);
        let kind = self.builder.constant(kind.into());
        self.put(self.start + FIRST_TYPE, kind);
        self.put(self.start + FIRST_TYPE + 2, tag);
        self.tags += 1;
    }

    fn pop(&mut self) {
        if self.tags > 0 {
            self.move_addresses(self.start + TAG);
            self.tags -= 1;
        }
    }

    /// Lets the frame begin elsewhere, with its addresses.
    fn move_addresses(&mut self, to: usize) {
        let addresses = [0, 4, 8].map(|at| self.double(self.start + at));
        for at in (0..FIRST_TYPE).step_by(2) {
            self.words.remove(&(self.start + at));
            self.doubles.remove(&(self.start + at));
        }
        self.start = to;
        for (value, at) in addresses.into_iter().zip([0, 4, 8]) {
            self.put_double(to + at, value);
        }
    }

    fn set(&mut self, field: Field, data: usize) {
        match field {
            Field::VlanVid | Field::VlanPcp if self.tags > 0 => {
                let (mask, shift) = if field == Field::VlanVid { (0xfff, 0) } else { (7, 13) };
                let value = self.builder.data(data);
                self.put_bits(self.start + FIRST_TYPE + 2, mask, shift, value);
            }
            _ => {
                if let Some(ip) = self.ip {
                    self.set_in_ip(ip, field, data);
                }
            }
        }
    }

    fn set_in_ip(&mut self, ip: Ip, field: Field, data: usize) {
        use Field::{IpDscp, IpEcn, Ipv4Dst, Ipv4Src, Ipv6Dst, Ipv6Flabel, Ipv6Src, TcpDst, TcpSrc, UdpDst, UdpSrc};
        let (at, carried_at) = (ip.at, ip.carried_at());
        match (field, ip.is_v6, ip.carried) {
            (IpDscp | IpEcn, ..) => {
                let (mask, shift) = if field == IpDscp { (0x3f, 2) } else { (3, 0) };
                let (before, value) = (self.word(at), self.builder.data(data));
                // The class lies across the first two bytes of IPv6.
                self.put_bits(at, mask, if ip.is_v6 { shift + 4 } else { shift }, value);
                if !ip.is_v6 {
                    self.cover(HEADER, &[before], at);
                }
            }
            (Ipv4Src | Ipv4Dst, false, _) => {
                let at = at + if field == Ipv4Src { 12 } else { 16 };
                let before = [self.word(at), self.word(at + 2)];
                let value = self.builder.data(data);
                self.put_double(at, value);
                self.cover(HEADER, &before, at);
                self.cover(CARRIED, &before, at);
            }
            (Ipv6Src | Ipv6Dst, true, _) => {
                let at = at + if field == Ipv6Src { 8 } else { 24 };
                let before: Vec<Value> = (0..8).map(|word| self.word(at + 2 * word)).collect();
                for word in 0..4 {
                    let value = self.builder.data(data + word);
                    self.put_double(at + 4 * word, value);
                }
                self.cover(CARRIED, &before, at);
            }
            (Ipv6Flabel, true, _) => {
                let value = self.builder.data(data);
                let [high, low] = self.halves(value);
                self.put_bits(at, 0xf, 0, high);
                self.put(at + 2, low);
            }
            (TcpSrc, _, Carried::Tcp) | (UdpSrc, _, Carried::Udp) => self.set_port(carried_at, data),
            (TcpDst, _, Carried::Tcp) | (UdpDst, _, Carried::Udp) => self.set_port(carried_at + 2, data),
            // The frame does not have it.
            _ => {}
        }
    }

    fn set_port(&mut self, at: usize, data: usize) {
        let (before, value) = (self.word(at), self.builder.data(data));
        self.put(at, value);
        self.cover(CARRIED, &[before], at);
    }

    /// Words from a place on were these; a checksum covers them.
    fn cover(&mut self, sum: usize, before: &[Value], at: usize) {
        let is_there = self.ip.is_some_and(|ip| sum == HEADER || ip.carried.known().is_some());
        if !is_there {
            return;
        }
        let ones = self.builder.constant(0xffff);
        for (old, number) in before.iter().zip(0..) {
            let new = self.word(at + 2 * number);
            let old = self.builder.xor(*old, ones);
            let change = self.builder.add(old, new);
            self.add(sum, change);
        }
    }

    /// Where a checksum stands.
    fn sum_at(&self, sum: usize) -> Option<usize> {
        let ip = self.ip?;
        if sum == HEADER { Some(ip.at + 10) } else { Some(ip.carried_at() + ip.carried.known()?.1) }
    }

    /// Adds to what becomes a checksum: RFC 1624, equation 3, HC' = ~(~HC + ~m + m'). Carries are added at the end: no sum is 0 by then that is not 0 where they are
    /// added one by one.
    fn add(&mut self, sum: usize, change: Value) {
        let Some(at) = self.sum_at(sum) else { return };
        let before = match self.sums.get(sum).copied().flatten() {
            Some(before) => before,
            None => {
                let (old, ones) = (self.builder.bytes(at, 2), self.builder.constant(0xffff));
                self.builder.xor(old, ones)
            }
        };
        let after = self.builder.add(before, change);
        if let Some(place) = self.sums.get_mut(sum) {
            *place = Some(after);
        }
    }

    fn write_sums(&mut self) {
        for sum in [HEADER, CARRIED] {
            let Some((value, at)) = self.sums.get(sum).copied().flatten().zip(self.sum_at(sum)) else { continue };
            // Fewer than 2,048 numbers of 17 bits: two carries.
            let ones = self.builder.constant(0xffff);
            let mut value = value;
            for _ in 0..2 {
                let (high, low) = (self.builder.right(value, 16), self.builder.and(value, ones));
                value = self.builder.add(high, low);
            }
            value = self.builder.xor(value, ones);
            if sum == CARRIED && self.ip.is_some_and(|ip| ip.carried == Carried::Udp) {
                value = self.udp_sum(value, at);
            }
            self.put(at, value);
        }
    }

    /// Zero says that UDP has no checksum (RFC 768): it stays so, and no sum becomes it.
    fn udp_sum(&mut self, value: Value, at: usize) -> Value {
        let before = self.builder.bytes(at, 2);
        let [is_zero, was_zero] = [value, before].map(|value| self.all_if_zero(value));
        let value = self.builder.or(value, is_zero);
        let all = self.builder.constant(0xffff);
        let kept = self.builder.xor(was_zero, all);
        self.builder.and(value, kept)
    }

    /// 16 bits, all of them if a word is 0, or else none.
    fn all_if_zero(&mut self, word: Value) -> Value {
        let (less, ones) = (self.builder.constant(u64::MAX), self.builder.constant(0xffff));
        let borrowed = self.builder.add(word, less);
        let borrowed = self.builder.right(borrowed, 48);
        self.builder.and(borrowed, ones)
    }

    /// Bytes that change.
    fn changes(self) -> Vec<(usize, usize, Value)> {
        let Sheet { words, doubles, .. } = self;
        let covered = |at: usize| at >= 2 && doubles.contains_key(&(at - 2));
        words
            .into_iter()
            .filter(|(at, _)| !covered(*at))
            .map(|(at, value)| match doubles.get(&at) {
                Some(double) => (at, 4, *double),
                None => (at, 2, value),
            })
            .collect()
    }
}
