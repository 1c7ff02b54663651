//! Giving up privileges. Capabilities belong to threads and are inherited by those that a thread starts, so the first step is
//! taken before there are any other threads.
//!
//! | kept | for |
//! |---|---|
//! | NET_ADMIN, NET_RAW, BPF, PERFMON, SYS_ADMIN | ports: AF_XDP programs and sockets, AF_PACKET, TAP |
//! | IPC_LOCK, SYS_RESOURCE | memory that devices read and write |
//! | SYS_RAWIO, DAC_OVERRIDE | devices and files of ports that belong to others |
//! | DAC_READ_SEARCH | reading the configuration again |
//! | SYS_NICE | pinning workers |
//! | SETUID, SETGID, KILL | running the configuration script as nobody, and ending it in time |
//!
//! Once the ports are open, DAC_OVERRIDE goes too, on the thread that serves requests and on those it starts from then on.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

/// What opening ports, reading configurations and confining scripts take.
const KEPT: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::SYS_RAWIO)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL);

/// What is not needed any more once the ports are open.
const FOR_START: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

/// Before anything else: gives up for good, in this thread and all to come, what Weir never needs.
///
/// # Errors
///
/// What the system refuses, as a sentence.
pub(crate) fn drop_unneeded() -> Result<(), String> {
    let refused = |error: Errno| format!("cannot give up privileges: {error}");
    set_no_new_privs(true).map_err(refused)?;
    let have = capabilities(None).map_err(refused)?;
    if have.effective.contains(CapabilitySet::SETPCAP) {
        for number in 0..u64::BITS {
            let one = CapabilitySet::from_bits_retain(1 << number);
            if !KEPT.intersects(one) {
                match remove_capability_from_bounding_set(one) {
                    // This kernel does not know so many.
                    Ok(()) | Err(Errno::INVAL) => {}
                    Err(error) => return Err(refused(error)),
                }
            }
        }
    }
    keep(have, KEPT).map_err(refused)
}

/// Once all ports are open: gives up, in this thread and those it starts from here on, what only that took.
///
/// # Errors
///
/// What the system refuses, as a sentence.
pub(crate) fn drop_after_start() -> Result<(), String> {
    let refused = |error: Errno| format!("cannot give up privileges: {error}");
    let have = capabilities(None).map_err(refused)?;
    keep(have, KEPT.difference(FOR_START)).map_err(refused)
}

fn keep(have: CapabilitySets, kept: CapabilitySet) -> Result<(), Errno> {
    let sets = CapabilitySets {
        effective: have.effective.intersection(kept),
        permitted: have.permitted.intersection(kept),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each on a thread of its own, for what is given up does not come back.
    fn apart<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(act).join().unwrap()
    }

    #[test]
    fn only_what_is_needed_is_left() {
        let before = capabilities(None).unwrap();
        let (first, then) = apart(|| {
            drop_unneeded().unwrap();
            let first = capabilities(None).unwrap();
            drop_after_start().unwrap();
            // Threads started now inherit what is left.
            (first, apart(|| capabilities(None).unwrap()))
        });
        assert_eq!(first.effective, before.effective.intersection(KEPT));
        assert_eq!(then.permitted, before.permitted.intersection(KEPT).difference(CapabilitySet::DAC_OVERRIDE));
        assert!(!then.permitted.intersects(CapabilitySet::SYS_MODULE.union(CapabilitySet::SYS_PTRACE)));
        assert!(apart(|| {
            drop_unneeded().unwrap();
            rustix::thread::no_new_privs().unwrap()
        }));
        assert_eq!(capabilities(None).unwrap(), before, "other threads keep theirs");
    }
}
