//! What a user may send, made ready for the fast path.

use std::sync::Arc;

use crate::class::{MAX_CLASSES, MAX_QUEUES};
use crate::manage::Manage;
use crate::rate::Bucket;

/// Bytes that a queue of weight 1 may send per round: a full frame of Ethernet, so that each has its turn in every round.
pub const QUANTUM: u32 = 1600;

/// What one traffic class of a user may do.
#[derive(Clone, Debug)]
pub struct ClassProfile {
    /// Its rate cap.
    pub cap: Bucket,
    /// Packets that wait in each of its queues at most.
    pub queue_size: u16,
    /// What decides about its packets beside the size of the queue.
    pub manage: Option<Arc<dyn Manage>>,
}

impl Default for ClassProfile {
    fn default() -> ClassProfile {
        ClassProfile { cap: Bucket::UNLIMITED, queue_size: 64, manage: None }
    }
}

/// What a user may send: one profile serves many users.
#[derive(Clone, Debug)]
pub struct Profile {
    pub(crate) bucket: Bucket,
    pub(crate) classes: [ClassProfile; MAX_CLASSES],
    /// Bit c: class c has a cap.
    pub(crate) capped: u8,
    /// Bit c: class c has a management.
    pub(crate) managed: u8,
    /// Whether any class has either: bits of `capped` and of `managed`.
    pub(crate) special: u8,
    /// Bytes per round of the queues in the lowest class.
    pub(crate) quanta: [u32; MAX_QUEUES],
}

impl Profile {
    /// A user who may send what `bucket` allows, in classes as given (the default for those that are missing), with `weights` for the queues of
    /// the lowest class (1 for those that are missing or 0).
    pub fn new(bucket: Bucket, classes: Vec<ClassProfile>, weights: &[u8]) -> Profile {
        let mut given = classes.into_iter();
        let classes: [ClassProfile; MAX_CLASSES] = std::array::from_fn(|_| given.next().unwrap_or_default());
        let bits = |has: &dyn Fn(&ClassProfile) -> bool| {
            classes.iter().enumerate().filter(|(_, class)| has(class)).fold(0, |bits, (n, _)| bits | 1 << n)
        };
        let weight = |n: usize| weights.get(n).copied().unwrap_or(1).max(1);
        let (capped, managed) = (bits(&|class| !class.cap.is_unlimited()), bits(&|class| class.manage.is_some()));
        Profile {
            bucket,
            capped,
            managed,
            special: capped | managed,
            quanta: std::array::from_fn(|n| u32::from(weight(n)) * QUANTUM),
            classes,
        }
    }
}

/// What all users of a subport may send together.
#[derive(Clone, Copy, Debug)]
pub struct SubportProfile {
    /// Its rate.
    pub bucket: Bucket,
}

/// All profiles of a scheduler: what is replaced as a whole when they change.
#[derive(Clone, Debug)]
pub struct Profiles {
    /// The port's rate.
    pub port: Bucket,
    /// The rates of the subports.
    pub subports: Vec<SubportProfile>,
    /// The profiles of users, by number.
    pub users: Arc<[Profile]>,
    fallback: Profile,
}

impl Profiles {
    /// From the rates of the port and its subports and the profiles of users.
    pub fn new(port: Bucket, subports: Vec<SubportProfile>, users: Vec<Profile>) -> Profiles {
        Profiles { port, subports, users: users.into(), fallback: Profile::new(Bucket::UNLIMITED, Vec::new(), &[]) }
    }

    /// The same for users of whom the port and its subports have other rates.
    pub(crate) fn with_rates(&self, port: Bucket, subports: Vec<SubportProfile>) -> Profiles {
        Profiles { port, subports, users: Arc::clone(&self.users), fallback: self.fallback.clone() }
    }

    /// The profile of a number; one without limits where there is none.
    #[inline(always)]
    pub(crate) fn user(&self, number: u16) -> &Profile {
        self.users.get(usize::from(number)).unwrap_or(&self.fallback)
    }

    /// The bucket of a subport.
    #[inline(always)]
    pub(crate) fn subport(&self, number: u16) -> Bucket {
        self.subports.get(usize::from(number)).map_or(Bucket::UNLIMITED, |subport| subport.bucket)
    }

    /// Whether any queue has a management.
    pub(crate) fn managed(&self) -> bool {
        self.users.iter().any(|user| user.managed != 0)
    }
}
