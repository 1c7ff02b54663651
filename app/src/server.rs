//! The server's end of the control socket.
//!
//! A service takes clients in, and a thread serves each of them: it reads requests, hands them as [`Job`]s to the loop that
//! owns the data plane, and writes the answers. Everything is bounded: clients, the length of a request and how long it may take to
//! come, what waits to be written, and how long a client may leave an answer unread before it is disconnected. Whatever others do, there
//! is a place for root and for the user who started Weir.

mod admission;
mod audit;
mod following;
mod guests;
mod lines;
mod reload;
mod session;

pub(crate) use reload::{hand, reload_for_signal};

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use weir_engine::Observer;
use weir_stage::{MakeService, ShowRows};

use crate::reload::{Candidate, Left, Ready, Reload};
use crate::services::ReplyTo;
use crate::socket::Bound;
use crate::supervisor::Aside;
use crate::trace::Decision;
use admission::{Admission, Door};
use guests::Guests;
use weir_protocol::{self as protocol, Reply, Request, Response, Rights};

/// What the loop that owns the data plane is asked to do.
pub(crate) enum Job {
    /// Carry out a request.
    Ask {
        /// The request.
        request: Request,
        /// What its sender may do.
        rights: Rights,
        /// Where the answer goes.
        reply: ReplyTo,
    },
    /// Let a configuration take over that whoever asked has read.
    TakeOver(Box<Candidate>, SyncSender<Answer>),
    /// Put in place what was built for it.
    PutInPlace(Box<Ready>, SyncSender<Answer>),
    /// End it, now that the functions that go on have changed.
    Finish(Arc<()>, SyncSender<Answer>),
    /// Say what a watcher must know.
    Scene(SyncSender<Scene>),
    /// Say what stages decided about packets, of each in words if there is anything to say.
    Explain(Vec<Decision>, SyncSender<Vec<Option<String>>>),
    /// Tell an observer of every packet from here on.
    Watch(Arc<dyn Observer>, SyncSender<()>),
    /// Tell it no more.
    Unwatch(Arc<dyn Observer>, SyncSender<()>),
}

/// What comes of a request.
pub(crate) enum Answer {
    /// All that there is to say.
    Whole(Response),
    /// A table, whose rows whoever asked takes one piece after the other, while others are answered.
    Table {
        /// Keys of the rows, in order of display.
        columns: Vec<String>,
        /// When it was asked for, nanoseconds on the engine's clock.
        time: u64,
        /// The rows.
        rows: Box<dyn ShowRows>,
    },
    /// A text, of which whoever asked takes one piece after the other in the same way.
    Text(Box<dyn Iterator<Item = String> + Send>),
    /// A configuration that whoever asked is to read, while others are answered, and to come back with.
    Reload(Reload),
    /// A configuration that whoever asked is to see in place first, in the same way, before making the request again.
    First(Box<Reload>, Request),
    /// Functions that whoever asked is to build in the same way.
    Build(Arc<Aside>),
    /// Changes of functions that whoever asked is to carry out in the same way.
    Change(Left),
}

/// What a watcher must know.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scene {
    /// Now, nanoseconds of the engine's clock.
    pub(crate) now: u64,
    /// The ports' indices and names.
    pub(crate) ports: Vec<(u16, String)>,
}

/// Bounds of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Clients at once.
    pub(crate) clients: usize,
    /// How many of these places are for those who may change something.
    pub(crate) kept: usize,
    /// Bytes of a request.
    pub(crate) request: usize,
    /// How long a client may take to begin with its first request, and to come to the end of any.
    pub(crate) begin: Duration,
    /// How long a client may leave an answer unread.
    pub(crate) write: Duration,
    /// How long a client may say nothing after its first request.
    pub(crate) silence: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            clients: 32,
            kept: 4,
            request: protocol::MAX_REQUEST,
            begin: Duration::from_secs(10),
            write: Duration::from_secs(10),
            silence: Duration::from_secs(600),
        }
    }
}

/// The control socket, from start to end: what takes clients in may fail and come again meanwhile, and those that are served do not notice.
pub(crate) struct Server {
    shared: Arc<Shared>,
}

/// What those who serve clients have in common.
struct Shared {
    jobs: SyncSender<Job>,
    limits: Limits,
    /// Where clients come in.
    door: Door,
    /// Clients that are served.
    guests: Arc<Guests>,
    /// Clients that are being answered, those that watch packets among them.
    answering: AtomicUsize,
    /// Whether the server is about to end.
    stop: AtomicBool,
}

/// How long clients that are being answered have to take their leave when the server ends.
const LEAVE: Duration = Duration::from_secs(2);

impl Server {
    /// A server, and the service that takes clients in. Jobs go to `jobs`; when nobody receives them any more, clients are told that Weir
    /// stops.
    pub(crate) fn new(
        bound: Bound,
        jobs: SyncSender<Job>,
        limits: Limits,
    ) -> std::io::Result<(Server, Box<dyn MakeService>)> {
        let door = Door::new(bound)?;
        let (guests, answering) = (Arc::default(), AtomicUsize::new(0));
        let shared = Arc::new(Shared { jobs, limits, door, guests, answering, stop: AtomicBool::new(false) });
        Ok((Server { shared: Arc::clone(&shared) }, Box::new(Admission(shared))))
    }
}

impl Drop for Server {
    /// Takes no more clients, removes the socket's file, and lets those that are being answered come to the end: the process may be
    /// another program a moment later.
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.door.close();
        let pause = Duration::from_millis(5);
        let mut waited = Duration::ZERO;
        while self.shared.answering.load(Ordering::Acquire) > 0 && waited < LEAVE {
            std::thread::park_timeout(pause);
            waited += pause;
        }
    }
}

/// One of those that are counted, as long as it lives.
struct Counted<'a>(&'a AtomicUsize);

impl Counted<'_> {
    fn new(count: &AtomicUsize) -> Counted<'_> {
        count.fetch_add(1, Ordering::AcqRel);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Says a last word, if the client still listens.
fn say(mut stream: &UnixStream, response: Response) {
    if let Ok(line) = protocol::line(&Reply::new(response)) {
        drop(stream.write_all(&line));
    }
}

#[cfg(test)]
mod tests;
