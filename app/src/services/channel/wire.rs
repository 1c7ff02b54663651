//! What a connection's bytes go through: a stream, and TLS where the channel is one of that.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use weir_stage::{ChannelSide, Credentials};
use weir_tls::Session;

use super::stream::Stream;

/// See the module.
pub(super) enum Wire {
    Plain(Stream),
    Tls(Stream, Box<Session>),
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Wire::Plain(stream) | Wire::Tls(stream, _) => stream.as_fd(),
        }
    }
}

/// It has to be waited for.
fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Why it ended, for people.
fn ended(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
        _ => error.to_string(),
    }
}

impl Wire {
    /// Goes on with what comes before the first byte. Whether that is over.
    pub(super) fn greet(&mut self) -> Result<bool, String> {
        match self {
            Wire::Plain(_) => Ok(true),
            Wire::Tls(stream, session) => session.greet(stream).map_err(|error| ended(&error)),
        }
    }

    /// Reads; answers how many bytes, 0 where there are none now.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, String> {
        let read = match self {
            Wire::Plain(stream) => stream.read(buffer),
            Wire::Tls(stream, session) => session.read(stream, buffer),
        };
        match read {
            Ok(0) => Err(ended(&ErrorKind::UnexpectedEof.into())),
            Ok(count) => Ok(count),
            Err(error) if waits(&error) => Ok(0),
            Err(error) => Err(ended(&error)),
        }
    }

    /// Writes; answers how many bytes, 0 where it takes none now.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize, String> {
        let written = match self {
            Wire::Plain(stream) => stream.write(bytes),
            Wire::Tls(stream, session) => session.write(stream, bytes),
        };
        match written {
            Ok(count) => Ok(count),
            Err(error) if waits(&error) => Ok(0),
            Err(error) => Err(ended(&error)),
        }
    }

    /// Sends what it took before and still has. Whether it has nothing any more.
    pub(super) fn flush(&mut self) -> Result<bool, String> {
        match self {
            Wire::Plain(_) => Ok(true),
            Wire::Tls(stream, session) => session.flush(stream).map_err(|error| ended(&error)),
        }
    }

    /// Whether it has something that is still to be sent.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Wire::Tls(_, session) if session.is_full())
    }

    /// Whether there may be more to read, though nothing more comes.
    pub(super) fn holds(&self) -> bool {
        matches!(self, Wire::Tls(_, session) if session.holds())
    }

    /// Tells the peer that it ends.
    pub(super) fn end(&mut self) {
        if let Wire::Tls(stream, session) = self {
            session.end(stream);
        }
    }
}

/// Makes sessions of what a function proves itself by, which a reload may change.
#[derive(Default)]
pub(super) struct Prover(Option<(Arc<Credentials>, weir_tls::Credentials)>);

impl Prover {
    /// A wire of TLS over a stream, for the end that listened or for the one that connected.
    pub(super) fn wire(&mut self, side: &dyn ChannelSide, stream: Stream, listened: bool) -> Result<Wire, String> {
        let wanted = side.credentials().ok_or("the switch has nothing to prove itself by")?;
        let credentials = match self.0.take().filter(|(made_of, _)| Arc::ptr_eq(made_of, &wanted)) {
            Some((_, credentials)) => credentials,
            // They were tried when the configuration was read.
            None => weir_tls::Credentials::new(&wanted.certificate, &wanted.private_key, &wanted.ca)
                .map_err(|wrong| format!("{:?} {}", wrong.file, wrong.problem))?,
        };
        let session = if listened { Session::server(&credentials) } else { Session::client(&credentials) };
        self.0 = Some((wanted, credentials));
        Ok(Wire::Tls(stream, Box::new(session?)))
    }
}
