//! Reports: what is written can be read again, a page needs nothing else, a comparison says what is more than noise.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;

use weir_bench::{
    Better, FORM, Figure, Form, Machine, Plot, Point, Record, Value, Verdict, compare, csv_samples, page, read_record,
    table, write_report,
};

fn point(size: f64, kind: &str, samples: &[f64]) -> Point {
    let figure = Figure::new("cost", "cycles/packet", Better::Less, samples.to_vec());
    let parameters =
        BTreeMap::from([("size".to_owned(), Value::Number(size)), ("kind".to_owned(), Value::Text(kind.to_owned()))]);
    Point { parameters, help: "what <b>is</b> & \"isn't\"".to_owned(), trouble: None, figures: vec![figure] }
}

fn record(points: Vec<Point>) -> Record {
    let plot = |form| Plot {
        title: "cost by size".to_owned(),
        form,
        x: "size".to_owned(),
        y: "cost".to_owned(),
        by: Some("kind".to_owned()),
    };
    Record {
        version: FORM,
        title: "Test <script>".to_owned(),
        command: vec!["weir".to_owned(), "bench".to_owned(), "it's".to_owned()],
        started: "2026-11-22T00:00:00.000Z".to_owned(),
        seconds: 1.5,
        partial: None,
        verdict: Vec::new(),
        machine: Machine::here(2_000_000_000),
        versions: BTreeMap::from([("weir".to_owned(), "0.1.0".to_owned())]),
        settings: BTreeMap::from([("quiet".to_owned(), Value::Flag(true))]),
        configurations: BTreeMap::from([("only".to_owned(), "router { a < b }".to_owned())]),
        parameters: vec!["kind".to_owned(), "size".to_owned()],
        points,
        plots: vec![plot(Form::Lines), plot(Form::Bars)],
        remarks: vec!["A remark.".to_owned()],
    }
}

fn five(from: f64) -> Vec<f64> {
    (0..5).map(|n| from + f64::from(n)).collect()
}

fn usual() -> Record {
    record(vec![
        point(64.0, "a", &five(10.0)),
        point(1024.0, "a", &five(20.0)),
        point(64.0, "b, c", &five(30.0)),
        point(1024.0, "b, c", &[]),
    ])
}

#[test]
fn what_is_written_is_read_again() {
    let folder = std::env::temp_dir().join(format!("weir-report-{}", std::process::id()));
    let files = write_report(&usual(), &folder, "run").unwrap();
    assert_eq!(files.len(), 3);
    assert_eq!(read_record(&folder.join("run.json")).unwrap(), usual());
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.iter().all(|path| files.contains(path)), "{left:?}");
    std::fs::remove_dir_all(&folder).unwrap();
    // A folder that cannot be made is an error that names it.
    let error = write_report(&usual(), std::path::Path::new("/proc/no/where"), "run").unwrap_err();
    assert!(error.contains("/proc/no/where"), "{error}");
}

