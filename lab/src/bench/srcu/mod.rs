//! `bench srcu`: what a section costs that may sleep, and what a grace period costs that waits for many.
//!
//! `pair_ns` is the time of an iteration of a loop that opens a section, loads a pointer that nobody replaces, adds the number
//! behind it, and closes the section. Peers are what async readers use, and crossbeam-epoch, whose guards cannot be held over
//! `.await`.
//!
//! For the other metrics a thread waits for a grace period while as many guards are open as the cell says, until it sleeps; then all
//! are dropped, one after another. `gp_ns` is the time from the last drop to the return of the waiting call, `gp_cpu_ns` what
//! the waiting thread has computed in all, `drop_ns` the time of a drop. The peer is a writer that waits for a lock with as many
//! readers.

mod readers;
mod waits;

use std::thread;
use std::time::Duration;

use crate::bench::read::turn::Turn;
use crate::harness::{Budget, Config, Metric, Progress, Recorder, Report, Schedule, crew, pin};
use readers::System;

const PAIR: Metric = Metric::nanoseconds("pair_ns");

/// Runs the bench.
///
/// # Errors
///
/// Fails if threads cannot be started or bound to the CPUs of this process.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut recorder = Recorder::default();
    pairs(budget.share(0.5), &mut recorder)?;
    waits::run(budget.share(0.5), &mut recorder)?;
    Ok(Report::new("srcu", &recorder, Vec::new()))
}

fn pairs(budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let cpus = pin::allowed()?;
    let systems = readers::all();
    let mut cells = vec![1];
    cells.extend((cpus.len() > 1).then_some(cpus.len()));
    let config = |threads: usize| Config::new([("threads", threads.into())]);
    let (rounds, slice) = budget.split((cells.len() * systems.len()) as f64, Duration::from_millis(40));
    let schedule = Schedule { rounds, cells: cells.len(), systems: systems.len() };
    let progress = Progress::new("bench srcu: sections", schedule.len(), slice * schedule.len() as u32);
    for &threads in &cells {
        systems.iter().for_each(|system| recorder.announce(system.name(), &PAIR, &config(threads)));
    }
    for step in schedule.steps() {
        let (threads, system) = (cells[step.cell], &systems[step.system]);
        let config = config(threads);
        progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, system.name()));
        let time = measure(system.as_ref(), &cpus[..threads], slice)?;
        recorder.record(step.round, system.name(), &PAIR, &config, time);
        progress.advance();
    }
    Ok(())
}

/// Runs the loop on each of the CPUs; the mean of the threads' times per iteration.
fn measure(system: &dyn System, cpus: &[usize], slice: Duration) -> anyhow::Result<f64> {
    let turn = Turn::default();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for &cpu in cpus {
            let turn = &turn;
            let run = move || {
                let pinned = pin::to(cpu);
                let time = system.run(turn);
                pinned.map(|()| time)
            };
            threads.push(crew::spawn(scope, run).inspect_err(|_| turn.end())?);
        }
        turn.last_for(slice, cpus.len());
        let mut sum = 0.0;
        for thread in threads {
            sum += crew::join(thread)??;
        }
        Ok(sum / cpus.len() as f64)
    })
}
