//! Requests and replies that may take several messages: OpenFlow 1.3.5 section 7.3.5.

use crate::Error;
use crate::bytes::{Reader, Writer};
use crate::error::{BadRequest, TableFeaturesFailed};
use crate::flow::{FlowQuery, FlowStats};
use crate::group::{Counted, GroupDesc, GroupFeatures, GroupStats};
use crate::meter::{MeterConfig, MeterFeatures, MeterStats};
use crate::port::{Port, PortStats};
use crate::queue::QueueStats;
use crate::table::{TableFeatures, TableStats};

/// The numbers of what can be asked for.
pub mod kind {
    #![allow(missing_docs, reason = "each is the multipart type of that name")]

    pub const DESC: u16 = 0;
    pub const FLOW: u16 = 1;
    pub const AGGREGATE: u16 = 2;
    pub const TABLE: u16 = 3;
    pub const PORT_STATS: u16 = 4;
    pub const QUEUE: u16 = 5;
    pub const GROUP: u16 = 6;
    pub const GROUP_DESC: u16 = 7;
    pub const GROUP_FEATURES: u16 = 8;
    pub const METER: u16 = 9;
    pub const METER_CONFIG: u16 = 10;
    pub const METER_FEATURES: u16 = 11;
    pub const TABLE_FEATURES: u16 = 12;
    pub const PORT_DESC: u16 = 13;
    pub const EXPERIMENTER: u16 = 0xffff;
}

/// One message of a request or of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What is asked for: [`kind`].
    pub kind: u16,
    /// Whether more parts follow.
    pub more: bool,
    /// Its share of the body.
    pub body: Vec<u8>,
}

/// How many bytes of a body fit in one message.
pub const MAX_BODY: usize = 65_535 - 16;

impl Part {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Part, Error> {
        let (kind, flags) = (reader.u16()?, reader.u16()?);
        reader.skip(4)?;
        Ok(Part { kind, more: flags & 1 != 0, body: reader.rest().to_vec() })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u16(self.kind);
        writer.u16(u16::from(self.more));
        writer.pad(4);
        writer.bytes(&self.body);
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Who made the switch.
    Desc,
    /// Flows, one by one.
    Flow(FlowQuery),
    /// Flows, added up.
    Aggregate(FlowQuery),
    /// What went through tables.
    Table,
    /// What went through a port, or through `ANY`.
    PortStats(u32),
    /// What went through queues.
    Queue {
        /// A port, or `ANY`.
        port: u32,
        /// A queue, or [`crate::queue::ALL`].
        queue: u32,
    },
    /// What went through a group, or through [`crate::group::ALL`].
    Group(u32),
    /// Groups, as they were sent.
    GroupDesc,
    /// What groups can do.
    GroupFeatures,
    /// What went through a meter, or through [`crate::meter::ALL`].
    Meter(u32),
    /// A meter as it was sent, or [`crate::meter::ALL`].
    MeterConfig(u32),
    /// What meters can do.
    MeterFeatures,
    /// What tables can do; if it names some, they are to do just that.
    TableFeatures(Vec<TableFeatures>),
    /// Ports.
    PortDesc,
    /// What an experimenter defines: who, what, and the rest.
    Experimenter(u32, u32, Vec<u8>),
}

impl Request {
    /// Reads the whole body of a request.
    ///
    /// # Errors
    ///
    /// [`BadRequest::BadMultipart`] for a kind that is not known, [`BadRequest::BadLen`] for a body of the wrong length, and
    /// what is wrong inside it.
    pub fn read(kind: u16, body: &[u8]) -> Result<Request, Error> {
        let mut reader = Reader::new(body, BadRequest::BadLen);
        let request = match kind {
            kind::DESC => Request::Desc,
            kind::FLOW => Request::Flow(FlowQuery::read(&mut reader)?),
            kind::AGGREGATE => Request::Aggregate(FlowQuery::read(&mut reader)?),
            kind::TABLE => Request::Table,
            kind::PORT_STATS => Request::PortStats(padded(&mut reader)?),
            kind::QUEUE => Request::Queue { port: reader.u32()?, queue: reader.u32()? },
            kind::GROUP => Request::Group(padded(&mut reader)?),
            kind::GROUP_DESC => Request::GroupDesc,
            kind::GROUP_FEATURES => Request::GroupFeatures,
            kind::METER => Request::Meter(padded(&mut reader)?),
            kind::METER_CONFIG => Request::MeterConfig(padded(&mut reader)?),
            kind::METER_FEATURES => Request::MeterFeatures,
            kind::TABLE_FEATURES => {
                reader = Reader::new(body, TableFeaturesFailed::BadLen);
                Request::TableFeatures(reader.all(TableFeatures::read)?)
            }
            kind::PORT_DESC => Request::PortDesc,
            kind::EXPERIMENTER => Request::Experimenter(reader.u32()?, reader.u32()?, reader.rest().to_vec()),
            _ => return Err(BadRequest::BadMultipart.into()),
        };
        reader.end()?;
        Ok(request)
    }

