//! What posts of the mailing lists say of their experiments, and whether it is seen here.
//!
//! One rule for all claims: where a post gives a ratio, the shape *holds* if ours has at least half of its effect in
//! the same direction (half of the logarithm), and is *weaker* if it has less. Where it gives a direction only, ours
//! must have it; where it says that two things cost the same, they may differ by a quarter. A verdict is in doubt if
//! the spread over the rounds does not agree with the median on the side of 1.

use super::document::fill;
use super::figures::{Str, texts, value};
use harness::Report;
use harness::report::{OURS, UNCHECKED, times};
use harness::stats::Summary;

/// What a post leads one to expect of a ratio.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// This ratio.
    Like(f64),
    Below,
    Above,
    Same,
}

/// What the ratio of a claim is.
#[derive(Clone, Copy, Debug)]
enum Versus {
    /// Of ours to this system.
    System(Str),
    /// Of ours to ours in this configuration.
    Config(Str),
    /// The row of this system itself, which is a ratio.
    Itself(Str),
}

/// Experiment, what is compared, what to expect, and our metric, configuration, and partner.
#[derive(Clone, Copy, Debug)]
struct Claim(Str, Str, Expected, Str, Str, Versus);

pub(super) const RULE: Str = "Times belong to machines, the shape does not. It holds if at least half of the posted \
     effect is there, on a logarithmic scale, and is weaker if less is. Where a post says only which costs more, that \
     is what is compared; what costs the same may differ by a quarter. \u{201c}In doubt\u{201d} means that the rounds \
     disagree.";

use Expected::{Above, Below, Like, Same};
use Versus::{Config, Itself, System};

// Three threads on two CPUs are the 48 virtual CPUs on 32 of the post.
#[rustfmt::skip]
const CLAIMS: [Claim; 23] = [
    Claim("e1", "heavy() beside two busy threads per CPU / beside one", Same,
        "heavy_ns", "running=max, callers=1, backend=membarrier",
        Config("running=cpus, callers=1, backend=membarrier")),
    Claim("e1", "Time of another process beside a caller / beside a running thread (posted then: 2.11\u{d7})", Same,
        "slowdown", "running=1, callers=1, backend=membarrier", Itself("stillpoint")),
    Claim("e2", "Section / section with a full fence", Below, "section_ns", "readers=1", System("stillpoint-seqcst")),
    Claim("e2", "Grace period / beside readers with full fences", Above,
        "p50_ns", "readers=1", System("stillpoint-seqcst")),
    Claim("e3", "1000 loops of {threads} threads (posted: 10,000) on their own track / on callbacks that wake; \
        extrapolated from the rate in a shorter time", Like(35.0 / 54.0),
        "loops_ns", "callbacks=0", System("callback-track")),
    Claim("e3", "The same beside a flood of {callbacks} callbacks", Like(35.0 / 54.0),
        "loops_ns", "callbacks=3600", System("callback-track")),
    Claim("e3", "Wait behind 3,600 callbacks, on its own track / before", Same, "delay", "", Itself("stillpoint")),
    Claim("e3", "The same on the callbacks' track", Above, "delay", "", Itself("callback-track")),
    Claim("e4", "Updates per second with a flag for each reader / with one flag, otherwise the same code",
        Like(408.0 / 292.0), "updates_gain", "readers=10", Itself("reader-flags")),
    Claim("e4", "Wake-ups by readers for each update, likewise", Below,
        "wakes_to_one_flag", "readers=10", Itself("reader-flags")),
    Claim("e5", "Overhead of load and store in a section / of lock; cmpxchg", Like(5.7 / 18.3),
        "overhead_ns", "threads_per_cpu=1, threads=max", System("lock-cmpxchg")),
    Claim("e5", "The same / of lock; cmpxchg with the vdso's CPU number", Like(1.0 / 5.4),
        "overhead_ns", "threads_per_cpu=1, threads=max", System("lock-cmpxchg-vdso")),
    Claim("e5", "The same / of cmpxchg in a section", Like(5.7 / 7.4),
        "overhead_ns", "threads_per_cpu=1, threads=max", System("cmpxchg-restart")),
    Claim("e5", "CPU number from memory / from the vdso", Like(0.3 / 12.7),
        "cpu_number_ns", "threads_per_cpu=1, threads=max", System("vdso-getcpu")),
    Claim("e6", "pvq: lock rate of two threads with the pending bit / without (same socket)", Like(7.08 / 6.52),
        "gain", "threads=2, cs_ns=0", Itself("pvq+pending-bit")),
    Claim("e6", "pvq: rate with kick-ahead / without, 1 thread per CPU (Westmere, 32 on 32)", Same,
        "gain", "cs_ns=1000, threads=#0", Itself("pvq+kick-ahead")),
    Claim("e6", "The same, 2 threads per CPU (Westmere, 48 on 32)", Same,
        "gain", "cs_ns=1000, threads=#1", Itself("pvq+kick-ahead")),
    Claim("e6", "pvq: rate with deferred kicks / without, 1 thread per CPU (Westmere, 32 on 32)", Like(207.4 / 181.3),
        "gain", "cs_ns=1000, threads=#0", Itself("pvq+deferred-kick")),
    Claim("e6", "The same, 2 threads per CPU (Westmere, 48 on 32)", Like(632.0 / 590.9),
        "gain", "cs_ns=1000, threads=#1", Itself("pvq+deferred-kick")),
    Claim("e6", "The same, 32 threads per CPU (Haswell, 48 on 32)", Like(892.5 / 808.1),
        "gain", "cs_ns=1000, threads=max", Itself("pvq+deferred-kick")),
    Claim("e6", "pvq: rate with adaptive spinning / without, 1 thread per CPU (Haswell, 32 on 32)", Same,
        "gain", "cs_ns=1000, threads=#0", Itself("pvq")),
    Claim("e6", "The same, 2 threads per CPU (Haswell, 48 on 32)", Like(808.1 / 546.9),
        "gain", "cs_ns=1000, threads=#1", Itself("pvq")),
    Claim("e6", "The same, 32 threads per CPU (Haswell, 48 on 32)", Like(808.1 / 546.9),
        "gain", "cs_ns=1000, threads=max", Itself("pvq")),
];

