//! Whole messages: OpenFlow 1.3.5 sections 7.1, 7.3 and 7.5.

use crate::Error;
use crate::bytes::{Reader, Writer};
use crate::error::BadRequest;
use crate::flow::{FlowMod, FlowRemoved, PacketIn, PacketOut};
use crate::group::GroupMod;
use crate::meter::MeterMod;
use crate::multipart::Part;
use crate::port::{PortMod, PortStatus};
use crate::queue::Queue;
use crate::table::TableMod;

/// The version on the wire: 1.3.
pub const VERSION: u8 = 0x04;
/// How many bytes a header has.
pub const HEADER: usize = 8;
/// How many bytes a message has at most.
pub const MAX_MESSAGE: usize = 65_535;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What pairs replies with requests.
    pub xid: u32,
    /// What it says.
    pub body: Body,
}

/// Which versions a peer speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version of the message itself: the highest that the peer speaks.
    pub version: u8,
    /// Version `n` is bit `n % 32` of word `n / 32`, if the peer sent them.
    pub versions: Option<Vec<u32>>,
}

/// What a switch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Its identity: an Ethernet address in the lower 48 bits.
    pub datapath: u64,
    /// How many packets it can keep for controllers.
    pub buffers: u32,
    /// How many tables it has.
    pub tables: u8,
    /// Which of a controller's connections this is; 0 for the main one.
    pub auxiliary: u8,
    /// What it counts, as bits of [`Features::FLOW_STATS`] and those beside it.
    pub capabilities: u32,
}

#[allow(missing_docs, reason = "each is the capability of that name")]
impl Features {
    pub const FLOW_STATS: u32 = 1;
    pub const TABLE_STATS: u32 = 1 << 1;
    pub const PORT_STATS: u32 = 1 << 2;
    pub const GROUP_STATS: u32 = 1 << 3;
    pub const IP_REASM: u32 = 1 << 5;
    pub const QUEUE_STATS: u32 = 1 << 6;
    pub const PORT_BLOCKED: u32 = 1 << 8;
}

/// How a switch treats fragments, and how much of a packet goes to controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// 0: fragments are treated as other packets; 1: dropped; 2: reassembled.
    pub flags: u16,
    /// How many bytes of a packet that no flow matched go to controllers.
    pub miss_send_len: u16,
}

/// What a controller may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Only asked for: as before.
    NoChange,
    /// Everything, beside others.
    #[default]
    Equal,
    /// Everything, alone.
    Master,
    /// Look, and not change.
    Slave,
}

/// A controller's role, and how new its claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleMessage {
    /// The role.
    pub role: Role,
    /// The claim's number; those that are older than one seen are refused.
    pub generation: u64,
}

/// Which news a controller wants: bit `reason` of each, first as master or equal, then as slave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncConfig {
    /// Packets.
    pub packet_in: [u32; 2],
    /// Ports.
    pub port_status: [u32; 2],
    /// Flows that end.
    pub flow_removed: [u32; 2],
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The first message of both sides.
    Hello(Hello),
    /// A request was refused.
    Error {
        /// Why.
        error: Error,
        /// The beginning of the request, or text.
        data: Vec<u8>,
    },
    /// Are you there?
    EchoRequest(Vec<u8>),
    /// Yes, with the same bytes.
    EchoReply(Vec<u8>),
    /// What an experimenter defines.
    Experimenter {
        /// Who.
        experimenter: u32,
        /// What.
        kind: u32,
        /// The rest.
        data: Vec<u8>,
    },
    /// What is the switch?
    FeaturesRequest,
    /// That is the switch.
    FeaturesReply(Features),
    /// How is it configured?
    GetConfigRequest,
    /// So it is configured.
    GetConfigReply(Config),
    /// Configures it.
    SetConfig(Config),
    /// A packet for the controller.
    PacketIn(PacketIn),
    /// A flow ended.
    FlowRemoved(FlowRemoved),
    /// A port changed.
    PortStatus(PortStatus),
    /// A packet from the controller.
    PacketOut(PacketOut),
    /// Changes flows.
    FlowMod(FlowMod),
    /// Changes a group.
    GroupMod(GroupMod),
    /// Changes a port.
    PortMod(PortMod),
    /// Changes a table.
    TableMod(TableMod),
    /// Part of a request; [`crate::Reassembly`] and [`crate::Request::read`] make sense of it.
    MultipartRequest(Part),
    /// Part of a reply.
    MultipartReply(Part),
    /// Is everything before this done?
    BarrierRequest,
    /// Everything is done.
    BarrierReply,
    /// Which queues has this port?
    QueueGetConfigRequest(u32),
    /// These queues.
    QueueGetConfigReply {
        /// The port.
        port: u32,
        /// Its queues.
        queues: Vec<Queue>,
    },
    /// Claims a role.
    RoleRequest(RoleMessage),
    /// The role now.
    RoleReply(RoleMessage),
    /// Which news does this controller get?
    GetAsyncRequest,
    /// These.
    GetAsyncReply(AsyncConfig),
    /// Sets which.
    SetAsync(AsyncConfig),
    /// Changes a meter.
    MeterMod(MeterMod),
}

