//! The service that takes clients of the control socket in. It waits for them at a door that outlives it.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_protocol::Response;
use weir_stage::{Load, MakeService, Service, Waits};

use super::{Shared, say, session};
use crate::log;
use crate::services::guarded;
use crate::socket::{self, Bound};
use crate::spare::{self, Guest, Spare};

/// How long nobody is let in when there are no descriptors, nanoseconds: that passes only when somebody leaves.
const BREATH: u64 = 100_000_000;

/// The socket that is listened on.
pub(super) struct Door {
    path: PathBuf,
    /// `None` when it cannot be listened on any more.
    bound: Mutex<Option<Bound>>,
}

impl Door {
    /// One that is open.
    pub(super) fn new(bound: Bound) -> io::Result<Door> {
        bound.listener.set_nonblocking(true)?;
        Ok(Door { path: bound.path.clone(), bound: Mutex::new(Some(bound)) })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Bound>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What listens: that of before, if it still can, or a new socket at the same path.
    fn listener(&self) -> Result<Arc<UnixListener>, String> {
        let mut bound = self.lock();
        if let Some(bound) = &*bound {
            return Ok(Arc::clone(&bound.listener));
        }
        let fresh = socket::bind(&self.path).map_err(|error| error.to_string())?;
        fresh.listener.set_nonblocking(true).map_err(|error| error.to_string())?;
        Ok(Arc::clone(&bound.insert(fresh).listener))
    }

    /// Listens no more, and removes the socket's file.
    pub(super) fn close(&self) {
        *self.lock() = None;
    }
}

/// Makes what takes clients in.
pub(super) struct Admission(pub(super) Arc<Shared>);

impl MakeService for Admission {
    fn name(&self) -> &str {
        "socket"
    }

    fn make(&self, _now: u64) -> Result<Box<dyn Service>, String> {
        let listener = self.0.door.listener()?;
        Ok(Box::new(Doorman { shared: Arc::clone(&self.0), listener, spare: Spare::new(), not_before: None }))
    }
}

/// Takes clients in.
struct Doorman {
    shared: Arc<Shared>,
    listener: Arc<UnixListener>,
    spare: Spare,
    /// When somebody is let in again.
    not_before: Option<u64>,
}

impl Service for Doorman {
    fn waits(&self) -> Waits<'_> {
        let readable = if self.not_before.is_none() { vec![self.listener.as_fd()] } else { Vec::new() };
        Waits { readable, until: self.not_before, ..Waits::default() }
    }

    fn step(&mut self, now: u64) -> Result<(), String> {
        self.not_before = self.not_before.filter(|until| now < *until);
        if self.not_before.is_some() {
            return Ok(());
        }
        let listener = &self.listener;
        match self.spare.accept(|| listener.accept().map(|(stream, _)| stream)) {
            Ok(Guest::Welcome(stream)) => welcome(stream, &self.shared),
            Ok(Guest::Refused(stream)) => {
                log::warn("socket", "a client was turned away: no descriptors are left", &[]);
                say(&stream, Response::refused("Weir has no descriptors left (ulimit -n); try again later"));
            }
            Err(error) if spare::is_nobody(&error) && !spare::is_dead(listener) => {}
            Err(error) if spare::passes(&error) => {
                log::warn("socket", "a client could not be accepted", &[("cause", &error)]);
                self.not_before = Some(now + BREATH);
            }
            Err(error) => {
                // The next one listens anew.
                self.shared.door.close();
                return Err(format!("nobody can be let in by {}: {error}", self.shared.door.path.display()));
            }
        }
        Ok(())
    }

    fn load(&self) -> Load {
        Load { unit: "clients", now: self.shared.guests.count() as u64, most: self.shared.limits.clients as u64 }
    }
}

fn welcome(stream: UnixStream, shared: &Arc<Shared>) {
    let limits = shared.limits;
    if let Err(error) = stream.set_write_timeout(Some(limits.write)) {
        return log::warn("socket", "a client could not be served", &[("cause", &error)]);
    }
    let rights = socket::rights(&stream);
    let stream = Arc::new(stream);
    let Some(entry) = shared.guests.enter(&stream, rights.change, limits.clients, limits.kept) else {
        let message =
            format!("{} clients are connected, which is all that are served; try again later", limits.clients);
        log::warn("socket", "a client was turned away", &[("clients", &limits.clients)]);
        return say(&stream, Response::refused(message));
    };
    let theirs = Arc::clone(shared);
    let body = move || {
        let served = guarded(|| {
            session::serve(&stream, rights, &theirs, &entry);
            Ok(())
        });
        if let Err(why) = served {
            log::error("socket", "a client was disconnected, for its session failed", &[("why", &why)]);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("weir-client".to_owned()).spawn(body) {
        log::warn("socket", "a client could not be served", &[("cause", &error)]);
    }
}
