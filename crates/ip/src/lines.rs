//! Lines: customers of a function whom it tells apart on its ports by more than interfaces have, such as two tags of each, whose addresses it learns and
//! checks. Beside them a port may have [interfaces](crate::Interfaces) as any other. Packets of lines come
//! without what tells them apart, and with a word that says whose they are ([`Punt`]); what is for a line goes back to the function with the
//! same word. All else is as on any interface: echo, ICMP errors and their limits, fragments, packets that wait for a neighbour.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_net::limit::Pace;
use weir_net::{DEFAULT_VRF, VrfId};
use weir_table::counters::WorkerCounters;
use weir_wire::MacAddr;

use crate::fast::punt::PuntReason;
use crate::{Ingress, InterfaceId, Interfaces, NO_INTERFACE};

/// Lines of a function at most.
pub const MAX_LINES: u32 = 1 << Line::NUMBER_BITS;

/// The lines of a function, in the default VRF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    /// The name of the interface that has the addresses towards them: one of the function's own.
    pub on: String,
    /// These addresses, each with the network around it, in which it is the one to speak from.
    pub networks: Vec<IpNet>,
    /// The links that lines are on, of which there are at most 64.
    pub links: Vec<LineLink>,
}

/// A link that lines are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineLink {
    /// The Ethernet address of its port.
    pub mac: MacAddr,
    /// Bytes of the longest IP packet.
    pub mtu: u16,
}

/// Which way a packet was going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// From who is on the line.
    From,
    /// To who is there.
    To,
}

/// Whose line a packet is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, below [`MAX_LINES`].
    pub number: u32,
    /// The position of its link.
    pub link: u8,
    /// Which way the packet was going.
    pub side: Side,
}

impl Line {
    const NUMBER_BITS: u32 = 20;

    /// The same line, the other way.
    #[must_use]
    pub const fn going(self, side: Side) -> Line {
        Line { side, ..self }
    }
}

/// Why a packet is on the slow path, and whose line it is of, or which VRF was chosen for it: the content of a claimed lane.
///
/// ```text
/// bits  0..4   why (`PuntReason`)
/// bits  4..6   0 nothing more; 1 from a line; 2 to a line; 3 a VRF was chosen
/// bits  6..26  number of the line, or of the VRF
/// bits 26..32  position of its link
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Punt {
    /// Why.
    pub reason: PuntReason,
    /// Whose; none of packets of interfaces.
    pub line: Option<Line>,
    /// The VRF in which an access list said that it is looked up; none of packets of lines.
    pub chosen: Option<VrfId>,
}

/// In place of a [`Side`]: a VRF was chosen.
const CHOSEN: u32 = 3;

impl From<u32> for Punt {
    fn from(word: u32) -> Punt {
        let side = match word >> 4 & 3 {
            1 => Some(Side::From),
            2 => Some(Side::To),
            _ => None,
        };
        let line = side.map(|side| Line { number: word >> 6 & (MAX_LINES - 1), link: (word >> 26) as u8, side });
        let chosen = (word >> 4 & 3 == CHOSEN).then_some((word >> 6) as VrfId);
        Punt { reason: PuntReason::from(word & 0xf), line, chosen }
    }
}

impl From<Punt> for u32 {
    fn from(punt: Punt) -> u32 {
        let line = punt.line.map(|line| {
            let side = if line.side == Side::From { 1 } else { 2 };
            side << 4 | (line.number & (MAX_LINES - 1)) << 6 | u32::from(line.link) << 26
        });
        let chosen = punt.chosen.map(|vrf| CHOSEN << 4 | u32::from(vrf) << 6);
        punt.reason as u32 | line.or(chosen).unwrap_or(0)
    }
}

impl From<PuntReason> for Punt {
    fn from(reason: PuntReason) -> Punt {
        Punt { reason, line: None, chosen: None }
    }
}

impl Punt {
    /// Of a packet of a line.
    pub const fn of_line(reason: PuntReason, line: Line) -> Punt {
        Punt { reason, line: Some(line), chosen: None }
    }
}

