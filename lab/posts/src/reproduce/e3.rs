//! E3: `synchronize()` on its own track, against the old way: a callback that wakes its caller.
//!
//! Many threads each wait for a grace period and free something, over and over, alone and beside a thread that keeps
//! 3600 callbacks queued; and a single thread waits behind 3600 callbacks of its own. The post has 10,000 threads
//! that make 1000 loops each. Here are as many if the experiment takes 40 s, and fewer in less time; they loop until
//! the time is over, and the time of 1000 loops is extrapolated from their rate. Every thread is registered. A
//! witness reads all the time, and each wake-up is checked against it: a grace period that was too short ends the run
//! with an error.

use std::thread;

use super::posted::posted;
use super::track::{Answer, CALLBACKS, LOOPS, Load, REMOTES, below};
use harness::crew::{self, Gate};
use harness::report::Grid;
use harness::units::duration;
use harness::worker::{Remote, Worker};
use harness::{Better, Budget, Config, Metric, Plan, Recorder, Report, System};
use measure::peers::{LIBURCU, missing};

/// Time of 1000 loops of each thread, extrapolated from the rate of a measurement, which is shorter.
const ALL_LOOPS: Metric = Metric::nanoseconds("loops_ns");
/// A power of two that 99 % of these waits take less than.
const MOST: Metric = Metric::nanoseconds("p99_below_ns");
/// Share of the wake-ups at which the check against the witness could have failed.
const CHECKED: Metric = Metric::count("checked", Better::Higher);
/// Median latency of a single waiter.
const WAIT: Metric = Metric::nanoseconds("wait_p50_ns");
/// Latency behind callbacks, divided by that beside a busy thread.
const DELAY: Metric = Metric::ratio("delay");

/// Threads of the post; a machine that does not allow them gets fewer.
const MOST_THREADS: usize = 10_000;
/// Threads for each second of the budget: a run of the usual time has all of them.
const THREADS_PER_SECOND: f64 = MOST_THREADS as f64 / SECONDS;

/// The usual time of the experiment.
pub(super) const SECONDS: f64 = 40.0;

/// A single waiter: callbacks in front of it, and whether a thread works beside it. A fence costs more while another
/// CPU runs a thread of the process, and behind callbacks the worker runs: so a waiter behind callbacks is compared
/// with one beside a busy thread.
type Waiter = (usize, bool);
const ALONE: Waiter = (0, false);
const BESIDE: Waiter = (0, true);
const BEHIND: Waiter = (CALLBACKS, false);

fn waiter((callbacks, busy): Waiter) -> Config {
    Config::new([("callbacks", callbacks.into()), ("busy_threads", u64::from(busy).into())])
}

/// Runs the experiment.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let wanted = (budget.seconds * THREADS_PER_SECOND).clamp(2.0, MOST_THREADS as f64) as usize;
    let threads = most_threads(wanted);
    let (mut workers, mut skipped) = Remote::start("track", REMOTES)?;
    skipped.extend(missing(&[LIBURCU]));
    let (mut recorder, mut tables) = (Recorder::new("e3"), Vec::new());
    // The single waiter first: a registry keeps the size that many threads give it.
    measure_waiter(&mut workers, budget.share(0.25), &mut recorder)?;
    let config = |&flood: &bool, _: &_| {
        let callbacks = if flood { CALLBACKS } else { 0 };
        Some(Config::new([
            ("threads", threads.into()),
            ("loops", LOOPS.into()),
            ("callbacks", callbacks.into()),
        ]))
    };
    // Starting so many threads takes time, too.
    for flood in [false, true] {
        let mut sums: Vec<(&str, Vec<u64>)> = Vec::new();
        let cell = [flood];
        let plan = Plan::new(budget.share(0.25), 2000, &cell, &mut workers, [&ALL_LOOPS, &MOST, &CHECKED]);
        plan.run(&mut recorder, config, |&flood, worker, time| {
            let Answer { ns, checked, counts } =
                worker.measure.measure(&Load::Loops { threads, flood, time })?;
            let most = below(&counts, 0.99);
            match sums.iter_mut().find(|sum| sum.0 == worker.name) {
                Some((_, sum)) => sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count),
                None => sums.push((worker.name, counts)),
            }
            Ok([ns, most, checked])
        })?;
        tables.push(histogram(flood, &sums));
    }
    let posted = posted(
        "Reduce synchronize_rcu() latency v4 1/4, 2024; 64 CPUs",
        "the loops take less time on their own track; behind 3,600 callbacks a waiter on the callbacks' track is delayed by \
         all of them, one on its own track is not",
        &["Posted: each task does 1000 x { synchronize; free }, s; 60,000 tasks give about the same
           | before | after | ratio
           10,000 tasks | 54 | 35 | 0.65"],
    );
    Ok(Report { posted, tables, ..Report::new(&recorder, skipped) })
}

/// Returns the latencies of the waits by powers of two, a column for each way.
fn histogram(flood: bool, sums: &[(&str, Vec<u64>)]) -> Grid {
    let title = if flood { "Waits beside callbacks" } else { "Waits" };
    let head: Vec<&str> = ["below"].into_iter().chain(sums.iter().map(|sum| sum.0)).collect();
    let row = |bucket: usize| {
        let counts: Vec<u64> = sums.iter().map(|sum| sum.1[bucket]).collect();
        let bound = duration((1_u64 << bucket) as f64);
        let cells = [bound].into_iter().chain(counts.iter().map(u64::to_string)).collect();
        counts.iter().any(|&count| count > 0).then_some(cells)
    };
    Grid::new(title, &head, (0..sums.first().map_or(0, |sum| sum.1.len())).filter_map(row).collect())
}

/// Returns as many threads as the system allows, at most `wanted`.
fn most_threads(wanted: usize) -> usize {
    let end = Gate::default();
    let started = thread::scope(|scope| {
        let started = (0..wanted).take_while(|_| crew::spawn(scope, || end.wait()).is_ok()).count();
        end.open();
        started
    });
    // Room for others, and for the witness.
    if started < wanted { started * 3 / 4 } else { wanted }
}

/// Records the latency of a single waiter, with callbacks in front of it and without.
fn measure_waiter(
    workers: &mut [System<Worker>],
    budget: Budget,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    let names: Vec<&'static str> = workers.iter().map(|worker| worker.name).collect();
    let tracks = names.iter().enumerate();
    let mut systems: Vec<_> = tracks
        .flat_map(|(track, name)| [ALONE, BESIDE, BEHIND].map(|load| System { name, measure: (track, load) }))
        .collect();
    Plan::new(budget, 300, &[()], &mut systems, [&WAIT]).run(
        recorder,
        |(), system| Some(waiter(system.measure.1)),
        |(), system, time| {
            let (track, (callbacks, busy)) = system.measure;
            let load = Load::Behind { callbacks, busy, time };
            Ok([workers[track].measure.measure::<Answer>(&load)?.ns])
        },
    )?;
    let (behind, beside) = (waiter(BEHIND), waiter(BESIDE));
    for name in names {
        let (of, base) = ((name, &WAIT, &behind), (name, &WAIT, &beside));
        recorder.derive(&DELAY, of, base, |behind, beside| behind / beside);
    }
    Ok(())
}
