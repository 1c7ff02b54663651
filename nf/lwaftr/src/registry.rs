//! The softwires as the control side knows them: who entered what, and what of it counts.

use std::collections::{BTreeMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_config::ErrorKind;
use weir_stage::{Entry, Ledger, Record, Versions, Wrong};

use crate::config::SoftwireConfig;
use crate::table::{Counters, Ends, Sums, Writer};
use crate::words::Addresses4;
use weir_wire::port_sets::PortSets;

/// What tells softwires apart.
pub(crate) type Key = <SoftwireConfig as Entry>::Key;

/// The softwires of a configuration.
pub(crate) type Wanted = BTreeMap<Key, SoftwireConfig>;

/// What holds for all softwires.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// The relay's addresses, the usual one first.
    pub(crate) aftr: Vec<Ipv6Addr>,
    known: HashSet<Ipv6Addr>,
    /// How ports of addresses are divided, the narrowest first.
    port_sets: Vec<(Addresses4, PortSets)>,
}

impl Settings {
    pub(crate) fn new(aftr: Vec<Ipv6Addr>, mut port_sets: Vec<(Addresses4, PortSets)>) -> Settings {
        port_sets.sort_by_key(|(addresses, _)| addresses.width());
        Settings { known: aftr.iter().copied().collect(), aftr, port_sets }
    }

    /// What a softwire comes to.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(crate) fn resolve(&self, one: &SoftwireConfig) -> Result<(PortSets, Ends), Wrong> {
        let wrong = |field, problem| Wrong { kind: ErrorKind::OutOfRange, ..Wrong::field(field, problem) };
        let usual = self.port_sets.iter().find(|(addresses, _)| addresses.contains(one.ipv4)).map(|(_, sets)| *sets);
        let usual = usual.unwrap_or(PortSets::WHOLE);
        let length = one.psid_length.unwrap_or(usual.length());
        let offset = one.psid_offset.unwrap_or(usual.offset());
        let sets = PortSets::new(length, offset).ok_or_else(|| {
            let problem = format!("{length} bits of PSID behind {offset} others are more than the 16 of a port");
            wrong("psid_length", problem)
        })?;
        if one.psid > sets.highest() {
            let problem = format!("{} is no PSID of {length} bits; the highest is {}", one.psid, sets.highest());
            return Err(wrong("psid", problem));
        }
        let aftr = one.aftr.or(self.aftr.first().copied()).unwrap_or(Ipv6Addr::UNSPECIFIED);
        // Most have the first one.
        if self.aftr.first() != Some(&aftr) && !self.known.contains(&aftr) {
            let problem = format!("{aftr} is none of the relay's addresses");
            return Err(wrong("aftr", problem).remedy("add it to the key aftr of the function"));
        }
        let is_one = |address: Ipv6Addr| !(address.is_unspecified() || address.is_multicast() || address.is_loopback());
        if !is_one(one.b4) {
            return Err(wrong("b4", format!("{} is not the address of one station", one.b4)));
        }
        Ok((sets, Ends { b4: one.b4, aftr }))
    }
}

/// What belongs to a softwire beside what is said of it. There may be millions: what few have is elsewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// How the ports of its address are divided, if it is in the table.
    sets: Option<PortSets>,
    /// Where its record is, and what was counted there before it was its.
    place: u32,
    base: Option<Box<Sums>>,
}

impl State {
    /// What was counted.
    fn sums(&self, counters: &Counters) -> Sums {
        let base = self.base.as_deref().copied().unwrap_or_default();
        if self.sets.is_some() { counters.at(self.place).minus(base) } else { Sums::default().minus(base) }
    }

    /// Takes a softwire out of the table; what was counted of it is kept.
    fn take_out(&mut self, key: Key, writer: &mut Writer, counters: &Counters) {
        writer.remove(key.into());
        let kept = Sums::default().minus(self.sums(counters));
        (self.sets, self.base) = (None, (kept != Sums::default()).then(|| Box::new(kept)));
    }
}

/// So many softwires ahead the table is asked for what the next ones need.
const AHEAD: usize = 16;

/// A softwire as the registry has it.
pub(crate) type Softwire = Record<SoftwireConfig, State>;

/// See the module.
pub(crate) struct Registry {
    settings: Settings,
    writer: Writer,
    counters: Arc<Counters>,
    ledger: Ledger<SoftwireConfig, State>,
}

