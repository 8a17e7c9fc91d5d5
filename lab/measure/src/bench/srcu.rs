//! `bench srcu`: the cost of a read-side critical section that may sleep, and of a grace period that waits for many of
//! them.
//!
//! `pair_ns` is the time of an iteration of a loop that enters a section, loads a pointer that is not replaced, adds
//! the number behind it, and leaves the section. Peers are what async readers use, and crossbeam-epoch, whose guards
//! cannot be held over `.await`.
//!
//! For the other metrics, on all CPUs and on one, a thread waits for a grace period while the guards of the cell are
//! open, until it sleeps; then all are dropped, one after another. `gp_ns` is the time from the last drop to the
//! return of the waiting call, `gp_cpu_ns` the CPU time of the waiting thread for the call, `drop_ns` the time of a
//! drop. The peer is a writer that waits for a lock with as many readers.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ::stillpoint::Domain as _;
use anyhow::Context as _;

use crate::peers::{Published, ReadSide, arc_swap, crossbeam, stillpoint, time_reads, tokio};
use harness::stats::Summary;
use harness::timed_loop::{Threads, thread_cpu_time};
use harness::{Better, Budget, Config, Metric, Plan, Recorder, Report, crew, systems};

const PAIR: Metric = Metric::nanoseconds("pair_ns");
const LATENCY: Metric = Metric::nanoseconds("gp_ns");
const COMPUTED: Metric = Metric::nanoseconds("gp_cpu_ns");
const DROP: Metric = Metric::nanoseconds("drop_ns");
const WAKES: Metric = Metric::count("wakes_per_gp", Better::Lower);

/// Open guards.
const GUARDS: [usize; 5] = [10, 100, 1000, 10_000, 100_000];

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let (mut recorder, budget) = (Recorder::new("srcu"), budget.share(0.5));
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
    Plan::new(budget, 40, &Threads::pinned()?, &mut systems, [&PAIR]).run(
        &mut recorder,
        |threads, _| Some(Config::new([("threads", threads.count.into())])),
        |&threads, system, slice| Ok([(system.measure)(threads, slice)?]),
    )?;

    let mut systems = systems![wait_for: stillpoint::SrcuReaders, tokio::InRwLock];
    Plan::new(budget, 60, &GUARDS, &mut systems, [&LATENCY, &COMPUTED, &DROP, &WAKES]).in_profiles()?.run(
        &mut recorder,
        |&guards, _| Some(Config::new([("guards", guards.into())])),
        |&guards, system, slice| (system.measure)(guards, slice),
    )?;
    Ok(Report::new(&recorder, Vec::new()))
}

/// A system that waits for guards.
trait Waits: ReadSide {
    /// Waits until the open guards have been dropped.
    fn wait(&self);

    /// Returns whether a thread sleeps in [`wait`](Self::wait), after as many `rounds` before.
    fn is_waited_for(&self, rounds: u64) -> bool;

    /// Returns the wake-ups so far; not a number if they are not counted.
    fn wakes(&self) -> f64;
}

impl Waits for stillpoint::SrcuReaders {
    fn wait(&self) {
        self.domain.synchronize();
    }

    fn is_waited_for(&self, rounds: u64) -> bool {
        self.domain.stats().sleeps > rounds
    }

    fn wakes(&self) -> f64 {
        self.domain.stats().wakeups as f64
    }
}

impl Waits for tokio::InRwLock {
    fn wait(&self) {
        drop(self.0.blocking_write());
    }

    fn is_waited_for(&self, _: u64) -> bool {
        // A waiting writer keeps readers out.
        self.0.try_read().is_err()
    }

    fn wakes(&self) -> f64 {
        f64::NAN
    }
}

/// One wait after another for `slice`: the median of the latency, of the waiting thread's CPU time, and of the time of
/// a drop, in nanoseconds; and wake-ups for each wait.
fn wait_for<S: Waits>(guards: usize, slice: Duration) -> anyhow::Result<[f64; 4]> {
    let system = &S::new();
    thread::scope(|scope| {
        let (requests, received) = mpsc::channel::<()>();
        let (answers, answered) = mpsc::channel::<(Instant, Duration)>();
        let waiter = crew::spawn(scope, move || {
            for () in received {
                let before = thread_cpu_time();
                system.wait();
                let end = Instant::now();
                if answers.send((end, thread_cpu_time() - before)).is_err() {
                    break;
                }
            }
        })?;
        let reader = system.reader();
        let mut costs = [const { Vec::new() }; 3];
        let begin = Instant::now();
        while begin.elapsed() < slice || costs[0].len() < 3 {
            let mut open: Vec<_> = (0..guards).map(|_| system.enter(&reader)).collect();
            let last = open.pop();
            requests.send(()).context("the waiting thread has ended")?;
            while !system.is_waited_for(costs[0].len() as u64) {
                thread::yield_now();
            }
            let dropping = Instant::now();
            drop(open);
            let dropped = Instant::now();
            drop(last);
            let (end, computed) = answered.recv().context("the waiting thread has ended")?;
            costs[0].push(end.saturating_duration_since(dropped).as_nanos() as f64);
            costs[1].push(computed.as_nanos() as f64);
            costs[2].push((dropped - dropping).as_nanos() as f64 / (guards - 1) as f64);
        }
        drop(requests);
        crew::join(waiter)?;
        let wakes = system.wakes() / costs[0].len() as f64;
        let [latency, computed, drop] =
            costs.map(|values| Summary::of(values).map_or(f64::NAN, |summary| summary.median));
        Ok([latency, computed, drop, wakes])
    })
}
