//! Captures in memory, and what becomes of their packets by the definitions, taken literally: lists, searched from end to end.
#![allow(clippy::unwrap_used, dead_code, reason = "tests fail by panicking, and each uses a part of this")]

use proptest::prelude::*;
use weir_capture::LinkType;
use weir_flowstat::{Clock, Fields, Model, Next, Options, Order, Packet, Report, Source, analyse};

/// A packet of a capture in memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) time: i64,
    pub(crate) data: Vec<u8>,
    pub(crate) length: u32,
    pub(crate) file: usize,
}

/// A capture in memory.
pub(crate) struct Frames<'a>(pub(crate) std::slice::Iter<'a, Frame>);

impl Source for Frames<'_> {
    fn next(&mut self) -> Next<'_> {
        match self.0.next() {
            Some(Frame { time, data, length, file }) => {
                Next::Packet(*time, Packet::new(data, *length, LinkType::ETHERNET, *file))
            }
            None => Next::End,
        }
    }

    fn progress(&self) -> (u64, u64) {
        (0, self.0.len() as u64)
    }
}

pub(crate) fn options(model: Box<dyn Model>) -> Options {
    Options {
        model,
        by: Fields::default(),
        filter_sent: None,
        filter_received: None,
        window: 1_000_000_000,
        clock: Clock::Same,
        trim: false,
        profile: None,
        order: Order::Key,
        memory: 1 << 30,
        temp: std::env::temp_dir(),
    }
}

pub(crate) fn run(options: &Options, sent: &[Frame], received: &[Frame]) -> Report {
    analyse(options, &mut Frames(sent.iter()), &mut Frames(received.iter()), &mut |_, _, _| {}).unwrap()
}

/// What a device does to one packet.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    Lost,
    Through(i64),
    Copied(Vec<i64>),
}

pub(crate) fn fate(longest: i64) -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => (0..5i64).prop_map(Fate::Through),
        3 => (0..longest).prop_map(Fate::Through),
        2 => Just(Fate::Lost),
        1 => proptest::collection::vec(0..longest, 2..4).prop_map(Fate::Copied),
    ]
}

/// What arrives if each of the packets sent has a fate, beside packets that nobody sent; `change` is what the device does to bytes.
pub(crate) fn arrivals(
    sent: &[Frame],
    fates: &[Fate],
    strangers: &[Frame],
    change: impl Fn(&Frame) -> Vec<u8>,
) -> Vec<Frame> {
    let mut all = strangers.to_vec();
    for (frame, fate) in sent.iter().zip(fates) {
        let delays = match fate {
            Fate::Lost => Vec::new(),
            Fate::Through(delay) => vec![*delay],
            Fate::Copied(delays) => delays.clone(),
        };
        for delay in delays {
            let data = change(frame);
            let length = data.len() as u32;
            all.push(Frame { time: frame.time + delay, data, length, file: 0 });
        }
    }
    all.sort_by_key(|frame| frame.time);
    all
}
