//! A stream behind a buffer in which records are looked at where they lie.

use std::io::{self, Read};

use crate::problem::Damage;
use crate::source::Source;

/// The buffer's first length, which most damaged files do not exceed.
const SMALL: usize = 1 << 12;

/// The buffer's usual length: large enough that calls of the system do not count, small enough for the second cache.
const USUAL: usize = 1 << 18;

/// A stream that knows where it is.
pub(crate) struct Input<R> {
    source: Source<R>,
    buffer: Vec<u8>,
    /// What is not consumed of the buffer: from here.
    at: usize,
    /// To here.
    end: usize,
    /// Bytes of the stream before `at`.
    offset: u64,
    over: bool,
    /// Why it is over, if not for the end of the file.
    failure: Option<String>,
}

impl<R: Read> Input<R> {
    pub(crate) fn new(inner: R) -> io::Result<Input<R>> {
        let source = Source::new(inner)?;
        Ok(Input { source, buffer: vec![0; SMALL], at: 0, end: 0, offset: 0, over: false, failure: None })
    }

    /// Bytes of the stream consumed.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes read of the file, compressed as it is.
    pub(crate) fn position(&self) -> u64 {
        self.source.position()
    }

    /// The next `len` bytes, or what there is of them before the stream's end. The caller sees to it that `len` is bounded.
    #[inline]
    pub(crate) fn peek(&mut self, len: usize) -> &[u8] {
        if self.end - self.at < len {
            self.fill(len);
        }
        let to = self.end.min(self.at + len);
        self.buffer.get(self.at..to).unwrap_or_default()
    }

    /// The next `N` bytes, if there are as many.
    #[inline]
    pub(crate) fn peek_array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.peek(N).first_chunk::<N>().copied()
    }

    /// Passes over `len` bytes that were looked at; says where in the buffer they began. They stay there until the next look.
    #[inline]
    pub(crate) fn consume(&mut self, len: usize) -> usize {
        let from = self.at;
        let len = len.min(self.end - self.at);
        self.at += len;
        self.offset += len as u64;
        from
    }

    /// What lies in the buffer from `from` on.
    #[inline]
    pub(crate) fn lying(&self, from: usize, len: usize) -> &[u8] {
        self.buffer.get(from..from + len).unwrap_or_default()
    }

    /// Whether the stream has ended, as it should or for a failure.
    pub(crate) fn ended(&mut self) -> Result<bool, Damage> {
        if !self.peek(1).is_empty() {
            return Ok(false);
        }
        match &self.failure {
            Some(failure) => Err(Damage::at(self.offset, failure)),
            None => Ok(true),
        }
    }

    /// Passes over `len` bytes of a record or block that starts at `start`.
    pub(crate) fn skip(&mut self, mut len: u64, start: u64, what: &str) -> Result<(), Damage> {
        while len > 0 {
            let there = self.peek(usize::try_from(len).map_or(SMALL, |len| len.min(SMALL))).len();
            if there == 0 {
                return Err(self.short(start, what));
            }
            self.consume(there);
            len -= there as u64;
        }
        Ok(())
    }

    /// The damage of a record or block that starts at `start` and that the stream ends in.
    pub(crate) fn short(&self, start: u64, what: &str) -> Damage {
        match &self.failure {
            Some(failure) => Damage::at(start, failure),
            None => Damage::at(start, format!("the file ends within {what}")),
        }
    }

    /// Reads until `len` bytes lie in the buffer, or the stream is over.
    #[cold]
    fn fill(&mut self, len: usize) {
        if self.end == self.buffer.len() && self.buffer.len() < USUAL {
            // It was filled to the brim: there is more where that came from.
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        self.buffer.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        while self.end < len && !self.over {
            if self.end == self.buffer.len() {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            self.read();
        }
    }

    fn read(&mut self) {
        match self.source.read(self.buffer.get_mut(self.end..).unwrap_or_default()) {
            Ok(0) => self.over = true,
            Ok(more) => self.end += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                self.over = true;
                self.failure = Some(match self.source.compression() {
                    Some(name) => format!("what is compressed with {name} is damaged: {error}"),
                    None => format!("it cannot be read: {error}"),
                });
            }
        }
    }
}
