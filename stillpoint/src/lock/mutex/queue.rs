//! The wait queue: a list of nodes as in an MCS lock, but with `prev` links that are set first.
//!
//! The states of nodes, and which thread parks and kicks which, follow the kernel's `qspinlock_paravirt.h`. The links
//! do not: in `qspinlock.c` a waiter exchanges the tail and then stores its predecessor's `next`, and a head that
//! leaves waits until that store is visible.
//!
//! The lock word holds the numbers of the head and tail nodes. A waiter stores `prev` *before* it publishes its node
//! by the compare-exchange on the tail, so a preempted waiter never leaves a gap. The head walks back from the tail
//! to fill in missing `next` links when it leaves.
//!
//! A waiter that times out *abandons* its node, and a promoter unlinks it. A head that takes the lock or times out
//! promotes the next waiter, and wakes it. So a queue always has a waiter, except during a promotion, and a lock that
//! is not in use has no nodes.
//!
//! # An example
//!
//! A thread holds the lock. A, B and C wait with the nodes 1, 2 and 3, and A and B park.
//!
//! | step | word: flags, head..tail | links |
//! |---|---|---|
//! | A enqueues and becomes the head | `LOCKED`, 1..1 | |
//! | B stores `prev`, then enqueues | `LOCKED`, 1..2 | 2 to 1 |
//! | C stores `prev`, then enqueues | `LOCKED`, 1..3 | 3 to 2 to 1 |
//! | A makes its state `HEAD_PARKED`, then parks | `LOCKED`, `PARKED`, 1..3 | |
//! | the holder releases the lock, finds `PARKED`, and kicks node 1 | `PARKED`, 1..3 | |
//! | A walks from 3 to 1 to fill in `next`, and takes the lock | `LOCKED`, 2..3 | 1 to 2 to 3 |
//! | A promotes B to `HEAD`, and wakes it | `LOCKED`, 2..3 | |
//! | B finds the lock held, spins, and parks as A did | `LOCKED`, `PARKED`, 2..3 | |
//!
//! If a running thread steals the lock before B runs, B finds it held, spins, and parks again. Once B has been the
//! head for a quantum, it sets `PENDING`, and only B takes the lock then.
//!
use super::word::{LOCKED, LockWord, PARKED, PENDING, flags, head, tail, with_queue, with_rest};
use crate::lock::nodes::{
    ABANDONED, ABANDONED_EXITED, HEAD, HEAD_PARKED, IDLE, Node, UNLINKING, WAITING, WAITING_PARKED, table,
};
use crate::lock::policy::Policy;
use crate::lock::spin::Spin;
use crate::lock::waiter::Waiter;
use crate::sync::{Ordering::*, step};

/// The result of an attempt to join the queue.
enum Enqueued {
    /// The lock was free, and the thread holds it.
    Acquired,
    /// The node is the head.
    AsHead,
    /// The node is behind another one.
    Behind,
}

/// The wait queue of a lock, for the calling thread.
#[derive(Debug)]
pub struct WaitQueue<'a, P>(pub &'a LockWord<P>, pub &'a Waiter);

