//! Fills tables of the results into pages, so that no page has a figure that the report does not have.
//!
//! Pages have marks, which Markdown does not show. What stands before the end of a mark is replaced:
//!
//! ```text
//! <!-- block: NAME -->
//! ...
//! <!-- end -->
//! ```
//!
//! NAME is `machine` (with the commit), `highlights` (those of the README), `targets`, or `claims`.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

use super::summary::Summary;
use super::{claims, markdown};

const BLOCK: &str = "<!-- block: ";
const CLOSE: &str = " -->";
const END: &str = "<!-- end -->";

/// Fills the marks of a page.
///
/// # Errors
///
/// Returns an error if the page cannot be read or written, or if there is no such block.
pub(super) fn page(path: &Path, summary: &Summary) -> anyhow::Result<()> {
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let filled = fill(&text, summary).with_context(|| format!("cannot fill {name}"))?;
    fs::write(path, filled).with_context(|| format!("cannot write {name}"))
}

fn fill(text: &str, summary: &Summary) -> anyhow::Result<String> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(BLOCK) {
        let (name, after) = after.split_once(CLOSE).context("a mark is not closed")?;
        let (old, after) = after.split_once(END).with_context(|| format!("the mark has no end: {name}"))?;
        if old.contains(BLOCK) {
            bail!("the mark has no end: {name}");
        }
        let new = block(name, summary).with_context(|| format!("no such block: {name}"))?;
        filled += &[before, BLOCK, name, CLOSE, "\n", &new, END].concat();
        rest = after;
    }
    Ok(filled + rest)
}

fn block(name: &str, summary: &Summary) -> Option<String> {
    match name {
        "machine" => Some(summary.headline.clone() + "\n"),
        "targets" => Some(markdown::targets(summary)),
        "highlights" => Some(markdown::highlights(summary)),
        "claims" => Some(markdown::claims(&claims::published(summary))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::Document;
    use super::*;
    use harness::given::Cpus;
    use harness::report::OURS;
    use harness::stats::{Config, Metric, Recorder};
    use harness::{Origin, Report};

    const COST: Metric = Metric::nanoseconds("pair_ns");

    fn document() -> Document {
        let mut recorder = Recorder::new("read");
        let config = Config::new([("threads", 1.into()), ("nesting", 1.into())]);
        for (system, value) in [(OURS, 2.0), ("slow", 8.0), ("fast", 4.0)] {
            recorder.record(0, system, &COST, &config, value);
        }
        let mut document = Document::default();
        document.put(Report { cpus: Some(Cpus::always(2.0, 2)), ..Report::new(&recorder, Vec::new()) });
        document
    }

    #[test]
    fn marks_are_filled_and_can_be_filled_again() {
        let summary = Summary::of(&document());
        let page = "x\n<!-- block: highlights -->\nold\n<!-- end -->\ny";
        let new = fill(page, &summary).expect("a known block");
        for line in [
            "| RCU read (enter, load, exit) | 2.00 ns | fast | 4.00 ns | 0.50x | slow 8.00 ns |",
            "| SRCU read (enter, load, exit) | not measured |  |  |  | `srcu` was not run |",
        ] {
            assert!(new.contains(line) && !new.contains("old"), "{new}");
        }
        assert_eq!(fill(&new, &summary).expect("a known block"), new);
    }

    #[test]
    fn mark_without_block_or_end_is_an_error() {
        let summary = Summary::of(&document());
        for page in [
            "<!-- block: none -->\n<!-- end -->",
            "<!-- block: machine -->\n",
            "<!-- block: machine -->\n<!-- block: machine -->\n<!-- end -->",
        ] {
            assert!(fill(page, &summary).is_err(), "{page}");
        }
    }

    #[test]
    fn results_of_two_runs_of_changed_code_or_without_cpus_are_not_one_run() {
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
            assert!(document.headline().contains("not to be published"), "{}", document.headline());
        }
        for (lost, why) in [(Some(Cpus::always(1.5, 2)), "threads got 1.50"), (None, "is not known")] {
            let mut document = two(good.clone(), Some(good.clone()));
            document.results[1].cpus = lost;
            assert!(document.origin().is_err_and(|error| error.contains(why)));
            assert!(document.headline().contains("not to be published"), "{}", document.headline());
        }
        for bad in [origin("1", "abc", true), origin("1", "unknown", false)] {
            assert!(two(bad.clone(), Some(bad)).origin().is_err());
        }
        assert!(document().origin().is_err());
    }
}
