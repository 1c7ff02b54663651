//! Senders that heed congestion, over a scheduler of one user, in simulated time: Reno (RFC 5681), and one that is scalable (DCTCP, RFC 8257; TCP Prague).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use weir_sched::class::ClassQueue;
use weir_sched::profile::{ClassProfile, Profile, Profiles};
use weir_sched::rate::Bucket;
use weir_sched::scheduler::{Leaving, Offer, Offered, Scheduler, Setup};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MS;

/// Bytes of each packet, with overhead.
pub(crate) const FRAME: u16 = 1_500;

/// What a sender is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Halves its window once a round trip where anything is lost. It knows nothing of marks.
    Reno,
    /// Reduces its window once a round trip by half the share of packets that are marked, as a moving average. It behaves as if its round trips were
    /// so much longer, nanoseconds: what TCP Prague does so as to be no faster than those whose packets wait (the "virtual RTT").
    Scalable(u64),
    /// Sends so many packets a second whatever becomes of them, with this field of explicit congestion notification.
    Deaf(u64, u8),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    sender: usize,
    came: u64,
    ecn: u8,
}

impl Offered<Packet> for Packet {
    fn ecn(&self) -> u8 {
        self.ecn
    }

    fn take(self) -> Option<Packet> {
        Some(self)
    }
}

fn mark(packet: &mut Packet) -> bool {
    packet.ecn |= if packet.ecn > 0 { 3 } else { 0 };
    packet.ecn == 3
}

/// What is known of a sender, and what became of its packets since [`World::watch`].
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    kind: Kind,
    window: f64,
    on_the_way: u64,
    /// When the round trip is over in which it was reduced last.
    recover: u64,
    /// Share of packets marked, and those of this round trip: all, and marked.
    alpha: f64,
    round: (u64, u64, u64),
    round_trip: u64,
    blocked: bool,
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    pub(crate) marked: u64,
    pub(crate) sojourns: Vec<u64>,
}

impl Sender {
    fn new(kind: Kind, round_trip: u64) -> Sender {
        Sender {
            kind,
            window: 40.0,
            on_the_way: 0,
            recover: 0,
            alpha: 0.0,
            round: (0, 0, 0),
            round_trip,
            blocked: false,
            sent: 0,
            lost: 0,
            marked: 0,
            sojourns: Vec::new(),
        }
    }

    fn ecn(&self) -> u8 {
        match self.kind {
            Kind::Reno => 0,
            Kind::Scalable(_) => 1,
            Kind::Deaf(_, ecn) => ecn,
        }
    }

    fn gap(&self) -> u64 {
        match self.kind {
            Kind::Deaf(rate, _) => SECOND / rate,
            _ => (self.round_trip as f64 / self.window) as u64,
        }
    }

    /// What became of a packet is known.
    fn heard(&mut self, packet: &Packet, lost: bool, now: u64) {
        self.on_the_way -= 1;
        let more = if let Kind::Scalable(more) = self.kind { more } else { 0 };
        let (round_trip, marked) = (self.round_trip + more, packet.ecn == 3);
        self.round.1 += 1;
        self.round.2 += u64::from(marked);
        if now >= self.round.0 {
            self.alpha += (self.round.2 as f64 / self.round.1 as f64 - self.alpha) / 16.0;
            self.round = (now + round_trip, 0, 0);
        }
        match (lost, marked) {
            (false, false) => self.window += (self.round_trip as f64 / round_trip as f64).powi(2) / self.window,
            _ if now < self.recover => {}
            (true, _) => self.reduce(2.0, now + round_trip),
            (_, true) => self.reduce(1.0 / (1.0 - self.alpha / 2.0), now + round_trip),
        }
    }

