mod tables;

use super::*;
use crate::client::{Client, ClientError};
use crate::services::{self, Services};
use crate::socket;
use crate::torment;
use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use tables::{Broken, GATE, Slow};
use weir_engine::{Event, What};
use weir_protocol::{Copied, Script, Step};

/// A server over a stand-in for the data plane, whose socket lies in a folder of its own.
struct Stand {
    path: PathBuf,
    observers: Arc<Mutex<Vec<Arc<dyn Observer>>>>,
    // In this order: nobody is taken in any more when the server ends.
    _services: Services,
    _server: Server,
}

/// How long anything may take that is to happen, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(60);

const LIMITS: Limits =
    Limits { clients: 3, kept: 1, request: 10_000, begin: PATIENCE, write: PATIENCE, silence: PATIENCE };

impl Stand {
    fn new(name: &str) -> Stand {
        Stand::with(name, LIMITS)
    }

    fn with(name: &str, limits: Limits) -> Stand {
        let path = std::env::temp_dir().join(format!("weir-server-{}-{name}.sock", std::process::id()));
        let (jobs, todo) = sync_channel(8);
        let observers: Arc<Mutex<Vec<Arc<dyn Observer>>>> = Arc::default();
        let watching = Arc::clone(&observers);
        std::thread::spawn(move || {
            for job in todo {
                match job {
                    Job::Ask { request, reply, .. } => reply.send(answer(request)),
                    Job::TakeOver(_, reply) | Job::PutInPlace(_, reply) | Job::Finish(_, reply) => {
                        drop(reply.send(Answer::Whole(Response::refused("no script runs here"))))
                    }
                    Job::Scene(reply) => {
                        drop(reply.send(Scene { now: 5, ports: vec![(0, "wan".to_owned())] }));
                    }
                    Job::Explain(decisions, reply) => {
                        drop(reply.send(decisions.iter().map(|decided| Some(format!("by {}", decided.way))).collect()));
                    }
                    Job::Watch(observer, reply) => {
                        observer.all_tell();
                        watching.lock().unwrap().push(observer);
                        let _ = reply.send(());
                    }
                    Job::Unwatch(observer, reply) => {
                        watching.lock().unwrap().retain(|other| !Arc::ptr_eq(other, &observer));
                        let _ = reply.send(());
                    }
                }
            }
        });
        let (server, maker) = Server::new(socket::bind(&path).unwrap(), jobs, limits).unwrap();
        let services = Services::start(vec![maker], services::Limits::default()).unwrap();
        Stand { path, observers, _services: services, _server: server }
    }

    fn client(&self) -> Client {
        Client::connect(&self.path).unwrap()
    }

    fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn tell(&self, bytes: &[u8], what: What<'_>) {
        for observer in self.observers.lock().unwrap().iter() {
            observer.event(&Event { now: 9, packet: 64, bytes, what });
        }
    }

    fn watchers(&self) -> usize {
        self.observers.lock().unwrap().len()
    }
}

/// What the stand-in saves: more in one piece than a socket holds, and more in all than a client reads at once.
const SAVED: (usize, usize) = (9, 8 << 20);

fn answer(request: Request) -> Answer {
    if matches!(request, Request::Save) {
        return Answer::Text(Box::new((0..SAVED.0).map(|n| n.to_string().repeat(SAVED.1))));
    }
    let Request::Show { what, .. } = request else { return Answer::Whole(stand_in(request)) };
    let columns = vec!["n".to_owned()];
    if what == "broken" {
        return Answer::Table { columns, time: 7, rows: Box::new(Broken) };
    }
    if what == "slow" {
        return Answer::Table { columns, time: 7, rows: Box::new(Slow(3)) };
    }
    let rows = (0..what.parse().unwrap_or(0)).map(|n: u32| json!({ "n": n })).collect();
    Answer::Table { columns, time: 7, rows: weir_stage::whole(rows) }
}

