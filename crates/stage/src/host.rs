//! What a function that routes has in common with a Linux network namespace that speaks for it: its interfaces, frames for its own addresses, and
//! routes. The function has one side of it ([`HostSide`]); services, which open what it takes, the other.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use ipnet::IpNet;

/// Frames that wait on their way in one direction at most.
pub const FRAMES: usize = 1024;

/// An interface as Linux is to have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostInterface {
    /// Its number, which is another one when it was deleted and added again.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// Whether it has a port; one without is a loopback, of which Linux has its own.
    pub has_port: bool,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Bytes of the longest IP packet.
    pub mtu: u16,
    /// Whether its link is up.
    pub up: bool,
    /// The addresses that it has otherwise than from Linux.
    pub addresses: Vec<IpNet>,
}

/// Where a route of Linux's goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostHop {
    /// By a router on the link of the interface of this number.
    Via(IpAddr, u16),
    /// On the link of the interface of this number.
    On(u16),
    /// Nowhere, silently.
    Blackhole,
    /// Nowhere, and the sender is told that it cannot be reached.
    Unreachable,
    /// Nowhere, and the sender is told that it is forbidden.
    Prohibit,
}

/// A change of a route of Linux's: where it goes on from now on; nowhere to be found if there is nothing.
pub type HostRoute = (IpNet, Vec<HostHop>);

/// A function's side of it, for one VRF. All of it takes no longer than a piece of the function's work; it may be asked by several threads.
pub trait HostSide: Send + Sync {
    /// A number that is another one whenever [`interfaces`](Self::interfaces) answers otherwise.
    fn version(&self) -> u64;

    /// All interfaces that Linux is to have.
    fn interfaces(&self) -> Vec<HostInterface>;

    /// Frames on their way.
    fn frames(&self) -> &Frames;

    /// Somebody wants to be woken when interfaces change, too; whoever rang before is forgotten if it is of the same name.
    fn wake_on_change(&self, who: &'static str, wake: Wake);

    /// Linux has set an interface down, or up again.
    fn set_enabled(&self, interface: u16, enabled: bool);

    /// The addresses that an interface has in Linux.
    fn set_addresses(&self, interface: u16, addresses: &[IpNet]);

    /// The Ethernet address of a neighbour that somebody entered in Linux by hand; `None`: not any more.
    fn set_neighbor(&self, interface: u16, neighbor: IpAddr, mac: Option<[u8; 6]>);

    /// Changes routes, at most [`ROUTES`] at once.
    fn change_routes(&self, changes: &[HostRoute]);

    /// Takes out the routes of Linux's that `keep` does not know, by the piece.
    fn sweep_routes(&self, keep: &mut dyn FnMut(IpNet) -> bool);

    /// Looks at the hops of some routes of Linux's, in force or missing for want of room, from a place on. The place where to go on, if there are
    /// more. Each is looked at once if none changes meanwhile.
    fn routes_from(&self, place: RoutePlace, look: &mut dyn FnMut(IpNet, &[HostHop])) -> Option<RoutePlace>;

    /// No route leads to an interface of this number any more, which was deleted.
    fn forget_interface(&self, interface: u16);

    /// How the last comparison ended, and what of it there is to be told.
    fn set_differences(&self, count: u64, first: Vec<Difference>);

    /// How often somebody asked for a comparison.
    fn comparisons_wanted(&self) -> u64;
}

/// Routes that are changed at once.
pub const ROUTES: usize = 256;

/// How far somebody has looked through the routes; by default, not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoutePlace {
    /// Through with IPv4.
    pub is_six: bool,
    /// The position of the next one in its family.
    pub position: u32,
}

/// What differs between Linux's routes and the function's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The prefix.
    pub prefix: IpNet,
    /// What Linux says, for people; nothing where it has no such route.
    pub linux: String,
    /// What the function has of Linux's.
    pub here: String,
}

/// What wakes a service.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// A frame without tags, of the interface of a number.
pub type HostFrame = (u16, Box<[u8]>);

/// Frames on their way to Linux and from there. What finds no room is refused, so that whoever is slow keeps nobody else waiting.
#[derive(Default)]
pub struct Frames {
    to: Queue,
    from: Queue,
    wake: Mutex<Option<Wake>>,
    /// Wakes whoever takes frames of Linux's.
    heard_by: Mutex<Option<Waker>>,
    /// Frames that Linux did not take.
    refused: AtomicU64,
    /// Frames of Linux's that there was no buffer for.
    lost: AtomicU64,
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frames({} to Linux, {} from there)", self.to.len(), self.from.len())
    }
}

#[derive(Default)]
struct Queue {
    frames: Mutex<VecDeque<HostFrame>>,
    /// How many there are: whoever only looks takes no lock.
    len: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Puts a frame behind the others; answers how many there were, if there was room.
    fn push(&self, frame: HostFrame) -> Option<usize> {
        let mut frames = lock(&self.frames);
        let before = frames.len();
        if before >= FRAMES {
            return None;
        }
        frames.push_back(frame);
        self.len.store(frames.len(), Ordering::Release);
        Some(before)
    }

