//! pcapng: blocks of a type, a length, a body and the length again.

use std::io::Read;

use crate::fields::{Fields, Order};
use crate::input::Input;
use crate::link::LinkType;
use crate::problem::Damage;
use crate::reader::{Found, MAX_RECORD};

/// The type of a section header block, which reads the same in both byte orders.
pub(crate) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Bytes of a block that is looked at as a whole: a packet with ample options.
const MAX_BLOCK: u32 = MAX_RECORD + (1 << 16);

/// Bytes of a block before its body: type and length.
const FRONT: usize = 8;

/// Bytes of a block beside its body.
const FRAME: u32 = 12;

/// Interfaces of a section at most: a file that claims more is damaged, or made to cost memory.
const MAX_INTERFACES: usize = 1 << 16;

/// A pcapng file within a section.
pub(crate) struct Ng {
    order: Order,
    interfaces: Vec<Interface>,
    /// Interfaces of the sections before.
    earlier: u32,
    /// A time for packets that have none: that of the packet before.
    nanos: i64,
    /// What was met while looking for the first interface.
    early: Option<Damage>,
}

/// What the section says about an interface.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    snap: u32,
    resolution: Resolution,
    /// Nanoseconds that are added to each time.
    offset: i64,
    fcs: u32,
}

/// The unit of time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    /// So many nanoseconds.
    Nanos(u64),
    /// 10^-n seconds, less than a nanosecond.
    Decimal(u32),
    /// 2^-n seconds.
    Binary(u32),
}

impl Resolution {
    const MICROSECONDS: Resolution = Resolution::Nanos(1000);

    fn of(option: u8) -> Resolution {
        let exponent = u32::from(option & 0x7f);
        match (option & 0x80, 9_u32.checked_sub(exponent)) {
            (0, Some(zeros)) => Resolution::Nanos(10_u64.pow(zeros)),
            (0, None) => Resolution::Decimal(exponent),
            _ => Resolution::Binary(exponent),
        }
    }

    /// A stamp in nanoseconds, rounded down, within the bounds of 63 bits.
    #[inline]
    fn nanos(self, stamp: u64) -> i64 {
        const SECOND: u128 = 1_000_000_000;
        let nanos = match self {
            Resolution::Nanos(unit) => {
                return stamp.checked_mul(unit).and_then(|nanos| i64::try_from(nanos).ok()).unwrap_or(i64::MAX);
            }
            Resolution::Decimal(n) => 10_u128.checked_pow(n).map_or(0, |units| u128::from(stamp) * SECOND / units),
            Resolution::Binary(n) => (u128::from(stamp) * SECOND).checked_shr(n).unwrap_or(0),
        };
        i64::try_from(nanos).unwrap_or(i64::MAX)
    }
}

/// A block was read: what it was.
enum Event {
    /// Nothing of interest.
    Other,
    /// A description of an interface.
    Interface,
    Packet(Found),
    End,
}

impl Ng {
    /// Reads the first section header, and on up to the first description of an interface.
    pub(crate) fn open<R: Read>(input: &mut Input<R>) -> Result<Ng, Damage> {
        let mut ng = Ng { order: Order::Little, interfaces: Vec::new(), earlier: 0, nanos: 0, early: None };
        ng.section(input, 0)?;
        loop {
            match ng.block(input) {
                Ok(Event::Other) => {}
                // A packet cannot come first, as there is no interface that it could be of.
                Ok(Event::Interface | Event::Packet(_) | Event::End) => return Ok(ng),
                Err(damage) => {
                    ng.early = Some(damage);
                    return Ok(ng);
                }
            }
        }
    }

    /// The link type of the section's first interface.
    pub(crate) fn link(&self) -> Option<LinkType> {
        self.interfaces.first().map(|interface| interface.link)
    }

    #[inline]
    pub(crate) fn next<R: Read>(&mut self, input: &mut Input<R>) -> Result<Option<Found>, Damage> {
        if let Some(damage) = self.early.take() {
            return Err(damage);
        }
        loop {
            match self.block(input)? {
                Event::Packet(found) => return Ok(Some(found)),
                Event::End => return Ok(None),
                Event::Other | Event::Interface => {}
            }
        }
    }

