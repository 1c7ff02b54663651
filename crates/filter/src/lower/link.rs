//! The link layer: EtherTypes, LLC, VLAN tags, MPLS labels and PPPoE.

use super::{Cast, Layers, Link, field};
use crate::ast::{Relation, Width};
use crate::error::FilterError;
use crate::names;
use crate::test::{Place, Test};

const TYPE_VLAN: u32 = 0x8100;
const TYPE_SVLAN: u32 = 0x88a8;
/// What some bridges used for the outer tag before 802.1ad.
const TYPE_QINQ: u32 = 0x9100;
const TYPE_MPLS: u32 = 0x8847;
pub(super) const TYPE_PPPOE_DISCOVERY: u32 = 0x8863;
const TYPE_PPPOE_SESSION: u32 = 0x8864;
const PPP_MPLS: u32 = 0x0281;

/// The largest value of the type field that is a length (IEEE 802.3).
const MAX_LENGTH: u32 = 1500;

impl Layers {
    /// The network protocol is `number`: an EtherType, or (up to 1,500) an LLC SAP.
    pub(super) fn link_type(&self, column: usize, number: u32) -> Result<Test, FilterError> {
        if self.labels > 0 {
            return self.behind_labels(column, number);
        }
        Ok(match self.link {
            Link::Ethernet => self.ether_type(number),
            Link::Ppp => self.kind(ppp_protocol(number)),
        })
    }

    /// The type field equals `value`.
    fn kind(&self, value: u32) -> Test {
        field(self.kind, Width::Two, u32::MAX, value)
    }

    /// The type field is a length, so an LLC header follows.
    fn is_llc(&self) -> Test {
        Test::Field {
            place: Place::Frame(self.kind),
            width: Width::Two,
            mask: u32::MAX,
            relation: Relation::LessOrEqual,
            value: MAX_LENGTH,
        }
    }

    fn ether_type(&self, number: u32) -> Test {
        match number {
            names::SAP_OSI | names::SAP_IP | names::SAP_NETBEUI => {
                let saps = field(self.payload, Width::Two, u32::MAX, number << 8 | number);
                self.is_llc().and(saps)
            }
            names::SAP_IPX => {
                // IPX has four encapsulations: its EtherType, its SAP, none (0xffff), and SNAP.
                let sap = field(self.payload, Width::One, u32::MAX, number);
                let none = field(self.payload, Width::Two, u32::MAX, 0xffff);
                let llc = self.snap(0, names::TYPE_IPX).or(sap.or(none));
                self.kind(names::TYPE_IPX).or(self.is_llc().and(llc))
            }
            // AppleTalk's SNAP headers carry Apple's organisation code, AARP's do not.
            names::TYPE_ATALK => self.type_or_snap(0x08_0007, number),
            names::TYPE_AARP => self.type_or_snap(0, number),
            0..=MAX_LENGTH => {
                let sap = field(self.kind + 2, Width::One, u32::MAX, number);
                self.is_llc().and(sap)
            }
            _ => self.kind(number),
        }
    }

    fn type_or_snap(&self, organisation: u32, number: u32) -> Test {
        let snap = self.is_llc().and(self.snap(organisation, number));
        self.kind(number).or(snap)
    }

    /// LLC and SNAP headers: 0xaaaa03, the organisation code, the type.
    fn snap(&self, organisation: u32, number: u32) -> Test {
        let low = (organisation & 0xffff) << 16 | number;
        let high = 0xaaaa_0300 | organisation >> 16;
        field(self.payload + 4, Width::Four, u32::MAX, low).and(field(self.payload, Width::Four, u32::MAX, high))
    }

    /// An OSI network protocol, by the NLPID behind the LLC header.
    pub(super) fn osi(&self, column: usize, number: u32) -> Result<Test, FilterError> {
        let llc = match self.link {
            Link::Ethernet => 3,
            Link::Ppp => 0,
        };
        let nlpid = field(self.network + llc, Width::One, u32::MAX, number);
        Ok(self.link_type(column, names::SAP_OSI)?.and(nlpid))
    }

    /// MPLS does not name what it carries: the label is the last of its stack, and the version field
    /// tells IPv4 from IPv6.
    fn behind_labels(&self, column: usize, number: u32) -> Result<Test, FilterError> {
        let version = match number {
            names::TYPE_IP => 0x40,
            names::TYPE_IP6 => 0x60,
            _ => {
                return Err(FilterError::new(
                    column,
                    "another protocol behind `mpls`",
                    "a test of IPv4 or IPv6",
                    "write the test before `mpls`",
                ));
            }
        };
        let bottom = field(self.network - 2, Width::One, 1, 1);
        Ok(bottom.and(field(self.network, Width::One, 0xf0, version)))
    }

