//! Stage `NAME.led`: takes what routes of the network layer led to customers (from another VRF, made by the layer itself, or of a customer's that the
//! slow path had to look at), and hands it to the stages for what comes from the core, as if it had come so.

use weir_ip::INSIDE;
use weir_packet::{Batch, LaneId, Packet};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::{Ethernet, MacAddr, View, ethernet};

weir_stage::ways! {
    /// Ways out of [`Led`].
    pub(crate) enum Exit {
        /// On to who has the address.
        Down => way "down",
        /// Shorter than its headers.
        TooShort => drop "too-short",
    }
}

/// See the module.
pub(crate) struct Led;

/// What [`Led`] declares.
pub(crate) fn declaration() -> Declaration {
    Declaration::of::<Exit>().reads(&[LaneId::L3]).updates(&[LaneId::Port])
}

impl Stage for Led {
    fn declare(&self) -> Declaration {
        declaration()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        out.each(batch, |slot, packet, lanes| {
            lanes.port[slot] = INSIDE;
            ready(packet, lanes.l3[slot].into()).map_or(Exit::TooShort, |()| Exit::Down)
        });
    }
}

/// Gives a packet whose network header begins at `l3` the header of a link on which all is the gateway's.
fn ready(packet: &mut Packet, l3: usize) -> Option<()> {
    if !packet.trim_front(l3.checked_sub(Ethernet::LEN)?) {
        return None;
    }
    let [version] = *packet.window::<1>(Ethernet::LEN);
    let ethertype = if version >> 4 == 6 { ethernet::IPV6 } else { ethernet::IPV4 };
    *Ethernet::view_mut(packet.bytes_mut())? = Ethernet::new(MacAddr::ZERO, MacAddr::ZERO, ethertype);
    Some(())
}
