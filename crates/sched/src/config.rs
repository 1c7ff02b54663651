//! What a user writes about shaping, and what must hold of it together. Functions embed [`SchedulerConfig`].

use std::collections::BTreeMap;

use weir_config::{Nanos, Rate, Size, choice, config};

use crate::class::{MAX_CLASSES, MAX_QUEUES};
use crate::codel::CodelConfig;
use crate::l4s::L4sConfig;
use crate::levels;
use crate::profile::{ClassProfile, Profile};
use crate::rate::{Bucket, MAX_RATE, MIN_RATE};
use crate::red::{Red, RedConfig};
use crate::scheduler::MAX_SUBPORTS;
use crate::share::{Limit, Limits, SubportLimits};

/// Bytes that a scheduler counts each frame more than it has, where it does not say so: preamble, FCS and gap of Ethernet.
pub const OVERHEAD: u16 = 24;

/// Its traffic classes, where it does not say so.
pub const CLASSES: u8 = 4;

/// The lowest rate that may be written.
pub const LEAST: Rate = Rate::new(MIN_RATE);
/// The highest one.
pub const MOST: Rate = Rate::new(MAX_RATE);
/// The smallest token bucket that may be written.
pub const SMALLEST: Size = Size::new(64);
/// The largest one.
pub const LARGEST: Size = Size::new(1 << 30);
/// The shortest time over which the rate of a class may hold.
pub const SHORTEST: Nanos = Nanos::new(1_000);
/// The longest one.
pub const LONGEST: Nanos = Nanos::new(10_000_000_000);
/// The one that counts where none is given.
const USUAL_PERIOD: Nanos = Nanos::new(10_000_000);

choice! {
    /// How packets of several flows wait in one queue.
    pub enum FlowOrder {
        /// One behind the other as they come, whose ever they are.
        Fifo = "fifo",
        /// Flows take turns (FQ-CoDel, RFC 8290).
        Fair = "fair",
    }
}

config! {
    /// A traffic class of a profile.
    pub struct ClassConfig {
        /// What the class may send at most; what the user may when absent.
        pub tc_rate: Option<Rate> = optional, live, range(LEAST..=MOST);
        /// What the class is guaranteed of what its user sends: as far as that goes, it goes before higher classes. Nothing when absent.
        pub tc_guarantee: Option<Rate> = optional, live, range(LEAST..=MOST);
        /// The time over which `tc_rate` and `tc_guarantee` hold: what the class may send in it, it may send at once.
        pub tc_period: Nanos = default(USUAL_PERIOD), live, range(SHORTEST..=LONGEST);
        /// Packets that wait in each queue of the class at most.
        pub queue_size: u16 = default(64), live, range(1..=32_768);
        /// Random early detection in its queues.
        pub red: Option<RedConfig> = optional, live;
        /// Controlled delay in its queues; with fair flows, in each flow, where it is there in any case.
        pub codel: Option<CodelConfig> = optional, live;
        /// How packets wait in each queue of the class.
        pub flows: FlowOrder = default(FlowOrder::Fifo), live;
        /// Two lines in each queue of the class, one of which hardly waits (L4S).
        pub l4s: Option<L4sConfig> = optional, live;
        /// Weights of its queues, from 1 to 255: so many queues it has, one when absent. Not of the lowest class, whose weights are the profile's.
        pub weights: Vec<u8> = empty, live, length(0..=MAX_QUEUES);
    }
}

config! {
    /// What a user may send.
    pub struct ProfileConfig {
        /// The rate of the user's token bucket.
        pub tb_rate: Rate = required, live, range(LEAST..=MOST);
        /// Its size: what the user may send at once after a pause. Below two frames, the user loses what it could have sent between the moment
        /// that a packet might go and the one that it does go, which is less than a microsecond.
        pub tb_size: Size = default(Size::new(16_384)), live, range(SMALLEST..=LARGEST);
        /// What the user may send at most: beyond `tb_rate`, which it is guaranteed, it has a share of what others leave. No more than `tb_rate` when
        /// absent. `tb_size` holds for both.
        pub ceil: Option<Rate> = optional, live, range(LEAST..=MOST);
        /// Its weight among the users of its subport who share what is left.
        pub weight: u8 = default(1), live, range(1..=100);
        /// The traffic classes, the highest first; those that are missing are like `{}`.
        pub classes: Vec<ClassConfig> = empty, live, length(0..=MAX_CLASSES);
        /// Weights of the queues in the lowest class, which has eight; 1 for those that are missing.
        pub weights: Vec<u8> = empty, live, length(0..=MAX_QUEUES);
    }
}

