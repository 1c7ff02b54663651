//! Cycles that the scheduler alone takes of a packet that waits, or is dropped: `cargo run --release -p weir-sched --example waiting_cycles -- [CASE...]`.
//!
//! The users, packets and rates are those of the cases of `weir bench cpp qos` with the same names. Time is simulated, the same for each packet whatever it
//! takes, so that all is done again in the same way, as for counting instructions: `valgrind --tool=callgrind target/release/examples/waiting_cycles fair 1`.

use std::array;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::sync::Arc;

use weir_config::Nanos;
use weir_mem::tsc;
use weir_sched::ahead::TOGETHER;
use weir_sched::class::ClassQueue;
use weir_sched::codel::{Codel, CodelConfig};
use weir_sched::l4s::{L4s, L4sConfig};
use weir_sched::profile::{ClassProfile, Profile, Profiles};
use weir_sched::rate::Bucket;
use weir_sched::scheduler::{Offer, Offered, Scheduler, Setup};

const USERS: u32 = 32_768;
const ALL_USERS: u64 = 32_800_000_000;
const IN_PLAY: u64 = 1_000;
/// With overhead.
const LENGTH: u16 = 84;
/// Batches of a run.
const BATCHES: u64 = 4_000;

/// What is measured.
struct Case {
    name: &'static str,
    fair: bool,
    /// Every second packet is of the low-latency line, of two.
    lines: bool,
    times: u64,
    buffers: u32,
    /// Of a user.
    rate: u64,
    burst: u64,
    /// Nanoseconds between packets.
    gap: u64,
}

const WAITING: Case = Case {
    name: "waiting",
    fair: false,
    lines: false,
    times: 4,
    buffers: 32_768,
    rate: ALL_USERS / 32_768,
    burst: 84,
    gap: 120,
};

/// With 16 packets of each user.
const FLOWS: Case = Case { name: "flows", times: 16, buffers: 65_536, gap: 300, ..WAITING };

const CASES: [Case; 5] = [
    WAITING,
    FLOWS,
    Case { name: "fair", fair: true, ..FLOWS },
    Case { name: "lines", lines: true, ..FLOWS },
    Case { name: "overload", times: 1, buffers: 8_192, rate: 50_000, burst: 168, gap: 90, ..WAITING },
];

/// A packet, and the number of its flow, which says its line, too.
struct Packet(NonZeroU64, u32);

impl Offered<NonZeroU64> for Packet {
    fn ecn(&self) -> u8 {
        (self.1 & 1) as u8
    }

    fn flow(&self) -> u32 {
        self.1
    }

    fn take(self) -> Option<NonZeroU64> {
        Some(self.0)
    }
}

/// A scheduler, and what has been done with it.
struct World {
    scheduler: Scheduler<NonZeroU64, 4, 11>,
    batch: u64,
    now: u64,
    passed: u64,
    sent: u64,
    refused: u64,
}

fn main() {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    let runs = names.last().and_then(|last| last.parse().ok());
    if runs.is_some() {
        names.pop();
    }
    for case in CASES.iter().filter(|case| names.is_empty() || names.iter().any(|name| name == case.name)) {
        measure(case, runs.unwrap_or(9));
    }
}

fn measure(case: &Case, runs: usize) {
    let setup = Setup { users: USERS + 1, buffers: case.buffers, minimum: 1, overhead: 24, wheel: Setup::WHEEL };
    let mut scheduler = Scheduler::new(setup, profiles(case));
    (0..USERS).for_each(|user| scheduler.assign(user, Some((0, 0)), 0));
    let mut world = World { scheduler, batch: 0, now: 0, passed: 0, sent: 0, refused: 0 };
    run(&mut world, case);
    let mut cycles: Vec<f64> = (0..runs)
        .map(|_| {
            let start = tsc::now();
            run(&mut world, case);
            (tsc::now() - start) as f64 / (BATCHES * TOGETHER as u64) as f64
        })
        .collect();
    cycles.sort_by(f64::total_cmp);
    let World { scheduler, passed, sent, refused, .. } = &world;
    println!(
        "{:>9}: {:.1} cycles ({:.1} to {:.1}) of a packet that comes; {passed} went straight through, {sent} waited, {refused} were refused, {} are held",
        case.name,
        cycles[runs / 2],
        cycles[0],
        cycles[runs - 1],
        scheduler.held(),
    );
}

