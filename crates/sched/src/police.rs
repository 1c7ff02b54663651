//! The stage that polices users before they are scheduled: colours their packets by the meters of RFC 2697, 2698 and 4115, and drops
//! red ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use weir_config::{Rate, Size, choice, config};
use weir_mem::Published;
use weir_mem::prefetch::prefetch_slice;
use weir_packet::{Batch, Key, LaneId};
use weir_stage::{Declaration, Out, Stage};
use weir_table::meter::{Bucket, Colour, Error, Meter, Parameters, Profile};

use crate::classify::Frame;

choice! {
    /// How packets are coloured.
    pub enum MeterKind {
        /// Single rate (RFC 2697): `cir`, `cbs`, `ebs`.
        SingleRate = "srtcm",
        /// Two rates (RFC 2698): `cir`, `cbs`, and `eir`, `ebs` for the peak rate and its burst.
        TwoRate = "trtcm",
        /// Two rates, of which the excess does not use up what is committed (RFC 4115): `cir`, `cbs`, `eir`, `ebs`.
        Differentiated = "rfc4115",
    }
}

config! {
    /// Polices a user before the scheduler. Bytes are counted as the scheduler counts them, overhead included.
    pub struct PolicerConfig {
        /// How packets are coloured.
        pub meter: MeterKind = default(MeterKind::SingleRate), live;
        /// Committed rate: packets within it are green.
        pub cir: Rate = required, live;
        /// Committed burst size.
        pub cbs: Size = required, live;
        /// Excess rate, on top of the committed one; with `trtcm` the peak rate.
        pub eir: Option<Rate> = optional, live;
        /// Excess burst size; with `trtcm` the peak burst size. Packets within it are yellow.
        pub ebs: Option<Size> = optional, live;
        /// Whether packets have a colour already, by the drop precedence in their DSCP (RFC 2597), and never get a better one.
        pub colour_aware: bool = default(false), live;
        /// Whether red packets are dropped; else they go on, and RED may treat them worse.
        pub drop_red: bool = default(true), live;
    }
}

/// What polices users of one profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    profile: Profile,
    aware: bool,
    drop_red: bool,
}

impl Policer {
    /// From a configuration.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn new(config: &PolicerConfig) -> Result<Policer, Error> {
        let bucket = |rate: Rate, burst: Size| Bucket { rate: rate.bits_per_second(), burst: burst.bytes() };
        let committed = bucket(config.cir, config.cbs);
        let none = (Rate::new(0), Size::new(0));
        let excess = bucket(config.eir.unwrap_or(none.0), config.ebs.unwrap_or(none.1));
        let profile = Profile::new(match config.meter {
            MeterKind::SingleRate => Parameters::SingleRate { committed, excess_burst: excess.burst },
            MeterKind::TwoRate => Parameters::TwoRate { committed, peak: excess },
            MeterKind::Differentiated => Parameters::Differentiated { committed, excess },
        })?;
        Ok(Policer { profile, aware: config.colour_aware, drop_red: config.drop_red })
    }

    fn before(&self, bytes: &[u8]) -> Colour {
        if !self.aware {
            return Colour::Green;
        }
        Frame::of(bytes).dscp(bytes).map_or(Colour::Green, drop_precedence)
    }
}

/// The colour that a DSCP stands for: assured forwarding (RFC 2597) has three drop precedences, everything else is green.
fn drop_precedence(dscp: u8) -> Colour {
    match (dscp >> 3, dscp & 7) {
        (1..=4, 4) => Colour::Yellow,
        (1..=4, 6) => Colour::Red,
        _ => Colour::Green,
    }
}

/// The profile of each user, for all who act by it. The control side alone writes it.
#[derive(Debug)]
pub struct UserProfiles(Box<[AtomicU16]>);

impl UserProfiles {
    /// So many users, all of profile 0.
    pub fn new(users: u32) -> UserProfiles {
        UserProfiles((0..users).map(|_| AtomicU16::new(0)).collect())
    }

