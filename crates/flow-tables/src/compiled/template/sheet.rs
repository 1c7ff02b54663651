//! A frame as it is changed, while its program is written: what of it is another value by then.

mod labels;
mod sums;

use std::collections::BTreeMap;

use weir_codegen::{Builder, Label, Value};
use weir_openflow::Field;

use super::answer::{Answer, IP_AT, IS_V6, PORTS};
use super::writer::Carried;
use super::{Kind, is_of_arp, is_of_mpls};
use crate::fast::frame::TAG;
use crate::tags::FIRST_TYPE;
use sums::{CARRIED, HEADER};

/// Where IP begins in the window, and what it carries.
#[derive(Clone, Copy)]
pub(super) struct Ip {
    pub(super) at: usize,
    pub(super) is_v6: bool,
    pub(super) carried: Carried,
}

impl Ip {
    fn carried_at(self) -> usize {
        self.at + if self.is_v6 { 40 } else { 20 }
    }
}

/// The outer MPLS entry: where it is, and what is known to be behind it.
#[derive(Clone, Copy)]
pub(super) struct Mpls {
    pub(super) at: usize,
    /// So many further entries, by the bit for the last one, ...
    pub(super) labels: usize,
    /// ...and behind all of them IP, by what it begins with: whole, without options.
    pub(super) ip: Option<Ip>,
}

impl Mpls {
    /// One of which it is not known what is behind it.
    pub(super) const fn alone(at: usize) -> Mpls {
        Mpls { at, labels: 0, ip: None }
    }
}

/// What stands behind the type of a frame.
#[derive(Clone, Copy)]
pub(super) enum Behind {
    Ip(Ip),
    Mpls(Mpls),
    /// ARP, which begins there.
    Arp(usize),
    Other,
}

/// A frame as it is changed. Places are those of the window. Words are numbers as they stand in memory, the first byte the lowest, so that nothing is turned round to be
/// read and written: sums over such words are the sums, turned round (RFC 1071, section 2 (B)).
pub(super) struct Sheet<'b> {
    builder: &'b mut Builder,
    /// Where it begins.
    start: usize,
    tags: usize,
    ip: Option<Ip>,
    mpls: Option<Mpls>,
    arp: Option<usize>,
    /// An entry came off, and what was behind it is not known.
    is_unknown: bool,
    /// So many tags and entries came off.
    popped: usize,
    /// SCTP in this, of which ports were set.
    sctp: Option<Ip>,
    /// Words of 16 bits that are other ones now.
    words: BTreeMap<usize, Value>,
    /// Pairs of those that are one value.
    doubles: BTreeMap<usize, Value>,
    /// What is added up for checksums, and the most that it may be; the checksum is its complement.
    sums: [Option<(Value, u64)>; 2],
    /// TTLs before one is taken off: none of them may end.
    hops: Vec<Value>,
}

impl<'b> Sheet<'b> {
    /// A frame that begins there in the window, with so many tags, behind which this is.
    pub(super) fn new(builder: &'b mut Builder, start: usize, tags: usize, behind: Behind) -> Sheet<'b> {
        let (ip, mpls, arp) = match behind {
            Behind::Ip(ip) => (Some(ip), None, None),
            Behind::Mpls(mpls) => (None, Some(mpls), None),
            Behind::Arp(at) => (None, None, Some(at)),
            Behind::Other => (None, None, None),
        };
        let (words, doubles) = (BTreeMap::new(), BTreeMap::new());
        Sheet {
            builder,
            start,
            tags,
            ip,
            mpls,
            arp,
            is_unknown: false,
            popped: 0,
            sctp: None,
            words,
            doubles,
            sums: [None; 2],
            hops: Vec::new(),
        }
    }

    fn word(&mut self, at: usize) -> Value {
        match self.words.get(&at) {
            Some(known) => *known,
            None => self.as_it_came(at, 2),
        }
    }

    /// Bytes of the frame as it came.
    fn as_it_came(&mut self, at: usize, count: usize) -> Value {
        let bytes = self.builder.bytes(at, count);
        self.builder.swapped(bytes, count)
    }

    /// The first or the second byte of a word.
    fn byte(&mut self, at: usize, number: usize) -> Value {
        match (self.words.get(&at).copied(), number) {
            (None, _) => self.builder.bytes(at + number, 1),
            (Some(word), 0) => {
                let ones = self.builder.constant(0xff);
                self.builder.and(word, ones)
            }
            (Some(word), _) => self.builder.right(word, 8),
        }
    }

    /// A word that is this number.
    fn number(&mut self, number: u16) -> Value {
        self.builder.constant(number.swap_bytes().into())
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
            return self.as_it_came(at, 4);
        }
        let [first, second] = [at, at + 2].map(|at| self.word(at));
        let second = self.builder.left(second, 16);
        self.builder.or(first, second)
    }

