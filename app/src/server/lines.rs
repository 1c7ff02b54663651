//! Lines from a socket, of bounded length, with the descriptors that came beside them.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Bytes read at once.
const CHUNK: usize = 1 << 16;

/// A line from a client.
#[derive(Debug)]
pub(super) struct Line {
    /// Its bytes, without the line end.
    pub(super) bytes: Vec<u8>,
    /// The last descriptor that came with or before it.
    pub(super) descriptor: Option<OwnedFd>,
}

/// What comes next from a client.
#[derive(Debug)]
pub(super) enum Next {
    /// A line.
    Line(Line),
    /// More bytes than a line may have.
    TooLong,
    /// The client has closed its end, was silent for too long, or is gone.
    End,
}

/// Reads lines.
pub(super) struct Lines<'a> {
    stream: &'a UnixStream,
    most: usize,
    /// How long a line may take to come once it has begun.
    patience: Duration,
    buffer: Vec<u8>,
    /// Bytes of the buffer in which no line end was found.
    searched: usize,
    descriptor: Option<OwnedFd>,
}

#[allow(clippy::disallowed_methods, reason = "a client is waited for, not packets")]
fn now() -> Instant {
    Instant::now()
}

impl<'a> Lines<'a> {
    /// Lines of at most `most` bytes, each of which comes within `patience` once it has begun.
    pub(super) fn new(stream: &'a UnixStream, most: usize, patience: Duration) -> Lines<'a> {
        Lines { stream, most, patience, buffer: Vec::new(), searched: 0, descriptor: None }
    }

    /// The next line, if it begins within `silence`.
    pub(super) fn next(&mut self, silence: Duration) -> Next {
        let mut until = now() + if self.buffer.is_empty() { silence } else { self.patience };
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(at) = rest.iter().position(|&byte| byte == b'\n') {
                return self.take(self.searched + at);
            }
            self.searched = self.buffer.len();
            if self.buffer.len() >= self.most {
                return Next::TooLong;
            }
            let left = until.saturating_duration_since(now());
            if left.is_zero() || self.stream.set_read_timeout(Some(left)).is_err() {
                return Next::End;
            }
            let is_new = self.buffer.is_empty();
            match self.receive() {
                Ok(0) | Err(_) => return Next::End,
                Ok(_) if is_new => until = now() + self.patience,
                Ok(_) => {}
            }
        }
    }

    fn take(&mut self, end: usize) -> Next {
        if end > self.most {
            return Next::TooLong;
        }
        let rest = self.buffer.split_off(end + 1);
        let mut bytes = std::mem::replace(&mut self.buffer, rest);
        bytes.truncate(end);
        self.searched = 0;
        Next::Line(Line { bytes, descriptor: self.descriptor.take() })
    }

    fn receive(&mut self) -> io::Result<usize> {
        let before = self.buffer.len();
        self.buffer.resize(before + CHUNK, 0);
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let result = loop {
            let mut into = [IoSliceMut::new(self.buffer.get_mut(before..).unwrap_or_default())];
            match recvmsg(self.stream, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other,
            }
        };
        let received = result.as_ref().map_or(0, |message| message.bytes);
        self.buffer.truncate(before + received);
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                // Whatever came beside the last one is closed here.
                self.descriptor = descriptors.last().or(self.descriptor.take());
            }
        }
        Ok(result.map(|message| message.bytes)?)
    }
}
