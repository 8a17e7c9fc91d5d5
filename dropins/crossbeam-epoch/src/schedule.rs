//! When a participant collects: before it pins, after it has sealed a bag or flushed, and each 128th time. Then it
//! leads a grace period, if what it has done since the last one has paid for that. Only its thread uses this.

use std::cell::Cell;
use std::time::Duration;

/// A participant collects each time that it has pinned so often.
const PINS: i64 = 128;
/// Nanoseconds that a grace period may take for each function that was deferred, and for each pin.
const TIME_PER_FUNCTION: u64 = 2;
const TIME_PER_PIN: u64 = 1;
/// What a grace period is taken to have cost, at least and at most: it may have waited for a CPU.
const COST: [u64; 2] = [256, 16_384];

/// See the [module](self).
pub(crate) struct Schedule {
    /// The pins until the participant collects, less than 0 if it must. (A pin decrements this and looks at the
    /// sign.)
    pins: Cell<i64>,
    /// The guards of a thread.
    guards: Cell<usize>,
    /// It has flushed: the next time, what has been deferred goes through a grace period, and it drops the bags of
    /// all.
    has_flushed: Cell<bool>,
    /// The time that the next grace period may take, and what the last one has cost.
    earned: Cell<u64>,
    cost: Cell<u64>,
}

impl Schedule {
    pub(crate) const fn new() -> Self {
        Self {
            pins: Cell::new(PINS),
            guards: Cell::new(0),
            has_flushed: Cell::new(false),
            earned: Cell::new(0),
            cost: Cell::new(0),
        }
    }

    /// Counts a pin. Returns `true` if the participant must collect before.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        let pins = self.pins.get() - 1;
        self.pins.set(pins);
        pins < 0
    }

    pub(crate) fn collect_soon(&self) {
        self.pins.set(0);
    }

    /// Begins to collect. Returns the pins since the last time.
    pub(crate) fn begin(&self) -> u64 {
        (PINS - self.pins.replace(PINS)).unsigned_abs()
    }

    #[inline(always)]
    pub(crate) fn add_guard(&self) {
        self.guards.set(self.guards.get() + 1);
    }

    #[inline(always)]
    pub(crate) fn remove_guard(&self) {
        self.guards.set(self.guards.get() - 1);
    }

    pub(crate) fn has_guards(&self) -> bool {
        self.guards.get() != 0
    }

    pub(crate) fn flush(&self) {
        self.has_flushed.set(true);
        self.collect_soon();
    }

    pub(crate) fn has_flushed(&self) -> bool {
        self.has_flushed.get()
    }

    pub(crate) fn take_flush(&self) -> bool {
        self.has_flushed.take()
    }

    /// Returns `true` if the participant may lead a grace period, after so many more pins and functions.
    pub(crate) fn may_lead(&self, pins: u64, functions: usize) -> bool {
        let earned = self.earned.get() + pins * TIME_PER_PIN + functions as u64 * TIME_PER_FUNCTION;
        self.earned.set(earned);
        earned >= self.cost.get()
    }

    pub(crate) fn has_led(&self, time: Duration) {
        let [least, most] = COST;
        self.cost.set((time.as_nanos() as u64).clamp(least, most));
        self.earned.set(0);
    }
}
