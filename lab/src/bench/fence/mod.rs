//! `bench fence`: what a process-wide fence costs its caller.
//!
//! A process chooses its backend once, so every backend is measured in a lane of its own (see [`crate::harness::lane`]);
//! another lane calls `membarrier` directly, without sharing a call among concurrent callers.

pub(crate) mod kind;

use std::time::Duration;

use kind::{Answer, Load, Role};

use crate::harness::lane::{self, Lanes, Role as _};
use crate::harness::{Better, Budget, Config, Metric, Progress, Recorder, Report, Schedule, pin};

/// Time of a call, for each caller.
pub(crate) const HEAVY: Metric = Metric::nanoseconds("heavy_ns");
/// Real fences for each call: below 1 where concurrent callers share one.
pub(crate) const ISSUED: Metric = Metric::count("issued_per_call", Better::Lower);

/// Concurrent callers.
const CALLERS: [usize; 3] = [1, 2, 8];

/// Runs the bench.
///
/// # Errors
///
/// Fails if the lanes cannot be started or a load needs more threads than the system allows.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let (mut lanes, skipped) = lane::start(&Role::ALL)?;
    let mut recorder = Recorder::default();
    let running = running_threads(pin::allowed()?.len());
    measure("bench fence", &mut lanes, &running, &CALLERS, budget, &mut recorder)?;
    Ok(Report::new("fence", &recorder, skipped))
}

/// Records the cost of a call beside each number of `running` threads, for each number of concurrent `callers`.
///
/// # Errors
///
/// Fails if a lane does: a load may need more threads than the system allows.
pub(crate) fn measure(
    title: &str,
    lanes: &mut Lanes<Role>,
    running: &[usize],
    callers: &[usize],
    budget: Budget,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    let cells: Vec<(usize, usize)> =
        running.iter().flat_map(|&running| callers.iter().map(move |&callers| (running, callers))).collect();
    let measured = (cells.len() * lanes.len()) as f64;
    let (rounds, slice) = budget.split(measured, Duration::from_millis(60));
    let schedule = Schedule { rounds, cells: cells.len(), systems: lanes.len() };
    let progress = Progress::new(title, schedule.len(), slice * schedule.len() as u32);
    for &(running, callers) in &cells {
        for (role, _) in lanes.iter() {
            let config = config(*role, running, callers);
            recorder.announce(role.system(), &HEAVY, &config);
            recorder.announce(role.system(), &ISSUED, &config);
        }
    }
    for step in schedule.steps() {
        let (running, callers) = cells[step.cell];
        let (role, lane) = &mut lanes[step.system];
        let config = config(*role, running, callers);
        progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, role.system()));
        let answer: Answer = lane.measure(&Load { running, callers, time: slice })?;
        recorder.record(step.round, role.system(), &HEAVY, &config, answer.heavy_ns());
        recorder.record(step.round, role.system(), &ISSUED, &config, answer.issued_per_call());
        progress.advance();
    }
    Ok(())
}

/// The parameters of a measurement.
pub(crate) fn config(role: Role, running: usize, callers: usize) -> Config {
    Config::new([
        ("running", running.into()),
        ("callers", callers.into()),
        ("backend", role.backend().into()),
    ])
}

/// Numbers of running threads, from 0 up to twice the CPUs: each up to 4, then doubled.
pub(crate) fn running_threads(cpus: usize) -> Vec<usize> {
    let most = 2 * cpus;
    let mut numbers: Vec<usize> = (0..=most.min(4)).collect();
    let mut next = 8;
    while next < most {
        numbers.push(next);
        next *= 2;
    }
    if most > 4 {
        numbers.push(most);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_threads_end_at_twice_the_cpus() {
        assert_eq!(running_threads(1), [0, 1, 2]);
        assert_eq!(running_threads(2), [0, 1, 2, 3, 4]);
        assert_eq!(running_threads(3), [0, 1, 2, 3, 4, 6]);
        assert_eq!(running_threads(12), [0, 1, 2, 3, 4, 8, 16, 24]);
    }
}
