//! `bench srcu`: the cost of a read-side critical section that may sleep.
//!
//! `pair_ns` is the time of an iteration of a loop that enters a section, loads a pointer that is not replaced, adds
//! the number behind it, and leaves the section. Peers are what async readers use, and crossbeam-epoch, whose guards
//! cannot be held over `.await`.

use super::read::PAIR;
use super::time_loops;
use crate::peers::{Published, ReadSide as _, arc_swap, crossbeam, stillpoint, time_reads, tokio};
use harness::{Budget, Recorder, Report, systems};

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut recorder = Recorder::new("srcu");
    let mut systems = systems![time_reads:
        stillpoint::SrcuReaders,
        stillpoint::RcuReaders,
        Published<crossbeam::Epoch>,
        tokio::InRwLock,
        arc_swap::Load,
    ];
    systems[1].name = "stillpoint-rcu";
    time_loops(budget, &mut recorder, &PAIR, &[], systems.into())?;
    Ok(Report::new(&recorder, Vec::new()))
}
