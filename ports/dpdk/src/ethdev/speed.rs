//! How fast links are, as drivers tell it.

use weir_dpdk_sys as sys;
use weir_stage::LinkSpeed;

use super::Ethdev;

/// Speeds in Mbit/s by the bits that DPDK has for them (`RTE_ETH_LINK_SPEED_`), from the second on; the first says that speeds are not negotiated.
const SPEEDS: [u32; 16] =
    [10, 10, 100, 100, 1_000, 2_500, 5_000, 10_000, 20_000, 25_000, 40_000, 50_000, 56_000, 100_000, 200_000, 400_000];

/// The highest of such speeds; 0 if there is none that is known.
pub(super) fn highest(bits: u32) -> u32 {
    let said = SPEEDS.into_iter().zip(1..).filter(|(_, bit)| bits >> bit & 1 == 1);
    said.map(|(speed, _)| speed).max().unwrap_or(0)
}

impl Ethdev {
    /// How fast the link is, as the driver sees it, of a device that can do so many Mbit/s.
    pub(crate) fn speed(&self, most: u32) -> LinkSpeed {
        let (mut now, mut bits) = (0, 0);
        // SAFETY: a port that exists, room for both numbers.
        let rc = unsafe { sys::weir_link_speed(self.port, &raw mut now, &raw mut bits) };
        let has = |bit| rc == 0 && now > 0 && bits & bit != 0;
        LinkSpeed {
            now,
            most: most.max(now),
            half_duplex: has(sys::WEIR_LINK_HALF_DUPLEX),
            negotiated: has(sys::WEIR_LINK_NEGOTIATED),
            // DPDK tells no medium.
            medium: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `rte_ethdev.h`: the first bit is no speed, those of 10 and 100 Mbit/s are there for half duplex, too.
    #[test]
    fn the_highest_speed_is_the_most() {
        let cases =
            [(0, 0), (1, 0), (1 << 1, 10), (1 << 3 | 1 << 2, 100), (1 << 5 | 1 << 4, 1_000), (1 << 8 | 1 << 5, 10_000)];
        let all = [(1 << 11, 40_000), (1 << 14 | 1 << 13, 100_000), (u32::MAX, 400_000), (1 << 31, 0)];
        for (bits, most) in cases.into_iter().chain(all) {
            assert_eq!(highest(bits), most, "{bits:#x}");
        }
    }
}
