//! To which interface a frame belongs that came in by a port.
//!
//! Untagged frames belong to the port's own interface, which takes no look at all where a port has no other. A tagged frame's outer VLAN is
//! looked up in a table of the port with a place for each; where that is not the whole answer (two tags, or one VLAN behind several TPIDs),
//! an exact match on all of it follows. Of an interface with one tag that table says all that is needed: nothing else is read of thousands of them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};

use weir_simd::frame_check::LinkPattern;
use weir_table::exact::Index;
use weir_wire::{Ethernet, MacAddr, View, ethernet};

use crate::tags::{FRONT_LEN, Front, Tag, Tags};
use crate::{InterfaceId, NO_INTERFACE};

/// VLANs of a port's table.
pub(crate) const VLANS: usize = 4096;

/// In a VLAN table: no interface has this VLAN as its outer one.
pub(crate) const NO_VLAN: u16 = u16::MAX;

/// In a VLAN table: which interface it is depends on more than the outer VLAN.
pub(crate) const SEVERAL: u16 = u16::MAX - 1;

/// What is known of a port that packets come in by.
#[derive(Debug)]
pub(crate) struct PortIn {
    /// MAC address of the port's untagged interface, as [`mac_word`] has it; [`NOBODY`].
    mac: AtomicU64,
    /// That of its interfaces with tags, in the same form, whichever of them are up.
    pub(crate) station: AtomicU64,
    /// The port's untagged interface.
    pub(crate) untagged: AtomicU16,
    /// Position among the ports of the function.
    pub(crate) position: AtomicU32,
    /// Whether it has interfaces with tags.
    pub(crate) has_tags: AtomicBool,
    /// Tags that came in last and belong to no interface, as a number; 0: none did.
    last_unknown: AtomicU64,
}

/// What is known of an interface that packets come in by.
#[derive(Debug)]
pub(crate) struct In {
    /// Its tags as a number.
    pub(crate) key: AtomicU64,
    /// MAC address in 48 bits, then the index of the port; [`NOBODY`] if nothing may come in.
    pub(crate) station: AtomicU64,
    /// The number of its VRF.
    pub(crate) vrf: AtomicU16,
    /// Whether it has addresses.
    pub(crate) has_addresses: AtomicBool,
}

/// What no MAC address is: a port that is not the function's, or an interface that is down.
pub(crate) const NOBODY: u64 = u64::MAX;

/// A port that is not the function's.
const NO_POSITION: u32 = u32::MAX;

/// The first 48 bits of a frame that is for `mac`.
#[inline(always)]
pub fn mac_word(mac: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// The eight bytes at `AT`, first byte lowest: one load, which it is not where bytes are named one by one.
#[inline(always)]
fn word_at<const AT: usize>(frame: &[u8; FRONT_LEN]) -> u64 {
    const { assert!(AT + 8 <= FRONT_LEN) };
    frame.split_at(AT).1.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The first 48 bits of a frame.
#[inline(always)]
fn destination_word(frame: &[u8; FRONT_LEN]) -> u64 {
    word_at::<0>(frame) & ((1 << 48) - 1)
}

/// The six bytes behind the MAC addresses of a frame with one tag, without the tag's priority: TPID, VLAN, EtherType.
#[inline(always)]
fn behind_addresses(frame: &[u8; FRONT_LEN]) -> u64 {
    word_at::<12>(frame) & WITHOUT_PRIORITY
}

/// The bits of the bytes behind the MAC addresses that are not a tag's priority.
const WITHOUT_PRIORITY: u64 = u64::from_le_bytes([0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0, 0]);

/// Those that are neither that nor the VLAN.
const WITHOUT_TCI: u64 = u64::from_le_bytes([0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0]);

/// The first six bytes of a word.
#[inline(always)]
fn six_of(word: u64) -> [u8; 6] {
    let [a, b, c, d, e, f, ..] = word.to_le_bytes();
    [a, b, c, d, e, f]
}

/// What a VLAN table holds of an interface with one tag that packets may come in by: its number, then the TPID as it lies in the packet. Of other
/// VLANs it holds no TPID: [`NO_VLAN`], [`SEVERAL`], or a number alone.
pub(crate) fn vlan_word(tag: Tag, interface: InterfaceId) -> u32 {
    u32::from(interface) | u32::from(tag.tpid.to_be()) << 16
}

/// EtherTypes as they lie in the packet.
const IPV4: u16 = ethernet::IPV4.to_be();
const IPV6: u16 = ethernet::IPV6.to_be();

/// What a frame that came in belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entered {
    /// The interface; [`NO_INTERFACE`] if none has its tags.
    pub interface: InterfaceId,
    /// Where its network header begins: 14, 18 or 22.
    pub l3: u8,
    /// Whether it is for the interface's MAC address, and the interface is up.
    pub is_ours: bool,
}

/// What workers look up frames in that came in. The control side alone writes.
pub struct Ingress {
    /// By the index of the port in the whole configuration.
    pub(crate) ports: Box<[PortIn]>,
    /// By position of the port and outer VLAN.
    pub(crate) vlans: Box<[AtomicU32]>,
    /// By position of the port and all tags.
    pub(crate) exact: Option<Arc<Index>>,
    /// By number.
    pub(crate) interfaces: Box<[In]>,
    /// EtherTypes that announce tags, a bit each.
    tpids: Box<[AtomicU64]>,
    /// Whether any port has interfaces with tags.
    pub(crate) has_tags: AtomicBool,
    /// Whether any interface is in another VRF than the default one.
    pub(crate) has_vrfs: AtomicBool,
}

impl fmt::Debug for Ingress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ingress({} ports, {} interfaces)", self.ports.len(), self.interfaces.len())
    }
}

