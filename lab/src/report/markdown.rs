//! The summary, short enough for a README, and all figures, in Markdown.

use std::fmt::Write as _;

use super::contents::{BEHIND, HOW_TO_READ, RULE};
use super::document::Document;
use super::{headline, lines};
use crate::harness::Report;

pub(super) fn summary(document: &Document) -> String {
    let mut text = format!("# stillpoint on this machine\n\n{}\n", headline(document));
    let highlights = lines::highlights(document);
    if !highlights.is_empty() {
        let _ = write!(text, "\n{HOW_TO_READ}\n\n");
        text += "| | stillpoint | best peer | theirs | ratio | min..max | other peers |\n\
                 |---|--:|---|--:|--:|--:|---|\n";
        for line in highlights {
            let others = line.others.join(", ");
            let cells: Vec<&String> = line.cells.iter().chain([&others]).collect();
            row(&mut text, &cells);
        }
    }
    let behind = lines::behind(document);
    if !behind.is_empty() {
        let _ = write!(text, "\n## Where a peer is ahead\n\n{BEHIND}\n\n");
        text += &self::behind(&behind);
    }
    let mut claims = String::new();
    for result in document.in_order() {
        for line in lines::claims(result) {
            claims += &format!("| {} ", result.bench.to_uppercase());
            row(&mut claims, &line);
        }
    }
    if !claims.is_empty() {
        let _ = write!(text, "\n## Experiments of the posts\n\n{RULE}\n\n");
        text += "| | | posted | ours | ratio | min..max | shape |\n|---|---|--:|--:|--:|--:|---|\n";
        text += &claims;
    }
    text += "\n[All figures](figures.md); plots are in report.html, raw results in report.json. `stillpoint report` \
             writes them.\n";
    text
}

pub(super) fn figures(document: &Document) -> String {
    let mut text = format!(
        "# All figures of [the page](report.html)\n\n{}\n\n\
         A ratio is ours / theirs in one round; its median stands beside its extremes.\n",
        headline(document)
    );
    for result in document.in_order() {
        let (name, seconds) = (&result.bench, result.seconds.unwrap_or(1.0).max(1.0));
        let _ = write!(text, "\n## {name}\n\n`stillpoint report --only {name}`, {seconds:.0} s\n");
        if let Some(posted) = &result.posted {
            let _ = write!(text, "\n{}. Expected: {}.\n", posted.source, posted.expected);
        }
        for grid in &result.tables {
            if !grid.title.is_empty() {
                let _ = write!(text, "\n{}\n", grid.title);
            }
            text.push('\n');
            row(&mut text, &grid.head);
            row(&mut text, &vec!["---"; grid.head.len()]);
            grid.rows.iter().for_each(|cells| row(&mut text, cells));
        }
        if !result.skipped.is_empty() {
            text.push('\n');
        }
        for skipped in &result.skipped {
            let _ = writeln!(text, "- Not measured: {}, {}.", skipped.system, skipped.why);
        }
    }
    text
}

/// Returns the highlights in which the best peer is ahead, or those in which it is not, as a table with three peers.
pub(super) fn highlights(document: &Document, is_behind: bool) -> String {
    let mut text =
        "| | stillpoint | best peer | its figure | ratio | next peers |\n|---|--:|---|--:|--:|---|\n"
            .to_owned();
    for line in lines::highlights(document) {
        if line.is_measured() && line.is_behind == is_behind {
            let next = line.others.iter().take(2).cloned().collect::<Vec<_>>().join(", ");
            row(&mut text, &[&line.cells[..5], &[next]].concat());
        }
    }
    text
}

/// Returns the highlights that were not measured, and why, as a list.
pub(super) fn not_measured(document: &Document) -> String {
    let mut text = String::new();
    for line in lines::highlights(document).iter().filter(|line| !line.is_measured()) {
        let _ = writeln!(text, "- Not measured: {}: {}.", line.cells[0], line.cells[5]);
    }
    text
}

/// Returns what was aimed at, as a table.
pub(super) fn targets(document: &Document) -> String {
    let mut text = "| | beside | target | ratio | min..max | |\n|---|---|---|--:|--:|---|\n".to_owned();
    lines::targets(document).iter().for_each(|line| row(&mut text, line));
    text
}

/// Returns where a peer is ahead, as a table.
pub(super) fn behind(lines: &[[String; 6]]) -> String {
    let mut text = "| | cells | by most | peer | ratio | min..max |\n|---|--:|---|---|--:|--:|\n".to_owned();
    lines.iter().for_each(|line| row(&mut text, line));
    text
}

/// Returns what the posts of an experiment say, as a table.
pub(super) fn claims(result: &Report) -> String {
    let mut text = "| | posted | ours | ratio | min..max | shape |\n|---|--:|--:|--:|--:|---|\n".to_owned();
    lines::claims(result).iter().for_each(|line| row(&mut text, line));
    text
}

fn row(text: &mut String, cells: &[impl AsRef<str>]) {
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}
