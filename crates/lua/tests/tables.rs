//! What scripts look up, sum and replace, against definitions.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use proptest::prelude::*;
use weir_lua::tables::{Contents, Tables};
use weir_lua::{Access, LuaStage};
use weir_stage::harness::Harness;
use weir_table::meter::Bucket;
use weir_wire::build::UdpFrame;
use weir_wire::spread::{self, Key};

fn harness(text: &str, tables: &BTreeMap<String, Contents>) -> Harness<LuaStage> {
    let tables = Arc::new(Tables::new(tables).unwrap());
    Harness::new(LuaStage::with_tables("try.lua", text, Access::Checked, 1, &tables).unwrap())
}

fn one(name: &str, contents: Contents) -> BTreeMap<String, Contents> {
    BTreeMap::from([(name.to_owned(), contents)])
}

/// What is found goes into the packet behind its key; 0xffff where nothing is. The last packet of a batch is given no key.
const ASK: &str = "function run(b)\n\
    for i = 1, b:count() - 1 do b:key(i, b:u32(i, 0)) end\n\
    b:look_up('t')\n\
    for i = 1, b:count() do b:set_u32(i, 4, b:found(i) or 0xffffffff) end\nend";

const NOTHING: u32 = u32::MAX;

/// What a batch of packets with these keys finds, all but the last.
fn ask(harness: &mut Harness<LuaStage>, keys: &[u32]) -> Vec<u32> {
    let packet = |key: &u32| [key.to_be_bytes().as_slice(), &[0; 56]].concat();
    let packets: Vec<_> = keys.iter().chain([&7]).map(packet).collect();
    // Again and again, so that it is compiled.
    let mut outcome = harness.run(0, &packets);
    for _ in 0..5 {
        let next = harness.run(0, &packets);
        assert_eq!(next.way("out"), outcome.way("out"));
        outcome = next;
    }
    assert_eq!(harness.stage.failures().last(), None);
    let mut found: Vec<u32> =
        outcome.way("out").iter().map(|packet| u32::from_be_bytes(packet[4..8].try_into().unwrap())).collect();
    assert_eq!(found.pop(), Some(NOTHING), "who has no key finds nothing");
    found
}

fn prefix6() -> impl Strategy<Value = Ipv6Net> {
    (0_u128..4, any::<u16>(), 0..=128_u8).prop_map(|(high, low, length)| {
        Ipv6Net::new(Ipv6Addr::from_bits(high << 126 | u128::from(low)), length).unwrap()
    })
}

