//! The lock itself: taking it while it is free, spinning, releasing. The wait queue is in [`queue`](super::queue).
//!
//! Running threads *steal* the lock past the queue until the head has waited for a *quantum*. Then the lock is
//! *reserved* for the head. The word is described in [`word`](super::word).
//!
//! 1. *Lock.* Take or steal a free lock; otherwise spin for a bounded time, *yield* the CPU, then queue. Every few
//!    steals the thread checks the clock on behalf of the head, and reserves the lock if the head has waited for too
//!    long.
//! 2. *Queue.* Become the tail, and park on the own node until promoted. The head spins, then parks.
//! 3. *The head takes the lock*, promotes the next waiter and wakes it.
//! 4. *Release.* One read-modify-write. The value that it returns says whether there is a thread to wake.
//!
//! # Yielding
//!
//! A thread that parks leaves its CPU idle until the scheduler has woken another one, which takes longer than most
//! critical sections. So threads that contend stay runnable where they can, and the scheduler alternates between them
//! (as in Pizlo's "Locking in WebKit", 2016, and `parking_lot`):
//!
//! - A thread that has contended for the same lock for [`Policy::YIELD_AFTER_NS`] yields before it spins, so that
//!   others take their turns. Not if it has waited for a condition variable shortly before: it sleeps now and then
//!   anyway, and a yield would often separate a producer from its consumer, so that both sleep.
//! - A thread that finds the lock reserved yields, because the head may need its CPU.
//! - A thread that has spun without success yields, because the holder may need its CPU.
//!
//! After [`Policy::YIELDS`] yields of the last two kinds, the thread queues, and parks. Beside other busy programs, a
//! thread that was notified shortly before does not yield (see [`patience`](crate::lock::patience)).
//!
//! A thread that yields stands behind all that the scheduler has for its CPU. So threads with a deadline or a
//! real-time priority do not yield, nor do waits whose time is over. Threads that are bound to one CPU do not either:
//! the next wake-up costs them nothing, and the queue bounds their waits better. If their waits have a limit, they
//! do: the limit bounds the wait, which fails unless the holder runs before that. If the process has one CPU, no
//! thread spins.
//!
//! # Invariants
//!
//! 1. The word changes by read-modify-writes only, so every release sequence on it continues for ever.
//! 2. Only the head dequeues the head: it takes the lock, or gives up. From then until the end of the promotion there
//!    is no head, and the promoter unlinks abandoned nodes in its place. A queue that the child of a fork has
//!    inherited has no head, and is dropped by one compare-exchange.
//! 3. *No wake-up is lost.* While the head is parked, the word has [`PARKED`], so each release kicks the head. Each
//!    promotion wakes the new head. [`PARKED`] remains until the head takes the lock. A release that finds it and an
//!    awake head does nothing.
//! 4. [`PENDING`] is set only while there is a head. It is cleared when the head takes the lock, when the queue
//!    becomes empty, and when a thread bypasses a stalled head.
//! 5. After the change of the word that releases the lock, the lock's memory is not accessed: it may have been freed.
//!    The node that is kicked is in the static table. If it is in other use by then, its owner loads the word again
//!    and parks again.
//!
//! # Orderings
//!
//! - Taking the lock acquires, releasing it releases.
//! - The unlocker executes an Acquire fence before it reads a node, because [`PARKED`] was published after the node's
//!   state. The compare-exchange of the kick cannot replace the fence. It may fail, and *a failed compare-exchange
//!   orders nothing*: it would be a plain load that returns an old state, and the head would sleep on.
//! - Links are written before a Release of the word (by a thread that enqueues, a head that takes the lock, a head
//!   that gives up), and read after an Acquire load of the word. So the states of nodes need no ordering, except
//!   where a node changes its owner.

use super::polling::lock_polling;
use super::queue::WaitQueue;
use super::word::{LOCKED, LockWord, PARKED, PENDING, head, is_reserved};
use crate::lock::events::{self, Wait};
use crate::lock::nodes::{HEAD_PARKED, table};
use crate::lock::policy::Policy;
use crate::lock::spin::{Spin, Yields};
use crate::lock::waiter::{self, Place, Waiter};
use crate::sync::{Ordering::*, const_unless_loom, fence, now, step};

/// The queued lock, with the mechanisms and constants of a policy.
#[derive(Debug)]
pub struct Raw<P> {
    word: LockWord<P>,
}

/// For the models.
#[cfg(loom)]
impl<P: Policy> Raw<P> {
    /// Creates a lock that is held, with a queue of the nodes 1 to `last`, all awake.
    pub fn with_queue(last: u32) -> Self {
        use crate::lock::nodes::{HEAD, WAITING};
        for id in 1..=last {
            assert_eq!(table().alloc(), Some(id));
            let node = table().node(id);
            node.prev.store(id - 1, Relaxed);
            node.state.store(if id == 1 { HEAD } else { WAITING }, Relaxed);
        }
        Self { word: LockWord::new(super::word::with_queue(LOCKED, 1, last)) }
    }

    /// Returns the head.
    pub fn head(&self) -> u32 {
        head(self.word.load(Relaxed))
    }

    /// Calls `f` with the wait queue.
    pub fn in_queue<R>(&self, f: impl FnOnce(&WaitQueue<'_, P>) -> R) -> R {
        waiter::with(|waiter| f(&WaitQueue(&self.word, waiter)))
    }

    /// The caller frees the memory of the lock.
    pub fn free_memory(&self) {
        self.word.free_memory();
    }
}

impl<P: Policy> Default for Raw<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Policy> Raw<P> {
    const_unless_loom! {
        /// Creates a free lock.
        pub fn new() -> Self {
            Self { word: LockWord::new(0) }
        }
    }

