//! Every figure in Markdown, as the commands print them.

use std::fmt::Write as _;

use super::data::{Document, Outcome};
use super::page;
use super::part::Grid;

pub(super) fn render(document: &Document) -> String {
    let mut text = format!(
        "# All figures of [the page](report.html)\n\n{}\n\nA ratio is ours / theirs in one round; its median stands beside its extremes.\n",
        page::headline(document)
    );
    super::ORDER
        .iter()
        .filter_map(|part| document.result(part.name()))
        .for_each(|result| add(&mut text, result));
    text
}

fn add(text: &mut String, result: &Outcome) {
    let name = &result.bench;
    let seconds = result.seconds.max(1.0);
    let _ = write!(text, "\n## {name}\n\n`stillpoint report --only {name}`, {seconds:.0} s\n");
    if let Some(posted) = &result.posted {
        let _ = write!(text, "\n{}. Expected: {}.\n", posted.source, posted.expected);
    }
    result.tables.iter().for_each(|grid| table(text, grid));
    if !result.skipped.is_empty() {
        text.push('\n');
    }
    for skipped in &result.skipped {
        let _ = writeln!(text, "- Not measured: {}, {}.", skipped.system, skipped.why);
    }
}

fn table(text: &mut String, grid: &Grid) {
    if !grid.title.is_empty() {
        let _ = write!(text, "\n{}\n", grid.title);
    }
    let rule = vec!["---"; grid.head.len()].join(" | ");
    let _ = write!(text, "\n| {} |\n| {rule} |\n", grid.head.join(" | "));
    for row in &grid.rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
}
