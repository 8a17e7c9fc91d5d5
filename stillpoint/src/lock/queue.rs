//! The wait queue: a list of nodes as in an MCS lock, but with `prev` links that are set first.
//!
//! The states of nodes, and which thread parks and kicks which, follow the kernel's `qspinlock_paravirt.h`. The links
//! do not: in `qspinlock.c` a waiter exchanges the tail and then stores its predecessor's `next`, and a head that
//! leaves waits until that store is visible.
//!
//! The lock word holds the numbers of the head and tail nodes. A waiter stores `prev` *before* it publishes its node by
//! the compare-exchange on the tail, so a preempted waiter never leaves a gap. The head walks back from the tail to
//! fill in missing `next` links when it leaves.
//!
//! A waiter that times out *abandons* its node, and a promoter unlinks it. A head that times out promotes the next
//! waiter, and wakes it. So a queue always has a waiter, except during a promotion, and a lock that is not in use has
//! no nodes.
//!
//! # Stalled heads
//!
//! If the head is not scheduled (CPU quota, debugger, priority), other threads may bypass it. The first thread that
//! finds the lock free and reserved stores the time in the head's node. `BYPASS_NS` later the head counts as *stalled*:
//! a thread that finds the lock reserved for it takes the lock. The bypass clears the reservation and restarts the
//! head's quantum with a delay, so that the lock is not reserved for that head for some time.
//!
//! Waiters that are parked behind the head spin for the lock now and then. They may also take it if it is free and not
//! reserved, like any running thread. Such a waiter abandons its node first, so the node must be the thread's own
//! ([`thread`]).

use crate::sync::{Ordering::*, now, spin_iterations, spin_loop, step};

use super::events::Event;
use super::nodes::{
    ABANDONED, ABANDONED_EXITED, DEAD, HEAD, HEAD_PARKED, IDLE, Node, UNLINKING, WAITING, WAITING_PARKED,
    table,
};
use super::policy::{Policy, SPIN_NS};
use super::raw::{Outcome, Raw};
use super::thread;
use super::word::{LOCKED, PARKED, PENDING, flags, head, is_reserved, tail, with_queue};

/// A multiple of `BYPASS_NS`: waiters park for that long at most, and a head that was bypassed gets no reservation
/// for that long.
const BYPASS_APART: u64 = 16;

/// The result of an attempt to join the queue.
enum Enqueued {
    /// The lock was free, and the thread holds it.
    Acquired,
    /// The node is the head.
    AsHead,
    /// The node is behind another one.
    Behind,
}

/// When a parked waiter that becomes the head is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    Now,
    /// By the release of the lock, which the promoter holds.
    AtUnlock,
}

impl<P: Policy> Raw<P> {
    /// Takes the lock in the queue, with the node `id`. If it `may_abandon` the node, it may return before it was the
    /// head.
    pub(super) fn lock_queued(&self, id: u32, until: Option<u64>, may_abandon: bool) -> Outcome {
        let node = table().node(id);
        match self.enqueue(id, node) {
            Enqueued::Acquired => {
                // Relaxed: the node is in no queue.
                node.state.store(IDLE, Relaxed);
                Outcome::Acquired
            }
            Enqueued::AsHead => self.lock_as_head(id, node, until),
            Enqueued::Behind => self.lock_rejoined(id, until, may_abandon),
        }
    }

    /// Takes the lock in the queue, with the node `id`, which is already in it.
    pub fn lock_rejoined(&self, id: u32, until: Option<u64>, may_abandon: bool) -> Outcome {
        let node = table().node(id);
        match self.wait_in_queue(node, until, may_abandon) {
            Some(outcome) => outcome,
            None => self.lock_as_head(id, node, until),
        }
    }

    fn lock_as_head(&self, id: u32, node: &Node, until: Option<u64>) -> Outcome {
        let acquired = self.wait_as_head(id, node, until);
        // Relaxed: the node is in no queue. A late kick does no harm.
        node.state.store(IDLE, Relaxed);
        if acquired { Outcome::Acquired } else { Outcome::TimedOut }
    }