config! {
    /// A traffic class of a subport.
    pub struct SubportClassConfig {
        /// What the users of the subport, and of those below it, may send of the class together at most; what they may send of all when absent.
        pub tc_rate: Option<Rate> = optional, live, range(LEAST..=MOST);
        /// What the class is guaranteed of what the users of the subport, and of those below it, send: as far as that goes, they go with it before others go with
        /// other classes. Nothing when absent. What is guaranteed to it right below is part of that.
        pub tc_guarantee: Option<Rate> = optional, live, range(LEAST..=MOST);
        /// The time over which `tc_rate` and `tc_guarantee` hold: what they may send of the class in it, they may send at once.
        pub tc_period: Nanos = default(USUAL_PERIOD), live, range(SHORTEST..=LONGEST);
    }
}

config! {
    /// A set of users, and what they may send together.
    pub struct SubportConfig {
        /// What its users are guaranteed together, beside what each of them is; nothing when absent.
        pub tb_rate: Option<Rate> = optional, live, range(LEAST..=MOST);
        /// What they may send together at most: `tb_rate` when absent, what the port may without that.
        pub ceil: Option<Rate> = optional, live, range(LEAST..=MOST);
        /// The size of its token buckets, for `tb_rate` and for `ceil`.
        pub tb_size: Size = default(Size::new(65_536)), live, range(SMALLEST..=LARGEST);
        /// Its weight among the subports, and the users, that are below what it is below, and share what is left.
        pub weight: u8 = default(1), live, range(1..=100);
        /// The subport above it: what is sent below this one counts against what that may send, too. The port alone is above it when absent. There are up to
        /// three levels of subports.
        pub parent: Option<String> = optional, rebuild;
        /// Its traffic classes, the highest first; those that are missing are like `{}`. What is sent below it counts, too.
        pub classes: Vec<SubportClassConfig> = empty, live, length(0..=MAX_CLASSES);
    }
}

config! {
    /// Users with the same profile in the same subport.
    pub struct AssignConfig {
        /// The number of the first.
        pub first: u32 = default(0), live, range(0..=1_048_575);
        /// The number of the last; that of the first when absent.
        pub last: Option<u32> = optional, live, range(0..=1_048_575);
        /// Their profile.
        pub profile: String = required, live;
        /// Their subport; the first by name when absent.
        pub subport: Option<String> = optional, live;
    }
}

config! {
    /// A hierarchical scheduler: a port, subports, users, traffic classes, queues. All rates count the bytes of frames without FCS, and
    /// `overhead` for each.
    pub struct SchedulerConfig {
        /// The rate of the port.
        pub rate: Rate = required, live, range(LEAST..=MOST);
        /// What the port may send at once after a pause.
        pub burst: Size = default(Size::new(65_536)), live, range(SMALLEST..=LARGEST);
        /// Bytes that each frame counts more than it has: 24 for preamble, FCS and gap of Ethernet.
        pub overhead: u16 = default(OVERHEAD), rebuild, range(0..=64);
        /// Traffic classes; a higher one always goes first, within its cap. The lowest, with the highest number, has eight queues, the
        /// others have one, or as many as their profile gives weights to.
        pub classes: u8 = default(CLASSES), rebuild, range(1..=MAX_CLASSES as u8);
        /// Users at most, numbered from 0.
        pub users: u32 = default(4096), rebuild, range(1..=1_048_576);
        /// Packets that wait at most. The process has as many buffers for them, beside those that it needs to receive.
        pub buffers: u32 = default(16_384), rebuild, range(16..=4_194_304);
        /// Packets that each user may hold whatever the others do; about half of an even share when absent, and 8 at most.
        pub minimum: Option<u32> = optional, rebuild, range(0..=1024);
        /// Sets of users with a rate of their own; one without when there is none.
        pub subports: BTreeMap<String, SubportConfig> = empty, rebuild, length(0..=MAX_SUBPORTS);
        /// How many more there may be while it runs, where it has any: those of `weir subport add`.
        pub spare_subports: u16 = default(16), rebuild, range(0..=MAX_SUBPORTS as u16);
        /// What users may send, by name.
        pub profiles: BTreeMap<String, ProfileConfig> = required, live, length(1..=1024);
        /// Users by number.
        pub assign: Vec<AssignConfig> = empty, live, length(0..=65_536);
    }
}