    /// Matches a tag, and moves everything behind it.
    pub(super) fn vlan(&mut self, column: usize, identifier: Option<u32>) -> Result<Test, FilterError> {
        self.only_on_ethernet(column, "`vlan`")?;
        if self.labels > 0 {
            return Err(FilterError::new(
                column,
                "`vlan` behind `mpls`",
                "`vlan` before `mpls`",
                "write the tags in the order in which they stand in the frame",
            ));
        }
        let tagged = self.kind(TYPE_VLAN).or(self.kind(TYPE_SVLAN)).or(self.kind(TYPE_QINQ));
        let test = match identifier {
            Some(identifier) => tagged.and(field(self.payload, Width::Two, 0xfff, identifier)),
            None => tagged,
        };
        self.kind += 4;
        self.payload += 4;
        self.network += 4;
        Ok(test)
    }

    /// Matches a label, and moves the network header behind it.
    pub(super) fn mpls(&mut self, column: usize, label: Option<u32>) -> Result<Test, FilterError> {
        let labelled = if self.labels > 0 {
            // The label before this one was not the last.
            field(self.network - 2, Width::One, 1, 0)
        } else {
            match self.link {
                Link::Ethernet => self.link_type(column, TYPE_MPLS)?,
                Link::Ppp => self.link_type(column, PPP_MPLS)?,
            }
        };
        let test = match label {
            Some(label) => labelled.and(field(self.network, Width::Four, 0xffff_f000, label << 12)),
            None => labelled,
        };
        self.network += 4;
        self.labels += 1;
        Ok(test)
    }

    /// Matches a PPPoE session (RFC 2516), and moves everything into the PPP frame behind its header.
    pub(super) fn pppoe_session(&mut self, column: usize, session: Option<u32>) -> Result<Test, FilterError> {
        let is_session = self.link_type(column, TYPE_PPPOE_SESSION)?;
        let test = match session {
            // Version, type and code stand in the upper half.
            Some(session) => is_session.and(field(self.network, Width::Four, 0xffff, session)),
            None => is_session,
        };
        self.link = Link::Ppp;
        self.header = self.network + 6;
        self.kind = self.header;
        self.payload = self.header + 2;
        self.network = self.payload;
        Ok(test)
    }

    pub(super) fn only_on_ethernet(&self, column: usize, what: &str) -> Result<(), FilterError> {
        match self.link {
            Link::Ethernet => Ok(()),
            Link::Ppp => Err(FilterError::new(
                column,
                format!("{what} behind `pppoes`"),
                "a test that PPP has",
                "write the test before `pppoes`",
            )),
        }
    }

    pub(super) fn broadcast(&self, column: usize, cast: Cast) -> Result<Test, FilterError> {
        match cast {
            Cast::Link => {
                self.only_on_ethernet(column, "`broadcast`")?;
                Ok(self.mac_at(0, [0xff; 6]))
            }
            Cast::Ip => {
                // The mask of the network is not known, so only these two are: RFC 1122 section 3.2.1.3.
                let zeros = self.network(16, Width::Four, 0);
                let ones = self.network(16, Width::Four, u32::MAX);
                Ok(self.link_type(column, names::TYPE_IP)?.and(zeros.or(ones)))
            }
            Cast::Ip6 => Err(FilterError::new(column, "`ip6 broadcast`", "`ip6 multicast`", "IPv6 has no broadcast")),
        }
    }

    pub(super) fn multicast(&self, column: usize, cast: Cast) -> Result<Test, FilterError> {
        match cast {
            Cast::Link => {
                self.only_on_ethernet(column, "`multicast`")?;
                Ok(field(self.header, Width::One, 1, 1))
            }
            Cast::Ip => {
                // As in libpcap: class D and whatever is above it.
                let class_d = Test::Field {
                    place: Place::Frame(self.network + 16),
                    width: Width::One,
                    mask: u32::MAX,
                    relation: Relation::GreaterOrEqual,
                    value: 224,
                };
                Ok(self.link_type(column, names::TYPE_IP)?.and(class_d))
            }
            Cast::Ip6 => Ok(self.link_type(column, names::TYPE_IP6)?.and(self.network(24, Width::One, 0xff))),
        }
    }
}

/// The PPP protocol number for an EtherType or an LLC SAP.
fn ppp_protocol(number: u32) -> u32 {
    match number {
        names::TYPE_IP => 0x0021,
        names::TYPE_IP6 => 0x0057,
        names::TYPE_DECNET => 0x0027,
        names::TYPE_ATALK => 0x0029,
        names::TYPE_NS => 0x0025,
        names::SAP_OSI => 0x0023,
        names::SAP_STP => 0x0031,
        names::SAP_IPX => 0x002b,
        number => number,
    }
}
