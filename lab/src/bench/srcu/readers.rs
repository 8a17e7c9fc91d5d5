//! The systems of the loop, each as its documentation recommends, in its fastest correct form.

use std::hint::black_box;
use std::sync::atomic::Ordering;

use arc_swap::ArcSwap;
use stillpoint::rcu::{self, Rcu};
use stillpoint::srcu::Domain;
use tokio::runtime;
use tokio::sync::RwLock;
use tokio::task::unconstrained;

use crate::bench::read::turn::{Turn, repeat};
use crate::harness::report::OURS;

/// The number behind every pointer.
const VALUE: u64 = 7;

/// Something that protects a pointer from its updaters.
pub(super) trait System: Sync {
    /// Name in the report.
    fn name(&self) -> &'static str;

    /// Reads in the calling thread until the turn is over; the nanoseconds of an iteration.
    fn run(&self, turn: &Turn) -> f64;
}

/// All systems.
pub(super) fn all() -> Vec<Box<dyn System>> {
    let domain = Domain::new();
    vec![
        Box::new(Srcu(Rcu::new_in(VALUE, domain.clone()), domain)),
        Box::new(OurRcu(Rcu::new(VALUE))),
        Box::new(CrossbeamEpoch(crossbeam_epoch::Atomic::new(VALUE))),
        Box::new(CrossbeamPin(crossbeam_epoch::Atomic::new(VALUE))),
        Box::new(TokioRwLock(RwLock::new(Box::new(VALUE)))),
        Box::new(ArcSwapFull(ArcSwap::from_pointee(VALUE))),
        Box::new(ArcSwapLoad(ArcSwap::from_pointee(VALUE))),
    ]
}

struct Srcu(Rcu<u64, Domain>, Domain);

impl System for Srcu {
    fn name(&self) -> &'static str {
        OURS
    }

    fn run(&self, turn: &Turn) -> f64 {
        turn.time(|n| {
            let (pointer, domain) = black_box((&self.0, &self.1));
            repeat(n, move || {
                let guard = domain.enter();
                *pointer.load(&guard)
            })
        })
    }
}

/// The sections of `rcu`, which stay in their thread.
struct OurRcu(Rcu<u64>);

impl System for OurRcu {
    fn name(&self) -> &'static str {
        "stillpoint-rcu"
    }

    fn run(&self, turn: &Turn) -> f64 {
        rcu::register();
        turn.time(|n| {
            let pointer = black_box(&self.0);
            repeat(n, move || {
                let guard = rcu::enter();
                *pointer.load(&guard)
            })
        })
    }
}

/// With a handle of the thread, which is never slower than `epoch::pin()`: that one looks the handle up.
struct CrossbeamEpoch(crossbeam_epoch::Atomic<u64>);

impl System for CrossbeamEpoch {
    fn name(&self) -> &'static str {
        "crossbeam-epoch"
    }

    fn run(&self, turn: &Turn) -> f64 {
        let handle = &crossbeam_epoch::default_collector().register();
        turn.time(|n| {
            let pointer = black_box(&self.0);
            repeat(n, move || {
                let guard = handle.pin();
                // SAFETY: the number is never retired, and it lives as long as `self`.
                unsafe { *pointer.load(Ordering::Acquire, &guard).deref() }
            })
        })
    }
}

/// As its documentation does it.
struct CrossbeamPin(crossbeam_epoch::Atomic<u64>);

impl System for CrossbeamPin {
    fn name(&self) -> &'static str {
        "crossbeam-pin"
    }

    fn run(&self, turn: &Turn) -> f64 {
        turn.time(|n| {
            let pointer = black_box(&self.0);
            repeat(n, move || {
                let guard = crossbeam_epoch::pin();
                // SAFETY: as above.
                unsafe { *pointer.load(Ordering::Acquire, &guard).deref() }
            })
        })
    }
}

/// In a task that is not made to yield now and then.
struct TokioRwLock(RwLock<Box<u64>>);

impl System for TokioRwLock {
    fn name(&self) -> &'static str {
        "tokio-rwlock"
    }

    fn run(&self, turn: &Turn) -> f64 {
        // Without a driver there is nothing that could fail.
        let Ok(runtime) = runtime::Builder::new_current_thread().build() else { return f64::NAN };
        turn.time(|n| {
            let lock = black_box(&self.0);
            runtime.block_on(unconstrained(async {
                let mut sum = 0_u64;
                for _ in 0..n {
                    sum = sum.wrapping_add(**lock.read().await);
                }
                sum
            }))
        })
    }
}

/// What its documentation recommends for values that are held for long, as over `.await`.
struct ArcSwapFull(ArcSwap<u64>);

impl System for ArcSwapFull {
    fn name(&self) -> &'static str {
        "arc-swap-full"
    }

    fn run(&self, turn: &Turn) -> f64 {
        turn.time(|n| {
            let pointer = black_box(&self.0);
            repeat(n, move || *pointer.load_full())
        })
    }
}

/// For short sections.
struct ArcSwapLoad(ArcSwap<u64>);

impl System for ArcSwapLoad {
    fn name(&self) -> &'static str {
        "arc-swap"
    }

    fn run(&self, turn: &Turn) -> f64 {
        turn.time(|n| {
            let pointer = black_box(&self.0);
            repeat(n, move || **pointer.load())
        })
    }
}