    /// What kind it is.
    pub const fn kind(&self) -> u16 {
        match self {
            Request::Desc => kind::DESC,
            Request::Flow(_) => kind::FLOW,
            Request::Aggregate(_) => kind::AGGREGATE,
            Request::Table => kind::TABLE,
            Request::PortStats(_) => kind::PORT_STATS,
            Request::Queue { .. } => kind::QUEUE,
            Request::Group(_) => kind::GROUP,
            Request::GroupDesc => kind::GROUP_DESC,
            Request::GroupFeatures => kind::GROUP_FEATURES,
            Request::Meter(_) => kind::METER,
            Request::MeterConfig(_) => kind::METER_CONFIG,
            Request::MeterFeatures => kind::METER_FEATURES,
            Request::TableFeatures(_) => kind::TABLE_FEATURES,
            Request::PortDesc => kind::PORT_DESC,
            Request::Experimenter(..) => kind::EXPERIMENTER,
        }
    }

    /// The messages that it takes. A piece that is longer than a message makes that message too long to be written.
    pub fn parts(&self) -> Vec<Part> {
        let mut parts = Parts::new(self.kind());
        match self {
            Request::Flow(query) | Request::Aggregate(query) => parts.item(|writer| query.write(writer)),
            Request::PortStats(number)
            | Request::Group(number)
            | Request::Meter(number)
            | Request::MeterConfig(number) => parts.item(|writer| {
                writer.u32(*number);
                writer.pad(4);
            }),
            Request::Queue { port, queue } => parts.item(|writer| {
                writer.u32(*port);
                writer.u32(*queue);
            }),
            Request::TableFeatures(tables) => parts.items(tables, TableFeatures::write),
            Request::Experimenter(experimenter, kind, data) => {
                parts.item(|writer| experimenters(writer, *experimenter, *kind, data));
            }
            Request::Desc
            | Request::Table
            | Request::GroupDesc
            | Request::GroupFeatures
            | Request::MeterFeatures
            | Request::PortDesc => {}
        }
        parts.end()
    }
}

fn padded(reader: &mut Reader<'_>) -> Result<u32, Error> {
    let number = reader.u32()?;
    reader.skip(4)?;
    Ok(number)
}

fn experimenters(writer: &mut Writer, experimenter: u32, kind: u32, data: &[u8]) {
    writer.u32(experimenter);
    writer.u32(kind);
    writer.bytes(data);
}

/// Who made the switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desc {
    /// Who made it; at most 255 bytes are told, as of the next two.
    pub manufacturer: String,
    /// What it runs on.
    pub hardware: String,
    /// What it is, and its version.
    pub software: String,
    /// Its serial number; at most 31 bytes are told.
    pub serial: String,
    /// What its owner calls it; at most 255 bytes are told.
    pub datapath: String,
}

/// Flows, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// What they matched.
    pub counted: Counted,
    /// How many flows.
    pub flows: u32,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each answers the request of that name")]
pub enum Reply {
    Desc(Desc),
    Flow(Vec<FlowStats>),
    Aggregate(Aggregate),
    Table(Vec<TableStats>),
    PortStats(Vec<PortStats>),
    Queue(Vec<QueueStats>),
    Group(Vec<GroupStats>),
    GroupDesc(Vec<GroupDesc>),
    GroupFeatures(GroupFeatures),
    Meter(Vec<MeterStats>),
    MeterConfig(Vec<MeterConfig>),
    MeterFeatures(MeterFeatures),
    TableFeatures(Vec<TableFeatures>),
    PortDesc(Vec<Port>),
    Experimenter(u32, u32, Vec<u8>),
}

impl Reply {
    /// Reads the whole body of a reply.
    ///
    /// # Errors
    ///
    /// As [`Request::read`].
    pub fn read(kind: u16, body: &[u8]) -> Result<Reply, Error> {
        let mut reader = Reader::new(body, BadRequest::BadLen);
        let reply = match kind {
            kind::DESC => Reply::Desc(Desc {
                manufacturer: reader.text(256)?,
                hardware: reader.text(256)?,
                software: reader.text(256)?,
                serial: reader.text(32)?,
                datapath: reader.text(256)?,
            }),
            kind::FLOW => Reply::Flow(reader.all(FlowStats::read)?),
            kind::AGGREGATE => {
                let aggregate = Aggregate { counted: Counted::read(&mut reader)?, flows: reader.u32()? };
                reader.skip(4)?;
                Reply::Aggregate(aggregate)
            }
            kind::TABLE => Reply::Table(reader.all(TableStats::read)?),
            kind::PORT_STATS => Reply::PortStats(reader.all(PortStats::read)?),
            kind::QUEUE => Reply::Queue(reader.all(QueueStats::read)?),
            kind::GROUP => Reply::Group(reader.all(GroupStats::read)?),
            kind::GROUP_DESC => Reply::GroupDesc(reader.all(GroupDesc::read)?),
            kind::GROUP_FEATURES => Reply::GroupFeatures(GroupFeatures::read(&mut reader)?),
            kind::METER => Reply::Meter(reader.all(MeterStats::read)?),
            kind::METER_CONFIG => Reply::MeterConfig(reader.all(MeterConfig::read)?),
            kind::METER_FEATURES => Reply::MeterFeatures(MeterFeatures::read(&mut reader)?),
            kind::TABLE_FEATURES => Reply::TableFeatures(reader.all(TableFeatures::read)?),
            kind::PORT_DESC => Reply::PortDesc(reader.all(Port::read)?),
            kind::EXPERIMENTER => Reply::Experimenter(reader.u32()?, reader.u32()?, reader.rest().to_vec()),
            _ => return Err(BadRequest::BadMultipart.into()),
        };
        reader.end()?;
        Ok(reply)
    }

