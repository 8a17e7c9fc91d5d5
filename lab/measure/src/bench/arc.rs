//! `bench arc`: atomic `Arc`s.
//!
//! `pair_ns` is the time of an iteration of a loop that loads the pointer, adds the number behind it, and drops the guard.
//! `by` says how stillpoint reads, with the peers whose guards are like that:
//!
//! - `guard`: a guard that may be kept, in threads that `held` as many already. arc-swap has eight slots in a thread that
//!   are fast.
//! - `rcu`, `srcu`: an `Rcu`, read in a section, which may sleep in `srcu`.
//! - `cache`: a thread compares its copy of the pointer, and keeps the value until it reads again.
//!
//! `store_ns` is the time of a store of one of two pointers, in turns, beside threads that have loaded once and sleep. With
//! the strategy `exact`, counts are exact when a store returns, as in the peers; with `deferred` a worker releases
//! the pointer. Each measurement has a process of its own, as libraries visit threads that have ended.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::peers::arc_swap::{self, compat};
use crate::peers::stillpoint::arc::{Borrowing, Cached, Cell, Deferred, Exact};
use crate::peers::{ReadSide, Stores, hazarc, kovan, left_right};
use harness::report::OURS;
use harness::timed_loop::Threads;
use harness::worker::{Remote, Worker};
use harness::{Budget, Config, Metric, Plan, Recorder, Report, System, crew, systems};
use stillpoint::{rcu, srcu};

const PAIR: Metric = Metric::nanoseconds("pair_ns");
const STORE: Metric = Metric::nanoseconds("store_ns");
/// A load beside the most guards, divided by one beside none.
const HELD_TO_NONE: Metric = Metric::ratio("held_to_none");
/// A store beside the most idle threads, divided by one beside none.
const IDLE_TO_NONE: Metric = Metric::ratio("idle_to_none");

/// Guards that a thread holds.
const HELD: [usize; 3] = [0, 8, 64];
/// Threads that have loaded once.
const IDLE: [usize; 2] = [0, 1000];

/// Measures a system in threads that hold guards.
type Load = fn((Threads, usize), Duration) -> anyhow::Result<f64>;

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let recorder = &mut Recorder::new("arc");
    let mut guards = systems![time_loads: Cell<Exact>, compat::Load, arc_swap::Load, hazarc::Load];
    measure_loads(budget.share(0.35), recorder, "guard", &HELD, &mut guards)?;
    let mut sections = systems![time_loads:
        Borrowing<rcu::Global>,
        arc_swap::Load,
        hazarc::Load,
        kovan::Pinned,
        left_right::Handles,
    ];
    measure_loads(budget.share(0.15), recorder, "rcu", &[0], &mut sections)?;
    let mut sections = systems![time_loads: Borrowing<srcu::Domain>, arc_swap::Load];
    measure_loads(budget.share(0.1), recorder, "srcu", &[0], &mut sections)?;
    let mut caches = systems![time_loads: Cached, compat::Cached, arc_swap::Cached, hazarc::Cached];
    measure_loads(budget.share(0.1), recorder, "cache", &[0], &mut caches)?;
    for strategy in ["exact", "deferred"] {
        measure_stores(budget.share(0.15), recorder, strategy)?;
    }
    Ok(Report::new(recorder, Vec::new()))
}

/// Records `pair_ns` of the systems, the first of which is ours.
fn measure_loads(
    budget: Budget,
    recorder: &mut Recorder,
    by: &'static str,
    held: &[usize],
    systems: &mut [System<Load>],
) -> anyhow::Result<()> {
    systems[0].name = OURS;
    let config = |threads: Threads, held: usize| {
        Config::new([("by", by.into()), ("threads", threads.count.into()), ("held", held.into())])
    };
    let threads = Threads::pinned()?;
    let cells: Vec<_> =
        threads.iter().flat_map(|threads| held.iter().map(|held| (*threads, *held))).collect();
    Plan::new(budget, 40, &cells, systems, [&PAIR]).run(
        recorder,
        |&(threads, held), _| Some(config(threads, held)),
        |&cell, system, slice| Ok([(system.measure)(cell, slice)?]),
    )?;
    if let [none, .., most] = *held {
        for threads in threads {
            let (of, none) = (config(threads, most), config(threads, none));
            for system in &*systems {
                recorder.derive(
                    &HELD_TO_NONE,
                    (system.name, &PAIR, &of),
                    (system.name, &PAIR, &none),
                    |of, none| of / none,
                );
            }
        }
    }
    Ok(())
}

/// Returns the nanoseconds of a load, in threads that hold guards.
fn time_loads<S: ReadSide>((threads, held): (Threads, usize), slice: Duration) -> anyhow::Result<f64> {
    let shared = &S::new();
    threads.measure(slice, |timed_loop| {
        let reader = shared.reader();
        let _held: Vec<_> = (0..held).map(|_| shared.enter(&reader)).collect();
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
    Remote { system: S::NAME, name, backend: None, measure: Ok(time_stores::<S>) }
}

/// What stores are measured of.
pub const REMOTES: &[Remote<Beside, [f64; 1]>] = &[
    remote::<Cell<Exact>>("exact"),
    remote::<Cell<Deferred>>("deferred"),
    remote::<compat::Load>("compat"),
    remote::<arc_swap::Load>("arc-swap"),
    remote::<hazarc::Load>("hazarc"),
    remote::<left_right::Handles>("left-right"),
];

/// Records `store_ns` with one of our strategies, and of the peers.
fn measure_stores(budget: Budget, recorder: &mut Recorder, strategy: &'static str) -> anyhow::Result<()> {
    let is_measured = |remote: &&Remote<_, _>| remote.system != OURS || remote.name == strategy;
    let mut systems: Vec<_> = REMOTES
        .iter()
        .filter(is_measured)
        .map(|remote| System { name: remote.system, measure: remote.name })
        .collect();
    let config = |idle: usize| Config::new([("strategy", strategy.into()), ("idle_threads", idle.into())]);
    Plan::new(budget, 60, &IDLE, &mut systems, [&STORE]).run(
        recorder,
        |&idle, _| Some(config(idle)),
        |&idle, system, time| {
            Worker::start(&["stores", system.measure], None)?.measure(&Beside { idle, time })
        },
    )?;
    let [none, most] = IDLE.map(config);
    for system in systems {
        recorder.derive(
            &IDLE_TO_NONE,
            (system.name, &STORE, &most),
            (system.name, &STORE, &none),
            |most, none| most / none,
        );
    }
    Ok(())
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
