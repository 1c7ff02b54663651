//! How far long inputs are read, in one line that is written over, where somebody looks.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use weir_flowstat::Side;

/// How often the line is written.
const EVERY: Duration = Duration::from_millis(200);

/// The line.
pub(crate) struct Shown {
    next: Option<Instant>,
    written: bool,
}

#[allow(clippy::disallowed_methods, reason = "people wait by the clock on the wall")]
impl Shown {
    /// Nothing is shown yet; nothing ever will be if stderr is no terminal.
    pub(crate) fn new() -> Shown {
        Shown { next: std::io::stderr().is_terminal().then(|| Instant::now() + EVERY), written: false }
    }

    /// So many bytes of a side are read.
    pub(crate) fn step(&mut self, side: Side, done: u64, all: u64) {
        if self.next.is_none_or(|next| Instant::now() < next) {
            return;
        }
        self.next = Some(Instant::now() + EVERY);
        self.written = true;
        let what = if side == Side::Sent { "sent" } else { "received" };
        let share = done.saturating_mul(100) / all.max(1);
        // Where nothing can be written nobody looks.
        let _ = write!(std::io::stderr(), "\r\x1b[Kreading what was {what}: {share} %");
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        if self.written {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
