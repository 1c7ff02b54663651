//! What a running Weir tells its log: who changed what, what was refused and why, which signals came.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::{Folder, Running, check_account, text, weir};
use serde_json::{Value, json};

const ROUTER: &str = r#"
port { name = "lan", device = "mem:null", address = "198.18.0.254/24" }
port { name = "wan", device = "mem:null", address = "192.0.2.1/24" }
router { ports = { "lan", "wan" }, routes = { ["198.19.0.0/16"] = "192.0.2.9" } }
"#;

/// How long anything may take that must happen at last.
const PATIENCE: Duration = Duration::from_secs(120);

fn start(name: &str, more: &[&str]) -> (Folder, Running) {
    let folder = Folder::new(name);
    let running = Running::start(&folder, ROUTER, more);
    (folder, running)
}

/// Waits until the log has a line with all the words, and returns it.
#[allow(clippy::disallowed_methods, reason = "what must happen at last has a bound")]
fn line(running: &Running, words: &[&str]) -> String {
    let begun = Instant::now();
    loop {
        let log = running.log();
        // Whole lines only: the last one may be half written.
        let lines = log.rsplit_once('\n').map_or("", |(lines, _)| lines);
        if let Some(found) = lines.lines().find(|line| words.iter().all(|word| line.contains(word))) {
            return found.to_owned();
        }
        assert!(begun.elapsed() < PATIENCE, "no line with {words:?} in:\n{log}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

fn kill(running: &Running, signal: &str) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &running.process().to_string()]).status();
    assert!(sent.unwrap().success(), "{signal}");
}

fn whoami() -> String {
    format!("user={}", text(&Command::new("id").arg("-u").output().unwrap().stdout).trim())
}

#[test]
fn changes_are_told_with_who_made_them() {
    let (folder, running) = start("told-changes", &[]);
    running.say(&["route", "add", "203.0.113.0/24", "via", "192.0.2.9", "192.0.2.10"]);
    let told = line(&running, &["a change was carried out", "203.0.113.0/24"]);
    assert!(told.contains("level=info at=client"), "{told}");
    assert!(told.contains("change=\"route add 203.0.113.0/24 via 192.0.2.9 192.0.2.10\" changes=1"), "{told}");
    assert!(told.contains(&whoami()) && told.contains(" process="), "{told}");
    let told = line(&running, &["a client that changed something has left"]);
    assert!(told.contains("changes=1 refused=0") && told.contains(&whoami()), "{told}");
    let many = folder.write("many.txt", "10.1.0.0/16 via 192.0.2.9\n10.2.0.0/16 via 192.0.2.9\n");
    running.say(&["route", "add", "--from", many.to_str().unwrap()]);
    line(&running, &["change=\"route add 10.1.0.0/16 via 192.0.2.9\"", "changes=2"]);
    assert!(!running.ask(&["route", "add", "10.0.0.0/8", "via", "203.0.114.1"]).status.success());
    let told = line(&running, &["a change was refused", "cause="]);
    assert!(told.contains("level=warn") && told.contains("203.0.114.1") && told.contains(&whoami()), "{told}");
}

#[test]
fn reloads_are_told_and_why_one_was_refused() {
    let (folder, running) = start("told-reloads", &[]);
    folder.write("weir.lua", ROUTER.replace("wan\", device", "wan\", devcie"));
    assert!(!running.ask(&["reload"]).status.success());
    let told = line(&running, &["a reload was refused: what ran goes on"]);
    assert!(told.contains("level=warn at=reload") && told.contains("devcie"), "{told}");
    assert!(told.contains("file=\"the same\"") && told.contains(&whoami()), "{told}");
    let other = folder.write("other.lua", ROUTER.replace("198.19.0.0/16", "198.19.0.0/17"));
    running.say(&["reload", other.to_str().unwrap()]);
    let told = line(&running, &["the configuration was replaced"]);
    assert!(told.contains("other.lua") && told.contains(&whoami()), "{told}");
    let told = running.log();
    assert_eq!(told.matches("the configuration was replaced").count(), 1, "one line each: {told}");
}

#[test]
fn the_level_is_chosen_and_switched_while_it_runs() {
    let (_folder, running) = start("told-levels", &["--log-level", "warning"]);
    assert_eq!(running.say(&["log"]), "warn\n");
    running.say(&["route", "add", "203.0.113.0/24", "via", "192.0.2.9"]);
    assert_eq!(running.json(&["log", "debug"])["level"], json!("debug"));
    running.say(&["show", "routes"]);
    line(&running, &["level=debug at=client", "a client asked", "request=show"]);
    line(&running, &["the log has another level", "to=debug", &whoami()]);
    let told = running.log();
    assert!(!told.contains("203.0.113.0/24") && !told.contains("all workers run"), "{told}");
    let wrong = weir(&["log", "loud"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("loud"), "{}", text(&wrong.stderr));
}

#[test]
fn a_hangup_reloads_the_configuration() {
    let (folder, running) = start("told-hangup", &["--json"]);
    folder.write("weir.lua", ROUTER.replace("198.19.0.0/16", "198.19.0.0/17"));
    kill(&running, "HUP");
    let told = line(&running, &["the configuration was replaced", "signal=SIGHUP"]);
    assert!(told.contains(&whoami()), "{told}");
    assert!(running.say(&["show", "routes"]).contains("198.19.0.0/17"));
    folder.write("weir.lua", "ruoter { }");
    kill(&running, "HUP");
    let told = line(&running, &["a reload was refused: what ran goes on", "signal=SIGHUP"]);
    assert!(told.contains("ruoter"), "{told}");
    assert!(running.say(&["show", "routes"]).contains("198.19.0.0/17"), "what ran goes on");
    ended_well(running);
}

#[test]
fn no_other_signal_ends_it() {
    let (_folder, running) = start("told-signals", &["--json"]);
    // Those left out cannot be caught (KILL, STOP), stop or continue a process, are raised by faults, or have a test of their own.
    let named = "USR1 USR2 QUIT ALRM VTALRM PROF IO XCPU XFSZ SYS TRAP STKFLT PWR PIPE CHLD URG WINCH CONT";
    for signal in named.split(' ').map(str::to_owned).chain((34..=64).map(|number| number.to_string())) {
        kill(&running, &signal);
        running.say(&["show", "version"]);
    }
    for signal in ["SIGUSR1", "SIGUSR2"] {
        let told = line(&running, &["a signal that means nothing here was ignored", signal]);
        assert!(told.contains("level=warn") && told.contains(&whoami()), "{told}");
    }
    ended_well(running);
}

/// Ends it by SIGTERM, which is told, and looks at the account.
fn ended_well(mut running: Running) {
    kill(&running, "TERM");
    let (printed, status) = running.rest();
    assert_eq!(status, Some(0), "{}", running.log());
    let stats: Value = serde_json::from_str(&printed).unwrap();
    check_account(&stats);
    assert_eq!(stats["missing_buffers"], json!(0));
    let told = line(&running, &["a signal asks Weir to stop", "signal=SIGTERM"]);
    assert!(told.contains(&whoami()), "{told}");
    line(&running, &["Weir has stopped", "unaccounted=0"]);
}
