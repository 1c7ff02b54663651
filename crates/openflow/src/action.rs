//! Actions: OpenFlow 1.3.5 section 7.2.5.

use crate::Error;
use crate::bytes::{Reader, Writer};
use crate::error::BadAction;
use crate::oxm::Oxm;

/// What is done to a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send it.
    Output {
        /// By this port.
        port: u32,
        /// How many bytes of it go to a controller: [`NO_BUFFER`] asks for all.
        max_len: u16,
    },
    /// Copy the TTL from the next header to the outer one.
    CopyTtlOut,
    /// Copy the TTL from the outer header to the next one.
    CopyTtlIn,
    /// Set the TTL of the outer MPLS entry.
    SetMplsTtl(u8),
    /// Take one off the TTL of the outer MPLS entry.
    DecMplsTtl,
    /// Put a VLAN tag with this EtherType outside all others.
    PushVlan(u16),
    /// Take the outer VLAN tag off.
    PopVlan,
    /// Put an MPLS entry outside all others; the frame gets this EtherType.
    PushMpls(u16),
    /// Take the outer MPLS entry off; the frame gets this EtherType.
    PopMpls(u16),
    /// The queue of the port that it is sent by.
    SetQueue(u32),
    /// Hand it to a group.
    Group(u32),
    /// Set the TTL, or hop limit, of IP.
    SetNwTtl(u8),
    /// Take one off the TTL, or hop limit, of IP.
    DecNwTtl,
    /// Set a field.
    SetField(Oxm),
    /// Put a provider backbone bridge's service tag with this EtherType outside.
    PushPbb(u16),
    /// Take that tag off.
    PopPbb,
    /// Something that an experimenter defines.
    Experimenter {
        /// Who.
        experimenter: u32,
        /// What; padded to a multiple of eight bytes with what stands before it.
        data: Vec<u8>,
    },
}

/// The number of bytes that asks for whole packets, never kept in a buffer.
pub const NO_BUFFER: u16 = 0xffff;
/// The most bytes that can be asked for otherwise.
pub const MAX_LEN: u16 = 0xffe5;

/// The numbers of action types.
pub mod kind {
    #![allow(missing_docs, reason = "each is the action of that name")]

    pub const OUTPUT: u16 = 0;
    pub const COPY_TTL_OUT: u16 = 11;
    pub const COPY_TTL_IN: u16 = 12;
    pub const SET_MPLS_TTL: u16 = 15;
    pub const DEC_MPLS_TTL: u16 = 16;
    pub const PUSH_VLAN: u16 = 17;
    pub const POP_VLAN: u16 = 18;
    pub const PUSH_MPLS: u16 = 19;
    pub const POP_MPLS: u16 = 20;
    pub const SET_QUEUE: u16 = 21;
    pub const GROUP: u16 = 22;
    pub const SET_NW_TTL: u16 = 23;
    pub const DEC_NW_TTL: u16 = 24;
    pub const SET_FIELD: u16 = 25;
    pub const PUSH_PBB: u16 = 26;
    pub const POP_PBB: u16 = 27;
    pub const EXPERIMENTER: u16 = 0xffff;
}

