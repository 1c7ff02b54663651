//! The stage that spreads packets over the replicas of a graph, where a device has one receive queue only.
//!
//! Packets that belong together ([`SpreadBy`]) keep to one replica, so they keep their order. What has no addresses goes to replica 0.

#![forbid(unsafe_code)]

use weir_config::{ConfigError, Schema, config};
use weir_packet::{BATCH, Batch};
use weir_stage::ownership::{Balancer, Whose};
use weir_stage::{DescribeStage, Env, Settings, SpreadBy, Stage, StageKind};
use weir_wire::spread::{self, Key};

/// Distinguishes this use of the hash from others that follow it, which would otherwise see a part of the flows only.
const SEED: u64 = 0x7765_6972_2d64_6973;

/// Says which replica packets go to.
#[derive(Debug)]
struct Spreading {
    key: Key,
    replicas: u64,
}

impl Spreading {
    #[inline(always)]
    fn by(&self, key: Key, batch: &Batch, owners: &mut [u8; BATCH]) {
        let replicas = self.replicas;
        // Inlined, so that the compiler knows the key.
        batch.each_ref(
            #[inline(always)]
            |slot, packet| {
                let hash = spread::hash(key, packet.window(0), packet.len(), SEED).unwrap_or(0);
                // The high part of the product is uniform below `replicas` when the hash is uniform (Lemire 2016).
                owners[slot.index()] = ((u64::from(hash) * replicas) >> 32) as u8;
            },
        );
    }

    /// Not part of the loop that is usual.
    #[inline(never)]
    fn by_other(&self, batch: &Batch, owners: &mut [u8; BATCH]) {
        self.by(self.key, batch, owners);
    }
}

impl Whose for Spreading {
    fn owners(&mut self, batch: &Batch, owners: &mut [u8; BATCH]) {
        match self.key {
            Key::Flow => self.by(Key::Flow, batch, owners),
            _ => self.by_other(batch, owners),
        }
    }
}

/// The stage before so many replicas, at least 1: its ways are `replica[0]` and so on.
pub fn distributor(by: SpreadBy, replicas: u8) -> Box<dyn Stage> {
    Box::new(stage(by, replicas))
}

fn stage(by: SpreadBy, replicas: u8) -> Balancer<Spreading> {
    let key = match by {
        SpreadBy::Flow => Key::Flow,
        SpreadBy::Addresses => Key::Addresses,
        SpreadBy::Source => Key::Source,
        SpreadBy::Destination => Key::Destination,
        SpreadBy::Tags => Key::Tags,
        SpreadBy::GreKey => Key::GreKey,
        SpreadBy::Inner => Key::Inner,
    };
    let replicas = replicas.max(1);
    Balancer::new(Spreading { key, replicas: replicas.into() }, ("replica", replicas), &[])
}

config! {
    /// Spreads packets over `replica[0]`, `replica[1]` and so on, looking past up to two VLAN tags, labels of MPLS, and PPPoE. What is neither IPv4
    /// nor IPv6 leaves by `replica[0]`.
    pub struct SpreadConfig {
        /// How many ways there are.
        pub replicas: u8 = required, rebuild, range(1..=64);
        /// What packets have in common that leave by the same way.
        pub by: SpreadBy = default(SpreadBy::Flow), rebuild;
    }
}

/// The kind of stage `spread`, for configurations that wire stages by hand.
#[derive(Debug)]
pub struct Spread;

impl StageKind for Spread {
    fn kind(&self) -> &'static str {
        "spread"
    }

    fn schema(&self) -> Schema {
        SpreadConfig::schema()
    }

    fn describe(&self, settings: &Settings<'_>, _env: &Env<'_>) -> Result<Box<dyn DescribeStage>, Vec<ConfigError>> {
        let SpreadConfig { replicas, by } = settings.read()?;
        Ok(Box::new(move || distributor(by, replicas)))
    }
}

#[cfg(test)]
mod tests {
    use weir_stage::harness::Harness;

    use super::*;

