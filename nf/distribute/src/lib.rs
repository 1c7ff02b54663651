//! Stage `distribute`: spreads flows over the replicas of a graph, where a device has one receive queue only.
//!
//! A flow keeps to one replica, so its packets keep their order. What is not IPv4 goes to replica 0.

#![forbid(unsafe_code)]

use weir_config::{ConfigError, Schema, config};
use weir_packet::{Batch, Packet};
use weir_stage::{Declaration, Env, MakeStage, Out, Settings, Stage, StageKind};
use weir_wire::flow;

weir_stage::ways! {
    /// Ways out of [`Distribute`], beside `replica[n]`.
    pub enum Exit {
        /// To the first replica.
        First => way "first",
    }
}

/// Distinguishes this use of the flow hash from others that follow it, which would otherwise see a part of the flows only.
const SEED: u64 = 0x7765_6972_2d64_6973;

/// Bytes of an Ethernet header without tags, and the type of IPv4 in it.
const ETHERNET: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];

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
    /// Spreads flows over `replica[0]`, `replica[1]` and so on, by a hash of their addresses, protocol and ports. What is not
    /// IPv4 leaves by `replica[0]`.
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

    fn build(&self, settings: &Settings<'_>, _env: &Env<'_>) -> Result<Box<dyn MakeStage>, Vec<ConfigError>> {
        let SpreadConfig { replicas } = settings.read()?;
        Ok(Box::new(move || Box::new(Distribute::new(replicas)) as Box<dyn Stage>))
    }
}

fn hash_of(packet: &Packet) -> u32 {
    let ethernet = packet.window::<ETHERNET>(0);
    if packet.len() < ETHERNET || !ethernet.ends_with(&IPV4) {
        return 0;
    }
    flow::hash(packet.window::<64>(ETHERNET), packet.len() - ETHERNET, SEED)
}

#[cfg(test)]
mod tests {
    use weir_stage::harness::Harness;

    use super::*;

    /// A UDP packet of flow `n`.
    fn frame(n: u16) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&IPV4);
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&46_u16.to_be_bytes());
        frame[22..24].copy_from_slice(&[64, 17]);
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[34..36].copy_from_slice(&n.to_be_bytes());
        frame
    }

    #[test]
    fn flows_are_spread_evenly_and_stick() {
        let mut harness = Harness::new(Distribute::new(3));
        let mut counts = [0_usize; 3];
        for n in 0..3000 {
            let same = vec![frame(n); 4];
            let outcome = harness.run(0, &same);
            let (way, packets) = outcome.ways.first_key_value().unwrap();
            assert_eq!(packets.len(), 4, "a flow was split");
            counts[way.strip_prefix("replica[").unwrap().trim_end_matches(']').parse::<usize>().unwrap()] += 1;
        }
        // 1,000 expected each; 120 is more than four standard deviations of a fair draw.
        assert!(counts.iter().all(|count| count.abs_diff(1000) < 120), "{counts:?}");
    }

    #[test]
    fn what_is_not_ipv4_goes_to_the_first_replica() {
        for len in 0..60 {
            let mut other = vec![0xff; 60];
            other.truncate(len);
            assert_eq!(Harness::new(Distribute::new(2)).run(0, &[other]).way("replica[0]").len(), 1);
        }
    }
}
