//! Tables that the stand-in tells, and that misbehave.

use super::PATIENCE;
use serde_json::{Value, json};
use std::sync::Mutex;
use weir_stage::ShowRows;

/// Somebody who waits for rows, and what lets the next piece come.
pub(super) static GATE: Mutex<Option<std::sync::mpsc::Receiver<()>>> = Mutex::new(None);

/// A table that panics.
pub(super) struct Broken;

impl ShowRows for Broken {
    fn piece(&mut self) -> Vec<Value> {
        panic!("a test asked for it")
    }
}

/// A table of so many pieces, each of which waits at the gate.
pub(super) struct Slow(pub(super) u32);

impl ShowRows for Slow {
    fn piece(&mut self) -> Vec<Value> {
        let Some(left) = self.0.checked_sub(1) else { return Vec::new() };
        self.0 = left;
        let gate = GATE.lock().unwrap();
        gate.as_ref().unwrap().recv_timeout(PATIENCE).unwrap();
        vec![json!({ "n": left })]
    }
}
