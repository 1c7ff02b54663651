//! Captures of a device that changes nothing, against the definitions.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;
#[path = "common/twin.rs"]
mod twin;

use common::{Fate, Frame, arrivals, fate, options, run};
use proptest::prelude::*;
use twin::{Judge, Seen, agree};
use weir_flowstat::models::Identity;
use weir_flowstat::{Clock, Fields, Profile};

/// Packets that were sent: few or many that look alike, of some streams, and pauses between them.
fn sent() -> impl Strategy<Value = (Vec<Frame>, Vec<Fate>, Vec<Frame>)> {
    let scale = prop_oneof![Just(1i64), Just(40), Just(2_000), Just(3_000_000)];
    (scale, 1..60u8, prop_oneof![Just(10i64), Just(200), Just(1500)]).prop_flat_map(|(scale, kinds, longest)| {
        let packet = (0..6i64, 0..kinds, 0..3usize, 60..64u32);
        let packets = proptest::collection::vec((packet, fate(longest)), 0..70);
        let strangers = proptest::collection::vec((0..400i64, 0..200u8), 0..5);
        (packets, strangers).prop_map(move |(packets, strangers)| {
            let mut time = 1_700_000_000_000_000_000;
            let frame = |time, kind, length, file| Frame { time, data: vec![kind; 60], length, file };
            let strangers = strangers.into_iter().map(|(at, kind)| frame(time + at * scale, kind, 60, 0)).collect();
            let mut frames = Vec::new();
            let mut fates = Vec::new();
            for ((pause, kind, file, length), fate) in packets {
                time += pause * scale;
                // Bytes that were not captured are those that no model looks at here.
                frames.push(Frame { data: vec![kind; length as usize], ..frame(time, kind, length, file) });
                fates.push(fate);
            }
            (frames, fates, strangers)
        })
    })
}

fn seen(frames: &[Frame], with_streams: bool) -> Vec<Seen> {
    let stream = |frame: &Frame| match with_streams {
        true => vec![("file".to_owned(), (frame.file + 1).to_string())],
        false => Vec::new(),
    };
    let one =
        |frame: &Frame| Seen { time: frame.time, key: frame.data.clone(), length: frame.length, stream: stream(frame) };
    frames.iter().map(one).collect()
}

fn judge(window: i64, profile: Option<Profile>) -> Judge {
    Judge { window, after: 0, corrected: Box::new(|time| time), synchronised: true, profile }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_figure_is_what_its_definition_says(
        (frames, fates, strangers) in sent(), window in prop_oneof![Just(1_000_000i64), 0..300i64], split: bool,
        rate in proptest::option::of((1..2_000_000_000u64, 0..300u64)), on_disk: bool,
    ) {
        let received = arrivals(&frames, &fates, &strangers, |frame| frame.data.clone());
        let profile = rate.map(|(rate, burst)| Profile { rate, burst });
        let mut options = options(Box::new(Identity::default()));
        options.window = window as u64;
        options.profile = profile;
        if split {
            options.by = Fields::parse("file").unwrap();
        }
        if on_disk {
            options.memory = 0;
        }
        let report = run(&options, &frames, &received);
        let agreed = agree(&report, &judge(window, profile), &seen(&frames, split), &seen(&received, false));
        prop_assert_eq!(agreed, Ok(()));
        let capture = &report.received;
        prop_assert_eq!((capture.packets, capture.counted), (received.len() as u64, received.len() as u64));
    }

    /// Packets are told apart here, so that clocks can be compared whatever they say.
    #[test]
    fn delay_variation_needs_no_common_clock(
        (mut frames, fates, _) in sent(), ahead in -1_000_000_000_000i64..1_000_000_000_000, split: bool, drift: bool,
    ) {
        for (n, frame) in frames.iter_mut().enumerate() {
            frame.data[..8].copy_from_slice(&(n as u64).to_be_bytes());
        }
        let mut received = arrivals(&frames, &fates, &[], |frame| frame.data.clone());
        received.iter_mut().for_each(|frame| frame.time += ahead);
        let mut options = options(Box::new(Identity::default()));
        options.clock = if drift { Clock::Drift } else { Clock::Offset };
        options.by = Fields::parse(if split { "file" } else { "" }).unwrap();
        let report = run(&options, &frames, &received);
        prop_assert!(report.total.latency_ns.is_none() && report.streams.iter().all(|s| s.report.latency_ns.is_none()));
        if !drift {
            let difference = |frame: &Frame| {
                let same = frames.iter().find(|other| other.data == frame.data).unwrap();
                frame.time - same.time
            };
            let least = received.iter().map(difference).min();
            prop_assert_eq!(report.clock.offset_ns, least);
            let least = least.unwrap_or(0);
            let corrected = Box::new(move |time| time - least);
            let judge = Judge { window: 1_000_000_000, after: 1_000, corrected, synchronised: false, profile: None };
            prop_assert_eq!(agree(&report, &judge, &seen(&frames, split), &seen(&received, false)), Ok(()));
        }
    }
}

