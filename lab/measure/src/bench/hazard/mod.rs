//! `bench hazard`: hazard pointers.
//!
//! `protect_ns` is the time of a round in which a thread protects as many values as the cell says, adds the numbers in them,
//! and gives them up. Hazard pointers are made before; kovan has a guard instead, which protects all.
//!
//! `retire_ns` is the time that a thread takes to allocate a value, to publish it, and to retire the one before. Each thread
//! has a pointer of its own.
//!
//! And what an operation on a [list and on a hash table](structures) takes.

mod list;
mod structures;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::peers::hazards::{Epoch, Haphazard, Kovan, MOST, Own, Protect, Retire, Retired};
use harness::timed_loop::Threads;
use harness::{Budget, Config, Metric, Plan, Recorder, Report, systems};

const PROTECT: Metric = Metric::nanoseconds("protect_ns");
const RETIRE: Metric = Metric::nanoseconds("retire_ns");

/// Values that are protected at once.
const HELD: [usize; 2] = [1, 8];

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut recorder = Recorder::new("hazard");
    let cells: Vec<_> =
        Threads::pinned()?.into_iter().flat_map(|threads| HELD.map(|held| (threads, held))).collect();
    let mut systems = systems![time_protections: Own, Haphazard, Kovan];
    Plan::new(budget.share(0.2), 40, &cells, &mut systems, [&PROTECT]).run(
        &mut recorder,
        |&(threads, held), _| Some(Config::new([("threads", threads.count.into()), ("held", held.into())])),
        |&cell, system, slice| Ok([(system.measure)(cell, slice)?]),
    )?;
    let mut systems = systems![time_retirements: Retired<Own>, Retired<Haphazard>, Epoch];
    Plan::new(budget.share(0.15), 60, &Threads::pinned()?, &mut systems, [&RETIRE]).run(
        &mut recorder,
        |&threads, _| Some(Config::new([("threads", threads.count.into())])),
        |&threads, system, slice| Ok([(system.measure)(threads, slice)?]),
    )?;
    structures::measure(budget.share(0.65), &mut recorder)?;
    Ok(Report::new(&recorder, Vec::new()))
}

/// Returns the nanoseconds of a round.
fn time_protections<S: Protect>((threads, held): (Threads, usize), slice: Duration) -> anyhow::Result<f64> {
    let shared = &S::new();
    threads.measure(slice, |timed_loop| match held {
        1 => timed_loop.time(shared.protects::<1>()),
        _ => timed_loop.time(shared.protects::<8>()),
    })
}

/// Returns the nanoseconds of a retirement.
fn time_retirements<S: Retire>(threads: Threads, slice: Duration) -> anyhow::Result<f64> {
    let (shared, next) = (&S::new(), &AtomicUsize::new(0));
    threads.measure(slice, |timed_loop| {
        // Relaxed: only the number matters.
        let index = next.fetch_add(1, Relaxed) % MOST;
        timed_loop.time(shared.retires(index))
    })
}
