//! Nothing that is typed and nothing that is received makes the filter panic; errors say what to do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::corpus;
use proptest::prelude::*;
use weir_filter::{Filter, MAX_LENGTH};

/// Words that get a random expression past the first token.
fn token() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "and",
            "or",
            "not",
            "(",
            ")",
            "[",
            "]",
            ":",
            "+",
            "-",
            "*",
            "/",
            "%",
            "^",
            "&",
            "|",
            "<<",
            ">>",
            "=",
            "!=",
            "<",
            ">",
            "host",
            "net",
            "port",
            "portrange",
            "src",
            "dst",
            "ether",
            "ip",
            "ip6",
            "tcp",
            "udp",
            "arp",
            "icmp6",
            "proto",
            "vlan",
            "mpls",
            "pppoes",
            "len",
            "less",
            "greater",
            "broadcast",
            "multicast",
            "10.0.0.1",
            "10.0/16",
            "mask",
            "2001:db8::/32",
            "02:00:00:00:00:01",
            "80",
            "80-90",
            "0xffffffff",
            "0",
            "tcpflags",
            "tcp-syn",
            "\\tcp",
            "gateway",
            "http",
        ])
        .prop_map(str::to_owned),
        "[0-9]{1,11}",
        "\\PC{1,3}",
    ]
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        let _ = Filter::parse(&text);
    }

    #[test]
    fn any_words_are_read_or_refused(
        words in prop::collection::vec(token(), 0..20),
        frame in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let text = words.join(" ");
        match Filter::parse(&text) {
            Ok(filter) => {
                let _ = filter.matches(&frame);
            }
            Err(error) => {
                prop_assert!(error.column() >= 1 && error.column() <= text.chars().count() + 1);
                prop_assert!(!error.expected().is_empty() && !error.remedy().is_empty());
            }
        }
    }

    #[test]
    fn any_frame_is_matched_or_not(frame in prop::collection::vec(any::<u8>(), 0..200), length: u32) {
        for text in [
            "tcp[tcpflags] & tcp-syn != 0 or ip[ip[0]] / ip[1] = 2 or ether[len] = 1",
            "vlan and mpls and mpls and host 10.0.0.1 or udp[udp[0:4]:4] > 5",
            "pppoes and not portrange 1-100",
        ] {
            let filter = Filter::parse(text).unwrap();
            let once = filter.matches_captured(&frame, length);
            prop_assert_eq!(once, filter.matches_captured(&frame, length));
        }
    }
}

#[test]
fn tags_that_count_as_taken_off_are_as_if_they_were() {
    let texts = [
        "tcp port 80 or udp src port 53",
        "ip host 10.0.0.1 or ip6 net 2001:db8::/32",
        "ether[11] & 0x80 != 0 or ether[10:4] & 0x8000ff = 8 or ether[12:2] = 0x800 or len > 90",
        "ether src 02:00:00:00:00:01 or vlan 7 or ip[ip[0] & 15] = 1 or less 64",
    ];
    let filters = texts.map(|text| Filter::parse(text).unwrap());
    let mut matched = [0, 0];
    for (frame, _) in corpus().into_iter().filter(|(frame, _)| frame.len() >= 12) {
        for tags in [0, 4, 8] {
            let mut tagged = frame.clone();
            tagged.splice(12..12, (0..tags).map(|byte| byte as u8 ^ 0x81));
            for filter in &filters {
                let whole = filter.matches(&frame);
                assert_eq!(filter.matches_untagged(&tagged, tags), whole, "{filter} {tags} {frame:02x?}");
                matched[usize::from(whole)] += 1;
            }
        }
    }
    assert!(matched.iter().all(|&times| times > 10), "{matched:?}");
}

#[test]
fn length_and_depth_are_bounded() {
    let long = "tcp or ".repeat(MAX_LENGTH / 7 - 1) + "tcp";
    assert!(long.len() <= MAX_LENGTH);
    assert!(Filter::parse(&long).is_ok());
    assert!(Filter::parse(&format!("{long}{long}")).is_err());
    for (open, core, close) in [("(", "tcp", ")"), ("not ", "tcp", ""), ("ip[", "0", "]")] {
        let nest = |levels: usize| {
            let inner = format!("{}{core}{}", open.repeat(levels), close.repeat(levels));
            Filter::parse(&if core == "0" { inner + " = 1" } else { inner })
        };
        assert!(nest(60).is_ok(), "{open}");
        assert!(nest(65).is_err(), "{open}");
        assert!(nest(600).is_err(), "{open}");
    }
    let sum = |terms: usize| Filter::parse(&format!("{} > 1", vec!["len"; terms].join("+")));
    assert!(sum(257).is_ok());
    assert!(sum(258).is_err());
    assert!(Filter::parse(&format!("{} = 1", "-".repeat(1000) + "1")).is_err());
}

#[test]
fn the_empty_expression_matches_everything() {
    let filter = Filter::parse(" \t ").unwrap();
    assert!(corpus().iter().all(|(frame, _)| filter.matches(frame)));
}

#[test]
fn a_filter_shows_what_was_written() {
    let filter: Filter = "tcp  port 80".parse().unwrap();
    assert_eq!((filter.as_str(), filter.to_string().as_str()), ("tcp  port 80", "tcp  port 80"));
}

#[test]
fn protocol_names_need_no_backslash() {
    for text in ["ip proto tcp", "ether proto arp"] {
        assert!(Filter::parse(text).is_ok(), "{text}");
    }
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    for (text, message) in [
        (
            "tcp port 70000",
            "column 10: expected a port from 0 to 65535, found `70000`; write a number; only a few well-known names are understood",
        ),
        (
            "host example.org",
            "column 6: expected an IP address, found `example.org`; write one like 10.0.0.1 or 2001:db8::1; names are not looked up",
        ),
        (
            "tcp and 10.0.0.1",
            "column 9: expected a word that says what is tested, found `10.0.0.1`; write `host 10.0.0.1`, `net 10.0.0.1` or `port 10.0.0.1`",
        ),
        ("tcp (udp)", "column 5: expected `and`, `or` or the end, found `(`; join two tests by `and` or `or`"),
        (
            "net 10.0.0.1/8",
            "column 5: expected no bits set behind the mask, found `10.0.0.1`; write those bits as zeros",
        ),
        (
            "len >",
            "column 6: expected a number, `len` or an accessor, found the end; write one like `len`, `ip[8]` or `tcp[tcpflags]`",
        ),
        (
            "inbound",
            "column 1: expected a test on Ethernet frames, found `inbound`; leave this word out: it belongs to other kinds of capture",
        ),
    ] {
        assert_eq!(Filter::parse(text).unwrap_err().to_string(), message);
    }
}
