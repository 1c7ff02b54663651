//! Just enough of HTTP for metrics: one request per connection, a few connections at once, everything bounded.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::log;
use crate::server::{Answer, Job};
use crate::spare::{Guest, Spare};
use weir_protocol::{Request, Response, Rights};

/// The longest request with its headers, bytes.
const MAX_REQUEST: usize = 8192;

/// Bounds of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections at once; for one more, the oldest is closed.
    pub(crate) connections: usize,
    /// How long a client may take to send its request, all of it, and to take the answer.
    pub(crate) patience: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 16, patience: Duration::from_secs(5) }
    }
}

/// Serves metrics at `address` from here on, on a thread of its own. Returns the address it really listens on.
///
/// # Errors
///
/// The address cannot be listened on.
pub(crate) fn serve(address: SocketAddr, jobs: SyncSender<Job>, limits: Limits) -> Result<SocketAddr, String> {
    let wrong = |error: io::Error| format!("cannot serve metrics at {address}: {error}; choose another with --metrics");
    let listener = TcpListener::bind(address).map_err(wrong)?;
    let bound = listener.local_addr().map_err(wrong)?;
    if !bound.ip().is_loopback() {
        log::warn("metrics", "metrics are served to other hosts, without a password", &[("address", &bound)]);
    }
    let body = move || accept(&listener, &jobs, limits);
    std::thread::Builder::new().name("weir-metrics".to_owned()).spawn(body).map_err(wrong)?;
    Ok(bound)
}

fn accept(listener: &TcpListener, jobs: &SyncSender<Job>, limits: Limits) {
    let (mut spare, open) = (Spare::new(), Arc::new(Open::default()));
    loop {
        match spare.accept(|| listener.accept().map(|(stream, _)| stream)) {
            Ok(Guest::Welcome(stream)) => open.serve(stream, jobs, limits),
            // There is no descriptor for it: it is closed at once.
            Ok(Guest::Refused(stream)) => drop(stream),
            // Usually too many open files: that passes only when somebody leaves.
            Err(_) => std::thread::park_timeout(Duration::from_millis(100)),
        }
    }
}

/// The connections that are open, and how many threads serve them.
#[derive(Default)]
struct Open {
    connections: Mutex<Connections>,
    /// Told when a thread ends.
    ended: Condvar,
}

#[derive(Default)]
struct Connections {
    /// Oldest first.
    streams: VecDeque<Arc<TcpStream>>,
    threads: usize,
}

impl Open {
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a client on a thread of its own.
    fn serve(self: &Arc<Self>, stream: TcpStream, jobs: &SyncSender<Job>, limits: Limits) {
        let stream = Arc::new(stream);
        if !self.admit(&stream, limits) {
            return;
        }
        let (open, jobs, theirs) = (Arc::clone(self), jobs.clone(), Arc::clone(&stream));
        let body = move || {
            // A client that leaves early harms only itself.
            drop(answer(&theirs, limits.patience, || metrics(&jobs)));
            open.forget(&theirs);
        };
        if std::thread::Builder::new().name("weir-scrape".to_owned()).spawn(body).is_err() {
            self.forget(&stream);
        }
    }

    /// Makes a place for a connection. False if too many threads of those that were closed do not end: they wait for Weir itself.
    fn admit(&self, stream: &Arc<TcpStream>, limits: Limits) -> bool {
        let many = |open: &mut Connections| open.threads >= 2 * limits.connections;
        let waited = self.ended.wait_timeout_while(self.lock(), limits.patience, many);
        let (mut open, late) = waited.unwrap_or_else(PoisonError::into_inner);
        if late.timed_out() {
            return false;
        }
        if open.streams.len() >= limits.connections
            && let Some(oldest) = open.streams.pop_front()
        {
            // Its thread finds the end of what it reads, or cannot write, and ends.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        open.streams.push_back(Arc::clone(stream));
        open.threads += 1;
        true
    }

    fn forget(&self, stream: &Arc<TcpStream>) {
        let mut open = self.lock();
        open.streams.retain(|other| !Arc::ptr_eq(other, stream));
        open.threads = open.threads.saturating_sub(1);
        drop(open);
        self.ended.notify_one();
    }
}

/// A connection with an end: what is not read or written until then is not waited for, however much came before.
struct Timed<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl<'a> Timed<'a> {
    fn new(stream: &'a TcpStream, patience: Duration) -> Timed<'a> {
        Timed { stream, until: now() + patience }
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

#[allow(clippy::disallowed_methods, reason = "a client is waited for, not packets")]
fn now() -> Instant {
    Instant::now()
}

impl Read for Timed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(into)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn metrics(jobs: &SyncSender<Job>) -> Option<String> {
    let (reply, answer) = sync_channel(1);
    jobs.send(Job::Ask { request: Request::Stats, rights: Rights::READ, reply }).ok()?;
    match answer.recv().ok()? {
        Answer::Whole(Response::Ok(stats)) => serde_json::from_value(stats).ok().map(|stats| super::text(&stats)),
        _ => None,
    }
}

/// What a client asks for.
#[derive(Debug, PartialEq, Eq)]
enum Ask {
    /// The metrics; only the head of the answer when `head`.
    Metrics { head: bool },
    /// Another page.
    Elsewhere,
    /// Something else than reading a page.
    Method,
    /// No HTTP.
    Nonsense,
}

fn answer(stream: &TcpStream, patience: Duration, metrics: impl FnOnce() -> Option<String>) -> io::Result<()> {
    let ask = ask_of(&request(Timed::new(stream, patience))?);
    let plain = |status, text: &str| (status, "text/plain", text.to_owned());
    let (status, kind, body) = match ask {
        Ask::Metrics { .. } => match metrics() {
            Some(text) => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", text),
            None => plain("503 Service Unavailable", "Weir is stopping\n"),
        },
        Ask::Elsewhere => plain("404 Not Found", "metrics are at /metrics\n"),
        Ask::Method => plain("405 Method Not Allowed", "only GET is understood\n"),
        Ask::Nonsense => plain("400 Bad Request", "this is not HTTP\n"),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nAllow: GET, HEAD\r\n\
         Connection: close\r\n\r\n"
    );
    let mut out = Timed::new(stream, patience);
    out.write_all(head.as_bytes())?;
    if ask == (Ask::Metrics { head: true }) { Ok(()) } else { out.write_all(body.as_bytes()) }
}

/// The request with its headers, up to the empty line that ends them, or as much as may come.
fn request(mut stream: impl Read) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut piece = [0; 1024];
    while !all.ends_with(b"\r\n\r\n") && all.len() < MAX_REQUEST {
        match stream.read(&mut piece)? {
            0 => break,
            n => all.extend_from_slice(piece.get(..n).unwrap_or_default()),
        }
    }
    Ok(all)
}

/// RFC 9112, section 3: `request-line = method SP request-target SP HTTP-version`.
fn ask_of(request: &[u8]) -> Ask {
    let line = request.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let words: Vec<&str> = std::str::from_utf8(line).unwrap_or_default().split(' ').collect();
    let whole = request.ends_with(b"\r\n\r\n");
    match words.as_slice() {
        [method, target, version] if whole && version.starts_with("HTTP/1.") => {
            let path = target.split('?').next().unwrap_or_default();
            match (*method, path) {
                ("GET", "/metrics") => Ask::Metrics { head: false },
                ("HEAD", "/metrics") => Ask::Metrics { head: true },
                ("GET" | "HEAD", _) => Ask::Elsewhere,
                _ => Ask::Method,
            }
        }
        _ => Ask::Nonsense,
    }
}

#[cfg(test)]
mod tests;
