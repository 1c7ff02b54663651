//! Stage `distribute`: spreads flows over the replicas of a graph, where a device has one receive queue only.
//!
//! A flow keeps to one replica, so its packets keep their order. What is neither IPv4 nor IPv6, behind up to two tags, goes to
//! replica 0.

#![forbid(unsafe_code)]

use weir_config::{ConfigError, Schema, config};
use weir_packet::{Batch, Packet};
use weir_stage::{Declaration, DescribeStage, Env, Out, Settings, Stage, StageKind};
use weir_wire::{ethernet, flow};

weir_stage::ways! {
    /// Ways out of [`Distribute`], beside `replica[n]`.
    pub enum Exit {
        /// To the first replica.
        First => way "first",
    }
}

/// Distinguishes this use of the flow hash from others that follow it, which would otherwise see a part of the flows only.
const SEED: u64 = 0x7765_6972_2d64_6973;

/// Bytes of an Ethernet header without tags, and of a tag.
const ETHERNET: usize = 14;
const TAG: usize = 4;

/// Tags that are looked past.
const TAGS: usize = 2;

/// Spreads flows over replicas by a hash of their addresses, protocol and ports.
#[derive(Debug)]
pub struct Distribute {
    replicas: u8,
}

impl Distribute {
    /// For so many replicas, at least 1.
    pub fn new(replicas: u8) -> Distribute {
        Distribute { replicas: replicas.max(1) }
    }
}

impl Stage for Distribute {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().indexed("replica", usize::from(self.replicas))
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let replicas = u64::from(self.replicas);
        batch.each(|slot, packet, _| {
            let hash = hash_of(packet);
            // The high part of the product is uniform below `replicas` when the hash is uniform (Lemire 2016).
            let replica = (u64::from(hash) * replicas) >> 32;
            out.answer_indexed(slot, replica as u8);
        });
    }
}

config! {
    /// Spreads flows over `replica[0]`, `replica[1]` and so on, by a hash of their addresses, protocol and ports, in IPv6 of the flow label,
    /// too, behind up to two VLAN tags. What is neither IPv4 nor IPv6 leaves by `replica[0]`.
    pub struct SpreadConfig {
        /// How many ways there are.
        pub replicas: u8 = required, rebuild, range(1..=64);
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
        let SpreadConfig { replicas } = settings.read()?;
        Ok(Box::new(move || Box::new(Distribute::new(replicas)) as Box<dyn Stage>))
    }
}

fn hash_of(packet: &Packet) -> u32 {
    let mut at = ETHERNET;
    for _ in 0..=TAGS {
        if packet.len() < at {
            return 0;
        }
        // The type stands right in front of what it is the type of.
        match u16::from_be_bytes(*packet.window::<2>(at - 2)) {
            ethernet::IPV4 => return flow::hash(packet.window::<64>(at), packet.len() - at, SEED),
            ethernet::IPV6 => return flow::hash6(packet.window::<64>(at), packet.len() - at, SEED),
            ethernet::CVLAN | ethernet::SVLAN | ethernet::OLD_SVLAN => at += TAG,
            _ => return 0,
        }
    }
    0
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
            let mut harness = Harness::new(Distribute::new(3));
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

    #[test]
    fn what_is_no_ip_packet_goes_to_the_first_replica() {
        for len in 0..60 {
            let mut other = vec![0xff; 60];
            other.truncate(len);
            assert_eq!(Harness::new(Distribute::new(2)).run(0, &[other]).way("replica[0]").len(), 1);
        }
        for n in 0..100 {
            let three_tags = frame(n, false, &[0x8100; 3]);
            assert_eq!(Harness::new(Distribute::new(2)).run(0, &[three_tags]).way("replica[0]").len(), 1);
        }
    }
}
