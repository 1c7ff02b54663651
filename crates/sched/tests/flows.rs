//! What fair queues promise, in simulated time: with them, and without them to see that it is they who keep it.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;

use weir_config::Nanos;
use weir_sched::class::ClassQueue;
use weir_sched::codel::{Codel, CodelConfig};
use weir_sched::profile::{ClassProfile, Profile, Profiles};
use weir_sched::rate::Bucket;
use weir_sched::scheduler::{Leaving, Offer, Offered, Refused, Scheduler, Setup};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// A full frame, with overhead.
const FULL: u16 = 1_538;

/// What a user has: 20 Mbit/s, at which a full frame takes 0.6 ms.
const RATE: u64 = 20_000_000;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Packet {
    flow: u32,
    length: u16,
    since: u64,
}

impl Offered<Packet> for Packet {
    fn flow(&self) -> u32 {
        self.flow
    }

    fn take(self) -> Option<Packet> {
        Some(self)
    }
}

/// Users 0 to 3, all of whose packets are of the lowest class.
struct World {
    scheduler: Scheduler<Packet, 4, 11>,
    now: u64,
    due: u64,
    sent: Vec<(Packet, u64)>,
    dropped: Vec<Packet>,
    refused: u64,
}

impl World {
    fn new(fair: bool, queue_size: u16, buffers: u32) -> World {
        let setup = Setup { users: 4, buffers, minimum: 1, overhead: 24, wheel: Setup::WHEEL };
        let mut scheduler = Scheduler::new(setup, World::profiles(fair, queue_size));
        (0..4).for_each(|user| scheduler.assign(user, Some((0, 0)), 0));
        World { scheduler, now: 0, due: u64::MAX, sent: Vec::new(), dropped: Vec::new(), refused: 0 }
    }

    /// One profile, for all.
    fn profiles(fair: bool, queue_size: u16) -> Arc<Profiles> {
        let (target, interval) = (Nanos::new(5 * MS), Nanos::new(100 * MS));
        let manage = Arc::new(Codel::new(&CodelConfig { target, interval, ecn: false }));
        let class =
            ClassProfile { cap: Bucket::UNLIMITED, queue_size, manage: Some(manage), fair, ..ClassProfile::default() };
        let profile = Profile::new(Bucket::new(RATE, 2 * u64::from(FULL)), vec![class; 4], &[]);
        Arc::new(Profiles::new(Bucket::new(1_000_000_000, 65_536), vec![], vec![profile]))
    }

    fn offer(&mut self, user: u32, flow: u32, length: u16) -> Result<(), Refused> {
        let offer = Offer { user, class: ClassQueue::new(3, 0), length, colour: 0 };
        let packet = Packet { flow, length, since: self.now };
        let result = match self.scheduler.pass(&offer, self.now) {
            Ok(true) => {
                self.sent.push((packet, self.now));
                Ok(())
            }
            _ => self
                .scheduler
                .enqueue(offer, self.now, packet)
                .map(|lost| self.dropped.extend(lost.map(|lost| lost.item))),
        };
        self.refused += u64::from(result.is_err());
        self.due = self.now;
        result
    }

    /// Goes on until `end`.
    fn run(&mut self, end: u64) {
        while self.due <= end {
            self.now = self.now.max(self.due);
            let World { scheduler, now, sent, dropped, .. } = self;
            let next = scheduler.dequeue(*now, 64, |leaving| match leaving {
                Leaving::Sent(packet) => sent.push((packet, *now)),
                Leaving::Managed(packet) | Leaving::Coupled(packet) => dropped.push(packet),
            });
            self.due = if next <= self.now { self.now + 1 } else { next };
        }
        self.now = end;
    }

    /// The longest that a packet of a flow has waited, and how many were sent.
    fn waited(&self, flow: u32) -> (u64, usize) {
        let waits = self.sent.iter().filter(|(packet, _)| packet.flow == flow).map(|(packet, at)| at - packet.since);
        (waits.clone().max().unwrap_or(0), waits.count())
    }

    fn bytes(&self, flow: u32) -> u64 {
        self.sent.iter().filter(|(packet, _)| packet.flow == flow).map(|(packet, _)| u64::from(packet.length)).sum()
    }
}

/// A flow that sends 200 bytes each 10 ms (telephony, a game), beside one that sends bursts of 300 frames, twice a second: half of what the user may.
fn beside_bursts(fair: bool, bursts: bool) -> (u64, usize) {
    let mut world = World::new(fair, 1_000, 4_096);
    for tick in 0..1_000_u64 {
        if bursts && tick % 100 == 7 {
            (0..150).for_each(|_| _ = world.offer(0, 1, FULL));
        }
        world.offer(0, 2, 200).unwrap();
        world.run((tick + 1) * 10 * MS);
    }
    world.run(20 * SECOND);
    assert_eq!(world.scheduler.held(), 0);
    world.waited(2)
}

