//! The locks of a map, and its number of entries.

use std::sync::OnceLock;

use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering::*};

/// The locks, a power of two of them, which the lowest bits of hashes choose. They are made at the first use.
pub struct Stripes(OnceLock<Box<[Stripe]>>);

/// A lock, and the number of entries that it guards: on the line that a writer has anyway.
#[repr(align(64))]
pub struct Stripe {
    lock: Mutex<()>,
    /// Changes under the lock.
    entries: AtomicUsize,
    /// Removals until one counts the entries of all stripes, of those that leave few in this one. Changes under the
    /// lock.
    skips: AtomicUsize,
}

/// Stripes that such a removal looks at, on average.
const LOOKS: usize = 8;

impl Stripes {
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    #[inline(always)]
    fn all(&self) -> &[Stripe] {
        self.0.get_or_init(|| make(usual()))
    }

    /// Returns that many of them, not as many as is usual.
    #[cfg(all(test, not(loom)))]
    pub fn of(count: usize) -> Self {
        Self(OnceLock::from(make(count)))
    }

    /// Returns the number of stripes.
    pub fn len(&self) -> usize {
        self.all().len()
    }

    /// Returns the stripe of a hash, or of the bucket of any table with the number `hash`.
    #[inline(always)]
    pub fn of_hash(&self, hash: u64) -> &Stripe {
        let all = self.all();
        // SAFETY: the length is a power of two.
        unsafe { all.get_unchecked(hash as usize & (all.len() - 1)) }
    }

    /// The map has no entries any more, and belongs to the caller.
    #[cfg(not(loom))]
    pub fn reset(&self) {
        // Relaxed: no other thread has the map.
        self.0
            .get()
            .into_iter()
            .flat_map(|all| all.iter())
            .for_each(|stripe| stripe.entries.store(0, Relaxed));
    }

    /// Returns the number of entries: exact if no thread changes it at the same time.
    pub fn entries(&self) -> usize {
        #[cfg(all(test, not(loom)))]
        SUMS.set(SUMS.get() + 1);
        // Relaxed: a number.
        self.0.get().map_or(0, |all| all.iter().map(|stripe| stripe.entries.load(Relaxed)).sum())
    }
}

impl Stripe {
    /// Takes the lock.
    #[inline(always)]
    pub fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock()
    }

    /// Adds to the number of entries, under the lock, and returns it.
    pub fn count(&self, by: isize) -> usize {
        // Relaxed: under the lock; other threads only want a number.
        let entries = self.entries.load(Relaxed).wrapping_add_signed(by);
        self.entries.store(entries, Relaxed);
        entries
    }

    /// Returns `true` if a removal, which has left few entries here, is to count those of all stripes: one in every few,
    /// as the numbers of stripes differ, and a map that is not sparse has stripes that look so. Under the lock.
    pub fn counts_all(&self, stripes: usize) -> bool {
        // Relaxed: under the lock.
        let skips = self.skips.load(Relaxed);
        self.skips.store(skips.checked_sub(1).unwrap_or_else(|| (stripes / LOOKS).max(1) - 1), Relaxed);
        skips == 0
    }
}

fn make(count: usize) -> Box<[Stripe]> {
    // Not all at once: when the map empties, the stripes count one after the other.
    let stripe = |index| Stripe {
        lock: Mutex::new(()),
        entries: AtomicUsize::new(0),
        skips: AtomicUsize::new(index % (count / LOOKS).max(1)),
    };
    (0..count).map(stripe).collect()
}

/// Returns the number of stripes on this machine, the same for all maps: a power of two, some for each CPU.
pub fn usual() -> usize {
    // Not a `OnceLock`, on which the child of a fork could wait for a thread that it does not have.
    static STRIPES: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);
    if cfg!(loom) {
        return 2;
    }
    // Relaxed: only the number.
    match STRIPES.load(Relaxed) {
        0 => {
            let cpus = std::thread::available_parallelism().map_or(1, usize::from);
            let stripes = (4 * cpus).next_power_of_two().clamp(16, 256);
            STRIPES.compare_exchange(0, stripes, Relaxed, Relaxed).map_or_else(|first| first, |_| stripes)
        }
        stripes => stripes,
    }
}

#[cfg(all(test, not(loom)))]
thread_local! {
    /// How often this thread has counted the entries of all stripes.
    pub static SUMS: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}