    /// Makes the node the tail, unless the lock can be taken.
    fn enqueue(&self, id: u32, node: &Node) -> Enqueued {
        node.owned.exclusive();
        node.next.store(0, Relaxed);
        // The time is that of an earlier wait.
        node.reserved_since.store(0, Relaxed);
        let mut word = self.word().load(Relaxed);
        loop {
            if Self::may_steal(word) {
                match self.try_steal(word) {
                    Ok(()) => return Enqueued::Acquired,
                    Err(now) => word = now,
                }
                continue;
            }
            if head(word) != 0 {
                step!(
                    "dead-queue-joined",
                    if !self.has_live_head(word) {
                        word = self.word().load(Relaxed);
                        continue;
                    }
                );
            }
            let last = tail(word);
            let (state, first) = if last == 0 { (HEAD, id) } else { (WAITING, head(word)) };
            if last == 0 {
                node.start_quantum(0);
            }
            node.prev.store(last, Relaxed);
            node.state.store(state, Relaxed);
            let queued = with_queue(flags(word), first, id);
            // Release: publishes the node; pairs with the Acquire loads of the word in `wait_as_head`, `dequeue_head`
            // and `unlink_abandoned_head`.
            match self.word().compare_exchange(word, queued, Release, Relaxed) {
                Ok(_) if last == 0 => return Enqueued::AsHead,
                Ok(_) => return Enqueued::Behind,
                Err(now) => word = now,
            }
        }
    }

    /// Parks until the node is the head. Returns an outcome if the wait ends before that. The kernel's `pv_wait_node`.
    fn wait_in_queue(&self, node: &Node, until: Option<u64>, may_abandon: bool) -> Option<Outcome> {
        let after = |intervals| now().saturating_add(P::BYPASS_NS.saturating_mul(intervals));
        let mut intervals = 1;
        let mut next_try = (P::BYPASS && may_abandon).then(|| after(intervals));
        loop {
            // Relaxed, here and below: what the previous head did is read through the word.
            match node.state.load(Relaxed) {
                WAITING => {
                    // If it fails, the node was promoted.
                    let _ = node.state.compare_exchange(WAITING, WAITING_PARKED, Relaxed, Relaxed);
                }
                WAITING_PARKED => {
                    let word = self.word().load(Relaxed);
                    let is_stalled = is_reserved(word) && Self::head_is_stalled(head(word));
                    if let Some(moment) = next_try {
                        if is_stalled || now() >= moment {
                            if let Some(outcome) = self.try_leave_and_bypass(node) {
                                return Some(outcome);
                            }
                            intervals = if is_reserved(word) { 1 } else { (intervals * 2).min(BYPASS_APART) };
                            next_try = Some(after(intervals));
                        } else if is_reserved(word) {
                            // The head may be stalled after one interval.
                            (intervals, next_try) = (1, Some(moment.min(after(1))));
                        }
                    }
                    let end = [until, next_try].into_iter().flatten().min();
                    P::count(Event::WaitNode);
                    if !node.state.wait(WAITING_PARKED, end) {
                        self.count_wake_up(node);
                    } else if until == end && self.abandon(node) {
                        return Some(Outcome::TimedOut);
                    }
                }
                HEAD_PARKED => {
                    self.sleep_as_head(node, until);
                }
                _ => return None,
            }
        }
    }

    /// Leaves the node in the queue without a waiter. Returns `false` if it was promoted meanwhile.
    fn abandon(&self, node: &Node) -> bool {
        node.owned.exclusive();
        // Release: publishes what the owner did with the node; pairs with the Acquire in `promote_next`.
        let abandoned = node.state.compare_exchange(WAITING_PARKED, ABANDONED, Release, Relaxed).is_ok();
        if abandoned {
            thread::with(|state| state.abandoned_at.set(self.address()));
        }
        abandoned
    }

    /// Spins for a lock that can be taken past the head, and abandons the node before it takes the lock. Returns `None`
    /// if the wait goes on.
    #[cold]
    fn try_leave_and_bypass(&self, node: &Node) -> Option<Outcome> {
        let (mut left, mut abandoned) = (spin_iterations(SPIN_NS), false);
        loop {
            let word = self.word().load(Relaxed);
            if Self::may_bypass(word) {
                // If it fails, the node was promoted.
                if !abandoned && !self.abandon(node) {
                    return None;
                }
                abandoned = true;
                if self.try_bypass(word) {
                    return Some(Outcome::Acquired);
                }
            }
            if left == 0 {
                return abandoned.then_some(Outcome::Retry);
            }
            left -= 1;
            spin_loop();
        }
    }

    /// Returns `true` if the lock is free, and either not reserved or reserved for a stalled head.
    fn may_bypass(word: u32) -> bool {
        word & LOCKED == 0 && (word & PENDING == 0 || Self::head_is_stalled(head(word)))
    }

    /// Returns `true` if a free lock has been reserved for this head for `BYPASS_NS`. The first call stores the time.
    fn head_is_stalled(id: u32) -> bool {
        let reserved_since = &table().node(id).reserved_since;
        // Relaxed, both: approximate times are enough.
        match reserved_since.load(Relaxed) {
            0 => {
                reserved_since.store(now().max(1), Relaxed);
                false
            }
            since => now().saturating_sub(since) >= P::BYPASS_NS,
        }
    }

