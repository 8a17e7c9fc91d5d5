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

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use crate::bench::lock::load::Work;
use crate::peers::rwlock::{
    Brlock, BrlockReaders, OurReaders, ParkingLot12Readers, ParkingLot13Readers, SharedLock, StdReaders,
};
use crate::peers::stillpoint::RcuReaders;
use crate::peers::{ReadSide as _, time_reads};
use harness::controls::{Controls, join_all, spawn_all};
use harness::timed_loop::{Threads, thread_cpu_time};
use harness::{Better, Budget, Config, Metric, Plan, Recorder, Report, System, systems};

const PAIR: Metric = Metric::nanoseconds("pair_ns");
const MOPS: Metric = Metric { name: "mops", unit: "1/us", better: Better::Higher };
const READ_MAX: Metric = Metric::nanoseconds("read_max_ns");
const WRITE_MAX: Metric = Metric::nanoseconds("write_max_ns");
const CPU: Metric = Metric::nanoseconds("cpu_ns_per_op");

/// Nanoseconds of work under the lock, and of work without it.
const WORK_NS: u32 = 100;

/// Threads, and the share of reads among their acquisitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    threads: usize,
    reads_percent: u32,
}

type Measure = fn(Cell, Duration) -> anyhow::Result<[f64; 4]>;

fn systems() -> Vec<System<Measure>> {
    systems![run_load:
        stillpoint::lock::RwLock<u64>,
        std::sync::RwLock<u64>,
        parking_lot_12::RwLock<u64>,
        parking_lot::RwLock<u64>,
        Brlock<u64>,
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
        BrlockReaders,
    ];
    pairs[1].name = "stillpoint-rcu";
    Plan::new(budget.share(0.25), 40, &Threads::pinned()?, &mut pairs, [&PAIR]).run(
        &mut recorder,
        |threads, _| Some(Config::new([("threads", threads.count.into())])),
        |&threads, system, slice| Ok([(system.measure)(threads, slice)?]),
    )?;
    let reads = [100, 99, 90, 50];
    let cells: Vec<_> = [1, 2, 4, 16, 64]
        .into_iter()
        .flat_map(|threads| reads.map(|reads_percent| Cell { threads, reads_percent }))
        .collect();
    Plan::new(budget.share(0.75), 200, &cells, &mut systems(), [&MOPS, &READ_MAX, &WRITE_MAX, &CPU])
        .in_profiles()?
        .run(
            &mut recorder,
            |cell, _| {
                Some(Config::new([
                    ("threads", cell.threads.into()),
                    ("reads_percent", u64::from(cell.reads_percent).into()),
                ]))
            },
            |&cell, system, slice| (system.measure)(cell, slice),
        )?;
    Ok(Report::new(&recorder, Vec::new()))
}

/// What a thread has done.
#[derive(Debug, Default)]
struct Share {
    acquisitions: u64,
    longest_read: Duration,
    longest_write: Duration,
    cpu: Duration,
}

/// The threads of `cell` take a lock again and again for `slice`. Returns the values of the metrics.
fn run_load<L: SharedLock>(cell: Cell, slice: Duration) -> anyhow::Result<[f64; 4]> {
    let (lock, controls, work) = (L::new(), Controls::default(), Work::calibrated());
    controls.scope(|scope| {
        let threads = spawn_all(scope, cell.threads, || {
            controls.begin();
            repeat(&lock, cell, work, &controls)
        })?;
        controls.ready.wait_for(cell.threads);
        let begin = Instant::now();
        controls.start.open();
        thread::sleep(slice);
        controls.stop();
        let elapsed = begin.elapsed();
        let mut sum = Share::default();
        for share in join_all(threads)? {
            sum.acquisitions += share.acquisitions;
            sum.longest_read = sum.longest_read.max(share.longest_read);
            sum.longest_write = sum.longest_write.max(share.longest_write);
            sum.cpu += share.cpu;
        }
        let total = sum.acquisitions as f64;
        let wait = |longest: Duration| if longest.is_zero() { f64::NAN } else { longest.as_nanos() as f64 };
        Ok([
            total / elapsed.as_secs_f64() / 1e6,
            wait(sum.longest_read),
            wait(sum.longest_write),
            sum.cpu.as_nanos() as f64 / total,
        ])
    })
}

fn repeat<L: SharedLock>(lock: &L, cell: Cell, work: Work, controls: &Controls) -> Share {
    let (mut share, mut own, mut random) = (Share::default(), 1, fastrand::Rng::new());
    let cpu = thread_cpu_time();
    while !controls.must_stop() || share.acquisitions == 0 {
        let begin = Instant::now();
        if random.u32(..100) < cell.reads_percent {
            let waited = lock.read(|state| {
                let waited = begin.elapsed();
                own = work.run(WORK_NS, own ^ *state);
                waited
            });
            share.longest_read = share.longest_read.max(waited);
        } else {
            let waited = lock.write(|state| {
                let waited = begin.elapsed();
                *state = work.run(WORK_NS, *state);
                waited
            });
            share.longest_write = share.longest_write.max(waited);
        }
        share.acquisitions += 1;
        own = work.run(WORK_NS, own);
    }
    black_box(own);
    share.cpu = thread_cpu_time() - cpu;
    share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_admits_readers_and_writers() {
        for system in systems() {
            let cell = Cell { threads: 3, reads_percent: 50 };
            // On a busy machine a thread may get a CPU for one acquisition only, and all may be of one kind.
            while !(system.measure)(cell, Duration::from_millis(20))
                .unwrap_or_else(|why| panic!("{}: {why}", system.name))
                .iter()
                .all(|&value| value > 0.0)
            {}
        }
    }
}
