//! Ports, their configuration and state: OpenFlow 1.3.5 sections 4 and 7.3.4.3.

use weir_openflow::Error;
use weir_openflow::error::PortModFailed;
use weir_openflow::group::Counted;
use weir_openflow::port::{Duration, Port, PortMod, PortReason, PortStats, PortStatus, config, number, state};

use crate::counts::{Count, PerWorker, Worker};
use crate::fast::program::Others;
use crate::pipeline::Why;

/// Places of [`PortStats::counters`] that the pipeline counts.
const RX_PACKETS: usize = 0;
const TX_PACKETS: usize = 1;
const RX_BYTES: usize = 2;
const TX_BYTES: usize = 3;
const RX_DROPPED: usize = 4;
const TX_DROPPED: usize = 5;

#[derive(Clone, Debug)]
struct Entry {
    port: Port,
    added: u64,
    counters: PerWorker<Counters>,
}

/// What a worker has counted of a port, by the places above.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Counters([Count; 6]);

impl Entry {
    #[inline]
    fn add<const N: usize>(&self, worker: Worker, counts: [(usize, u64); N]) {
        let Some(Counters(counters)) = self.counters.of(worker) else { return };
        for (which, count) in counts {
            if let Some(counter) = counters.get(which) {
                counter.add(count);
            }
        }
    }

    /// What all workers have counted.
    fn counted(&self) -> [u64; 12] {
        let mut sums = [0_u64; 12];
        for Counters(counters) in self.counters.iter() {
            sums.iter_mut().zip(counters).for_each(|(sum, count)| *sum = sum.wrapping_add(count.get()));
        }
        sums
    }

    /// Counts a packet of so many bytes that is to be sent; why it is not, if it is not.
    #[inline]
    fn send(&self, worker: Worker, bytes: usize) -> Result<(), Why> {
        if may_send(&self.port) {
            self.add(worker, [(TX_PACKETS, 1), (TX_BYTES, bytes as u64)]);
            return Ok(());
        }
        self.add(worker, [(TX_DROPPED, 1)]);
        Err(Why::PortDown)
    }
}

/// The ports of a switch.
#[derive(Clone, Debug)]
pub struct Ports {
    /// By number. Mostly all numbers from 1 on are there.
    entries: Vec<Entry>,
    /// The largest number that a port may have.
    largest: u32,
    /// Some port takes nothing in.
    bars: bool,
    /// How many workers there are.
    workers: usize,
}

impl Ports {
    /// No ports yet; numbers go from 1 to `largest`.
    pub fn new(largest: u32) -> Ports {
        Ports { entries: Vec::new(), largest: largest.min(number::MAX), bars: false, workers: 1 }
    }

    /// Counters for one worker more.
    pub(crate) fn add_worker(&mut self) {
        self.workers += 1;
        self.entries.iter_mut().for_each(|entry| entry.counters.add_worker(Counters::default()));
    }

    /// Whether a port may have this number, now or later.
    pub fn may_exist(&self, port: u32) -> bool {
        (1..=self.largest).contains(&port) || port == number::LOCAL
    }

    /// Where a port is, or would be.
    #[inline]
    fn find(&self, port: u32) -> Result<usize, usize> {
        let likely = port.wrapping_sub(1) as usize;
        if self.entries.get(likely).is_some_and(|entry| entry.port.number == port) {
            return Ok(likely);
        }
        self.entries.binary_search_by_key(&port, |entry| entry.port.number)
    }

    #[inline]
    fn entry(&self, port: u32) -> Option<&Entry> {
        self.entries.get(self.find(port).ok()?)
    }

    #[inline]
    fn entry_mut(&mut self, port: u32) -> Option<&mut Entry> {
        let at = self.find(port).ok()?;
        self.entries.get_mut(at)
    }

    /// A port.
    #[inline]
    pub fn get(&self, port: u32) -> Option<&Port> {
        self.entry(port).map(|entry| &entry.port)
    }

    /// All ports.
    pub fn iter(&self) -> impl Iterator<Item = &Port> {
        self.entries.iter().map(|entry| &entry.port)
    }

    /// How many there are.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Adds a port, or describes one anew; the news to be told. Nothing if its number is out of range, or nothing is new.
    pub fn set(&mut self, mut port: Port, now: u64) -> Option<PortStatus> {
        if !self.may_exist(port.number) {
            return None;
        }
        let at = self.find(port.number);
        let before = at.ok().and_then(|at| self.entries.get(at));
        // What controllers said of it stays.
        port.config = before.map_or(port.config, |before| before.port.config) & config::ALL;
        set_live(&mut port);
        let reason = if before.is_some() { PortReason::Modify } else { PortReason::Add };
        if before.is_some_and(|before| before.port == port) {
            return None;
        }
        let fresh = || PerWorker::new(self.workers, &Counters::default());
        let (added, counters) = before.map_or_else(|| (now, fresh()), |before| (before.added, before.counters.clone()));
        let entry = Entry { port: port.clone(), added, counters };
        match at {
            Ok(at) => self.entries.splice(at..=at, [entry]).for_each(drop),
            Err(at) => self.entries.insert(at, entry),
        }
        self.see_bars();
        Some(PortStatus { reason, port })
    }

    /// Sees whether some port takes nothing in, after every change.
    fn see_bars(&mut self) {
        self.bars = self.entries.iter().any(|entry| !may_receive(&entry.port));
    }

    /// Removes a port; the news to be told.
    pub fn remove(&mut self, port: u32) -> Option<PortStatus> {
        let entry = self.entries.remove(self.find(port).ok()?);
        self.see_bars();
        Some(PortStatus { reason: PortReason::Delete, port: entry.port })
    }

