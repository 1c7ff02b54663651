//! Copying packets that pass a port or take a way: the observer that workers tell.
//!
//! Workers are never made to wait: copies go to a bounded queue, and what finds no room there is counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use weir_engine::{Event, Observer, What};
use weir_filter::Filter;
use weir_stage::Fate;

use crate::graph::GraphView;
use weir_protocol::{Copied, to_hex};

/// Packets that wait to be sent to the client.
const QUEUE: usize = 8192;

/// The word that means every drop.
const DROPS: &str = "drops";

/// Where packets are copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// What a port hands over and accepts.
    Port(u16, String),
    /// What takes a way or is dropped somewhere, `PLACE.WAY`; or whatever leaves the place `PLACE`.
    Way(String),
    /// Everything that is dropped.
    Drops,
}

impl Point {
    /// The point that a user's word means. Errors say which there are.
    pub(crate) fn find(word: &str, ports: &[(u16, String)], graph: &GraphView) -> Result<Point, String> {
        if let Some((index, name)) = ports.iter().find(|(_, name)| name == word) {
            return Ok(Point::Port(*index, name.clone()));
        }
        if word == DROPS {
            return Ok(Point::Drops);
        }
        let place = |name: &str| word.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
        let at_port = ports.iter().any(|(_, name)| place(name).is_some_and(|reason| !reason.is_empty()));
        if at_port || graph.ways().any(|way| way == word) || graph.stages.iter().any(|stage| stage.name == word) {
            return Ok(Point::Way(word.to_owned()));
        }
        let names: Vec<String> = ports.iter().map(|(_, name)| name.clone()).chain(graph.ways()).collect();
        let remedy = match weir_config::nearest(word, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near}?"),
            None => {
                let ports: Vec<&str> = ports.iter().map(|(_, name)| name.as_str()).collect();
                format!(
                    "the ports are {}; `weir show graph` lists stages and ways, written STAGE.WAY",
                    ports.join(", ")
                )
            }
        };
        Err(format!("\"{word}\" is no port, way or drop reason; {remedy}"))
    }

    /// Whether an event happens here.
    fn meets(&self, what: What<'_>) -> bool {
        match (self, what) {
            (Point::Port(point, _), What::Received { port } | What::Transmitted { port }) => *point == port,
            (Point::Port(point, _), What::Crossed { out, into }) => *point == out || *point == into,
            (Point::Way(point), What::Left { stage, way, .. }) => is_at(point, stage, way),
            (Point::Way(point), What::Dropped { place, reason }) => is_at(point, place, reason),
            (Point::Way(point), What::Created { stage, reason }) => is_at(point, stage, reason),
            (Point::Drops, What::Dropped { .. } | What::Left { fate: Fate::Drop, .. }) => true,
            _ => false,
        }
    }
}

/// Whether `point` is `place`, or `place`, a dot and `way`.
fn is_at(point: &str, place: &str, way: &str) -> bool {
    match point.strip_prefix(place) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('.') == Some(way),
        None => false,
    }
}

/// Copies the packets that match, where they pass a point.
pub(crate) struct Copier {
    point: Point,
    filter: Filter,
    snap: usize,
    wanted: u64,
    /// What to add to the engine's time to get the time since 1970, nanoseconds.
    epoch: u64,
    /// Whether every worker tells: until then one direction would be copied, and not the other one yet.
    open: AtomicBool,
    seen: AtomicU64,
    missed: AtomicU64,
    copies: SyncSender<Copied>,
}

impl Copier {
    /// A copier of up to `count` packets, of each at most `snap` bytes, and where the copies come out.
    pub(crate) fn new(
        point: Point,
        filter: Filter,
        count: Option<u64>,
        snap: u32,
        epoch: u64,
    ) -> (Copier, Receiver<Copied>) {
        // Workers put packets to it.
        filter.compile();
        let (copies, out) = sync_channel(QUEUE);
        let copier = Copier {
            point,
            filter,
            snap: snap as usize,
            wanted: count.unwrap_or(u64::MAX),
            epoch,
            open: AtomicBool::new(false),
            seen: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            copies,
        };
        (copier, out)
    }

    /// Whether as many have been seen as were wanted.
    pub(crate) fn finished(&self) -> bool {
        self.seen.load(Ordering::Acquire) >= self.wanted
    }

    /// Packets seen so far, copied or missed.
    pub(crate) fn packets(&self) -> u64 {
        self.seen.load(Ordering::Acquire).min(self.wanted)
    }

    /// Packets that were not copied because the client was too slow.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    fn copy(&self, event: &Event<'_>) -> Copied {
        let (place, outbound) = match (event.what, &self.point) {
            (What::Received { .. }, Point::Port(_, name)) => (name.clone(), Some(false)),
            (What::Transmitted { .. }, Point::Port(_, name)) => (name.clone(), Some(true)),
            (What::Crossed { out, .. }, Point::Port(point, name)) => (name.clone(), Some(out == *point)),
            (What::Left { stage, way, .. }, _) => (format!("{stage}.{way}"), None),
            (What::Dropped { place, reason }, _) => (format!("{place}.{reason}"), None),
            (What::Created { stage, reason }, _) => (format!("{stage}.{reason}"), None),
            (What::Received { .. } | What::Transmitted { .. } | What::Crossed { .. } | What::Taken { .. }, _) => {
                (String::new(), None)
            }
        };
        let kept = event.bytes.get(..self.snap).unwrap_or(event.bytes);
        Copied {
            time: self.epoch.saturating_add(event.now),
            place,
            outbound,
            length: u32::try_from(event.bytes.len()).unwrap_or(u32::MAX),
            data: to_hex(kept),
        }
    }
}

