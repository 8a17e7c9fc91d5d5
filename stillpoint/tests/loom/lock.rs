//! Models of the queued lock: exclusion, wake-ups, timeouts, and the memory that a release accesses. Time stands
//! still: by the policy of the model, each time limit is reached at once or never. A timed sleep is over at once.

use stillpoint::lock::model::{ABANDONED, CAPACITY, DEAD, HEAD, Policy, Raw, Waiter, table, with_waiter};
use support::model::*;

/// Quanta never end, and no head stalls.
struct NoTimeLimits;

impl Policy for NoTimeLimits {
    const RESERVATION: bool = false;
    const BYPASS: bool = false;
}

/// Each head counts as stalled at the second check.
struct StalledHeads;

impl Policy for StalledHeads {
    const RESERVATION: bool = false;
    const BYPASS_NS: u64 = 0;
}

/// Each head has waited for its quantum.
struct QuantumOver;

impl Policy for QuantumOver {
    const BYPASS: bool = false;
    const QUANTUM_NS: u64 = 0;
    const RESERVE_NS: u64 = 0;
}

/// A FIFO lock.
struct Fifo;

impl Policy for Fifo {
    const STEALING: bool = false;
    const RESERVATION: bool = false;
    const BYPASS: bool = false;
}

/// A lock, and the number of critical sections so far, which it protects.
struct Guarded<P: Policy> {
    lock: Raw<P>,
    sections: UnsafeCell<usize>,
}

impl<P: Policy> Guarded<P> {
    fn new() -> Arc<Self> {
        Self::with(Raw::new())
    }

    fn with(lock: Raw<P>) -> Arc<Self> {
        Arc::new(Self { lock, sections: UnsafeCell::new(0) })
    }

    /// Creates a lock that the calling thread holds.
    fn held() -> Arc<Self> {
        let guarded = Self::new();
        guarded.lock.lock();
        guarded
    }

    fn sections(&self) -> usize {
        self.sections.with(|sections| unsafe { *sections })
    }

    /// The critical section of the holder. Returns the number of sections so far.
    fn section(&self) -> usize {
        self.sections.with_mut(|sections| unsafe {
            *sections += 1;
            *sections
        })
    }

    fn lock(&self) -> usize {
        self.lock.lock();
        self.leave_section()
    }

    fn leave_section(&self) -> usize {
        let sections = self.section();
        unlock(&self.lock);
        sections
    }

    /// Leaves the critical section after other threads have come.
    fn leave_to_others(&self) {
        thread::yield_now();
        self.leave_section();
    }

    /// Reserves the lock for the head, after other threads have come.
    fn leave_fairly(&self) {
        thread::yield_now();
        self.section();
        unlock_fair(&self.lock);
    }

    /// Tries to take the lock with a time limit. Returns `true` on success.
    fn lock_in_time(&self) -> bool {
        let taken = self.lock.lock_until(0);
        if taken {
            self.leave_section();
        }
        taken
    }

    /// Runs critical sections. The thread that runs the last of all frees the memory of the lock.
    fn lock_and_free(&self, times: usize, last: usize) {
        for _ in 0..times {
            if self.lock() == last {
                self.lock.free_memory();
            }
        }
    }
}

/// Releases a lock that the model holds.
fn unlock<P: Policy>(lock: &Raw<P>) {
    // SAFETY: the caller's contract.
    unsafe { lock.unlock() };
}

/// Releases a lock that the model holds, and reserves it for the head.
fn unlock_fair<P: Policy>(lock: &Raw<P>) {
    // SAFETY: the caller's contract.
    unsafe { lock.unlock_fair() };
}

/// Allocates all free nodes.
fn free_nodes() -> Vec<u32> {
    std::iter::from_fn(|| table().alloc()).collect()
}

/// `threads` threads lock `times` each; the last frees the memory of the lock.
fn exclusion<P: Policy>(threads: usize, times: usize) {
    let guarded = Guarded::<P>::new();
    let last = threads * times;
    let lock = move |guarded: &Guarded<P>| guarded.lock_and_free(times, last);
    race_all(&guarded, lock, threads - 1, move |guarded, _| lock(guarded));
    assert_eq!(guarded.sections(), last);
}

/// The lock is held while other threads arrive; then each of them takes it, in some order.
fn queue<P: Policy>(others: usize) {
    let guarded = Guarded::<P>::held();
    race_all(&guarded, Guarded::leave_to_others, others, |guarded, _| guarded.lock());
    assert_eq!(guarded.sections(), others + 1);
}

#[test]
fn last_of_two_threads_may_free_the_lock() {
    check(0, 3, || exclusion::<NoTimeLimits>(2, 2));
}

/// Refutes: no-kick, state-after-word, yield-not-counted, WaitQueue::enqueue:Release, Raw::lock:Acquire,
/// WaitQueue::park_as_head:Release, WaitQueue::take_as_head:Acquire, LockWord::try_steal:Acquire,
/// LockWord::try_steal:Acquire#2, Raw::unlock:Release, Raw::unlock_slow:Acquire, WaitQueue::wait_as_head:Acquire
#[test]
fn parked_head_is_woken() {
    check(0, 2, || queue::<NoTimeLimits>(2));
}

