//! What holds a user back, and since when: noted where the scheduler decides it, told to the control side at any time.
//!
//! The scheduler alone writes, when what it decides of a user who waits is not what it decided before; a packet that need not wait touches nothing of
//! this. Who waits for its own rate most of the time, and stands in line for a moment before each packet, is held by its rate all the while: what is told
//! changes once something else has held a user for longer, by up to [`LEAD`].

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lines::Judgement;

/// What holds a user back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Its own rate, of which it has no more.
    Rate,
    /// Its own ceiling.
    Ceil,
    /// The cap of the class of this number.
    Class(u8),
    /// Its subport may send no more of the class of this number.
    SubportClass(u8),
    /// A subport above its own, of the second number, may send no more of the class of the first.
    AboveClass(u8, u16),
    /// Its subport may send no more.
    Subport,
    /// A subport above its own, of this number, may send no more.
    Above(u16),
    /// The port: it is full, or others go first.
    Port,
    /// A packet of it found no buffer, though none of its own waited.
    Buffers,
}

impl Level {
    /// The same, where the lowest class, which is that of the number `built`, is called by the number `named`.
    pub(crate) fn with_lowest(self, built: usize, named: usize) -> Level {
        let name = |class: u8| if usize::from(class) == built { named as u8 } else { class };
        match self {
            Level::Class(class) => Level::Class(name(class)),
            Level::SubportClass(class) => Level::SubportClass(name(class)),
            Level::AboveClass(class, number) => Level::AboveClass(name(class), number),
            other => other,
        }
    }
}

/// What holds a user back now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Which level.
    pub level: Level,
    /// Since when, nanoseconds since the engine started.
    pub since: u64,
}

impl Hold {
    /// For how long at `now`, seconds, to the millisecond.
    pub fn seconds(&self, now: u64) -> f64 {
        (now.saturating_sub(self.since) / 1_000_000) as f64 / 1e3
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.level {
            Level::Rate => "rate",
            Level::Ceil => "ceil",
            Level::Class(class) => return write!(f, "class {class}"),
            Level::SubportClass(class) => return write!(f, "class {class} of subport"),
            Level::AboveClass(class, number) => return write!(f, "class {class} of subport {number}"),
            Level::Subport => "subport",
            Level::Above(number) => return write!(f, "subport {number}"),
            Level::Port => "port",
            Level::Buffers => "buffers",
        })
    }
}

/// So much longer, nanoseconds, has another level to hold back whoever has been held by one for long.
pub const LEAD: u64 = 1_000_000;

/// A packet that found no buffer is held against them for this long, nanoseconds.
pub const SHORTAGE: u64 = 1_000_000_000;

/// What a word says beside the time: 0 for nothing, that somebody stands in line, or a level.
const LINE: u64 = 1;
const RATE: u64 = 2;
const CEIL: u64 = 3;
const BUFFERS: u64 = 4;
const TOKENS: u64 = 5;
const CLASS: u64 = 8;
const SUBPORT_CLASS: u64 = 16;
const CODE_BITS: u32 = 5;
const CODE: u64 = (1 << CODE_BITS) - 1;

const fn word(code: u64, since: u64) -> u64 {
    code | since << CODE_BITS
}

/// A level for which a user waits, and does not stand in line, and since when.
fn own(word: u64) -> Option<Hold> {
    let level = match word & CODE {
        RATE => Level::Rate,
        CEIL => Level::Ceil,
        code if code >= SUBPORT_CLASS => Level::SubportClass((code % 8) as u8),
        code if code >= CLASS => Level::Class((code % 8) as u8),
        _ => return None,
    };
    Some(Hold { level, since: word >> CODE_BITS })
}

/// Of a user, or of a subport.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// What is told, and since when; 0 while nothing waits.
    told: AtomicU64,
    /// What it is at the moment, and since when. While no buffer is left: when that was so last.
    is: AtomicU64,
    /// By how much longer what is told has held than what else did, nanoseconds, [`LEAD`] at most.
    lead: AtomicU64,
}

