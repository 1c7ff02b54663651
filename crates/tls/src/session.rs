//! The TLS of one connection.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};

use crate::credentials::Credentials;
use crate::why::why;

/// Bytes that wait to be sent at most.
const WAITING: usize = 64 << 10;

/// Pieces, of 4 KiB where the handshake is over, that are read from a stream at once: a peer that sends records without contents keeps
/// nobody for longer.
const PIECES: usize = 16;

/// The TLS of one connection. Where a stream would have to be waited for, calls say [`ErrorKind::WouldBlock`]; where the peer breaks the
/// rules or cannot be trusted, [`ErrorKind::InvalidData`] with a phrase about it.
#[derive(Debug)]
pub struct Session {
    inner: Connection,
    /// There may be more to read, though nothing more comes.
    holds: bool,
}

impl Session {
    /// That of the end that connected.
    ///
    /// # Errors
    ///
    /// There is none; a phrase says why.
    pub fn client(credentials: &Credentials) -> Result<Session, String> {
        // The name goes nowhere: see `SignedByCa`.
        let name = ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let inner = ClientConnection::new(credentials.client.clone(), name).map_err(|error| error.to_string())?;
        Ok(Session::new(Connection::Client(inner)))
    }

    /// That of the end that listened.
    ///
    /// # Errors
    ///
    /// There is none; a phrase says why.
    pub fn server(credentials: &Credentials) -> Result<Session, String> {
        let inner = ServerConnection::new(credentials.server.clone()).map_err(|error| error.to_string())?;
        Ok(Session::new(Connection::Server(inner)))
    }

    fn new(mut inner: Connection) -> Session {
        inner.set_buffer_limit(Some(WAITING));
        Session { inner, holds: false }
    }

    /// Goes on with the handshake. Whether it is over: the peer has proved who it is then, and all that was to be said was written.
    ///
    /// # Errors
    ///
    /// The peer cannot be trusted, breaks the rules, or has gone.
    pub fn greet(&mut self, stream: &mut (impl Read + Write)) -> io::Result<bool> {
        for _ in 0..PIECES {
            if !self.flush(stream)? {
                return Ok(false);
            }
            if !self.inner.is_handshaking() {
                return Ok(true);
            }
            match self.inner.read_tls(stream) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => self.process(stream)?,
                Err(error) if waits(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Reads what the peer sent; 0 once it has ended the connection as one should.
    ///
    /// # Errors
    ///
    /// There is nothing now; or the peer breaks the rules, or has gone.
    pub fn read(&mut self, stream: &mut (impl Read + Write), buffer: &mut [u8]) -> io::Result<usize> {
        self.holds = false;
        for _ in 0..PIECES {
            match self.inner.reader().read(buffer) {
                Err(error) if waits(&error) => {}
                Ok(count) => {
                    self.holds = count > 0;
                    return Ok(count);
                }
                Err(error) => return Err(error),
            }
            self.inner.read_tls(stream)?;
            self.process(stream)?;
        }
        Err(ErrorKind::WouldBlock.into())
    }

    /// Whether [`read`](Self::read) may have more, though nothing more comes.
    pub fn holds(&self) -> bool {
        self.holds
    }

    /// Writes; answers how many bytes it took. They are on their way once [`flush`](Self::flush) says so.
    ///
    /// # Errors
    ///
    /// It takes none now, or the peer has gone.
    pub fn write(&mut self, stream: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
        if !self.flush(stream)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = self.inner.writer().write(bytes)?;
        self.flush(stream)?;
        Ok(count)
    }

    /// Sends what waits. Whether nothing waits any more.
    ///
    /// # Errors
    ///
    /// The peer has gone.
    pub fn flush(&mut self, stream: &mut impl Write) -> io::Result<bool> {
        while self.inner.wants_write() {
            match self.inner.write_tls(stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if waits(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Whether something waits to be sent.
    pub fn is_full(&self) -> bool {
        self.inner.wants_write()
    }

    /// Tells the peer that the connection ends, if it can be told now.
    pub fn end(&mut self, stream: &mut impl Write) {
        self.inner.send_close_notify();
        // It is gone in any case.
        let _ = self.flush(stream);
    }

    /// Takes in what came. A peer that is in the wrong is told so.
    fn process(&mut self, stream: &mut impl Write) -> io::Result<()> {
        self.inner.process_new_packets().map(drop).map_err(|error| {
            // If it can be told now.
            let _ = self.flush(stream);
            io::Error::new(ErrorKind::InvalidData, why(&error))
        })
    }
}

/// A stream has to be waited for.
fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
