//! How many callbacks, and how many bytes: of one callback, and what an owner has pushed and run since its last
//! report to the [backlog](super::backlog).
//!
//! # Statistics
//!
//! A look at all queues finds no less than waits: each callback that it does not find pushed was pushed after the
//! look began, and each that it finds run is found pushed too. So it reads all that has run first
//! ([`Reported::all_run`]), then all that was pushed ([`Reported::all_pushed`]); and an owner reports what it has
//! pushed *before* it takes that out of its own amount, and what it has run *after* that.

use core::ops::AddAssign;
// Not of `sync`: whether a caller is throttled does not exist in models.
use core::sync::atomic::AtomicU64 as Unmodelled;

use super::callback::Callback;
use crate::sync::{AtomicU64, CachePadded, Ordering::*, const_unless_loom, fence};

/// What a value of unknown size counts for in a long grace period.
pub const UNKNOWN_BYTES: u64 = 16 << 10;

/// A number of callbacks, how many of them are of unknown size, and the bytes that are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    pub count: u64,
    pub unknown: u64,
    pub bytes: u64,
}

impl Amount {
    /// What a callback counts as.
    #[inline(always)]
    pub fn of(callback: &Callback) -> Self {
        let count = callback.count();
        Self { count, unknown: if callback.is_unknown() { count } else { 0 }, bytes: callback.bytes() }
    }

    /// Returns what is left without `run`, which may be more.
    pub fn without(self, run: Self) -> Self {
        Self {
            count: self.count.saturating_sub(run.count),
            unknown: self.unknown.saturating_sub(run.unknown),
            bytes: self.bytes.saturating_sub(run.bytes),
        }
    }

    /// What it counts for in a long grace period.
    pub fn bytes_with_unknown(&self) -> u64 {
        self.bytes.saturating_add(self.unknown.saturating_mul(UNKNOWN_BYTES))
    }
}

impl AddAssign for Amount {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.unknown += other.unknown;
        self.bytes += other.bytes;
    }
}

/// An [`Amount`] in atomics. Relaxed: bounds need no order, and statistics have fences.
#[derive(Debug)]
pub struct SharedAmount {
    count: AtomicU64,
    unknown: Unmodelled,
    bytes: AtomicU64,
}

impl SharedAmount {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { count: AtomicU64::new(0), unknown: Unmodelled::new(0), bytes: AtomicU64::new(0) }
        }
    }

    #[inline(always)]
    fn store(&self, amount: Amount) {
        self.count.store(amount.count, Relaxed);
        self.unknown.store(amount.unknown, Relaxed);
        self.bytes.store(amount.bytes, Relaxed);
    }

    #[inline(always)]
    pub fn get(&self) -> Amount {
        Amount {
            count: self.count.load(Relaxed),
            unknown: self.unknown.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }

    /// Adds to an amount that only the calling thread changes. Returns the sums of the numbers and the bytes.
    #[inline(always)]
    fn add(&self, amount: Amount) -> [u64; 2] {
        if amount.unknown != 0 {
            self.unknown.store(self.unknown.load(Relaxed) + amount.unknown, Relaxed);
        }
        let (count, bytes) =
            (self.count.load(Relaxed) + amount.count, self.bytes.load(Relaxed) + amount.bytes);
        self.count.store(count, Relaxed);
        self.bytes.store(bytes, Relaxed);
        [count, bytes]
    }

    /// Adds to an amount that all threads change.
    fn fetch_add(&self, amount: Amount) {
        self.count.fetch_add(amount.count, Relaxed);
        if amount.unknown != 0 {
            self.unknown.fetch_add(amount.unknown, Relaxed);
        }
        self.bytes.fetch_add(amount.bytes, Relaxed);
    }
}

/// What an owner has pushed and run since its last report.
#[derive(Debug)]
pub struct Unreported {
    pushed: SharedAmount,
    run: SharedAmount,
}

