//! Packets by the definitions of their headers.

/// What a packet is, whatever stands around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kind {
    pub(crate) source: u8,
    pub(crate) destination: u8,
    pub(crate) id: u16,
    pub(crate) port: u16,
    /// UDP, TCP or ICMP.
    pub(crate) protocol: u8,
    pub(crate) six: bool,
    pub(crate) data: u8,
}

/// What differs between both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) ttl: u8,
    pub(crate) ecn: u8,
    /// What flows are called there.
    pub(crate) offset: u8,
}

pub(crate) fn transport(kind: &Kind, look: Look) -> Vec<u8> {
    let (port, data) = (1000 + kind.port + 10 * u16::from(look.offset), vec![kind.data; 9]);
    // Checksums follow from the addresses, so that they differ where these do.
    let sum = [look.offset, kind.data];
    let mut bytes = Vec::new();
    match kind.protocol {
        17 => {
            bytes.extend(port.to_be_bytes());
            bytes.extend(53u16.to_be_bytes());
            bytes.extend([0, 17]);
            bytes.extend(sum);
        }
        6 => {
            bytes.extend(port.to_be_bytes());
            bytes.extend([0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 1]);
            bytes.extend(sum);
            bytes.extend([0, 0]);
        }
        _ => {
            bytes.extend([8, 0]);
            bytes.extend(sum);
            bytes.extend(port.to_be_bytes());
            bytes.extend([0, 1]);
        }
    }
    bytes.extend(data);
    bytes
}

pub(crate) fn ip(kind: &Kind, look: Look) -> Vec<u8> {
    let transport = transport(kind, look);
    let mut bytes = Vec::new();
    if kind.six {
        bytes.extend([0x60, look.ecn << 4, 0, 0]);
        bytes.extend((transport.len() as u16).to_be_bytes());
        bytes.extend([kind.protocol, look.ttl]);
        for host in [kind.source + 10 * look.offset, 100 + kind.destination] {
            bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
        }
    } else {
        bytes.extend([0x45, look.ecn]);
        bytes.extend((20 + transport.len() as u16).to_be_bytes());
        bytes.extend(kind.id.to_be_bytes());
        bytes.extend([0, 0, look.ttl, kind.protocol, 0, 0]);
        bytes.extend([10, 0, 0, kind.source + 10 * look.offset, 10, 1, 0, kind.destination]);
        let sum = weir_wire::checksum::Sum::new().bytes(&bytes).checksum();
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    bytes.extend(transport);
    bytes
}

/// A frame around it, behind headers of so many bytes, padded to the least length.
pub(crate) fn framed(mac: u8, between: &[u8], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, mac, 2, 0, 0, 0, 1, mac];
    bytes.extend(between);
    bytes.extend(ethertype.to_be_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().max(60), 0);
    bytes
}

pub(crate) fn ethertype(kind: &Kind) -> u16 {
    if kind.six { 0x86dd } else { 0x0800 }
}

pub(crate) const BEFORE: Look = Look { ttl: 64, ecn: 0, offset: 0 };
pub(crate) const BEHIND: Look = Look { ttl: 63, ecn: 3, offset: 0 };
