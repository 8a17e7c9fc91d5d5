//! The lines of the page's and the summary's tables: highlights, and claims of the posts with their verdicts.
//!
//! One rule for all claims: where a post gives a ratio, the shape *holds* if ours has at least half of its effect in
//! the same direction (half of the logarithm), and is *weaker* if it has less. Where it gives a direction only, ours
//! must have it; where it says that two things cost the same, they may differ by a quarter. A verdict is in doubt if
//! the spread over the rounds does not agree with the median on the side of 1.

use serde::{Deserialize, Serialize};

use super::contents::{Expected, HIGHLIGHTS, Highlight, POST_CLAIMS, PostClaim, TARGETS, Target, Versus};
use super::document::{Document, fill};
use harness::report::{OURS, UNCHECKED, figure, times};
use harness::stats::{Ratio, Row, Summary};
use harness::{Better, Report};

/// The part of a posted effect, as a power, that must be there.
const ENOUGH: f64 = 0.5;
const NOT_MEASURED: &str = "not measured";
/// Summary up to this, and down to its inverse, are the same.
const SAME: f64 = 1.25;

/// A highlight.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    /// Title, ours, the best peer, theirs, ratio, extremes. Without a measurement, ours says so and the last says why.
    pub(super) cells: [String; 6],
    /// The other peers and theirs, the best first.
    pub(super) others: Vec<String>,
}

impl Line {
    pub(super) fn is_measured(&self) -> bool {
        self.cells[1] != NOT_MEASURED
    }
}

/// Returns the highlights, each with the best of all peers that were measured.
pub(super) fn highlights(document: &Document) -> Vec<Line> {
    HIGHLIGHTS.iter().map(|highlight| line(document, highlight)).collect()
}

fn line(document: &Document, &Highlight(bench, title, metric, wanted): &Highlight) -> Line {
    let nothing = |why: String| {
        let title = known(title, wanted);
        let cells = [title, NOT_MEASURED.to_owned(), String::new(), String::new(), String::new(), why];
        Line { cells, others: Vec::new() }
    };
    let Some(result) = document.result(bench) else { return nothing(format!("`{bench}` was not run")) };
    let Some(ours) = result.find(OURS, metric, wanted) else {
        if let Some(why) = result.lacks_cpus(metric, wanted) {
            return nothing(why);
        }
        let skipped = result.skipped.iter().find(|skipped| skipped.system == OURS);
        return nothing(skipped.map_or_else(|| format!("no such cell in `{bench}`"), |one| one.why.clone()));
    };
    let peers = result.peers(ours);
    let others = peers.iter().skip(1).map(|peer| format!("{} {}", peer.system, value(peer)));
    let others = others.collect();
    let best = peers.first();
    let ratio = best.and_then(|best| result.ratio_to(ours, &best.system)).map(|ratio| ratio.summary);
    let (peer, theirs) = best.map_or_else(
        || ("no peer was measured".to_owned(), String::new()),
        |best| (best.system.to_string(), value(best)),
    );
    let [ratio, range] = texts(ratio);
    Line { cells: [fill(title, ours), value(ours), peer, theirs, ratio, range], others }
}

/// Replaces each `{name}` of a title by the value in a configuration.
pub(super) fn known(title: &str, wanted: &str) -> String {
    let pairs = wanted.split(", ").filter_map(|pair| pair.split_once('='));
    pairs.fold(title.to_owned(), |title, (name, value)| title.replace(&format!("{{{name}}}"), value))
}

fn is_behind(better: Better, ratio: f64) -> bool {
    if better == Better::Lower { ratio > 1.0 } else { ratio < 1.0 }
}