    /// What kind it is.
    pub const fn kind(&self) -> u16 {
        match self {
            Reply::Desc(_) => kind::DESC,
            Reply::Flow(_) => kind::FLOW,
            Reply::Aggregate(_) => kind::AGGREGATE,
            Reply::Table(_) => kind::TABLE,
            Reply::PortStats(_) => kind::PORT_STATS,
            Reply::Queue(_) => kind::QUEUE,
            Reply::Group(_) => kind::GROUP,
            Reply::GroupDesc(_) => kind::GROUP_DESC,
            Reply::GroupFeatures(_) => kind::GROUP_FEATURES,
            Reply::Meter(_) => kind::METER,
            Reply::MeterConfig(_) => kind::METER_CONFIG,
            Reply::MeterFeatures(_) => kind::METER_FEATURES,
            Reply::TableFeatures(_) => kind::TABLE_FEATURES,
            Reply::PortDesc(_) => kind::PORT_DESC,
            Reply::Experimenter(..) => kind::EXPERIMENTER,
        }
    }

    /// The messages that it takes: as few as possible, none of which breaks off inside an item.
    pub fn parts(&self) -> Vec<Part> {
        let mut parts = Parts::new(self.kind());
        match self {
            Reply::Desc(desc) => parts.item(|writer| {
                writer.text(&desc.manufacturer, 256);
                writer.text(&desc.hardware, 256);
                writer.text(&desc.software, 256);
                writer.text(&desc.serial, 32);
                writer.text(&desc.datapath, 256);
            }),
            Reply::Flow(flows) => parts.items(flows, FlowStats::write),
            Reply::Aggregate(aggregate) => parts.item(|writer| {
                aggregate.counted.write(writer);
                writer.u32(aggregate.flows);
                writer.pad(4);
            }),
            Reply::Table(tables) => parts.items(tables, TableStats::write),
            Reply::PortStats(ports) => parts.items(ports, PortStats::write),
            Reply::Queue(queues) => parts.items(queues, QueueStats::write),
            Reply::Group(groups) => parts.items(groups, GroupStats::write),
            Reply::GroupDesc(groups) => parts.items(groups, GroupDesc::write),
            Reply::GroupFeatures(features) => parts.item(|writer| features.write(writer)),
            Reply::Meter(meters) => parts.items(meters, MeterStats::write),
            Reply::MeterConfig(meters) => parts.items(meters, MeterConfig::write),
            Reply::MeterFeatures(features) => parts.item(|writer| features.write(writer)),
            Reply::TableFeatures(tables) => parts.items(tables, TableFeatures::write),
            Reply::PortDesc(ports) => parts.items(ports, Port::write),
            Reply::Experimenter(experimenter, kind, data) => {
                parts.item(|writer| experimenters(writer, *experimenter, *kind, data));
            }
        }
        parts.end()
    }
}

/// A body that grows by whole items, and is cut into messages between them.
struct Parts {
    kind: u16,
    full: Vec<Part>,
    body: Writer,
}

impl Parts {
    fn new(kind: u16) -> Parts {
        Parts { kind, full: Vec::new(), body: Writer::default() }
    }

    fn item(&mut self, write: impl FnOnce(&mut Writer)) {
        let before = self.body.here();
        write(&mut self.body);
        if self.body.here() > MAX_BODY && before > 0 {
            let next = Writer(self.body.0.split_off(before));
            let body = std::mem::replace(&mut self.body, next).0;
            self.full.push(Part { kind: self.kind, more: true, body });
        }
    }

    fn items<T>(&mut self, items: &[T], write: impl Fn(&T, &mut Writer)) {
        for item in items {
            self.item(|writer| write(item, writer));
        }
    }

    fn end(mut self) -> Vec<Part> {
        self.full.push(Part { kind: self.kind, more: false, body: self.body.0 });
        self.full
    }
}
