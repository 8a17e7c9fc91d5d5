//! `compare`: what differs between two runs, row by row.
//!
//! A row of the second run differs from that of the first if each one's median lies outside the other's extremes. That says that
//! the runs differ, not why: so much may have changed on the machine between them. The rows of peers, which are the same code in both,
//! tell how much did.

use std::path::PathBuf;

use anyhow::ensure;

use crate::harness::Better;
use crate::harness::posted::table;
use crate::harness::report::{OURS, figure, times};
use crate::harness::stats::{Row, Summary};
use crate::report::document::Document;

/// Compare two runs: reports, or results of a bench or an experiment with --json.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The first run.
    #[arg(value_name = "A.json")]
    a: PathBuf,
    /// The second run.
    #[arg(value_name = "B.json")]
    b: PathBuf,
}

/// What is said of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Better,
    Worse,
    NoDifference,
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoDifference => "no difference seen",
        }
    }
}

/// A row of both runs.
#[derive(Debug)]
struct Pair<'a> {
    a: &'a Row,
    b: &'a Row,
}

impl Pair<'_> {
    /// Returns the quotient of the second run to the first.
    fn ratio(&self) -> Option<Summary> {
        self.b.summary.over(self.a.summary)
    }

    fn verdict(&self) -> Verdict {
        let (a, b) = (self.a.summary, self.b.summary);
        let holds = |run: Summary, median| (run.min..=run.max).contains(&median);
        if holds(a, b.median) || holds(b, a.median) {
            Verdict::NoDifference
        } else if (b.median < a.median) == (self.a.better == Better::Lower) {
            Verdict::Better
        } else {
            Verdict::Worse
        }
    }
}

/// Prints a line for each row that both runs have, and what follows.
///
/// # Errors
///
/// Fails if a file cannot be read, or the runs have no row in common.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (a, b) = (Document::read(&args.a)?, Document::read(&args.b)?);
    let mut all = Vec::new();
    let mut single = 0;
    for before in &a.results {
        let Some(after) = b.result(&before.bench) else {
            single += before.rows.len();
            continue;
        };
        if before.machine != after.machine {
            println!(
                "{}: not the same machine, kernel, fence or version of the library in both runs",
                before.bench
            );
        }
        let pairs = pairs(&before.rows, &after.rows);
        single += before.rows.len() - pairs.len();
        if !pairs.is_empty() {
            println!("\n{}\n{}", before.bench, lines(&pairs));
        }
        all.extend(pairs);
    }
    ensure!(!all.is_empty(), "the runs have no row in common");
    let ours = |is: bool| all.iter().filter(move |pair| (pair.a.system == OURS) == is);
    println!("\n{OURS}: {}", count(ours(true)));
    println!("others, which tell what the machine did: {}", count(ours(false)));
    if single > 0 {
        println!("{single} rows of the first run have no counterpart in the second.");
    }
    Ok(())
}

fn pairs<'a>(a: &'a [Row], b: &'a [Row]) -> Vec<Pair<'a>> {
    let pair = |a: &'a Row| {
        let same = |b: &&Row| b.system == a.system && b.metric == a.metric && b.config == a.config;
        Some(Pair { a, b: b.iter().find(same)? })
    };
    a.iter().filter_map(pair).collect()
}

fn lines(pairs: &[Pair<'_>]) -> comfy_table::Table {
    let mut table = table(["system, metric, configuration", "A", "B", "B / A", "min..max", ""]);
    for pair in pairs {
        let value = |row: &Row| figure(row.summary.median, &row.unit);
        let (ratio, range) =
            pair.ratio().map_or_else(Default::default, |ratio| (times(ratio.median), ratio.range()));
        let what = format!("{} {} {}", pair.a.system, pair.a.metric, pair.a.config);
        table.add_row([what, value(pair.a), value(pair.b), ratio, range, pair.verdict().text().to_owned()]);
    }
    table
}

/// How many rows there are of each verdict, and the median of their ratios.
fn count<'a>(pairs: impl Iterator<Item = &'a Pair<'a>> + Clone) -> String {
    let of = |verdict| pairs.clone().filter(|pair| pair.verdict() == verdict).count();
    let (better, worse, same) = (of(Verdict::Better), of(Verdict::Worse), of(Verdict::NoDifference));
    let total = better + worse + same;
    if better + worse == 0 {
        return format!("no difference seen in {total} rows");
    }
    format!("{better} rows better, {worse} worse, no difference seen in {same}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(better: Better, median: f64, min: f64, max: f64) -> Row {
        let summary = Summary { median, min, max };
        let (system, metric, unit) = (OURS.into(), "cost_ns".into(), "ns".into());
        Row { system, metric, unit, better, config: Default::default(), summary }
    }

    fn verdict(better: Better, a: (f64, f64, f64), b: (f64, f64, f64)) -> Verdict {
        let (a, b) = (row(better, a.0, a.1, a.2), row(better, b.0, b.1, b.2));
        Pair { a: &a, b: &b }.verdict()
    }

    #[test]
    fn a_median_within_the_others_extremes_is_no_difference() {
        let verdict = |a, b| verdict(Better::Lower, a, b);
        assert_eq!(verdict((10.0, 8.0, 12.0), (11.0, 10.5, 11.5)), Verdict::NoDifference);
        assert_eq!(verdict((10.0, 9.5, 10.5), (11.0, 8.0, 14.0)), Verdict::NoDifference);
        assert_eq!(verdict((10.0, 9.0, 11.0), (12.0, 10.5, 13.0)), Verdict::Worse);
        assert_eq!(verdict((10.0, 9.0, 11.0), (8.0, 7.0, 9.5)), Verdict::Better);
    }

    #[test]
    fn more_of_a_rate_is_better() {
        assert_eq!(verdict(Better::Higher, (10.0, 9.0, 11.0), (12.0, 11.5, 13.0)), Verdict::Better);
    }

    #[test]
    fn the_spread_of_a_ratio_is_what_the_extremes_allow() {
        let (a, b) = (row(Better::Lower, 10.0, 8.0, 20.0), row(Better::Lower, 20.0, 10.0, 24.0));
        assert_eq!(Pair { a: &a, b: &b }.ratio(), Some(Summary { median: 2.0, min: 0.5, max: 3.0 }));
        let zero = row(Better::Lower, 0.0, 0.0, 0.0);
        assert_eq!(Pair { a: &zero, b: &zero }.ratio(), None);
        assert_eq!(Pair { a: &zero, b: &zero }.verdict(), Verdict::NoDifference);
    }

    #[test]
    fn rows_are_matched_by_system_metric_and_configuration() {
        let (mut a, b) = (row(Better::Lower, 1.0, 1.0, 1.0), row(Better::Lower, 2.0, 2.0, 2.0));
        let runs = |a: &Row| pairs(std::slice::from_ref(a), std::slice::from_ref(&b)).len();
        assert_eq!(runs(&a), 1);
        a.metric = "other_ns".into();
        assert_eq!(runs(&a), 0);
    }
}
