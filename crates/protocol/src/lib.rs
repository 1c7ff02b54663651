//! What a client and a running Weir say to each other: JSON, one line each, over a UNIX socket.
//!
//! A client sends [`Call`]s; each is answered by one [`Reply`], or, for traces, captures, long tables and what is saved, by
//! several: all but the last are [`Response::Traced`], [`Response::Captured`], or [`Response::Rows`] or [`Response::Text`] with
//! `more`. `docs/json.md` describes them.

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_config::ConfigError;

/// The version of the protocol and of all `--json` output. It changes when something is taken away or changes its meaning; new
/// keys may come without.
pub const VERSION: u32 = 1;

/// The longest request, bytes with its line end: a batch of changes must fit.
pub const MAX_REQUEST: usize = 16 << 20;

/// The longest line of an answer that a client reads, bytes.
pub const MAX_REPLY: usize = 64 << 20;

/// Changes that one request may hold.
pub const MAX_CHANGES: usize = 65_536;

/// A request on its way.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The client's [`VERSION`].
    pub version: u32,
    /// What it wants.
    pub request: Request,
}

/// What a client can ask for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// All numbers: answers with data, see `docs/json.md`.
    Stats,
    /// The ports: answers with rows.
    Ports,
    /// Stages and wires: answers with data.
    Graph,
    /// What runs: answers with data.
    Version,
    /// A table of a function.
    Show {
        /// The table: `routes`.
        what: String,
        /// The function's name, where several have such a table.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        function: Option<String>,
        /// A word that selects rows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filter: Option<String>,
    },
    /// Changes that a function carries out in order, all of them or none.
    Change {
        /// The verb's name: `route add`.
        verb: String,
        /// The function's name, where several know the verb.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        function: Option<String>,
        /// The arguments of each change, by name.
        changes: Vec<Value>,
    },
    /// Replaces the configuration.
    Reload {
        /// The new script; the running one is read again when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        script: Option<Script>,
        /// Says what would be done and does nothing.
        #[serde(default)]
        dry_run: bool,
        /// Allows what takes a restart of the whole process.
        #[serde(default)]
        allow_restart: bool,
    },
    /// What was added at run time: answers with the text of a script.
    Save,
    /// Follows packets through the stages.
    Trace {
        /// Packets to follow.
        count: u32,
        /// Which ones; all when empty.
        #[serde(default)]
        filter: String,
    },
    /// Copies packets that pass a point.
    Capture {
        /// A port's name, or a stage and its way or reason: `STAGE.WAY`.
        point: String,
        /// Which ones; all when empty.
        #[serde(default)]
        filter: String,
        /// Stops after so many packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<u64>,
        /// Bytes of each packet to copy.
        #[serde(default = "whole_frame")]
        snap: u32,
    },
    /// What is written to the log: answers with the level.
    Log {
        /// What is written from now on; as before when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        level: Option<Level>,
    },
    /// Stops as SIGTERM does.
    Stop,
    /// Lets a service fail, so that a test sees what comes of it: builds for tests only.
    Torment {
        /// The service's name.
        service: String,
        /// How it is to fail.
        fault: Fault,
    },
}

/// How a service fails for a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// It panics.
    Panic,
    /// Its step does not end.
    Hang,
}

/// How much a line of the log matters; a log has the lines of its level and of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Something does not work.
    Error,
    /// Somebody should look at it.
    Warn,
    /// People may want to know it.
    Info,
    /// What is looked for when something is wrong.
    Debug,
}

impl Level {
    /// All levels, the one that matters most first.
    pub const ALL: [Level; 4] = [Level::Error, Level::Warn, Level::Info, Level::Debug];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

/// The bytes of a packet that a capture copies when nobody says: all.
fn whole_frame() -> u32 {
    65_535
}

impl Request {
    /// Whether carrying it out takes the right to change.
    pub fn changes(&self) -> bool {
        match self {
            Request::Change { .. } | Request::Reload { .. } | Request::Stop | Request::Torment { .. } => true,
            Request::Log { level } => level.is_some(),
            // A trace or capture shows what others send, which counts as more than numbers.
            Request::Trace { .. } | Request::Capture { .. } => true,
            Request::Stats
            | Request::Ports
            | Request::Graph
            | Request::Version
            | Request::Show { .. }
            | Request::Save => false,
        }
    }
}

/// A script that a client means, by the folder in which it lies.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Its path as the user wrote it: its last part names it in its folder, the whole is for messages.
    pub file: String,
    /// Its folder, opened by the client and passed beside the request as a descriptor; nothing outside it is read.
    #[serde(skip)]
    pub folder: Option<Arc<OwnedFd>>,
}