impl Observer for Copier {
    fn event(&self, event: &Event<'_>) {
        if !self.point.meets(event.what)
            || !self.open.load(Ordering::Acquire)
            || self.finished()
            || !self.filter.matches(event.bytes)
        {
            return;
        }
        if self.seen.fetch_add(1, Ordering::AcqRel) >= self.wanted {
            return;
        }
        if self.copies.try_send(self.copy(event)).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn all_tell(&self) {
        self.open.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::tests::small;

    fn ports() -> Vec<(u16, String)> {
        vec![(0, "wan".to_owned()), (1, "lan".to_owned())]
    }

    fn tell(copier: &Copier, bytes: &[u8], what: What<'_>) {
        copier.event(&Event { now: 7, packet: 64, bytes, what });
    }

    fn copier(word: &str, filter: &str, count: Option<u64>, snap: u32) -> (Copier, Receiver<Copied>) {
        let made = closed(word, filter, count, snap);
        made.0.all_tell();
        made
    }

    fn closed(word: &str, filter: &str, count: Option<u64>, snap: u32) -> (Copier, Receiver<Copied>) {
        let point = Point::find(word, &ports(), &small()).unwrap();
        Copier::new(point, Filter::parse(filter).unwrap(), count, snap, 1000)
    }

    #[test]
    fn nothing_is_copied_before_every_worker_tells() {
        let (copier, copies) = closed("lan", "", Some(1), 100);
        tell(&copier, &[1; 60], What::Received { port: 1 });
        assert_eq!((copier.packets(), copies.try_iter().count()), (0, 0));
        copier.all_tell();
        tell(&copier, &[1; 60], What::Received { port: 1 });
        assert_eq!((copier.packets(), copies.try_iter().count()), (1, 1));
    }

    #[test]
    fn points_are_found_or_suggested() {
        let find = |word: &str| Point::find(word, &ports(), &small());
        assert_eq!(find("lan"), Ok(Point::Port(1, "lan".into())));
        assert_eq!(find("drops"), Ok(Point::Drops));
        assert_eq!(find("toy.ttl.expired"), Ok(Point::Way("toy.ttl.expired".into())));
        assert_eq!(find("toy.ttl"), Ok(Point::Way("toy.ttl".into())));
        assert_eq!(find("wan.tx-full"), Ok(Point::Way("wan.tx-full".into())));
        assert_eq!(
            find("toy.ttl.expird").unwrap_err(),
            "\"toy.ttl.expird\" is no port, way or drop reason; did you mean toy.ttl.expired?"
        );
        assert!(find("zzzzzzz").unwrap_err().contains("the ports are wan, lan"));
    }

    #[test]
    fn a_port_is_copied_both_ways() {
        let (copier, copies) = copier("wan", "", None, 4);
        tell(&copier, &[1; 60], What::Received { port: 0 });
        tell(&copier, &[2; 60], What::Received { port: 1 });
        tell(&copier, &[3; 60], What::Transmitted { port: 0 });
        tell(&copier, &[4; 60], What::Left { stage: "wan", way: "x", fate: Fate::Way });
        let copies: Vec<Copied> = copies.try_iter().collect();
        assert_eq!(
            copies,
            [
                Copied { time: 1007, place: "wan".into(), outbound: Some(false), length: 60, data: "01010101".into() },
                Copied { time: 1007, place: "wan".into(), outbound: Some(true), length: 60, data: "03030303".into() },
            ]
        );
    }

    #[test]
    fn ways_and_drops_are_points() {
        let left = |stage, way, fate| What::Left { stage, way, fate };
        let (copier_at_way, at_way) = copier("toy.ttl.expired", "", None, 60);
        let (copier_of_drops, drops) = copier("drops", "", None, 60);
        let (copier_of_stage, stage) = copier("toy.ttl", "", None, 60);
        for copier in [&copier_at_way, &copier_of_drops, &copier_of_stage] {
            tell(copier, &[1; 60], left("toy.ttl", "out", Fate::Way));
            tell(copier, &[2; 60], left("toy.ttl", "expired", Fate::Drop));
            tell(copier, &[3; 60], left("toy.ttl2", "expired", Fate::Drop));
            tell(copier, &[4; 60], What::Dropped { place: "lan", reason: "tx-full" });
        }
        let places = |of: Receiver<Copied>| of.try_iter().map(|copy| copy.place).collect::<Vec<_>>();
        assert_eq!(places(at_way), ["toy.ttl.expired"]);
        assert_eq!(places(drops), ["toy.ttl.expired", "toy.ttl2.expired", "lan.tx-full"]);
        assert_eq!(places(stage), ["toy.ttl.out", "toy.ttl.expired"]);
    }

    #[test]
    fn filter_and_count_bound_it() {
        let (copier, copies) = copier("wan", "greater 100", Some(2), 10);
        for length in [60, 200, 99, 100, 300] {
            tell(&copier, &vec![0; length], What::Received { port: 0 });
        }
        assert!(copier.finished());
        assert_eq!((copier.packets(), copier.missed()), (2, 0));
        assert_eq!(copies.try_iter().map(|copy| copy.length).collect::<Vec<_>>(), [200, 100]);
    }

    #[test]
    fn a_slow_client_makes_nobody_wait() {
        let (copier, copies) = copier("wan", "", None, 1);
        for _ in 0..QUEUE + 5 {
            tell(&copier, &[0; 60], What::Received { port: 0 });
        }
        assert_eq!((copier.packets(), copier.missed()), (QUEUE as u64 + 5, 5));
        assert_eq!(copies.try_iter().count(), QUEUE);
    }
}
