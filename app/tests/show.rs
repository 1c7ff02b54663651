//! What is shown of a running Weir: rates, what filters select, and how failures are told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use common::{Folder, REPLAY, Running, WEIR, text, weir};
use serde_json::{Value, json};

/// Beside what is replayed, two ports between which nothing goes.
fn script() -> String {
    format!(
        "{REPLAY} port {{ name = \"idle\", device = \"mem:null\" }} port {{ name = \"quiet\", device = \"mem:null\" }}
        forward {{ paths = {{ \"idle -> quiet\" }} }}"
    )
}

fn replay(name: &str) -> (Folder, Running) {
    common::replay(name, &script(), &[])
}

/// A `weir show --watch` that goes on until it is dropped.
struct Watch {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Watch {
    fn start(running: &Running, arguments: &[&str]) -> Watch {
        let all = [&["show"], arguments, &["--watch", "--socket", &running.socket]].concat();
        let mut child = Command::new(WEIR).args(all).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Watch { child, out }
    }

    /// The lines up to the first that is as wanted.
    fn until(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        let mut lines = String::new();
        loop {
            let mut line = String::new();
            assert!(self.out.read_line(&mut line).unwrap() > 0, "it ended after {lines}");
            lines += &line;
            if wanted(&line) {
                return lines;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn watched_numbers_are_rates() {
    let (_folder, running) = replay("show-rates");
    let mut watch = Watch::start(&running, &["stats"]);
    let first = watch.until(|line| line == "these are totals; rates follow\n");
    assert!(first.contains("  received") && !first.contains("/s"), "{first}");
    let screen = watch.until(|line| line.starts_with("  unaccounted"));
    assert!(screen.contains(", rates over ") && screen.contains("received/s") && screen.contains("bit/s"), "{screen}");
    assert!(screen.contains("  lan ") && screen.contains("  2 without traffic: --all"), "{screen}");
    assert!(!screen.contains("\n  idle "), "{screen}");
    let mut watch = Watch::start(&running, &["stats", "--all", "--sort", "name"]);
    watch.until(|line| line.contains("received/s"));
    let rows = watch.until(|line| line.contains("  wan "));
    assert!(rows.trim_start().starts_with("idle") && rows.contains("  lan "), "{rows}");
    let mut watch = Watch::start(&running, &["nexthops"]);
    let table = watch.until(|line| line.contains("pps") && line.contains("bps"));
    assert!(table.contains("packets"), "totals come first: {table}");
}

#[test]
fn watched_numbers_are_data_too() {
    let (_folder, running) = replay("show-rates-json");
    let watch = Watch::start(&running, &["stats", "--json"]);
    let mut watch = watch;
    let object = |watch: &mut Watch| serde_json::from_str::<Value>(&watch.until(|line| line == "}\n")).unwrap();
    assert_eq!(object(&mut watch).get("rates"), None, "there is nothing to compare it with");
    let second = object(&mut watch);
    let rates = &second["rates"];
    assert!(second["ports"].is_object() && rates["seconds"].as_f64().unwrap() > 0.5, "{rates}");
    let names: Vec<&str> =
        rates["ports"].as_array().unwrap().iter().map(|port| port["name"].as_str().unwrap()).collect();
    assert_eq!((names.len(), &names[2..]), (4, &["idle", "quiet"][..]), "all of them, the most first");
    let lan = rates["ports"].as_array().unwrap().iter().find(|port| port["name"] == "lan").unwrap();
    let (pps, bps) = (lan["rx_pps"].as_f64().unwrap(), lan["rx_bps"].as_f64().unwrap());
    assert!(pps > 0.0 && (bps / pps - 60.0 * 8.0).abs() < 1.0, "{lan}");
}

#[test]
fn rates_of_tables_are_by_the_tables_own_times() {
    let folder = Folder::new("show-rates-time");
    let socket = folder.path("weir.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    // Two looks three seconds apart by the engine, whatever the watch waited, and one of a Weir that started anew.
    let answers = [(1, 0), (4, 300), (2, 7)].map(|(second, packets)| {
        let rows = json!([{"index": 1, "packets": packets, "bytes": packets * 100}]);
        let table = json!({"columns": ["index", "packets", "bytes"], "rows": rows, "time": second * 1_000_000_000_u64});
        format!("{}\n", json!({"version": 1, "response": {"rows": table}}))
    });
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for answer in answers {
            BufReader::new(&stream).read_line(&mut String::new()).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let watching = Command::new(WEIR).args(["show", "nexthops", "--watch", "--json", "--socket", &socket]).output();
    serving.join().unwrap();
    let printed = text(&watching.unwrap().stdout);
    let looks = serde_json::Deserializer::from_str(&printed).into_iter::<Value>().map(Result::unwrap);
    let rows: Vec<Value> = looks.filter_map(|look| Some(look.get("rows")?[0].clone())).collect();
    assert_eq!(rows.len(), 3, "{printed}");
    assert_eq!((&rows[0]["pps"], &rows[0]["packets"]), (&Value::Null, &json!(0)), "totals come first");
    assert_eq!((&rows[1]["pps"], &rows[1]["bps"]), (&json!(100.0), &json!(80_000.0)));
    assert_eq!(
        (&rows[2]["pps"], &rows[2]["packets"]),
        (&Value::Null, &json!(7)),
        "there is nothing to compare it with"
    );
}

#[test]
fn a_worker_has_one_name() {
    let (_folder, running) =
        common::replay("show-workers", &REPLAY.replace("ports = {", "workers = { 1 }, ports = {"), &[]);
    let stats = running.json(&["show", "stats"]);
    let names = |key: &str, name: &str| -> Vec<String> {
        stats[key].as_array().unwrap().iter().map(|row| row[name].as_str().unwrap().to_owned()).collect()
    };
    let workers = names("workers", "id");
    assert!(workers.contains(&"1".to_owned()), "{workers:?}");
    let links = names("links", "name");
    assert!(links.iter().any(|link| link.starts_with("1 -> control: router.")), "{links:?}");
    for link in links {
        let (from, rest) = link.split_once(" -> ").unwrap();
        let (to, _) = rest.split_once(": ").unwrap();
        assert!([from, to].iter().all(|end| workers.iter().any(|worker| worker == end)), "{link}: {workers:?}");
    }
}

fn refused(output: &Output, status: i32, words: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}{}", text(&output.stdout));
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    assert!(words.iter().all(|word| said.contains(word)), "{words:?} in {said}");
}

#[test]
fn a_filter_that_selects_nothing_is_refused() {
    let (_folder, running) = replay("show-filters");
    refused(&running.ask(&["show", "ports", "lam"]), 2, &["\"lam\"", "did you mean lan?", "lan, wan, idle, quiet"]);
    refused(&running.ask(&["show", "stats", "foo"]), 2, &["\"foo\"", "there are", "lan", "control"]);
    refused(&running.ask(&["show", "cycles", "9"]), 2, &["there are 0, control"]);
    refused(&running.ask(&["show", "stages", "rooter"]), 2, &["router.forward"]);
    refused(&running.ask(&["show", "links", "foo"]), 2, &["there are"]);
    refused(&running.ask(&["show", "drops", "foo"]), 2, &["show drops"]);
    refused(&running.ask(&["show", "graph", "foo"]), 2, &["router.forward"]);
    refused(&running.ask(&["show", "version", "foo"]), 2, &["selects nothing"]);
    refused(&running.ask(&["show", "ports", "--dot"]), 2, &["weir show graph --dot"]);
    refused(&running.ask(&["show", "ports", "--function", "router"]), 2, &["--function"]);
    refused(&running.ask(&["show", "ports", "--sort", "name"]), 2, &["--watch"]);
    assert_eq!(running.json(&["show", "ports", "wan"])["rows"].as_array().unwrap().len(), 1);
    assert_eq!(running.json(&["show", "stats", "wan"])["ports"].as_object().unwrap().len(), 1);
    assert_eq!(running.json(&["show", "graph", "router.forward"])["stages"].as_array().unwrap().len(), 1);
    // Nothing was dropped for it so far, yet it may be.
    assert_eq!(running.say(&["show", "drops", "ttl-expired"]), "nothing was dropped\n");
    assert_eq!(running.say(&["show", "drops", "tx-full"]), "nothing was dropped\n");
}

#[test]
fn failures_are_data_where_data_was_asked_for() {
    let (folder, running) = replay("show-failures");
    let error = |output: Output, status: i32| {
        assert_eq!(output.status.code(), Some(status), "{}", text(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
        let line = text(&output.stdout);
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let said: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(said["version"], json!(1));
        assert!(!said["error"]["message"].as_str().unwrap().is_empty() && said["error"]["errors"].is_array(), "{said}");
        said["error"].clone()
    };
    error(running.ask(&["show", "ports", "lam", "--json"]), 2);
    error(running.ask(&["show", "routes", "--function", "nobody", "--json"]), 1);
    let route = error(running.ask(&["route", "add", "10.0.0.0/8", "via", "300.0.0.1", "--json"]), 1);
    assert!(route["message"].as_str().unwrap().contains("300.0.0.1"), "{route}");
    let many = folder.write("many.txt", "10.0.0.0/8 via 192.0.2.9\n10.0.0.0/8\n");
    error(running.ask(&["route", "add", "--from", many.to_str().unwrap(), "--json"]), 1);
    error(running.ask(&["route", "add", "10.0.0.0/8", "--json"]), 2);
    error(running.ask(&["trace", "udp", "adn", "tcp", "--json"]), 1);
    folder.write("weir.lua", REPLAY.replace("wan\", device", "wan\", devcie"));
    let reload = error(running.ask(&["reload", "--json"]), 1);
    assert!(reload["errors"][0]["problem"].is_string() && reload["errors"][0]["place"]["line"] == json!(3), "{reload}");
    error(weir(&["show", "stats", "--socket", "/nonexistent/s", "--json"]), 1);
    error(weir(&["shwo", "stats", "--json"]), 2);
    error(weir(&["run", &folder.path("weir.lua"), "--socket", &folder.path("other"), "--json"]), 1);
}

#[test]
fn an_unknown_experiment_is_told_which_there_are() {
    refused(
        &weir(&["bench", "typo"]),
        2,
        &["'typo'", "there are compare, cpp, flowstat, peers, rfc2544, run, shaping"],
    );
    refused(&weir(&["top"]), 2, &["'top'", "capture, check, "]);
    refused(&weir(&["help", "top"]), 2, &["'top'", "capture, check, "]);
    refused(&weir(&["help", "bench", "top"]), 2, &["'top'", "compare, cpp, "]);
}