/// Returns, for each metric of a bench, on all CPUs or on one, in which a peer is ahead somewhere: bench and metric,
/// in how many of the configurations the best peer is ahead, and where by most: the configuration, the peer, the
/// ratio, its extremes.
pub(super) fn behind(document: &Document) -> Vec<[String; 6]> {
    let mut lines = Vec::new();
    // The systems of an ablation are our own, and the peers those of the bench itself.
    let is_bench = |result: &&Report| result.posted.is_none() && result.bench != "lock-ablation";
    for result in document.in_order().filter(is_bench) {
        let ours = || result.rows.iter().filter(|row| row.system == OURS && row.marked == 0);
        let mut metrics: Vec<(&str, bool)> = ours().map(|row| (&*row.metric, row.is_of_one_cpu())).collect();
        metrics.sort_unstable();
        metrics.dedup();
        for (metric, on_one_cpu) in metrics {
            let best = |row| {
                let best: &Row = result.peers(row).first().copied()?;
                Some((row, result.ratio_to(row, &best.system)?))
            };
            let is_it = |row: &&Row| row.metric == metric && row.is_of_one_cpu() == on_one_cpu;
            let cells: Vec<_> = ours().filter(is_it).filter_map(best).collect();
            let far = |(row, ratio): &(&Row, &Ratio)| {
                let median = ratio.summary.median.max(f64::MIN_POSITIVE);
                if row.better == Better::Lower { median } else { 1.0 / median }
            };
            let count = cells.iter().filter(|cell| is_behind(cell.0.better, cell.1.summary.median)).count();
            let worst = cells.iter().max_by(|a, b| far(a).total_cmp(&far(b)));
            let Some((row, ratio)) = worst.filter(|_| count > 0) else { continue };
            let [median, range] = texts(Some(ratio.summary));
            let profile = if on_one_cpu { ", one CPU" } else { "" };
            let (part, share) =
                (format!("{} {metric}{profile}", result.bench), format!("{count} of {}", cells.len()));
            lines.push([part, share, row.config.to_string(), ratio.to.to_string(), median, range]);
        }
    }
    lines
}

/// Returns what was aimed at, and what was reached: part and title, what ours is compared with, the target, ratio,
/// extremes, and whether it is met.
pub(super) fn targets(document: &Document) -> Vec<[String; 6]> {
    let line = |&Target(bench, title, metric, wanted, system, bound): &Target| {
        let compared = compare(document, bench, metric, wanted, system);
        let (ours, name, found) = (compared.ours, compared.to, compared.ratio);
        let better = ours.map_or(Better::Lower, |row| row.better);
        let verdict = match found.map(|found| within(better, bound, found)) {
            _ if compared.lacks_cpus.is_some() => UNCHECKED,
            None => NOT_MEASURED,
            Some([true, true, true]) => "met",
            Some([true, ..]) => "met, in doubt",
            Some([false, false, false]) => "missed",
            Some([false, ..]) => "missed, in doubt",
        };
        let title = ours.map_or_else(|| title.to_owned(), |ours| fill(title, ours));
        let target =
            format!("{} {}", if better == Better::Lower { "at most" } else { "at least" }, times(bound));
        let compared = match (system, name) {
            ("best", Some(name)) => format!("{name} (the best)"),
            _ => system.to_owned(),
        };
        let [ratio, range] = texts(found);
        [format!("{bench}: {title}"), compared, target, ratio, range, verdict.to_owned()]
    };
    TARGETS.iter().map(line).collect()
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

/// Compares our row with `system`, or with the best peer of all that were measured (`best`). Without a name, the ratio is
/// our value itself.
pub(super) fn compare<'a>(
    document: &'a Document,
    bench: &str,
    metric: &str,
    wanted: &str,
    system: &'a str,
) -> Compared<'a> {
    let Some(result) = document.result(bench) else { return Compared::default() };
    let ours = result.find(OURS, metric, wanted);
    let to = match system {
        "best" => ours.and_then(|ours| Some(&*result.peers(ours).first()?.system)),
        _ => Some(system),
    };
    let ratio = ours.zip(to).and_then(|(ours, to)| match to {
        "" => Some(ours.summary),
        to => result.ratio_to(ours, to).map(|ratio| ratio.summary),
    });
    Compared { ours, to, ratio, lacks_cpus: result.lacks_cpus(metric, wanted) }
}

