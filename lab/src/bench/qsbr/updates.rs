//! Updates beside readers that never sleep.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use stillpoint::qsbr;
use stillpoint::rcu::{self, Rcu};

use super::UPDATES;
use crate::harness::crew::{self, Arrivals, Gate};
use crate::harness::report::OURS;
use crate::harness::{Budget, Config, Progress, Recorder, Schedule, Skipped};

/// Reads before each report, or in each section.
const READS: u32 = 100;

/// Readers, and how often an update is asked for; 0: one after the other.
const CELLS: [(usize, u64); 4] = [(1, 0), (2, 0), (16, 0), (16, 1000)];

/// A library with grace periods.
pub(super) trait Flavor: Sync {
    /// Name in the report.
    fn name(&self) -> &'static str;

    /// Registers the calling thread, calls `ready`, and reads and reports until `stop`.
    fn read(&self, ready: &dyn Fn(), stop: &AtomicBool);

    /// Waits for a grace period; the calling thread is not registered.
    fn synchronize(&self);
}

/// All flavors of this build, and those it lacks.
pub(super) fn all() -> (Vec<Box<dyn Flavor>>, Vec<Skipped>) {
    let flavors: Vec<Box<dyn Flavor>> = vec![
        Box::new(Reports(Rcu::new_in(7, qsbr::Global))),
        Box::new(Sections(Rcu::new(7))),
        Box::new(RunQueue::default()),
        #[cfg(feature = "liburcu")]
        Box::new(LiburcuQsbr(crate::peers::liburcu::Slot::new(7))),
        #[cfg(feature = "liburcu")]
        Box::new(LiburcuMemb(crate::peers::liburcu::Slot::new(7))),
    ];
    let skipped = vec![
        #[cfg(not(feature = "liburcu"))]
        crate::peers::missing(crate::peers::LIBURCU_QSBR),
        #[cfg(not(feature = "liburcu"))]
        crate::peers::liburcu_missing(),
    ];
    (flavors, skipped)
}

/// Measures all cells.
///
/// # Errors
///
/// Fails if threads cannot be started.
pub(super) fn run(
    flavors: &[Box<dyn Flavor>],
    budget: Budget,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    let config = |(readers, asked): (usize, u64)| {
        Config::new([("readers", readers.into()), ("asked_per_s", asked.into())])
    };
    let (rounds, slice) = budget.split((CELLS.len() * flavors.len()) as f64, Duration::from_millis(300));
    let schedule = Schedule { rounds, cells: CELLS.len(), systems: flavors.len() };
    let progress = Progress::new("bench qsbr: updates", schedule.len(), slice * schedule.len() as u32);
    for cell in CELLS {
        flavors.iter().for_each(|flavor| recorder.announce(flavor.name(), &UPDATES, &config(cell)));
    }
    for step in schedule.steps() {
        let (cell, flavor) = (CELLS[step.cell], &flavors[step.system]);
        let config = config(cell);
        progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, flavor.name()));
        let updates = measure(flavor.as_ref(), cell.0, cell.1, slice)?;
        recorder.record(step.round, flavor.name(), &UPDATES, &config, updates);
        progress.advance();
    }
    Ok(())
}

fn measure(flavor: &dyn Flavor, readers: usize, asked: u64, slice: Duration) -> anyhow::Result<f64> {
    let (ready, start, stop) = (Arrivals::default(), Gate::default(), AtomicBool::new(false));
    let end = || {
        stop.store(true, Ordering::Relaxed);
        start.open();
    };
    thread::scope(|scope| {
        for _ in 0..readers {
            let begin = || {
                ready.arrive();
                start.wait();
            };
            let (start, stop) = (begin, &stop);
            crew::spawn(scope, move || flavor.read(&start, stop)).inspect_err(|_| end())?;
        }
        let updater = || {
            ready.arrive();
            start.wait();
            update(flavor, asked, slice)
        };
        let updater = crew::spawn(scope, updater).inspect_err(|_| end())?;
        ready.wait_for(readers + 1);
        start.open();
        let updates = crew::join(updater);
        end();
        updates
    })
}

/// Waits for grace periods for as long as `slice`, `asked` each second or one after the other; how many there were in a second.
/// Whoever is late catches up.
fn update(flavor: &dyn Flavor, asked: u64, slice: Duration) -> f64 {
    let begin = Instant::now();
    let mut updates = 0_u64;
    while begin.elapsed() < slice {
        if asked != 0 {
            let due = Duration::from_secs(updates) / asked as u32;
            if let Some(early) = due.checked_sub(begin.elapsed()) {
                thread::sleep(early);
            }
        }
        flavor.synchronize();
        updates += 1;
    }
    updates as f64 / begin.elapsed().as_secs_f64()
}

