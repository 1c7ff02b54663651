//! Rates in the rows of functions' tables: of users, subscribers, next hops.
//!
//! A column `packets`, or one that ends in `_packets`, counts from the start, and so do its fellows: `bytes`, and `dropped` or
//! `drops` (a number, or an object of numbers by reason). Columns without such a fellow are what they are.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::Row;

/// What a column that counts is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Packets,
    Bytes,
    Drops,
}

/// A column that counts, and the one that its rate goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counter {
    column: String,
    rate: String,
    unit: Unit,
}

/// The columns of a table that count.
#[derive(Clone, Debug)]
pub(crate) struct Counters(Vec<Counter>);

/// A row with its rates.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RatedRow {
    /// What tells it from others, in words.
    name: String,
    sums: [f64; 3],
    /// The row, with its rates in columns of their own.
    pub(crate) row: Value,
}

impl Row for RatedRow {
    fn name(&self) -> &str {
        &self.name
    }

    fn rates(&self) -> [f64; 3] {
        self.sums
    }
}

impl Counters {
    /// Those among some columns; `None` where nothing counts.
    pub(crate) fn of(columns: &[String]) -> Option<Counters> {
        let has = |column: &str| columns.iter().any(|other| other == column);
        let counter = |column: &String| {
            let (unit, prefix) = match column.as_str() {
                "dropped" | "drops" => (Unit::Drops, ""),
                other if other.ends_with("packets") => (Unit::Packets, other.strip_suffix("packets")?),
                other => (Unit::Bytes, other.strip_suffix("bytes")?),
            };
            let counts = match unit {
                Unit::Drops => columns.iter().any(|other| other == "packets" || other.ends_with("_packets")),
                Unit::Packets | Unit::Bytes => {
                    (prefix.is_empty() || prefix.ends_with('_')) && has(&format!("{prefix}packets"))
                }
            };
            let rate = match unit {
                Unit::Packets => format!("{prefix}pps"),
                Unit::Bytes => format!("{prefix}bps"),
                Unit::Drops => format!("{column}_pps"),
            };
            counts.then(|| Counter { column: column.clone(), rate, unit })
        };
        let counters: Vec<Counter> = columns.iter().filter_map(counter).collect();
        (!counters.is_empty()).then_some(Counters(counters))
    }

    /// The columns, with those that count replaced by their rates.
    pub(crate) fn columns(&self, columns: &[String]) -> Vec<String> {
        let rate = |column: &String| {
            let counter = self.0.iter().find(|counter| counter.column == *column);
            counter.map_or_else(|| column.clone(), |counter| counter.rate.clone())
        };
        columns.iter().map(rate).collect()
    }

    /// The rows of `now` with their rates since `before`, so many seconds ago. One that was not there before has none yet.
    pub(crate) fn rates(&self, before: &[Value], now: Vec<Value>, seconds: f64) -> Vec<RatedRow> {
        let known: HashMap<String, &Value> = before.iter().map(|row| (self.name(row), row)).collect();
        now.into_iter().map(|row| self.rated(known.get(&self.name(&row)).copied(), row, seconds)).collect()
    }

    /// What tells a row from others: all of it but what counts.
    fn name(&self, row: &Value) -> String {
        let is_counter = |key: &str| self.0.iter().any(|counter| counter.column == key);
        let cells = row.as_object().into_iter().flatten().filter(|(key, _)| !is_counter(key));
        cells.map(|(key, cell)| format!("{key}={cell} ")).collect()
    }

    fn rated(&self, before: Option<&Value>, row: Value, seconds: f64) -> RatedRow {
        let mut sums = [0.0; 3];
        let mut cells: Map<String, Value> = row.as_object().cloned().unwrap_or_default();
        for counter in &self.0 {
            let rate = before.map(|before| counter.rate(before, &row, seconds));
            let [packets, bits, drops] = &mut sums;
            *match counter.unit {
                Unit::Packets => packets,
                Unit::Bytes => bits,
                Unit::Drops => drops,
            } += rate.unwrap_or_default();
            cells.insert(counter.rate.clone(), rate.map_or(Value::Null, Value::from));
        }
        RatedRow { name: self.name(&row), sums, row: Value::Object(cells) }
    }
}

impl Counter {
    fn rate(&self, before: &Value, now: &Value, seconds: f64) -> f64 {
        let of = |row: &Value| row.get(&self.column).map_or(0, count);
        let (before, now) = (of(before), of(now));
        let more = if now < before { now } else { now - before };
        let bits = if self.unit == Unit::Bytes { 8.0 } else { 1.0 };
        if seconds > 0.0 { more as f64 * bits / seconds } else { 0.0 }
    }
}

/// A number, or the sum of those in an object.
fn count(value: &Value) -> u64 {
    match value {
        Value::Object(parts) => parts.values().map(count).sum(),
        value => value.as_u64().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn columns(names: &str) -> Vec<String> {
        names.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn columns_that_count_have_fellows() {
        let users = columns("user direction packets bytes dropped");
        let counters = Counters::of(&users).unwrap();
        assert_eq!(counters.columns(&users), columns("user direction pps bps dropped_pps"));
        let subscribers = columns("svlan up_packets up_bytes down_packets down_bytes drops");
        let rates = columns("svlan up_pps up_bps down_pps down_bps drops_pps");
        assert_eq!(Counters::of(&subscribers).unwrap().columns(&subscribers), rates);
        for plain in ["prefix via source active", "prefixes lookup_bytes used_bytes", "users state_bytes buffers"] {
            assert!(Counters::of(&columns(plain)).is_none(), "{plain}");
        }
    }

    #[test]
    fn rows_are_known_by_what_does_not_count() {
        let counters = Counters::of(&columns("user packets bytes drops")).unwrap();
        let row = |user: &str, packets: u64, late: u64| json!({"user": user, "packets": packets, "bytes": packets * 100, "drops": {"late": late, "full": 1}});
        let before = [row("a", 10, 0), row("b", 10, 0)];
        let now = vec![row("b", 50, 6), row("c", 7, 0), row("a", 10, 0)];
        let rows = counters.rates(&before, now, 2.0);
        assert_eq!(rows[0].row["pps"], json!(20.0));
        assert_eq!(rows[0].row["bps"], json!(16_000.0));
        assert_eq!(rows[0].row["drops_pps"], json!(3.0));
        assert_eq!(rows[0].rates(), [20.0, 16_000.0, 3.0]);
        assert_eq!(rows[1].row["pps"], Value::Null, "it was not there before");
        assert_eq!(rows[2].rates(), [0.0; 3]);
    }
}
