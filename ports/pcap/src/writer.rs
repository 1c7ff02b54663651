//! Capture files, written: classic pcap with nanoseconds, in the machine's byte order as the format wants it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use weir_stage::PortError;

use crate::frames::remedy;

/// Bytes of a record before those of its packet.
const RECORD_HEADER: usize = 16;

/// A capture file that is being written.
pub struct Writer {
    file: File,
    /// The records of one call.
    collected: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
    /// Bytes of whole records in the file.
    written: u64,
}

/// Not all records could be written.
#[derive(Debug)]
pub struct WriteError {
    /// Records of the call that are in the file.
    pub written: usize,
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
        let mut writer = Writer { file, collected: header(), ends: Vec::new(), written: 0 };
        writer.hand_over().map_err(|failed| fails(failed.error))?;
        Ok(writer)
    }

    /// Writes packets that were sent at `time`, nanoseconds. When this returns, the system has them.
    ///
    /// # Errors
    ///
    /// They cannot all be written; the file ends with the last whole record then, as far as it can be cut.
    pub fn write<'a>(&mut self, time: u64, packets: impl Iterator<Item = &'a [u8]>) -> Result<(), WriteError> {
        // The format has 32 bits for seconds and length; neither is exceeded before the year 2106 or by a frame.
        let seconds = u32::try_from(time / 1_000_000_000).unwrap_or(u32::MAX);
        let nanos = (time % 1_000_000_000) as u32;
        for bytes in packets {
            self.collected.reserve(RECORD_HEADER + bytes.len());
            let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            for field in [seconds, nanos, len, len] {
                self.collected.extend_from_slice(&field.to_ne_bytes());
            }
            self.collected.extend_from_slice(bytes);
            self.ends.push(self.collected.len());
        }
        self.hand_over()
    }

    /// Hands what was collected to the system, and forgets it.
    fn hand_over(&mut self) -> Result<(), WriteError> {
        let (done, result) = write_as_far_as_possible(&mut self.file, &self.collected);
        self.collected.clear();
        let ends = std::mem::take(&mut self.ends);
        let Err(error) = result else {
            self.written += done as u64;
            return Ok(());
        };
        let whole = ends.iter().take_while(|&&end| end <= done);
        let (written, end) = whole.fold((0, 0), |(count, _), &end| (count + 1, end));
        self.written += end as u64;
        // Half a record at the end would make the file damaged. Where even that fails there is nothing left to do:
        // the caller learns of the first error.
        let _ = self.file.set_len(self.written);
        Err(WriteError { written, error })
    }
}

/// Writes bytes; returns how many were written, and why not all.
fn write_as_far_as_possible(file: &mut File, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match file.write(rest) {
            Ok(0) => return (done, Err(io::ErrorKind::WriteZero.into())),
            Ok(more) => done += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (done, Err(error)),
        }
    }
    (done, Ok(()))
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
