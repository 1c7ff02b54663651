//! Queues with two lines (L4S, RFC 9332): the controller against the pseudo-code of the RFC, and what it makes of senders that heed it.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod senders;

use std::collections::VecDeque;

use proptest::prelude::*;
use senders::{FRAME, Kind, MS, SECOND, Sender, World, exceeded_by};
use weir_config::Nanos;
use weir_sched::l4s::{Going, L4s, L4sConfig, Line};
use weir_sched::manage::{State, Verdict};
use weir_sched::profile::ClassProfile;

/// What is configured where nothing is said.
const USUAL: L4sConfig = L4sConfig {
    target: Nanos::new(15 * MS),
    tupdate: Nanos::new(15 * MS),
    alpha: 0.15,
    beta: 3.0,
    coupling: 2,
    step: Nanos::new(MS),
    classic: 10,
};

/// `dualpi2_update` of appendix A, with a timer.
struct Pseudo {
    config: L4sConfig,
    base: f64,
    before: f64,
    next: u64,
}

impl Pseudo {
    /// Lets the timer go off that is due by `now`, with the packet that came at `oldest` as the first one.
    fn update(&mut self, now: u64, oldest: Option<u64>) {
        while self.next <= now {
            let waited = oldest.map_or(0, |oldest| self.next.saturating_sub(oldest)) as f64 / 1e9;
            let target = self.config.target.nanos() as f64 / 1e9;
            self.base += self.config.alpha * (waited - target) + self.config.beta * (waited - self.before);
            self.base = self.base.clamp(0.0, 1.0);
            self.before = waited;
            self.next += self.config.tupdate.nanos();
        }
    }
}

fn config() -> impl Strategy<Value = L4sConfig> {
    let times = (1..60_u64, 1..60_u64, 1..20_u64);
    (times, 0.01..20.0_f64, 0.0..10.0_f64, 1..=16_u8).prop_map(|((target, tupdate, step), alpha, beta, coupling)| {
        let [target, tupdate, step] = [target, tupdate, step].map(|time| Nanos::new(time * MS));
        L4sConfig { target, tupdate, alpha, beta, coupling, step, classic: 10 }
    })
}

proptest! {
    /// Packets come and go at any times. The base probability is that of a controller with a timer; and of each line as many packets are
    /// marked and dropped as the likelihoods of the RFC add up to.
    #[test]
    fn the_controller_is_that_of_the_rfc(
        config in config(),
        steps in prop::collection::vec((0..30_u64, any::<bool>(), any::<bool>()), 10..400),
        jumps in prop::collection::vec((0..400_usize, 0..5_000_u64), 0..4),
    ) {
        let coupling = L4s::new(&config);
        let (mut state, mut now) = (State::default(), 1);
        let mut pseudo: Option<Pseudo> = None;
        let mut waiting: VecDeque<(u64, Line)> = VecDeque::new();
        // Of each line: what the likelihoods add up to, and how often it was so. A packet of the low-latency line may be dropped or marked.
        let (mut classic, mut low) = ((0.0, 0_u32), (0.0, 0_u32));
        for (n, (wait, comes, is_low)) in steps.into_iter().enumerate() {
            now += wait * MS / 4 + jumps.iter().filter(|(at, _)| *at == n).map(|(_, ms)| ms * MS).sum::<u64>();
            let oldest = waiting.front().map(|(since, _)| *since);
            if let Some(pseudo) = &mut pseudo {
                pseudo.update(now, oldest);
            }
            if comes {
                waiting.push_back((now, if is_low { Line::Low } else { Line::Classic }));
                continue;
            }
            let Some((since, line)) = waiting.pop_front() else { continue };
            let pseudo = pseudo.get_or_insert_with(|| {
                Pseudo { config: config.clone(), base: 0.0, before: 0.0, next: since + config.tupdate.nanos() }
            });
            pseudo.update(now, Some(since));
            let behind = waiting.len() as u32;
            let verdict = coupling.go(&mut state, &Going { now, sojourn: now - since, oldest: since, behind, line });
            let base = L4s::base(&state);
            prop_assert!((base - pseudo.base).abs() < 1e-6, "{base} {}", pseudo.base);
            let (squared, coupled) = (base * base, base * f64::from(config.coupling));
            let native = behind > 0 && now - since >= config.step.nanos();
            match (line, verdict) {
                (Line::Classic, verdict) => {
                    classic.0 += squared;
                    classic.1 += u32::from(verdict != Verdict::Pass);
                    // Section 4.2: beyond saturation, nothing is marked in place of being dropped.
                    prop_assert!(verdict == Verdict::Pass || (verdict == Verdict::Drop) == (coupled >= 1.0 - 1e-9));
                }
                (Line::Low, verdict) if coupled >= 1.0 => {
                    low.0 += squared;
                    low.1 += u32::from(verdict == Verdict::Drop);
                    prop_assert!(verdict != Verdict::Pass);
                }
                (Line::Low, verdict) => {
                    low.0 += if native { 1.0 } else { coupled };
                    low.1 += u32::from(verdict == Verdict::Mark);
                    prop_assert!(verdict != Verdict::Drop && (verdict == Verdict::Mark || !native));
                }
            }
            prop_assert!((classic.0 - f64::from(classic.1)).abs() < 1.001, "{classic:?}");
            prop_assert!((low.0 - f64::from(low.1)).abs() < 1.001, "{low:?}");
        }
    }
}

