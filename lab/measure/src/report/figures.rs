//! The figures that are published: what `figures.txt` lists, and what was measured of it.

use serde::{Deserialize, Serialize};

use super::document::{Document, fill};
use crate::peers::guarantees::{self, lines};
use harness::given::Cpus;
use harness::report::{OURS, UNCHECKED, figure, times};
use harness::stats::{Row, Summary};
use harness::{Better, Report};

pub(super) type Str = &'static str;

const NOT_MEASURED: &str = "not measured";
/// Marks a system that gives something else, and a ratio that is not nearly the quotient of the medians beside it.
const OTHERWISE: char = '*';
pub(super) const ROUNDS_DIFFER: char = '†';
/// Metrics of which more is better.
const RATES: [Str; 2] = ["mops", "updates_per_s"];

/// A line of `figures.txt`: a quantity, which is a metric and the configuration in which it is shown (see
/// [`Report::select`]), and what is aimed at.
///
/// [`Report::select`]: harness::Report::select
#[derive(Clone, Debug)]
pub(super) struct Figure {
    /// How the README says it; empty if it does not.
    sentence: Str,
    pub(super) part: Str,
    title: Str,
    metric: Str,
    wanted: Str,
    targets: Vec<(Str, f64)>,
}

/// Returns all figures, in the order in which they are shown.
pub(super) fn all() -> Vec<Figure> {
    let target = |pair: Str| {
        let (system, bound) = pair.split_once(' ').expect("a target is a system and a ratio");
        (system, bound.parse().expect("a ratio is a number"))
    };
    let figure = |[sentence, part, title, metric, wanted, targets]: [Str; 6]| {
        let targets = targets.split(", ").filter(|pair| !pair.is_empty()).map(target).collect();
        Figure { sentence, part, title, metric, wanted, targets }
    };
    lines(include_str!("figures.txt")).map(figure).collect()
}

/// What was measured of a figure.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    /// Part, metric and configuration.
    figure: String,
    /// Title, ours, the best peer, theirs, ratio, extremes. Without a measurement, ours says so and the last says
    /// why.
    pub(super) cells: [String; 6],
    /// The other peers and theirs, the best first; then, with [`OTHERWISE`], what guarantees something else.
    pub(super) others: Vec<String>,
    /// Of each target: what ours is compared with, the bound, ratio, extremes, and whether it is met.
    pub(super) targets: Vec<[String; 5]>,
}

impl Line {
    /// Returns whether it has our value: an older run need not have it where it has a ratio.
    pub(super) fn is_measured(&self) -> bool {
        !["", NOT_MEASURED].contains(&&*self.cells[1])
    }

    pub(super) fn is_of(&self, figure: &Figure) -> bool {
        self.figure == figure.name()
    }

    pub(super) fn is_of_one_cpu(&self) -> bool {
        self.figure.contains("profile=one")
    }

    /// Returns the row of the README: what is said, ours, theirs, and two more peers; or why it was not measured.
    pub(super) fn highlight(&self, figure: &Figure) -> [String; 4] {
        let [title, ours, peer, theirs, ratio, why] = self.cells.clone();
        if !self.is_measured() || ratio.is_empty() {
            return [title, ours, theirs, why];
        }
        let is_loss = match ratio.trim_end_matches(['x', ROUNDS_DIFFER]).parse() {
            Ok(ratio) => {
                figure.judge(1.0, Summary { median: ratio, min: ratio, max: ratio }, ["", ": a loss"])
            }
            Err(_) => String::new(),
        };
        let said =
            figure.sentence.replace("{ratio}", &format!("**{ratio}**")).replace("{peer}", &peer) + &is_loss;
        let others = self.others.iter().filter(|other| !other.ends_with(OTHERWISE)).take(2);
        [said, ours, theirs, others.cloned().collect::<Vec<_>>().join(", ")]
    }
}

/// Our row, and its ratio to another system.
#[derive(Debug, Default)]
pub(super) struct Compared<'a> {
    pub(super) ours: Option<&'a Row>,
    pub(super) to: Option<&'a str>,
    pub(super) ratio: Option<Summary>,
    /// Why the ratio cannot be judged.
    pub(super) lacks_cpus: Option<String>,
}

impl Figure {
    pub(super) fn is_in_readme(&self) -> bool {
        !self.sentence.is_empty()
    }

    /// Returns whether it says something on two CPUs only: it is not of one thread, or of one CPU on purpose.
    pub(super) fn needs_cpus(&self) -> bool {
        let wanted = |pair| self.wanted.split(", ").any(|own| own == pair);
        !wanted("profile=one") && (!wanted("threads=1") || wanted("readers=1"))
    }

    pub(super) fn better(&self) -> Better {
        if RATES.contains(&self.metric) { Better::Higher } else { Better::Lower }
    }

    fn name(&self) -> String {
        format!("{} {} {}", self.part, self.metric, self.wanted)
    }

