//! `weir bench run` from its file to its report: what is refused, what is kept, and that it goes on where it stopped.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

mod common;

use common::Folder;

fn weir(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(words).stdin(Stdio::null());
    command
}

fn run(file: &Path, folder: &Folder) -> Output {
    weir(&["bench", "run", file.to_str().unwrap(), "--report", folder.0.to_str().unwrap(), "--json"]).output().unwrap()
}

/// What it told people, and, with `--json`, programs.
fn said(output: &Output) -> String {
    let (people, programs) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    // Quotes are escaped in JSON.
    format!("{people}{}", programs.replace("\\\"", "\""))
}

fn record(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Takes no more than milliseconds a sample.
const SOCKETS: &str =
    "experiment { name = \"tiny\", title = \"Tiny\", measures = \"sockets\", window = \"1 ms\", runs = 20,
    parameters = { { name = \"size\", values = { 18, 100 } } } }\n";

#[test]
fn an_experiment_becomes_a_report() {
    let folder = Folder::new("report");
    let record = record(&run(&folder.write("tiny.lua", SOCKETS), &folder));
    assert_eq!(record["partial"], serde_json::Value::Null);
    assert_eq!(record["points"].as_array().unwrap().len(), 2);
    for point in record["points"].as_array().unwrap() {
        let figures = point["figures"].as_array().unwrap();
        assert!(figures.iter().all(|figure| figure["samples"].as_array().unwrap().len() == 20), "{figures:?}");
    }
    for kind in ["html", "csv", "json", "journal"] {
        assert!(folder.0.join(format!("tiny.{kind}")).exists(), "{kind}");
    }
}

/// What is in simulated time, of few users. The rest depends on the machine.
#[test]
fn shaping_keeps_its_promises() {
    let folder = Folder::new("shaping");
    let words = ["bench", "shaping", "--users", "100", "--json", "--report", folder.0.to_str().unwrap()];
    let checks = ["holding", "conforming", "rates", "buffers"].iter().flat_map(|check| ["--check", check]);
    let output = weir(&words).args(checks).output().unwrap();
    let record = record(&output);
    assert_eq!((&record["kept"], &record["partial"]), (&true.into(), &serde_json::Value::Null));
    assert_eq!(record["points"].as_array().unwrap().len(), 1 + 6 + 1 + 1);
    assert_eq!(record["verdicts"].as_array().unwrap().len(), 1 + 6 * 4 + 3 + 2);
    assert!(said(&output).contains("conforming, while 1 % at 10 times the rate"), "{}", said(&output));
    assert!(folder.0.join("shaping.html").exists());
    let refused = weir(&["bench", "shaping", "--users", "99"]).output().unwrap();
    assert!(!refused.status.success() && said(&refused).contains("100..=32768"), "{}", said(&refused));
}

#[test]
fn an_interrupted_experiment_is_partial_and_goes_on() {
    let folder = Folder::new("interrupted");
    let file = folder.write("tiny.lua", SOCKETS);
    let mut command = weir(&["bench", "run", file.to_str().unwrap(), "--report", folder.0.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().starts_with("[3/40]")).unwrap().unwrap();
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let rest: Vec<String> = lines.map(|line| line.unwrap()).collect();
    assert!(!child.wait().unwrap().success(), "{rest:?}");
    assert!(rest.last().unwrap().contains("interrupted"), "{rest:?}");
    let json = std::fs::read_to_string(folder.0.join("tiny.json")).unwrap();
    assert!(json.contains("samples are there: it was interrupted"));
    let lines_of = |journal: &str| journal.lines().count();
    let journal = std::fs::read_to_string(folder.0.join("tiny.journal")).unwrap();
    assert!((3..40).contains(&lines_of(&journal)), "{}", lines_of(&journal));
    let record = record(&run(&file, &folder));
    assert_eq!(record["partial"], serde_json::Value::Null);
    // What was there stayed, and nothing was measured twice.
    let whole = std::fs::read_to_string(folder.0.join("tiny.journal")).unwrap();
    assert!(whole.starts_with(&journal) && lines_of(&whole) == 41, "{}", lines_of(&whole));
    // The journal of another experiment is refused.
    folder.write("tiny.lua", SOCKETS.replace("18", "19"));
    let refused = run(&file, &folder);
    assert!(!refused.status.success() && said(&refused).contains("another experiment"), "{}", said(&refused));
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is() {
    let folder = Folder::new("refused");
    let cases = [
        (
            "measures = \"nothing\", parameters = { { name = \"fill\", values = { 1 } } }",
            "no function is called 'nothing'",
        ),
        ("measures = \"forward\", parameters = { { name = \"workers\", values = { 64 } } }", "64 workers never wait"),
        ("measures = \"forward\", parameters = { { name = \"fill\", values = { 0, 65 } } }", "it may be 1 to 64"),
        ("measures = \"forward\", parameters = { { name = \"size\", values = { 1 } } }", "no number to choose"),
        ("measures = \"router\", parameters = { { name = \"frame\", values = { 63 } } }", "it may be 64 to 1518"),
        ("measures = \"router\", parameters = { { name = \"colour\", values = { 1 } } }", "has no colour"),
        ("measures = \"router\", parameters = { { name = \"router.tabel\", values = { 1 } } }", "did you mean"),
        (
            "measures = \"router\", parameters = { { name = \"rooter.table\", values = { 1 } } }",
            "no key of a configuration",
        ),
        ("measures = \"router\", parameters = { { name = \"case\", values = { \"x\" } } }", "has no case 'x'"),
        ("measures = \"router\", parameters = {}", "parameters"),
        ("measures = \"router\", runs = -1, parameters = { { name = \"fill\", values = { 1 } } }", "runs"),
        (
            "measures = \"sockets\", parameters = { { name = \"wait\", values = { \"never\" } } }",
            "\"interrupt\" or \"poll\"",
        ),
    ];
    for (keys, sentence) in cases {
        let text = format!("experiment {{ name = \"wrong\", title = \"Wrong\", {keys} }}\n");
        let output = run(&folder.write("wrong.lua", &text), &folder);
        assert!(!output.status.success() && said(&output).contains(sentence), "{keys}: {}", said(&output));
        assert!(!folder.0.join("wrong.journal").exists(), "{keys}");
    }
    for (text, sentence) in
        [("", "declares no experiment"), (&format!("{SOCKETS}{}", SOCKETS.replace("tiny", "more")), "several")]
    {
        let output = run(&folder.write("wrong.lua", text), &folder);
        assert!(!output.status.success() && said(&output).contains(sentence), "{}", said(&output));
    }
}

#[test]
fn the_experiments_that_come_with_weir_can_be_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/bench/experiments");
    let files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        let output = weir(&["bench", "run", file.to_str().unwrap(), "--check"]).output().unwrap();
        if said(&output).contains("never wait") {
            eprintln!("skipped: {} needs more cores", file.display());
        } else {
            assert!(output.status.success(), "{}", said(&output));
        }
    }
}

/// The experiment of binding tables in small: each case is measured, and what comes out of it is verified.
#[test]
fn binding_tables_are_measured() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/bench/experiments/bindings.lua");
    let whole = std::fs::read_to_string(file).unwrap();
    let all = "1000, 5000, 10000, 25000, 50000, 100000, 200000, 500000, 1000000, 4000000";
    let small = whole.replace(all, "1000, 5000").replace("runs = 5", "runs = 1").replace("200 ms", "1 ms");
    assert_eq!(whole.len() - small.len(), all.len() - "1000, 5000".len() + "200".len() - "1".len());
    let folder = Folder::new("bindings");
    let record = record(&run(&folder.write("bindings.lua", &small), &folder));
    let points = record["points"].as_array().unwrap();
    assert_eq!(points.len(), 4);
    for point in points {
        let of = |name: &str| {
            let figure = point["figures"].as_array().unwrap().iter().find(|figure| figure["name"] == name);
            figure.unwrap()["samples"][0].as_f64().unwrap()
        };
        // Not what the stage alone took: loops are timed by chance, and in so short a run it may be none.
        assert!(of("whole") > 0.0 && of("verified") > 0.0 && of("dropped") == 0.0, "{point}");
    }
}

#[test]
fn instructions_are_counted_the_same_every_time() {
    let words = ["bench", "cpp", "forward", "--case", "swap-macs", "--runs", "1", "--instructions", "--json"];
    let count = || {
        let output = weir(&words).output().unwrap();
        if said(&output).contains("valgrind, which is not installed") {
            return None;
        }
        let record = record(&output);
        let figures: BTreeMap<&str, f64> = record["points"][0]["figures"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|figure| Some((figure["name"].as_str()?, figure["summary"]["median"].as_f64()?)))
            .collect();
        let parts = ["ports", "the engine", "forward.in"].map(|part| figures[&*format!("instructions of {part}")]);
        assert!(parts.iter().all(|part| *part > 5.0), "{figures:?}");
        assert!((parts.iter().sum::<f64>() - figures["whole instructions"]).abs() < 0.01, "{figures:?}");
        // Without the graph there are the ports, and a loop around them.
        let bare = figures["whole instructions"] - figures["own instructions"];
        assert!((parts[0]..parts[0] + 20.0).contains(&bare), "{figures:?}");
        Some(figures["own instructions"])
    };
    let Some(first) = count() else {
        eprintln!("skipped: valgrind is not installed");
        return;
    };
    // Where memory lies, which differs from run to run, may move a count by a little.
    let second = count().unwrap();
    assert!((1.0..1000.0).contains(&first) && (first - second).abs() < first * 0.02, "{first} {second}");
}