    fn block<R: Read>(&mut self, input: &mut Input<R>) -> Result<Event, Damage> {
        let start = input.offset();
        let Some([k0, k1, k2, k3, l0, l1, l2, l3]) = input.peek_array::<FRONT>() else {
            return if input.ended()? { Ok(Event::End) } else { Err(input.short(start, "the front of a block")) };
        };
        let kind = [k0, k1, k2, k3];
        if kind == SECTION_HEADER {
            self.section(input, start)?;
            return Ok(Event::Other);
        }
        let kind = self.order.u32(kind);
        let length = self.order.u32([l0, l1, l2, l3]);
        if length < FRAME || !length.is_multiple_of(4) {
            let what = format!("a block has length {length}; a multiple of 4 from {FRAME} on is right");
            return Err(Damage::at(start, what));
        }
        if !matches!(kind, INTERFACE | OLD_PACKET | SIMPLE_PACKET | ENHANCED_PACKET) {
            input.skip(u64::from(length) - 4, start, "a block")?;
            self.trailer(input, length, start)?;
            return Ok(Event::Other);
        }
        if length > MAX_BLOCK {
            let what = format!("a block of type {kind} has length {length}; the most that makes sense is {MAX_BLOCK}");
            return Err(Damage::at(start, what));
        }
        let whole = input.peek(length as usize);
        let (Some(body), Some(again)) = (whole.get(FRONT..length as usize - 4), whole.last_chunk::<4>()) else {
            return Err(input.short(start, "a block"));
        };
        self.same(length, self.order.u32(*again), start)?;
        let event = self.understand(kind, body, start)?;
        let at = input.consume(length as usize);
        Ok(match event {
            Event::Packet(found) => Event::Packet(Found { from: at + FRONT + found.from, ..found }),
            event => event,
        })
    }

    fn trailer<R: Read>(&self, input: &mut Input<R>, length: u32, start: u64) -> Result<(), Damage> {
        let Some(again) = input.peek_array::<4>() else { return Err(input.short(start, "a block")) };
        input.consume(again.len());
        self.same(length, self.order.u32(again), start)
    }

    #[inline]
    fn same(&self, length: u32, again: u32, start: u64) -> Result<(), Damage> {
        if again == length {
            return Ok(());
        }
        Err(Damage::at(start, format!("a block has length {length} in front and {again} behind")))
    }