#[test]
fn what_only_one_capture_covers_can_be_left_out() {
    let frame = |n: u64| Frame { time: n as i64 * 1000, data: n.to_be_bytes().to_vec(), length: 8, file: 0 };
    let late = |n: u64| Frame { time: n as i64 * 1000 + 100, ..frame(n) };
    // 0 to 99 were sent; 20 to 119 were received, but for 50.
    let sent: Vec<Frame> = (0..100).map(frame).collect();
    let received: Vec<Frame> = (20..120).filter(|n| *n != 50).map(late).collect();
    let mut options = options(Box::new(Identity::default()));
    let report = run(&options, &sent, &received);
    assert_eq!((report.total.lost, report.total.unmatched), (21, 20));
    assert!(report.notes.iter().any(|note| note.contains("--trim")), "{:?}", report.notes);
    options.trim = true;
    for clock in [Clock::Same, Clock::Offset, Clock::Drift] {
        options.clock = clock;
        let report = run(&options, &sent, &received);
        assert_eq!((report.sent.outside, report.total.lost), (if clock == Clock::Same { 21 } else { 20 }, 1));
        assert_eq!((report.received.outside, report.total.unmatched), (if clock == Clock::Same { 21 } else { 20 }, 0));
        assert_eq!(report.streams[0].report.loss.as_ref().unwrap().periods, 1);
        assert_eq!(report.total.sent, report.streams[0].report.sent);
        // What was left out is no loss of the plots either, and it is told.
        for series in [&report.total.series, &report.streams[0].series] {
            let sum = |of: fn(&weir_flowstat::Piece) -> u64| series.pieces.iter().map(of).sum::<u64>();
            assert_eq!((sum(|piece| piece.lost.into()), sum(|piece| piece.sent.into())), (1, report.total.sent));
            assert_eq!(sum(|piece| piece.sent_bytes), report.total.sent_bytes);
        }
        assert_eq!(report.streams[0].first_ns, if clock == Clock::Same { 21_000 } else { 20_000 });
        let left_out =
            format!("--trim left {} packets sent and {} received out", report.sent.outside, report.received.outside);
        assert!(report.notes.iter().any(|note| note.starts_with(&left_out)), "{:?}", report.notes);
    }
}

/// Who captures on both sides of a router has questions and answers in both files. The answers are told, with the filter that leaves them out, and
/// with it nothing is lost.
#[test]
fn answers_in_both_captures_are_told_with_the_filter_that_leaves_them_out() {
    let frame = |n: u64, answer: bool, time: i64| {
        let (to, from) =
            if answer { ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 9]) } else { ([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 1]) };
        let data = [&to[..], &from[..], &[0x88, 0xb5, u8::from(answer)], &n.to_be_bytes()[..], &[0; 40][..]].concat();
        Frame { time, length: data.len() as u32, data, file: 0 }
    };
    // Each question is sent, received after 100 ns, answered after 500 ns; the answer comes back to where it counts as sent.
    let pair = |n: u64, asked: i64, answered: i64| {
        let start = n as i64 * 1000;
        [frame(n, false, start + asked), frame(n, true, start + answered)]
    };
    let sent: Vec<Frame> = (0..50).flat_map(|n| pair(n, 0, 700)).collect();
    let received: Vec<Frame> = (0..50).flat_map(|n| pair(n, 100, 600)).collect();
    let mut options = options(Box::new(Identity::default()));
    let report = run(&options, &sent, &received);
    assert_eq!((report.total.matched, report.total.lost, report.total.too_early), (50, 50, 50));
    let note = report.notes.iter().find(|note| note.contains("both directions")).unwrap();
    let filter = note.split('\'').nth(1).unwrap();
    assert!(
        note.contains("50 packets were received before they were sent") && filter == "ether dst 02:00:00:00:00:09",
        "{note}"
    );
    assert!(!report.notes.iter().any(|note| note.contains("--clock")), "{:?}", report.notes);
    options.filter_sent = Some(weir_filter::Filter::parse(filter).unwrap());
    let report = run(&options, &sent, &received);
    assert_eq!((report.total.lost, report.sent.filtered), (0, 50));
    assert!(!report.notes.iter().any(|note| note.contains("both directions")), "{:?}", report.notes);
}

