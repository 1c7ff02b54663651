//! The stage that remarks packets before they are scheduled (RFC 2475 section 2.3.3.2): gives them another DSCP (RFC 2474), and the outer tag of
//! their frame another priority and drop eligible indicator (IEEE 802.1Q), by traffic class, colour, and the DSCP that they came with.

use std::sync::Arc;

use weir_config::{OneOrMany, choice, config};
use weir_mem::Published;
use weir_packet::{Batch, LaneId};
use weir_stage::{Declaration, Out, Stage};
use weir_table::meter::Colour;
use weir_wire::vlan::Vlan;
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet};

use crate::class::{ClassQueue, MAX_CLASSES};
use crate::classify::{Dscp, Frame};

/// Rules at most.
pub const MAX_RULES: usize = 64;

choice! {
    /// The colours that policers give packets.
    pub enum ColourWord {
        /// Within the committed rate; also what nobody polices.
        Green = "green",
        /// Within the excess or the peak rate.
        Yellow = "yellow",
        /// Beyond both, where the policer lets that pass.
        Red = "red",
    }
}

config! {
    /// A rule: what packets are remarked with that all of `class`, `colour` and `from` fit. Each of `dscp`, `priority` and `drop_eligible` is that of the
    /// first rule that fits and sets it.
    pub struct RemarkConfig {
        /// The traffic class; all when absent.
        pub class: Option<u8> = optional, live, range(0..=7);
        /// The colour that the policer gave; all when absent.
        pub colour: Option<ColourWord> = optional, live;
        /// The DSCPs that packets of IPv4 and IPv6 come with; all packets when absent.
        pub from: OneOrMany<Dscp> = empty, live;
        /// The DSCP that they leave with, where they are of IPv4 or IPv6. What marks congestion stays (RFC 3168).
        pub dscp: Option<Dscp> = optional, live;
        /// The priority code point that the outer tag leaves with, where there is a tag.
        pub priority: Option<u8> = optional, live, range(0..=7);
        /// The drop eligible indicator that the outer tag leaves with, where there is a tag.
        pub drop_eligible: Option<bool> = optional, live;
    }
}

impl RemarkConfig {
    /// What is wrong with it where there are so many classes: a sentence.
    pub fn fault(&self, classes: u8) -> Option<String> {
        if self.dscp.is_none() && self.priority.is_none() && self.drop_eligible.is_none() {
            return Some("sets nothing; give it `dscp`, `priority` or `drop_eligible`, or leave it out".to_owned());
        }
        let class = self.class.filter(|class| *class >= classes)?;
        Some(format!("class: there is no class {class}; the classes are 0 to {}", classes.saturating_sub(1)))
    }

    fn fits(&self, class: u8, colour: Colour, dscp: Option<u8>) -> bool {
        let colour = match colour {
            Colour::Green => ColourWord::Green,
            Colour::Yellow => ColourWord::Yellow,
            Colour::Red => ColourWord::Red,
        };
        self.class.is_none_or(|wanted| wanted == class)
            && self.colour.is_none_or(|wanted| wanted == colour)
            && (self.from.is_empty() || self.from.iter().any(|from| Some(from.0) == dscp))
    }
}

/// DSCPs, and one more for what is no packet of IPv4 or IPv6.
const DSCPS: usize = 65;
/// The last of them.
const NO_DSCP: u8 = 64;
/// The bits of the type of service, or the traffic class, that a DSCP stands in.
const DSCP_BITS: u8 = 0xfc;
/// The bits of a tag that a priority stands in, and the drop eligible indicator.
const PRIORITY_BITS: u16 = 0xe000;
const DROP_ELIGIBLE: u16 = 0x1000;

/// What becomes of packets of one class, one colour and one DSCP: bits that they lose, and bits that they get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Change {
    tos: (u8, u8),
    control: (u16, u16),
}

