//! What a function has in common with the controllers that drive it over connections of their own: bytes that came, and bytes that are to be
//! sent. The function has one side of it ([`ChannelSide`]); services, which open the connections, the other.

use std::fmt;
use std::net::SocketAddr;

use crate::host::Wake;

/// How controllers and a function come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// The function connects to a controller, by TCP, and again when that has gone.
    Connect(SocketAddr),
    /// Controllers connect, by TCP.
    Listen(SocketAddr),
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Channel::Connect(address) => write!(f, "tcp:{address}"),
            Channel::Listen(address) => write!(f, "listen:{address}"),
        }
    }
}

/// A function's side of its channels. All of it takes no longer than a piece of the function's work; it may be asked by several threads.
pub trait ChannelSide: Send + Sync {
    /// A connection over this channel begins, to a peer of this name. Answers its number, which is never used again; nothing if there are as
    /// many as there may be.
    fn connect(&self, channel: Channel, peer: &str) -> Option<u64>;

    /// A connection is gone.
    fn disconnect(&self, connection: u64);

    /// Takes bytes that came by a connection. Answers how many it took: fewer than all while its answers wait to be sent. The others are to be
    /// handed in again, before any that came later.
    fn receive(&self, connection: u64, bytes: &[u8]) -> usize;

    /// The bytes that wait to be sent by a connection, at most so many.
    fn output(&self, connection: u64, most: usize) -> Vec<u8>;

    /// The first `count` of those bytes were sent.
    fn sent(&self, connection: u64, count: usize);

    /// Why a connection is to be closed once what waits was sent, as a sentence; nothing if it is not.
    fn closing(&self, connection: u64) -> Option<&'static str>;

    /// Why a channel has no connection now, for people; nothing where it has one, or is no more.
    fn set_state(&self, channel: Channel, state: Option<String>);

    /// What wakes the service of a channel where something is to be sent that nobody asked for. `None`: the service is gone.
    fn attend(&self, channel: Channel, wake: Option<Wake>);
}
