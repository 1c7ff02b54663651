//! Rows of any table, with the columns that came with them.

use serde_json::Value;

use super::{Align, Style, Table, rate};

/// Rows as a table. A column of numbers is set to the right; a list is written with commas, and what is counted per second as
/// people read it.
pub(crate) fn rows(columns: &[String], rows: &[Value], style: Style) -> String {
    let is_number = |column: &String| {
        let mut cells = rows.iter().map(|row| row.get(column)).peekable();
        cells.peek().is_some() && cells.all(|cell| matches!(cell, None | Some(Value::Number(_) | Value::Null)))
    };
    let heads: Vec<(&str, Align)> = columns
        .iter()
        .map(|column| (column.as_str(), if is_number(column) { Align::Right } else { Align::Left }))
        .collect();
    let mut table = Table::new(&heads);
    for row in rows {
        table.row(columns.iter().map(|column| {
            row.get(column).map_or_else(String::new, |value| {
                let per_second = column.ends_with("pps") || column.ends_with("bps");
                value.as_f64().filter(|_| per_second).map_or_else(|| cell(value), rate)
            })
        }));
    }
    if table.is_empty() { String::from("none\n") } else { table.text(0, style) }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn any_rows_become_a_table() {
        let columns = ["prefix", "via", "packets", "up"].map(str::to_owned);
        let all = [
            json!({"prefix": "10.0.0.0/8", "via": ["192.0.2.1", "192.0.2.2"], "packets": 7, "up": true}),
            json!({"prefix": "::/0", "via": null, "packets": 12345}),
        ];
        assert_eq!(
            rows(&columns, &all, Style::PLAIN),
            "prefix      via                   packets  up\n\
             10.0.0.0/8  192.0.2.1, 192.0.2.2        7  yes\n\
             ::/0        -                       12345\n"
        );
        assert_eq!(rows(&columns, &[], Style::PLAIN), "none\n");
        let columns = ["user", "pps", "bps"].map(str::to_owned);
        let rated = [json!({"user": "a", "pps": 1234.0, "bps": 2.5e6}), json!({"user": "b", "pps": null, "bps": null})];
        assert_eq!(
            rows(&columns, &rated, Style::PLAIN),
            "user    pps     bps\n\
             a     1,234  2.50 M\n\
             b         -       -\n"
        );
    }
}
