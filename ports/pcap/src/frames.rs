//! Capture files as ports want them: Ethernet.

use std::io;
use std::path::Path;

use weir_capture::{LinkType, Problem, Reader, Schedule};
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

/// What the frames of a file that is read whole may take.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Frames at most.
    pub frames: usize,
    /// Bytes of memory at most, those for each frame's own administration included.
    pub bytes: usize,
}

impl Bound {
    /// As many as a file may reasonably have that is kept in memory: ten million frames, 2 GiB.
    pub const USUAL: Bound = Bound { frames: 10_000_000, bytes: 2 << 30 };
}

/// Memory that a frame takes beside its bytes: its place in the list, what the allocator keeps of it, and what its users keep for each.
const PER_FRAME: usize = 80;

/// Frames that were read whole.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// When each is due, nanoseconds behind the first, and its bytes. Times never run backwards.
    pub frames: Vec<(u64, Vec<u8>)>,
    /// What is odd about the stamps, if anything: a sentence.
    pub remark: Option<String>,
}

/// The Ethernet frames of a capture file that are whole, all of them.
///
/// # Errors
///
/// The file cannot be read to its end, or holds more than [`Bound::USUAL`].
pub fn read_frames(path: &Path) -> Result<Vec<Vec<u8>>, PortError> {
    Ok(read_recording(path, Bound::USUAL)?.frames.into_iter().map(|(_, frame)| frame).collect())
}

/// The same, each with its time.
///
/// # Errors
///
/// The file cannot be read to its end, or holds more than `bound`; no more than that is ever in memory.
pub fn read_recording(path: &Path, bound: Bound) -> Result<Recording, PortError> {
    let mut reader = open(path)?;
    let mut schedule = Schedule::default();
    let (mut first, mut bytes) = (None, 0_usize);
    let mut frames: Vec<(u64, Vec<u8>)> = Vec::new();
    let fails = |problem: String| PortError(format!("cannot read the capture file {}: {problem}", path.display()));
    while let Some(record) = reader.next().map_err(|damage| fails(damage.to_string()))? {
        if record.link != LinkType::ETHERNET || record.length as usize != record.data.len() {
            continue;
        }
        bytes = bytes.saturating_add(record.data.len() + PER_FRAME);
        if frames.len() == bound.frames || bytes > bound.bytes {
            return Err(fails(too_much(frames.len(), bound)));
        }
        let time = schedule.place(stamp(record.nanos));
        let first = *first.get_or_insert(time);
        frames.push((time - first, record.data.to_vec()));
    }
    Ok(Recording { frames, remark: schedule.remark() })
}

fn too_much(read: usize, bound: Bound) -> String {
    format!(
        "it holds more than its {read} first frames, which is as much as is kept in memory: {} frames and {} MiB; cut it with \
         editcap -r FILE PART 1-{read}, or give it to a port, as in device = \"pcap:FILE\", which reads it piece by piece",
        bound.frames,
        bound.bytes >> 20
    )
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
