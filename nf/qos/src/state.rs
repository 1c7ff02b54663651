//! What the control side knows, and how it changes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_mem::Published;
use weir_sched::config::SubportConfig;
use weir_sched::police::{Policers, UserProfiles};
use weir_sched::remark::Remarking;
use weir_sched::shaping::Shaping;
use weir_stage::ownership::Owners;

use crate::find::OTHERS;
use crate::identify::Rules;
use crate::load::{Names, Wanted};
use crate::subports::Subports;
use crate::table::Table;
use crate::users::Users;

/// Which way packets go, or a scheduler sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From `from` to `to`.
    Forth,
    /// The other way.
    Back,
    /// Both, as a scheduler may.
    Both,
}

impl Direction {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Direction::Forth => "forth",
            Direction::Back => "back",
            Direction::Both => "both",
        }
    }
}

/// What stages before the schedulers go by, and a change of the configuration replaces.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) rules: Arc<Published<Rules>>,
    pub(crate) policers: Arc<Published<Policers>>,
    pub(crate) remarking: Arc<Published<Remarking>>,
}

/// The control side's knowledge.
pub(crate) struct Control {
    pub(crate) users: Users,
    pub(crate) names: Names,
    pub(crate) subports: Subports,
    pub(crate) others: Option<(u16, u16)>,
    pub(crate) table: Table,
    pub(crate) schedulers: Vec<(Direction, Arc<Shaping>)>,
    /// What the policers go by.
    pub(crate) profiles: Profiles,
    pub(crate) live: Live,
}

/// The profile of each user as policers read it: by its number at the scheduler, for each scheduler.
pub(crate) struct Profiles {
    owners: Owners,
    schedulers: Vec<Arc<UserProfiles>>,
}

impl Profiles {
    /// Of so many users.
    pub(crate) fn new(owners: Owners, users: u32) -> Profiles {
        let each = users.div_ceil(u32::from(owners.parts()));
        let schedulers = (0..owners.parts()).map(|_| Arc::new(UserProfiles::new(each))).collect();
        Profiles { owners, schedulers }
    }

    /// Those that an owner's policer reads.
    pub(crate) fn of(&self, owner: u8) -> Option<Arc<UserProfiles>> {
        self.schedulers.get(usize::from(owner) % self.schedulers.len().max(1)).cloned()
    }

    fn set(&self, user: u32, profile: u16) {
        if let Some(profiles) = self.of(self.owners.of(user)) {
            profiles.set(self.owners.number(user), profile);
        }
    }

    /// The word of a user in tables.
    fn word(&self, user: u32) -> u32 {
        self.owners.word(user)
    }
}

/// What another thread left behind when it panicked is as good as it was.
pub(crate) fn lock(shared: &Mutex<Control>) -> MutexGuard<'_, Control> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    /// Becomes what a configuration wants, but for the profiles of the schedulers, which are there already.
    ///
    /// # Errors
    ///
    /// What there is no room for; all the rest is done.
    pub(crate) fn reconcile(&mut self, wanted: Wanted) -> Result<(), String> {
        let Wanted { users, others, names, mut subports, classifier, policers, remarking } = wanted;
        subports.adopt(&self.subports);
        self.subports = subports;
        let old = std::mem::replace(&mut self.names, names);
        self.names.subports = self.subports.names();
        let new = &self.names;
        let changes = self.users.reconcile(users, |given| new.translate(given, &old));
        self.others = others;
        self.live.rules.publish(Box::new(Rules { classifier, strict: others.is_none() }));
        self.live.policers.publish(Box::new(policers));
        self.live.remarking.publish(Box::new(remarking));
        changes.gone.iter().for_each(|number| self.schedulers.iter().for_each(|(_, shaping)| shaping.dismiss(*number)));
        self.assign_all();
        // Those that go make room for those that come.
        let (gone, come): (Vec<_>, Vec<_>) = changes.keys.into_iter().partition(|(_, number)| *number == OTHERS);
        let (table, profiles) = (&mut self.table, &self.profiles);
        gone.into_iter().chain(come).try_for_each(|(key, number)| table.set(key, profiles.word(number)))
    }

    /// Classes of the schedulers that are used.
    pub(crate) fn classes(&self) -> u8 {
        self.schedulers.first().map_or(0, |(_, shaping)| shaping.classes() as u8)
    }

    /// Tells the schedulers what a subport has.
    pub(crate) fn tell_subport(&self, number: u16) {
        let given = self.subports.given(number);
        self.schedulers.iter().for_each(|(_, shaping)| shaping.set_subport(number, given));
    }

    /// Under a number that is to spare comes a subport, or that which came there goes.
    pub(crate) fn put_subport(&mut self, number: u16, added: Option<(String, SubportConfig)>) {
        let name = added.as_ref().map_or_else(String::new, |(name, _)| name.clone());
        self.subports.put(number, added);
        self.names.subports = self.subports.names();
        self.schedulers.iter().for_each(|(_, shaping)| shaping.name_subport(number, &name));
        self.tell_subport(number);
    }

    /// Takes over what subports of another instance were given.
    pub(crate) fn adopt_subports(&mut self, old: &Subports) {
        self.subports.adopt(old);
        self.names.subports = self.subports.names();
        for (number, name) in self.subports.all_added() {
            self.schedulers.iter().for_each(|(_, shaping)| shaping.name_subport(number, name));
        }
        self.subports.all_given().for_each(|(number, _)| self.tell_subport(number));
    }

    /// Tells the schedulers of all users.
    pub(crate) fn assign_all(&self) {
        match self.others {
            Some((profile, subport)) => self.tell(OTHERS, profile, subport),
            None => self.schedulers.iter().for_each(|(_, shaping)| shaping.dismiss(OTHERS)),
        }
        let numbers: Vec<u32> = self.users.iter().map(|(number, _)| number).collect();
        numbers.into_iter().for_each(|number| self.assign(number));
    }

    /// Tells the schedulers and the policers of one user.
    pub(crate) fn assign(&self, number: u32) {
        if let Some(user) = self.users.get(number) {
            self.tell(number, user.profile(), user.subport());
        }
    }

    fn tell(&self, number: u32, profile: u16, subport: u16) {
        self.profiles.set(number, profile);
        let Some(name) = self.names.profiles.get(usize::from(profile)) else { return };
        let subport = self.names.subports.get(usize::from(subport)).map(String::as_str);
        for (_, shaping) in &self.schedulers {
            // The names are those of its own configuration, and it has room for so many users.
            drop(shaping.assign(number, name, subport));
        }
    }
}
