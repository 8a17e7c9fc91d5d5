//! `bench qsbr`: the cost of a read and of a report of a quiescent state, and the rate of updates beside readers.
//!
//! `read_ns` and `quiescent_ns` are the time of an iteration of a loop that does nothing else, while there is no updater: loading a
//! pointer and adding the number behind it; reporting. The bare load has nothing to report.
//!
//! For `updates_per_s` a thread waits for one grace period after another, at the rate of the cell, beside readers that never
//! sleep: they read in short sections and report (or end the section) after each. There are more readers than CPUs in some
//! cells: a grace period then waits for threads that are not running, and `run-queue`, which is no library, shows how often all
//! of them get to run.

mod run_queue;

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::harness::controls::{Controls, spawn_all};
use crate::harness::timed_loop::Threads;
use crate::harness::{self, Better, Budget, Config, Metric, Plan, Recorder, Report, crew, systems};
use crate::peers::std::BareLoad;
use crate::peers::stillpoint::{QsbrReaders, RcuReaders};
use crate::peers::{self, GracePeriods, ReadSide, time_reads};
use run_queue::RunQueue;

const READ: Metric = Metric::nanoseconds("read_ns");
const QUIESCENT: Metric = Metric::nanoseconds("quiescent_ns");
const UPDATES: Metric = Metric { name: "updates_per_s", unit: "1/s", better: Better::Higher };

/// Reads before each report, or in each section.
const READS: u32 = 100;

/// Readers, and how many updates a second are asked for; 0: one after the other.
const CELLS: [(usize, u64); 4] = [(1, 0), (2, 0), (16, 0), (16, 1000)];

/// Runs the bench.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut recorder = Recorder::default();
    readers(budget.share(0.4), &mut recorder)?;
    updates(budget.share(0.6), &mut recorder)?;
    let skipped = peers::missing(&[peers::LIBURCU_QSBR, peers::LIBURCU]);
    Ok(Report::new("qsbr", &recorder, skipped))
}

/// Readers without updates: the time of a load, and of a report.
fn readers(budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let mut reads = systems![time_reads:
        QsbrReaders,
        BareLoad,
        #[cfg(feature = "liburcu")] peers::liburcu_qsbr::Readers,
    ];
    let mut reports = systems![time_reports:
        QsbrReaders,
        #[cfg(feature = "liburcu")] peers::liburcu_qsbr::Readers,
    ];
    let cells = Threads::pinned()?;
    let measured = cells.len() * (reads.len() + reports.len());
    let timing = budget.split(measured as f64, Duration::from_millis(40));
    let config = |threads: &Threads, _: &_| Config::new([("threads", threads.count.into())]);
    for (title, metric, systems) in
        [("bench qsbr: reads", &READ, &mut reads[..]), ("bench qsbr: reports", &QUIESCENT, &mut reports[..])]
    {
        let plan = Plan { title, timing, cells: &cells, systems, metrics: [metric] };
        harness::run(plan, recorder, config, |&threads, system, slice| {
            Ok([(system.measure)(threads, slice)?])
        })?;
    }
    Ok(())
}

/// The mean of the threads' times per report.
fn time_reports<S: ReadSide>(threads: Threads, slice: Duration) -> anyhow::Result<f64> {
    let shared = S::new();
    threads.measure(slice, |timed_loop| {
        let mut reader = shared.reader();
        timed_loop.time(|n| S::quiescent(&mut reader, n))
    })
}

/// Updates beside readers that never sleep.
fn updates(budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let mut systems = systems![updates_of:
        QsbrReaders,
        RcuReaders,
        RunQueue,
        #[cfg(feature = "liburcu")] peers::liburcu_qsbr::Readers,
        #[cfg(feature = "liburcu")] peers::liburcu::Readers,
    ];
    systems[1].name = "stillpoint-rcu";
    let timing = budget.split((CELLS.len() * systems.len()) as f64, Duration::from_millis(300));
    let plan = Plan {
        title: "bench qsbr: updates",
        timing,
        cells: &CELLS,
        systems: &mut systems,
        metrics: [&UPDATES],
    };
    let config = |&(readers, asked): &(usize, u64), _: &_| {
        Config::new([("readers", readers.into()), ("asked_per_s", asked.into())])
    };
    harness::run(plan, recorder, config, |&cell, system, slice| Ok([(system.measure)(cell, slice)?]))
}

fn updates_of<S: GracePeriods>((readers, asked): (usize, u64), slice: Duration) -> anyhow::Result<f64> {
    let (shared, controls) = (CachePadded::new(S::new()), Controls::default());
    controls.scope(|scope| {
        spawn_all(scope, readers, || {
            let mut reader = shared.reader();
            controls.begin();
            while !controls.background_must_stop() {
                black_box(shared.load_many(&reader, READS));
                S::quiescent(&mut reader, 1);
            }
        })?;
        let updater = crew::spawn(scope, || {
            controls.begin();
            update(&*shared, asked, slice)
        })?;
        controls.ready.wait_for(readers + 1);
        controls.start.open();
        crew::join(updater)
    })
}

/// Waits for grace periods for as long as `slice`, `asked` each second or one after the other; how many there were in a second.
/// After a late one, those that are due follow at once.
fn update(shared: &impl GracePeriods, asked: u64, slice: Duration) -> f64 {
    let begin = Instant::now();
    let mut updates = 0_u64;
    while begin.elapsed() < slice {
        if asked != 0 {
            let due = Duration::from_secs(updates) / asked as u32;
            if let Some(early) = due.checked_sub(begin.elapsed()) {
                thread::sleep(early);
            }
        }
        shared.synchronize();
        updates += 1;
    }
    updates as f64 / begin.elapsed().as_secs_f64()
}
