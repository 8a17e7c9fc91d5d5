//! The shape of a post: what must be the same here, and whether it is.
//!
//! One rule for all: where a post gives a ratio, the shape *holds* if ours has at least half of its effect in the same direction
//! (half of the logarithm), and is *weaker* if it has less. Where it gives a direction only, ours must have it; where it says that
//! two things cost the same, they may differ by a quarter. If the spread over the rounds does not agree with the median on which
//! side of 1 they are, that is said.

use serde_json::json;

use super::data::{Document, Outcome, Wanted};
use crate::harness::report::OURS;
use crate::harness::stats::Summary;

/// The part of a posted effect, as a power, that must be there.
const ENOUGH: f64 = 0.5;
/// What may differ by so much is the same.
const SAME: f64 = 1.25;

/// What a post leads one to expect of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Expected {
    /// This ratio.
    Like(f64),
    Below,
    Above,
    Same,
}

/// Whether it is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    Weaker,
    Unseen,
}

/// Something that a post says, beside ours.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) experiment: &'static str,
    pub(super) what: String,
    pub(super) expected: Expected,
    /// Our ratio, if it was measured.
    pub(super) ours: Option<Summary>,
    /// The two values that ours is the ratio of.
    pub(super) values: Option<(f64, f64, String)>,
}

impl Claim {
    pub(super) fn verdict(&self) -> Option<Verdict> {
        let ratio = self.ours?.median;
        // How far it goes in the right direction, as a power of the posted one.
        let power = match self.expected {
            Expected::Like(posted) => ratio.ln() / posted.ln(),
            Expected::Below => {
                if ratio < 1.0 {
                    1.0
                } else {
                    0.0
                }
            }
            Expected::Above => {
                if ratio > 1.0 {
                    1.0
                } else {
                    0.0
                }
            }
            Expected::Same => {
                if (1.0 / SAME..=SAME).contains(&ratio) {
                    1.0
                } else {
                    0.0
                }
            }
        };
        Some(match power {
            _ if power >= ENOUGH => Verdict::Holds,
            _ if power > 0.0 => Verdict::Weaker,
            _ => Verdict::Unseen,
        })
    }

    /// Whether some rounds say the opposite.
    pub(super) fn is_doubtful(&self) -> bool {
        self.ours.is_some_and(|ours| match self.expected {
            Expected::Same => {
                let (least, most) = (1.0 / SAME, SAME);
                let agree = ours.min >= least && ours.max <= most || ours.max < least || ours.min > most;
                !agree
            }
            _ => ours.min < 1.0 && ours.max > 1.0,
        })
    }
}

/// What the post of an experiment says.
type Says = fn(&Outcome) -> Vec<Claim>;

/// What the posts say of what was measured.
pub(super) fn claims(document: &Document) -> Vec<Claim> {
    let experiments: [(&str, Says); 6] =
        [("e1", fences), ("e2", backends), ("e3", tracks), ("e4", flags), ("e5", per_cpu), ("e6", lock)];
    let measured = experiments.iter().filter_map(|(name, claims)| Some(claims(document.result(name)?)));
    measured.flatten().collect()
}

/// The ratio that rounds gave, of ours to `theirs`.
fn beside(
    result: &Outcome,
    experiment: &'static str,
    what: &str,
    expected: Expected,
    theirs: &str,
    wanted: Wanted<'_>,
) -> Claim {
    let ours = result.ratio(theirs, wanted).map(|ratio| ratio.summary);
    let value =
        |system| Some((result.row(system, wanted)?.summary.median, result.row(system, wanted)?.unit.clone()));
    let values = value(OURS).zip(value(theirs)).map(|((ours, unit), (theirs, _))| (ours, theirs, unit));
    Claim { experiment, what: what.to_owned(), expected, ours, values }
}

/// A row that is a ratio itself.
fn itself(
    result: &Outcome,
    experiment: &'static str,
    what: &str,
    expected: Expected,
    system: &str,
    wanted: Wanted<'_>,
) -> Claim {
    let ours = result.row(system, wanted).map(|row| row.summary);
    Claim { experiment, what: what.to_owned(), expected, ours, values: None }
}

