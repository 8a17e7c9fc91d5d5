//! The waiters of a condition variable: a list of nodes of the [table](crate::lock::nodes), in order of arrival.
//!
//! One word has the numbers of the first and the last node, a lock bit, and a generation. A thread that sets the lock
//! bit may change the list. It makes no system call then.
//!
//! A waiter appends its node, spins for a short time, and then makes its state [`WAITING_PARKED`] and sleeps until it
//! is [`NOTIFIED`]. A notifier takes the first nodes from the list and makes them [`NOTIFIED`], unlocks the list, and
//! wakes the owners of those that were [`WAITING_PARKED`]. A waiter whose time is over locks the list, and removes
//! its node unless a notifier has taken it.
//!
//! # Example
//!
//! ```text
//! first 3, last 5     3 <-> 4 <-> 5     all WAITING
//! the owner of 3      makes it WAITING_PARKED, and sleeps
//! notify(2)           locks; first 5, last 5; 3 and 4 NOTIFIED; unlocks; wakes the thread that sleeps on 3
//! ```
//!
//! # Invariants
//!
//! 1. A node is in the list exactly while its state is [`WAITING`] or [`WAITING_PARKED`]. Whether it is changes while
//!    the list is locked. The owner alone changes the first into the second, and sleeps in the second only.
//! 2. The notifier reads the links of a node before it makes it [`NOTIFIED`], and does not access it afterwards: it
//!    wakes a thread that sleeps on the address. If the node is in other use then, its owner loads the state again.
//! 3. The child of a fork finds another generation in the word: the list is that of threads of the parent, and
//!    whether it is locked is too. It counts as empty.

use core::num::NonZeroU32;

use crate::lock::nodes::{IDLE, NODE_BITS, NOTIFIED, WAITING, WAITING_PARKED, table};
use crate::lock::spin::Spin;
#[cfg(not(loom))]
use crate::lock::waiter;
use crate::sync::{Futex, LoomAccess, Ordering::*, const_unless_loom, spin_iterations, spin_loop, step};

const NODE: u64 = (1 << NODE_BITS) - 1;
const LAST_SHIFT: u32 = NODE_BITS;
/// The list is locked.
const LOCKED: u64 = 1 << 28;
/// A thread may sleep until the list is unlocked.
const CONTENDED: u64 = 1 << 29;
/// Where the generation is, in the half that the kernel does not compare.
const GENERATION_SHIFT: u32 = 32;

const _: () = assert!(2 * NODE_BITS <= 28);

/// See the [module](self).
#[derive(Debug)]
pub struct WaitList {
    word: Futex,
    /// Accessed while the list is locked.
    links: LoomAccess,
}

/// The list, while it is locked.
#[derive(Debug)]
pub struct Locked<'a> {
    list: &'a WaitList,
    first: u32,
    last: u32,
}

/// As many waiters are notified while the list is locked, at most.
const BATCH: usize = if cfg!(loom) { 1 } else { 32 };

impl WaitList {
    const_unless_loom! {
        pub fn new() -> Self {
            Self { word: Futex::new(0), links: LoomAccess::new() }
        }
    }

