//! Packets that scripts make, and packets that they hold: against the definition in the manual, and random programs against a twin.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_lua::{Access, LuaStage};
use weir_mem::Domain;
use weir_packet::{BATCH, Batch, HeapPool, Packet, Pool, Slot};
use weir_stage::harness::{Harness, Outcome};
use weir_stage::{Out, OutStore, Stage};

const WAYS: u8 = 2;

fn stage(text: &str, max_held: u32) -> LuaStage {
    LuaStage::with_held("try.lua", text, Access::Checked, WAYS, max_held).unwrap()
}

fn harness(text: &str, max_held: u32) -> Harness<LuaStage> {
    Harness::new(stage(text, max_held))
}

fn run(body: &str, packets: &[Vec<u8>]) -> Outcome {
    let mut harness = harness(&format!("function run(b)\n{body}\nend"), 0);
    let outcome = harness.run(7, packets);
    assert_eq!(harness.stage.failures().last(), None);
    outcome
}

#[test]
fn packets_are_made_of_bytes_and_of_packets() {
    let packets = [vec![1; 60], vec![2; 61]];
    let body = "assert(b:emit(1, 'abc')) assert(b:emit(2, '', 1)) assert(b:copy(2, 0)) b:set_u8(2, 0, 9) assert(b:copy(2)) b:drop(2)";
    let outcome = run(body, &packets);
    let changed: Vec<u8> = [vec![9], vec![2; 60]].concat();
    assert_eq!(outcome.way("out"), [vec![1; 60], b"abc".to_vec(), changed.clone()]);
    assert_eq!(outcome.way("way[0]"), [vec![2; 61]], "as it was when it was copied");
    assert_eq!(outcome.way("way[1]"), [Vec::<u8>::new()]);
    assert_eq!(outcome.way("lua-drop"), [changed]);
    assert_eq!(outcome.created, BTreeMap::from([("lua-made".to_owned(), 4)]));
}

#[test]
fn what_is_made_is_bounded() {
    let many = "for n = 1, 64 do assert(b:emit(1, 'x')) end assert(not b:emit(1, '') and not b:copy(1))";
    // 128 KiB, of which a packet takes multiples of eight.
    let large = "local s = ('x'):rep(9216) for n = 1, 14 do assert(b:emit(1, s)) end assert(not b:emit(1, s)) \
                 assert(b:emit(1, ('x'):rep(2041))) assert(not b:emit(1, ('x'):rep(8)))";
    for (body, made) in [(many, 64), (large, 15)] {
        let text = format!("function run(b) {body} end");
        let mut harness = harness(&text, 0);
        // All of it is there again in the next batch.
        for _ in 0..3 {
            let outcome = harness.run(0, &[[0; 60]]);
            assert_eq!(harness.stage.failures().last(), None);
            assert_eq!((outcome.created["lua-made"], outcome.way("out").len()), (made, made as usize + 1));
        }
    }
}

#[test]
fn without_buffers_none_is_made_and_that_is_told() {
    let mut harness = Harness::small(stage("function run(b) for n = 1, 5 do b:copy(1) end end", 0), 4);
    let outcome = harness.run(0, &[[7; 60], [7; 60]]);
    assert_eq!((outcome.created["lua-made"], outcome.way("out").len()), (2, 4));
    assert_eq!(harness.stage.failures().unmade(), 3);
}

#[test]
fn what_a_script_made_that_failed_does_not_count() {
    let text = "function run(b) if b:u8(1, 0) == 1 then b:emit(1, 'x') b:hold(1, 1e6) error('late') end end";
    let mut harness = harness(text, 4);
    let outcome = harness.run(0, &[[1; 60]]);
    assert_eq!((outcome.counts(), outcome.created.len()), (BTreeMap::from([("lua-error", 1)]), 0));
    assert_eq!(harness.stage.held(), 0);
    let outcome = harness.run(0, &[[0; 60]]);
    assert_eq!((outcome.counts(), outcome.created.len()), (BTreeMap::from([("out", 1)]), 0));
}

