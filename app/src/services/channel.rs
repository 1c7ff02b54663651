//! The service of a channel: it connects to a controller, again and again, or takes connections of controllers, and moves bytes between them and
//! the function that they drive.
//!
//! What a peer sends is read only where the function has taken what it sent before, and kept for it in a buffer of fixed size: who sends faster
//! than the function works waits. What a peer does not read is the function's to bound.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use weir_stage::{Channel, ChannelSide, Load, MakeService, Service, Waits};

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

/// How long a peer may take to read what was to be sent before its connection is closed.
const FAREWELL: u64 = 2_000_000_000;

/// How long bytes wait that the function does not take, nanoseconds.
const BREATH: u64 = 1_000_000;

/// Connections that a channel takes at most. The function has its own bound, for all its channels.
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
        let source = match self.channel {
            Channel::Connect(to) => Source::Attempts { to, attempt: None, next: now, pause: PAUSE },
            Channel::Listen(at) => Source::Listener(listen(at)?),
        };
        let side = self.side.get()?;
        attend(&*side, self.channel, &bell);
        let facts = Facts { function: self.function.clone(), channel: self.channel };
        let mut service =
            Controllers { slot: self.side.clone(), side, bell, facts, source, connections: Vec::new(), now };
        if matches!(self.channel, Channel::Listen(_)) {
            service.set_state(Some("listening".to_owned()));
        }
        Ok(Box::new(service))
    }
}

fn listen(at: SocketAddr) -> Result<TcpListener, String> {
    let wrong = |error: std::io::Error| format!("cannot listen at {at}: {error}");
    let listener = TcpListener::bind(at).map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    Ok(listener)
}

fn attend(side: &dyn ChannelSide, channel: Channel, bell: &Bell) {
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
    Attempts { to: SocketAddr, attempt: Option<(TcpStream, u64)>, next: u64, pause: u64 },
    /// Controllers connect.
    Listener(TcpListener),
}

/// A connection.
struct Connection {
    number: u64,
    peer: String,
    stream: TcpStream,
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
    connections: Vec<Connection>,
    /// When the last step began.
    now: u64,
}

impl Controllers {
    fn set_state(&mut self, state: Option<String>) {
        self.side.set_state(self.facts.channel, state);
    }

    /// The function may have been made anew: then no connection is its.
    fn follow_side(&mut self) -> Result<(), String> {
        let side = self.slot.get()?;
        if !Arc::ptr_eq(&side, &self.side) {
            self.end_all("the function was made anew");
            self.side.attend(self.facts.channel, None);
            self.side = side;
            attend(&*self.side, self.facts.channel, &self.bell);
            if matches!(self.source, Source::Listener(_)) {
                self.set_state(Some("listening".to_owned()));
            }
        }
        Ok(())
    }

    fn end_all(&mut self, why: &str) {
        for connection in std::mem::take(&mut self.connections) {
            self.side.disconnect(connection.number);
            self.facts.tell("a controller's connection ended", &connection.peer, why);
        }
    }

    /// A connection begins.
    fn begin(&mut self, stream: TcpStream, peer: SocketAddr) {
        let peer = peer.to_string();
        let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        let number = ready.ok().and_then(|()| self.side.connect(self.facts.channel, &peer));
        let Some(number) = number else {
            self.facts.tell("a controller was sent away", &peer, "there are as many connections as there may be");
            return;
        };
        self.facts.tell("a controller is connected", &peer, "");
        self.connections.push(Connection { number, peer, stream, came: Vec::new(), is_full: false, until: None });
    }