impl Change {
    fn of(rules: &[RemarkConfig], class: u8, colour: Colour, dscp: Option<u8>) -> Change {
        let fitting = || rules.iter().filter(|rule| rule.fits(class, colour, dscp));
        let mut change = Change::default();
        if let Some(dscp) = fitting().find_map(|rule| rule.dscp) {
            change.tos = (DSCP_BITS, dscp.0 << 2);
        }
        if let Some(priority) = fitting().find_map(|rule| rule.priority) {
            change.control = (PRIORITY_BITS, u16::from(priority) << 13);
        }
        if let Some(eligible) = fitting().find_map(|rule| rule.drop_eligible) {
            let set = if eligible { DROP_ELIGIBLE } else { 0 };
            change.control = (change.control.0 | DROP_ELIGIBLE, change.control.1 | set);
        }
        change
    }
}

/// Rules, ready to be asked.
#[derive(Clone, Debug)]
pub struct Remarking {
    /// By class, colour and DSCP.
    changes: Box<[[[Change; DSCPS]; Colour::ALL.len()]; MAX_CLASSES]>,
}

impl Remarking {
    /// From rules without [faults](RemarkConfig::fault).
    pub fn new(rules: &[RemarkConfig]) -> Remarking {
        let mut changes = Box::new([[[Change::default(); DSCPS]; Colour::ALL.len()]; MAX_CLASSES]);
        for (class, by_colour) in (0..).zip(changes.iter_mut()) {
            for (colour, by_dscp) in Colour::ALL.into_iter().zip(by_colour) {
                for (dscp, change) in (0..).zip(by_dscp) {
                    *change = Change::of(rules, class, colour, Some(dscp).filter(|dscp| *dscp < NO_DSCP));
                }
            }
        }
        Remarking { changes }
    }

    /// Remarks a frame of this class; `colour` is as in its lane.
    #[inline]
    pub fn remark(&self, bytes: &mut [u8], class: ClassQueue, colour: u8) {
        let frame = Frame::of(bytes);
        let dscp = frame.dscp(bytes).unwrap_or(NO_DSCP);
        let by_colour = self.changes.get(usize::from(class.class()));
        let by_dscp = by_colour.and_then(|by_colour| by_colour.get(usize::from(colour)));
        let Some(change) = by_dscp.and_then(|by_dscp| by_dscp.get(usize::from(dscp))) else { return };
        change.put_dscp(bytes, &frame);
        change.put_priority(bytes, &frame);
    }
}

impl Change {
    fn put_dscp(&self, bytes: &mut [u8], frame: &Frame) {
        let (lost, got) = self.tos;
        if lost == 0 {
            return;
        }
        let packet = bytes.get_mut(frame.l3..).unwrap_or_default();
        match frame.ethertype {
            ethernet::IPV4 => {
                let ip = Ipv4::view_mut(packet).filter(|ip| ip.version_ihl >> 4 == 4);
                ip.into_iter().for_each(|ip| ip.set_tos(ip.tos & !lost | got));
            }
            ethernet::IPV6 => {
                let ip = Ipv6::view_mut(packet).filter(|ip| ip.version() == 6);
                ip.into_iter().for_each(|ip| ip.set_traffic_class(ip.traffic_class() & !lost | got));
            }
            _ => {}
        }
    }

    fn put_priority(&self, bytes: &mut [u8], frame: &Frame) {
        let (lost, got) = self.control;
        if lost == 0 || frame.tags == 0 {
            return;
        }
        if let Some(tag) = bytes.get_mut(Ethernet::LEN..).and_then(Vlan::view_mut) {
            tag.control = (tag.control.get() & !lost | got).into();
        }
    }
}

weir_stage::ways! {
    /// Ways out of [`Remark`].
    pub enum Exit {
        /// Goes on.
        Out => way "out",
    }
}

/// Remarks packets.
pub struct Remark {
    remarking: Arc<Published<Remarking>>,
}

impl Remark {
    /// By these rules, as they are published.
    pub fn new(remarking: Arc<Published<Remarking>>) -> Remark {
        Remark { remarking }
    }
}

/// What [`Remark`] declares.
pub fn declaration() -> Declaration {
    Declaration::of::<Exit>().reads(&[LaneId::Class, LaneId::Colour])
}

impl Stage for Remark {
    fn declare(&self) -> Declaration {
        declaration()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let remarking = self.remarking.load(out.reader());
        batch.each(|slot, packet, lanes| {
            let class = ClassQueue::from_lane(lanes.class[slot]);
            remarking.remark(packet.bytes_mut(), class, lanes.colour[slot]);
        });
    }
}