impl Registry {
    pub(crate) fn new(settings: Settings, writer: Writer, counters: Arc<Counters>) -> Registry {
        Registry { settings, writer, counters, ledger: Ledger::default() }
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Who said what of softwires.
    pub(crate) fn ledger(&self) -> &Ledger<SoftwireConfig, State> {
        &self.ledger
    }

    /// Addresses that became shared by softwires, or are so no more, in their order, since the last call.
    pub(crate) fn take_shared(&mut self) -> Vec<(Ipv4Addr, bool)> {
        self.writer.take_changed()
    }

    /// What a softwire comes to: how the ports of its address are divided, and its ends.
    pub(crate) fn resolved(&self, one: &Softwire) -> Option<(PortSets, Ends)> {
        one.counts().and_then(|one| self.settings.resolve(one).ok())
    }

    /// What was counted of a softwire.
    pub(crate) fn sums(&self, state: &State) -> Sums {
        state.sums(&self.counters)
    }

    /// What is known of the path to a softwire's customer at `now`: bytes of the longest packet of its tunnel.
    pub(crate) fn path(&self, state: &State, now: u64) -> Option<u16> {
        state.sets.and_then(|_| self.writer.softwires().path(state.place, now))
    }

    /// Makes a softwire what is said of it; none if nothing is.
    ///
    /// # Errors
    ///
    /// Why it is refused; nothing has changed then.
    pub(crate) fn say(&mut self, key: Key, said: Versions<SoftwireConfig>) -> Result<(), String> {
        let before = self.ledger.versions(&key);
        self.ledger.say(key, said);
        let Registry { settings, writer, counters, ledger } = &mut *self;
        let record = ledger.get_mut(&key);
        let done = record.map_or(Ok(()), |record| agree(key, record, (settings, writer, counters)));
        if done.is_err() {
            // It is as it was in the table, too: what was refused took nothing out.
            self.ledger.say(key, before);
        }
        self.ledger.forget(&key);
        done
    }

    /// Makes softwires those that a configuration has, beside what commands said. Answers what is refused.
    pub(crate) fn become_config(&mut self, settings: Settings, wanted: Wanted) -> Vec<(Key, String)> {
        self.settings = settings;
        self.ledger.configure(wanted);
        // First whatever makes way: addresses may be divided otherwise from now on.
        let makes_way = |(_, one): &(&Key, &Softwire)| {
            one.state.sets.is_some() && one.state.sets != self.resolved(one).map(|(sets, _)| sets)
        };
        let gone: Vec<Key> = self.ledger.iter().filter(makes_way).map(|(key, _)| *key).collect();
        let Registry { writer, counters, ledger, .. } = self;
        for key in gone {
            if let Some(record) = ledger.get_mut(&key) {
                record.state.take_out(key, writer, counters);
            }
        }
        self.ledger.forget_unsaid();
        let Registry { settings, writer, counters, ledger } = self;
        let all: Vec<Key> = ledger.iter().map(|(key, _)| *key).collect();
        let ahead = all.iter().skip(AHEAD).map(Some).chain(std::iter::repeat(None));
        let mut refused = Vec::new();
        for ((key, record), next) in ledger.iter_mut().zip(ahead) {
            if let Some(next) = next {
                writer.prefetch((*next).into());
            }
            let done = agree(*key, record, (settings, writer, counters));
            refused.extend(done.err().map(|problem| (*key, problem)));
        }
        refused
    }
}

/// Makes the table agree with what is said of a softwire.
fn agree(
    key: Key,
    record: &mut Softwire,
    (settings, writer, counters): (&Settings, &mut Writer, &Counters),
) -> Result<(), String> {
    let Some(one) = record.counts() else {
        writer.remove(key.into());
        return Ok(());
    };
    let (sets, ends) = settings.resolve(one).map_err(|wrong| wrong.to_string())?;
    let state = &mut record.state;
    let is_there = || writer.softwires().find(key.into(), sets).is_some_and(|found| found.ends == ends);
    if state.sets == Some(sets) && is_there() {
        return Ok(());
    }
    let counted = state.sums(counters);
    // One that has its address alone may divide its ports otherwise.
    if state.sets.is_some_and(|before| before != sets) && writer.sharing(key.0) == 1 {
        state.take_out(key, writer, counters);
    }
    let (place, _) = writer.put(key.into(), sets, ends).map_err(|refused| refused.to_string())?;
    // What was counted so far goes on.
    let base = counters.at(place).minus(counted);
    *state = State { sets: Some(sets), place, base: (base != Sums::default()).then(|| Box::new(base)) };
    Ok(())
}
