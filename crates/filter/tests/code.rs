//! Machine code does what the tests that it is made of say, of every frame.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "common/expressions.rs"]
mod expressions;

use common::{Random, corpus};
use expressions::{JOINED, PRIMITIVES};
use weir_filter::{Filter, MAX_LENGTH};

/// The same expression without code and with it.
fn both(text: &str) -> [Filter; 2] {
    let [plain, code] = [(); 2].map(|()| Filter::parse(text).unwrap_or_else(|e| panic!("`{text}`: {e}")));
    code.compile();
    assert!(code.is_compiled() && !plain.is_compiled(), "{text}");
    [plain, code]
}

/// Asserts that both say the same of a frame, whatever its length on the wire and however many of its bytes are tags; answers what they say of it as it is.
fn agree([plain, code]: &[Filter; 2], frame: &[u8], length: u32) -> bool {
    for length in [length, frame.len() as u32, 0, u32::MAX] {
        let (wanted, found) = (plain.matches_captured(frame, length), code.matches_captured(frame, length));
        assert_eq!(found, wanted, "`{plain}` {length} {frame:02x?}");
    }
    for tags in [0, 1, 4, 8, frame.len(), frame.len() + 1, usize::MAX] {
        let (wanted, found) = (plain.matches_untagged(frame, tags), code.matches_untagged(frame, tags));
        assert_eq!(found, wanted, "`{plain}` less {tags} {frame:02x?}");
    }
    code.matches_captured(frame, length)
}

/// Expressions made at random, which look at places that they compute.
struct Expressions(Random);

impl Expressions {
    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.0.below(items.len())]
    }

    fn number(&mut self, depth: usize) -> String {
        match self.0.below(if depth == 0 { 3 } else { 7 }) {
            0 => "len".to_owned(),
            1 => self.pick(&["0", "1", "2", "4", "12", "20", "53", "80", "0x800", "0xff", "0xfffffff4"]).to_owned(),
            2 => self.0.below(64).to_string(),
            3 => format!("-{}", self.number(0)),
            4 | 5 => {
                let over = self.pick(&["ether", "ether", "ip", "ip", "ip6", "tcp", "udp", "icmp", "icmp6", "arp"]);
                let (index, width) = (self.number(depth - 1), self.pick(&["", ":1", ":2", ":4"]));
                format!("{over}[{index}{width}]")
            }
            _ => {
                let operator = self.pick(&["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"]);
                format!("({} {operator} {})", self.number(depth - 1), self.number(depth - 1))
            }
        }
    }

    fn test(&mut self, depth: usize) -> String {
        match self.0.below(if depth == 0 { 3 } else { 5 }) {
            0 => {
                let relation = self.pick(&["=", "!=", "<", "<=", ">", ">="]);
                format!("{} {relation} {}", self.number(3), self.number(2))
            }
            1 => self.pick(PRIMITIVES).to_owned(),
            2 => self.pick(&["vlan", "mpls", "vlan 100", "tcp port 80", "host 10.0.0.1", "ip6"]).to_owned(),
            3 => format!("not ({})", self.test(depth - 1)),
            _ => {
                let join = self.pick(&["and", "or"]);
                format!("({}) {join} ({})", self.test(depth - 1), self.test(depth - 1))
            }
        }
    }
}

#[test]
fn known_expressions_say_the_same_with_code() {
    let frames = corpus();
    let mut said = [0, 0];
    for text in PRIMITIVES.iter().chain(JOINED).filter(|text| !text.is_empty()) {
        let filters = both(text);
        for (frame, length) in frames.iter().step_by(3) {
            said[usize::from(agree(&filters, frame, *length))] += 1;
        }
    }
    assert!(said.iter().all(|&times| times > 10_000), "{said:?}");
}

#[test]
fn expressions_made_at_random_say_the_same_with_code() {
    let frames = corpus();
    let mut expressions = Expressions(Random(11));
    let (mut said, mut made) = ([0, 0], 0);
    while made < 250 {
        let text = expressions.test(2);
        // Divisions by constants that are 0, and what cannot stand behind labels, are refused.
        if Filter::parse(&text).is_err() {
            continue;
        }
        made += 1;
        let filters = both(&text);
        let first = expressions.0.below(40);
        for (frame, length) in frames.iter().skip(first).step_by(37) {
            said[usize::from(agree(&filters, frame, *length))] += 1;
        }
    }
    assert!(said.iter().all(|&times| times > 1_000), "{said:?}");
}

