//! What Open vSwitch's tools print.

use super::quoted;

/// The figures of one of its polling threads since it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pmd {
    /// Packets received.
    pub packets: u64,
    /// TSC cycles, busy and idle, modulo 2^64: version 3.1 begins to count below zero.
    pub cycles: u64,
}

/// The figures of the polling thread on a core, from what `ovs-appctl dpif-netdev/pmd-stats-show` prints.
///
/// # Errors
///
/// A sentence, if they are not there.
pub fn pmd(text: &str, core: usize) -> Result<Pmd, String> {
    let ours = |line: &&str| {
        let rest = line.strip_prefix("pmd thread ");
        rest.is_some_and(|rest| rest.trim_end_matches(':').ends_with(&format!("core_id {core}")))
    };
    let mut lines = text.lines().skip_while(|line| !ours(line));
    if lines.next().is_none() {
        return Err(format!("no polling thread on core {core} in what it said: \"{}\"", quoted(text)));
    }
    let section: Vec<&str> = lines.take_while(|line| line.starts_with(' ')).collect();
    let number = |name: &str| {
        let line = section.iter().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
        let number = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        number.ok_or_else(|| format!("no \"{name}\" in the statistics of its polling thread"))
    };
    let cycles = number("idle cycles")?.wrapping_add(number("processing cycles")?);
    Ok(Pmd { packets: number("packets received")?, cycles })
}

/// Packets that a port received and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCounters {
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
}

/// The counters of the port of a number, from what `ovs-ofctl dump-ports` prints.
///
/// # Errors
///
/// A sentence, if they are not there.
pub fn port(text: &str, number: u32) -> Result<PortCounters, String> {
    let wrong = || format!("no counters of port {number} in what it said: \"{}\"", quoted(text));
    let name = format!("{number}:");
    let mut lines = text.lines().skip_while(|line| {
        let mut words = line.split_whitespace();
        words.next() != Some("port") || words.next() != Some(&name)
    });
    let (first, second) = (lines.next().ok_or_else(wrong)?, lines.next().ok_or_else(wrong)?);
    let packets = |line: &str, direction: &str| {
        let rest = line.split_once(&format!("{direction} pkts="))?.1;
        rest.split([',', ' ']).next()?.parse().ok()
    };
    Ok(PortCounters {
        received: packets(first, "rx").ok_or_else(wrong)?,
        sent: packets(second, "tx").ok_or_else(wrong)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // As version 3.1 prints them.
    const STATS: &str = "pmd thread numa_id 0 core_id 1:
  packets received: 8892384
  packet recirculations: 0
  avg. datapath passes per packet: 1.00
  phwol hits: 0
  mfex opt hits: 0
  simple match hits: 8892384
  emc hits: 0
  smc hits: 0
  megaflow hits: 0
  avg. subtable lookups per megaflow hit: 0.00
  miss with success upcall: 0
  miss with failed upcall: 3
  avg. packets per output batch: 32.00
  idle cycles: 7 (0.00%)
  processing cycles: 2601543776 (100.00%)
  avg cycles per packet: 292.56 (2601543776/8892384)
  avg processing cycles per packet: 292.56 (2601543776/8892384)
main thread:
  packets received: 0
  packet recirculations: 0
";
    const PORTS: &str = "OFPST_PORT reply (xid=0x2): 3 ports
  port LOCAL: rx pkts=0, bytes=0, drop=0, errs=0, frame=0, over=0, crc=0
           tx pkts=0, bytes=0, drop=0, errs=0, coll=0
  port  1: rx pkts=14649568, bytes=0, drop=0, errs=0, frame=?, over=?, crc=?
           tx pkts=14477664, bytes=0, drop=0, errs=0, coll=?
  port  2: rx pkts=14647904, bytes=0, drop=0, errs=0, frame=?, over=?, crc=?
           tx pkts=14531968, bytes=0, drop=0, errs=0, coll=?
";

    #[test]
    fn its_statistics_are_read() {
        assert_eq!(pmd(STATS, 1), Ok(Pmd { packets: 8_892_384, cycles: 2_601_543_783 }));
        // In its first second, before it has done as many cycles as it began below zero.
        let below = STATS.replace("cycles: 2601543776", "cycles: 18446744072185717156");
        assert_eq!(pmd(&below, 1).map(|pmd| pmd.cycles as i64), Ok(7 - 1_523_834_460));
        assert_eq!(port(PORTS, 2), Ok(PortCounters { received: 14_647_904, sent: 14_531_968 }));
        assert_eq!(port(PORTS, 1).map(|port| port.sent), Ok(14_477_664));
    }

    #[test]
    fn nonsense_is_told() {
        assert!(pmd(STATS, 11).unwrap_err().contains("no polling thread on core 11"));
        assert!(pmd("", 1).unwrap_err().contains("nothing"));
        assert!(pmd("pmd thread numa_id 0 core_id 1:\n", 1).unwrap_err().contains("idle cycles"));
        assert!(pmd(&STATS.replace("8892384\n", "-1\n"), 1).unwrap_err().contains("packets received"));
        assert!(pmd(&STATS.replace("cycles: 2601543776", "cycles: 18446744073709551616"), 1).is_err());
        for garbage in ["", "port", "port  2:", "  port  2: rx pkts=?, bytes=0\n tx pkts=1,", "port  2: rx pkts=1,"] {
            assert!(port(garbage, 2).is_err(), "{garbage}");
        }
        assert!(port(PORTS, 3).is_err());
    }
}
