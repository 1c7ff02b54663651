//! What `dpdk-testpmd` prints.

use super::quoted;

/// What stands above the figures of all ports together.
const ALL_PORTS: &str = "Accumulated forward statistics for all ports";

/// Whether `line` ends what `show fwd stats all` prints: the second line of plus signs below the figures of all ports.
pub fn ends(line: &str) -> bool {
    let line = line.trim();
    line.len() > 40 && line.bytes().all(|byte| byte == b'+')
}

/// Packets that all ports together have accepted for sending, from what `show fwd stats all` prints.
///
/// # Errors
///
/// A sentence, if it is not there.
pub fn transmitted(text: &str) -> Result<u64, String> {
    let all = text.rsplit_once(ALL_PORTS).map(|(_, rest)| rest);
    let all = all.ok_or_else(|| format!("no forward statistics in what it said: \"{}\"", quoted(text)))?;
    let line = all.lines().find(|line| line.trim_start().starts_with("TX-packets:"));
    let number = line.and_then(|line| line.trim_start().strip_prefix("TX-packets:")?.split_whitespace().next());
    let number = number.and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("no number of sent packets in its statistics: \"{}\"", quoted(all)))
}

/// Whether `line` tells the cycles that it has taken.
pub fn tells_cycles(line: &str) -> bool {
    line.contains("CPU cycles/packet=")
}

/// TSC cycles of all times round that found packets, from the line that [tells](tells_cycles) them.
///
/// # Errors
///
/// A sentence, if they are not there.
pub fn cycles(text: &str) -> Result<u64, String> {
    let rest = text.rsplit_once("(total cycles=").map(|(_, rest)| rest);
    let number = rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| format!("no number of cycles in what it said: \"{}\"", quoted(text)))
}

/// Whether `line` says that it forwards now.
pub fn is_ready(line: &str) -> bool {
    line.contains("packet forwarding - ports=")
}

#[cfg(test)]
mod tests {
    use super::*;

    // As version 22.11 prints it.
    const SAID: &str = "
  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: 9077760        RX-dropped: 0             RX-total: 9077760
  TX-packets: 9077696        TX-dropped: 0             TX-total: 9077696
  ----------------------------------------------------------------------------

  ---------------------- Forward statistics for port 1  ----------------------
  RX-packets: 9077760        RX-dropped: 0             RX-total: 9077760
  TX-packets: 9077760        TX-dropped: 0             TX-total: 9077760
  ----------------------------------------------------------------------------

  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++
  RX-packets: 18155520       RX-dropped: 0             RX-total: 18155520
  TX-packets: 18155456       TX-dropped: 0             TX-total: 18155456
  ++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++
";

    #[test]
    fn its_statistics_are_read() {
        assert_eq!(transmitted(SAID), Ok(18_155_456));
        assert_eq!(SAID.lines().filter(|line| ends(line)).count(), 1);
        // Of several, the last counts.
        assert_eq!(transmitted(&format!("{}{SAID}", SAID.replace("18155456", "7"))), Ok(18_155_456));
        assert!(is_ready("io packet forwarding - ports=2 - cores=1 - streams=2 - NUMA support enabled"));
    }

    #[test]
    fn its_cycles_are_read() {
        // As version 22.11 prints it.
        let line =
            "  CPU cycles/packet=3551.05 (total cycles=2965952157 / total 5tswap packets=835232) at 2600 MHz Clock";
        assert!(tells_cycles(line) && !ends(line));
        assert_eq!(cycles(line), Ok(2_965_952_157));
        assert!(cycles("").unwrap_err().contains("nothing"));
        assert!(cycles(&line.replace("2965952157", "many")).unwrap_err().contains("no number of cycles"));
    }

    #[test]
    fn nonsense_is_told() {
        assert!(transmitted("").unwrap_err().contains("nothing"));
        assert!(transmitted("\n  Bad arguments\n").unwrap_err().contains("Bad arguments"));
        assert!(transmitted(&SAID.replace("18155456", "many")).unwrap_err().contains("no number"));
        assert!(transmitted(&SAID.replace("18155456", "99999999999999999999999")).is_err());
        let cut = SAID.split("TX-packets: 18155456").next().unwrap();
        assert!(transmitted(cut).is_err());
    }
}
