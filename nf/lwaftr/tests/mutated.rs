//! Frames that nobody meant: right ones with bits, bytes and lengths changed. Nothing may panic, and every packet is accounted for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use common::{ACCESS, AFTR, B4, INTERNET, Rig, SECOND, four, framed, six, two, udp, usual};
use proptest::prelude::*;
use serde_json::json;

/// Right frames of each kind, with the port that they come by.
fn seeds() -> Vec<(usize, Vec<u8>)> {
    let host = "198.51.100.3";
    let inside = four("203.0.113.1", host, 17, 64, &udp(5000, 53, 40));
    let hairpin = four("203.0.113.1", "203.0.113.9", 17, 1, &udp(5000, 53, 40));
    let mut fragment = four(host, "203.0.113.1", 17, 64, &udp(53, 5000, 40));
    fragment[6] = 0x20;
    weir_wire::ipv4::write_checksum(&mut fragment);
    let mut quoted = vec![3, 1, 0, 0, 0, 0, 0, 0];
    quoted.extend(four("203.0.113.1", host, 17, 64, &udp(5000, 53, 0)));
    let sum = weir_wire::checksum::checksum(&quoted);
    quoted[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut told = vec![2, 0, 0, 0, 0, 0, 5, 0];
    told.extend(six(AFTR, B4, 4, 60, &four(host, "203.0.113.1", 17, 60, &udp(53, 5000, 8))));
    let mut told = six("2001:db8:7::7", AFTR, 58, 60, &told);
    let length = (told.len() - 40) as u16;
    let sum = weir_wire::checksum::Sum::new().bytes(&told[8..40]).word(length).word(58).bytes(&told[40..]).checksum();
    told[42..44].copy_from_slice(&sum.to_be_bytes());
    let mut cut = vec![4, 0, 0, 1, 0, 0, 0, 9];
    cut.extend(&inside[..64]);
    let mut syn = udp(53, 5000, 16);
    syn.splice(4..24, [0, 0, 0, 1, 0, 0, 0, 0, 0x60, 2, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 5, 0xb4]);
    let packets = [
        (INTERNET, four(host, "203.0.113.1", 17, 64, &udp(53, 5000, 40))),
        (INTERNET, four(host, "203.0.113.1", 6, 64, &syn)),
        (INTERNET, four(host, "203.0.113.9", 47, 64, &[0; 20])),
        (INTERNET, four(host, "203.0.113.1", 1, 64, &quoted)),
        (INTERNET, fragment.clone()),
        (ACCESS, six(B4, AFTR, 4, 64, &inside)),
        (ACCESS, six(B4, AFTR, 4, 64, &hairpin)),
        (ACCESS, six(B4, AFTR, 4, 64, &fragment)),
        (ACCESS, six(B4, AFTR, 44, 64, &cut)),
        (ACCESS, told),
    ];
    packets.into_iter().map(|(port, packet)| (port, framed(port, &packet))).collect()
}

prop_compose! {
    fn mutated()(
        seed in 0..10_usize,
        changes in prop::collection::vec((12..120_usize, any::<u8>()), 0..4),
        length in prop::option::weighted(0.2, 14..160_usize),
        heals in any::<bool>(),
    ) -> (usize, Vec<u8>) {
        let (port, mut frame) = seeds().swap_remove(seed);
        for (at, byte) in changes {
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        if let Some(length) = length {
            frame.resize(length, 0xa5);
        }
        // What is wrong with a header's checksum would hide all else.
        if heals {
            let at = if port == ACCESS { 54 } else { 14 };
            _ = frame.get_mut(at..).is_some_and(weir_wire::ipv4::write_checksum);
        }
        (port, frame)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn whatever_comes_is_accounted_for(
        frames in prop::collection::vec(mutated(), 200),
        options in any::<bool>(),
        workers in prop_oneof![Just(1), Just(3)],
    ) {
        let mut config = usual();
        if options {
            config["mss"] = json!(1200);
            config["prefixes"] = json!(["0.0.0.0/0", "::/0"]);
            config["ipv6"] = json!({ "mtu": 1280, "egress_filter": "ip6" });
            config["ipv4"] = json!({ "mtu": 68, "reassembly": { "fragments": 16 } });
        }
        let mut rig = Rig::on(workers, &two(), Vec::new(), config);
        for (port, frame) in frames {
            rig.handles[port].send(frame);
        }
        rig.settle();
        rig.account();
        rig.run(61 * SECOND);
        rig.finish();
    }
}
