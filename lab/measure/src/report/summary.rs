//! What the repository keeps of a report: the figures that its pages cite, as they are printed, and the points of
//! plots. The rest are artefacts of a release.
//!
//! A summary is made from a [document](Document), or read from `summary.json`. From it come the page `summary.md`,
//! the plots, and in the folder `blocks` tables that `ci/docs.sh` fills into other pages.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::claims;
use super::document::Document;
use super::figures::{self, Line, Str};
use super::plot::{self, Curve, Plot};
use super::{posts, programs, write};
use crate::peers::guarantees;
use harness::Origin;
use harness::report::{OURS, Series};
use harness::stats::Row;

/// The figures that pages cite.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Summary {
    /// The run and the code, if the results have one run of one commit on one machine.
    pub(super) origin: Option<Origin>,
    /// The machine, the code, and the time of the measurements, in a line.
    pub(super) headline: String,
    pub(super) figures: Vec<Line>,
    behind: Vec<[String; 6]>,
    #[serde(default)]
    programs: Vec<[String; 7]>,
    posts: Vec<[String; 7]>,
    plots: Vec<Plot>,
}

/// The most points of a course.
const COURSE_POINTS: usize = 60;

const HOW_TO_READ: Str = "Medians over interleaved rounds. The ratio is formed within each round, and its \
     median stands beside its extremes; with † it is not nearly the quotient of the two medians, because rounds differ \
     by more than systems do. Below 1, stillpoint takes less time or memory; of a rate, above 1, it does more. The best \
     peer is the one with the best median of all that guarantee the same \
     ([list](../measurements.md#peers)); those with * guarantee something else.";

const BEHIND: Str = "For each bench and metric: in how many of its configurations the best peer has the better \
     median, and the one where it is ahead by most.";

const PROGRAMS: Str = "Ratios to the best of std and two versions of parking_lot, in 15 programs: the geometric mean; \
     in how many programs stillpoint is the best; and the program in which it is furthest behind.";

impl Summary {
    pub(super) fn of(document: &Document) -> Self {
        let mut claims = Vec::new();
        for result in document.in_order() {
            for [what, posted, ours, ratio, range, verdict] in posts::claims(result) {
                claims.push([result.bench.to_uppercase(), what, posted, ours, ratio, range, verdict]);
            }
        }
        Self {
            origin: document.origin().ok().cloned(),
            headline: document.headline(),
            figures: figures::all().iter().map(|figure| figure.line(document)).collect(),
            behind: figures::behind(document),
            posts: claims,
            programs: programs::table(document),
            plots: vec![locks(document), courses(document), programs::plot(document)],
        }
    }

    /// Returns the summary in a file, if the file has one and not a whole report.
    pub(super) fn read(path: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
    }

    /// Writes all that is made from it.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be written.
    pub(super) fn write(&self, out_dir: &Path) -> anyhow::Result<()> {
        super::make(&out_dir.join("blocks"))?;
        write(out_dir, "summary.json", &self.json()?)?;
        write(out_dir, "summary.md", &self.page())?;
        for (name, text) in [
            ("blocks/machine.md", self.headline.clone() + "\n"),
            ("blocks/highlights.md", self.highlights()),
            ("blocks/targets.md", self.targets(false)),
            ("blocks/targets-one.md", self.targets(true)),
            ("blocks/peers.md", guarantees::table()),
            ("blocks/claims.md", self.claims()),
        ] {
            write(out_dir, name, &text)?;
        }
        PLOTS.into_iter().try_for_each(|name| {
            let drawn = self.plots.iter().find(|plot| plot.name == name).map(plot::draw);
            write(out_dir, &format!("{name}.svg"), &drawn.unwrap_or_else(|| plot::draw(&Plot::default())))
        })
    }

