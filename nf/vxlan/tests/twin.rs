//! Tunnels against a slow twin that follows RFC 7348 byte by byte: whatever a packet says, both do the same with it.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::net::IpAddr;

use proptest::prelude::*;

use crate::common::{Outer, Rig, WAN, frame, plain, usual};

/// What is said of each tunnel: own end, other end, VNI, whether tags are fine.
const TUNNELS: [(&str, &str, u32, bool); 3] = [
    ("192.0.2.1", "192.0.2.9", 100, false),
    ("192.0.2.1", "198.51.100.7", 0x00ab_cdef, true),
    ("2001:db8::1", "2001:db8:9::9", 100, false),
];

/// The tunnel by whose port the frame comes out, or the name of the drop.
fn twin(outer: &Outer, frame: &[u8]) -> Result<usize, &'static str> {
    if outer.flags_offset & 0x2000 != 0 && outer.from.is_ipv4() {
        return Err("vxlan-fragment");
    }
    if outer.checksum == Some(false) {
        return Err("vxlan-checksum");
    }
    // "the I flag MUST be set to 1 for a valid VXLAN Network ID (VNI)"
    if outer.flags & 8 == 0 {
        return Err("vxlan-no-vni");
    }
    let parsed = |text: &str| text.parse::<IpAddr>().unwrap();
    if TUNNELS.iter().all(|(_, _, vni, _)| *vni != outer.vni) {
        return Err("vxlan-unknown-vni");
    }
    let is = |&(source, remote, vni, _): &(&str, &str, u32, bool)| {
        (parsed(source), parsed(remote), vni) == (outer.to, outer.from, outer.vni)
    };
    let tunnel = TUNNELS.iter().position(is).ok_or("vxlan-unknown-peer")?;
    if frame.len() < 14 {
        return Err("vxlan-inner-too-short");
    }
    // "decapsulated VXLAN frames with the inner VLAN tag SHOULD be discarded unless configured otherwise"
    if frame[12..14] == [0x81, 0] && !TUNNELS[tunnel].3 {
        return Err("vxlan-inner-tagged");
    }
    Ok(tunnel)
}

prop_compose! {
    fn came()(
        tunnel in 0..3_usize,
        other in prop::option::weighted(0.2, 0..3_usize),
        stranger in prop::bool::weighted(0.1),
        vni in prop_oneof![4 => Just(None), 1 => (1..200_u32).prop_map(Some)],
        checksum in prop_oneof![3 => Just(None), 3 => Just(Some(true)), 1 => Just(Some(false))],
        flags in prop_oneof![3 => Just(8_u8), 1 => any::<u8>()],
        reserved in any::<[u8; 4]>(),
        port in any::<u16>(),
        fragment in prop::bool::weighted(0.05),
        length in prop_oneof![4 => 14..200_usize, 1 => 0..14_usize],
        tagged in prop::bool::weighted(0.2),
        ip in any::<bool>(),
    ) -> (Outer, Vec<u8>) {
        let (to, from, number, _) = TUNNELS[tunnel];
        let mut outer = Outer::from(from, to, number);
        if let Some(other) = other {
            outer.vni = TUNNELS[other].2;
        }
        if stranger {
            outer.from = if outer.from.is_ipv4() { "203.0.113.5" } else { "2001:db8:5::5" }.parse().unwrap();
        }
        outer.vni = vni.unwrap_or(outer.vni);
        outer.flags_offset = if fragment { 0x2000 } else { 0 };
        let mut inner = if ip { frame(&[0x45; 186]) } else { plain(200) };
        if tagged {
            inner.splice(12..12, [0x81, 0, 0, 7]);
        }
        inner.truncate(length);
        (Outer { checksum, flags, reserved, port, ..outer }, inner)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn both_do_the_same(all in prop::collection::vec(came(), 64)) {
        let mut rig = Rig::new(&usual());
        let mut expected: [Vec<Vec<u8>>; 4] = Default::default();
        let mut drops = std::collections::BTreeMap::new();
        for (outer, inner) in &all {
            match twin(outer, inner) {
                Ok(tunnel) => expected[tunnel + 1].push(inner.clone()),
                Err(reason) => *drops.entry(format!("vxlan.decap/{reason}")).or_default() += 1,
            }
        }
        let got = rig.pass(WAN, all.iter().map(|(outer, inner)| outer.framed(inner)).collect());
        prop_assert_eq!(got, expected);
        prop_assert_eq!(rig.drops(), drops);
        rig.finish();
    }
}
