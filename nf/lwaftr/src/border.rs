//! What becomes of a packet, decided one by one and by the letter: whatever the fast path does not know, and what it is measured against.
//!
//! Packets are looked at as bytes, whole: fragments were put together before. What comes out are frames, whose first bytes are for a link's header
//! that is not known yet.

mod clamp;
mod errors;
mod four;
mod ports;
mod six;

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_ip::Onward;
use weir_net::fragment::Fragments;
use weir_net::fragment::six::Fragments6;
use weir_wire::{Ethernet, View, ethernet};

pub(crate) use errors::Window;
pub(crate) use four::HOP_LIMIT;
pub(crate) use ports::{End as Whose, Port, port_of};
pub(crate) use six::{Outer, tunnel_of};

use crate::exit::Exit;
use crate::rules::{Rules, Side};
use crate::table::{Direction, Softwire, Softwires, WorkerCounters};
use crate::tally::{Count, Tally};

/// Bytes of the link's header in front of the packets that are made here.
pub(crate) const HEADER: usize = Ethernet::LEN;

/// A frame that is made here: its link's header has nothing but the EtherType.
pub(crate) type Frame = Vec<u8>;

/// How a packet ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It goes on as this.
    Go(Frame),
    /// It goes on in pieces.
    Pieces(Vec<Frame>),
    /// It does not.
    Stop(Exit),
}

/// What becomes of a packet, and what somebody is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) end: End,
    pub(crate) answer: Option<(Frame, Exit)>,
}

impl From<End> for Verdict {
    fn from(end: End) -> Verdict {
        Verdict { end, answer: None }
    }
}

impl From<Exit> for Verdict {
    fn from(exit: Exit) -> Verdict {
        End::Stop(exit).into()
    }
}

/// Where an IPv4 packet is from.
#[derive(Clone, Copy, Debug)]
enum From4 {
    Internet,
    /// A customer, by this softwire.
    Customer(Softwire),
}

/// See the module. Each stage has its own.
pub(crate) struct Border {
    pub(crate) softwires: Arc<Softwires>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) onward: Onward,
    windows: [Window; 2],
    /// Identifications of fragments: no other packet between two ends has the same for long, and nobody can guess the next one.
    identification: u32,
    secret: RandomState,
}

impl Border {
    pub(crate) fn new(
        softwires: Arc<Softwires>,
        counters: Arc<WorkerCounters>,
        tally: Arc<Tally>,
        rules: Arc<Rules>,
        onward: Onward,
    ) -> Border {
        let windows = [&rules.four, &rules.six].map(|side| Window::new(side.rate));
        Border { softwires, counters, tally, rules, onward, windows, identification: 0, secret: RandomState::new() }
    }

    /// Counts a packet that came from the Internet and goes no further.
    fn stop_four(&self, exit: Exit, l2: u64) -> Verdict {
        self.tally.one(Count::DropFour, l2);
        exit.into()
    }

    /// The same of one from the side of the customers.
    fn stop_six(&self, exit: Exit, l2: u64) -> Verdict {
        self.tally.one(Count::DropSix, l2);
        exit.into()
    }

    /// Counts what came by a side and goes no further.
    pub(crate) fn stop(&self, is_six: bool, exit: Exit, l2: u64) -> Verdict {
        if is_six { self.stop_six(exit, l2) } else { self.stop_four(exit, l2) }
    }

    /// Bytes of the longest IPv4 packet that may leave for an address.
    fn longest_four(&self, to: Ipv4Addr) -> usize {
        self.longest(&self.rules.four, answer_beyond(&self.onward, to.to_bits()))
    }

    /// The same of IPv6.
    fn longest_six(&self, to: Ipv6Addr) -> usize {
        self.longest(&self.rules.six, self.onward.lookup6(to.to_bits()))
    }

    fn longest(&self, side: &Side, answer: u32) -> usize {
        // Where nobody knows the interface yet, the slow path finds out.
        let link = self.onward.leaving(answer, || 0).map_or(usize::MAX, weir_ip::Leaving::longest);
        let link = if link == 0 { usize::MAX } else { link };
        side.mtu.min(link).min(usize::from(u16::MAX))
    }

