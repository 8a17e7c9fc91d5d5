//! The summary in Markdown, short enough for a README.

use std::fmt::Write as _;

use super::data::Document;
use super::experiments::{Line, RULE};
use super::highlights;
use super::page;
use super::shape;

pub(super) fn render(document: &Document) -> String {
    let mut text = format!("# stillpoint on this machine\n\n{}\n", page::headline(document));
    let highlights = highlights::all(document);
    if !highlights.is_empty() {
        let _ = write!(text, "\n{}\n\n", highlights::HOW_TO_READ);
        text += "| | stillpoint | beside | theirs | ratio | min..max |\n|---|--:|---|--:|--:|--:|\n";
        for line in highlights {
            let cells = [line.what, line.ours, line.peer, line.theirs, line.ratio, line.range];
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
    }
    let claims = shape::claims(document);
    if !claims.is_empty() {
        let _ = write!(text, "\n## Experiments of the posts\n\n{RULE}\n\n");
        text += "| | | posted | ours | ratio | min..max | shape |\n|---|---|--:|--:|--:|--:|---|\n";
        for claim in &claims {
            let line = Line::of(claim);
            let name = claim.experiment.to_uppercase();
            let cells = [&name, &claim.what, &line.posted, &line.values, &line.ratio, &line.range];
            let cells = cells.map(String::as_str).join(" | ");
            let _ = writeln!(text, "| {cells} | {} |", line.verdict);
        }
    }
    text += "\n[All figures](figures.md), and with plots in report.html; raw results in report.json. They come from `stillpoint report`.\n";
    text
}