/// Returns the claims about an experiment: what is compared, the posted ratio, our values, ratio, extremes, verdict.
pub(super) fn claims(result: &Report) -> Vec<[String; 6]> {
    let line = |&Claim(_, what, expected, metric, wanted, versus): &Claim| {
        let posted = match expected {
            Like(ratio) => times(ratio),
            Below => "less".to_owned(),
            Above => "more".to_owned(),
            Same => "the same".to_owned(),
        };
        let ours = result.find(if let Itself(system) = versus { system } else { OURS }, metric, wanted);
        let partner = match versus {
            Itself(_) => None,
            System(theirs) => result.find(theirs, metric, wanted),
            Config(other) => result.find(OURS, metric, other),
        };
        let found = ours.and_then(|ours| match versus {
            Itself(_) => Some(ours.summary),
            System(theirs) => result.ratio_to(ours, theirs).map(|ratio| ratio.summary),
            Config(_) => ours.summary.over(partner?.summary),
        });
        let values = ours.zip(partner).map(|(ours, theirs)| format!("{} / {}", value(ours), value(theirs)));
        let verdict = match found {
            _ if result.lacks_cpus(metric, wanted).is_some() => UNCHECKED.to_owned(),
            Some(found) => verdict(expected, found),
            None => "not measured".to_owned(),
        };
        let [ratio, range] = texts(found);
        let what = ours.map_or_else(|| what.to_owned(), |row| fill(what, row));
        [what, posted, values.unwrap_or_default(), ratio, range, verdict]
    };
    CLAIMS.iter().filter(|claim| claim.0 == result.bench).map(line).collect()
}

/// The part of a posted effect, as a power, that must be there.
const ENOUGH: f64 = 0.5;
/// Ratios up to this, and down to its inverse, are the same.
const SAME: f64 = 1.25;

/// Returns whether a ratio is as expected.
fn verdict(expected: Expected, found: Summary) -> String {
    let same = 1.0 / SAME..=SAME;
    // How far it goes in the right direction, as a power of the posted one.
    let power = match expected {
        Like(posted) => found.median.ln() / posted.ln(),
        Below => f64::from(found.median < 1.0),
        Above => f64::from(found.median > 1.0),
        Same => f64::from(same.contains(&found.median)),
    };
    let agree = match expected {
        Same => {
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

    #[test]
    fn posted_effect_holds_is_weaker_or_not_seen_and_rounds_may_disagree() {
        let same = |ratio: f64| [ratio; 3];
        for (expected, [min, median, max], judged) in [
            // Half of the effect is a ratio of 0.5.
            (Like(0.25), same(0.2), "holds"),
            (Like(0.25), same(0.49), "holds"),
            (Like(0.25), same(0.6), "weaker"),
            (Like(0.25), same(1.01), "not seen"),
            (Like(1.4), [1.1, 1.15, 1.2], "weaker"),
            (Like(1.4), [1.1, 1.2, 1.2], "holds"),
            (Below, [0.8, 0.9, 0.95], "holds"),
            (Above, [0.8, 0.9, 0.95], "not seen"),
            (Same, [1.1, 1.2, 1.23], "holds"),
            (Same, [0.6, 0.7, 0.75], "not seen"),
            (Below, [0.8, 0.9, 1.1], "holds, in doubt"),
            (Same, [1.0, 1.1, 1.6], "holds, in doubt"),
            (Same, [0.3, 1.1, 9.0], "holds, in doubt"),
            (Same, [1.5, 1.6, 1.8], "not seen"),
        ] {
            assert_eq!(verdict(expected, Summary { median, min, max }), judged, "{expected:?} {median}");
        }
    }
}
