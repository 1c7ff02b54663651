//! Streams of bytes to and from controllers, none of which ever waits.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt,
};
use weir_stage::Endpoint;

use crate::socket::{self, Bound, SocketError};

/// How long somebody who listens at the path of a socket may take to be found alive: a part of the time that a step may take.
const ALIVE: Duration = Duration::from_secs(1);

/// The file of a socket is for the user of Weir alone: whoever opens it can do anything with the function.
const MODE: u32 = 0o600;

/// A stream of bytes.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream {
    /// That it never waits, nor lets small messages wait.
    fn ready(self) -> io::Result<Stream> {
        match &self {
            Stream::Tcp(stream) => stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true))?,
            Stream::Unix(stream) => stream.set_nonblocking(true)?,
        }
        Ok(self)
    }
}

/// Where controllers come to.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(Bound),
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(bound) => bound.listener.as_fd(),
        }
    }
}

impl Listener {
    pub(super) fn new(at: &Endpoint) -> Result<Listener, String> {
        let wrong = |error: io::Error| format!("cannot listen at {at}: {error}");
        match at {
            Endpoint::Tcp(address) | Endpoint::Tls(address) => {
                let listener = TcpListener::bind(address).map_err(wrong)?;
                listener.set_nonblocking(true).map_err(wrong)?;
                Ok(Listener::Tcp(listener))
            }
            Endpoint::Unix(path) => {
                let bound = socket::bind_for(path, MODE, ALIVE).map_err(|error| not_bound(&error))?;
                bound.listener.set_nonblocking(true).map_err(wrong)?;
                Ok(Listener::Unix(bound))
            }
        }
    }

    /// Somebody who has come, with what to call them; nothing if nobody has.
    pub(super) fn accept(&self) -> Option<(Stream, String)> {
        let (stream, peer) = match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().ok()?;
                (Stream::Tcp(stream), peer.to_string())
            }
            Listener::Unix(bound) => {
                let stream = bound.listener.accept().ok()?.0;
                let peer = sockopt::socket_peercred(&stream).ok()?;
                let name = format!("process {} of user {}", peer.pid.as_raw_nonzero(), peer.uid.as_raw());
                (Stream::Unix(stream), name)
            }
        };
        Some((stream.ready().ok()?, peer))
    }
}

/// What the errors of the control socket come to where the path is one of a configuration.
fn not_bound(error: &SocketError) -> String {
    match error {
        SocketError::Taken(path) => format!(
            "another process listens on {}, or does not let it be seen that it does not; end it, or write another path",
            path.display()
        ),
        SocketError::NotASocket(path) => {
            format!("{} exists and is no socket; move it away, or write another path", path.display())
        }
        other => other.to_string(),
    }
}

/// What became of an attempt to connect.
pub(super) enum Attempt {
    /// It goes on, until then.
    Goes(Stream, u64),
    Done(Stream),
    Failed(String),
}

/// Begins to connect.
pub(super) fn begun(to: &Endpoint, until: u64) -> Attempt {
    match to {
        Endpoint::Tcp(address) | Endpoint::Tls(address) => by_tcp(*address, until),
        Endpoint::Unix(path) => by_unix(path),
    }
}

fn by_tcp(to: SocketAddr, until: u64) -> Attempt {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = match socket_with(family, SocketType::STREAM, flags, None) {
        Ok(socket) => socket,
        Err(error) => return Attempt::Failed(error.to_string()),
    };
    match connect(&socket, &SocketAddrAny::from(to)) {
        Ok(()) => done(Stream::Tcp(TcpStream::from(socket))),
        Err(Errno::INPROGRESS) => Attempt::Goes(Stream::Tcp(TcpStream::from(socket)), until),
        Err(error) => Attempt::Failed(error.to_string()),
    }
}

/// A UNIX socket takes a connection at once, or does not (unix(7)).
fn by_unix(path: &Path) -> Attempt {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let connected = SocketAddrUnix::new(path).and_then(|address| {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &address)?;
        Ok(UnixStream::from(socket))
    });
    match connected {
        Ok(stream) => done(Stream::Unix(stream)),
        Err(Errno::AGAIN) => Attempt::Failed("too many wait to be let in there".to_owned()),
        Err(error) => Attempt::Failed(error.to_string()),
    }
}

fn done(stream: Stream) -> Attempt {
    match stream.ready() {
        Ok(stream) => Attempt::Done(stream),
        Err(error) => Attempt::Failed(error.to_string()),
    }
}

/// Whether an attempt has come to its end; it has at last when its time is over.
pub(super) fn finished(stream: Stream, until: u64, now: u64) -> Attempt {
    let peer = match &stream {
        Stream::Tcp(stream) => stream.peer_addr().map(drop),
        Stream::Unix(stream) => stream.peer_addr().map(drop),
    };
    match (sockopt::socket_error(&stream), peer) {
        (Ok(Err(error)) | Err(error), _) => Attempt::Failed(error.to_string()),
        (Ok(Ok(())), Ok(())) => done(stream),
        (Ok(Ok(())), Err(_)) if now >= until => Attempt::Failed("nobody answers".to_owned()),
        // Woken for something else.
        (Ok(Ok(())), Err(_)) => Attempt::Goes(stream, until),
    }
}
