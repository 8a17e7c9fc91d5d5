//! The summary, short enough for a README, and all figures, in Markdown.

use std::fmt::Write as _;

use super::contents::{HOW_TO_READ, RULE};
use super::document::Document;
use super::{headline, lines};

pub(super) fn summary(document: &Document) -> String {
    let mut text = format!("# stillpoint on this machine\n\n{}\n", headline(document));
    let highlights = lines::highlights(document);
    if !highlights.is_empty() {
        let _ = write!(text, "\n{HOW_TO_READ}\n\n");
        text += "| | stillpoint | beside | theirs | ratio | min..max |\n|---|--:|---|--:|--:|--:|\n";
        highlights.iter().for_each(|line| row(&mut text, line));
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

fn row(text: &mut String, cells: &[impl AsRef<str>]) {
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}