/// Where one goes by the port it came in, so does what is made of it.
#[test]
fn what_is_known_of_a_packet_holds_for_what_is_made_of_it_and_when_it_comes_back() {
    let text = "function run(b) for i = 1, b:count() do\n\
        if not b:waited(i) then b:copy(i, 1) b:hold(i, 5e6) else\n\
        b:set_u8(i, 0, b:port(i)) b:set_u8(i, 1, b:time(i)) b:set_u8(i, 2, b:waited(i) / 1e6) b:set_u8(i, 3, b:now() / 1e6) end end end";
    let mut harness = harness(text, 4);
    harness.lanes().port[Slot::new(0)] = 5;
    harness.lanes().port[Slot::new(1)] = 6;
    let outcome = harness.run(3, &[[0; 60], [0; 60]]);
    assert_eq!(outcome.counts(), BTreeMap::from([("way[1]", 2)]), "{:?}", harness.stage.failures().last());
    assert_eq!((harness.poll(5_000_002).counts().len(), harness.stage.held()), (0, 2));
    assert_eq!(harness.poll(5_000_002).next_poll, Some(5_000_003));
    let outcome = harness.poll(8_000_003);
    let starts: Vec<_> = outcome.way("out").iter().map(|packet| packet[..4].to_vec()).collect();
    assert_eq!(starts, [[5, 3, 8, 8], [6, 3, 8, 8]]);
    assert_eq!((outcome.next_poll, harness.stage.held()), (Some(u64::MAX), 0));
}

#[test]
fn packets_come_back_when_they_are_due_and_no_more_are_held_than_may_be() {
    let text = "function run(b) for i = 1, b:count() do\n\
        if not b:waited(i) and not b:hold(i, b:u8(i, 0) * 1e6) then b:way(i, 0) end end end";
    let mut harness = harness(text, 3);
    let outcome = harness.run(0, &[[5; 60], [2; 60], [2; 60], [1; 60]]);
    assert_eq!(outcome.way("way[0]"), [vec![1; 60]], "{:?}", harness.stage.failures().last());
    assert_eq!(harness.poll(1_999_999).counts(), BTreeMap::new());
    assert_eq!(harness.poll(2_000_000).way("out"), [vec![2; 60], vec![2; 60]]);
    assert_eq!(harness.run(2_000_000, &[[9; 60], [1; 60], [1; 60]]).way("way[0]"), [vec![1; 60]]);
    assert_eq!(harness.clear(), [vec![5; 60], vec![9; 60], vec![1; 60]], "in the order in which they came");
    assert_eq!(harness.stage.held(), 0);
}

/// A script that gives way to another answer keeps its place to itself until the next batch.
#[test]
fn the_last_answer_counts() {
    let text = "function run(b) if not b:waited(1) then assert(b:hold(1, 1e6)) b:drop(1) assert(b:hold(1, 1e6)) b:way(1, 1) end end";
    let mut harness = harness(text, 2);
    for _ in 0..3 {
        assert_eq!(harness.run(0, &[[0; 60]]).counts(), BTreeMap::from([("way[1]", 1)]));
    }
}

/// More than one poll hands over, and after a script that failed too often.
#[test]
fn whatever_happens_to_the_script_nothing_that_is_held_is_lost() {
    let text = "local n = 0 function run(b) for i = 1, b:count() do if not b:waited(i) then b:hold(i, 1e6) else n = n + 1 end end\n\
        if n > 64 then error('enough') end end";
    let mut harness = harness(text, 2000);
    for _ in 0..20 {
        assert_eq!(harness.run(0, &vec![[0; 60]; BATCH]).counts(), BTreeMap::new());
    }
    assert_eq!(harness.stage.held(), 1280);
    let outcome = harness.poll(1_000_000);
    assert_eq!(outcome.counts(), BTreeMap::from([("out", 64), ("lua-error", 192), ("lua-disabled", 768)]));
    assert_eq!((outcome.next_poll, harness.stage.held()), (Some(1_000_000), 256));
    assert_eq!(harness.poll(1_000_000).counts(), BTreeMap::from([("lua-disabled", 256)]));
}

