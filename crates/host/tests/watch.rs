//! The watch sees what `ip link` does in a namespace of its own. Needs root and iproute2; skipped
//! with a message elsewhere.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::process::Command;
use std::time::{Duration, Instant};

use weir_host::links::{LinkEvent, Watch, interfaces};

/// The test runs itself again inside a new network namespace, which dies with it.
const INSIDE: &str = "WEIR_HOST_TEST_INSIDE";

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(done.success(), "ip {arguments}");
}

#[expect(clippy::disallowed_methods, reason = "the test waits for the kernel")]
fn wait(watch: &mut Watch, what: &str, wanted: impl Fn(&LinkEvent) -> bool) -> LinkEvent {
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        if let Some(event) = watch.poll().unwrap().into_iter().find(&wanted) {
            return event;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("not told: {what}");
}

fn inside() {
    let mut watch = Watch::new().unwrap();
    ip("link add va type veth peer name vb");
    wait(&mut watch, "va appears", |e| e.name == "va" && !e.up && !e.deleted);
    ip("link set vb up");
    ip("link set va mtu 9000 up");
    ip("addr add 192.0.2.1/24 dev va");
    let up = wait(&mut watch, "va comes up", |e| e.name == "va" && e.up);

    let all = interfaces().unwrap();
    let va = all.iter().find(|interface| interface.name == "va").unwrap();
    assert_eq!((va.index, va.mtu, va.up, va.running), (up.index, 9000, true, true));
    assert_eq!(va.kind.as_deref(), Some("veth"));
    assert!(va.mac.is_some_and(|mac| mac != [0; 6]));
    assert!(va.addresses.contains(&("192.0.2.1".parse().unwrap(), 24)), "{:?}", va.addresses);
    assert_eq!(va.xdp, None);

    ip("link set vb down");
    wait(&mut watch, "va loses its carrier", |e| e.name == "va" && !e.up && !e.deleted);
    ip("link del va");
    let gone = wait(&mut watch, "va is deleted", |e| e.name == "va" && e.deleted);
    assert_eq!((gone.index, gone.up), (up.index, false));
}

#[test]
fn links_come_and_go() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let possible = Command::new("unshare").args(["-n", "ip", "link"]).output();
    if !possible.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: needs root (a network namespace) and iproute2");
        return;
    }
    let run = Command::new("unshare")
        .arg("-n")
        .arg(std::env::current_exe().unwrap())
        .args(["links_come_and_go", "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(run.success());
}
