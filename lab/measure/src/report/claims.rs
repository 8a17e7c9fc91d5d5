//! `claims`: whether the figures that are published hold on this machine.
//!
//! A claim is a ratio in `docs/report/summary.json`: each figure of the README's table, to the best peer. Its
//! tolerance is one rule for all: a ratio holds if its median here is worse by at most a factor of [`TOLERANCE`], or
//! as bad as the worst round of the published run, as long as a gain stays one. What is better holds too. The table
//! of `docs/claims.md` is made from the same list.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use super::document::Document;
use super::figures::{self, Figure, ROUNDS_DIFFER};
use super::part::{self, PARTS, Part};
use super::summary::Summary;
use super::{make, measure_all};
use harness::Better;
use harness::given::{ENOUGH, given_now};
use harness::report::{Grid, UNCHECKED, times};
use harness::units;

/// A factor between machines.
const TOLERANCE: f64 = 1.5;
const NOT_MEASURED: &str = "not measured here";

/// What is published, as this program was built.
const PUBLISHED: &str = include_str!("../../../../docs/report/summary.json");

/// Measure whether each figure that is published holds on this machine: in five minutes.
///
/// Looks first how many CPUs there are: what needs two is not measured on fewer. Fails unless all hold.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only the claims of these parts.
    #[arg(long, value_parser = part::parser(), value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// Time for each part [default: as much as it needs].
    #[arg(long, value_name = "S", value_parser = units::seconds)]
    seconds: Option<f64>,
    /// Measure nothing: judge the results in this report.json.
    #[arg(long, value_name = "FILE", conflicts_with = "seconds")]
    from: Option<PathBuf>,
    /// Where the results go; it is made if need be.
    #[arg(long, value_name = "DIR", default_value = "report/claims")]
    out_dir: PathBuf,
}

/// A published ratio to the best peer.
pub(super) struct Claim {
    figure: Figure,
    /// What is claimed, the system that ours was compared with, the ratio, and its extremes.
    published: [String; 4],
}

impl Claim {
    pub(super) fn part(&self) -> Part {
        PARTS.into_iter().find(|part| part.name == self.figure.part).expect("figures name parts")
    }

    /// Returns the worst ratio that is within the tolerance. Rounds that disagree turn no gain into a loss.
    fn bound(&self) -> f64 {
        let number = |text: &str| text.trim_end_matches(['x', ROUNDS_DIFFER]).parse().ok();
        let ratio: f64 = number(&self.published[2]).expect("a ratio is a number");
        let rounds = self.published[3].split("..").filter_map(number);
        match self.figure.better() {
            Better::Lower => {
                let bound = ratio * TOLERANCE;
                rounds.fold(bound, f64::max).min(if bound < 1.0 { 1.0 } else { f64::INFINITY })
            }
            Better::Higher => {
                let bound = ratio / TOLERANCE;
                rounds.fold(bound, f64::min).max(if bound > 1.0 { 1.0 } else { 0.0 })
            }
        }
    }

    /// Returns what is claimed, beside which system, the ratio, and the result that would refute it.
    pub(super) fn cells(&self) -> [String; 4] {
        let [title, beside, ratio, range] = self.published.clone();
        let worse = if self.figure.better() == Better::Lower { "above" } else { "below" };
        [title, beside, format!("{ratio} ({range})"), format!("{worse} {}", times(self.bound()))]
    }

