//! What a router does to IP options on the way (RFC 791 section 3.1; RFC 1812 section 5.2.4 and 4.2.2.1).

use std::net::Ipv4Addr;

use weir_wire::options::{RECORD_ROUTE, TIMESTAMP};
use weir_wire::{Ipv4, View, ipv4};

/// Why a packet with options is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An option makes no sense; the byte at fault, counted from the start of the header.
    Bad(u8),
    /// The packet dictates its route.
    SourceRoute,
}

/// Bytes of an address or time stamp in an option.
const WORD: u8 = 4;

/// The timestamp option's flags: time stamps only, each with the address of who adds it, or only from addresses listed.
const ONLY_TIMES: u8 = 0;
const WITH_ADDRESSES: u8 = 1;
const FROM_THE_LISTED: u8 = 3;

/// Adds the router's address (`own`, where it is known) and the time to the options that ask for them, and mends the checksum.
/// `is_own` tells all of the router's addresses. `packet` is a valid IPv4 packet. Other options pass as they are; a router alert
/// (RFC 2113) is of no interest to a router without protocols that use it.
///
/// # Errors
///
/// The packet must not be forwarded; it is as it was.
pub(crate) fn update(
    packet: &mut [u8],
    own: Option<Ipv4Addr>,
    is_own: impl Fn(Ipv4Addr) -> bool,
    now: u64,
) -> Result<(), Fault> {
    let mut edits: Vec<(usize, u8)> = Vec::new();
    for option in ipv4::options(packet) {
        let option = option.map_err(|bad| Fault::Bad(bad.pointer))?;
        if option.is_source_route() {
            return Err(Fault::SourceRoute);
        }
        let own = own.map(|own| own.octets());
        let slot = Slots { at: option.offset, bytes: option.bytes };
        match option.kind {
            RECORD_ROUTE => slot.record_route(own, &mut edits)?,
            TIMESTAMP => slot.timestamp(own, &is_own, now, &mut edits)?,
            _ => {}
        }
    }
    let Some(length) = Ipv4::view(packet).map(Ipv4::header_len) else { return Ok(()) };
    for (at, byte) in edits {
        if let Some(place) = packet.get_mut(..length).and_then(|header| header.get_mut(at)) {
            *place = byte;
        }
    }
    ipv4::write_checksum(packet);
    Ok(())
}

/// An option with a pointer to its next free place. Pointers count from 1, the option's type being the first byte.
struct Slots<'p> {
    /// Where the option starts in the header.
    at: u8,
    bytes: &'p [u8],
}

impl Slots<'_> {
    fn byte(&self, index: u8) -> Option<u8> {
        self.bytes.get(index as usize).copied()
    }

    fn length(&self) -> u8 {
        u8::try_from(self.bytes.len()).unwrap_or(u8::MAX)
    }

    fn bad(&self, index: u8) -> Fault {
        Fault::Bad(self.at.saturating_add(index))
    }

    /// Notes to write `value` from byte `index` of the option on.
    fn put(&self, index: u8, value: &[u8], edits: &mut Vec<(usize, u8)>) {
        let start = self.at as usize + index as usize;
        edits.extend((start..).zip(value.iter().copied()));
    }

    /// "If the route data area is already full (the pointer exceeds the length) the datagram is forwarded without
    /// inserting the address into the recorded route. If there is some room but not enough room for a full address to be
    /// inserted, the original datagram is considered to be in error and is discarded."
    fn record_route(&self, own: Option<[u8; 4]>, edits: &mut Vec<(usize, u8)>) -> Result<(), Fault> {
        let pointer = self.byte(2).filter(|&pointer| pointer >= 4).ok_or_else(|| self.bad(2))?;
        let length = self.length();
        if pointer > length {
            return Ok(());
        }
        let next = pointer.saturating_add(WORD);
        if next > length.saturating_add(1) {
            return Err(self.bad(2));
        }
        if let Some(own) = own {
            self.put(pointer - 1, &own, edits);
            self.put(2, &[next], edits);
        }
        Ok(())
    }

    /// "If the timestamp data area is already full (the pointer exceeds the length) the datagram is forwarded without inserting
    /// the timestamp, but the overflow count is incremented by one. If there is some room but not enough room for a full
    /// timestamp to be inserted, or the overflow count itself overflows, the original datagram is considered to be in
    /// error and is discarded."
    ///
    /// "If the flags field = 3 (timestamp and prespecified address), the router MUST add its timestamp if the next prespecified
    /// address matches any of the router's IP addresses. It is not necessary that the prespecified address be either the address
    /// of the interface on which the packet arrived or the address of the interface over which it will be sent." (RFC 1812
    /// section 5.3.13.6)
    fn timestamp(
        &self,
        own: Option<[u8; 4]>,
        is_own: impl Fn(Ipv4Addr) -> bool,
        now: u64,
        edits: &mut Vec<(usize, u8)>,
    ) -> Result<(), Fault> {
        let pointer = self.byte(2).filter(|&pointer| pointer >= 5).ok_or_else(|| self.bad(2))?;
        let state = self.byte(3).ok_or_else(|| self.bad(3))?;
        let (overflow, flags) = (state >> 4, state & 0xf);
        let length = self.length();
        let listed = || self.bytes.get(pointer as usize - 1..)?.first_chunk::<4>().copied();
        let named = listed().filter(|&address| is_own(address.into()));
        if flags == FROM_THE_LISTED && (pointer > length || named.is_none()) {
            return Ok(());
        }
        if pointer > length {
            // The count has four bits.
            let counted = overflow.checked_add(1).filter(|&count| count < 16).ok_or_else(|| self.bad(3))?;
            self.put(3, &[counted << 4 | flags], edits);
            return Ok(());
        }
        let takes = match flags {
            ONLY_TIMES => WORD,
            WITH_ADDRESSES | FROM_THE_LISTED => 2 * WORD,
            _ => return Err(self.bad(3)),
        };
        let next = pointer.saturating_add(takes);
        if next > length.saturating_add(1) {
            return Err(self.bad(2));
        }
        if flags == WITH_ADDRESSES {
            let Some(own) = own else { return Ok(()) };
            self.put(pointer - 1, &own, edits);
        }
        self.put(next - 1 - WORD, &time_stamp(now), edits);
        self.put(2, &[next], edits);
        Ok(())
    }
}

/// "If the time is not available in milliseconds or cannot be provided with respect to midnight UT then any time may be
/// inserted as a timestamp provided the high order bit of the timestamp field is set to one."
fn time_stamp(now: u64) -> [u8; 4] {
    let millis = (now / 1_000_000) as u32;
    (millis | 1 << 31).to_be_bytes()
}
