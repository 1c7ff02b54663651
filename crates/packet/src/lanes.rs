//! What is known about each packet of a batch: one array per fact, indexed by the packet's slot.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use crate::BATCH;

/// The place of a packet in its batch: always less than [`BATCH`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(u8);

impl Slot {
    /// Slot `n` modulo [`BATCH`].
    #[inline(always)]
    pub const fn new(n: usize) -> Slot {
        Slot((n % BATCH) as u8)
    }

    /// Its number, below [`BATCH`].
    #[inline(always)]
    pub const fn index(self) -> usize {
        // The mask repeats what the type promises, so that array accesses need no check.
        self.0 as usize % BATCH
    }

    /// The mask with only this slot's bit.
    #[inline(always)]
    pub const fn bit(self) -> u64 {
        1 << self.index()
    }
}

/// One fact about each packet of a batch.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Lane<T>([T; BATCH]);

impl<T: Copy> Lane<T> {
    const fn filled(value: T) -> Lane<T> {
        Lane([value; BATCH])
    }

    /// The values of all slots, dead ones too (whose values mean nothing).
    #[inline(always)]
    pub fn all(&self) -> &[T; BATCH] {
        &self.0
    }

    /// The values of all slots, for kernels that write whole lanes.
    #[inline(always)]
    pub fn all_mut(&mut self) -> &mut [T; BATCH] {
        &mut self.0
    }
}

impl<T> Index<Slot> for Lane<T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, slot: Slot) -> &T {
        &self.0[slot.index()]
    }
}

impl<T> IndexMut<Slot> for Lane<T> {
    #[inline(always)]
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.0[slot.index()]
    }
}

/// Lanes that functions may claim for themselves.
pub const USER_LANES: usize = 4;

/// The metadata of a batch. Each lane has one writer upstream of its readers; the graph check sees to it.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// Time of receipt, nanoseconds of the engine's clock. Written at receive.
    pub time: Lane<u64>,
    user: [Lane<u32>; USER_LANES],
    /// Index of the port it came in by. Written at receive.
    pub port: Lane<u16>,
    /// Offset of the network header from the packet's first byte.
    pub l3: Lane<u8>,
    /// Traffic class.
    pub class: Lane<u8>,
    /// Colour of a meter (RFC 2697): 0 green, 1 yellow, 2 red.
    pub colour: Lane<u8>,
    /// How often it went round by an `again` way. The engine's.
    pub passes: Lane<u8>,
}

impl Lanes {
    /// Lanes with every value 0.
    pub const fn new() -> Lanes {
        Lanes {
            time: Lane::filled(0),
            user: [Lane::filled(0); USER_LANES],
            port: Lane::filled(0),
            l3: Lane::filled(0),
            class: Lane::filled(0),
            colour: Lane::filled(0),
            passes: Lane::filled(0),
        }
    }

    /// The value of a claimed lane.
    #[inline(always)]
    pub fn get<T: From<u32>>(&self, key: Key<T>, slot: Slot) -> T {
        T::from(self.user[key.index()][slot])
    }

    /// Sets the value of a claimed lane.
    #[inline(always)]
    pub fn set<T: Into<u32>>(&mut self, key: Key<T>, slot: Slot, value: T) {
        self.user[key.index()][slot] = value.into();
    }

    /// The numbers in a claimed lane, of all slots; see [`Lane::all`].
    #[inline(always)]
    pub fn numbers<T>(&self, key: Key<T>) -> &[u32; BATCH] {
        self.user[key.index()].all()
    }

    /// The same, to be written.
    #[inline(always)]
    pub fn numbers_mut<T>(&mut self, key: Key<T>) -> &mut [u32; BATCH] {
        self.user[key.index()].all_mut()
    }

    /// Sets the value of claimed lane `lane`, modulo [`USER_LANES`].
    #[inline(always)]
    pub(crate) fn set_user(&mut self, lane: u8, slot: Slot, value: u32) {
        self.user[lane as usize % USER_LANES][slot] = value;
    }

    /// Everything known about one packet.
    #[inline]
    pub(crate) fn row(&self, slot: Slot) -> Row {
        Row {
            time: self.time[slot],
            user: [self.user[0][slot], self.user[1][slot], self.user[2][slot], self.user[3][slot]],
            port: self.port[slot],
            l3: self.l3[slot],
            class: self.class[slot],
            colour: self.colour[slot],
            passes: self.passes[slot],
        }
    }

    /// Sets everything known about one packet.
    #[inline]
    pub(crate) fn set_row(&mut self, slot: Slot, row: &Row) {
        self.time[slot] = row.time;
        for (lane, value) in self.user.iter_mut().zip(row.user) {
            lane[slot] = value;
        }
        self.port[slot] = row.port;
        self.l3[slot] = row.l3;
        self.class[slot] = row.class;
        self.colour[slot] = row.colour;
        self.passes[slot] = row.passes;
    }
}

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes::new()
    }
}

/// All lanes of one packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) time: u64,
    pub(crate) user: [u32; USER_LANES],
    pub(crate) port: u16,
    pub(crate) l3: u8,
    pub(crate) class: u8,
    pub(crate) colour: u8,
    pub(crate) passes: u8,
}

impl Row {
    pub(crate) const EMPTY: Row =
        Row { time: 0, user: [0; USER_LANES], port: 0, l3: 0, class: 0, colour: 0, passes: 0 };
}

/// Claimed lanes that are saved in the first line of a packet's header.
pub(crate) const NEAR_USER_LANES: usize = 2;

/// The lanes of one packet for which the first line of its header has no room, as saved behind the header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Far {
    pub(crate) time: u64,
    pub(crate) user: [u32; USER_LANES - NEAR_USER_LANES],
}

impl Far {
    pub(crate) const EMPTY: Far = Far { time: 0, user: [0; USER_LANES - NEAR_USER_LANES] };
}

/// A claimed lane and the type of what is in it. Claimed while a graph is built; see `weir_stage::Graph::claim`.
pub struct Key<T> {
    lane: u8,
    of: PhantomData<fn() -> T>,
}

impl<T> Key<T> {
    /// The key of claimed lane `lane`, below [`USER_LANES`]; `None` beyond. Only the graph's builder hands these out.
    pub fn new(lane: usize) -> Option<Key<T>> {
        (lane < USER_LANES).then_some(Key { lane: lane as u8, of: PhantomData })
    }

    /// The claimed lane's number.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.lane as usize % USER_LANES
    }
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Key<T> {}
impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user lane {}", self.lane)
    }
}

/// The name of a lane, for the declarations of who reads and who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneId {
    /// [`Lanes::time`]
    Time,
    /// [`Lanes::port`]
    Port,
    /// [`Lanes::l3`]
    L3,
    /// [`Lanes::class`]
    Class,
    /// [`Lanes::colour`]
    Colour,
    /// [`Lanes::passes`]
    Passes,
    /// A claimed lane, by its number.
    User(u8),
    /// No lane, but that packets have passed a stage that checks IPv4 right behind an Ethernet header without tags.
    Ipv4,
    /// The same of IPv6.
    Ipv6,
}

impl<T> From<Key<T>> for LaneId {
    fn from(key: Key<T>) -> LaneId {
        LaneId::User(key.lane)
    }
}
