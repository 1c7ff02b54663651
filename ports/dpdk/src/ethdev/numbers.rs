//! DPDK's numbers of devices, and which have an owner.

use std::ffi::CStr;
use std::sync::{Mutex, PoisonError};

use weir_dpdk_sys as sys;

/// The numbers of the devices that have an owner: DPDK attaches a device that is there already without a word.
static TAKEN: Mutex<Vec<u16>> = Mutex::new(Vec::new());

/// All ports there are.
pub(super) fn all() -> Vec<u16> {
    let mut found = Vec::new();
    let mut next = 0;
    loop {
        // SAFETY: EAL runs; any number is accepted.
        let port = unsafe { sys::rte_eth_find_next(next) };
        if u32::from(port) >= sys::WEIR_MAX_PORTS {
            return found;
        }
        found.push(port);
        next = port.saturating_add(1);
    }
}

/// The port of that name.
pub(super) fn by_name(name: &CStr) -> Option<u16> {
    let mut port = 0;
    // SAFETY: a C string, room for a number.
    let rc = unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut port) };
    (rc == 0).then_some(port)
}

/// The port that a new device brought: named like it, or else the first that was not there before.
pub(super) fn find(name: &CStr, before: &[u16]) -> Option<u16> {
    by_name(name).or_else(|| all().into_iter().find(|port| !before.contains(port)))
}

/// Makes the caller the owner of a port; false where it has one.
pub(super) fn take(port: u16) -> bool {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let free = !taken.contains(&port);
    if free {
        taken.push(port);
    }
    free
}

/// Its owner is done with it.
pub(super) fn leave(port: u16) {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner).retain(|taken| *taken != port);
}
