//! The policing stage against one meter per user.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;

use weir_config::{Rate, Size};
use weir_mem::{Domain, Published};
use weir_packet::{Key, Slot};
use weir_sched::police::{MeterKind, Police, Policer, PolicerConfig, Policers, UserProfiles};
use weir_stage::harness::Harness;
use weir_table::meter;

const OVERHEAD: u32 = 24;
const SECOND: u64 = 1_000_000_000;

fn config(meter: MeterKind, cir: u64, cbs: u64, excess: Option<(u64, u64)>) -> PolicerConfig {
    PolicerConfig {
        meter,
        cir: Rate::new(cir),
        cbs: Size::new(cbs),
        eir: excess.map(|(rate, _)| Rate::new(rate)),
        ebs: excess.map(|(_, burst)| Size::new(burst)),
        colour_aware: false,
        drop_red: true,
    }
}

struct Bench {
    harness: Harness<Police>,
    profiles: Arc<UserProfiles>,
    policers: Arc<Published<Policers>>,
    key: Key<u32>,
    colour: u8,
}

impl Bench {
    fn new(users: u32, policers: Vec<Option<Policer>>) -> Bench {
        let domain = Domain::new();
        let profiles = Arc::new(UserProfiles::new(users));
        let policers = Arc::new(Published::new(&domain, Box::new(Policers(policers))));
        let key = Key::new(0).unwrap();
        let police = Police::new(key, Arc::clone(&profiles), Arc::clone(&policers), OVERHEAD);
        Bench { harness: Harness::reading(police, &domain), profiles, policers, key, colour: 0 }
    }

    /// One packet of a user; whether it passes.
    fn passes(&mut self, user: u32, now: u64, packet: &[u8]) -> bool {
        let key = self.key;
        self.harness.lanes().set(key, Slot::new(0), user);
        self.harness.lanes().colour[Slot::new(0)] = 0;
        let outcome = self.harness.run(now, &[packet]);
        self.colour = outcome.lanes.colour[Slot::new(0)];
        outcome.way("out").len() == 1
    }
}

#[test]
fn users_are_metered_apart_and_with_overhead() {
    let policer = Policer::new(&config(MeterKind::SingleRate, 8 * 840, 1_000, Some((0, 500)))).unwrap();
    let mut bench = Bench::new(4, vec![None, Some(policer)]);
    bench.profiles.set(1, 1);
    bench.profiles.set(2, 1);
    let twin = meter::Profile::new(meter::Parameters::SingleRate {
        committed: meter::Bucket { rate: 8 * 840, burst: 1_000 },
        excess_burst: 500,
    });
    let twin = twin.unwrap();
    let mut meters = [twin.meter(0), twin.meter(0)];
    let mut seen = [0; 3];
    for n in 0..2_000u64 {
        let (user, now) = (1 + (n % 3 / 2) as u32, n * 40_000_000);
        let packet = vec![0; 60 + (n % 7) as usize * 10];
        let length = packet.len() as u32 + OVERHEAD;
        let expected = twin.colour(&mut meters[user as usize - 1], now, length, meter::Colour::Green);
        assert_eq!(bench.passes(user, now, &packet), expected != meter::Colour::Red, "packet {n}");
        assert_eq!(bench.colour, expected as u8);
        seen[expected as usize] += 1;
        // One without a policer is left alone, and so is whoever does not exist.
        assert!(bench.passes(0, now, &packet) && bench.passes(9, now, &packet));
    }
    assert!(seen.iter().all(|count| *count > 3), "{seen:?}");
}

#[test]
fn a_user_may_change_while_packets_come() {
    let slow = Policer::new(&config(MeterKind::SingleRate, 8_000, 168, None)).unwrap();
    let fast = Policer::new(&config(MeterKind::SingleRate, 80_000, 840, None)).unwrap();
    let mut bench = Bench::new(1, vec![Some(slow), Some(fast)]);
    let frame = [0; 60];
    let burst = |bench: &mut Bench, now| (0..20).filter(|_| bench.passes(0, now, &frame)).count();
    assert_eq!(burst(&mut bench, 0), 2);
    // What the slow one had saved is what the fast one begins with.
    bench.profiles.set(0, 1);
    assert_eq!(burst(&mut bench, SECOND / 10), 1);
    assert_eq!(burst(&mut bench, SECOND), 9 + 1);
    // Policers are replaced as a whole.
    bench.policers.publish(Box::new(Policers(vec![None, None])));
    assert_eq!(burst(&mut bench, SECOND), 20);
}

#[test]
fn drop_precedence_counts_where_it_is_asked_for() {
    let mut wanted = config(MeterKind::Differentiated, 8_000, 10_000, Some((8_000, 10_000)));
    wanted.colour_aware = true;
    wanted.drop_red = false;
    let mut bench = Bench::new(1, vec![Some(Policer::new(&wanted).unwrap())]);
    let mut frame = vec![0; 60];
    (frame[12], frame[14]) = (8, 0x45);
    for (dscp, colour) in [(46, 0), (0, 0), (10, 0), (12, 1), (14, 2), (34, 0), (36, 1), (38, 2), (44, 0), (6, 0)] {
        frame[15] = dscp << 2;
        assert!(bench.passes(0, 0, &frame));
        assert_eq!(bench.colour, colour, "DSCP {dscp}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    assert_eq!(PolicerConfig::schema().defects(), Vec::<String>::new());
    assert!(Policer::new(&config(MeterKind::TwoRate, 8_000, 1_000, None)).is_err());
    assert!(Policer::new(&config(MeterKind::TwoRate, 8_000, 1_000, Some((4_000, 1_000)))).is_err());
    assert!(Policer::new(&config(MeterKind::TwoRate, 8_000, 1_000, Some((8_000, 1_000)))).is_ok());
    assert!(Policer::new(&config(MeterKind::SingleRate, 8_000, 0, None)).is_err());
}
