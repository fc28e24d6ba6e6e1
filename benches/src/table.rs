//! Tables as Markdown, aligned so that they read well in a terminal too.

/// Rows of text under a header. The first column is left-aligned, the others are right-aligned.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Table { rows: vec![header.iter().map(|title| (*title).to_owned()).collect()] }
    }

    /// Adds a row, which must have as many cells as the header.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows[0].len(), "a row fits its header");
        self.rows.push(cells);
    }

    pub(crate) fn print(&self, title: &str) {
        println!("\n### {title}\n\n{}", self.render());
    }

    fn render(&self) -> String {
        let columns = self.rows[0].len();
        let width = |at: usize| self.rows.iter().map(|row| row[at].chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0).max(3)).collect();
        let mut lines: Vec<String> = self.rows.iter().map(|row| line(row, &widths)).collect();
        let rule = widths.iter().enumerate().map(|(at, width)| match at {
            0 => format!("|{}", "-".repeat(width + 2)),
            _ => format!("|{}:", "-".repeat(width + 1)),
        });
        lines.insert(1, rule.collect::<String>() + "|\n");
        lines.concat()
    }
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells = row.iter().zip(widths).enumerate().map(|(at, (cell, width))| match at {
        0 => format!("| {cell:<width$} "),
        _ => format!("| {cell:>width$} "),
    });
    cells.collect::<String>() + "|\n"
}

/// A number with three significant digits and a unit: `12.3 M`, `450 k`, `7.00`.
pub(crate) fn short(number: f64) -> String {
    let (scaled, unit) = match number.abs() {
        n if n >= 1e6 => (number / 1e6, " M"),
        n if n >= 1e4 => (number / 1e3, " k"),
        _ => (number, ""),
    };
    let decimals = match scaled.abs() {
        n if n >= 100.0 => 0,
        n if n >= 10.0 => 1,
        _ => 2,
    };
    format!("{scaled:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned() {
        let mut table = Table::new(&["tool", "rate"]);
        table.row(vec!["ours".to_owned(), "12".to_owned()]);
        assert_eq!(table.render(), "| tool | rate |\n|------|-----:|\n| ours |   12 |\n");
    }

    #[test]
    fn numbers_are_short() {
        let shown = [25_000_000.0, 123_456.0, 1_234.5, 6.0].map(short);
        assert_eq!(shown, ["25.0 M", "123 k", "1234", "6.00"]);
    }
}
