//! Just enough of HTTP for metrics: one request per connection, a few connections at once, everything bounded.

mod talk;

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use weir_protocol::{Request, Response, Rights};
use weir_stage::{Load, MakeService, Service, Waits};

use crate::log;
use crate::server::{Answer, Job};
use crate::services::{Asker, Pending, Progress};
use crate::spare::{self, Guest, Spare};
use talk::{Client, Next, Text};

/// How long nobody is let in when there are no descriptors, and how long a request waits that could not be made, nanoseconds.
const BREATH: u64 = 100_000_000;

/// Bounds of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections at once; for one more, the oldest is closed.
    pub(crate) connections: usize,
    /// How long a client may take to send its request, all of it, to be given the metrics, and to take the answer.
    pub(crate) patience: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 16, patience: Duration::from_secs(5) }
    }
}

/// The service of metrics at `address`, and the address it really listens on.
///
/// # Errors
///
/// The address cannot be listened on.
pub(crate) fn listen(
    address: SocketAddr,
    jobs: SyncSender<Job>,
    limits: Limits,
) -> Result<(SocketAddr, Box<dyn MakeService>), String> {
    let wrong = |error: io::Error| format!("cannot serve metrics at {address}: {error}; choose another with --metrics");
    let listener = bind(address).map_err(wrong)?;
    let bound = listener.local_addr().map_err(wrong)?;
    let asker = Asker::new(jobs).map_err(wrong)?;
    if !bound.ip().is_loopback() {
        log::warn("metrics", "metrics are served to other hosts, without a password", &[("address", &bound)]);
    }
    let kept = Arc::new(Kept { address: bound, listener: Mutex::new(Some(listener)), open: Mutex::default() });
    Ok((bound, Box::new(Maker { kept, asker, limits })))
}

fn bind(address: SocketAddr) -> io::Result<Arc<TcpListener>> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(Arc::new(listener))
}

/// What outlives an instance.
struct Kept {
    address: SocketAddr,
    /// `None` when it cannot be listened on any more.
    listener: Mutex<Option<Arc<TcpListener>>>,
    /// The connections, so that those of an instance that hangs are closed.
    open: Mutex<Vec<Weak<TcpStream>>>,
}

impl Kept {
    fn listener(&self) -> io::Result<Arc<TcpListener>> {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = &*listener {
            return Ok(Arc::clone(listener));
        }
        Ok(Arc::clone(listener.insert(bind(self.address)?)))
    }

    fn close(&self) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn opened(&self, stream: &Arc<TcpStream>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|other| other.strong_count() > 0);
        open.push(Arc::downgrade(stream));
    }

    /// Closes what an instance before left open.
    fn close_all(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in open.drain(..).filter_map(|stream| stream.upgrade()) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

struct Maker {
    kept: Arc<Kept>,
    asker: Asker,
    limits: Limits,
}

impl MakeService for Maker {
    fn name(&self) -> &str {
        "metrics"
    }

    fn make(&self, _now: u64) -> Result<Box<dyn Service>, String> {
        self.kept.close_all();
        let wrong = |error| format!("metrics cannot be served at {}: {error}", self.kept.address);
        Ok(Box::new(Metrics {
            kept: Arc::clone(&self.kept),
            listener: self.kept.listener().map_err(wrong)?,
            asker: self.asker.clone(),
            limits: self.limits,
            spare: Spare::new(),
            clients: VecDeque::new(),
            pending: None,
            not_before: None,
        }))
    }
}

/// Serves metrics.
struct Metrics {
    kept: Arc<Kept>,
    listener: Arc<TcpListener>,
    asker: Asker,
    limits: Limits,
    spare: Spare,
    /// Oldest first.
    clients: VecDeque<Client>,
    /// The question that was asked for those that wait.
    pending: Option<Pending>,
    /// When somebody is let in, or Weir is asked, again.
    not_before: Option<u64>,
}

impl Service for Metrics {
    fn waits(&self) -> Waits<'_> {
        let of = |which: fn(&Client) -> bool| {
            self.clients.iter().filter(move |client| which(client)).map(|client| client.stream.as_fd())
        };
        let doors = self.not_before.is_none().then(|| self.listener.as_fd());
        let answer = self.pending.is_some().then(|| self.asker.as_fd());
        Waits {
            readable: doors.into_iter().chain(answer).chain(of(Client::asks)).collect(),
            writable: of(Client::hears).collect(),
            until: self.clients.iter().map(|client| client.until).chain(self.not_before).min(),
        }
    }

    fn step(&mut self, now: u64) -> Result<(), String> {
        self.not_before = self.not_before.filter(|until| now < *until);
        let patience = u64::try_from(self.limits.patience.as_nanos()).unwrap_or(u64::MAX);
        let until = now.saturating_add(patience);
        if self.not_before.is_none() {
            self.let_in(now, until)?;
        }
        self.hear(until);
        self.clients.retain_mut(|client| client.go_on(until) == Next::Stays && now < client.until);
        if self.not_before.is_none() {
            self.ask(now, until);
        }
        Ok(())
    }

    fn load(&self) -> Load {
        Load { unit: "clients", now: self.clients.len() as u64, most: self.limits.connections as u64 }
    }
}