    /// Carries out what a controller wants of a port; the news to be told, if something changed.
    ///
    /// # Errors
    ///
    /// The codes of [`PortModFailed`].
    pub(crate) fn change(&mut self, change: &PortMod) -> Result<Option<PortStatus>, Error> {
        let entry = self.entry_mut(change.port).ok_or(PortModFailed::BadPort)?;
        if entry.port.mac != change.mac {
            return Err(PortModFailed::BadHwAddr.into());
        }
        if (change.config | change.mask) & !config::ALL != 0 {
            return Err(PortModFailed::BadConfig.into());
        }
        if change.advertise & !entry.port.supported != 0 {
            return Err(PortModFailed::BadAdvertise.into());
        }
        let before = entry.port.clone();
        entry.port.config = before.config & !change.mask | change.config & change.mask;
        if change.advertise != 0 {
            entry.port.advertised = change.advertise;
        }
        set_live(&mut entry.port);
        let port = entry.port.clone();
        self.see_bars();
        Ok((port != before).then_some(PortStatus { reason: PortReason::Modify, port }))
    }

    /// Whether fast failover groups may use a port.
    pub fn is_live(&self, port: u32) -> bool {
        self.get(port).is_some_and(|port| port.state & state::LIVE != 0)
    }

    /// Whether what comes in by a port goes through the tables. A port that does not exist, such as the controller's own,
    /// bars nothing.
    #[inline]
    pub(crate) fn receives(&self, port: u32) -> bool {
        !self.bars || self.get(port).is_none_or(may_receive)
    }

    /// These, if one of them may not receive.
    #[inline]
    pub(crate) fn barring(&self) -> Option<&Ports> {
        self.bars.then_some(self)
    }

    /// Whether packets may be sent by a port.
    pub(crate) fn sends(&self, port: u32) -> bool {
        self.get(port).is_some_and(may_send)
    }

    /// Whether what comes in by a port may go to controllers.
    pub(crate) fn tells(&self, port: u32) -> bool {
        self.get(port).is_none_or(|port| port.config & config::NO_PACKET_IN == 0)
    }

    #[inline]
    fn add<const N: usize>(&self, worker: Worker, port: u32, counts: [(usize, u64); N]) {
        if let Some(entry) = self.entry(port) {
            entry.add(worker, counts);
        }
    }

    #[inline]
    pub(crate) fn received(&self, worker: Worker, port: u32, bytes: usize, taken: bool) {
        self.add(worker, port, [(RX_PACKETS, 1), (RX_BYTES, bytes as u64), (RX_DROPPED, u64::from(!taken))]);
    }

    #[inline]
    pub(crate) fn received_all(&self, worker: Worker, port: u32, packets: Counted) {
        self.add(worker, port, [(RX_PACKETS, packets.packets), (RX_BYTES, packets.bytes)]);
    }

    #[inline]
    pub(crate) fn sent(&self, worker: Worker, port: u32, bytes: usize) {
        self.sent_all(worker, port, Counted::one(bytes));
    }

    #[inline]
    pub(crate) fn sent_all(&self, worker: Worker, port: u32, packets: Counted) {
        self.add(worker, port, [(TX_PACKETS, packets.packets), (TX_BYTES, packets.bytes)]);
    }

    pub(crate) fn not_sent(&self, worker: Worker, port: u32) {
        self.add(worker, port, [(TX_DROPPED, 1)]);
    }

    /// Sends so many bytes by a port, and counts them; why that does not go, if it does not.
    #[inline]
    pub(crate) fn send(&self, worker: Worker, port: u32, bytes: usize) -> Result<(), Why> {
        self.entry(port).ok_or(Why::NoPort)?.send(worker, bytes)
    }

    /// The same by all ports but the one that the packet came in by, and but those that are blocked if it is flooded; tells which ports send it.
    #[inline]
    pub(crate) fn send_by_others(
        &self,
        worker: Worker,
        others: Others,
        in_port: u32,
        bytes: usize,
        mut sends: impl FnMut(u32),
    ) -> Result<(), Why> {
        let mut became = Ok(());
        for entry in &self.entries {
            let port = entry.port.number;
            let is_left_out = others == Others::Flood && entry.port.state & state::BLOCKED != 0;
            if port > number::MAX || port == in_port || is_left_out {
                continue;
            }
            match entry.send(worker, bytes) {
                Ok(()) => sends(port),
                why => became = why,
            }
        }
        became
    }

    /// What went through a port, or through all if it is `ANY`; nothing if there is no such port.
    pub fn stats(&self, port: u32, now: u64) -> Option<Vec<PortStats>> {
        if port != number::ANY && self.find(port).is_err() {
            return None;
        }
        let asked = self.entries.iter().filter(|entry| port == number::ANY || entry.port.number == port);
        let stats = asked.map(|entry| PortStats {
            port: entry.port.number,
            counters: entry.counted(),
            duration: Duration::from_nanoseconds(now.saturating_sub(entry.added)),
        });
        Some(stats.collect())
    }
}

fn may_receive(port: &Port) -> bool {
    port.config & (config::PORT_DOWN | config::NO_RECV) == 0
}

fn may_send(port: &Port) -> bool {
    port.config & (config::PORT_DOWN | config::NO_FWD) == 0 && port.state & state::LINK_DOWN == 0
}

/// A port is live if it is up, its link too, and nothing blocks it (section 7.2.1).
fn set_live(port: &mut Port) {
    let up = port.config & config::PORT_DOWN == 0 && port.state & (state::LINK_DOWN | state::BLOCKED) == 0;
    port.state = port.state & !state::LIVE | if up { state::LIVE } else { 0 };
}
