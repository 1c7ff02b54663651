//! Lookups of the generic tables, and generic kernels, so that there is code of theirs to look at even where no
//! function uses them yet.

#![forbid(unsafe_code)]

use weir_simd::Kernel;
use weir_simd::frame_check::{self, BATCH, Destinations, Frame, LinkPattern};
use weir_table::lpm4::{Dir24, Linear, Lookup4, Lpm4, Packed};

/// One lookup, and a batch, in whatever kind of table.
#[inline(always)]
fn both(table: &impl Lookup4, addresses: &[u32], values: &mut [u32]) {
    for (address, value) in addresses.iter().zip(values.iter_mut()) {
        table.prefetch(*address);
        *value = table.lookup(*address);
    }
    table.lookup_batch(addresses, values);
}

/// Looks up in a DIR-24-8 table.
pub fn dir24(table: &<Dir24 as Lpm4>::Reader, addresses: &[u32], values: &mut [u32]) {
    both(table, addresses, values);
}

/// Looks up in a packed table.
pub fn packed(table: &<Packed as Lpm4>::Reader, addresses: &[u32], values: &mut [u32]) {
    both(table, addresses, values);
}

/// Looks up in the slow twin.
pub fn linear(table: &<Linear as Lpm4>::Reader, addresses: &[u32], values: &mut [u32]) {
    both(table, addresses, values);
}

/// Validates frames.
pub fn frames(
    kernel: Kernel,
    frames: &[&Frame; BATCH],
    lengths: &[u16; BATCH],
    destinations: &Destinations,
    count: usize,
) -> u64 {
    frame_check::check(kernel, LinkPattern::ANY, frames, lengths, destinations, count)
}
