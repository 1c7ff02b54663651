//! What `weir bench cpp qos` measures: packets of random users, in and out of the scheduler.
//!
//! The hierarchy is that of the peer in `tools/bench/peers/rte-sched.c`: a port of 40 Gbit/s, of which users share 82 % evenly, four
//! traffic classes, of whose queues one is used, 64 packets long. Telling users by their tags, and classification, are within what is
//! measured.

use weir_stage::Case;
use weir_stage::case::{HEADER, Traffic};
use weir_wire::vlan::Vlan;
use weir_wire::{View, ethernet};

/// Rate of all users together, kbit/s.
const ALL_USERS: u64 = 32_800_000;

/// Frames in a round.
const FRAMES: u64 = 1_000_000;

/// Inner VLANs of each outer one.
const INNER: u64 = 2_048;

/// Bytes of a frame without its check sequence.
const FRAME: usize = 60;

/// Users who send in turns where each sends several packets: not as many as there are packets in a power of two of loops, of which one in 64 is
/// sampled.
const IN_PLAY: u64 = 1_000;

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let shaped = |rate, burst| Shaped { rate, burst, keys: "", class: "", buffers: 8_192 };
    // Enough for all who wait, however fast they come.
    let waiting = || Shaped { buffers: 32_768, ..shaped(ALL_USERS / 32_768, "84 B") };
    // A packet takes 0.7 ms, so that 15 of 16 wait as long as more than 1.5 million come a second; there is room for all up to 14 million.
    let flows = || Shaped { buffers: 65_536, ..shaped(ALL_USERS / 32_768, "84 B") };
    let plenty = |users| shaped(ALL_USERS / users, "2 KiB");
    vec![
        // Few users get much in one loop of the worker, which is a burst.
        case::<4, 1>("users-4", shaped(ALL_USERS / 4, "64 KiB"), "64-byte packets of 4 users at random"),
        case::<4_096, 1>("users-4k", plenty(4_096), "64-byte packets of 4,096 users at random"),
        case::<32_768, 1>("users-32k", plenty(32_768), "64-byte packets of 32,768 users at random"),
        case::<131_072, 1>("users-128k", plenty(131_072), "64-byte packets of 131,072 users at random"),
        case::<32_768, 1>(
            "users-32k-policed",
            Shaped { keys: POLICED, ..plenty(32_768) },
            "32,768 users, each with a policer before the scheduler",
        ),
        case::<32_768, 1>(
            "users-32k-remarked",
            Shaped { keys: REMARKED, ..plenty(32_768) },
            "32,768 users, whose packets get another DSCP and another priority before the scheduler",
        ),
        case::<32_768, 4>(
            "users-32k-waiting",
            waiting(),
            "32,768 users who send four packets faster than their buckets allow: three of four wait",
        ),
        case::<131_072, 4>(
            "users-128k-waiting",
            waiting(),
            "131,072 users who send four packets faster than their buckets allow: three of four wait",
        ),
        case::<32_768, 16>(
            "users-32k-flows",
            flows(),
            "32,768 users who send 16 packets of as many flows faster than their buckets allow, in one line for all flows: the pair of users-32k-fair",
        ),
        case::<32_768, 16>(
            "users-32k-fair",
            Shaped { class: "flows = \"fair\"", ..flows() },
            "the same where flows take turns (FQ-CoDel)",
        ),
        case::<32_768, 16>(
            "users-32k-l4s",
            Shaped { class: "l4s = {}", ..flows() },
            "the same in two lines (L4S): every second flow is a scalable one, and marked where it waits",
        ),
        case::<32_768, 1>(
            "users-32k-overload",
            shaped(50, "2 KiB"),
            "32,768 users who send many times what they may: most packets are dropped",
        ),
        sharing(
            "users-32k-flat-sharing",
            0,
            "32,768 users in 256 subports who share a port that is full: the pair of users-32k-tree",
        ),
        sharing("users-32k-tree", 8, "the same where the 256 subports are below 8 others, which share, too"),
    ]
}

/// Subports of those who share.
const SUBPORTS: u64 = 256;

