//! Changes of single entries, each of which may have the table grow or shrink.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::bucket::{NEXT, Section, Shape};
use super::chain::Moved;
use super::locked::{Change, Locked};
use super::{Table, Tables};
use crate::sync::step;

/// A table grows when it has an overflow bucket for so many of its buckets, and more entries than it has room for. If
/// the hashes are random, and nothing was removed, a table of pairs of numbers has both at the same time: five
/// entries for each bucket of seven slots.
const CHAINED: usize = 8;

/// Or when it has so many, half of those that have a number, and entries for half of its room.
const MOST: usize = NEXT as usize / 2;

/// Tables above that many buckets count their entries, before they grow, in some insertions only.
const LARGE: usize = 4096;

/// The locked chain of a hash, in the table in which it is changed.
pub struct Changing<'g, S: Shape> {
    pub chain: Locked<'g, S>,
    table: &'g Table<S>,
    /// Whether a table before it is being resized.
    is_moving: bool,
}

impl<S: Shape> Tables<S> {
    /// Locks the chain of a hash.
    #[inline(always)]
    #[track_caller]
    pub fn begin_change<'g>(
        &self,
        hash: u64,
        rehash: S::Rehash<'_>,
        section: &'g Section<S>,
    ) -> Changing<'g, S> {
        let mut table = self.current(section).unwrap_or_else(|| self.first(section));
        let mut is_moving = false;
        loop {
            if let Some(next) = table.next.load(section).as_ref() {
                step!("chain-not-moved-first", self.move_chain(table, next, hash as usize, rehash, section));
                (table, is_moving) = (next, true);
                continue;
            }
            match table.chain(hash).lock() {
                Ok(chain) => return Changing { chain, table, is_moving },
                Err(Moved) => table = table.next(section),
            }
        }
    }

    /// Releases the lock, and does what the change leaves to do.
    #[inline(always)]
    #[track_caller]
    pub fn end_change(
        &self,
        Changing { chain, table, is_moving }: Changing<'_, S>,
        change: Change,
        hash: u64,
        rehash: S::Rehash<'_>,
        section: &Section<S>,
    ) {
        drop(chain);
        if change.entries != 0 {
            self.entries.add(change.entries);
        }
        if is_moving {
            self.help(rehash, section);
        } else if change.overflow.is_some_and(|used| used > (table.len() / CHAINED).min(MOST)) {
            if table.len() <= LARGE || is_sample(hash) {
                self.grow(table, change.overflow > Some(MOST), section);
            }
        } else if change.is_empty && table.len() > Table::<S>::LEAST && is_sample(hash) {
            self.shrink(table, section);
        }
    }
}

/// Returns `true` for one of a few hashes: changes of these count the entries, which takes a load for each CPU.
fn is_sample(hash: u64) -> bool {
    cfg!(loom) || (hash >> 32) as usize & (samples() - 1) == 0
}

/// Returns the number of hashes of which one is a sample, on this machine: a power of two, some for each CPU.
fn samples() -> usize {
    // Not a `OnceLock`, on which the child of a fork could wait for a thread that it does not have.
    static SAMPLES: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: only the number.
    match SAMPLES.load(Relaxed) {
        0 => {
            let cpus = std::thread::available_parallelism().map_or(1, usize::from);
            let samples = (4 * cpus).next_power_of_two().clamp(16, 256);
            SAMPLES.store(samples, Relaxed);
            samples
        }
        samples => samples,
    }
}
