//! libpcap is the definition: on a corpus of frames, every expression matches exactly what tcpdump lets through.
//!
//! Skipped with a message where tcpdump is missing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::process::{Command, Output, Stdio};

use common::{Random, corpus};
use weir_filter::Filter;

/// Tests without a joining word.
#[rustfmt::skip]
const PRIMITIVES: &[&str] = &[
    "arp", "rarp", "ip", "ip6", "tcp", "udp", "sctp", "icmp", "icmp6", "igmp", "igrp", "pim",
    "vrrp", "carp", "ah", "esp", "stp", "iso", "isis", "esis", "clnp", "ipx", "netbeui", "atalk",
    "aarp", "decnet", "pppoed", "host 10.0.0.1", "src host 10.0.0.1", "dst host 10.0.0.1",
    "src or dst host 10.0.0.1", "src and dst host 192.0.2.9", "dst and src 192.0.2.9",
    "ip host 10.1.2.3", "arp host 10.1.2.3", "arp src host 10.0.0.1", "rarp dst host 192.0.2.9",
    "src 10.0.0.1", "dst or src 10.1.2.3", "host 10.1", "host 2001:db8::1",
    "src host 2001:db8::1", "ip6 dst host 2001:db8:1::2", "dst ::1", "ip6 host ff02::1", "net 10",
    "net 10.1", "src net 10.1.0.0/16", "dst net 10.0.0.0 mask 255.254.0.0", "net 0.0.0.0/0",
    "ip net 192.0.2.0/24", "net 192.0.2.9/32", "net 2001:db8::/32", "ip6 src net 2001:db8:1::/48",
    "net ::/0", "net ::1/128", "net 2001:db8::1", "net 167772160", "port 80", "src port 53",
    "dst port 443", "src or dst port 22", "src and dst port 80", "tcp port 80", "udp port 53",
    "sctp port 443", "tcp dst port 80", "udp src port 443", "port http", "port domain",
    "tcp port ssh", "udp port domain", "port 0x50", "port 0120", "portrange 6000-6063",
    "src portrange 1-1023", "dst portrange 443-80", "tcp portrange 20-25",
    "udp src and dst portrange 50-60", "portrange 53", "portrange ssh-http", "portrange 0-65535",
    "ether host 02:00:00:00:00:0a", "ether src 2:0:0:0:0:b", "ether dst 02-00-00-00-00-0b",
    "ether src and dst 0200.0000.000a", "link host ffffffffffff",
    "ether dst host 01:00:5e:00:00:05", "ether broadcast", "broadcast", "ip broadcast",
    "ether multicast", "multicast", "ip multicast", "ip6 multicast", "ether proto 0x0800",
    "ether proto \\arp", "ether proto 0x88cc", "ether proto 0x42", "ether proto 6",
    "ether proto \\stp", "ether proto loopback", "ether proto 0x809b",
    "ether proto 99999", "ip proto 89", "ip proto \\tcp", "ip6 proto 17", "ip6 proto \\udp",
    "proto 47", "proto ospf", "proto \\icmp", "ip proto gre", "ip proto 256", "less 60",
    "greater 60", "less 0", "greater 0", "len > 60", "len <= 60", "len = 58", "length != 58",
    "len >= 0x20", "60 < len", "len & 1 = 1", "len - 14 > 46", "len / 2 * 2 = len", "ip[8] < 5",
    "ip[0] & 0xf != 5", "ip[6:2] & 0x1fff = 0", "ip[12:4] = 0x0a000001", "ip[2:2] > 40",
    "ip[0] = 0x45 ", "ip[(ip[0] & 0xf) * 4] = 8", "ip[ip[0] & 0xf << 2:2] = 0x1234", "ip6[6] = 58",
    "ip6[40] = 128", "arp[6:2] = 1", "arp[7] == 2", "ether[0] & 1 != 0", "ether[12:2] = 0x800",
    "ether[12:2] > 1500", "link[0:4] = 0x02000000", "tcp[tcpflags] & tcp-syn != 0",
    "tcp[tcpflags] & (tcp-syn|tcp-ack) == tcp-syn", "tcp[13] = 18",
    "tcp[tcpflags] = tcp-fin or tcp[tcpflags] = tcp-rst", "tcp[tcpflags] & tcp-push != 0",
    "tcp[tcpflags] & (tcp-urg | tcp-ece | tcp-cwr) > 0", "tcp[0:2] = 80", "tcp[2:2] - 1 = 21",
    "tcp[12] >> 4 = 5", "tcp[12] & 0xf0 >> 2 = 16", "udp[4:2] > 8", "udp[0:2] = udp[2:2]",
    "sctp[0:2] = 80", "icmp[icmptype] = icmp-echo",
    "icmp[icmptype] != icmp-echo and icmp[icmptype] != icmp-echoreply", "icmp[icmpcode] = 4",
    "icmp6[icmp6type] = icmp6-neighborsolicit", "icmp6[0] >= 128", "icmp6[icmp6code] = 0",
    "igmp[0] = 0", "pim[0] = 0", "vrrp[1] = 80", "decnet[0] = 0", "atalk[0] = 0",
    "ip[-2:2] = 0x800", "tcp[-1] = 3", "ip[0 - 2:2] = 2048", "ether[len - 1] = 0x55",
    "ip[len - 15] = 0x55", "tcp[len - 60] = 2", "tcp[0 - len] = 0", "ip[2:2] = len - 14",
    "len = ip[2:2] + 14", "5 < ip[8]", "ip[8] + tcp[13] = 66", "tcp[13] + ip[8] = 66",
    "ip[8] * 4 = 256", "ip[8] / ip[9] = 3", "ip[8] % 10 = 4", "ip[8] / (ip[9] - 6) = 5",
    "ip[8] % 3 + 1 = 0", "ip[8] ^ 64 = 0", "ip[8] ^ 1 & 65 = 65", "ip[8] & 65 ^ 1 = 64",
    "ip[8] | 1 = 65", "ip[8] | 1 & 3 = 65", "ip[8] << 2 = 256", "ip[8] << ip[9] = 4096",
    "ip[8] >> ip[9] = 1", "ip[8] << 31 = 0x80000000", "-ip[8] = 0xffffffc0", "-ip[8] % 2 = 0",
    "- 1 = 4294967295", "1 + 2 * 3 = 7", "(1 + 2) * 3 = 9", "10 - 4 - 3 = 3", "2 << 1 + 1 = 8",
    "7 % 4 + 1 = 2", "100 / 10 / 2 = 5", "ip[8] - 65 > 100", "(ip[8]) = 64",
    "((ip[8] + 1)) * 2 = 130", "1 = 1", "1 = 2",
];

