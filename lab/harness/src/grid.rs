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
}

/// Markdown. Columns of numbers are aligned at the right.
impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_column = |column: usize| self.rows.iter().filter_map(move |row| row.get(column));
        let is_number =
            |cell: &String| cell.is_empty() || cell.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        let columns: Vec<(usize, bool)> = (0..self.head.len())
            .map(|column| {
                let cells = of_column(column).chain([&self.head[column]]);
                let width = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
                (width.max(1), of_column(column).all(is_number))
            })
            .collect();
        if !self.title.is_empty() {
            writeln!(f, "\n{}", self.title)?;
        }
        let line = |f: &mut fmt::Formatter<'_>, cells: &[String]| {
            for (column, &(width, is_right)) in columns.iter().enumerate() {
                let cell = cells.get(column).map_or("", String::as_str);
                match is_right {
                    true => write!(f, "| {cell:>width$} ")?,
                    false => write!(f, "| {cell:width$} ")?,
                }
            }
            f.write_str("|")
        };
        line(f, &self.head)?;
        f.write_str("\n")?;
        columns.iter().try_for_each(|(width, _)| write!(f, "|{:-<1$}", "", width + 2))?;
        f.write_str("|")?;
        for row in &self.rows {
            f.write_str("\n")?;
            line(f, row)?;
        }
        Ok(())
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
            "|------|---------|",
            "| ours | 1.00 us |",
            "| µ    |  -10 ns |",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }
}
