//! Machine code that changes frames: one program for each list of changes, whatever values they set.
//!
//! Such a program is given what code has found of a frame: its tags, and whether IP of which version, MPLS or ARP is behind them. It knows where everything is then, works the changes out one after the
//! other on what it has read, and writes what is different in the end. What is not as in most frames (fragments, what breaks off, extension headers, a TTL that ends)
//! it leaves alone, and says so.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use weir_codegen::{Code, RESULTS};
use weir_openflow::Field;

use super::{Found, Version};
use crate::fast::frame::{Frame, TAG};
use crate::fast::program::Op;
use crate::parse::VLAN_TYPES;
use crate::sctp;
use crate::tags::{FIRST_TYPE, LEAST};

mod sheet;
mod writer;

use writer::write;

/// So many lists of changes get code.
const MOST_TEMPLATES: usize = 64;

/// Longer lists, and more tags, get no code.
const MOST_CHANGES: usize = 12;
const MOST_PUSHED: usize = 2;

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
    SetTtl,
    Push(u16),
    Pop,
    PushMpls(u16),
    PopMpls(u16),
    SetMplsTtl,
    MplsTtl,
    CopyOut,
    CopyIn,
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
                _ if is_of_ip(field) || is_carried(field) || is_of_mpls(field) || is_of_arp(field) => Kind::Set(field),
                _ => return None,
            },
            Op::SetTtl(_) => Kind::SetTtl,
            // What is behind such a tag is not known.
            Op::PopMpls(kind) if VLAN_TYPES.contains(&kind) => return None,
            Op::PushMpls(kind) => Kind::PushMpls(kind),
            Op::PopMpls(kind) => Kind::PopMpls(kind),
            Op::SetMplsTtl(_) => Kind::SetMplsTtl,
            Op::DecrementMplsTtl => Kind::MplsTtl,
            Op::CopyTtlOut => Kind::CopyOut,
            Op::CopyTtlIn => Kind::CopyIn,
        })
    }

    /// Whether it is about what stands behind tags.
    fn is_behind(self) -> bool {
        !matches!(
            self,
            Kind::Destination | Kind::Source | Kind::Push(_) | Kind::Pop | Kind::Set(Field::VlanVid | Field::VlanPcp)
        )
    }

    fn pushes(self) -> bool {
        matches!(self, Kind::Push(_) | Kind::PushMpls(_))
    }

    fn pops(self) -> bool {
        matches!(self, Kind::Pop | Kind::PopMpls(_))
    }
}

/// Whether it is a field of IP that code sets.
fn is_of_ip(field: Field) -> bool {
    use Field::{IpDscp, IpEcn, Ipv4Dst, Ipv4Src, Ipv6Dst, Ipv6Flabel, Ipv6Src};
    matches!(field, IpDscp | IpEcn | Ipv4Src | Ipv4Dst | Ipv6Src | Ipv6Dst | Ipv6Flabel)
}

/// Whether it is one of what IP carries.
fn is_carried(field: Field) -> bool {
    use Field::{Icmpv4Code, Icmpv4Type, Icmpv6Code, TcpDst, TcpSrc, UdpDst, UdpSrc};
    matches!(field, TcpSrc | TcpDst | UdpSrc | UdpDst)
        || matches!(field, Icmpv4Type | Icmpv4Code | Icmpv6Code)
        || is_of_neighbours(field)
        || is_of_sctp(field)
}

/// Whether it is one of SCTP, whose CRC is of all that it carries: code sees the beginning alone, and sets the ports; the CRC is seen to behind it.
fn is_of_sctp(field: Field) -> bool {
    matches!(field, Field::SctpSrc | Field::SctpDst)
}

/// Whether it is one of neighbour discovery.
fn is_of_neighbours(field: Field) -> bool {
    matches!(field, Field::Ipv6NdTarget | Field::Ipv6NdSll | Field::Ipv6NdTll)
}

/// Whether it is one of an MPLS entry.
fn is_of_mpls(field: Field) -> bool {
    matches!(field, Field::MplsLabel | Field::MplsTc | Field::MplsBos)
}

/// Whether it is one of ARP.
fn is_of_arp(field: Field) -> bool {
    matches!(field, Field::ArpOp | Field::ArpSha | Field::ArpSpa | Field::ArpTha | Field::ArpTpa)
}

