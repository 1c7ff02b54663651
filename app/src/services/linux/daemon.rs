//! A routing daemon that tells its routes by a connection of its own: FRR's `dplane_fpm_nl`.
//!
//! When it connects it tells all that it has, and says nowhere that this was all. So what a former connection told stays for a while, and what was
//! not told again by then goes.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use weir_host::fpm::Stream;
use weir_host::kernel::News;
use weir_net::mirror::{Mirror, Teller};

use crate::log;

/// How long a daemon may take to tell what a former connection told, nanoseconds: as long as one keeps routes over its own restart.
const GRACE: u64 = 60_000_000_000;

/// How long nothing may come of one that has told all, nanoseconds.
const QUIET: u64 = 3_000_000_000;

/// Bytes that are read in one step.
const AT_ONCE: usize = 256 << 10;

/// The listener, and the daemon that is connected.
pub(super) struct Daemon {
    listener: TcpListener,
    peer: Option<(TcpStream, Stream)>,
    /// When what was not told again goes at the latest.
    until: Option<u64>,
    last: u64,
    has_told: bool,
}

impl Daemon {
    /// Listens on loopback in the network namespace of the calling thread.
    pub(super) fn listen(port: u16, now: u64) -> Result<Daemon, String> {
        let wrong = |error: std::io::Error| format!("cannot listen at 127.0.0.1:{port}: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(wrong)?;
        listener.set_nonblocking(true).map_err(wrong)?;
        Ok(Daemon { listener, peer: None, until: None, last: now, has_told: false })
    }

    /// What to wait for.
    pub(super) fn waits(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [Some(self.listener.as_fd()), self.peer.as_ref().map(|(socket, _)| socket.as_fd())].into_iter().flatten()
    }

    /// Takes in what came.
    pub(super) fn step(&mut self, now: u64, mirror: &mut Mirror, table: u32) {
        self.accept(now, mirror);
        self.read(now, mirror, table);
        let is_quiet = self.has_told && now.saturating_sub(self.last) >= QUIET;
        if self.until.is_some_and(|until| now >= until || is_quiet) {
            self.until = None;
            mirror.end(Teller::Daemon);
        }
    }

    /// The newest connection counts: a daemon that was started again may come before its former one is known to be dead.
    fn accept(&mut self, now: u64, mirror: &mut Mirror) {
        while let Ok((socket, _)) = self.listener.accept() {
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            log::info("linux", "a routing daemon tells its routes", &[]);
            self.begin(now, mirror);
            self.peer = Some((socket, Stream::default()));
        }
    }

    fn begin(&mut self, now: u64, mirror: &mut Mirror) {
        mirror.begin(Teller::Daemon);
        (self.until, self.last, self.has_told) = (Some(now.saturating_add(GRACE)), now, false);
    }

    fn read(&mut self, now: u64, mirror: &mut Mirror, table: u32) {
        let Some((socket, stream)) = &mut self.peer else { return };
        let mut buffer = [0; 16 << 10];
        let mut left = AT_ONCE;
        let why = loop {
            let length = match socket.read(&mut buffer) {
                Ok(0) => break "it has gone",
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break "the connection broke",
            };
            (self.last, self.has_told) = (now, true);
            let took = stream.take(buffer.get(..length).unwrap_or_default(), |news| hear(mirror, news, table));
            if took.is_err() {
                break "it does not speak the protocol";
            }
            left = left.saturating_sub(length);
            if left == 0 {
                return;
            }
        };
        log::warn("linux", "a routing daemon tells no more routes; its last ones stay for a while", &[("why", &why)]);
        self.peer = None;
        self.begin(now, mirror);
    }
}

fn hear(mirror: &mut Mirror, news: News, table: u32) {
    match news {
        News::Route { table: theirs, .. } if theirs != table => {}
        News::Route { told, gone: true, .. } => mirror.remove(&told),
        News::Route { told, .. } => mirror.add(&told, false),
        News::NextHop(id, object) => mirror.set_object(Teller::Daemon, id, object),
        _ => {}
    }
}