/// Tests that depend on their order, and joined ones.
#[rustfmt::skip]
const JOINED: &[&str] = &[
    "", "(arp)", "not arp", "! arp", "not not arp", "arp or tcp and host 10.0.0.1",
    "arp or (tcp and port 80)", "tcp && port 80 || udp && port 53", "host 10.0.0.1 or 10.1.2.3",
    "host 10.0.0.1 and 10.1.2.3", "host 10.0.0.1 and not 10.1.2.3", "port 80 or 443 or 22",
    "tcp port 80 or 443", "src port (80 or 53)", "host (10.0.0.1 and not 192.0.2.9)",
    "dst not 10.0.0.1", "port not (80 or 443)", "host not (not 10.0.0.1)",
    "tcp port 80 or (udp port 53) or 443", "host 10.0.0.1 and (10.1.2.3 or 192.0.2.9)",
    "src host 10.0.0.1 and dst port 80", "src or dst port 80 and tcp", "host 2001:db8::1 or ::1",
    "ether host 02:00:00:00:00:0a and ether host 02:00:00:00:00:0b", "ip proto 6 or 17",
    "net 10 or 192.0.2", "net 10 and not 10.1", "not (tcp or udp)", "not tcp or udp",
    "not port 80", "not (ip[8] < 5)", "((tcp) and (port (80)))", "icmp or icmp6",
    "ip and tcp[13] = 2 or arp", "not len > 60", "vlan", "vlan 100", "vlan (100)",
    "vlan 200 and vlan 100", "vlan and vlan", "vlan and vlan and vlan", "vlan and ip",
    "vlan and tcp port 80", "vlan 100 and host 10.0.0.1", "vlan or ip", "ip or vlan",
    "vlan and ip6", "(vlan and arp) or arp", "not vlan", "not vlan and ip",
    "vlan and ether[12:2] = 0x8100", "vlan and ip[8] = 64", "vlan and tcp[13] = 2",
    "vlan and ether host 02:00:00:00:00:0a", "vlan and stp", "vlan and isis",
    "vlan 100 or vlan 200", "vlan and port 53", "vlan and icmp6[0] = 128", "vlan and not ip",
    "mpls", "mpls 16", "mpls 1024", "mpls and mpls", "mpls 16 and mpls 1024", "mpls and ip",
    "mpls and ip6", "mpls and tcp port 80", "mpls and host 10.0.0.1",
    "mpls and mpls and host 10.0.0.1", "mpls and icmp", "mpls and net 2001:db8::/32",
    "mpls and ip[8] = 64", "vlan and mpls", "vlan 100 and mpls 16 and ip",
    "mpls and mpls and port 53", "mpls and udp[0:2] = 53",
    "pppoes", "pppoes 7",
    "pppoes 8 or 9 = 8", "pppoes and ip", "pppoes and ip6", "pppoes 7 and host 10.0.0.1",
    "pppoes and tcp port 80", "pppoes and ether[0:2] = 0x21", "pppoes and ip[8] = 64",
    "pppoes and udp", "pppoes and isis", "vlan and pppoes and ip", "pppoed or pppoes",
    "pppoes and mpls", "pppoes and arp",
];

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

    /// Asserts that both match the same frames; returns how many.
    fn compare(&self, options: &[&str], expression: &str) -> usize {
        let output = self.tcpdump(options, expression);
        let said = String::from_utf8_lossy(&output.stderr);
        let read = output.status.success() || said.contains("rejects all packets");
        assert!(read, "tcpdump refuses `{expression}`: {said}");
        let filter = Filter::parse(expression).unwrap_or_else(|e| panic!("`{expression}`: {e}"));
        let expected = numbers(&output.stdout);
        let matches = |&index: &usize| {
            let (frame, length) = &self.frames[index];
            filter.matches_captured(frame, *length)
        };
        let found: Vec<usize> = (0..self.frames.len()).filter(matches).collect();
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