struct Reports(Rcu<u64, qsbr::Global>);

impl Flavor for Reports {
    fn name(&self) -> &'static str {
        OURS
    }

    fn read(&self, ready: &dyn Fn(), stop: &AtomicBool) {
        let mut handle = qsbr::register();
        ready();
        let pointer = black_box(&self.0);
        while !stop.load(Ordering::Relaxed) {
            black_box((0..READS).map(|_| *pointer.load(&handle)).sum::<u64>());
            handle.quiescent();
        }
    }

    fn synchronize(&self) {
        qsbr::synchronize();
    }
}

struct Sections(Rcu<u64>);

impl Flavor for Sections {
    fn name(&self) -> &'static str {
        "stillpoint-rcu"
    }

    fn read(&self, ready: &dyn Fn(), stop: &AtomicBool) {
        rcu::register();
        ready();
        let pointer = black_box(&self.0);
        while !stop.load(Ordering::Relaxed) {
            let guard = rcu::enter();
            black_box((0..READS).map(|_| *pointer.load(&guard)).sum::<u64>());
        }
    }

    fn synchronize(&self) {
        rcu::synchronize();
    }
}

/// No library: each thread repeats a number after the updater, who waits, without a system call of theirs, until all have. It is
/// how long the scheduler takes to let everybody run.
#[derive(Default)]
struct RunQueue {
    number: CachePadded<AtomicU64>,
    repeated: Mutex<Vec<Arc<CachePadded<AtomicU64>>>>,
}

impl RunQueue {
    fn threads(&self) -> MutexGuard<'_, Vec<Arc<CachePadded<AtomicU64>>>> {
        self.repeated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flavor for RunQueue {
    fn name(&self) -> &'static str {
        "run-queue"
    }

    fn read(&self, ready: &dyn Fn(), stop: &AtomicBool) {
        let own = Arc::new(CachePadded::new(AtomicU64::new(self.number.load(Ordering::Acquire))));
        self.threads().push(Arc::clone(&own));
        ready();
        let pointer = AtomicPtr::new(&raw const VALUE as *mut u64);
        let pointer = black_box(&pointer);
        while !stop.load(Ordering::Relaxed) {
            // SAFETY: points to a constant.
            black_box((0..READS).map(|_| unsafe { *pointer.load(Ordering::Acquire) }).sum::<u64>());
            own.store(self.number.load(Ordering::Acquire), Ordering::Release);
        }
        self.threads().retain(|thread| !Arc::ptr_eq(thread, &own));
    }

    fn synchronize(&self) {
        let number = self.number.fetch_add(1, Ordering::AcqRel) + 1;
        let all = || self.threads().iter().all(|thread| thread.load(Ordering::Acquire) >= number);
        let mut looks = 0;
        while !all() {
            looks += 1;
            if looks > 1000 {
                thread::sleep(Duration::from_micros(20));
            }
        }
    }
}

/// What [`RunQueue`] reads.
static VALUE: u64 = 7;

#[cfg(feature = "liburcu")]
struct LiburcuQsbr(crate::peers::liburcu::Slot);

#[cfg(feature = "liburcu")]
impl Flavor for LiburcuQsbr {
    fn name(&self) -> &'static str {
        crate::peers::LIBURCU_QSBR
    }

    fn read(&self, ready: &dyn Fn(), stop: &AtomicBool) {
        let reader = crate::peers::liburcu_qsbr::Reader::register();
        ready();
        while !stop.load(Ordering::Relaxed) {
            black_box(reader.read(black_box(&self.0), READS));
            reader.quiescent(1);
        }
    }

    fn synchronize(&self) {
        crate::peers::liburcu_qsbr::synchronize();
    }
}

#[cfg(feature = "liburcu")]
struct LiburcuMemb(crate::peers::liburcu::Slot);

#[cfg(feature = "liburcu")]
impl Flavor for LiburcuMemb {
    fn name(&self) -> &'static str {
        crate::peers::LIBURCU
    }

    fn read(&self, ready: &dyn Fn(), stop: &AtomicBool) {
        let reader = crate::peers::liburcu::Reader::register();
        ready();
        while !stop.load(Ordering::Relaxed) {
            black_box(reader.section(|| reader.read(black_box(&self.0), READS)));
        }
    }

    fn synchronize(&self) {
        crate::peers::liburcu::synchronize();
    }
}
