//! A packet in the pipeline.

use weir_openflow::Field;

use crate::fields::Fields;
use crate::parse::{self, Layout};

/// A packet in the pipeline: its bytes, and what is known beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The frame, from its destination address on, without its checksum.
    pub bytes: Vec<u8>,
    /// The port that it came in by.
    pub in_port: u32,
    /// The physical port below that; the same unless that is a tunnel.
    pub in_phy_port: u32,
    /// What tables hand on.
    pub metadata: u64,
    /// What the tunnel that it came in by says, and then what the one that it goes out by is to say; 0 outside tunnels.
    pub tunnel: u64,
    /// The queue of the port that it goes out by.
    pub queue: u32,
}

impl Packet {
    /// A frame that came in by a port.
    pub fn new(in_port: u32, bytes: Vec<u8>) -> Packet {
        Packet { bytes, in_port, in_phy_port: in_port, metadata: 0, tunnel: 0, queue: 0 }
    }

    /// What a match can ask of it.
    pub fn fields(&self) -> Fields {
        self.parse().0
    }

    pub(crate) fn parse(&self) -> (Fields, Layout) {
        let (mut fields, layout) = parse::parse(&self.bytes);
        fields.set(Field::InPort, self.in_port.into());
        fields.set(Field::InPhyPort, self.in_phy_port.into());
        fields.set(Field::Metadata, self.metadata.into());
        fields.set(Field::TunnelId, self.tunnel.into());
        (fields, layout)
    }
}
