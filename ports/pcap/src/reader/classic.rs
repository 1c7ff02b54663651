//! Classic pcap: a header of 24 bytes, then records of 16 bytes and data.

use std::io::Read;

use super::{Damage, ETHERNET, Fields, Input, MAX_RECORD, Order, Record, not_ethernet};

/// A classic file behind its header.
pub(super) struct Classic {
    order: Order,
    /// Nanoseconds in a unit of the fraction.
    unit: u32,
    /// Bytes of frame check sequence at the end of each packet.
    fcs: u32,
}

impl Classic {
    /// Reads the header behind its first four bytes; `None` if those are not of a classic file.
    pub(super) fn open<R: Read>(magic: [u8; 4], input: &mut Input<R>) -> Result<Option<Classic>, Damage> {
        let (order, unit) = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => (Order::Big, 1000),
            [0xa1, 0xb2, 0x3c, 0x4d] => (Order::Big, 1),
            [0xd4, 0xc3, 0xb2, 0xa1] => (Order::Little, 1000),
            [0x4d, 0x3c, 0xb2, 0xa1] => (Order::Little, 1),
            _ => return Ok(None),
        };
        let mut rest = [0; 20];
        input.read_all(&mut rest, 0, "the header")?;
        // Two versions, zone, accuracy and snap length say nothing about how to read what follows.
        let mut fields = Fields { bytes: rest.get(16..).unwrap_or_default(), order };
        let link = fields.u32().unwrap_or_default();
        // Bit 26 says that bits 28 to 31 count the 16-bit words of frame check sequence.
        let fcs = if link & 1 << 26 == 0 { 0 } else { (link >> 28) * 2 };
        let link = link & 0x03ff_ffff;
        if link != ETHERNET {
            return Err(not_ethernet(20, link));
        }
        Ok(Some(Classic { order, unit, fcs }))
    }

    pub(super) fn next<R: Read>(&self, input: &mut Input<R>, bytes: &mut Vec<u8>) -> Result<Option<Record>, Damage> {
        let start = input.offset;
        let mut header = [0; 16];
        match input.read_up_to(&mut header)? {
            0 => return Ok(None),
            16 => {}
            _ => return Err(super::ends_within(start, "the header of a record")),
        }
        let mut fields = Fields { bytes: &header, order: self.order };
        let mut field = || fields.u32().unwrap_or_default();
        let (seconds, fraction, captured, original) = (field(), field(), field(), field());
        if captured > MAX_RECORD {
            let what = format!("a record claims to hold {captured} bytes; {MAX_RECORD} is the most a record can have");
            return Err(Damage { offset: start, what });
        }
        input.read_vec(bytes, captured, start, "the data of a record")?;
        let original = cut_fcs(bytes, original, self.fcs);
        let time = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * u64::from(self.unit);
        Ok(Some(Record { time: Some(time), original, ethernet: true }))
    }
}

/// Takes the frame check sequence off a packet, as far as it was captured; returns the packet's original length without it.
pub(super) fn cut_fcs(bytes: &mut Vec<u8>, original: u32, fcs: u32) -> u32 {
    let without = original.saturating_sub(fcs);
    if fcs > 0 {
        bytes.truncate(without as usize);
    }
    without
}
