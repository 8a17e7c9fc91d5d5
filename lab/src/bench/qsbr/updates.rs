//! Updates beside readers that never sleep.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stillpoint::qsbr;
use stillpoint::rcu::{self, Rcu};

use super::UPDATES;
use crate::harness::crew::{self, Arrivals, Gate};
use crate::harness::report::OURS;
use crate::harness::{Budget, Config, Progress, Recorder, Schedule, Skipped};

/// Reads before each report, or in each section.
const READS: u32 = 100;

/// Readers, how often an update is asked for (0: one after the other), and for how long the scheduler lets a reader run while
/// others wait, in microseconds (0: as it does by itself).
#[derive(Clone, Copy, Debug)]
struct Cell {
    readers: usize,
    asked: u64,
    slice_us: u64,
}

impl Cell {
    const fn new(readers: usize, asked: u64, slice_us: u64) -> Self {
        Self { readers, asked, slice_us }
    }

    fn config(self) -> Config {
        Config::new([
            ("readers", self.readers.into()),
            ("asked_per_s", self.asked.into()),
            ("slice_us", self.slice_us.into()),
        ])
    }
}

/// With more readers than CPUs a grace period waits until each has had its turn. That this, and not the library, sets the pace
/// is shown by shorter turns.
const CELLS: [Cell; 4] =
    [Cell::new(1, 0, 0), Cell::new(2, 0, 0), Cell::new(16, 1000, 0), Cell::new(16, 1000, 100)];

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
    let (rounds, slice) = budget.split((CELLS.len() * flavors.len()) as f64, Duration::from_millis(300));
    let schedule = Schedule { rounds, cells: CELLS.len(), systems: flavors.len() };
    let progress = Progress::new("bench qsbr: updates", schedule.len(), slice * schedule.len() as u32);
    for cell in CELLS {
        flavors.iter().for_each(|flavor| recorder.announce(flavor.name(), &UPDATES, &cell.config()));
    }
    for step in schedule.steps() {
        let (cell, flavor) = (CELLS[step.cell], &flavors[step.system]);
        let config = cell.config();
        progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, flavor.name()));
        let updates = measure(flavor.as_ref(), cell, slice)?;
        recorder.record(step.round, flavor.name(), &UPDATES, &config, updates);
        progress.advance();
    }
    Ok(())
}

fn measure(flavor: &dyn Flavor, cell: Cell, slice: Duration) -> anyhow::Result<f64> {
    let Cell { readers, asked, slice_us } = cell;
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
            let read = move || {
                if slice_us != 0 {
                    shorten_turns(slice_us);
                }
                flavor.read(&start, stop);
            };
            crew::spawn(scope, read).inspect_err(|_| end())?;
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

/// Asks the scheduler to let the calling thread run for `us` at a time while others wait (`sched_setattr(2)`). Kernels before
/// 6.12 take no notice.
fn shorten_turns(us: u64) {
    /// The first version of `struct sched_attr`.
    #[repr(C)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: 0,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime: us * 1000,
        deadline: 0,
        period: 0,
    };
    // SAFETY: the attributes outlive the call, and say how long they are.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
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
        // Others wait while this thread does.
        handle.offline(ready);
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

#[cfg(feature = "liburcu")]
struct LiburcuQsbr(crate::peers::liburcu::Slot);

#[cfg(feature = "liburcu")]
impl Flavor for LiburcuQsbr {
    fn name(&self) -> &'static str {
        crate::peers::LIBURCU_QSBR
    }

    fn read(&self, ready: &dyn Fn(), stop: &AtomicBool) {
        ready();
        let reader = crate::peers::liburcu_qsbr::Reader::register();
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
