//! `bench qsbr`: what readers that report quiescent states pay, and how many updates they let through.
//!
//! `read_ns` and `quiescent_ns` are the time of an iteration of a loop that does nothing else, while nobody updates: loading a
//! pointer and adding the number behind it; reporting. The bare load has nothing to report.
//!
//! For `updates_per_s` a thread waits for one grace period after another, as often as the cell says, beside readers that never
//! sleep: they read in short sections and report (or end the section) after each. There are more readers than CPUs in some
//! cells: a grace period then waits for threads that are not running, and `run-queue`, which is no library, says how often all
//! of them get to run.

mod systems;
mod updates;

use std::thread;
use std::time::Duration;

use crate::bench::read::turn::Turn;
use crate::harness::{Better, Budget, Config, Metric, Progress, Recorder, Report, Schedule, crew, pin};
use systems::{Loop, System};

const READ: Metric = Metric::nanoseconds("read_ns");
const QUIESCENT: Metric = Metric::nanoseconds("quiescent_ns");
const UPDATES: Metric = Metric { name: "updates_per_s", unit: "1/s", better: Better::Higher };

/// Runs the bench.
///
/// # Errors
///
/// Fails if threads cannot be started or bound to the CPUs of this process.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut recorder = Recorder::default();
    let (systems, mut skipped) = systems::all();
    readers(&systems, budget.share(0.4), &mut recorder)?;
    let (flavors, more) = updates::all();
    for skip in more {
        if !skipped.iter().any(|s| s.system == skip.system) {
            skipped.push(skip);
        }
    }
    updates::run(&flavors, budget.share(0.6), &mut recorder)?;
    Ok(Report::new("qsbr", &recorder, skipped))
}

fn readers(systems: &[Box<dyn System>], budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let cpus = pin::allowed()?;
    let mut cells = Vec::new();
    for (body, metric) in [(Loop::Read, &READ), (Loop::Report, &QUIESCENT)] {
        cells.push((body, metric, 1));
        if cpus.len() > 1 {
            cells.push((body, metric, cpus.len()));
        }
    }
    let config = |threads: usize| Config::new([("threads", threads.into())]);
    let (rounds, slice) = budget.split((cells.len() * systems.len()) as f64, Duration::from_millis(40));
    let schedule = Schedule { rounds, cells: cells.len(), systems: systems.len() };
    let progress = Progress::new("bench qsbr: readers", schedule.len(), slice * schedule.len() as u32);
    for (_, metric, threads) in &cells {
        systems.iter().for_each(|system| recorder.announce(system.name(), metric, &config(*threads)));
    }
    for step in schedule.steps() {
        let ((body, metric, threads), system) = (cells[step.cell], &systems[step.system]);
        if system.can(body) {
            let config = config(threads);
            progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, system.name()));
            let time = measure(system.as_ref(), body, &cpus[..threads], slice)?;
            recorder.record(step.round, system.name(), metric, &config, time);
        }
        progress.advance();
    }
    Ok(())
}

/// Runs the loop on each of the CPUs; the mean of the threads' times per iteration.
fn measure(system: &dyn System, body: Loop, cpus: &[usize], slice: Duration) -> anyhow::Result<f64> {
    let turn = Turn::default();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for &cpu in cpus {
            let turn = &turn;
            let run = move || {
                let pinned = pin::to(cpu);
                let time = system.run(body, turn);
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
