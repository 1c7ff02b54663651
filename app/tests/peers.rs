//! `weir bench peers` with programs that behave, and with such that do not: what is told, and that nothing is left behind.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// How long anything may take on a machine that others use too.
const PATIENCE: &str = "300";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-peers-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The command, with the programs of a folder of `peers/` before all others.
fn with(fake: &str, folder: &Folder, words: &[&str]) -> Command {
    let first = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers").join(fake);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(first).chain(std::env::split_paths(&path))).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["bench", "peers", "--peer", "dpdk-testpmd", "--work", "io", "--json"]).args(words);
    command.env("PATH", path).env("WEIR_TEST_PROCESSES", folder.0.join("processes"));
    command.env("TMPDIR", &folder.0).stdin(Stdio::null());
    command
}

/// What it told people, and, with `--json`, programs.
fn said(output: &Output) -> String {
    let (people, programs) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    // Quotes are escaped in JSON.
    format!("{people}{}", programs.replace("\\\"", "\""))
}

fn record(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(output)))
}

/// Whether this Weir has nothing to compare with DPDK's programs.
fn without_dpdk(output: &Output) -> bool {
    let without = said(output).contains("built without DPDK");
    if without {
        eprintln!("skipped: this Weir was built without DPDK");
    }
    without
}