#[test]
fn wrong_calls_say_what_is_wrong() {
    let cases = [
        ("b:emit(1, 5)", "the bytes: expected a string, not number"),
        ("b:emit(2, '')", "there is no packet 2: the batch has 1 to 1"),
        ("b:emit(1, '', 2)", "there is no way 2: the stage has 2, counted from 0"),
        ("b:emit(1, ('x'):rep(9217))", "a packet has at most 9216 bytes, not 9217"),
        ("b:copy(0)", "there is no packet 0: the batch has 1 to 1"),
        ("b:copy(1, -1)", "there is no way -1: the stage has 2, counted from 0"),
        ("b:copy(1, 'x')", "the way: expected a number, not string"),
        ("b:hold(2, 1e6)", "there is no packet 2: the batch has 1 to 1"),
        ("b:hold(1, 999)", "a packet is held for 1000 to 3600000000000 nanoseconds, not 999"),
        ("b:hold(1, 3601e9)", "a packet is held for 1000 to 3600000000000 nanoseconds, not 3601000000000"),
        ("b:hold(1, 0 / 0)", "a packet is held for 1000 to 3600000000000 nanoseconds, not nan"),
        ("b:hold(1, '1e6')", "the time: expected a number, not string"),
        ("b:waited(2)", "there is no packet 2: the batch has 1 to 1"),
    ];
    for (call, said) in cases {
        let mut harness = harness(&format!("function run(b)\n{call}\nend"), 1);
        harness.run(0, &[[0; 60]]);
        let last = harness.stage.failures().last().unwrap().to_string();
        assert_eq!(last.replace("-nan", "nan"), format!("try.lua:2: {said}"), "{call}");
    }
    let mut harness = harness("function run(b)\nb:hold(1, 1e6)\nend", 0);
    harness.run(0, &[[0; 60]]);
    let said = "try.lua:2: no packets are held: say how many may be, max_held = 1000 in the configuration";
    assert_eq!(harness.stage.failures().last().unwrap().to_string(), said);
}

/// A call of a random program. Packets, offsets and so on may be none that there are: then the call fails.
#[derive(Clone, Debug)]
enum Call {
    SetByte(usize, usize, u16),
    SetBytes(usize, usize, Vec<u8>),
    Read(usize, usize, usize),
    Key6(usize, usize),
    Hash,
    Sum(usize, usize, usize),
    Length(usize, usize),
    Drop(usize),
    Way(usize, u8),
    Emit(usize, Vec<u8>, Option<u8>),
    Copy(usize, Option<u8>),
    Hold(usize, u64),
}

fn call() -> impl Strategy<Value = Call> {
    let packet = || prop_oneof![30 => 1..4_usize, 1 => 0..70_usize];
    let offset = || prop_oneof![20 => 0..20_usize, 1 => 0..100_usize];
    let way = || prop_oneof![30 => 0..WAYS, 1 => 0..5_u8];
    let bytes = || prop::collection::vec(any::<u8>(), 0..30);
    let span = prop_oneof![30 => 1000..3_000_000_u64, 1 => 0..2000_u64];
    prop_oneof![
        (packet(), offset(), 0..258_u16).prop_map(|(i, offset, value)| Call::SetByte(i, offset, value)),
        (packet(), offset(), bytes()).prop_map(|(i, offset, bytes)| Call::SetBytes(i, offset, bytes)),
        (packet(), offset(), prop_oneof![Just(1), Just(2), Just(4)])
            .prop_map(|(i, offset, size)| Call::Read(i, offset, size)),
        (packet(), offset()).prop_map(|(i, offset)| Call::Key6(i, offset)),
        Just(Call::Hash),
        (packet(), offset(), offset()).prop_map(|(i, offset, size)| Call::Sum(i, offset, size)),
        (packet(), prop_oneof![10 => 40..300_usize, 1 => 0..10_000_usize])
            .prop_map(|(i, length)| Call::Length(i, length)),
        packet().prop_map(Call::Drop),
        (packet(), way()).prop_map(|(i, way)| Call::Way(i, way)),
        (packet(), bytes(), prop::option::of(way())).prop_map(|(i, bytes, way)| Call::Emit(i, bytes, way)),
        (packet(), prop::option::of(way())).prop_map(|(i, way)| Call::Copy(i, way)),
        (packet(), span).prop_map(|(i, span)| Call::Hold(i, span)),
    ]
}

