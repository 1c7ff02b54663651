//! The service of a channel: it connects to a controller, again and again, or takes connections of controllers, and moves bytes between them and
//! the function that they drive.
//!
//! What a peer sends is read only where the function has taken what it sent before, and kept for it in a buffer of fixed size: who sends faster
//! than the function works waits. What a peer does not read is the function's to bound.

mod stream;
mod wire;

use std::os::fd::AsFd;
use std::sync::Arc;

use weir_stage::{Channel, ChannelSide, Endpoint, Load, MakeService, Service, Waits};

use self::stream::{Attempt, Listener, Stream, begun, finished};
use self::wire::{Prover, Wire};
use super::{Bell, SideSlot};
use crate::log;

/// Bytes that are read from a peer at once, and handed in by pieces.
const READ: usize = 16 << 10;

/// Bytes that the function takes at once: what it does for them it does under a lock.
const PIECE: usize = 4 << 10;

/// Bytes that are written at once.
const WRITTEN: usize = 64 << 10;

/// The pause after the first attempt that failed, nanoseconds; it doubles with each that follows.
const PAUSE: u64 = 1_000_000_000;

/// The longest pause.
const LONGEST: u64 = 8_000_000_000;

/// How long an attempt to connect may take.
const ATTEMPT: u64 = 10_000_000_000;

/// How long a peer may take to prove who it is.
const HANDSHAKE: u64 = 10_000_000_000;

/// How long a peer may take to read what was to be sent before its connection is closed.
const FAREWELL: u64 = 2_000_000_000;

/// How long bytes wait that the function does not take, nanoseconds.
const BREATH: u64 = 1_000_000;

/// Connections that a channel takes at most, and peers that prove who they are at once. The function has its own bound, for all its channels.
const MOST: usize = 16;

/// Makes the service.
pub(super) struct Maker {
    name: String,
    function: String,
    channel: Channel,
    side: SideSlot<dyn ChannelSide>,
}

impl Maker {
    pub(super) fn new(function: &str, channel: Channel, side: SideSlot<dyn ChannelSide>) -> Maker {
        Maker { name: format!("{function}.{channel}"), function: function.to_owned(), channel, side }
    }
}

impl MakeService for Maker {
    fn name(&self) -> &str {
        &self.name
    }

    fn owner(&self) -> &str {
        &self.function
    }

    fn make(&self, now: u64) -> Result<Box<dyn Service>, String> {
        let bell = Bell::new().map_err(|error| format!("it cannot be woken: {error}"))?;
        let source = match &self.channel {
            Channel::Connect(to) => Source::Attempts { to: to.clone(), attempt: None, next: now, pause: PAUSE },
            Channel::Listen(at) => Source::Listener(Listener::new(at)?),
        };
        let side = self.side.get()?;
        attend(&*side, &self.channel, &bell);
        let facts = Facts { function: self.function.clone(), channel: self.channel.clone() };
        let mut service = Controllers {
            slot: self.side.clone(),
            side,
            bell,
            facts,
            source,
            prover: Prover::default(),
            greetings: Vec::new(),
            connections: Vec::new(),
            now,
        };
        if matches!(self.channel, Channel::Listen(_)) {
            service.set_state(Some("listening".to_owned()));
        }
        Ok(Box::new(service))
    }
}

fn attend(side: &dyn ChannelSide, channel: &Channel, bell: &Bell) {
    let bell = bell.clone();
    side.attend(channel, Some(Box::new(move || bell.ring())));
}

/// What the log is told beside what happened.
struct Facts {
    function: String,
    channel: Channel,
}

impl Facts {
    fn tell(&self, message: &'static str, peer: &str, why: &str) {
        let mut facts: Vec<(&str, &dyn std::fmt::Display)> =
            vec![("function", &self.function), ("channel", &self.channel), ("peer", &peer)];
        if !why.is_empty() {
            facts.push(("why", &why));
        }
        log::info("channel", message, &facts);
    }
}

