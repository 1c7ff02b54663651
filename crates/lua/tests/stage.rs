//! Stages written in Lua: packets in, packets per way out.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_lua::stage::ERRORS_ALLOWED;
use weir_lua::{Access, LuaStage};
use weir_packet::{MAX_FRAME, Slot, defects};
use weir_stage::harness::{Harness, Outcome};

fn harness(access: Access, text: &str) -> Harness<LuaStage> {
    Harness::new(LuaStage::new("try.lua", text, access, 2).unwrap())
}

fn run(text: &str, packets: &[Vec<u8>]) -> Outcome {
    let mut harness = harness(Access::Checked, text);
    let outcome = harness.run(7, packets);
    assert_eq!(harness.stage.failures().last(), None);
    outcome
}

/// The one packet that went straight on.
fn passed(text: &str, packet: &[u8]) -> Vec<u8> {
    let outcome = run(text, &[packet.to_vec()]);
    assert_eq!(outcome.counts(), BTreeMap::from([("out", 1)]), "{text}");
    outcome.way("out")[0].clone()
}

/// What is said when the script fails on a packet of 60 bytes.
fn failure(text: &str) -> String {
    let mut harness = harness(Access::Checked, text);
    let outcome = harness.run(7, &[vec![0; 60]]);
    assert_eq!(outcome.counts(), BTreeMap::from([("lua-error", 1)]), "{text}");
    harness.stage.failures().last().unwrap().to_string()
}

#[test]
fn packets_leave_by_the_way_that_the_script_says() {
    let script = "function run(batch)\n for i = 1, batch:count() do\n  local first = batch:u8(i, 0)\n\
                  if first == 1 then batch:drop(i) elseif first >= 2 then batch:way(i, first - 2) end\n end\nend";
    let packets: Vec<Vec<u8>> = [0, 1, 2, 3, 0, 1].iter().map(|first| vec![*first; 60]).collect();
    let outcome = run(script, &packets);
    assert_eq!(outcome.counts(), BTreeMap::from([("out", 2), ("lua-drop", 2), ("way[0]", 1), ("way[1]", 1)]));
    assert_eq!(outcome.way("way[1]"), [vec![3; 60]]);
}

#[test]
fn accessors_read_and_write_in_network_order() {
    let packet: Vec<u8> = (1..=60).collect();
    let wrap = |body: &str| format!("function run(b)\n {body}\nend");
    assert_eq!(passed(&wrap("b:set_u16(1, 0, b:u16(1, 2)) b:set_u8(1, 59, b:u8(1, 0))"), &packet)[..2], [3, 4]);
    let changed = passed(&wrap("b:set_u32(1, 56, b:u32(1, 0) + 1)"), &packet);
    assert_eq!(changed[56..], [1, 2, 3, 5]);
    let changed = passed(&wrap("b:set_bytes(1, 0, b:bytes(1, 6, 6) .. b:bytes(1, 0, 6))"), &packet);
    assert_eq!(changed[..12], [7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6]);
    assert_eq!(passed(&wrap("b:set_length(1, b:length(1) - 50)"), &packet), packet[..10]);
    let longer = passed(&wrap("b:set_length(1, 62) b:set_u8(1, 61, 9)"), &packet);
    assert_eq!(longer, [packet.as_slice(), &[0, 9]].concat());
    let stale = passed(&wrap("b:set_length(1, 30) b:set_length(1, 60)"), &packet);
    assert_eq!(stale, [&packet[..30], &[0; 30]].concat(), "what was cut off does not come back");
    assert_eq!(passed(&wrap(&format!("b:set_length(1, {MAX_FRAME})")), &packet).len(), MAX_FRAME);
    let seen = passed(&wrap("b:set_u8(1, 0, b:now()) b:set_u8(1, 1, b:time(1)) b:set_u8(1, 2, b:port(1))"), &packet);
    assert_eq!(seen[..3], [7, 7, 0]);
}

#[test]
fn the_port_is_told() {
    let mut harness = harness(Access::Checked, "function run(b) b:set_u8(1, 0, b:port(1)) end");
    harness.lanes().port[Slot::new(0)] = 5;
    assert_eq!(harness.run(0, &[[9; 60]]).way("out")[0][0], 5);
}

