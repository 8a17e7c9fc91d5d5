//! `bench lock-slice`: locks whose holders request a time-slice extension, and the same locks without it.
//!
//! - `extended`: sections in a second that ran on in an extension.
//! - `preempted`: sections in a second in which the thread was preempted, with and without an extension.
//!
//! A ratio above 1 in `mops`, or below 1 in `max_wait_ns`, favours our lock without extensions. See
//! [`slice`](crate::peers::slice) for what they need.

use std::time::Duration;

use super::load::{Cell, Outcome, run as run_load};
use super::{JAIN, MAX, MOPS, P999, product, selected, values};
use crate::harness::plan::system;
use crate::harness::report::OURS;
use crate::harness::{Better, Budget, Metric, Plan, Recorder, Report, Skipped, System, pin};
use crate::peers::Lock;
use crate::peers::slice::{self, Counts, Sliced};

const NAME: &str = "lock-slice";

type Measure = fn(Cell, Duration) -> anyhow::Result<(Outcome, Counts)>;

const EXTENDED: Metric = Metric { name: "extended", unit: "1/s", better: Better::Higher };
const PREEMPTED: Metric = Metric { name: "preempted", unit: "1/s", better: Better::Lower };

fn run_counted<L: Lock, const ENABLED: bool>(
    cell: Cell,
    time: Duration,
) -> anyhow::Result<(Outcome, Counts)> {
    slice::take_counts();
    let outcome = run_load::<Sliced<L, ENABLED>>(cell, time)?;
    Ok((outcome, slice::take_counts()))
}

fn systems() -> [System<Measure>; 6] {
    [
        system(OURS, run_counted::<stillpoint::lock::Mutex<u64>, false>),
        system("stillpoint-slice", run_counted::<stillpoint::lock::Mutex<u64>, true>),
        system("parking_lot-0.13", run_counted::<parking_lot::Mutex<u64>, false>),
        system("parking_lot-0.13-slice", run_counted::<parking_lot::Mutex<u64>, true>),
        system("std", run_counted::<std::sync::Mutex<u64>, false>),
        system("std-slice", run_counted::<std::sync::Mutex<u64>, true>),
    ]
}

/// Runs the bench. All systems are skipped if threads cannot have extensions.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    if let Err(why) = slice::check() {
        let skipped = systems().map(|system| Skipped { system: system.name.into(), why: format!("{why:#}") });
        return Ok(Report::new(&Recorder::new(NAME), skipped.into()));
    }
    let cells = selected(budget, product(&[8, 32], &[300, 1000, 10_000], &[1]))?;
    let cpus = pin::allowed()?.len();
    let metrics = [&MOPS, &JAIN, &P999, &MAX, &EXTENDED, &PREEMPTED];
    let mut recorder = Recorder::new(NAME);
    Plan::new(budget.quick_instead_of(100.0, 20.0), super::SLICE_MS, &cells, &mut systems(), metrics).run(
        &mut recorder,
        |cell, _| Some(cell.config(cpus)),
        |cell, system, time| {
            let (outcome, counts) = (system.measure)(*cell, time)?;
            let [mops, jain, _, _, _, p999, max, _] = values(&outcome);
            let per_second = |count: u64| count as f64 / outcome.elapsed.as_secs_f64();
            Ok([mops, jain, p999, max, per_second(counts.extended), per_second(counts.preempted)])
        },
    )?;
    Ok(Report::new(&recorder, Vec::new()))
}
