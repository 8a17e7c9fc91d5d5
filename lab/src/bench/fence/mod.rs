//! `bench fence`: what a process-wide fence costs its caller.
//!
//! A process chooses its backend once, so every backend is measured in a process of its own, a *lane* (see [`lane`]);
//! another lane calls `membarrier` directly, without sharing a call among concurrent callers. All lanes live as long as
//! the run and sleep while another one measures.

pub(crate) mod lane;

use std::time::Duration;

use lane::{Lane, Role};

use crate::harness::{Better, Budget, Config, Metric, Progress, Recorder, Report, Schedule, Skipped, pin};

/// Time of a call, for each caller.
const HEAVY: Metric = Metric::nanoseconds("heavy_ns");
/// Real fences for each call: below 1 where concurrent callers share one.
const ISSUED: Metric = Metric::count("issued_per_call", Better::Lower);

/// Concurrent callers.
const CALLERS: [usize; 3] = [1, 2, 8];

/// Runs the bench.
///
/// # Errors
///
/// Fails if the lanes cannot be started or a load needs more threads than the system allows.
pub(super) fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut lanes = Vec::new();
    let mut skipped = Vec::new();
    for role in Role::ALL {
        let lane = Lane::start(role)?;
        match lane.missing() {
            None => lanes.push(lane),
            Some(why) => skipped.push(Skipped { system: role.system(), why }),
        }
    }

    let running = running_threads(pin::allowed()?.len());
    let cells: Vec<(usize, usize)> =
        running.iter().flat_map(|&running| CALLERS.map(|callers| (running, callers))).collect();
    let measured = (cells.len() * lanes.len()) as f64;
    let (rounds, slice) = budget.split(measured, Duration::from_millis(60));
    let schedule = Schedule { rounds, cells: cells.len(), systems: lanes.len() };
    let progress = Progress::new("bench fence", schedule.len(), slice * schedule.len() as u32);
    let mut recorder = Recorder::default();
    for &(running, callers) in &cells {
        for lane in &lanes {
            let config = config(lane.role(), running, callers);
            recorder.announce(lane.role().system(), &HEAVY, &config);
            recorder.announce(lane.role().system(), &ISSUED, &config);
        }
    }
    for step in schedule.steps() {
        let (running, callers) = cells[step.cell];
        let lane = &mut lanes[step.system];
        let role = lane.role();
        let config = config(role, running, callers);
        progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, role.system()));
        let answer = lane.measure(&lane::Load { running, callers, time: slice })?;
        recorder.record(step.round, role.system(), &HEAVY, &config, answer.heavy_ns);
        recorder.record(step.round, role.system(), &ISSUED, &config, answer.issued_per_call);
        progress.advance();
    }
    drop(progress);
    Ok(Report::new("fence", &recorder, skipped))
}

fn config(role: Role, running: usize, callers: usize) -> Config {
    Config::new([
        ("running", running.into()),
        ("callers", callers.into()),
        ("backend", role.backend().into()),
    ])
}

/// Numbers of running threads up to twice the CPUs: each up to 4, then doubled.
fn running_threads(cpus: usize) -> Vec<usize> {
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
