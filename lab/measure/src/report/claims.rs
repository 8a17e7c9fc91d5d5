//! `claims`: whether the figures that are published hold on this machine.
//!
//! A claim is a ratio in `docs/report/summary.json`: each figure of the README's table, and each target that was missed.
//! Its tolerance is one rule for all: a ratio holds if its median here is worse by at most a factor of [`TOLERANCE`], or
//! as bad as the worst round of the published run, as long as a gain stays one. What is better holds too. The page `docs/claims.md` is
//! [filled](super::fill) from the same list.

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};

use super::contents::{HIGHLIGHTS, Highlight, RATES, README, TARGETS, Target};
use super::document::Document;
use super::lines::{Line, compare, known, within};
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
    pub(super) part: Part,
    metric: &'static str,
    wanted: &'static str,
    /// The system that ours is compared with, as in a [`Target`].
    system: &'static str,
    pub(super) title: String,
    /// The system that ours was compared with.
    pub(super) beside: String,
    pub(super) ratio: f64,
    pub(super) range: String,
    /// The target that was missed, if there is one.
    pub(super) target: String,
}

impl Claim {
    fn better(&self) -> Better {
        if RATES.contains(&self.metric) { Better::Higher } else { Better::Lower }
    }

    /// Returns the worst ratio that is within the tolerance. Rounds that disagree turn no gain into a loss.
    fn bound(&self) -> f64 {
        let rounds = self.range.split("..").filter_map(|end| end.parse().ok());
        match self.better() {
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

    /// Returns the result that would refute the claim.
    pub(super) fn refuted(&self) -> String {
        let worse = if self.better() == Better::Lower { "above" } else { "below" };
        format!("{worse} {}", times(self.bound()))
    }

    /// Returns the line of the table: what is claimed, what was found here, and the verdict.
    fn line(&self, document: &Document) -> anyhow::Result<[String; 7]> {
        let here = compare(document, self.part.name, self.metric, self.wanted, self.system);
        let claimed = [self.title.clone(), self.beside.clone(), times(self.ratio), self.refuted()];
        let [title, beside, published, refuted] = claimed;
        if let Some(why) = here.lacks_cpus {
            return Ok([title, beside, published, refuted, String::new(), String::new(), why]);
        }
        let Some((ours, ratio)) = here.ours.zip(here.ratio) else {
            let why = document.result(self.part.name).map_or_else(
                || format!("`{}` was not run", self.part.name),
                |result| {
                    result
                        .skipped
                        .first()
                        .map_or_else(String::new, |one| format!("{}: {}", one.system, one.why))
                },
            );
            let verdict = format!("{NOT_MEASURED}: {why}");
            return Ok([title, beside, published, refuted, String::new(), String::new(), verdict]);
        };
        ensure!(ours.better == self.better(), "the list of rates is wrong about {}", self.metric);
        let verdict = match within(self.better(), self.bound(), ratio) {
            [true, true, true] => "holds here",
            [true, ..] => "holds here, in doubt",
            [false, false, false] => "does not hold here",
            [false, ..] => "does not hold here, in doubt",
        };
        let beside = match here.to {
            Some(to) if to != beside => format!("{beside}, here {to}"),
            _ => beside,
        };
        let (median, range) = (times(ratio.median), ratio.range());
        Ok([title, beside, published, refuted, median, range, verdict.to_owned()])
    }
}

/// Returns the highlights that the README shows, as far as they are published.
pub(super) fn of_readme(summary: &Summary) -> impl Iterator<Item = (&'static Highlight, &Line)> {
    let is_shown = |Highlight(_, title, _, wanted): &&Highlight| {
        README.iter().any(|begin| without_numbers(title, wanted).starts_with(begin))
    };
    HIGHLIGHTS.iter().filter(is_shown).filter_map(|highlight| {
        let Highlight(_, title, _, wanted) = highlight;
        let title = without_numbers(title, wanted);
        Some((highlight, summary.highlights.iter().find(|line| is_filled(&title, &line.cells[0]))?))
    })
}

/// Returns all claims, in the order of the page.
pub(super) fn published(summary: &Summary) -> Vec<Claim> {
    let of_highlight = |(&Highlight(part, _, metric, wanted), line): (&Highlight, &Line)| {
        let [title, _, beside, _, ratio, range] = &line.cells;
        let claim = Claim {
            part: named(part),
            metric,
            wanted,
            system: "best",
            title: title.clone(),
            beside: beside.clone(),
            ratio: number(ratio)?,
            range: range.clone(),
            target: String::new(),
        };
        Some(claim)
    };
    let mut claims: Vec<Claim> = of_readme(summary).filter_map(of_highlight).collect();
    for target in &TARGETS {
        let &Target(part, _, metric, wanted, system, _) = target;
        let Some([title, beside, aim, ratio, range, verdict]) = line_of(target, summary) else { continue };
        let Some(ratio) = number(ratio).filter(|_| verdict.starts_with("missed")) else { continue };
        let beside = beside.trim_end_matches(" (the best)");
        let is_same = |claim: &&mut Claim| {
            (claim.part.name, claim.metric, claim.wanted, &*claim.beside) == (part, metric, wanted, beside)
        };
        match claims.iter_mut().find(is_same) {
            Some(claim) => claim.target.clone_from(aim),
            None => claims.push(Claim {
                part: named(part),
                metric,
                wanted,
                system,
                title: title.clone(),
                beside: beside.to_owned(),
                ratio,
                range: range.clone(),
                target: aim.clone(),
            }),
        }
    }
    claims
}

/// Returns what is published of a target.
fn line_of<'a>(target: &Target, summary: &'a Summary) -> Option<&'a [String; 6]> {
    let &Target(part, title, _, wanted, system, bound) = target;
    let title = format!("{part}: {}", without_numbers(title, wanted));
    summary.targets.iter().find(|[what, beside, aim, ..]| {
        let is_system = if system == "best" { beside.ends_with("(the best)") } else { beside == system };
        is_system && is_filled(&title, what) && aim.ends_with(&format!(" {}", times(bound)))
    })
}

