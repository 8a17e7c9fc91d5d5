//! Waiting for many: one thread waits, another drops what it waits for.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::time::{ClockId, clock_gettime};
use stillpoint::srcu::Domain;
use tokio::sync::RwLock;

use crate::harness::report::OURS;
use crate::harness::{Better, Budget, Config, Metric, Progress, Recorder, Schedule, crew};

const LATENCY: Metric = Metric::nanoseconds("gp_ns");
const COMPUTED: Metric = Metric::nanoseconds("gp_cpu_ns");
const DROP: Metric = Metric::nanoseconds("drop_ns");
const WAKES: Metric = Metric::count("wakes_per_gp", Better::Lower);

const GUARDS: [usize; 5] = [10, 100, 1000, 10_000, 100_000];
const SYSTEMS: [&str; 2] = [OURS, "tokio-rwlock"];

/// Something that waits for guards.
trait Waits: Sync {
    type Guard<'a>
    where
        Self: 'a;

    fn open(&self) -> Self::Guard<'_>;

    /// Waits until the guards that are open have been dropped.
    fn wait(&self);

    /// Whether a thread sleeps in [`wait`](Self::wait), after as many that have returned.
    fn is_waited_for(&self, rounds: u64) -> bool;

    /// Wake-ups so far, if they are counted.
    fn wakes(&self) -> Option<u64>;
}

struct Srcu(Domain);

impl Waits for Srcu {
    type Guard<'a> = stillpoint::srcu::Guard<'a>;

    fn open(&self) -> Self::Guard<'_> {
        self.0.enter()
    }

    fn wait(&self) {
        self.0.synchronize();
    }

    fn is_waited_for(&self, rounds: u64) -> bool {
        self.0.stats().sleeps > rounds
    }

    fn wakes(&self) -> Option<u64> {
        Some(self.0.stats().wakeups)
    }
}

struct TokioRwLock(RwLock<()>);

impl Waits for TokioRwLock {
    type Guard<'a> = tokio::sync::RwLockReadGuard<'a, ()>;

    fn open(&self) -> Self::Guard<'_> {
        self.0.blocking_read()
    }

    fn wait(&self) {
        drop(self.0.blocking_write());
    }

    fn is_waited_for(&self, _: u64) -> bool {
        // It lets nobody in who comes after a writer.
        self.0.try_read().is_err()
    }

    fn wakes(&self) -> Option<u64> {
        None
    }
}

/// What one wait has cost, in nanoseconds.
#[derive(Clone, Copy)]
struct Cost {
    latency: f64,
    computed: f64,
    drop: f64,
}

/// Measures all cells.
///
/// # Errors
///
/// Fails if a thread cannot be started.
pub(super) fn run(budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let config = |guards: usize| Config::new([("guards", guards.into())]);
    let (rounds, slice) = budget.split((GUARDS.len() * SYSTEMS.len()) as f64, Duration::from_millis(60));
    let schedule = Schedule { rounds, cells: GUARDS.len(), systems: SYSTEMS.len() };
    let progress = Progress::new("bench srcu: waits", schedule.len(), slice * schedule.len() as u32);
    for guards in GUARDS {
        for metric in [&LATENCY, &COMPUTED, &DROP] {
            SYSTEMS.iter().for_each(|system| recorder.announce(system, metric, &config(guards)));
        }
        recorder.announce(OURS, &WAKES, &config(guards));
    }
    for step in schedule.steps() {
        let (guards, system) = (GUARDS[step.cell], SYSTEMS[step.system]);
        let config = config(guards);
        progress.show(|| format!("round {}/{rounds}: {system}, {config}", step.round + 1));
        let (cost, wakes) = if system == OURS {
            measure(&Srcu(Domain::new()), guards, slice)?
        } else {
            measure(&TokioRwLock(RwLock::new(())), guards, slice)?
        };
        for (metric, value) in [(&LATENCY, cost.latency), (&COMPUTED, cost.computed), (&DROP, cost.drop)] {
            recorder.record(step.round, system, metric, &config, value);
        }
        if let Some(wakes) = wakes {
            recorder.record(step.round, system, &WAKES, &config, wakes);
        }
        progress.advance();
    }
    Ok(())
}

/// One wait after another for `slice`: the median of each cost, and wake-ups for each wait.
fn measure(system: &impl Waits, guards: usize, slice: Duration) -> anyhow::Result<(Cost, Option<f64>)> {
    thread::scope(|scope| {
        let (ask, asked) = mpsc::channel::<()>();
        let (say, said) = mpsc::channel::<(Instant, f64)>();
        let waiter = crew::spawn(scope, move || {
            for () in asked {
                let before = computed();
                system.wait();
                let end = Instant::now();
                if say.send((end, computed() - before)).is_err() {
                    break;
                }
            }
        })?;
        let mut costs = Vec::new();
        let begin = Instant::now();
        while begin.elapsed() < slice || costs.len() < 3 {
            let mut open: Vec<_> = (0..guards).map(|_| system.open()).collect();
            let last = open.pop();
            ask.send(()).context("the waiting thread has gone")?;
            while !system.is_waited_for(costs.len() as u64) {
                thread::yield_now();
            }
            let dropping = Instant::now();
            drop(open);
            let dropped = Instant::now();
            drop(last);
            let (end, computed) = said.recv().context("the waiting thread has gone")?;
            costs.push(Cost {
                latency: end.saturating_duration_since(dropped).as_nanos() as f64,
                computed,
                drop: (dropped - dropping).as_nanos() as f64 / (guards - 1) as f64,
            });
        }
        drop(ask);
        crew::join(waiter)?;
        let wakes = system.wakes().map(|wakes| wakes as f64 / costs.len() as f64);
        let median = |of: fn(&Cost) -> f64| {
            let mut values: Vec<f64> = costs.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let cost = Cost {
            latency: median(|c| c.latency),
            computed: median(|c| c.computed),
            drop: median(|c| c.drop),
        };
        Ok((cost, wakes))
    })
}

/// Processor time of the calling thread, in nanoseconds.
fn computed() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
