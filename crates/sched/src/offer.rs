//! What is offered to a scheduler, and what becomes of it.

use crate::class::ClassQueue;
use crate::gates::Loss;

/// A packet that is offered to the scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Its user.
    pub user: u32,
    /// Its traffic class and queue. What its user does not have is taken as the lowest class, or as its first queue.
    pub class: ClassQueue,
    /// Its bytes, with overhead.
    pub length: u16,
    /// Its colour, for the management of its queue: 0 green, 1 yellow, 2 red.
    pub colour: u8,
}

/// What a scheduler may ask of a packet that is offered, and has to wait if it is taken. What it does not ask costs nothing.
pub trait Offered<T> {
    /// Marks it as one that has met congestion (CE of RFC 3168), if it says that its ends know of such marks. Whether it bears the mark.
    fn mark(&mut self) -> bool {
        false
    }

    /// Its field of explicit congestion notification (RFC 3168, section 5), from 0 to 3; 0 where it has none. Asked where a queue has [two lines](crate::dual).
    fn ecn(&self) -> u8 {
        0
    }

    /// A number that all packets of its flow have, and few others: of as many as there are.
    fn flow(&self) -> u32 {
        0
    }

    /// Hands it over: it is taken. What it then does not give is not there.
    fn take(self) -> Option<T>;
}

impl<T, F: FnOnce() -> Option<T>> Offered<T> for F {
    fn take(self) -> Option<T> {
        self()
    }
}

/// Why a packet is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its queue is full.
    QueueFull,
    /// Its user holds its minimum and its share of the buffers.
    OverShare,
    /// The management of its queue says so.
    Managed,
    /// There is no such user.
    NoSuchUser,
}

impl Refused {
    /// What its user has lost it for; nothing where there is no such user.
    pub(crate) fn loss(self) -> Option<Loss> {
        match self {
            Refused::QueueFull => Some(Loss::QueueFull),
            Refused::OverShare => Some(Loss::OverShare),
            Refused::Managed => Some(Loss::Red),
            Refused::NoSuchUser => None,
        }
    }
}

/// A packet that was dropped to make room for another.
#[derive(Debug, PartialEq, Eq)]
pub struct Displaced<T> {
    /// The packet.
    pub item: T,
    /// What its user has lost it for.
    pub loss: Loss,
}

/// A packet that leaves the scheduler.
#[derive(Debug, PartialEq, Eq)]
pub enum Leaving<T> {
    /// It is sent.
    Sent(T),
    /// The management of its queue drops it.
    Managed(T),
    /// The coupling of the two lines of its queue drops it.
    Coupled(T),
}