    /// Takes the lock past its head if it [may](Self::may_bypass). Returns `true` if the caller holds it.
    #[cold]
    pub(super) fn try_bypass(&self, mut word: u32) -> bool {
        while P::BYPASS && Self::may_bypass(word) {
            let taken = (word | LOCKED) & !PENDING;
            match self.word().compare_exchange(word, taken, Acquire, Relaxed) {
                Ok(_) if word & PENDING == 0 => return true,
                Ok(_) => {
                    P::count(Event::Bypass);
                    table().node(head(word)).start_quantum(BYPASS_APART * P::BYPASS_NS);
                    return true;
                }
                Err(now) => word = now,
            }
        }
        false
    }

    /// Waits as the head: spins, reserves the lock after a quantum, parks. Returns `true` if the thread holds the
    /// lock, `false` if the time is over; the node is dequeued either way. The kernel's `pv_wait_head_or_lock`.
    fn wait_as_head(&self, id: u32, node: &Node, until: Option<u64>) -> bool {
        let mut left = spin_iterations(SPIN_NS);
        let mut reserves = P::RESERVATION && node.waited_as_head() >= P::QUANTUM_NS;
        loop {
            // Acquire: the nodes behind; pairs with the Release in `enqueue`.
            let word = self.word().load(Acquire);
            if word & LOCKED == 0 {
                if self.take_as_head(word, id) {
                    return true;
                }
            } else if reserves && word & PENDING == 0 {
                // Relaxed: it publishes nothing. If it fails, the next round repeats it.
                if self.word().compare_exchange(word, word | PENDING, Relaxed, Relaxed).is_ok() {
                    P::count(Event::Reserve);
                }
            } else if left > 0 {
                left -= 1;
                spin_loop();
            } else {
                if self.park_as_head(word, node, until) {
                    return self.dequeue_head(id);
                }
                left = spin_iterations(SPIN_NS);
                reserves = P::RESERVATION && node.waited_as_head() >= P::QUANTUM_NS;
            }
        }
    }

    /// Parks the head if the word is still `word`, in which the lock is held. Returns `true` if the time is over.
    fn park_as_head(&self, word: u32, node: &Node, until: Option<u64>) -> bool {
        // Relaxed: published by the Release below.
        node.state.store(HEAD_PARKED, Relaxed);
        // Release: publishes the state; pairs with the Acquire in `unlock_slow`. The exchange is needed even if the
        // word has `PARKED` already, as the state is new.
        if self.word().compare_exchange(word, word | PARKED, Release, Relaxed).is_err() {
            // Relaxed: the state was not published. A kick for an old word does no harm.
            node.state.store(HEAD, Relaxed);
            return false;
        }
        P::count(Event::WaitHead);
        self.sleep_as_head(node, until)
    }

    /// Sleeps until the node is not `HEAD_PARKED`. If the time is over, makes it `HEAD` and returns `true`.
    fn sleep_as_head(&self, node: &Node, until: Option<u64>) -> bool {
        // Relaxed, all: the word is loaded again.
        while node.state.load(Relaxed) == HEAD_PARKED {
            if node.state.wait(HEAD_PARKED, until) {
                // A waiter that was promoted while parked would time out again and again, and never leave.
                step!("parked-after-timeout", node.state.store(HEAD, Relaxed));
                return true;
            }
        }
        self.count_wake_up(node);
        false
    }

    /// Counts the wake-up of the owner of `node`, if it was kicked.
    fn count_wake_up(&self, node: &Node) {
        let kicked_at = if P::COUNTS { node.kicked_at.swap(0, Relaxed) } else { 0 };
        if kicked_at != 0 {
            P::add(Event::LatencyWakeNs, now().saturating_sub(kicked_at));
            if self.word().load(Relaxed) & LOCKED != 0 {
                P::count(Event::SpuriousWakeup);
            }
        }
    }

    /// Takes the free lock, for the head, and promotes the next waiter. Returns `false` if the word is not `word` any
    /// more.
    fn take_as_head(&self, word: u32, id: u32) -> bool {
        let (queue, next) = Self::without_head(word, id);
        // The flags are cleared: no head is parked yet, and the reservation was for this thread. Acquire: as in
        // `lock`. Release: publishes the links; pairs with the Acquire in `dequeue_head`, by the next head.
        if self.word().compare_exchange(word, queue | LOCKED, AcqRel, Relaxed).is_err() {
            return false;
        }
        if next != 0 {
            self.promote_next(next, if P::DEFERRED_WAKE { Wake::AtUnlock } else { Wake::Now });
        }
        true
    }