    fn put_double(&mut self, at: usize, value: Value) {
        let ones = self.builder.constant(0xffff);
        let [first, second] = [self.builder.and(value, ones), self.builder.right(value, 16)];
        self.put(at, first);
        self.put(at + 2, second);
        self.doubles.insert(at, value);
    }

    /// Some bits of a word, `shift` from the end of the number that the word is on the wire, to be those of a number.
    fn put_bits(&mut self, at: usize, mask: u16, shift: u32, value: Value) {
        let (word, kept, only) = (self.word(at), self.number(!(mask << shift)), self.builder.constant(mask.into()));
        let (kept, value) = (self.builder.and(word, kept), self.builder.and(value, only));
        let value = match mask << shift {
            // What is of one byte is that of the other one.
            0..=0xff => self.builder.left(value, shift + 8),
            bits if bits & 0xff == 0 => self.builder.left(value, shift - 8),
            _ => {
                let value = self.builder.left(value, shift);
                self.builder.swapped(value, 2)
            }
        };
        let value = self.builder.or(kept, value);
        self.put(at, value);
    }

    /// Carries a change out, whose values are these words of data and those behind; nothing if that is more than is known of the frame.
    pub(super) fn change(&mut self, kind: Kind, data: usize) -> Option<()> {
        if self.is_unknown && kind.is_behind() {
            return None;
        }
        match kind {
            Kind::Destination => self.set_address(self.start, data),
            Kind::Source => self.set_address(self.start + 6, data),
            Kind::Ttl => self.take_hop(),
            Kind::SetTtl => self.set_ttl(data),
            Kind::Push(kind) => self.push(kind),
            Kind::Pop => self.pop(),
            Kind::PushMpls(kind) => self.push_mpls(kind),
            Kind::PopMpls(kind) => self.pop_mpls(kind),
            Kind::SetMplsTtl => self.set_mpls_ttl(data),
            Kind::MplsTtl => self.take_mpls_hop(),
            Kind::CopyOut => self.copy_ttl(true)?,
            Kind::CopyIn => self.copy_ttl(false)?,
            Kind::Set(field) => self.set(field, data)?,
        }
        Some(())
    }

    fn set_address(&mut self, at: usize, data: usize) {
        let [high, low] = [data, data + 1].map(|data| self.builder.data(data));
        self.put(at, high);
        self.put_double(at + 2, low);
    }

    /// Takes one off the TTL. The word of TTL and protocol, m, becomes m - 1 in memory: ~m + m' is the same for all, 0xfffe.
    fn take_hop(&mut self) {
        let Some(ip) = self.ip else { return };
        let before = self.ttl(ip);
        self.hops.push(before);
        self.take_one(ip.at + if ip.is_v6 { 6 } else { 8 }, usize::from(ip.is_v6));
        if !ip.is_v6 {
            let change = self.builder.constant(0xfffe);
            self.add(HEADER, change, 0xfffe);
        }
    }

    /// Takes one off the first or the second byte of a word. It does not end, so that nothing is borrowed.
    fn take_one(&mut self, at: usize, number: usize) {
        let (word, less) = (self.word(at), self.builder.constant(if number == 0 { u64::MAX } else { !0xff }));
        let less = self.builder.add(word, less);
        self.put(at, less);
    }

