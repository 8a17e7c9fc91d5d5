//! Fills figures of the results into pages, so that no page has a figure that the report does not have.
//!
//! Pages have marks, which Markdown does not show. What stands before the end of a mark is replaced:
//!
//! ```text
//! <!-- figure: PART; METRIC; CONFIGURATION; WHAT -->0.97x<!-- end -->
//! <!-- block: NAME -->
//! ...
//! <!-- end -->
//! ```
//!
//! WHAT is a system, for its value, or `/ SYSTEM`, for the ratio of ours to it. `best` is the best peer, and `peer` its
//! name. The configuration is one of [`Report::select`](crate::harness::Report::select). NAME is `machine` (with the
//! commit), `ahead` or `behind` (the highlights in which no peer or a peer is ahead), `not measured`, `behind by part`,
//! `targets`, or `claims` and an experiment.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

use super::document::Document;
use super::{headline, lines, markdown};
use crate::harness::report::{OURS, figure, times};

const FIGURE: &str = "<!-- figure: ";
const BLOCK: &str = "<!-- block: ";
const CLOSE: &str = " -->";
const END: &str = "<!-- end -->";

/// Fills the marks of a page.
///
/// # Errors
///
/// Returns an error if the page cannot be read or written, or if a mark has no figure.
pub(super) fn page(path: &Path, document: &Document) -> anyhow::Result<()> {
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let filled = fill(&text, document).with_context(|| format!("cannot fill {name}"))?;
    fs::write(path, filled).with_context(|| format!("cannot write {name}"))
}

fn fill(text: &str, document: &Document) -> anyhow::Result<String> {
    let (mut filled, mut rest) = (String::new(), text);
    loop {
        let next = [FIGURE, BLOCK].into_iter().filter_map(|mark| Some((rest.find(mark)?, mark))).min();
        let Some((begin, mark)) = next else { break };
        let (before, after) = rest.split_at(begin + mark.len());
        let (key, after) = after.split_once(CLOSE).context("a mark is not closed")?;
        let (old, after) = after.split_once(END).with_context(|| format!("the mark has no end: {key}"))?;
        if old.contains(FIGURE) || old.contains(BLOCK) {
            bail!("the mark has no end: {key}");
        }
        let new = match mark {
            FIGURE => value(key, document).with_context(|| format!("the report has no figure for: {key}"))?,
            _ => format!("\n{}", block(key, document).with_context(|| format!("no such block: {key}"))?),
        };
        filled += &[before, key, CLOSE, &new, END].concat();
        rest = after;
    }
    Ok(filled + rest)
}

fn value(key: &str, document: &Document) -> Option<String> {
    let mut parts = key.split("; ");
    let (bench, metric, wanted, what) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let result = document.result(bench)?;
    let ours = || result.find(OURS, metric, wanted);
    let best = || result.peers(ours()?).first().copied();
    match what.split_once("/ ") {
        Some((_, "best")) => Some(times(result.ratio_to(ours()?, &best()?.system)?.summary.median)),
        Some((_, system)) => Some(times(result.ratio_to(ours()?, system)?.summary.median)),
        None if what == "peer" => Some(best()?.system.to_string()),
        None => {
            let row = if what == "best" { best()? } else { result.find(what, metric, wanted)? };
            Some(figure(row.summary.median, &row.unit))
        }
    }
}

fn block(name: &str, document: &Document) -> Option<String> {
    match name {
        "machine" => Some(headline(document) + "\n"),
        "ahead" => Some(markdown::highlights(document, false)),
        "behind" => Some(markdown::highlights(document, true)),
        "not measured" => Some(markdown::not_measured(document)),
        "targets" => Some(markdown::targets(document)),
        "behind by part" => Some(markdown::behind(&lines::behind(document))),
        _ => Some(markdown::claims(document.result(name.strip_prefix("claims ")?)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::stats::{Config, Metric, Recorder};
    use crate::harness::{Origin, Report};

    const COST: Metric = Metric::nanoseconds("pair_ns");

    fn document() -> Document {
        let mut recorder = Recorder::new("read");
        let config = Config::new([("threads", 1.into()), ("nesting", 1.into())]);
        for (system, value) in [(OURS, 2.0), ("slow", 8.0), ("fast", 4.0)] {
            recorder.record(0, system, &COST, &config, value);
        }
        let mut document = Document::default();
        document.put(Report::new(&recorder, Vec::new()));
        document
    }

    #[test]
    fn marks_are_filled_and_can_be_filled_again() {
        let key = "read; pair_ns; threads=1";
        let page = |a: &str, b: &str, c: &str| {
            format!(
                "x <!-- figure: {key}; / best -->{a}<!-- end --> of <!-- figure: {key}; peer -->{b}<!-- end -->, \
                 <!-- figure: {key}; slow -->{c}<!-- end --> y"
            )
        };
        let (old, new) = (page("", "?", "9 ns"), page("0.50x", "fast", "8.00 ns"));
        assert_eq!(fill(&old, &document()).expect("known figures"), new);
        assert_eq!(fill(&new, &document()).expect("known figures"), new);
        let block = fill("<!-- block: ahead -->\nold\n<!-- end -->\n", &document()).expect("a known block");
        assert!(
            block.contains(
                "| RCU read (enter, load, exit) | 2.00 ns | fast | 4.00 ns | 0.50x | slow 8.00 ns |"
            ),
            "{block}"
        );
        assert!(!block.contains("old"));
    }

    #[test]
    fn mark_without_figure_or_end_is_an_error() {
        for page in [
            "<!-- figure: read; pair_ns; threads=7; / best -->1<!-- end -->",
            "<!-- figure: read; pair_ns; threads=1; none -->1<!-- end -->",
            "<!-- block: none -->\n<!-- end -->",
            "<!-- figure: read; pair_ns; threads=1; / best -->1",
            "<!-- figure: read; pair_ns; threads=1; fast -->1 <!-- figure: read; pair_ns; ; fast -->1<!-- end -->",
        ] {
            assert!(fill(page, &document()).is_err(), "{page}");
        }
    }

    #[test]
    fn results_of_two_runs_or_of_changed_code_are_not_one_run() {
        let origin =
            |run: &str, commit: &str, dirty| Origin { run: run.into(), commit: commit.into(), dirty };
        let two = |a: Origin, b: Option<Origin>| {
            let mut document = document();
            document.results[0].origin = Some(a);
            let mut other = self::document().results.remove(0);
            (other.bench, other.origin) = ("sync".into(), b);
            document.put(other);
            document
        };
        let good = origin("1", "abc", false);
        assert_eq!(two(good.clone(), Some(good.clone())).origin(), Ok(&good));
        for bad in [None, Some(origin("2", "abc", false)), Some(origin("1", "def", false))] {
            let document = two(good.clone(), bad);
            assert!(document.origin().is_err());
            assert!(headline(&document).contains("not to be published"), "{}", headline(&document));
        }
        for bad in [origin("1", "abc", true), origin("1", "unknown", false)] {
            assert!(two(bad.clone(), Some(bad)).origin().is_err());
        }
        assert!(document().origin().is_err());
    }
}
