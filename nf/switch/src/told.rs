//! What the packets of a batch have for controllers.
//!
//! Workers that take packets by the fast path only read the switch, and connections are none of theirs. So what is for controllers waits until the batch was taken: then
//! they are told all at once, by who has the switch to itself. Where nobody wants to be told, or nobody has room, nothing waits.

use weir_flow_tables::agent::Beside;
use weir_flow_tables::{Agent, ForController, Report};
use weir_packet::{BATCH, Slot};

/// What waits for controllers, of a batch.
pub(crate) struct Told {
    packets: Vec<(Slot, ForController)>,
    /// What became of packets beside, by their slots, as far as it is known.
    besides: [Option<Beside>; BATCH],
    /// The slots of packets of which nothing else becomes.
    alone: u64,
    /// Something was for controllers.
    is_used: bool,
}

impl Told {
    pub(crate) fn new() -> Told {
        Told { packets: Vec::new(), besides: [None; BATCH], alone: 0, is_used: false }
    }

    /// A packet of a slot is for controllers.
    pub(crate) fn take(&mut self, agent: &Agent, slot: Slot, report: Report, bytes: &[u8]) {
        self.is_used = true;
        match agent.expects(report.reason) {
            Beside::Told => self.packets.push((slot, report.with(bytes))),
            beside => self.note(slot, beside),
        }
    }

    /// Nothing else becomes of the packet of this slot.
    pub(crate) fn is_alone(&mut self, slot: Slot) {
        self.alone |= slot.bit();
    }

    /// Whether something of the batch was for controllers.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    /// The slots of packets of which nothing else becomes.
    pub(crate) fn alone(&self) -> u64 {
        self.alone
    }

    /// Whether something waits for controllers.
    pub(crate) fn waits(&self) -> bool {
        !self.packets.is_empty()
    }

    /// Tells controllers all that waits; whether one of them took something.
    pub(crate) fn tell(&mut self, agent: &mut Agent) -> bool {
        let mut packets = std::mem::take(&mut self.packets);
        let mut has_told = false;
        for (slot, packet) in packets.drain(..) {
            let beside = agent.tell(&packet);
            has_told |= beside == Beside::Told;
            self.note(slot, beside);
        }
        // With its memory.
        self.packets = packets;
        has_told
    }

    fn note(&mut self, slot: Slot, beside: Beside) {
        if let Some(place) = self.besides.get_mut(slot.index()) {
            *place = Some(place.map_or(beside, |before| before.and(beside)));
        }
    }

    /// What became of the packet of a slot beside.
    pub(crate) fn beside(&self, slot: Slot) -> Beside {
        self.besides.get(slot.index()).copied().flatten().unwrap_or(Beside::NotWanted)
    }

    /// Forgets the batch.
    pub(crate) fn clear(&mut self) {
        self.packets.clear();
        self.besides = [None; BATCH];
        (self.alone, self.is_used) = (0, false);
    }
}
