//! What keeps shared memory mapped while a burst reads it.
//!
//! When the peer of a memif goes away, DPDK's own interrupt thread marks the device as not connected and unmaps the peer's memory. It
//! does not wait for a worker that is just inside a burst, and that worker's next access would end the process. When a peer comes, a burst
//! that began before may have read already where its memory is not yet. So such queues have a gate: a worker is inside while it is in a
//! burst, which it begins only when the device is connected, and what unmaps waits until nobody is inside.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

use weir_dpdk_sys as sys;

/// Every gate of the process.
static GATES: Mutex<Vec<Weak<Inside>>> = Mutex::new(Vec::new());

/// Whether somebody is inside. A line of its own: it is written twice per burst.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Inside(AtomicBool);

/// The gate of one queue: one worker goes through it.
#[derive(Debug)]
pub(crate) struct Gate(Arc<Inside>);

impl Gate {
    pub(crate) fn new() -> Gate {
        static HOOK: Once = Once::new();
        // SAFETY: a function that may be called by any thread at any time, for ever.
        HOOK.call_once(|| unsafe { sys::weir_before_unplug(Some(wait_until_outside)) });
        let inside = Arc::new(Inside::default());
        let mut gates = GATES.lock().unwrap_or_else(PoisonError::into_inner);
        gates.retain(|gate| gate.strong_count() > 0);
        gates.push(Arc::downgrade(&inside));
        Gate(inside)
    }

    /// Goes through a burst where the device is connected: it stays mapped until it is through.
    #[inline]
    pub(crate) fn through<T: Default>(&self, connected: impl FnOnce() -> bool, burst: impl FnOnce() -> T) -> T {
        self.0.0.store(true, Ordering::Relaxed);
        // Whoever unmaps writes "not connected" before he reads this flag, and that is read here behind this fence: one of the two sees the
        // other. "Connected" is written when all is mapped.
        fence(Ordering::SeqCst);
        let result = if connected() { burst() } else { T::default() };
        self.0.0.store(false, Ordering::Release);
        result
    }
}

/// Called by DPDK's interrupt thread between "not connected" and unmapping: waits until each worker was outside once. Who goes in later
/// sees that nothing is connected, and touches nothing.
extern "C" fn wait_until_outside() {
    fence(Ordering::SeqCst);
    let gates: Vec<Arc<Inside>> =
        GATES.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect();
    for gate in gates {
        while gate.0.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use std::sync::mpsc;

    #[test]
    fn who_unmaps_waits_for_who_is_inside() {
        let gate = Gate::new();
        let (entered, inside) = mpsc::channel();
        let (leave, leaving) = mpsc::channel::<()>();
        let (waited, done) = mpsc::channel();
        let worker = std::thread::spawn(move || {
            gate.through(
                || true,
                || {
                    entered.send(()).expect("the test waits");
                    leaving.recv().expect("the test says when");
                },
            );
        });
        inside.recv().expect("the worker enters");
        let waiter = std::thread::spawn(move || {
            wait_until_outside();
            waited.send(()).expect("the test waits");
        });
        assert!(done.recv_timeout(std::time::Duration::from_millis(50)).is_err(), "waits while a burst is on");
        leave.send(()).expect("the worker waits");
        done.recv().expect("goes on then");
        worker.join().expect("ends");
        waiter.join().expect("ends");
    }

    /// "Connected" and the memory behind it, as the driver handles them, with a gate between.
    #[test]
    fn nobody_reads_what_is_unmapped() {
        const MAPPED: u32 = 1;
        let (connected, memory) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU32::new(MAPPED)));
        let worker = {
            let (connected, memory) = (Arc::clone(&connected), Arc::clone(&memory));
            let gate = Gate::new();
            std::thread::spawn(move || {
                let mut bursts = 0_u32;
                while gate.through(
                    || connected.load(Ordering::Relaxed),
                    || {
                        assert_eq!(memory.load(Ordering::Relaxed), MAPPED, "unmapped below a burst");
                        true
                    },
                ) {
                    bursts += 1;
                }
                bursts
            })
        };
        connected.store(false, Ordering::Relaxed);
        wait_until_outside();
        memory.store(0, Ordering::Relaxed);
        worker.join().expect("never saw unmapped memory");
    }
}
