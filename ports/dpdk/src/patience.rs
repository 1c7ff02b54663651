//! Waiting for the kernel, which does some things at its leisure and tells nobody.

use std::time::{Duration, Instant};

/// How long the kernel may take to free the queue of an AF_XDP socket that was closed.
pub(crate) const XDP_SOCKET: Duration = Duration::from_secs(10);

/// Asks again and again until it is so, but not longer than `longest`. Asks at least once.
#[allow(clippy::disallowed_methods, reason = "ports wait for the kernel in real time")]
pub(crate) fn wait_until(longest: Duration, mut so: impl FnMut() -> bool) {
    const PAUSE: Duration = Duration::from_millis(2);
    let end = Instant::now() + longest;
    while !so() && Instant::now() < end {
        std::thread::sleep(PAUSE);
    }
}
