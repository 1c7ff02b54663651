//! The tag of a frame: which VLAN it is in by that, and how it is put in and taken off.

use weir_packet::Packet;
use weir_wire::{Ethernet, View};

use crate::config::Accept;
use crate::plan::{Plan, bit};

/// Bytes of a tag: its EtherType, and the tag control information.
pub(crate) const TAG: usize = 4;

/// The part of a tag that is the VLAN.
pub(crate) const VLAN: u16 = 0xfff;

/// What a frame has for a tag of the kind that the bridge is aware of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// None.
    None,
    /// A priority and no VLAN.
    Priority,
    /// A VLAN.
    Vlan,
}

/// A frame that was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// The number of the port that it came in by.
    pub(crate) from: u8,
    pub(crate) vlan: u16,
    pub(crate) tag: Tag,
}

/// Why a frame was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It has no whole Ethernet header, or tag.
    Short,
    /// The port takes no frames with a tag like that, or without one.
    Tagging,
    /// The port is not in its VLAN.
    Vlan,
}

/// Lets a frame of so many bytes in, of which these are the first ones (IEEE 802.1Q sections 6.9 and 8.6.2).
#[inline(always)]
pub(crate) fn admit(plan: &Plan, port: u16, head: &[u8; 18], len: usize) -> Result<Admitted, Refused> {
    let from = plan.number(port);
    if len < Ethernet::LEN {
        return Err(Refused::Short);
    }
    let [.., t0, t1, c0, c1, _, _] = *head;
    if plan.tag == 0 {
        return Ok(Admitted { from, vlan: 0, tag: Tag::None });
    }
    let is_tagged = u16::from_be_bytes([t0, t1]) == plan.tag;
    if is_tagged && len < Ethernet::LEN + TAG {
        return Err(Refused::Short);
    }
    let known = plan.port(from);
    let (vlan, tag) = match u16::from_be_bytes([c0, c1]) & VLAN {
        _ if !is_tagged => (known.vlan, Tag::None),
        0 => (known.vlan, Tag::Priority),
        vlan => (vlan, Tag::Vlan),
    };
    let refused = match known.accept {
        Accept::All => false,
        Accept::Tagged => tag != Tag::Vlan,
        Accept::Untagged => tag == Tag::Vlan,
    };
    // VLAN 0 is nobody's: the port takes no frames without a tag.
    if refused || vlan == 0 {
        return Err(Refused::Tagging);
    }
    match plan.vlan(vlan).members & bit(from) {
        0 => Err(Refused::Vlan),
        _ => Ok(Admitted { from, vlan, tag }),
    }
}

/// Gives a frame the form that it has where it leaves: without a tag, or with the tag of its VLAN. The priority of a tag that it has stays.
/// False if there is no room in front of it.
pub(crate) fn reshape(packet: &mut Packet, ethertype: u16, admitted: &Admitted, untagged: bool) -> bool {
    match (admitted.tag, untagged) {
        (Tag::None, true) | (Tag::Vlan, false) => true,
        (Tag::None, false) => push(packet, ethertype, admitted.vlan),
        (Tag::Vlan | Tag::Priority, true) => pop(packet),
        (Tag::Priority, false) => {
            let [high, low] = packet.window_mut::<2>(14);
            let control = u16::from_be_bytes([*high, *low]) & !VLAN | admitted.vlan;
            [*high, *low] = control.to_be_bytes();
            true
        }
    }
}

fn push(packet: &mut Packet, ethertype: u16, vlan: u16) -> bool {
    let addresses = *packet.window::<12>(0);
    if !packet.prepend(TAG) {
        return false;
    }
    *packet.window_mut::<12>(0) = addresses;
    let ([t0, t1], [c0, c1]) = (ethertype.to_be_bytes(), vlan.to_be_bytes());
    *packet.window_mut::<TAG>(12) = [t0, t1, c0, c1];
    true
}

fn pop(packet: &mut Packet) -> bool {
    let addresses = *packet.window::<12>(0);
    if !packet.trim_front(TAG) {
        return false;
    }
    *packet.window_mut::<12>(0) = addresses;
    true
}