impl<P: Policy> WaitQueue<'_, P> {
    /// Takes the lock in the queue, with the node `id`, which the thread keeps if there is a time limit. Returns
    /// `true` if the caller holds the lock.
    pub fn lock(&self, id: u32, until: Option<u64>) -> bool {
        let node = table().node(id);
        match self.enqueue(id, node) {
            Enqueued::Acquired => {
                // Relaxed: the node is in no queue.
                node.state.store(IDLE, Relaxed);
                true
            }
            Enqueued::AsHead => self.lock_as_head(id, node, until),
            Enqueued::Behind => self.rejoin(id, until),
        }
    }

    /// As [`lock`](Self::lock), with a node that is already in the queue.
    pub fn rejoin(&self, id: u32, until: Option<u64>) -> bool {
        let node = table().node(id);
        self.wait_in_queue(id, node, until) && self.lock_as_head(id, node, until)
    }

    fn lock_as_head(&self, id: u32, node: &Node, until: Option<u64>) -> bool {
        let acquired = self.wait_as_head(id, node, until);
        // Relaxed: the node is in no queue. A late kick does no harm.
        node.state.store(IDLE, Relaxed);
        acquired
    }

    /// Makes the node the tail, unless the lock can be taken.
    fn enqueue(&self, id: u32, node: &Node) -> Enqueued {
        node.owned.exclusive();
        node.next.store(0, Relaxed);
        // The time is that of an earlier wait.
        step!("waiter-keeps-reservation-time", node.reserved_since.store(0, Relaxed));
        let mut word = self.0.load(Relaxed);
        loop {
            if LockWord::<P>::may_steal(word) {
                match self.0.try_steal(word, self.1) {
                    Ok(()) => return Enqueued::Acquired,
                    Err(now) => word = now,
                }
                continue;
            }
            if head(word) != 0 {
                step!(
                    "dead-queue-joined",
                    if !self.0.has_live_head(word) {
                        word = self.0.load(Relaxed);
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
            match self.0.compare_exchange(word, queued, Release, Relaxed) {
                Ok(_) if last == 0 => return Enqueued::AsHead,
                Ok(_) => return Enqueued::Behind,
                Err(now) => word = now,
            }
        }
    }

    /// Parks until the node is the head. Returns `false` if the time is over before: the node is abandoned then. The
    /// kernel's `pv_wait_node`.
    fn wait_in_queue(&self, id: u32, node: &Node, until: Option<u64>) -> bool {
        loop {
            // Relaxed, here and below: what the previous head did is read through the word.
            match node.state.load(Relaxed) {
                WAITING => {
                    // If it fails, the node was promoted.
                    let _ = node.state.compare_exchange(WAITING, WAITING_PARKED, Relaxed, Relaxed);
                }
                WAITING_PARKED => {
                    if node.state.wait(WAITING_PARKED, until) && self.abandon(id, node) {
                        return false;
                    }
                }
                _ => return true,
            }
        }
    }

    /// Leaves the node in the queue without a waiter. Returns `false` if it has been promoted.
    fn abandon(&self, id: u32, node: &Node) -> bool {
        node.owned.exclusive();
        // Release: publishes what the owner did with the node; pairs with the Acquire in `promote_next`.
        let abandoned = node.state.compare_exchange(WAITING_PARKED, ABANDONED, Release, Relaxed).is_ok();
        if abandoned {
            self.1.abandons(id, self.0.address());
        }
        abandoned
    }

    /// Waits as the head: spins, reserves the lock after a quantum, parks. Returns `true` if the thread holds the
    /// lock, `false` if the time is over; the node is dequeued either way. The kernel's `pv_wait_head_or_lock`.
    fn wait_as_head(&self, id: u32, node: &Node, until: Option<u64>) -> bool {
        let mut spin = Spin::new();
        let mut reserves = P::RESERVATION && node.waited_as_head() >= P::QUANTUM_NS;
        loop {
            // Acquire: the nodes behind; pairs with the Release in `enqueue`.
            let word = self.0.load(Acquire);
            if word & LOCKED == 0 {
                if self.take_as_head(word, id) {
                    return true;
                }
            } else if reserves && word & PENDING == 0 {
                // Relaxed: it publishes nothing. If it fails, the next round repeats it.
                let _ = self.0.compare_exchange(word, word | PENDING, Relaxed, Relaxed);
            } else if !spin.pause() {
                if self.park_as_head(word, node, until) {
                    return self.dequeue_head(id);
                }
                spin = Spin::new();
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
        if self.0.compare_exchange(word, word | PARKED, Release, Relaxed).is_err() {
            // Relaxed: the state was not published. A kick for an old word does no harm.
            node.state.store(HEAD, Relaxed);
            return false;
        }
        P::head_parks();
        self.sleep_as_head(node, until)
    }

    /// Sleeps until the node is not `HEAD_PARKED`. Returns `true` if the time is over.
    fn sleep_as_head(&self, node: &Node, until: Option<u64>) -> bool {
        // Relaxed, all: the word is loaded again.
        while node.state.load(Relaxed) == HEAD_PARKED {
            if node.state.wait(HEAD_PARKED, until) {
                return true;
            }
        }
        false
    }

    /// Takes the free lock, for the head, and promotes the next waiter. Returns `false` if the word is not `word` any
    /// more.
    fn take_as_head(&self, word: u32, id: u32) -> bool {
        let (queue, next) = Self::without_head(word, id);
        // The flags are cleared: no head is parked yet, and the reservation was for this thread. Acquire: as in
        // `lock`. Release: publishes the links; pairs with the Acquire in `dequeue_head`, by the next head.
        if self.0.compare_exchange(word, queue | LOCKED, AcqRel, Relaxed).is_err() {
            return false;
        }
        if next != 0 {
            self.promote_next(next);
        }
        true
    }

    /// Dequeues the head, which has timed out, and promotes the next waiter. Returns `true` if the lock was free, and
    /// the thread holds it.
    #[cold]
    pub fn dequeue_head(&self, id: u32) -> bool {
        loop {
            // Acquire: as in `wait_as_head`.
            let word = self.0.load(Acquire);
            if word & LOCKED == 0 {
                if self.take_as_head(word, id) {
                    return true;
                }
                continue;
            }
            let (queue, next) = Self::without_head(word, id);
            // Release: publishes the links; pairs with the Acquire in `wait_as_head`, by the next head.
            if self.0.compare_exchange(word, with_rest(word, queue), Release, Relaxed).is_ok() {
                if next != 0 {
                    step!("head-leaves-without-promoting", self.promote_next(next));
                }
                return false;
            }
        }
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
    /// abandoned, and wakes its owner.
    pub fn promote_next(&self, mut next: u32) {
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
                WAITING_PARKED => {
                    if node.wake_as_head(WAITING_PARKED) {
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

    /// Unlinks the abandoned head, and frees it if its owner has exited. Returns the next node, or 0.
    #[cold]
    fn unlink_abandoned_head(&self, id: u32) -> u32 {
        loop {
            // Acquire: as in `wait_as_head`.
            let word = self.0.load(Acquire);
            let (queue, next) = Self::without_head(word, id);
            // Release: as in `dequeue_head`.
            if self.0.compare_exchange(word, with_rest(word, queue), Release, Relaxed).is_ok() {
                let node = table().node(id);
                node.owned.exclusive();
                // Release: the promoter is done with the node; pairs with the Acquire in `find_place` and
                // `free_at_exit`. Relaxed: an owner that has exited has not used the node since it was abandoned.
                if node.state.compare_exchange(UNLINKING, IDLE, Release, Relaxed).is_err() {
                    step!("unlinked-node-leaked", table().free_exited(id));
                }
                return next;
            }
        }
    }
}
