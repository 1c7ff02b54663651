//! What code is made for: what the flows of small tables ask, what they do, and what has to be known of packets for everything else; without the
//! values that change often.

use crate::depth::Depth;
use crate::fast::program::{Act, Edit, End, Program};
use crate::flow::Flow;
use crate::index::{Slot, Term, terms};
use crate::needs::Needs;
use crate::table::FlowTable;
use crate::words::METADATA;

use super::{MOST_MET, Met, Target, Then};

/// What code looks into, and how far; the first table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) needs: Needs,
    pub(super) root: Node,
}

/// A table, on one of the ways that lead to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// Its flows in their order, which code tries.
    Flows(Vec<FlowShape>),
    /// It has this number, and is searched by who runs the code.
    Search(u8),
}

/// What a flow asks and does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlowShape {
    /// For each of these there is a word of data.
    pub(super) asks: Vec<Ask>,
    pub(super) does: Does,
}

/// What is asked of a word of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) word: usize,
    pub(super) mask: u32,
    /// Bits of the value that stand in the code: they say what kind of packet it is.
    pub(super) fixed: u32,
}

/// What becomes of packets that meet a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Does {
    /// They go the usual way from the beginning.
    Usual,
    /// Code changes them, and they leave.
    Changes(Changes),
    /// They go the usual way from this flow on.
    Meets,
    /// They go on in another table, with these bits of metadata, of which there are two words of data.
    Leads(u64, Box<Node>),
}

/// How a frame is changed. For each address there are two words of data, the first with 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) sets_destination: bool,
    pub(super) sets_source: bool,
    pub(super) decrements_ttl: bool,
}

/// The bits of a word that say what kind of packet it is: which fields it has, the type of the frame, and the protocol of IP.
pub(super) const fn kind_bits(word: usize) -> u32 {
    match word {
        0 | 1 => u32::MAX,
        10 => 0xffff_0000,
        11 => 0x00ff_0000,
        _ => 0,
    }
}

impl Shape {
    /// Whether nothing is of account but the port that packets come in by, and none is changed.
    pub(super) fn is_by_port(&self) -> bool {
        self.needs.depth == Depth::Port && !self.root.changes()
    }
}

impl Node {
    /// Whether code changes packets.
    fn changes(&self) -> bool {
        let changes = |flow: &FlowShape| match &flow.does {
            Does::Usual | Does::Meets => false,
            Does::Changes(changes) => *changes != Changes::default(),
            Does::Leads(_, to) => to.changes(),
        };
        match self {
            Node::Flows(flows) => flows.iter().any(changes),
            Node::Search(_) => false,
        }
    }

    /// How many words of data it has.
    pub(super) fn words(&self) -> usize {
        match self {
            Node::Flows(flows) => flows.iter().map(FlowShape::words).sum(),
            Node::Search(_) => 0,
        }
    }

    /// How many answers it has.
    pub(super) fn answers(&self) -> usize {
        match self {
            Node::Flows(flows) => flows.iter().map(FlowShape::answers).sum(),
            Node::Search(_) => 1,
        }
    }
}

impl FlowShape {
    /// How many words of data it has, with those of tables that it leads to.
    pub(super) fn words(&self) -> usize {
        let behind = match &self.does {
            Does::Usual | Does::Meets => 0,
            Does::Changes(changes) => 2 * (usize::from(changes.sets_destination) + usize::from(changes.sets_source)),
            Does::Leads(_, to) => 2 + to.words(),
        };
        self.asks.len() + behind
    }

    /// How many answers it has.
    pub(super) fn answers(&self) -> usize {
        match &self.does {
            Does::Usual => 0,
            Does::Meets | Does::Changes(_) => 1,
            Does::Leads(_, to) => to.answers(),
        }
    }
}

/// The tables that code is for: those that the first one leads to.
pub(super) struct Describing<'t> {
    /// By number.
    pub(super) tables: &'t [FlowTable],
    /// Whether a table has more flows than are tried one after the other.
    pub(super) has_many: &'t [bool],
    /// How many more flows may be tried, in all.
    pub(super) left: usize,
    pub(super) data: Vec<u32>,
    pub(super) targets: Vec<Target>,
    /// Tables that code tries the flows of, and those that are searched.
    pub(super) tried: Vec<u8>,
    pub(super) searched: Vec<u8>,
}

impl Describing<'_> {
    /// A table, on the way by these flows. Data and targets are in the order in which code is written.
    pub(super) fn node(&mut self, number: u8, met: &[Met]) -> Node {
        let table = self.tables.get(usize::from(number));
        let has_many = self.has_many.get(usize::from(number)).copied().unwrap_or(true);
        let Some(table) = table.filter(|table| !has_many && table.len() <= self.left && met.len() < MOST_MET) else {
            self.searched.push(number);
            self.targets.push(Target::new(met, Then::Search(number)));
            return Node::Search(number);
        };
        self.tried.push(number);
        self.left -= table.len();
        Node::Flows(table.in_order().map(|(slot, flow)| self.flow(flow, &[met, &[(number, slot)]].concat())).collect())
    }

    /// A flow, the last one that was met.
    fn flow(&mut self, flow: &Flow, met: &[(u8, Slot)]) -> FlowShape {
        let asked = terms(&flow.key);
        let asks = asked.iter().map(|Term { word, mask, value }| {
            let word = usize::from(*word);
            Ask { word, mask: *mask, fixed: value & kind_bits(word) }
        });
        let asks: Vec<Ask> = asks.collect();
        self.data.extend(asked.iter().zip(&asks).map(|(term, ask)| term.value & !ask.fixed));
        let does = match flow.program.as_deref() {
            None => Does::Usual,
            Some(program) => self.program(program, met),
        };
        FlowShape { asks, does }
    }

    fn program(&mut self, program: &Program, met: &[Met]) -> Does {
        if let Some(next) = program.next
            && program.only_leads()
        {
            let (value, mask) = program.metadata.unwrap_or_default();
            self.data
                .extend([value & mask, value & mask].iter().zip([32, 0]).map(|(value, low)| (value >> low) as u32));
            return Does::Leads(mask, Box::new(self.node(next, met)));
        }
        let plain = program.plain.as_ref().and_then(|Act { changes, end }| Some((changes.edit?, *end)));
        match plain {
            Some((Edit { destination, source, decrements_ttl, pops_vlan: false }, end))
                if !matches!(end, End::Group(_) | End::Controllers(_)) =>
            {
                self.data.extend([destination, source].into_iter().flatten().flat_map(in_memory));
                self.targets.push(Target::new(met, Then::Leave(end)));
                Does::Changes(Changes {
                    sets_destination: destination.is_some(),
                    sets_source: source.is_some(),
                    decrements_ttl,
                })
            }
            _ => {
                if let Some(last) = met.last() {
                    self.targets.push(Target::new(met, Then::Go(*last)));
                }
                Does::Meets
            }
        }
    }
}

/// An address as two words, the first with 16 bits: as they stand in memory, the first byte the lowest.
pub(super) fn in_memory(address: [u8; 6]) -> [u32; 2] {
    let [a, b, c, d, e, f] = address;
    [u32::from_le_bytes([a, b, 0, 0]), u32::from_le_bytes([c, d, e, f])]
}

/// The words of metadata, with how far their bits lie from the end.
pub(super) const METADATA_WORDS: [(usize, u32); 2] = [(METADATA, 32), (METADATA + 1, 0)];