impl Call {
    fn in_lua(&self) -> String {
        let string = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\{byte:03}")).collect::<String>();
        let last = |way: &Option<u8>| way.map_or("nil".to_owned(), |way| way.to_string());
        match self {
            Call::SetByte(i, offset, value) => format!("b:set_u8({i}, {offset}, {value})"),
            Call::SetBytes(i, offset, bytes) => format!("b:set_bytes({i}, {offset}, '{}')", string(bytes)),
            Call::Read(i, offset, size) => format!("b:u{}({i}, {offset})", size * 8),
            Call::Key6(i, offset) => format!("b:key6({i}, {offset})"),
            Call::Hash => "b:hash()".to_owned(),
            Call::Sum(i, offset, size) => format!("b:sum({i}, {offset}, {size})"),
            Call::Length(i, length) => format!("b:set_length({i}, {length})"),
            Call::Drop(i) => format!("b:drop({i})"),
            Call::Way(i, way) => format!("b:way({i}, {way})"),
            Call::Emit(i, bytes, way) => format!("b:emit({i}, '{}', {})", string(bytes), last(way)),
            Call::Copy(i, way) => format!("b:copy({i}, {})", last(way)),
            Call::Hold(i, span) => format!("b:hold({i}, {span})"),
        }
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Out,
    Drop,
    Way(u8),
    Hold(u64),
}

impl Answer {
    fn name(self) -> String {
        match self {
            Answer::Drop => "lua-drop".to_owned(),
            Answer::Way(n) => format!("way[{n}]"),
            Answer::Out | Answer::Hold(_) => "out".to_owned(),
        }
    }
}

/// The stage by its definition.
struct Twin {
    program: Vec<Call>,
    most: usize,
    errors: u64,
    /// When it is due, the how-manieth it is, and its bytes.
    held: Vec<(u64, u64, Vec<u8>)>,
    given: u64,
}

/// Their bytes, and what becomes of them.
type Packets = Vec<(Vec<u8>, Answer)>;

type Ways = BTreeMap<String, Vec<Vec<u8>>>;

impl Twin {
    /// What a program makes of packets and what new ones it makes; nothing if it fails.
    fn call(&self, packets: &[Vec<u8>]) -> Option<(Packets, Packets)> {
        let mut all: Packets = packets.iter().map(|bytes| (bytes.clone(), Answer::Out)).collect();
        let (mut made, mut places) = (Vec::new(), self.most - self.held.len());
        let way = |way: &Option<u8>| match way {
            None => Some(Answer::Out),
            Some(n) => (*n < WAYS).then_some(Answer::Way(*n)),
        };
        for call in &self.program {
            let i = match call {
                Call::Hash => continue,
                Call::SetByte(i, ..)
                | Call::SetBytes(i, ..)
                | Call::Read(i, ..)
                | Call::Key6(i, _)
                | Call::Sum(i, ..) => i,
                Call::Length(i, _)
                | Call::Drop(i)
                | Call::Way(i, _)
                | Call::Emit(i, ..)
                | Call::Copy(i, _)
                | Call::Hold(i, _) => i,
            };
            let (bytes, answer) = all.get_mut(i.checked_sub(1)?)?;
            let within = |offset: usize, size: usize| (offset + size <= bytes.len()).then_some(());
            match call {
                Call::Hash => {}
                Call::SetByte(_, offset, value) => {
                    within(*offset, 1)?;
                    bytes[*offset] = u8::try_from(*value).ok()?;
                }
                Call::SetBytes(_, offset, new) => {
                    within(*offset, new.len())?;
                    bytes[*offset..offset + new.len()].copy_from_slice(new);
                }
                Call::Read(_, offset, size) | Call::Sum(_, offset, size) => within(*offset, *size)?,
                Call::Key6(_, offset) => within(*offset, 16)?,
                Call::Length(_, length) if *length <= 9216 => bytes.resize(*length, 0),
                Call::Length(..) => return None,
                Call::Drop(_) => *answer = Answer::Drop,
                Call::Way(_, n) => *answer = way(&Some(*n))?,
                Call::Emit(_, new, to) => made.push((new.clone(), way(to)?)),
                Call::Copy(_, to) => made.push((bytes.clone(), way(to)?)),
                Call::Hold(_, span) if *span >= 1000 => {
                    let again = matches!(answer, Answer::Hold(_));
                    if again || places > 0 {
                        *answer = Answer::Hold(*span);
                        places -= usize::from(!again);
                    }
                }
                Call::Hold(..) => return None,
            }
        }
        Some((all, made))
    }

