//! The pipeline, one packet at a time: OpenFlow 1.3.5 chapter 5. This is the definition that compiled pipelines are held
//! against: it does what the specification says, in its words and order, and is not fast.

use weir_openflow::error::BadRequest;
use weir_openflow::flow::{ALL_TABLES, PacketInReason};
use weir_openflow::group::Counted;
use weir_openflow::port::{Port, number, state};
use weir_openflow::{Action, Error, Field, Instruction, Match, Oxm};

use crate::action_set::ActionSet;
use crate::counts::Worker;
use crate::fields::{exact, select_hash};
use crate::meters::{Metered, remark};
use crate::packet::Packet;
use crate::rewrite::set_field;
use crate::switch::Switch;
use crate::{tags, ttl};

/// How many packets may become of one: groups may lead to groups, and lists name many ports.
pub const MAX_COPIES: usize = 4_096;

/// Something that becomes of a packet. If nothing does, it was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is sent by a port, which exists and is up.
    Sent {
        /// The port.
        port: u32,
        /// The port's queue; 0 unless an action said otherwise.
        queue: u32,
        /// What the tunnel is to say, if the port is one.
        tunnel: u64,
        /// The frame.
        bytes: Vec<u8>,
    },
    /// It goes to the controllers that want it.
    Controller(ForController),
    /// It is switched as by a bridge.
    Normal(Packet),
}

/// Why nothing became of a packet: what ended it last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Why {
    /// The flows that it met send it nowhere.
    #[default]
    NoAction,
    /// The port that it came in by takes nothing in, because a controller said so.
    PortTakesNothing,
    /// It is a fragment, and a controller wants those dropped.
    Fragment,
    /// No flow of a table matched it, and the table has none for misses.
    Miss,
    /// It came faster than a meter lets through.
    Metered,
    /// It may go no further: its TTL or hop limit is used up.
    TtlEnded,
    /// No bucket of a group may be used now.
    NoBucket,
    /// The port that it was to leave by does not exist.
    NoPort,
    /// The port that it was to leave by is switched off, or has no link.
    PortDown,
    /// It was to leave by the port that it came in by, which only `IN_PORT` may say.
    SamePort,
    /// The port that it came in by brings nothing to controllers, because one said so.
    NotTold,
    /// More than [`MAX_COPIES`] had become of it.
    TooManyCopies,
}

/// What became of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Everything that did.
    pub outcomes: Vec<Outcome>,
    /// Why nothing did, if there is nothing.
    pub why: Why,
}

/// A packet for controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForController {
    /// Why.
    pub reason: PacketInReason,
    /// The table whose flow sent it.
    pub table: u8,
    /// That flow's cookie; all ones without a flow.
    pub cookie: u64,
    /// How many bytes of it are wanted.
    pub max_len: u16,
    /// The packet.
    pub packet: Packet,
}

impl ForController {
    /// What is told beside the bytes (section 7.4.1): the port, and metadata and tunnel if there are any.
    pub fn matches(&self) -> Match {
        let packet = &self.packet;
        let mut fields = vec![exact(Field::InPort, packet.in_port.into())];
        if packet.in_phy_port != packet.in_port {
            fields.push(exact(Field::InPhyPort, packet.in_phy_port.into()));
        }
        if packet.metadata != 0 {
            fields.push(exact(Field::Metadata, packet.metadata.into()));
        }
        if packet.tunnel != 0 {
            fields.push(exact(Field::TunnelId, packet.tunnel.into()));
        }
        Match::new(fields).unwrap_or_default()
    }
}

/// What controllers are told of a packet beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Why.
    pub reason: PacketInReason,
    /// The table whose flow sent it.
    pub table: u8,
    /// That flow's cookie.
    pub cookie: u64,
    /// How many bytes of it are wanted.
    pub max_len: u16,
    /// The port that it came in by.
    pub in_port: u32,
    /// What tables have handed on.
    pub metadata: u64,
}