fn prefix() -> impl Strategy<Value = Ipv4Net> {
    // Few networks, so that they lie in one another.
    (0_u32..4, any::<u16>(), 0..=32_u8)
        .prop_map(|(high, low, length)| Ipv4Net::new(Ipv4Addr::from_bits(high << 30 | u32::from(low)), length).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn of_prefixes_the_longest_counts(
        prefixes in prop::collection::btree_map(prefix().prop_map(|prefix| prefix.trunc()), 0..=2_147_483_646_u32, 0..60),
        others in prop::collection::vec((0_u32..4, any::<u16>()), 1..30),
    ) {
        let list: Vec<(Ipv4Net, u32)> = prefixes.into_iter().collect();
        let mut addresses: Vec<u32> = list.iter().map(|(prefix, _)| prefix.broadcast().to_bits()).take(30).collect();
        addresses.extend(others.iter().map(|(high, low)| high << 30 | u32::from(*low)));
        let by_definition = addresses.iter().map(|address| {
            let holds = list.iter().filter(|(prefix, _)| prefix.contains(&Ipv4Addr::from_bits(*address)));
            holds.max_by_key(|(prefix, _)| prefix.prefix_len()).map_or(NOTHING, |(_, value)| *value)
        });
        let by_definition: Vec<u32> = by_definition.collect();
        let list = list.into_iter().map(|(prefix, value)| (IpNet::V4(prefix), value)).collect();
        let mut harness = harness(ASK, &one("t", Contents::Prefixes(list)));
        prop_assert_eq!(ask(&mut harness, &addresses), by_definition);
    }

    /// Packets with an address of either family, with both, and with none, ask a table with prefixes of both.
    #[test]
    fn of_both_families_the_longest_counts(
        four in prop::collection::btree_map(prefix().prop_map(|prefix| prefix.trunc()), 0..=2_147_483_646_u32, 0..20),
        six in prop::collection::btree_map(prefix6().prop_map(|prefix| prefix.trunc()), 0..=2_147_483_646_u32, 0..40),
        asked in prop::collection::vec((0..4_u8, prefix().prop_map(|prefix| prefix.addr()), prefix6().prop_map(|prefix| prefix.addr())), 1..64),
    ) {
        let list: Vec<(IpNet, u32)> = four.into_iter().map(|(prefix, value)| (prefix.into(), value))
            .chain(six.into_iter().map(|(prefix, value)| (prefix.into(), value))).collect();
        let by_definition = asked.iter().map(|(keys, four, six)| {
            let address = match keys { 0 => return NOTHING, 1 => IpAddr::V4(*four), _ => IpAddr::V6(*six) };
            let holds = list.iter().filter(|(prefix, _)| prefix.contains(&address));
            holds.max_by_key(|(prefix, _)| prefix.prefix_len()).map_or(NOTHING, |(_, value)| *value)
        });
        let by_definition: Vec<u32> = by_definition.collect();
        let packets: Vec<Vec<u8>> = asked.iter().map(|(keys, four, six)| {
            [[*keys].as_slice(), &four.octets(), &six.octets(), &[0; 39]].concat()
        }).collect();
        let text = "function run(b) for i = 1, b:count() do local keys = b:u8(i, 0)\n\
            if keys % 2 == 1 then b:key(i, b:u32(i, 1)) end if keys >= 2 then b:key6(i, 5) end end b:look_up('t')\n\
            for i = 1, b:count() do b:set_u32(i, 30, b:found(i) or 0xffffffff) end end";
        let mut harness = harness(text, &one("t", Contents::Prefixes(list)));
        for _ in 0..4 {
            let outcome = harness.run(0, &packets);
            prop_assert_eq!(harness.stage.failures().last(), None);
            let found: Vec<u32> = outcome.way("out").iter().map(|packet| u32::from_be_bytes(packet[30..34].try_into().unwrap())).collect();
            prop_assert_eq!(found, by_definition.clone());
        }
    }

    /// Of packets of both families, behind tags or not, cut anywhere, and of others: what everybody else in Weir spreads flows by.
    #[test]
    fn hashes_are_those_that_flows_are_spread_by(
        packets in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), 0..4_u8), 1..64), seed in 0..1_u64 << 53,
    ) {
        let headed = |(mut bytes, kind): (Vec<u8>, u8)| {
            let head: &[u8] = [&[0x08, 0x00, 0x45][..], &[0x86, 0xdd, 0x60], &[0x81, 0, 0, 5, 0x08, 0x00, 0x45], &[]][usize::from(kind)];
            bytes.iter_mut().skip(12).zip(head).for_each(|(to, from)| *to = *from);
            bytes
        };
        let packets: Vec<Vec<u8>> = packets.into_iter().map(headed).map(|bytes| [bytes.as_slice(), &[0; 4]].concat()).collect();
        let by_definition = packets.iter().map(|bytes| {
            let mut window = [0; spread::WINDOW];
            window.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            spread::hash(Key::Flow, &window, bytes.len(), seed).unwrap_or(NOTHING)
        });
        let by_definition: Vec<u32> = by_definition.collect();
        let text = format!("function run(b) b:hash({seed})\n\
            for i = 1, b:count() do b:set_u32(i, b:length(i) - 4, b:found(i) or 0xffffffff) end end");
        let outcome = harness(&text, &BTreeMap::new()).run(0, &packets);
        let found: Vec<u32> = outcome.way("out").iter().map(|packet| u32::from_be_bytes(*packet.last_chunk().unwrap())).collect();
        prop_assert_eq!(found, by_definition);
    }

    #[test]
    fn numbers_are_found_exactly(
        numbers in prop::collection::btree_map(0..400_u32, 0..=2_147_483_646_u32, 0..200),
        asked in prop::collection::vec(0..400_u32, 1..60),
    ) {
        let contents = Contents::Numbers(numbers.iter().map(|(number, value)| (u64::from(*number), *value)).collect());
        let by_definition: Vec<u32> = asked.iter().map(|number| numbers.get(number).copied().unwrap_or(NOTHING)).collect();
        prop_assert_eq!(ask(&mut harness(ASK, &one("t", contents)), &asked), by_definition);
    }

    #[test]
    fn sums_are_those_of_rfc_1071(bytes in prop::collection::vec(any::<u8>(), 1..200), offset in 0..40_usize, header in any::<bool>()) {
        let offset = offset.min(bytes.len() - 1);
        let size = if header && bytes.len() >= offset + 20 { 20 } else { bytes.len() - offset };
        let words = bytes[offset..offset + size].chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0)));
        let by_definition = words.fold(0, |sum, word| { let sum = sum + word; (sum & 0xffff) + (sum >> 16) });
        let text = format!("function run(b) b:set_length(1, 220) b:set_u32(1, 200, b:sum(1, {offset}, {size})) end");
        let mut harness = harness(&text, &BTreeMap::new());
        let outcome = harness.run(0, std::slice::from_ref(&bytes));
        prop_assert_eq!(harness.stage.failures().last(), None);
        prop_assert_eq!(u32::from_be_bytes(outcome.way("out")[0][200..204].try_into().unwrap()), by_definition);
    }

    /// A header whose checksum is right stays so.
    #[test]
    fn a_number_that_is_replaced_takes_its_checksum_along(
        mut words in prop::array::uniform10(any::<u16>()), at in 0..10_usize, value in any::<u16>(),
    ) {
        const SUM: usize = 5;
        let at = if at == SUM { 4 } else { at };
        words[SUM] = 0;
        let sum = |words: &[u16; 10]| words.iter().fold(0_u32, |sum, word| { let sum = sum + u32::from(*word); (sum & 0xffff) + (sum >> 16) });
        words[SUM] = !(sum(&words) as u16);
        let packet: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let text = format!("function run(b) b:replace_u16(1, {}, {value}, {}) end", at * 2, SUM * 2);
        let mut harness = harness(&text, &BTreeMap::new());
        let outcome = harness.run(0, &[packet]);
        prop_assert_eq!(harness.stage.failures().last(), None);
        let out: Vec<u16> = outcome.way("out")[0].chunks(2).map(|two| u16::from_be_bytes([two[0], two[1]])).collect();
        let mut expected = words;
        expected[at] = value;
        expected[SUM] = out[SUM];
        prop_assert_eq!(&out, &expected);
        prop_assert_eq!(sum(&expected), 0xffff);
    }
}