fn stand_in(request: Request) -> Response {
    match request {
        Request::Graph => Response::data(&crate::graph::tests::small()),
        Request::Reload { script: Some(Script { folder: Some(folder), .. }), .. } => {
            Response::Ok(json!(name_of_first_file(&folder)))
        }
        Request::Reload { .. } => Response::Ok(Value::Null),
        other => Response::Ok(json!(format!("{other:?}"))),
    }
}

fn name_of_first_file(folder: &OwnedFd) -> String {
    let opened = rustix::fs::openat(folder, ".", rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
    let names = rustix::fs::Dir::read_from(opened).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.find(|name| !name.starts_with('.')).unwrap_or_default()
}

fn wait_until(what: impl Fn() -> bool) {
    for _ in 0..500 {
        if what() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("did not happen within five seconds");
}

fn read_line(stream: &UnixStream) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

#[test]
fn requests_are_answered_in_order() {
    let stand = Stand::new("order");
    let mut client = stand.client();
    assert_eq!(client.data(Request::Version).unwrap(), json!("Version"));
    assert_eq!(client.data(Request::Stats).unwrap(), json!("Stats"));
    let mut raw = stand.raw();
    raw.write_all(b"{\"version\":1,\"request\":\"stats\"}\n{\"version\":1,\"request\":\"ports\"}\n").unwrap();
    let lines: Vec<String> = BufReader::new(&raw).lines().take(2).map(Result::unwrap).collect();
    assert_eq!(lines, [r#"{"version":1,"response":{"ok":"Stats"}}"#, r#"{"version":1,"response":{"ok":"Ports"}}"#]);
}

#[test]
fn long_tables_come_in_pieces_and_whole() {
    let stand = Stand::new("tables");
    let mut client = stand.client();
    for wanted in [0, 1, 1024, 1025, 10_000] {
        let show = Request::Show { what: wanted.to_string(), function: None, filter: None };
        let Response::Rows { columns, rows, time, more } = client.ask(show).unwrap() else { panic!("no rows") };
        assert_eq!((columns.len(), rows.len(), time, more), (1, wanted, 7, false));
        assert!(rows.iter().enumerate().all(|(n, row)| row["n"] == json!(n)));
    }
}

#[test]
fn others_are_answered_while_a_table_is_told() {
    let stand = Stand::new("meanwhile");
    let (open, gate) = sync_channel(3);
    *GATE.lock().unwrap() = Some(gate);
    let mut reader = stand.client();
    let mut other = stand.client();
    reader.send(Request::Show { what: "slow".to_owned(), function: None, filter: None }).unwrap();
    for _ in 0..3 {
        // A piece is being made, which ends only when the gate opens: after others were answered.
        assert_eq!(other.data(Request::Stats).unwrap(), json!("Stats"));
        open.send(()).unwrap();
    }
    let mut rows = Vec::new();
    while let Response::Rows { rows: piece, more, .. } = reader.next().unwrap() {
        rows.extend(piece);
        if !more {
            break;
        }
    }
    assert_eq!(rows, [json!({"n": 2}), json!({"n": 1}), json!({"n": 0})]);

    // Whoever is being answered when the server ends hears the rest.
    reader.send(Request::Show { what: "slow".to_owned(), function: None, filter: None }).unwrap();
    // A piece is told when it is known whether another follows.
    (0..2).for_each(|_| open.send(()).unwrap());
    assert!(matches!(reader.next().unwrap(), Response::Rows { more: true, .. }));
    let opened = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&opened);
    let opening = std::thread::spawn(move || {
        std::thread::park_timeout(Duration::from_millis(50));
        told.store(true, Ordering::Relaxed);
        open.send(()).unwrap();
    });
    drop(stand);
    assert!(opened.load(Ordering::Relaxed), "the server ended in the middle of an answer");
    opening.join().unwrap();
}

#[test]
fn a_panic_disconnects_its_client_and_nobody_else() {
    let stand = Stand::new("panics");
    let mut other = stand.client();
    assert!(other.data(Request::Stats).is_ok());
    // More than there are places.
    for _ in 0..2 * LIMITS.clients {
        let show = Request::Show { what: "broken".to_owned(), function: None, filter: None };
        let end = stand.client().ask(show).unwrap_err();
        assert!(end.to_string().contains("closed the connection"), "{end}");
    }
    assert_eq!(other.data(Request::Stats).unwrap(), json!("Stats"));
}

#[test]
fn what_is_not_understood_is_said_and_the_client_stays() {
    let stand = Stand::new("wrong");
    let mut raw = stand.raw();
    raw.write_all(b"hello\n\xff\xfe\n{\"version\":9,\"request\":\"stats\"}\n").unwrap();
    let lines: Vec<String> = BufReader::new(&raw).lines().take(3).map(Result::unwrap).collect();
    assert!(lines[0].contains("not understood") && lines[1].contains("not understood"));
    assert!(lines[2].contains("version 9"));
    raw.write_all(b"{\"version\":1,\"request\":\"stats\"}\n").unwrap();
    assert!(read_line(&raw).contains("Stats"));
}

#[test]
fn a_line_without_end_is_cut_off() {
    let stand = Stand::new("long");
    let mut raw = stand.raw();
    drop(raw.write_all(&vec![b'x'; 200_000]));
    let mut all = String::new();
    drop(raw.read_to_string(&mut all));
    assert!(all.is_empty() || all.contains("longer than 10000 bytes"), "{all}");
    assert!(stand.client().data(Request::Stats).is_ok());
}

#[test]
fn one_client_too_many_is_turned_away() {
    let stand = Stand::new("many");
    let mut clients: Vec<Client> = (0..3).map(|_| stand.client()).collect();
    for client in &mut clients {
        client.send(Request::Trace { count: 5, filter: String::new() }).unwrap();
        client.next().unwrap();
    }
    let refused = stand.client().data(Request::Stats).unwrap_err();
    assert!(matches!(&refused, ClientError::Refused { message, .. } if message.starts_with("3 clients")), "{refused}");
    clients.pop();
    wait_until(|| stand.client().data(Request::Stats).is_ok());
}

#[test]
fn who_is_silent_makes_way_for_who_asks() {
    let stand = Stand::new("silent");
    let silent: Vec<UnixStream> = (0..10).map(|_| stand.raw()).collect();
    let mut client = stand.client();
    assert_eq!(client.data(Request::Stats).unwrap(), json!("Stats"));
    let mut told = String::new();
    (&silent[0]).read_to_string(&mut told).unwrap();
    assert!(told.contains("you had been silent"), "{told}");
}

#[test]
fn a_request_must_begin_and_end_in_time() {
    let impatient = Stand::with("begin", Limits { begin: Duration::from_millis(200), ..LIMITS });
    let mut end = Vec::new();
    assert_eq!(impatient.raw().read_to_end(&mut end).unwrap(), 0, "a client that says nothing is disconnected");
    let mut asked = impatient.client();
    assert!(asked.data(Request::Stats).is_ok());
    // A byte now and then is not enough.
    let mut slow = impatient.raw();
    let gone = (0..1_000).any(|_| {
        std::thread::park_timeout(Duration::from_millis(20));
        slow.write_all(b"x").is_err()
    });
    assert!(gone, "a request that does not end is not waited for");
    assert!(asked.data(Request::Stats).is_ok(), "who has asked may be silent for longer");
}

#[test]
fn bad_clients_keep_nobody_from_the_socket() {
    let limits =
        Limits { clients: 16, kept: 4, begin: Duration::from_secs(2), write: Duration::from_secs(2), ..LIMITS };
    let stand = Stand::with("torment", limits);
    torment::run(&torment::Target {
        connect: &|| torment::Bad::from(stand.raw()),
        pieces: &[
            b"{\"version\":1,\"request\":\"stats\"}\n",
            b"{\"version\":1,",
            b"{\"version\":1,\"request\":\"save\"}\n",
            b"\n\n\n",
            b"{\"version\":9,\"request\":\"stats\"}\n",
        ],
        good: &|| assert_eq!(stand.client().data(Request::Stats).unwrap(), json!("Stats")),
    });
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let impatient = Stand::with("slow", Limits { write: Duration::from_millis(300), ..LIMITS });
    let mut raw = impatient.raw();
    raw.write_all(b"{\"version\":1,\"request\":\"save\"}\n").unwrap();
    // It has not read a byte when it hears that the other side is gone.
    let patience = Timespec::try_from(PATIENCE).unwrap();
    let mut gone = [PollFd::new(&raw, PollFlags::HUP)];
    assert_eq!(poll(&mut gone, Some(&patience)).unwrap(), 1);
    let mut all = Vec::new();
    drop(raw.read_to_end(&mut all));
    assert!(!all.is_empty() && all.len() < 8 << 20, "{} bytes came", all.len());
}

#[test]
fn a_text_longer_than_any_line_comes_in_pieces() {
    let stand = Stand::new("text");
    let mut client = stand.client();
    let (mut pieces, mut length) = (0, 0);
    let told = client.text::<ClientError>(Request::Save, |piece| {
        assert!(piece.bytes().all(|byte| usize::from(byte - b'0') == pieces));
        pieces += 1;
        length += piece.len();
        Ok(())
    });
    assert!(told.is_ok() && length > weir_protocol::MAX_REPLY);
    assert_eq!((pieces, length), (SAVED.0, SAVED.0 * SAVED.1));
    assert!(client.data(Request::Stats).is_ok());
}

#[test]
fn a_text_that_breaks_off_is_an_error() {
    let path = std::env::temp_dir().join(format!("weir-server-{}-cut.sock", std::process::id()));
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_line(&stream);
        let piece = Response::Text { text: "one".to_owned(), more: true };
        stream.write_all(&protocol::line(&Reply::new(piece)).unwrap()).unwrap();
    });
    let mut told = String::new();
    let end = Client::connect(&path).unwrap().text::<ClientError>(Request::Save, |piece| {
        told.push_str(piece);
        Ok(())
    });
    serving.join().unwrap();
    std::fs::remove_file(path).unwrap();
    assert_eq!(told, "one");
    assert!(end.unwrap_err().to_string().contains("closed the connection"));
}

#[test]
fn descriptors_go_with_a_script() {
    let stand = Stand::new("folder");
    let folder = std::env::temp_dir().join(format!("weir-folder-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("routes.csv"), "").unwrap();
    let descriptor = OwnedFd::from(std::fs::File::open(&folder).unwrap());
    let script = Script { file: "a.lua".repeat(1000), folder: Some(Arc::new(descriptor)) };
    let reload = |script| Request::Reload { script: Some(script), dry_run: true, allow_restart: false };
    let mut client = stand.client();
    assert_eq!(client.data(reload(script.clone())).unwrap(), json!("routes.csv"));
    let without = Script { folder: None, ..script };
    assert_eq!(client.data(reload(without)).unwrap(), Value::Null);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn traces_come_line_by_line_and_end() {
    let stand = Stand::new("trace");
    let mut client = stand.client();
    client.send(Request::Trace { count: 1, filter: String::new() }).unwrap();
    assert_eq!(client.next().unwrap(), Response::Traced(Vec::new()));
    assert_eq!(stand.watchers(), 1);
    stand.tell(&[0; 60], What::Received { port: 0 });
    stand.tell(&[0; 60], What::Transmitted { port: 0 });
    let mut steps: Vec<Step> = Vec::new();
    let end = loop {
        match client.next().unwrap() {
            Response::Traced(more) => steps.extend(more),
            other => break other,
        }
    };
    assert_eq!(steps.iter().map(|step| step.event.as_str()).collect::<Vec<_>>(), ["received", "transmitted"]);
    assert_eq!(end, Response::Ok(json!({ "packets": 1, "missed": 0 })));
    assert_eq!(stand.watchers(), 0);
    assert!(client.data(Request::Stats).is_ok());
}

#[test]
fn captures_end_when_the_client_has_enough() {
    let stand = Stand::new("capture");
    let mut client = stand.client();
    let capture = |point: &str| Request::Capture { point: point.into(), filter: "".into(), count: None, snap: 100 };
    let refused = client.ask(capture("wann")).unwrap_err();
    assert!(refused.to_string().ends_with("did you mean wan?"), "{refused}");
    client.send(capture("wan")).unwrap();
    assert_eq!(client.next().unwrap(), Response::Captured(Vec::new()));
    stand.tell(&[7; 60], What::Received { port: 0 });
    client.enough().unwrap();
    let mut copies: Vec<Copied> = Vec::new();
    let end = loop {
        match client.next().unwrap() {
            Response::Captured(more) => copies.extend(more),
            other => break other,
        }
    };
    assert_eq!(copies.iter().map(|copy| copy.length).collect::<Vec<_>>(), [60]);
    assert_eq!(end, Response::Ok(json!({ "packets": 1, "missed": 0 })));
}

#[test]
fn a_watcher_that_goes_is_forgotten() {
    let stand = Stand::new("gone");
    let mut client = stand.client();
    client.send(Request::Trace { count: 5, filter: "udp".into() }).unwrap();
    client.next().unwrap();
    assert_eq!(stand.watchers(), 1);
    drop(client);
    wait_until(|| stand.watchers() == 0);
    let refused = stand.client().ask(Request::Trace { count: 0, filter: "".into() }).unwrap_err();
    assert!(refused.to_string().contains("say a number from 1"));
    let refused = stand.client().ask(Request::Trace { count: 1, filter: "udp and".into() }).unwrap_err();
    assert!(refused.to_string().contains("column"), "{refused}");
}

#[test]
fn watchers_take_their_leave_when_the_server_ends() {
    let stand = Stand::new("leave");
    let mut client = stand.client();
    client.send(Request::Trace { count: 5, filter: String::new() }).unwrap();
    client.next().unwrap();
    stand.tell(&[0; 60], What::Received { port: 0 });
    drop(stand);
    let mut steps = 0;
    let end = loop {
        match client.next().unwrap() {
            Response::Traced(more) => steps += more.len(),
            other => break other,
        }
    };
    assert_eq!((steps, end), (1, Response::Ok(json!({ "packets": 1, "missed": 0 }))));
}

#[test]
fn the_file_goes_with_the_server() {
    let stand = Stand::new("file");
    let path = stand.path.clone();
    assert!(Path::new(&path).exists());
    drop(stand);
    assert!(!Path::new(&path).exists());
}

#[test]
fn garbage_is_answered_line_by_line() {
    let stand = Stand::with("garbage", Limits { clients: 1000, ..LIMITS });
    let line = proptest::collection::vec(any::<u8>(), 0..80);
    proptest!(ProptestConfig::with_cases(64), |(lines in proptest::collection::vec(line, 1..8))| {
        let mut raw = stand.raw();
        let mut sent = Vec::new();
        for line in &lines {
            sent.extend(line.iter().filter(|&&byte| byte != b'\n'));
            sent.push(b'\n');
        }
        raw.write_all(&sent).unwrap();
        let answers = BufReader::new(&raw).lines().take(lines.len()).map(Result::unwrap);
        for answer in answers.collect::<Vec<_>>() {
            prop_assert!(answer.starts_with(r#"{"version":1,"response":{"error":"#), "{}", answer);
        }
    });
}
