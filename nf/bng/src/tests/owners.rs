//! Balancers and workers agree whose each subscriber is: for every subscriber, both ways, in tunnels and without, and every number of workers.
//!
//! The twin is the rule itself: user `u` of `n` workers belongs to worker `u mod n`, at whose scheduler it has the number `u / n`.

use std::sync::Arc;

use proptest::prelude::*;
use weir_config::OneOrMany;
use weir_mem::Domain;
use weir_net::RouteSource;
use weir_packet::{BATCH, Batch, HeapPool, Pool, Slot};
use weir_stage::ownership::{MAX_OWNERS, Own, Owners, Whose};
use weir_wire::{MacAddr, ethernet};

use super::rig::{ACCESS, ACCESS_INDEX, CORE, CORE_INDEX, TPID, key};
use crate::balance::{BalanceDown, BalanceUp};
use crate::config::SubscriberConfig;
use crate::ports::{BngPort, Ports, Side};
use crate::registry::{Entry, Registry, Settings, testing};
use crate::table::counters::Counters;
use crate::table::{BindingFields, Limits, Sources4, Sources6, Stations, SubscriberFields, Subscribers, Tables, Tags};
use crate::words::Source4;

/// A subscriber: one of `of`.
#[derive(Clone, Copy)]
struct Line {
    n: u32,
    of: u32,
}

impl Line {
    /// Another order than that of tags, keys and addresses.
    fn user(self) -> u32 {
        (u64::from(self.n) * 7919 % u64::from(self.of)) as u32
    }

    fn tags(self) -> Tags {
        let (svlan, cvlan) = (1 + (self.n / 2 / 4094) as u16, 1 + (self.n / 2 % 4094) as u16);
        Tags { port: (self.n % 2) as u8, svlan, cvlan }
    }

    /// One in sixteen has a key far from the others'.
    fn key(self) -> u32 {
        if self.n.is_multiple_of(16) { 0x8000_0000 | self.n } else { self.n }
    }

    fn address(self) -> [u8; 4] {
        let [_, b, c, d] = self.n.to_be_bytes();
        [10, b, c, d]
    }

    /// One in eight has IPv6.
    fn is_six(self) -> bool {
        self.n % 8 == 3
    }

    fn half(self) -> u64 {
        0x2001_0db8_0000_0000 | u64::from(self.n)
    }

    fn binding(self, subscribers: &Subscribers, has_keys: bool) -> crate::table::BindingKey {
        let scope = if has_keys { self.key() } else { 0 };
        if self.is_six() { subscribers.key6(scope, self.half()) } else { key(scope, self.address()) }
    }

    /// What the tables hold of it.
    fn enter(self, tables: &mut Tables, owners: Owners, has_keys: bool) {
        let user = self.user();
        let (key, scope) = if has_keys { (self.key(), self.key()) } else { (0, 0) };
        tables
            .set_subscriber(&SubscriberFields {
                number: self.n,
                tags: self.tags(),
                key,
                scope,
                user: owners.word(user),
                ipv4: Sources4::NONE,
                ipv6: Sources6::NONE,
                mac: None,
            })
            .unwrap();
        if has_keys {
            tables.set_key_owner(key, owners.of(user));
        }
        let key = self.binding(tables.shared(), has_keys);
        let owner = owners.of(user);
        let stations = Stations::Routed;
        let binding =
            BindingFields { key, mac: None, tags: self.tags(), tpid: TPID, subscriber: self.n, owner, stations };
        tables.set_binding(&binding).unwrap();
    }

    fn write_up(self, frame: &mut [u8]) {
        let Tags { svlan, cvlan, .. } = self.tags();
        frame[12..14].copy_from_slice(&TPID.to_be_bytes());
        // Priorities do not matter.
        frame[14..16].copy_from_slice(&(svlan | 0xe000).to_be_bytes());
        frame[16..18].copy_from_slice(&ethernet::CVLAN.to_be_bytes());
        frame[18..20].copy_from_slice(&(cvlan | 0x6000).to_be_bytes());
    }

    /// A packet from the core, below a label with keys.
    fn write_down(self, frame: &mut [u8], has_keys: bool) {
        let ethertype = if self.is_six() { ethernet::IPV6 } else { ethernet::IPV4 };
        let mut at = 14;
        if has_keys {
            frame[12..18].copy_from_slice(&[0x88, 0x47, 0, 1, 1, 64]);
            frame[18..38].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 47, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
            frame[38..40].copy_from_slice(&[0x20, 0]);
            frame[40..42].copy_from_slice(&ethertype.to_be_bytes());
            frame[42..46].copy_from_slice(&self.key().to_be_bytes());
            at = 46;
        } else {
            frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        }
        if self.is_six() {
            frame[at] = 0x60;
            frame[at + 24..at + 32].copy_from_slice(&self.half().to_be_bytes());
        } else {
            frame[at] = 0x45;
            frame[at + 16..at + 20].copy_from_slice(&self.address());
        }
    }
}