    /// Returns the address of the lock.
    pub fn address(&self) -> usize {
        self.word.address()
    }

    /// Returns `true` if there is a wait queue.
    pub fn has_queue(&self) -> bool {
        // Relaxed: for probes only.
        head(self.word.load(Relaxed)) != 0
    }

    /// Takes the lock; blocks until that is possible.
    #[inline]
    pub fn lock(&self) {
        // Acquire, wherever a thread takes the lock: pairs with the Release in `unlock` and `unlock_fair`.
        if let Err(word) = self.word.compare_exchange(0, LOCKED, Acquire, Relaxed) {
            self.lock_contended(word);
        }
    }

    /// Takes the lock if it is free and not reserved for the head. Returns `true` if the caller holds it.
    #[inline]
    pub fn try_lock(&self) -> bool {
        match self.word.compare_exchange(0, LOCKED, Acquire, Relaxed) {
            Ok(_) => true,
            Err(word) => self.word.steal(word),
        }
    }

    /// Takes the lock; blocks until the clock shows `until` nanoseconds at most. Returns `true` if the caller holds
    /// it.
    pub fn lock_until(&self, until: u64) -> bool {
        self.try_lock() || self.lock_slow(Some(until))
    }

    /// Releases the lock.
    ///
    /// # Safety
    ///
    /// The caller holds it.
    #[inline]
    pub unsafe fn unlock(&self) {
        // Release: publishes the critical section; pairs with the Acquire of the next holder.
        let word = self.word.fetch_sub(LOCKED, Release);
        if word != LOCKED {
            self.unlock_slow(word);
        }
    }

    /// Releases the lock, and reserves it for the head if there is one.
    ///
    /// # Safety
    ///
    /// The caller holds it.
    pub unsafe fn unlock_fair(&self) {
        let mut word = self.word.load(Relaxed);
        loop {
            let pending = if self.word.has_live_head(word) { PENDING } else { 0 };
            // Release: as in `unlock`.
            match self.word.compare_exchange(word, word & !LOCKED | pending, Release, Relaxed) {
                Ok(_) => return self.unlock_slow(word),
                Err(now) => word = now,
            }
        }
    }

    /// Returns `true` if a thread holds the lock.
    pub fn is_locked(&self) -> bool {
        self.word.load(Relaxed) & LOCKED != 0
    }

    #[cold]
    fn lock_contended(&self, word: u32) {
        if !self.word.steal(word) {
            self.lock_slow(None);
        }
    }

    /// Takes the lock by spinning, then in the queue; blocks until the clock shows `until` at most. Returns `true` if
    /// the caller holds it.
    #[cold]
    fn lock_slow(&self, until: Option<u64>) -> bool {
        let lock = self.word.address();
        events::contended(lock, Wait::Exclusive);
        let acquired = waiter::with(|waiter| {
            // A thread that may still have a node in the queue does not spin.
            if !waiter.has_abandoned_at(lock) {
                if self.spin(waiter, until) {
                    return true;
                }
                // A place in the queue for no time would burden the others.
                if until.is_some_and(|until| now() > until) {
                    return false;
                }
            }
            let queue = WaitQueue(&self.word, waiter);
            let (id, acquired) = match waiter.acquire(lock, until.is_some()) {
                Place::Tail(id) => (id, queue.lock(id, until)),
                Place::Rejoined(id) => (id, queue.rejoin(id, until)),
                Place::None => return lock_polling(&self.word, until),
            };
            waiter.release(id);
            acquired
        });
        events::wait_ends(lock, Wait::Exclusive, acquired, || self.has_queue());
        acquired
    }

    /// Spins for a bounded time, then yields the CPU to other threads unless the clock shows `until`. Returns `true`
    /// if the caller holds the lock.
    ///
    /// Each load of the word costs the holder a cache miss. So, if the section is not one of the shortest, the pauses
    /// between the loads double up to a bound.
    fn spin(&self, waiter: &Waiter, until: Option<u64>) -> bool {
        let mut yields = Yields::new(P::YIELDS, until);
        if waiter.has_contended_for(self.word.address(), P::YIELD_AFTER_NS, now()) {
            yields.yield_cpu(waiter);
        }
        let mut spin = Spin::with_backoff(P::BACKOFF_NS);
        loop {
            let word = self.word.load(Relaxed);
            let is_reserved = is_reserved(word);
            if LockWord::<P>::may_steal(word) && self.word.try_steal(word, waiter).is_ok()
                || is_reserved && self.word.try_bypass(word)
            {
                return true;
            }
            if !is_reserved && spin.pause() {
                continue;
            }
            if !yields.next(waiter) {
                return false;
            }
        }
    }

    /// Slow path of a release: wakes the head if it is parked. `word` is the value before the release. The lock's
    /// memory may have been freed (5).
    #[cold]
    fn unlock_slow(&self, word: u32) {
        if word != LOCKED {
            events::handover(self.address());
        }
        if word & PARKED != 0 {
            // Acquire: the state of the parked head; pairs with the Release in `park_as_head`.
            fence(Acquire);
            step!("no-kick", Self::kick(head(word)));
        }
    }

    /// Wakes the head if it is parked. The caller has acquired a word with [`PARKED`].
    fn kick(id: u32) {
        let node = table().node(id);
        // Relaxed, both: a state older than the one with which it parked cannot be read.
        if node.state.load(Relaxed) != HEAD_PARKED {
            return;
        }
        node.wake_as_head(HEAD_PARKED);
    }
}