/// 32,768 users with hardly a guarantee, in as many subports, below so many others or none; the port sends fewer packets than come.
fn sharing(name: &'static str, sites: u64, help: &'static str) -> Case {
    const USERS: u64 = 32_768;
    let each = USERS / SUBPORTS;
    let users = (0..SUBPORTS).map(|n| {
        let (outer, first) = (n * each / INNER + 1, n * each % INNER + 1);
        let last = first + each - 1;
        format!("{{ tags = \"{outer}.{first}-{last}\", profile = \"user\", subport = \"s{n}\" }}, ")
    });
    let subports = (0..SUBPORTS).map(|n| match n.checked_rem(sites) {
        Some(site) => format!("s{n} = {{ ceil = \"1 Gbit/s\", parent = \"site{site}\" }}, "),
        None => format!("s{n} = {{ ceil = \"1 Gbit/s\" }}, "),
    });
    let above = (0..sites).map(|site| format!("site{site} = {{ ceil = \"1 Gbit/s\" }}, "));
    let script = format!(
        "qos {{ from = \"in\", to = \"out\",\n  users = {{ {} }},\n  \
         scheduler = {{ rate = \"1 Gbit/s\", users = {}, buffers = 8192,\n    subports = {{ {} }},\n    \
         profiles = {{ user = {{ tb_rate = \"8 kbit/s\", tb_size = \"2 KiB\", ceil = \"1 Gbit/s\" }} }} }} }}",
        users.collect::<String>(),
        USERS + 1,
        subports.chain(above).collect::<String>(),
    );
    Case { name, help, needs: &[], script, port_keys: "", knobs: &[], prepare: |_, _, _| Ok(traffic(USERS, 1)) }
}

/// What users may send, and other keys.
struct Shaped {
    /// kbit/s.
    rate: u64,
    burst: &'static str,
    keys: &'static str,
    /// Keys of the class of all packets.
    class: &'static str,
    /// Packets that wait at most.
    buffers: u32,
}

/// A policer that every packet passes.
const POLICED: &str = "police = { user = { cir = \"1 Gbit/s\", cbs = \"1 MiB\" } },";

/// What every packet is remarked with.
const REMARKED: &str = "remark = { { from = \"cs0\", dscp = \"af41\" }, { class = 3, priority = 4 } },";

/// `USERS` who send `TIMES` packets each time that they are at it.
fn case<const USERS: u64, const TIMES: u64>(name: &'static str, shaped: Shaped, help: &'static str) -> Case {
    let (outer, inner) = (USERS.div_ceil(INNER), USERS.min(INNER));
    let Shaped { rate, burst, keys, class, buffers } = shaped;
    let script = format!(
        "qos {{ from = \"in\", to = \"out\", {keys}\n  \
         users = {{ {{ tags = \"1-{outer}.1-{inner}\", profile = \"user\" }} }},\n  \
         scheduler = {{ rate = \"40 Gbit/s\", users = {}, buffers = {buffers},\n    \
         profiles = {{ user = {{ tb_rate = \"{rate} kbit/s\", tb_size = \"{burst}\", classes = {{ {{}}, {{}}, {{}}, {{ {class} }} }} }} }} }} }}",
        USERS + 1
    );
    Case { name, help, needs: &[], script, port_keys: "", knobs: &[], prepare: |_, _, _| Ok(traffic(USERS, TIMES)) }
}

/// Frames of random users, each of whom sends so many of them, in turns with others. They are of as many flows, every second of which says that it is
/// scalable: ECT(1), which nobody looks at but a class with two lines.
fn traffic(users: u64, times: u64) -> Traffic {
    let frame = move |n: u64, bytes: &mut [u8; HEADER]| {
        let (round, turn) = (n / (IN_PLAY * times), n % IN_PLAY);
        let user = below(round * IN_PLAY + turn, users);
        let tags = [
            Vlan::new((user / INNER) as u16 + 1, 0, false, ethernet::CVLAN),
            Vlan::new((user % INNER) as u16 + 1, 0, false, ethernet::IPV4),
        ];
        let start = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xa8];
        let tags = tags.iter().flat_map(|tag| [tag.control.to_bytes(), tag.ethertype.to_bytes()].concat());
        // An IPv4 header without options, UDP.
        let flow = (n / IN_PLAY % times) as u8;
        let header = [0x45, flow % 2, 0, 38, 0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1];
        let ports = [4, flow, 4, 0];
        bytes
            .iter_mut()
            .zip(start.into_iter().chain(tags).chain(header).chain(ports))
            .for_each(|(to, from)| *to = from);
        FRAME
    };
    let check = move |bytes: &[u8]| {
        let tag = |at: usize| bytes.get(at..).and_then(Vlan::view).map_or(0, |tag| u64::from(tag.id()));
        let user = (tag(14).wrapping_sub(1)).wrapping_mul(INNER).wrapping_add(tag(18).wrapping_sub(1));
        if bytes.len() == FRAME && user < users {
            Ok(())
        } else {
            Err(format!("{} bytes came out of user {user}", bytes.len()))
        }
    };
    Traffic { frame: Box::new(frame), frames: FRAMES, check: Box::new(check) }
}

/// A number below `bound` that looks random and is the same for the same `n` (SplitMix64).
fn below(n: u64, bound: u64) -> u64 {
    let state = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((u128::from(mixed ^ (mixed >> 31)) * u128::from(bound)) >> 64) as u64
}
