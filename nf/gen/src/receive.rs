//! Stage `gen.receive`: measures what comes back on one port, and answers ARP and ND there.

use std::sync::Arc;

use ipnet::IpNet;
use weir_measure::signature::Signature;
use weir_packet::{Batch, Held, Packet};
use weir_stage::{Declaration, Out, Stage, ways};

use crate::resolve::{self, Heard};
use crate::shared::{Board, Content, Received, Shared, Watch};

ways! {
    /// Ways out of [`Receive`].
    pub enum Exit {
        /// Answers, back to the port.
        Out => way "out",
        /// It carried a signature, and was measured.
        Measured => consume "measured",
        /// It carried no signature.
        Unsigned => consume "unsigned",
        /// A question for, or an answer with, an Ethernet address (ARP, ND).
        Neighbor => consume "neighbor",
        /// Somebody asked for an address that is answered for.
        Answered => create "answered",
    }
}

/// How often numbers that are wanted are given when nothing comes, nanoseconds, where time is not virtual.
const GLANCE: u64 = 1_000_000;

/// Measures what comes back on one port.
pub(crate) struct Receive {
    port: u16,
    mac: [u8; 6],
    /// Networks whose addresses are answered for.
    networks: Vec<IpNet>,
    received: Received,
    shared: Arc<Shared>,
    watch: Arc<Watch>,
    board: Arc<Board>,
}

impl Receive {
    pub(crate) fn new(
        port: u16,
        mac: [u8; 6],
        networks: Vec<IpNet>,
        streams: usize,
        (shared, watch): (Arc<Shared>, Arc<Watch>),
    ) -> Receive {
        let board = shared.add_board();
        Receive { port, mac, networks, received: Received::new(streams), shared, watch, board }
    }

    /// Keeps the delay of a packet for the figures that a disturbed machine does not spoil.
    #[inline]
    fn note_delay(&mut self, signature: &Signature, now: u64, read: u64) {
        if !signature.intact {
            return;
        }
        let Some(age) = signature.age(read) else { return };
        let stream = usize::from(signature.stream);
        let sent = read.saturating_add_signed(-age);
        if self.watch.is_calm(sent, now, read) {
            if let Some(calm) = self.received.calm.get_mut(stream) {
                calm.record(age);
            }
        } else if let Some(count) = self.received.set_aside.get_mut(stream) {
            *count += 1;
        }
    }

    /// What a packet without a signature is.
    #[cold]
    fn hear(&self, packet: &Packet, out: &mut Out<'_>) -> Exit {
        match resolve::hear(packet.bytes()) {
            Heard::Nothing => Exit::Unsigned,
            Heard::Tells(address, mac) => {
                let asked = self.shared.hops.iter().filter(|hop| hop.port == self.port && hop.address == address);
                asked.for_each(|hop| hop.learn(mac));
                Exit::Neighbor
            }
            Heard::Asks { who, mac, whom } => {
                if resolve::is_ours(&self.networks, whom)
                    && let Some(mut answer) = out.alloc()
                {
                    resolve::write_answer(&mut answer, self.mac, whom, who, mac);
                    out.emit(Held::fresh(answer, self.port, out.now()), Exit::Out, Exit::Answered);
                }
                Exit::Neighbor
            }
        }
    }

    #[cold]
    fn publish(&self) {
        let received = Some(self.received.clone());
        self.shared.answer(&self.board, Content { received, ..Content::default() });
    }
}

/// What [`Receive`] declares.
pub(crate) fn declaration() -> Declaration {
    Declaration::of::<Exit>().polled()
}

impl Stage for Receive {
    fn declare(&self) -> Declaration {
        declaration()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let (now, read) = (out.now(), out.read_clock());
        if !out.is_virtual() {
            self.watch.see(now);
        }
        batch.each(|slot, packet, _| {
            let exit = match self.received.receiver.receive(packet.bytes(), read) {
                Some(signature) => {
                    self.note_delay(&signature, now, read);
                    Exit::Measured
                }
                None => self.hear(packet, out),
            };
            out.answer(slot, exit);
        });
        if self.shared.wants(&self.board) {
            self.publish();
        }
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        if self.shared.wants(&self.board) {
            self.publish();
        }
        out.look_again(GLANCE)
    }

    fn clear(&mut self, _give: &mut dyn FnMut(Held)) {
        self.publish();
    }
}
