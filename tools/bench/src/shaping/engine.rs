//! What is measured on an engine, judged: rates and windows of users in real time, and how long a lone packet takes.

use weir_sched::simulation::{BUCKET, SMALL, Windows};

use super::Finding;
use crate::record::Better;

const SECOND: u64 = 1_000_000_000;

/// The rate of a user in real time, bit/s.
pub const RATE: u64 = 1_000_000;

/// What a user may send at once, bytes.
pub const SIZE: u64 = BUCKET * SMALL as u64;

/// Packets may wait so long for others to go with, nanoseconds.
const FLUSH: u64 = 100_000;

/// A loop that takes longer than this is a stall, nanoseconds.
pub const STALL: u64 = SECOND / 1000;

/// What was seen of users who always send too much, in real time.
#[derive(Debug)]
pub struct RealTime {
    /// Users.
    pub users: u32,
    /// When each packet left, nanoseconds of the engine's clock, and whose it was, in that order.
    pub left: Vec<(u64, u32)>,
    /// Of pieces of time one after the other: when it began and ended, and the longest loop in it, nanoseconds.
    pub pieces: Vec<(u64, u64, u64)>,
}

/// The share by which a user's rate is off in a piece of time, at most.
fn off(left: &[(u64, u32)], from: u64, to: u64, users: u32) -> f64 {
    let mut counts = vec![0_u64; users as usize];
    let after = left.partition_point(|(at, _)| *at < from);
    for (_, user) in left.iter().skip(after).take_while(|(at, _)| *at < to) {
        if let Some(count) = counts.get_mut(*user as usize) {
            *count += 1;
        }
    }
    let expected = (to - from) as f64 / 1e9 * RATE as f64 / (f64::from(SMALL) * 8.0);
    counts.iter().map(|count| (*count as f64 / expected - 1.0).abs()).fold(0.0, f64::max)
}

/// Packets that left too early for `size` bytes more than the bucket has.
fn early(seen: &RealTime, more: u64) -> u64 {
    let mut windows = vec![Windows::new(RATE, SIZE + more, SMALL); seen.users as usize];
    for (at, user) in &seen.left {
        if let Some(windows) = windows.get_mut(*user as usize) {
            windows.sent(*at, SMALL);
        }
    }
    windows.iter().map(|windows| windows.early).sum()
}

/// In each piece of time without a stall, every user got its rate within 0.5 %; and no window, with stalls or without, has more than
/// it may.
pub fn real_time(seen: &RealTime) -> Finding {
    let help = "Users of 1 Mbit/s are offered twice their rates in frames of 64 bytes, in real time, between ports in memory on one core.";
    let mut finding = Finding::new("real-time", help);
    let longest = seen.pieces.iter().map(|piece| piece.2).max().unwrap_or(0);
    let calm: Vec<f64> = seen
        .pieces
        .iter()
        .filter(|piece| piece.2 < STALL)
        .map(|(from, to, _)| off(&seen.left, *from, *to, seen.users))
        .collect();
    let worst = calm.iter().copied().fold(0.0, f64::max);
    finding.figure("off", "%", Better::Less, worst * 100.0);
    finding.figure("longest loop", "us", Better::Less, longest as f64 / 1e3);
    finding.detail("users", "", Better::Neither, f64::from(seen.users));
    finding.detail("packets sent", "million", Better::Neither, seen.left.len() as f64 / 1e6);
    finding.detail("pieces with a stall", "", Better::Less, (seen.pieces.len() - calm.len()) as f64);
    let found = match calm.len() {
        0 => format!(
            "no piece of time was without a stall of 1 ms or more, so nothing can be said; the longest was {:.1} ms: try again when \
             others leave the machine alone",
            longest as f64 / 1e6
        ),
        some => format!(
            "{:.3} % off at most in {some} of {} pieces of time; the others had a stall",
            worst * 100.0,
            seen.pieces.len()
        ),
    };
    let kept = !calm.is_empty() && worst <= 0.005;
    finding.judge("without a stall of 1 ms every user gets its rate within 0.5 %, each second", found, kept);
    // A packet leaves when its burst does, which may be so much later than when the scheduler sent it.
    let more = (u128::from(FLUSH + longest) * u128::from(RATE)).div_ceil(8 * u128::from(SECOND)) as u64;
    let early = early(seen, more);
    finding.judge(
        "no window T has more of a user than tb_size + rate (T + what bursts wait)",
        format!("{early} packets left too early; bursts waited for up to {:.1} ms", (FLUSH + longest) as f64 / 1e6),
        early == 0 && !seen.left.is_empty(),
    );
    finding
}