impl Ingress {
    /// For ports with an index below `port_indices`, all of which are nobody's, that have untagged interfaces only.
    pub fn untagged(port_indices: usize) -> Ingress {
        Ingress::new(port_indices, 0, 0, None)
    }

    pub(crate) fn new(port_indices: usize, positions: usize, interfaces: usize, exact: Option<Arc<Index>>) -> Ingress {
        let port = |_| PortIn {
            mac: AtomicU64::new(NOBODY),
            station: AtomicU64::new(NOBODY),
            untagged: AtomicU16::new(NO_INTERFACE),
            position: AtomicU32::new(NO_POSITION),
            has_tags: AtomicBool::new(false),
            last_unknown: AtomicU64::new(0),
        };
        let ingress = Ingress {
            ports: (0..port_indices).map(port).collect(),
            vlans: (0..positions * VLANS).map(|_| AtomicU32::new(NO_VLAN.into())).collect(),
            exact,
            interfaces: (0..interfaces)
                .map(|_| In {
                    key: AtomicU64::new(0),
                    station: AtomicU64::new(NOBODY),
                    vrf: AtomicU16::new(0),
                    has_addresses: AtomicBool::new(false),
                })
                .collect(),
            tpids: (0..1024).map(|_| AtomicU64::new(0)).collect(),
            has_tags: AtomicBool::new(false),
            has_vrfs: AtomicBool::new(false),
        };
        for tpid in [ethernet::CVLAN, ethernet::SVLAN, ethernet::OLD_SVLAN] {
            ingress.announce(tpid);
        }
        ingress
    }

    /// The index of a port that may be the function's is below.
    pub fn indices(&self) -> usize {
        self.ports.len()
    }

    /// Takes an EtherType for one that announces a tag from now on.
    pub(crate) fn announce(&self, tpid: u16) {
        if let Some(word) = self.tpids.get(usize::from(tpid) / 64) {
            word.fetch_or(1 << (tpid % 64), Ordering::Relaxed);
        }
    }

    /// Whether an EtherType announces a tag.
    fn is_tpid(&self, ethertype: u16) -> bool {
        let word = self.tpids.get(usize::from(ethertype) / 64).map_or(0, |word| word.load(Ordering::Relaxed));
        word >> (ethertype % 64) & 1 != 0
    }

    /// The MAC address that untagged packets carry when they come in by the port of this index; `None`: nothing may come in.
    pub fn set(&self, index: u16, mac: Option<MacAddr>) {
        if let Some(port) = self.ports.get(usize::from(index)) {
            port.mac.store(mac.map_or(NOBODY, mac_word), Ordering::Relaxed);
        }
    }

