//! What is done with packets of subscribers before they are shaped, or where they are not (the traffic conditioner of RFC 2475 section 2.3.3, less its
//! shaper): policers by the profiles of subscribers, and remarking, in each direction.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_mem::{Domain, Published};
use weir_packet::Key;
use weir_sched::police::{Police, Policer, PolicerConfig, Policers, UserProfiles};
use weir_sched::remark::{Remark, Remarking};
use weir_stage::Stage;
use weir_stage::ownership::Owners;

use super::{Direction, overhead, profiles};
use crate::config::QosConfig;

/// The number of no profile: nothing polices who has none.
const NO_PROFILE: u16 = 0;

/// What polices and remarks subscribers.
pub(super) struct Conditioner {
    owners: Owners,
    /// The profile of each user, for each part of the users: its position in the book, from 1.
    profiles: Vec<Arc<UserProfiles>>,
    book: Mutex<Book>,
    up: Conditions,
    down: Conditions,
}

/// The names of profiles. Those that stay in a reload keep their positions, so that nobody goes by another's meanwhile.
#[derive(Clone, Debug, Default)]
struct Book(Vec<String>);

/// What is done in one direction.
struct Conditions {
    policers: Arc<Published<Policers>>,
    remarking: Arc<Published<Remarking>>,
    /// Bytes that policers count on top of each frame.
    overhead: u32,
}

/// What another configuration comes to.
#[derive(Debug)]
pub(super) struct Prepared {
    book: Book,
    /// In the order of [`Direction::BOTH`].
    conditions: [(Policers, Remarking); 2],
}

impl Book {
    /// With exactly these names.
    fn with(&self, names: Vec<String>) -> Book {
        let Book(mut all) = self.clone();
        let mut come: Vec<String> = names.iter().filter(|name| !all.contains(*name)).cloned().collect();
        let gone = all.iter_mut().filter(|name| !names.contains(*name));
        // Where somebody goes, somebody may come.
        gone.for_each(|name| *name = come.pop().unwrap_or_default());
        all.extend(come);
        Book(all)
    }

    fn number(&self, name: &str) -> u16 {
        let position = self.0.iter().position(|one| one == name && !name.is_empty());
        position.and_then(|position| u16::try_from(position + 1).ok()).unwrap_or(NO_PROFILE)
    }

    /// The policer of each number. All that can be wrong with them has been looked for.
    fn policers(&self, configured: &BTreeMap<String, PolicerConfig>) -> Policers {
        let policer = |name: &String| configured.get(name).and_then(|config| Policer::new(config).ok());
        Policers(std::iter::once(None).chain(self.0.iter().map(policer)).collect())
    }
}

impl Prepared {
    fn new(book: Book, config: &QosConfig) -> Prepared {
        let conditions = Direction::BOTH
            .map(|direction| (book.policers(config.police.of(direction)), Remarking::new(config.remark.of(direction))));
        Prepared { book, conditions }
    }
}

impl Conditioner {
    /// As configured, for so many users, divided among these owners. The configuration has no [`faults`](super::faults).
    pub(super) fn new(config: &QosConfig, users: u32, owners: Owners, domain: &Domain) -> Conditioner {
        let book = Book::default().with(profiles(config));
        let Prepared { book, conditions: [up, down] } = Prepared::new(book, config);
        let conditions = |direction, (policers, remarking)| Conditions {
            policers: Arc::new(Published::new(domain, Box::new(policers))),
            remarking: Arc::new(Published::new(domain, Box::new(remarking))),
            overhead: overhead(config, direction),
        };
        let each = users.div_ceil(u32::from(owners.parts()));
        Conditioner {
            owners,
            profiles: (0..owners.parts()).map(|_| Arc::new(UserProfiles::new(each))).collect(),
            book: Mutex::new(book),
            up: conditions(Direction::Up, up),
            down: conditions(Direction::Down, down),
        }
    }

    /// What another configuration without faults comes to.
    pub(super) fn prepare(&self, config: &QosConfig) -> Prepared {
        Prepared::new(self.book().with(profiles(config)), config)
    }

    /// Puts that in place. Who had a profile that is gone is to be assigned another.
    pub(super) fn apply(&self, prepared: Prepared) {
        let Prepared { book, conditions } = prepared;
        *self.book() = book;
        for ((policers, remarking), to) in conditions.into_iter().zip([&self.up, &self.down]) {
            to.policers.publish(Box::new(policers));
            to.remarking.publish(Box::new(remarking));
        }
    }

    /// Gives a user a profile, or none.
    pub(super) fn assign(&self, user: u32, profile: Option<&str>) {
        let number = profile.map_or(NO_PROFILE, |name| self.book().number(name));
        if let Some(profiles) = self.part(self.owners.of(user)) {
            profiles.set(self.owners.number(user), number);
        }
    }

    /// A policer in one direction, of an owner's users, whose numbers there are in the lane `user`.
    pub(super) fn police(&self, direction: Direction, owner: u8, user: Key<u32>) -> Option<Box<dyn Stage>> {
        let Conditions { policers, overhead, .. } = self.of(direction);
        let profiles = self.part(owner)?;
        Some(Box::new(Police::new(user, Arc::clone(profiles), Arc::clone(policers), *overhead)))
    }

    /// What remarks packets that go one way.
    pub(super) fn remark(&self, direction: Direction) -> Box<dyn Stage> {
        Box::new(Remark::new(Arc::clone(&self.of(direction).remarking)))
    }

    fn of(&self, direction: Direction) -> &Conditions {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// The profiles of an owner's users; those who share all users have one part together.
    fn part(&self, owner: u8) -> Option<&Arc<UserProfiles>> {
        self.profiles.get(usize::from(owner) % self.profiles.len().max(1))
    }

    /// What another thread left behind when it panicked is as good as it was.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_stay_keep_their_numbers() {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let numbers = |book: &Book, all: &[&str]| all.iter().map(|name| book.number(name)).collect::<Vec<_>>();
        let book = Book::default().with(names(&["a", "b", "c"]));
        assert_eq!(numbers(&book, &["a", "b", "c", "d", ""]), [1, 2, 3, 0, 0]);
        let book = book.with(names(&["c", "d", "e", "f"]));
        let mut come = numbers(&book, &["d", "e", "f"]);
        come.sort_unstable();
        assert_eq!((numbers(&book, &["a", "b", "c"]), come), (vec![0, 0, 3], vec![1, 2, 4]));
        let book = book.with(names(&["c"]));
        assert_eq!(numbers(&book, &["c", "d", "e", "f", ""]), [3, 0, 0, 0, 0]);
        assert_eq!(
            book.with(names(&["c", "g"])).number("g"),
            1 + book.0.iter().position(String::is_empty).unwrap() as u16
        );
    }
}