/// What says whose packets are, and a batch of which the frames are written anew for each call.
struct Bench<W> {
    whose: W,
    batch: Box<Batch>,
    pool: Box<dyn Pool>,
}

impl<W: Whose> Bench<W> {
    fn new(whose: W) -> Bench<W> {
        let mut pool: Box<dyn Pool> = Box::new(HeapPool::new(BATCH, 2048));
        let mut batch = Batch::new();
        for _ in 0..BATCH {
            let mut packet = pool.alloc().unwrap();
            packet.fill(&[0; 120]);
            assert!(batch.push(packet).is_ok());
        }
        Bench { whose, batch, pool }
    }

    /// The workers of the packets of so many lines, whose frames and ports are written by `write`.
    fn owners(&mut self, lines: &[Line], write: impl Fn(Line, &mut [u8]) -> u16) -> Vec<u8> {
        for (slot, line) in (0..BATCH).map(Slot::new).zip(lines) {
            self.batch.lanes.port[slot] = write(*line, self.batch.get_mut(slot).unwrap().bytes_mut());
        }
        let mut owners = [0; BATCH];
        self.whose.owners(&self.batch, &mut owners);
        owners.iter().take(lines.len()).copied().collect()
    }
}

impl<W> Drop for Bench<W> {
    fn drop(&mut self) {
        (0..BATCH).map(Slot::new).filter_map(|slot| self.batch.take(slot)).for_each(|packet| self.pool.free(packet));
    }
}

fn ports() -> Arc<Ports> {
    let port = |name: &str, index, side, mac| BngPort { name: name.to_owned(), index, mac, mtu: 1500, side };
    Arc::new(Ports::new(vec![
        port("east", ACCESS_INDEX, Side::Access, ACCESS),
        port("west", ACCESS_INDEX + 1, Side::Access, MacAddr([2, 0, 0, 0, 0, 9])),
        port("core", CORE_INDEX, Side::Core, CORE),
    ]))
}

/// All subscribers for every number of workers.
fn all_agree(has_keys: bool, subscribers: u32) {
    let domain = Domain::new();
    let bindings = subscribers;
    let limits = Limits { subscribers, bindings, svlans: 64, prefix_length: 64, is_balanced: true, has_keys: true };
    let mut tables = Tables::new(limits, 2, &domain, 11).unwrap();
    let shared = Arc::clone(tables.shared());
    let mut up = Bench::new(BalanceUp::new(Arc::clone(&shared), ports(), TPID));
    let mut down = Bench::new(BalanceDown::new(Arc::clone(&shared), has_keys));
    let lines: Vec<Line> = (0..subscribers).map(|n| Line { n, of: subscribers }).collect();
    for workers in 1..=MAX_OWNERS {
        let owners = Owners::divided(workers);
        lines.iter().for_each(|line| line.enter(&mut tables, owners, has_keys));
        for some in lines.chunks(BATCH) {
            let by_tags = up.owners(some, |line, frame| {
                line.write_up(frame);
                ACCESS_INDEX + u16::from(line.tags().port)
            });
            let by_destination = down.owners(some, |line, frame| {
                line.write_down(frame, has_keys);
                CORE_INDEX
            });
            for ((line, tags), destination) in some.iter().zip(by_tags).zip(by_destination) {
                let (user, workers) = (line.user(), u32::from(workers));
                let owner = (user % workers) as u8;
                assert_eq!((tags, destination), (owner, owner), "subscriber {} of {workers} workers", line.n);
                // What both sides' workers go by, before `up` and behind `down`.
                let Tags { port, svlan, cvlan } = line.tags();
                let record = shared.subscriber(shared.by_tags(port, svlan, cvlan).unwrap()).unwrap();
                assert_eq!(Own::of(owner).number(record.user()), user / workers);
            }
        }
    }
}

#[test]
fn all_of_65536_agree_in_tunnels() {
    all_agree(true, 65_536);
}

#[test]
fn all_of_65536_agree_without_tunnels() {
    all_agree(false, 65_536);
}

#[test]
fn all_of_131072_agree_in_tunnels() {
    all_agree(true, 131_072);
}

#[test]
fn all_of_131072_agree_without_tunnels() {
    all_agree(false, 131_072);
}