impl Metrics {
    /// Lets somebody in, if somebody is there; for one too many the oldest is closed.
    fn let_in(&mut self, now: u64, until: u64) -> Result<(), String> {
        let listener = &self.listener;
        match self.spare.accept(|| listener.accept().map(|(stream, _)| stream)) {
            Ok(Guest::Welcome(stream)) if stream.set_nonblocking(true).is_ok() => {
                if self.clients.len() >= self.limits.connections {
                    self.clients.pop_front();
                }
                let stream = Arc::new(stream);
                self.kept.opened(&stream);
                self.clients.push_back(Client::new(stream, until));
            }
            // There is no descriptor for it: it is closed at once.
            Ok(Guest::Welcome(stream) | Guest::Refused(stream)) => drop(stream),
            Err(error) if spare::is_nobody(&error) && !spare::is_dead(listener) => {}
            Err(error) if spare::passes(&error) => self.not_before = Some(now + BREATH),
            Err(error) => {
                // The next one listens anew.
                self.kept.close();
                return Err(format!("nobody can be let in at {}: {error}", self.kept.address));
            }
        }
        Ok(())
    }

    /// Asks for the numbers, once for all who wait.
    fn ask(&mut self, now: u64, until: u64) {
        if self.pending.is_some() || !self.clients.iter().any(Client::waits) {
            return;
        }
        match self.asker.ask(Request::Stats, Rights::READ) {
            Ok(Some(pending)) => self.pending = Some(pending),
            Ok(None) => self.not_before = Some(now + BREATH),
            Err(()) => self.tell(&stopping(), until),
        }
    }

    /// Looks whether the answer has come.
    fn hear(&mut self, until: u64) {
        self.asker.hush();
        let text = match self.pending.as_ref().map(Pending::look) {
            None | Some(Progress::Waits) => return,
            Some(Progress::Answered(answer)) => metrics(answer),
            Some(Progress::Nobody) => None,
        };
        self.pending = None;
        self.tell(&text.unwrap_or_else(stopping), until);
    }

    /// Answers all who wait.
    fn tell(&mut self, text: &Text, until: u64) {
        self.clients.iter_mut().for_each(|client| client.tell(text, until));
    }
}

fn stopping() -> Text {
    Text::new("503 Service Unavailable", "text/plain", "Weir is stopping\n")
}

fn metrics(answer: Answer) -> Option<Text> {
    let Answer::Whole(Response::Ok(stats)) = answer else { return None };
    let stats = serde_json::from_value(stats).ok()?;
    Some(Text::new("200 OK", "text/plain; version=0.0.4; charset=utf-8", &super::text(&stats)))
}

#[cfg(test)]
mod tests;
