//! Stage `lua.paths`: sends what has passed the script on by the path of the port it came in.
#![forbid(unsafe_code)]

use weir_packet::Batch;
use weir_stage::{Declaration, Out, Stage};

weir_stage::ways! {
    /// Ways out of [`Paths`], beside `path[n]`.
    pub(crate) enum Exit {
        /// By the path of the first port.
        First => way "out",
        /// It came in by a port that no path starts from.
        NoPath => drop "no-path",
    }
}

/// Sends packets on by the port they came in.
#[derive(Debug)]
pub(crate) struct Paths {
    /// For each port that packets come in by, the indexed way; `None`: straight on.
    ways: Vec<(u16, Option<u8>)>,
    indexed: u8,
}

impl Paths {
    /// For ports with so many indexed ways.
    pub(crate) fn new(ways: Vec<(u16, Option<u8>)>, indexed: u8) -> Self {
        Self { ways, indexed }
    }
}

impl Stage for Paths {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().indexed("path", self.indexed.into()).reads(&[weir_packet::LaneId::Port])
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        batch.each(|slot, _, lanes| {
            let port = lanes.port[slot];
            // A few ports at most: a walk costs less than a table.
            match self.ways.iter().find(|(from, _)| *from == port) {
                Some((_, None)) => {}
                Some((_, Some(way))) => out.answer_indexed(slot, *way),
                None => out.answer(slot, Exit::NoPath),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weir_packet::Slot;
    use weir_stage::harness::Harness;

    use super::*;

    #[test]
    fn packets_go_on_by_the_port_they_came_in() {
        let mut harness = Harness::new(Paths::new(vec![(3, None), (5, Some(0)), (7, Some(1)), (9, None)], 2));
        for (slot, port) in [9, 5, 7, 4, 3, 5].into_iter().enumerate() {
            harness.lanes().port[Slot::new(slot)] = port;
        }
        let packets: Vec<Vec<u8>> = (0..6).map(|n| vec![n; 60]).collect();
        let outcome = harness.run(0, &packets);
        let expected = [("out", vec![0, 4]), ("path[0]", vec![1, 5]), ("path[1]", vec![2]), ("no-path", vec![3])];
        assert_eq!(
            outcome.counts(),
            expected.iter().map(|(way, numbers)| (*way, numbers.len())).collect::<BTreeMap<_, _>>()
        );
        for (way, numbers) in expected {
            assert_eq!(outcome.way(way).iter().map(|packet| packet[0]).collect::<Vec<_>>(), numbers);
        }
    }
}