    /// Dequeues the head, which has timed out, and promotes the next waiter. Returns `true` if the lock was free, and
    /// the thread holds it.
    #[cold]
    pub fn dequeue_head(&self, id: u32) -> bool {
        loop {
            // Acquire: as in `wait_as_head`.
            let word = self.word().load(Acquire);
            if word & LOCKED == 0 {
                if self.take_as_head(word, id) {
                    return true;
                }
                continue;
            }
            let (queue, next) = Self::without_head(word, id);
            // Release: publishes the links; pairs with the Acquire in `wait_as_head`, by the next head.
            if self.word().compare_exchange(word, Self::with_rest(word, queue), Release, Relaxed).is_ok() {
                if next != 0 {
                    // The holder does not know of it, so it cannot wake the waiter.
                    step!("head-leaves-without-promoting", self.promote_next(next, Wake::Now));
                }
                return false;
            }
        }
    }

    /// Returns `word` with the queue that is left. The flags stay, since `PARKED` may be for an unqueued waiter; but
    /// without a queue there is no reservation.
    fn with_rest(word: u32, queue: u32) -> u32 {
        queue | flags(word) & if queue != 0 { !0 } else { !PENDING }
    }

    /// Returns the queue of `word` without its head `first`, and the next node.
    fn without_head(word: u32, first: u32) -> (u32, u32) {
        let last = tail(word);
        if last == first {
            return (0, 0);
        }
        let next = Self::next_of(first, last);
        (with_queue(0, next, last), next)
    }

    /// Returns the node after the head `first`, in a queue that ends with `last`.
    fn next_of(first: u32, last: u32) -> u32 {
        let mut id = last;
        // Relaxed, all: see the orderings in `raw`.
        loop {
            let before = table().node(id).prev.load(Relaxed);
            let link = &table().node(before).next;
            if link.load(Relaxed) == id {
                break;
            }
            link.store(id, Relaxed);
            if before == first {
                break;
            }
            id = before;
        }
        table().node(first).next.load(Relaxed)
    }

    /// Makes `next` the head, which the word names as the head already, or the first node after it that is not
    /// abandoned.
    pub fn promote_next(&self, mut next: u32, wake: Wake) {
        loop {
            let node = table().node(next);
            node.start_quantum(0);
            // Relaxed, here and below: the links are published through the word. Acquire: what the owner did with an
            // abandoned node; pairs with the Release in `abandon`.
            match node.state.load(Acquire) {
                WAITING => {
                    if node.state.compare_exchange(WAITING, HEAD, Relaxed, Relaxed).is_ok() {
                        return;
                    }
                }
                WAITING_PARKED if wake == Wake::Now => {
                    if Self::wake_as_head(next, WAITING_PARKED) {
                        return;
                    }
                }
                WAITING_PARKED => {
                    if node.state.compare_exchange(WAITING_PARKED, HEAD_PARKED, Relaxed, Relaxed).is_ok() {
                        // Relaxed: published by the release of the lock.
                        step!("parked-not-set", self.word().fetch_or(PARKED, Relaxed));
                        return;
                    }
                }
                // Acquire: as for the load. If it fails, the owner is back.
                ABANDONED if node.state.compare_exchange(ABANDONED, UNLINKING, Acquire, Relaxed).is_err() => {
                }
                ABANDONED | ABANDONED_EXITED => match self.unlink_abandoned_head(next) {
                    0 => return,
                    after => next = after,
                },
                _ => return,
            }
        }
    }

    /// Drops the queue of `word` if the child of a fork has inherited it. Returns `true` if so: the word has changed
    /// then.
    #[cold]
    pub(super) fn drop_dead_queue(&self, word: u32) -> bool {
        // Relaxed, all: the nodes have been dead since the process began. If the exchange fails, another thread has
        // dropped the queue.
        if table().node(head(word)).state.load(Relaxed) != DEAD {
            return false;
        }
        // `PARKED` may be for an unqueued waiter.
        let _ = self.word().compare_exchange(word, Self::with_rest(word, 0), Relaxed, Relaxed);
        true
    }

    /// Unlinks the abandoned head, and frees it if its owner has exited. Returns the next node, or 0.
    #[cold]
    fn unlink_abandoned_head(&self, id: u32) -> u32 {
        loop {
            // Acquire: as in `wait_as_head`.
            let word = self.word().load(Acquire);
            let (queue, next) = Self::without_head(word, id);
            // Release: as in `dequeue_head`.
            if self.word().compare_exchange(word, Self::with_rest(word, queue), Release, Relaxed).is_ok() {
                let node = table().node(id);
                node.owned.exclusive();
                // Release: the promoter is done with the node; pairs with the Acquire in `find_place` and
                // `free_at_exit`. Relaxed: an owner that has exited has not used the node since it was abandoned.
                if node.state.compare_exchange(UNLINKING, IDLE, Release, Relaxed).is_err() {
                    step!("unlinked-node-leaked", table().free(id));
                }
                return next;
            }
        }
    }
}
