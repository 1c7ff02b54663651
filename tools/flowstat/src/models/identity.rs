//! A device that changes nothing.

use crate::hash::Hasher;
use crate::model::{Identity as What, Model};
use crate::packet::{Packet, Side};

/// Frames leave as they came, bit by bit: a switch, a wire, a tap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity {
    /// Bytes from the start of the frame that are looked at; `None`: all.
    pub bytes: Option<usize>,
}

impl Model for Identity {
    fn name(&self) -> &'static str {
        "identity"
    }

    fn identify(&self, packet: &Packet<'_>, _: Side, hasher: &Hasher) -> What {
        let looked_at = self.bytes.unwrap_or(usize::MAX).min(packet.length as usize);
        match packet.data.get(..looked_at) {
            Some(data) => What::Key(hasher.key(&[&packet.length.to_be_bytes(), data])),
            None => What::Cut,
        }
    }

    fn unidentified(&self) -> &'static str {
        "have nothing in them"
    }
}
