//! What hazard pointers protect: how one protects a value, and how threads that free what was retired find it.
//!
//! A hazard pointer has a [`Slot`](super::slot::Slot). It protects the value whose address is there. A value that was
//! retired is freed if no slot had its address when a thread [collected](Protected::collect) all addresses, after a
//! grace period that began after the value was retired. A retired value was unpublished before.
//!
//! # Why a collection finds each protection
//!
//! ```text
//! hazard pointer              writer                          threads that free
//! p = source                  source = another
//! slot = p                    retires p
//! light fence                 ─────────────────────────────▶  heavy fence of a grace period
//! source = p? uses p          ◀─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─  collects; slot = p? keeps p
//! ```
//!
//! The heavy fence orders the reader's store and load in one of two ways.
//!
//! 1. *The light fence precedes the heavy one.* Then the collection, which comes after the grace period, sees the
//!    store of `p`, or a later one. A later one is a Release, and the collection an Acquire: the reader has done with
//!    `p` before it is freed.
//! 2. *The light fence follows the heavy one.* Then the second load of the source sees the unpublishing: it does not
//!    return `p`, or `p` was published again, which is another retirement's concern.
//!
//! So every grace period of a domain with hazard pointers issues a heavy fence, also where no thread reads in
//! sections. The collection may come at any time after it, by any thread, and serves all that was retired before it.
//!
//! *A value that is loaded in a section* is stored in a slot before the section ends. The grace period waits for the
//! section, which is left by a Release: so the collection sees the store. There is no second load, and no fence.
//!
//! *A value that is protected already* may be protected by a second hazard pointer only by such a load. Otherwise a
//! collection could read the second slot before it is filled and the first after it is cleared, and see neither.
//!
//! *Values without a size* share one address, and any number of them may be retired at once. To run one function with
//! one address is the same whichever of them is meant, so a thread that frees a batch leaves no more of these calls
//! than slots have the address ([`Protected::take`]). Those suffice: each slot that has one of the batch is in the
//! collection. They also stand for the others when they are looked at again, after another grace period and with a
//! later collection, which has the slots of these that still protect.
//!
//! # Cost
//!
//! A collection loads the slots of all [active records](super::record), and makes a table of the addresses.
//! Threads that free what one grace period serves share it ([`LastCollection`]).
//!
//! # Source
//!
//! Michael, *Hazard pointers: safe memory reclamation for lock-free objects* (2004). Goldblatt's proposal of
//! asymmetric fences (P1202) names the use.

use std::sync::Arc;

use super::record::Records;
use super::slot::Slot;
use crate::sync::{ForkSafe, Mutex, const_unless_loom};

/// The addresses that hazard pointers protected at a moment.
#[derive(Debug, Clone, Default)]
pub struct Protected {
    set: Option<Arc<Addresses>>,
    /// What the thread that has this has left of values without a size: address, function, and how many calls.
    left: Vec<(usize, usize, usize)>,
}

/// A hash table with linear probing. At least half of its places are empty: 0, which is no address.
#[derive(Debug)]
struct Addresses {
    /// A power of two of them.
    places: Vec<usize>,
    /// How many slots have the address of values without a size, by [`without_size`].
    without_size: [usize; ALIGNMENTS],
}

/// Alignments below a page, where no value with a size lies.
const ALIGNMENTS: usize = 12;

/// Returns the logarithm of the address if it is that of values without a size, which is their alignment. (Those of a
/// larger alignment are left as others are, all of them.)
fn without_size(address: usize) -> Option<usize> {
    (address.is_power_of_two() && address < 1 << ALIGNMENTS).then(|| address.trailing_zeros() as usize)
}

impl Addresses {
    fn new(addresses: &[usize]) -> Self {
        let len = (2 * addresses.len()).next_power_of_two();
        let mut table = Self { places: vec![0; len], without_size: [0; ALIGNMENTS] };
        for &address in addresses {
            let place = table.find(address);
            table.places[place] = address;
            if let Some(alignment) = without_size(address) {
                table.without_size[alignment] += 1;
            }
        }
        table
    }

