//! The writer of the binding table: the control side has it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_mem::qsbr::Epoch;
use weir_mem::{Domain, HugeSlice, arena};
use weir_table::exact::{self, Exact};

use super::dense::{Dense, Filling};
use super::{ADDRESS, COMMON, Ends, Key, Softwires, tell};
use weir_wire::port_sets::PortSets;

/// How much the table has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) softwires: u32,
    pub(crate) addresses: u32,
}

/// Why a softwire was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no room for another softwire.
    Softwires(u32),
    /// There is no room for another address.
    Addresses(u32),
    /// The ports of the address are divided otherwise already.
    Sets(PortSets),
    /// The index has no room for it.
    Crowded,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Softwires(limit) => {
                write!(f, "the table is full: it holds {limit} softwires at most; raise limits.softwires")
            }
            Refused::Addresses(limit) => {
                write!(f, "the table is full: it holds {limit} shared addresses at most; raise limits.addresses")
            }
            Refused::Sets(sets) => {
                write!(f, "other softwires of the address have {sets}; all of one address have the same")
            }
            Refused::Crowded => f.write_str("the table has no room for this key: too many others have a hash like it"),
        }
    }
}

/// Places that are used again when no worker can look at what was there.
#[derive(Debug)]
struct Places {
    capacity: u32,
    fresh: u32,
    free: Vec<u32>,
    waiting: VecDeque<(Epoch, u32)>,
}

impl Places {
    fn new(capacity: u32) -> Places {
        Places { capacity, fresh: 0, free: Vec::new(), waiting: VecDeque::new() }
    }

    fn take(&mut self, domain: &Domain) -> Option<u32> {
        if let Some(place) = self.free.pop() {
            return Some(place);
        }
        if self.fresh < self.capacity {
            self.fresh += 1;
            return Some(self.fresh - 1);
        }
        let frontier = domain.frontier();
        let passed = self.waiting.iter().take_while(|(epoch, _)| *epoch <= frontier).count();
        self.free.extend(self.waiting.drain(..passed).map(|(_, place)| place));
        self.free.pop()
    }
}

/// A shared address.
#[derive(Debug)]
struct Shared {
    sets: PortSets,
    place: u32,
    softwires: u32,
}

/// See the module.
pub(crate) struct Writer {
    domain: Domain,
    limits: Limits,
    softwires: Arc<Softwires>,
    addresses: Exact,
    parts: Exact,
    shared: BTreeMap<Ipv4Addr, Shared>,
    /// How many addresses are divided in each way that there is.
    divided: BTreeMap<PortSets, u32>,
    /// Addresses that became shared, or are so no more, in their order, since somebody last asked.
    changed: Vec<(Ipv4Addr, bool)>,
    address_places: Places,
    record_places: Places,
    filling: Filling,
}

/// What [`Softwires::is_beyond`] reads where nobody shares an address: from the highest to the lowest.
const NO_RANGE: u64 = (u32::MAX as u64) << 32;

/// Places beside those in use, at least: of what was replaced or taken out, until all workers have passed. There are as many as softwires, so that all
/// can be replaced at once.
const SPARE: u32 = 4096;

impl Writer {
    /// An empty table. `seed` decides where entries stand.
    ///
    /// # Errors
    ///
    /// No memory.
    pub(crate) fn new(limits: Limits, domain: &Domain, seed: u64) -> Result<Writer, arena::Error> {
        let spare = |count: u32| count.saturating_add(SPARE.max(count));
        // Entries that wait stand in the index no more.
        let addresses = Exact::new(limits.addresses, seed)?;
        let parts = Exact::new(limits.softwires, seed.rotate_left(29))?;
        let softwires = Softwires {
            addresses: Arc::clone(addresses.index()),
            parts: Arc::clone(parts.index()),
            dense: Dense::new(limits.softwires)?,
            has_far: AtomicBool::new(false),
            common: AtomicU64::new(0),
            range: AtomicU64::new(NO_RANGE),
            shared: HugeSlice::new(spare(limits.addresses) as usize)?,
            records: HugeSlice::new(spare(limits.softwires) as usize)?,
        };
        Ok(Writer {
            domain: domain.clone(),
            limits,
            softwires: Arc::new(softwires),
            addresses,
            parts,
            shared: BTreeMap::new(),
            divided: BTreeMap::new(),
            changed: Vec::new(),
            address_places: Places::new(spare(limits.addresses)),
            record_places: Places::new(spare(limits.softwires)),
            filling: Filling::default(),
        })
    }

