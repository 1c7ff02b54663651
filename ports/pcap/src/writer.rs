//! Capture files, written: classic pcap with nanoseconds, in the machine's byte order as the format wants it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use weir_stage::PortError;

use crate::frames::remedy;

/// Bytes that are collected before they are written.
const COLLECT: usize = 1 << 18;

/// A capture file that is being written.
pub struct Writer {
    file: File,
    collected: Vec<u8>,
    /// Records in what is collected.
    records: u64,
    /// Bytes of whole records in the file.
    written: u64,
}

/// Records that could not be written, and why.
#[derive(Debug)]
pub struct WriteError {
    /// Records lost.
    pub records: u64,
    /// What the system says.
    pub error: io::Error,
}

impl Writer {
    /// Creates a file, or empties the one that is there, and writes the header.
    ///
    /// # Errors
    ///
    /// It cannot be created or written.
    pub fn create(path: &Path) -> Result<Writer, PortError> {
        let fails = |error: io::Error| {
            let cause = if error.kind() == io::ErrorKind::NotFound {
                "its folder does not exist; create the folder, or write to another".to_owned()
            } else {
                remedy(&error)
            };
            PortError(format!("cannot write the capture file {}: {cause}", path.display()))
        };
        let file = weir_host::files::output(path).map_err(fails)?;
        let mut writer = Writer { file, collected: Vec::with_capacity(COLLECT + 16384), records: 0, written: 0 };
        writer.collected.extend_from_slice(&header());
        writer.flush().map_err(|lost| fails(lost.error))?;
        Ok(writer)
    }

    /// Adds a packet that was sent at `time`, nanoseconds.
    ///
    /// # Errors
    ///
    /// What was collected cannot be written; the file ends with the last whole record then, as far as it can be cut.
    pub fn add(&mut self, time: u64, bytes: &[u8]) -> Result<(), WriteError> {
        // The format has 32 bits for seconds and length; neither is exceeded before the year 2106 or by a frame.
        let seconds = u32::try_from(time / 1_000_000_000).unwrap_or(u32::MAX);
        let nanos = (time % 1_000_000_000) as u32;
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        for field in [seconds, nanos, len, len] {
            self.collected.extend_from_slice(&field.to_ne_bytes());
        }
        self.collected.extend_from_slice(bytes);
        self.records += 1;
        if self.collected.len() >= COLLECT { self.flush() } else { Ok(()) }
    }

    /// Hands everything to the system.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`].
    pub fn flush(&mut self) -> Result<(), WriteError> {
        if self.collected.is_empty() {
            return Ok(());
        }
        let result = self.file.write_all(&self.collected);
        let len = self.collected.len() as u64;
        self.collected.clear();
        let records = std::mem::take(&mut self.records);
        match result {
            Ok(()) => {
                self.written += len;
                Ok(())
            }
            Err(error) => {
                // Half a record at the end would make the file damaged. Where even that fails there is nothing left to do:
                // the caller learns of the first error.
                let _ = self.file.set_len(self.written);
                Err(WriteError { records, error })
            }
        }
    }
}

/// The header of a file: version 2.4, no zone, no snapping, Ethernet.
fn header() -> Vec<u8> {
    const NANOSECONDS: u32 = 0xa1b2_3c4d;
    const SNAP: u32 = 262_144;
    const ETHERNET: u32 = 1;
    let mut header = Vec::with_capacity(24);
    header.extend_from_slice(&NANOSECONDS.to_ne_bytes());
    header.extend_from_slice(&2_u16.to_ne_bytes());
    header.extend_from_slice(&4_u16.to_ne_bytes());
    for field in [0, 0, SNAP, ETHERNET] {
        header.extend_from_slice(&field.to_ne_bytes());
    }
    header
}
