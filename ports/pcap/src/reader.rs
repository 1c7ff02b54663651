//! Capture files, read record by record: classic pcap (both byte orders, micro- and nanoseconds) and pcapng.
//!
//! The framing of both formats is a few fixed fields, read here by hand for three reasons: every error has the byte offset of the
//! record it is in, a damaged length never costs memory, and what the parsers on crates.io get wrong in pcapng (resolutions
//! that are powers of two, time offsets in big-endian sections) is right.
//!
//! Sources: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.

mod classic;
mod ng;

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use weir_stage::PortError;

use classic::Classic;
use ng::Ng;

/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;

/// Bytes that a record may hold: what libpcap calls MAXIMUM_SNAPLEN. A record that claims more is damaged.
const MAX_RECORD: u32 = 262_144;

/// What is known about a record beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds since 1970; `None` where the format has no time (simple packet blocks).
    pub time: Option<u64>,
    /// Bytes that the packet had on the wire: more than were captured if it was snapped.
    pub original: u32,
    /// Whether the bytes are an Ethernet frame.
    pub ethernet: bool,
}

/// Why a file cannot be read further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Offset of the record or block that is damaged, bytes from the start of the file.
    pub offset: u64,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "damaged at byte {}: {}", self.offset, self.what)
    }
}

/// A capture file that is being read.
pub struct Reader<R> {
    input: Input<R>,
    format: Format,
}

enum Format {
    Classic(Classic),
    Ng(Ng),
}

impl Reader<BufReader<File>> {
    /// Opens a file and reads up to its link type.
    ///
    /// # Errors
    ///
    /// It cannot be opened, is no capture file, is damaged before the first record, or holds something else than Ethernet.
    pub fn open(path: &Path) -> Result<Self, PortError> {
        let shown = path.display();
        let fails = |error: &io::Error| PortError(format!("cannot read the capture file {shown}: {}", remedy(error)));
        let file = File::open(path).map_err(|error| fails(&error))?;
        if file.metadata().map_err(|error| fails(&error))?.is_dir() {
            return Err(PortError(format!(
                "cannot read the capture file {shown}: it is a directory; name a file in it"
            )));
        }
        Reader::new(BufReader::with_capacity(1 << 18, file)).map_err(|damage| {
            PortError(format!("cannot read the capture file {shown}: {} (at byte {})", damage.what, damage.offset))
        })
    }
}

impl<R: Read> Reader<R> {
    /// Reads up to the link type.
    ///
    /// # Errors
    ///
    /// It is no capture file, is damaged before the first record, or holds something else than Ethernet.
    pub fn new(input: R) -> Result<Reader<R>, Damage> {
        let mut input = Input { input, offset: 0 };
        let mut magic = [0; 4];
        let got = input.read_up_to(&mut magic)?;
        if got < magic.len() {
            let what = format!("the file has only {got} bytes; a capture file has 24 at least");
            return Err(Damage { offset: 0, what });
        }
        let format = if magic == ng::SECTION_HEADER {
            Format::Ng(Ng::open(&mut input)?)
        } else if let Some(classic) = Classic::open(magic, &mut input)? {
            Format::Classic(classic)
        } else {
            let [a, b, c, d] = magic;
            return Err(Damage {
                offset: 0,
                what: format!(
                    "it begins with {a:02x} {b:02x} {c:02x} {d:02x}, as neither pcap nor pcapng files do; convert it with \
                     editcap or tcpdump -w"
                ),
            });
        };
        Ok(Reader { input, format })
    }