    /// Compares our row with `system`, or with the best peer that was measured and gives the same (`best`).
    pub(super) fn compare<'a>(&self, document: &'a Document, system: &'a str) -> Compared<'a> {
        let Some(result) = document.result(self.part) else { return Compared::default() };
        let has_one = result.cpus.as_ref().is_none_or(Cpus::are_enough_for_one);
        let lacks_cpus = result.lacks_cpus().filter(|_| self.needs_cpus() || !has_one);
        if lacks_cpus.is_some() {
            return Compared { lacks_cpus, ..Compared::default() };
        }
        let ours = result.find(OURS, self.metric, self.wanted);
        let to = match system {
            "best" => ours.and_then(|ours| Some(&*guarantees::peers(result, ours).0.first()?.system)),
            _ => Some(system),
        };
        let ratio = ours.zip(to).and_then(|(ours, to)| result.ratio_to(ours, to));
        Compared { ours, to, ratio, lacks_cpus }
    }

    pub(super) fn line(&self, document: &Document) -> Line {
        let Compared { ours, to, ratio, lacks_cpus } = self.compare(document, "best");
        let result = document.result(self.part);
        let (cells, others) = match (ours, result) {
            (Some(ours), Some(result)) => {
                let (alike, others) = guarantees::peers(result, ours);
                let theirs = alike.first().copied();
                let [mut ratio_text, range] = texts(ratio);
                if ratio.zip(theirs).is_some_and(|(ratio, theirs)| is_otherwise(ratio, ours, theirs)) {
                    ratio_text.push(ROUNDS_DIFFER);
                }
                let others = others.iter().map(|row| format!("{} {}{OTHERWISE}", row.system, value(row)));
                let alike = alike.iter().skip(1).map(|row| format!("{} {}", row.system, value(row)));
                let theirs = theirs.map_or_else(String::new, value);
                let peer = to.unwrap_or("no peer gives the same").to_owned();
                let title = fill(self.title, ours) + if ours.is_of_one_cpu() { ", one CPU" } else { "" };
                ([title, value(ours), peer, theirs, ratio_text, range], alike.chain(others).collect())
            }
            _ => {
                let why = lacks_cpus.unwrap_or_else(|| self.missing(document));
                let pairs = self.wanted.split(", ").filter_map(|pair| pair.split_once('='));
                let fill = |title: String, (name, value)| title.replace(&format!("{{{name}}}"), value);
                let title =
                    pairs.fold(self.title.to_owned(), fill).replace(" max threads", " the most threads");
                ([&title, NOT_MEASURED, "", "", "", &why].map(str::to_owned), Vec::new())
            }
        };
        let targets = self.targets.iter().map(|&(system, bound)| self.target(document, system, bound));
        Line { figure: self.name(), cells, others, targets: targets.collect() }
    }

    /// Returns why it was not measured.
    pub(super) fn missing(&self, document: &Document) -> String {
        let Some(result) = document.result(self.part) else { return format!("`{}` was not run", self.part) };
        let skipped = result.skipped.iter().find(|one| one.system == OURS);
        skipped.map_or_else(|| format!("no such cell in `{}`", self.part), |one| one.why.clone())
    }

    fn target(&self, document: &Document, system: &str, bound: f64) -> [String; 5] {
        let compared = self.compare(document, system);
        let verdict = match compared.ratio {
            _ if compared.lacks_cpus.is_some() => UNCHECKED.to_owned(),
            None => NOT_MEASURED.to_owned(),
            Some(found) => self.judge(bound, found, ["met", "missed"]),
        };
        let least = if self.better() == Better::Lower { "at most" } else { "at least" };
        let beside = match (system, compared.to) {
            ("best", Some(name)) => format!("{name} (the best)"),
            _ => system.to_owned(),
        };
        let [ratio, range] = texts(compared.ratio);
        [beside, format!("{least} {}", times(bound)), ratio, range, verdict]
    }

    /// Returns the first word if a ratio is at most `bound` (of a rate, at least), otherwise the second one; in doubt
    /// if the rounds disagree.
    pub(super) fn judge(&self, bound: f64, found: Summary, words: [Str; 2]) -> String {
        let is_met =
            |value: f64| if self.better() == Better::Lower { value <= bound } else { value >= bound };
        let [median, min, max] = [found.median, found.min, found.max].map(is_met);
        let word = if median { words[0] } else { words[1] };
        if min == median && max == median { word.to_owned() } else { format!("{word}, in doubt") }
    }
}

