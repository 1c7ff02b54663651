//! Numbers for people.

/// A count with commas between groups of three digits.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its sign.
pub(super) fn signed(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", count(number.unsigned_abs()))
}

/// A count, or a dash where nobody can tell.
pub(super) fn known(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), count)
}

/// A share of a whole, in percent with one decimal.
pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1}%", part as f64 * 100.0 / whole as f64)
}

/// A ratio with one decimal.
pub(super) fn ratio(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1}", part as f64 / whole as f64)
}

/// A number with one decimal.
pub(super) fn fixed(number: f64) -> String {
    format!("{number:.1}")
}

/// So much per second: whole as far as people take it in at a glance, else with three digits and the letter of a power of 1,000.
pub(super) fn rate(number: f64) -> String {
    match number {
        number if number <= 0.0 => "0".to_owned(),
        number if number < 99.95 => fixed(number),
        number if number < 9_999.5 => count(number.round() as u64),
        number => scaled(number),
    }
}

fn scaled(number: f64) -> String {
    let powers = [(1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")];
    // 999.6 k would be written as 1000 k.
    let fits = |(power, _): &(f64, &str)| number / power < 999.5;
    let (power, letter) = powers.into_iter().find(fits).unwrap_or((1e12, "T"));
    let digits = match number / power {
        part if part < 9.995 => 2,
        part if part < 99.95 => 1,
        _ => 0,
    };
    format!("{:.digits$} {letter}", number / power)
}

/// A time, from nanoseconds.
pub(crate) fn nanos(nanos: i64) -> String {
    match nanos.unsigned_abs() {
        0..10_000 => format!("{nanos} ns"),
        10_000..10_000_000 => format!("{:.1} us", nanos as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} ms", nanos as f64 / 1e6),
        _ => format!("{:.1} s", nanos as f64 / 1e9),
    }
}

/// A time span, from nanoseconds.
pub(super) fn span(nanos: u64) -> String {
    let seconds = nanos / 1_000_000_000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{}.{} s", seconds, nanos / 100_000_000 % 10),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!((signed(-1000).as_str(), signed(5).as_str()), ("-1,000", "5"));
        assert_eq!(signed(i64::MIN), "-9,223,372,036,854,775,808");
        assert_eq!((known(None).as_str(), known(Some(7)).as_str()), ("-", "7"));
    }

    #[test]
    fn rates_are_short() {
        let seen = [0.0, 0.44, 10.0, 99.96, 1234.4, 9_999.6, 12_345.0, 999_600.0, 1e6, 25.55e6, 1.5e9, 4e12].map(rate);
        let wanted =
            ["0", "0.4", "10.0", "100", "1,234", "10.0 k", "12.3 k", "1.00 M", "1.00 M", "25.6 M", "1.50 G", "4.00 T"];
        assert_eq!(seen, wanted);
    }

    #[test]
    fn shares_and_spans() {
        assert_eq!((percent(1, 8).as_str(), percent(0, 0).as_str()), ("12.5%", "-"));
        assert_eq!((ratio(7, 2).as_str(), ratio(7, 0).as_str()), ("3.5", "-"));
        let second = 1_000_000_000;
        let seen = [second / 2, 59 * second, 61 * second, 3_660 * second, 90_000 * second].map(span);
        assert_eq!(seen, ["0.5 s", "59.0 s", "1 min 1 s", "1 h 1 min", "1 d 1 h 0 min"]);
    }
}
