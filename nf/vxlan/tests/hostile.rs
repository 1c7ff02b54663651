//! Packets that nobody meant: right ones with bits, bytes and lengths changed. Nothing may panic, and every packet is accounted for.

use proptest::prelude::*;

use crate::common::{BLUE, Outer, RED, Rig, SIX, WAN, frame, plain, usual};

fn seeds() -> Vec<(usize, Vec<u8>)> {
    let mut udp = vec![0x45, 2, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    udp.extend([0, 9, 0, 53, 0, 8, 0, 0]);
    let inside = frame(&udp);
    let tagged = [&plain(14)[..12], &[0x81, 0, 0, 7, 0x88, 0xa8, 0, 9], &inside[12..]].concat();
    let six = frame(&[&[0x60, 0, 0, 0, 0, 0, 59, 64][..], &[9; 32]].concat());
    let outer = |outer: Outer, frame: &[u8]| (WAN, Outer { class: 3, ..outer }.framed(frame));
    let mut hops = Outer::six().framed(&six);
    // A destination option in front of the datagram.
    hops[14 + 6] = 60;
    hops.splice(54..54, [17, 0, 1, 4, 0, 0, 0, 0]);
    hops[14 + 5] += 8;
    vec![
        outer(Outer::red(), &inside),
        outer(Outer { checksum: Some(true), ..Outer::red() }, &inside),
        outer(Outer::blue(), &tagged),
        outer(Outer::six(), &six),
        (WAN, hops),
        (RED, inside),
        (BLUE, tagged),
        (SIX, six),
    ]
}

prop_compose! {
    pub fn mutated()(
        seed in 0..8_usize,
        changes in prop::collection::vec((0..120_usize, any::<u8>()), 0..4),
        length in prop::option::weighted(0.2, 0..1600_usize),
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
        if heals && port == WAN {
            _ = frame.get_mut(14..).is_some_and(weir_wire::ipv4::write_checksum);
        }
        (port, frame)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn whatever_comes_is_accounted_for(frames in prop::collection::vec(mutated(), 200)) {
        let mut rig = Rig::new(&usual());
        for (port, frame) in frames {
            rig.pass(port, vec![frame]);
        }
        rig.drops();
        weir_rig::run(&mut rig.engine, 61 * weir_rig::SECOND);
        rig.finish();
    }
}
