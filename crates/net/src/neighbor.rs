//! The ARP neighbour table: RFC 826 as a state machine over data.
//!
//! The states have the names of RFC 4861 section 7.3.2, as Linux uses them for ARP as well:
//!
//! ```text
//!                    no answer to broadcasts
//!      resolve() --> Incomplete ------------> Failed --> (forgotten)
//!                       | answer
//!                       v          was used: ask again before it expires
//!                   Reachable -----------------------> Probe --> Failed
//!                       | not used            used        | answer
//!                       v                       |         v
//!                     Stale --------------------+     Reachable
//!                       | not used for long
//!                       v
//!                  (forgotten)          Permanent: static, never changes by itself
//! ```
//!
//! In Reachable, Stale and Probe packets are sent to the known MAC address, so that re-validation (RFC 1122 section 2.3.2.1
//! "Unicast Poll") costs no packet. There is no Delay state: it waits for hints from upper layers, and a router has
//! none worth waiting for. Requests for one address go out at most once per retransmission interval; RFC 1122: "The
//! recommended maximum rate is 1 per second per destination."
//!
//! The router's own addresses are announced and watched as RFC 5227 says ([`own`]).
//!
//! Nothing is sent here: every operation appends to a list what has to be done. Packets that wait for an answer are
//! held by the caller, who forwards them on [`Event::Resolved`] and drops them on [`Event::Failed`] or
//! [`Event::Removed`].

mod arp;
pub mod duplicate;
pub mod own;
mod port;
mod table;
#[cfg(test)]
mod tests;
mod timing;

use crate::author::Author;
use crate::interface::PortId;
use std::fmt;
use std::net::Ipv4Addr;
use weir_wire::MacAddr;
use weir_wire::arp::ArpFields;

pub use arp::{Heard, Ignored};
pub use table::Neighbors;
pub use timing::{Limits, OutOfRange, Timing};

/// Where a neighbour stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Asked for by broadcast; its MAC address is not known yet.
    Incomplete,
    /// It answered lately.
    Reachable,
    /// It was not heard of for a while and not used either; asked again as soon as it is.
    Stale,
    /// It is being asked again, by unicast first.
    Probe,
    /// It did not answer; it is not asked again before a short while.
    Failed,
    /// Entered by hand.
    Permanent,
}

impl State {
    /// All states, in the order in which a neighbour goes through them.
    pub const ALL: [State; 6] =
        [State::Incomplete, State::Reachable, State::Stale, State::Probe, State::Failed, State::Permanent];

    /// The name in lower case, as output uses it.
    pub const fn name(self) -> &'static str {
        match self {
            State::Incomplete => "incomplete",
            State::Reachable => "reachable",
            State::Stale => "stale",
            State::Probe => "probe",
            State::Failed => "failed",
            State::Permanent => "permanent",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A neighbour as shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// The port it is on.
    pub port: PortId,
    /// Its IPv4 address.
    pub address: Ipv4Addr,
    /// Its MAC address, if known.
    pub mac: Option<MacAddr>,
    /// Where it stands.
    pub state: State,
    /// Who entered it; [`Author::Learned`] if ARP did.
    pub author: Author,
    /// Since when it is in this state, in nanoseconds.
    pub since: u64,
}

/// Why an ARP packet is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArpKind {
    /// Asks everybody for an address.
    Request,
    /// Asks a known neighbour whether it is still there (unicast).
    Revalidation,
    /// Answers a request for one of the router's own addresses.
    Reply,
    /// Asks whether somebody else has one of the router's own addresses (RFC 5227 section 2.1.1).
    Probe,
    /// Tells everybody that an address is the router's (RFC 5227 section 2.3).
    Announcement,
}

/// Something that happened, or has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Send this ARP packet.
    SendArp {
        /// The port to send it by.
        port: PortId,
        /// The Ethernet destination.
        to: MacAddr,
        /// What it says; `sender_mac` is the Ethernet source.
        arp: ArpFields,
        /// Why.
        kind: ArpKind,
    },
    /// The neighbour's MAC address is known now: send what waits for it.
    Resolved {
        /// Its port.
        port: PortId,
        /// Its address.
        address: Ipv4Addr,
        /// Its MAC address.
        mac: MacAddr,
    },
    /// The neighbour has another MAC address now.
    Changed {
        /// Its port.
        port: PortId,
        /// Its address.
        address: Ipv4Addr,
        /// Its new MAC address.
        mac: MacAddr,
    },
    /// The neighbour does not answer: its MAC address, if it was known, is void; drop what waits for it.
    Failed {
        /// Its port.
        port: PortId,
        /// Its address.
        address: Ipv4Addr,
    },
    /// The neighbour is no longer in the table: its MAC address, if it was known, is void; drop what waits for it.
    Removed {
        /// Its port.
        port: PortId,
        /// Its address.
        address: Ipv4Addr,
    },
    /// Somebody else uses one of the router's own addresses.
    DuplicateAddress {
        /// The port on which it was heard.
        port: PortId,
        /// The address that both use.
        address: Ipv4Addr,
        /// The other's MAC address.
        mac: MacAddr,
    },
}

/// What [`Neighbors::resolve`] knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Send to this MAC address.
    Known(MacAddr),
    /// Hold the packet: the neighbour is being asked.
    Pending,
    /// Drop the packet: the neighbour did not answer lately, or no host can have the address.
    Failed,
    /// Drop the packet: the table is full of neighbours in use.
    NoRoom,
    /// Drop the packet: the port's link is down, or it has no address to ask from.
    NoPort,
}
