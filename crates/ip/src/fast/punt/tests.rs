use super::*;

const ALL: [PuntReason; 11] = PuntReason::OF_LAYER;
/// The parts that all of them have.
const WHOLE: u64 = 40;
const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = SECOND / 1000;

/// How many of `count` packets pass, in batches of 64.
fn passed(policer: &mut PuntPolicer, now: u64, kind: PuntReason, count: usize) -> usize {
    let mut passed = 0;
    for batch in 0..count.div_ceil(64) {
        let mut batch_policer = policer.batch(now);
        let batch = batch * 64..count.min(batch * 64 + 64);
        passed += batch.filter(|_| batch_policer.pass(kind)).count();
    }
    passed
}

#[test]
fn kinds_survive_their_lane() {
    for (n, kind) in ALL.into_iter().enumerate() {
        assert_eq!(PuntReason::from(u32::from(kind)), kind);
        assert_eq!(kind as usize, n);
    }
    for kind in [
        PuntReason::Originated,
        PuntReason::TurnsRound,
        PuntReason::UnknownSource,
        PuntReason::Fragment,
        PuntReason::Interface,
    ] {
        assert_eq!(PuntReason::from(u32::from(kind)), kind);
        assert!((kind as usize) < KINDS);
    }
    assert!(!PuntPolicer::new(&ALL, u64::MAX).batch(0).pass(PuntReason::Originated), "it is never punted");
    assert_eq!(ALL.into_iter().map(share).sum::<u64>(), WHOLE, "the shares are the whole");
    let mut learns = PuntPolicer::new(&[PuntReason::Arp, PuntReason::UnknownSource], 1_000);
    assert_eq!(passed(&mut learns, 0, PuntReason::UnknownSource, 500), 50, "half of a tenth of a second");
    assert_eq!(passed(&mut learns, 0, PuntReason::Local, 500), 0, "nobody punts that");
}

#[test]
fn a_flood_of_one_kind_leaves_the_others_their_share() {
    let mut policer = PuntPolicer::new(&ALL, 40_000);
    for kind in ALL {
        // A tenth of a second in the bucket.
        let rate = 1_000 * share(kind) as usize;
        assert_eq!(passed(&mut policer, SECOND, kind, 5_000), rate / 10, "{kind:?}");
        assert_eq!(passed(&mut policer, SECOND, kind, 64), 0);
    }
    for step in 1..=100 {
        let now = SECOND + step * SECOND / 100;
        assert_eq!(passed(&mut policer, now, PuntReason::TtlExpired, 640), 10);
    }
    for kind in ALL.into_iter().filter(|kind| *kind != PuntReason::TtlExpired) {
        assert!(passed(&mut policer, 2 * SECOND, kind, 64) > 16, "{kind:?}");
    }
}

#[test]
fn kinds_in_one_batch_do_not_share() {
    let mut policer = PuntPolicer::new(&ALL, 1);
    let mut batch_policer = policer.batch(0);
    for n in 0..32 {
        assert!(ALL.into_iter().all(|kind| batch_policer.pass(kind) == (n < 16)), "packet {n}");
    }
}

#[test]
fn the_smallest_rate_still_lets_something_through() {
    for mut policer in [PuntPolicer::new(&ALL, 1), PuntPolicer::shared(&ALL, 1)] {
        for kind in ALL {
            assert_eq!(passed(&mut policer, 0, kind, 100), 16);
        }
    }
}

/// What passed of a flood, and of a stream beside it, in a second in which the flood sends 64 packets each millisecond and the stream one, after a
/// second of the flood alone.
fn beside(kind: PuntReason, flood: impl Fn(u64) -> Origin, stream: Origin) -> [u64; 2] {
    let mut policer = PuntPolicer::shared_by(&ALL, 40_000, 5);
    let mut passed = [0, 0];
    for at in 0..2_000 {
        let mut batch = policer.batch(at * MILLISECOND);
        let of_flood: u64 = (0..64).map(|n| u64::from(batch.pass_from(kind, || flood(at * 64 + n)))).sum();
        let is_second = at >= 1_000;
        let of_stream = is_second && batch.pass_from(kind, || stream);
        if is_second {
            passed = [passed[0] + of_flood, passed[1] + u64::from(of_stream)];
        }
    }
    passed
}

/// By interface `link`, from a prefix.
const fn from(link: u64, prefix: u64) -> Origin {
    Origin { link, prefix: Some(prefix) }
}

#[test]
fn a_flood_of_one_prefix_leaves_others_of_the_same_interface_their_share() {
    for kind in ALL.into_iter().filter(|kind| share(*kind) == 8) {
        let rate = 8_000;
        let [flood, stream] = beside(kind, |_| from(1, 0x0a_0000), from(1, 0x0a_0001));
        // An eighth of the rate.
        assert_eq!(stream, 1_000, "{kind:?}: nothing is taken from who asks for no more than a share");
        assert!(flood >= rate - stream - 100 && flood + stream <= rate + 800, "{kind:?}: {flood} for who has the rest");
    }
}

#[test]
fn a_flood_of_many_prefixes_leaves_other_interfaces_their_share() {
    for kind in ALL.into_iter().filter(|kind| share(*kind) == 8) {
        let [flood, stream] = beside(kind, |n| from(1, n % 100_000), from(2, 0x0a_0001));
        assert_eq!(stream, 1_000, "{kind:?}");
        assert!(flood >= 8_000 - stream - 100, "{kind:?}: {flood} for who has the rest");
        // What has no prefix, ARP for one, is told apart by interfaces alone.
        let [_, stream] = beside(kind, |_| Origin { link: 1, prefix: None }, Origin { link: 2, prefix: None });
        assert_eq!(stream, 1_000, "{kind:?}");
    }
}

#[test]
fn who_is_alone_has_all_there_is() {
    for kind in ALL {
        let mut policer = PuntPolicer::shared_by(&ALL, 40_000, 5);
        let rate = 1_000 * share(kind);
        let mut passed = 0;
        for at in 0..10_000 {
            let mut batch = policer.batch(at * MILLISECOND);
            passed += (0..64).filter(|_| batch.pass_from(kind, || from(1, 1))).count() as u64;
        }
        assert!((10 * rate..=10 * rate + rate / 10 + 16).contains(&passed), "{kind:?}: {passed} of {rate} a second");
    }
}

#[test]
fn a_share_is_no_more_than_that() {
    // The flood of before, and a second one that wants more than a share.
    let mut policer = PuntPolicer::shared_by(&ALL, 40_000, 5);
    let kind = PuntReason::Local;
    let mut of_second = 0;
    for at in 0..2_000 {
        let mut batch = policer.batch(at * MILLISECOND);
        (0..64).for_each(|_| _ = batch.pass_from(kind, || from(1, 1)));
        // Behind the first one in each batch, which leaves it nothing but its share.
        let passed = (0..64).filter(|_| batch.pass_from(kind, || from(2, 2))).count();
        of_second += if at >= 1_000 { passed } else { 0 };
    }
    assert!((1_000..=1_001).contains(&of_second), "{of_second}: an eighth of 8,000");
}