    /// Returns the place of an address, or the empty one where it would be.
    #[inline]
    fn find(&self, address: usize) -> usize {
        let last = self.places.len() - 1;
        // Fibonacci hashing (Knuth): the upper bits depend on all others.
        let hash = (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let mut place = hash as usize & last;
        while self.places[place] != 0 && self.places[place] != address {
            place = (place + 1) & last;
        }
        place
    }
}

impl Protected {
    /// Returns what the slots of all threads protect now.
    fn collect(records: &Records) -> Self {
        let mut found: Vec<usize> = Vec::new();
        records.slots().filter_map(Slot::address).for_each(|address| found.push(address));
        Self { set: (!found.is_empty()).then(|| Arc::new(Addresses::new(&found))), left: Vec::new() }
    }

    /// Returns `true` if a slot protected `address`.
    #[inline]
    pub fn contains(&self, address: usize) -> bool {
        self.set.as_ref().is_some_and(|set| set.places[set.find(address)] != 0)
    }

    /// Returns `true` if a call of `function` with `address`, which a slot protected, must be left for later: unless
    /// the address is that of values without a size, and this has returned `true` for as many such calls as slots had
    /// it.
    #[cold]
    pub fn take(&mut self, address: usize, function: usize) -> bool {
        let (Some(set), Some(alignment)) = (&self.set, without_size(address)) else { return true };
        for (left_address, left_function, left) in &mut self.left {
            if (*left_address, *left_function) == (address, function) {
                let must_leave = *left < set.without_size[alignment];
                *left += usize::from(must_leave);
                return must_leave;
            }
        }
        self.left.push((address, function, 1));
        true
    }
}

/// The last collection, for all threads that free what the same grace periods serve.
#[derive(Debug)]
pub struct LastCollection {
    records: &'static Records,
    /// With the number of grace periods that had ended before, at least.
    last: ForkSafe<Mutex<Option<(u64, Protected)>>>,
}

impl LastCollection {
    const_unless_loom! {
        /// `records` has the slots.
        pub fn new(records: &'static Records) -> Self {
            Self { records, last: ForkSafe::new(Mutex::new(None)) }
        }
    }

    /// Returns the records with the slots.
    pub fn records(&self) -> &'static Records {
        self.records
    }

    /// Returns what slots protected at a moment at which `completed` grace periods had ended, as the caller knows.
    pub fn protected(&self, completed: u64) -> Protected {
        // Nothing under the lock panics, nor runs code of the program.
        let mut last = self.last.get().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((number, protected)) = &*last {
            if *number >= completed {
                return protected.clone();
            }
        }
        let protected = Protected::collect(self.records);
        *last = Some((completed, protected.clone()));
        protected
    }

    /// Forgets what was collected.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and not inside a function of this.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.last.overwrite(Mutex::new(None)) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::ptr::without_provenance_mut;

    use super::*;

    #[test]
    fn calls_are_left_for_each_slot_and_function() {
        let records: &Records = Box::leak(Box::new(Records::new(0)));
        let own = records.of(records.claim().expect("memory"));
        for (slot, address) in own.slots().iter().zip([16, 1, 1, 8, 1, 0x10_0000]) {
            slot.set(without_provenance_mut(address));
        }
        let last = LastCollection::new(records);
        for _ in 0..2 {
            // Each thread that asks begins anew.
            let mut protected = last.protected(1);
            let expected = [(1, 20, 3), (16, 20, 1), (1, 21, 3), (8, 20, 1), (0x10_0000, 20, usize::MAX)];
            for (address, function, slots) in expected {
                assert!(protected.contains(address));
                let left = (0..10).map(|_| protected.take(address, function));
                assert!(left.eq((0..10).map(|number| number < slots)), "{address}");
            }
        }
    }
}
