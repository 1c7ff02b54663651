//! When the packets of a file are due: their stamps, brought into an order in which time can pass.

/// A stamp that lies this far before another, nanoseconds, is no packet that was overtaken: the clock was set back.
const SET_BACK: u64 = 1_000_000_000;

/// A stamp that lies this far behind the one before, nanoseconds, is not believed: 366 days.
const FAR: u64 = 366 * 24 * 3_600 * 1_000_000_000;

/// As long as a file may last in all, nanoseconds: more than a hundred years, and no sum of two overflows.
const LONGEST: u64 = u64::MAX / 4;

/// Turns the stamps of a file, in the order of its packets, into times that never run backwards and are bounded.
///
/// A stamp before that of an earlier packet is taken for that one's: the packet is due right behind it. Where it lies more than a second
/// before, the clock was set back, and time goes on from there. So it does where a stamp lies more than 366 days behind
/// the one before.
///
/// ```
/// use weir_capture::Schedule;
///
/// let mut schedule = Schedule::default();
/// assert_eq!([10, 30, 20, 40].map(|stamp| schedule.place(stamp)), [10, 30, 30, 40]);
/// assert_eq!(schedule.remark().unwrap(), "1 stamp runs backwards; such packets are due right behind the one before");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// The latest stamp that counts, and the time it became.
    last: Option<(u64, u64)>,
    /// The time of the first.
    first: u64,
    /// Stamps that run backwards.
    backwards: u64,
    /// Stamps that are too far behind.
    far: u64,
}

impl Schedule {
    /// The time of the next packet, whose stamp is `stamp`; both in nanoseconds from the same origin. The first has the time of its stamp.
    pub fn place(&mut self, stamp: u64) -> u64 {
        let Some((latest, time)) = self.last else {
            self.first = stamp.min(LONGEST);
            self.last = Some((stamp, self.first));
            return self.first;
        };
        if stamp < latest {
            self.backwards += 1;
            if latest - stamp > SET_BACK {
                self.last = Some((stamp, time));
            }
            return time;
        }
        let gap = stamp - latest;
        let due = if gap > FAR || time - self.first > LONGEST - gap.min(LONGEST) {
            self.far += 1;
            time
        } else {
            time + gap
        };
        self.last = Some((stamp, due));
        due
    }

    /// What there is to say of the stamps so far, as a sentence.
    pub fn remark(&self) -> Option<String> {
        let some = |count: u64, verb: (&str, &str), what: &str| match count {
            0 => None,
            1 => Some(format!("1 stamp {} {what}", verb.0)),
            count => Some(format!("{count} stamps {} {what}", verb.1)),
        };
        let backwards = some(self.backwards, ("runs", "run"), "backwards");
        let far = some(self.far, ("lies", "lie"), "more than 366 days behind the one before");
        let all: Vec<String> = backwards.into_iter().chain(far).collect();
        (!all.is_empty()).then(|| format!("{}; such packets are due right behind the one before", all.join(" and ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000_000_000;

    fn times(stamps: &[u64]) -> (Vec<u64>, Option<String>) {
        let mut schedule = Schedule::default();
        (stamps.iter().map(|&stamp| schedule.place(stamp)).collect(), schedule.remark())
    }

    #[test]
    fn stamps_in_order_stay_as_they_are() {
        let stamps = [5, 5, 6, 6 + DAY, 6 + 300 * DAY];
        assert_eq!(times(&stamps), (stamps.to_vec(), None));
    }

    #[test]
    fn what_was_overtaken_is_due_at_once() {
        let (due, remark) = times(&[1000, 3000, 2000, 2500, 4000]);
        assert_eq!(due, [1000, 3000, 3000, 3000, 4000]);
        assert!(remark.unwrap().starts_with("2 stamps run backwards; "));
    }

    #[test]
    fn a_clock_that_is_set_back_goes_on() {
        let (due, remark) = times(&[10 * DAY, 10 * DAY + 7, 5 * DAY, 5 * DAY + 9]);
        assert_eq!(due, [10 * DAY, 10 * DAY + 7, 10 * DAY + 7, 10 * DAY + 16]);
        assert!(remark.unwrap().starts_with("1 stamp runs backwards; "));
    }

    #[test]
    fn absurd_stamps_are_bounded() {
        // From 1970 to the end of what 32 bits of seconds can say, in 2106, and on from there.
        let last = u64::from(u32::MAX) * 1_000_000_000;
        let (due, remark) = times(&[1, last, last + 5, u64::MAX]);
        assert_eq!(due, [1, 1, 6, 6]);
        assert!(remark.unwrap().starts_with("2 stamps lie more than 366 days behind the one before; "));
        // A file that begins there is as good as any other.
        assert_eq!(times(&[last, last + DAY]), (vec![last, last + DAY], None));
        assert_eq!(times(&[u64::MAX, 0, u64::MAX]).0, [LONGEST; 3]);
    }

    #[test]
    fn no_number_of_long_gaps_overflows() {
        let mut schedule = Schedule::default();
        let stamps = (0..100_000).map(|n| (n % 500) * 365 * DAY);
        let due: Vec<u64> = stamps.map(|stamp| schedule.place(stamp)).collect();
        assert!(due.is_sorted() && due.last().is_some_and(|&last| last <= 2 * LONGEST));
    }
}