    /// Returns the line of the table: what is claimed, what was found here, and the verdict. If there are too few CPUs,
    /// that is the verdict on what needs two.
    fn line(&self, document: &Document, too_few: Option<&str>) -> [String; 7] {
        let mut here = self.figure.compare(document, "best");
        here.lacks_cpus = too_few.filter(|_| self.figure.needs_cpus()).map(str::to_owned).or(here.lacks_cpus);
        let [title, mut beside, published, refuted] = self.cells();
        let (ratio, verdict) = match (here.lacks_cpus, here.ratio) {
            (Some(why), _) => (None, why),
            (None, Some(ratio)) => {
                if let Some(to) = here.to.filter(|to| *to != beside) {
                    beside += &format!(", here {to}");
                }
                let words = ["holds here", "does not hold here"];
                (Some(ratio), self.figure.judge(self.bound(), ratio, words))
            }
            (None, None) => (None, format!("{NOT_MEASURED}: {}", self.figure.missing(document))),
        };
        let [ratio, range] = figures::texts(ratio);
        [title, beside, published, refuted, ratio, range, verdict]
    }
}

/// Returns all claims, in the order of the page.
pub(super) fn published(summary: &Summary) -> Vec<Claim> {
    let claim = |figure: Figure| {
        let line = summary.figures.iter().find(|line| line.is_of(&figure))?;
        let [title, _, best, _, ratio, range] = line.cells.clone();
        (!ratio.is_empty()).then_some(Claim { figure, published: [title, best, ratio, range] })
    };
    figures::all().into_iter().filter(Figure::is_in_readme).filter_map(claim).collect()
}

