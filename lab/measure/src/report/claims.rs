//! `claims`: whether the figures that are published hold on this machine.
//!
//! A claim is a ratio in `docs/report/summary.json`: each figure of the README's table, and each target that was missed.
//! Its tolerance is one rule for all: a ratio holds if its median here is worse by at most a factor of [`TOLERANCE`], or
//! as bad as the worst round of the published run, as long as a gain stays one. What is better holds too. The table of
//! `docs/claims.md` is made from the same list.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use super::document::Document;
use super::figures::{self, Figure, Str};
use super::part::{self, PARTS, Part};
use super::summary::Summary;
use super::{make, measure_all};
use harness::Better;
use harness::report::{Grid, UNCHECKED, times};
use harness::units;

/// A factor between machines.
const TOLERANCE: f64 = 1.5;
const NOT_MEASURED: &str = "not measured here";

/// What is published, as this program was built.
const PUBLISHED: &str = include_str!("../../../../docs/report/summary.json");

/// Measure whether each figure that is published holds on this machine: in eight minutes.
///
/// Fails if one does not hold, or cannot be measured: on fewer than two CPUs none can.
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

/// A published ratio.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    figure: Figure,
    /// The system that ours is compared with, as in a target.
    system: Str,
    title: String,
    /// The system that ours was compared with.
    beside: String,
    ratio: f64,
    range: String,
    /// The target that was missed, if there is one.
    target: String,
}

impl Claim {
    pub(super) fn part(&self) -> Part {
        PARTS.into_iter().find(|part| part.name == self.figure.part).expect("figures name parts")
    }

    /// Returns the worst ratio that is within the tolerance. Rounds that disagree turn no gain into a loss.
    fn bound(&self) -> f64 {
        let rounds = self.range.split("..").filter_map(|end| end.parse().ok());
        match self.figure.better() {
            Better::Lower => {
                let bound = self.ratio * TOLERANCE;
                rounds.fold(bound, f64::max).min(if bound < 1.0 { 1.0 } else { f64::INFINITY })
            }
            Better::Higher => {
                let bound = self.ratio / TOLERANCE;
                rounds.fold(bound, f64::min).max(if bound > 1.0 { 1.0 } else { 0.0 })
            }
        }
    }

    /// Returns what is claimed, beside which system, the ratio, the result that would refute it, and the target.
    pub(super) fn cells(&self) -> [String; 5] {
        let worse = if self.figure.better() == Better::Lower { "above" } else { "below" };
        let refuted = format!("{worse} {}", times(self.bound()));
        let ratio = format!("{} ({})", times(self.ratio), self.range);
        [self.title.clone(), self.beside.clone(), ratio, refuted, self.target.clone()]
    }

    /// Returns the line of the table: what is claimed, what was found here, and the verdict.
    fn line(&self, document: &Document) -> anyhow::Result<[String; 7]> {
        let here = self.figure.compare(document, self.system);
        let [title, mut beside, published, refuted, _] = self.cells();
        let (ratio, verdict) = match (here.lacks_cpus, here.ours.zip(here.ratio)) {
            (Some(why), _) => (None, why),
            (None, Some((ours, ratio))) => {
                let metric = self.figure.metric;
                ensure!(ours.better == self.figure.better(), "the list of rates is wrong about {metric}");
                if let Some(to) = here.to.filter(|to| *to != beside && *to != "itself") {
                    beside += &format!(", here {to}");
                }
                let words = ["holds here", "does not hold here"];
                (Some(ratio), self.figure.judge(self.bound(), ratio, words))
            }
            (None, None) => {
                let skipped = document.result(self.figure.part).map(|result| result.skipped.first());
                let why = match skipped {
                    None => format!("`{}` was not run", self.figure.part),
                    Some(None) => "no such cell".to_owned(),
                    Some(Some(one)) => format!("{}: {}", one.system, one.why),
                };
                (None, format!("{NOT_MEASURED}: {why}"))
            }
        };
        let [ratio, range] = figures::texts(ratio);
        Ok([title, beside, published, refuted, ratio, range, verdict])
    }
}

