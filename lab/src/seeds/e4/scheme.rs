//! Ways in which readers report.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stillpoint::Domain as _;
use stillpoint::qsbr;

use super::one_flag::OneFlag;
use crate::harness::Skipped;
use crate::harness::report::OURS;

/// Reports of the most diligent between two looks at the stop flag.
const BATCH: u32 = 64;

pub(super) trait Scheme: Sync {
    /// Name in the report.
    fn name(&self) -> &'static str;

    /// Registers the calling thread, and reports each `interval` until `stop`. Calls `ready` first: nobody
    /// waits for a grace period before that returns.
    fn read(&self, interval: Duration, ready: &dyn Fn(), stop: &AtomicBool);

    /// Waits for a grace period; the calling thread is not registered.
    fn synchronize(&self);

    /// Wake-up system calls by readers so far.
    fn wakes(&self) -> u64;
}

/// All schemes of this build, and those it lacks.
pub(super) fn all() -> (Vec<Box<dyn Scheme>>, Vec<Skipped>) {
    let schemes: Vec<Box<dyn Scheme>> = vec![
        Box::new(Flags),
        Box::new(OneFlag::new()),
        #[cfg(feature = "liburcu")]
        Box::new(Liburcu),
    ];
    (schemes, crate::peers::missing(&[crate::peers::LIBURCU_QSBR]))
}

/// Calls `report` each `interval` until `stop`.
fn until(stop: &AtomicBool, interval: Duration, mut report: impl FnMut()) {
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if interval.is_zero() {
            for number in 0..BATCH {
                black_box(number);
                report();
            }
        } else if last.elapsed() >= interval {
            report();
            last = Instant::now();
        }
    }
}

/// The library's: a flag for each reader.
struct Flags;

impl Scheme for Flags {
    fn name(&self) -> &'static str {
        OURS
    }

    fn read(&self, interval: Duration, ready: &dyn Fn(), stop: &AtomicBool) {
        let mut handle = qsbr::register();
        ready();
        until(stop, interval, || handle.quiescent());
    }

    fn synchronize(&self) {
        qsbr::synchronize();
    }

    fn wakes(&self) -> u64 {
        qsbr::Global.stats().wakeups
    }
}

impl Scheme for OneFlag {
    fn name(&self) -> &'static str {
        "one-flag"
    }

    fn read(&self, interval: Duration, ready: &dyn Fn(), stop: &AtomicBool) {
        let mut reader = self.register();
        ready();
        until(stop, interval, || reader.quiescent());
    }

    fn synchronize(&self) {
        OneFlag::synchronize(self);
    }

    fn wakes(&self) -> u64 {
        OneFlag::wakes(self)
    }
}

#[cfg(feature = "liburcu")]
struct Liburcu;

#[cfg(feature = "liburcu")]
impl Scheme for Liburcu {
    fn name(&self) -> &'static str {
        crate::peers::LIBURCU_QSBR
    }

    fn read(&self, interval: Duration, ready: &dyn Fn(), stop: &AtomicBool) {
        let reader = crate::peers::liburcu_qsbr::Reader::register();
        ready();
        until(stop, interval, || reader.report());
    }

    fn synchronize(&self) {
        crate::peers::liburcu_qsbr::synchronize();
    }

    fn wakes(&self) -> u64 {
        crate::peers::liburcu::counters().wakes
    }
}
