//! `bench qsbr`: the cost of a read and of a report of a quiescent state, and the rate of updates beside readers.
//!
//! `read_ns` and `quiescent_ns` are the time of an iteration of a loop that does nothing else, while there is no
//! updater: loading a pointer and adding the number behind it; reporting. The bare load has nothing to report.
//!
//! For `updates_per_s`, on all CPUs and on one, a thread waits for one grace period after another, at the rate of the
//! cell, beside readers that never sleep: they read in short sections and report (or leave the section) after each.
//! Some cells have more readers than CPUs: there, a grace period waits for threads that are not running.

mod reference;

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use super::time_loops;
use crate::peers::std::BareLoad;
use crate::peers::stillpoint::{QsbrReaders, RcuReaders};
use crate::peers::{self, GracePeriods, ReadSide, time_reads};
use harness::controls::Controls;
use harness::timed_loop::{Threads, thread_cpu_time};
use harness::{Better, Budget, Config, Metric, Plan, Recorder, Report, crew, systems};
pub use reference::{AS_BEFORE, ONE_FLAG, READER_FLAGS, Reference};

const READ: Metric = Metric::nanoseconds("read_ns");
const QUIESCENT: Metric = Metric::nanoseconds("quiescent_ns");
pub const UPDATES: Metric = Metric { name: "updates_per_s", unit: "1/s", better: Better::Higher };

/// Reads before each report, or in each section.
const READS: u32 = 100;

/// Readers and an updater.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The time between two reports of each reader; 0: after [`READS`] reads.
    pub readers: &'static [Duration],
    /// Updates per second; 0: one after another.
    asked: u64,
}

impl Load {
    pub const fn new(readers: &'static [Duration], asked: u64) -> Self {
        Self { readers, asked }
    }
}

const NEVER_SLEEP: [Duration; 16] = [Duration::ZERO; 16];

const LOADS: [Load; 4] = [
    Load::new(&[Duration::ZERO], 0),
    Load::new(&[Duration::ZERO; 2], 0),
    Load::new(&NEVER_SLEEP, 0),
    Load::new(&NEVER_SLEEP, 1000),
];

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut recorder = Recorder::new("qsbr");
    readers(budget.share(0.4), &mut recorder)?;
    updaters(budget.share(0.6), &mut recorder)?;
    let skipped = peers::missing(&[peers::LIBURCU_QSBR, peers::LIBURCU]);
    Ok(Report::new(&recorder, skipped))
}

/// Measures readers without updates: the time of a load, and of a report.
fn readers(budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let reads = systems![time_reads:
        QsbrReaders,
        BareLoad,
        #[cfg(feature = "liburcu")] peers::liburcu::QsbrReaders,
    ];
    let reports = systems![time_reports:
        QsbrReaders,
        #[cfg(feature = "liburcu")] peers::liburcu::QsbrReaders,
    ];
    time_loops(budget.share(0.5), recorder, &READ, &[], reads.into())?;
    time_loops(budget.share(0.5), recorder, &QUIESCENT, &[], reports.into())
}

/// Returns the mean of the threads' times per report.
fn time_reports<S: ReadSide>(threads: Threads, slice: Duration) -> anyhow::Result<f64> {
    let shared = S::new();
    threads.measure(slice, |timed_loop| {
        let mut reader = shared.reader();
        timed_loop.time(|n| S::quiescent(&mut reader, n))
    })
}

/// Measures the rate of updates.
fn updaters(budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let mut systems = systems![update:
        QsbrReaders,
        RcuReaders,
        #[cfg(feature = "liburcu")] peers::liburcu::QsbrReaders,
        #[cfg(feature = "liburcu")] peers::liburcu::Readers,
    ];
    systems[1].name = "stillpoint-rcu";
    let config = |load: &Load| {
        Config::new([("readers", load.readers.len().into()), ("asked_per_s", load.asked.into())])
    };
    Plan::new(budget, 300, &LOADS, &mut systems, [&UPDATES]).in_profiles()?.run(
        recorder,
        |load, _| Some(config(load)),
        |&load, system, slice| Ok([(system.measure)(load, slice)?[0]]),
    )
}

/// Waits for grace periods for as long as `slice`, and for one at least; after a late one the next begins at once.
/// Returns their number per second, and for each the CPU time of the updater in nanoseconds, and the wake-ups.
pub fn update<S: GracePeriods>(load: Load, slice: Duration) -> anyhow::Result<[f64; 3]> {
    let (shared, controls) = (CachePadded::new(S::new()), Controls::default());
    controls.scope(|scope| {
        for &interval in load.readers {
            let (shared, controls) = (&shared, &controls);
            crew::spawn(scope, move || read(&**shared, interval, controls))?;
        }
        let updater = crew::spawn(scope, || {
            controls.begin();
            let (begin, cpu, wakes) = (Instant::now(), thread_cpu_time(), shared.wakes());
            let mut updates = 0_u32;
            while begin.elapsed() < slice || updates == 0 {
                if load.asked != 0 {
                    let due = Duration::from_secs(1) * updates / load.asked as u32;
                    thread::sleep(due.saturating_sub(begin.elapsed()));
                }
                shared.synchronize();
                updates += 1;
            }
            let (rate, cpu) = (begin.elapsed(), thread_cpu_time() - cpu);
            let each = f64::from(updates);
            let wakes = shared.wakes() - wakes;
            [each / rate.as_secs_f64(), cpu.as_nanos() as f64 / each, wakes / each]
        })?;
        controls.ready.wait_for(load.readers.len() + 1);
        controls.start.open();
        crew::join(updater)
    })
}

/// A reader that never sleeps.
fn read<S: GracePeriods>(shared: &S, interval: Duration, controls: &Controls) {
    let mut reader = shared.reader();
    controls.begin();
    let mut last = Instant::now();
    while !controls.background_must_stop() {
        black_box(shared.load_many(&reader, READS));
        if interval.is_zero() {
            S::quiescent(&mut reader, 1);
        } else if last.elapsed() >= interval {
            S::quiescent(&mut reader, 1);
            last = Instant::now();
        }
    }
}
