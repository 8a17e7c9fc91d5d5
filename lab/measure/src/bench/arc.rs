//! `bench arc`: atomic `Arc`s.
//!
//! `pair_ns` is the time of an iteration of a loop that loads the pointer, adds the number behind it, and drops the
//! guard. `by` says how stillpoint reads, with the peers whose guards are like that:
//!
//! - `guard`: a guard that may be kept, in threads that `held` as many already. arc-swap has eight slots in a thread
//!   that are fast.
//! - `cache`: a thread compares its copy of the pointer, and keeps the value until it reads again.
//!
//! `store_ns` is the time of a store of one of two pointers, in turns, beside threads that have loaded once and
//! sleep. With the strategy `exact`, counts are exact when a store returns, as in the peers; with `deferred` a worker
//! releases the pointer. Each measurement has a process of its own, as libraries visit threads that have ended.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::read::PAIR;
use super::{TimeLoop, time_loops};
use crate::peers::stillpoint::arc::{Cached, Cell, Deferred, Exact};
use crate::peers::{ReadSide, Stores, arc_swap, hazarc, left_right, time_reads};
use harness::report::OURS;
use harness::timed_loop::Threads;
use harness::worker::{Remote, Worker};
use harness::{Budget, Config, Metric, Plan, Recorder, Report, System, crew, systems};

const STORE: Metric = Metric::nanoseconds("store_ns");

/// Guards that a thread holds.
const HELD: usize = 64;
/// Threads that have loaded once.
const IDLE: [usize; 2] = [0, 1000];

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let recorder = &mut Recorder::new("arc");
    let guards = systems![time_reads: Cell<Exact>, arc_swap::Load, hazarc::Load];
    let beside = systems![time_beside: Cell<Exact>, arc_swap::Load, hazarc::Load];
    let caches = systems![time_reads: Cached, arc_swap::Cached, hazarc::Cached];
    let mut measure = |part, by: &str, held: usize, mut systems: Vec<System<TimeLoop>>| {
        systems[0].name = OURS;
        let more = [("by", by.into()), ("held", held.into())];
        time_loops(budget.share(part), recorder, &PAIR, &more, systems)
    };
    measure(0.25, "guard", 0, guards.into())?;
    measure(0.2, "guard", HELD, beside.into())?;
    measure(0.15, "cache", 0, caches.into())?;
    for strategy in ["exact", "deferred"] {
        measure_stores(budget.share(0.2), recorder, strategy)?;
    }
    Ok(Report::new(recorder, Vec::new()))
}

/// Returns the nanoseconds of a load, in threads that hold guards.
fn time_beside<S: ReadSide>(threads: Threads, slice: Duration) -> anyhow::Result<f64> {
    let shared = &S::new();
    threads.measure(slice, |timed_loop| {
        let reader = shared.reader();
        let _held: Vec<_> = (0..HELD).map(|_| shared.enter(&reader)).collect();
        timed_loop.time(|n| shared.read(&reader, n))
    })
}

/// A request to a worker: one for each process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Beside {
    idle: usize,
    time: Duration,
}

const fn remote<S: Stores>(name: &'static str) -> Remote<Beside, [f64; 1]> {
    Remote { system: S::NAME, name, backend: None, measure: time_stores::<S> }
}

/// What stores are measured of.
pub const REMOTES: &[Remote<Beside, [f64; 1]>] = &[
    remote::<Cell<Exact>>("exact"),
    remote::<Cell<Deferred>>("deferred"),
    remote::<arc_swap::Load>("arc-swap"),
    remote::<hazarc::Load>("hazarc"),
    remote::<left_right::Handles>("left-right"),
];

/// Records `store_ns` with one of our strategies, and of the peers.
fn measure_stores(budget: Budget, recorder: &mut Recorder, strategy: &'static str) -> anyhow::Result<()> {
    let is_measured = |remote: &&Remote<_, _>| remote.system != OURS || remote.name == strategy;
    let system = |remote: &Remote<_, _>| System { name: remote.system, measure: remote.name };
    let mut systems: Vec<_> = REMOTES.iter().filter(is_measured).map(system).collect();
    Plan::new(budget, 60, &IDLE, &mut systems, [&STORE]).run(
        recorder,
        |&idle, _| Some(Config::new([("strategy", strategy.into()), ("idle_threads", idle.into())])),
        |&idle, system, time| {
            Worker::start(&["stores", system.measure], None)?.measure(&Beside { idle, time })
        },
    )
}

/// Returns the nanoseconds of a store, beside threads that have loaded once and sleep.
fn time_stores<S: Stores>(Beside { idle, time }: Beside) -> anyhow::Result<[f64; 1]> {
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
        while begin.elapsed() < time {
            for pointer in &pointers {
                shared.store(Arc::clone(pointer));
            }
            stores += 2;
        }
        let time = begin.elapsed();
        end.wait();
        Ok([time.as_nanos() as f64 / f64::from(stores)])
    })
}
