//! The columns of a table of streams.
//!
//! A column has the name of the figure in JSON; names on the way to it are put before it: `latency_ns.p50` is `latency_ns_p50`.

use weir_measure::{Conformance, Spread};

use crate::report::{Report, Stream};

/// What a cell holds, if it is known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    Whole(i64),
    Real(f64),
}

/// What kind of cells a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Whole,
    Real,
}

type Read = Box<dyn Fn(&Stream) -> Option<Cell>>;

/// Where in a stream something is.
type Of<T> = fn(&Stream) -> Option<&T>;

/// A figure of it.
type Part<T, V> = fn(&T) -> V;

/// A column.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) read: Read,
}

/// The names of the columns that the streams of a report have in CSV and in Parquet, in their order.
pub fn columns(report: &Report) -> Vec<String> {
    all(report).into_iter().map(|column| column.name).collect()
}

/// All columns. Those of what the streams have in common come first: a field that is called as a figure is gets a line before its name.
pub(crate) fn all(report: &Report) -> Vec<Column> {
    let figures = figures();
    let mut columns: Vec<Column> = Vec::new();
    for (n, field) in report.by.iter().enumerate() {
        let taken = |name: &str| figures.iter().chain(&columns).any(|column| column.name == name);
        let mut name = field.clone();
        while taken(&name) {
            name.insert(0, '_');
        }
        let value = move |stream: &Stream| stream.key.get(n).map(|(_, value)| Cell::Text(value.clone()));
        columns.push(Column { name, kind: Kind::Text, read: Box::new(value) });
    }
    columns.extend(figures);
    for (name, files) in [("sent_files", &report.sent.files), ("received_files", &report.received.files)] {
        let files = files.join(" ");
        let read = Box::new(move |_: &Stream| Some(Cell::Text(files.clone())));
        columns.push(Column { name: name.to_owned(), kind: Kind::Text, read });
    }
    columns
}

fn figures() -> Vec<Column> {
    let mut columns = vec![
        count("sent", |stream| Some(stream.report.sent)),
        count("received", |stream| Some(stream.report.received)),
        count("lost", |stream| Some(stream.report.lost)),
        real("loss_ratio", |stream| Some(stream.report.loss_ratio)),
        count("loss_periods", |stream| stream.report.loss.as_ref().map(|loss| loss.periods)),
        count("lost_at_end", |stream| Some(stream.report.lost_at_end)),
        count("duplicated", |stream| Some(stream.report.duplicated)),
        count("ambiguous", |stream| Some(stream.ambiguous)),
        count("order_reordered", |stream| stream.report.order.as_ref().map(|order| order.reordered)),
        real("order_ratio", |stream| stream.report.order.as_ref().map(|order| order.ratio)),
        count("sent_bytes", |stream| Some(stream.sent_bytes)),
        count("received_bytes", |stream| Some(stream.received_bytes)),
        whole("first_ns", |stream| Some(stream.first_ns)),
        real("sent_bps", |stream| stream.sent_bps),
        real("received_bps", |stream| stream.received_bps),
    ];
    columns.extend(conformance("sent_conformance", |stream| stream.sent_conformance.as_ref()));
    columns.extend(conformance("received_conformance", |stream| stream.received_conformance.as_ref()));
    let spreads: [(&str, Of<Spread>); 8] = [
        ("latency_ns", |stream| stream.report.latency_ns.as_ref()),
        ("pdv_ns", |stream| stream.report.pdv_ns.as_ref()),
        ("ipdv_ns", |stream| stream.report.ipdv_ns.as_ref()),
        ("gaps_ns", |stream| stream.report.gaps_ns.as_ref()),
        ("gap_packets", |stream| stream.report.gap_packets.as_ref()),
        ("loss_lengths", |stream| stream.report.loss.as_ref()?.lengths.as_ref()),
        ("order_extent", |stream| stream.report.order.as_ref()?.extent.as_ref()),
        ("order_late_time_ns", |stream| stream.report.order.as_ref()?.late_time_ns.as_ref()),
    ];
    columns.extend(spreads.into_iter().flat_map(|(name, of)| spread(name, of)));
    columns
}

fn count(name: &str, of: fn(&Stream) -> Option<u64>) -> Column {
    let read = move |stream: &Stream| of(stream).map(whole_of);
    Column { name: name.to_owned(), kind: Kind::Whole, read: Box::new(read) }
}

fn whole(name: &str, of: fn(&Stream) -> Option<i64>) -> Column {
    let read = move |stream: &Stream| of(stream).map(Cell::Whole);
    Column { name: name.to_owned(), kind: Kind::Whole, read: Box::new(read) }
}

fn real(name: &str, of: fn(&Stream) -> Option<f64>) -> Column {
    let read = move |stream: &Stream| of(stream).map(Cell::Real);
    Column { name: name.to_owned(), kind: Kind::Real, read: Box::new(read) }
}

/// Whole numbers have a sign in all tables: not everything that reads Parquet knows those without.
fn whole_of(count: u64) -> Cell {
    Cell::Whole(i64::try_from(count).unwrap_or(i64::MAX))
}

fn conformance(name: &str, of: Of<Conformance>) -> Vec<Column> {
    let parts: [(&str, Part<Conformance, u64>); 5] = [
        ("conforming", |found| found.conforming),
        ("conforming_bytes", |found| found.conforming_bytes),
        ("exceeding", |found| found.exceeding),
        ("exceeding_bytes", |found| found.exceeding_bytes),
        ("burst_needed", |found| found.burst_needed),
    ];
    let column = |(part, value): (&str, Part<Conformance, u64>)| Column {
        name: format!("{name}_{part}"),
        kind: Kind::Whole,
        read: Box::new(move |stream| of(stream).map(value).map(whole_of)),
    };
    parts.into_iter().map(column).collect()
}

fn spread(name: &str, of: Of<Spread>) -> Vec<Column> {
    let values: [(&str, Part<Spread, i64>); 10] = [
        ("min", |spread| spread.min),
        ("p1", |spread| spread.p1),
        ("p25", |spread| spread.p25),
        ("p50", |spread| spread.p50),
        ("p75", |spread| spread.p75),
        ("p90", |spread| spread.p90),
        ("p99", |spread| spread.p99),
        ("p99_9", |spread| spread.p99_9),
        ("p99_99", |spread| spread.p99_99),
        ("max", |spread| spread.max),
    ];
    let value = |(part, value): (&str, Part<Spread, i64>)| Column {
        name: format!("{name}_{part}"),
        kind: Kind::Whole,
        read: Box::new(move |stream| of(stream).map(value).map(Cell::Whole)),
    };
    let counted = Column {
        name: format!("{name}_count"),
        kind: Kind::Whole,
        read: Box::new(move |stream| of(stream).map(|spread| whole_of(spread.count))),
    };
    let mean = Column {
        name: format!("{name}_mean"),
        kind: Kind::Real,
        read: Box::new(move |stream| of(stream).map(|spread| Cell::Real(spread.mean))),
    };
    [counted, mean].into_iter().chain(values.into_iter().map(value)).collect()
}