    /// Whom untagged packets from a port must be for; `None` if they are not the function's.
    #[inline(always)]
    pub fn station(&self, port: u16) -> Option<LinkPattern> {
        let [a, b, c, d, e, f, rest @ ..] = self.mac_word(port).to_le_bytes();
        (rest == [0, 0]).then_some(LinkPattern::only([a, b, c, d, e, f]))
    }

    /// The address of a port's untagged interface as a little-endian word of 48 bits; above that, it is nobody's.
    #[inline(always)]
    pub fn mac_word(&self, port: u16) -> u64 {
        self.ports.get(usize::from(port)).map_or(NOBODY, |port| port.mac.load(Ordering::Relaxed))
    }

    /// The untagged interface of the port of this index; [`NO_INTERFACE`] if it has none.
    #[inline(always)]
    pub fn untagged_of(&self, port: u16) -> InterfaceId {
        self.ports.get(usize::from(port)).map_or(NO_INTERFACE, |port| port.untagged.load(Ordering::Relaxed))
    }

    /// Whether any interface is in another VRF than the default one.
    #[inline(always)]
    pub fn has_vrfs(&self) -> bool {
        self.has_vrfs.load(Ordering::Relaxed)
    }

    /// The number of the VRF that an interface is in; that of the default one for what is no interface.
    #[inline(always)]
    pub fn vrf_of(&self, interface: InterfaceId) -> u16 {
        self.interfaces.get(usize::from(interface)).map_or(0, |known| known.vrf.load(Ordering::Relaxed))
    }

    /// The tags of an interface; `None` if there is no such interface.
    pub(crate) fn tags_of(&self, interface: InterfaceId) -> Option<Tags> {
        let key = self.interfaces.get(usize::from(interface))?.key.load(Ordering::Relaxed);
        Some(Tags::from_key(key))
    }

    /// The number of the VRF that the untagged interface of the port of this index is in.
    #[inline(always)]
    pub fn vrf_of_port(&self, port: u16) -> u16 {
        self.vrf_of(self.untagged_of(port))
    }

    /// Whether any port has interfaces with tags.
    #[inline(always)]
    pub fn has_tags(&self) -> bool {
        self.has_tags.load(Ordering::Relaxed)
    }

    /// Whether a port has interfaces with tags.
    #[inline(always)]
    pub fn port_has_tags(&self, port: u16) -> bool {
        self.ports.get(usize::from(port)).is_some_and(|port| port.has_tags.load(Ordering::Relaxed))
    }

