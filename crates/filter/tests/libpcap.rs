//! libpcap is the definition: on a corpus of frames, every expression matches exactly what tcpdump lets through.
//!
//! Skipped with a message where tcpdump is missing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "common/expressions.rs"]
mod expressions;

use std::process::{Command, Output, Stdio};

use common::{Random, corpus};
use expressions::{JOINED, PRIMITIVES};
use weir_filter::Filter;

/// What both refuse.
#[rustfmt::skip]
const REFUSED: &[&str] = &[
    "frobnicate", "host", "host 10.0.0.256", "port 65536", "port", "ip host 2001:db8::1",
    "tcp host 10.0.0.1", "ether host 10.0.0.1", "host 02:00:00:00:00:01", "net 10.0.0.1/8",
    "net 10.0.0.0/33", "host 10.0.0.0/8", "net 2001:db8::1/32", "net 2001::/129",
    "host 2001::/16", "ip6 host 10.0.0.1", "icmp port 80", "portrange a-b", "vlan 4096",
    "mpls 1048576", "mpls and arp", "mpls and vlan", "pppoes 65536", "pppoes and vlan",
    "pppoes and ether host 02:00:00:00:00:01", "ip[0:3] = 1", "ip[0", "ip[0]", "ip[] = 1",
    "1 / 0 = 1", "ip[8] % 0 = 1", "ip[8] << 32 = 0", "len >", "and", "tcp and", "(tcp", "tcp)",
    "tcp udp", "10.0.0.1", "tcp and 80", "80", "not", "()", "ether", "link", "ah[0] = 1",
    "stp[0] = 1", "src proto 6", "tcp proto 6", "arp broadcast", "ip6 broadcast",
    "tcp port domain-x", "udp port ssh", "4294967296 = 1", "ip[8] = 09", "$1", "host #",
    "host 1:2:3", "less", "greater tcp", "gateway foo", "geneve and",
];

fn has_tcpdump() -> bool {
    let found = Command::new("tcpdump").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: tcpdump is missing (apt-get install tcpdump)");
    }
    found
}

type Frames = Vec<(Vec<u8>, u32)>;

/// Frames, and a capture file of them that is removed when the test ends.
struct Capture {
    frames: Frames,
    path: std::path::PathBuf,
}

