//! What controllers drive: connections, roles, and who is told what. OpenFlow 1.3.5 sections 6.1 to 6.3.
//!
//! The agent owns the switch. It has no sockets and no clock: whoever has them hands in bytes and the time, and takes
//! bytes out ([`Agent::receive`], [`Agent::output`], [`Agent::sent`]), and calls [`Agent::tick`] when [`Agent::next_tick`]
//! says so. Memory is bounded: a connection that does not read its replies is not read from either, packets for it are
//! dropped and counted, and one that lets news pile up is closed.

use std::collections::BTreeMap;

use weir_openflow::error::{BadRequest, HelloFailed, QueueOpFailed, RoleRequestFailed};
use weir_openflow::flow::{FlowRemoved, NO_BUFFER, PacketIn, PacketInReason};
use weir_openflow::message::{MAX_MESSAGE, Role, RoleMessage, VERSION};
use weir_openflow::port::{Port, PortStatus, number};
use weir_openflow::{Body, Error, Message, Request};

use crate::packet::Packet;
use crate::pipeline::{ForController, Outcome, Why};
use crate::switch::Switch;

mod connection;
mod requests;

use connection::Connection;
pub use connection::{ClosedBecause, Statistics};

/// What becomes of packets while no controller is connected (section 6.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// The tables go on; what should go to controllers is dropped.
    #[default]
    Secure,
    /// Packets are switched as by a bridge.
    Standalone,
}

/// How an agent behaves.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What becomes of packets without controllers.
    pub fail_mode: FailMode,
    /// How many connections there may be.
    pub max_connections: usize,
    /// After how many nanoseconds of silence a controller is asked whether it is there; after as many more it is given up.
    pub probe: u64,
    /// How many bytes wait for a connection before no more is read from it, nor packets sent to it.
    pub high_water: usize,
    /// How many bytes wait for a connection before it is closed.
    pub most_output: usize,
    /// How many bytes of unfinished requests are kept for a connection.
    pub most_parts: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            fail_mode: FailMode::Secure,
            max_connections: 16,
            probe: 5_000_000_000,
            high_water: 256 << 10,
            most_output: 64 << 20,
            most_parts: 1 << 20,
        }
    }
}

/// How many packets of controllers wait to be taken before no more are read.
const MAX_OUTCOMES: usize = 4_096;

/// What became of a packet from a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// What is left to do on the data path.
    pub outcomes: Vec<Outcome>,
    /// What became of it beside that.
    pub beside: Beside,
}

/// What became of a packet beside what the data path does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Nothing, for this reason.
    Nothing(Why),
    /// A controller is told of it.
    Told,
    /// No controller is connected that wants to be told of it.
    NotWanted,
    /// More waits for the controllers that want to be told of it than they have taken.
    NoRoom,
}

impl Beside {
    /// What became of a packet that became this and then that.
    pub fn and(self, other: Beside) -> Beside {
        match (self, other) {
            (Beside::Told, _) | (_, Beside::Told) => Beside::Told,
            (Beside::NoRoom, _) | (_, Beside::NoRoom) => Beside::NoRoom,
            (Beside::NotWanted, _) | (_, Beside::NotWanted) => Beside::NotWanted,
            _ => other,
        }
    }
}

/// A connection's number; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A switch with its controllers.
#[derive(Debug)]
pub struct Agent {
    /// The switch.
    pub switch: Switch,
    options: Options,
    connections: BTreeMap<ConnectionId, Connection>,
    connected: u64,
    /// The newest claim to be master or slave (section 6.3.6).
    generation: Option<u64>,
    /// What packets of controllers became; taken by [`Agent::outcomes`].
    outcomes: Vec<Outcome>,
}

impl Agent {
    /// An agent without controllers.
    pub fn new(switch: Switch, options: Options) -> Agent {
        Agent { switch, options, connections: BTreeMap::new(), connected: 0, generation: None, outcomes: Vec::new() }
    }

    /// A controller is connected. Nothing if there are too many.
    pub fn connect(&mut self, now: u64) -> Option<ConnectionId> {
        if self.connections.len() >= self.options.max_connections {
            return None;
        }
        self.connected += 1;
        let id = ConnectionId(self.connected);
        self.connections.insert(id, Connection::new(self.options.most_parts, now));
        Some(id)
    }

