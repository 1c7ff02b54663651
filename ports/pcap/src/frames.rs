//! Capture files as ports want them: Ethernet.

use std::io;
use std::path::Path;

use weir_capture::{LinkType, Problem, Reader};
use weir_stage::PortError;

/// Opens a capture file of Ethernet frames.
///
/// # Errors
///
/// It cannot be opened, is no capture file, is damaged before the first record, or holds something else than Ethernet.
pub(crate) fn open(path: &Path) -> Result<Reader, PortError> {
    let reader = Reader::open(path).map_err(|problem| match &problem {
        Problem::System { error, .. } if error.kind() == io::ErrorKind::NotFound => {
            PortError(format!("cannot read the capture file {}: {}", path.display(), remedy(error)))
        }
        problem => PortError(problem.to_string()),
    })?;
    match reader.link() {
        Some(link) if link != LinkType::ETHERNET => Err(PortError(format!(
            "cannot read the capture file {}: its link type is {link}, and only Ethernet (1) can be replayed on a port; \
             capture on an Ethernet interface, or prepend Ethernet headers with tcprewrite --dlt=enet",
            path.display()
        ))),
        _ => Ok(reader),
    }
}

/// The Ethernet frames of a capture file that are whole, all of them.
///
/// # Errors
///
/// The file cannot be read to its end.
pub fn read_frames(path: &Path) -> Result<Vec<Vec<u8>>, PortError> {
    Ok(read_timed_frames(path)?.into_iter().map(|(_, frame)| frame).collect())
}

/// The same, each with its time, nanoseconds since 1970; one without a time has that of the one before.
///
/// # Errors
///
/// The file cannot be read to its end.
pub fn read_timed_frames(path: &Path) -> Result<Vec<(u64, Vec<u8>)>, PortError> {
    let mut reader = open(path)?;
    let mut frames: Vec<(u64, Vec<u8>)> = Vec::new();
    let fails = |damage| PortError(format!("cannot read the capture file {}: {damage}", path.display()));
    while let Some(record) = reader.next().map_err(fails)? {
        if record.link == LinkType::ETHERNET && record.length as usize == record.data.len() {
            frames.push((stamp(record.nanos), record.data.to_vec()));
        }
    }
    Ok(frames)
}

/// A time that no clock of a port can show is that of 1970.
pub(crate) fn stamp(nanos: i64) -> u64 {
    u64::try_from(nanos).unwrap_or(0)
}

/// A sentence for an error of the system, and what to do about it where that is known.
pub(crate) fn remedy(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "there is no such file; check the path, which is relative to the configuration's folder".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "permission is denied; check the owner and mode of the file and its folder".to_owned()
        }
        io::ErrorKind::StorageFull => "the disk is full; make room and start again".to_owned(),
        _ => error.to_string(),
    }
}
