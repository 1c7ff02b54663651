//! Scripts that LuaJIT compiles: they reach the bytes of their packets and no others, and they are stopped.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use weir_lua::{Access, LuaStage};
use weir_stage::harness::Harness;

fn harness(text: &str) -> Harness<LuaStage> {
    Harness::new(LuaStage::new("try.lua", text, Access::Checked, 2).unwrap())
}

/// Loops that were compiled while they ended, and then do not.
#[test]
fn a_compiled_loop_that_never_ends_is_stopped() {
    let loops = [
        // Of numbers, of what accessors read, of calls, of tables.
        "local n = 0 while n < stop do n = n + 1 end",
        "local n = 0 while n < stop do n = n + 1 + b:u8(1, 1) b:set_u8(1, 2, 7) end",
        "local function turn(n) if n < stop then return turn(n + 1) end end turn(0)",
        "local t = { 1 } local n = 0 while n < stop do for _, one in ipairs(t) do n = n + one end end",
        "local n = 0 repeat n = n + #(b:bytes(1, 0, 4)) until n >= stop",
    ];
    for body in loops {
        let text = format!("function run(b)\nlocal stop = b:u8(1, 0) == 1 and 1 / 0 or 1000\n{body}\nend");
        let mut harness = harness(&text);
        let (ends, never) = ([[0_u8; 60]], [[1_u8; 60]]);
        for _ in 0..2 {
            for _ in 0..100 {
                assert_eq!(harness.run(0, &ends).counts(), BTreeMap::from([("out", 1)]), "{body}");
            }
            assert_eq!(harness.run(0, &never).counts(), BTreeMap::from([("lua-error", 1)]), "{body}");
            let said = harness.stage.failures().last().unwrap().to_string();
            assert_eq!(said, "try.lua:3: is still running; look for an endless loop", "{body}");
        }
    }
}