#[test]
fn what_a_queue_has_gone_through_is_forgotten_while_it_is_empty() {
    let (coupling, mut state) = (L4s::new(&USUAL), State::default());
    assert!(coupling.rests(&mut state, 7) && state == State::default(), "of what nothing is known, nothing is noted");
    let late = |now: u64| Going { now, sojourn: SECOND, oldest: now - SECOND, behind: 9, line: Line::Classic };
    coupling.go(&mut state, &late(2 * SECOND));
    let base = L4s::base(&state);
    assert!(base > 0.5 && !coupling.rests(&mut state, 2 * SECOND));
    // 0.15 * 15 ms less with each 15 ms, once the wait itself has gone.
    coupling.rests(&mut state, 2 * SECOND + 15 * MS);
    let fallen = L4s::base(&state);
    coupling.rests(&mut state, 2 * SECOND + 30 * MS);
    assert!(fallen < base && (fallen - L4s::base(&state) - (0.15 * 0.015_f64).min(fallen)).abs() < 1e-9);
    assert!(coupling.rests(&mut state, 20 * SECOND) && L4s::base(&state) == 0.0);
}

fn class(l4s: &L4sConfig) -> ClassProfile {
    ClassProfile { queue_size: 10_000, dual: Some(L4s::new(l4s)), ..ClassProfile::default() }
}

/// So many bit/s, of which each packet takes 300 us.
const RATE: u64 = 40_000_000;
const PACKET: u64 = FRAME as u64 * 8 * SECOND / RATE;

/// There and back, without waits.
const BASE: u64 = 20 * MS;

/// What senders of these kinds come to in 60 s, after 30 s.
fn come_to(l4s: &L4sConfig, kinds: &[Kind]) -> Vec<Sender> {
    let mut world = World::new(RATE, class(l4s), BASE, kinds);
    world.run(30 * SECOND);
    world.watch();
    world.run(60 * SECOND);
    world.senders
}

/// Packets of all of these.
fn sum(senders: &[Sender], of: impl Fn(&Sender) -> u64) -> f64 {
    senders.iter().map(of).sum::<u64>() as f64
}

/// A scalable sender as TCP Prague is one: no faster than one whose packets wait in the classic line.
const PRAGUE: Kind = Kind::Scalable(15 * MS);

#[test]
fn both_kinds_of_senders_come_to_about_the_same_rate() {
    for n in [1, 2, 4] {
        let senders = come_to(&USUAL, &[vec![PRAGUE; n], vec![Kind::Reno; n]].concat());
        let (low, classic) = senders.split_at(n);
        let sent = |senders| sum(senders, |sender: &Sender| sender.sent);
        let ratio = sent(low) / sent(classic);
        assert!((0.7..1.45).contains(&ratio), "{n}: {ratio}");
        assert!((sent(low) + sent(classic)) * PACKET as f64 > 0.99 * 60.0 * SECOND as f64);
        assert!(sum(low, |sender| sender.lost) == 0.0 && sum(classic, |sender| sender.marked) == 0.0);
        // The ones hardly wait: no longer than to the step, but for a packet that is on its way.
        let (usual, most) = (exceeded_by(&low[0].sojourns, 0.5), exceeded_by(&low[0].sojourns, 0.001));
        assert!(usual < MS / 2 && most <= MS + PACKET, "{n}: {usual} {most}");
        // The others wait for about as long as is said, in the middle.
        let usual = exceeded_by(&classic[0].sojourns, 0.5);
        assert!((12 * MS..18 * MS).contains(&usual), "{n}: {usual}");
    }
}

