//! The account of one stage: in + created = out + dropped + consumed + held, after every call.

use proptest::prelude::*;
use weir_stage::harness::{Harness, Outcome};
use weir_stage::{Fate, Stage};

/// What happens to a stage under test.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A batch arrives.
    Packets(Vec<Vec<u8>>),
    /// So many nanoseconds pass, and the stage is polled.
    Wait(u64),
    /// Something of the stage's own, with a number.
    Special(u8),
}

/// Any sequence of events, with packets of any content from 0 bytes up to `longest`.
pub(crate) fn events(longest: usize) -> impl Strategy<Value = Vec<Event>> {
    let packet = prop::collection::vec(any::<u8>(), 0..longest);
    let event = prop_oneof![
        3 => prop::collection::vec(packet, 0..65).prop_map(Event::Packets),
        2 => (0..2_000_000_u64).prop_map(Event::Wait),
        1 => any::<u8>().prop_map(Event::Special),
    ];
    prop::collection::vec(event, 1..30)
}

/// A stage in a harness, and the sums of what it did.
pub(crate) struct Tally<S: Stage> {
    pub(crate) harness: Harness<S>,
    pub(crate) now: u64,
    entered: u64,
    created: u64,
    out: u64,
    dropped: u64,
    consumed: u64,
}

impl<S: Stage> Tally<S> {
    pub(crate) fn new(harness: Harness<S>) -> Tally<S> {
        Tally { harness, now: 0, entered: 0, created: 0, out: 0, dropped: 0, consumed: 0 }
    }

    pub(crate) fn add(&mut self, outcome: &Outcome) {
        let declaration = self.harness.stage.declare();
        let fate = |name: &str| declaration.fate_of(declaration.code_of(name).unwrap());
        self.entered += outcome.entered;
        for (name, count) in &outcome.created {
            assert_eq!(fate(name), Fate::Create, "{name}");
            self.created += count;
        }
        for (name, count) in outcome.counts() {
            match fate(name) {
                Fate::Way | Fate::Again => self.out += count as u64,
                Fate::Drop => self.dropped += count as u64,
                Fate::Consume => self.consumed += count as u64,
                Fate::Create => unreachable!("a packet left by '{name}', which is no way out"),
            }
        }
        let held = self.harness.stage.held();
        assert_eq!(
            self.entered + self.created,
            self.out + self.dropped + self.consumed + held,
            "in and created; out {}, dropped {}, consumed {}, held {held}",
            self.out,
            self.dropped,
            self.consumed
        );
    }

    /// Plays events, with the account checked after each, and takes what is held at the end.
    pub(crate) fn play(&mut self, events: Vec<Event>, mut special: impl FnMut(&mut S, u8)) {
        for event in events {
            let outcome = match event {
                Event::Packets(packets) => self.harness.run(self.now, &packets),
                Event::Wait(time) => {
                    self.now += time;
                    self.harness.poll(self.now)
                }
                Event::Special(number) => {
                    special(&mut self.harness.stage, number);
                    self.harness.poll(self.now)
                }
            };
            self.add(&outcome);
        }
        let held = self.harness.stage.held();
        assert_eq!(self.harness.clear().len() as u64, held);
        assert_eq!(self.harness.stage.held(), 0);
    }
}