/// A key, from that of the scheduler on, and what is wrong with it.
pub type Fault = (String, String);

impl SchedulerConfig {
    /// Packets that each user may hold whatever the others do.
    pub fn minimum(&self) -> u32 {
        self.minimum.unwrap_or((self.buffers / self.users.max(1) / 2).min(8))
    }

    /// What is wrong with it beyond the schema.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if u64::from(self.minimum()) * u64::from(self.users) > u64::from(self.buffers) {
            let least = self.buffers / self.users.max(1);
            let problem = format!(
                "{} users cannot each hold so many of {} packets; give {least} or less",
                self.users, self.buffers
            );
            faults.push(("minimum".to_owned(), problem));
        }
        for (name, profile) in &self.profiles {
            profile.faults(&format!("profiles.{name}"), self.classes, &mut faults);
        }
        for (name, subport) in &self.subports {
            let at_key = |(key, problem): Fault| (format!("subports.{name}.{key}"), problem);
            faults.extend(subport.fault().map(at_key));
            if subport.classes.len() > usize::from(self.classes) {
                let problem = format!("the scheduler has {} classes; leave the others out", self.classes);
                faults.push(at_key(("classes".to_owned(), problem)));
            }
        }
        faults.extend(
            levels::faults(&self.subports).into_iter().map(|(key, problem)| (format!("subports.{key}"), problem)),
        );
        for (n, range) in self.assign.iter().enumerate() {
            self.assign_faults(&format!("assign[{}]", n + 1), range, &mut faults);
        }
        faults
    }

    fn assign_faults(&self, key: &str, range: &AssignConfig, faults: &mut Vec<Fault>) {
        let last = range.last.unwrap_or(range.first);
        if last < range.first {
            faults.push((format!("{key}.last"), format!("must be {} or more, the first", range.first)));
        }
        if last >= self.users {
            let problem = format!("there are {} users, numbered from 0; raise users or lower this", self.users);
            faults.push((format!("{key}.last"), problem));
        }
        if !self.profiles.contains_key(&range.profile) {
            let known: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
            let problem = format!("no profile is called {:?}; there are {}", range.profile, known.join(", "));
            faults.push((format!("{key}.profile"), problem));
        }
        if let Some(subport) = range.subport.as_ref().filter(|subport| !self.subports.contains_key(*subport)) {
            faults
                .push((format!("{key}.subport"), format!("no subport is called {subport:?}; declare it in subports")));
        }
    }

    /// How many queues a class has at most, of any user.
    pub fn queues(&self, class: u8) -> u8 {
        if class + 1 >= self.classes {
            return MAX_QUEUES as u8;
        }
        let of =
            |profile: &ProfileConfig| profile.classes.get(usize::from(class)).map_or(0, |class| class.weights.len());
        self.profiles.values().map(of).max().unwrap_or(0).max(1) as u8
    }

    /// How many subports there may be while it runs; where there is none, users are in one that has no name.
    pub fn subports_at_most(&self) -> usize {
        match self.subports.len() {
            0 => 0,
            some => (some + usize::from(self.spare_subports)).min(MAX_SUBPORTS),
        }
    }

    /// Packets that wait at most in each of so many schedulers that users are divided among: together about [`buffers`](Self::buffers), and
    /// never less than what their users may hold whatever the others do.
    pub fn buffers_of_each(&self, schedulers: u8) -> u32 {
        let schedulers = u32::from(schedulers.max(1));
        let minimum = self.minimum().saturating_mul(self.users.div_ceil(schedulers));
        self.buffers.div_ceil(schedulers).max(minimum)
    }

    /// Packets that wait at most in all of so many schedulers.
    pub fn holds(&self, schedulers: u8) -> usize {
        self.buffers_of_each(schedulers) as usize * usize::from(schedulers.max(1))
    }

    pub(crate) fn limits(&self) -> Limits {
        let port = Limit { rate: self.rate.bits_per_second(), size: self.burst.bytes() };
        let number = |name: &str| self.subports.keys().position(|other| other == name);
        let limits = |subport: &SubportConfig| subport.limits(self.classes.into(), number);
        let mut subports: Vec<SubportLimits> = self.subports.values().map(limits).collect();
        subports.resize(self.subports_at_most(), SubportLimits::default());
        Limits { port, subports }
    }
}