/// The first eight bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version.
    pub version: u8,
    /// The message type.
    pub kind: u8,
    /// How long the message is, with its header.
    pub length: u16,
    /// Its transaction.
    pub xid: u32,
}

impl Header {
    /// The header in front of `bytes`, if there are enough.
    pub fn of(bytes: &[u8]) -> Option<Header> {
        let [version, kind, l0, l1, x0, x1, x2, x3] = *bytes.first_chunk::<HEADER>()?;
        let (length, xid) = (u16::from_be_bytes([l0, l1]), u32::from_be_bytes([x0, x1, x2, x3]));
        Some(Header { version, kind, length, xid })
    }
}

/// The message would be longer than 65,535 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a message has at most 65,535 bytes")
    }
}

impl std::error::Error for TooLong {}

impl Message {
    /// A message.
    pub const fn new(xid: u32, body: Body) -> Message {
        Message { xid, body }
    }

    /// Reads one whole message.
    ///
    /// # Errors
    ///
    /// The type and code that the sender is to be told.
    pub fn read(bytes: &[u8]) -> Result<Message, Error> {
        let header = Header::of(bytes).ok_or(BadRequest::BadLen)?;
        if usize::from(header.length) != bytes.len() {
            return Err(BadRequest::BadLen.into());
        }
        // Whoever says hello does not know our version yet.
        if header.version != VERSION && header.kind != 0 {
            return Err(BadRequest::BadVersion.into());
        }
        let mut reader = Reader::new(bytes.get(HEADER..).unwrap_or_default(), BadRequest::BadLen);
        let body = Body::read(header, &mut reader)?;
        reader.end()?;
        Ok(Message { xid: header.xid, body })
    }

    /// Its bytes.
    ///
    /// # Errors
    ///
    /// [`TooLong`] if there would be more than a length can say.
    pub fn write(&self) -> Result<Vec<u8>, TooLong> {
        let mut writer = Writer::default();
        writer.u8(if let Body::Hello(hello) = &self.body { hello.version } else { VERSION });
        writer.u8(self.body.kind());
        writer.u16(0);
        writer.u32(self.xid);
        self.body.write(&mut writer);
        if writer.here() > MAX_MESSAGE {
            return Err(TooLong);
        }
        writer.length(0, 2);
        Ok(writer.0)
    }
}

impl Body {
    /// The number of its message type.
    pub const fn kind(&self) -> u8 {
        match self {
            Body::Hello(_) => 0,
            Body::Error { .. } => 1,
            Body::EchoRequest(_) => 2,
            Body::EchoReply(_) => 3,
            Body::Experimenter { .. } => 4,
            Body::FeaturesRequest => 5,
            Body::FeaturesReply(_) => 6,
            Body::GetConfigRequest => 7,
            Body::GetConfigReply(_) => 8,
            Body::SetConfig(_) => 9,
            Body::PacketIn(_) => 10,
            Body::FlowRemoved(_) => 11,
            Body::PortStatus(_) => 12,
            Body::PacketOut(_) => 13,
            Body::FlowMod(_) => 14,
            Body::GroupMod(_) => 15,
            Body::PortMod(_) => 16,
            Body::TableMod(_) => 17,
            Body::MultipartRequest(_) => 18,
            Body::MultipartReply(_) => 19,
            Body::BarrierRequest => 20,
            Body::BarrierReply => 21,
            Body::QueueGetConfigRequest(_) => 22,
            Body::QueueGetConfigReply { .. } => 23,
            Body::RoleRequest(_) => 24,
            Body::RoleReply(_) => 25,
            Body::GetAsyncRequest => 26,
            Body::GetAsyncReply(_) => 27,
            Body::SetAsync(_) => 28,
            Body::MeterMod(_) => 29,
        }
    }

