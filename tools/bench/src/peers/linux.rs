//! What the Linux kernel counts.

/// The Ethernet address of `r0`: what is to be routed is sent to it.
pub const R0: &str = "02:00:00:00:00:01";

/// Packets that an interface has received, from the text of `/proc/net/dev`.
///
/// # Errors
///
/// A sentence, if it is not there.
pub fn received(text: &str, interface: &str) -> Result<u64, String> {
    let found = text.lines().find_map(|line| {
        let (name, numbers) = line.split_once(':')?;
        // Bytes, then packets.
        (name.trim() == interface).then(|| numbers.split_whitespace().nth(1)?.parse().ok())?
    });
    found.ok_or_else(|| format!("the kernel has no counters of the interface {interface}"))
}

/// Parts of a second in which the kernel tells programs its times.
pub const TICKS: f64 = 100.0;

/// What a core has spent on interrupts and on what they leave behind (soft interrupts: the whole network stack), in [`TICKS`], from the
/// text of `/proc/stat`.
///
/// # Errors
///
/// A sentence, if it is not there.
pub fn interrupts(text: &str, core: usize) -> Result<u64, String> {
    let name = format!("cpu{core}");
    let found = text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        // User, nice, system, idle, waiting for devices; then interrupts and soft interrupts.
        (words.next()? == name).then(|| {
            let mut numbers = words.skip(5).map_while(|word| word.parse::<u64>().ok());
            numbers.next()?.checked_add(numbers.next()?)
        })?
    });
    found.ok_or_else(|| format!("the kernel does not tell what core {core} does"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  3718159 113273 551417 1187264 11628 0 6323 7444 0 0
cpu0 1760085 57783 290817 675190 3133 0 1115 4108 0 0
cpu1 1958074 55490 260600 512074 8495 7 5208 3336 0 0
intr 1 2 3
";

    #[test]
    fn interrupts_of_a_core_are_read() {
        assert_eq!((interrupts(STAT, 0), interrupts(STAT, 1)), (Ok(1115), Ok(5215)));
        for garbage in ["", "cpu1", "cpu1 1 2 3 4 5 6", "cpu1 1 2 3 4 5 x 7", "cpu11 1 2 3 4 5 6 7"] {
            assert!(interrupts(garbage, 1).unwrap_err().contains("core 1"), "{garbage}");
        }
    }

    const DEV: &str = "Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
    g1: 1234567   20001    0    5    0     0          0         0     1196      14    0    0    0     0       0          0
";

    #[test]
    fn counters_are_read() {
        assert_eq!(received(DEV, "g1"), Ok(20_001));
        for garbage in ["", "g1:", "g1: 1", "g1: 1 x 3", "g1: 1 -2 3"] {
            assert!(received(garbage, "g1").unwrap_err().contains("g1"), "{garbage}");
        }
        assert!(received(DEV, "g").is_err());
    }
}
