//! What posts of the mailing lists say of their experiments (`posts.txt`), and whether it is seen here.
//!
//! One rule for all claims: where a post gives a ratio, the shape *holds* if ours has at least half of its effect in
//! the same direction (half of the logarithm), and is *weaker* if it has less. Where it gives a direction only, ours
//! must have it; where it says that two things cost the same, they may differ by a quarter. A verdict is in doubt if
//! the spread over the rounds does not agree with the median on the side of 1.

use super::document::fill;
use super::figures::{Str, texts, value};
use crate::peers::guarantees::lines;
use harness::Report;
use harness::report::{OURS, UNCHECKED, times};
use harness::stats::Summary;

pub(super) const RULE: Str = "Times belong to machines, the shape does not. It holds if at least half of the posted \
     effect is there, on a logarithmic scale, and is weaker if less is. Where a post says only which costs more, that \
     is what is compared; what costs the same may differ by a quarter. \u{201c}In doubt\u{201d} means that the rounds \
     disagree.";

/// Returns the claims about an experiment: what is compared, the posted ratio, our values, ratio, extremes, verdict.
pub(super) fn claims(result: &Report) -> Vec<[String; 6]> {
    let all = lines(include_str!("posts.txt")).filter(|line| line[0] == result.bench);
    all.map(|[_, what, expected, metric, wanted, other]| {
        let posted = ratio(expected).map_or_else(|| expected.to_owned(), times);
        let (kind, other) = other.split_once(' ').expect("a kind and the other side");
        let ours = result.find(if kind == "=" { other } else { OURS }, metric, wanted);
        let partner = match kind {
            "/" => result.find(other, metric, wanted),
            "at" => result.find(OURS, metric, other),
            _ => None,
        };
        let found = ours.and_then(|ours| match kind {
            "/" => result.ratio_to(ours, other),
            "at" => ours.summary.over(partner?.summary),
            _ => Some(ours.summary),
        });
        let values = ours.zip(partner).map(|(ours, theirs)| format!("{} / {}", value(ours), value(theirs)));
        let verdict = match found {
            _ if result.lacks_cpus().is_some() => UNCHECKED.to_owned(),
            Some(found) => verdict(expected, found),
            None => "not measured".to_owned(),
        };
        let [ratio, range] = texts(found);
        let what = ours.map_or_else(|| what.to_owned(), |row| fill(what, row));
        [what, posted, values.unwrap_or_default(), ratio, range, verdict]
    })
    .collect()
}

/// Returns the posted ratio, if the post has two figures.
fn ratio(expected: &str) -> Option<f64> {
    let (of, to) = expected.split_once(" / ")?;
    Some(of.parse::<f64>().ok()? / to.parse::<f64>().ok()?)
}

/// The part of a posted effect, as a power, that must be there.
const ENOUGH: f64 = 0.5;
/// Ratios up to this, and down to its inverse, are the same.
const SAME: f64 = 1.25;

/// Returns whether a ratio is as expected.
fn verdict(expected: &str, found: Summary) -> String {
    let same = 1.0 / SAME..=SAME;
    // How far it goes in the right direction, as a power of the posted one.
    let power = match (expected, ratio(expected)) {
        (_, Some(posted)) => found.median.ln() / posted.ln(),
        ("less", _) => f64::from(found.median < 1.0),
        ("more", _) => f64::from(found.median > 1.0),
        _ => f64::from(same.contains(&found.median)),
    };
    let agree = if expected == "the same" {
        let (least, most) = (same.contains(&found.min), same.contains(&found.max));
        least && most || found.max < *same.start() || found.min > *same.end()
    } else {
        found.min >= 1.0 || found.max <= 1.0
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

    #[test]
    fn posted_effect_holds_is_weaker_or_not_seen_and_rounds_may_disagree() {
        let same = |ratio: f64| [ratio; 3];
        for (expected, [min, median, max], judged) in [
            // Half of the effect is a ratio of 0.5.
            ("1 / 4", same(0.2), "holds"),
            ("1 / 4", same(0.49), "holds"),
            ("1 / 4", same(0.6), "weaker"),
            ("1 / 4", same(1.01), "not seen"),
            ("1.4 / 1", [1.1, 1.15, 1.2], "weaker"),
            ("1.4 / 1", [1.1, 1.2, 1.2], "holds"),
            ("less", [0.8, 0.9, 0.95], "holds"),
            ("more", [0.8, 0.9, 0.95], "not seen"),
            ("the same", [1.1, 1.2, 1.23], "holds"),
            ("the same", [0.6, 0.7, 0.75], "not seen"),
            ("less", [0.8, 0.9, 1.1], "holds, in doubt"),
            ("the same", [1.0, 1.1, 1.6], "holds, in doubt"),
            ("the same", [0.3, 1.1, 9.0], "holds, in doubt"),
            ("the same", [1.5, 1.6, 1.8], "not seen"),
        ] {
            assert_eq!(verdict(expected, Summary { median, min, max }), judged, "{expected:?} {median}");
        }
    }

    #[test]
    fn lines_expect_a_ratio_or_one_of_three_words() {
        for [part, _, expected, metric, _, other] in lines(include_str!("posts.txt")) {
            let is_word = ["less", "more", "the same"].contains(&expected);
            assert!(is_word != ratio(expected).is_some(), "{part} {metric}: {expected}");
            assert!(
                ["/ ", "at ", "= "].iter().any(|kind| other.starts_with(kind)),
                "{part} {metric}: {other}"
            );
        }
    }
}