impl Unreported {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { pushed: SharedAmount::new(), run: SharedAmount::new() }
        }
    }

    /// For the owner, as all below: counts a callback that it pushes. Returns the number and the bytes of all.
    #[inline(always)]
    pub fn push(&self, amount: Amount) -> [u64; 2] {
        self.pushed.add(amount)
    }

    /// Counts callbacks that it has run.
    pub fn run(&self, amount: Amount) {
        // Release: what it has pushed is found with what it has run; pairs with the fence in `Reported::all_run`.
        fence(Release);
        self.run.add(amount);
    }

    /// Returns `true` if it has run more callbacks than it has pushed, or `bytes` more.
    pub fn has_run_more(&self, bytes: u64) -> bool {
        let (run, pushed) = (self.run.get(), self.pushed.get());
        run.count > pushed.count || run.bytes >= pushed.bytes + bytes
    }

    /// Reports what it has pushed, and returns how many that is.
    pub fn report_pushed(&self, reported: &Reported) -> u64 {
        let pushed = self.pushed.get();
        reported.push(pushed);
        // Release: what is not found here any more is found in the backlog; pairs with the fence in
        // `Reported::all_pushed`.
        fence(Release);
        self.pushed.store(Amount::default());
        pushed.count
    }

    /// Reports, and returns how many it has pushed and run.
    pub fn report(&self, reported: &Reported) -> [u64; 2] {
        let pushed = self.report_pushed(reported);
        let run = self.run.get();
        self.run.store(Amount::default());
        if run.count != 0 {
            reported.run(run);
        }
        [pushed, run.count]
    }

    /// Forgets both.
    pub fn forget(&self) {
        self.pushed.store(Amount::default());
        self.run.store(Amount::default());
    }
}

/// What all owners have reported: what was pushed, and what has run, which may be reported before it is reported
/// pushed.
#[derive(Debug)]
pub struct Reported {
    pushed: CachePadded<SharedAmount>,
    run: CachePadded<SharedAmount>,
}

impl Reported {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { pushed: CachePadded::new(SharedAmount::new()), run: CachePadded::new(SharedAmount::new()) }
        }
    }

    /// Counts callbacks that were pushed.
    pub fn push(&self, amount: Amount) {
        self.pushed.fetch_add(amount);
    }

    /// Counts callbacks that have run.
    pub fn run(&self, amount: Amount) {
        // Release: they are found pushed, and not as what an owner has run too; pairs with the first fence in
        // `all_run`.
        fence(Release);
        self.run.fetch_add(amount);
    }

    /// Returns all that has run, with what the owners have not reported. A statistic; to be read before `all_pushed`.
    pub fn all_run<'a>(&self, owners: impl Iterator<Item = &'a Unreported>) -> Amount {
        let mut all = self.run.get();
        // Acquire: pairs with the Release in `run`.
        fence(Acquire);
        owners.for_each(|owner| all += owner.run.get());
        // Acquire: pairs with the Release in `Unreported::run`.
        fence(Acquire);
        all
    }

    /// Returns all that was pushed, with what the owners have not reported. A statistic.
    pub fn all_pushed<'a>(&self, owners: impl Iterator<Item = &'a Unreported>) -> Amount {
        let mut all = Amount::default();
        owners.for_each(|owner| all += owner.pushed.get());
        // Acquire: pairs with the Release in `Unreported::report_pushed`.
        fence(Acquire);
        all += self.pushed.get();
        all
    }

    /// Returns what has been reported and waits.
    pub fn waiting(&self) -> Amount {
        self.pushed.get().without(self.run.get())
    }

    /// Returns the number of callbacks that have run.
    pub fn has_run(&self) -> u64 {
        self.run.count.load(Relaxed)
    }

    /// Forgets what waits.
    #[cfg(not(loom))]
    pub fn forget_waiting(&self) {
        self.pushed.store(self.run.get());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn owner_has_run_more_after_more_callbacks_or_so_many_bytes() {
        let amount = |count, bytes| Amount { count, unknown: 0, bytes };
        for (run, has_run_more) in [((3, 107), false), ((4, 0), true), ((0, 108), true)] {
            let owner = Unreported::new();
            _ = owner.push(amount(3, 8));
            owner.run(amount(run.0, run.1));
            assert_eq!(owner.has_run_more(100), has_run_more, "{run:?}");
        }
    }
}
