//! `bench arc`: atomic `Arc`s.
//!
//! `pair_ns` is the time of an iteration of a loop that loads the pointer, adds the number behind it, and drops the guard,
//! in threads that hold as many guards already as the cell says. `arc-swap` has eight slots in a thread that are fast.
//! `stillpoint-rcu` borrows the pointer for a section, and `stillpoint-srcu` for one that may sleep. A cache compares one
//! pointer, and keeps its value alive until it is next used.
//!
//! `store_ns` is the time of a store of one of two pointers, in turns, beside as many threads as the cell says, which have
//! loaded once and sleep. `stillpoint-exact` and the peers give exact counts when a store returns; `stillpoint` releases
//! the pointer in a worker.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use crate::peers::stillpoint::arc::{Borrowing, Cached, Cell, Deferred, Exact};
use crate::peers::{ReadSide, Stores, arc_swap, hazarc, stillpoint, time_reads};
use ::stillpoint::{rcu, srcu};
use harness::timed_loop::Threads;
use harness::{Budget, Config, Metric, Plan, Recorder, Report, crew, systems};

const PAIR: Metric = Metric::nanoseconds("pair_ns");
const STORE: Metric = Metric::nanoseconds("store_ns");

/// Guards that a thread holds.
const HELD: [usize; 3] = [0, 8, 64];
/// Threads that have loaded once.
const IDLE: [usize; 2] = [0, 1000];

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut recorder = Recorder::new("arc");
    let cells: Vec<_> =
        Threads::pinned()?.into_iter().flat_map(|threads| HELD.map(|held| (threads, held))).collect();
    let mut systems = systems![time_reads_holding: Cell<Exact>, arc_swap::Load, hazarc::Load];
    Plan::new(budget.share(0.4), 40, &cells, &mut systems, [&PAIR]).run(
        &mut recorder,
        |&(threads, held), _| Some(config(threads, held)),
        |&(threads, held), system, slice| Ok([(system.measure)((threads, held), slice)?]),
    )?;
    let mut systems = systems![time_reads:
        Borrowing<rcu::Global>,
        Borrowing<srcu::Domain>,
        stillpoint::RcuReaders,
        Cached,
        arc_swap::Cached,
        hazarc::Cached,
    ];
    systems[2].name = "stillpoint-rcu-without-arc";
    Plan::new(budget.share(0.4), 40, &Threads::pinned()?, &mut systems, [&PAIR]).run(
        &mut recorder,
        |&threads, _| Some(config(threads, 0)),
        |&threads, system, slice| Ok([(system.measure)(threads, slice)?]),
    )?;
    let mut systems = systems![time_stores: Cell<Deferred>, Cell<Exact>, arc_swap::Load, hazarc::Load];
    systems[1].name = "stillpoint-exact";
    Plan::new(budget.share(0.2), 60, &IDLE, &mut systems, [&STORE]).run(
        &mut recorder,
        |&idle, _| Some(Config::new([("idle_threads", idle.into())])),
        |&idle, system, slice| Ok([(system.measure)(idle, slice)?]),
    )?;
    Ok(Report::new(&recorder, Vec::new()))
}

fn config(threads: Threads, held: usize) -> Config {
    Config::new([("threads", threads.count.into()), ("held", held.into())])
}

/// Returns the nanoseconds of a load, in threads that hold guards.
fn time_reads_holding<S: ReadSide>(
    (threads, held): (Threads, usize),
    slice: Duration,
) -> anyhow::Result<f64> {
    let shared = &S::new();
    threads.measure(slice, |timed_loop| {
        let reader = shared.reader();
        let _held: Vec<_> = (0..held).map(|_| shared.enter(&reader)).collect();
        timed_loop.time(|n| shared.read(&reader, n))
    })
}

/// Returns the nanoseconds of a store, beside threads that have loaded once and sleep.
fn time_stores<S: Stores>(idle: usize, slice: Duration) -> anyhow::Result<f64> {
    let shared = &S::new();
    let (loaded, end) = (&Barrier::new(idle + 1), &Barrier::new(idle + 1));
    thread::scope(|scope| {
        for _ in 0..idle {
            crew::spawn(scope, || {
                let reader = shared.reader();
                shared.load(&shared.enter(&reader));
                loaded.wait();
                end.wait();
            })?;
        }
        loaded.wait();
        let pointers = [1, 2].map(Arc::new);
        let (begin, mut stores) = (Instant::now(), 0_u32);
        while begin.elapsed() < slice {
            for pointer in &pointers {
                shared.store(Arc::clone(pointer));
            }
            stores += 2;
        }
        let time = begin.elapsed();
        end.wait();
        Ok(time.as_nanos() as f64 / f64::from(stores))
    })
}