impl Action {
    /// The number of its type.
    pub const fn kind(&self) -> u16 {
        match self {
            Action::Output { .. } => kind::OUTPUT,
            Action::CopyTtlOut => kind::COPY_TTL_OUT,
            Action::CopyTtlIn => kind::COPY_TTL_IN,
            Action::SetMplsTtl(_) => kind::SET_MPLS_TTL,
            Action::DecMplsTtl => kind::DEC_MPLS_TTL,
            Action::PushVlan(_) => kind::PUSH_VLAN,
            Action::PopVlan => kind::POP_VLAN,
            Action::PushMpls(_) => kind::PUSH_MPLS,
            Action::PopMpls(_) => kind::POP_MPLS,
            Action::SetQueue(_) => kind::SET_QUEUE,
            Action::Group(_) => kind::GROUP,
            Action::SetNwTtl(_) => kind::SET_NW_TTL,
            Action::DecNwTtl => kind::DEC_NW_TTL,
            Action::SetField(_) => kind::SET_FIELD,
            Action::PushPbb(_) => kind::PUSH_PBB,
            Action::PopPbb => kind::POP_PBB,
            Action::Experimenter { .. } => kind::EXPERIMENTER,
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Action, Error> {
        let (kind, mut body) = reader.structure(8)?;
        let action = match kind {
            kind::OUTPUT => {
                let action = Action::Output { port: body.u32()?, max_len: body.u16()? };
                body.skip(6)?;
                action
            }
            kind::COPY_TTL_OUT => padded(&mut body, Action::CopyTtlOut)?,
            kind::COPY_TTL_IN => padded(&mut body, Action::CopyTtlIn)?,
            kind::SET_MPLS_TTL => Action::SetMplsTtl(ttl(&mut body)?),
            kind::DEC_MPLS_TTL => padded(&mut body, Action::DecMplsTtl)?,
            kind::PUSH_VLAN => Action::PushVlan(ether_type(&mut body)?),
            kind::POP_VLAN => padded(&mut body, Action::PopVlan)?,
            kind::PUSH_MPLS => Action::PushMpls(ether_type(&mut body)?),
            kind::POP_MPLS => Action::PopMpls(ether_type(&mut body)?),
            kind::SET_QUEUE => Action::SetQueue(body.u32()?),
            kind::GROUP => Action::Group(body.u32()?),
            kind::SET_NW_TTL => Action::SetNwTtl(ttl(&mut body)?),
            kind::DEC_NW_TTL => padded(&mut body, Action::DecNwTtl)?,
            kind::SET_FIELD => {
                let oxm = Oxm::read_in_action(&mut body)?;
                body.rest();
                Action::SetField(oxm)
            }
            kind::PUSH_PBB => Action::PushPbb(ether_type(&mut body)?),
            kind::POP_PBB => padded(&mut body, Action::PopPbb)?,
            kind::EXPERIMENTER => Action::Experimenter { experimenter: body.u32()?, data: body.rest().to_vec() },
            _ => return Err(BadAction::BadType.into()),
        };
        body.end()?;
        Ok(action)
    }

    fn write(&self, writer: &mut Writer) {
        writer.structure(self.kind(), |writer| match self {
            Action::Output { port, max_len } => {
                writer.u32(*port);
                writer.u16(*max_len);
                writer.pad(6);
            }
            Action::SetMplsTtl(ttl) | Action::SetNwTtl(ttl) => writer.u8(*ttl),
            Action::PushVlan(kind) | Action::PushMpls(kind) | Action::PopMpls(kind) | Action::PushPbb(kind) => {
                writer.u16(*kind);
            }
            Action::SetQueue(number) | Action::Group(number) => writer.u32(*number),
            Action::SetField(oxm) => oxm.write_in_action(writer),
            Action::Experimenter { experimenter, data } => {
                writer.u32(*experimenter);
                writer.bytes(data);
            }
            Action::CopyTtlOut
            | Action::CopyTtlIn
            | Action::DecMplsTtl
            | Action::PopVlan
            | Action::DecNwTtl
            | Action::PopPbb => writer.pad(4),
        });
    }

    /// The actions that fill `reader`.
    pub(crate) fn read_all(reader: &mut Reader<'_>) -> Result<Vec<Action>, Error> {
        Reader::new(reader.rest(), BadAction::BadLen).all(Action::read)
    }

    pub(crate) fn write_all(actions: &[Action], writer: &mut Writer) {
        for action in actions {
            action.write(writer);
        }
    }
}

fn padded(body: &mut Reader<'_>, action: Action) -> Result<Action, Error> {
    body.skip(4)?;
    Ok(action)
}

fn ttl(body: &mut Reader<'_>) -> Result<u8, Error> {
    let ttl = body.u8()?;
    body.skip(3)?;
    Ok(ttl)
}

fn ether_type(body: &mut Reader<'_>) -> Result<u16, Error> {
    let kind = body.u16()?;
    body.skip(2)?;
    Ok(kind)
}
