//! Where a panic ends.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_protocol::Fault;

/// Does something that may panic, which is a failure like any other then.
///
/// # Errors
///
/// A sentence: that of `act`, or what the panic said.
pub(crate) fn guarded<T>(act: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let caught = catch_unwind(AssertUnwindSafe(act));
    caught.unwrap_or_else(|panic| Err(format!("it panicked, which is a bug: {}", words(&*panic))))
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no word")
}

/// What a test asks for: to see what comes of it.
#[allow(clippy::panic, reason = "that is what is asked for")]
pub(crate) fn suffer(fault: Fault) {
    match fault {
        Fault::Panic => panic!("a test asked for it"),
        Fault::Hang => loop {
            std::thread::park();
        },
    }
}
