//! What packets to customers are marked with: DSCP, priority in tags, congestion.

use weir_wire::Ipv4;

use crate::encap::priority_word;

/// The ECN field of a packet that met congestion (RFC 3168).
pub(crate) const CONGESTED: u8 = 3;

/// What packets to customers are marked with, by the DSCP that they came with.
pub(crate) struct Marking {
    /// The DSCP that they leave with.
    dscp: [u8; 64],
    /// Their priority, where it stands in tags.
    priority: [u64; 64],
    /// Whether any DSCP changes.
    remarks: bool,
}

impl Marking {
    /// DSCPs change as `dscp` says, and the priority is that which `pcp` has for the new one.
    pub(crate) fn new(dscp: impl Fn(u8) -> u8, pcp: impl Fn(u8) -> u8) -> Marking {
        let new: [u8; 64] = std::array::from_fn(|old| dscp(old as u8) & 63);
        let priority = new.map(|dscp| priority_word(pcp(dscp)));
        let remarks = (0..).zip(&new).any(|(old, new): (u8, &u8)| old != *new);
        Marking { dscp: new, priority, remarks }
    }

    /// The priority of a packet with this type of service.
    #[inline(always)]
    pub(crate) fn priority(&self, tos: u8) -> u64 {
        self.priority[usize::from(tos >> 2)]
    }

    /// What a packet of IPv6 leaves with in place of this traffic class.
    #[inline(always)]
    pub(crate) fn class(&self, class: u8) -> u8 {
        self.dscp[usize::from(class >> 2)] << 2 | class & 3
    }

    /// Gives a packet its new DSCP.
    #[inline(always)]
    pub(crate) fn remark(&self, ip: &mut Ipv4) {
        if self.remarks {
            ip.set_tos(self.dscp[usize::from(ip.tos >> 2)] << 2 | ip.tos & 3);
        }
    }
}