    /// An IPv4 packet leaves for the Internet; in pieces where it is longer than `longest`.
    fn leave_four(&self, frame: Frame, longest: usize) -> End {
        if self.rules.four.egress.as_ref().is_some_and(|filter| !filter.matches(&frame)) {
            self.tally.one(Count::FilteredOutFour, frame.len() as u64);
            return End::Stop(Exit::FilteredOutFour);
        }
        self.tally.one(Count::OutFour, frame.len() as u64);
        if frame.len() - HEADER <= longest {
            self.tally.one(Count::OutWholeFour, 0);
            return End::Go(frame);
        }
        let packet = frame.get(HEADER..).unwrap_or_default();
        let Ok(fragments) = Fragments::new(packet, longest as u16) else { return End::Stop(Exit::MustNotFragment) };
        let pieces = fragments.map(|fragment| {
            let mut piece = blank(ethernet::IPV4, fragment.total_len());
            fragment.write(piece.get_mut(HEADER..).unwrap_or_default());
            piece
        });
        let pieces: Vec<Frame> = pieces.collect();
        self.tally.add(Count::FragmentOutFour, pieces.len() as u64, 0);
        End::Pieces(pieces)
    }

    /// An IPv6 packet leaves for a customer; in pieces where it is longer than `longest`, of the packet in the tunnel and with it (RFC 2473
    /// section 7.2).
    fn leave_six(&mut self, frame: Frame, longest: usize) -> End {
        if self.rules.six.egress.as_ref().is_some_and(|filter| !filter.matches(&frame)) {
            self.tally.one(Count::FilteredOutSix, frame.len() as u64);
            return End::Stop(Exit::FilteredOutSix);
        }
        self.tally.one(Count::OutSix, frame.len() as u64);
        if frame.len() - HEADER <= longest {
            self.tally.one(Count::OutWholeSix, 0);
            return End::Go(frame);
        }
        let packet = frame.get(HEADER..).unwrap_or_default();
        self.identification = self.identification.wrapping_add(1);
        let identification = self.secret.hash_one(self.identification) as u32;
        let Ok(fragments) = Fragments6::new(packet, longest as u16, identification) else {
            return End::Stop(Exit::MustNotFragment);
        };
        let pieces = fragments.map(|fragment| {
            let mut piece = blank(ethernet::IPV6, fragment.total_len());
            fragment.write(piece.get_mut(HEADER..).unwrap_or_default());
            piece
        });
        let pieces: Vec<Frame> = pieces.collect();
        self.tally.add(Count::FragmentOutSix, pieces.len() as u64, 0);
        End::Pieces(pieces)
    }

    fn count(&self, softwire: Softwire, direction: Direction, packet: &[u8]) {
        self.counters.of(direction).count(softwire.place, packet.len() as u64);
    }
}

/// What routes answer for an IPv4 packet that leaves the relay. What is for softwires has been in their tunnels: where it goes on as all else
/// does, as the configuration says, it goes to the router that has all else.
pub(crate) fn answer_beyond(onward: &Onward, destination: u32) -> u32 {
    let answer = onward.lookup(destination);
    match onward.leaving(answer, || 0) {
        Err(weir_ip::Fate::Function(_)) => onward.lookup(0),
        _ => answer,
    }
}

/// A frame for a packet of so many bytes, all of them 0.
fn blank(ethertype: u16, length: usize) -> Frame {
    let mut frame = vec![0; HEADER + length];
    frame.iter_mut().skip(HEADER - 2).zip(ethertype.to_be_bytes()).for_each(|(to, from)| *to = from);
    frame
}

/// A frame with the packet that these two halves make.
fn framed(ethertype: u16, [head, rest]: [&[u8]; 2]) -> Frame {
    let mut frame = Vec::with_capacity(HEADER + head.len() + rest.len());
    frame.extend([0; HEADER - 2]);
    frame.extend(ethertype.to_be_bytes());
    frame.extend(head);
    frame.extend(rest);
    frame
}