    /// The TTL of IP.
    fn ttl(&mut self, ip: Ip) -> Value {
        if ip.is_v6 { self.byte(ip.at + 6, 1) } else { self.byte(ip.at + 8, 0) }
    }

    fn set_ttl(&mut self, data: usize) {
        let Some(ip) = self.ip else { return };
        let value = self.builder.data(data);
        if ip.is_v6 {
            return self.put_bits(ip.at + 6, 0xff, 0, value);
        }
        let before = self.word(ip.at + 8);
        self.put_bits(ip.at + 8, 0xff, 8, value);
        self.cover(HEADER, &[before], ip.at + 8);
    }

    /// A tag outside all others, with what the outer one says but for the bit between.
    fn push(&mut self, kind: u16) {
        let tag = if self.tags > 0 {
            let (tag, mask) = (self.word(self.start + FIRST_TYPE + 2), self.number(0xefff));
            self.builder.and(tag, mask)
        } else {
            self.builder.constant(0)
        };
        self.move_start(self.start - TAG, 0);
        let kind = self.number(kind);
        self.put(self.start + FIRST_TYPE, kind);
        self.put(self.start + FIRST_TYPE + 2, tag);
        self.tags += 1;
    }

    fn pop(&mut self) {
        if self.tags > 0 {
            self.move_start(self.start + TAG, 0);
            self.tags -= 1;
            self.popped += 1;
        }
    }

    /// Lets the frame begin elsewhere, with its addresses and so many tags.
    fn move_start(&mut self, to: usize, tags: usize) {
        let end = FIRST_TYPE + TAG * tags;
        let moved: Vec<Value> = (0..end).step_by(4).map(|at| self.double(self.start + at)).collect();
        for at in (0..end).step_by(2) {
            self.words.remove(&(self.start + at));
            self.doubles.remove(&(self.start + at));
        }
        self.start = to;
        for (value, at) in moved.into_iter().zip((0..).step_by(4)) {
            self.put_double(to + at, value);
        }
    }

    fn set(&mut self, field: Field, data: usize) -> Option<()> {
        match field {
            Field::VlanVid | Field::VlanPcp if self.tags > 0 => {
                let (mask, shift) = if field == Field::VlanVid { (0xfff, 0) } else { (7, 13) };
                let value = self.builder.data(data);
                self.put_bits(self.start + FIRST_TYPE + 2, mask, shift, value);
            }
            _ if is_of_mpls(field) => self.set_in_mpls(field, data),
            _ if is_of_arp(field) => self.set_in_arp(field, data),
            _ => {
                if let Some(ip) = self.ip {
                    self.set_in_ip(ip, field, data)?;
                }
            }
        }
        Some(())
    }

    fn set_in_arp(&mut self, field: Field, data: usize) {
        let Some(at) = self.arp else { return };
        match field {
            Field::ArpSha => self.set_address(at + 8, data),
            Field::ArpTha => self.set_address(at + 18, data),
            Field::ArpOp => {
                let value = self.builder.data(data);
                self.put(at + 6, value);
            }
            _ => {
                let value = self.builder.data(data);
                self.put_double(at + if field == Field::ArpSpa { 14 } else { 24 }, value);
            }
        }
    }

