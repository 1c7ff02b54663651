//! CSV, Parquet and the page: what is written is what was found out.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::{Frame, options, run};
use weir_flowstat::models::Identity;
use weir_flowstat::output::{columns, page, write_csv, write_parquet};
use weir_flowstat::{Fields, Options, Profile, Report};

/// A folder of one test's own, removed with its content when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-flowstat-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Three streams, told apart by their files: one arrives in bursts, one loses every fourth packet, one loses all.
fn report() -> Report {
    let by = Fields::parse("file").unwrap();
    let profile = Some(Profile { rate: 1_000_000, burst: 3000 });
    let options = Options { by, profile, ..options(Box::new(Identity::default())) };
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for n in 0..600_u32 {
        let file = (n % 3) as usize;
        let data = [&n.to_be_bytes()[..], &[0; 60]].concat();
        let time = 1_700_000_000_000_000_000 + i64::from(n) * 300_000;
        sent.push(Frame { time, data: data.clone(), length: 64, file });
        let delay = match file {
            // Until the next full 10 ms.
            0 => 10_000_000 - i64::from(n) * 300_000 % 10_000_000,
            1 if n % 4 == 0 => continue,
            1 => 20_000 + i64::from(n) * 7,
            _ => continue,
        };
        received.push(Frame { time: time + delay, data, length: 64, file: 0 });
    }
    received.sort_by_key(|frame| frame.time);
    let mut report = run(&options, &sent, &received);
    report.sent.files = vec!["sent, with \"a comma\".pcap".to_owned()];
    report.received.files = vec!["received.pcap".to_owned()];
    report
}

/// The cells of a CSV file, by RFC 4180.
fn parse(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            other => cell.push(other),
        }
    }
    assert!(row.is_empty() && cell.is_empty() && !quoted, "the last line ends");
    rows
}