    /// What workers look up in.
    pub(crate) fn softwires(&self) -> &Arc<Softwires> {
        &self.softwires
    }

    /// Places that records may have.
    pub(crate) fn places(&self) -> usize {
        self.softwires.records.len()
    }

    /// How many softwires there are.
    pub(crate) fn len(&self) -> u32 {
        self.parts.len()
    }

    /// How many softwires share an address.
    pub(crate) fn sharing(&self, ipv4: Ipv4Addr) -> u32 {
        self.shared.get(&ipv4).map_or(0, |shared| shared.softwires)
    }

    /// How the ports of an address are divided.
    pub(crate) fn sets_of(&self, ipv4: Ipv4Addr) -> Option<PortSets> {
        self.shared.get(&ipv4).map(|shared| shared.sets)
    }

    /// Asks for what [`put`](Self::put) reads of a softwire.
    pub(crate) fn prefetch(&self, key: Key) {
        self.softwires.prefetch_part(self.softwires.hash_of_part(key.ipv4.to_bits(), key.psid));
    }

    /// Enters a softwire, or gives it other ends. Answers its place, and the one that it had.
    ///
    /// # Errors
    ///
    /// Why it is refused.
    pub(crate) fn put(&mut self, key: Key, sets: PortSets, ends: Ends) -> Result<(u32, Option<u32>), Refused> {
        let known = self.shared.get(&key.ipv4).map(|shared| shared.sets);
        if let Some(other) = known.filter(|known| *known != sets) {
            return Err(Refused::Sets(other));
        }
        let before = known.and_then(|_| self.softwires.find(key, sets));
        let full = Refused::Softwires(self.limits.softwires);
        if before.is_none() && self.parts.len() >= self.limits.softwires {
            return Err(full);
        }
        if known.is_none() {
            self.share(key.ipv4, sets)?;
        }
        let Some(place) = self.record_places.take(&self.domain) else {
            self.unshare(key.ipv4);
            return Err(full);
        };
        self.write(place, key, sets, ends);
        let hash = self.softwires.hash_of_part(key.ipv4.to_bits(), key.psid);
        if let Some(before) = before {
            self.parts.replace(hash, u64::from(before.place), u64::from(place));
            self.filling.change(&self.softwires.dense, key, Some(place));
            self.retire(before.place);
            self.fit();
            return Ok((place, Some(before.place)));
        }
        if self.parts.insert(hash, u64::from(place)).is_err() {
            self.record_places.free.push(place);
            self.unshare(key.ipv4);
            return Err(Refused::Crowded);
        }
        if let Some(shared) = self.shared.get_mut(&key.ipv4) {
            shared.softwires += 1;
        }
        self.filling.change(&self.softwires.dense, key, Some(place));
        self.fit();
        Ok((place, None))
    }

    /// Takes a softwire out; answers the place that it had.
    pub(crate) fn remove(&mut self, key: Key) -> Option<u32> {
        let sets = self.sets_of(key.ipv4)?;
        let found = self.softwires.find(key, sets)?;
        let hash = self.softwires.hash_of_part(key.ipv4.to_bits(), key.psid);
        self.parts.remove(hash, u64::from(found.place));
        self.filling.change(&self.softwires.dense, key, None);
        self.retire(found.place);
        if let Some(shared) = self.shared.get_mut(&key.ipv4) {
            shared.softwires -= 1;
        }
        self.unshare(key.ipv4);
        self.fit();
        Some(found.place)
    }