/// An answer on its way.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reply {
    /// The server's [`VERSION`].
    pub version: u32,
    /// What it says.
    pub response: Response,
}

impl Reply {
    /// An answer of this version.
    pub fn new(response: Response) -> Reply {
        Reply { version: VERSION, response }
    }
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Response {
    /// Done; the value depends on the request.
    Ok(Value),
    /// Rows of a table.
    Rows {
        /// Keys of the rows, in order of display.
        columns: Vec<String>,
        /// Objects with these keys.
        rows: Vec<Value>,
        /// When the table was asked for, nanoseconds on the engine's clock: what rates are reckoned by.
        #[serde(default)]
        time: u64,
        /// Whether another line with more rows follows.
        #[serde(default)]
        more: bool,
    },
    /// A piece of a text, which is whole only with the last one.
    Text {
        /// What follows the pieces before.
        text: String,
        /// Whether another line with more text follows.
        #[serde(default)]
        more: bool,
    },
    /// Refused; nothing has changed. Of several changes the message names the one that is why: `entry 3: ...`.
    Error {
        /// What is wrong and what to do.
        message: String,
        /// What is wrong with a configuration, each mistake.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        errors: Vec<ConfigError>,
    },
    /// Steps of followed packets; more lines follow.
    Traced(Vec<Step>),
    /// Copied packets; more lines follow.
    Captured(Vec<Copied>),
}

impl Response {
    /// A refusal in one sentence.
    pub fn refused(message: impl Into<String>) -> Response {
        Response::Error { message: message.into(), errors: Vec::new() }
    }

    /// An answer that is data.
    pub fn data(data: &impl Serialize) -> Response {
        match serde_json::to_value(data) {
            Ok(value) => Response::Ok(value),
            Err(error) => Response::refused(format!("the answer cannot be written as JSON: {error}")),
        }
    }
}

/// Something that happened to a followed packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The packet's number in this trace, from 1.
    pub packet: u32,
    /// When, nanoseconds of the engine's clock.
    pub time: u64,
    /// What happened: `received`, `left`, `taken`, `created`, `transmitted` or `dropped`.
    pub event: String,
    /// The stage or port.
    pub place: String,
    /// The way or reason, where there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub way: String,
    /// What became of it: `way`, `drop`, `consume`, `create` or `again`, where it left a stage.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fate: String,
    /// What the stage decided, where its function can say: the route that the packet takes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The packet in words; of one that a stage holds, those of the step before.
    pub bytes: String,
}

/// A copied packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// When, nanoseconds since 1970 (UTC).
    pub time: u64,
    /// The port, or `STAGE.WAY`.
    pub place: String,
    /// Whether it went out of a port; false for one that came in; absent at a way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outbound: Option<bool>,
    /// Its length on the wire, bytes.
    pub length: u32,
    /// Its first bytes, as hexadecimal digits.
    pub data: String,
}

/// What the peer of a connection may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Whether it may look at numbers and tables.
    pub read: bool,
    /// Whether it may change anything or look at packets.
    pub change: bool,
}

impl Rights {
    /// Of root and of the user who started Weir.
    pub const ALL: Rights = Rights { read: true, change: true };
    /// Of members of the socket's group.
    pub const READ: Rights = Rights { read: true, change: false };

    /// Whether they suffice for a request.
    pub fn allow(self, request: &Request) -> bool {
        if request.changes() { self.change } else { self.read }
    }
}

