//! What a function has in common with the controllers that drive it over connections of their own: bytes that came, and bytes that are to be
//! sent. The function has one side of it ([`ChannelSide`]); services, which open the connections, the other.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use crate::host::Wake;

/// Where one end of a connection is, and how the other gets there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// By TCP.
    Tcp(SocketAddr),
    /// By TLS over TCP; both ends prove who they are.
    Tls(SocketAddr),
    /// By a UNIX stream socket with this path.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => write!(f, "tcp:{address}"),
            Endpoint::Tls(address) => write!(f, "tls:{address}"),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// How controllers and a function come together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// The function connects to a controller, and again when that has gone.
    Connect(Endpoint),
    /// Controllers connect.
    Listen(Endpoint),
}

impl Channel {
    /// Where the controller is, or is to come.
    pub fn endpoint(&self) -> &Endpoint {
        match self {
            Channel::Connect(endpoint) | Channel::Listen(endpoint) => endpoint,
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Channel::Connect(endpoint) => endpoint.fmt(f),
            Channel::Listen(endpoint) => write!(f, "listen:{endpoint}"),
        }
    }
}

/// What a function proves itself by to peers, and whom it trusts: the contents of files in PEM.
#[derive(PartialEq, Eq)]
pub struct Credentials {
    /// Its certificate, with those between it and its CA.
    pub certificate: Vec<u8>,
    /// The key of that.
    pub private_key: Vec<u8>,
    /// The CA that peers are trusted by.
    pub ca: Vec<u8>,
}

impl fmt::Debug for Credentials {
    /// Without what is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// A function's side of its channels. All of it takes no longer than a piece of the function's work; it may be asked by several threads.
pub trait ChannelSide: Send + Sync {
    /// A connection over this channel begins, to a peer of this name. Answers its number, which is never used again; nothing if there are as
    /// many as there may be.
    fn connect(&self, channel: &Channel, peer: &str) -> Option<u64>;

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

    /// Why a channel has no connection now, or whom it refused last, for people; nothing where there is nothing to say, or it is no more. A
    /// connection ends what was said.
    fn set_state(&self, channel: &Channel, state: Option<String>);

    /// What wakes the service of a channel where something is to be sent that nobody asked for. `None`: the service is gone.
    fn attend(&self, channel: &Channel, wake: Option<Wake>);

    /// What it proves itself by now, where it has channels that take it. Connections that there are already go on.
    fn credentials(&self) -> Option<Arc<Credentials>>;
}
