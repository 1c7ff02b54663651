//! Filter expressions that users type, and the frames that they are put to.

use std::sync::LazyLock;

use weir_filter::Filter;

use super::{Target, text_and_rest};

pub(super) const TARGET: Target = Target {
    name: "filter",
    help: "a filter expression, a zero byte, and a frame",
    run,
    tokens: &[
        b" and ",
        b" or ",
        b"not ",
        b"(",
        b")",
        b"[",
        b"]",
        b":",
        b"ip",
        b"ip6 ",
        b"tcp ",
        b"udp ",
        b"icmp",
        b"arp",
        b"ether",
        b"host 10.0.0.1",
        b"net 10.0/16",
        b"port 80",
        b"portrange 1-9",
        b"src ",
        b"dst ",
        b"vlan ",
        b"mpls ",
        b"pppoes ",
        b"len",
        b"less 64",
        b"greater 9",
        b"broadcast",
        b"multicast",
        b"proto ",
        b" != 0",
        b" & 0xf0",
        b" >> 31",
        b" / 0",
        b" % len",
        b"tcp[tcpflags]",
        b"4294967295",
        b"2001:db8::/32",
    ],
    text: true,
    inputs: 150_000,
    deep: 35,
};

/// Expressions that every frame is put to.
const FIXED: &[&str] = &[
    "ip[ip[0] & 0xf] / tcp[12] = 1 or ether[len - 1] = 0",
    "vlan and mpls and not host 10.0.0.1",
    "pppoes and udp portrange 1-1000",
    "ip6 proto 6 or icmp6 or arp host 10.0.0.1",
];

/// Of so many expressions that can be read one becomes machine code: that takes as long as reading thousands.
const CODE_EVERY: usize = 128;

/// The same, without machine code and with it.
static FIXED_BOTH: LazyLock<Vec<[Filter; 2]>> =
    LazyLock::new(|| FIXED.iter().filter_map(|text| Some(with_code(&Filter::parse(text).ok()?))).collect());

fn run(input: &[u8]) -> bool {
    let (text, frame) = text_and_rest(input);
    assert_eq!(FIXED_BOTH.len(), FIXED.len(), "one of the fixed expressions cannot be read");
    for [plain, code] in FIXED_BOTH.iter() {
        assert!(agrees(plain, frame), "{plain}");
        assert!(agree(plain, code, frame), "{plain}");
    }
    let Some(text) = text else { return false };
    match Filter::parse(text) {
        Ok(filter) => {
            assert_eq!(filter.as_str(), text);
            assert!(agrees(&filter, frame));
            if input.iter().copied().map(usize::from).sum::<usize>() % CODE_EVERY == 0 {
                let [plain, code] = with_code(&filter);
                assert!(agree(&plain, &code, frame), "{plain}");
            }
            true
        }
        Err(error) => {
            assert!((1..=text.chars().count() + 1).contains(&error.column()), "{error}: no such column");
            assert!(!error.expected().is_empty() && !error.remedy().is_empty(), "{error}: no help");
            false
        }
    }
}

/// An expression as it is, and the same with machine code; not every one can have any.
fn with_code(filter: &Filter) -> [Filter; 2] {
    let code = Filter::parse(filter.as_str()).unwrap_or_else(|_| filter.clone());
    code.compile();
    [filter.clone(), code]
}

/// Both say the same of a frame, of all that it begins with, and of what it is without tags.
fn agree(plain: &Filter, code: &Filter, frame: &[u8]) -> bool {
    let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    let said = |bytes: &[u8]| plain.matches_captured(bytes, length) == code.matches_captured(bytes, length);
    (0..=frame.len().min(128)).all(|cut| said(frame.get(..cut).unwrap_or_default()))
        && said(frame)
        && [1, 4, 8].iter().all(|tags| plain.matches_untagged(frame, *tags) == code.matches_untagged(frame, *tags))
}

/// A whole frame is a captured one of its own length, and the answer does not change by asking again.
fn agrees(filter: &Filter, frame: &[u8]) -> bool {
    let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    let whole = filter.matches(frame);
    whole == filter.matches_captured(frame, length) && whole == filter.clone().matches(frame)
}
