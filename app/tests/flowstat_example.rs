//! The worked example of the documentation: its commands run, and print and draw what it shows.
//!
//! `tools/docs.sh` writes what is printed and drawn into the documentation; it runs this with `WEIR_DOCS=write`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Folder, WEIR, text};

/// What parts the outputs of commands from each other.
const MARK: &str = "\u{1e}";

/// The plots of house-1729 that the document shows: the file, and the title in the page.
const PLOTS: [(&str, &str); 3] = [
    ("flowstat-latency.svg", "<figcaption>Latency"),
    ("flowstat-gaps.svg", "<figcaption>Gaps"),
    ("flowstat-arrivals.svg", "<figcaption>Arrival of packets"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// A fenced piece of the document: its words, and where its text begins and ends.
fn pieces(document: &str) -> Vec<(&str, std::ops::Range<usize>)> {
    let mut found: Vec<(&str, std::ops::Range<usize>)> = Vec::new();
    let (mut at, mut inside) = (0, false);
    for line in document.split_inclusive('\n') {
        if let Some(words) = line.strip_prefix("```") {
            if inside {
                found.last_mut().unwrap().1.end = at;
            } else {
                found.push((words.trim(), at + line.len()..0));
            }
            inside = !inside;
        }
        at += line.len();
    }
    found
}

/// Runs all commands in one shell, in a folder of its own; what each piece prints.
fn run(folder: &Folder, commands: &[&str]) -> Vec<String> {
    let script: String = commands.iter().map(|command| format!("{command}\nprintf '%s' '{MARK}'\n")).collect();
    let path = format!("{}:{}", Path::new(WEIR).parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-euc", &script])
        .current_dir(root())
        .env("TMPDIR", &folder.0)
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).split_terminator(MARK).map(str::to_owned).collect()
}

/// The plots in the page, of the first stream after all of them together.
fn plots(page: &str) -> Vec<String> {
    let stream = page.split_once("<h2>subscriber house-1729</h2>").expect("the worst stream comes first").1;
    let plot = |title: &str| {
        let figure = stream.split_once(title).unwrap().1;
        let svg = &figure[figure.find("<svg").unwrap()..];
        format!("{}\n", &svg[..svg.find("</svg>").unwrap() + 6])
    };
    PLOTS.iter().map(|(_, title)| plot(title)).collect()
}

/// Asks DuckDB, if it is there; answers the first cell.
fn asked(folder: &Path, sql: &str) -> Option<String> {
    const PROGRAM: &str = "\
import sys
try:
    import duckdb
except ImportError:
    sys.exit(77)
print(duckdb.sql(sys.argv[1]).fetchall()[0][0])
";
    let output = Command::new("python3").args(["-c", PROGRAM, sql]).current_dir(folder).output().unwrap();
    if output.status.code() == Some(77) {
        return None;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(text(&output.stdout).trim().to_owned())
}

#[test]
fn the_worked_example_runs_and_shows_what_it_says() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: the worked example of flowstat: python3 is missing (apt-get install python3)");
        return;
    }
    let folder = Folder::new("flowstat-example");
    let file = root().join("docs/flowstat-example.md");
    let kept = std::fs::read_to_string(&file).unwrap();
    let found = pieces(&kept);
    let commands: Vec<&str> =
        found.iter().filter(|piece| piece.0 == "sh").map(|piece| &kept[piece.1.clone()]).collect();
    let printed = run(&folder, &commands);
    let shown: Vec<_> = found.iter().filter(|piece| piece.0 == "text").map(|piece| piece.1.clone()).collect();
    assert_eq!((printed.len(), shown.len()), (commands.len(), commands.len()));
    let mut made = kept.clone();
    for (range, text) in shown.iter().zip(&printed).rev() {
        made.replace_range(range.clone(), text);
    }
    let captures = std::fs::read_dir(&folder.0).unwrap().next().unwrap().unwrap().path();
    let plots = plots(&std::fs::read_to_string(captures.join("results/flowstat.html")).unwrap());
    if std::env::var_os("WEIR_DOCS").is_some_and(|value| value == "write") {
        std::fs::write(&file, &made).unwrap();
        for ((name, _), plot) in PLOTS.iter().zip(&plots) {
            std::fs::write(root().join("docs").join(name), plot).unwrap();
        }
        return;
    }
    assert!(made == kept, "docs/flowstat-example.md is out of date; run tools/docs.sh. It should be:\n{made}");
    for ((name, _), plot) in PLOTS.iter().zip(&plots) {
        let drawn = std::fs::read_to_string(root().join("docs").join(name)).unwrap_or_default();
        assert!(drawn == *plot, "docs/{name} is out of date; run tools/docs.sh");
    }
    let sql = &kept[found.iter().find(|piece| piece.0 == "sql").unwrap().1.clone()];
    match asked(&captures, sql) {
        Some(answer) => assert_eq!(answer, "house-1729"),
        None => println!("skipped: asking DuckDB: its module for python3 is missing (pip install duckdb)"),
    }
}
