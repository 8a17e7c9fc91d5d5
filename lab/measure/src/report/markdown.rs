//! The summary, short enough for a README, and all figures, in Markdown.

use std::fmt::Write as _;

use super::claims::{self, Claim};
use super::contents::{BEHIND, HOW_TO_READ, RULE};
use super::document::Document;
use super::summary::Summary;
use harness::report::times;

pub(super) fn summary(summary: &Summary) -> String {
    let mut text = format!("# stillpoint on this machine\n\n{}\n", summary.headline);
    if !summary.highlights.is_empty() {
        let _ = write!(text, "\n{HOW_TO_READ}\n\n");
        text += "| | stillpoint | best peer | theirs | ratio | min..max | other peers |\n\
                 |---|--:|---|--:|--:|--:|---|\n";
        for line in &summary.highlights {
            let others = line.others.join(", ");
            let cells: Vec<&String> = line.cells.iter().chain([&others]).collect();
            row(&mut text, &cells);
        }
    }
    if !summary.behind.is_empty() {
        let _ = write!(text, "\n## Where a peer is ahead\n\n{BEHIND}\n\n");
        text += "| | cells | by most | peer | ratio | min..max |\n|---|--:|---|---|--:|--:|\n";
        summary.behind.iter().for_each(|line| row(&mut text, line));
    }
    if !summary.post_claims.is_empty() {
        let _ = write!(text, "\n## Experiments of the posts\n\n{RULE}\n\n");
        text += "| | | posted | ours | ratio | min..max | shape |\n|---|---|--:|--:|--:|--:|---|\n";
        summary.post_claims.iter().for_each(|line| row(&mut text, line));
    }
    text += "\n`stillpoint report` writes this summary, and beside it all figures (figures.md), a page with plots \
             (report.html) and the raw results (report.json).\n";
    text
}

pub(super) fn figures(document: &Document) -> String {
    let mut text = format!(
        "# All figures of [the page](report.html)\n\n{}\n\n\
         A ratio is ours / theirs in one round; its median stands beside its extremes.\n",
        document.headline()
    );
    for result in document.in_order() {
        let (name, seconds) = (&result.bench, result.seconds.unwrap_or(1.0).max(1.0));
        let cpus = result.cpus.as_ref().map_or(String::new(), |cpus| format!("; {cpus}"));
        let _ = write!(text, "\n## {name}\n\n`stillpoint report --only {name}`, {seconds:.0} s{cpus}\n");
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

/// Returns the highlights of the README as a table with three peers; of what was not measured, why.
pub(super) fn highlights(summary: &Summary) -> String {
    let mut text =
        "| | stillpoint | best peer | its figure | ratio | next peers |\n|---|--:|---|--:|--:|---|\n"
            .to_owned();
    for line in claims::of_readme(summary).map(|(_, line)| line) {
        let last = match line.is_measured() {
            true => line.others.iter().take(2).cloned().collect::<Vec<_>>().join(", "),
            false => line.cells[5].clone(),
        };
        row(&mut text, &[&line.cells[..5], &[last]].concat());
    }
    text
}

/// Returns what was aimed at, as a table.
pub(super) fn targets(summary: &Summary) -> String {
    let mut text = "| | beside | target | ratio | min..max | |\n|---|---|---|--:|--:|---|\n".to_owned();
    summary.targets.iter().for_each(|line| row(&mut text, line));
    text
}

/// Returns what is claimed, and what would refute it, as a table.
pub(super) fn claims(claims: &[Claim]) -> String {
    let mut text = "| | beside | published | target | refuted by | command | minutes |\n\
                    |---|---|--:|---|---|---|--:|\n"
        .to_owned();
    for claim in claims {
        let (part, minutes) = (claim.part.name, claim.part.seconds(true) / 60.0);
        let published = format!("{} ({})", times(claim.ratio), claim.range);
        let command = format!("`claims --only {part}`");
        let minutes = format!("{minutes:.1}");
        let (title, refuted) = (claim.title.clone(), claim.refuted());
        row(
            &mut text,
            &[title, claim.beside.clone(), published, claim.target.clone(), refuted, command, minutes],
        );
    }
    text
}

fn row(text: &mut String, cells: &[impl AsRef<str>]) {
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}