impl Report {
    /// The same with the packet's bytes.
    pub fn with(self, bytes: &[u8]) -> ForController {
        let Report { reason, table, cookie, max_len, in_port, metadata } = self;
        let packet = Packet { metadata, ..Packet::new(in_port, bytes.to_vec()) };
        ForController { reason, table, cookie, max_len, packet }
    }
}

/// Where in the pipeline a packet is, as controllers are told.
#[derive(Clone, Copy)]
struct At {
    table: u8,
    cookie: u64,
    reason: PacketInReason,
}

impl At {
    /// What is no flow's doing.
    const PACKET_OUT: At = At { table: ALL_TABLES, cookie: u64::MAX, reason: PacketInReason::Action };
}

/// The packet goes no further.
struct Ended;

struct Run<'a> {
    switch: &'a mut Switch,
    now: u64,
    outcomes: Vec<Outcome>,
    why: Why,
    /// How many groups and ports were reached.
    copies: usize,
}

impl Switch {
    /// Takes a packet that came in by a port, and says what becomes of it.
    pub fn process(&mut self, packet: Packet, now: u64) -> Vec<Outcome> {
        self.judge(packet, now).outcomes
    }

    /// The same, with the reason why nothing does.
    pub fn judge(&mut self, packet: Packet, now: u64) -> Verdict {
        if let Some(why) = self.take(&packet) {
            return Verdict { why, ..Verdict::default() };
        }
        let mut run = Run::new(self, now);
        let _ = run.tables(packet);
        run.verdict()
    }

    /// Counts a packet that came in by a port; why it is not taken, if it is not.
    pub(crate) fn take(&mut self, packet: &Packet) -> Option<Why> {
        let why = match self.ports.receives(packet.in_port) {
            false => Some(Why::PortTakesNothing),
            true => self.is_unwanted_fragment(packet).then_some(Why::Fragment),
        };
        self.ports.received(WORKER, packet.in_port, packet.bytes.len(), why.is_none());
        why
    }

    /// Switches a packet as a bridge does: by the port that its destination is behind, by all others where that is not known.
    pub fn bridge(&mut self, packet: &Packet, to: Option<u32>, now: u64) -> Verdict {
        let mut run = Run::new(self, now);
        run.output(to.unwrap_or(number::FLOOD), 0, packet, At::PACKET_OUT);
        run.verdict()
    }

    /// Carries out the actions of a packet that a controller sends.
    ///
    /// # Errors
    ///
    /// [`BadRequest::BadPort`] for a port that it cannot come in by, [`BadRequest::BadPacket`] for one that is no frame, and
    /// what is wrong with the actions; nothing was sent then.
    pub fn packet_out(&mut self, packet: Packet, actions: &[Action], now: u64) -> Result<Vec<Outcome>, Error> {
        if packet.in_port != number::CONTROLLER && self.ports.get(packet.in_port).is_none() {
            return Err(BadRequest::BadPort.into());
        }
        if packet.bytes.len() < 14 {
            return Err(BadRequest::BadPacket.into());
        }
        self.checker().actions(actions, true)?;
        let mut run = Run::new(self, now);
        let mut packet = packet;
        let _ = run.actions(actions, &mut packet, At::PACKET_OUT);
        Ok(run.outcomes)
    }

    fn is_unwanted_fragment(&self, packet: &Packet) -> bool {
        self.drops_fragments() && packet.parse().1.ip.is_some_and(|ip| ip.fragment)
    }
}

/// As whom packets are counted here: the switch is taken for each alone.
const WORKER: Worker = Worker(0);

