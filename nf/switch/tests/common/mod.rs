//! A switch among ports in memory, under the virtual clock.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared by tests, each of which uses a part of it; a failed unwrap fails the test"
)]

use std::sync::Arc;

use serde_json::Value;
use weir_openflow::flow::FlowMod;
use weir_openflow::message::Hello;
use weir_openflow::{Action, Body, Framing, Instruction, Match, Message, Oxm};
use weir_stage::{Channel, ChannelSide, Endpoint, Instance};
use weir_switch::Switch;

pub use weir_rig::{MS, Rig, SECOND, all_rows};

/// A switch with these keys.
pub fn switch(keys: Value) -> Rig {
    Rig::new(&Switch, keys)
}

/// What is said of a configuration.
pub fn messages(config: &Value) -> Vec<String> {
    weir_rig::messages(&Switch, config)
}

/// A channel to a controller.
pub fn connecting() -> Channel {
    Channel::Connect(Endpoint::Tcp(([192, 0, 2, 9], 6653).into()))
}

/// A channel that controllers come by.
pub fn listening() -> Channel {
    Channel::Listen(Endpoint::Tcp(([127, 0, 0, 1], 6654).into()))
}

/// A controller, without a connection that could fail.
pub struct Controller {
    side: Arc<dyn ChannelSide>,
    pub number: u64,
    framing: Framing,
}

impl Controller {
    /// One that has said hello.
    pub fn new(instance: &dyn Instance) -> Controller {
        Controller::by(instance, connecting())
    }

    /// One that has said hello, over a channel.
    pub fn by(instance: &dyn Instance, channel: Channel) -> Controller {
        let mut controller = Controller::connected(instance, &channel);
        controller.send(Body::Hello(Hello::only(4)));
        assert!(matches!(&controller.heard()[..], [Message { body: Body::Hello(_), .. }]));
        controller
    }

    /// One that has not said hello yet.
    pub fn silent(instance: &dyn Instance) -> Controller {
        Controller::connected(instance, &connecting())
    }

    fn connected(instance: &dyn Instance, channel: &Channel) -> Controller {
        let side = instance.channel_side().unwrap();
        let number = side.connect(channel, "192.0.2.9:6653").unwrap();
        Controller { side, number, framing: Framing::default() }
    }

    pub fn send(&mut self, body: Body) {
        let bytes = Message::new(7, body).write().unwrap();
        assert_eq!(self.side.receive(self.number, &bytes), bytes.len());
    }

    /// What it was told since the last call.
    pub fn heard(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let output = self.side.output(self.number, 1000);
            if output.is_empty() {
                return messages;
            }
            self.side.sent(self.number, output.len());
            let mut rest = output.as_slice();
            while let Some(bytes) = self.framing.next(&mut rest).unwrap() {
                messages.push(Message::read(&bytes).unwrap());
            }
        }
    }

    /// Asks for something that is not answered unless it is refused.
    #[track_caller]
    pub fn does(&mut self, body: Body) {
        self.send(body);
        assert_eq!(self.heard(), []);
    }

    /// Whether the connection is to be closed, and why.
    pub fn closing(&self) -> Option<&'static str> {
        self.side.closing(self.number)
    }

    /// The connection is gone.
    pub fn leave(self) {
        self.side.disconnect(self.number);
    }
}

pub fn flow(table: u8, priority: u16, fields: &[Oxm], instructions: Vec<Instruction>) -> FlowMod {
    FlowMod::add(table, priority, Match::new(fields.to_vec()).unwrap(), instructions)
}

pub fn out(port: u32) -> Action {
    Action::Output { port, max_len: 0xffff }
}

pub fn apply(actions: &[Action]) -> Vec<Instruction> {
    vec![Instruction::ApplyActions(actions.to_vec())]
}

/// A frame of 60 bytes from station to station, with a number in it.
pub fn frame(to: u8, from: u8, number: u32) -> Vec<u8> {
    let mut frame = [&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5][..], &number.to_be_bytes()].concat();
    frame.resize(60, 0);
    frame
}

pub const BROADCAST: [u8; 6] = [0xff; 6];

/// UDP over IPv4 from 10.0.0.1 to 10.0.0.2, with this TTL.
pub fn udp(ttl: u8) -> Vec<u8> {
    let frame = weir_wire::build::UdpFrame {
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
        ttl,
        ..Default::default()
    };
    frame.to_vec(&[0; 18])
}
