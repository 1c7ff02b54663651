//! pcapng: blocks of a type, a length, a body and the length again.

use std::io::Read;

use super::classic::cut_fcs;
use super::{Damage, ETHERNET, Fields, Input, MAX_RECORD, Order, Record, not_ethernet};

/// The type of a section header block, which reads the same in both byte orders.
pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Bytes that the body of a block may have that is read as a whole: a packet's with ample options.
const MAX_BODY: u32 = MAX_RECORD + (1 << 16);

/// Interfaces of a section at most: a file that claims more is damaged, or made to cost memory.
const MAX_INTERFACES: usize = 1 << 16;

/// A pcapng file within a section.
pub(super) struct Ng {
    order: Order,
    interfaces: Vec<Interface>,
    /// The body of the block at hand.
    body: Vec<u8>,
    /// A packet that was met while looking for the first interface.
    early: Option<Damage>,
}

/// What the section says about an interface.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u32,
    snap: u32,
    resolution: Resolution,
    /// Seconds that are added to each time.
    offset: i64,
    fcs: u32,
}

/// The unit of time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    /// 10^-n seconds.
    Decimal(u32),
    /// 2^-n seconds.
    Binary(u32),
}

impl Resolution {
    fn of(option: u8) -> Resolution {
        let exponent = u32::from(option & 0x7f);
        if option & 0x80 == 0 { Resolution::Decimal(exponent) } else { Resolution::Binary(exponent) }
    }

