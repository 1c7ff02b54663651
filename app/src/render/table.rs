//! Aligned tables.

use super::{Style, clean};

/// Which side of its column a text stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of texts under headings.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(columns: &[(&str, Align)]) -> Table {
        Table { columns: columns.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| clean(&cell)).collect());
    }

    /// Whether it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, each line with its end and `indent` spaces in front.
    pub(crate) fn text(&self, indent: usize, style: Style) -> String {
        let widths: Vec<usize> = (0..self.columns.len()).map(|column| self.width(column)).collect();
        let heads = self.columns.iter().map(|(name, _)| name.as_str());
        let mut text = style.dim(&self.line(heads, &widths, indent));
        text.push('\n');
        for row in &self.rows {
            text.push_str(&self.line(row.iter().map(String::as_str), &widths, indent));
            text.push('\n');
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let heading = self.columns.get(column).map_or(0, |(name, _)| name.chars().count());
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(heading)
    }

    fn line<'a>(&self, cells: impl Iterator<Item = &'a str>, widths: &[usize], indent: usize) -> String {
        let mut line = " ".repeat(indent);
        for (n, ((cell, &width), (_, align))) in cells.zip(widths).zip(&self.columns).enumerate() {
            if n > 0 {
                line.push_str("  ");
            }
            let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
            match align {
                Align::Left => line.extend([cell, &padding]),
                Align::Right => line.extend([padding.as_str(), cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&[("name", Align::Left), ("packets", Align::Right), ("why", Align::Left)]);
        table.row(["wan".into(), "7".into(), "a".into()]);
        table.row(["a-long-name".into(), "1,234,567".into(), String::new()]);
        assert_eq!(
            table.text(2, Style::PLAIN),
            "  name           packets  why\n  wan                  7  a\n  a-long-name  1,234,567\n"
        );
    }

    #[test]
    fn nothing_moves_the_cursor() {
        let mut table = Table::new(&[("x", Align::Left)]);
        table.row(["\x1b[2Jboo\n".into()]);
        assert_eq!(table.text(0, Style::PLAIN), "x\n\u{fffd}[2Jboo\u{fffd}\n");
    }
}
