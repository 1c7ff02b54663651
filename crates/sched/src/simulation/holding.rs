//! What a scheduler holds when nobody sends too much.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{BUCKET, Random, SMALL, Tokens};
use crate::class::ClassQueue;
use crate::profile::{ClassProfile, Profile, Profiles};
use crate::rate::Bucket;
use crate::scheduler::{Offer, Scheduler, Setup};

/// Packets held, at the times of arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Holding {
    /// On average.
    pub average: f64,
    /// At most so many at 99.9 % of the arrivals.
    pub p999: u32,
    /// At any of them.
    pub most: u32,
    /// Packets that were not taken.
    pub lost: u64,
}

/// Buffers of the scheduler.
const BUFFERS: u32 = 65_536;

/// Lets `packets` come one by one at random times (Poisson) at 95 % of a port's rate, of users who share 95 % of it and all
/// conform. `go_on` is asked now and then; without it, this ends early.
pub fn holding(port: u64, users: u32, packets: u64, go_on: &mut dyn FnMut(u64) -> bool) -> Holding {
    let rate = port * 95 / 100 / u64::from(users.max(1));
    let size = BUCKET * u64::from(SMALL);
    let profile = Profile::new(Bucket::new(rate, size), vec![ClassProfile::default(); 4], &[]);
    // The port may save up no more than a frame, so that what waits for it waits here.
    let table = Profiles::new(Bucket::new(port, u64::from(SMALL)), vec![], vec![profile]);
    let setup = Setup { users, buffers: BUFFERS, minimum: 1, overhead: 24, wheel: Setup::WHEEL };
    let mut scheduler: Scheduler<u64, 4, 11> = Scheduler::new(setup, Arc::new(table));
    (0..users).for_each(|user| scheduler.assign(user, Some((0, 0)), 0));
    // Users take turns, and whoever would not conform is passed over: the process stays that of all together.
    let mut turns: VecDeque<(u32, Tokens)> = (0..users).map(|user| (user, Tokens::new(rate, size))).collect();
    let mut random = Random(3);
    let mean = super::gap(port, 0.95);
    let (mut at, mut due, mut lost) = (0.0, u64::MAX, 0);
    let mut held = vec![0_u64; BUFFERS as usize + 1];
    for packet in 0..packets {
        if packet % (1 << 20) == 0 && !go_on(packet) {
            break;
        }
        at += random.exponential(mean);
        let now = at as u64;
        while due <= now {
            due = scheduler.dequeue(due, 64, |_| {}).max(due + 1);
        }
        if let Some(times) = held.get_mut(scheduler.held() as usize) {
            *times += 1;
        }
        let conforms = turns.iter_mut().position(|(_, tokens)| tokens.take(now, SMALL));
        let Some(turn) = conforms.and_then(|place| turns.remove(place)) else { continue };
        let offer = Offer { user: turn.0, class: ClassQueue::new(3, 0), length: SMALL, colour: 0 };
        turns.push_back(turn);
        if scheduler.pass(&offer, now) == Ok(true) {
            continue;
        }
        lost += u64::from(!matches!(scheduler.enqueue(offer, now, || Some(packet)), Ok(None)));
        due = scheduler.dequeue(now, 64, |_| {}).max(now + 1);
    }
    sum_up(&held, lost)
}

fn sum_up(held: &[u64], lost: u64) -> Holding {
    let all: u64 = held.iter().sum();
    let sum: u64 = (0..).zip(held).map(|(count, times)| count * times).sum();
    let most_with = |mut above: u64| {
        let found = held.iter().rposition(|times| {
            let enough = *times > above;
            above = above.saturating_sub(*times);
            enough
        });
        found.unwrap_or(0) as u32
    };
    Holding { average: sum as f64 / all.max(1) as f64, p999: most_with(all / 1000), most: most_with(0), lost }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_arrivals() {
        let mut held = vec![0; 11];
        (held[0], held[2], held[10]) = (8_000, 1_995, 5);
        let found = sum_up(&held, 1);
        assert_eq!(found, Holding { average: 4040.0 / 10_000.0, p999: 2, most: 10, lost: 1 });
        held[10] = 11;
        assert_eq!(sum_up(&held, 0).p999, 10);
        assert_eq!(sum_up(&[], 0), Holding { average: 0.0, p999: 0, most: 0, lost: 0 });
    }
}