    fn set_in_ip(&mut self, ip: Ip, field: Field, data: usize) -> Option<()> {
        use Field::{
            Icmpv4Code, Icmpv4Type, Icmpv6Code, IpDscp, IpEcn, Ipv4Dst, Ipv4Src, Ipv6Dst, Ipv6Flabel, Ipv6NdSll,
            Ipv6NdTarget, Ipv6NdTll, Ipv6Src,
        };
        use Field::{SctpDst, SctpSrc, TcpDst, TcpSrc, UdpDst, UdpSrc};
        let (at, carried_at) = (ip.at, ip.carried_at());
        match (field, ip.is_v6, ip.carried) {
            // Checksums of what was not looked at.
            (_, _, Carried::Unknown) if !matches!(field, IpDscp | IpEcn | Ipv6Flabel) => return None,
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
                // Of ICMP it covers none.
                if ip.carried != Carried::Icmpv4 {
                    self.cover(CARRIED, &before, at);
                }
            }
            (Ipv6Src | Ipv6Dst, true, _) => {
                self.set_address_of_ipv6(at + if field == Ipv6Src { 8 } else { 24 }, data);
            }
            (Ipv6Flabel, true, _) => {
                let value = self.builder.data(data);
                let (high, low) = (self.builder.right(value, 16), self.builder.swapped(value, 2));
                self.put_bits(at, 0xf, 0, high);
                self.put(at + 2, low);
            }
            (TcpSrc, _, Carried::Tcp) | (UdpSrc, _, Carried::Udp) => self.set_port(carried_at, data),
            (TcpDst, _, Carried::Tcp) | (UdpDst, _, Carried::Udp) => self.set_port(carried_at + 2, data),
            (SctpSrc | SctpDst, _, Carried::Sctp) => {
                self.sctp = Some(ip);
                self.set_port(carried_at + if field == SctpSrc { 0 } else { 2 }, data);
            }
            (Icmpv4Type, _, Carried::Icmpv4) => self.set_of_icmp(carried_at, 8, data),
            (Icmpv4Code, _, Carried::Icmpv4) | (Icmpv6Code, _, Carried::Icmpv6 | Carried::Neighbours(_)) => {
                self.set_of_icmp(carried_at, 0, data)
            }
            (Ipv6NdTarget, _, Carried::Neighbours(_)) => self.set_address_of_ipv6(carried_at + 8, data),
            (Ipv6NdSll | Ipv6NdTll, _, Carried::Neighbours(there)) if there == Some(field) => {
                let at = carried_at + 26;
                let before: Vec<Value> = (0..3).map(|word| self.word(at + 2 * word)).collect();
                self.set_address(at, data);
                self.cover(CARRIED, &before, at);
            }
            // The frame does not have it.
            _ => {}
        }
        Some(())
    }

    /// An address of IPv6, which the checksum of what is carried covers.
    fn set_address_of_ipv6(&mut self, at: usize, data: usize) {
        let before: Vec<Value> = (0..8).map(|word| self.word(at + 2 * word)).collect();
        for word in 0..4 {
            let value = self.builder.data(data + word);
            self.put_double(at + 4 * word, value);
        }
        self.cover(CARRIED, &before, at);
    }

    /// Type and code stand in one word.
    fn set_of_icmp(&mut self, at: usize, shift: u32, data: usize) {
        let (before, value) = (self.word(at), self.builder.data(data));
        self.put_bits(at, 0xff, shift, value);
        self.cover(CARRIED, &[before], at);
    }

    fn set_port(&mut self, at: usize, data: usize) {
        let (before, value) = (self.word(at), self.builder.data(data));
        self.put(at, value);
        self.cover(CARRIED, &[before], at);
    }

    /// TTLs that may not end, and the end that changes bytes.
    pub(super) fn finish(mut self) -> (Vec<Value>, Label) {
        let answer = Answer { popped: self.popped, sets_sctp: self.sctp.is_some() };
        let mut handed = Vec::new();
        if let Some(ip) = self.sctp {
            let place = ip.at as u64 | if ip.is_v6 { IS_V6 } else { 0 };
            handed.push((IP_AT, self.builder.constant(place)));
            handed.push((PORTS, self.builder.bytes(ip.carried_at(), 4)));
        }
        let words = std::mem::take(&mut self.words);
        let covered = |at: usize| at >= 2 && self.doubles.contains_key(&(at - 2));
        let changes =
            words.into_iter().filter(|(at, _)| !covered(*at)).map(|(at, value)| match self.doubles.get(&at) {
                Some(double) => (at, 4, *double),
                None => (at, 2, value),
            });
        let changes: Vec<_> =
            changes.map(|(at, count, value)| (at, count, self.builder.swapped(value, count))).collect();
        (self.hops, self.builder.change_give_and_answer(&changes, &handed, answer.number()))
    }
}