/// The figure of JSON that a column has the name of: names on the way are put together with lines.
fn figure(stream: &serde_json::Value, column: &str) -> Option<String> {
    let object = stream.as_object()?;
    if let Some(value) = object.get(column) {
        return match value {
            serde_json::Value::Null => Some(String::new()),
            serde_json::Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
    }
    object.iter().find_map(|(name, value)| figure(value, column.strip_prefix(name.as_str())?.strip_prefix('_')?))
}

#[test]
fn every_cell_of_csv_is_the_figure_of_json() {
    let folder = Folder::new("csv");
    let report = report();
    let path = write_csv(&report, &folder.0.join("streams.csv")).unwrap();
    let rows = parse(&std::fs::read_to_string(path).unwrap());
    let names = columns(&report);
    assert_eq!(rows[0], names);
    assert_eq!(rows.len(), 1 + report.streams.len());
    let json = serde_json::to_value(&report).unwrap();
    let mut compared = 0;
    for (row, stream) in rows[1..].iter().zip(json["streams"].as_array().unwrap()) {
        assert_eq!(row[0], stream["key"]["file"].as_str().unwrap());
        for (cell, name) in row.iter().zip(&names).skip(1) {
            match name.as_str() {
                "sent_files" => assert_eq!(cell, "sent, with \"a comma\".pcap"),
                "received_files" => assert_eq!(cell, "received.pcap"),
                name => {
                    // Where a whole part is absent, so is each of its figures.
                    let expected = figure(stream, name).unwrap_or_default();
                    let equal = *cell == expected || cell.parse::<f64>().ok() == expected.parse::<f64>().ok();
                    assert!(equal, "{name}: {cell} is not {expected}");
                    compared += usize::from(!expected.is_empty());
                }
            }
        }
    }
    assert!(compared > 150, "{compared}");
    // What is lost whole has no delays.
    let lost = rows[1..].iter().find(|row| row[0] == "3").unwrap();
    let cell = |name: &str| lost[names.iter().position(|known| known == name).unwrap()].as_str();
    assert_eq!((cell("sent"), cell("lost"), cell("latency_ns_p50")), ("200", "200", ""));
}

/// Another program's view of a Parquet file: its rows as lists of texts, in the order of the columns; null where there is nothing.
const READER: &str = r#"
import json, sys
path = sys.argv[1]
try:
    import duckdb
    table = duckdb.sql(f"select * from read_parquet('{path}')")
    names, rows = table.columns, table.fetchall()
except ImportError:
    try:
        import pyarrow.parquet
        table = pyarrow.parquet.read_table(path)
        names, rows = table.column_names, [list(row.values()) for row in table.to_pylist()]
    except ImportError:
        try:
            import polars
        except ImportError:
            sys.exit(77)
        table = polars.read_parquet(path)
        names, rows = table.columns, table.rows()
text = lambda cell: None if cell is None else str(cell)
print(json.dumps([list(names)] + [[text(cell) for cell in row] for row in rows]))
"#;

#[test]
fn parquet_is_what_others_read() {
    let folder = Folder::new("parquet");
    let report = report();
    let parquet = write_parquet(&report, &folder.0.join("streams.parquet")).unwrap();
    let bytes = std::fs::read(&parquet).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let output = Command::new("python3").args(["-c", READER]).arg(&parquet).output();
    let Some(output) = output.ok().filter(|output| output.status.code() != Some(77)) else {
        println!("skipped: reading Parquet: neither duckdb, pyarrow nor polars is there (pip install duckdb)");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read: Vec<Vec<Option<String>>> = serde_json::from_slice(&output.stdout).unwrap();
    let csv = write_csv(&report, &folder.0.join("streams.csv")).unwrap();
    let csv = parse(&std::fs::read_to_string(csv).unwrap());
    assert_eq!(read.len(), csv.len());
    for (row, expected) in read.iter().zip(&csv) {
        assert_eq!(row.len(), expected.len());
        for (cell, expected) in row.iter().zip(expected) {
            let cell = cell.as_deref().unwrap_or_default();
            let equal = cell == expected || cell.parse::<f64>().is_ok_and(|number| expected.parse() == Ok(number));
            assert!(equal, "{cell} is not {expected}");
        }
    }
}

#[test]
fn a_page_has_the_plots_and_needs_nothing_else() {
    let mut report = report();
    report.partial = vec!["the <file> is damaged".to_owned()];
    let command = ["weir", "flowstat", "a b.pcap", "c.pcap"].map(str::to_owned);
    let page = page(&report, &command, 2).unwrap();
    for part in [
        "weir flowstat 'a b.pcap' c.pcap",
        "<b>Partial result.</b> the &lt;file&gt; is damaged",
        "sent, with &quot;a comma&quot;.pcap",
        "<td>lost</td><td>250 (41.67 %)</td>",
        "2 of 3, by key",
        "<figcaption>Rate ",
        "<figcaption>Loss over time ",
        "<figcaption>Latency",
        "<figcaption>Gaps",
        "<figcaption>Arrival of packets ",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for word in ["<script", "href=", "src=", "url(", "@import"] {
        assert!(!page.contains(word), "{word}");
    }
    assert_eq!(page.matches("http").count(), page.matches("http://www.w3.org/2000/svg").count());
    assert_eq!(page.matches("<figure>").count(), page.matches("<svg").count());
}

#[test]
fn a_report_of_nothing_is_written_too() {
    let folder = Folder::new("nothing");
    let report = run(&options(Box::new(Identity::default())), &[], &[]);
    let csv = write_csv(&report, &folder.0.join("streams.csv")).unwrap();
    assert_eq!(parse(&std::fs::read_to_string(csv).unwrap()), [columns(&report)]);
    write_parquet(&report, &folder.0.join("streams.parquet")).unwrap();
    assert!(page(&report, &[], 10).unwrap().contains("<td>sent</td><td>0 packets, 0 bytes</td>"));
    let error = write_csv(&report, &folder.0.join("none/streams.csv")).unwrap_err();
    assert!(error.starts_with("cannot write "), "{error}");
}