/// A queue of four. The head leaves by `go`, and the second node takes the lock: it must see the links that the head
/// has stored.
fn succession(go: fn(&Raw<NoTimeLimits>)) {
    let lock = Arc::new(Raw::<NoTimeLimits>::with_queue(4));
    race_all(&lock, unlock, 2, move |lock, index| match index {
        0 => go(lock),
        _ => assert!(lock.in_queue(|queue| queue.rejoin(2, None))),
    });
    assert_eq!(lock.head(), 3);
}

/// Refutes: WaitQueue::dequeue_head:Release
#[test]
fn head_sees_links_of_a_head_that_timed_out() {
    check(0, 2, || {
        succession(|lock| {
            if lock.in_queue(|queue| queue.dequeue_head(1)) {
                // It holds the lock after all.
                unlock(lock);
            }
        });
    });
}

/// Refutes: abandoned-promoted, WaitQueue::unlink_abandoned_head:Release
#[test]
fn head_sees_links_of_an_unlinking_promoter() {
    check(0, 2, || {
        succession(|lock| {
            table().node(1).state.store(ABANDONED, Relaxed);
            lock.in_queue(|queue| queue.promote_next(1));
        });
    });
}

#[test]
fn spinner_takes_the_lock_past_the_queue() {
    check(1, 2, || exclusion::<NoTimeLimits>(3, 1));
}

/// Refutes: WaitQueue::dequeue_head:Acquire, WaitQueue::take_as_head:Release
#[test]
fn timed_out_head_sees_links_of_the_previous_head() {
    check(0, 3, || {
        let lock = Arc::new(Raw::<NoTimeLimits>::with_queue(4));
        unlock(&lock);
        let take = |lock: &Raw<_>| assert!(lock.in_queue(|queue| queue.rejoin(1, None)));
        race(&lock, take, |lock| {
            while table().node(2).state.load(Relaxed) != HEAD {
                thread::yield_now();
            }
            // The first head has taken the lock, and does not release it.
            assert!(!lock.in_queue(|queue| queue.dequeue_head(2)));
        });
        assert_eq!(lock.head(), 3);
    });
}

/// Refutes: pending-without-queue
#[test]
fn empty_queue_clears_the_reservation() {
    check(0, 2, || {
        let lock = Arc::new(Raw::<NoTimeLimits>::with_queue(2));
        table().node(2).state.store(ABANDONED, Relaxed);
        let ((), holds) = race(&lock, unlock_fair, |lock| lock.in_queue(|queue| queue.dequeue_head(1)));
        // It holds the lock only if it came after the release.
        if holds {
            unlock(&lock);
        }
        assert!(lock.try_lock());
    });
}

/// A lock that is held, with a queue of two that the child of a fork has inherited.
fn inherited() -> Raw<NoTimeLimits> {
    let lock = Raw::with_queue(2);
    for node in [1, 2] {
        table().node(node).state.store(DEAD, Relaxed);
    }
    table().has_dead.store(1, Relaxed);
    lock
}

/// Refutes: dead-queue-joined
#[test]
fn inherited_queue_is_dropped_before_threads_join() {
    check(0, 1, || {
        let guarded = Guarded::with(inherited());
        race_all(&guarded, Guarded::leave_to_others, 2, |guarded, _| guarded.lock());
        let free = free_nodes();
        assert!(free.iter().all(|node| *node > 2), "dead nodes are in use: {free:?}");
    });
}

/// Refutes: reservation-ignored
#[test]
fn reserved_lock_cannot_be_stolen() {
    check(0, 2, || {
        let lock = Arc::new(Raw::<NoTimeLimits>::with_queue(2));
        unlock_fair(&lock);
        let take = |lock: &Raw<_>| assert!(lock.in_queue(|queue| queue.rejoin(1, None)));
        // The head holds it by then, or has yet to take it.
        race(&lock, take, |lock| assert!(!lock.try_lock()));
    });
}

/// Refutes: waiter-keeps-reservation-time
#[test]
fn new_head_has_a_new_reservation_time() {
    check(0, 2, || {
        let lock = Raw::<StalledHeads>::with_queue(1);
        // From an earlier wait of its owner.
        table().node(2).reserved_since.store(1, Relaxed);
        assert!(!lock.lock_until(0));
        assert_eq!(table().node(2).reserved_since.load(Relaxed), 0);
    });
}

/// Refutes: load-after-unlock
#[test]
fn reserved_lock_is_taken_by_its_head() {
    check(0, 1, || exclusion::<QuantumOver>(3, 1));
}

#[test]
fn lock_without_stealing_serves_all() {
    check(0, 1, || queue::<Fifo>(2));
}