    /// Returns `true` if no thread waits. A waiter that has arrived before the call, in the order of the mutex, is
    /// found until it is taken from the list.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: the mutex orders it after the unlocking by which a waiter was appended.
        self.word.load(Relaxed) & NODE == 0
    }

    /// Locks the list.
    pub fn lock(&self) -> Locked<'_> {
        let generation = table().generation() << GENERATION_SHIFT;
        let (mut spin, mut contended) = (Spin::new(), 0);
        let mut word = self.word.load(Relaxed);
        loop {
            if word >> GENERATION_SHIFT << GENERATION_SHIFT != generation {
                // Of the parent (3).
                match self.word.compare_exchange(word, generation | LOCKED, Relaxed, Relaxed) {
                    Ok(_) => return Locked { list: self, first: 0, last: 0 },
                    Err(now) => word = now,
                }
            } else if word & LOCKED == 0 {
                // Acquire: the links; pairs with the Release in `unlock`.
                match self.word.compare_exchange(word, word | LOCKED | contended, Acquire, Relaxed) {
                    Ok(_) => {
                        let (first, last) = ((word & NODE) as u32, (word >> LAST_SHIFT & NODE) as u32);
                        return Locked { list: self, first, last };
                    }
                    Err(now) => word = now,
                }
            } else if spin.pause() {
                word = self.word.load(Relaxed);
            } else {
                // Others may sleep too, so the thread that unlocks the list after this one must wake them.
                contended = CONTENDED;
                // Relaxed: the bit publishes nothing.
                if word & CONTENDED != 0
                    || self.word.compare_exchange(word, word | CONTENDED, Relaxed, Relaxed).is_ok()
                {
                    self.word.wait(word | CONTENDED, NonZeroU32::MAX);
                }
                word = self.word.load(Relaxed);
            }
        }
    }

    /// Spins for `ns` nanoseconds, or until the node has been notified. Returns `true` if so.
    pub fn spin(id: u32, ns: u32) -> bool {
        let state = &table().node(id).state;
        // Relaxed: `sleep` loads it again.
        (0..spin_iterations(ns)).any(|_| {
            spin_loop();
            state.load(Relaxed) == NOTIFIED
        })
    }

    /// The owner of the node is about to sleep on its state, and has to be woken.
    pub fn announce_sleep(id: u32) {
        // Relaxed, both: it publishes nothing. If it fails, the node has been notified.
        let _ = table().node(id).state.compare_exchange(WAITING, WAITING_PARKED, Relaxed, Relaxed);
    }

    /// Sleeps until the node, which is appended, has been notified, or until the clock shows `until`. Returns `true`
    /// if the time is over: the node has been removed then.
    pub fn sleep(&self, id: u32, until: Option<u64>) -> bool {
        let node = table().node(id);
        Self::announce_sleep(id);
        // Acquire: the notifier is done with the links; pairs with the Release in `take_first`.
        while node.state.load(Acquire) == WAITING_PARKED {
            if node.state.wait(WAITING_PARKED, until) && self.try_remove(id) {
                return true;
            }
        }
        // Relaxed: the node is in no list.
        node.state.store(IDLE, Relaxed);
        false
    }

    /// Ends the wait of the node's owner, which is awake. Returns `false` if it has been notified.
    #[cfg(all(feature = "_pthread", not(loom)))]
    pub fn leave(&self, id: u32) -> bool {
        let state = &table().node(id).state;
        // Acquire, Relaxed: as in `sleep`.
        let removed = state.load(Acquire) != NOTIFIED && self.try_remove(id);
        if !removed {
            state.store(IDLE, Relaxed);
        }
        removed
    }

    /// Removes the node. Returns `false` if a notifier has taken it from the list.
    fn try_remove(&self, id: u32) -> bool {
        let mut list = self.lock();
        // Relaxed: whether the node is in the list changes while that is locked.
        let waits = matches!(table().node(id).state.load(Relaxed), WAITING | WAITING_PARKED);
        if waits {
            list.remove(id);
        }
        list.unlock();
        waits
    }

    /// Notifies the first waiters, `most` at most, of those that are in the list now. Returns their number.
    #[cold]
    pub fn notify(&self, most: u32) -> usize {
        let (mut left, mut count) = (most as usize, 0);
        loop {
            let mut batch = [(0, false); BATCH];
            let (mut taken, mut list) = (0, self.lock());
            if count == 0 && left > BATCH {
                // Those that wait again would keep it from ending.
                left = left.min(list.len());
            }
            while taken < left.min(BATCH) && !list.is_empty() {
                batch[taken] = list.take_first();
                taken += 1;
            }
            let is_empty = list.is_empty();
            list.unlock();
            for &(id, sleeps) in &batch[..taken] {
                if sleeps {
                    step!("notified-not-woken", table().node(id).state.wake(1));
                }
            }
            (left, count) = (left - taken, count + taken);
            #[cfg(not(loom))]
            if batch[..taken].iter().any(|&(_, sleeps)| sleeps) {
                waiter::with(|waiter| waiter.patience.woke_sleepers());
            }
            if is_empty || left == 0 {
                return count;
            }
        }
    }
}