/// Writes a line: the value as JSON, and a line end.
pub fn line(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// Reads a request. `Err` is what to tell the client.
pub fn read_call(line: &[u8]) -> Result<Request, String> {
    let call: Call = serde_json::from_slice(line).map_err(|error| {
        let version = serde_json::from_slice::<Value>(line).ok().and_then(|call| call.get("version")?.as_u64());
        match version {
            Some(other) if other != u64::from(VERSION) => wrong_version(other),
            _ => format!("the request is not understood: {error}; docs/json.md says how it is written"),
        }
    })?;
    if call.version != VERSION {
        return Err(wrong_version(u64::from(call.version)));
    }
    match &call.request {
        Request::Change { changes, .. } if changes.len() > MAX_CHANGES => {
            Err(format!("{} changes in one request; {MAX_CHANGES} are possible; send several requests", changes.len()))
        }
        _ => Ok(call.request),
    }
}

fn wrong_version(other: u64) -> String {
    format!(
        "the request is of version {other} of the protocol, this Weir speaks version {VERSION}; use its own program"
    )
}

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes behind hexadecimal digits; `None` if they are none.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |&[high, low]: &[u8; 2]| u8::try_from((digit(high)? << 4) | digit(low)?).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn again(request: Request) -> Value {
        let call = Call { version: VERSION, request };
        let bytes = line(&call).unwrap();
        assert_eq!(bytes.last(), Some(&b'\n'));
        assert_eq!(bytes.iter().filter(|&&byte| byte == b'\n').count(), 1);
        let request = read_call(&bytes).unwrap();
        assert_eq!(format!("{request:?}"), format!("{:?}", call.request));
        serde_json::from_slice::<Value>(&bytes).unwrap()["request"].clone()
    }

    #[test]
    fn requests_are_written_as_documented() {
        assert_eq!(again(Request::Stats), json!("stats"));
        let show = Request::Show { what: "routes".into(), function: None, filter: Some("10.0.0.0/8".into()) };
        assert_eq!(again(show), json!({"show": {"what": "routes", "filter": "10.0.0.0/8"}}));
        let changes = vec![json!({"prefix": "10.0.0.0/8", "via": ["192.0.2.1"]})];
        let change = Request::Change { verb: "route add".into(), function: None, changes: changes.clone() };
        assert_eq!(again(change), json!({"change": {"verb": "route add", "changes": changes}}));
        let reload = Request::Reload { script: None, dry_run: true, allow_restart: false };
        assert_eq!(again(reload), json!({"reload": {"dry_run": true, "allow_restart": false}}));
        let trace = Request::Trace { count: 3, filter: "icmp".into() };
        assert_eq!(again(trace), json!({"trace": {"count": 3, "filter": "icmp"}}));
        assert_eq!(again(Request::Log { level: Some(Level::Debug) }), json!({"log": {"level": "debug"}}));
    }

    #[test]
    fn defaults_may_be_left_out() {
        let read = |text: &str| read_call(format!(r#"{{"version":1,"request":{text}}}"#).as_bytes()).unwrap();
        let Request::Capture { snap, count, .. } = read(r#"{"capture":{"point":"wan"}}"#) else { panic!("another") };
        assert_eq!((snap, count), (65_535, None));
        assert!(matches!(
            read(r#"{"reload":{}}"#),
            Request::Reload { script: None, dry_run: false, allow_restart: false }
        ));
    }

    #[test]
    fn wrong_requests_are_told_why() {
        let error = |text: &str| read_call(text.as_bytes()).unwrap_err();
        assert!(error(r#"{"version":2,"request":"anything"}"#).contains("version 2"));
        assert!(error(r#"{"version":2,"request":"stats"}"#).contains("speaks version 1"));
        assert!(error(r#"{"version":1,"request":"statistics"}"#).contains("unknown variant `statistics`"));
        assert!(error(r#"{"version":1,"request":{"show":{"wat":"x"}}}"#).contains("unknown field `wat`"));
        assert!(error("").contains("not understood"));
        let many = Request::Change { verb: "x".into(), function: None, changes: vec![Value::Null; MAX_CHANGES + 1] };
        let bytes = line(&Call { version: VERSION, request: many }).unwrap();
        assert!(read_call(&bytes).unwrap_err().contains("65536 are possible"));
    }

    #[test]
    fn levels_are_written_by_their_names() {
        for level in Level::ALL {
            assert_eq!(serde_json::to_value(level).unwrap(), json!(level.word()));
        }
        assert!(Level::ALL.is_sorted());
    }

    #[test]
    fn looking_and_changing_are_different_rights() {
        let stop = Request::Stop;
        let trace = Request::Trace { count: 1, filter: String::new() };
        assert!(Rights::ALL.allow(&stop) && Rights::ALL.allow(&Request::Stats));
        assert!(Rights::READ.allow(&Request::Stats) && !Rights::READ.allow(&stop) && !Rights::READ.allow(&trace));
        assert!(Rights::READ.allow(&Request::Log { level: None }));
        assert!(!Rights::READ.allow(&Request::Log { level: Some(Level::Debug) }));
        let none = Rights { read: false, change: false };
        assert!(!none.allow(&Request::Stats));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(read_call(&bytes));
        }

        #[test]
        fn hex_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..100), text in ".{0,8}") {
            prop_assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
            if let Some(bytes) = from_hex(&text) {
                prop_assert_eq!(to_hex(&bytes), text.to_lowercase());
            }
        }
    }
}