#[test]
fn what_is_no_report_is_refused() {
    let path = std::env::temp_dir().join(format!("weir-no-report-{}.json", std::process::id()));
    for (text, said) in [
        ("{", "no JSON"),
        ("{}", "not a report"),
        ("{\"version\": 1}", "its form has version 1"),
        ("{\"version\": 2}", "not a report"),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = read_record(&path).unwrap_err();
        assert!(error.contains(said) && error.contains("weir-no-report"), "{text}: {error}");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(read_record(&path).is_err());
    assert!(read_record(std::path::Path::new("/dev/zero")).is_err());
}

#[test]
fn a_page_needs_nothing_else() {
    let page = page(&usual()).unwrap();
    for word in ["http://", "https://", "<script", "<link", "@import", "url("] {
        let allowed =
            word == "http://" && page.matches(word).count() == page.matches("http://www.w3.org/2000/svg").count();
        assert!(allowed || !page.contains(word), "{word}");
    }
    assert_eq!(page.matches("<svg").count(), 2);
    // What is text stays text.
    assert!(page.contains("Test &lt;script&gt;") && page.contains("what &lt;b&gt;is&lt;/b&gt; &amp;"));
    assert!(page.contains("weir bench &#39;it") || page.contains("weir bench 'it'\\''s'"), "the command");
}

#[test]
fn csv_has_a_row_for_each_sample() {
    let text = csv_samples(&usual());
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(lines.first().copied(), Some("kind,size,figure,unit,sample,value"));
    assert_eq!(lines.len(), 1 + 15 + 1);
    assert_eq!(lines.get(11).copied(), Some("\"b, c\",64,cost,cycles/packet,1,30"));
}

#[test]
fn the_table_has_a_line_for_each_point() {
    let mut record = usual();
    record.points.last_mut().unwrap().trouble = Some("the peer died".to_owned());
    record.partial = Some("it was interrupted".to_owned());
    let text = table(&record);
    assert!(text.contains("12.0 (10.0 - 14.0)"), "{text}");
    assert!(text.contains("partial: it was interrupted"), "{text}");
    assert!(text.contains("kind b, c, size 1024: the peer died"), "{text}");
}

#[test]
fn a_comparison_tells_changes_from_noise() {
    let before = record(vec![point(1.0, "a", &five(10.0)), point(2.0, "a", &five(10.0)), point(3.0, "a", &[1.0])]);
    let mut after = record(vec![point(1.0, "a", &five(20.0)), point(2.0, "a", &five(10.5)), point(3.0, "a", &[9.0])]);
    after.settings.insert("quiet".to_owned(), Value::Flag(false));
    after.points.push(point(4.0, "a", &five(1.0)));
    let found = compare(&before, &after, 0.01);
    let verdicts: Vec<Verdict> = found.changes.iter().map(|change| change.verdict).collect();
    assert_eq!(verdicts, [Verdict::Worse, Verdict::Same, Verdict::TooFew]);
    assert_eq!(compare(&after, &before, 0.01).changes.first().unwrap().verdict, Verdict::Better);
    assert_eq!(found.circumstances, ["quiet: yes -> no"]);
    assert_eq!(found.incomplete, ["only the second has kind a, size 4"]);
    let text = found.to_string();
    assert!(text.contains("+83.3 %") && text.contains("worse") && text.contains("too few samples"), "{text}");
}

#[test]
fn cases_in_short_are_the_points_that_have_figures() {
    let figure = |name: &str, samples: &[f64]| Figure::new(name, "cycles/packet", Better::Less, samples.to_vec());
    let packets =
        |name: &str, samples: &[f64]| Figure::new(name, "packets", Better::Neither, samples.to_vec()).as_detail();
    let case = |name: &str, figures| {
        let parameters = BTreeMap::from([("case".to_owned(), name.into())]);
        Point { parameters, figures, ..Point::default() }
    };
    let whole = vec![
        figure("own", &[3.0, 1.0, 2.0]),
        figure("whole", &[13.0, 11.0, 12.0]),
        figure("bare", &[10.0; 3]),
        packets("packets", &[5.0, 6.0, 7.0]),
        packets("verified", &[4.0]),
        figure("router.forward", &[2.0, 2.0, 5.0]).as_detail(),
    ];
    let points = [case("a", whole), case("b", vec![figure("whole", &[1.0])])];
    let json = serde_json::to_value(weir_bench::CyclesPerPacket::of("router", &points)).unwrap();
    let expected = serde_json::json!({
        "function": "router",
        "cases": [{
            "name": "a",
            "verified": 4,
            "packets": 18,
            "cycles_per_packet": { "median": 2.0, "min": 1.0, "max": 3.0 },
            "whole": { "median": 12.0, "min": 11.0, "max": 13.0 },
            "bare": { "median": 10.0, "min": 10.0, "max": 10.0 },
            "stages": [{ "name": "router.forward", "cycles_per_packet": 2.0 }],
        }],
    });
    assert_eq!(json, expected);
}