/// A ceiling is at least what is guaranteed.
fn ceil_fault(rate: Rate, ceil: Rate) -> Option<Fault> {
    let is_less = ceil.bits_per_second() < rate.bits_per_second();
    let problem = || format!("{ceil} is less than tb_rate, {rate}, which is guaranteed: raise ceil or lower tb_rate");
    is_less.then(|| ("ceil".to_owned(), problem()))
}

impl SubportConfig {
    /// One of which nothing is said.
    pub const OPEN: SubportConfig = SubportConfig {
        tb_rate: None,
        ceil: None,
        tb_size: Size::new(65_536),
        weight: 1,
        parent: None,
        classes: Vec::new(),
    };

    /// What is wrong with it beyond the schema: the key, from its own on, and a sentence.
    pub fn fault(&self) -> Option<Fault> {
        let fault = self.tb_rate.zip(self.ceil).and_then(|(rate, ceil)| ceil_fault(rate, ceil));
        fault.or_else(|| self.promises_fault())
    }

    /// What it says of each class, of so many that are used: the last of those is the lowest.
    fn class_limits(
        &self,
        classes: usize,
        of: impl Fn(&SubportClassConfig) -> Option<Limit>,
    ) -> [Option<Limit>; MAX_CLASSES] {
        let mut limits = [None; MAX_CLASSES];
        for (n, class) in self.classes.iter().take(classes).enumerate() {
            let place = if n + 1 == classes { built(classes) - 1 } else { n };
            limits.iter_mut().skip(place).take(1).for_each(|limit| *limit = of(class));
        }
        limits
    }

    /// With so many classes that are used, and the number of each subport.
    pub(crate) fn limits(&self, classes: usize, number: impl Fn(&str) -> Option<usize>) -> SubportLimits {
        let limit = |rate: Rate| Limit { rate: rate.bits_per_second(), size: self.tb_size.bytes() };
        let (guaranteed, most) = (self.tb_rate.map(limit), self.ceil.or(self.tb_rate).map(limit));
        let parent = self.parent.as_deref().and_then(number).and_then(|number| u16::try_from(number).ok());
        let promises = self.class_limits(classes, SubportClassConfig::promise);
        let classes = self.class_limits(classes, SubportClassConfig::limit);
        SubportLimits { guaranteed, most, weight: self.weight, parent, classes, promises }
    }
}

impl SubportClassConfig {
    /// One of which nothing is said.
    pub const OPEN: SubportClassConfig =
        SubportClassConfig { tc_rate: None, tc_guarantee: None, tc_period: USUAL_PERIOD };

    fn limit(&self) -> Option<Limit> {
        self.tc_rate.map(|rate| Limit { rate: rate.bits_per_second(), size: classes::in_period(rate, self.tc_period) })
    }

    fn promise(&self) -> Option<Limit> {
        let size = |rate: Rate| classes::guaranteed_at_once(rate, self.tc_period);
        self.tc_guarantee.map(|rate| Limit { rate: rate.bits_per_second(), size: size(rate) })
    }
}

/// Classes that a scheduler of which so many are used is built for.
pub(crate) fn built(classes: usize) -> usize {
    if classes <= 4 { 4 } else { MAX_CLASSES }
}

impl ProfileConfig {
    fn faults(&self, key: &str, classes: u8, faults: &mut Vec<Fault>) {
        if self.classes.len() > usize::from(classes) {
            faults
                .push((format!("{key}.classes"), format!("the scheduler has {classes} classes; leave the others out")));
        }
        let fault = self.ceil.and_then(|ceil| ceil_fault(self.tb_rate, ceil));
        faults.extend(fault.map(|(at, problem)| (format!("{key}.{at}"), problem)));
        faults.extend(self.guarantees_fault().map(|problem| (format!("{key}.tb_rate"), problem)));
        if self.weights.contains(&0) {
            faults.push((format!("{key}.weights"), "a weight is 1 to 255".to_owned()));
        }
        for (n, class) in self.classes.iter().enumerate() {
            let key = format!("{key}.classes[{}]", n + 1);
            if class.red.is_some() && class.codel.is_some() {
                faults.push((format!("{key}.codel"), "a class has red or codel, not both: leave one out".to_owned()));
            }
            if class.red.is_some() && class.flows == FlowOrder::Fair {
                let problem = "red looks at a queue as a whole, in which flows take turns here: leave it out, or choose flows = \"fifo\"";
                faults.push((format!("{key}.red"), problem.to_owned()));
            }
            let is_lowest = n + 1 == usize::from(classes);
            faults.extend(class.guarantee_fault().map(|problem| (format!("{key}.tc_guarantee"), problem)));
            faults.extend(class.weights_fault(is_lowest).map(|problem| (format!("{key}.weights"), problem)));
            let most = self.ceil.unwrap_or(self.tb_rate);
            faults.extend(class.l4s_fault(most).map(|(at, problem)| (format!("{key}.{at}"), problem)));
            if let Some(Err((at, problem))) = class.red.as_ref().map(Red::new) {
                faults.push((format!("{key}.red.{at}"), problem.to_owned()));
            }
        }
    }

