//! The stages of the kinds `ipv4-rewrite` and `ipv6-rewrite`.

use std::marker::PhantomData;
use std::sync::Arc;

use weir_packet::{Batch, Packet};
use weir_stage::{Declaration, FollowedNeighbor, Out, Stage, Ways};
use weir_wire::{Ethernet, MacAddr, View};

use crate::Egress;
use crate::fast::rewrite::{Header, rewrite, source_word, trim};
use crate::steps::checked;
use crate::tables::fib::Adjacency;

weir_stage::ways! {
    /// Ways out of [`Rewriting`].
    pub(super) enum Exit {
        /// One hop less to live, and the next hop's Ethernet header.
        Out => way "out",
        /// Its TTL or hop limit ends here; it is as it was.
        Expired => way "expired",
        /// Longer than the port's MTU; it is as it was, but for bytes that follow the IP packet.
        TooBig => way "too-big",
    }
}

weir_stage::ways! {
    /// Ways out of [`Following`].
    pub(super) enum FollowingExit {
        /// One hop less to live, and the neighbour's Ethernet header.
        Out => way "out",
        /// Its TTL or hop limit ends here; it is as it was.
        Expired => way "expired",
        /// Longer than the port's MTU; it is as it was, but for bytes that follow the IP packet.
        TooBig => way "too-big",
        /// The neighbour's Ethernet address is not known; it is as it was.
        Unresolved => way "unresolved",
    }
}

impl From<Exit> for FollowingExit {
    #[inline(always)]
    fn from(exit: Exit) -> FollowingExit {
        match exit {
            Exit::Out => FollowingExit::Out,
            Exit::Expired => FollowingExit::Expired,
            Exit::TooBig => FollowingExit::TooBig,
        }
    }
}

/// What a stage with these ways declares.
fn declaration<H: Header, W: Ways>() -> Declaration {
    Declaration::of::<W>().reads(&[checked(H::FAMILY)])
}

/// Sends a packet on by a port, if it may go there.
#[inline(always)]
fn send_on<H: Header>(packet: &mut Packet, adjacency: Adjacency, egress: &Egress) -> Exit {
    if H::hops(packet.window(Ethernet::LEN)) <= 1 {
        return Exit::Expired;
    }
    let longest = Ethernet::LEN + egress.shape().longest();
    if packet.len() > longest {
        trim(packet, Ethernet::LEN, H::FAMILY);
    }
    if packet.len() > longest {
        return Exit::TooBig;
    }
    rewrite::<H>(packet, adjacency, source_word::<H>(egress));
    Exit::Out
}

/// What packets are given that go to a station.
pub(super) fn to_station(mac: MacAddr) -> Adjacency {
    Adjacency::forward(0, mac)
}

/// Sends packets of one family to one station.
pub(super) struct Rewriting<H> {
    adjacency: Adjacency,
    egress: Arc<Egress>,
    of: PhantomData<fn() -> H>,
}

impl<H: Header> Rewriting<H> {
    pub(super) fn new(to: MacAddr, egress: &Arc<Egress>) -> Rewriting<H> {
        Rewriting { adjacency: to_station(to), egress: Arc::clone(egress), of: PhantomData }
    }

    /// What it declares.
    pub(super) fn declaration() -> Declaration {
        declaration::<H, Exit>()
    }
}

impl<H: Header + 'static> Stage for Rewriting<H> {
    fn declare(&self) -> Declaration {
        Self::declaration()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        out.each(batch, |_, packet, _| send_on::<H>(packet, self.adjacency, &self.egress));
    }
}

/// Sends packets of one family to one neighbour of another function, wherever that is at the moment.
pub(super) struct Following<H> {
    neighbor: Arc<FollowedNeighbor>,
    egress: Arc<Egress>,
    of: PhantomData<fn() -> H>,
}

impl<H: Header> Following<H> {
    pub(super) fn new(neighbor: &Arc<FollowedNeighbor>, egress: &Arc<Egress>) -> Following<H> {
        Following { neighbor: Arc::clone(neighbor), egress: Arc::clone(egress), of: PhantomData }
    }

    /// What it declares.
    pub(super) fn declaration() -> Declaration {
        declaration::<H, FollowingExit>()
    }
}

impl<H: Header + 'static> Stage for Following<H> {
    fn declare(&self) -> Declaration {
        Self::declaration()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        if batch.is_empty() {
            return;
        }
        self.neighbor.want();
        let Some(mac) = self.neighbor.mac() else { return out.answer_all(batch.live(), FollowingExit::Unresolved) };
        let adjacency = to_station(MacAddr(mac));
        out.each(batch, |_, packet, _| FollowingExit::from(send_on::<H>(packet, adjacency, &self.egress)));
    }
}
