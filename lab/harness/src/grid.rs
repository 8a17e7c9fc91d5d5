//! A table as commands print it.

use std::fmt;

/// A table with a title, which may be empty.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "measure", derive(serde::Serialize, serde::Deserialize))]
pub struct Grid {
    #[cfg_attr(feature = "measure", serde(default, skip_serializing_if = "String::is_empty"))]
    pub title: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    pub fn new(title: &str, head: &[&str], rows: Vec<Vec<String>>) -> Self {
        Self { title: title.to_owned(), head: head.iter().map(|&name| name.to_owned()).collect(), rows }
    }

    /// Parses lines of cells, separated by `|`: the title, the names of the columns, and rows.
    pub fn parse(text: &str) -> Self {
        let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        let mut lines = text.lines();
        let title = lines.next().unwrap_or_default().to_owned();
        let head = lines.next().map(cells).unwrap_or_default();
        Self { title, head, rows: lines.map(cells).collect() }
    }
}

/// Markdown. Columns of numbers are aligned at the right.
impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.title.is_empty() {
            writeln!(f, "\n{}", self.title)?;
        }
        let is_number =
            |cell: &str| cell.is_empty() || cell.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        let mut lines = vec![String::new(); self.rows.len() + 2];
        for (column, head) in self.head.iter().enumerate() {
            let cells: Vec<&str> =
                self.rows.iter().map(|row| row.get(column).map_or("", String::as_str)).collect();
            let width =
                cells.iter().chain([&&**head]).map(|cell| cell.chars().count()).max().unwrap_or(0).max(1);
            let is_right = cells.iter().all(|cell| is_number(cell));
            let rule = "-".repeat(width);
            for (line, cell) in lines.iter_mut().zip([&**head, &rule].into_iter().chain(cells)) {
                *line += &if is_right { format!("| {cell:>width$} ") } else { format!("| {cell:width$} ") };
            }
        }
        f.write_str(&lines.iter().map(|line| format!("{line}|")).collect::<Vec<_>>().join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grid_is_markdown_whose_numbers_are_at_the_right() {
        let rows = [["ours", "1.00 us"], ["µ", "-10 ns"]].map(|row| row.map(String::from).to_vec());
        let text = Grid::new("Costs", &["", "cost"], rows.to_vec()).to_string();
        let lines = [
            "",
            "Costs",
            "|      |    cost |",
            "| ---- | ------- |",
            "| ours | 1.00 us |",
            "| µ    |  -10 ns |",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }
}