    /// The profile for a scheduler that is built for `built` classes of which `classes` are used: the last of those is the lowest.
    pub(crate) fn profile(&self, classes: usize, built: usize) -> Profile {
        let mut all = vec![ClassProfile::default(); built];
        for (n, class) in self.classes.iter().take(classes).enumerate() {
            let place = if n + 1 == classes { built - 1 } else { n };
            if let Some(slot) = all.get_mut(place) {
                *slot = class.profile();
            }
        }
        let bucket = |rate: Rate| Bucket::new(rate.bits_per_second(), self.tb_size.bytes());
        let profile = Profile::new(bucket(self.tb_rate), all, &self.weights);
        match self.ceil {
            Some(ceil) => profile.sharing(bucket(ceil), self.weight),
            None => profile,
        }
    }
}

/// A scheduler of eight users and sixteen buffers, with one profile.
#[cfg(test)]
pub(crate) fn small(name: &str, profile: ProfileConfig) -> SchedulerConfig {
    SchedulerConfig {
        rate: Rate::new(1_000_000_000),
        burst: Size::new(65_536),
        overhead: 24,
        classes: 4,
        users: 8,
        buffers: 16,
        minimum: Some(1),
        subports: BTreeMap::new(),
        spare_subports: 2,
        profiles: BTreeMap::from([(name.to_owned(), profile)]),
        assign: Vec::new(),
    }
}

mod classes;

#[cfg(test)]
mod tests {
    use weir_config::Setting;

    use super::*;

    #[test]
    fn the_schema_is_sound() {
        assert_eq!(SchedulerConfig::schema().defects(), Vec::<String>::new());
    }

    #[test]
    fn everything_wrong_is_told_at_once() {
        let class = ClassConfig {
            tc_rate: None,
            tc_guarantee: None,
            tc_period: Nanos::new(1_000_000),
            queue_size: 64,
            red: None,
            codel: None,
            flows: FlowOrder::Fifo,
            l4s: None,
            weights: vec![],
        };
        let profile = ProfileConfig {
            tb_rate: Rate::new(1_000_000),
            tb_size: Size::new(1000),
            ceil: Some(Rate::new(999_999)),
            weight: 1,
            classes: vec![class; 5],
            weights: vec![0],
        };
        let subport = SubportConfig {
            tb_rate: Some(Rate::new(9_000)),
            ceil: Some(Rate::new(8_999)),
            tb_size: Size::new(1000),
            weight: 1,
            parent: Some("lost".into()),
            classes: vec![SubportClassConfig { tc_period: Nanos::new(1_000_000), ..SubportClassConfig::OPEN }; 5],
        };
        let assign = AssignConfig { first: 9, last: Some(8), profile: "x".into(), subport: Some("y".into()) };
        let subports = BTreeMap::from([("olt".to_owned(), subport)]);
        let config = SchedulerConfig { minimum: Some(3), subports, assign: vec![assign], ..small("gold", profile) };
        let faults: Vec<String> = config.faults().into_iter().map(|(key, _)| key).collect();
        assert_eq!(
            faults,
            [
                "minimum",
                "profiles.gold.classes",
                "profiles.gold.ceil",
                "profiles.gold.weights",
                "subports.olt.ceil",
                "subports.olt.classes",
                "subports.olt.parent",
                "assign[1].last",
                "assign[1].last",
                "assign[1].profile",
                "assign[1].subport"
            ]
        );
        assert_eq!(SchedulerConfig::read(&config.write()), Some(config));
    }
}