    /// A batch; `back`: of packets that were held. Which ways packets take, and how many were made.
    fn batch(&mut self, now: u64, packets: &[Vec<u8>], ways: &mut Ways, back: bool) -> u64 {
        let reason = if self.errors >= 3 { Some("lua-disabled") } else { None };
        let called = if reason.is_some() { None } else { self.call(packets) };
        let Some((all, made)) = called else {
            self.errors += u64::from(reason.is_none());
            let name = reason.unwrap_or("lua-error");
            ways.entry(name.to_owned()).or_default().extend(packets.iter().cloned());
            return 0;
        };
        let count = made.len() as u64;
        let (straight, sent): (Vec<_>, Vec<_>) =
            if back { (vec![], made.into_iter().chain(all.clone()).collect()) } else { (all.clone(), made) };
        let gone = straight.into_iter().chain(sent).filter(|(_, answer)| !matches!(answer, Answer::Hold(_)));
        gone.for_each(|(bytes, answer)| ways.entry(answer.name()).or_default().push(bytes));
        for (bytes, answer) in all {
            if let Answer::Hold(span) = answer {
                self.given += 1;
                self.held.push((now + span, self.given, bytes));
            }
        }
        count
    }

    fn next(&self) -> u64 {
        self.held.iter().map(|(due, ..)| *due).min().unwrap_or(u64::MAX)
    }

    fn poll(&mut self, now: u64, ways: &mut Ways) -> u64 {
        let mut made = 0;
        for _ in 0..16 {
            self.held.sort();
            let due = self.held.iter().take_while(|(due, ..)| *due <= now).count().min(BATCH);
            if due == 0 {
                break;
            }
            let packets: Vec<Vec<u8>> = self.held.drain(..due).map(|(.., bytes)| bytes).collect();
            made += self.batch(now, &packets, ways, true);
        }
        made
    }
}

/// Of what a script failed on nothing is promised but its length: it is dropped.
fn seen(mut ways: Ways) -> Ways {
    ways.get_mut("lua-error").into_iter().flatten().for_each(|bytes| bytes.fill(0));
    ways
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Any program on any packets does what the definition says, to the byte, and the account is exact after every call.
    #[test]
    fn random_programs_do_what_their_twin_does(
        program in prop::collection::vec(call(), 1..12),
        most in 1..150_u32,
        events in prop::collection::vec((prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..64), 0..2_000_000_u64), 1..8),
    ) {
        let body: Vec<String> = program.iter().map(Call::in_lua).collect();
        let text = format!("function run(b)\n{}\nend", body.join("\n"));
        let mut harness = Harness::small(stage(&text, most), 400);
        let mut twin = Twin { program, most: most as usize, errors: 0, held: vec![], given: 0 };
        let mut now = 0;
        for (packets, pause) in events {
            // As the engine does: no batch is empty.
            if !packets.is_empty() {
                let mut ways = Ways::new();
                let made = twin.batch(now, &packets, &mut ways, false);
                let outcome = harness.run(now, &packets);
                prop_assert_eq!(outcome.entered, packets.len() as u64);
                prop_assert_eq!(outcome.created.values().sum::<u64>(), made);
                prop_assert_eq!(seen(outcome.ways), seen(ways), "{}", text);
                prop_assert_eq!(harness.stage.held(), twin.held.len() as u64);
            }
            now += pause;
            let mut ways = Ways::new();
            let made = twin.poll(now, &mut ways);
            let outcome = harness.poll(now);
            prop_assert_eq!(outcome.created.values().sum::<u64>(), made);
            prop_assert_eq!(outcome.next_poll, Some(twin.next()));
            prop_assert_eq!(seen(outcome.ways), seen(ways), "{}", text);
            prop_assert_eq!(harness.stage.held(), twin.held.len() as u64);
        }
        let mut left = twin.held;
        left.sort_by_key(|(_, given, _)| *given);
        prop_assert_eq!(harness.clear(), left.into_iter().map(|(.., bytes)| bytes).collect::<Vec<_>>());
        prop_assert_eq!(harness.stage.failures().unmade(), 0);
    }
}

