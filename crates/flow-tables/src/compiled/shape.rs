//! What code is made for: what the flows of a table ask, and what they do, without the values that change often.

use crate::depth::Depth;
use crate::fast::program::{End, Op, Program};
use crate::flow::Flow;
use crate::index::{Term, terms};
use crate::table::FlowTable;

use super::{TOO_MANY, Target};

const DOES_MORE: &str = "a flow does more than to change addresses and TTL and to send";

/// What a table looks into, and how far; its flows in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) depth: Depth,
    pub(super) flows: Vec<FlowShape>,
}

/// What a flow asks and does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlowShape {
    /// For each of these there is a word of data.
    pub(super) asks: Vec<Ask>,
    /// Nothing if packets that meet it go the usual way.
    pub(super) does: Option<Does>,
}

/// What is asked of a word of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) word: usize,
    pub(super) mask: u32,
    /// Bits of the value that stand in the code: they say what kind of packet it is.
    pub(super) fixed: u32,
}

/// How a frame is changed. For each address there are two words of data, the first with 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Does {
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

/// A table as code sees it.
pub(super) struct Described {
    pub(super) shape: Shape,
    pub(super) data: Vec<u32>,
    pub(super) targets: Vec<Target>,
}

/// What a table is like; why there is no code for it, if there is none.
pub(super) fn describe(table: &FlowTable, most: usize) -> Result<Described, &'static str> {
    if table.is_empty() {
        return Err("it has no flows");
    }
    if table.len() > most {
        return Err(TOO_MANY);
    }
    let shape = Shape { depth: Depth::Port, flows: Vec::new() };
    let mut described = Described { shape, data: Vec::new(), targets: Vec::new() };
    for (slot, flow) in table.in_order() {
        described.add(slot, flow)?;
    }
    Ok(described)
}

impl Described {
    fn add(&mut self, slot: u32, flow: &Flow) -> Result<(), &'static str> {
        let changes = flow.program.as_ref().and_then(|program| Changes::of(program));
        // What goes on to other tables is better looked up there a batch at a time.
        let leads_on = flow.program.as_ref().is_some_and(|program| program.next.is_some());
        if changes.is_none() && (leads_on || !flow.is_miss()) {
            return Err(DOES_MORE);
        }
        let asked = terms(&flow.key);
        let asks = asked.iter().map(|Term { word, mask, value }| {
            let word = usize::from(*word);
            Ask { word, mask: *mask, fixed: value & kind_bits(word) }
        });
        let asks: Vec<Ask> = asks.collect();
        self.data.extend(asked.iter().zip(&asks).map(|(term, ask)| term.value & !ask.fixed));
        if let Some(Changes { destination, source, .. }) = &changes {
            self.data.extend([destination, source].into_iter().flatten().flatten());
        }
        self.shape.depth = self.shape.depth.max(flow.depth());
        self.targets.push((slot, changes.as_ref().map_or(End::Nowhere, |changes| changes.end)));
        self.shape.flows.push(FlowShape { asks, does: changes.map(|changes| changes.does()) });
        Ok(())
    }
}

/// What a flow does, if code is made for it.
#[derive(Debug, Default)]
struct Changes {
    destination: Option<[u32; 2]>,
    source: Option<[u32; 2]>,
    decrements_ttl: bool,
    end: End,
}

impl Changes {
    /// One list that is carried out at once, with each change once and one way out that is no group.
    fn of(program: &Program) -> Option<Changes> {
        let Program { meter: None, applied, clears: _, written: None, metadata: _, next: None } = program else {
            return None;
        };
        if !applied.more.is_empty() || matches!(applied.first.end, End::Group(_)) {
            return None;
        }
        let mut changes = Changes { end: applied.first.end, ..Changes::default() };
        for op in &applied.first.ops {
            let is_new = match *op {
                Op::EthDst(address) => changes.destination.replace(words(address)).is_none(),
                Op::EthSrc(address) => changes.source.replace(words(address)).is_none(),
                Op::DecrementTtl => !std::mem::replace(&mut changes.decrements_ttl, true),
                _ => false,
            };
            if !is_new {
                return None;
            }
        }
        Some(changes)
    }

    fn does(&self) -> Does {
        Does {
            sets_destination: self.destination.is_some(),
            sets_source: self.source.is_some(),
            decrements_ttl: self.decrements_ttl,
        }
    }
}

/// An address as two words, the first with 16 bits.
fn words(address: [u8; 6]) -> [u32; 2] {
    let [a, b, c, d, e, f] = address;
    [u32::from_be_bytes([0, 0, a, b]), u32::from_be_bytes([c, d, e, f])]
}
