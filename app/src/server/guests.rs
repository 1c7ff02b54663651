//! Who is connected, and who goes when somebody comes for whom there is no place.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::{SendFlags, send};
use weir_protocol::{self as protocol, Reply, Response};

/// Those who are connected.
#[derive(Default)]
pub(super) struct Guests(Mutex<List>);

#[derive(Default)]
struct List {
    /// A number for everything that happens here, so that what was earlier is known.
    number: u64,
    guests: Vec<Guest>,
}

struct Guest {
    number: u64,
    stream: Arc<UnixStream>,
    /// Whether it may change anything: root, and the user who started Weir.
    trusted: bool,
    /// Whether it has said anything that made sense.
    asked: bool,
    /// Since when it has been waited for; `None` while it is being answered.
    idle: Option<u64>,
}

impl List {
    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Makes a place by sending away the one who is waited for and is missed least: who never asked before who did, others before
    /// the trusted, and who has been silent longest. False if all are being answered.
    fn make_place(&mut self) -> bool {
        let waited_for = self.guests.iter().enumerate().filter_map(|(at, guest)| Some((at, guest, guest.idle?)));
        let least = waited_for.min_by_key(|(_, guest, since)| (guest.asked, guest.trusted, *since));
        let Some(at) = least.map(|(at, ..)| at) else { return false };
        let guest = self.guests.swap_remove(at);
        let farewell = Response::refused("somebody else needed your place, since you had been silent; connect again");
        if let Ok(line) = protocol::line(&Reply::new(farewell)) {
            // Whoever does not read is not waited for.
            let _ = send(&*guest.stream, &line, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
        // Its thread finds the end of what it reads, and ends.
        let _ = guest.stream.shutdown(Shutdown::Both);
        true
    }
}

impl Guests {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are connected.
    pub(super) fn count(&self) -> usize {
        self.lock().guests.len()
    }

    /// Lets somebody in. `most` are served, of which `kept` places are for the trusted; for those a place is made if need be.
    pub(super) fn enter(
        self: &Arc<Self>,
        stream: &Arc<UnixStream>,
        trusted: bool,
        most: usize,
        kept: usize,
    ) -> Option<Entry> {
        let mut list = self.lock();
        let room = if trusted { most } else { most.saturating_sub(kept) };
        if list.guests.len() >= room && !(trusted && list.make_place()) {
            return None;
        }
        let number = list.next();
        list.guests.push(Guest { number, stream: Arc::clone(stream), trusted, asked: false, idle: Some(number) });
        Some(Entry { guests: Arc::clone(self), number })
    }
}

/// Somebody's place, until it is dropped.
pub(super) struct Entry {
    guests: Arc<Guests>,
    number: u64,
}

impl Entry {
    fn with(&self, act: impl FnOnce(&mut Guest, u64)) {
        let mut list = self.guests.lock();
        let now = list.next();
        if let Some(guest) = list.guests.iter_mut().find(|guest| guest.number == self.number) {
            act(guest, now);
        }
    }

    /// It is being answered.
    pub(super) fn busy(&self) {
        self.with(|guest, _| (guest.asked, guest.idle) = (true, None));
    }

    /// It is waited for.
    pub(super) fn idle(&self) {
        self.with(|guest, now| guest.idle = Some(now));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.guests.lock().guests.retain(|guest| guest.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// Somebody with a place, and the other end of the connection.
    fn enter(guests: &Arc<Guests>, trusted: bool) -> Option<(Entry, UnixStream)> {
        let (here, there) = UnixStream::pair().unwrap();
        Some((guests.enter(&Arc::new(here), trusted, 4, 1)?, there))
    }

    fn was_sent_away(guest: &(Entry, UnixStream)) -> bool {
        guest.1.set_nonblocking(true).unwrap();
        let mut said = String::new();
        (&guest.1).read_to_string(&mut said).is_ok_and(|_| said.contains("connect again"))
    }

    #[test]
    fn a_place_is_kept_for_who_is_trusted() {
        let guests = Arc::new(Guests::default());
        let others: Vec<_> = (0..3).filter_map(|_| enter(&guests, false)).collect();
        assert_eq!(others.len(), 3);
        assert!(enter(&guests, false).is_none());
        let root = enter(&guests, true).unwrap();
        assert!(enter(&guests, false).is_none());
        drop(root);
        assert!(enter(&guests, false).is_none());
        assert!(!others.iter().any(was_sent_away));
    }

    #[test]
    fn who_is_silent_makes_way() {
        let guests = Arc::new(Guests::default());
        let asked = enter(&guests, false).unwrap();
        asked.0.busy();
        asked.0.idle();
        let (first, second) = (enter(&guests, true).unwrap(), enter(&guests, false).unwrap());
        let busy = enter(&guests, true).unwrap();
        busy.0.busy();
        let third = enter(&guests, true).unwrap();
        assert!(was_sent_away(&second) && !was_sent_away(&first), "others go before the trusted");
        let fourth = enter(&guests, true).unwrap();
        assert!(was_sent_away(&first) && !was_sent_away(&asked), "who has been silent longest goes first");
        fourth.0.busy();
        let last = enter(&guests, true).unwrap();
        assert!(was_sent_away(&third) && !was_sent_away(&asked), "who never asked goes before who did");
        last.0.busy();
        let _one_more = enter(&guests, true).unwrap();
        assert!(was_sent_away(&asked));
    }

    #[test]
    fn nobody_is_interrupted() {
        let guests = Arc::new(Guests::default());
        let all: Vec<_> = (0..4).filter_map(|_| enter(&guests, true)).collect();
        all.iter().for_each(|guest| guest.0.busy());
        assert!(enter(&guests, true).is_none());
        all[2].0.idle();
        let _new = enter(&guests, true).unwrap();
        assert!(was_sent_away(&all[2]));
    }
}
