//! The binding links, and the headers it was generated from are those of the library that runs.
#![cfg(feature = "dpdk")]

use std::ffi::CStr;

#[test]
fn the_library_answers_with_its_version() {
    // SAFETY: takes nothing and changes nothing.
    let version = unsafe { weir_dpdk_sys::rte_version() };
    // SAFETY: a constant string of the library.
    let version = unsafe { CStr::from_ptr(version) };
    let text = version.to_str().expect("ASCII");
    let year: u32 = text
        .strip_prefix("DPDK ")
        .and_then(|rest| rest.split('.').next())
        .and_then(|year| year.parse().ok())
        .expect("DPDK YY.MM.PATCH");
    assert!(year >= 22, "{text}");
}

#[test]
fn the_shim_is_linked() {
    // SAFETY: reads a thread-local number.
    let lcore = unsafe { weir_dpdk_sys::weir_lcore_id() };
    assert_eq!(lcore, u32::MAX, "this thread was never registered");
}

#[test]
fn the_constants_are_what_the_macros_say() {
    assert_eq!(weir_dpdk_sys::WEIR_HEADROOM, 128, "DPDK's default");
    assert_eq!(weir_dpdk_sys::WEIR_MBUF_SIZE, 128, "two cache lines");
    assert_ne!(weir_dpdk_sys::WEIR_RSS_IP, 0);
}

/// Drivers are loaded when EAL starts: their symbols are looked up in the program first, if it shows its own.
#[test]
fn the_shim_stands_in_front_of_what_drivers_call() {
    // SAFETY: looks a name up.
    assert_eq!(unsafe { weir_dpdk_sys::weir_is_in_front() }, 1);
}
