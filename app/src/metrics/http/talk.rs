//! One client of the metrics, from its request to the end of the answer, as far as it goes without waiting.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// The longest request with its headers, bytes.
const MAX_REQUEST: usize = 8192;

/// What a client asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// The metrics; only the head of the answer when `head`.
    Metrics { head: bool },
    /// Another page.
    Elsewhere,
    /// Something else than reading a page.
    Method,
    /// No HTTP.
    Nonsense,
}

/// An answer, which several clients may have in common.
#[derive(Clone)]
pub(super) struct Text {
    bytes: Arc<Vec<u8>>,
    /// Where its head ends.
    head: usize,
}

impl Text {
    /// An answer with a status, a content type, and a body.
    pub(super) fn new(status: &str, kind: &str, body: &str) -> Text {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nAllow: GET, HEAD\r\n\
             Connection: close\r\n\r\n",
            body.len()
        );
        let bytes = [head.as_bytes(), body.as_bytes()].concat();
        Text { bytes: Arc::new(bytes), head: head.len() }
    }

    fn plain(status: &str, body: &str) -> Text {
        Text::new(status, "text/plain", body)
    }
}

/// How far a client has come.
enum Stage {
    /// Its request comes.
    Asks(Vec<u8>),
    /// It waits for the metrics; only for their head when `head`.
    Waits { head: bool },
    /// Its answer goes, up to `end`; so many bytes have gone.
    Hears { text: Text, end: usize, gone: usize },
}

/// A client.
pub(super) struct Client {
    pub(super) stream: Arc<TcpStream>,
    /// When it must have come to the end of what it is at.
    pub(super) until: u64,
    stage: Stage,
}

/// What is to become of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It stays.
    Stays,
    /// It is at the end, or gone.
    Leaves,
}

impl Client {
    /// One that has just come, which does not block.
    pub(super) fn new(stream: Arc<TcpStream>, until: u64) -> Client {
        Client { stream, until, stage: Stage::Asks(Vec::new()) }
    }

    /// Whether something is to be read from it.
    pub(super) fn asks(&self) -> bool {
        matches!(self.stage, Stage::Asks(_))
    }

    /// Whether it waits for the metrics.
    pub(super) fn waits(&self) -> bool {
        matches!(self.stage, Stage::Waits { .. })
    }

    /// Whether something is to be written to it.
    pub(super) fn hears(&self) -> bool {
        matches!(self.stage, Stage::Hears { .. })
    }

    /// Gives it an answer, if it waits for one, and until when to take it.
    pub(super) fn tell(&mut self, text: &Text, until: u64) {
        if let Stage::Waits { head } = self.stage {
            self.hear(text.clone(), head, until);
        }
    }

    fn hear(&mut self, text: Text, only_head: bool, until: u64) {
        let end = if only_head { text.head } else { text.bytes.len() };
        self.stage = Stage::Hears { text, end, gone: 0 };
        self.until = until;
    }

    /// Goes on as far as it can. An answer is to be taken until `until`.
    pub(super) fn go_on(&mut self, until: u64) -> Next {
        let done = match &mut self.stage {
            Stage::Asks(request) => match read(&self.stream, request) {
                Ok(true) => {
                    let ask = ask_of(request);
                    self.judge(&ask, until);
                    return self.go_on(until);
                }
                other => other,
            },
            Stage::Waits { .. } => Ok(false),
            Stage::Hears { text, end, gone } => write(&self.stream, text.bytes.get(..*end).unwrap_or_default(), gone),
        };
        // A client that leaves early harms only itself.
        if matches!(done, Ok(false)) { Next::Stays } else { Next::Leaves }
    }

    fn judge(&mut self, ask: &Ask, until: u64) {
        let text = match ask {
            Ask::Metrics { head } => {
                (self.stage, self.until) = (Stage::Waits { head: *head }, until);
                return;
            }
            Ask::Elsewhere => Text::plain("404 Not Found", "metrics are at /metrics\n"),
            Ask::Method => Text::plain("405 Method Not Allowed", "only GET is understood\n"),
            Ask::Nonsense => Text::plain("400 Bad Request", "this is not HTTP\n"),
        };
        self.hear(text, false, until);
    }
}

/// Reads what has come of a request, up to the empty line that ends it, or as much as may come. Whether that is all.
fn read(mut stream: &TcpStream, request: &mut Vec<u8>) -> io::Result<bool> {
    let mut piece = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") && request.len() < MAX_REQUEST {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => request.extend_from_slice(piece.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Writes what there is room for. Whether that was the rest.
fn write(mut stream: &TcpStream, bytes: &[u8], gone: &mut usize) -> io::Result<bool> {
    while let Some(rest) = bytes.get(*gone..).filter(|rest| !rest.is_empty()) {
        match stream.write(rest) {
            Ok(n) => *gone += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// RFC 9112, section 3: `request-line = method SP request-target SP HTTP-version`.
pub(super) fn ask_of(request: &[u8]) -> Ask {
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