/// At every length from nothing on, of frames of every kind.
#[test]
fn what_is_cut_off_is_not_there_for_code_either() {
    let filters = [
        "tcp[13] & 2 != 0 or udp[4:2] > 8",
        "ether[len - 15:4] != 7 and ip[ip[0] & 15:2] < 0x9000",
        "ether[10:4] & 0xff00ff != 1 or ether[11:2] = 0",
        "ip6[40 + ip6[6]] / ip6[7] = 0 or arp[len % 28] = 1",
    ]
    .map(both);
    for (frame, _) in corpus().iter().filter(|(frame, _)| frame.len() > 40).step_by(50) {
        for cut in 0..=frame.len() {
            for filter in &filters {
                agree(filter, &frame[..cut], frame.len() as u32);
            }
        }
    }
}

/// A byte that decides stands at every place, and is met there alone.
#[test]
fn every_place_is_where_it_is() {
    for at in 0..80_usize {
        for (width, bytes) in [("", 1), (":2", 2), (":4", 4)] {
            let [plain, code] = both(&format!("ether[{at}{width}] = 7"));
            for marked in 0..84 {
                let mut frame = [0; 84];
                frame[marked] = 7;
                assert_eq!(code.matches(&frame), marked == at + bytes - 1, "{at}{width}");
                // Behind the addresses, whatever stands there is passed over.
                let moved = if marked >= 16 { marked - 4 } else { marked };
                let is_seen = !(12..16).contains(&marked) && moved == at + bytes - 1 && at + bytes <= 80;
                assert_eq!(code.matches_untagged(&frame, 4), is_seen, "{at}{width} {marked}");
                assert_eq!(plain.matches_untagged(&frame, 4), is_seen, "{at}{width} {marked}");
            }
        }
    }
}

/// The same of places that are computed, in frames with tags: within the addresses, and across their end.
#[test]
fn every_computed_place_is_where_it_is_beside_tags() {
    for at in 0..80_usize {
        let [plain, code] = both(&format!("ether[len - {}] = 7", 80 - at));
        for marked in 0..84 {
            let mut frame = [0; 84];
            frame[marked] = 7;
            let moved = if marked >= 16 { marked - 4 } else { marked };
            let is_seen = !(12..16).contains(&marked) && moved == at;
            assert_eq!(code.matches_untagged(&frame, 4), is_seen, "{at} {marked}");
            assert_eq!(plain.matches_untagged(&frame, 4), is_seen, "{at} {marked}");
        }
    }
    // A header that says to have no length: what would be behind it is before it, and may be within the addresses.
    for back in 1..=14 {
        let [plain, code] = both(&format!("tcp[0 - {back}] = 7"));
        for marked in 0..12 {
            let mut frame = [0; 84];
            (frame[marked], frame[16], frame[18], frame[27]) = (7, 8, 0x40, 6);
            let is_seen = marked == 14 - back;
            assert_eq!(plain.matches_untagged(&frame, 4), is_seen, "{back} {marked}");
            assert_eq!(code.matches_untagged(&frame, 4), is_seen, "{back} {marked}");
        }
    }
}

/// What is too long for code goes on without.
#[test]
fn what_is_too_long_goes_on_without_code() {
    let text = format!("port {}", (0..600).map(|number| number.to_string()).collect::<Vec<_>>().join(" or "));
    assert!(text.len() <= MAX_LENGTH);
    let filter = Filter::parse(&text).unwrap();
    filter.compile();
    assert!(!filter.is_compiled());
    let plain = Filter::parse(&text).unwrap();
    assert!(
        corpus().iter().all(|(frame, length)| {
            filter.matches_captured(frame, *length) == plain.matches_captured(frame, *length)
        })
    );
}

#[test]
fn clones_share_code_and_the_empty_expression_has_none() {
    let filter = Filter::parse("udp").unwrap();
    let earlier = filter.clone();
    filter.compile();
    assert!(earlier.is_compiled() && filter.clone().is_compiled());
    drop(filter);
    // It may go to another thread, and be used there.
    let frames = corpus();
    let found = std::thread::spawn(move || frames.iter().filter(|(frame, _)| earlier.matches(frame)).count());
    assert!(found.join().unwrap() > 0);
    let empty = Filter::parse("").unwrap();
    empty.compile();
    assert!(!empty.is_compiled() && empty.matches(&[]));
}