/// Section 2.1: the window of a scalable sender is 2 / p, where p is the share of its packets that are marked (section 2.1 of RFC 8257 leads to that), that of Reno
/// the square root of 3/2 over p, where p is the share that is lost (RFC 3649, section 3). With a coupling of k the former is k times the root of the latter.
#[test]
fn the_coupling_squares_what_is_lost_and_divides_the_rate_by_it() {
    for (k, n) in [(1, 4), (2, 4), (4, 4)] {
        let senders =
            come_to(&L4sConfig { coupling: k, ..USUAL }, &[vec![Kind::Scalable(0); n], vec![Kind::Reno; n]].concat());
        let (low, classic) = senders.split_at(n);
        let marks = sum(low, |sender| sender.marked) / sum(low, |sender| sender.sent);
        let losses = sum(classic, |sender| sender.lost) / sum(classic, |sender| sender.sent + sender.lost);
        let coupled = marks / losses.sqrt() / f64::from(k);
        assert!((0.75..1.1).contains(&coupled), "{k}: {coupled}");
        let round_trip = |sender: &Sender| (BASE + exceeded_by(&sender.sojourns, 0.5)) as f64;
        let expected = (2.0 / marks / round_trip(&low[0])) / ((1.5 / losses).sqrt() / round_trip(&classic[0]));
        let ratio = sum(low, |sender| sender.sent) / sum(classic, |sender| sender.sent);
        assert!((0.8..1.25).contains(&(ratio / expected)), "{k}: {ratio} {expected}");
    }
}

/// Section 4.2: who does not heed marks in the low-latency line, and takes nearly all that there is, leaves the classic line its share.
#[test]
fn the_classic_line_is_not_starved() {
    // Nothing is dropped, and there is room for all that waits.
    let still = L4sConfig { alpha: 0.000_001, beta: 0.0, ..USUAL };
    for classic in [10, 30] {
        let kinds = [Kind::Deaf(SECOND * 97 / 100 / PACKET, 1), Kind::Deaf(SECOND / 2 / PACKET, 0)];
        let mut world = World::new(RATE, class(&L4sConfig { classic, ..still }), BASE, &kinds);
        world.run(SECOND);
        world.watch();
        world.run(4 * SECOND);
        let share = world.senders[1].sent as f64 / sum(&world.senders, |sender| sender.sent);
        assert!((share - f64::from(classic) / 100.0).abs() < 0.005, "{classic}: {share}");
    }
}

/// Section 4.2: where marks are not enough, packets are dropped in both lines, and what waits does so for no longer than is said.
#[test]
fn what_does_not_heed_marks_is_dropped_in_overload() {
    let senders = come_to(&USUAL, &[Kind::Deaf(SECOND * 3 / 2 / PACKET, 1)]);
    let lost = senders[0].lost as f64 / (senders[0].sent + senders[0].lost) as f64;
    assert!((lost - 1.0 / 3.0).abs() < 0.02, "{lost}");
    assert_eq!(senders[0].marked, senders[0].sent, "whatever is not dropped is marked");
    let usual = exceeded_by(&senders[0].sojourns, 0.5);
    assert!((10 * MS..20 * MS).contains(&usual), "{usual}");
    // A classic sender that says it knows marks, and does not heed them, is dropped then, too.
    let senders = come_to(&USUAL, &[Kind::Deaf(SECOND * 3 / 2 / PACKET, 2)]);
    let lost = senders[0].lost as f64 / (senders[0].sent + senders[0].lost) as f64;
    assert!((lost - 1.0 / 3.0).abs() < 0.02 && senders[0].marked == 0, "{lost} {}", senders[0].marked);
}
