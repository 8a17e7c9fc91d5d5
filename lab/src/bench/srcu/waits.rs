//! Waiting for many guards: one thread waits, another drops what it waits for.

use ::stillpoint::Domain as _;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::harness::clock::thread_cpu_time;
use crate::harness::{self, Better, Budget, Config, Metric, Plan, Recorder, crew, systems};
use crate::peers::{ReadSide, stillpoint, tokio};

const LATENCY: Metric = Metric::nanoseconds("gp_ns");
const COMPUTED: Metric = Metric::nanoseconds("gp_cpu_ns");
const DROP: Metric = Metric::nanoseconds("drop_ns");
const WAKES: Metric = Metric::count("wakes_per_gp", Better::Lower);

const GUARDS: [usize; 5] = [10, 100, 1000, 10_000, 100_000];

/// Something that waits for guards.
trait Waits: ReadSide {
    /// Waits until the guards that are open have been dropped.
    fn wait(&self);

    /// Whether a thread sleeps in [`wait`](Self::wait), after as many that have returned.
    fn is_waited_for(&self, rounds: u64) -> bool;

    /// Wake-ups so far; not a number if they are not counted.
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
        // No reader gets in after a writer has come.
        self.0.try_read().is_err()
    }

    fn wakes(&self) -> f64 {
        f64::NAN
    }
}

/// Measures all cells.
pub(super) fn run(budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let mut systems = systems![measure: stillpoint::SrcuReaders, tokio::InRwLock];
    let timing = budget.split((GUARDS.len() * systems.len()) as f64, Duration::from_millis(60));
    let plan = Plan {
        title: "bench srcu: waits",
        timing,
        cells: &GUARDS,
        systems: &mut systems,
        metrics: [&LATENCY, &COMPUTED, &DROP, &WAKES],
    };
    let config = |&guards: &usize, _: &_| Config::new([("guards", guards.into())]);
    harness::run(plan, recorder, config, |&guards, system, slice| (system.measure)(guards, slice))
}

/// One wait after another for `slice`: the median of the latency, of the waiting thread's CPU time, and of the time of a drop,
/// in nanoseconds; and wake-ups for each wait.
fn measure<S: Waits>(guards: usize, slice: Duration) -> anyhow::Result<[f64; 4]> {
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
        let [latency, computed, drop] = costs.map(|mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        });
        Ok([latency, computed, drop, wakes])
    })
}