    /// Takes the first ones, up to one of an interface of which `may` says no.
    fn take(&self, most: usize, mut may: impl FnMut(u16) -> bool) -> Vec<HostFrame> {
        if self.len() == 0 {
            return Vec::new();
        }
        let mut frames = lock(&self.frames);
        let count = frames.iter().take(most).take_while(|(interface, _)| may(*interface)).count();
        let taken = frames.drain(..count).collect();
        self.len.store(frames.len(), Ordering::Release);
        taken
    }
}

impl Frames {
    /// Hands a frame to Linux. False if there is no room, or nobody there.
    pub fn hand_over(&self, interface: u16, frame: &[u8]) -> bool {
        let wake = lock(&self.wake);
        let Some(wake) = wake.as_ref() else { return false };
        match self.to.push((interface, frame.into())) {
            Some(0) => wake(),
            Some(_) => {}
            None => return false,
        }
        true
    }

    /// Frames for Linux, in order.
    pub fn take_for_linux(&self, most: usize) -> Vec<HostFrame> {
        self.to.take(most, |_| true)
    }

    /// Takes a frame of Linux's. It must be asked for [`room`](Self::room) before.
    pub fn put(&self, interface: u16, frame: impl Into<Box<[u8]>>) {
        // Who asked before has room: nobody else puts any in.
        if self.from.push((interface, frame.into())) == Some(0)
            && let Some(waker) = &*lock(&self.heard_by)
        {
            waker.wake_by_ref();
        }
    }

    /// How many frames of Linux's there is room for.
    pub fn room(&self) -> usize {
        FRAMES.saturating_sub(self.from.len())
    }

    /// Frames of Linux's, in order, up to one of an interface of which `may` says no.
    pub fn take_of_linux(&self, most: usize, may: impl FnMut(u16) -> bool) -> Vec<HostFrame> {
        self.from.take(most, may)
    }

    /// Whether there are frames of Linux's.
    pub fn has_of_linux(&self) -> bool {
        self.from.len() > 0
    }

    /// Whoever takes frames of Linux's is woken by this from here on, when there is the first.
    pub fn heard_by(&self, waker: &Waker) {
        *lock(&self.heard_by) = Some(waker.clone());
    }

    /// Who hands frames to Linux is woken by this from here on; without anybody, none are taken.
    pub fn attend(&self, wake: Option<Wake>) {
        let gone = wake.is_none();
        *lock(&self.wake) = wake;
        if gone {
            self.to.take(FRAMES, |_| true);
        }
    }

    /// Linux did not take a frame.
    pub fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// There was no buffer for a frame of Linux's, or no interface.
    pub fn note_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Frames that Linux did not take, and frames of Linux's that were lost for want of a buffer.
    pub fn losses(&self) -> (u64, u64) {
        (self.refused.load(Ordering::Relaxed), self.lost.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn queues_are_bounded_and_nobody_is_woken_twice() {
        let frames = Frames::default();
        assert!(!frames.hand_over(1, &[1]), "nobody is there");
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        frames.attend(Some(Box::new(move || _ = count.fetch_add(1, Ordering::Relaxed))));
        assert!((0..FRAMES).all(|n| frames.hand_over(n as u16, &[n as u8])));
        assert!(!frames.hand_over(0, &[0]), "it is full");
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        let first = frames.take_for_linux(2);
        assert_eq!(first, [(0, vec![0].into()), (1, vec![1].into())]);
        assert!(frames.hand_over(0, &[0]) && frames.hand_over(0, &[0]) && !frames.hand_over(0, &[0]));
        assert_eq!(frames.take_for_linux(usize::MAX).len(), FRAMES);
        frames.hand_over(7, &[7]);
        assert_eq!(woken.load(Ordering::Relaxed), 2, "after it was empty");
        frames.attend(None);
        assert!(!frames.hand_over(1, &[1]) && frames.take_for_linux(1).is_empty());
        assert_eq!(frames.room(), FRAMES);
        (0..=FRAMES).for_each(|n| frames.put(n as u16 % 3, [n as u8]));
        let first = frames.take_of_linux(9, |interface| interface != 2);
        assert_eq!(first, [(0, [0].into()), (1, [1].into())], "up to one that is not to be taken");
        assert_eq!(frames.take_of_linux(1, |_| true), [(2, [2].into())]);
        assert_eq!((frames.room(), frames.take_of_linux(usize::MAX, |_| true).len()), (3, FRAMES - 3));
        assert!(!frames.has_of_linux());
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_hears_linux_is_woken_by_the_first_frame() {
        let (frames, woken) = (Frames::default(), Arc::new(Count::default()));
        frames.put(1, [1]);
        frames.heard_by(&Arc::clone(&woken).into());
        let woken = || woken.0.load(Ordering::Relaxed);
        frames.put(1, [2]);
        assert_eq!(woken(), 0, "another frame waits already");
        for turn in 1..=3 {
            assert_eq!(frames.take_of_linux(FRAMES, |_| true).len(), 2);
            frames.put(1, [3]);
            frames.put(1, [4]);
            assert_eq!(woken(), turn);
        }
    }
}