/// The words that an operation sets.
fn values(op: Op) -> Vec<u32> {
    let address =
        |[a, b, c, d, e, f]: [u8; 6]| vec![u32::from_be_bytes([0, 0, a, b]), u32::from_be_bytes([c, d, e, f])];
    match op {
        Op::EthDst(to) => address(to),
        Op::EthSrc(from) => address(from),
        Op::SetTtl(to) | Op::SetMplsTtl(to) => vec![to.into()],
        Op::Set(field, value) => {
            let value = value & field.ones();
            (0..words_of(field)).rev().map(|word| (value >> (32 * word)) as u32).collect()
        }
        _ => Vec::new(),
    }
}

/// How many words of data a field takes.
fn words_of(field: Field) -> usize {
    field.bits().div_ceil(32) as usize
}

/// How many words of data a change takes.
fn kind_words(kind: Kind) -> usize {
    match kind {
        Kind::Destination | Kind::Source => 2,
        Kind::SetTtl | Kind::SetMplsTtl => 1,
        Kind::Set(field) => words_of(field),
        _ => 0,
    }
}

/// A list of changes, without their values.
#[derive(Debug)]
pub(crate) struct Template {
    kinds: Box<[Kind]>,
    /// How many tags it pushes.
    pushed: usize,
    pops: bool,
    /// It sets ports of SCTP.
    sets_sctp: bool,
    /// A frame came that it would change.
    is_wanted: AtomicBool,
    code: OnceLock<Result<Code, String>>,
}

/// The changes of a template with their values.
#[derive(Clone, Debug)]
pub(crate) struct Filled {
    template: Arc<Template>,
    values: Values,
}

/// The words that changes set, a few of them where they are: those of two addresses, and one more.
#[derive(Clone, Debug)]
enum Values {
    Few([u32; 5]),
    Many(Box<[u32]>),
}

impl Values {
    fn of(ops: &[Op]) -> Values {
        let all: Vec<u32> = ops.iter().flat_map(|op| values(*op)).collect();
        let mut few = [0; 5];
        match few.get_mut(..all.len()) {
            Some(places) => {
                places.copy_from_slice(&all);
                Values::Few(few)
            }
            None => Values::Many(all.into()),
        }
    }

