//! What the program around DPDK's `rte_sched` prints.

use super::quoted;

/// The program, in C: compiled where it is needed.
pub const SOURCE: &str = concat!(include_str!("../../peers/rte-sched-port.h"), include_str!("../../peers/rte-sched.c"));

/// The function whose cases do the same.
pub const FUNCTION: &str = "qos";

/// Packets that a queue may hold on both sides.
pub const QUEUE_SIZE: u32 = 64;

/// Buffers of the peer: it gets cheaper per packet the more it holds.
pub const BUFFERS: u32 = 131_072;

/// Whether it says that it is ready, with so many pipes.
///
/// # Errors
///
/// A sentence, if it is something else.
pub fn ready(line: &str, pipes: u32) -> Result<(), String> {
    if line.trim() == format!("ready {pipes} {BUFFERS}") {
        return Ok(());
    }
    Err(format!("it should have said that it is ready, and said \"{}\"", quoted(line)))
}

/// What it did in so many loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Did {
    /// TSC cycles of all of it.
    pub elapsed: u64,
    /// Of these, in `rte_sched_port_enqueue`.
    pub enqueue: u64,
    /// And in `rte_sched_port_dequeue`.
    pub dequeue: u64,
    /// Packets that came out.
    pub packets: u64,
    /// Packets that found no queue or no buffer.
    pub dropped: u64,
    /// Packets held at the end of a loop, on average.
    pub held: u64,
}

impl Did {
    /// Cycles for each packet that came out, when the program had to wait for its core during `waited` of them.
    pub fn cycles(&self, waited: u64) -> f64 {
        let share = 1.0 - waited.min(self.elapsed) as f64 / self.elapsed.max(1) as f64;
        (self.enqueue + self.dequeue) as f64 * share / self.packets.max(1) as f64
    }
}

/// Reads `did ELAPSED ENQUEUE DEQUEUE PACKETS DROPPED HELD`.
///
/// # Errors
///
/// A sentence, if it is something else, or no packet came out.
pub fn did(line: &str) -> Result<Did, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let numbers: Vec<u64> = words.iter().skip(1).filter_map(|word| word.parse().ok()).collect();
    let did = match (words.as_slice(), numbers.as_slice()) {
        (["did", _, _, _, _, _, _], &[elapsed, enqueue, dequeue, packets, dropped, held]) => {
            Some(Did { elapsed, enqueue, dequeue, packets, dropped, held })
        }
        _ => None,
    };
    did.filter(|did| did.packets > 0 && did.enqueue.saturating_add(did.dequeue) <= did.elapsed)
        .ok_or_else(|| format!("it should have said what it did, and said \"{}\"", quoted(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_lines_are_read() {
        assert_eq!(ready("ready 4096 131072\n", 4096), Ok(()));
        let said = did("did 1000 200 300 10 1 64\n").unwrap();
        assert_eq!(said, Did { elapsed: 1000, enqueue: 200, dequeue: 300, packets: 10, dropped: 1, held: 64 });
        assert_eq!((said.cycles(0), said.cycles(500), said.cycles(2000)), (50.0, 25.0, 0.0));
        for garbage in ["", "ready", "ready 4096", "ready 4096 1", "ready 8 131072", "did 1 1 1 1 1 1"] {
            assert!(ready(garbage, 4096).is_err(), "{garbage}");
        }
        for garbage in ["", "did", "did 1 2 3", "did 1000 200 300 0 1 64", "did 100 200 300 10 1 64", "did a 1 1 1 1 1"]
        {
            assert!(did(garbage).is_err(), "{garbage}");
        }
    }
}
