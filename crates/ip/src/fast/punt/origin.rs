//! Who causes what goes to the slow path, and what each of them may have of it where it is scarce.

use weir_net::limit::{Pace, Rate};
use weir_packet::Packet;
use weir_wire::{Ipv4, Ipv6, View, ethernet, flow};

use crate::NO_INTERFACE;
use crate::ingress::Ingress;

/// Where a packet came from: by which interface, and from which prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The interface; where there is none, the port.
    pub(super) link: u64,
    /// The prefix of its source address, if it is of IP: the first 24 bits of IPv4; of IPv6 the first 48, which a site has at most (RFC 6177).
    pub(super) prefix: Option<u64>,
}

/// Tells prefixes of IPv6, which are of 48 bits, from those of IPv4.
const OF_IPV6: u64 = 1 << 48;

/// Tells prefixes from interfaces.
const OF_PREFIX: u64 = 1 << 63;

/// Tells ports from interfaces.
const OF_PORT: u64 = 1 << 32;

impl Origin {
    /// The origin of a packet that came in by a port.
    pub(crate) fn of(ingress: &Ingress, packet: &Packet, port: u16) -> Origin {
        let entered = ingress.enter(port, packet.window(0));
        let link = match entered.interface {
            NO_INTERFACE => OF_PORT | u64::from(port),
            interface => u64::from(interface),
        };
        let l3 = usize::from(entered.l3);
        let prefix = match u16::from_be_bytes(*packet.window(l3.saturating_sub(2))) {
            ethernet::IPV4 => Ipv4::view(packet.window::<{ Ipv4::LEN }>(l3)).map(|ip| u64::from(ip.source.get() >> 8)),
            ethernet::IPV6 => Ipv6::view(packet.window::<{ Ipv6::LEN }>(l3))
                .map(|ip| OF_IPV6 | (ip.source_addr().to_bits() >> 80) as u64),
            _ => None,
        };
        Origin { link, prefix }
    }

    /// The places of its shares, which only who knows the secret can foresee.
    pub(super) fn places(self, secret: u64) -> Places {
        let place = |word| flow::one(word, secret);
        Places { link: place(self.link), prefix: self.prefix.map(|prefix| place(prefix | OF_PREFIX)) }
    }
}

/// Where the shares of an origin are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    link: u32,
    prefix: Option<u32>,
}

/// The part of a kind's rate that an interface may have where it is scarce, and that of a prefix.
const LINK_PART: u64 = 2;
const PREFIX_PART: u64 = 8;

/// Packets that each of them may save up at least.
const LEAST_BURST: u64 = 4;

/// What interfaces and prefixes may have of one kind: half and an eighth of its rate each.
#[derive(Debug)]
pub(super) struct Shares {
    links: Due,
    prefixes: Due,
}

impl Shares {
    /// Of a kind with this rate.
    pub(super) fn new(rate: Rate) -> Shares {
        Shares { links: Due::new(rate.per_second() / LINK_PART), prefixes: Due::new(rate.per_second() / PREFIX_PART) }
    }

    /// Whether both the interface and the prefix have something of their share left; then it is taken.
    pub(super) fn take(&mut self, now: u64, places: Places) -> bool {
        let has = self.links.has(now, places.link) && places.prefix.is_none_or(|place| self.prefixes.has(now, place));
        if has {
            self.links.take(now, places.link);
            places.prefix.into_iter().for_each(|place| self.prefixes.take(now, place));
        }
        has
    }
}

/// Rows of places: each origin has one in every row.
const ROWS: usize = 4;
/// Places in a row.
const PLACES: usize = 64;

/// What many may have each, in bounded memory: each has a place in every row, and has something left as long as one of them has. So who shares a place
/// with a flood has three others; who shares all four with some, which among a dozen floods happens to one of a thousand, has to share indeed.
#[derive(Debug)]
struct Due {
    /// When the next packet of each place is due.
    due: Box<[[u64; PLACES]; ROWS]>,
    pace: Pace,
}

impl Due {
    fn new(per_second: u64) -> Due {
        let rate = Rate::saving_a_tenth(per_second, LEAST_BURST);
        Due { due: Box::new([[0; PLACES]; ROWS]), pace: Pace::new(rate.per_second(), rate.burst()) }
    }

    /// Whether who has these places has something left.
    fn has(&self, now: u64, places: u32) -> bool {
        self.due.iter().zip(each(places)).any(|(row, place)| self.pace.has(row[place % PLACES], now))
    }

    /// Takes one of it, wherever something is left.
    fn take(&mut self, now: u64, places: u32) {
        let pace = self.pace;
        for (row, place) in self.due.iter_mut().zip(each(places)) {
            let due = &mut row[place % PLACES];
            if pace.has(*due, now) {
                *due = pace.after(*due, now);
            }
        }
    }
}

/// The place in each row.
fn each(places: u32) -> impl Iterator<Item = usize> {
    places.to_le_bytes().into_iter().map(usize::from)
}

const _: () = assert!(ROWS == size_of::<u32>() && PLACES <= 1 << u8::BITS);