/// Returns whether the median, the least and the greatest of a ratio are at most `bound`; of a rate, at least.
pub(super) fn within(better: Better, bound: f64, found: Summary) -> [bool; 3] {
    let is_met = |value: f64| if better == Better::Lower { value <= bound } else { value >= bound };
    [found.median, found.min, found.max].map(is_met)
}

fn value(row: &Row) -> String {
    figure(row.summary.median, &row.unit)
}

/// Returns a ratio and its extremes.
fn texts(ratio: Option<Summary>) -> [String; 2] {
    ratio.map_or_else(Default::default, |ratio| [times(ratio.median), ratio.range()])
}

/// Returns the claims about an experiment: what is compared, the posted ratio, our values, ratio, extremes, verdict.
pub(super) fn post_claims(result: &Report) -> Vec<[String; 6]> {
    let of_result = POST_CLAIMS.iter().filter(|claim| claim.0 == result.bench);
    let line = |&PostClaim(_, what, expected, metric, wanted, versus): &PostClaim| {
        let posted = match expected {
            Expected::Like(ratio) => times(ratio),
            Expected::Below => "less".to_owned(),
            Expected::Above => "more".to_owned(),
            Expected::Same => "the same".to_owned(),
        };
        let ours = result.find(OURS, metric, wanted);
        let (found, partner) = match versus {
            Versus::Itself(system) => (result.find(system, metric, wanted).map(|row| row.summary), None),
            Versus::System(theirs) => (
                ours.and_then(|ours| result.ratio_to(ours, theirs)).map(|ratio| ratio.summary),
                result.find(theirs, metric, wanted),
            ),
            Versus::Config(other) => {
                let other = result.find(OURS, metric, other);
                (ours.zip(other).and_then(|(ours, other)| ours.summary.over(other.summary)), other)
            }
        };
        let values = ours.zip(partner).map(|(ours, theirs)| format!("{} / {}", value(ours), value(theirs)));
        let verdict = match found {
            _ if result.lacks_cpus(metric, wanted).is_some() => UNCHECKED.to_owned(),
            Some(found) => verdict(expected, found),
            None => NOT_MEASURED.to_owned(),
        };
        let [ratio, range] = texts(found);
        let what = match versus {
            Versus::Itself(system) => result.find(system, metric, wanted),
            _ => ours,
        }
        .map_or_else(|| what.to_owned(), |row| fill(what, row));
        [what, posted, values.unwrap_or_default(), ratio, range, verdict]
    };
    of_result.map(line).collect()
}