/// Fills the values that a configuration names into a title; those that depend on the machine stay `{name}`.
fn without_numbers(title: &str, wanted: &str) -> String {
    let named: Vec<&str> = wanted.split(", ").filter(|pair| !pair.ends_with("=max")).collect();
    known(title, &named.join(", "))
}

/// Returns whether `text` is `title` with something for each `{name}`.
fn is_filled(title: &str, text: &str) -> bool {
    let mut pieces = title.split(['{', '}']).step_by(2);
    let first = pieces.next().and_then(|first| text.strip_prefix(first));
    let rest = first.and_then(|rest| {
        pieces.try_fold(rest, |rest, piece| match piece {
            "" => Some(""),
            piece => rest.split_once(piece).map(|(_, after)| after),
        })
    });
    rest == Some("")
}

fn named(part: &str) -> Part {
    PARTS.into_iter().find(|one| one.name == part).expect("highlights and targets name parts")
}

/// Returns the number of a ratio, as `times` writes it.
fn number(ratio: &str) -> Option<f64> {
    ratio.strip_suffix('x')?.parse().ok()
}

/// Measures what the claims are about, and prints for each whether it holds here.
///
/// # Errors
///
/// Returns an error if one does not hold or was not measured, or if the measurement fails.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let summary =
        serde_json::from_str(PUBLISHED).context("docs/report/summary.json is not of this version")?;
    let is_wanted = |part: &Part| args.only.is_empty() || args.only.iter().any(|only| only.name == part.name);
    let mut claims = published(&summary);
    claims.retain(|claim| is_wanted(&claim.part));
    ensure!(!claims.is_empty(), "nothing is claimed of these parts");
    let mut document = Document::default();
    match &args.from {
        Some(from) => document = Document::read(from)?,
        None => {
            make(&args.out_dir)?;
            let is_claimed = |part: &Part| claims.iter().any(|claim| claim.part.name == part.name);
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
        "{hold} hold here, {refuted} do not hold here, {} cannot be checked here, {} were not measured",
        count(UNCHECKED),
        count(NOT_MEASURED)
    );
    if hold < lines.len() {
        bail!("of {} claims, {tally}", lines.len());
    }
    println!("of {} claims, {tally}", lines.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::given::Cpus;
    use harness::report::OURS;
    use harness::stats::{Config, Metric};
    use harness::{Recorder, Report};

    fn summary() -> Summary {
        serde_json::from_str(PUBLISHED).expect("the summary of the repository")
    }

    fn claim(metric: &'static str, ratio: f64, range: &str) -> Claim {
        Claim {
            part: named("read"),
            metric,
            wanted: "threads=1",
            system: "best",
            title: "A read".into(),
            beside: "peer".into(),
            ratio,
            range: range.into(),
            target: String::new(),
        }
    }

    /// The verdict on a claim, if we measure `ours` in each round and a peer 1.
    fn verdict(claim: &Claim, metric: &'static Metric, ours: &[f64]) -> String {
        let mut recorder = Recorder::new("read");
        let config = Config::new([("threads", 1.into())]);
        for (round, value) in ours.iter().enumerate() {
            recorder.record(round, OURS, metric, &config, *value);
            recorder.record(round, "peer", metric, &config, 1.0);
        }
        let results = vec![Report::new(&recorder, Vec::new())];
        let document = Document { machine: Vec::new(), results };
        claim.line(&document).expect("a line")[6].clone()
    }

    const COST: Metric = Metric::nanoseconds("pair_ns");
    const RATE: Metric = Metric { name: "mops", unit: "1/us", better: Better::Higher };

    #[test]
    fn claim_holds_up_to_its_tolerance() {
        let cost = claim("pair_ns", 2.0, "1.50..2.50");
        assert_eq!(verdict(&cost, &COST, &[2.9]), "holds here");
        assert_eq!(verdict(&cost, &COST, &[0.1]), "holds here");
        assert_eq!(verdict(&cost, &COST, &[2.9, 2.9, 3.1]), "holds here, in doubt");
        assert_eq!(verdict(&cost, &COST, &[3.1]), "does not hold here");
        assert_eq!(verdict(&cost, &COST, &[1.0, 3.1, 3.1]), "does not hold here, in doubt");
        assert_eq!(verdict(&cost, &COST, &[]), "not measured here: ");
        assert_eq!(verdict(&claim("pair_ns", 2.0, "1.50..4.00"), &COST, &[3.9]), "holds here");
        assert_eq!(claim("pair_ns", 0.5, "0.40..1.50").refuted(), "above 1.00x");
        assert_eq!(claim("mops", 2.0, "0.50..4.00").refuted(), "below 1.00x");
        assert_eq!(claim("mops", 1.2, "0.50..4.00").refuted(), "below 0.50x");
    }

    #[test]
    fn claim_is_not_judged_where_threads_lack_cpus() {
        let document = |cpus, marked| {
            let (mut recorder, config) = (Recorder::new("read"), Config::new([("threads", 1.into())]));
            for system in [OURS, "peer"] {
                recorder.record(0, system, &COST, &config, 1.0);
            }
            if marked {
                recorder.mark(0, &config);
            }
            let report = Report { cpus: Some(cpus), ..Report::new(&recorder, Vec::new()) };
            Document { machine: Vec::new(), results: vec![report] }
        };
        for (cpus, marked, expected) in [
            (Cpus::always(1.9, 2), false, "holds here"),
            (Cpus::always(1.5, 2), false, UNCHECKED),
            (Cpus::always(1.0, 1), false, UNCHECKED),
            (Cpus::always(1.9, 2), true, UNCHECKED),
        ] {
            let line = claim("pair_ns", 2.0, "1.50..2.50").line(&document(cpus, marked)).expect("a line");
            assert!(line[6].starts_with(expected), "{line:?}");
        }
    }

    #[test]
    fn claim_of_a_rate_is_refuted_from_below() {
        let rate = claim("mops", 1.5, "1.20..1.60");
        assert_eq!(rate.refuted(), "below 1.00x");
        assert_eq!(verdict(&rate, &RATE, &[1.1]), "holds here");
        assert_eq!(verdict(&rate, &RATE, &[9.0]), "holds here");
        assert_eq!(verdict(&rate, &RATE, &[0.9]), "does not hold here");
    }

    #[test]
    fn each_line_of_the_readme_and_each_missed_target_is_a_claim() {
        let summary = summary();
        let claims = published(&summary);
        assert_eq!(of_readme(&summary).count(), README.len());
        let missed = summary.targets.iter().filter(|line| line[5].starts_with("missed")).count();
        assert_eq!(claims.iter().filter(|claim| !claim.target.is_empty()).count(), missed);
        let seconds: f64 = PARTS
            .iter()
            .filter(|part| claims.iter().any(|claim| claim.part.name == part.name))
            .map(|part| part.seconds(true))
            .sum();
        assert!(seconds < 480.0, "{seconds} s");
    }

    #[test]
    fn title_is_recognized_by_what_its_names_leave() {
        assert!(is_filled("{reads} % gets, {size} entries", "98 % gets, 1024 entries"));
        assert!(is_filled("A section", "A section"));
        assert!(is_filled("push of {node}", "push of String"));
        assert!(!is_filled("A section", "A section without membarrier"));
        assert!(!is_filled("Bank, {threads} threads", "Bank, 64 threads, longest step"));
    }
}