    /// A connection serves whoever looks after the switch, and drives it no more than others that are there: as far as the fail mode is concerned,
    /// it is none (section 6.3.2).
    pub fn set_aside(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.is_aside = true;
        }
    }

    /// A connection is gone.
    pub fn disconnect(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
    }

    /// Whether a controller is there: it was greeted, and answers. Connections that were [set aside](Agent::set_aside) do not count.
    pub fn has_controller(&self) -> bool {
        self.connections.values().any(|connection| connection.is_ready() && !connection.is_aside)
    }

    /// Whether packets are switched as by a bridge, for want of a controller.
    pub fn is_standalone(&self) -> bool {
        self.options.fail_mode == FailMode::Standalone && !self.has_controller()
    }

    /// Takes bytes from a controller; how many of them were taken. It is fewer than all while replies wait to be sent: the
    /// rest is to be handed in again, and no more to be read from the connection, until bytes were [`Agent::sent`] and
    /// [`Agent::outcomes`] taken.
    pub fn receive(&mut self, id: ConnectionId, bytes: &[u8], now: u64) -> usize {
        let mut rest = bytes;
        loop {
            let high_water = self.options.high_water;
            let Some(connection) = self.connections.get_mut(&id) else { break };
            connection.heard(now);
            if connection.is_closing() {
                return bytes.len();
            }
            if !connection.may_read(high_water) || self.outcomes.len() >= MAX_OUTCOMES {
                break;
            }
            match connection.framing.next(&mut rest) {
                Ok(Some(message)) => self.message(id, &message, now),
                Ok(None) => break,
                Err(error) => {
                    self.refuse(id, 0, error, &[]);
                    self.close(id, ClosedBecause::BadFrame);
                }
            }
        }
        bytes.len() - rest.len()
    }

    /// The bytes that wait to be sent on a connection.
    pub fn output(&self, id: ConnectionId) -> &[u8] {
        self.connections.get(&id).map_or(&[], Connection::output)
    }

    /// The first `count` of the bytes that waited were sent. More may come, of a long reply.
    pub fn sent(&mut self, id: ConnectionId, count: usize, now: u64) {
        let high_water = self.options.high_water;
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.sent(count);
            connection.go_on(&self.switch, high_water, now);
        }
    }

    /// Why a connection is to be closed, once its output was sent; nothing if it is not.
    pub fn closing(&self, id: ConnectionId) -> Option<ClosedBecause> {
        match self.connections.get(&id) {
            Some(connection) => connection.closing(),
            None => Some(ClosedBecause::Gone),
        }
    }

    /// What a connection was told, and what it was not.
    pub fn statistics(&self, id: ConnectionId) -> Option<Statistics> {
        self.connections.get(&id).map(Connection::statistics)
    }

    /// All connections there are.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        self.connections.keys().copied()
    }

    /// Sets what becomes of packets while no controller is connected.
    pub fn set_fail_mode(&mut self, mode: FailMode) {
        self.options.fail_mode = mode;
    }

    /// Whether a connection's other end has said hello, and is there.
    pub fn is_ready(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(Connection::is_ready)
    }

    /// A controller's role.
    pub fn role(&self, id: ConnectionId) -> Option<Role> {
        self.connections.get(&id).map(|connection| connection.role)
    }

    /// Lets time pass: flows end, silent controllers are asked, and given up.
    pub fn tick(&mut self, now: u64) {
        // A bounded share: a million flows may end at the same time.
        let ended = self.switch.tables.expire(now, 1_000);
        self.tell_flows(ended);
        let probe = self.options.probe;
        for connection in self.connections.values_mut() {
            connection.probe(probe, now);
        }
    }

    /// When [`Agent::tick`] has something to do next.
    pub fn next_tick(&self) -> Option<u64> {
        let probes = self.connections.values().filter_map(|connection| connection.next_probe(self.options.probe));
        probes.chain(self.switch.tables.next_end()).min()
    }

    /// Takes a packet from a port; what becomes of it. Controllers get theirs by their connections.
    pub fn packet(&mut self, packet: Packet, now: u64) -> Taken {
        if self.is_standalone() {
            return match self.switch.take(&packet) {
                Some(why) => Taken { outcomes: Vec::new(), beside: Beside::Nothing(why) },
                None => Taken { outcomes: vec![Outcome::Normal(packet)], beside: Beside::Nothing(Why::NoAction) },
            };
        }
        let verdict = self.switch.judge(packet, now);
        let (outcomes, beside) = self.tell_packets(verdict.outcomes);
        Taken { outcomes, beside: beside.unwrap_or(Beside::Nothing(verdict.why)) }
    }

    /// What packets of controllers became since this was last asked.
    pub fn outcomes(&mut self) -> Vec<Outcome> {
        std::mem::take(&mut self.outcomes)
    }

    /// Adds a port, or tells what is new about it, and tells controllers.
    pub fn set_port(&mut self, port: Port, now: u64) {
        let status = self.switch.set_port(port, now);
        self.tell_port(status);
    }

    /// Removes a port, and tells controllers.
    pub fn remove_port(&mut self, port: u32) {
        let status = self.switch.ports.remove(port);
        self.tell_port(status);
    }

    fn close(&mut self, id: ConnectionId, reason: ClosedBecause) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.close(reason);
        }
    }

    fn tell_port(&mut self, status: Option<PortStatus>) {
        let Some(status) = status else { return };
        let most = self.options.most_output;
        for connection in self.connections.values_mut() {
            if connection.wants(|config| config.port_status, status.reason as u32) {
                connection.news(Body::PortStatus(status.clone()), most);
            }
        }
    }

    fn tell_flows(&mut self, ended: Vec<FlowRemoved>) {
        let most = self.options.most_output;
        for flow in ended {
            for connection in self.connections.values_mut() {
                if connection.wants(|config| config.flow_removed, flow.reason as u32) {
                    connection.news(Body::FlowRemoved(flow.clone()), most);
                }
            }
        }
    }

    /// Hands packets to the controllers that want them. Gives back what is left for ports, and what became of the others.
    fn tell_packets(&mut self, outcomes: Vec<Outcome>) -> (Vec<Outcome>, Option<Beside>) {
        let (mut left, mut beside) = (Vec::new(), None);
        for outcome in outcomes {
            let Outcome::Controller(packet) = outcome else {
                left.push(outcome);
                continue;
            };
            let told = self.tell(&packet);
            beside = Some(beside.map_or(told, |before: Beside| before.and(told)));
        }
        (left, beside)
    }

    /// Tells the controllers that want it of a packet.
    pub fn tell(&mut self, packet: &ForController) -> Beside {
        let high_water = self.options.high_water;
        let (mut message, mut beside) = (None, Beside::NotWanted);
        for connection in self.connections.values_mut().filter(|connection| connection.wants_packet(packet.reason)) {
            let body = message.get_or_insert_with(|| packet_in(packet));
            let told = connection.packet(Body::PacketIn(body.clone()), high_water);
            beside = beside.and(if told { Beside::Told } else { Beside::NoRoom });
        }
        beside
    }

    /// What becomes of a packet that controllers are to be told of for this reason, if it is not worth while to [tell](Agent::tell) them: nobody wants it, or nobody
    /// has room for it, which is counted then. [`Beside::Told`] if they are to be told.
    pub fn expects(&self, reason: PacketInReason) -> Beside {
        let mut wanting = self.connections.values().filter(|connection| connection.wants_packet(reason)).peekable();
        if wanting.peek().is_none() {
            return Beside::NotWanted;
        }
        let high_water = self.options.high_water;
        if wanting.clone().any(|connection| connection.has_room(high_water)) {
            return Beside::Told;
        }
        wanting.for_each(Connection::count_dropped);
        Beside::NoRoom
    }

    /// Answers with an error, and as much of the request as the specification asks for (section 7.4.4).
    fn refuse(&mut self, id: ConnectionId, xid: u32, error: Error, request: &[u8]) {
        let data = request.get(..64).unwrap_or(request).to_vec();
        self.answer(id, xid, Body::Error { error, data });
    }

    fn answer(&mut self, id: ConnectionId, xid: u32, body: Body) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.send(&Message::new(xid, body));
        }
    }

    /// A claim to a role (section 6.3.6).
    fn claim(&mut self, id: ConnectionId, claim: RoleMessage) -> Result<RoleMessage, Error> {
        if matches!(claim.role, Role::Master | Role::Slave) {
            // Numbers go round: the distance says which is newer.
            if self.generation.is_some_and(|newest| (claim.generation.wrapping_sub(newest) as i64) < 0) {
                return Err(RoleRequestFailed::Stale.into());
            }
            self.generation = Some(claim.generation);
        }
        if claim.role == Role::Master {
            for connection in self.connections.values_mut().filter(|connection| connection.role == Role::Master) {
                connection.role = Role::Slave;
            }
        }
        let connection = self.connections.get_mut(&id).ok_or(BadRequest::Eperm)?;
        if claim.role != Role::NoChange {
            connection.role = claim.role;
        }
        Ok(RoleMessage { role: connection.role, generation: self.generation.unwrap_or(u64::MAX) })
    }
}

/// The message that brings a packet. Nothing is kept in buffers, so it brings all of it (section 7.4.1).
fn packet_in(packet: &ForController) -> PacketIn {
    let matches = packet.matches();
    let bytes = &packet.packet.bytes;
    // What stands around the packet: header, numbers, and a match of up to four fields.
    let most = MAX_MESSAGE - 128;
    PacketIn {
        buffer: NO_BUFFER,
        total_len: u16::try_from(bytes.len()).unwrap_or(u16::MAX),
        reason: packet.reason,
        table: packet.table,
        cookie: packet.cookie,
        matches,
        data: bytes.get(..most).unwrap_or(bytes).to_vec(),
    }
}