/// Whatever stamps and lengths files claim, nothing overflows, and every packet is in one place.
#[test]
fn wild_stamps_and_lengths_are_borne() {
    let times = [0, i64::MAX, i64::MIN, -1, 5, 1 << 62, i64::MAX - 1, 3];
    let frame = |(n, time): (usize, i64)| Frame { time, data: vec![n as u8 % 3; 9], length: u32::MAX, file: n };
    let all: Vec<Frame> = times.into_iter().enumerate().map(frame).collect();
    let turned: Vec<Frame> = all.iter().rev().cloned().collect();
    for (clock, trim) in [(Clock::Same, false), (Clock::Offset, true), (Clock::Drift, false), (Clock::Drift, true)] {
        let mut options = options(Box::new(Identity { bytes: Some(9) }));
        options.profile = Some(Profile { rate: u64::MAX, burst: u64::MAX });
        (options.clock, options.trim, options.by) = (clock, trim, Fields::parse("file").unwrap());
        let report = run(&options, &all, &turned);
        let total = &report.total;
        assert_eq!(total.sent, total.matched + total.lost);
        assert_eq!(total.received, total.matched + total.duplicated + total.unmatched);
    }
}

#[test]
fn filters_look_at_ethernet_only() {
    let frame = |n: u8| Frame { time: n.into(), data: vec![n; 60], length: 60, file: 0 };
    let sent: Vec<Frame> = (0..10).map(frame).collect();
    let mut options = options(Box::new(Identity::default()));
    options.filter_sent = Some("ether[0] < 4".parse().unwrap());
    let report = run(&options, &sent, &sent);
    assert_eq!((report.sent.filtered, report.total.filtered_sent, report.total.matched), (6, 6, 4));
    assert_eq!(report.total.unmatched, 6);
}

#[test]
fn frames_that_were_cut_are_told_and_need_fewer_bytes() {
    let frame = |n: u8, cut: usize| Frame { time: i64::from(n), data: vec![n; cut], length: 100, file: 0 };
    let (sent, received) = (vec![frame(1, 100), frame(2, 100)], vec![frame(1, 64), frame(2, 60)]);
    let report = run(&options(Box::new(Identity::default())), &sent, &received);
    assert_eq!((report.received.cut, report.total.received, report.total.lost), (2, 0, 2));
    assert!(report.notes.iter().any(|note| note.contains("--bytes 60")), "{:?}", report.notes);
    let report = run(&options(Box::new(Identity { bytes: Some(60) })), &sent, &received);
    assert_eq!((report.received.cut, report.total.matched), (0, 2));
}

/// Packets that are all alike meet in one part. When they need more memory than is allowed that is said, and no more is taken.
#[test]
fn packets_alike_are_refused_where_they_do_not_fit() {
    let frame = |time| Frame { time, data: vec![7; 60], length: 60, file: 0 };
    let frames: Vec<Frame> = (0..1_000_000).map(frame).collect();
    let analyse = |memory: u64| {
        let options = weir_flowstat::Options { memory, ..options(Box::new(Identity::default())) };
        let source = || common::Frames(frames.iter());
        weir_flowstat::analyse(&options, &mut source(), &mut source(), &mut |_, _, _| {})
    };
    let refused = analyse(1 << 20).unwrap_err();
    assert!(refused.contains("1000000 packets") && refused.contains("allows 64"), "{refused}");
    assert_eq!(analyse(1 << 28).unwrap().total.matched, 1_000_000);
}
