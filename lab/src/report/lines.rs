//! The lines of the page's and the summary's tables: highlights, and claims of the posts with their verdicts.
//!
//! One rule for all claims: where a post gives a ratio, the shape *holds* if ours has at least half of its effect in
//! the same direction (half of the logarithm), and is *weaker* if it has less. Where it gives a direction only, ours
//! must have it; where it says that two things cost the same, they may differ by a quarter. A verdict is in doubt if
//! the spread over the rounds does not agree with the median on the side of 1.

use super::contents::{CLAIMS, Claim, Expected, HIGHLIGHTS, Highlight, Versus};
use super::document::{Document, fill};
use crate::harness::Report;
use crate::harness::report::{OURS, figure, times};
use crate::harness::stats::{Row, Summary};

/// The part of a posted effect, as a power, that must be there.
const ENOUGH: f64 = 0.5;
/// Ratios up to this, and down to its inverse, are the same.
const SAME: f64 = 1.25;

/// Returns the highlights of what was measured: title, ours, peer, theirs, ratio, extremes. The title and ours are
/// empty if they are those of the line above.
pub(super) fn highlights(document: &Document) -> Vec<[String; 6]> {
    let mut lines = Vec::new();
    for Highlight(bench, title, metric, wanted, peers) in HIGHLIGHTS {
        let Some(result) = document.result(bench) else { continue };
        let Some(ours) = result.find(OURS, metric, wanted) else { continue };
        let mut first = [fill(title, ours), value(ours)];
        for peer in peers.split(' ') {
            let Some(theirs) = result.find(peer, metric, wanted) else { continue };
            let ratio = result.ratio_to(ours, peer).map(|ratio| ratio.summary);
            let [title, our_value] = std::mem::take(&mut first);
            let [ratio, range] = texts(ratio);
            lines.push([title, our_value, peer.to_owned(), value(theirs), ratio, range]);
        }
    }
    lines
}

fn value(row: &Row) -> String {
    figure(row.summary.median, &row.unit)
}

/// Returns a ratio and its extremes.
fn texts(ratio: Option<Summary>) -> [String; 2] {
    ratio.map_or_else(Default::default, |ratio| [times(ratio.median), ratio.range()])
}

/// Returns the claims about an experiment: what is compared, the posted ratio, our values, ratio, extremes, verdict.
pub(super) fn claims(result: &Report) -> Vec<[String; 6]> {
    let of_result = CLAIMS.iter().filter(|claim| claim.0 == result.bench);
    let line = |&Claim(_, what, expected, metric, wanted, versus): &Claim| {
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
        let verdict = found.map_or_else(|| "not measured".to_owned(), |found| verdict(expected, found));
        let [ratio, range] = texts(found);
        [what.to_owned(), posted, values.unwrap_or_default(), ratio, range, verdict]
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