    fn read(header: Header, reader: &mut Reader<'_>) -> Result<Body, Error> {
        Ok(match header.kind {
            0 => Body::Hello(Hello::read(header.version, reader)?),
            1 => {
                let error = Error { kind: reader.u16()?, code: reader.u16()? };
                Body::Error { error, data: reader.rest().to_vec() }
            }
            2 => Body::EchoRequest(reader.rest().to_vec()),
            3 => Body::EchoReply(reader.rest().to_vec()),
            4 => {
                let (experimenter, kind) = (reader.u32()?, reader.u32()?);
                Body::Experimenter { experimenter, kind, data: reader.rest().to_vec() }
            }
            5 => Body::FeaturesRequest,
            6 => Body::FeaturesReply(Features::read(reader)?),
            7 => Body::GetConfigRequest,
            8 => Body::GetConfigReply(Config { flags: reader.u16()?, miss_send_len: reader.u16()? }),
            9 => Body::SetConfig(Config { flags: reader.u16()?, miss_send_len: reader.u16()? }),
            10 => Body::PacketIn(PacketIn::read(reader)?),
            11 => Body::FlowRemoved(FlowRemoved::read(reader)?),
            12 => Body::PortStatus(PortStatus::read(reader)?),
            13 => Body::PacketOut(PacketOut::read(reader)?),
            14 => Body::FlowMod(FlowMod::read(reader)?),
            15 => Body::GroupMod(GroupMod::read(reader)?),
            16 => Body::PortMod(PortMod::read(reader)?),
            17 => Body::TableMod(TableMod::read(reader)?),
            18 => Body::MultipartRequest(Part::read(reader)?),
            19 => Body::MultipartReply(Part::read(reader)?),
            20 => Body::BarrierRequest,
            21 => Body::BarrierReply,
            22 => Body::QueueGetConfigRequest(padded(reader)?),
            23 => Body::QueueGetConfigReply { port: padded(reader)?, queues: reader.all(Queue::read)? },
            24 => Body::RoleRequest(RoleMessage::read(reader)?),
            25 => Body::RoleReply(RoleMessage::read(reader)?),
            26 => Body::GetAsyncRequest,
            27 => Body::GetAsyncReply(AsyncConfig::read(reader)?),
            28 => Body::SetAsync(AsyncConfig::read(reader)?),
            29 => Body::MeterMod(MeterMod::read(reader)?),
            _ => return Err(BadRequest::BadType.into()),
        })
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Body::Hello(hello) => hello.write(writer),
            Body::Error { error, data } => {
                writer.u16(error.kind);
                writer.u16(error.code);
                writer.bytes(data);
            }
            Body::EchoRequest(data) | Body::EchoReply(data) => writer.bytes(data),
            Body::Experimenter { experimenter, kind, data } => {
                writer.u32(*experimenter);
                writer.u32(*kind);
                writer.bytes(data);
            }
            Body::FeaturesReply(features) => features.write(writer),
            Body::GetConfigReply(config) | Body::SetConfig(config) => {
                writer.u16(config.flags);
                writer.u16(config.miss_send_len);
            }
            Body::PacketIn(packet) => packet.write(writer),
            Body::FlowRemoved(flow) => flow.write(writer),
            Body::PortStatus(port) => port.write(writer),
            Body::PacketOut(packet) => packet.write(writer),
            Body::FlowMod(flow) => flow.write(writer),
            Body::GroupMod(group) => group.write(writer),
            Body::PortMod(port) => port.write(writer),
            Body::TableMod(table) => table.write(writer),
            Body::MultipartRequest(part) | Body::MultipartReply(part) => part.write(writer),
            Body::QueueGetConfigRequest(port) => {
                writer.u32(*port);
                writer.pad(4);
            }
            Body::QueueGetConfigReply { port, queues } => {
                writer.u32(*port);
                writer.pad(4);
                for queue in queues {
                    queue.write(writer);
                }
            }
            Body::RoleRequest(role) | Body::RoleReply(role) => role.write(writer),
            Body::GetAsyncReply(config) | Body::SetAsync(config) => config.write(writer),
            Body::MeterMod(meter) => meter.write(writer),
            Body::FeaturesRequest
            | Body::GetConfigRequest
            | Body::BarrierRequest
            | Body::BarrierReply
            | Body::GetAsyncRequest => {}
        }
    }
}

fn padded(reader: &mut Reader<'_>) -> Result<u32, Error> {
    let number = reader.u32()?;
    reader.skip(4)?;
    Ok(number)
}
