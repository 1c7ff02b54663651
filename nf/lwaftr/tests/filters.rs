//! Filters of what leaves.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common;

use common::{ACCESS, AFTR, B4, HOST, INTERNET, Rig, four, six, udp, usual};
use serde_json::json;

fn up(b4: &str, aftr: &str, port: u16) -> Vec<u8> {
    six(b4, aftr, 4, 64, &four("203.0.113.1", HOST, 17, 64, &udp(port, 53, 30)))
}

/// What egress filters look at is the packet that would leave, with the addresses of no stations and no tags in front of it; by the fast way and by the
/// letter alike.
#[test]
fn what_leaves_has_to_match() {
    let config = |four: &str, six: &str| {
        let mut config = usual();
        config["ipv4"] = json!({ "egress_filter": four });
        config["ipv6"] = json!({ "egress_filter": six });
        config
    };
    let nobody = "ether src 00:00:00:00:00:00 and ether dst 00:00:00:00:00:00";
    let tunnel = format!("{nobody} and ip6 dst {B4} and len == 112");
    let plain = format!("{nobody} and udp src port 4096 and len == 72");
    // What comes out, of three packets each way of which one matches.
    let into: Vec<Vec<u8>> = [(5000, 30), (8192, 30), (5000, 31)]
        .iter()
        .map(|(port, bytes)| four(HOST, "203.0.113.1", 17, 64, &udp(53, *port, *bytes)))
        .collect();
    let out_of = [up(B4, AFTR, 4096), up(B4, AFTR, 4097), up("2001:db8:c::2", "2001:db8:a::2", 8192)];
    for mut rig in [Rig::new(config(&plain, &tunnel)), Rig::by_the_letter(config(&plain, &tunnel))] {
        let tunneled = &rig.pass(INTERNET, &into)[ACCESS];
        assert_eq!(tunneled.iter().map(Vec::len).collect::<Vec<_>>(), [14 + 40 + 58]);
        let left = &rig.pass(ACCESS, &out_of)[INTERNET];
        assert_eq!(left.iter().map(|frame| frame[34..36].to_vec()).collect::<Vec<_>>(), [[0x10, 0]]);
        // From customer to customer there is nothing that leaves as IPv4.
        let hairpin = |to: &str, port| six(B4, AFTR, 4, 64, &four("203.0.113.1", to, 17, 64, &udp(5000, port, 30)));
        assert_eq!(rig.pass(ACCESS, &[hairpin("203.0.113.1", 4500)])[ACCESS].len(), 1);
        assert_eq!(rig.pass(ACCESS, &[hairpin("203.0.113.9", 4500)])[ACCESS].len(), 0);
        let (drops, counts) = (rig.drops(), rig.counts());
        assert_eq!((drops["lwaftr.relay/filtered-out-ipv6"], drops["lwaftr.relay/filtered-out-ipv4"]), (3, 2));
        // 72 + 40 bytes, and once one more; and of hairpins 72 + 40 as well.
        let filtered = ["drop-out-filter-ipv6", "drop-out-filter-ipv4"]
            .map(|name| (counts[&format!("{name}-packets")], counts[&format!("{name}-bytes")]));
        assert_eq!(filtered, [(3, 112 + 113 + 112), (2, 72 + 72)]);
        assert_eq!((counts["drop-all-ipv4-iface-packets"], counts["drop-all-ipv6-iface-packets"]), (2, 3));
        rig.finish();
    }
}
