//! The neighbour table: RFC 826 for IPv4 and RFC 4861 for IPv6, as one state machine over data.
//!
//! The states are those of RFC 4861 section 7.3.2, as Linux uses them for ARP as well:
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
//! "Unicast Poll") costs no packet. Between Stale and Probe there is a Delay if [`Timing::delay`] says so, as RFC 4861 wants it; it
//! waits for hints from upper layers, of which a router has few, so that ARP does without. Requests for one address go out at most once per retransmission interval; RFC 1122: "The
//! recommended maximum rate is 1 per second per destination."
//!
//! The router's own addresses are announced and watched as RFC 5227 and RFC 4862 say ([`own`]). What only one of the protocols knows is
//! behind [`Protocol`].
//!
//! Nothing is sent here: every operation appends to a list what has to be done. Packets that wait for an answer are
//! held by the caller, who forwards them on [`Event::Resolved`] and drops them on [`Event::Failed`] or
//! [`Event::Removed`].

mod arp;
pub mod duplicate;
mod interface;
mod nd;
pub mod own;
mod own_addresses;
mod table;
#[cfg(test)]
mod tests;
mod timing;

use crate::family::Family;
use crate::interface::InterfaceId;
use crate::route_source::RouteSource;
use std::fmt;
use std::net::Ipv4Addr;
use weir_wire::MacAddr;

pub use table::Neighbors;
pub use timing::{Limits, OutOfRange, Timing};

/// A family whose neighbours are found by messages of its own: ARP, or neighbour discovery.
pub trait Protocol: Family {
    /// What is sent: without the Ethernet header.
    type Message: Copy + fmt::Debug + PartialEq + Eq + Send + Sync + 'static;

    /// Whether an own address is used only after nobody was found to have it, and given up when somebody has.
    const MUST_BE_PROVEN: bool;
    /// Within so long after a link came up the first word is said about an own address, in nanoseconds.
    const FIRST_WAIT: u64;
    /// How often an own address is announced.
    const ANNOUNCEMENTS: u32;
    /// Time from the last probe to the first announcement.
    const ANNOUNCE_WAIT: u64;
    /// Time between two announcements.
    const ANNOUNCE_INTERVAL: u64;

    /// The question of the station `mac` with the address `source` for `target`, and the MAC address to send it to: that of the target
    /// if it is `known`.
    fn ask(mac: MacAddr, source: Self, target: Self, known: Option<MacAddr>) -> (MacAddr, Self::Message);

    /// What the station `mac` says to all of its address `own`; it may know a probe of its own again by `nonce`.
    fn say(say: Say, mac: MacAddr, own: Self, nonce: [u8; 6]) -> (MacAddr, Self::Message);
}

/// What is said of an own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say {
    /// Who else has it?
    Probe,
    /// It is here.
    Announcement,
}

/// Where a neighbour stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Asked for by broadcast; its MAC address is not known yet.
    Incomplete,
    /// It answered lately.
    Reachable,
    /// It was not heard of for a while and not used either; asked again as soon as it is.
    Stale,
    /// It is used again after it was not heard of for a while; asked soon, unless something shows that it is there.
    Delay,
    /// It is being asked again, by unicast first.
    Probe,
    /// It did not answer; it is not asked again before a short while.
    Failed,
    /// Entered by hand.
    Permanent,
}

impl State {
    /// All states, in the order in which a neighbour goes through them.
    pub const ALL: [State; 7] = [
        State::Incomplete,
        State::Reachable,
        State::Stale,
        State::Delay,
        State::Probe,
        State::Failed,
        State::Permanent,
    ];

    /// The name in lower case, as output uses it.
    pub const fn name(self) -> &'static str {
        match self {
            State::Incomplete => "incomplete",
            State::Reachable => "reachable",
            State::Stale => "stale",
            State::Delay => "delay",
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
pub struct Neighbor<A = Ipv4Addr> {
    /// The interface it is on.
    pub interface: InterfaceId,
    /// Its address.
    pub address: A,
    /// Its MAC address, if known.
    pub mac: Option<MacAddr>,
    /// Where it stands.
    pub state: State,
    /// Who entered it; [`RouteSource::Learned`] if the protocol did.
    pub source: RouteSource,
    /// Since when it is in this state, in nanoseconds.
    pub since: u64,
    /// It says that it is a router; never known of by ARP.
    pub router: bool,
}

/// Why a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// Asks everybody for an address.
    Request,
    /// Asks a known neighbour whether it is still there (unicast).
    Revalidation,
    /// Answers a request for one of the router's own addresses.
    Reply,
    /// Asks whether somebody else has one of the router's own addresses (RFC 5227 section 2.1.1, RFC 4862 section 5.4).
    Probe,
    /// Tells everybody that an address is the router's (RFC 5227 section 2.3, RFC 4861 section 7.2.6).
    Announcement,
}

/// Something that happened, or has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<A: Protocol = Ipv4Addr> {
    /// Send this message, from the interface's MAC address.
    Send {
        /// The interface to send it by.
        interface: InterfaceId,
        /// The Ethernet destination.
        to: MacAddr,
        /// What it says.
        message: A::Message,
        /// Why.
        kind: MessageKind,
    },
    /// An own address may be used from now on, or not any more; only where it has to be the router's alone.
    OwnAddress {
        /// Its interface.
        interface: InterfaceId,
        /// Which.
        address: A,
        /// Whether it may be used.
        usable: bool,
    },
    /// The neighbour's MAC address is known now: send what waits for it.
    Resolved {
        /// Its interface.
        interface: InterfaceId,
        /// Its address.
        address: A,
        /// Its MAC address.
        mac: MacAddr,
    },
    /// The neighbour has another MAC address now.
    Changed {
        /// Its interface.
        interface: InterfaceId,
        /// Its address.
        address: A,
        /// Its new MAC address.
        mac: MacAddr,
    },
    /// The neighbour does not answer: its MAC address, if it was known, is void; drop what waits for it.
    Failed {
        /// Its interface.
        interface: InterfaceId,
        /// Its address.
        address: A,
    },
    /// The neighbour is no longer in the table: its MAC address, if it was known, is void; drop what waits for it.
    Removed {
        /// Its interface.
        interface: InterfaceId,
        /// Its address.
        address: A,
    },
    /// Somebody else uses one of the router's own addresses.
    DuplicateAddress {
        /// The interface on which it was heard.
        interface: InterfaceId,
        /// The address that both use.
        address: A,
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
    /// Drop the packet: the interface's link is down, or it has no address to ask from.
    NoPort,
}

/// What became of a message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It was a request for an own address, and is answered.
    Answered,
    /// It told something about a neighbour that is in the table.
    Learned,
    /// Its sender uses one of the router's own addresses.
    Conflict,
    /// It is of no use here.
    Ignored(Ignored),
}

/// Why a message is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// The interface is not known, or its link is down.
    NoPort,
    /// The sender's MAC or network address can not be a host's.
    BadSender,
    /// It is the router's own, come back.
    Echo,
    /// It is for somebody else and from nobody that the router talks to. If it is a request, proxy ARP may answer it:
    /// [`Neighbors::answer_for`].
    NotForUs,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ignored::NoPort => "a neighbour's message on an interface that is down",
            Ignored::BadSender => "the sender's address can not be a host's",
            Ignored::Echo => "a message of this router came back",
            Ignored::NotForUs => "a message between others",
        })
    }
}