#[test]
fn a_flow_that_bursts_adds_less_than_5_ms_to_another() {
    let (alone, all) = beside_bursts(true, false);
    let (beside, came) = beside_bursts(true, true);
    assert_eq!((all, came), (1_000, 1_000));
    assert!(beside - alone < 5 * MS, "{alone} ns alone, {beside} ns beside bursts");
    // Without fair flows it waits for the burst.
    let (behind, _) = beside_bursts(false, true);
    assert!(behind > 50 * MS, "{behind} ns");
}

/// Flows that always have packets send as many bytes, whatever the length of their packets, to within what a turn is worth and a frame.
#[test]
fn flows_that_always_want_get_the_same() {
    let mut world = World::new(true, 400, 4_096);
    let lengths = [FULL, 88, 600, 1_000, 3_000];
    for tick in 0..2_000_u64 {
        // Each offers more than its part, which is 500 bytes in 1 ms.
        for (flow, length) in (0..).zip(lengths) {
            (0..1_000 / length + 1).for_each(|_| _ = world.offer(0, flow, length));
        }
        world.run((tick + 1) * MS);
    }
    let bytes: Vec<u64> = (0..5).map(|flow| world.bytes(flow)).collect();
    let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
    // While a flow is in debt for a long frame, the others have turns.
    assert!(most - least <= 2 * 1_600 + 2 * 3_000, "{bytes:?}");
    assert!(*least > RATE / 8 * 2 / 5 * 9 / 10, "{bytes:?}");
}

/// Whoever opens flows without end gets no more than its queue holds, and takes nothing from another user.
#[test]
fn a_flood_of_flows_is_bounded() {
    let mut world = World::new(true, 100, 256);
    for n in 0..200_000_u32 {
        let _ = world.offer(0, n.wrapping_mul(0x9e37_79b9), 200);
        if n % 40 == 0 {
            world.run(world.now + 100_000);
        }
        if n % 2_000 == 0 {
            world.offer(1, 7, 200).unwrap();
        }
    }
    assert!(world.scheduler.held() <= 101, "{}", world.scheduler.held());
    let (longest, came) = world.waited(7);
    assert!(came >= 100 && longest < MS, "{came} {longest}");
    world.run(world.now + SECOND);
    let all = world.sent.len() + world.dropped.len() + world.refused as usize;
    assert_eq!((all, world.scheduler.held()), (200_100, 0));
    let lost = [0, 1].map(|user| world.scheduler.gates().count(user).dropped());
    assert_eq!(lost, [(world.dropped.len() + world.refused as usize) as u64, 0]);
}

/// Profiles change before each user is looked at anew: what comes between waits as what is there does, and nothing is lost.
#[test]
fn packets_come_between_a_change_and_the_look_at_a_user() {
    let mut world = World::new(false, 100, 256);
    for fair in [true, false, true, false] {
        (0..6).for_each(|n| world.offer(0, n % 3, FULL).unwrap());
        world.scheduler.set_profiles(World::profiles(fair, 100), world.now);
        (0..6).for_each(|n| world.offer(0, n % 3, FULL).unwrap());
        world.run(world.now + MS);
        (0..2).for_each(|n| world.offer(1, n, FULL).unwrap());
        world.scheduler.assign(0, Some((0, 0)), world.now);
        (0..2).for_each(|n| world.offer(0, n, FULL).unwrap());
        world.run(world.now + 2 * MS);
    }
    world.run(world.now + SECOND);
    assert_eq!((world.sent.len(), world.dropped.len(), world.scheduler.held()), (64, 0, 0));
}

/// Flows that come and go by the ten thousand, of several users, with packets that are pushed out: the account stays exact, and flows are forgotten in
/// time.
#[test]
fn every_packet_is_accounted_for() {
    let mut world = World::new(true, 60, 64);
    let mut random = 1_u64;
    for _ in 0..100_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (user, flow, length) = (random >> 62, random >> 40 & 0xff, 88 + (random >> 50 & 0x3ff));
        let _ = world.offer(user as u32, flow as u32, length as u16);
        world.run(world.now + (random >> 33 & 0x1f) * 4_000);
    }
    let held = world.scheduler.held() as usize;
    assert_eq!(world.sent.len() + world.dropped.len() + world.refused as usize + held, 100_000);
    let mut left = 0;
    world.scheduler.clear(world.now, &mut |_| left += 1);
    assert_eq!((left, world.scheduler.held()), (held, 0));
    assert!(!world.dropped.is_empty() && world.sent.len() > 10_000, "{} {}", world.dropped.len(), world.sent.len());
}
