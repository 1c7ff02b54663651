//! What holds a user back, and since when, as docs/functions/qos.md has it: from all that was decided of the user since it came to wait.

use weir_sched::hold::{Hold, LEAD, Level, SHORTAGE};

use super::Model;

/// What is decided of a user who waits, or of a subport.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reason {
    /// It stands in line: whoever is above it has others go first, or is full.
    Line,
    /// A level of the user's own.
    Own(Level),
    /// A subport that may send no more.
    Full,
}

/// All that was decided of a user since it came to wait, or of a subport, and when.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    spells: Vec<(u64, Reason)>,
    /// When packets found no buffer while none waited, since one did so last.
    shortages: Vec<u64>,
}

impl History {
    /// Something is decided; none where nothing waits.
    pub(super) fn note(&mut self, reason: Option<Reason>, now: u64) {
        match reason {
            None => self.spells.clear(),
            Some(reason) => {
                self.shortages.clear();
                if self.spells.last().is_none_or(|(_, last)| *last != reason) {
                    self.spells.push((now, reason));
                }
            }
        }
    }

    /// A packet finds no buffer; whether one waits already is of no matter here.
    pub(super) fn short(&mut self, now: u64) {
        self.shortages.push(now);
    }

    /// What holds, and since when: what has held longer than that which was told before, whose lead is [`LEAD`] at most.
    fn told(&self, now: u64) -> Option<(u64, Reason)> {
        let ends = self.spells.iter().skip(1).map(|(since, _)| *since).chain([now]);
        let (mut told, mut lead) = (*self.spells.first()?, 0);
        for (spell, end) in self.spells.iter().zip(ends) {
            let lasted = end - spell.0;
            if spell.1 == told.1 {
                lead = (lead + lasted).min(LEAD);
            } else if lasted > lead {
                (told, lead) = (*spell, lasted.min(LEAD));
            } else {
                lead -= lasted;
            }
        }
        Some(told)
    }

    /// Since when packets have found no buffer, with less than a second between two of them.
    fn shortage(&self, now: u64) -> Option<u64> {
        let (mut since, mut last) = (*self.shortages.first()?, *self.shortages.first()?);
        for at in &self.shortages {
            if at - last >= SHORTAGE {
                since = *at;
            }
            last = *at;
        }
        (now - last < SHORTAGE).then_some(since)
    }
}

impl Model {
    /// What holds a user back at `now`.
    pub(crate) fn hold(&self, at: usize, now: u64) -> Option<Hold> {
        let history = &self.users[at].history;
        if let Some(since) = history.shortage(now) {
            return Some(Hold { level: Level::Buffers, since });
        }
        let (since, reason) = history.told(now)?;
        let Reason::Own(level) = reason else {
            let path = self.path(self.users[at].subport);
            let full = path.iter().find_map(|level| match self.histories[*level].told(now)? {
                (since, Reason::Full) => Some((*level, since)),
                _ => None,
            });
            return Some(match full {
                None => Hold { level: Level::Port, since },
                Some((level, full)) if level == path[0] => Hold { level: Level::Subport, since: since.max(full) },
                Some((level, full)) => Hold { level: Level::Above(level as u16), since: since.max(full) },
            });
        };
        // It may stand aside for a class of one above its own.
        let level = match level {
            Level::SubportClass(class) => {
                let above = self.path(self.users[at].subport)[1..].to_vec();
                let stood = self.users[at].stood[usize::from(class)].filter(|stood| above.contains(stood));
                stood.map_or(level, |number| Level::AboveClass(class, number as u16))
            }
            level => level,
        };
        Some(Hold { level, since })
    }
}