/// Where connections come from.
enum Source {
    /// Attempts to connect to a controller: the one that is being made, with its end; when the next is; and the pause behind that.
    Attempts { to: Endpoint, attempt: Option<(Stream, u64)>, next: u64, pause: u64 },
    /// Controllers connect.
    Listener(Listener),
}

/// A peer that has to prove who it is, until then.
struct Greeting {
    peer: String,
    wire: Wire,
    until: u64,
}

/// A connection.
struct Connection {
    number: u64,
    peer: String,
    wire: Wire,
    /// When it began.
    since: u64,
    /// What came and was not taken yet.
    came: Vec<u8>,
    /// Something waits to be written, and the peer takes nothing now.
    is_full: bool,
    /// It is closed then, as the function wants it.
    until: Option<u64>,
}

/// How a connection ended: why, for people.
type Ended = String;

struct Controllers {
    slot: SideSlot<dyn ChannelSide>,
    side: Arc<dyn ChannelSide>,
    bell: Bell,
    facts: Facts,
    source: Source,
    prover: Prover,
    greetings: Vec<Greeting>,
    connections: Vec<Connection>,
    /// When the last step began.
    now: u64,
}

impl Controllers {
    fn set_state(&mut self, state: Option<String>) {
        self.side.set_state(&self.facts.channel, state);
    }

    /// The function may have been made anew: then no connection is its.
    fn follow_side(&mut self) -> Result<(), String> {
        let side = self.slot.get()?;
        if !Arc::ptr_eq(&side, &self.side) {
            self.end_all("the function was made anew");
            self.greetings.clear();
            self.side.attend(&self.facts.channel, None);
            self.side = side;
            attend(&*self.side, &self.facts.channel, &self.bell);
            if matches!(self.source, Source::Listener(_)) {
                self.set_state(Some("listening".to_owned()));
            }
        }
        Ok(())
    }

    fn end_all(&mut self, why: &str) {
        for mut connection in std::mem::take(&mut self.connections) {
            connection.wire.end();
            self.side.disconnect(connection.number);
            self.facts.tell("a controller's connection ended", &connection.peer, why);
        }
    }

    /// Somebody is there: by TLS they have to prove who they are first.
    fn meet(&mut self, stream: Stream, peer: String, now: u64) {
        let listened = matches!(self.source, Source::Listener(_));
        let wire = match self.facts.channel.endpoint() {
            Endpoint::Tls(_) => self.prover.wire(&*self.side, stream, listened),
            Endpoint::Tcp(_) | Endpoint::Unix(_) => Ok(Wire::Plain(stream)),
        };
        match wire {
            Ok(Wire::Plain(stream)) => self.begin(Wire::Plain(stream), peer, now),
            Ok(wire) => {
                if self.greetings.len() >= MOST {
                    // Else who says nothing would keep those away who would.
                    let oldest = self.greetings.remove(0);
                    self.refuse(&oldest.peer, "too many others came before it had proved who it is", now);
                }
                self.greetings.push(Greeting { peer, wire, until: now.saturating_add(HANDSHAKE) });
            }
            Err(why) => self.refuse(&peer, &why, now),
        }
    }

    /// Goes on with those who prove who they are.
    fn greet(&mut self, now: u64) {
        let mut at = 0;
        while let Some(greeting) = self.greetings.get_mut(at) {
            let outcome = match greeting.wire.greet() {
                Ok(false) if now < greeting.until => {
                    at += 1;
                    continue;
                }
                Ok(false) => Err("it has not proved who it is in time".to_owned()),
                Ok(true) => Ok(()),
                Err(why) => Err(why),
            };
            let Greeting { peer, wire, .. } = self.greetings.remove(at);
            match outcome {
                Ok(()) => self.begin(wire, peer, now),
                Err(why) => self.refuse(&peer, &why, now),
            }
        }
    }