/// Returns all claims, in the order of the page.
pub(super) fn published(summary: &Summary) -> Vec<Claim> {
    let mut claims = Vec::new();
    for figure in figures::all() {
        let Some(line) = figure.line_in(&summary.figures) else { continue };
        let [title, _, best, _, ratio, range] = &line.cells;
        let claim = |system, beside: &str, ratio: &str, range: &str, target: &str| {
            // As `times` writes it.
            let ratio = ratio.strip_suffix('x')?.parse().ok()?;
            let (title, beside) = (title.clone(), beside.to_owned());
            let (figure, range, target) = (figure.clone(), range.to_owned(), target.to_owned());
            Some(Claim { figure, system, title, beside, ratio, range, target })
        };
        let mut shown = claim("best", best, ratio, range, "").filter(|_| figure.is_in_readme);
        let mut missed = Vec::new();
        for (&(system, _), [beside, aim, ratio, range, verdict]) in figure.targets.iter().zip(&line.targets) {
            let beside = beside.trim_end_matches(" (the best)");
            match &mut shown {
                _ if !verdict.starts_with("missed") => {}
                Some(shown) if shown.beside == beside => shown.target.clone_from(aim),
                _ => missed.extend(claim(system, beside, ratio, range, aim)),
            }
        }
        claims.extend(shown.into_iter().chain(missed));
    }
    claims
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
    let mut document = Document::default();
    match &args.from {
        Some(from) => document = Document::read(from)?,
        None => {
            make(&args.out_dir)?;
            let is_claimed = |part: &Part| claims.iter().any(|claim| claim.figure.part == part.name);
            let timed = |part: Part| (part, args.seconds.unwrap_or(part.seconds(true)));
            let parts: Vec<(Part, f64)> = PARTS.into_iter().filter(is_claimed).map(timed).collect();
            let took = measure_all(&parts, &mut document, &args.out_dir)?;
            eprintln!("{took}; {}", args.out_dir.join("report.html").display());
        }
    }
    let lines = claims.iter().map(|claim| claim.line(&document)).collect::<anyhow::Result<Vec<_>>>()?;
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

    /// A claim about a figure of `read` or `lock`, whose first one is a cost or a rate.
    fn claim(part: &str, ratio: f64, range: &str) -> Claim {
        let figure = figures::all().into_iter().find(|figure| figure.part == part).expect("a figure");
        let (title, beside, range, target) = ("A read".into(), "peer".into(), range.into(), String::new());
        Claim { figure, system: "best", title, beside, ratio, range, target }
    }

    /// The verdict on a claim, if we measure `ours` in each round and a peer 1 on these CPUs.
    fn verdict_on(claim: &Claim, ours: &[f64], cpus: Cpus, is_marked: bool) -> String {
        const COST: Metric = Metric::nanoseconds("pair_ns");
        const RATE: Metric = Metric { name: "mops", unit: "1/us", better: Better::Higher };
        let mut recorder = Recorder::new(claim.figure.part);
        let config = Config::new([("threads", 1.into()), ("nesting", 1.into())]);
        let metric = if claim.figure.better() == Better::Lower { &COST } else { &RATE };
        for (round, value) in ours.iter().enumerate() {
            recorder.record(round, OURS, metric, &config, *value);
            recorder.record(round, "peer", metric, &config, 1.0);
        }
        if is_marked {
            recorder.mark(0, &config);
        }
        let results = vec![Report { cpus: Some(cpus), ..Report::new(&recorder, Vec::new()) }];
        let document = Document { machine: Vec::new(), results };
        claim.line(&document).expect("a line")[6].clone()
    }

    fn verdict(claim: &Claim, ours: &[f64]) -> String {
        verdict_on(claim, ours, Cpus::always(2.0, 2), false)
    }

    #[test]
    fn claim_holds_up_to_its_tolerance() {
        let cost = claim("read", 2.0, "1.50..2.50");
        for (ours, judged) in [
            (&[2.9][..], "holds here"),
            (&[0.1], "holds here"),
            (&[2.9, 2.9, 3.1], "holds here, in doubt"),
            (&[3.1], "does not hold here"),
            (&[1.0, 3.1, 3.1], "does not hold here, in doubt"),
            (&[], "not measured here: no such cell"),
        ] {
            assert_eq!(verdict(&cost, ours), judged, "{ours:?}");
        }
        assert_eq!(verdict(&claim("read", 2.0, "1.50..4.00"), &[3.9]), "holds here");
        let rate = claim("lock", 1.5, "1.20..1.60");
        for (ours, judged) in [(1.1, "holds here"), (9.0, "holds here"), (0.9, "does not hold here")] {
            assert_eq!(verdict(&rate, &[ours]), judged, "{ours}");
        }
        for (part, ratio, range, refuted) in [
            ("read", 0.5, "0.40..1.50", "above 1.00x"),
            ("lock", 1.5, "1.20..1.60", "below 1.00x"),
            ("lock", 2.0, "0.50..4.00", "below 1.00x"),
            ("lock", 1.2, "0.50..4.00", "below 0.50x"),
        ] {
            assert_eq!(claim(part, ratio, range).cells()[3], refuted);
        }
    }

    #[test]
    fn claim_is_not_judged_where_threads_lack_cpus() {
        for (cpus, is_marked, expected) in [
            (Cpus::always(1.9, 2), false, "holds here"),
            (Cpus::always(1.5, 2), false, UNCHECKED),
            (Cpus::always(1.0, 1), false, UNCHECKED),
            (Cpus::always(1.9, 2), true, UNCHECKED),
        ] {
            let judged = verdict_on(&claim("read", 2.0, "1.50..2.50"), &[1.0], cpus, is_marked);
            assert!(judged.starts_with(expected), "{judged}");
        }
    }

    #[test]
    fn each_line_of_the_readme_and_each_missed_target_is_a_claim() {
        let summary = serde_json::from_str(PUBLISHED).expect("the summary of the repository");
        let claims = published(&summary);
        let shown = figures::all().into_iter().filter(|figure| figure.is_in_readme).count();
        assert!(claims.iter().filter(|claim| claim.system == "best").count() >= shown);
        let targets = summary.figures.iter().flat_map(|line| &line.targets);
        let missed = targets.filter(|target| target[4].starts_with("missed")).count();
        assert_eq!(claims.iter().filter(|claim| !claim.target.is_empty()).count(), missed);
        let is_claimed = |part: &&Part| claims.iter().any(|claim| claim.figure.part == part.name);
        let seconds: f64 = PARTS.iter().filter(is_claimed).map(|part| part.seconds(true)).sum();
        assert!(seconds < 480.0, "{seconds} s");
    }
}
