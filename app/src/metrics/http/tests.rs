use super::talk::ask_of;
use super::*;
use crate::services::{self, Services};
use crate::torment;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::ops::Deref;
use std::sync::mpsc::sync_channel;

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Metrics at an address, as long as it lives.
struct Stand(SocketAddr, #[expect(dead_code, reason = "it serves until it is dropped")] Services);

impl Deref for Stand {
    type Target = SocketAddr;

    fn deref(&self) -> &SocketAddr {
        &self.0
    }
}

/// Metrics of a Weir that answers so many times.
fn stand(times: usize, limits: Limits) -> Stand {
    let (jobs, todo) = sync_channel(1);
    let (address, maker) = listen(SocketAddr::from(([127, 0, 0, 1], 0)), jobs, limits).unwrap();
    let services = Services::start(vec![maker], services::Limits::default()).unwrap();
    std::thread::spawn(move || {
        for job in todo.iter().take(times) {
            if let Job::Ask { request: Request::Stats, rights, reply } = job {
                assert_eq!(rights, Rights::READ);
                reply.send(Answer::Whole(Response::data(&crate::stats::tests::example())));
            }
        }
    });
    Stand(address, services)
}

/// How long anything may take that is to happen, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(60);

const GOOD: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn slow_clients_hold_nobody_up() {
    let address = stand(1, Limits { patience: PATIENCE, ..Limits::default() });
    let slow: Vec<TcpStream> = (0..100).map(|_| connect(*address)).collect();
    for mut stream in &slow {
        // Those that had to make way are gone.
        let _ = stream.write_all(b"GET /met");
    }
    assert!(ask(*address, GOOD).starts_with("HTTP/1.1 200 OK"));
}

#[test]
fn a_request_must_end_in_time() {
    let address = stand(1, Limits { patience: Duration::from_millis(200), ..Limits::default() });
    let mut stream = connect(*address);
    // A byte now and then is not enough.
    let gone = (0..1_000).any(|_| {
        std::thread::park_timeout(Duration::from_millis(20));
        stream.write_all(b"x").is_err()
    });
    assert!(gone);
}

#[test]
fn bad_clients_keep_nobody_from_the_metrics() {
    let address = stand(usize::MAX, Limits { connections: 8, patience: Duration::from_secs(2) });
    torment::run(&torment::Target {
        connect: &|| torment::Bad::from(connect(*address)),
        pieces: &[GOOD.as_bytes(), b"GET /metrics HTTP/1.1\r\n", b"\r\n\r\n", b"POST / HTTP/1.0\r\n\r\n"],
        good: &|| assert!(ask(*address, GOOD).starts_with("HTTP/1.1 200 OK")),
    });
}

#[test]
fn metrics_are_served() {
    let address = stand(2, Limits::default());
    let answer = ask(*address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())));
    assert!(body.contains("weir_account_received_packets_total 100\n"));
    assert!(ask(*address, "HEAD /metrics HTTP/1.0\r\n\r\n").ends_with("\r\n\r\n"));
    assert!(ask(*address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(ask(*address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    assert!(ask(*address, "hello").starts_with("HTTP/1.1 400"));
    assert!(ask(*address, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503"), "nobody answers any more");
    let taken = listen(*address, sync_channel(1).0, Limits::default()).map(|(address, _)| address).unwrap_err();
    assert!(taken.contains("choose another with --metrics"), "{taken}");
}

proptest! {
    #[test]
    fn any_request_is_judged(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        ask_of(&bytes);
    }
}
