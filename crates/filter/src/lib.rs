//! Packet filter expressions, as tcpdump's users know them.
//!
//! The language is that of pcap-filter(7), and libpcap is its definition: `tests/libpcap.rs` compares
//! the two on a corpus of frames. An expression is parsed to a typed tree (`ast`), lowered to tests of
//! bytes at offsets that no longer depend on the order of words (`lower`), and evaluated over a frame
//! (`test`), or by machine code that does the same (`machine`). Frames are Ethernet frames, from the destination address on.
//!
//! Three rules of libpcap surprise, and are kept:
//! - `and` and `or` have equal precedence and associate to the left; parentheses say what was meant.
//! - `vlan`, `mpls` and `pppoes` shift the offsets of everything written after them, to the end of the
//!   expression, whatever joins them.
//! - A test that needs bytes which the frame does not have rejects the frame, also below `not`.
//!
//! What is left out, each with an error that says so: names of hosts and networks (nothing here asks a
//! name server), and the words for link layers other than Ethernet.

#![forbid(unsafe_code)]

mod ast;
mod error;
mod lexer;
mod lower;
mod machine;
mod names;
mod parser;
mod test;

pub use error::FilterError;

use std::sync::{Arc, OnceLock};

use machine::Machine;
use test::{Frame, Test};

/// The longest expression that is read, in bytes.
pub const MAX_LENGTH: usize = 4096;

/// A filter expression, ready to be put to frames. Clones share what was made of it.
#[derive(Debug, Clone)]
pub struct Filter {
    text: Arc<str>,
    test: Option<Arc<Test>>,
    /// Machine code, if it was asked for and could be made.
    code: Arc<OnceLock<Option<Machine>>>,
}

impl Filter {
    /// Reads a filter expression. The empty expression matches every frame.
    ///
    /// # Errors
    ///
    /// The first thing in the expression that cannot be understood or cannot match, with its column, what
    /// was expected there, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let test = match parser::parse(text)? {
            Some(expression) => Some(Arc::new(lower::lower(&expression)?)),
            None => None,
        };
        Ok(Self { text: text.into(), test, code: Arc::default() })
    }

    /// Makes machine code of the expression, for this filter and all its clones, which decides from then on. Where none can be made, as of very long
    /// expressions, they go on without; what matches is the same. It takes milliseconds, and memory, which is freed with the last clone: for
    /// filters that many packets are put to, and not on the threads that carry these.
    pub fn compile(&self) {
        self.code.get_or_init(|| self.test.as_deref().and_then(Machine::of));
    }

    /// Whether there is machine code.
    #[must_use]
    pub fn is_compiled(&self) -> bool {
        matches!(self.code.get(), Some(Some(_)))
    }

    /// Whether a whole Ethernet frame matches.
    #[must_use]
    pub fn matches(&self, frame: &[u8]) -> bool {
        self.matches_captured(frame, u32::try_from(frame.len()).unwrap_or(u32::MAX))
    }

    /// Whether a frame matches of which only the first bytes were captured. `length` is its length on
    /// the wire in bytes, which is what `len`, `less` and `greater` look at.
    #[must_use]
    pub fn matches_captured(&self, bytes: &[u8], length: u32) -> bool {
        self.holds(Frame { bytes, length, tags: 0 })
    }

    /// Whether a whole Ethernet frame matches once its tags are taken off: so many bytes behind its two addresses.
    #[must_use]
    pub fn matches_untagged(&self, frame: &[u8], tags: usize) -> bool {
        let length = u32::try_from(frame.len().saturating_sub(tags)).unwrap_or(u32::MAX);
        self.holds(Frame { bytes: frame, length, tags: u32::try_from(tags).unwrap_or(u32::MAX) })
    }

    #[inline]
    fn holds(&self, frame: Frame<'_>) -> bool {
        let code = self.code.get().and_then(Option::as_ref);
        match code.and_then(|code| code.passes(frame)) {
            Some(passes) => passes,
            None => self.test.as_ref().is_none_or(|test| test.holds(frame) == Some(true)),
        }
    }

    /// The expression as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl std::str::FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl std::fmt::Display for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