/// What is nobody's, or makes no sense, goes to the first worker.
#[test]
fn the_first_worker_has_what_is_nobodys() {
    let domain = Domain::new();
    let limits =
        Limits { subscribers: 8, bindings: 8, svlans: 8, prefix_length: 64, is_balanced: true, has_keys: true };
    let mut tables = Tables::new(limits, 2, &domain, 3).unwrap();
    let line = Line { n: 5, of: 8 };
    assert_eq!(line.user() % 7, 3);
    line.enter(&mut tables, Owners::divided(7), true);
    let shared = Arc::clone(tables.shared());
    let mut up = Bench::new(BalanceUp::new(Arc::clone(&shared), ports(), TPID));
    let mut down = Bench::new(BalanceDown::new(shared, true));
    let mut check = |expected: u8, change: &dyn Fn(&mut [u8])| {
        let by_tags = up.owners(&[line], |line, frame| {
            frame.fill(0);
            line.write_up(frame);
            change(frame);
            ACCESS_INDEX + u16::from(line.tags().port)
        });
        assert_eq!(by_tags, [expected]);
    };
    check(3, &|_| {});
    check(0, &|frame| frame[12] = 8);
    check(0, &|frame| frame[16] = 8);
    check(0, &|frame| frame[15] ^= 1);
    check(0, &|frame| frame[19] ^= 1);
    let mut check = |expected: u8, change: &dyn Fn(&mut [u8])| {
        let by_key = down.owners(&[line], |line, frame| {
            frame.fill(0);
            line.write_down(frame, true);
            change(frame);
            CORE_INDEX
        });
        assert_eq!(by_key, [expected]);
    };
    check(3, &|_| {});
    // With options before it, and with a congestion mark, it is found all the same.
    check(3, &|frame| frame[19] = 3);
    check(3, &|frame| {
        frame.copy_within(38..100, 42);
        frame[18] = 0x46;
    });
    check(0, &|frame| frame[42..46].fill(0xee));
    check(0, &|frame| frame[38] = 0);
    check(0, &|frame| frame[13] = 0);
    check(0, &|frame| frame.fill(0));
    check(0, &|frame| frame.fill(0xff));
}

/// What happens to a subscriber.
#[derive(Clone, Debug)]
enum Change {
    /// It is there with this key, user and address, or has them from now on.
    Put {
        line: u16,
        key: u32,
        user: Option<u32>,
        address: u8,
    },
    Gone {
        line: u16,
    },
}

fn change() -> impl Strategy<Value = Change> {
    let keys = prop_oneof![0..8_u32, 0xffff_0000..0xffff_0008_u32];
    let put = (1..8_u16, keys, prop::option::of(0..16_u32), 1..9_u8)
        .prop_map(|(line, key, user, address)| Change::Put { line, key, user, address });
    prop_oneof![4 => put, 1 => (1..8_u16).prop_map(|line| Change::Gone { line })]
}

fn tags(line: u16) -> Tags {
    Tags { port: 1, svlan: 1 + line % 2, cvlan: line }
}

proptest! {
    /// Subscribers come, change and go: tags, keys and addresses of each lead to one worker at every moment, those of nobody to the first.
    #[test]
    fn they_agree_whatever_changes(
        workers in 1..=MAX_OWNERS, has_keys: bool, changes in prop::collection::vec(change(), 1..60),
    ) {
        let domain = Domain::new();
        let limits = Limits { subscribers: 8, bindings: 12, svlans: 3, prefix_length: 64, is_balanced: true, has_keys: true };
        let tables = Tables::new(limits, 2, &domain, 1).unwrap();
        let settings = Settings { owners: Owners::sharing(workers), ..testing::settings(has_keys) };
        let mut registry = Registry::new(settings, tables, Counters::new(8, 0, &["a"], 0));
        for change in changes {
            match change {
                Change::Put { line, key, user, address } => {
                    let tags = tags(line);
                    let ipv4 = OneOrMany(vec![Source4(format!("192.0.2.{address}/32").parse().unwrap())]);
                    let nothing = SubscriberConfig::behind(tags.svlan, tags.cvlan);
                    let fields = SubscriberConfig { key: Some(key), user, ipv4, ..nothing };
                    drop(registry.put(RouteSource::Config, Entry { tags, fields }));
                }
                Change::Gone { line } => drop(registry.take_back(RouteSource::Config, tags(line))),
            }
            registry.settle();
            prop_assert_eq!(registry.unsettled(), 0);
            let shared = Arc::clone(registry.tables().shared());
            for line in 1..8 {
                let Tags { port, svlan, cvlan } = tags(line);
                let owner = registry.by_tags(tags(line)).map_or(0, |one| (one.user() % u32::from(workers)) as u8);
                prop_assert_eq!(shared.owner_at(shared.seek_owner(port, svlan, cvlan)), owner);
            }
            for key in 0..8 {
                let owner = registry.by_key(key).map_or(0, |one| (one.user() % u32::from(workers)) as u8);
                prop_assert_eq!(shared.owner_by_key(key), owner);
            }
            for one in registry.subscribers_from(0) {
                for key in one.fixed_keys(registry.settings()) {
                    let place = shared.find(key, shared.hash(key)).unwrap();
                    prop_assert_eq!(shared.binding(place).unwrap().owner(), (one.user() % u32::from(workers)) as u8);
                }
            }
        }
    }
}
