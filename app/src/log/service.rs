//! The service that writes lines of the log that were not taken at once.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use weir_stage::{Load, MakeService, Service, Waits};

use super::sink;
use crate::services::Bell;

/// Pieces that are written in one step.
const PIECES: usize = 64;

/// Rings when lines wait.
static BELL: OnceLock<Bell> = OnceLock::new();

/// Wakes the service, if there is one.
pub(super) fn wake() {
    BELL.get().into_iter().for_each(Bell::ring);
}

/// Makes it.
pub(crate) struct Maker;

impl MakeService for Maker {
    fn name(&self) -> &str {
        "log"
    }

    fn make(&self, _now: u64) -> Result<Box<dyn Service>, String> {
        let wrong = |error: std::io::Error| format!("the log cannot be written: {error}");
        let fresh = Bell::new().map_err(wrong)?;
        let bell = BELL.get_or_init(|| fresh).clone();
        // What waits already rang for nobody.
        bell.ring();
        Ok(Box::new(Writer { bell, sink: super::descriptor().map_err(wrong)? }))
    }
}

/// Writes what waits.
struct Writer {
    bell: Bell,
    /// Where the log goes.
    sink: OwnedFd,
}

impl Service for Writer {
    fn waits(&self) -> Waits<'_> {
        let writable = if super::waiting() > 0 { vec![self.sink.as_fd()] } else { Vec::new() };
        Waits { readable: vec![self.bell.as_fd()], writable, until: None }
    }

    fn step(&mut self, _now: u64) -> Result<(), String> {
        self.bell.hush();
        super::go_on(PIECES);
        Ok(())
    }

    fn load(&self) -> Load {
        Load { unit: "bytes", now: super::waiting() as u64, most: sink::MOST as u64 }
    }
}
