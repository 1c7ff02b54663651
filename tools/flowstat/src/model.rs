//! What a device does to packets: [`Model`].

use crate::hash::{Hasher, Key};
use crate::packet::{Packet, Side};

/// What a model makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// What it keeps on its way.
    Key(Key),
    /// The same of a device that gives flows other names: beside it, what the packet's flow is called on its side, hashed.
    Flow(Key, u32),
    /// It leaves the device where nothing was captured, so that nothing can be said of it.
    Elsewhere,
    /// There is nothing in it that the model knows it again by.
    Unidentified,
    /// Its addresses contradict what is known of the device: it should not have been let through, or came out for somebody else.
    Misaddressed,
    /// Not enough of it was captured.
    Cut,
    /// It says itself that it was changed on its way.
    Corrupt,
}

/// What a device does to packets, and so which of their bytes identify them before and after it.
pub trait Model {
    /// What it is called on the command line.
    fn name(&self) -> &'static str;

    /// What identifies a packet. Of a packet that went through the device, both sides must give the same key.
    fn identify(&self, packet: &Packet<'_>, side: Side, hasher: &Hasher) -> Identity;

    /// Whether flows have other names behind the device, which are to be learned.
    fn renames(&self) -> bool {
        false
    }

    /// Writes the name of the subscriber whose packet it is to `name`; nothing if that is not known.
    fn subscriber(&self, _packet: &Packet<'_>, _name: &mut Vec<u8>) {}

    /// Which of the device's ways a packet that is sent to it takes, where it has several.
    fn way(&self, _packet: &Packet<'_>) -> Option<&'static str> {
        None
    }

    /// What packets are said to be that the model takes for [`Identity::Unidentified`], in a few words.
    fn unidentified(&self) -> &'static str;
}