#[test]
fn state_stays_from_batch_to_batch() {
    let mut harness = harness(Access::Checked, "local n = 0\nfunction run(b) n = n + b:count() b:set_u16(1, 0, n) end");
    for count in [64, 3] {
        harness.run(0, &vec![[0_u8; 60]; count]);
    }
    assert_eq!(harness.run(0, &[[0_u8; 60]]).way("out")[0][..2], [0, 68]);
}

#[test]
fn wrong_calls_fail_with_their_line() {
    let cases = [
        ("b:u8(1, 60)", "try.lua:2: 1 bytes at offset 60 lie outside the packet, which has 60"),
        ("b:u32(1, 57)", "try.lua:2: 4 bytes at offset 57 lie outside the packet, which has 60"),
        ("b:u16(1, 2^53)", "try.lua:2: 2 bytes at offset 9007199254740992 lie outside the packet, which has 60"),
        ("b:bytes(1, 0, 61)", "try.lua:2: 61 bytes at offset 0 lie outside the packet, which has 60"),
        ("b:set_bytes(1, 59, 'ab')", "try.lua:2: 2 bytes at offset 59 lie outside the packet, which has 60"),
        ("b:set_u8(1, 0, 256)", "try.lua:2: 256 does not fit in 1 bytes"),
        ("b:set_u16(1, 0, 65536)", "try.lua:2: 65536 does not fit in 2 bytes"),
        ("b:length(0)", "try.lua:2: there is no packet 0: the batch has 1 to 1"),
        ("b:drop(2)", "try.lua:2: there is no packet 2: the batch has 1 to 1"),
        ("b:way(1, 2)", "try.lua:2: there is no way 2: the stage has 2, counted from 0"),
        ("b:set_length(1, 9217)", "try.lua:2: a packet has at most 9216 bytes, not 9217"),
        ("b:pointer(1)", "try.lua:2: addresses are for scripts that may use ffi"),
        ("b:set_u8(1, 0, 5) error('late')", "try.lua:2: late"),
        ("x = nil + 1", "try.lua:2: attempt to perform arithmetic on a nil value"),
        ("while true do end", "try.lua:2: is still running; look for an endless loop"),
        (
            "local s = ('x'):rep(20) while true do s = s:sub(2) .. 'x' end",
            "try.lua:2: is still running; look for an endless loop",
        ),
    ];
    for (body, line) in cases {
        assert_eq!(failure(&format!("function run(b)\n{body}\nend")), line, "{body}");
    }
    assert!(failure("function run(b) b:u8() end").starts_with("try.lua"), "arguments are missing");
    assert!(failure("function run(b) b:u8(1, -1) end").starts_with("try.lua"), "an offset below 0");
}

#[test]
fn scripts_that_are_no_stage_are_refused() {
    let cases = [
        ("", "try.lua: defines no function run(batch)"),
        ("run = 5", "try.lua: defines no function run(batch)"),
        ("\nrun = = 5", "try.lua:2: unexpected symbol near '='"),
        ("error('no')", "try.lua:1: no"),
        ("while true do end", "try.lua:1: is still running; look for an endless loop"),
    ];
    for (text, line) in cases {
        let errors = LuaStage::new("try.lua", text, Access::Checked, 0).err().unwrap();
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [line]);
    }
}

#[test]
fn a_stage_that_fails_too_often_is_disabled() {
    let mut harness = harness(Access::Checked, "function run(b) if b:u8(1, 0) == 1 then error('bad') end end");
    let failures = harness.stage.failures();
    let (good, bad) = ([[0_u8; 60]; 2], [[1_u8; 60]; 2]);
    for count in 1..=ERRORS_ALLOWED {
        assert_eq!(harness.run(0, &good).counts(), BTreeMap::from([("out", 2)]));
        assert_eq!(harness.run(0, &bad).counts(), BTreeMap::from([("lua-error", 2)]));
        assert_eq!(failures.count(), count);
    }
    assert_eq!(harness.run(0, &good).counts(), BTreeMap::from([("lua-disabled", 2)]));
    assert_eq!(failures.count(), ERRORS_ALLOWED);
}