    /// Nothing comes of somebody.
    fn refuse(&mut self, peer: &str, why: &str, now: u64) {
        self.facts.tell("a controller was sent away", peer, why);
        if matches!(self.source, Source::Listener(_)) {
            self.set_state(Some(format!("listening; refused {peer}: {why}")));
        } else {
            self.put_off(why, now);
        }
    }

    /// It is tried again, after a pause that grows.
    fn put_off(&mut self, why: &str, now: u64) {
        if let Source::Attempts { next, pause, .. } = &mut self.source {
            let state = format!("not connected: {why}; tried again after {} s", *pause / PAUSE);
            *next = now.saturating_add(*pause);
            *pause = pause.saturating_mul(2).min(LONGEST);
            self.set_state(Some(state));
        }
    }

    /// A connection begins.
    fn begin(&mut self, wire: Wire, peer: String, now: u64) {
        let has_room = self.connections.len() < MOST;
        let number = has_room.then(|| self.side.connect(&self.facts.channel, &peer)).flatten();
        let Some(number) = number else {
            self.facts.tell("a controller was sent away", &peer, "there are as many connections as there may be");
            return;
        };
        self.facts.tell("a controller is connected", &peer, "");
        let came = Vec::new();
        self.connections.push(Connection { number, peer, wire, since: now, came, is_full: false, until: None });
    }

    /// Takes connections of those who come, or sees to it that there is one.
    fn come_together(&mut self, now: u64) {
        let is_alone = self.connections.is_empty() && self.greetings.is_empty();
        match &mut self.source {
            Source::Listener(listener) => {
                let room = MOST.saturating_sub(self.connections.len());
                let came: Vec<_> = std::iter::from_fn(|| listener.accept()).take(room).collect();
                came.into_iter().for_each(|(stream, peer)| self.meet(stream, peer, now));
            }
            Source::Attempts { .. } if !is_alone => {}
            Source::Attempts { to, attempt, next, pause } => {
                let outcome = match attempt.take() {
                    Some((stream, until)) => finished(stream, until, now),
                    None if now < *next => return,
                    None => begun(to, now.saturating_add(ATTEMPT)),
                };
                // Where the function wants no further connection, it is tried again as well.
                *next = now.saturating_add(*pause);
                match outcome {
                    Attempt::Goes(stream, until) => *attempt = Some((stream, until)),
                    Attempt::Done(stream) => {
                        let peer = match to {
                            Endpoint::Tcp(address) | Endpoint::Tls(address) => address.to_string(),
                            Endpoint::Unix(path) => path.display().to_string(),
                        };
                        self.meet(stream, peer, now);
                    }
                    Attempt::Failed(why) => self.put_off(&why, now),
                }
            }
        }
    }

    /// Moves bytes of all connections.
    fn move_bytes(&mut self, now: u64) {
        let mut at = 0;
        while let Some(connection) = self.connections.get_mut(at) {
            match connection.step(&*self.side, now) {
                Ok(()) => at += 1,
                Err(why) => {
                    let mut connection = self.connections.swap_remove(at);
                    connection.wire.end();
                    self.side.disconnect(connection.number);
                    self.facts.tell("a controller's connection ended", &connection.peer, &why);
                    self.ended(&why, connection.since, now);
                }
            }
        }
    }

    /// A connection ended: a channel that connects by itself does so again, and later where it ends time and again.
    fn ended(&mut self, why: &str, since: u64, now: u64) {
        if let Source::Attempts { pause, .. } = &mut self.source {
            if now.saturating_sub(since) > LONGEST {
                *pause = PAUSE;
            }
            self.put_off(why, now);
        } else if self.connections.is_empty() {
            self.set_state(Some("listening".to_owned()));
        }
    }
}

