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
}

impl Stripes {
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    fn all(&self) -> &[Stripe] {
        self.0.get_or_init(|| {
            let stripe = || Stripe { lock: Mutex::new(()), entries: AtomicUsize::new(0) };
            (0..usual()).map(|_| stripe()).collect()
        })
    }

    /// Returns the number of stripes.
    pub fn len(&self) -> usize {
        self.all().len()
    }

    /// Takes the lock of a hash, or of the bucket of any table with the number `hash`.
    pub fn lock(&self, hash: u64) -> (&Stripe, MutexGuard<'_, ()>) {
        let all = self.all();
        let stripe = &all[hash as usize & (all.len() - 1)];
        (stripe, stripe.lock.lock())
    }

    /// Returns the number of entries: exact if no thread changes it at the same time.
    pub fn entries(&self) -> usize {
        // Relaxed: a number.
        self.0.get().map_or(0, |all| all.iter().map(|stripe| stripe.entries.load(Relaxed)).sum())
    }
}

impl Stripe {
    /// Adds to the number of entries, under the lock, and returns it.
    pub fn count(&self, by: isize) -> usize {
        // Relaxed: under the lock; other threads only want a number.
        let entries = self.entries.load(Relaxed).wrapping_add_signed(by);
        self.entries.store(entries, Relaxed);
        entries
    }
}

/// Returns the number of stripes on this machine, the same for all maps.
fn usual() -> usize {
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