/// The folder of a run is gone.
fn left_nothing(folder: &Folder) {
    let entries = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = entries.filter(|name| name.starts_with("weir-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn pause() {
    #[allow(clippy::disallowed_methods, reason = "other processes take their time")]
    std::thread::sleep(Duration::from_millis(20));
}

/// Waits until something is so.
fn until(what: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if is() {
            return;
        }
        pause();
    }
    panic!("{what}: not within two minutes");
}

/// The processes that a fake has told.
fn processes(folder: &Folder) -> Vec<u32> {
    let file = folder.0.join("processes");
    until("the fake's start", || file.exists());
    let text = std::fs::read_to_string(file).unwrap();
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// Whether a process sleeps as fakes do; who has ended does not.
fn sleeps(process: u32) -> bool {
    let words = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).into_owned();
    words.contains("98765") || words.contains("dpdk-testpmd")
}

#[test]
fn who_dies_or_talks_nonsense_is_told_with_its_last_words() {
    let cases = [
        ("dies", "ended by itself (exit status: 3)", "no memory for anything"),
        ("nonsense", "no number of sent packets", "quite a few"),
    ];
    for (fake, what, last) in cases {
        let folder = Folder::new(fake);
        let report = folder.0.join("report");
        let words = ["--runs", "2", "--seconds", "0.05", "--patience", PATIENCE, "--report", report.to_str().unwrap()];
        let output = with(fake, &folder, &words).output().unwrap();
        if without_dpdk(&output) {
            return;
        }
        assert!(!output.status.success());
        let record = record(&output);
        assert_eq!(record["partial"], "1 of 1 comparisons did not come to their end");
        let trouble = record["points"][0]["trouble"].as_str().unwrap();
        assert!(trouble.contains(what) && trouble.contains(last), "{trouble}");
        assert!(said(&output).contains(last) && said(&output).contains("partial"), "{}", said(&output));
        let page = std::fs::read_to_string(report.join("peers.html")).unwrap();
        assert!(page.contains("Partial result") && page.contains(last), "{page}");
        left_nothing(&folder);
    }
}

#[test]
fn what_was_measured_before_a_peer_died_is_kept() {
    let folder = Folder::new("late");
    let words = ["--runs", "3", "--seconds", "0.05", "--patience", PATIENCE];
    let output = with("dies-late", &folder, &words).output().unwrap();
    if without_dpdk(&output) {
        return;
    }
    assert!(!output.status.success());
    let record = record(&output);
    let point = &record["points"][0];
    let trouble = point["trouble"].as_str().unwrap();
    assert!(trouble.contains("139") && trouble.contains("Segmentation fault"), "{trouble}");
    let ratio = point["figures"].as_array().unwrap().iter().find(|figure| figure["name"] == "ratio").unwrap();
    assert_eq!(ratio["samples"].as_array().unwrap().len(), 1);
    assert_eq!(record["peers"][0]["whole"], false);
    left_nothing(&folder);
}

#[test]
fn who_hangs_is_given_up_and_ended_with_its_children() {
    // Long enough for a shell to say its first words on a busy machine.
    let start = |(fake, last)| {
        let folder = Folder::new(fake);
        let mut command = with(fake, &folder, &["--patience", "20"]);
        (command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(), folder, last)
    };
    let runs = [("hangs", "not long now"), ("floods", "blah blah")].map(start);
    for (child, folder, last) in runs {
        let output = child.wait_with_output().unwrap();
        if without_dpdk(&output) {
            continue;
        }
        let record = record(&output);
        let trouble = record["points"][0]["trouble"].as_str().unwrap();
        assert!(trouble.contains("did not start within 20 s") && trouble.contains(last), "{trouble}");
        if last == "not long now" {
            let processes = processes(&folder);
            assert_eq!(processes.len(), 2);
            until("the end of its processes", || !processes.iter().any(|process| sleeps(*process)));
        }
        left_nothing(&folder);
    }
}

/// A run that waits for a fake that sleeps, and the processes of that.
fn sleeping(fake: &str, folder: &Folder) -> Option<(Child, Vec<u32>)> {
    let mut command = with(fake, folder, &["--patience", PATIENCE]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut first).unwrap();
    if first.contains("built without DPDK") {
        eprintln!("skipped: this Weir was built without DPDK");
        child.wait().unwrap();
        return None;
    }
    let processes = processes(folder);
    // While it becomes another program it has no words for a moment.
    until("its sleep", || processes.iter().any(|process| sleeps(*process)));
    Some((child, processes))
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

#[test]
fn an_interrupted_run_ends_everything() {
    let folder = Folder::new("interrupted");
    let Some((child, processes)) = sleeping("hangs", &folder) else { return };
    signal("-INT", child.id());
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    assert_eq!(record(&output)["partial"], "it was interrupted");
    until("the end of its processes", || !processes.iter().any(|process| sleeps(*process)));
    left_nothing(&folder);
}

#[test]
fn a_killed_run_takes_its_peers_along() {
    let folder = Folder::new("killed");
    let Some((mut child, processes)) = sleeping("mute", &folder) else { return };
    signal("-KILL", child.id());
    child.wait().unwrap();
    if Path::new("/usr/bin/setpriv").exists() {
        until("the end of its processes", || !processes.iter().any(|process| sleeps(*process)));
    } else {
        processes.iter().for_each(|process| signal("-KILL", *process));
        eprintln!("skipped: setpriv is not installed");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = Folder::new("refused");
    let cases = [
        (&["--core", "4096"][..], "core 4096 is none that this process may run on"),
        (&["--peer", "nobody"], "nobody"),
        (&["--seconds", "0"], "0.01 to 3600"),
        (&["--runs", "0"], "--runs"),
    ];
    for (words, sentence) in cases {
        let output = with("dies", &folder, words).output().unwrap();
        assert!(!output.status.success() && said(&output).contains(sentence), "{}", said(&output));
    }
    // The only peer that was asked for is not there.
    let mut command = with("dies", &folder, &[]);
    let output = command.env("PATH", "/nowhere").output().unwrap();
    if !without_dpdk(&output) && !Path::new("/usr/sbin/dpdk-testpmd").exists() {
        assert!(!output.status.success() && said(&output).contains("apt-get install dpdk-dev"), "{}", said(&output));
        assert_eq!(record(&output)["partial"], "no peer could be measured");
    }
    left_nothing(&folder);
}

#[test]
fn whoever_is_here_is_measured_and_nothing_is_left() {
    let folder = Folder::new("all");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["bench", "peers", "--runs", "2", "--seconds", "0.05", "--patience", PATIENCE, "--json"]);
    command.args(["--work", "io", "--work", "ipv4-64-prefixes", "--work", "veth", "--work", "look-up"]);
    command.args(["--work", "memif-macswap", "--work", "vhost-5tswap"]);
    let output = command.env("TMPDIR", &folder.0).stdin(Stdio::null()).output().unwrap();
    let record = record(&output);
    for remark in record["remarks"].as_array().unwrap() {
        if remark.as_str().unwrap().contains("was skipped") {
            eprintln!("skipped: {remark}");
        }
    }
    let points = record["points"].as_array().unwrap();
    for point in points {
        assert_eq!(point["trouble"], Value::Null, "{point}");
        for name in ["ratio", "ours", "theirs", "our rate", "their rate"] {
            let figure = point["figures"].as_array().unwrap().iter().find(|figure| figure["name"] == name).unwrap();
            let samples = figure["samples"].as_array().unwrap();
            assert!(samples.len() == 2 && samples.iter().all(|sample| sample.as_f64().unwrap() > 0.0), "{figure}");
        }
        if ["memif-macswap", "vhost-5tswap"].map(Value::from).contains(&point["parameters"]["work"]) {
            // The other end may be the limit, so it is told how much of the core each took.
            for name in ["we were busy", "they were busy"] {
                let figure = point["figures"].as_array().unwrap().iter().find(|figure| figure["name"] == name).unwrap();
                let samples = figure["samples"].as_array().unwrap();
                assert!(samples.iter().all(|share| (0.0..=100.0).contains(&share.as_f64().unwrap())), "{figure}");
            }
        }
    }
    assert_eq!(record["peers"].as_array().unwrap().len(), points.len());
    assert_eq!(output.status.success(), !points.is_empty());
    left_nothing(&folder);
}

#[test]
fn a_library_stands_beside_the_cases_of_a_function() {
    let folder = Folder::new("beside");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["bench", "cpp", "qos", "--case", "rte-sched-32k", "--runs", "2", "--json"]);
    let output = command.env("TMPDIR", &folder.0).stdin(Stdio::null()).output().unwrap();
    if said(&output).contains("it has to be compiled") {
        eprintln!("skipped: {}", said(&output));
        return;
    }
    let record = record(&output);
    assert_eq!(record["cases"].as_array().unwrap().len(), 1);
    let case = &record["cases"][0];
    assert_eq!(case["name"], "rte-sched-32k");
    assert!(case["cycles_per_packet"]["median"].as_f64().unwrap() > 0.0, "{case}");
    assert_eq!(record["points"][0]["figures"][0]["samples"].as_array().unwrap().len(), 2);
    left_nothing(&folder);
}

#[test]
fn network_namespaces_are_removed_when_it_is_interrupted() {
    let folder = Folder::new("namespaces");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["bench", "peers", "--peer", "linux", "--runs", "1000", "--seconds", "0.05", "--patience", PATIENCE]);
    command.env("TMPDIR", &folder.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(|line| line.unwrap());
    let first = lines.find(|line| line.contains("run 1 of") || line.contains("was skipped")).unwrap();
    let ours = format!("weir-peers-{}-", child.id());
    let there = || std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let namespaces = || there().filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours)).count();
    if first.contains("was skipped") {
        eprintln!("skipped: {first}");
    } else {
        assert_eq!(namespaces(), 2);
        signal("-INT", child.id());
    }
    let rest: Vec<String> = lines.collect();
    assert!(!child.wait().unwrap().success(), "{rest:?}");
    assert_eq!(namespaces(), 0, "{rest:?}");
    left_nothing(&folder);
    // Those of a run that was killed are removed by the next one that gets so far.
    if !first.contains("was skipped") {
        let orphan = format!("weir-peers-{}-orphan", child.id());
        assert!(Command::new("ip").args(["netns", "add", &orphan]).status().unwrap().success());
        let words = ["bench", "peers", "--peer", "linux", "--runs", "1", "--seconds", "0.05", "--patience", PATIENCE];
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(words).env("TMPDIR", &folder.0).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(namespaces(), 0);
    }
}
