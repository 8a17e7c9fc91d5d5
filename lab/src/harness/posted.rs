//! The figures of an original post, kept beside ours.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// What a post reports.
#[derive(Debug, Serialize)]
pub(crate) struct Posted {
    /// The post, and the machine it was measured on.
    pub(crate) source: &'static str,
    /// What must be the same here: times belong to machines, the shape does not.
    pub(crate) expected: &'static str,
    /// Its figures.
    pub(crate) tables: &'static [Figures],
}

/// A table of a post.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    /// What was measured.
    pub(crate) title: &'static str,
    /// Unit of all values.
    pub(crate) unit: &'static str,
    /// Labels of the columns.
    pub(crate) columns: &'static [&'static str],
    /// The rows.
    pub(crate) rows: &'static [FiguresRow],
}

/// A row of a posted table.
#[derive(Debug, Serialize)]
pub(crate) struct FiguresRow {
    /// Label of the row.
    pub(crate) row: &'static str,
    /// One value for each column.
    pub(crate) values: &'static [f64],
}

impl Figures {
    /// The value in a row and a column, if the post has it.
    pub(crate) fn value(&self, row: &str, column: &str) -> Option<f64> {
        let column = self.columns.iter().position(|&label| label == column)?;
        self.rows.iter().find(|r| r.row == row)?.values.get(column).copied()
    }
}

/// An empty table in the style of all reports: a column of labels, then numbers.
pub(crate) fn table<'a>(heads: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(heads);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posted_value_is_found_by_labels() {
        let figures = Figures {
            title: "calls",
            unit: "s",
            columns: &["before", "after"],
            rows: &[FiguresRow { row: "1", values: &[2.0, 1.0] }],
        };
        assert_eq!(figures.value("1", "after"), Some(1.0));
        assert_eq!(figures.value("2", "after"), None);
        assert_eq!(figures.value("1", "later"), None);
    }
}
