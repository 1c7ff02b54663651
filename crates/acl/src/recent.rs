//! The last of what rules say to keep in mind.

use std::sync::{Mutex, PoisonError};

/// How many are kept.
const KEPT: usize = 256;

/// Time between two that a worker hands over, nanoseconds: a sample, however many there are.
pub const BETWEEN: u64 = 1_000_000;

/// The ones that came last, in a ring that does not grow.
#[derive(Debug)]
pub struct Recent<T>(Mutex<(Box<[Option<T>]>, usize)>);

impl<T> Default for Recent<T> {
    fn default() -> Recent<T> {
        Recent(Mutex::new(((0..KEPT).map(|_| None).collect(), 0)))
    }
}

impl<T: Clone> Recent<T> {
    /// Keeps one, unless somebody is looking: workers wait for nobody.
    pub fn keep(&self, one: T) {
        let Ok(mut kept) = self.0.try_lock() else { return };
        let (ring, next) = &mut *kept;
        if let Some(oldest) = ring.get_mut(*next % KEPT) {
            *oldest = Some(one);
        }
        *next = next.wrapping_add(1);
    }

    /// All of them, the oldest first.
    pub fn all(&self) -> Vec<T> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (ring, next) = &*kept;
        let (newer, older) = ring.split_at(*next % KEPT);
        older.iter().chain(newer).flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept_in_their_order() {
        let recent = Recent::default();
        (0..3).for_each(|n| recent.keep(n));
        assert_eq!(recent.all(), [0, 1, 2]);
        (3..300).for_each(|n| recent.keep(n));
        assert_eq!(recent.all(), (44..300).collect::<Vec<i32>>());
    }
}
