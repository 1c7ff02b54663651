//! The stage that brings packets to owners.

use weir_packet::{BATCH, Batch, LaneId};

use super::Arrangement;
use crate::graph::{Graph, GraphError, NodeId, To};
use crate::stage::{Declaration, Out, Stage};

crate::ways! {
    /// Ways out of [`Balancer`], before those to the owners.
    pub enum Exit {
        /// To the first owner.
        First => way "first",
    }
}

/// Says whose packets are.
pub trait Whose: Send + 'static {
    /// Writes the owner of each live packet to its slot; the values of others mean nothing. What is nobody's is the first owner's, who finds out
    /// why and drops it by name: slots are 0 when it is called.
    fn owners(&mut self, batch: &Batch, owners: &mut [u8; BATCH]);
}

/// Brings each packet to its owner: packets of one owner keep their order.
#[derive(Debug)]
pub struct Balancer<W> {
    whose: W,
    ways: &'static str,
    count: u8,
    reads: &'static [LaneId],
}

impl<W: Whose> Balancer<W> {
    /// Before so many owners, whom its ways are called after (`worker[0]`, `worker[1]`); `whose` reads these lanes.
    pub fn new(whose: W, (ways, count): (&'static str, u8), reads: &'static [LaneId]) -> Balancer<W> {
        Balancer { whose, ways, count, reads }
    }
}

/// What a [`Balancer`] declares.
fn declaration((ways, count): (&'static str, u8), reads: &'static [LaneId]) -> Declaration {
    Declaration::of::<Exit>().indexed(ways, usize::from(count)).reads(reads)
}

impl<W: Whose> Stage for Balancer<W> {
    fn declare(&self) -> Declaration {
        declaration((self.ways, self.count), self.reads)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let mut owners = [0; BATCH];
        self.whose.owners(batch, &mut owners);
        out.answer_indexed_each(batch.live(), &owners);
    }
}

/// What the ways of functions' balancers are called.
const WORKER: &str = "worker";

/// What a balancer is, where there is one.
pub struct Spec<'a, T: ?Sized> {
    /// The name of the stage.
    pub name: String,
    /// Lanes that are read to find owners.
    pub reads: &'static [LaneId],
    /// What stages are made of, as for [`Graph::add_of`].
    pub tables: Option<&'a T>,
}

impl Arrangement {
    /// Adds a balancer before these stages of the owners, in their order. Answers where packets come in: at the stage itself if there is one owner
    /// only.
    ///
    /// # Errors
    ///
    /// What `make` may lack.
    pub fn balance<T: ?Sized>(
        self,
        graph: &mut Graph,
        spec: Spec<'_, T>,
        owners: &[NodeId],
        make: impl FnOnce(&T, MakeBalancer) -> Result<Box<dyn Stage>, GraphError>,
    ) -> Result<NodeId, GraphError> {
        let first = owners.first().copied().unwrap_or(NodeId(0));
        if !self.is_balanced() {
            return Ok(first);
        }
        let Spec { name, reads, tables } = spec;
        let count = self.owners().count();
        let declared = declaration((WORKER, count), reads);
        let made = MakeBalancer { count, reads };
        let balancer = graph.add_of(name, declared, self.entrance(), tables, |tables| make(tables, made))?;
        graph.wire(balancer, "first", To::Stage(first));
        for (n, owner) in owners.iter().enumerate() {
            graph.wire(balancer, &format!("{WORKER}[{n}]"), To::Stage(*owner));
        }
        Ok(balancer)
    }
}

/// Makes the balancer that [`Arrangement::balance`] has declared.
#[derive(Clone, Copy, Debug)]
pub struct MakeBalancer {
    count: u8,
    reads: &'static [LaneId],
}

impl MakeBalancer {
    /// One that goes by this.
    pub fn of(self, whose: impl Whose) -> Box<dyn Stage> {
        Box::new(Balancer::new(whose, (WORKER, self.count), self.reads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::{Layout, Placement, SpreadBy};
    use crate::graph::Place;
    use crate::harness::Harness;

    /// A packet's first byte is its owner.
    struct ByByte;

    impl Whose for ByByte {
        fn owners(&mut self, batch: &Batch, owners: &mut [u8; BATCH]) {
            batch.each_ref(|slot, packet| owners[slot.index()] = packet.bytes().first().copied().unwrap_or(0));
        }
    }

    #[test]
    fn packets_come_to_their_owners_in_order() {
        let mut harness = Harness::new(Balancer::new(ByByte, (WORKER, 5), &[]));
        let frames: Vec<[u8; 2]> = (0..60).map(|n| [n / 2 * 3 % 5, n]).collect();
        let outcome = harness.run(0, &frames);
        for owner in 0..5_u8 {
            let expected: Vec<&[u8; 2]> = frames.iter().filter(|frame| frame[0] == owner).collect();
            assert_eq!(outcome.way(&format!("worker[{owner}]")), expected, "owner {owner}");
        }
    }

    /// Stages of `count` workers in a layout, balanced: where packets come in, and the graph.
    fn drawn(layout: Layout, count: u16) -> (NodeId, Vec<NodeId>, Graph) {
        let arrangement =
            Arrangement::of(&Placement { workers: (0..count).collect(), layout, spread_by: SpreadBy::Flow });
        let mut graph = Graph::new();
        let declared = Declaration::of::<Exit>;
        let owners: Vec<NodeId> =
            arrangement.sections().map(|(_, place)| graph.add_declared("own", declared(), place)).collect();
        let spec = Spec { name: "balance".to_owned(), reads: &[LaneId::Port], tables: Some(&()) };
        let first = arrangement.balance(&mut graph, spec, &owners, |(), make| Ok(make.of(ByByte))).unwrap();
        graph.receive(0, first);
        (first, owners, graph)
    }

    #[test]
    fn a_balancer_stands_where_there_are_several_owners() {
        let (first, owners, graph) = drawn(Layout::Distributor, 4);
        graph.check().unwrap();
        let balancer = &graph.nodes()[first.0];
        assert_eq!((balancer.name.as_str(), balancer.place), ("balance", Place::Worker { section: 0 }));
        let ways = owners.first().into_iter().chain(&owners).map(|owner| Some(To::Stage(*owner)));
        assert_eq!(balancer.targets, ways.collect::<Vec<_>>());
        for (layout, count) in [(Layout::RunToCompletion, 3), (Layout::Distributor, 1), (Layout::Pipeline, 2)] {
            let (first, owners, graph) = drawn(layout, count);
            assert_eq!((owners, graph.nodes().len()), (vec![first], 1));
        }
    }
}
