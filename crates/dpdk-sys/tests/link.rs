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
fn elements_are_padded_to_cache_lines() {
    // SAFETY: arithmetic without state.
    let size = unsafe { weir_dpdk_sys::weir_mempool_obj_size(1) };
    assert!(size >= 128 && size.is_multiple_of(64), "{size}");
}