impl Locked<'_> {
    /// Returns `true` if no thread waits.
    pub fn is_empty(&self) -> bool {
        self.first == 0
    }

    /// Returns the number of waiters.
    fn len(&self) -> usize {
        self.list.links.shared();
        let mut length = 0;
        let mut id = self.first;
        while id != 0 {
            // Relaxed: it changes while the list is locked.
            id = table().node(id).next.load(Relaxed);
            length += 1;
        }
        length
    }

    /// Appends a node.
    pub fn append(&mut self, id: u32) {
        let node = table().node(id);
        self.list.links.exclusive();
        node.owned.exclusive();
        // Relaxed, all: published by the Release in `unlock`.
        node.prev.store(self.last, Relaxed);
        node.next.store(0, Relaxed);
        node.state.store(WAITING, Relaxed);
        if self.last == 0 {
            self.first = id;
        } else {
            table().node(self.last).next.store(id, Relaxed);
        }
        self.last = id;
    }

    /// Removes a node.
    fn remove(&mut self, id: u32) {
        let node = table().node(id);
        self.list.links.exclusive();
        let (prev, next) = (node.prev.load(Relaxed), node.next.load(Relaxed));
        match prev {
            0 => self.first = next,
            _ => table().node(prev).next.store(next, Relaxed),
        }
        match next {
            0 => self.last = prev,
            _ => table().node(next).prev.store(prev, Relaxed),
        }
        node.state.store(IDLE, Relaxed);
    }

    /// Takes the first node from the list, which is not empty, and makes it [`NOTIFIED`]. Returns it, and whether its
    /// owner has to be woken.
    fn take_first(&mut self) -> (u32, bool) {
        let id = self.first;
        let node = table().node(id);
        self.list.links.exclusive();
        node.owned.shared();
        self.first = node.next.load(Relaxed);
        match self.first {
            0 => self.last = 0,
            first => table().node(first).prev.store(0, Relaxed),
        }
        // Release: this thread is done with the links; pairs with the Acquire in `sleep`.
        let was = node.state.swap(NOTIFIED, Release);
        (id, was == WAITING_PARKED)
    }

    /// Unlocks the list.
    pub fn unlock(self) {
        let nodes = u64::from(self.last) << LAST_SHIFT | u64::from(self.first);
        let generation = table().generation() << GENERATION_SHIFT;
        // Release: publishes the links; pairs with the Acquire in `lock`. Only other bits can change while it is
        // locked.
        let word = self.list.word.swap(generation | nodes, Release);
        if word & CONTENDED != 0 {
            step!("list-not-woken", self.list.word.wake(1, NonZeroU32::MAX));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::lock::nodes::exclude_other_tests;

    /// Five waiters, of which each leaves, or is notified while it is the first, or stays: in each combination, first
    /// to last and last to first.
    #[test]
    fn rest_of_the_list_is_in_order_whichever_waiters_leave() {
        const WAITERS: usize = 5;
        let _alone = exclude_other_tests();
        let ids = [(); WAITERS].map(|()| table().alloc().expect("there are enough"));
        let list = WaitList::new();
        for choices in 0..2 * 3_usize.pow(WAITERS as u32) {
            let mut waiting = ids.to_vec();
            for id in ids {
                let mut locked = list.lock();
                locked.append(id);
                locked.unlock();
            }
            let mut order = ids;
            if choices % 2 == 0 {
                order.reverse();
            }
            let mut choices = choices / 2;
            for id in order {
                let choice = choices % 3;
                choices /= 3;
                match choice {
                    0 => assert!(list.try_remove(id)),
                    1 if waiting[0] == id => assert_eq!(list.notify(1), 1),
                    _ => continue,
                }
                waiting.retain(|&other| other != id);
                assert!(!list.try_remove(id), "it is not in the list");
            }
            let mut locked = list.lock();
            assert_eq!(locked.len(), waiting.len());
            let rest: Vec<_> = waiting.iter().map(|_| locked.take_first()).collect();
            // None sleeps.
            assert!(rest.into_iter().eq(waiting.into_iter().map(|id| (id, false))) && locked.is_empty());
            locked.unlock();
            ids.iter().for_each(|&id| table().node(id).state.store(IDLE, Relaxed));
        }
        ids.iter().for_each(|&id| table().free(id));
    }
}