    /// A stamp in nanoseconds, rounded down, within the bounds of 64 bits.
    fn nanos(self, stamp: u64) -> u64 {
        const SECOND: u128 = 1_000_000_000;
        let nanos = match self {
            Resolution::Decimal(n) => 10_u128.checked_pow(n).map_or(0, |units| u128::from(stamp) * SECOND / units),
            Resolution::Binary(n) => (u128::from(stamp) * SECOND).checked_shr(n).unwrap_or(0),
        };
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

/// A block was read: what it was.
enum Event {
    /// Nothing of interest.
    Other,
    /// A description of an interface.
    Interface,
    /// A packet, its bytes in the caller's vector.
    Packet(Record),
    End,
}

impl Ng {
    /// Reads on behind the type of the first block, up to the first description of an interface.
    pub(super) fn open<R: Read>(input: &mut Input<R>) -> Result<Ng, Damage> {
        let mut ng = Ng { order: Order::Little, interfaces: Vec::new(), body: Vec::new(), early: None };
        ng.section(input, 0)?;
        let mut bytes = Vec::new();
        loop {
            let start = input.offset;
            match ng.block(input, &mut bytes) {
                Ok(Event::Other) => {}
                Ok(Event::Interface) => {
                    let link = ng.interfaces.last().map_or(ETHERNET, |interface| interface.link);
                    return if link == ETHERNET { Ok(ng) } else { Err(not_ethernet(start, link)) };
                }
                Ok(Event::Packet(_) | Event::End) => return Ok(ng),
                Err(damage) => {
                    ng.early = Some(damage);
                    return Ok(ng);
                }
            }
        }
    }

    pub(super) fn next<R: Read>(
        &mut self,
        input: &mut Input<R>,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<Record>, Damage> {
        if let Some(damage) = self.early.take() {
            return Err(damage);
        }
        loop {
            match self.block(input, bytes)? {
                Event::Packet(record) => return Ok(Some(record)),
                Event::End => return Ok(None),
                Event::Other | Event::Interface => {}
            }
        }
    }

    fn block<R: Read>(&mut self, input: &mut Input<R>, bytes: &mut Vec<u8>) -> Result<Event, Damage> {
        let start = input.offset;
        let mut kind = [0; 4];
        match input.read_up_to(&mut kind)? {
            0 => return Ok(Event::End),
            4 => {}
            _ => return Err(super::ends_within(start, "the type of a block")),
        }
        if kind == SECTION_HEADER {
            self.section(input, start)?;
            return Ok(Event::Other);
        }
        let kind = Fields { bytes: &kind, order: self.order }.u32().unwrap_or_default();
        let mut length = [0; 4];
        input.read_all(&mut length, start, "the length of a block")?;
        let length = Fields { bytes: &length, order: self.order }.u32().unwrap_or_default();
        let Some(body) = length.checked_sub(12).filter(|_| length.is_multiple_of(4)) else {
            let what = format!("a block has length {length}; a multiple of 4 from 12 on is right");
            return Err(Damage { offset: start, what });
        };
        if !matches!(kind, INTERFACE | OLD_PACKET | SIMPLE_PACKET | ENHANCED_PACKET) {
            input.skip(u64::from(body), start, "a block")?;
            self.trailer(input, length, start)?;
            return Ok(Event::Other);
        }
        if body > MAX_BODY {
            let what = format!("a block of type {kind} has length {length}; the most that makes sense is {MAX_BODY}");
            return Err(Damage { offset: start, what });
        }
        let mut content = std::mem::take(&mut self.body);
        input.read_vec(&mut content, body, start, "a block")?;
        self.trailer(input, length, start)?;
        let event = self.understand(kind, &content, bytes, start);
        self.body = content;
        event
    }

    fn trailer<R: Read>(&self, input: &mut Input<R>, length: u32, start: u64) -> Result<(), Damage> {
        let mut again = [0; 4];
        input.read_all(&mut again, start, "a block")?;
        let again = Fields { bytes: &again, order: self.order }.u32().unwrap_or_default();
        if again == length {
            return Ok(());
        }
        Err(Damage { offset: start, what: format!("a block has length {length} in front and {again} behind") })
    }

    /// Reads a section header behind its type: a new byte order, and no interfaces yet.
    fn section<R: Read>(&mut self, input: &mut Input<R>, start: u64) -> Result<(), Damage> {
        const WHAT: &str = "a section header";
        let mut header = [0; 8];
        input.read_all(&mut header, start, WHAT)?;
        self.order = match header {
            [.., 0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
            [.., 0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
            _ => return Err(Damage { offset: start, what: "a section header has no byte-order magic".to_owned() }),
        };
        self.interfaces.clear();
        let length = Fields { bytes: &header, order: self.order }.u32().unwrap_or_default();
        let Some(rest) = length.checked_sub(16).filter(|rest| rest.is_multiple_of(4)) else {
            let what = format!("a section header has length {length}; a multiple of 4 from 28 on is right");
            return Err(Damage { offset: start, what });
        };
        input.skip(u64::from(rest), start, WHAT)?;
        self.trailer(input, length, start)
    }

    fn understand(&mut self, kind: u32, body: &[u8], bytes: &mut Vec<u8>, start: u64) -> Result<Event, Damage> {
        let fields = Fields { bytes: body, order: self.order };
        let event = match kind {
            INTERFACE => {
                if self.interfaces.len() >= MAX_INTERFACES {
                    let what = format!("a section has more than {MAX_INTERFACES} interfaces");
                    return Err(Damage { offset: start, what });
                }
                interface(fields).map(|interface| {
                    self.interfaces.push(interface);
                    Event::Interface
                })
            }
            SIMPLE_PACKET => {
                let interface = self.interface(0, start)?;
                simple_packet(fields, interface, bytes).map(Event::Packet)
            }
            _ => {
                let mut fields = fields;
                // An old packet block has a 16-bit interface and a drop count where an enhanced one has 32 bits.
                let id = if kind == OLD_PACKET {
                    fields.u16().map(u32::from).filter(|_| fields.u16().is_some())
                } else {
                    fields.u32()
                };
                match id {
                    Some(id) => {
                        let interface = self.interface(id, start)?;
                        packet(fields, interface, bytes).map(Event::Packet)
                    }
                    None => None,
                }
            }
        };
        event.ok_or_else(|| Damage {
            offset: start,
            what: format!("a block of type {kind} is too short for what it says it holds"),
        })
    }

    fn interface(&self, id: u32, start: u64) -> Result<Interface, Damage> {
        self.interfaces.get(id as usize).copied().ok_or_else(|| Damage {
            offset: start,
            what: format!("a packet is of interface {id}, and the section has described {}", self.interfaces.len()),
        })
    }
}

fn interface(mut fields: Fields<'_>) -> Option<Interface> {
    let link = u32::from(fields.u16()?);
    fields.u16()?; // reserved
    let snap = fields.u32()?;
    let mut interface = Interface { link, snap, resolution: Resolution::Decimal(6), offset: 0, fcs: 0 };
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
            (OFFSET, 8) => interface.offset = value.u64()?.cast_signed(),
            _ => {}
        }
    }
    Some(interface)
}

/// An enhanced or old packet block behind its interface.
fn packet(mut fields: Fields<'_>, interface: Interface, bytes: &mut Vec<u8>) -> Option<Record> {
    let (high, low) = (fields.u32()?, fields.u32()?);
    let (captured, original) = (fields.u32()?, fields.u32()?);
    let data = fields.take(captured as usize)?;
    bytes.clear();
    bytes.extend_from_slice(data);
    let original = cut_fcs(bytes, original, interface.fcs);
    let time = interface.resolution.nanos(u64::from(high) << 32 | u64::from(low));
    let time = i128::from(time) + i128::from(interface.offset) * 1_000_000_000;
    let time = u64::try_from(time.max(0)).unwrap_or(u64::MAX);
    Some(Record { time: Some(time), original, ethernet: interface.link == ETHERNET })
}

/// A simple packet block: as much of the packet as the snap length allows and the block holds.
fn simple_packet(mut fields: Fields<'_>, interface: Interface, bytes: &mut Vec<u8>) -> Option<Record> {
    let original = fields.u32()?;
    let snapped = if interface.snap == 0 { original } else { original.min(interface.snap) };
    bytes.clear();
    bytes.extend_from_slice(fields.take(snapped as usize)?);
    let original = cut_fcs(bytes, original, interface.fcs);
    Some(Record { time: None, original, ethernet: interface.link == ETHERNET })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions_follow_the_definition() {
        // draft-ietf-opsawg-pcapng section 4.2, if_tsresol: 6 is microseconds; 0x8a is 2^-10 s.
        assert_eq!(Resolution::of(6).nanos(1_500_000), 1_500_000_000);
        assert_eq!(Resolution::of(9).nanos(u64::MAX), u64::MAX);
        assert_eq!(Resolution::of(0).nanos(3), 3_000_000_000);
        assert_eq!(Resolution::of(0x8a).nanos(1024 + 512), 1_500_000_000);
        assert_eq!(Resolution::of(0x80).nanos(2), 2_000_000_000);
        // Absurd ones are rounded down to nothing rather than refused.
        assert_eq!(Resolution::of(127).nanos(u64::MAX), 0);
        assert_eq!(Resolution::of(0xff).nanos(1), 0);
    }
}