impl<'a> Run<'a> {
    fn new(switch: &'a mut Switch, now: u64) -> Run<'a> {
        Run { switch, now, outcomes: Vec::new(), why: Why::default(), copies: 0 }
    }

    fn verdict(self) -> Verdict {
        Verdict { outcomes: self.outcomes, why: self.why }
    }

    /// It goes no further.
    fn ended(&mut self, why: Why) -> Ended {
        self.why = why;
        Ended
    }

    /// From the first table on (section 5.1).
    fn tables(&mut self, mut packet: Packet) -> Result<(), Ended> {
        let mut set = ActionSet::default();
        let mut next = Some(0);
        let mut at = At::PACKET_OUT;
        while let Some(number) = next.take() {
            let fields = packet.fields();
            let Some(table) = self.switch.tables.get(number) else { break };
            // Without a table-miss flow, what no flow matches is dropped (section 5.4).
            let Some((slot, flow)) = table.find(&fields, None) else {
                table.miss(WORKER);
                return Err(self.ended(Why::Miss));
            };
            table.meet(WORKER, slot, Counted::one(packet.bytes.len()), self.now);
            let reason = if flow.is_miss() { PacketInReason::NoMatch } else { PacketInReason::Action };
            at = At { table: number, cookie: flow.cookie, reason };
            let instructions = flow.instructions.clone();
            next = self.instructions(&instructions, &mut packet, &mut set, at)?;
        }
        self.actions(&set.in_order(), &mut packet, At { reason: PacketInReason::Action, ..at })
    }

    /// The instructions of a flow, in the order of section 5.9; the table to go on in.
    fn instructions(
        &mut self,
        instructions: &[Instruction],
        packet: &mut Packet,
        set: &mut ActionSet,
        at: At,
    ) -> Result<Option<u8>, Ended> {
        const ORDER: fn(&Instruction) -> u8 = |instruction| match instruction {
            Instruction::Meter(_) => 0,
            Instruction::ApplyActions(_) => 1,
            Instruction::ClearActions => 2,
            Instruction::WriteActions(_) => 3,
            Instruction::WriteMetadata { .. } => 4,
            Instruction::GotoTable(_) => 5,
            Instruction::Experimenter { .. } => 6,
        };
        let mut ordered: Vec<&Instruction> = instructions.iter().collect();
        ordered.sort_by_key(|instruction| ORDER(instruction));
        let mut next = None;
        for instruction in ordered {
            match instruction {
                Instruction::Meter(meter) => self.meter(*meter, packet)?,
                Instruction::ApplyActions(actions) => self.actions(actions, packet, at)?,
                Instruction::ClearActions => set.clear(),
                Instruction::WriteActions(actions) => set.write(actions),
                Instruction::WriteMetadata { metadata, mask } => {
                    packet.metadata = packet.metadata & !mask | metadata & mask;
                }
                Instruction::GotoTable(table) => next = Some(*table),
                Instruction::Experimenter { .. } => {}
            }
        }
        Ok(next)
    }

    fn meter(&mut self, meter: u32, packet: &mut Packet) -> Result<(), Ended> {
        match self.switch.meters.take(meter, packet.bytes.len(), self.now) {
            Metered::Pass => Ok(()),
            Metered::Drop => Err(self.ended(Why::Metered)),
            Metered::Remark(level) => {
                if let Some(dscp) = packet.fields().get(Field::IpDscp) {
                    set_field(packet, Field::IpDscp, remark(dscp as u8, level).into());
                }
                Ok(())
            }
        }
    }

    /// Actions, one after the other. What is sent is a copy: later actions change it no more.
    fn actions(&mut self, actions: &[Action], packet: &mut Packet, at: At) -> Result<(), Ended> {
        for action in actions {
            match action {
                Action::Output { port, max_len } => self.output(*port, *max_len, packet, at),
                Action::Group(group) => self.group(*group, packet, at),
                Action::CopyTtlOut => ttl::copy_out(&mut packet.bytes),
                Action::CopyTtlIn => ttl::copy_in(&mut packet.bytes),
                Action::SetMplsTtl(value) => ttl::set_mpls(&mut packet.bytes, *value),
                Action::SetNwTtl(value) => ttl::set_ip(&mut packet.bytes, *value),
                Action::DecMplsTtl => ttl::decrement_mpls(&mut packet.bytes).map_err(|_| self.ttl_ended(packet, at))?,
                Action::DecNwTtl => ttl::decrement_ip(&mut packet.bytes).map_err(|_| self.ttl_ended(packet, at))?,
                Action::PushVlan(kind) => tags::push_vlan(packet, *kind),
                Action::PopVlan => tags::pop_vlan(packet),
                Action::PushMpls(kind) => tags::push_mpls(packet, *kind),
                Action::PopMpls(kind) => tags::pop_mpls(packet, *kind),
                Action::SetQueue(queue) => packet.queue = *queue,
                Action::SetField(Oxm { field, value, .. }) => set_field(packet, *field, *value),
                // They are refused before they get here.
                Action::PushPbb(_) | Action::PopPbb | Action::Experimenter { .. } => {}
            }
        }
        Ok(())
    }

    fn ttl_ended(&mut self, packet: &Packet, at: At) -> Ended {
        let max_len = self.switch.config().miss_send_len;
        self.controller(packet, max_len, At { reason: PacketInReason::InvalidTtl, ..at });
        self.ended(Why::TtlEnded)
    }

    /// Whether one packet more may become of this one.
    fn may_copy(&mut self) -> bool {
        self.copies += 1;
        let may = self.copies <= MAX_COPIES;
        if !may {
            self.why = Why::TooManyCopies;
        }
        may
    }

    fn group(&mut self, number: u32, packet: &Packet, at: At) {
        let Some(group) = self.switch.groups.get(number).cloned() else { return };
        if !self.may_copy() {
            return;
        }
        let bytes = packet.bytes.len();
        self.switch.groups.count_group(WORKER, number, bytes);
        let hash = select_hash(&packet.fields());
        let buckets = self.switch.groups.choose(&group, hash, &self.switch.ports);
        if buckets.is_empty() {
            self.why = Why::NoBucket;
        }
        for chosen in buckets {
            let Some(bucket) = group.buckets.get(chosen) else { continue };
            if !self.may_copy() {
                return;
            }
            self.switch.groups.count_packet(WORKER, number, chosen, bytes);
            // Each bucket has a packet of its own (section 5.6.1), and ends with it alone.
            let mut copy = packet.clone();
            let at = At { reason: PacketInReason::Action, ..at };
            let _ = self.actions(&ActionSet::of(&bucket.actions).in_order(), &mut copy, at);
        }
    }

    /// To a port that exists, or to one with a meaning of its own (section 4.5).
    fn output(&mut self, port: u32, max_len: u16, packet: &Packet, at: At) {
        match port {
            number::CONTROLLER => self.controller(packet, max_len, at),
            number::TABLE => {
                let _ = self.tables(packet.clone());
            }
            number::NORMAL => self.outcomes.push(Outcome::Normal(packet.clone())),
            number::IN_PORT => self.send(packet.in_port, packet),
            number::ALL | number::FLOOD => {
                // Flooding leaves out ports that are blocked (section 4.5); sending by all does not.
                let floods = |bits: u32| port == number::ALL || bits & state::BLOCKED == 0;
                let others =
                    |port: &&Port| port.number <= number::MAX && port.number != packet.in_port && floods(port.state);
                let ports: Vec<u32> = self.switch.ports.iter().filter(others).map(|port| port.number).collect();
                for port in ports {
                    self.send(port, packet);
                }
            }
            // Back to where it came from goes only what is told so by the name (section 7.2.5).
            other if other == packet.in_port => self.why = Why::SamePort,
            other => self.send(other, packet),
        }
    }

    fn send(&mut self, port: u32, packet: &Packet) {
        if !self.may_copy() {
            return;
        }
        if !self.switch.ports.sends(port) {
            self.why = if self.switch.ports.get(port).is_some() { Why::PortDown } else { Why::NoPort };
            self.switch.ports.not_sent(WORKER, port);
            return;
        }
        self.switch.ports.sent(WORKER, port, packet.bytes.len());
        let Packet { queue, tunnel, bytes, .. } = packet.clone();
        self.outcomes.push(Outcome::Sent { port, queue, tunnel, bytes });
    }

    fn controller(&mut self, packet: &Packet, max_len: u16, at: At) {
        if !self.switch.ports.tells(packet.in_port) {
            self.why = Why::NotTold;
        } else if self.may_copy() {
            let At { table, cookie, reason } = at;
            let packet = packet.clone();
            self.outcomes.push(Outcome::Controller(ForController { reason, table, cookie, max_len, packet }));
        }
    }
}