fn fences(result: &Outcome) -> Vec<Claim> {
    let running = result.values("heavy_ns", "running");
    let most = running.iter().copied().fold(0.0, f64::max);
    let cpus = most / 2.0;
    let cost = |threads: f64| {
        let config =
            [("running", json!(threads as u64)), ("callers", json!(1)), ("backend", json!("membarrier"))];
        result.row(OURS, ("heavy_ns", &config)).map(|row| row.summary)
    };
    let (all, crowd) = (cost(cpus), cost(most));
    // Of two rows, so the spread is what their extremes allow.
    let ours = all.zip(crowd).map(|(all, crowd)| Summary {
        median: crowd.median / all.median,
        min: crowd.min / all.max,
        max: crowd.max / all.min,
    });
    let values = all.zip(crowd).map(|(all, crowd)| (crowd.median, all.median, "ns".to_owned()));
    let alone = [("running", json!(0)), ("callers", json!(16)), ("backend", json!("membarrier"))];
    let neighbour = [("running", json!(1)), ("callers", json!(1)), ("backend", json!("membarrier"))];
    vec![
        Claim {
            experiment: "e1",
            what: format!(
                "A call costs by running threads, not by all: beside {most} busy threads, to {cpus} on as many CPUs"
            ),
            expected: Expected::Same,
            ours,
            values,
        },
        beside(
            result,
            "e1",
            "A call of one of 16 callers that share, to one of 16 that do not",
            Expected::Below,
            "membarrier-syscall",
            ("heavy_ns", &alone),
        ),
        itself(
            result,
            "e1",
            "A neighbour's time beside a caller, to beside a thread that runs: left alone now (posted then: 2.11×)",
            Expected::Same,
            OURS,
            ("slowdown", &neighbour),
        ),
    ]
}

fn backends(result: &Outcome) -> Vec<Claim> {
    let one = [("readers", json!(1))];
    let claim = |what, expected, theirs, metric| beside(result, "e2", what, expected, theirs, (metric, &one));
    vec![
        claim("A section, to one with a full fence", Expected::Below, "stillpoint-seqcst", "section_ns"),
        claim(
            "A grace period, to one beside readers with fences",
            Expected::Above,
            "stillpoint-seqcst",
            "p50_ns",
        ),
        claim("A grace period, to one by signals", Expected::Below, "stillpoint-signal", "p50_ns"),
    ]
}

fn tracks(result: &Outcome) -> Vec<Claim> {
    let (alone, flood) = ([("callbacks", json!(0))], [("callbacks", json!(3600))]);
    let loops = |what, config| {
        beside(result, "e3", what, Expected::Like(35.0 / 54.0), "callback-track", ("loops_ns", config))
    };
    vec![
        loops("All threads' loops on their own track, to callbacks that wake", &alone),
        loops("The same beside a flood of callbacks", &flood),
        itself(
            result,
            "e3",
            "A waiter behind 3,600 callbacks, on its own track, to before",
            Expected::Same,
            OURS,
            ("delay", &[]),
        ),
        itself(
            result,
            "e3",
            "The same on the callbacks' track",
            Expected::Above,
            "callback-track",
            ("delay", &[]),
        ),
    ]
}

fn flags(result: &Outcome) -> Vec<Claim> {
    let mixed = [("readers", json!(10))];
    let claim = |what, expected, metric| beside(result, "e4", what, expected, "one-flag", (metric, &mixed));
    vec![
        claim(
            "Updates a second with a flag for each reader, to one flag",
            Expected::Like(408.0 / 292.0),
            "updates_per_s",
        ),
        claim("Wake-ups by readers for each update", Expected::Below, "reader_wakes"),
    ]
}

