//! Capture files made by hand, field by field, from the formats' definitions.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::path::PathBuf;

/// A byte order to write in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

pub(crate) const ORDERS: [Order; 2] = [Order::Little, Order::Big];

impl Order {
    pub(crate) fn u16(self, value: u16) -> [u8; 2] {
        if self == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    pub(crate) fn u32(self, value: u32) -> [u8; 4] {
        if self == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    pub(crate) fn u64(self, value: u64) -> [u8; 8] {
        if self == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn words(self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|&word| self.u32(word)).collect()
    }
}

/// The header of a classic file.
pub(crate) fn classic_header(order: Order, magic: u32, link: u32) -> Vec<u8> {
    let mut file = order.u32(magic).to_vec();
    file.extend(order.u16(2));
    file.extend(order.u16(4));
    file.extend(order.words(&[0, 0, 65535, link]));
    file
}

/// A classic record.
pub(crate) fn classic_record(order: Order, seconds: u32, fraction: u32, original: u32, bytes: &[u8]) -> Vec<u8> {
    let mut record = order.words(&[seconds, fraction, bytes.len() as u32, original]);
    record.extend(bytes);
    record
}

/// A classic file with nanoseconds in which frame `n` is from `n` milliseconds after the first.
pub(crate) fn classic_file(order: Order, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = classic_header(order, 0xa1b2_3c4d, 1);
    for (n, frame) in frames.iter().enumerate() {
        let nanos = 1_000_000 * n as u32;
        file.extend(classic_record(order, 7, nanos, frame.len() as u32, frame));
    }
    file
}

/// A pcapng block.
pub(crate) fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let length = 12 + body.len().next_multiple_of(4) as u32;
    let mut block = order.words(&[kind, length]);
    block.extend(body);
    block.resize(length as usize - 4, 0);
    block.extend(order.u32(length));
    block
}

/// A section header block of unknown section length.
pub(crate) fn section(order: Order) -> Vec<u8> {
    let mut body = order.u32(0x1a2b_3c4d).to_vec();
    body.extend(order.u16(1));
    body.extend(order.u16(0));
    body.extend(order.u64(u64::MAX));
    block(order, 0x0a0d_0d0a, &body)
}

/// An option.
pub(crate) fn option(order: Order, code: u16, value: &[u8]) -> Vec<u8> {
    let mut option = order.u16(code).to_vec();
    option.extend(order.u16(value.len() as u16));
    option.extend(value);
    option.resize(option.len().next_multiple_of(4), 0);
    option
}

/// An interface description block.
pub(crate) fn interface(order: Order, link: u16, snap: u32, options: &[u8]) -> Vec<u8> {
    let mut body = order.u16(link).to_vec();
    body.extend(order.u16(0));
    body.extend(order.u32(snap));
    body.extend(options);
    block(order, 1, &body)
}

/// An enhanced packet block.
pub(crate) fn enhanced(order: Order, interface: u32, stamp: u64, original: u32, bytes: &[u8]) -> Vec<u8> {
    let mut body = order.words(&[interface, (stamp >> 32) as u32, stamp as u32, bytes.len() as u32, original]);
    body.extend(bytes);
    block(order, 6, &body)
}

/// A pcapng file with microseconds in which frame `n` is from `n` milliseconds after the first.
pub(crate) fn ng_file(order: Order, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = section(order);
    file.extend(interface(order, 1, 0, &[]));
    for (n, frame) in frames.iter().enumerate() {
        file.extend(enhanced(order, 0, 7_000_000 + 1000 * n as u64, frame.len() as u32, frame));
    }
    file
}

/// A folder of one test's own, removed with its content when the test ends.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-capture-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn put(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Frames of different lengths that can be told apart.
pub(crate) fn frames(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| (0..14 + n * 7 % 200).map(|at| (n * 31 + at) as u8).collect()).collect()
}
