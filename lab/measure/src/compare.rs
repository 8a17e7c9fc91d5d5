//! `compare`: what differs between two runs, row by row.
//!
//! A row of the second run differs from that of the first if each one's median lies outside the other's extremes.
//! This shows that the runs differ, not why: much else may have changed on the machine in between. The rows of peers,
//! whose code is the same in both, show how much did. Rows that were measured with too few CPUs cannot be compared.

use std::path::PathBuf;

use anyhow::ensure;

use crate::report::document::Document;
use harness::Better;
use harness::given::Cpus;
use harness::report::{Grid, OURS, UNCHECKED, figure, times};
use harness::stats::{Row, Summary};

/// Compare two runs: reports, or results of a bench or an experiment with --json.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The first run.
    #[arg(value_name = "A.json")]
    a: PathBuf,
    /// The second run.
    #[arg(value_name = "B.json")]
    b: PathBuf,
}

const BETTER: &str = "better";
const WORSE: &str = "worse";
const SAME: &str = "no difference seen";

/// A row of both runs.
#[derive(Debug)]
struct Pair<'a> {
    a: &'a Row,
    b: &'a Row,
}

impl Pair<'_> {
    fn verdict(&self) -> &'static str {
        if self.a.marked + self.b.marked > 0 {
            return UNCHECKED;
        }
        let (a, b) = (self.a.summary, self.b.summary);
        let holds = |run: Summary, median| (run.min..=run.max).contains(&median);
        if holds(a, b.median) || holds(b, a.median) {
            SAME
        } else if (b.median < a.median) == (self.a.better == Better::Lower) {
            BETTER
        } else {
            WORSE
        }
    }

    /// Returns the line of the table.
    fn line(&self) -> Vec<String> {
        let value = |row: &Row| figure(row.summary.median, &row.unit);
        let ratio = self.b.summary.over(self.a.summary);
        let (ratio, range) =
            ratio.map_or_else(Default::default, |ratio| (times(ratio.median), ratio.range()));
        let what = format!("{} {} {}", self.a.system, self.a.metric, self.a.config);
        vec![what, value(self.a), value(self.b), ratio, range, self.verdict().to_owned()]
    }
}

/// Prints a line for each row that both runs have, and what follows.
///
/// # Errors
///
/// Returns an error if a file cannot be read, or if the runs have no row in common.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (a, b) = (Document::read(&args.a)?, Document::read(&args.b)?);
    for (name, run) in [("A", &a), ("B", &b)] {
        let cpus =
            run.cpus().map_or_else(|| "how many CPUs threads got is not known".to_owned(), Cpus::to_string);
        println!("{name}: {cpus}");
    }
    let mut all = Vec::new();
    let mut single = 0;
    for before in &a.results {
        let Some(after) = b.result(&before.bench) else {
            single += before.rows.len();
            continue;
        };
        if before.machine != after.machine {
            println!("{}: the machine, kernel, fence or version of the library differs", before.bench);
        }
        let pairs = pairs(&before.rows, &after.rows);
        single += before.rows.len() - pairs.len();
        if !pairs.is_empty() {
            let head = ["system, metric, configuration", "A", "B", "B / A", "min..max", ""];
            println!("{}", Grid::new(&before.bench, &head, pairs.iter().map(Pair::line).collect()));
        }
        all.extend(pairs);
    }
    ensure!(!all.is_empty(), "the runs have no row in common");
    let ours = |is: bool| all.iter().filter(move |pair| (pair.a.system == OURS) == is);
    println!("\n{OURS}: {}", count(ours(true)));
    println!("others, which show what the machine did: {}", count(ours(false)));
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

/// Returns how many rows have each verdict.
fn count<'a>(pairs: impl Iterator<Item = &'a Pair<'a>> + Clone) -> String {
    let [better, worse, same, unchecked] = [BETTER, WORSE, SAME, UNCHECKED]
        .map(|verdict| pairs.clone().filter(|pair| pair.verdict() == verdict).count());
    let compared = match better + worse {
        0 => format!("{SAME} in {same} rows"),
        _ => format!("{better} rows {BETTER}, {worse} {WORSE}, {SAME} in {same}"),
    };
    if unchecked > 0 { format!("{compared}; {unchecked} {UNCHECKED}: too few CPUs") } else { compared }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(better: Better, median: f64, min: f64, max: f64) -> Row {
        let summary = Summary { median, min, max };
        let (system, metric, unit) = (OURS.into(), "cost_ns".into(), "ns".into());
        Row { system, metric, unit, better, config: Default::default(), summary, marked: 0 }
    }

    fn verdict(better: Better, a: (f64, f64, f64), b: (f64, f64, f64)) -> &'static str {
        let (a, b) = (row(better, a.0, a.1, a.2), row(better, b.0, b.1, b.2));
        Pair { a: &a, b: &b }.verdict()
    }

    #[test]
    fn rows_differ_if_each_median_is_outside_the_other_extremes() {
        let a = (10.0, 9.0, 11.0);
        assert_eq!(verdict(Better::Lower, a, (12.0, 11.5, 13.0)), WORSE);
        assert_eq!(verdict(Better::Lower, a, (12.0, 9.9, 13.0)), SAME);
        assert_eq!(verdict(Better::Lower, a, (10.9, 10.8, 12.0)), SAME);
        assert_eq!(verdict(Better::Lower, a, (8.0, 7.0, 9.5)), BETTER);
        assert_eq!(verdict(Better::Higher, a, (12.0, 11.5, 13.0)), BETTER);
        assert_eq!(verdict(Better::Lower, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), SAME);
    }

    #[test]
    fn rows_without_cpus_are_not_compared() {
        let (a, mut b) = (row(Better::Lower, 1.0, 1.0, 1.0), row(Better::Lower, 2.0, 2.0, 2.0));
        b.marked = 3;
        let pair = Pair { a: &a, b: &b };
        assert_eq!(pair.verdict(), UNCHECKED);
        assert!(count([pair].iter()).ends_with("1 cannot be checked here: too few CPUs"));
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
