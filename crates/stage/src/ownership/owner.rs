//! Whose a user is, where several workers share the users: the one rule that balancers and workers both go by.
//!
//! A user's state has one owner. User `u` of `n` workers belongs to worker `u mod n`: any run of consecutive numbers is spread evenly, whatever
//! `n` is, and a user keeps its owner as long as it keeps its number. Tables hold the *word* of a user, in which its owner stands above the
//! number that it has in its part of the state; a balancer looks at the owner, a worker at the number if it is the owner ([`Own`]). Else it is left
//! with a number that no part has, so that a packet which was on its way while its user changed hands is refused by name, and never sent at
//! somebody else's expense.
//!
//! State is divided into *parts*: each owner has one, or all share one that stands behind them on a worker of its own, as a scheduler does in a
//! pipeline.

use std::num::NonZeroU32;

/// Workers that share users at most.
pub const MAX_OWNERS: u8 = 64;

/// Bits of a number below the owner in a word.
const NUMBER_BITS: u32 = 24;

/// The workers that share the users of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owners {
    workers: NonZeroU32,
    /// Parts that the users' state is divided into: as many as workers, or one.
    parts: NonZeroU32,
}

impl Owners {
    /// One worker has all users.
    pub const ONE: Owners = Owners { workers: NonZeroU32::MIN, parts: NonZeroU32::MIN };

    /// So many workers (1 to [`MAX_OWNERS`]; others are taken as the nearest) before one part that they share.
    pub fn sharing(workers: u8) -> Owners {
        Owners { workers: in_range(workers), parts: NonZeroU32::MIN }
    }

    /// So many workers with a part each.
    pub fn divided(workers: u8) -> Owners {
        let workers = in_range(workers);
        Owners { workers, parts: workers }
    }

    /// How many workers there are.
    pub fn count(self) -> u8 {
        self.workers.get() as u8
    }

    /// How many parts the users' state is divided into.
    pub fn parts(self) -> u8 {
        self.parts.get() as u8
    }

    /// The worker that has a user, from 0.
    pub fn of(self, user: u32) -> u8 {
        (user % self.workers) as u8
    }

    /// The number of a user in its part.
    pub fn number(self, user: u32) -> u32 {
        user / self.parts
    }

    /// What tables hold of a user, whose number is below 2^24.
    pub fn word(self, user: u32) -> u32 {
        Owners::mark(self.of(user)) | self.number(user) & (Owners::mark(1) - 1)
    }

    fn mark(owner: u8) -> u32 {
        u32::from(owner) << NUMBER_BITS
    }

    /// The owner in a word.
    #[inline(always)]
    pub fn owner_in(word: u32) -> u8 {
        (word >> NUMBER_BITS) as u8
    }

    /// The user with a number in a part.
    pub fn user(self, part: u8, number: u32) -> u32 {
        number.saturating_mul(self.parts.get()).saturating_add(u32::from(part))
    }

    /// Whether the state of a user is in this part.
    pub fn at(self, part: u8, user: u32) -> bool {
        user % self.parts == u32::from(part)
    }
}

/// So many workers, or as many as there may be.
fn in_range(workers: u8) -> NonZeroU32 {
    NonZeroU32::new(u32::from(workers.min(MAX_OWNERS))).unwrap_or(NonZeroU32::MIN)
}

/// Whose words a stage reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    mark: u32,
    mask: u32,
}

impl Own {
    /// Those of all users.
    pub const ALL: Own = Own { mark: 0, mask: (1 << NUMBER_BITS) - 1 };

    /// Those of the users of an owner.
    pub fn of(owner: u8) -> Own {
        Own { mark: Owners::mark(owner), mask: u32::MAX }
    }

    /// The number of a user in its part, given its word; one that no part has if it is another's.
    #[inline(always)]
    pub fn number(self, word: u32) -> u32 {
        (word ^ self.mark) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_has_one_owner_and_all_have_as_many() {
        for workers in 1..=MAX_OWNERS {
            for owners in [Owners::sharing(workers), Owners::divided(workers)] {
                for users in [1, 63, 64, 1000, 65_536, 131_072_u32] {
                    let mut each = vec![0_u32; usize::from(workers)];
                    (0..users).for_each(|user| each[usize::from(owners.of(user))] += 1);
                    let (least, most) = (*each.iter().min().unwrap(), *each.iter().max().unwrap());
                    assert!(most - least <= 1 && each.iter().sum::<u32>() == users, "{workers} workers: {each:?}");
                }
            }
        }
    }

    #[test]
    fn words_say_the_owner_and_its_number_and_nothing_to_others() {
        for workers in 1..=MAX_OWNERS {
            let owners = Owners::divided(workers);
            let mut seen = std::collections::HashSet::new();
            for user in (0..1 << 20).step_by(997).chain([(1 << 20) - 1]) {
                let (word, owner) = (owners.word(user), owners.of(user));
                assert_eq!(Owners::owner_in(word), owner);
                assert_eq!(Own::of(owner).number(word), owners.number(user));
                assert_eq!(Own::ALL.number(word), owners.number(user));
                assert_eq!(owners.user(owner, owners.number(user)), user);
                assert!(seen.insert(word), "{workers} workers: two users have the word {word:#x}");
                for other in (0..workers).filter(|other| *other != owner) {
                    assert!(Own::of(other).number(word) >= 1 << NUMBER_BITS);
                    assert!(!owners.at(other, user));
                }
            }
        }
    }

    #[test]
    fn one_part_behind_all_knows_users_by_their_own_numbers() {
        let owners = Owners::sharing(7);
        assert_eq!((owners.number(1000), owners.of(1000), owners.parts()), (1000, 6, 1));
        assert_eq!(Own::of(6).number(owners.word(1000)), 1000);
        assert_eq!(Owners::sharing(0), Owners::ONE);
        assert_eq!(Owners::divided(255).count(), 64);
    }
}
