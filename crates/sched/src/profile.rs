//! What a user may send, made ready for the fast path.

use std::hint::cold_path;
use std::sync::Arc;

use crate::admit::Order;
use crate::class::{MAX_CLASSES, MAX_QUEUES};
use crate::l4s::L4s;
use crate::manage::Manage;
use crate::rate::Bucket;

/// Bytes that a queue of weight 1 may send per round: a full frame of Ethernet, so that each has its turn in every round.
pub const QUANTUM: u32 = 1600;

/// What one traffic class of a user may do.
#[derive(Clone, Debug)]
pub struct ClassProfile {
    /// Its rate cap.
    pub cap: Bucket,
    /// What it is guaranteed of what its user sends, if anything: as far as that goes, it goes before higher classes.
    pub guarantee: Option<Bucket>,
    /// Packets that wait in each of its queues at most.
    pub queue_size: u16,
    /// What decides about its packets beside the size of the queue.
    pub manage: Option<Arc<dyn Manage>>,
    /// Whether [flows](crate::flows) take turns in each of its queues; then the management is asked about packets that go, by what it
    /// remembers of their flow.
    pub fair: bool,
    /// What couples the two lines of each of its queues, if they have [two](crate::dual). Then it has no management, and flows do not take turns.
    pub dual: Option<L4s>,
    /// Weights of its queues, where it has several: none for one, and in the lowest class, whose weights are the [profile's](Profile::new).
    pub weights: Box<[u8]>,
}

impl ClassProfile {
    fn marks(&self) -> bool {
        self.dual.is_some() || self.manage.as_ref().is_some_and(|manage| manage.marks())
    }
}

impl Default for ClassProfile {
    fn default() -> ClassProfile {
        ClassProfile {
            cap: Bucket::UNLIMITED,
            guarantee: None,
            queue_size: 64,
            manage: None,
            fair: false,
            dual: None,
            weights: Box::default(),
        }
    }
}

/// What a user may have of what others leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharing {
    /// What it may send at most, with what it is guaranteed.
    pub(crate) ceil: Bucket,
    /// Bytes that it gets per round.
    pub(crate) quantum: u32,
}

/// What a user may send: one profile serves many users.
#[derive(Clone, Debug)]
pub struct Profile {
    pub(crate) bucket: Bucket,
    pub(crate) classes: [ClassProfile; MAX_CLASSES],
    /// Bit c: class c has a cap, or some subport has a rate for it.
    pub(crate) capped: u8,
    /// Bit c: class c is guaranteed something.
    pub(crate) guaranteed: u8,
    /// Some subport guarantees classes something.
    pub(crate) promised: bool,
    /// Bit c: what is sent of class c counts against either, or some subport guarantees classes something.
    pub(crate) counted: u8,
    /// Bit c: packets of class c are asked about as they go: it is managed, or some subport has a rate for it, or guarantees classes something.
    pub(crate) asked: u8,
    /// Bit c: class c has a management, fair queues, or dual ones.
    pub(crate) managed: u8,
    /// How long, nanoseconds, a packet of each class must have waited at least to be anything to its management as long as that remembers nothing:
    /// [`u64::MAX`] where it has none.
    pub(crate) patience: [u64; MAX_CLASSES],
    /// Bit c: the queues of class c are fair, and it has one, or is the lowest.
    pub(crate) fair: u8,
    /// Bit c: the queues of class c are dual, and it has one, or is the lowest.
    pub(crate) dual: u8,
    /// Bit c: class c, above the lowest, has several queues, each of which may be fair, or dual.
    pub(crate) split: u8,
    /// Bit c: packets of class c do not wait one behind the other, as one of these three says.
    pub(crate) apart: u8,
    /// What it may have beyond its rate, if anything.
    pub(crate) sharing: Option<Sharing>,
    /// Whether there is more to it than a rate: any class has a cap, here or in a subport, or a guarantee, a management, fair or dual queues, or it shares.
    pub(crate) special: bool,
    /// Whether there is no more to it than a rate and fair queues: its packets go the [short way](crate::plain).
    pub(crate) plain: bool,
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
        let (capped, split) = (bits(&|class| !class.cap.is_unlimited()), bits(&|class| class.weights.len() > 1));
        let fair = bits(&|class| class.order() == Order::Fair) & !split;
        let dual = bits(&|class| class.order() == Order::Lines) & !split;
        let guaranteed = bits(&|class| class.guarantee.is_some());
        let managed = bits(&|class| class.order() != Order::One || class.manage.is_some());
        let patience = |class: &ClassProfile| class.manage.as_ref().map_or(u64::MAX, |manage| manage.patience());
        Profile {
            bucket,
            patience: classes.each_ref().map(patience),
            capped,
            guaranteed,
            promised: false,
            counted: capped | guaranteed,
            asked: managed,
            managed,
            fair,
            dual,
            split,
            apart: fair | dual | split,
            sharing: None,
            special: capped | guaranteed | managed != 0,
            plain: capped | guaranteed | split | managed & !fair == 0,
            quanta: std::array::from_fn(|n| u32::from(weight(n)) * QUANTUM),
            classes,
        }
    }
}

