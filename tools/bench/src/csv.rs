//! A record as CSV (RFC 4180): a row for each sample.

use crate::record::Record;

/// The samples: the parameters, the figure, its unit, the number of the sample among the figure's, and its value.
pub fn samples(record: &Record) -> String {
    let mut text = String::new();
    let head = record.parameters.iter().map(String::as_str).chain(["figure", "unit", "sample", "value"]);
    line(&mut text, head.map(str::to_owned));
    for point in &record.points {
        for figure in &point.figures {
            for (n, sample) in figure.samples.iter().enumerate() {
                let value = |name| point.parameters.get(name).map_or_else(String::new, ToString::to_string);
                let own = [figure.name.clone(), figure.unit.clone(), (n + 1).to_string(), sample.to_string()];
                line(&mut text, record.parameters.iter().map(value).chain(own));
            }
        }
    }
    text
}

fn line(text: &mut String, cells: impl Iterator<Item = String>) {
    for (n, cell) in cells.enumerate() {
        if n > 0 {
            text.push(',');
        }
        text.push_str(&quoted(&cell));
    }
    text.push_str("\r\n");
}

/// RFC 4180, 2: a field with a comma, a quote or a line break is in quotes, and quotes in it are doubled.
fn quoted(cell: &str) -> String {
    if cell.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}
