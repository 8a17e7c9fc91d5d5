//! The systems of the read bench, each as its documentation recommends, in its fastest correct form.

use std::hint::black_box;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use arc_swap::ArcSwap;
use seize::Guard as _;
use stillpoint::rcu::{self, Rcu};

use super::turn::{Turn, repeat};
use crate::harness::Skipped;
use crate::harness::report::OURS;

/// The number behind every pointer.
const VALUE: u64 = 7;

/// Something that protects a pointer from its updaters.
pub(super) trait System: Sync {
    /// Name in the report.
    fn name(&self) -> &'static str;

    /// Why a thread cannot open a section inside another, if it cannot.
    fn cannot_nest(&self) -> Option<&'static str> {
        None
    }

    /// Reads in the calling thread until the turn is over; the nanoseconds of an iteration.
    fn run(&self, nesting: u32, turn: &Turn) -> f64;
}

/// All systems of this build, and those it lacks.
pub(super) fn all() -> (Vec<Box<dyn System>>, Vec<Skipped>) {
    let systems: Vec<Box<dyn System>> = vec![
        Box::new(Stillpoint(Rcu::new(VALUE))),
        Box::new(BareLoad(boxed())),
        #[cfg(feature = "liburcu")]
        Box::new(Liburcu(crate::peers::liburcu::Slot::new(VALUE))),
        Box::new(CrossbeamEpoch(crossbeam_epoch::Atomic::new(VALUE))),
        Box::new(Seize(seize::Collector::default(), boxed())),
        Box::new(ArcSwapLoad(ArcSwap::from_pointee(VALUE))),
        Box::new(StdRwLock(RwLock::new(Box::new(VALUE)))),
        Box::new(StdMutex(Mutex::new(Box::new(VALUE)))),
    ];
    let skipped = vec![
        #[cfg(not(feature = "liburcu"))]
        crate::peers::liburcu_missing(),
    ];
    (systems, skipped)
}

/// A pointer to a number that lives as long as the program: a few bytes, once a run.
fn boxed() -> AtomicPtr<u64> {
    AtomicPtr::new(Box::leak(Box::new(VALUE)))
}

struct Stillpoint(Rcu<u64>);

impl System for Stillpoint {
    fn name(&self) -> &'static str {
        OURS
    }

    fn run(&self, nesting: u32, turn: &Turn) -> f64 {
        rcu::register();
        if nesting == 1 {
            turn.time(|n| {
                let pointer = black_box(&self.0);
                repeat(n, move || {
                    let guard = rcu::enter();
                    *pointer.load(&guard)
                })
            })
        } else {
            turn.time(|n| {
                let pointer = black_box(&self.0);
                repeat(n, move || {
                    let _outer = rcu::enter();
                    let inner = rcu::enter();
                    *pointer.load(&inner)
                })
            })
        }
    }
}

/// No protection at all: the floor. Sections cost nothing here, nested or not.
struct BareLoad(AtomicPtr<u64>);

impl System for BareLoad {
    fn name(&self) -> &'static str {
        "bare-load"
    }

    fn run(&self, _: u32, turn: &Turn) -> f64 {
        turn.time(|n| {
            let pointer = black_box(&self.0);
            // SAFETY: the number behind the pointer is never freed.
            repeat(n, move || unsafe { *pointer.load(Ordering::Acquire) })
        })
    }
}

#[cfg(feature = "liburcu")]
struct Liburcu(crate::peers::liburcu::Slot);

#[cfg(feature = "liburcu")]
impl System for Liburcu {
    fn name(&self) -> &'static str {
        crate::peers::LIBURCU
    }

    fn run(&self, nesting: u32, turn: &Turn) -> f64 {
        let reader = crate::peers::liburcu::Reader::register();
        if nesting == 1 {
            turn.time(|n| reader.read(black_box(&self.0), n))
        } else {
            turn.time(|n| reader.read_nested(black_box(&self.0), n))
        }
    }
}

/// With a handle of the thread, which is never slower than `epoch::pin()`: that one looks the handle up.
struct CrossbeamEpoch(crossbeam_epoch::Atomic<u64>);

impl System for CrossbeamEpoch {
    fn name(&self) -> &'static str {
        "crossbeam-epoch"
    }

    fn run(&self, nesting: u32, turn: &Turn) -> f64 {
        let handle = &crossbeam_epoch::default_collector().register();
        // SAFETY: the number is never retired, and it lives as long as `self`.
        let read = |pointer: &crossbeam_epoch::Atomic<u64>, guard: &crossbeam_epoch::Guard| unsafe {
            *pointer.load(Ordering::Acquire, guard).deref()
        };
        if nesting == 1 {
            turn.time(|n| {
                let pointer = black_box(&self.0);
                repeat(n, move || read(pointer, &handle.pin()))
            })
        } else {
            turn.time(|n| {
                let pointer = black_box(&self.0);
                repeat(n, move || {
                    let _outer = handle.pin();
                    read(pointer, &handle.pin())
                })
            })
        }
    }
}

struct Seize(seize::Collector, AtomicPtr<u64>);

impl System for Seize {
    fn name(&self) -> &'static str {
        "seize"
    }

    fn run(&self, nesting: u32, turn: &Turn) -> f64 {
        // SAFETY: the number behind the pointer is never retired.
        let read = |pointer: &AtomicPtr<u64>, guard: &seize::LocalGuard<'_>| unsafe {
            *guard.protect(pointer, Ordering::Acquire)
        };
        if nesting == 1 {
            turn.time(|n| {
                let (collector, pointer) = black_box((&self.0, &self.1));
                repeat(n, move || read(pointer, &collector.enter()))
            })
        } else {
            turn.time(|n| {
                let (collector, pointer) = black_box((&self.0, &self.1));
                repeat(n, move || {
                    let _outer = collector.enter();
                    read(pointer, &collector.enter())
                })
            })
        }
    }
}

struct ArcSwapLoad(ArcSwap<u64>);

impl System for ArcSwapLoad {
    fn name(&self) -> &'static str {
        "arc-swap"
    }

    fn run(&self, nesting: u32, turn: &Turn) -> f64 {
        if nesting == 1 {
            turn.time(|n| {
                let pointer = black_box(&self.0);
                repeat(n, move || **pointer.load())
            })
        } else {
            turn.time(|n| {
                let pointer = black_box(&self.0);
                repeat(n, move || {
                    let _outer = pointer.load();
                    **pointer.load()
                })
            })
        }
    }
}

struct StdRwLock(RwLock<Box<u64>>);

impl System for StdRwLock {
    fn name(&self) -> &'static str {
        "std-rwlock"
    }

    fn cannot_nest(&self) -> Option<&'static str> {
        Some("a second read() in a thread deadlocks as soon as a writer waits")
    }

    fn run(&self, _: u32, turn: &Turn) -> f64 {
        turn.time(|n| {
            let lock = black_box(&self.0);
            repeat(n, move || **lock.read().unwrap_or_else(PoisonError::into_inner))
        })
    }
}

struct StdMutex(Mutex<Box<u64>>);

impl System for StdMutex {
    fn name(&self) -> &'static str {
        "std-mutex"
    }

    fn cannot_nest(&self) -> Option<&'static str> {
        Some("a second lock() in a thread deadlocks")
    }

    fn run(&self, _: u32, turn: &Turn) -> f64 {
        turn.time(|n| {
            let lock = black_box(&self.0);
            repeat(n, move || **lock.lock().unwrap_or_else(PoisonError::into_inner))
        })
    }
}
