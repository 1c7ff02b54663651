//! Learning, on workers: who is behind which port, within limits. And who is there because somebody says so.

use std::sync::atomic::{AtomicU32, Ordering};

use weir_table::mac::{Entry, Place, Station};

use crate::load::{self, Key};
use crate::plan::Plan;
use crate::state::{Control, Shared};

/// What came of learning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    /// It is known where the station is, or it need not be.
    Fine,
    /// A limit keeps it from being learned.
    Limit,
    /// It moved, and stations do so too often.
    Moved,
}

/// A station that has sent a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) vlan: u16,
    pub(crate) place: Place,
    /// The number of the port that it is behind now.
    pub(crate) port: u8,
}

/// One of several, if there is room for it: below `most`.
fn reserve(count: &AtomicU32, most: u32) -> bool {
    if count.fetch_add(1, Ordering::Relaxed) < most {
        return true;
    }
    count.fetch_sub(1, Ordering::Relaxed);
    false
}

impl Shared {
    /// A station has sent a frame that the table did not tell anything new about, or other than it is.
    #[cold]
    #[inline(never)]
    pub(crate) fn learn(&self, plan: &Plan, sender: Sender, now: u64) -> Learned {
        let here = Entry::learned(sender.port, self.period());
        match self.table.find(sender.place) {
            _ if !plan.port(sender.port).learns => Learned::Fine,
            Some(there) if there.is_fixed() => Learned::Fine,
            Some(there) if there.port() == sender.port => {
                // If another worker was faster, it has done the same.
                self.table.replace(sender.place, there, here);
                Learned::Fine
            }
            Some(there) => self.moved(plan, sender, there, here, now),
            None => self.entered(plan, sender, here),
        }
    }

    fn entered(&self, plan: &Plan, sender: Sender, here: Entry) -> Learned {
        let counts = &self.counts;
        let bounds = [
            (&counts.learned, plan.max_macs),
            (counts.of_port(sender.port), plan.port(sender.port).max_macs),
            (counts.of_vlan(sender.vlan), plan.max_macs_per_vlan),
        ];
        let reserved = bounds.iter().take_while(|(count, most)| reserve(count, *most)).count();
        let is_within = reserved == bounds.len();
        let gone = |entry| counts.forget(sender.vlan, entry);
        if is_within && self.table.insert(sender.place, here, gone).is_ok() {
            return Learned::Fine;
        }
        bounds.iter().take(reserved).for_each(|(count, _)| _ = count.fetch_sub(1, Ordering::Relaxed));
        counts.refused.fetch_add(1, Ordering::Relaxed);
        Learned::Limit
    }

    fn moved(&self, plan: &Plan, sender: Sender, there: Entry, here: Entry, now: u64) -> Learned {
        let counts = &self.counts;
        let bucket = &self.moves[usize::from(sender.port) % self.moves.len()];
        if plan.max_moves.is_some_and(|pace| !bucket.take(pace, now, 1)) {
            return Learned::Moved;
        }
        let count = counts.of_port(sender.port);
        if !reserve(count, plan.port(sender.port).max_macs) {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            return Learned::Limit;
        }
        if self.table.replace(sender.place, there, here) {
            counts.of_port(there.port()).fetch_sub(1, Ordering::Relaxed);
            counts.moves[usize::from(sender.port) % counts.moves.len()].fetch_add(1, Ordering::Relaxed);
        } else {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        Learned::Fine
    }
}

impl Shared {
    /// Makes the table follow what is said of a station. Answers the station if there is no room for it.
    pub(crate) fn follow(&self, control: &Control, key: &Key) -> Result<(), Station> {
        let (mac, vlan) = *key;
        // What is no station of this bridge is refused before it is said.
        let Ok(station) = load::station(&control.config, mac, vlan) else { return Ok(()) };
        self.follow_station(control, station)
    }

    /// The same of a station that may be an interface, too, unless something else is said of it.
    pub(crate) fn follow_station(&self, control: &Control, station: Station) -> Result<(), Station> {
        let said = control.fixed.get(&load::key_of(&control.config, station)).and_then(|record| record.counts());
        let port = match said {
            Some(entry) => load::number(&control.config, entry),
            None => control.routed_at(station),
        };
        self.fix(station, port).map_err(|_| station)
    }

    fn fix(&self, station: Station, port: Option<u8>) -> Result<(), weir_table::mac::Crowded> {
        let place = self.table.place(station);
        // Workers may learn the station meanwhile; so it is looked at until it is as it was said.
        loop {
            let there = self.table.find(place);
            match (there, port) {
                (Some(entry), _)
                    if entry.is_fixed() == port.is_some() && port.is_none_or(|port| port == entry.port()) =>
                {
                    return Ok(());
                }
                (Some(_), _) => {
                    if let Some(entry) = self.table.remove(place) {
                        self.counts.forget(station.vlan(), entry);
                    }
                }
                (None, None) => return Ok(()),
                (None, Some(port)) => {
                    let entry = Entry::fixed(port);
                    self.table.insert(place, entry, |gone| self.counts.forget(station.vlan(), gone))?;
                }
            }
        }
    }
}