    /// Returns the summary with a line for each item, so that `diff` can compare two files.
    fn json(&self) -> anyhow::Result<String> {
        let mut text = serde_json::to_string(self).context("cannot encode the summary")?;
        for (item, on_lines) in [
            (r#","headline""#, ",\n\"headline\""),
            (r#"{"figure""#, "\n{\"figure\""),
            (r#"{"system""#, "\n{\"system\""),
            (r#"{"name""#, "\n{\"name\""),
            (r#"behind":[["#, "behind\":[\n["),
            (r#"posts":[["#, "posts\":[\n["),
            (r#"programs":[["#, "programs\":[\n["),
            (r#""],[""#, "\"],\n[\""),
        ] {
            text = text.replace(item, on_lines);
        }
        Ok(text + "\n")
    }

    /// Returns a page that is short enough for a README.
    fn page(&self) -> String {
        let mut text = format!("# stillpoint on this machine\n\n{}\n\n{HOW_TO_READ}\n\n", self.headline);
        for (title, one_cpu) in [("All CPUs", false), ("One CPU", true)] {
            let shown = self.shown(one_cpu).filter(|line| !line.cells[1].is_empty());
            let _ = write!(text, "## {title}\n\n");
            text += &table(
                "| | stillpoint | best peer | theirs | ratio | min..max | other peers |",
                shown.map(|line| [&line.cells[..], &[line.others.join(", ")]].concat()),
            );
            text += "\n";
        }
        if !self.programs.is_empty() {
            let _ = write!(text, "## Programs\n\n{PROGRAMS}\n\n");
            text +=
                &table("| | mean | the best | furthest behind | peer | ratio | min..max |", &self.programs);
            text += "\n";
        }
        if !self.behind.is_empty() {
            let _ = write!(text, "## Where a peer is ahead\n\n{BEHIND}\n\n");
            text += &table("| | cells | by most | peer | ratio | min..max |", &self.behind);
        }
        if !self.posts.is_empty() {
            let _ = write!(text, "\n## Experiments of the posts\n\n{}\n\n", posts::RULE);
            text += &table("| | | posted | ours | ratio | min..max | shape |", &self.posts);
        }
        text += "\n`stillpoint report` writes this summary, and beside it all results (report.json).\n";
        text
    }

    /// Returns the lines of figures on one CPU, or of the others: no table has both.
    fn shown(&self, one_cpu: bool) -> impl Iterator<Item = &Line> {
        self.figures.iter().filter(move |line| line.is_of_one_cpu() == one_cpu)
    }

    /// Returns the table of the README; of what was not measured, why.
    fn highlights(&self) -> String {
        let shown = figures::all().into_iter().filter(figures::Figure::is_in_readme);
        let rows = shown.filter_map(|figure| {
            self.figures.iter().find(|line| line.is_of(&figure)).map(|line| line.highlight(&figure))
        });
        table("| | stillpoint | best peer | next peers |", rows)
    }

    /// Returns what was aimed at on one CPU, or on all.
    fn targets(&self, one_cpu: bool) -> String {
        let rows = self.shown(one_cpu).flat_map(|Line { cells, targets, .. }| {
            targets.iter().map(|target| [&cells[..1], target].concat())
        });
        table("| | beside | target | ratio | min..max | |", rows)
    }

    /// Returns what is claimed, and what would refute it.
    fn claims(&self) -> String {
        let row = |claim: &claims::Claim| {
            let (name, minutes) = (claim.part().name, claim.part().seconds(true) / 60.0);
            [&claim.cells()[..], &[format!("`claims --only {name}`"), format!("{minutes:.1}")]].concat()
        };
        let claims = claims::published(self);
        let head = "| | beside | published | refuted by | command | minutes |";
        table(head, claims.iter().map(row))
    }
}

/// Returns a table in Markdown; columns of figures are aligned at the right.
fn table<R: AsRef<[String]>>(head: &str, rows: impl IntoIterator<Item = R>) -> String {
    let right = ["stillpoint", "theirs", "ratio", "min..max", "mean", "cells", "posted", "ours", "minutes"];
    let columns = head.split('|').map(str::trim).collect::<Vec<_>>();
    let rule =
        columns[1..columns.len() - 1].iter().map(|name| if right.contains(name) { "--:" } else { "---" });
    let mut text = format!("{head}\n|{}|\n", rule.collect::<Vec<_>>().join("|"));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.as_ref().join(" | "));
    }
    text
}

/// The plots that pages show. One of what was not measured says so.
const PLOTS: [&str; 3] = ["lock", "memory", "programs"];

fn plot(name: &str, axes: [&str; 2], curves: Vec<Curve>) -> Plot {
    Plot { name: name.to_owned(), axes: axes.map(str::to_owned), rows: Vec::new(), curves }
}

/// Returns the longest wait and the throughput of each lock, with the most threads on all CPUs.
fn locks(document: &Document) -> Plot {
    let result = document.result("lock").filter(|result| result.lacks_cpus().is_none());
    let curves = result.into_iter().flat_map(|result| {
        result.select("max_wait_ns", "threads=max").into_iter().filter_map(|wait: &Row| {
            let rate = result.find(&wait.system, "mops", "threads=max")?;
            let points = vec![(wait.summary.median / 1e6, rate.summary.median)];
            Some(Curve { system: wait.system.to_string(), points })
        })
    });
    plot("lock", ["longest wait, ms", "acquisitions/µs"], curves.collect())
}

/// Returns the courses of memory, ours first, with the greatest value of each group of points.
fn courses(document: &Document) -> Plot {
    let curve = |series: &Series| {
        let groups = series.points.chunks(series.points.len().div_ceil(COURSE_POINTS).max(1));
        let greatest = groups.filter_map(|group| group.iter().max_by(|a, b| a.1.total_cmp(&b.1)));
        let points = greatest.map(|&(ms, bytes)| (ms.round(), (bytes / 1048576.0 * 100.0).round() / 100.0));
        Curve { system: series.system.to_string(), points: points.collect() }
    };
    let result = document.result("callback").filter(|result| result.lacks_cpus().is_none());
    let series = result.into_iter().flat_map(|result| &result.series);
    let mut curves: Vec<Curve> = series.map(curve).filter(|curve| !curve.points.is_empty()).collect();
    curves.sort_by_key(|course| course.system != OURS);
    plot("memory", ["milliseconds", "MiB"], curves)
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::stats::{Config, Metric};
    use harness::{Recorder, Report};

    #[test]
    fn summary_is_written_and_read_without_loss_and_fills_tables() {
        const COST: Metric = Metric::nanoseconds("pair_ns");
        let mut recorder = Recorder::new("read");
        let config = Config::new([("threads", 1.into())]);
        for (system, value) in [(OURS, 2.0), ("seize", 8.0), ("kovan", 4.0), ("arc-swap-cache", 1.0)] {
            recorder.record(0, system, &COST, &config, value);
        }
        let results = vec![Report::new(&recorder, Vec::new())];
        let summary = Summary::of(&Document { results, ..Document::default() });
        let json = summary.json().expect("a summary is JSON");
        assert!(json.lines().count() > summary.figures.len(), "{json}");
        let again: Summary = serde_json::from_str(&json).expect("what was written can be read");
        assert_eq!(again.json().expect("a summary is JSON"), json);
        let table = again.highlights();
        for line in [
            "|---|--:|---|---|",
            "| A read takes **0.50x** the time of kovan's | 2.00 ns | 4.00 ns | seize 8.00 ns |",
            "| Counter increment, one thread per CPU | not measured |  | `percpu` was not run |",
        ] {
            assert!(table.lines().any(|own| own == line), "{table}");
        }
    }
}
