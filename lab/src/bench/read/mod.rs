//! `bench read`: what a reader pays to open a section, follow a pointer, and close the section.
//!
//! Every system runs the same loop over one shared pointer that nobody replaces: open, load the pointer, add the number
//! behind it, close. With nesting 2 a second section is opened inside the first, and `pair_ns` is the time of both.

mod systems;
pub(crate) mod turn;

use std::thread;
use std::time::Duration;

use crate::harness::{Budget, Config, Metric, Progress, Recorder, Report, Schedule, Skipped, crew, pin};
use systems::System;
use turn::Turn;

/// Time for an iteration of the loop in each thread.
const PAIR: Metric = Metric::nanoseconds("pair_ns");

#[derive(Clone, Copy, Debug)]
struct Cell {
    threads: usize,
    nesting: u32,
}

impl Cell {
    fn config(self) -> Config {
        Config::new([("threads", self.threads.into()), ("nesting", self.nesting.into())])
    }
}

/// Runs the bench.
///
/// # Errors
///
/// Fails if threads cannot be started or bound to the CPUs of this process.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let cpus = pin::allowed()?;
    let (systems, mut skipped) = systems::all();
    let mut cells = Vec::new();
    for nesting in [1, 2] {
        cells.push(Cell { threads: 1, nesting });
        if cpus.len() > 1 {
            cells.push(Cell { threads: cpus.len(), nesting });
        }
    }
    for system in &systems {
        if let Some(why) = system.cannot_nest() {
            skipped.push(Skipped { system: system.name(), why: format!("with nesting 2: {why}") });
        }
    }

    let measured = (cells.len() * systems.len()) as f64;
    let (rounds, slice) = budget.split(measured, Duration::from_millis(40));
    let schedule = Schedule { rounds, cells: cells.len(), systems: systems.len() };
    let progress = Progress::new("bench read", schedule.len(), slice * schedule.len() as u32);
    let mut recorder = Recorder::default();
    for cell in &cells {
        systems.iter().for_each(|system| recorder.announce(system.name(), &PAIR, &cell.config()));
    }
    for step in schedule.steps() {
        let (cell, system) = (cells[step.cell], &systems[step.system]);
        if cell.nesting == 1 || system.cannot_nest().is_none() {
            progress
                .show(|| format!("round {}/{rounds}: {}, {}", step.round + 1, system.name(), cell.config()));
            let pair = measure(system.as_ref(), cell, &cpus, slice)?;
            recorder.record(step.round, system.name(), &PAIR, &cell.config(), pair);
        }
        progress.advance();
    }
    drop(progress);
    Ok(Report::new("read", &recorder, skipped))
}

/// Runs the loop in as many threads as the cell says, each on a CPU of its own; the mean of their times per iteration.
fn measure(system: &dyn System, cell: Cell, cpus: &[usize], slice: Duration) -> anyhow::Result<f64> {
    let turn = Turn::default();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for &cpu in &cpus[..cell.threads] {
            let turn = &turn;
            let body = move || {
                let pinned = pin::to(cpu);
                let pair = system.run(cell.nesting, turn);
                pinned.map(|()| pair)
            };
            threads.push(crew::spawn(scope, body).inspect_err(|_| turn.end())?);
        }
        turn.last_for(slice, cell.threads);
        let mut sum = 0.0;
        for thread in threads {
            sum += crew::join(thread)??;
        }
        Ok(sum / cell.threads as f64)
    })
}
