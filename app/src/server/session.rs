//! One client, from its first request to its last.

use std::cell::RefCell;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;
use weir_engine::Observer;
use weir_filter::Filter;

use super::audit::{Asked, Audit};
use super::following::Following;
use super::guests::Entry;
use super::lines::{Lines, Next};
use super::reload::{self, STOPPING};
use super::{Answer, Counted, Job, Scene, Shared};
use crate::capture::{Copier, Point};
use crate::graph::GraphView;
use crate::log;
use crate::trace::{Decision, MAX_PACKETS, Tracer};
use weir_protocol::{self as protocol, Reply, Request, Response, Rights, read_call};

/// Packets or steps that one line of an answer holds at most.
const EVENTS: usize = 256;

/// How long a watcher waits for something to happen before it looks after its client.
const LOOK: Duration = Duration::from_millis(50);

struct Session<'a> {
    stream: &'a UnixStream,
    shared: &'a Shared,
    rights: Rights,
    audit: Audit,
}

/// Serves a client until it leaves or misbehaves.
pub(super) fn serve(stream: &UnixStream, rights: Rights, shared: &Shared, entry: &Entry) {
    let session = Session { stream, shared, rights, audit: Audit::of(stream) };
    let limits = shared.limits;
    let mut lines = Lines::new(stream, limits.request, limits.begin);
    let mut silence = limits.begin;
    loop {
        let line = match lines.next(silence) {
            Next::Line(line) => line,
            Next::TooLong => {
                let message = format!("the request is longer than {} bytes; send several", shared.limits.request);
                drop(session.write(Response::refused(message)));
                return;
            }
            Next::End => return,
        };
        entry.busy();
        silence = limits.silence;
        let done = match read_call(&line.bytes) {
            Ok(request) => session.answer(with_folder(request, line.descriptor)),
            Err(message) => session.write(Response::refused(message)),
        };
        if let Err(error) = done {
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
                log::warn("socket", "a client was disconnected that did not read its answer", &[]);
            }
            return;
        }
        entry.idle();
    }
}

fn with_folder(mut request: Request, descriptor: Option<OwnedFd>) -> Request {
    if let Request::Reload { script: Some(script), .. } = &mut request {
        script.folder = descriptor.map(Arc::new);
    }
    request
}