/// How it is written in Lua, and the number that it is, if it is one.
type Word = (&'static str, Option<f64>);

/// Numbers near all bounds, and what is none: also what compares as it likes.
const WORDS: [Word; 33] = [
    ("0", Some(0.0)),
    ("1", Some(1.0)),
    ("2", Some(2.0)),
    ("3", Some(3.0)),
    ("4", Some(4.0)),
    ("1.5", Some(1.5)),
    ("3.999", Some(3.999)),
    ("-0.5", Some(-0.5)),
    ("-1", Some(-1.0)),
    ("19", Some(19.0)),
    ("19.5", Some(19.5)),
    ("20", Some(20.0)),
    ("18", Some(18.0)),
    ("17", Some(17.0)),
    ("16", Some(16.0)),
    ("255", Some(255.0)),
    ("256", Some(256.0)),
    ("65535", Some(65_535.0)),
    ("65536", Some(65_536.0)),
    ("2147483647", Some(2_147_483_647.0)),
    ("2147483648", Some(2_147_483_648.0)),
    ("4294967295", Some(4_294_967_295.0)),
    ("4294967296", Some(4_294_967_296.0)),
    ("4294967297", Some(4_294_967_297.0)),
    ("2^53", Some(9_007_199_254_740_992.0)),
    ("1 / 0", Some(f64::INFINITY)),
    ("-1 / 0", Some(f64::NEG_INFINITY)),
    ("0 / 0", Some(f64::NAN)),
    ("'1'", None),
    ("-1LL", None),
    ("0xffffffffffffffffULL", None),
    // Below what is negative, as such numbers compare.
    ("0x8000000000000000ULL", None),
    (
        "setmetatable({}, { __le = function() return true end, __lt = function() return true end, \
         __add = function() return 0 end, __sub = function() return 0 end, __index = function() return 0 end })",
        None,
    ),
];

const PACKETS: [[u8; 20]; 3] = [[1; 20], [2; 20], [9; 20]];

/// A call that reaches the bytes of a packet.
#[derive(Clone, Copy, Debug)]
enum Call {
    /// Of a number of so many bytes; what was read goes to the third packet.
    Read(usize),
    Write(usize),
    /// Of as many bytes as the third word says; they go to the third packet, too.
    Bytes,
    /// Of as many bytes as the third word says; it goes to the third packet.
    Sum,
    /// Of two bytes, which the second packet has already, with the checksum at the third word.
    Replace,
    /// Of an address, which is read where it stands.
    Key6,
    /// Of two bytes.
    SetBytes,
    /// To the second word.
    SetLength,
}

const CALLS: [Call; 12] = [
    Call::Read(1),
    Call::Read(2),
    Call::Read(4),
    Call::Write(1),
    Call::Write(2),
    Call::Write(4),
    Call::Bytes,
    Call::Sum,
    Call::Replace,
    Call::Key6,
    Call::SetBytes,
    Call::SetLength,
];

impl Call {
    fn in_lua(self) -> String {
        match self {
            Call::Read(size) => format!("x = b:u{}(i, offset)", size * 8),
            Call::Write(size) => format!("b:set_u{}(i, offset, value)", size * 8),
            Call::Bytes => "x = b:bytes(i, offset, value)".to_owned(),
            Call::Sum => "x = b:sum(i, offset, value)".to_owned(),
            Call::Replace => "b:replace_u16(i, offset, 0x0202, value)".to_owned(),
            Call::Key6 => "b:key6(i, offset)".to_owned(),
            Call::SetBytes => "b:set_bytes(i, offset, '\\5\\6')".to_owned(),
            Call::SetLength => "b:set_length(i, offset)".to_owned(),
        }
    }

    /// What it comes to by the definition in the manual: the packets after it; nothing if it is an error.
    fn by_definition(self, words: [Word; 3]) -> Option<Vec<Vec<u8>>> {
        let [packet, offset, value] = words.map(|(_, number)| number);
        let mut packets = PACKETS.map(|packet| packet.to_vec()).to_vec();
        let (packet, offset) = (packet?, offset?);
        let size = match self {
            Call::Read(size) | Call::Write(size) => size as f64,
            Call::Bytes | Call::Sum => value.filter(|value| *value >= 0.0)?.floor(),
            Call::SetBytes | Call::Replace => 2.0,
            Call::Key6 => 16.0,
            Call::SetLength => 0.0,
        };
        let most = if matches!(self, Call::SetLength) { 9216.0 } else { 20.0 - size };
        let within = (1.0..4.0).contains(&packet) && (0.0..=most).contains(&offset);
        if !within {
            return None;
        }
        let (packet, offset, size) = (packet as usize - 1, offset as usize, size as usize);
        if matches!(self, Call::SetLength) {
            packets[packet].resize(offset, 0);
            return Some(packets);
        }
        let range = offset..offset + size;
        match self {
            Call::Write(_) => {
                let value = value.filter(|value| *value >= 0.0 && *value < 256_f64.powi(size as i32))?;
                packets[packet][range].copy_from_slice(&(value as u64).to_be_bytes()[8 - size..]);
            }
            Call::SetBytes => packets[packet][range].copy_from_slice(&[5, 6]),
            Call::Replace => {
                let checksum = value.filter(|value| (0.0..=18.0).contains(value))? as usize;
                let word = |at: usize| u16::from_be_bytes([packets[packet][at], packets[packet][at + 1]]);
                // RFC 1624, equation 3.
                let changed = !added([!word(checksum), !word(offset), 0x0202]);
                packets[packet][range].fill(2);
                packets[packet][checksum..checksum + 2].copy_from_slice(&changed.to_be_bytes());
            }
            Call::Sum => {
                let words = packets[packet][range].chunks(2);
                let sum = added(words.map(|two| u16::from_be_bytes([two[0], *two.get(1).unwrap_or(&0)])));
                packets[2][..4].copy_from_slice(&u32::from(sum).to_be_bytes());
            }
            Call::Key6 => {}
            Call::Bytes => {
                let bytes = packets[packet][range].to_vec();
                packets[2][..size].copy_from_slice(&bytes);
            }
            _ => {
                let read = packets[packet][range].iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
                packets[2][..4].copy_from_slice(&read.to_be_bytes());
            }
        }
        Some(packets)
    }
}

/// The sum of RFC 1071: a carry comes back in at the other end.
fn added(words: impl IntoIterator<Item = u16>) -> u16 {
    words.into_iter().fold(0, |sum: u16, word| {
        let (sum, carry) = sum.overflowing_add(word);
        sum + u16::from(carry)
    })
}

/// Every call with words of all kinds: in a loop that was compiled with good ones.
#[test]
fn accessors_reach_what_the_definition_lets_them() {
    // Halves are not written: they may be rounded either way.
    let whole = |(_, number): &Word| number.is_none_or(|number| number.fract() == 0.0 || !number.is_finite());
    // The first six are good in most places.
    let word = || prop_oneof![0..6_usize, 0..WORDS.len()];
    let all = (0..CALLS.len(), word(), word(), word());
    let config = ProptestConfig { cases: 1100, ..ProptestConfig::default() };
    let (mut taken, mut refused) = ([0; CALLS.len()], [0; CALLS.len()]);
    let tried = std::cell::RefCell::new((&mut taken, &mut refused));
    TestRunner::new(config)
        .run(&all, |(number, packet, offset, value)| {
            let (call, words) = (CALLS[number], [packet, offset, value].map(|n| WORDS[n]));
            prop_assume!(!matches!(call, Call::Write(_)) || whole(&words[2]));
            let [packet, offset, value] = words.map(|(written, _)| written);
            // The turns before it leave all as it is.
            let good = match call {
                Call::Read(_) => "1, 0, 0",
                Call::Write(size) => ["", "1, 0, 1", "1, 0, 257", "", "1, 0, 16843009"][size],
                Call::Bytes | Call::Sum | Call::Key6 => "1, 0, 3",
                Call::Replace => "2, 0, 4",
                Call::SetBytes => "2, 0, 0",
                Call::SetLength => "1, 20, 0",
            };
            // These write what is written again, or was not there.
            let undone = if matches!(call, Call::SetBytes) { "b:set_bytes(2, 0, '\\2\\2')" } else { "" };
            let text = format!(
                "local bad = {{ {packet}, {offset}, {value} }}\nfunction run(b)\nlocal x\nfor n = 1, 120 do\n\
                 local i, offset, value = {good}\n\
                 if n > 119 then {undone} i, offset, value = bad[1], bad[2], bad[3] end\n{}\nend\n\
                 if type(x) == 'string' then b:set_bytes(3, 0, x) elseif x then b:set_u32(3, 0, x) end\nend",
                call.in_lua()
            );
            let mut harness = harness(&text);
            let outcome = harness.run(0, &PACKETS);
            match call.by_definition(words) {
                Some(packets) => {
                    tried.borrow_mut().0[number] += 1;
                    prop_assert_eq!(outcome.way("out"), packets, "{}", text);
                }
                None => {
                    tried.borrow_mut().1[number] += 1;
                    prop_assert_eq!(outcome.counts(), BTreeMap::from([("lua-error", 3)]), "{}", text);
                }
            }
            Ok(())
        })
        .unwrap();
    let least = |counts: [u32; CALLS.len()]| counts.into_iter().min();
    assert!(least(taken) > Some(3) && least(refused) > Some(10), "{taken:?} calls were good, {refused:?} were not");
}

/// What is no number, in place of each argument that has to be one; the others are good, but that more bytes are asked for than there are, which
/// is below zero where bounds are reckoned.
#[test]
fn what_is_no_number_is_no_argument() {
    for (word, _) in WORDS.into_iter().filter(|(_, number)| number.is_none()) {
        let arguments = [format!("{word}, 0, 30"), format!("1, {word}, 30"), format!("1, 0, {word}")];
        for (place, arguments) in arguments.into_iter().enumerate() {
            for call in CALLS {
                let takes = match call {
                    Call::Write(_) | Call::Bytes | Call::Sum | Call::Replace => 3,
                    Call::Read(_) | Call::SetBytes | Call::SetLength | Call::Key6 => 2,
                };
                if place >= takes {
                    continue;
                }
                let text =
                    format!("function run(b) local x local i, offset, value = {arguments}\n{}\nend", call.in_lua());
                let mut harness = harness(&text);
                assert_eq!(harness.run(0, &PACKETS).counts(), BTreeMap::from([("lua-error", 3)]), "{text}");
                let said = harness.stage.failures().last().unwrap().to_string();
                assert!(said.starts_with("try.lua:2: ") && said.contains("expected a number, not "), "{said}");
            }
        }
    }
}

/// Nothing that a script is handed, or can make, is or leads to an address.
#[test]
fn a_script_gets_no_address() {
    let text = "function run(b)\n\
                for name, value in pairs(b) do assert(type(value) == 'function', name) end\n\
                for _, name in ipairs { 'count', 'now', 'length', 'port', 'time', 'u8', 'u16', 'u32' } do\n\
                assert(type(b[name](b, 1, 0)) == 'number', name) end\n\
                assert(type(b:bytes(1, 0, 4)) == 'string')\n\
                assert(getmetatable(1LL) == 'ffi')\n\
                for _, name in ipairs { 'ffi', 'jit', 'debug', 'package', 'require', 'load', 'getfenv', 'newproxy' } do\n\
                assert(_G[name] == nil, name) end end";
    let mut harness = harness(text);
    let outcome = harness.run(0, &PACKETS);
    assert_eq!(outcome.counts(), BTreeMap::from([("out", 3)]), "{:?}", harness.stage.failures().last());
}