    /// Reads a section header: a new byte order, and no interfaces yet.
    fn section<R: Read>(&mut self, input: &mut Input<R>, start: u64) -> Result<(), Damage> {
        const WHAT: &str = "a section header";
        let Some([_, _, _, _, l0, l1, l2, l3, magic @ ..]) = input.peek_array::<12>() else {
            return Err(input.short(start, WHAT));
        };
        self.order = match magic {
            [0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
            [0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
            _ => return Err(Damage::at(start, "a section header has no byte-order magic")),
        };
        self.earlier = self.earlier.saturating_add(u32::try_from(self.interfaces.len()).unwrap_or(u32::MAX));
        self.interfaces.clear();
        let length = self.order.u32([l0, l1, l2, l3]);
        if length < 16 || !length.is_multiple_of(4) {
            let what = format!("a section header has length {length}; a multiple of 4 from 28 on is right");
            return Err(Damage::at(start, what));
        }
        input.skip(u64::from(length) - 4, start, WHAT)?;
        self.trailer(input, length, start)
    }

    #[inline]
    fn understand(&mut self, kind: u32, body: &[u8], start: u64) -> Result<Event, Damage> {
        let mut fields = Fields { bytes: body, order: self.order };
        let event = match kind {
            INTERFACE => self.describe(fields, start)?.then_some(Event::Interface),
            SIMPLE_PACKET => {
                let interface = self.interface(0, start)?;
                simple_packet(fields, interface, self.earlier, self.nanos).map(Event::Packet)
            }
            _ => {
                // An old packet block has a 16-bit interface and a drop count where an enhanced one has 32 bits.
                let id = if kind == OLD_PACKET {
                    fields.u16().map(u32::from).filter(|_| fields.u16().is_some())
                } else {
                    fields.u32()
                };
                match id {
                    Some(id) => {
                        let interface = self.interface(id, start)?;
                        packet(fields, interface, self.earlier.saturating_add(id))
                            .inspect(|found| self.nanos = found.nanos)
                            .map(Event::Packet)
                    }
                    None => None,
                }
            }
        };
        event.ok_or_else(|| Damage::at(start, format!("a block of type {kind} is too short for what it says it holds")))
    }

    /// Adds an interface; false if its block is too short.
    fn describe(&mut self, fields: Fields<'_>, start: u64) -> Result<bool, Damage> {
        if self.interfaces.len() >= MAX_INTERFACES {
            return Err(Damage::at(start, format!("a section has more than {MAX_INTERFACES} interfaces")));
        }
        let interface = interface(fields);
        self.interfaces.extend(interface);
        Ok(interface.is_some())
    }

    #[inline]
    fn interface(&self, id: u32, start: u64) -> Result<Interface, Damage> {
        self.interfaces.get(id as usize).copied().ok_or_else(|| {
            let described = self.interfaces.len();
            Damage::at(start, format!("a packet is of interface {id}, and the section has described {described}"))
        })
    }
}

fn interface(mut fields: Fields<'_>) -> Option<Interface> {
    let link = LinkType(u32::from(fields.u16()?));
    fields.u16()?; // reserved
    let snap = fields.u32()?;
    let mut interface = Interface { link, snap, resolution: Resolution::MICROSECONDS, offset: 0, fcs: 0 };
    while let (Some(code), Some(len)) = (fields.u16(), fields.u16()) {
        const END: u16 = 0;
        const RESOLUTION: u16 = 9;
        const FCS_LENGTH: u16 = 13;
        const OFFSET: u16 = 14;
        let Some(value) = fields.take((len as usize).next_multiple_of(4)) else { break };
        let mut value = Fields { bytes: value, order: fields.order };
        match (code, len) {
            (END, _) => break,
            (RESOLUTION, 1) => interface.resolution = Resolution::of(value.array::<1>()?[0]),
            (FCS_LENGTH, 1) => interface.fcs = u32::from(value.array::<1>()?[0]),
            (OFFSET, 8) => interface.offset = value.u64()?.cast_signed().saturating_mul(1_000_000_000),
            _ => {}
        }
    }
    Some(interface)
}

/// An enhanced or old packet block behind its interface. Where the packet lies is counted from the start of the body.
#[inline]
fn packet(mut fields: Fields<'_>, interface: Interface, number: u32) -> Option<Found> {
    const DATA: usize = 20;
    let (high, low) = (fields.u32()?, fields.u32()?);
    let (captured, original) = (fields.u32()?, fields.u32()?);
    fields.take(captured as usize)?;
    let nanos = interface.resolution.nanos(u64::from(high) << 32 | u64::from(low));
    let found = Found {
        nanos: nanos.saturating_add(interface.offset),
        timed: true,
        from: DATA,
        len: captured as usize,
        length: original,
        link: interface.link,
        interface: number,
    };
    Some(found.without_fcs(interface.fcs))
}

/// A simple packet block: as much of the packet as the snap length allows and the block holds.
fn simple_packet(mut fields: Fields<'_>, interface: Interface, number: u32, nanos: i64) -> Option<Found> {
    const DATA: usize = 4;
    let original = fields.u32()?;
    let snapped = if interface.snap == 0 { original } else { original.min(interface.snap) };
    fields.take(snapped as usize)?;
    let found = Found {
        nanos,
        timed: false,
        from: DATA,
        len: snapped as usize,
        length: original,
        link: interface.link,
        interface: number,
    };
    Some(found.without_fcs(interface.fcs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions_follow_the_definition() {
        // draft-ietf-opsawg-pcapng section 4.2, if_tsresol: 6 is microseconds; 0x8a is 2^-10 s.
        assert_eq!(Resolution::of(6).nanos(1_500_000), 1_500_000_000);
        assert_eq!(Resolution::of(9).nanos(1), 1);
        assert_eq!(Resolution::of(9).nanos(u64::MAX), i64::MAX);
        assert_eq!(Resolution::of(0).nanos(3), 3_000_000_000);
        assert_eq!(Resolution::of(12).nanos(1_999), 1);
        assert_eq!(Resolution::of(0x8a).nanos(1024 + 512), 1_500_000_000);
        assert_eq!(Resolution::of(0x80).nanos(2), 2_000_000_000);
        // Absurd ones are rounded down to nothing rather than refused.
        assert_eq!(Resolution::of(127).nanos(u64::MAX), 0);
        assert_eq!(Resolution::of(0xff).nanos(1), 0);
    }
}