/// Measures what the claims are about, and prints for each whether it holds here.
///
/// # Errors
///
/// Returns an error if one does not hold or was not measured, or if the measurement fails.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let summary =
        serde_json::from_str(PUBLISHED).context("docs/report/summary.json is not of this version")?;
    let mut claims = published(&summary);
    claims
        .retain(|claim| args.only.is_empty() || args.only.iter().any(|only| only.name == claim.figure.part));
    ensure!(!claims.is_empty(), "nothing is claimed of these parts");
    let mut too_few = None;
    let document = match &args.from {
        Some(from) => Document::read(from)?,
        None => {
            make(&args.out_dir)?;
            let given = given_now()?;
            if given < 2.0 * ENOUGH {
                too_few = Some(format!("{UNCHECKED}: threads get {given:.2} CPUs"));
            }
            let is_checked = |claim: &Claim| too_few.is_none() || !claim.figure.needs_cpus();
            let is_claimed =
                |part: &Part| claims.iter().any(|claim| claim.figure.part == part.name && is_checked(claim));
            let timed = |part: Part| (part, args.seconds.unwrap_or(part.seconds(true)));
            let parts: Vec<(Part, f64)> = PARTS.into_iter().filter(is_claimed).map(timed).collect();
            let (document, took) = measure_all(&parts, &args.out_dir)?;
            eprintln!("{took}; {}", args.out_dir.join("summary.md").display());
            document
        }
    };
    let lines: Vec<_> = claims.iter().map(|claim| claim.line(&document, too_few.as_deref())).collect();
    let head = ["", "beside", "published", "refuted by", "here", "min..max", ""];
    println!("{}", Grid::new("Claims", &head, lines.iter().map(|line| line.to_vec()).collect()));
    println!("\n{}", document.headline());
    let count = |verdict| lines.iter().filter(|line| line[6].starts_with(verdict)).count();
    let (hold, refuted) = (count("holds here"), count("does not hold here"));
    let tally = format!(
        "of {} claims, {hold} hold here, {refuted} do not hold here, {} cannot be checked here, {} were not measured",
        lines.len(),
        count(UNCHECKED),
        count(NOT_MEASURED)
    );
    ensure!(hold == lines.len(), "{tally}");
    println!("{tally}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::Report;
    use harness::given::Cpus;
    use harness::report::OURS;
    use harness::stats::{Config, Metric, Recorder};

    /// A claim about the first figure of a part, which is a cost or, of `lock` and `qsbr`, a rate.
    fn claim(part: &str, ratio: &str, range: &str) -> Claim {
        let figure = figures::all().into_iter().find(|figure| figure.part == part).expect("a figure");
        Claim { figure, published: ["A read", "peer", ratio, range].map(str::to_owned) }
    }

    /// The verdict on a claim, if we measure `ours` in each round and a peer 1 on these CPUs.
    fn verdict(claim: &Claim, ours: &[f64], given: (f64, usize)) -> String {
        const COST: Metric = Metric::nanoseconds("pair_ns");
        const RATE: Metric = Metric { name: "mops", unit: "1/us", better: Better::Higher };
        let mut recorder = Recorder::new(claim.figure.part);
        let config = Config::new([("threads", 1.into())]);
        let metric = if claim.figure.better() == Better::Lower { &COST } else { &RATE };
        for (round, value) in ours.iter().enumerate() {
            recorder.record(round, OURS, metric, &config, *value);
            recorder.record(round, "arc-swap", metric, &config, 1.0);
            recorder.record(round, "std", metric, &config, 1.0);
        }
        let cpus = Some(Cpus::always(given.0, given.1));
        let results = vec![Report { cpus, ..Report::new(&recorder, Vec::new()) }];
        claim.line(&Document { results, ..Document::default() }, None)[6].clone()
    }

    #[test]
    fn claim_holds_up_to_its_tolerance() {
        for (part, ratio, range, ours, judged) in [
            ("read", "2.00x", "1.50..2.50", &[2.9][..], "holds here"),
            ("read", "2.00x", "1.50..2.50", &[0.1], "holds here"),
            ("read", "2.00x", "1.50..2.50", &[2.9, 2.9, 3.1], "holds here, in doubt"),
            ("read", "2.00x", "1.50..2.50", &[3.1], "does not hold here"),
            ("read", "2.00x", "1.50..2.50", &[1.0, 3.1, 3.1], "does not hold here, in doubt"),
            ("read", "2.00x", "1.50..2.50", &[], "not measured here: no such cell in `read`"),
            ("read", "2.00x", "1.50..4.00", &[3.9], "holds here"),
            ("lock", "1.50x", "1.20..1.60", &[1.1], "holds here"),
            ("lock", "1.50x", "1.20..1.60", &[9.0], "holds here"),
            ("lock", "1.50x", "1.20..1.60", &[0.9], "does not hold here"),
        ] {
            assert_eq!(verdict(&claim(part, ratio, range), ours, (2.0, 2)), judged, "{ours:?}");
        }
        for (part, ratio, range, refuted) in [
            ("read", "0.50x", "0.40..1.50", "above 1.00x"),
            ("lock", "1.50x", "1.20..1.60", "below 1.00x"),
            ("lock", "2.00x", "0.50..4.00", "below 1.00x"),
            ("lock", "1.20x", "0.50..4.00", "below 0.50x"),
        ] {
            assert_eq!(claim(part, ratio, range).cells()[3], refuted);
        }
    }

    #[test]
    fn claim_that_needs_two_cpus_is_not_judged_where_threads_lack_them() {
        for (part, given, expected) in [
            ("lock", (1.9, 2), "holds here"),
            ("lock", (1.5, 2), UNCHECKED),
            ("lock", (1.0, 1), UNCHECKED),
            ("read", (1.0, 1), "holds here"),
            ("read", (0.7, 2), UNCHECKED),
        ] {
            let judged = verdict(&claim(part, "2.00x", "0.50..2.50"), &[2.0], given);
            assert!(judged.starts_with(expected), "{part} {judged}");
        }
    }

    #[test]
    fn each_line_of_the_readme_is_a_claim_that_takes_a_minute() {
        let summary: Summary = serde_json::from_str(PUBLISHED).expect("the summary of the repository");
        let claims = published(&summary);
        let is_measured =
            |figure: &Figure| summary.figures.iter().any(|line| line.is_of(figure) && line.is_measured());
        let shown = figures::all().into_iter().filter(Figure::is_in_readme);
        assert_eq!(claims.len(), shown.filter(is_measured).count());
        assert!(claims.iter().all(|claim| claim.part().seconds(true) <= 80.0));
    }
}
