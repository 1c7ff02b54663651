//! What a function is told of packets that routes lead to it.

use weir_net::nexthop::Inlet;
use weir_packet::{Held, Key, LaneId, Lanes, Slot};
use weir_stage::{Declaration, Graph, GraphError};

/// The lanes by which a function is told which [`Inlet`] a packet came to: its argument and, where the function has several inlets, its
/// number.
#[derive(Clone, Copy, Debug)]
pub struct InletKeys {
    argument: Key<u32>,
    number: Option<Key<u32>>,
}

/// Who tells a function of packets: the two are lanes of their own, as the one leaves packets to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Teller {
    /// The fast path.
    Workers,
    /// The slow path.
    Control,
}

impl InletKeys {
    /// Claims lanes for a function with so many inlets; none where it has none.
    pub(crate) fn claim(graph: &mut Graph, inlets: usize, teller: Teller) -> Result<Option<InletKeys>, GraphError> {
        let (argument, number) = match teller {
            Teller::Workers => ("what the function is told", "which inlet of the function"),
            Teller::Control => ("what the slow path tells the function", "which inlet the slow path chose"),
        };
        if inlets == 0 {
            return Ok(None);
        }
        let number = if inlets > 1 { Some(graph.claim(number)?) } else { None };
        Ok(Some(InletKeys { argument: graph.claim(argument)?, number }))
    }

    /// The lanes.
    pub(crate) fn lanes(self) -> Vec<LaneId> {
        [Some(self.argument), self.number].into_iter().flatten().map(LaneId::from).collect()
    }

    /// Declares a stage of the function that reads them.
    pub fn reads(self, declaration: Declaration) -> Declaration {
        declaration.reads(&self.lanes())
    }

    /// The inlet that a packet came to.
    #[inline(always)]
    pub fn of(self, lanes: &Lanes, slot: Slot) -> Inlet {
        let number = self.number.map_or(0, |number| lanes.get(number, slot));
        Inlet { number: number as u16, argument: lanes.get(self.argument, slot) }
    }

    /// Notes the inlet that a packet goes to.
    #[inline(always)]
    pub(crate) fn note(self, lanes: &mut Lanes, slot: Slot, inlet: Inlet) {
        lanes.set(self.argument, slot, inlet.argument);
        if let Some(number) = self.number {
            lanes.set(number, slot, u32::from(inlet.number));
        }
    }

    /// The same of a packet that is held.
    pub(crate) fn note_held(self, packet: &mut Held, inlet: Inlet) {
        packet.set(self.argument, inlet.argument);
        if let Some(number) = self.number {
            packet.set(number, u32::from(inlet.number));
        }
    }
}