fn per_cpu(result: &Outcome) -> Vec<Claim> {
    let spread = [("threads_per_cpu", json!(1))];
    let threads = result.rows(("loop_ns", &spread)).filter_map(|row| row.config.number("threads"));
    let threads = threads.fold(1.0, f64::max) as u64;
    let config = [("threads", json!(threads)), ("threads_per_cpu", json!(1))];
    let claim = |what, posted, theirs, metric| {
        beside(result, "e5", what, Expected::Like(posted), theirs, (metric, &config))
    };
    vec![
        claim(
            "Overhead of load and store in a section, to lock; cmpxchg",
            5.7 / 18.3,
            "lock-cmpxchg",
            "overhead_ns",
        ),
        claim(
            "The same, to lock; cmpxchg with the vdso's CPU number",
            1.0 / 5.4,
            "lock-cmpxchg-vdso",
            "overhead_ns",
        ),
        claim("The same, to cmpxchg in a section", 5.7 / 7.4, "cmpxchg-restart", "overhead_ns"),
        claim("The CPU's number from memory, to the vdso", 0.3 / 12.7, "vdso-getcpu", "cpu_number_ns"),
    ]
}

fn lock(result: &Outcome) -> Vec<Claim> {
    let threads = result.values("mops", "threads");
    let config = |place: usize| [("threads", json!(threads.get(place).copied().unwrap_or(0.0) as u64))];
    let claim = |what, posted, theirs, place| {
        beside(result, "e6", what, Expected::Like(posted), theirs, ("mops", &config(place)))
    };
    // Three threads on two CPUs are the 48 virtual ones on 32.
    vec![
        claim(
            "Rate with deferred kicks at 1.5 threads a CPU, to without (Westmere, 48 on 32)",
            632.0 / 590.9,
            "no-deferred-kick",
            1,
        ),
        claim("The same at 32 threads a CPU (Haswell, 48 on 32)", 892.5 / 808.1, "no-deferred-kick", 4),
        claim(
            "Rate of two threads with stealing, which took the place of the pending bit, to without (same socket)",
            7.08 / 6.52,
            "no-stealing",
            0,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(expected: Expected, median: f64, min: f64, max: f64) -> Claim {
        let ours = Some(Summary { median, min, max });
        Claim { experiment: "e1", what: String::new(), expected, ours, values: None }
    }

    #[test]
    fn half_of_a_posted_effect_is_enough_and_less_is_weaker() {
        for (ratio, verdict) in
            [(0.2, Verdict::Holds), (0.49, Verdict::Holds), (0.6, Verdict::Weaker), (1.01, Verdict::Unseen)]
        {
            assert_eq!(claim(Expected::Like(0.25), ratio, ratio, ratio).verdict(), Some(verdict), "{ratio}");
        }
        assert_eq!(claim(Expected::Like(1.4), 1.15, 1.1, 1.2).verdict(), Some(Verdict::Weaker));
        assert_eq!(claim(Expected::Like(1.4), 1.2, 1.1, 1.2).verdict(), Some(Verdict::Holds));
    }

    #[test]
    fn directions_and_equality_are_judged_by_the_median() {
        assert_eq!(claim(Expected::Below, 0.9, 0.8, 1.1).verdict(), Some(Verdict::Holds));
        assert_eq!(claim(Expected::Above, 0.9, 0.8, 1.1).verdict(), Some(Verdict::Unseen));
        assert_eq!(claim(Expected::Same, 1.2, 1.1, 1.3).verdict(), Some(Verdict::Holds));
        assert_eq!(claim(Expected::Same, 0.7, 0.6, 0.9).verdict(), Some(Verdict::Unseen));
    }

    #[test]
    fn rounds_that_say_the_opposite_make_it_doubtful() {
        assert!(claim(Expected::Below, 0.9, 0.8, 1.1).is_doubtful());
        assert!(!claim(Expected::Below, 0.9, 0.8, 0.95).is_doubtful());
        assert!(claim(Expected::Same, 1.1, 1.0, 1.6).is_doubtful());
        assert!(claim(Expected::Same, 1.1, 0.3, 9.0).is_doubtful());
        assert!(!claim(Expected::Same, 1.6, 1.5, 1.8).is_doubtful());
    }

    #[test]
    fn what_was_not_measured_has_no_verdict() {
        let claim = Claim { ours: None, ..claim(Expected::Below, 1.0, 1.0, 1.0) };
        assert_eq!((claim.verdict(), claim.is_doubtful()), (None, false));
    }
}