    fn reduce(&mut self, by: f64, until: u64) {
        (self.window, self.recover) = ((self.window / by).max(2.0), until);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Send(usize),
    Heard(usize),
    Due,
}

/// Senders, and the scheduler on their way.
pub(crate) struct World {
    scheduler: Scheduler<Packet, 4, 11>,
    pub(crate) senders: Vec<Sender>,
    events: BinaryHeap<Reverse<(u64, Event, usize)>>,
    /// What is heard of, by number.
    news: Vec<(Packet, bool)>,
    /// There and back, without waits.
    base: u64,
    now: u64,
    /// When the scheduler wants to be called.
    due: u64,
}

impl World {
    /// Of senders to a user with so many bit/s.
    pub(crate) fn new(rate: u64, class: ClassProfile, base: u64, kinds: &[Kind]) -> World {
        let profile = Profile::new(Bucket::new(rate, u64::from(FRAME)), vec![class; 4], &[]);
        let profiles = Profiles::new(Bucket::UNLIMITED, vec![], vec![profile]);
        let setup = Setup { users: 1, buffers: 20_000, minimum: 1, overhead: 24, wheel: Setup::WHEEL };
        let mut scheduler = Scheduler::new(setup, Arc::new(profiles)).with_marker(mark);
        scheduler.assign(0, Some((0, 0)), 0);
        let senders: Vec<Sender> = kinds.iter().map(|kind| Sender::new(*kind, base)).collect();
        let events = (0..senders.len()).map(|n| Reverse((n as u64 * 77_777, Event::Send(n), 0))).collect();
        World { scheduler, senders, events, news: Vec::new(), base, now: 0, due: u64::MAX }
    }

    /// From now on what becomes of packets counts.
    pub(crate) fn watch(&mut self) {
        for sender in &mut self.senders {
            (sender.sent, sender.lost, sender.marked) = (0, 0, 0);
            sender.sojourns.clear();
        }
    }

    /// Goes on for so long.
    pub(crate) fn run(&mut self, time: u64) {
        let end = self.now + time;
        while let Some(Reverse((at, event, number))) = self.events.pop() {
            self.now = at;
            match event {
                Event::Send(sender) => self.send(sender),
                Event::Due if at == self.due => self.dequeue(),
                // Something else has come between.
                Event::Due => {}
                Event::Heard(sender) => {
                    let (packet, lost) = self.news[number];
                    self.senders[sender].heard(&packet, lost, at);
                    if std::mem::take(&mut self.senders[sender].blocked) {
                        self.send(sender);
                    }
                }
            }
            if self.now >= end {
                return;
            }
        }
    }

    fn send(&mut self, number: usize) {
        let now = self.now;
        let sender = &mut self.senders[number];
        if !matches!(sender.kind, Kind::Deaf(..)) && sender.on_the_way as f64 >= sender.window {
            sender.blocked = true;
            return;
        }
        let packet = Packet { sender: number, came: now, ecn: sender.ecn() };
        sender.on_the_way += 1;
        self.events.push(Reverse((now + sender.gap(), Event::Send(number), 0)));
        let offer = Offer { user: 0, class: ClassQueue::new(3, 0), length: FRAME, colour: 0 };
        if self.scheduler.pass(&offer, now) == Ok(true) {
            return self.left(packet, false);
        }
        match self.scheduler.enqueue(offer, now, packet) {
            Ok(displaced) => assert!(displaced.is_none()),
            Err(_) => self.left(packet, true),
        }
        self.dequeue();
    }

    fn dequeue(&mut self) {
        let mut left = Vec::new();
        let due = self.scheduler.dequeue(self.now, 64, |leaving| left.push(leaving)).max(self.now + 1);
        if due != self.due && due < u64::MAX {
            self.events.push(Reverse((due, Event::Due, 0)));
        }
        self.due = due;
        for leaving in left {
            match leaving {
                Leaving::Sent(packet) => self.left(packet, false),
                Leaving::Managed(packet) | Leaving::Coupled(packet) => self.left(packet, true),
            }
        }
    }

    fn left(&mut self, packet: Packet, lost: bool) {
        let sender = &mut self.senders[packet.sender];
        let sojourn = self.now - packet.came;
        if lost {
            sender.lost += 1;
        } else {
            sender.sent += 1;
            sender.marked += u64::from(packet.ecn == 3);
            sender.sojourns.push(sojourn);
            sender.round_trip = self.base + sojourn;
        }
        self.events.push(Reverse((self.now + self.base, Event::Heard(packet.sender), self.news.len())));
        self.news.push((packet, lost));
    }
}

/// The time that no more than a share of the packets wait for longer than.
pub(crate) fn exceeded_by(sojourns: &[u64], share: f64) -> u64 {
    let mut sorted = sojourns.to_vec();
    sorted.sort_unstable();
    sorted[((sorted.len() - 1) as f64 * (1.0 - share)) as usize]
}