/// Counts packets of lines, and of interfaces beside them, for one stage of the function: those of lines at the interfaces of their ports.
pub struct LineTally {
    pub(crate) ingress: Arc<Ingress>,
    pub(crate) received: Arc<WorkerCounters>,
    pub(crate) sent: Arc<WorkerCounters>,
}

impl LineTally {
    /// The interfaces that frames are for which are of no line.
    pub fn ingress(&self) -> &Ingress {
        &self.ingress
    }

    /// Whether nothing comes or goes by lines on the port of this index: its interface is set down. Where functions share a port, that may be another's.
    #[inline(always)]
    pub fn is_shut(&self, port: u16) -> bool {
        self.ingress.station(port).is_none() && self.ingress.untagged_of(port) != NO_INTERFACE
    }

    /// So many packets of lines came in by the port of this index, with so many bytes together.
    #[inline(always)]
    pub fn came(&self, port: u16, packets: u64, bytes: u64) {
        self.count(self.ingress.untagged_of(port), packets, bytes);
    }

    /// A frame of so many bytes, which was counted as of a line, is of this interface [beside](Ingress::beside_lines) them.
    pub fn came_beside(&self, interface: InterfaceId, port: u16, bytes: u64) {
        self.came(port, 1_u64.wrapping_neg(), bytes.wrapping_neg());
        self.count(interface, 1, bytes);
    }

    #[inline(always)]
    fn count(&self, interface: InterfaceId, packets: u64, bytes: u64) {
        self.received.view(self.received.places()).count(interface.into(), packets, bytes);
    }

    /// So many packets leave for lines by the port of this index.
    #[inline(always)]
    pub fn left(&self, port: u16, packets: u64, bytes: u64) {
        let interface = self.ingress.untagged_of(port);
        self.sent.view(self.sent.places()).count(interface.into(), packets, bytes);
    }
}

/// A packet of a line was dropped on the slow path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The number of the line.
    pub line: u32,
    /// The code of the reason among [`slow_ways`](crate::slow_ways).
    pub code: u8,
}

/// What is kept for the function at most; it takes it every few milliseconds.
const MOST_LOST: usize = 65_536;

/// ICMP errors that one line may cause in a second, and at once.
const ERRORS: Pace = Pace::new(10, 10);

/// What the control side knows of lines.
#[derive(Debug)]
pub(crate) struct LineSide {
    interface: InterfaceId,
    four: Vec<Ipv4Net>,
    six: Vec<Ipv6Net>,
    links: Vec<LineLink>,
    /// By number, when its next error is due.
    due: Vec<u64>,
    lost: Vec<Lost>,
}

impl Default for LineSide {
    fn default() -> LineSide {
        LineSide {
            interface: NO_INTERFACE,
            four: Vec::new(),
            six: Vec::new(),
            links: Vec::new(),
            due: Vec::new(),
            lost: Vec::new(),
        }
    }
}

impl LineSide {
    /// Becomes what is wanted, once the interfaces are there.
    pub(crate) fn set(&mut self, wanted: Option<&Lines>, interfaces: &Interfaces) {
        let Some(Lines { on, networks, links }) = wanted else { return };
        self.interface = interfaces.find(on).map_or(NO_INTERFACE, |found| found.id);
        self.links.clone_from(links);
        (self.four, self.six) = (Vec::new(), Vec::new());
        for network in networks {
            match *network {
                IpNet::V4(net) => self.four.push(net),
                IpNet::V6(net) => self.six.push(net),
            }
        }
    }

    /// The interface that stands for all of them, and its VRF.
    pub(crate) fn interface(&self) -> (InterfaceId, u16) {
        (self.interface, DEFAULT_VRF)
    }

    /// The link of a line.
    pub(crate) fn link(&self, line: Line) -> Option<LineLink> {
        self.links.get(usize::from(line.link)).copied()
    }

    /// The own address towards one of a customer's.
    pub(crate) fn own_four(&self, near: Ipv4Addr) -> Option<Ipv4Addr> {
        self.four.iter().find(|own| own.contains(&near)).or(self.four.first()).map(Ipv4Net::addr)
    }

    /// The same of IPv6.
    pub(crate) fn own_six(&self, near: Ipv6Addr) -> Option<Ipv6Addr> {
        self.six.iter().find(|own| own.contains(&near)).or(self.six.first()).map(Ipv6Net::addr)
    }