/// Carries that come about only where carries have come back in.
#[test]
fn sums_take_their_last_carries() {
    let mut bytes = [0xff; 21];
    bytes[16..].copy_from_slice(&[3, 0, 1, 0, 0]);
    for size in [20, 21] {
        let mut harness =
            harness(&format!("function run(b) b:set_u32(1, 0, b:sum(1, 0, {size})) end"), &BTreeMap::new());
        assert_eq!(harness.run(0, &[bytes]).way("out")[0][..4], [0, 0, 4, 0], "{size}");
    }
}

#[test]
fn keys_are_cut_off_and_what_is_no_key_finds_nothing() {
    let contents = Contents::Numbers(vec![(0, 10), (3, 13), ((1 << 53) - 1, 99)]);
    let keys = ["3.9", "-0.5", "-1", "0 / 0", "1 / 0", "2^53 - 1", "2^53", "0", "2^63"];
    let expected = [13, NOTHING, NOTHING, NOTHING, NOTHING, 99, NOTHING, 10, NOTHING];
    for (key, expected) in keys.into_iter().zip(expected) {
        let text =
            format!("function run(b) b:key(1, {key}) b:look_up('t') b:set_u32(1, 4, b:found(1) or 0xffffffff) end");
        let mut harness = harness(&text, &one("t", contents.clone()));
        let outcome = harness.run(0, &[[0; 60]]);
        assert_eq!(harness.stage.failures().last(), None, "{key}");
        assert_eq!(u32::from_be_bytes(outcome.way("out")[0][4..8].try_into().unwrap()), expected, "{key}");
    }
}

/// What a batch asked is no business of the next.
#[test]
fn keys_and_what_was_found_are_forgotten_with_their_batch() {
    let text = "local n = 0 function run(b) n = n + 1\n\
        if n == 1 then b:key(1, 5) b:look_up('t') end\n\
        if n == 3 then b:look_up('t') end\n\
        b:set_u32(1, 4, b:found(1) or 0xffffffff) end";
    let mut harness = harness(text, &one("t", Contents::Numbers(vec![(5, 55)])));
    let found: Vec<_> = (0..3).map(|_| harness.run(0, &[[0; 60]]).way("out")[0][4..8].to_vec()).collect();
    assert_eq!(found, [vec![0, 0, 0, 55], vec![255; 4], vec![255; 4]]);
}