impl Profile {
    /// What decides about the packets of a class beside the size of its queues, if anything does.
    #[inline(always)]
    pub(crate) fn manage(&self, class: usize) -> Option<&dyn Manage> {
        self.classes.get(class)?.manage.as_deref()
    }

    /// What couples the two lines of the queues of a class, if they have two.
    #[inline]
    pub(crate) fn coupling(&self, class: usize) -> Option<&L4s> {
        self.classes.get(class).filter(|class| class.order() == Order::Lines)?.dual.as_ref()
    }

    /// The same where subports have rates for the classes of these bits, and guarantee classes something (`promised`).
    fn heeding(&self, classes: u8, promised: bool) -> Profile {
        let own = |(_, class): &(usize, &ClassProfile)| !class.cap.is_unlimited();
        let capped = self.classes.iter().enumerate().filter(own).fold(classes, |bits, (n, _)| bits | 1 << n);
        let all = if promised { u8::MAX } else { 0 };
        let counted = capped | self.guaranteed | all;
        let special = counted | self.managed != 0 || self.sharing.is_some();
        let plain = counted | self.split | self.managed & !self.fair == 0 && self.sharing.is_none();
        Profile { capped, promised, counted, asked: self.managed | classes | all, special, plain, ..self.clone() }
    }

    /// With a share of what others leave, by weight (at least 1), up to what `ceil` allows together with what its own bucket does.
    pub fn sharing(mut self, ceil: Bucket, weight: u8) -> Profile {
        self.sharing = Some(Sharing { ceil, quantum: u32::from(weight.max(1)) * QUANTUM });
        (self.special, self.plain) = (true, false);
        self
    }
}

/// What all users of a subport may send together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubportProfile {
    /// What they may send at most.
    pub(crate) bucket: Bucket,
    /// What they are guaranteed, if anything.
    pub(crate) guarantee: Option<Bucket>,
    /// Bytes that it gets per round of what is left.
    pub(crate) quantum: u32,
    /// The subport above it; the port when absent.
    pub(crate) parent: Option<u16>,
    /// What its users may send of each class together.
    pub(crate) classes: [Bucket; MAX_CLASSES],
    /// What each class of it is guaranteed of what it sends, if anything.
    pub(crate) promises: [Option<Bucket>; MAX_CLASSES],
    /// Bit c: class c is.
    pub(crate) promised: u8,
}

/// Subports between the port and a user at most.
pub const LEVELS: usize = 3;

impl SubportProfile {
    /// One whose users may send so much together, with a weight (at least 1) for its share of what is left.
    pub fn new(bucket: Bucket, weight: u8) -> SubportProfile {
        let classes = [Bucket::UNLIMITED; MAX_CLASSES];
        let quantum = u32::from(weight.max(1)) * QUANTUM;
        let promises = [None; MAX_CLASSES];
        SubportProfile { bucket, guarantee: None, quantum, parent: None, classes, promises, promised: 0 }
    }

    /// With a guarantee, which is no more than what they may send.
    pub fn guaranteed(self, guarantee: Bucket) -> SubportProfile {
        SubportProfile { guarantee: Some(guarantee), ..self }
    }

    /// Whose users may send so much together of a class, by its number, with what is in subports below it.
    pub fn class(mut self, class: usize, bucket: Bucket) -> SubportProfile {
        self.classes.iter_mut().skip(class).take(1).for_each(|place| *place = bucket);
        self
    }

    /// Which guarantees a class, by its number, so much of what its users and those of subports below it send.
    pub fn promising(mut self, class: usize, bucket: Bucket) -> SubportProfile {
        self.promises.iter_mut().skip(class).take(1).for_each(|place| *place = Some(bucket));
        self.promised |= if class < MAX_CLASSES { 1 << class } else { 0 };
        self
    }

    /// Below another subport: what it sends counts against what that may send, too. That is heeded by a [tree](crate::scheduler::Scheduler) alone.
    pub fn below(self, parent: u16) -> SubportProfile {
        SubportProfile { parent: Some(parent), ..self }
    }
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
    /// Bit c: some subport has a rate for class c, or had one while the scheduler has run.
    pub(crate) limited: u8,
    /// Some subport guarantees a class something, or did so while the scheduler has run.
    pub(crate) promised: bool,
}

