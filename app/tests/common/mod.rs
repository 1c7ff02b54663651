//! A running program, a folder of its own for each test, and captures to feed it.
#![allow(dead_code, reason = "each test program uses some of it")]

pub(crate) mod everything;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

pub(crate) const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// Runs the program to its end.
pub(crate) fn weir(arguments: &[&str]) -> Output {
    Command::new(WEIR).args(arguments).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder that is gone after the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-test-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// What `weir check` says to a script, and whether nothing is wrong with it.
pub(crate) fn said(name: &str, script: &str) -> (String, bool) {
    let folder = Folder::new(name);
    let file = folder.write("weir.lua", script);
    let output = weir(&["check", file.to_str().unwrap()]);
    let words = format!("{}{}", text(&output.stdout), text(&output.stderr));
    (words.replace(file.to_str().unwrap(), "weir.lua"), output.status.success())
}

/// A Weir that runs a configuration of a folder.
pub(crate) struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    pub(crate) socket: String,
    log: String,
}

impl Running {
    /// Starts it and waits until it is ready.
    pub(crate) fn start(folder: &Folder, script: &str, more: &[&str]) -> Running {
        let file = folder.write("weir.lua", script);
        let (socket, log) = (folder.path("weir.sock"), folder.path("weir.log"));
        let mut child = Command::new(WEIR)
            .args(["run", file.to_str().unwrap(), "--socket", &socket, "--log", &log])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        if line != "ready\n" {
            let mut errors = String::new();
            child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
            panic!("it said {line:?} and: {errors}");
        }
        Running { child, out, socket, log }
    }

    /// Asks it by the command line.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Output {
        let (first, rest) = arguments.split_first().unwrap();
        weir(&[&[*first], rest, &["--socket", &self.socket]].concat())
    }

    /// Asks it by the command line, which must work.
    pub(crate) fn say(&self, arguments: &[&str]) -> String {
        let output = self.ask(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The same, as data.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let all = [arguments, &["--json"]].concat();
        serde_json::from_str(&self.say(&all)).unwrap()
    }

    /// Asks again and again until the answer is as it must become.
    pub(crate) fn wait_for(&self, arguments: &[&str], what: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        until(&format!("{arguments:?} is as it must become"), || {
            last = self.json(arguments);
            what(&last)
        });
        last
    }

    /// Asks it for its version until it answers: it may be starting again.
    pub(crate) fn wait_until_answers(&mut self) -> Value {
        let mut line = String::new();
        // Before it starts again it prints its last account; then `ready` comes.
        while line != "ready\n" {
            line.clear();
            assert!(self.out.read_line(&mut line).unwrap() > 0, "it ended: {}", self.log());
        }
        self.json(&["version"])
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal and returns what was printed after `ready`, and the exit status.
    pub(crate) fn stop_by(mut self, signal: &str) -> (String, Option<i32>) {
        let sent = Command::new("kill").args([&format!("-{signal}"), &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
        self.rest()
    }

    /// Waits for its end and returns what was printed after `ready`, and the exit status.
    pub(crate) fn rest(&mut self) -> (String, Option<i32>) {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (rest, self.child.wait().unwrap().code())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Waits until something has come about, for two minutes at most.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..2400 {
        if is_so() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    panic!("{what}: did not come about within two minutes");
}

/// Routes a capture that is replayed for ever, at a rate, to a port in memory.
pub(crate) const REPLAY: &str = r#"
    port { name = "lan", device = "mem:replay=in.pcap,rate=20 kpps,mac=02:00:00:00:00:01", address = "198.18.0.254/24" }
    port { name = "wan", device = "mem:null", address = "192.0.2.1/24" }
    router {
        ports = { "lan", "wan" },
        routes = { ["198.19.0.0/16"] = "192.0.2.9" },
        neighbors = { ["192.0.2.9"] = "02:00:00:00:00:09" },
    }
"#;

/// Runs such a configuration in a folder of its own.
pub(crate) fn replay(name: &str, script: &str, more: &[&str]) -> (Folder, Running) {
    let folder = Folder::new(name);
    folder.write("in.pcap", pcap(&frames(100)));
    let running = Running::start(&folder, script, more);
    (folder, running)
}

/// What the account of `weir run --json` or `weir show stats --json` says must add up, with nothing unaccounted.
pub(crate) fn check_account(stats: &Value) {
    let account = &stats["account"];
    let of = |key: &str| account[key].as_i64().unwrap_or_else(|| panic!("no {key}: {account}"));
    assert_eq!(of("unaccounted"), 0, "{account}");
    assert_eq!(of("received") + of("created"), of("transmitted") + of("dropped") + of("consumed") + of("held"));
    let drops = stats["drops"].as_array().unwrap().iter().map(|drop| drop["packets"].as_i64().unwrap());
    assert_eq!(drops.sum::<i64>(), of("dropped"), "each drop has a name");
}

/// UDP frames from 198.18.0.1 to 198.19.0.1, with numbers in their payload.
pub(crate) fn frames(count: u32) -> Vec<Vec<u8>> {
    let frame = |n: u32| {
        let destination_mac = weir_wire::MacAddr([2, 0, 0, 0, 0, 1]);
        let built = weir_wire::build::UdpFrame { destination_mac, ..Default::default() };
        built.to_vec(&[&n.to_be_bytes()[..], &[0; 14]].concat())
    };
    (0..count).map(frame).collect()
}

/// A capture file of frames, one each 10 microseconds.
pub(crate) fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (n, frame) in frames.iter().enumerate() {
        let length = u32::try_from(frame.len()).unwrap();
        for word in [1_700_000_000, u32::try_from(n).unwrap() * 10, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// The frames of a capture file.
pub(crate) fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::read(path).unwrap();
    let mut rest = &file[24..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        frames.push(rest[16..16 + length].to_vec());
        rest = &rest[16 + length..];
    }
    frames
}