/// Returns whether a ratio is as expected.
fn verdict(expected: Expected, found: Summary) -> String {
    let same = 1.0 / SAME..=SAME;
    // How far it goes in the right direction, as a power of the posted one.
    let power = match expected {
        Expected::Like(posted) => found.median.ln() / posted.ln(),
        Expected::Below => f64::from(found.median < 1.0),
        Expected::Above => f64::from(found.median > 1.0),
        Expected::Same => f64::from(same.contains(&found.median)),
    };
    let agree = match expected {
        Expected::Same => {
            let (least, most) = (same.contains(&found.min), same.contains(&found.max));
            least && most || found.max < *same.start() || found.min > *same.end()
        }
        _ => found.min >= 1.0 || found.max <= 1.0,
    };
    let verdict = match power {
        ENOUGH.. => "holds",
        _ if power > 0.0 => "weaker",
        _ => "not seen",
    };
    if agree { verdict.to_owned() } else { format!("{verdict}, in doubt") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::stats::{Config, Metric, Recorder};

    const PAIR: Metric = Metric::nanoseconds("pair_ns");

    fn document(values: &[(&'static str, f64)]) -> Document {
        let mut recorder = Recorder::new("read");
        let config = Config::new([("threads", 1.into()), ("nesting", 1.into())]);
        for (system, value) in values {
            recorder.record(0, system, &PAIR, &config, *value);
        }
        Document { machine: Vec::new(), results: vec![Report::new(&recorder, Vec::new())] }
    }

    #[test]
    fn highlight_names_the_best_peer_also_where_it_wins() {
        let document = document(&[(OURS, 2.0), ("slow", 9.0), ("fast", 1.0), ("bare-load", 0.1)]);
        let Line { cells, others } = highlights(&document).remove(0);
        assert_eq!(cells[1..5], ["2.00 ns", "fast", "1.00 ns", "2.00x"]);
        assert_eq!(others, ["slow 9.00 ns"]);
        let behind = behind(&document);
        assert_eq!(behind[0][..5], ["read pair_ns", "1 of 1", "threads=1 nesting=1", "fast", "2.00x"]);
    }

    #[test]
    fn target_is_met_missed_or_in_doubt_by_its_rounds() {
        let verdict = |values: &[f64]| {
            let mut recorder = Recorder::new("read");
            let config = Config::new([("threads", 1.into()), ("nesting", 1.into())]);
            for (round, value) in values.iter().enumerate() {
                recorder.record(round, OURS, &PAIR, &config, *value);
                recorder.record(round, "liburcu-memb", &PAIR, &config, 1.0);
            }
            let results = vec![Report::new(&recorder, Vec::new())];
            targets(&Document { machine: Vec::new(), results }).remove(0)[5].clone()
        };
        assert_eq!(verdict(&[0.5, 0.6, 0.7]), "met");
        assert_eq!(verdict(&[0.5, 0.6, 0.8]), "met, in doubt");
        assert_eq!(verdict(&[0.5, 0.8, 0.9]), "missed, in doubt");
        assert_eq!(verdict(&[0.8, 0.8, 0.9]), "missed");
        assert_eq!(verdict(&[]), "not measured");
    }

    #[test]
    fn highlight_that_was_not_measured_says_why() {
        let lines = highlights(&document(&[("peer", 1.0)]));
        assert_eq!(lines.len(), HIGHLIGHTS.len());
        assert_eq!((&*lines[0].cells[1], &*lines[0].cells[5]), ("not measured", "no such cell in `read`"));
        assert!(lines.last().is_some_and(|line| line.cells[5] == "`programs` was not run"));
    }

    fn judge(expected: Expected, median: f64, min: f64, max: f64) -> String {
        verdict(expected, Summary { median, min, max })
    }

    #[test]
    fn half_of_a_posted_effect_holds_and_less_is_weaker() {
        for (ratio, verdict) in [(0.2, "holds"), (0.49, "holds"), (0.6, "weaker"), (1.01, "not seen")] {
            assert_eq!(judge(Expected::Like(0.25), ratio, ratio, ratio), verdict, "{ratio}");
        }
        assert_eq!(judge(Expected::Like(1.4), 1.15, 1.1, 1.2), "weaker");
        assert_eq!(judge(Expected::Like(1.4), 1.2, 1.1, 1.2), "holds");
    }

    #[test]
    fn direction_or_equality_is_judged_by_the_median() {
        assert_eq!(judge(Expected::Below, 0.9, 0.8, 0.95), "holds");
        assert_eq!(judge(Expected::Above, 0.9, 0.8, 0.95), "not seen");
        assert_eq!(judge(Expected::Same, 1.2, 1.1, 1.23), "holds");
        assert_eq!(judge(Expected::Same, 0.7, 0.6, 0.75), "not seen");
    }

    #[test]
    fn contradicting_rounds_put_a_verdict_in_doubt() {
        assert_eq!(judge(Expected::Below, 0.9, 0.8, 1.1), "holds, in doubt");
        assert_eq!(judge(Expected::Same, 1.1, 1.0, 1.6), "holds, in doubt");
        assert_eq!(judge(Expected::Same, 1.1, 0.3, 9.0), "holds, in doubt");
        assert_eq!(judge(Expected::Same, 1.6, 1.5, 1.8), "not seen");
    }
}
