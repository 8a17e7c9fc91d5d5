//! `bench rwlock`: reader-writer locks.
//!
//! `pair_ns` is the time of an iteration of a loop that locks for reading, reads a number, and unlocks, without a
//! writer, beside a read-side critical section of `rcu`.
//!
//! For the other metrics, on all CPUs and on one, threads take the lock again and again, and each time draw whether
//! they read or write. They work for 100 ns under the lock and 100 ns without it.
//!
//! - `mops`: acquisitions of all threads per microsecond.
//! - `read_max_ns`, `write_max_ns`: the longest wait. A wait cannot be longer than a measurement, which ends it.
//! - `cpu_ns_per_op`: CPU time of all threads for each acquisition.

use hdrhistogram::Histogram;

use super::load::{Cell, run as run_load};
use super::{CPU, MOPS, Measure};
use crate::bench::read::PAIR;
use crate::bench::time_loops;
use crate::peers::rwlock::{
    OurReaders, ParkingLot12Readers, ParkingLot13Readers, ShardedReaders, StdReaders,
};
use crate::peers::stillpoint::RcuReaders;
use crate::peers::{Lock as _, ReadSide as _, time_reads};
use harness::{Budget, Metric, Plan, Recorder, Report, System, systems};

const READ_MAX: Metric = Metric::nanoseconds("read_max_ns");
const WRITE_MAX: Metric = Metric::nanoseconds("write_max_ns");

/// Nanoseconds of work under the lock, and of work without it.
const WORK_NS: u32 = 100;

fn systems() -> Vec<System<Measure>> {
    systems![run_load:
        stillpoint::lock::RwLock<u64>,
        std::sync::RwLock<u64>,
        parking_lot_12::RwLock<u64>,
        parking_lot::RwLock<u64>,
        crossbeam_utils::sync::ShardedLock<u64>,
    ]
    .into()
}

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut recorder = Recorder::new("rwlock");
    let mut pairs = systems![time_reads:
        OurReaders,
        RcuReaders,
        StdReaders,
        ParkingLot12Readers,
        ParkingLot13Readers,
        ShardedReaders,
    ];
    pairs[1].name = "stillpoint-rcu";
    time_loops(budget.share(0.25), &mut recorder, &PAIR, &[], pairs.into())?;
    let reads = [100, 99, 90, 50];
    let threads = [1, 2, 4, 16, 64].into_iter();
    let cells: Vec<_> = threads
        .flat_map(|threads| reads.map(|reads| Cell::new(threads, WORK_NS, WORK_NS).reading(reads)))
        .collect();
    Plan::new(budget.share(0.75), 200, &cells, &mut systems(), [&MOPS, &READ_MAX, &WRITE_MAX, &CPU])
        .in_profiles()?
        .run(
            &mut recorder,
            |cell, _| Some(cell.shared_config()),
            |&cell, system, slice| {
                let outcome = (system.measure)(cell, slice)?;
                let longest =
                    |waits: &Histogram<u64>| if waits.is_empty() { f64::NAN } else { waits.max() as f64 };
                let [writes, reads] = outcome.waits.each_ref().map(longest);
                Ok([outcome.mops(), reads, writes, outcome.cpu_ns()])
            },
        )?;
    Ok(Report::new(&recorder, Vec::new()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_lock_admits_readers_and_writers() {
        for system in systems() {
            let cell = Cell::new(3, WORK_NS, WORK_NS).reading(50);
            // On a busy machine a thread may get a CPU for one acquisition only, and all may be of one kind.
            while (system.measure)(cell, Duration::from_millis(20))
                .unwrap_or_else(|why| panic!("{}: {why}", system.name))
                .waits
                .iter()
                .any(Histogram::is_empty)
            {}
        }
    }
}
