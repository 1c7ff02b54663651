//! A record as CSV (RFC 4180): a row for each sample.

use weir_page::csv_line;

use crate::record::Record;

/// The samples: the parameters, the figure, its unit, the number of the sample among the figure's, and its value.
pub fn samples(record: &Record) -> String {
    let mut text = String::new();
    let head = record.parameters.iter().map(String::as_str).chain(["figure", "unit", "sample", "value"]);
    csv_line(&mut text, head.map(str::to_owned));
    for point in &record.points {
        for figure in &point.figures {
            for (n, sample) in figure.samples.iter().enumerate() {
                let value = |name| point.parameters.get(name).map_or_else(String::new, ToString::to_string);
                let own = [figure.name.clone(), figure.unit.clone(), (n + 1).to_string(), sample.to_string()];
                csv_line(&mut text, record.parameters.iter().map(value).chain(own));
            }
        }
    }
    text
}
