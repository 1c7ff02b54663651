//! Just enough of HTTP for metrics: one request per connection, one connection at a time, everything bounded.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use crate::log;
use crate::server::{Answer, Job};
use weir_protocol::{Request, Response, Rights};

/// The longest request with its headers, bytes.
const MAX_REQUEST: usize = 8192;

/// How long a client may take to send its request, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Serves metrics at `address` from here on, on a thread of its own. Returns the address it really listens on.
///
/// # Errors
///
/// The address cannot be listened on.
pub(crate) fn serve(address: SocketAddr, jobs: SyncSender<Job>) -> Result<SocketAddr, String> {
    let wrong = |error: io::Error| format!("cannot serve metrics at {address}: {error}; choose another with --metrics");
    let listener = TcpListener::bind(address).map_err(wrong)?;
    let bound = listener.local_addr().map_err(wrong)?;
    if !bound.ip().is_loopback() {
        log::warn("metrics", "metrics are served to other hosts, without a password", &[("address", &bound)]);
    }
    let body = move || {
        for stream in listener.incoming().flatten() {
            // A client that leaves early harms only itself.
            drop(answer(&stream, || metrics(&jobs)));
        }
    };
    std::thread::Builder::new().name("weir-metrics".to_owned()).spawn(body).map_err(wrong)?;
    Ok(bound)
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

fn answer(mut stream: &TcpStream, metrics: impl FnOnce() -> Option<String>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let ask = ask_of(&request(stream)?);
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
    stream.write_all(head.as_bytes())?;
    if ask == (Ask::Metrics { head: true }) { Ok(()) } else { stream.write_all(body.as_bytes()) }
}

/// The request with its headers, up to the empty line that ends them, or as much as may come.
fn request(mut stream: &TcpStream) -> io::Result<Vec<u8>> {
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn metrics_are_served() {
        let (jobs, todo) = sync_channel(1);
        let address = serve(SocketAddr::from(([127, 0, 0, 1], 0)), jobs).unwrap();
        std::thread::spawn(move || {
            for job in todo.iter().take(2) {
                if let Job::Ask { request: Request::Stats, rights, reply } = job {
                    assert_eq!(rights, Rights::READ);
                    reply.send(Answer::Whole(Response::data(&crate::stats::tests::example()))).unwrap();
                }
            }
        });
        let answer = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        assert!(body.contains("weir_account_received_packets_total 100\n"));
        assert!(ask(address, "HEAD /metrics HTTP/1.0\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(ask(address, "hello").starts_with("HTTP/1.1 400"));
        assert!(ask(address, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503"), "nobody answers any more");
        let taken = serve(address, sync_channel(1).0).unwrap_err();
        assert!(taken.contains("choose another with --metrics"), "{taken}");
    }

    proptest! {
        #[test]
        fn any_request_is_judged(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            ask_of(&bytes);
        }
    }
}