    /// A UDP packet of flow `n`: IPv4 or IPv6, behind these tags.
    fn frame(n: u16, six: bool, tags: &[u16]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        for tag in tags {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 7]);
        }
        frame.extend(if six { [0x86, 0xdd] } else { [0x08, 0x00] });
        if six {
            frame.extend([0x60, 0, 0, 0, 0, 8, 17, 64]);
            frame.extend([0x20; 32]);
        } else {
            frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
            frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        }
        frame.extend(n.to_be_bytes());
        frame.extend([0; 20]);
        frame
    }

    #[test]
    fn flows_are_spread_evenly_and_stick() {
        let tags: [&[u16]; 5] = [&[], &[0x8100], &[0x88a8, 0x8100], &[0x9100, 0x8100], &[0x8100, 0x8100]];
        for (six, tags) in [false, true].into_iter().flat_map(|six| tags.map(|tags| (six, tags))) {
            let mut harness = Harness::new(stage(SpreadBy::Flow, 3));
            let mut counts = [0_usize; 3];
            for n in 0..3000 {
                let same = vec![frame(n, six, tags); 4];
                let outcome = harness.run(0, &same);
                let (way, packets) = outcome.ways.first_key_value().unwrap();
                assert_eq!(packets.len(), 4, "a flow was split");
                counts[way.strip_prefix("replica[").unwrap().trim_end_matches(']').parse::<usize>().unwrap()] += 1;
            }
            // 1,000 expected each; 120 is more than four standard deviations of a fair draw.
            assert!(counts.iter().all(|count| count.abs_diff(1000) < 120), "{six} {tags:?}: {counts:?}");
        }
    }

    /// A way of spreading: what frames differ in that it tells apart, and in what it does not.
    type Case = (SpreadBy, fn(u16) -> Vec<u8>, fn(u16) -> Vec<u8>);

    /// A frame with these bytes from its addresses on, IPv4 behind no tags.
    fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut frame = frame(0, false, &[]);
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    }

    fn tagged(n: u16) -> Vec<u8> {
        let mut frame = frame(0, true, &[0x8100]);
        frame[14..16].copy_from_slice(&n.to_be_bytes());
        frame
    }

    /// A packet with another, of flow `n`, in a GRE tunnel with a key.
    fn tunnelled(key: u16, n: u16) -> Vec<u8> {
        let mut outer = frame(0, false, &[])[..34].to_vec();
        outer[16..18].copy_from_slice(&62_u16.to_be_bytes());
        outer[23] = 47;
        outer.extend([0x20, 0, 8, 0, 0, 0]);
        outer.extend(key.to_be_bytes());
        outer.extend(&frame(n, false, &[])[14..]);
        outer
    }

    #[test]
    fn what_is_spread_by_is_what_was_asked_for() {
        const SOURCE: usize = 14 + 12;
        const DESTINATION: usize = 14 + 16;
        let cases: [Case; 7] = [
            (SpreadBy::Flow, |n| frame(n, true, &[]), |n| with(14 + 4, &n.to_be_bytes())),
            (SpreadBy::Addresses, |n| with(SOURCE + 2, &n.to_be_bytes()), |n| frame(n, false, &[])),
            (SpreadBy::Source, |n| with(SOURCE + 2, &n.to_be_bytes()), |n| with(DESTINATION + 2, &n.to_be_bytes())),
            (
                SpreadBy::Destination,
                |n| with(DESTINATION + 2, &n.to_be_bytes()),
                |n| with(SOURCE + 2, &n.to_be_bytes()),
            ),
            (SpreadBy::Tags, tagged, |n| frame(n, false, &[0x8100])),
            (SpreadBy::GreKey, |n| tunnelled(n, 0), |n| tunnelled(0, n)),
            (SpreadBy::Inner, |n| tunnelled(0, n), |n| tunnelled(n, 0)),
        ];
        for (by, apart, together) in cases {
            let mut harness = Harness::new(stage(by, 4));
            let mut ways = |make: fn(u16) -> Vec<u8>| {
                let frames: Vec<Vec<u8>> = (0..64).map(make).collect();
                harness.run(0, &frames).ways.into_keys().collect::<Vec<String>>()
            };
            assert_eq!(ways(apart), ["replica[0]", "replica[1]", "replica[2]", "replica[3]"], "{by}");
            assert_eq!(ways(together).len(), 1, "{by}");
        }
    }

    #[test]
    fn what_is_no_ip_packet_goes_to_the_first_replica() {
        for len in 0..60 {
            let mut other = vec![0xff; 60];
            other.truncate(len);
            assert_eq!(Harness::new(stage(SpreadBy::Flow, 2)).run(0, &[other]).way("replica[0]").len(), 1);
        }
        for n in 0..100 {
            let three_tags = frame(n, false, &[0x8100; 3]);
            assert_eq!(Harness::new(stage(SpreadBy::Flow, 2)).run(0, &[three_tags]).way("replica[0]").len(), 1);
        }
    }
}