fn profiles(case: &Case) -> Arc<Profiles> {
    let (target, interval) = (Nanos::new(5_000_000), Nanos::new(100_000_000));
    let codel = case.fair.then(|| Arc::new(Codel::new(&CodelConfig { target, interval, ecn: false })) as _);
    let usual = |n: u64| Nanos::new(n * 1_000_000);
    let l4s = L4sConfig {
        target: usual(15),
        tupdate: usual(15),
        alpha: 0.15,
        beta: 3.0,
        coupling: 2,
        step: usual(1),
        classic: 10,
    };
    let dual = case.lines.then(|| L4s::new(&l4s));
    let class = ClassProfile { manage: codel, fair: case.fair, dual, ..ClassProfile::default() };
    let classes = (0..4).map(|n| if n == 3 { class.clone() } else { ClassProfile::default() }).collect();
    let profile = Profile::new(Bucket::new(case.rate, case.burst), classes, &[]);
    Arc::new(Profiles::new(Bucket::new(40_000_000_000, 65_536), vec![], vec![profile]))
}

#[inline(never)]
fn run(world: &mut World, case: &Case) {
    for _ in 0..BATCHES {
        step(world, case);
        world.batch += 1;
        world.now += case.gap * TOGETHER as u64;
    }
}

/// What the stage does with a batch, and with what waits, in a loop of a worker.
fn step(world: &mut World, case: &Case) {
    let World { scheduler, batch, now, passed, sent, refused } = world;
    let first = *batch * TOGETHER as u64;
    let offers: [Offer; TOGETHER] = array::from_fn(|n| {
        let n = first + n as u64;
        let user = user_of(n / (IN_PLAY * case.times) * IN_PLAY + n % IN_PLAY);
        Offer { user, class: ClassQueue::new(3, 0), length: LENGTH, colour: 0 }
    });
    let mut leave = |scheduler: &mut Scheduler<NonZeroU64, 4, 11>| {
        scheduler.dequeue(*now, 1_024, |leaving| {
            black_box(leaving);
            *sent += 1;
        });
    };
    if scheduler.has_line() {
        leave(scheduler);
    }
    let (known, waiting) = scheduler.look(|n| offers.get(n).map_or(0, |offer| offer.user));
    black_box((known, waiting));
    scheduler.look_further();
    let waits = scheduler.prepare(u64::MAX, &offers, *now);
    let flow = |n: usize| (((first + n as u64) / IN_PLAY % case.times) as u32).wrapping_mul(0x9e37_79b9) >> 7;
    let flows = scheduler.prepare_flows(waits, &offers, flow);
    for (n, offer) in offers.iter().enumerate() {
        if waits >> n & 1 == 0 && scheduler.pass(offer, *now) == Ok(true) {
            *passed += 1;
            continue;
        }
        let number = flows.get(n).copied().flatten().unwrap_or_else(|| flow(n));
        let packet = Packet(NonZeroU64::MIN.saturating_add(first + n as u64), number);
        *refused += u64::from(black_box(scheduler.enqueue(*offer, *now, packet)).is_err());
    }
    scheduler.look_furthest();
    leave(scheduler);
}

/// A number below the number of users that looks random and is the same for the same `n` (`SplitMix64`).
fn user_of(n: u64) -> u32 {
    let state = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((u128::from(mixed ^ (mixed >> 31)) * u128::from(USERS)) >> 64) as u32
}