    /// Takes connections of those who come, or sees to it that there is one.
    fn come_together(&mut self, now: u64) {
        match &mut self.source {
            Source::Listener(listener) => {
                let mut came = Vec::new();
                while self.connections.len() + came.len() < MOST
                    && let Ok(one) = listener.accept()
                {
                    came.push(one);
                }
                came.into_iter().for_each(|(stream, peer)| self.begin(stream, peer));
            }
            Source::Attempts { .. } if !self.connections.is_empty() => {}
            Source::Attempts { to, attempt, next, pause } => {
                let to = *to;
                let outcome = match attempt.take() {
                    Some((stream, until)) => finished(stream, until, now),
                    None if now < *next => return,
                    None => begun(to, now.saturating_add(ATTEMPT)),
                };
                // Where the function wants no further connection, it is tried again as well.
                *next = now.saturating_add(*pause);
                match outcome {
                    Attempt::Goes(stream, until) => *attempt = Some((stream, until)),
                    Attempt::Done(stream) => self.begin(stream, to),
                    Attempt::Failed(why) => {
                        let state = format!("not connected: {why}; tried again after {} s", *pause / PAUSE);
                        *pause = pause.saturating_mul(2).min(LONGEST);
                        self.set_state(Some(state));
                    }
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
                    let connection = self.connections.swap_remove(at);
                    self.side.disconnect(connection.number);
                    self.facts.tell("a controller's connection ended", &connection.peer, &why);
                    self.ended(&why, now);
                }
            }
        }
    }

    /// A connection ended: a channel that connects by itself does so again.
    fn ended(&mut self, why: &str, now: u64) {
        if let Source::Attempts { next, pause, .. } = &mut self.source {
            (*next, *pause) = (now.saturating_add(PAUSE), PAUSE);
            self.set_state(Some(format!("not connected: {why}")));
        } else if self.connections.is_empty() {
            self.set_state(Some("listening".to_owned()));
        }
    }
}

/// What became of an attempt to connect.
enum Attempt {
    /// It goes on, until then.
    Goes(TcpStream, u64),
    Done(TcpStream),
    Failed(String),
}

fn begun(to: SocketAddr, until: u64) -> Attempt {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = match socket_with(family, SocketType::STREAM, flags, None) {
        Ok(socket) => socket,
        Err(error) => return Attempt::Failed(error.to_string()),
    };
    match connect(&socket, &to) {
        Ok(()) => Attempt::Done(TcpStream::from(socket)),
        Err(Errno::INPROGRESS) => Attempt::Goes(TcpStream::from(socket), until),
        Err(error) => Attempt::Failed(error.to_string()),
    }
}

/// Whether an attempt has come to its end; it has at last when its time is over.
fn finished(stream: TcpStream, until: u64, now: u64) -> Attempt {
    match (sockopt::socket_error(&stream), stream.peer_addr()) {
        (Ok(Err(error)) | Err(error), _) => Attempt::Failed(error.to_string()),
        (Ok(Ok(())), Ok(_)) => Attempt::Done(stream),
        (Ok(Ok(())), Err(_)) if now >= until => Attempt::Failed("nobody answers".to_owned()),
        // Woken for something else.
        (Ok(Ok(())), Err(_)) => Attempt::Goes(stream, until),
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
            (Some(why), _) if side.output(self.number, 1).is_empty() => Err(why.to_owned()),
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
        match self.stream.read(&mut buffer) {
            Ok(0) => Err("it closed the connection".to_owned()),
            Ok(count) => {
                self.came.extend_from_slice(buffer.get(..count).unwrap_or_default());
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
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
        let waits = side.output(self.number, WRITTEN);
        self.is_full = false;
        if waits.is_empty() {
            return Ok(());
        }
        match self.stream.write(&waits) {
            Ok(count) => {
                side.sent(self.number, count);
                self.is_full = count < waits.len();
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                self.is_full = true;
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// When the next step has something to do, though nothing comes and nobody wakes.
    fn next(&self, side: &dyn ChannelSide, now: u64) -> Option<u64> {
        let next = match () {
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
            Source::Attempts { next, .. } if self.connections.is_empty() => waits.until = Some(*next),
            _ => {}
        }
        for connection in &self.connections {
            let descriptor: BorrowedFd<'_> = connection.stream.as_fd();
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
        self.side.attend(self.facts.channel, None);
    }
}
