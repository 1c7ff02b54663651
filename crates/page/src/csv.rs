//! CSV (RFC 4180).

/// Adds a line of cells.
pub fn csv_line(text: &mut String, cells: impl Iterator<Item = String>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_need_be() {
        let mut text = String::new();
        csv_line(&mut text, ["a", "b,c", "say \"d\"", "", "e\nf"].into_iter().map(str::to_owned));
        assert_eq!(text, "a,\"b,c\",\"say \"\"d\"\"\",,\"e\nf\"\r\n");
    }
}