impl Capture {
    /// Writes frames as pcap, big endian; the timestamps number them.
    fn of(frames: Frames, test: &str) -> Self {
        let mut bytes = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, 1] {
            bytes.extend(word.to_be_bytes());
        }
        for (index, (frame, length)) in frames.iter().enumerate() {
            let captured = u32::try_from(frame.len()).unwrap();
            for word in [u32::try_from(index).unwrap(), 0, captured, *length] {
                bytes.extend(word.to_be_bytes());
            }
            bytes.extend(frame);
        }
        let name = format!("weir-filter-{test}-{}.pcap", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, &bytes).unwrap();
        Self { frames, path }
    }

    /// Runs tcpdump over it, by its standard input: tcpdump gives its privileges up before it opens files.
    fn tcpdump(&self, options: &[&str], expression: &str) -> Output {
        Command::new("tcpdump")
            .args(["-r", "-", "-w", "-"])
            .args(options)
            .args(["--", expression])
            .stdin(Stdio::from(std::fs::File::open(&self.path).unwrap()))
            .output()
            .unwrap()
    }

    /// Asserts that both match the same frames, the filter with machine code and without; returns how many.
    fn compare(&self, options: &[&str], expression: &str) -> usize {
        let output = self.tcpdump(options, expression);
        let said = String::from_utf8_lossy(&output.stderr);
        let read = output.status.success() || said.contains("rejects all packets");
        assert!(read, "tcpdump refuses `{expression}`: {said}");
        let filter = Filter::parse(expression).unwrap_or_else(|e| panic!("`{expression}`: {e}"));
        let expected = numbers(&output.stdout);
        let matching = |filter: &Filter| -> Vec<usize> {
            let matches = |(frame, length): &(Vec<u8>, u32)| filter.matches_captured(frame, *length);
            (0..self.frames.len()).filter(|index| matches(&self.frames[*index])).collect()
        };
        let found = matching(&filter);
        filter.compile();
        assert!(filter.is_compiled() || expression.is_empty(), "`{expression}`: no code");
        assert!(matching(&filter) == found, "`{expression}`: with code, others match");
        let other = |a: &[usize], b: &[usize]| a.iter().copied().find(|i| b.binary_search(i).is_err());
        if let Some(index) = other(&expected, &found).or(other(&found, &expected)) {
            panic!(
                "`{expression}` {options:?}: tcpdump {} and we {} frame {index}: {:02x?}",
                expected.len(),
                found.len(),
                self.frames[index],
            );
        }
        expected.len()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The numbers of the frames in a capture that tcpdump wrote, in the byte order of whoever wrote it.
fn numbers(capture: &[u8]) -> Vec<usize> {
    let big = capture.starts_with(&0xa1b2_c3d4_u32.to_be_bytes());
    let word = |at: usize| {
        let bytes = *capture[at..].first_chunk().unwrap();
        let word = if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
        usize::try_from(word).unwrap()
    };
    let mut numbers = Vec::new();
    let mut at = 24;
    while at < capture.len() {
        numbers.push(word(at));
        at += 16 + word(at + 8);
    }
    numbers
}

/// The frames, uncut and padded as on a wire, so that no test runs off their end.
fn padded() -> Frames {
    let whole = corpus().into_iter().filter(|(frame, length)| frame.len() == *length as usize);
    whole
        .filter(|(frame, _)| frame.len() >= 14)
        .map(|(mut frame, _)| {
            frame.resize(frame.len().max(128), 0);
            let length = u32::try_from(frame.len()).unwrap();
            (frame, length)
        })
        .collect()
}

/// What libpcap's optimiser decides about loads at constant offsets and loads whose value does not
/// matter, we do as well, so with `-O` these differ.
fn needs_optimiser(expression: &str) -> bool {
    ["ip[-2", "ip[0 - 2", "/0", "::/"].iter().any(|part| expression.contains(part))
}

#[test]
fn one_test_matches_what_tcpdump_matches() {
    if !has_tcpdump() {
        return;
    }
    let cut = Capture::of(corpus(), "one");
    let mut idle = Vec::new();
    for expression in PRIMITIVES {
        if cut.compare(&[], expression) == 0 {
            idle.push(*expression);
        }
    }
    // An expression that matches nothing tests little: only these can match nothing.
    let allowed = ["net 167772160", "ether proto 99999", "ip proto 256", "less 0", "1 = 2"];
    idle.retain(|expression| !allowed.contains(expression));
    assert!(idle.is_empty(), "nothing in the corpus matches {idle:?}");
}

/// The optimiser moves tests about, so that on a cut frame the first load that fails may be another one:
/// cut frames are compared without it, whole ones with it.
#[test]
fn joined_tests_match_what_tcpdump_matches() {
    if !has_tcpdump() {
        return;
    }
    let cut = Capture::of(corpus(), "joined-cut");
    let whole = Capture::of(padded(), "joined-whole");
    let mut idle = Vec::new();
    for expression in JOINED {
        let matched = whole.compare(&[], expression);
        if !needs_optimiser(expression) && cut.compare(&["-O"], expression) + matched == 0 {
            idle.push(*expression);
        }
    }
    assert!(idle.is_empty(), "nothing in the corpus matches {idle:?}");
}

#[test]
fn tests_joined_at_random_match_what_tcpdump_matches() {
    if !has_tcpdump() {
        return;
    }
    let cut = Capture::of(corpus().into_iter().step_by(3).collect(), "random-cut");
    let whole = Capture::of(padded(), "random-whole");
    let mut random = Random(7);
    let mut pick = |items: &[&'static str]| items[random.below(items.len())];
    for _ in 0..120 {
        let mut expression = String::new();
        for part in 0..pick(&["1", "2", "3", "4"]).parse().unwrap() {
            if part > 0 {
                expression += pick(&[" and ", " or ", " && ", " || "]);
            }
            expression += pick(&["", "not ", "! "]);
            let common = pick(&["vlan", "vlan 100", "1 = 1", "len > 40"]);
            let [a, b, c] = [(); 3].map(|()| pick(PRIMITIVES));
            let test = pick(&[common, a, b, c]);
            let joined = test.contains(" or ") || test.contains(" and ");
            let close = if joined { ")" } else { pick(&["", ")"]) };
            let open = if close.is_empty() { "" } else { "(" };
            expression += &[open, test, close].concat();
        }
        whole.compare(&[], &expression);
        if !needs_optimiser(&expression) {
            cut.compare(&["-O"], &expression);
        }
    }
}

#[test]
fn refuses_what_tcpdump_refuses() {
    if !has_tcpdump() {
        return;
    }
    let file = Capture::of(corpus().into_iter().take(1).collect(), "refused");
    for expression in REFUSED {
        let taken = file.tcpdump(&[], expression).status.success();
        assert!(!taken, "tcpdump takes `{expression}`");
        let error = Filter::parse(expression).map(|_| ()).expect_err(expression);
        assert!((1..=expression.len() + 1).contains(&error.column()), "{expression}: {error}");
    }
}
