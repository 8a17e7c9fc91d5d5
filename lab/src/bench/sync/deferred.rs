//! What deferred work costs a caller of `synchronize()`: it replaces a value, or defers a callback, and then waits itself.
//!
//! The worker needs a grace period for what is deferred, too. If it leads one of its own, the caller waits for the next one,
//! and so for up to two. Callers of each kind alternate within a round, and what is compared is their calls of that round.

use std::time::Duration;

use stillpoint::rcu;

use super::load::{self, Cell, Outcome, P50};
use crate::harness::report::OURS;
use crate::harness::{Config, Metric, Progress, Recorder, Schedule};
use crate::peers::GracePeriods as _;
use crate::peers::stillpoint::RcuReaders;

/// What a caller does before it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    /// Replaces a value, which retires the old one.
    Replace,
    /// Defers a callback.
    Call,
}

impl Before {
    const ALL: [Self; 3] = [Self::Nothing, Self::Replace, Self::Call];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "synchronize",
            Self::Replace => "replace + synchronize",
            Self::Call => "call + synchronize",
        }
    }

    fn then_synchronize(self, readers: &RcuReaders) {
        match self {
            Self::Nothing => (),
            Self::Replace => readers.replace(),
            Self::Call => rcu::call(|| ()),
        }
        readers.synchronize();
    }
}

/// Of a call, with what comes before it.
const P90: Metric = Metric::nanoseconds("p90_ns");
const MEAN: Metric = Metric::nanoseconds("mean_ns");
/// The same, by those of `synchronize()` alone.
const RATIOS: [Metric; 3] =
    [Metric::ratio("p50_to_alone"), Metric::ratio("p90_to_alone"), Metric::ratio("mean_to_alone")];

/// Readers in sections as short as can be, which never sleep.
const CELLS: [Cell; 2] =
    [Cell::new(4, 0, 1, 0, 3).with_pauses(PAUSE), Cell::new(1, 0, 1, 0, 1).with_pauses(PAUSE)];

/// More than a thread has the CPU for: so each call meets other readers that were preempted inside a section.
const PAUSE: Duration = Duration::from_millis(8);

fn config(cell: &Cell, before: Before) -> Config {
    Config::new([("readers", cell.readers.into()), ("call", before.name().into())])
}

fn latencies(outcome: &Outcome) -> [f64; 3] {
    let latencies = &outcome.latencies;
    let quantile = |quantile| latencies.value_at_quantile(quantile) as f64;
    [quantile(0.5), quantile(0.9), latencies.mean()]
}

/// Slices of a round.
pub(super) fn slices() -> f64 {
    let weights: u32 = CELLS.iter().map(|cell| cell.weight).sum();
    f64::from(weights) * Before::ALL.len() as f64
}

/// Records all rounds. The ratios need the values of all callers of a round, so this is no [`Plan`](crate::harness::Plan).
pub(super) fn measure((rounds, slice): (usize, Duration), recorder: &mut Recorder) -> anyhow::Result<()> {
    for cell in &CELLS {
        for before in Before::ALL {
            let metrics = [&P50, &P90, &MEAN].into_iter().chain(&RATIOS);
            metrics.for_each(|metric| recorder.announce(OURS, metric, &config(cell, before)));
        }
    }
    let schedule = Schedule { rounds, cells: CELLS.len(), systems: Before::ALL.len() };
    let total = slice.mul_f64(slices() * rounds as f64);
    let progress = Progress::new("bench sync: deferred work", schedule.len(), total);
    let mut of_round = Vec::new();
    for step in schedule.steps() {
        let (cell, before) = (&CELLS[step.cell], Before::ALL[step.system]);
        let config = config(cell, before);
        progress.show(|| format!("round {}/{rounds}: {OURS}, {config}", step.round + 1));
        let outcome = load::run_with(cell, slice * cell.weight, |readers| before.then_synchronize(readers))?;
        // Nothing is left for the next one.
        rcu::barrier();
        of_round.push((before, config, latencies(&outcome)));
        if of_round.len() == Before::ALL.len() {
            record(step.round, &of_round, recorder);
            of_round.clear();
        }
        progress.advance();
    }
    Ok(())
}

/// Records the callers of a cell in a round.
fn record(round: usize, callers: &[(Before, Config, [f64; 3])], recorder: &mut Recorder) {
    let alone =
        callers.iter().find(|(before, ..)| *before == Before::Nothing).map(|&(.., latencies)| latencies);
    for (before, config, latencies) in callers {
        for (metric, &value) in [&P50, &P90, &MEAN].into_iter().zip(latencies) {
            recorder.record(round, OURS, metric, config, value);
        }
        if let (Some(alone), true) = (alone, *before != Before::Nothing) {
            for ((metric, value), alone) in RATIOS.iter().zip(latencies).zip(alone) {
                recorder.record(round, OURS, metric, config, value / alone);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_to_synchronize_alone_in_same_round() {
        let caller = |before, latency: f64| (before, config(&CELLS[0], before), [latency; 3]);
        let mut recorder = Recorder::default();
        record(0, &[caller(Before::Call, 30.0), caller(Before::Nothing, 10.0)], &mut recorder);
        record(1, &[caller(Before::Nothing, 20.0), caller(Before::Call, 20.0)], &mut recorder);
        let rows = recorder.rows();
        let medians = |metric: &Metric| -> Vec<f64> {
            rows.iter().filter(|row| row.metric == metric.name).map(|row| row.summary.median).collect()
        };
        assert_eq!((medians(&MEAN), medians(&RATIOS[1])), (vec![25.0, 15.0], vec![2.0]));
    }
}
