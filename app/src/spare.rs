//! A descriptor that is kept for when there are no others: who comes then is let in for as long as it takes to send them away, and
//! need not wait for an answer that never comes.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// A descriptor in reserve.
#[derive(Debug, Default)]
pub(crate) struct Spare(Option<File>);

/// Somebody who was let in.
#[derive(Debug)]
pub(crate) enum Guest<T> {
    /// To be served.
    Welcome(T),
    /// To be sent away: there are no descriptors for them.
    Refused(T),
}

impl Spare {
    /// One that is there already, as far as possible.
    pub(crate) fn new() -> Spare {
        let mut spare = Spare::default();
        spare.refill();
        spare
    }

    /// Lets the next one in, with the spare descriptor if there is no other.
    ///
    /// # Errors
    ///
    /// As of `accept`.
    pub(crate) fn accept<T>(&mut self, accept: impl Fn() -> io::Result<T>) -> io::Result<Guest<T>> {
        self.refill();
        match accept() {
            Ok(guest) => Ok(Guest::Welcome(guest)),
            Err(error) if is_full(&error) && self.0.is_some() => {
                self.0 = None;
                // There may be others by then, even if nobody came: accept(2) looks for a descriptor first.
                let guest = accept()?;
                Ok(if self.refill() { Guest::Welcome(guest) } else { Guest::Refused(guest) })
            }
            Err(error) => Err(error),
        }
    }

    /// Whether there is one, now that it was tried.
    fn refill(&mut self) -> bool {
        if self.0.is_none() {
            self.0 = File::open("/dev/null").ok();
        }
        self.0.is_some()
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Whether nobody was there to be let in, or had gone again: accept(2) hands over what happened to a connection before.
pub(crate) fn is_nobody(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED | Errno::PROTO))
}

/// Whether a socket is listened on no more, though accept(2) may say that nobody is there.
pub(crate) fn is_dead(listener: impl AsFd) -> bool {
    let mut ends = [PollFd::new(&listener, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut ends, Some(&at_once)).is_ok_and(|ended| ended > 0)
}

/// Whether what keeps others out passes, when somebody leaves or memory is free again: the listening socket is none the worse.
pub(crate) fn passes(error: &io::Error) -> bool {
    is_full(error) || matches!(Errno::from_io_error(error), Some(Errno::NOBUFS | Errno::NOMEM | Errno::PERM))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_listener_that_was_shut_down_is_dead() {
        use rustix::net::{Shutdown, shutdown};
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let path = std::env::temp_dir().join(format!("weir-dead-{}", std::process::id()));
        let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let _waits = std::net::TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        assert!(!is_dead(&tcp) && !is_dead(&unix));
        shutdown(&tcp, Shutdown::Both).unwrap();
        shutdown(&unix, Shutdown::Both).unwrap();
        assert!(is_dead(&tcp) && is_dead(&unix));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_spare_one_serves_when_there_is_no_other() {
        let full = || io::Error::from(rustix::io::Errno::MFILE);
        let mut spare = Spare::new();
        let tries = Cell::new(0);
        let accept = || {
            tries.set(tries.get() + 1);
            if tries.get() == 1 { Err(full()) } else { Ok(tries.get()) }
        };
        // There are descriptors here, so the spare one is back at once.
        assert!(matches!(spare.accept(accept), Ok(Guest::Welcome(2))));
        assert!(spare.0.is_some());
        assert!(spare.accept(|| Err::<(), _>(full())).is_err());
        let other = spare.accept(|| Err::<(), _>(io::Error::from(rustix::io::Errno::CONNABORTED)));
        assert!(other.is_err() && spare.0.is_some());
    }
}
