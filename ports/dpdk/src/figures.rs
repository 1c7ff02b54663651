//! Which of DPDK's counters mean something, driver by driver: a counter that a driver never touches is
//! not a zero, it is unknown.

use weir_dpdk_sys::rte_eth_stats;
use weir_stage::DeviceStats;

/// What a driver counts.
struct Counts {
    driver: &'static str,
    missed: bool,
    no_buffer: bool,
    rx_errors: bool,
    tx_errors: bool,
    /// It copies, and so holds no buffer of ours between calls.
    copies: bool,
}

const fn counts(driver: &'static str) -> Counts {
    Counts { driver, missed: false, no_buffer: false, rx_errors: false, tx_errors: false, copies: false }
}

/// As the drivers of DPDK 22.11 do. What is not listed is a network card, which counts everything.
const COUNTS: [Counts; 10] = [
    Counts { missed: true, tx_errors: true, ..counts("net_af_xdp") },
    Counts { tx_errors: true, copies: true, ..counts("net_af_packet") },
    Counts { no_buffer: true, rx_errors: true, tx_errors: true, ..counts("net_tap") },
    Counts { copies: true, ..counts("net_null") },
    Counts { copies: true, no_buffer: true, tx_errors: true, ..counts("net_pcap") },
    counts("net_memif"),
    // It counts as errors what it had no room for, which is sent later all the same.
    counts("net_vhost"),
    // What the other side has no room for it drops without telling.
    Counts { no_buffer: true, rx_errors: true, ..counts("net_virtio") },
    Counts { no_buffer: true, rx_errors: true, ..counts("net_virtio_user") },
    counts("net_ring"),
];

/// The figures of a driver, from its counters.
pub(crate) fn of(driver: &str, counters: &rte_eth_stats) -> DeviceStats {
    let listed = COUNTS.iter().find(|counts| counts.driver == driver);
    let counted = |which: fn(&Counts) -> bool, value| listed.is_none_or(which).then_some(value);
    DeviceStats {
        missed: counted(|counts| counts.missed, counters.imissed),
        no_buffer: counted(|counts| counts.no_buffer, counters.rx_nombuf),
        rx_errors: counted(|counts| counts.rx_errors, counters.ierrors),
        tx_errors: counted(|counts| counts.tx_errors, counters.oerrors),
        in_rings: listed.is_some_and(|counts| counts.copies).then_some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_never_counts_is_unknown() {
        let counters = rte_eth_stats { imissed: 1, ierrors: 2, oerrors: 3, rx_nombuf: 4, ..Default::default() };
        let null = of("net_null", &counters);
        assert_eq!(null, DeviceStats { in_rings: Some(0), ..DeviceStats::default() });
        let xdp = of("net_af_xdp", &counters);
        assert_eq!((xdp.missed, xdp.no_buffer, xdp.tx_errors), (Some(1), None, Some(3)));
        let card = of("net_ixgbe", &counters);
        assert_eq!((card.missed, card.no_buffer, card.rx_errors, card.tx_errors), (Some(1), Some(4), Some(2), Some(3)));
        assert_eq!(card.in_rings, None);
    }
}