    /// Lets the [array](Dense) be of the addresses that there are.
    fn fit(&mut self) {
        let range = self.softwires.range.load(Ordering::Relaxed);
        let common = self.softwires.common_sets();
        let each = common.map_or(0, |sets| 1_usize << sets.length());
        let cost = each.saturating_mul(self.shared.len());
        if !self.filling.fit(&self.softwires.dense, common, ((range >> 32) as u32, range as u32), cost) {
            return;
        }
        for (ipv4, shared) in &self.shared {
            for psid in 0..=shared.sets.highest() {
                let key = Key { ipv4: *ipv4, psid };
                if let Some(found) = self.softwires.find(key, shared.sets) {
                    self.filling.write(&self.softwires.dense, key, Some(found.place));
                }
            }
        }
        self.filling.filled(&self.softwires.dense);
    }

    fn retire(&mut self, place: u32) {
        self.record_places.waiting.push_back((self.domain.advance(), place));
    }

    fn write(&self, place: u32, key: Key, sets: PortSets, ends: Ends) {
        let Some([a, b, c, d, told, path, known, _]) = self.softwires.records.get(place as usize) else { return };
        for (to, from) in [a, b, c, d].into_iter().zip(ends.words()) {
            to.store(from, Ordering::Relaxed);
        }
        told.store(tell(key.ipv4.to_bits(), key.psid, sets), Ordering::Relaxed);
        path.store(0, Ordering::Relaxed);
        known.store(0, Ordering::Relaxed);
    }

    /// Enters an address that softwires share, which is not there.
    fn share(&mut self, ipv4: Ipv4Addr, sets: PortSets) -> Result<(), Refused> {
        let full = Refused::Addresses(self.limits.addresses);
        let place = self.address_places.take(&self.domain).ok_or(full)?;
        let word: Option<&AtomicU64> = self.softwires.shared.get(place as usize);
        if let Some(word) = word {
            word.store(ADDRESS | u64::from(ipv4.to_bits()), Ordering::Relaxed);
        }
        let hash = self.softwires.hash_of_address(ipv4.to_bits());
        if let Err(refused) = self.addresses.insert(hash, sets.word() << 32 | u64::from(place)) {
            self.address_places.free.push(place);
            return Err(if refused == exact::Refused::Crowded { Refused::Crowded } else { full });
        }
        if self.softwires.candidate_sets(hash).is_none() {
            self.softwires.has_far.store(true, Ordering::Release);
        }
        self.shared.insert(ipv4, Shared { sets, place, softwires: 0 });
        *self.divided.entry(sets).or_default() += 1;
        self.tell_all();
        self.changed.push((ipv4, true));
        Ok(())
    }

    /// Takes an address out that no softwire has.
    fn unshare(&mut self, ipv4: Ipv4Addr) {
        let Some(shared) = self.shared.get(&ipv4).filter(|shared| shared.softwires == 0) else { return };
        let value = shared.sets.word() << 32 | u64::from(shared.place);
        let (place, sets) = (shared.place, shared.sets);
        self.addresses.remove(self.softwires.hash_of_address(ipv4.to_bits()), value);
        self.address_places.waiting.push_back((self.domain.advance(), place));
        self.shared.remove(&ipv4);
        if let Some(left) = self.divided.get_mut(&sets) {
            *left -= 1;
            if *left == 0 {
                self.divided.remove(&sets);
            }
        }
        self.tell_all();
        self.changed.push((ipv4, false));
    }

    /// Lets workers know what all addresses have in common: how their ports are divided, if all alike, and between which two they are.
    fn tell_all(&self) {
        let mut ways = self.divided.keys();
        let common = match (ways.next(), ways.next()) {
            (Some(sets), None) => COMMON | sets.word(),
            _ => 0,
        };
        let ends = self.shared.first_key_value().zip(self.shared.last_key_value());
        let range = ends.map_or(NO_RANGE, |((lowest, _), (highest, _))| {
            u64::from(lowest.to_bits()) << 32 | u64::from(highest.to_bits())
        });
        self.softwires.common.store(common, Ordering::Relaxed);
        self.softwires.range.store(range, Ordering::Relaxed);
    }

    /// Addresses that became shared, or are so no more, in their order, since the last call.
    pub(crate) fn take_changed(&mut self) -> Vec<(Ipv4Addr, bool)> {
        std::mem::take(&mut self.changed)
    }
}