    /// The profile of a user; 0 where there is no such user.
    #[inline]
    pub fn get(&self, user: u32) -> u16 {
        // Nothing else is read by what it says but versions that are published on their own.
        self.0.get(user as usize).map_or(0, |profile| profile.load(Ordering::Relaxed))
    }

    /// Gives a user another profile.
    pub fn set(&self, user: u32, profile: u16) {
        if let Some(entry) = self.0.get(user as usize) {
            entry.store(profile, Ordering::Relaxed);
        }
    }

    /// How many users there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The policer of each profile, if it has one.
#[derive(Debug, Default)]
pub struct Policers(pub Vec<Option<Policer>>);

impl Policers {
    fn of(&self, profile: u16) -> Option<&Policer> {
        self.0.get(usize::from(profile)).and_then(Option::as_ref)
    }
}

weir_stage::ways! {
    /// Ways out of [`Police`].
    pub enum Exit {
        /// Coloured, and goes on.
        Out => way "out",
        /// Red: the user has sent more than the policer lets through.
        Policed => drop "policed",
    }
}

/// What is remembered of a user.
#[derive(Clone, Copy, Debug)]
struct UserMeter {
    meter: Meter,
    /// The profile that it was metered by last, plus one.
    profile: u32,
}

/// Polices users. It is the only one that meters its users.
pub struct Police {
    user: Key<u32>,
    profiles: Arc<UserProfiles>,
    policers: Arc<Published<Policers>>,
    overhead: u32,
    meters: Vec<UserMeter>,
}

impl Police {
    /// A stage that finds the user of a packet in the lane `user`, and counts `overhead` bytes on top of each frame.
    pub fn new(
        user: Key<u32>,
        profiles: Arc<UserProfiles>,
        policers: Arc<Published<Policers>>,
        overhead: u32,
    ) -> Police {
        // Any meter will do: none has been used yet.
        let meters = vec![UserMeter { meter: Meter::default(), profile: 0 }; profiles.len()];
        Police { user, profiles, policers, overhead, meters }
    }
}

impl UserMeter {
    /// The colour of a packet, by the policer of `number`.
    fn colour(&mut self, number: u16, policers: &Policers, now: u64, length: u32, bytes: &[u8]) -> (Colour, Exit) {
        let Some(policer) = policers.of(number) else { return (Colour::Green, Exit::Out) };
        let wanted = u32::from(number) + 1;
        if self.profile != wanted {
            let before = self.profile.checked_sub(1).and_then(|before| policers.of(before as u16));
            self.meter = match before {
                Some(before) => policer.profile.adopt(&before.profile, &self.meter, now),
                None => policer.profile.meter(now),
            };
            self.profile = wanted;
        }
        let colour = policer.profile.colour(&mut self.meter, now, length, policer.before(bytes));
        let exit = if colour == Colour::Red && policer.drop_red { Exit::Policed } else { Exit::Out };
        (colour, exit)
    }
}

/// What [`Police`] declares.
pub fn declaration(user: Key<u32>) -> Declaration {
    Declaration::of::<Exit>().reads(&[user.into()]).updates(&[LaneId::Colour])
}

impl Stage for Police {
    fn declare(&self) -> Declaration {
        declaration(self.user)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let (now, policers) = (out.now(), self.policers.load(out.reader()));
        for slot in batch.slots() {
            let user: u32 = batch.lanes.get(self.user, slot);
            prefetch_slice(&self.meters, user as usize);
        }
        let (key, overhead) = (self.user, self.overhead);
        let (profiles, meters) = (&self.profiles, &mut self.meters);
        out.each(batch, |slot, packet, lanes| {
            let user: u32 = lanes.get(key, slot);
            let Some(meter) = meters.get_mut(user as usize) else { return Exit::Out };
            let length = (packet.len() as u32).saturating_add(overhead);
            let (colour, exit) = meter.colour(profiles.get(user), policers, now, length, packet.bytes());
            lanes.colour[slot] = lanes.colour[slot].max(colour as u8);
            exit
        });
    }
}