impl Profiles {
    /// From the rates of the port and its subports and the profiles of users.
    pub fn new(port: Bucket, subports: Vec<SubportProfile>, users: Vec<Profile>) -> Profiles {
        let fallback = Profile::new(Bucket::UNLIMITED, Vec::new(), &[]);
        let none = Profiles { port, subports: Vec::new(), users: users.into(), fallback, limited: 0, promised: false };
        none.with_rates(port, subports)
    }

    /// The same for users of whom the port and its subports have other rates.
    pub(crate) fn with_rates(&self, port: Bucket, subports: Vec<SubportProfile>) -> Profiles {
        let is_limited = |class: &usize| {
            let rate = |subport: &SubportProfile| subport.classes.get(*class).copied();
            subports.iter().filter_map(rate).any(|rate| !rate.is_unlimited())
        };
        let limited = (0..MAX_CLASSES).filter(is_limited).fold(0, |bits, class| bits | 1 << class);
        let promised = subports.iter().any(|subport| subport.promised != 0);
        let (users, fallback) = (Arc::clone(&self.users), self.fallback.clone());
        let now = Profiles { port, subports, users, fallback, limited: self.limited, promised: self.promised };
        now.heeding(limited, promised)
    }

    /// The same where subports have, or had, rates for the classes of these bits, and no others; and guarantee, or guaranteed, classes something, or do not.
    pub(crate) fn heeding(self, limited: u8, promised: bool) -> Profiles {
        if (limited, promised) == (self.limited, self.promised) {
            return self;
        }
        let users = self.users.iter().map(|user| user.heeding(limited, promised)).collect();
        Profiles { users, fallback: self.fallback.heeding(limited, promised), limited, promised, ..self }
    }

    /// The same, but for one subport.
    pub fn with_subport(&self, number: usize, profile: SubportProfile) -> Profiles {
        let mut subports = self.subports.clone();
        subports.iter_mut().skip(number).take(1).for_each(|subport| *subport = profile);
        self.with_rates(self.port, subports)
    }

    /// The profile of a number; one without limits where there is none.
    #[inline(always)]
    pub(crate) fn user(&self, number: u16) -> &Profile {
        self.users.get(usize::from(number)).unwrap_or_else(|| {
            cold_path();
            &self.fallback
        })
    }

    /// The bucket of a subport.
    #[inline(always)]
    pub(crate) fn subport(&self, number: u16) -> Bucket {
        let Some(subport) = self.subports.get(usize::from(number)) else {
            cold_path();
            return Bucket::UNLIMITED;
        };
        subport.bucket
    }

    /// Bit c: class c of a subport is guaranteed something.
    pub(crate) fn promised_classes(&self, number: u32) -> u8 {
        self.subports.get(number as usize).map_or(0, |subport| subport.promised)
    }

    /// What a class of a subport is guaranteed, if anything.
    pub(crate) fn promise(&self, number: u16, class: u8) -> Option<Bucket> {
        self.subports.get(usize::from(number))?.promises.get(usize::from(class)).copied().flatten()
    }

    /// The subport above one, if it is one of these. No attention is paid to what is above a subport that would be below itself, or below more than
    /// [`LEVELS`] allow.
    pub(crate) fn above(&self, number: u32) -> Option<u16> {
        let parent = |number: u32| self.subports.get(number as usize)?.parent;
        let mut at = number;
        for _ in 0..LEVELS {
            match parent(at) {
                None => return parent(number),
                Some(above) if usize::from(above) >= self.subports.len() => return None,
                Some(above) => at = above.into(),
            }
        }
        None
    }

    /// Whether any class of a user is guaranteed anything.
    pub(crate) fn guarantees(&self) -> bool {
        self.users.iter().any(|user| user.guaranteed != 0)
    }

    /// Whether any class of any user is so.
    pub(crate) fn any_class(&self, is: impl Fn(&ClassProfile) -> bool) -> bool {
        self.users.iter().any(|user| user.classes.iter().any(&is))
    }

    /// Whether any user shares.
    pub(crate) fn shares(&self) -> bool {
        self.users.iter().any(|user| user.sharing.is_some())
    }

    /// Whether any management marks packets.
    pub(crate) fn marks(&self) -> bool {
        self.any_class(ClassProfile::marks)
    }

    /// Whether any queue, as a whole, has a management, or has two lines that are coupled.
    pub(crate) fn managed(&self) -> bool {
        self.users.iter().any(|user| user.managed & !(user.fair | user.split) != 0)
    }
}
