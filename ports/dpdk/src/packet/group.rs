//! The receiving sockets of an open port, and the books of what an interface's ports have missed.
//!
//! A port may be opened before the one that it replaces has been closed. Both would get every frame: the new one lets nothing
//! through until the old one is gone, so that no frame comes twice, and none is missed without being counted.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::ring::Ring;
use super::socket::{self, bind, drops, mute, unmute};
use crate::netif::Interface;

/// Every protocol (`linux/if_ether.h`).
const ETH_P_ALL: u16 = 3;

/// What came while an interface had no port is missed if it has one again by then: the port was opened anew. Later, it was another
/// port.
const REOPENED: Duration = Duration::from_secs(60);

/// Books by the number of the interface.
static BOOKS: Mutex<BTreeMap<u32, Book>> = Mutex::new(BTreeMap::new());
/// Names groups.
static NUMBER: AtomicU64 = AtomicU64::new(0);

#[derive(Default)]
struct Book {
    /// Open groups, oldest first; all but the first are mute.
    open: Vec<(u64, Arc<[OwnedFd]>)>,
    /// Frames that no socket handed over.
    missed: u64,
    /// When the last group was closed, and how many frames had come to the interface by then.
    closed: Option<(Instant, u64)>,
}

/// The receiving sockets of a port, with their rings.
pub(super) struct Group {
    number: u64,
    index: u32,
    name: String,
    sockets: Arc<[OwnedFd]>,
    rings: Vec<Ring>,
}

impl Group {
    /// Opens so many sockets on an interface, for frames of this MTU.
    pub(super) fn open(interface: &Interface, name: &str, queues: u16, mtu: u16) -> io::Result<Group> {
        let (mut sockets, mut rings) = (Vec::new(), Vec::new());
        for _ in 0..queues {
            let socket = socket::open()?;
            socket::prepare_receiver(&socket)?;
            rings.push(Ring::make(&socket, mtu)?);
            bind(&socket, interface.index(), ETH_P_ALL)?;
            sockets.push(socket);
        }
        socket::share(&sockets)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let group = Group { number, index: interface.index(), name: name.to_owned(), sockets: sockets.into(), rings };
        group.enter()?;
        Ok(group)
    }

    fn enter(&self) -> io::Result<()> {
        let mut books = books();
        let book = books.entry(self.index).or_default();
        if book.open.is_empty() {
            self.sockets.iter().try_for_each(unmute)?;
            // Were they not told apart, a port of another day would have missed what came in between.
            if let (Some((at, before)), Some(now)) = (book.closed.take(), came_to(&self.name))
                && at.elapsed() < REOPENED
            {
                book.missed += now.saturating_sub(before);
            }
        }
        book.open.push((self.number, Arc::clone(&self.sockets)));
        Ok(())
    }

    /// The ring of a queue.
    pub(super) fn ring(&self, queue: usize) -> Option<&Ring> {
        self.rings.get(queue)
    }

    /// The socket of a queue.
    pub(super) fn socket(&self, queue: usize) -> Option<BorrowedFd<'_>> {
        self.sockets.get(queue).map(AsFd::as_fd)
    }

    /// Frames that came to the interface and that no port of it got, since this process has had one.
    pub(super) fn missed(&self) -> u64 {
        let dropped: u64 = self.sockets.iter().map(drops).sum();
        let mut books = books();
        let book = books.entry(self.index).or_default();
        book.missed += dropped;
        book.missed
    }
}

impl Drop for Group {
    #[allow(clippy::disallowed_methods, reason = "how long an interface was without a port is no time of the engine's")]
    fn drop(&mut self) {
        let mut books = books();
        let book = books.entry(self.index).or_default();
        let came = came_to(&self.name);
        // What fails here leaves a socket open for as long as it takes to close it.
        let _open = self.sockets.iter().try_for_each(mute);
        let dropped: u64 = self.sockets.iter().map(drops).sum();
        // One that was mute all the time has nothing.
        let waiting: u64 = self.rings.iter().map(Ring::waiting).sum();
        book.missed += dropped + waiting;
        book.open.retain(|(number, _)| *number != self.number);
        match book.open.first() {
            Some((_, sockets)) => {
                let _mute_as_it_was = sockets.iter().try_for_each(unmute);
            }
            None => book.closed = came.map(|came| (Instant::now(), came)),
        }
    }
}

fn books() -> MutexGuard<'static, BTreeMap<u32, Book>> {
    BOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frames that came to an interface since it was made, as the kernel counts them; `None` when it is gone.
fn came_to(name: &str) -> Option<u64> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").ok()?;
    let row = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    // Bytes come first.
    row.split_whitespace().nth(1)?.parse().ok()
}