    /// What is known of a port, to be kept in registers while its packets are looked at.
    #[inline(always)]
    pub fn port(&self, port: u16) -> PortView<'_> {
        let of = |known: &PortIn| (known.position.load(Ordering::Relaxed), known.station.load(Ordering::Relaxed));
        let (position, station) = self.ports.get(usize::from(port)).map_or((NO_POSITION, NOBODY), of);
        let start = position as usize * VLANS;
        let vlans = self.vlans.get(start..start + VLANS).and_then(|vlans| vlans.first_chunk());
        PortView { ingress: self, port, vlans, station }
    }

    /// What a frame belongs to that came in by the port of this index. A function of its own: where packets flow, [`PortView::enter`] finds most.
    #[inline(never)]
    pub fn enter(&self, port: u16, frame: &[u8; FRONT_LEN]) -> Entered {
        let Some(known) = self.ports.get(usize::from(port)) else { return NOWHERE };
        let (front, station) = (self.front(frame), destination_word(frame));
        if front.tags == Tags::NONE {
            let interface = known.untagged.load(Ordering::Relaxed);
            return Entered { interface, l3: front.l3, is_ours: known.mac.load(Ordering::Relaxed) == station };
        }
        let interface = self.find(known.position.load(Ordering::Relaxed), front.tags);
        let known = self.interfaces.get(usize::from(interface));
        let is_ours =
            known.is_some_and(|known| known.station.load(Ordering::Relaxed) == (station | u64::from(port) << 48));
        Entered { interface, l3: front.l3, is_ours }
    }

    /// What the table of a port says of an outer VLAN.
    fn outer_vlan(&self, position: u32, vlan: u16) -> u16 {
        let at = position as usize * VLANS + usize::from(vlan);
        self.vlans.get(at).map_or(NO_VLAN, |word| word.load(Ordering::Relaxed) as u16)
    }

    /// The interface with these tags on the port at a position; [`NO_INTERFACE`] if there is none.
    fn find(&self, position: u32, tags: Tags) -> InterfaceId {
        let has = |interface: InterfaceId| {
            let known = self.interfaces.get(usize::from(interface));
            known.is_some_and(|known| known.key.load(Ordering::Relaxed) == tags.key())
        };
        match self.outer_vlan(position, tags.outer().vlan) {
            SEVERAL => {}
            interface if has(interface) => return interface,
            _ => return NO_INTERFACE,
        }
        let Some(index) = &self.exact else { return NO_INTERFACE };
        // The position is part of the value, as equal tags on two ports are two interfaces.
        let is = |value: u64| value >> 16 == u64::from(position) && has(value as u16);
        index.find(index.hash(position.into(), tags.key()), is).map_or(NO_INTERFACE, |value| value as u16)
    }

    /// The interface that a frame is for which came in by the port of this index, where customers' [lines](crate::Lines) are beside it: one with the
    /// frame's tags, or the port's own if that has addresses. None if it is for none of these, or for another station.
    pub fn beside_lines(&self, port: u16, frame: &[u8; FRONT_LEN]) -> Option<InterfaceId> {
        let Entered { interface, is_ours, .. } = self.enter(port, frame);
        let known = self.interfaces.get(usize::from(interface))?;
        let is_meant = is_ours || frame[0] & 1 == 1 && !self.is_shut(port, interface);
        let is_used = interface != self.untagged_of(port) || known.has_addresses.load(Ordering::Relaxed);
        (is_meant && is_used).then_some(interface)
    }

    /// The interface with these tags on the port of this index; [`NO_INTERFACE`] if there is none.
    pub fn lookup(&self, port: u16, tags: Tags) -> InterfaceId {
        match self.ports.get(usize::from(port)) {
            Some(_) if tags == Tags::NONE => self.untagged_of(port),
            Some(known) => self.find(known.position.load(Ordering::Relaxed), tags),
            None => NO_INTERFACE,
        }
    }

    /// Whether an interface of the port of this index has a VLAN in its tag, or in the outer one of two.
    pub fn has_outer_vlan(&self, port: u16, vlan: u16) -> bool {
        let position = self.ports.get(usize::from(port)).map(|known| known.position.load(Ordering::Relaxed));
        position.is_some_and(|position| usize::from(vlan) < VLANS && self.outer_vlan(position, vlan) != NO_VLAN)
    }

    /// Whether nothing may come in by an interface of the port of this index: it is set down.
    pub fn is_shut(&self, port: u16, interface: InterfaceId) -> bool {
        let known = self.ports.get(usize::from(port));
        let is_untagged = known.is_some_and(|known| known.untagged.load(Ordering::Relaxed) == interface);
        if is_untagged || interface == NO_INTERFACE {
            return self.mac_word(port) == NOBODY;
        }
        let known = self.interfaces.get(usize::from(interface));
        known.is_some_and(|known| known.station.load(Ordering::Relaxed) == NOBODY)
    }

    /// Remembers tags that belong to no interface of the port that they came in by.
    #[cold]
    pub fn note_unknown(&self, port: u16, frame: &[u8; FRONT_LEN]) {
        let Some(known) = self.ports.get(usize::from(port)) else { return };
        let key = self.front(frame).tags.key();
        // A flood of the same is not written again and again: other workers may look at the line.
        if known.last_unknown.load(Ordering::Relaxed) != key {
            known.last_unknown.store(key, Ordering::Relaxed);
        }
    }

    /// The tags that came in by a port last and belong to no interface.
    pub fn last_unknown(&self, port: u16) -> Option<Tags> {
        let key = self.ports.get(usize::from(port))?.last_unknown.load(Ordering::Relaxed);
        (key != 0).then(|| Tags::from_key(key))
    }

    /// Where the network header of a frame begins, and of what protocol it is.
    pub fn front(&self, frame: &[u8; FRONT_LEN]) -> Front {
        Front::parse(frame, |ethertype| self.is_tpid(ethertype))
    }
}

