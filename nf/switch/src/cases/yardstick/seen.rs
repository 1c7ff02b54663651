//! What is read of a frame: what flows and actions of routers may ask.

use weir_openflow::Field;
use weir_openflow::oxm::VLAN_PRESENT;

/// EtherTypes of VLAN tags.
const TAGS: [u16; 2] = [0x8100, 0x88a8];

/// What is read of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) in_port: u32,
    ethernet: [u64; 2],
    kind: u16,
    /// The outer tag, and that there is one.
    vlan: u16,
    /// Where IPv4 begins, if it is whole; what it says is 0 otherwise.
    pub(super) ip: Option<u16>,
    protocol: u8,
    source: u32,
    pub(super) destination: u32,
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|half| u16::from_be_bytes(*half))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}

fn address(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(half(bytes, at)?) << 32 | u64::from(word(bytes, at + 2)?))
}

impl Seen {
    /// What a frame says that came in by a port.
    pub(super) fn of(in_port: u32, bytes: &[u8]) -> Seen {
        let mut seen = Seen { in_port, ..Seen::default() };
        let _ = seen.read(bytes);
        seen
    }

    fn read(&mut self, bytes: &[u8]) -> Option<()> {
        self.ethernet = [address(bytes, 0)?, address(bytes, 6)?];
        let mut at = 12;
        self.kind = half(bytes, at)?;
        // A tag that breaks off is no tag.
        while TAGS.contains(&self.kind) && bytes.len() >= at + 6 {
            if self.vlan == 0 {
                self.vlan = VLAN_PRESENT as u16 | half(bytes, at + 2)? & 0xfff;
            }
            at += 4;
            self.kind = half(bytes, at)?;
        }
        if self.kind == 0x0800 { self.read_ipv4(bytes, at + 2) } else { None }
    }

    fn read_ipv4(&mut self, bytes: &[u8], at: usize) -> Option<()> {
        let first = *bytes.get(at)?;
        let header = usize::from(first & 0xf) * 4;
        if first >> 4 != 4 || header < 20 || bytes.len() < at + header {
            return None;
        }
        self.protocol = *bytes.get(at + 9)?;
        (self.source, self.destination) = (word(bytes, at + 12)?, word(bytes, at + 16)?);
        self.ip = u16::try_from(at).ok();
        Some(())
    }

    /// Whether it has a field.
    pub(super) fn has(&self, field: Field) -> bool {
        self.get(field).is_some()
    }

    /// A field's value, if the frame has it.
    pub(super) fn get(&self, field: Field) -> Option<u64> {
        let of_ip = |value: u32| self.ip.map(|_| u64::from(value));
        match field {
            Field::InPort => Some(self.in_port.into()),
            Field::EthDst => Some(self.ethernet[0]),
            Field::EthSrc => Some(self.ethernet[1]),
            Field::EthType => Some(self.kind.into()),
            Field::VlanVid => Some(self.vlan.into()),
            Field::IpProto => of_ip(self.protocol.into()),
            Field::Ipv4Src => of_ip(self.source),
            Field::Ipv4Dst => of_ip(self.destination),
            _ => None,
        }
    }
}
