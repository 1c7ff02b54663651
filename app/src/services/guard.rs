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

/// Has the log tell of panics of stages on the control side, which go on; of all others the process tells as ever.
pub(crate) fn tell_of_stages() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        let Some(name) = thread.name().filter(|name| weir_engine::is_control_thread(name)) else { return usual(panic) };
        let place = panic.location().map_or_else(String::new, ToString::to_string);
        let facts: crate::log::Facts<'_> = &[("thread", &name), ("place", &place), ("why", &words(panic.payload()))];
        crate::log::error("worker", PANICKED, facts);
    }));
}

/// What is told of that.
const PANICKED: &str = "a stage panicked, which is a bug: what it had in hand is dropped as `panicked`, and it goes on";

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
