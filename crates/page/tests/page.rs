//! Pages and plots.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use weir_page::{Axis, Chart, Curve, Page, Shape, command_line, write_whole};

fn chart(shapes: &[Shape]) -> Chart {
    let curve = |shape: &Shape| Curve {
        name: format!("{shape:?}"),
        shape: *shape,
        points: vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0), (3.0, 2.0)],
    };
    Chart { x: Axis::of("time, s"), y: Axis::of("packets"), curves: shapes.iter().map(curve).collect() }
}

#[test]
fn every_shape_is_drawn_within_the_plot() {
    for shapes in [&[Shape::Line][..], &[Shape::Bars(0.5)], &[Shape::Line, Shape::Dashes, Shape::Steps]] {
        let svg = chart(shapes).svg().unwrap().unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("time, s") && svg.contains("packets"));
        assert_eq!(svg.contains("Dashes"), shapes.len() > 1, "a legend if there are several");
        assert!(!svg.contains("NaN"));
    }
}

#[test]
fn a_chart_without_points_is_none() {
    let mut empty = chart(&[Shape::Line]);
    empty.curves[0].points.clear();
    assert_eq!(empty.svg(), Ok(None));
    empty.curves[0].points = vec![(f64::NAN, 1.0), (1.0, f64::INFINITY)];
    assert_eq!(empty.svg(), Ok(None));
    // One point, and points of one value, are something.
    empty.curves[0].points = vec![(5.0, 0.0), (5.0, 0.0)];
    assert!(empty.svg().unwrap().is_some());
}

#[test]
fn a_page_says_what_it_is_told_and_no_more() {
    let mut page = Page::new("A <b> & \"c\"");
    page.heading("x < y");
    page.paragraph("1 & 2");
    page.muted("quiet");
    page.preformatted("a  b");
    page.partial("it <broke>");
    page.figure("a > b", "beside", "<svg></svg>");
    page.html("<hr>");
    let text = page.finish();
    for part in [
        "<h1>A &lt;b&gt; &amp; &quot;c&quot;</h1>",
        "<h2>x &lt; y</h2>",
        "<p>1 &amp; 2</p>",
        "<b>Partial result.</b> it &lt;broke&gt;",
        "<figcaption>a &gt; b <small>beside</small></figcaption>\n<svg></svg>",
        "<hr></body></html>",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn commands_are_written_as_a_shell_takes_them() {
    let words = ["weir", "flowstat", "a b.pcap", "it's", "", "--by=src,dst"].map(str::to_owned);
    assert_eq!(command_line(&words), "weir flowstat 'a b.pcap' 'it'\\''s' '' --by=src,dst");
}

#[test]
fn a_file_is_there_whole_or_not_at_all() {
    let folder = std::env::temp_dir().join(format!("weir-page-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("file");
    assert_eq!(write_whole(&path, b"one"), Ok(path.clone()));
    assert_eq!(write_whole(&path, b"two"), Ok(path.clone()));
    assert_eq!(std::fs::read(&path).unwrap(), b"two");
    let error = write_whole(&folder.join("none/file"), b"").unwrap_err();
    assert!(error.starts_with("cannot write ") && error.contains("none/file: No such file"), "{error}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    std::fs::remove_dir_all(&folder).unwrap();
}