impl Held {
    /// Goes by what the scheduler decides of a user.
    #[inline(always)]
    pub(crate) fn judged(&self, judgement: &Judgement, now: u64) {
        let code = match judgement {
            Judgement::Nothing => 0,
            Judgement::May(..) => LINE,
            Judgement::From(_, wants, _) if wants.is_more() => LINE,
            Judgement::From(_, _, Level::Ceil) => CEIL,
            Judgement::From(_, _, Level::Class(class)) => CLASS + u64::from(class % 8),
            Judgement::From(_, _, Level::SubportClass(class)) | Judgement::Aside(Level::SubportClass(class)) => {
                SUBPORT_CLASS + u64::from(class % 8)
            }
            Judgement::From(..) | Judgement::Aside(_) => RATE,
        };
        if self.is.load(Ordering::Relaxed) & CODE != code {
            self.become_held(code, now);
        }
    }

    /// A user waits for its own rate.
    #[inline(always)]
    pub(crate) fn rated(&self, now: u64) {
        if self.is.load(Ordering::Relaxed) & CODE != RATE {
            self.become_held(RATE, now);
        }
    }

    /// Nothing of a user waits any more.
    #[inline(always)]
    pub(crate) fn freed(&self) {
        // Nothing of it has waited since a packet found no buffer.
        if self.is.load(Ordering::Relaxed) & CODE != BUFFERS {
            self.told.store(0, Ordering::Relaxed);
            self.is.store(0, Ordering::Relaxed);
        }
    }

    /// A subport has to wait for what it may send, or need not any longer.
    #[cold]
    pub(crate) fn suspended(&self, waits: bool, now: u64) {
        self.become_held(if waits { TOKENS } else { LINE }, now);
    }

    fn become_held(&self, code: u64, now: u64) {
        if code == 0 {
            return self.freed();
        }
        let (told, is) = (self.told.load(Ordering::Relaxed), self.is.load(Ordering::Relaxed));
        let (next, lead) = match told & CODE {
            0 | BUFFERS => (word(code, now), 0),
            _ => self.weigh(told, is, now),
        };
        self.told.store(next, Ordering::Relaxed);
        self.is.store(word(code, now), Ordering::Relaxed);
        self.lead.store(lead, Ordering::Relaxed);
    }

    /// What is to be told at `now` of what has been so until now, and its lead.
    fn weigh(&self, told: u64, is: u64, now: u64) -> (u64, u64) {
        let (lead, lasted) = (self.lead.load(Ordering::Relaxed), now.saturating_sub(is >> CODE_BITS));
        if told & CODE == is & CODE {
            (told, lead.saturating_add(lasted).min(LEAD))
        } else if lasted > lead {
            (is, lasted.min(LEAD))
        } else {
            (told, lead - lasted)
        }
    }

    /// A packet of a user found no buffer, and none of it waits.
    #[inline]
    pub(crate) fn short(&self, now: u64) {
        let told = self.told.load(Ordering::Relaxed);
        if told & CODE != BUFFERS || now.saturating_sub(self.is.load(Ordering::Relaxed) >> CODE_BITS) >= SHORTAGE {
            self.told.store(word(BUFFERS, now), Ordering::Relaxed);
        }
        self.is.store(word(BUFFERS, now), Ordering::Relaxed);
    }

    /// What holds a user at `now`, if anything; `levels` are its subport and those above it.
    pub(crate) fn at<'a>(&self, levels: impl Iterator<Item = (u32, &'a Held)>, now: u64) -> Option<Hold> {
        let (told, is) = (self.told.load(Ordering::Relaxed), self.is.load(Ordering::Relaxed));
        if told & CODE == BUFFERS {
            let is_so = now.saturating_sub(is >> CODE_BITS) < SHORTAGE;
            return is_so.then_some(Hold { level: Level::Buffers, since: told >> CODE_BITS });
        }
        let (held, _) = self.weigh(told, is, now);
        let since = held >> CODE_BITS;
        match held & CODE {
            LINE => {
                let mut full =
                    (0..).zip(levels).filter_map(|(nth, (number, held))| Some((nth, number, held.full(now)?)));
                Some(match full.next() {
                    Some((0, _, full)) => Hold { level: Level::Subport, since: since.max(full) },
                    Some((_, number, full)) => Hold { level: Level::Above(number as u16), since: since.max(full) },
                    None => Hold { level: Level::Port, since },
                })
            }
            _ => own(held),
        }
    }

    /// Since when a subport may send no more at `now`, if that is so.
    fn full(&self, now: u64) -> Option<u64> {
        let (held, _) = self.weigh(self.told.load(Ordering::Relaxed), self.is.load(Ordering::Relaxed), now);
        (held & CODE == TOKENS).then_some(held >> CODE_BITS)
    }
}
