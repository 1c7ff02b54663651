//! Classic pcap: a header of 24 bytes, then records of 16 bytes and data.

use std::io::Read;

use crate::fields::{Fields, Order};
use crate::input::Input;
use crate::link::LinkType;
use crate::problem::Damage;
use crate::reader::{Found, MAX_RECORD};

/// The header of a file.
const HEADER: usize = 24;

/// The header of a record: seconds, fraction, captured and original length.
const RECORD: usize = 16;

/// A classic file behind its header.
pub(crate) struct Classic {
    order: Order,
    /// Nanoseconds in a unit of the fraction.
    unit: u32,
    /// Bytes of a record before its data: more in the modified form, which adds interface, protocol and kind of packet.
    record: usize,
    /// Bytes of frame check sequence at the end of each packet.
    fcs: u32,
    pub(crate) link: LinkType,
}

impl Classic {
    /// Reads the header; `None` if the first bytes are not those of a classic file.
    pub(crate) fn open<R: Read>(magic: [u8; 4], input: &mut Input<R>) -> Result<Option<Classic>, Damage> {
        let (order, unit, record) = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => (Order::Big, 1000, RECORD),
            [0xa1, 0xb2, 0x3c, 0x4d] => (Order::Big, 1, RECORD),
            [0xa1, 0xb2, 0xcd, 0x34] => (Order::Big, 1000, RECORD + 8),
            [0xd4, 0xc3, 0xb2, 0xa1] => (Order::Little, 1000, RECORD),
            [0x4d, 0x3c, 0xb2, 0xa1] => (Order::Little, 1, RECORD),
            [0x34, 0xcd, 0xb2, 0xa1] => (Order::Little, 1000, RECORD + 8),
            _ => return Ok(None),
        };
        let Some(header) = input.peek_array::<HEADER>() else { return Err(input.short(0, "the header")) };
        input.consume(HEADER);
        // Magic, two versions, zone, accuracy and snap length say nothing about how to read what follows.
        let mut fields = Fields { bytes: header.get(20..).unwrap_or_default(), order };
        let link = fields.u32().unwrap_or_default();
        // Bit 26 says that bits 28 to 31 count the 16-bit words of frame check sequence.
        let fcs = if link & 1 << 26 == 0 { 0 } else { (link >> 28) * 2 };
        Ok(Some(Classic { order, unit, record, fcs, link: LinkType(link & 0x03ff_ffff) }))
    }

    #[inline]
    pub(crate) fn next<R: Read>(&self, input: &mut Input<R>) -> Result<Option<Found>, Damage> {
        let start = input.offset();
        let Some([s0, s1, s2, s3, f0, f1, f2, f3, c0, c1, c2, c3, o0, o1, o2, o3]) = input.peek_array::<RECORD>()
        else {
            return if input.ended()? { Ok(None) } else { Err(input.short(start, "the header of a record")) };
        };
        let seconds = self.order.u32([s0, s1, s2, s3]);
        let fraction = self.order.u32([f0, f1, f2, f3]);
        let captured = self.order.u32([c0, c1, c2, c3]);
        let original = self.order.u32([o0, o1, o2, o3]);
        if captured > MAX_RECORD {
            let what = format!("a record claims to hold {captured} bytes; {MAX_RECORD} is the most a record can have");
            return Err(Damage::at(start, what));
        }
        let whole = self.record + captured as usize;
        if input.peek(whole).len() < whole {
            return Err(input.short(start, "the data of a record"));
        }
        let from = input.consume(whole) + self.record;
        let nanos = i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * i64::from(self.unit);
        let found =
            Found { nanos, timed: true, from, len: captured as usize, length: original, link: self.link, interface: 0 };
        Ok(Some(found.without_fcs(self.fcs)))
    }
}