impl Session<'_> {
    fn answer(&self, request: Request) -> io::Result<()> {
        let asked = Asked::of(&request);
        if !self.rights.allow(&request) {
            self.audit.forbidden(&asked);
            let what = if request.changes() { "change anything or look at packets" } else { "ask" };
            let message = format!("you may not {what} here; be the user who started Weir, or root");
            return self.write(Response::refused(message));
        }
        let _answering = Counted::new(&self.shared.answering);
        let watched = match request {
            Request::Trace { count, filter } => self.trace(count, &filter),
            Request::Capture { point, filter, count, snap } => self.capture(&point, &filter, count, snap),
            other => {
                let answer = self.carry_out(other);
                self.audit.answered(&asked, &answer);
                return self.write_answer(answer);
            }
        };
        match watched {
            Ok(done) => done,
            Err(refused) => self.write(Response::refused(refused)),
        }
    }

    /// Hands a job over, and waits for what comes of it.
    fn hand<T>(&self, job: impl FnOnce(SyncSender<T>) -> Job) -> Option<T> {
        reload::hand(&self.shared.jobs, job)
    }

    fn carry_out(&self, request: Request) -> Answer {
        match request {
            request @ Request::Reload { .. } => reload::reload(&self.shared.jobs, request, self.rights),
            request @ Request::Change { .. } => reload::change(&self.shared.jobs, request, self.rights),
            other => self.ask(other),
        }
    }

    fn ask(&self, request: Request) -> Answer {
        let rights = self.rights;
        let answer = self.hand(|reply| Job::Ask { request, rights, reply: reply.into() });
        answer.unwrap_or_else(|| Answer::Whole(Response::refused(STOPPING)))
    }

    fn write(&self, response: Response) -> io::Result<()> {
        let mut stream = self.stream;
        stream.write_all(&protocol::line(&Reply::new(response))?)
    }

    /// Writes an answer; a long table or text in several lines, as its pieces come.
    fn write_answer(&self, answer: Answer) -> io::Result<()> {
        match answer {
            Answer::Whole(response) => self.write(response),
            Answer::Table { columns, time, mut rows } => {
                let pieces = std::iter::from_fn(|| Some(rows.piece()).filter(|piece| !piece.is_empty()));
                self.write_pieces(pieces, |rows, more| Response::Rows { columns: columns.clone(), rows, time, more })
            }
            Answer::Text(pieces) => self.write_pieces(pieces, |text, more| Response::Text { text, more }),
            Answer::Reload(_) | Answer::First(..) | Answer::Build(_) | Answer::Change(_) => {
                self.write(Response::refused("there is nothing to read here"))
            }
        }
    }

    /// Writes one line for each piece, and one where there is none.
    fn write_pieces<P: Default>(
        &self,
        mut pieces: impl Iterator<Item = P>,
        response: impl Fn(P, bool) -> Response,
    ) -> io::Result<()> {
        let mut piece = pieces.next().unwrap_or_default();
        for next in pieces {
            self.write(response(std::mem::replace(&mut piece, next), true))?;
        }
        self.write(response(piece, false))
    }

    fn scene(&self) -> Result<Scene, String> {
        self.hand(Job::Scene).ok_or_else(|| STOPPING.to_owned())
    }

    fn trace(&self, count: u32, filter: &str) -> Result<io::Result<()>, String> {
        if !(1..=MAX_PACKETS).contains(&count) {
            return Err(format!("{count} packets cannot be followed; say a number from 1 to {MAX_PACKETS}"));
        }
        let filter = parse(filter)?;
        let (tracer, steps) = Tracer::new(count, filter, self.scene()?.ports);
        let tracer = Arc::new(tracer);
        let following = RefCell::new(Following::default());
        let told = self.watch(
            &tracer,
            &steps,
            |seen| Response::Traced(following.borrow_mut().steps(seen, |decisions| self.explain(decisions))),
            |tracer| tracer.finished(),
        );
        let end = json!({ "packets": tracer.packets(), "missed": tracer.missed() });
        Ok(told.and_then(|()| self.write(Response::Ok(end))))
    }

    /// What stages decided; nothing where nobody can be asked any more.
    fn explain(&self, decisions: Vec<Decision>) -> Vec<Option<String>> {
        self.hand(|reply| Job::Explain(decisions, reply)).unwrap_or_default()
    }

    fn capture(&self, point: &str, filter: &str, count: Option<u64>, snap: u32) -> Result<io::Result<()>, String> {
        let filter = parse(filter)?;
        let scene = self.scene()?;
        let graph = match self.ask(Request::Graph) {
            Answer::Whole(Response::Ok(graph)) => serde_json::from_value::<GraphView>(graph).unwrap_or_default(),
            _ => GraphView::default(),
        };
        let point = Point::find(point, &scene.ports, &graph)?;
        let epoch = wall_clock().saturating_sub(scene.now);
        let (copier, copies) = Copier::new(point, filter, count, snap, epoch);
        let copier = Arc::new(copier);
        let told = self.watch(&copier, &copies, Response::Captured, |copier| copier.finished());
        let end = json!({ "packets": copier.packets(), "missed": copier.missed() });
        Ok(told.and_then(|()| self.write(Response::Ok(end))))
    }

    /// Watches packets until enough were seen, the client says that it has enough or is gone, or Weir stops.
    fn watch<O: Observer + 'static, T>(
        &self,
        observer: &Arc<O>,
        seen: &Receiver<T>,
        response: impl Fn(Vec<T>) -> Response,
        finished: impl Fn(&O) -> bool,
    ) -> io::Result<()> {
        let shared: Arc<dyn Observer> = Arc::<O>::clone(observer);
        // An empty line tells the client that the watch has begun.
        if self.hand(|reply| Job::Watch(Arc::clone(&shared), reply)).is_none() {
            return self.write(Response::refused(STOPPING));
        }
        let begun = self.write(response(Vec::new()));
        let told = begun.and_then(|()| self.pump(seen, &response, || finished(observer)));
        let _ = self.hand(|reply| Job::Unwatch(Arc::clone(&shared), reply));
        told.and_then(|()| self.drain(seen, &response))
    }

    fn pump<T>(
        &self,
        seen: &Receiver<T>,
        response: &impl Fn(Vec<T>) -> Response,
        finished: impl Fn() -> bool,
    ) -> io::Result<()> {
        let stops = || self.shared.stop.load(Ordering::Acquire);
        while !finished() && !self.client_is_done() && !stops() {
            let first = match seen.recv_timeout(LOOK) {
                Ok(first) => first,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let events = std::iter::once(first).chain(seen.try_iter().take(EVENTS - 1)).collect();
            self.write(response(events))?;
        }
        Ok(())
    }

    fn drain<T>(&self, seen: &Receiver<T>, response: &impl Fn(Vec<T>) -> Response) -> io::Result<()> {
        loop {
            let events: Vec<T> = seen.try_iter().take(EVENTS).collect();
            if events.is_empty() {
                return Ok(());
            }
            self.write(response(events))?;
        }
    }

    /// Whether the client has closed its end or said something: either means that it has seen enough.
    fn client_is_done(&self) -> bool {
        let mut watched = [PollFd::new(self.stream, PollFlags::IN | PollFlags::RDHUP)];
        poll(&mut watched, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}

fn parse(filter: &str) -> Result<Filter, String> {
    Filter::parse(filter).map_err(|error| format!("filter \"{filter}\": {error}"))
}

/// Nanoseconds since 1970, for the time stamps of captures.
#[allow(clippy::disallowed_methods, reason = "a capture file tells the time of the world")]
fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
