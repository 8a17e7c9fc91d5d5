//! `bench srcu`: the cost of a read-side critical section that may sleep, and of a grace period that waits for many of them.
//!
//! `pair_ns` is the time of an iteration of a loop that enters a section, loads a pointer that is not replaced, adds the number
//! behind it, and leaves the section. Peers are what async readers use, and crossbeam-epoch, whose guards cannot be held over
//! `.await`.
//!
//! For the other metrics a thread waits for a grace period while the guards of the cell are open, until it sleeps; then all
//! are dropped, one after another. `gp_ns` is the time from the last drop to the return of the waiting call, `gp_cpu_ns` what
//! the waiting thread has computed in all, `drop_ns` the time of a drop. The peer is a writer that waits for a lock with as many
//! readers.

mod waits;

use std::time::Duration;

use crate::harness::timed_loop::Threads;
use crate::harness::{self, Budget, Config, Metric, Plan, Recorder, Report, systems};
use crate::peers::{Published, ReadSide as _, arc_swap, crossbeam, stillpoint, time_reads, tokio};

const PAIR: Metric = Metric::nanoseconds("pair_ns");

/// Runs the bench.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut recorder = Recorder::default();
    pairs(budget.share(0.5), &mut recorder)?;
    waits::run(budget.share(0.5), &mut recorder)?;
    Ok(Report::new("srcu", &recorder, Vec::new()))
}

fn pairs(budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let mut systems = systems![time_reads:
        stillpoint::SrcuReaders,
        stillpoint::RcuReaders,
        Published<crossbeam::Epoch>,
        crossbeam::Pin,
        tokio::InRwLock,
        arc_swap::LoadFull,
        arc_swap::Load,
    ];
    systems[1].name = "stillpoint-rcu";
    let cells = Threads::pinned()?;
    let timing = budget.split((cells.len() * systems.len()) as f64, Duration::from_millis(40));
    let plan = Plan {
        title: "bench srcu: sections",
        timing,
        cells: &cells,
        systems: &mut systems,
        metrics: [&PAIR],
    };
    let config = |threads: &Threads, _: &_| Config::new([("threads", threads.count.into())]);
    harness::run(plan, recorder, config, |&threads, system, slice| Ok([(system.measure)(threads, slice)?]))
}
