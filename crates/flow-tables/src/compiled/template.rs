//! Machine code that changes frames: one program for each list of changes, whatever values they set.
//!
//! Such a program is given what code has found of a frame: its tags, and whether IP of which version, MPLS or ARP is behind them. It knows where everything is then, works the changes out one after the
//! other on what it has read, and writes what is different in the end. What is not as in most frames (fragments, what breaks off, extension headers, a TTL that ends)
//! it leaves alone, and says so.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use weir_codegen::Code;
use weir_openflow::Field;

use super::Found;
use crate::fast::program::Op;
use crate::parse::VLAN_TYPES;

mod answer;
mod filled;
mod sheet;
mod writer;

use filled::Values;
pub(crate) use filled::{Alone, Filled};
use writer::write;

/// So many lists of changes get code.
const MOST_TEMPLATES: usize = 64;

/// Longer lists, and more tags that come or go, get no code.
const MOST_CHANGES: usize = 12;
const MOST_PUSHED: usize = 4;
const MOST_POPPED: usize = 3;

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
    /// How many tags it pushes...
    pushed: usize,
    /// ...and takes off before, at most.
    popped: usize,
    /// It sets ports of SCTP.
    sets_sctp: bool,
    /// A frame came that it would change.
    is_wanted: AtomicBool,
    code: OnceLock<Result<Code, String>>,
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
        let moves_too_much = pushed > MOST_PUSHED || popped > MOST_POPPED || !is_in_order;
        if kinds.is_empty() || kinds.len() > MOST_CHANGES || moves_too_much {
            return None;
        }
        let sets_sctp = kinds.iter().any(|kind| matches!(kind, Kind::Set(field) if is_of_sctp(*field)));
        self.tidy();
        if self.all.len() >= MOST_TEMPLATES {
            return None;
        }
        let template = Template {
            kinds: kinds.clone(),
            pushed,
            popped,
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
    /// Whether nothing is to be done beside its code: no tags come and go, so that a frame stays as long as it is, and begins where it does, and no ports of SCTP are
    /// set.
    fn is_alone(&self) -> bool {
        self.pushed + self.popped == 0 && !self.sets_sctp
    }

    /// Makes its code. That takes milliseconds, and memory.
    pub(super) fn compile(&self) {
        self.code.get_or_init(|| {
            let program = write(self).map_err(|fault| fault.to_string());
            program.and_then(|program| Code::compile(&program).map_err(|failed| failed.to_string()))
        });
    }
}

#[cfg(test)]
mod tests;
