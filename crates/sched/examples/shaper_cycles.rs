//! Cycles per packet of the stage `Shaper`, enqueue and dequeue together, for 64-byte packets of users at random:
//! `cargo run --release -p weir-sched --example shaper_cycles [USERS [LOAD [BUFFERS [TIMES]]]]`.
//!
//! LOAD is what is offered, as a multiple of the rates of all users together; above 1 every packet waits for its user's tokens, below it nearly
//! none does. Time is simulated; the port is one of 40 Gbit/s, of which the users' rates take up 82 %. BUFFERS is how many circulate beside those
//! held, least recently used first. With TIMES above 1, a thousand users take turns in which each sends so many packets, and all but the first wait.
//! Setting packets up and taking them away is not counted.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "an example for developers")]

use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;

use weir_config::{Rate, Size};
use weir_mem::{Domain, tsc};
use weir_packet::{BATCH, Batch, HeapPool, Key, LaneSet, Packet, Pool, Slot};
use weir_sched::class::ClassQueue;
use weir_sched::config::{AssignConfig, ProfileConfig, SchedulerConfig};
use weir_sched::shaping::Shaping;
use weir_stage::{Out, OutStore, Stage};

const PORT: u64 = 40_000_000_000;
const ROUNDS: usize = 40_000;
const RUNS: usize = 7;
/// A 64-byte frame without its FCS.
const FRAME: usize = 60;

/// Users who send in turns where each sends several packets.
const IN_PLAY: u64 = 1_000;

fn config(users: u32, times: u64) -> SchedulerConfig {
    let rate = (PORT / 100 * 82 / u64::from(users)).max(8000);
    let size = if times > 1 { 84 } else { 1538.max(rate / 8 / 100_000) };
    let profile = ProfileConfig {
        tb_rate: Rate::new(rate),
        tb_size: Size::new(size),
        ceil: None,
        weight: 1,
        classes: vec![],
        weights: vec![],
    };
    SchedulerConfig {
        rate: Rate::new(PORT),
        burst: Size::new(65_536),
        overhead: 24,
        classes: 4,
        users,
        buffers: 65_536,
        minimum: None,
        subports: BTreeMap::new(),
        spare_subports: 0,
        profiles: BTreeMap::from([("user".to_owned(), profile)]),
        assign: vec![AssignConfig { first: 0, last: Some(users - 1), profile: "user".into(), subport: None }],
    }
}

struct Bench {
    stage: Box<dyn Stage>,
    pool: HeapPool,
    idle: VecDeque<Packet>,
    /// What is not in circulation.
    spare: Vec<Packet>,
    buffers: usize,
    batch: Box<Batch>,
    store: OutStore,
    user: Key<u32>,
    users: u64,
    times: u64,
    sent: u64,
    random: u64,
    now: f64,
    /// Nanoseconds per batch.
    step: f64,
}

/// Cycles per batch, and what became of packets.
#[derive(Default)]
struct Sums {
    enqueue: Vec<u64>,
    dequeue: Vec<u64>,
    sent: u64,
    dropped: u64,
}

/// Per packet, the mean of all batches but the fiftieth part that took longest: those in which somebody else had the core.
fn mean(cycles: &mut [u64]) -> f64 {
    cycles.sort_unstable();
    let kept = &cycles[..cycles.len() - cycles.len() / 50];
    kept.iter().sum::<u64>() as f64 / kept.len() as f64 / BATCH as f64
}