impl Connection {
    /// Moves bytes both ways as far as they go.
    fn step(&mut self, side: &dyn ChannelSide, now: u64) -> Result<(), Ended> {
        self.hand_in(side);
        if self.came.is_empty() && self.until.is_none() {
            self.read()?;
            self.hand_in(side);
        }
        self.write(side)?;
        match (side.closing(self.number), self.until) {
            (Some(why), _) if side.output(self.number, 1).is_empty() && !self.wire.is_full() => Err(why.to_owned()),
            (Some(why), Some(until)) if now >= until => Err(why.to_owned()),
            (Some(_), None) => {
                self.until = Some(now.saturating_add(FAREWELL));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn read(&mut self) -> Result<(), Ended> {
        let mut buffer = [0; READ];
        let count = self.wire.read(&mut buffer)?;
        self.came.extend_from_slice(buffer.get(..count).unwrap_or_default());
        Ok(())
    }

    /// Hands in what came, by pieces.
    fn hand_in(&mut self, side: &dyn ChannelSide) {
        let mut taken = 0;
        while let Some(rest) = self.came.get(taken..).filter(|rest| !rest.is_empty()) {
            let piece = rest.get(..PIECE).unwrap_or(rest);
            let count = side.receive(self.number, piece);
            taken += count;
            if count < piece.len() {
                break;
            }
        }
        self.came.drain(..taken.min(self.came.len()));
    }

    fn write(&mut self, side: &dyn ChannelSide) -> Result<(), Ended> {
        self.is_full = !self.wire.flush()?;
        let waits = side.output(self.number, WRITTEN);
        if self.is_full || waits.is_empty() {
            return Ok(());
        }
        let count = self.wire.write(&waits)?;
        side.sent(self.number, count);
        self.is_full = count < waits.len() || self.wire.is_full();
        Ok(())
    }

    /// When the next step has something to do, though nothing comes and nobody wakes.
    fn next(&self, side: &dyn ChannelSide, now: u64) -> Option<u64> {
        let next = match () {
            // What it holds is read all the same.
            () if self.came.is_empty() && self.until.is_none() && self.wire.holds() => Some(0),
            () if self.is_full => None,
            () if !side.output(self.number, 1).is_empty() => Some(0),
            // The function takes no more before it has sent the packets that it was given.
            () if !self.came.is_empty() => Some(now.saturating_add(BREATH)),
            () => None,
        };
        [next, self.until].into_iter().flatten().min()
    }
}

impl Service for Controllers {
    fn waits(&self) -> Waits<'_> {
        let mut waits = Waits { readable: vec![self.bell.as_fd()], ..Waits::default() };
        match &self.source {
            Source::Listener(listener) if self.connections.len() < MOST => waits.readable.push(listener.as_fd()),
            Source::Attempts { attempt: Some((stream, until)), .. } => {
                waits.writable.push(stream.as_fd());
                waits.until = Some(*until);
            }
            Source::Attempts { next, .. } if self.connections.is_empty() && self.greetings.is_empty() => {
                waits.until = Some(*next)
            }
            _ => {}
        }
        for greeting in &self.greetings {
            waits.readable.push(greeting.wire.as_fd());
            if greeting.wire.is_full() {
                waits.writable.push(greeting.wire.as_fd());
            }
            waits.until = [waits.until, Some(greeting.until)].into_iter().flatten().min();
        }
        for connection in &self.connections {
            let descriptor = connection.wire.as_fd();
            if connection.came.is_empty() && connection.until.is_none() {
                waits.readable.push(descriptor);
            }
            if connection.is_full {
                waits.writable.push(descriptor);
            }
            waits.until = [waits.until, connection.next(&*self.side, self.now)].into_iter().flatten().min();
        }
        waits
    }

    fn step(&mut self, now: u64) -> Result<(), String> {
        self.bell.hush();
        self.now = now;
        self.follow_side()?;
        self.come_together(now);
        self.greet(now);
        self.move_bytes(now);
        Ok(())
    }

    fn load(&self) -> Load {
        Load { unit: "controllers", now: self.connections.len() as u64, most: MOST as u64 }
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.end_all("its channel is closed");
        self.set_state(None);
        self.side.attend(&self.facts.channel, None);
    }
}
