//! Stage `forward.PORT` with `swap_macs`: exchanges the source and destination of the Ethernet header.

use weir_packet::{Batch, Packet};
use weir_stage::{Declaration, Out, Stage};

weir_stage::ways! {
    /// Ways out of [`Swap`].
    pub enum Exit {
        /// Passed on with its addresses exchanged.
        Out => way "out",
        /// Shorter than an Ethernet header (IEEE 802.3 clause 3.1.1).
        Short => drop "short",
    }
}

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Exchanges the source and destination MAC addresses, so that a packet goes back to where it came from.
#[derive(Debug, Default)]
pub struct Swap;

impl Stage for Swap {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        out.each(batch, |_, packet, _| step(packet));
    }
}

fn step(packet: &mut Packet) -> Exit {
    if packet.len() < ETHERNET {
        return Exit::Short;
    }
    let (destination, source) = packet.window_mut::<12>(0).split_at_mut(6);
    destination.swap_with_slice(source);
    Exit::Out
}

#[cfg(test)]
mod tests {
    use weir_stage::harness::Harness;

    use super::*;

    #[test]
    fn addresses_are_exchanged_and_nothing_else() {
        let frame: Vec<u8> = (0..60).collect();
        let outcome = Harness::new(Swap).run(0, &[&frame]);
        let [swapped] = outcome.way("out") else { panic!("{outcome:?}") };
        assert_eq!(swapped[..6], frame[6..12]);
        assert_eq!(swapped[6..12], frame[..6]);
        assert_eq!(swapped[12..], frame[12..]);
    }

    #[test]
    fn what_has_no_ethernet_header_is_dropped_by_name() {
        for len in 0..20 {
            let outcome = Harness::new(Swap).run(0, &[vec![1; len]]);
            let expected = if len < 14 { "short" } else { "out" };
            assert_eq!(outcome.way(expected).len(), 1, "{len} bytes");
        }
    }
}