/// What is around a packet in its buffer, marked.
fn mark(packet: &mut Packet) {
    let (length, room, before) = (packet.len(), packet.room(), packet.headroom());
    assert!(packet.set_written_len(room));
    packet.bytes_mut()[length..].fill(0xa5);
    assert!(packet.set_written_len(length) && packet.prepend(before));
    packet.bytes_mut()[..before].fill(0x5a);
    assert!(packet.trim_front(before));
}

/// Whether all of it is as it was.
fn is_marked(packet: &mut Packet) -> bool {
    let (length, room, before) = (packet.len(), packet.room(), packet.headroom());
    let behind = packet.set_written_len(room) && packet.bytes()[length..].iter().all(|byte| *byte == 0xa5);
    let before = packet.prepend(before) && packet.bytes()[..before].iter().all(|byte| *byte == 0x5a);
    packet.set_written_len(length);
    behind && before && room > 0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever a program does short of lengthening them, the buffers of packets are as they were around the packets.
    #[test]
    fn nothing_but_packets_is_touched(
        program in prop::collection::vec(call().prop_filter("as long as before", |call| !matches!(call, Call::Length(..))), 1..12),
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 1..8),
    ) {
        let body: Vec<String> = program.iter().map(Call::in_lua).collect();
        // Again and again, so that it is compiled; with `pcall` gone, what fails ends the batch.
        let text = format!("function run(b) for n = 1, 100 do\n{}\nend end", body.join("\n"));
        let mut stage = stage(&text, 8);
        let (mut pool, domain, mut store) = (HeapPool::new(200, weir_packet::MAX_FRAME), Domain::new(), OutStore::new());
        let reader = domain.reader().unwrap();
        let mut batch = Batch::new();
        for bytes in &packets {
            let mut packet = pool.alloc().unwrap();
            prop_assert!(packet.fill(bytes));
            mark(&mut packet);
            prop_assert!(batch.push(packet).is_ok());
        }
        let ways = stage.declare().ways.len();
        let mut out = Out::new(0, ways, &mut store, &mut pool, &reader, &[]);
        stage.run(&mut batch, &mut out);
        let mut left: Vec<Packet> = batch.slots().filter_map(|slot| batch.take(slot)).collect();
        stage.clear(&mut |held| left.push(held.into_packet()));
        let marked: Vec<bool> = left.iter_mut().map(is_marked).collect();
        prop_assert_eq!(marked, vec![true; packets.len()], "{}", text);
        left.into_iter().chain(store.sent().drain(..).map(|sent| sent.packet.into_packet())).for_each(|packet| pool.free(packet));
        prop_assert_eq!(pool.taken(), pool.at_hand());
    }
}
