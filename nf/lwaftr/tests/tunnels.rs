//! What is asked of tunnels before anything comes out of them, and what they leave on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use common::{ACCESS, AFTR, B4, HOST, INTERNET, Rig, four, six, udp, up, usual};

#[test]
fn both_ends_and_the_port_must_be_the_softwire_s() {
    let mut rig = Rig::new(usual());
    let good = [(B4, AFTR, 4096), (B4, AFTR, 8191), ("2001:db8:c::2", "2001:db8:a::2", 8192)];
    for (b4, aftr, port) in good {
        assert_eq!(rig.pass(ACCESS, &[up(b4, aftr, port)])[INTERNET].len(), 1, "{b4} {aftr} {port}");
    }
    let bad = [
        (B4, AFTR, 4095),
        (B4, AFTR, 8192),
        (B4, "2001:db8:a::2", 5000),
        ("2001:db8:c::2", AFTR, 8192),
        ("2001:db8:c::9", AFTR, 5000),
        ("2001:db8:c::1234", AFTR, 5000),
    ];
    for (b4, aftr, port) in bad {
        let [plain, told] = rig.pass(ACCESS, &[up(b4, aftr, port)]);
        assert_eq!((plain.len(), told.len()), (0, 1), "{b4} {aftr} {port}");
        // ICMPv6 1/5 to the B4.
        assert_eq!(&told[0][54..56], &[1, 5]);
    }
    assert_eq!(rig.drops()["lwaftr.relay/no-softwire-ipv6"], 6);
    // What only looks as if there were IPv4 in it.
    for protocol in [0, 5, 17, 41, 47, 59, 255] {
        let inside = four("203.0.113.1", HOST, 17, 64, &udp(5000, 53, 30));
        assert!(rig.pass(ACCESS, &[six(B4, AFTR, protocol, 64, &inside)])[INTERNET].is_empty(), "{protocol}");
    }
    rig.finish();
}

/// RFC 6040 figure 4, for each pair of marks: columns are what arrives outside, Not-ECT, ECT(0), ECT(1) and CE; rows the same inside.
#[test]
fn the_congestion_that_a_tunnel_met_goes_on() {
    const MARKS: [u8; 4] = [0, 2, 1, 3];
    const LEAVES: [[Option<u8>; 4]; 4] = [
        [Some(0), Some(0), Some(0), None],
        [Some(2), Some(2), Some(1), Some(3)],
        [Some(1), Some(1), Some(1), Some(3)],
        [Some(3), Some(3), Some(3), Some(3)],
    ];
    for mut rig in [Rig::new(usual()), Rig::by_the_letter(usual())] {
        for (inside, row) in MARKS.into_iter().zip(LEAVES) {
            for (outside, leaves) in MARKS.into_iter().zip(row) {
                let mut inner = four("203.0.113.1", HOST, 17, 64, &udp(5000, 53, 30));
                inner[1] = 0x28 | inside;
                weir_wire::ipv4::write_checksum(&mut inner);
                let mut packet = six(B4, AFTR, 4, 64, &inner);
                packet[1] = outside << 4;
                let [plain, _] = rig.pass(ACCESS, &[packet]);
                let left: Vec<u8> = plain.iter().map(|frame| frame[15]).collect();
                assert_eq!(left, leaves.map(|mark| 0x28 | mark).into_iter().collect::<Vec<u8>>(), "{inside} {outside}");
            }
        }
        rig.finish();
    }
}
