//! The numbers that a worker keeps, private to it until it is asked.

use weir_stage::{Declaration, Traffic, Ways};

use crate::reason::Reason;

/// Packets and bytes so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Count {
    #[inline(always)]
    pub(crate) fn add(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }

    #[inline(always)]
    pub(crate) fn add_traffic(&mut self, traffic: Traffic) {
        self.add(traffic.packets, traffic.bytes);
    }
}

/// What one stage did on this worker.
#[derive(Clone, Debug)]
pub(crate) struct StageCounters {
    pub(crate) batches: u64,
    pub(crate) packets: u64,
    /// Cycles of the sampled loops, its polls included, the time stamps' own cost taken off.
    pub(crate) sampled_cycles: u64,
    pub(crate) sampled_packets: u64,
    /// Per code: packets that left by it as it is wired now, or were created for it.
    pub(crate) codes: Vec<Count>,
    /// Per code: packets that left by it while its wire led on and now does not, or the other way round. What was counted
    /// once keeps its meaning.
    pub(crate) before: Vec<Count>,
}

impl StageCounters {
    pub(crate) fn new(declaration: &Declaration) -> StageCounters {
        StageCounters {
            batches: 0,
            packets: 0,
            sampled_cycles: 0,
            sampled_packets: 0,
            codes: vec![Count::default(); declaration.codes()],
            before: vec![Count::default(); declaration.codes()],
        }
    }

    /// Counts what leaves by ways that were not there before, too.
    pub(crate) fn extend(&mut self, declaration: &Declaration) {
        let codes = declaration.codes().max(self.codes.len());
        self.codes.resize(codes, Count::default());
        self.before.resize(codes, Count::default());
    }

    /// A way that led on leads nowhere from here on, or the other way round.
    pub(crate) fn turn(&mut self, code: usize) {
        if let (Some(count), Some(before)) = (self.codes.get_mut(code), self.before.get_mut(code)) {
            std::mem::swap(count, before);
        }
    }

    #[inline(always)]
    pub(crate) fn count(&mut self, code: usize, packets: u64, bytes: u64) {
        if let Some(count) = self.codes.get_mut(code) {
            count.add(packets, bytes);
        }
    }
}

/// What the engine itself dropped at one place (a port, a link, a stage that went).
#[derive(Clone, Debug)]
pub(crate) struct Drops([Count; Reason::LIST.len()]);

impl Drops {
    pub(crate) fn new() -> Drops {
        Drops([Count::default(); Reason::LIST.len()])
    }

    pub(crate) fn count(&mut self, reason: Reason, packets: u64, bytes: u64) {
        if let Some(count) = self.0.get_mut(reason.code() as usize) {
            count.add(packets, bytes);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static weir_stage::WayInfo, Count)> {
        Reason::LIST.iter().zip(self.0)
    }

    pub(crate) fn packets(&self) -> u64 {
        self.0.iter().map(|count| count.packets).sum()
    }
}

/// Where a worker's time went, TSC cycles. Their sum is the time since it started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cycles {
    pub(crate) receive: u64,
    pub(crate) graph: u64,
    pub(crate) transmit: u64,
    pub(crate) housekeeping: u64,
    pub(crate) idle: u64,
    pub(crate) asleep: u64,
    unsettled: Unsettled,
}

/// Busy time that is not parted yet into receiving, the graph and transmitting.
#[derive(Clone, Copy, Debug, Default)]
struct Unsettled {
    /// Of loops whose parts were timed: how long each part took.
    timed: [u64; 3],
    /// All together.
    all: u64,
}

impl Cycles {
    /// A loop with work in it took so long. Where its parts were timed, they are given.
    #[inline(always)]
    pub(crate) fn add_busy(&mut self, all: u64, parts: Option<[u64; 3]>) {
        self.unsettled.all += all;
        if let Some(parts) = parts {
            self.unsettled.timed.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
    }

    /// Parts the busy time since the last call in the proportion that the timed loops had meanwhile: those to be timed are drawn by
    /// chance, so that the others were like them. What is settled once does not change any more.
    pub(crate) fn settle(&mut self) {
        let Unsettled { timed: [receive, graph, transmit], all } = std::mem::take(&mut self.unsettled);
        let timed = u128::from(receive + graph + transmit);
        // At most `all`, as a part is at most the sum.
        let share = |part: u64| (u128::from(all) * u128::from(part)).checked_div(timed).unwrap_or(0) as u64;
        let (receive, transmit) = (share(receive), share(transmit));
        self.receive += receive;
        self.transmit += transmit;
        self.graph += all - receive - transmit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(cycles: &Cycles) -> [u64; 3] {
        [cycles.receive, cycles.graph, cycles.transmit]
    }

    #[test]
    fn busy_time_is_parted_as_the_timed_loops_were_and_none_is_lost() {
        let mut cycles = Cycles::default();
        cycles.settle();
        assert_eq!(parts(&cycles), [0, 0, 0]);
        cycles.add_busy(10, Some([2, 5, 3]));
        cycles.add_busy(91, None);
        cycles.settle();
        assert_eq!(parts(&cycles), [20, 51, 30], "the rest of roundings is the graph's");
        // What was parted before stays, whatever later loops were like.
        cycles.add_busy(100, None);
        cycles.add_busy(100, Some([0, 0, 100]));
        cycles.settle();
        assert_eq!(parts(&cycles), [20, 51, 230]);
        cycles.add_busy(7, None);
        cycles.settle();
        assert_eq!(parts(&cycles), [20, 58, 230], "nothing was timed");
        cycles.add_busy(u64::MAX / 4, Some([u64::MAX / 8, 0, u64::MAX / 8]));
        cycles.settle();
        assert_eq!(parts(&cycles).iter().sum::<u64>(), 308 + u64::MAX / 4);
    }
}
