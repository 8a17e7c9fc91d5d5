//! The systems of the sync bench: who reads, who waits, and what they count.

use std::hint::black_box;
use std::ops::Sub;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stillpoint::rcu::{self, Rcu};

use crate::harness::Skipped;
use crate::harness::report::OURS;

/// Short sections between two looks at the stop flag.
const BATCH: u32 = 256;

/// Events so far, or between two readings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Events {
    pub(crate) grace_periods: u64,
    pub(crate) heavy: u64,
    pub(crate) wakes: u64,
}

impl Sub for Events {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            grace_periods: self.grace_periods - earlier.grace_periods,
            heavy: self.heavy - earlier.heavy,
            wakes: self.wakes - earlier.wakes,
        }
    }
}

/// A library with grace periods.
pub(crate) trait Flavor: Sync {
    /// Name in the report.
    fn name(&self) -> &'static str;

    /// Registers the calling thread, calls `ready`, and reads until `stop`: short sections, or sections that last for
    /// `section` and look at the clock. Returns the number of sections.
    fn read(&self, section: Duration, ready: &dyn Fn(), stop: &AtomicBool) -> u64;

    /// Registers the calling thread for as long as `wait` takes, outside any section.
    fn idle(&self, wait: &dyn Fn());

    /// Waits for a grace period.
    fn synchronize(&self);

    /// Events since the program started.
    fn events(&self) -> Events;
}

/// All flavors of this build, and those it lacks.
pub(crate) fn all() -> (Vec<Box<dyn Flavor>>, Vec<Skipped>) {
    let flavors: Vec<Box<dyn Flavor>> = vec![
        Box::new(Stillpoint(Rcu::new(7))),
        #[cfg(feature = "liburcu")]
        Box::new(Liburcu(crate::peers::liburcu::Slot::new(7))),
    ];
    let skipped = vec![
        #[cfg(not(feature = "liburcu"))]
        crate::peers::liburcu_missing(),
    ];
    (flavors, skipped)
}

/// Calls `read`, for [`BATCH`] short sections or for a long one, until `stop`; the number of sections.
fn until(stop: &AtomicBool, section: Duration, read: impl Fn(Duration)) -> u64 {
    let sections = if section.is_zero() { u64::from(BATCH) } else { 1 };
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) || count == 0 {
        read(section);
        count += sections;
    }
    count
}

struct Stillpoint(Rcu<u64>);

impl Stillpoint {
    fn short_sections(&self) -> u64 {
        let pointer = black_box(&self.0);
        let mut sum = 0_u64;
        for _ in 0..BATCH {
            let guard = rcu::enter();
            sum = sum.wrapping_add(*pointer.load(&guard));
        }
        sum
    }

    fn long_section(&self, length: Duration) -> u64 {
        let guard = rcu::enter();
        let start = Instant::now();
        let value = *self.0.load(&guard);
        while start.elapsed() < length {}
        value
    }
}

impl Flavor for Stillpoint {
    fn name(&self) -> &'static str {
        OURS
    }

    fn read(&self, section: Duration, ready: &dyn Fn(), stop: &AtomicBool) -> u64 {
        rcu::register();
        ready();
        until(stop, section, |section| {
            black_box(if section.is_zero() { self.short_sections() } else { self.long_section(section) });
        })
    }

    fn idle(&self, wait: &dyn Fn()) {
        rcu::register();
        wait();
    }

    fn synchronize(&self) {
        rcu::synchronize();
    }

    fn events(&self) -> Events {
        let stats = rcu::stats();
        Events { grace_periods: stats.grace_periods, heavy: stats.heavy_fences, wakes: stats.wakeups }
    }
}

/// What a caller does before it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Nothing,
    /// Replaces a value, which retires the old one.
    Replace,
    /// Defers a callback.
    Call,
}

impl Before {
    pub(crate) const ALL: [Self; 3] = [Self::Nothing, Self::Replace, Self::Call];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "synchronize",
            Self::Replace => "replace + synchronize",
            Self::Call => "call + synchronize",
        }
    }
}

/// Ours, whose callers do something before.
pub(crate) struct Deferring(Stillpoint, Before);

impl Deferring {
    pub(crate) fn new(before: Before) -> Self {
        Self(Stillpoint(Rcu::new(7)), before)
    }
}

impl Flavor for Deferring {
    fn name(&self) -> &'static str {
        OURS
    }

    fn read(&self, section: Duration, ready: &dyn Fn(), stop: &AtomicBool) -> u64 {
        self.0.read(section, ready, stop)
    }

    fn idle(&self, wait: &dyn Fn()) {
        self.0.idle(wait);
    }

    fn synchronize(&self) {
        match self.1 {
            Before::Nothing => (),
            Before::Replace => drop(self.0.0.replace(7)),
            Before::Call => rcu::call(|| ()),
        }
        self.0.synchronize();
    }

    fn events(&self) -> Events {
        self.0.events()
    }
}

#[cfg(feature = "liburcu")]
struct Liburcu(crate::peers::liburcu::Slot);

#[cfg(feature = "liburcu")]
impl Flavor for Liburcu {
    fn name(&self) -> &'static str {
        crate::peers::LIBURCU
    }

    fn read(&self, section: Duration, ready: &dyn Fn(), stop: &AtomicBool) -> u64 {
        let reader = crate::peers::liburcu::Reader::register();
        ready();
        until(stop, section, |section| {
            black_box(if section.is_zero() {
                reader.read(black_box(&self.0), BATCH)
            } else {
                reader.long_section(&self.0, section)
            });
        })
    }

    fn idle(&self, wait: &dyn Fn()) {
        let _reader = crate::peers::liburcu::Reader::register();
        wait();
    }

    fn synchronize(&self) {
        crate::peers::liburcu::synchronize();
    }

    fn events(&self) -> Events {
        let counters = crate::peers::liburcu::counters();
        Events { grace_periods: counters.grace_periods, heavy: counters.membarriers, wakes: counters.wakes }
    }
}