/// A port that packets come in by.
#[derive(Clone, Copy)]
pub struct PortView<'i> {
    ingress: &'i Ingress,
    port: u16,
    vlans: Option<&'i [AtomicU32; VLANS]>,
    station: u64,
}

impl PortView<'_> {
    /// What a frame belongs to: the same as [`Ingress::enter`] says, sooner for those with one tag that carry IP.
    #[inline(always)]
    pub fn enter(self, frame: &[u8; FRONT_LEN]) -> Entered {
        match self.enter_by_tag(frame) {
            Some(entered) => entered,
            None => self.ingress.enter(self.port, frame),
        }
    }

    /// The same for one with the tag of an interface that has one, and that is up; not for all of them.
    #[inline(always)]
    pub(crate) fn enter_by_tag(self, frame: &[u8; FRONT_LEN]) -> Option<Entered> {
        let behind = behind_addresses(frame);
        let (tpid, ethertype) = (behind as u16, (behind >> 32) as u16);
        let word = ByVlan(self.vlans?).word(frame);
        let is_its = word >> 16 != 0 && (word >> 16) as u16 == tpid;
        let (is_ip, is_ours) = (ethertype == IPV4 || ethertype == IPV6, destination_word(frame) == self.station);
        (is_its && is_ip).then_some(Entered { interface: word as InterfaceId, l3: 18, is_ours })
    }
}

/// The interfaces of a port by the VLAN of the first tag.
#[derive(Clone, Copy)]
pub(crate) struct ByVlan<'i>(&'i [AtomicU32; VLANS]);

impl ByVlan<'_> {
    /// What the table holds for the VLAN of a frame: see [`vlan_word`].
    #[inline(always)]
    pub(crate) fn word(self, frame: &[u8; FRONT_LEN]) -> u32 {
        let vlan = (behind_addresses(frame) >> 16) as u16;
        self.0[usize::from(vlan.swap_bytes()) % VLANS].load(Ordering::Relaxed)
    }
}

/// How frames with one tag begin that carry IPv4 and are for the interface of their tag.
#[derive(Clone, Copy)]
pub(crate) struct OneTag<'i> {
    /// The interface of the frame that they are to be like.
    pub(crate) interface: InterfaceId,
    /// What says their interfaces by their VLANs, where these may differ.
    pub(crate) by_vlan: Option<ByVlan<'i>>,
    /// The TPID as it lies in the packet.
    pub(crate) tpid: u16,
    /// The first four bytes.
    pub(crate) start: u32,
    /// The 14 bytes behind them: what is left of the MAC addresses, the tag as far as it is the same for all, and the EtherType.
    pub(crate) link: LinkPattern,
}

impl<'i> PortView<'i> {
    /// How all frames begin that carry IPv4 as this one does and are for an interface of the port with one tag, the same one if `is_one`; `None` if this
    /// one is no such frame.
    #[inline(always)]
    pub(crate) fn one_tag(self, frame: &[u8; FRONT_LEN], is_one: bool) -> Option<OneTag<'i>> {
        let behind = behind_addresses(frame);
        let entered = self.enter_by_tag(frame).filter(|entered| entered.is_ours && (behind >> 32) as u16 == IPV4)?;
        let by_vlan = self.vlans.filter(|_| !is_one).map(ByVlan);
        let counts = if is_one { WITHOUT_PRIORITY } else { WITHOUT_TCI };
        let [a, b, c, d, e, f] = six_of(destination_word(frame));
        let (mut value, mut mask) = ([0; Ethernet::LEN], [0; Ethernet::LEN]);
        (value[0], value[1], mask[0], mask[1]) = (e, f, 0xff, 0xff);
        value[8..].copy_from_slice(&six_of(behind));
        mask[8..].copy_from_slice(&six_of(counts));
        let (start, link) = (u32::from_le_bytes([a, b, c, d]), LinkPattern::pattern(value, mask));
        Some(OneTag { interface: entered.interface, by_vlan, tpid: behind as u16, start, link })
    }
}

const NOWHERE: Entered = Entered { interface: NO_INTERFACE, l3: 14, is_ours: false };

/// A tag, for those who only know what announces it and its VLAN.
impl From<(u16, u16)> for Tag {
    fn from((tpid, vlan): (u16, u16)) -> Tag {
        Tag { tpid, vlan }
    }
}
