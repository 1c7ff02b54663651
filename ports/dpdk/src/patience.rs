//! Waiting for the kernel and for other processes, which do some things at their leisure and tell nobody.

use std::time::{Duration, Instant};

/// How long the kernel may take to free the queue of an AF_XDP socket that was closed.
pub(crate) const XDP_SOCKET: Duration = Duration::from_secs(10);

/// How long the two ends of a memif may take from the connection to the link: messages on a socket, which a busy machine delays.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(5);

/// Asks again and again until it is so, but not longer than `longest`. Asks at least once.
#[allow(clippy::disallowed_methods, reason = "ports wait for the kernel in real time")]
pub(crate) fn wait_until(longest: Duration, mut so: impl FnMut() -> bool) {
    const PAUSE: Duration = Duration::from_millis(2);
    let end = Instant::now() + longest;
    while !so() && Instant::now() < end {
        std::thread::sleep(PAUSE);
    }
}

/// A moment, to measure real time from.
#[allow(clippy::disallowed_methods, reason = "peers connect in real time")]
pub(crate) fn moment() -> Instant {
    Instant::now()
}
