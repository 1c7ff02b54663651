//! PPP over Ethernet (RFC 2516 section 4), in its session stage: the header, and the protocol field of PPP behind it.

use crate::{U16, View};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// PPP protocol: IPv4 (RFC 1332).
pub const PPP_IPV4: u16 = 0x0021;
/// PPP protocol: IPv6 (RFC 5072).
pub const PPP_IPV6: u16 = 0x0057;
/// Version 1 and type 1, as every packet has them.
pub const VERSION_TYPE: u8 = 0x11;

/// The header of a packet of a session and PPP's protocol field, 8 bytes.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Pppoe {
    /// [`VERSION_TYPE`].
    pub version_type: u8,
    /// 0 in the session stage.
    pub code: u8,
    /// The session.
    pub session: U16,
    /// Bytes behind the session's header: PPP's protocol field and payload.
    pub length: U16,
    /// What PPP carries.
    pub protocol: U16,
}

impl View for Pppoe {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_rfc_2516_puts_them() {
        let header = Pppoe::view(&[0x11, 0, 0x12, 0x34, 0, 0x16, 0, 0x57]).unwrap();
        assert_eq!((header.version_type, header.code), (VERSION_TYPE, 0));
        assert_eq!((header.session.get(), header.length.get(), header.protocol.get()), (0x1234, 22, PPP_IPV6));
        assert!(Pppoe::view(&[0; 7]).is_none());
    }
}
