//! The kernel as a peer: a network namespace of its own, with a cable whose one end is sent frames and whose other end it looks at.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part; a failed unwrap fails the test")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Sends the frames on its input, a line of hexadecimal digits each, and waits for each to arrive: else the kernel might drop some, or count
/// them later.
const SENDER: &str = "import socket, sys\n\
                      out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
                      out.bind(('v0', 0))\n\
                      back = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))\n\
                      back.bind(('v1', 0))\n\
                      back.settimeout(10)\n\
                      def wait(frame):\n\
                      \x20while back.recv(2048) != frame: pass\n\
                      for line in sys.stdin:\n\
                      \x20frame = bytes.fromhex(line.strip())\n\
                      \x20out.send(frame)\n\
                      \x20wait(frame)\n";

/// A network namespace, which goes when it is dropped.
pub(crate) struct Namespace(String);

impl Namespace {
    /// With two ends of a cable, `v0` and `v1`. Without root or `nft` there is none, and it is said why.
    pub(crate) fn new(name: &str) -> Option<Namespace> {
        if !Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n") {
            println!("skipped: needs root, for a network namespace");
            return None;
        }
        if Command::new("nft").arg("--version").output().is_err() {
            println!("skipped: needs nft (Debian package nftables)");
            return None;
        }
        let namespace = Namespace(format!("weir-{name}-{}", std::process::id()));
        run("ip", &["netns", "add", &namespace.0], "");
        namespace.cable("v0", "v1");
        Some(namespace)
    }

    /// A cable with ends of these names.
    pub(crate) fn cable(&self, one: &str, other: &str) {
        let link = |words: &[&str]| drop(self.run("ip", &[&["link"], words].concat(), ""));
        link(&["add", one, "arp", "off", "type", "veth", "peer", "name", other]);
        link(&["set", other, "arp", "off", "up"]);
        link(&["set", one, "up"]);
    }

    /// Runs a program inside; answers what it prints.
    pub(crate) fn run(&self, program: &str, arguments: &[&str], input: &str) -> String {
        let inside = [&["netns", "exec", &self.0, program], arguments].concat();
        run("ip", &inside, input)
    }

    /// Sends frames into `v0`, which come in by `v1`.
    pub(crate) fn send(&self, frames: &[Vec<u8>]) {
        let hex = |frame: &Vec<u8>| frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
        self.run("python3", &["-c", SENDER], &frames.iter().map(hex).collect::<String>());
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(Command::new("ip").args(["netns", "del", &self.0]).status());
    }
}

fn run(program: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    assert!(status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}
