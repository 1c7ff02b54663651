//! One file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::classic::Classic;
use crate::input::Input;
use crate::link::LinkType;
use crate::ng::{self, Ng};
use crate::problem::{Damage, Problem};

/// Bytes that a record may hold: what libpcap calls MAXIMUM_SNAPLEN. A record that claims more is damaged.
pub(crate) const MAX_RECORD: u32 = 262_144;

/// A packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When, nanoseconds since 1970 (UTC).
    pub nanos: i64,
    /// Whether the file says when: a simple packet block has the time of the packet before.
    pub timed: bool,
    /// The bytes that were captured, without the frame check sequence.
    pub data: &'a [u8],
    /// Bytes that the packet had on the wire: more than were captured if it was snapped.
    pub length: u32,
    /// What the bytes begin with.
    pub link: LinkType,
    /// The interface's number in the file, from 0; those of a further section follow those of the sections before.
    pub interface: u32,
}

/// A record, and where in the buffer it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) nanos: i64,
    pub(crate) timed: bool,
    pub(crate) from: usize,
    pub(crate) len: usize,
    pub(crate) length: u32,
    pub(crate) link: LinkType,
    pub(crate) interface: u32,
}

impl Found {
    /// Takes the frame check sequence off, as far as it was captured.
    #[inline]
    pub(crate) fn without_fcs(mut self, fcs: u32) -> Found {
        if fcs > 0 {
            self.length = self.length.saturating_sub(fcs);
            self.len = self.len.min(self.length as usize);
        }
        self
    }
}

/// A capture file that is being read. Its memory is bounded whatever the file says: less than a mebibyte, and the window of the
/// compression, of at most 128 MiB.
pub struct Reader<R = File> {
    input: Input<R>,
    format: Format,
    size: u64,
    records: u64,
    /// Whether nothing can be read any more.
    over: bool,
    /// The record at hand.
    found: Option<Found>,
}

enum Format {
    Classic(Classic),
    Ng(Ng),
}

impl Reader {
    /// Opens a file and reads what stands before the first record.
    ///
    /// # Errors
    ///
    /// It cannot be opened, is no capture file, or is damaged before the first record.
    pub fn open(path: &Path) -> Result<Reader, Problem> {
        let system = |error| Problem::System { path: path.to_owned(), error };
        let file = File::open(path).map_err(system)?;
        let metadata = file.metadata().map_err(system)?;
        if metadata.is_dir() {
            return Err(Problem::Directory(path.to_owned()));
        }
        let mut reader = Reader::new(file).map_err(|damage| Problem::Damaged { path: path.to_owned(), damage })?;
        reader.size = metadata.len();
        Ok(reader)
    }
}

impl<R: Read> Reader<R> {
    /// Reads what stands before the first record. `inner` need not be buffered.
    ///
    /// # Errors
    ///
    /// It is no capture file, or is damaged before the first record.
    pub fn new(inner: R) -> Result<Reader<R>, Damage> {
        let mut input = Input::new(inner).map_err(|error| Damage::at(0, format!("it cannot be read: {error}")))?;
        let Some(magic) = input.peek_array::<4>() else {
            input.ended()?;
            let got = input.peek(4).len();
            return Err(Damage::at(0, format!("the file has only {got} bytes; a capture file has 24 at least")));
        };
        let format = if magic == ng::SECTION_HEADER {
            Format::Ng(Ng::open(&mut input)?)
        } else if let Some(classic) = Classic::open(magic, &mut input)? {
            Format::Classic(classic)
        } else {
            let [a, b, c, d] = magic;
            let what = format!(
                "it begins with {a:02x} {b:02x} {c:02x} {d:02x}, as neither pcap nor pcapng files do; convert it with \
                 editcap or tcpdump -w"
            );
            return Err(Damage::at(0, what));
        };
        Ok(Reader { input, format, size: 0, records: 0, over: false, found: None })
    }

    /// Reads the next record. `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// The file is damaged, ends within a record or cannot be read. After that there are no more records.
    #[allow(clippy::should_implement_trait, reason = "a record lies in the reader, which no iterator allows")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Damage> {
        self.advance()?;
        Ok(self.record())
    }

    /// The record that was read last.
    #[inline]
    pub(crate) fn record(&self) -> Option<Record<'_>> {
        self.found.map(|found| Record {
            nanos: found.nanos,
            timed: found.timed,
            data: self.input.lying(found.from, found.len),
            length: found.length,
            link: found.link,
            interface: found.interface,
        })
    }

    /// Reads the next record, which then lies in the buffer; returns its time.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<Option<i64>, Damage> {
        self.found = None;
        if self.over {
            return Ok(None);
        }
        let found = match &mut self.format {
            Format::Classic(classic) => classic.next(&mut self.input),
            Format::Ng(ng) => ng.next(&mut self.input),
        };
        match found {
            Ok(Some(found)) => {
                self.records += 1;
                self.found = Some(found);
                Ok(Some(found.nanos))
            }
            Ok(None) => {
                self.over = true;
                Ok(None)
            }
            Err(damage) => {
                self.over = true;
                Err(Damage { record: self.records, ..damage })
            }
        }
    }

    /// The link type of the file, or of its first interface; `None` if a file describes no interface before its first packet.
    pub fn link(&self) -> Option<LinkType> {
        match &self.format {
            Format::Classic(classic) => Some(classic.link),
            Format::Ng(ng) => ng.link(),
        }
    }

    /// Bytes of the file that were read, compressed as they are: at least those of the records so far.
    pub fn position(&self) -> u64 {
        self.input.position()
    }

    /// Bytes that the file had when it was opened; 0 where it has no length.
    pub fn size(&self) -> u64 {
        self.size
    }
}