    /// The words. Behind a few of them stand zeroes.
    #[inline(always)]
    fn words(&self) -> &[u32] {
        match self {
            Values::Few(words) => words,
            Values::Many(words) => words,
        }
    }
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
        let values = Values::of(ops);
        if let Some(known) = self.all.get(&kinds) {
            return Some(Filled { template: Arc::clone(known), values });
        }
        let pushed = kinds.iter().filter(|kind| kind.pushes()).count();
        let popped = kinds.iter().filter(|kind| kind.pops()).count();
        // A tag that is pushed is not taken off again: that would fill a short frame up.
        let is_in_order = kinds.iter().rev().skip_while(|kind| !kind.pops()).all(|kind| !kind.pushes());
        if kinds.is_empty() || kinds.len() > MOST_CHANGES || pushed > MOST_PUSHED || popped > 1 || !is_in_order {
            return None;
        }
        let sets_sctp = kinds.iter().any(|kind| matches!(kind, Kind::Set(field) if is_of_sctp(*field)));
        // The packet would be elsewhere when its CRC is seen to.
        if sets_sctp && pushed + popped > 0 {
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
            sets_sctp,
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
    #[inline(always)]
    pub(crate) fn change(&self, frame: &mut impl Frame, found: Found, results: &mut [u32; RESULTS]) -> bool {
        let Template { pushed, pops, sets_sctp, is_wanted, code, .. } = &*self.template;
        let Some(Ok(code)) = code.get() else {
            // All workers read the line: it is written once.
            if !is_wanted.load(Ordering::Relaxed) {
                is_wanted.store(true, Ordering::Relaxed);
            }
            return false;
        };
        if *pushed > 0 || *pops {
            return self.change_tags(code, frame, found, results);
        }
        if *sets_sctp {
            return self.change_sctp(code, frame, found, results);
        }
        self.run(code, frame, found, results)
    }

    /// The same where nothing is to be done beside the code.
    #[inline(always)]
    fn run(&self, code: &Code, frame: &mut impl Frame, found: Found, results: &mut [u32; RESULTS]) -> bool {
        let length = frame.bytes().len();
        let Some(window) = frame.window() else { return false };
        code.run_with(window, [length as u64, found.kind()], self.values.words(), results) == Some(CHANGED)
    }

    /// The same where ports of SCTP are set, which its CRC covers; a first fragment, and what is shorter than its header, has none.
    #[inline(never)]
    fn change_sctp(&self, code: &Code, frame: &mut impl Frame, found: Found, results: &mut [u32; RESULTS]) -> bool {
        let at = FIRST_TYPE + 2 + TAG * found.tags();
        let place = match found.ip() {
            Version::Four => sctp::place_behind(frame.bytes(), at, false),
            Version::Six => sctp::place_behind(frame.bytes(), at, true),
            Version::None | Version::Mpls | Version::Arp => None,
        };
        let before = place.and_then(|place| Some((sctp::ports(frame.bytes(), &place)?, place)));
        let has_changed = self.run(code, frame, found, results);
        if let Some((ports, place)) = before.filter(|_| has_changed) {
            sctp::update(frame.bytes_mut(), &place, ports);
        }
        has_changed
    }

    /// The same where tags come and go, and the frame begins elsewhere then.
    #[inline(never)]
    fn change_tags(&self, code: &Code, frame: &mut impl Frame, found: Found, results: &mut [u32; RESULTS]) -> bool {
        let (length, front) = (frame.bytes().len(), self.template.pushed * TAG);
        if !frame.has_room(front, if self.template.pops { TAG } else { 0 }) {
            return false;
        }
        if front > 0 {
            frame.prepend(front);
        }
        let inputs = [length as u64, found.kind()];
        let answer = frame.window().and_then(|window| code.run_with(window, inputs, self.values.words(), results));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, rewrite};

    /// A frame in a buffer that goes on behind it, so that code sees bytes that are none of its own.
    struct InBuffer(Vec<u8>, usize);

    impl Frame for InBuffer {
        fn bytes(&self) -> &[u8] {
            &self.0[..self.1]
        }

        fn bytes_mut(&mut self) -> &mut [u8] {
            &mut self.0[..self.1]
        }

        fn window(&mut self) -> Option<&mut [u8; weir_codegen::WINDOW]> {
            self.0.first_chunk_mut()
        }

        fn has_room(&self, _: usize, _: usize) -> bool {
            false
        }

        fn prepend(&mut self, _: usize) {}
        fn trim_front(&mut self, _: usize) {}
        fn lengthen(&mut self, _: usize) {}
        fn replace(&mut self, _: &[u8]) {}
    }

    /// What neighbours say behind so many tags, with a first option: as much as IP says of it, and more behind that.
    fn said_by_neighbours(kind: u8, [option, units]: [u8; 2], said: u8, tags: u8) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        (0..tags).for_each(|_| bytes.extend([0x81, 0, 0, 1]));
        bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, said, 58, 64]);
        bytes.extend([0x77; 32]);
        bytes.extend([kind, 0, said, 0x35, 0, 0, 0, 0]);
        bytes.extend([0xfd; 16]);
        bytes.extend([option, units, 3, 3, 3, 3, 3, 3, 1, 1, 5, 5, 5, 5, 5, 5]);
        bytes.resize(200, 1);
        bytes
    }

    fn by_definition(frame: &[u8], ops: &[Op]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        for op in ops {
            let Op::Set(field, value) = *op else { panic!("{op:?}") };
            let (fields, layout) = parse::parse(&frame);
            rewrite::set_in(&mut frame, &fields, &layout, field, value);
        }
        frame
    }

    /// What neighbours say, of every length that IP may say and that a frame may have, with every first option: what code changes is what the definition does,
    /// and it leaves alone what it does not see. The code of tables would have seen most of that before.
    #[test]
    fn neighbours_alone_are_changed_as_the_definition_does() {
        let (target, own, other) = (Field::Ipv6NdTarget, Field::Ipv6NdSll, Field::Ipv6NdTll);
        let lists: [&[Field]; 5] =
            [&[target], &[own], &[other], &[own, target, Field::Icmpv6Code], &[other, Field::Ipv6Dst]];
        let mut templates = Templates::default();
        for fields in lists {
            let set = |field: &Field| Op::Set(*field, 0xfedc_ba98_7654_3210_0123_4567_89ab_cdef & field.ones());
            let ops: Vec<Op> = fields.iter().map(set).collect();
            let filled = templates.fill(&ops).unwrap();
            filled.template.compile();
            let mut counts = [0, 0];
            let mut try_one = |kind, option, said: u8, length: usize| {
                let tags = said % 3;
                let before = said_by_neighbours(kind, option, said, tags);
                let mut frame = InBuffer(before.clone(), length);
                let has = filled.change(&mut frame, Found::new(0, 0, tags, Version::Six), &mut [0; RESULTS]);
                counts[usize::from(has)] += 1;
                let (frame_before, behind) = before.split_at(length);
                let wanted = if has { [&by_definition(frame_before, &ops), behind].concat() } else { before };
                assert_eq!(frame.0, wanted, "{fields:?}: {kind}, option {option:?}, {said} of {length} bytes");
            };
            for (kind, option, units) in (0..36).map(|n| (133 + n / 9, n / 3 % 3, n % 3)) {
                for said in 0..=40 {
                    (50..=102).step_by(4).for_each(|length| try_one(kind, [option, units], said, length));
                }
            }
            assert!(counts.iter().all(|count| *count > 1000), "{counts:?} of {fields:?}");
        }
    }

    /// Packets of SCTP of every length that IP may say and that a frame may have, fragments too, with their CRC.
    #[test]
    fn sctp_alone_is_changed_as_the_definition_does() {
        let packet = |is_v6: bool, said: u8, fragment: [u8; 2], tags: u8| {
            let mut bytes = vec![2; 12];
            (0..tags).for_each(|_| bytes.extend([0x81, 0, 0, 1]));
            if is_v6 {
                bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, said, 132, 64]);
                bytes.extend([0x77; 32]);
            } else {
                bytes.extend([8, 0, 0x45, 0, 0, said, 0, 0, fragment[0], fragment[1], 64, 132, said, 9]);
                bytes.extend([0x77; 8]);
            }
            bytes.extend((0..220 - bytes.len()).map(|at| (at * 89) as u8));
            bytes
        };
        let lists: [&[(Field, u128)]; 3] = [
            &[(Field::SctpSrc, 0x1234)],
            &[(Field::SctpDst, 0xfedc), (Field::IpDscp, 7), (Field::SctpDst, 9)],
            &[(Field::Ipv4Src, 0x0a01_0203), (Field::SctpDst, 0), (Field::SctpSrc, 0xffff), (Field::Ipv6Dst, 3)],
        ];
        let mut templates = Templates::default();
        for list in lists {
            let ops: Vec<Op> = list.iter().map(|(field, value)| Op::Set(*field, *value)).collect();
            let filled = templates.fill(&ops).unwrap();
            filled.template.compile();
            let mut counts = [0, 0];
            let mut try_one = |is_v6, said, length: usize, fragment| {
                let tags = said % 3;
                let before = packet(is_v6, said, fragment, tags);
                let version = if is_v6 { Version::Six } else { Version::Four };
                let mut frame = InBuffer(before.clone(), length);
                let has = filled.change(&mut frame, Found::new(0, 0, tags, version), &mut [0; RESULTS]);
                counts[usize::from(has)] += 1;
                let (frame_before, behind) = before.split_at(length);
                let wanted = if has { [&by_definition(frame_before, &ops), behind].concat() } else { before };
                assert_eq!(frame.0, wanted, "{list:?}: IPv6: {is_v6}, {said} of {length} bytes, {fragment:?}");
            };
            for said in 0..=150 {
                for length in (62..=200).step_by(3) {
                    try_one(true, said, length, [0, 0]);
                    let fragments = [[0, 0], [0x40, 0], [0x20, 0], [0, 1]];
                    fragments.into_iter().for_each(|fragment| try_one(false, said, length, fragment));
                }
            }
            assert!(counts.iter().all(|count| *count > 1000), "{counts:?} of {list:?}");
        }
    }
}
