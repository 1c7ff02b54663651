//! What the control side knows: requests and shows share it; workers see it through the table.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::registry::Registry;

/// The lock on it. A panic elsewhere does not make it unusable: every change keeps it whole.
pub(crate) fn lock(shared: &Mutex<Registry>) -> MutexGuard<'_, Registry> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
