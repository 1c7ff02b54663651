//! Scripts of stages, and the packets that they are run on.

use weir_lua::{Access, LuaStage};
use weir_stage::harness::{Harness, Outcome};
use weir_stage::{Fate, Stage};

use super::{Target, text_and_rest};

pub(super) const TARGET: Target = Target {
    name: "stage",
    help: "what a script does with a batch, a zero byte, and packets: each its length in a byte, and its bytes",
    run,
    tokens: &[
        b" b:u8(1, 0) ",
        b" b:u16(2, 12) ",
        b" b:u32(1, 57) ",
        b" b:set_u8(1, 0, 255) ",
        b" b:set_u16(i, 2, 65535) ",
        b" b:set_u32(1, n, 4294967295) ",
        b" b:bytes(1, 0, 8) ",
        b" b:set_bytes(1, 3, 'abc') ",
        b" b:set_bytes(i, n, b:bytes(1, 0, b:length(1))) ",
        b" b:sum(1, 0, 20) ",
        b" b:replace_u16(1, 0, 7, 2) ",
        b" b:key(1, b:u32(1, 0)) ",
        b" b:key6(1, 8) ",
        b" b:hash() ",
        b" b:hash(7) ",
        b" n = b:found(1) or 5 ",
        b" b:set_length(i, n) ",
        b" b:set_length(1, 9216) ",
        b" b:drop(1) ",
        b" b:way(i, 1) ",
        b" b:copy(i) ",
        b" b:copy(1, 0) ",
        b" b:emit(i, 'xyz', 1) ",
        b" b:emit(1, ('x'):rep(n)) ",
        b" b:hold(i, 1e6) ",
        b" if not b:waited(1) then b:hold(1, 2000) end ",
        b" for i = 1, b:count() do ",
        b" for n = 0, 200 do ",
        b" while n < 9 do n = n + 1 ",
        b" end ",
        b" n = n + 1 ",
        b" n = 0 / 0 ",
        b" n = -1 ",
        b" n = 1 / 0 ",
        b" n = 0x7fffffffULL ",
        b" n = '1' ",
        b" i = 2 ",
        b" error('x') ",
    ],
    text: true,
    inputs: 4_000,
    deep: 20,
};

/// As many as may be held, so that some are refused.
const HELD: u32 = 5;

/// The packets of a batch; those that are cut off are shorter.
fn packets(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (packet, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        packets.push(packet.to_vec());
        bytes = rest;
    }
    packets.truncate(64);
    packets
}

fn run(input: &[u8]) -> bool {
    let (text, rest) = text_and_rest(input);
    let (Some(text), packets) = (text, packets(rest)) else { return false };
    let text = format!("local i, n = 1, 0 function run(b) {text}\nend");
    let Ok(stage) = LuaStage::with_held("fuzz", &text, Access::Checked, 2, HELD) else { return false };
    // What is neither held nor sent is missed when the harness goes.
    let (mut harness, mut account) = (Harness::small(stage, 300), Account::default());
    for turn in 0..4 {
        let now = turn * 1_000_000;
        if !packets.is_empty() {
            let outcome = harness.run(now, &packets);
            account.add(&harness.stage, &outcome);
        }
        let outcome = harness.poll(now);
        account.add(&harness.stage, &outcome);
    }
    let held = harness.stage.held();
    assert_eq!(harness.clear().len() as u64, held, "what is held is given up");
    true
}

/// What came, what was made, and what has left.
#[derive(Default)]
struct Account {
    came: u64,
    left: u64,
}

impl Account {
    fn add(&mut self, stage: &LuaStage, outcome: &Outcome) {
        let declared = stage.declare();
        self.came += outcome.entered + outcome.created.values().sum::<u64>();
        for (way, packets) in &outcome.ways {
            let fate = declared.code_of(way).map(|code| declared.fate_of(code));
            assert!(matches!(fate, Some(Fate::Way | Fate::Drop)), "{way} is no way out");
            self.left += packets.len() as u64;
        }
        let held = stage.held();
        assert!(held <= u64::from(HELD), "{held} are held");
        assert_eq!(self.came, self.left + held, "what came and was made has left or is held");
    }
}
