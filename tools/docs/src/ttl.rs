//! The stage of the README: takes one hop off the TTL.

use weir_packet::{Batch, Packet};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::{Ipv4, View};

weir_stage::ways! {
    /// Ways out of [`Ttl`].
    pub enum Way {
        /// Has one hop less to live.
        Forward => way "out",
        /// Arrived with a TTL of 0 or 1.
        Expired => drop "ttl-expired",
        /// Too short for an Ethernet and an IPv4 header.
        Short => drop "short",
    }
}

/// Takes one hop off the TTL of IPv4 packets (RFC 1812 section 5.3.1).
pub struct Ttl;

impl Stage for Ttl {
    fn declare(&self) -> Declaration {
        Declaration::of::<Way>()
    }
    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        out.each(batch, |_, packet, _| step(packet));
    }
}

fn step(packet: &mut Packet) -> Way {
    let Some(ip) = packet.bytes_mut().get_mut(14..).and_then(Ipv4::view_mut) else { return Way::Short };
    if ip.ttl <= 1 {
        return Way::Expired;
    }
    ip.decrement_ttl();
    Way::Forward
}

#[cfg(test)]
mod tests {
    use weir_stage::harness::Harness;
    use weir_wire::ipv4;

    use super::*;

    /// An IPv4 header behind an Ethernet header, with a right checksum.
    fn frame(ttl: u8) -> Vec<u8> {
        let mut frame = vec![0; 34];
        frame[14] = 0x45;
        frame[17] = 20;
        frame[22] = ttl;
        ipv4::write_checksum(&mut frame[14..]);
        frame
    }

    #[test]
    fn each_packet_leaves_by_a_named_way() {
        let packets = [frame(64), frame(1), frame(0), vec![0; 33]];
        let outcome = Harness::new(Ttl).run(0, &packets);
        assert_eq!(outcome.way("out"), [frame(63)]);
        assert_eq!(outcome.way("ttl-expired").len(), 2);
        assert_eq!(outcome.way("short").len(), 1);
    }
}
