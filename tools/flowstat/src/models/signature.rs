//! Packets that say themselves which they are.

use weir_measure::signature;

use crate::hash::Hasher;
use crate::model::{Identity, Model};
use crate::packet::{Packet, Side};

/// Packets of the generator carry stream and number at their end, whatever the device does to what stands before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Signature;

impl Model for Signature {
    fn name(&self) -> &'static str {
        "signature"
    }

    fn identify(&self, packet: &Packet<'_>, _: Side, hasher: &Hasher) -> Identity {
        if packet.data.len() < packet.length as usize {
            return Identity::Cut;
        }
        match signature::read(packet.data) {
            Some(found) if found.intact => {
                Identity::Key(hasher.key(&[&found.stream.to_be_bytes(), &found.sequence.to_be_bytes()]))
            }
            Some(_) => Identity::Corrupt,
            None => Identity::Unidentified,
        }
    }

    fn unidentified(&self) -> &'static str {
        "carry no signature of the generator"
    }
}
