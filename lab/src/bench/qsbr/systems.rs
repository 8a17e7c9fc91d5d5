//! The loops of readers.

use std::hint::black_box;
use std::sync::atomic::{AtomicPtr, Ordering};

use stillpoint::qsbr;
use stillpoint::rcu::Rcu;

use crate::bench::read::turn::{Turn, repeat};
use crate::harness::Skipped;
use crate::harness::report::OURS;

/// The number behind every pointer.
const VALUE: u64 = 7;

/// What a loop repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loop {
    Read,
    Report,
}

pub(super) trait System: Sync {
    /// Name in the report.
    fn name(&self) -> &'static str;

    fn can(&self, body: Loop) -> bool {
        let _ = body;
        true
    }

    /// Runs the loop in the calling thread until the turn is over; the nanoseconds of an iteration.
    fn run(&self, body: Loop, turn: &Turn) -> f64;
}

/// All systems of this build, and those it lacks.
pub(super) fn all() -> (Vec<Box<dyn System>>, Vec<Skipped>) {
    let systems: Vec<Box<dyn System>> = vec![
        Box::new(Stillpoint(Rcu::new_in(VALUE, qsbr::Global))),
        // A few bytes, once a run.
        Box::new(BareLoad(AtomicPtr::new(Box::leak(Box::new(VALUE))))),
        #[cfg(feature = "liburcu")]
        Box::new(Liburcu(crate::peers::liburcu::Slot::new(VALUE))),
    ];
    let skipped = vec![
        #[cfg(not(feature = "liburcu"))]
        crate::peers::missing(crate::peers::LIBURCU_QSBR),
    ];
    (systems, skipped)
}

struct Stillpoint(Rcu<u64, qsbr::Global>);

impl System for Stillpoint {
    fn name(&self) -> &'static str {
        OURS
    }

    fn run(&self, body: Loop, turn: &Turn) -> f64 {
        let mut handle = qsbr::register();
        match body {
            Loop::Read => turn.time(|n| {
                let pointer = black_box(&self.0);
                repeat(n, || *pointer.load(&handle))
            }),
            Loop::Report => turn.time(|n| {
                for _ in 0..n {
                    handle.quiescent();
                }
                u64::from(n)
            }),
        }
    }
}

/// No protection at all: the floor.
struct BareLoad(AtomicPtr<u64>);

impl System for BareLoad {
    fn name(&self) -> &'static str {
        "bare-load"
    }

    fn can(&self, body: Loop) -> bool {
        body == Loop::Read
    }

    fn run(&self, _: Loop, turn: &Turn) -> f64 {
        turn.time(|n| {
            let pointer = black_box(&self.0);
            // SAFETY: the number behind the pointer is never freed.
            repeat(n, || unsafe { *pointer.load(Ordering::Acquire) })
        })
    }
}

#[cfg(feature = "liburcu")]
struct Liburcu(crate::peers::liburcu::Slot);

#[cfg(feature = "liburcu")]
impl System for Liburcu {
    fn name(&self) -> &'static str {
        crate::peers::LIBURCU_QSBR
    }

    fn run(&self, body: Loop, turn: &Turn) -> f64 {
        let reader = crate::peers::liburcu_qsbr::Reader::register();
        match body {
            Loop::Read => turn.time(|n| reader.read(black_box(&self.0), n)),
            Loop::Report => turn.time(|n| reader.quiescent(n)),
        }
    }
}
