//! `bench callback`: what it costs to have something done after a grace period, how soon it is done, and how much waits.
//!
//! - `latency_*`: from the call to the callback's first instruction, after a pause that lets every worker fall asleep. A
//!   library without workers has the callback run by whoever comes by: the caller, or a reader that leaves.
//! - `retire_ns`: allocate a value, publish it, retire the old one, in a loop; the time of all, until everything has been
//!   freed, divided by the number of values.
//! - `peak_bytes`: the most that was retired and not yet freed, while a writer floods and a reader stays in its section;
//!   `flood_ns` is what a value cost the writer then. The course over time is in the JSON.
//! - `op_ns`, `rss_bytes`: a push and a pop inside a section, which retires the node there: see [`stack`].
//!
//! Writers are registered threads, nothing is bound to a CPU. Each peer is used as its documentation recommends: see
//! [`systems`].

mod flood;
mod latency;
mod retire;
pub(crate) mod stack;
mod systems;

use std::time::Duration;

use crate::harness::report::Series;
use crate::harness::{Budget, Metric, Progress, Recorder, Report, Schedule, Skipped};
use systems::System;

/// Time from the call to the callback.
const LATENCY_P50: Metric = Metric::nanoseconds("latency_p50_ns");
const LATENCY_P99: Metric = Metric::nanoseconds("latency_p99_ns");
/// Time for each value, all threads together.
const RETIRE: Metric = Metric::nanoseconds("retire_ns");
/// Bytes retired and not yet freed.
const PEAK: Metric = Metric::bytes("peak_bytes");
/// Time for each value during the flood, waiting included.
const FLOOD: Metric = Metric::nanoseconds("flood_ns");

/// Runs the bench.
///
/// # Errors
///
/// Fails if the machine does not allow the threads, or a library does not do what it was handed.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let (systems, mut skipped) = systems::all();
    for system in systems.iter().filter(|system| !system.runs_alone) {
        let why = "latency without readers: nothing runs while nobody opens a section".to_owned();
        skipped.push(Skipped { system: system.name, why });
    }
    let mut recorder = Recorder::default();
    measure_latency(&systems, budget.share(0.2), &mut recorder)?;
    measure_retire(&systems, budget.share(0.25), &mut recorder)?;
    let series = measure_flood(&systems, budget.share(0.15), &mut recorder)?;
    stack::measure(budget.share(0.4), &mut recorder)?;
    Ok(Report::new("callback", &recorder, skipped).with_series(series))
}

fn measure_latency(systems: &[System], budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let cells = &latency::CELLS;
    let (rounds, slice) = budget.split((cells.len() * systems.len()) as f64, Duration::from_millis(400));
    let schedule = Schedule { rounds, cells: cells.len(), systems: systems.len() };
    let progress = Progress::new("bench callback: latency", schedule.len(), slice * schedule.len() as u32);
    for cell in cells {
        for metric in [&LATENCY_P50, &LATENCY_P99] {
            systems.iter().for_each(|system| recorder.announce(system.name, metric, &cell.config()));
        }
    }
    for step in schedule.steps() {
        let (cell, system) = (&cells[step.cell], &systems[step.system]);
        let config = cell.config();
        progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, system.name));
        if system.runs_alone || cell.readers > 0 {
            let latencies = (system.latency)(cell, slice)?;
            let quantile = |quantile| latencies.value_at_quantile(quantile) as f64;
            recorder.record(step.round, system.name, &LATENCY_P50, &config, quantile(0.5));
            recorder.record(step.round, system.name, &LATENCY_P99, &config, quantile(0.99));
        }
        progress.advance();
    }
    Ok(())
}

fn measure_retire(systems: &[System], budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let cells = &retire::CELLS;
    let (rounds, slice) = budget.split((cells.len() * systems.len()) as f64, Duration::from_millis(150));
    let schedule = Schedule { rounds, cells: cells.len(), systems: systems.len() };
    let progress = Progress::new("bench callback: retire", schedule.len(), slice * schedule.len() as u32);
    for cell in cells {
        systems.iter().for_each(|system| recorder.announce(system.name, &RETIRE, &cell.config()));
    }
    for step in schedule.steps() {
        let (cell, system) = (&cells[step.cell], &systems[step.system]);
        let config = cell.config();
        progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, system.name));
        recorder.record(step.round, system.name, &RETIRE, &config, (system.retire)(cell, slice)?);
        progress.advance();
    }
    Ok(())
}

fn measure_flood(systems: &[System], budget: Budget, recorder: &mut Recorder) -> anyhow::Result<Vec<Series>> {
    let (rounds, slice) = budget.split(systems.len() as f64, Duration::from_millis(200));
    let schedule = Schedule { rounds, cells: 1, systems: systems.len() };
    let progress = Progress::new("bench callback: flood", schedule.len(), slice * schedule.len() as u32);
    let config = flood::config(slice);
    for metric in [&PEAK, &FLOOD] {
        systems.iter().for_each(|system| recorder.announce(system.name, metric, &config));
    }
    let mut series = Vec::new();
    for step in schedule.steps() {
        let system = &systems[step.system];
        progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, system.name));
        let flood = (system.flood)(slice)?;
        recorder.record(step.round, system.name, &PEAK, &config, flood.peak as f64);
        recorder.record(step.round, system.name, &FLOOD, &config, flood.value_ns);
        if step.round == 0 {
            series.push(flood.series(system.name, &config));
        }
        progress.advance();
    }
    Ok(series)
}