    /// Reads the next record: its packet's captured bytes replace what is in `bytes`. `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// The file is damaged, ends within a record or cannot be read: nothing can be read after that.
    pub fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Option<Record>, Damage> {
        match &mut self.format {
            Format::Classic(classic) => classic.next(&mut self.input, bytes),
            Format::Ng(ng) => ng.next(&mut self.input, bytes),
        }
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
    let mut reader = Reader::open(path)?;
    let mut frames: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut bytes = Vec::new();
    let fails = |damage| PortError(format!("cannot read the capture file {}: {damage}", path.display()));
    while let Some(record) = reader.next(&mut bytes).map_err(fails)? {
        if record.ethernet && record.original as usize == bytes.len() {
            let before = frames.last().map_or(0, |frame| frame.0);
            frames.push((record.time.unwrap_or(before), bytes.clone()));
        }
    }
    Ok(frames)
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

/// A stream that knows where it is.
struct Input<R> {
    input: R,
    offset: u64,
}

impl<R: Read> Input<R> {
    /// Fills `to` as far as the stream goes; returns how far.
    fn read_up_to(&mut self, to: &mut [u8]) -> Result<usize, Damage> {
        let mut got = 0;
        while let Some(rest) = to.get_mut(got..)
            && !rest.is_empty()
        {
            match self.input.read(rest) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.unreadable(&error)),
            }
        }
        self.offset += got as u64;
        Ok(got)
    }

    /// Fills `to`; the record or block that it belongs to starts at `start`.
    fn read_all(&mut self, to: &mut [u8], start: u64, what: &str) -> Result<(), Damage> {
        let got = self.read_up_to(to)?;
        if got < to.len() {
            return Err(ends_within(start, what));
        }
        Ok(())
    }

    /// Replaces what is in `to` by the next `len` bytes.
    fn read_vec(&mut self, to: &mut Vec<u8>, len: u32, start: u64, what: &str) -> Result<(), Damage> {
        to.clear();
        let got = (&mut self.input).take(u64::from(len)).read_to_end(to).map_err(|error| self.unreadable(&error))?;
        self.offset += got as u64;
        if got < len as usize {
            return Err(ends_within(start, what));
        }
        Ok(())
    }

    /// Passes over `len` bytes.
    fn skip(&mut self, len: u64, start: u64, what: &str) -> Result<(), Damage> {
        let got =
            io::copy(&mut (&mut self.input).take(len), &mut io::sink()).map_err(|error| self.unreadable(&error))?;
        self.offset += got;
        if got < len {
            return Err(ends_within(start, what));
        }
        Ok(())
    }

    fn unreadable(&self, error: &io::Error) -> Damage {
        Damage { offset: self.offset, what: format!("it cannot be read: {error}") }
    }
}

fn ends_within(start: u64, what: &str) -> Damage {
    Damage { offset: start, what: format!("the file ends within {what}") }
}

/// The byte order of a file or section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

/// Fields of a header, one after the other.
struct Fields<'a> {
    bytes: &'a [u8],
    order: Order,
}

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*array)
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        let array = self.array()?;
        Some(if self.order == Order::Big { u16::from_be_bytes(array) } else { u16::from_le_bytes(array) })
    }

    fn u32(&mut self) -> Option<u32> {
        let array = self.array()?;
        Some(if self.order == Order::Big { u32::from_be_bytes(array) } else { u32::from_le_bytes(array) })
    }

    fn u64(&mut self) -> Option<u64> {
        let array = self.array()?;
        Some(if self.order == Order::Big { u64::from_be_bytes(array) } else { u64::from_le_bytes(array) })
    }
}

/// What a link type that is not Ethernet says to the reader.
fn not_ethernet(offset: u64, link: u32) -> Damage {
    let what = format!(
        "its link type is {link}{}, and only Ethernet (1) can be replayed on a port; capture on an Ethernet interface, or \
         prepend Ethernet headers with tcprewrite --dlt=enet",
        name_of(link)
    );
    Damage { offset, what }
}

/// Names of the link types that people meet.
fn name_of(link: u32) -> &'static str {
    match link {
        0 => " (BSD loopback)",
        12 | 101 => " (raw IP)",
        105 => " (IEEE 802.11)",
        113 => " (Linux cooked, from the device any)",
        127 => " (radiotap)",
        276 => " (Linux cooked v2, from the device any)",
        _ => "",
    }
}