/// The holder leaves the lock to a thread that waits for it, beside `timed`.
fn beside_an_untimed<T: Default + 'static>(
    guarded: &Arc<Guarded<NoTimeLimits>>,
    timed: fn(&Guarded<NoTimeLimits>) -> T,
) -> T {
    let ((), mut results) = race_all(guarded, Guarded::leave_to_others, 2, move |guarded, index| {
        if index == 0 {
            guarded.lock();
            T::default()
        } else {
            timed(guarded)
        }
    });
    results.pop().unwrap()
}

/// Refutes: head-leaves-without-promoting, Raw::try_lock:Acquire
#[test]
fn timed_waiter_leaves_and_no_wake_up_is_lost() {
    check(0, 1, || {
        let guarded = Guarded::<NoTimeLimits>::held();
        let in_time = beside_an_untimed(&guarded, Guarded::lock_in_time);
        assert_eq!(guarded.sections(), 2 + usize::from(in_time));
        // The queue is empty, and the lock is free.
        assert!(guarded.lock.try_lock());
    });
}

/// Refutes: WaitQueue::abandon:Release, WaitQueue::unlink_abandoned_head:Acquire,
/// WaitQueue::unlink_abandoned_head:Release#2, Waiter::find_place:Acquire
#[test]
fn returning_timed_waiter_rejoins_or_gets_a_new_node() {
    check(0, 2, || {
        let guarded = Guarded::<NoTimeLimits>::held();
        beside_an_untimed(&guarded, |guarded| {
            if !guarded.lock_in_time() {
                guarded.lock();
            }
        });
        assert_eq!(guarded.sections(), 3);
    });
}

/// Refutes: WaitQueue::promote_next:Acquire#2
#[test]
fn waiter_that_times_out_again_publishes_its_node_again() {
    check(0, 2, || {
        let guarded = Guarded::<NoTimeLimits>::held();
        let in_time = beside_an_untimed(&guarded, |guarded| [(); 2].map(|()| guarded.lock_in_time()));
        assert_eq!(guarded.sections(), 2 + in_time.into_iter().filter(|in_time| *in_time).count());
    });
}

/// Refutes: exited-node-leaked, own-node-leaked, unlinked-node-leaked, NodeTable::free_at_exit:Acquire,
/// WaitQueue::promote_next:Acquire
#[test]
fn node_of_an_exited_thread_is_freed_once() {
    check(0, 1, || {
        let guarded = Guarded::<NoTimeLimits>::held();
        race_all(&guarded, Guarded::leave_to_others, 2, |guarded, index| {
            match index {
                0 => _ = guarded.lock(),
                _ => _ = guarded.lock_in_time(),
            }
            with_waiter(Waiter::exit);
        });
        assert_eq!(free_nodes().len(), CAPACITY - 1);
    });
}

/// Refutes: node-freed-while-unlinked
#[test]
fn node_whose_owner_exits_while_it_is_unlinked_is_freed_once() {
    check(0, 3, || {
        let lock = Arc::new(Raw::<NoTimeLimits>::with_queue(1));
        table().node(1).state.store(ABANDONED, Relaxed);
        race(&lock, |lock| lock.in_queue(|queue| queue.promote_next(1)), |_| table().free_at_exit(1));
        // A node that is freed twice follows itself in the stack.
        let free = std::iter::from_fn(|| table().alloc()).take(CAPACITY);
        assert_eq!(free.count(), CAPACITY - 1);
    });
}

/// Refutes: lock_polling:Acquire
#[test]
fn thread_without_a_node_polls() {
    check(0, 1, || {
        let nodes = free_nodes();
        assert_eq!(nodes.len(), CAPACITY - 1);
        table().free(nodes[0]);
        queue::<NoTimeLimits>(2);
        assert_eq!(table().pollers.load(Relaxed), 0, "a waiter is still counted");
    });
}

/// Refutes: LockWord::try_bypass:Acquire, Raw::unlock_fair:Release
#[test]
fn stalled_head_is_bypassed() {
    check(0, 1, || {
        let guarded = Guarded::<StalledHeads>::held();
        race_all(&guarded, Guarded::leave_fairly, 2, |guarded, _| guarded.lock());
        assert!(guarded.lock.try_lock());
    });
}

#[test]
fn second_try_lock_bypasses_a_stalled_head() {
    check(0, 2, || {
        let lock = Raw::<StalledHeads>::with_queue(1);
        unlock_fair(&lock);
        assert!(!lock.try_lock());
        assert!(lock.try_lock());
    });
}

/// Refutes: borrowed-node-leaked
#[test]
fn borrowed_node_is_freed_after_its_wait() {
    check(0, 2, || {
        let (abandoned, guarded) = (Raw::<NoTimeLimits>::with_queue(1), Guarded::<NoTimeLimits>::held());
        race(&guarded, Guarded::leave_to_others, move |guarded| {
            // Abandons its node in that queue.
            assert!(!abandoned.lock_until(0));
            guarded.lock();
        });
        assert_eq!(free_nodes().len(), CAPACITY - 1 - 2);
    });
}
