//! What the programs around DPDK's `rte_fib` and `rte_fib6` print.

use super::quoted;

/// The program around `rte_fib`, in C: compiled where it is needed.
pub const SOURCE: &str = include_str!("../../peers/rte-fib.c");

/// The same around `rte_fib6`.
pub const SOURCE6: &str = include_str!("../../peers/rte-fib6.c");

/// What it says when its table is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Prefixes in the table.
    pub prefixes: u64,
    /// Addresses that it looks up.
    pub addresses: u64,
    /// The sum of the next hops that it found for them.
    pub sum: u64,
}

/// Reads `ready PREFIXES ADDRESSES SUM`.
///
/// # Errors
///
/// A sentence, if it is something else.
pub fn ready(line: &str) -> Result<Ready, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let numbers: Vec<u64> = words.iter().skip(1).filter_map(|word| word.parse().ok()).collect();
    match (words.as_slice(), numbers.as_slice()) {
        (["ready", _, _, _], &[prefixes, addresses, sum]) => Ok(Ready { prefixes, addresses, sum }),
        _ => Err(format!("it should have said that it is ready, and said \"{}\"", quoted(line))),
    }
}

/// Reads `cycles N`: TSC cycles that it took to look all addresses up.
///
/// # Errors
///
/// A sentence, if it is something else.
pub fn cycles(line: &str) -> Result<u64, String> {
    let number = line.trim().strip_prefix("cycles ").and_then(|number| number.parse().ok());
    number
        .filter(|cycles| *cycles > 0)
        .ok_or_else(|| format!("it should have said cycles, and said \"{}\"", quoted(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_lines_are_read() {
        assert_eq!(ready("ready 606138 1048576 99\n"), Ok(Ready { prefixes: 606_138, addresses: 1_048_576, sum: 99 }));
        assert_eq!(cycles("cycles 20971520\n"), Ok(20_971_520));
        for garbage in ["", "ready", "ready 1 2", "ready 1 2 3 4", "ready 1 two 3", "reddy 1 2 3", "ready -1 2 3"] {
            assert!(ready(garbage).is_err(), "{garbage}");
        }
        for garbage in ["", "cycles", "cycles -3", "cycles 0", "cycles 1.5", "1000"] {
            assert!(cycles(garbage).is_err(), "{garbage}");
        }
    }
}