impl Bench {
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn next_user(&mut self) -> u32 {
        if self.times <= 1 {
            return (((self.random() >> 32) * self.users) >> 32) as u32;
        }
        let (round, turn) = (self.sent / (IN_PLAY * self.times), self.sent % IN_PLAY);
        self.sent += 1;
        // SplitMix64: the same for all packets of a user's turn.
        let state = (round * IN_PLAY + turn + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (((mixed >> 32) * self.users) >> 32) as u32
    }

    fn fill(&mut self) {
        for n in 0..BATCH {
            if self.idle.len() < self.buffers {
                self.idle.extend(self.spare.pop());
            }
            let mut packet = self.idle.pop_front().unwrap();
            packet.set_len(FRAME);
            let user = self.next_user();
            let slot = Slot::new(n);
            self.batch.push(packet).unwrap();
            self.batch.lanes.set(self.user, slot, user);
            self.batch.lanes.class[slot] = ClassQueue::new(3, 0).to_lane();
        }
    }

    fn round(&mut self, reader: &weir_mem::Reader, ways: usize, sums: &mut Sums) {
        self.fill();
        self.now += self.step;
        let now = self.now as u64;
        let start = tsc::now();
        let mut out =
            Out::new(now, ways, &mut self.store, &mut self.pool, reader, &[]).with_lanes_behind(LaneSet::EMPTY);
        self.stage.run(&mut self.batch, &mut out);
        let straight = self.batch.live() & !out.leaving();
        let between = tsc::now();
        let mut out =
            Out::new(now, ways, &mut self.store, &mut self.pool, reader, &[]).with_lanes_behind(LaneSet::EMPTY);
        self.stage.poll(&mut out);
        // Whoever gets them reads that.
        black_box(self.store.sent().iter().map(|sent| sent.packet.packet().len()).sum::<usize>());
        let end = tsc::now();
        sums.enqueue.push(between.wrapping_sub(start));
        sums.dequeue.push(end.wrapping_sub(between));
        for slot in self.batch.slots() {
            self.idle.extend(self.batch.take(slot));
            let through = straight & slot.bit() != 0;
            sums.sent += u64::from(through);
            sums.dropped += u64::from(!through);
        }
        for sent in self.store.sent().drain(..) {
            sums.sent += u64::from(sent.code == 0);
            sums.dropped += u64::from(sent.code != 0);
            self.idle.push_back(sent.packet.into_packet());
        }
        while self.idle.len() > 2 * self.buffers {
            self.spare.extend(self.idle.pop_front());
        }
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut next = |usual: f64| words.next().map_or(usual, |word| word.parse().unwrap());
    let (users, load, buffers) = (next(32_768.0) as u32, next(0.5), next(2048.0) as usize);
    let times = next(1.0) as u64;
    let user = Key::new(0).unwrap();
    let config = config(users, times);
    let rates = config.profiles["user"].tb_rate.bits_per_second() as f64 * f64::from(users);
    let shaping = Shaping::new(&config).unwrap();
    let mut pool = HeapPool::new(65_536 + buffers + BATCH, 2048);
    let idle = (0..65_536 + buffers).map(|_| pool.alloc().unwrap());
    // What the scheduler may hold is not in circulation while it does not.
    let mut idle: VecDeque<Packet> = idle.collect();
    let spare: Vec<Packet> = idle.drain(buffers..).collect();
    let mut bench = Bench {
        stage: shaping.stage(user),
        pool,
        idle,
        spare,
        buffers,
        batch: Batch::new(),
        store: OutStore::new(),
        user,
        users: users.into(),
        times,
        sent: 0,
        random: 88_172_645_463_325_252,
        now: 0.0,
        step: (FRAME + 24) as f64 * 8.0 * BATCH as f64 / (rates * load) * 1e9,
    };
    let domain = Domain::new();
    let reader = domain.reader().unwrap();
    let ways = bench.stage.declare().ways.len();
    let mut runs: Vec<(f64, f64, f64)> = (0..=RUNS)
        .map(|_| {
            let mut sums = Sums::default();
            (0..ROUNDS).for_each(|_| bench.round(&reader, ways, &mut sums));
            let all = (ROUNDS * BATCH) as f64;
            let (enqueue, dequeue) = (mean(&mut sums.enqueue), mean(&mut sums.dequeue));
            println!(
                "{users} users at {load}: enqueue {enqueue:.1}, dequeue {dequeue:.1} cycles per packet; {:.1} % dropped, {} held",
                sums.dropped as f64 * 100.0 / all,
                bench.stage.held()
            );
            (enqueue + dequeue, enqueue, dequeue)
        })
        .skip(1)
        .collect();
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (median, enqueue, dequeue) = runs[RUNS / 2];
    println!("median: {median:.1} cycles per packet ({enqueue:.1} + {dequeue:.1}); best {:.1}", runs[0].0);
    bench.stage.clear(&mut |held| bench.pool.free(held.into_packet()));
    bench.idle.into_iter().chain(bench.spare).for_each(|packet| bench.pool.free(packet));
}