/// With no table there is nothing to look up in, but hashes are found.
#[test]
fn hashes_and_addresses_are_forgotten_with_their_batch() {
    let text = "local n = 0 function run(b) n = n + 1\n\
        if n == 1 then b:hash() for i = 1, b:count() do b:key6(i, 0) end end\n\
        for i = 1, b:count() do b:set_u8(i, 40, b:found(i) and 1 or 0) end end";
    let frame = UdpFrame::default().to_vec(&[0; 18]);
    let told =
        |outcome: weir_stage::harness::Outcome| outcome.way("out").iter().map(|bytes| bytes[40]).collect::<Vec<_>>();
    let mut asked = harness(text, &BTreeMap::new());
    assert_eq!(told(asked.run(0, &vec![frame.clone(); 64])), [1; 64]);
    assert_eq!(told(asked.run(0, &vec![frame.clone(); 3])), [0; 3]);
    assert_eq!(told(asked.run(0, &vec![frame; 64])), [0; 64]);

    let text = "local n = 0 function run(b) n = n + 1\n\
        if n == 1 then for i = 1, b:count() do b:key6(i, 0) end end b:look_up('t')\n\
        for i = 1, b:count() do b:set_u8(i, 40, b:found(i) and 1 or 0) end end";
    let everything = Contents::Prefixes(vec![("::/0".parse().unwrap(), 7)]);
    let mut asked = harness(text, &one("t", everything));
    assert_eq!(told(asked.run(0, &[[0; 60]; 64])), [1; 64]);
    assert_eq!(told(asked.run(0, &[[0; 60]; 3])), [0; 3]);
    assert_eq!(told(asked.run(0, &[[0; 60]; 64])), [0; 64]);
}

/// 1000 bytes at once and 100 a second, for each meter apart.
#[test]
fn meters_let_pass_what_keeps_to_their_rate() {
    let usual = Bucket { rate: 800, burst: 1000 };
    let text = "function run(b) for i = 1, b:count() do b:key(i, b:u8(i, 0)) end b:look_up('t')\n\
        for i = 1, b:count() do b:set_u8(i, 1, b:found(i) or 9) end end";
    let mut harness =
        harness(text, &one("t", Contents::Meters { count: 3, usual, own: vec![(2, Bucket { rate: 0, burst: 400 })] }));
    let mut run = |now: u64, of: &[u8]| -> Vec<u8> {
        let packets: Vec<_> = of.iter().map(|meter| vec![*meter; 300]).collect();
        harness.run(now * 1_000_000_000, &packets).way("out").iter().map(|packet| packet[1]).collect()
    };
    assert_eq!(run(1, &[0, 0, 0, 0, 1, 3]), [1, 1, 1, 0, 1, 9]);
    assert_eq!(run(1, &[2, 2, 1]), [1, 0, 1], "one has its own burst");
    assert_eq!(run(2, &[0, 0]), [0, 0], "200 bytes by now");
    assert_eq!(run(3, &[0, 0, 1, 2]), [1, 0, 1, 0]);
}

#[test]
fn wrong_calls_say_what_is_wrong() {
    let tables = BTreeMap::from([("users", Contents::Numbers(vec![])), ("routes", Contents::Prefixes(vec![]))]);
    let tables = tables.into_iter().map(|(name, contents)| (name.to_owned(), contents)).collect();
    let cases = [
        ("b:look_up('rutes')", "there is no table \"rutes\"; the configuration has routes, users"),
        ("b:look_up()", "the name of the table: expected a string, not nil"),
        ("b:key(2, 1)", "there is no packet 2: the batch has 1 to 1"),
        ("b:key(1, 'x')", "the key: expected a number, not string"),
        ("b:key(1, 1LL)", "the key: expected a number, not cdata"),
        ("b:found(0)", "there is no packet 0: the batch has 1 to 1"),
        ("b:key6(2, 0)", "there is no packet 2: the batch has 1 to 1"),
        ("b:key6(1, 45)", "16 bytes at offset 45 lie outside the packet, which has 60"),
        ("b:key6(1, '1')", "the offset: expected a number, not string"),
        ("b:hash('x')", "the seed: expected a number, not string"),
        ("b:hash(-1)", "a seed is from 0 to 9007199254740991, not -1"),
        ("b:sum(1, 50, 11)", "11 bytes at offset 50 lie outside the packet, which has 60"),
        ("b:sum(1, 0, -1)", "-1 bytes cannot be summed"),
        ("b:replace_u16(1, 59, 1, 0)", "2 bytes at offset 59 lie outside the packet, which has 60"),
        ("b:replace_u16(1, 0, 1, 59)", "2 bytes at offset 59 lie outside the packet, which has 60"),
        ("b:replace_u16(1, 0, 65536, 2)", "65536 does not fit in 2 bytes"),
    ];
    for (call, said) in cases {
        let mut harness = harness(&format!("function run(b)\n{call}\nend"), &tables);
        harness.run(0, &[[0; 60]]);
        assert_eq!(harness.stage.failures().last().unwrap().to_string(), format!("try.lua:2: {said}"), "{call}");
    }
    let mut harness = harness("function run(b)\nb:look_up('t')\nend", &BTreeMap::new());
    harness.run(0, &[[0; 60]]);
    let said = harness.stage.failures().last().unwrap().to_string();
    assert_eq!(said, "try.lua:2: there is no table \"t\"; name it in the key \"tables\" of the configuration");
}