/// How long lone packets took, nanoseconds, and whether the machine disturbed that; and how many did not come out.
pub fn lone_packet(way: &str, took: &[(u64, bool)], lost: u64) -> Finding {
    let help = "A packet alone, from when it was due at one port of the gateway until it left by the other, with schedulers in both \
                directions, on one core that never sleeps.";
    let mut finding = Finding::new("lone-packet", help).with("others", way.into());
    let sorted = |only_calm: bool| {
        let mut all: Vec<u64> = took.iter().filter(|one| !(only_calm && one.1)).map(|one| one.0).collect();
        all.sort_unstable();
        all
    };
    let (all, calm) = (sorted(false), sorted(true));
    let at = |sorted: &[u64], share: f64| {
        let place = (sorted.len() as f64 * share) as usize;
        sorted.get(place.min(sorted.len().saturating_sub(1))).map_or(f64::NAN, |nanos| *nanos as f64 / 1e3)
    };
    let (p50, p99, p99_all) = (at(&calm, 0.5), at(&calm, 0.99), at(&all, 0.99));
    let aside = 100.0 * (all.len() - calm.len()) as f64 / all.len().max(1) as f64;
    finding.figure("latency p50", "us", Better::Less, p50);
    finding.figure("latency p99", "us", Better::Less, p99);
    finding.detail("p99 with stalls", "us", Better::Less, p99_all);
    finding.detail("set aside", "%", Better::Neither, aside);
    finding.detail("packets", "", Better::Neither, all.len() as f64);
    finding.judge(
        "a lone packet takes less than 20 us, 99 in 100 where no stall was seen",
        format!(
            "p50 {p50:.1} us, p99 {p99:.1} us of {} packets, {lost} lost; {aside:.1} % set aside for stalls, with them p99 is {p99_all:.1} us",
            all.len()
        ),
        p99 < 20.0 && lost == 0 && calm.len() * 2 > all.len(),
    );
    finding
}

/// Buffers: how often a receive found none, with some reserved for it and without.
pub fn buffers(users: u32, pool: usize, reserved: u64, not: u64, held: u64) -> Finding {
    let help = "Every user sends ten times its rate, so that the scheduler holds all that it may, which is the pool less what ports and \
                batches need.";
    let mut finding = Finding::new("buffers", help);
    finding.figure("held", "packets", Better::Neither, held as f64);
    finding.detail("users", "", Better::Neither, f64::from(users));
    finding.detail("buffers in all", "", Better::Neither, pool as f64);
    finding.judge(
        "a receive never finds the pool empty",
        format!("it did {reserved} times, while the scheduler held up to {held} of {pool} buffers"),
        reserved == 0 && held > 0,
    );
    finding.judge(
        "it would, were nothing reserved, and is counted",
        format!("it did {not} times where the scheduler may hold them all"),
        not > 0,
    );
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two users that leave as they may, from a full bucket on.
    fn fair(users: u32, packets: u64) -> RealTime {
        let gap = u64::from(SMALL) * 8 * SECOND / RATE;
        let left = (0..packets).flat_map(|n| (0..users).map(move |user| (n * gap, user))).collect();
        RealTime { users, left, pieces: vec![(0, 2 * SECOND, 1000), (2 * SECOND, 4 * SECOND, 2000)] }
    }

    #[test]
    fn what_is_fair_is_kept() {
        let finding = real_time(&fair(2, 6_000));
        assert!(finding.verdicts.iter().all(|verdict| verdict.kept), "{:?}", finding.verdicts);
    }

    #[test]
    fn too_little_too_much_and_stalls_are_seen() {
        let kept = |seen: &RealTime| real_time(seen).verdicts.iter().map(|verdict| verdict.kept).collect::<Vec<_>>();
        let mut less = fair(2, 6_000);
        less.left.retain(|(at, user)| *user == 0 || at / SECOND % 100 != 3 || at % 50 != 0);
        assert_eq!(kept(&less), [false, true]);
        // The piece of time where it is has a stall.
        less.pieces[1].2 = STALL;
        assert_eq!(kept(&less), [true, true]);
        let mut more = fair(2, 6_000);
        let burst = vec![(3 * SECOND, 1); 5];
        let place = more.left.partition_point(|(at, _)| *at < 3 * SECOND);
        more.left.splice(place..place, burst);
        assert_eq!(kept(&more), [true, false]);
        less.pieces.iter_mut().for_each(|piece| piece.2 = STALL);
        assert_eq!(kept(&less), [false, true]);
    }

    #[test]
    fn lone_packets_are_judged_without_stalls() {
        let mut took = vec![(3_000, false); 1000];
        took.extend([(500_000, true); 30]);
        assert!(lone_packet("up", &took, 0).verdicts[0].kept);
        assert!(!lone_packet("up", &took, 1).verdicts[0].kept);
        took.extend([(25_000, false); 20]);
        assert!(!lone_packet("up", &took, 0).verdicts[0].kept);
        assert!(!lone_packet("up", &[], 0).verdicts[0].kept);
    }

    #[test]
    fn buffers_must_have_been_short_without_a_reserve() {
        let kept = |reserved, not| buffers(1, 10, reserved, not, 5).verdicts.iter().all(|verdict| verdict.kept);
        assert!(kept(0, 3) && !kept(1, 3) && !kept(0, 0));
    }
}