    /// Whether an address is the broadcast or network address of a network of theirs.
    pub(crate) fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        let is_edge = |own: &Ipv4Net| address == own.broadcast() || address == own.network();
        self.four.iter().any(|own| own.prefix_len() < 31 && is_edge(own))
    }

    /// Whether another error may be sent about a line, if `may` also lets it.
    pub(crate) fn may_tell(&mut self, now: u64, line: Line, may: impl FnOnce() -> bool) -> bool {
        let place = line.number as usize;
        if self.due.len() <= place {
            self.due.resize(place + 1, 0);
        }
        let Some(due) = self.due.get_mut(place) else { return false };
        if !ERRORS.has(*due, now) || !may() {
            return false;
        }
        *due = ERRORS.after(*due, now);
        true
    }

    /// A packet of a line was dropped.
    pub(crate) fn note_lost(&mut self, line: Line, code: u8) {
        if self.lost.len() < MOST_LOST {
            self.lost.push(Lost { line: line.number, code });
        }
    }

    /// What was lost since the last call.
    pub(crate) fn take_lost(&mut self) -> Vec<Lost> {
        std::mem::take(&mut self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn reasons_and_lines_survive_their_lane() {
        for word in 0..14 {
            let reason = PuntReason::from(word);
            let plain = Punt { reason, line: None, chosen: None };
            assert_eq!(Punt::from(u32::from(Punt::from(reason))), plain);
            for vrf in [0, 1, 0x5a5a, VrfId::MAX] {
                let punt = Punt { chosen: Some(vrf), ..plain };
                assert_eq!(Punt::from(u32::from(punt)), punt);
            }
            for (number, link) in [(0, 0), (1, 63), (MAX_LINES - 1, 1), (0x5_a5a5, 42)] {
                for side in [Side::From, Side::To] {
                    let punt = Punt { line: Some(Line { number, link, side }), ..plain };
                    assert_eq!(Punt::from(u32::from(punt)), punt);
                }
            }
        }
    }

    fn line(number: u32) -> Line {
        Line { number, link: 0, side: Side::From }
    }

    #[test]
    fn one_line_has_ten_errors_a_second_and_leaves_the_others_theirs() {
        let mut lines = LineSide::default();
        let mut sent = |now, number| (0..50).filter(|_| lines.may_tell(now, line(number), || true)).count();
        assert_eq!((sent(5, 7), sent(5, 7), sent(5, 8)), (10, 0, 10));
        assert_eq!((sent(SECOND / 10 + 5, 7), sent(SECOND / 5 + 5, 7)), (1, 1));
        assert_eq!((sent(100 * SECOND, 7), sent(100 * SECOND, 8)), (10, 10));
        assert!(!lines.may_tell(200 * SECOND, line(7), || false), "what others forbid");
        assert_eq!((0..50).filter(|_| lines.may_tell(200 * SECOND, line(7), || true)).count(), 10, "costs nothing");
    }

    #[test]
    fn lines_hear_from_the_address_of_their_network() {
        let mut lines = LineSide::default();
        (lines.four, lines.six) = (
            vec!["10.0.0.1/16".parse().unwrap(), "10.1.0.1/16".parse().unwrap(), "10.2.0.0/31".parse().unwrap()],
            vec!["2001:db8::1/64".parse().unwrap()],
        );
        let own = |near: [u8; 4]| lines.own_four(near.into()).map(|own| own.octets());
        assert_eq!(own([10, 1, 7, 7]), Some([10, 1, 0, 1]));
        assert_eq!(own([192, 0, 2, 1]), Some([10, 0, 0, 1]));
        assert_eq!(lines.own_six("fe80::1".parse().unwrap()), "2001:db8::1".parse().ok());
        assert_eq!(LineSide::default().own_four(Ipv4Addr::LOCALHOST), None);
        let is_broadcast = |address: [u8; 4]| lines.is_broadcast(address.into());
        assert!(is_broadcast([10, 0, 255, 255]) && is_broadcast([10, 1, 0, 0]));
        assert!(!is_broadcast([10, 0, 0, 255]) && !is_broadcast([10, 2, 0, 1]));
    }
}
