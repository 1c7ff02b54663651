//! Covering and overlapping, by trying every packet: section 6.4 in a world of two fields of three bits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use weir_flow_tables::fields::{Fields, Key};
use weir_openflow::{Field, Match, Oxm};

/// Every match on three bits of the metadata, three of the tunnel, or not on them.
fn matches() -> Vec<Match> {
    let of = |field| {
        let mut all = vec![None];
        for mask in 0..8u128 {
            let values = (0..8u128).filter(move |value| value & !mask == 0);
            all.extend(values.map(|value| Some(Oxm::masked(field, value, mask))));
        }
        all
    };
    let pairs =
        of(Field::Metadata).into_iter().flat_map(|one| of(Field::TunnelId).into_iter().map(move |two| (one, two)));
    pairs.map(|(one, two)| Match::new(one.into_iter().chain(two).collect()).unwrap()).collect()
}

fn packets() -> Vec<Fields> {
    let packet = |number: u128| {
        let mut fields = Fields::default();
        fields.set(Field::Metadata, number & 7);
        fields.set(Field::TunnelId, number >> 3);
        fields
    };
    (0..64).map(packet).collect()
}

#[test]
fn every_pair_of_matches_against_every_packet() {
    let packets = packets();
    // Which packets a match lets through, as a bit each.
    let all: Vec<(Match, Key, u64)> = matches()
        .into_iter()
        .map(|matches| {
            let met = packets.iter().enumerate().filter(|(_, packet)| packet.meet(&matches));
            let bits = met.fold(0u64, |bits, (at, _)| bits | 1 << at);
            (matches.clone(), Key::of(&matches), bits)
        })
        .collect();
    assert_eq!(all.len(), 28 * 28);
    for (one, key, bits) in &all {
        for (other, other_key, other_bits) in &all {
            assert_eq!(key.covers(other_key), other_bits & !bits == 0, "{one} covers {other}");
            assert_eq!(key.overlaps(other_key), bits & other_bits != 0, "{one} overlaps {other}");
            assert_eq!(key == other_key, bits == other_bits, "{one} is {other}");
        }
    }
}