/// Scripts that want all memory: in a table, in one string, in closures, in what one instruction makes.
#[test]
fn a_script_cannot_use_up_the_memory() {
    // In steps that are large, so that on no machine the time is over before the memory is.
    let cases = [
        "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end",
        "local s = 'x' while true do s = s .. s end",
        "local s = ('x'):rep(1e9)",
        "local f = function() return 1 end while true do local g = f f = function() return g() end end",
        "local t = {} for i = 1, 1e6 do t[i] = b:bytes(1, 0, 60):rep(100) .. i end",
    ];
    for body in cases {
        let said = failure(&format!("function run(b)\n{body}\nend"));
        assert!(said.contains("needs more memory than it may use"), "{body}: {said}");
    }
    let errors =
        LuaStage::new("try.lua", "local s = ('x'):rep(1e9) function run() end", Access::Checked, 0).err().unwrap();
    assert!(errors[0].to_string().contains("needs more memory"), "{}", errors[0]);
}

/// Garbage of a batch that failed does not make the next one fail, and no state of the stage's own is lost.
#[test]
fn after_the_end_of_memory_comes_another_batch() {
    let text = "local n = 0 function run(b) n = n + 1 b:set_u8(1, 1, n)\n\
                if b:u8(1, 0) == 1 then local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end end end";
    let mut harness = harness(Access::Checked, text);
    for count in 0..2 {
        assert_eq!(harness.run(0, &[[0_u8; 60]]).way("out")[0][1], 2 * count + 1);
        assert_eq!(harness.run(0, &[[1_u8; 60]]).counts(), BTreeMap::from([("lua-error", 1)]));
    }
    let outcome = harness.run(0, &[[0_u8; 60]]);
    assert_eq!(outcome.way("out")[0][1], 5, "{:?}", harness.stage.failures().last());
}

#[test]
fn nothing_of_the_host_is_within_reach_unless_asked_for() {
    let text = "function run(b) for _, name in ipairs { 'ffi', 'jit', 'io', 'os', 'load', 'require', 'pcall', 'debug' } do\n\
                assert(_G[name] == nil, name) end end";
    assert_eq!(run(text, &[vec![0; 60]]).counts(), BTreeMap::from([("out", 1)]));
}

#[test]
fn raw_access_reads_and_writes_by_address() {
    let text = "local ffi = require and require 'ffi' or ffi\n\
                function run(b) for i = 1, b:count() do local p = ffi.cast('uint8_t *', b:pointer(i))\n\
                for n = 0, b:length(i) - 1 do p[n] = 255 - p[n] end end end";
    let mut harness = harness(Access::Raw, text);
    for _ in 0..50 {
        let outcome = harness.run(0, &vec![[1_u8; 60]; 64]);
        assert_eq!(outcome.way("out"), vec![vec![254; 60]; 64], "{:?}", harness.stage.failures().last());
    }
}

#[test]
fn no_packet_is_lost() {
    let mut harness = harness(Access::Checked, "function run(b) for i = 1, b:count() do b:set_length(i, 9000) end end");
    assert_eq!(harness.run(0, &vec![[1_u8; 60]; 64]).way("out").len(), 64);
    drop(harness);
    assert_eq!(defects(), 0);
}

const SWAP: &str = "function run(b) for i = 1, b:count() do\n\
    if b:length(i) < 14 then b:drop(i)\n\
    else local to, from = b:bytes(i, 0, 6), b:bytes(i, 6, 6) b:set_bytes(i, 0, from .. to) end end end";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The same function in Lua and in Rust.
    #[test]
    fn lua_and_rust_agree(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..64)) {
        let swapped = packets.iter().filter(|packet| packet.len() >= 14).map(|packet| {
            [&packet[6..12], &packet[..6], &packet[12..]].concat()
        });
        let short = packets.iter().filter(|packet| packet.len() < 14).cloned();
        let outcome = run(SWAP, &packets);
        prop_assert_eq!(outcome.way("out"), swapped.collect::<Vec<_>>());
        prop_assert_eq!(outcome.way("lua-drop"), short.collect::<Vec<_>>());
    }
}
