//! Finding messages in a stream of bytes.

use crate::Error;
use crate::error::BadRequest;
use crate::message::{HEADER, Header, MAX_MESSAGE};

/// Cuts a stream into messages. It keeps at most one unfinished message, so never more than 65,535 bytes.
#[derive(Debug, Default)]
pub struct Framing {
    begun: Vec<u8>,
}

impl Framing {
    /// Takes bytes from the front of `stream`, and gives the next message when it is whole; otherwise all were taken.
    ///
    /// # Errors
    ///
    /// [`BadRequest::BadLen`] if a header says that the message is shorter than its header. Where the next message would
    /// begin is then unknown: the connection is to be closed.
    pub fn next(&mut self, stream: &mut &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.fill(stream, HEADER);
        let Some(header) = Header::of(&self.begun) else { return Ok(None) };
        let length = usize::from(header.length);
        if length < HEADER {
            return Err(BadRequest::BadLen.into());
        }
        self.fill(stream, length);
        Ok((self.begun.len() == length).then(|| std::mem::take(&mut self.begun)))
    }

    /// How many bytes of an unfinished message are kept.
    pub fn held(&self) -> usize {
        debug_assert!(self.begun.len() <= MAX_MESSAGE);
        self.begun.len()
    }

    fn fill(&mut self, stream: &mut &[u8], length: usize) {
        let count = length.saturating_sub(self.begun.len()).min(stream.len());
        let (taken, rest) = stream.split_at(count);
        self.begun.extend_from_slice(taken);
        *stream = rest;
    }
}
