//! The CRC of SCTP: RFC 9260 section 6.8 and appendix A.

use crate::parse::Ip;

const PROTOCOL: u8 = 132;
/// Where it stands in the header.
const AT: usize = 8;

/// CRC32c, bit by bit.
fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

/// The CRC that the packet should have, and where it stands; nothing for fragments, of which the rest is missing.
fn should(bytes: &[u8], ip: &Ip) -> Option<(u32, usize)> {
    let start = ip.carried.filter(|_| !ip.fragment)?;
    let packet = bytes.get(start..ip.end).filter(|packet| packet.len() >= 12)?;
    let without = packet.iter().enumerate().map(|(at, byte)| if (AT..AT + 4).contains(&at) { 0 } else { *byte });
    Some((crc32c(without), start + AT))
}

/// The CRC that a packet should have, to be given to [`update`] when the packet has changed.
pub(crate) fn before(bytes: &[u8], ip: &Ip) -> Option<u32> {
    (ip.protocol == PROTOCOL).then(|| should(bytes, ip)).flatten().map(|(crc, _)| crc)
}

/// Changes the CRC as the packet was changed, for which it should have been `before`: a right one is right again, and a
/// wrong one as wrong as it was, since the CRC of a difference is the difference of CRCs.
pub(crate) fn update(bytes: &mut [u8], ip: &Ip, before: u32) {
    let Some((after, at)) = should(bytes, ip) else { return };
    // It is the one number here whose lowest byte stands first.
    let difference = (before ^ after).to_le_bytes();
    if let Some(field) = bytes.get_mut(at..at + 4) {
        field.iter_mut().zip(difference).for_each(|(byte, difference)| *byte ^= difference);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720 appendix B.4, which RFC 9260 takes the polynomial from.
    #[test]
    fn the_examples_of_rfc_3720() {
        assert_eq!(crc32c([0u8; 32].into_iter()), 0x8a91_36aa);
        assert_eq!(crc32c([0xffu8; 32].into_iter()), 0x62a8_ab43);
        assert_eq!(crc32c(0u8..32), 0x46dd_794e);
    }
}
