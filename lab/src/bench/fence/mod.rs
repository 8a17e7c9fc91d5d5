//! `bench fence`: the cost of a process-wide fence for its caller.
//!
//! A process chooses its backend once, so every backend is measured in a worker process of its own (see
//! [`crate::harness::worker`]); another worker calls `membarrier` directly, without sharing a call among concurrent callers.

pub(crate) mod kind;

use std::time::Duration;

use kind::{Answer, Load, Role};

use crate::harness::worker::{self, Role as _, Workers};
use crate::harness::{self, Better, Budget, Config, Metric, Plan, Recorder, Report, System, pin};

/// Time of a call, for each caller.
pub(crate) const HEAVY: Metric = Metric::nanoseconds("heavy_ns");
/// Real fences for each call: below 1 where concurrent callers share one.
pub(crate) const ISSUED: Metric = Metric::count("issued_per_call", Better::Lower);

/// Concurrent callers.
const CALLERS: [usize; 3] = [1, 2, 8];

/// Runs the bench.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let (mut workers, skipped) = worker::start(&Role::ALL)?;
    let mut recorder = Recorder::default();
    let running = running_threads(pin::allowed()?.len());
    measure("bench fence", &mut workers, &running, &CALLERS, budget, &mut recorder)?;
    Ok(Report::new("fence", &recorder, skipped))
}

/// Records the cost of a call beside each number of `running` threads, for each number of concurrent `callers`.
pub(crate) fn measure(
    title: &str,
    workers: &mut Workers<Role>,
    running: &[usize],
    callers: &[usize],
    budget: Budget,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    let cells: Vec<(usize, usize)> =
        running.iter().flat_map(|&running| callers.iter().map(move |&callers| (running, callers))).collect();
    let timing = budget.split((cells.len() * workers.len()) as f64, Duration::from_millis(60));
    let mut systems: Vec<_> = workers
        .iter_mut()
        .map(|(role, worker)| System { name: role.system(), measure: (*role, worker) })
        .collect();
    let plan = Plan { title, timing, cells: &cells, systems: &mut systems, metrics: [&HEAVY, &ISSUED] };
    let config = |&(running, callers): &(usize, usize), system: &System<(Role, _)>| {
        config(system.measure.0, running, callers)
    };
    harness::run(plan, recorder, config, |&(running, callers), system, time| {
        let answer: Answer = system.measure.1.measure(&Load { running, callers, time })?;
        Ok([answer.heavy_ns(), answer.issued_per_call()])
    })
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
    fn running_threads_reach_twice_the_cpus() {
        assert_eq!(running_threads(1), [0, 1, 2]);
        assert_eq!(running_threads(2), [0, 1, 2, 3, 4]);
        assert_eq!(running_threads(3), [0, 1, 2, 3, 4, 6]);
        assert_eq!(running_threads(12), [0, 1, 2, 3, 4, 8, 16, 24]);
    }
}
