//! What can be wrong with a capture file.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a file cannot be read from its beginning.
#[derive(Debug)]
pub enum Problem {
    /// The system refuses.
    System {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It is a directory.
    Directory(PathBuf),
    /// It is no capture file, or is damaged before the first record.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where and what.
        damage: Damage,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const REFUSED: &str = "cannot read the capture file";
        match self {
            Problem::System { path, error } => {
                write!(f, "{REFUSED} {}: ", path.display())?;
                match error.kind() {
                    io::ErrorKind::NotFound => f.write_str("there is no such file; check the path"),
                    io::ErrorKind::PermissionDenied => {
                        f.write_str("permission is denied; check the owner and mode of the file and its folder")
                    }
                    _ => error.fmt(f),
                }
            }
            Problem::Directory(path) => {
                write!(f, "{REFUSED} {}: it is a directory; name a file in it", path.display())
            }
            Problem::Damaged { path, damage } => {
                write!(f, "{REFUSED} {}: {} (at byte {})", path.display(), damage.what, damage.offset)
            }
        }
    }
}

impl std::error::Error for Problem {}

/// Why a file cannot be read further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Offset of the record or block that is damaged, bytes from the start of the file; of a compressed file, from the start of
    /// what it holds.
    pub offset: u64,
    /// Whole records before it.
    pub record: u64,
    /// What is wrong with it.
    pub what: String,
}

impl Damage {
    /// One whose place among the records is not known yet.
    pub(crate) fn at(offset: u64, what: impl Into<String>) -> Damage {
        Damage { offset, record: 0, what: what.into() }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "damaged at byte {}, ", self.offset)?;
        match self.record {
            0 => write!(f, "before the first record: {}", self.what),
            record => write!(f, "after record {record}: {}", self.what),
        }
    }
}