/// Returns, for each metric of a bench, on all CPUs or on one, in which a peer is ahead somewhere: bench and metric,
/// in how many of the configurations the best peer is ahead, and where by most: the configuration, the peer, the
/// ratio, its extremes.
pub(super) fn behind(document: &Document) -> Vec<[String; 6]> {
    let mut lines = Vec::new();
    let is_shown = |result: &&Report| result.posted.is_none() && result.lacks_cpus().is_none();
    for result in document.in_order().filter(is_shown) {
        let ours = || result.rows.iter().filter(|row| row.system == OURS);
        let mut metrics: Vec<(&str, bool)> = ours().map(|row| (&*row.metric, row.is_of_one_cpu())).collect();
        metrics.sort_unstable();
        metrics.dedup();
        for (metric, on_one_cpu) in metrics {
            let best = |row| {
                let best: &Row = guarantees::peers(result, row).0.first().copied()?;
                Some((row, &*best.system, best.ratio?))
            };
            let is_it = |row: &&Row| row.metric == metric && row.is_of_one_cpu() == on_one_cpu;
            let cells: Vec<_> = ours().filter(is_it).filter_map(best).collect();
            // Above 1 where the peer is ahead.
            let far = |(row, _, ratio): &(&Row, &str, Summary)| {
                let median = ratio.median.max(f64::MIN_POSITIVE);
                if row.better == Better::Lower { median } else { 1.0 / median }
            };
            let count = cells.iter().filter(|cell| far(cell) > 1.0).count();
            let worst = cells.iter().max_by(|a, b| far(a).total_cmp(&far(b)));
            let Some((row, peer, ratio)) = worst.filter(|_| count > 0) else { continue };
            let [median, range] = texts(Some(*ratio));
            let profile = if on_one_cpu { ", one CPU" } else { "" };
            let (part, share) =
                (format!("{} {metric}{profile}", result.bench), format!("{count} of {}", cells.len()));
            lines.push([part, share, row.config.to_string(), (*peer).to_owned(), median, range]);
        }
    }
    lines
}

/// Returns whether a ratio differs from the quotient of the medians by a tenth, or says that the other one is ahead.
fn is_otherwise(ratio: Summary, ours: &Row, theirs: &Row) -> bool {
    let quotient = ours.summary.median / theirs.summary.median;
    let factor = (quotient / ratio.median).max(ratio.median / quotient);
    factor > 1.1 || factor > 1.02 && (quotient < 1.0) != (ratio.median < 1.0)
}

pub(super) fn value(row: &Row) -> String {
    figure(row.summary.median, &row.unit)
}

/// Returns a ratio and its extremes.
pub(super) fn texts(ratio: Option<Summary>) -> [String; 2] {
    ratio.map_or_else(Default::default, |ratio| [times(ratio.median), ratio.range()])
}

#[cfg(test)]
mod tests {
    use super::super::part::PARTS;
    use super::*;
    use harness::stats::{Config, Metric, Recorder};

    const PAIR: Metric = Metric::nanoseconds("pair_ns");

    fn document(values: &[(&'static str, &[f64])]) -> Document {
        let mut recorder = Recorder::new("read");
        let config = Config::new([("threads", 1.into())]);
        for (system, rounds) in values {
            for (round, value) in rounds.iter().enumerate() {
                recorder.record(round, system, &PAIR, &config, *value);
            }
        }
        Document { results: vec![Report::new(&recorder, Vec::new())], ..Document::default() }
    }

    fn all_lines(document: &Document) -> Vec<Line> {
        all().iter().map(|figure| figure.line(document)).collect()
    }

    #[test]
    fn figures_are_of_parts_and_no_two_are_the_same() {
        let mut names: Vec<String> = all().iter().map(Figure::name).collect();
        assert!(all().iter().all(|figure| PARTS.iter().any(|part| part.name == figure.part)));
        names.sort_unstable();
        assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
    }

    #[test]
    fn line_names_the_best_peer_also_where_it_wins() {
        let values: [(_, &[f64]); 4] =
            [(OURS, &[2.0]), ("seize", &[9.0]), ("kovan", &[1.0]), ("arc-swap-cache", &[0.1])];
        let document = document(&values);
        let line = all_lines(&document).remove(0);
        assert_eq!(line.cells[1..5], ["2.00 ns", "kovan", "1.00 ns", "2.00x"]);
        assert_eq!(line.others, ["seize 9.00 ns", "arc-swap-cache 0.10 ns*"]);
        let behind = behind(&document);
        assert_eq!(behind[0][..5], ["read pair_ns", "1 of 1", "threads=1", "kovan", "2.00x"]);
    }

    #[test]
    fn target_is_met_missed_or_in_doubt_by_its_rounds() {
        let verdict = |values: &[f64]| {
            let document = document(&[(OURS, values), ("liburcu-memb", &[1.0; 3])]);
            all_lines(&document)[0].targets[0].clone()[4].clone()
        };
        assert_eq!(verdict(&[0.5, 0.6, 0.7]), "met");
        assert_eq!(verdict(&[0.5, 0.6, 0.8]), "met, in doubt");
        assert_eq!(verdict(&[0.5, 0.85, 0.9]), "missed, in doubt");
        assert_eq!(verdict(&[0.8, 0.8, 0.9]), "missed");
        assert_eq!(verdict(&[]), "not measured");
    }

    #[test]
    fn figure_that_was_not_measured_says_why() {
        let lines = all_lines(&document(&[("peer", &[1.0])]));
        assert_eq!((&*lines[0].cells[1], &*lines[0].cells[5]), ("not measured", "no such cell in `read`"));
        assert!(lines.last().is_some_and(|line| line.cells[5] == "`programs` was not run"));
        assert!(lines.iter().all(|line| !line.cells[0].contains('{')), "{lines:?}");
    }
}
