//! What controllers ask, and how it is answered.

use weir_openflow::flow::{FlowMod, PacketOut};

use super::*;

impl Agent {
    /// One whole message.
    pub(super) fn message(&mut self, id: ConnectionId, bytes: &[u8], now: u64) {
        let xid = weir_openflow::message::Header::of(bytes).map_or(0, |header| header.xid);
        let greeted = self.connections.get(&id).is_some_and(Connection::is_greeted);
        let read = Message::read(bytes);
        if !greeted {
            self.greeting(id, xid, read);
            return;
        }
        let done = read.and_then(|message| self.request(id, message, now));
        if let Err(error) = done {
            self.refuse(id, xid, error, bytes);
        }
    }

    /// The first message must be a hello with a version in common (section 6.3.1).
    fn greeting(&mut self, id: ConnectionId, xid: u32, read: Result<Message, Error>) {
        let agreed = match read {
            Ok(Message { body: Body::Hello(hello), .. }) => hello.agree(VERSION),
            _ => None,
        };
        if agreed.is_some() {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.greet();
            }
            return;
        }
        let data = b"this switch speaks OpenFlow 1.3 (version 0x04) only".to_vec();
        self.answer(id, xid, Body::Error { error: HelloFailed::Incompatible.into(), data });
        self.close(id, ClosedBecause::Incompatible);
    }

    fn is_slave(&self, id: ConnectionId) -> bool {
        self.role(id) == Some(Role::Slave)
    }

    fn request(&mut self, id: ConnectionId, message: Message, now: u64) -> Result<(), Error> {
        let Message { xid, body } = message;
        if changes(&body) && self.is_slave(id) {
            return Err(BadRequest::IsSlave.into());
        }
        match body {
            // A second hello changes nothing; errors and answers ask for nothing.
            Body::Hello(_) | Body::Error { .. } | Body::EchoReply(_) => {}
            Body::EchoRequest(data) => self.answer(id, xid, Body::EchoReply(data)),
            Body::Experimenter { .. } => return Err(BadRequest::BadExperimenter.into()),
            Body::FeaturesRequest => self.answer(id, xid, Body::FeaturesReply(self.switch.features())),
            Body::GetConfigRequest => self.answer(id, xid, Body::GetConfigReply(self.switch.config())),
            Body::SetConfig(config) => self.switch.set_config(config)?,
            Body::PacketOut(packet) => self.packet_out(packet, now)?,
            Body::FlowMod(change) => self.flow_mod(&change, now)?,
            Body::GroupMod(change) => {
                let ended = self.switch.group_mod(&change, now)?;
                self.tell_flows(ended);
            }
            Body::MeterMod(change) => {
                let ended = self.switch.meter_mod(&change, now)?;
                self.tell_flows(ended);
            }
            Body::PortMod(change) => {
                let status = self.switch.port_mod(&change)?;
                self.tell_port(status);
            }
            Body::TableMod(change) => self.switch.table_mod(change)?,
            Body::MultipartRequest(part) => self.part(id, xid, part, now)?,
            // Requests are carried out one after the other: what came before is done.
            Body::BarrierRequest => self.answer(id, xid, Body::BarrierReply),
            Body::QueueGetConfigRequest(port) => {
                if port != number::ANY && self.switch.ports.get(port).is_none() {
                    return Err(QueueOpFailed::BadPort.into());
                }
                self.answer(id, xid, Body::QueueGetConfigReply { port, queues: Vec::new() });
            }
            Body::RoleRequest(claim) => {
                let role = self.claim(id, claim)?;
                self.answer(id, xid, Body::RoleReply(role));
            }
            Body::GetAsyncRequest => {
                if let Some(config) = self.connections.get(&id).map(|connection| connection.config) {
                    self.answer(id, xid, Body::GetAsyncReply(config));
                }
            }
            Body::SetAsync(config) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.config = config;
                }
            }
            Body::FeaturesReply(_)
            | Body::GetConfigReply(_)
            | Body::PacketIn(_)
            | Body::FlowRemoved(_)
            | Body::PortStatus(_)
            | Body::MultipartReply(_)
            | Body::BarrierReply
            | Body::QueueGetConfigReply { .. }
            | Body::RoleReply(_)
            | Body::GetAsyncReply(_) => return Err(BadRequest::BadType.into()),
        }
        Ok(())
    }

    fn flow_mod(&mut self, change: &FlowMod, now: u64) -> Result<(), Error> {
        let deletes = matches!(
            change.command,
            weir_openflow::flow::FlowCommand::Delete | weir_openflow::flow::FlowCommand::DeleteStrict
        );
        // Nothing is kept in buffers, so there is none that could be meant.
        if !deletes && change.buffer != NO_BUFFER {
            return Err(BadRequest::BufferUnknown.into());
        }
        let ended = self.switch.flow_mod(change, now)?;
        self.tell_flows(ended);
        Ok(())
    }

    fn packet_out(&mut self, out: PacketOut, now: u64) -> Result<(), Error> {
        if out.buffer != NO_BUFFER {
            return Err(BadRequest::BufferUnknown.into());
        }
        let packet = Packet::new(out.in_port, out.data);
        let outcomes = self.switch.packet_out(packet, &out.actions, now)?;
        let (left, _) = self.tell_packets(outcomes);
        self.outcomes.extend(left);
        Ok(())
    }

    fn part(
        &mut self,
        id: ConnectionId,
        xid: u32,
        part: weir_openflow::multipart::Part,
        now: u64,
    ) -> Result<(), Error> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let Some(whole) = connection.reassembly.add(xid, part)? else { return Ok(()) };
        let request = Request::read(whole.kind, &whole.body)?;
        if matches!(&request, Request::TableFeatures(wanted) if !wanted.is_empty()) && self.is_slave(id) {
            return Err(BadRequest::IsSlave.into());
        }
        if let Request::Flow(query) = &request {
            if !self.switch.tables.has(query.table, true) {
                return Err(BadRequest::BadTableId.into());
            }
            let flows = self.switch.tables.find(query);
            let high_water = self.options.high_water;
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.tell(xid, flows);
                connection.go_on(&self.switch, high_water, now);
            }
            return Ok(());
        }
        for part in self.switch.reply(&request, now)?.parts() {
            self.answer(id, xid, Body::MultipartReply(part));
        }
        Ok(())
    }
}

/// What slaves may not ask for (section 6.3.6).
fn changes(body: &Body) -> bool {
    matches!(
        body,
        Body::SetConfig(_)
            | Body::PacketOut(_)
            | Body::FlowMod(_)
            | Body::GroupMod(_)
            | Body::MeterMod(_)
            | Body::PortMod(_)
            | Body::TableMod(_)
    )
}
