//! Models of the queued lock: exclusion, wake-ups, timeouts, and the memory that a release accesses. Time stands still:
//! by the policy of the model, each time limit is reached at once or never. A timed sleep is over at once.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};
use stillpoint::lock::model::{
    ABANDONED, CAPACITY, DEAD, FORKED, HEAD, Policy, Raw, Waiter, table, with_waiter,
};
use stillpoint::sync::Ordering::Relaxed;
use support::model::check;

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

// SAFETY: loom checks every access of the cell.
unsafe impl<P: Policy> Sync for Guarded<P> {}
// SAFETY: as above.
unsafe impl<P: Policy> Send for Guarded<P> {}

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

    fn unlock(&self) {
        // SAFETY: the calling thread holds it.
        unsafe { self.lock.unlock() };
    }

    fn lock(&self) -> usize {
        self.lock.lock();
        self.leave_section()
    }

    fn leave_section(&self) -> usize {
        let sections = self.section();
        self.unlock();
        sections
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

fn spawn<P: Policy, R: 'static>(
    guarded: &Arc<Guarded<P>>,
    f: impl FnOnce(&Guarded<P>) -> R + 'static,
) -> JoinHandle<R> {
    let guarded = guarded.clone();
    thread::spawn(move || f(&guarded))
}

/// Joins threads. Returns the sum of their results.
fn join(threads: impl IntoIterator<Item = JoinHandle<usize>>) -> usize {
    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
}

/// `threads` threads lock `times` each; the last frees the memory of the lock.
fn exclusion<P: Policy>(threads: usize, times: usize) {
    let guarded = Guarded::<P>::new();
    let last = threads * times;
    let others: Vec<_> =
        (1..threads).map(|_| spawn(&guarded, move |g| g.lock_and_free(times, last))).collect();
    guarded.lock_and_free(times, last);
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(guarded.sections(), last);
}

/// The lock is held while other threads arrive; then each of them takes it, in some order.
fn queue<P: Policy>(others: usize) {
    let guarded = Guarded::<P>::held();
    let threads: Vec<_> = (0..others).map(|_| spawn(&guarded, Guarded::lock)).collect();
    thread::yield_now();
    guarded.leave_section();
    join(threads);
    assert_eq!(guarded.sections(), others + 1);
}

#[test]
fn last_of_two_threads_may_free_the_lock() {
    check(0, 3, || exclusion::<NoTimeLimits>(2, 2));
}

/// Refutes: no-kick, state-after-word, yield-not-counted, WaitQueue::enqueue:Release, Raw::lock:Acquire,
/// WaitQueue::park_as_head:Release, WaitQueue::take_as_head:Acquire, LockWord::try_steal:Acquire, LockWord::try_steal:Acquire#2,
/// Raw::unlock:Release, Raw::unlock_slow:Acquire, WaitQueue::wait_as_head:Acquire
#[test]
fn parked_head_is_woken() {
    check(0, 2, || queue::<NoTimeLimits>(2));
}

/// A queue of four. The head leaves by `go`, and the second node takes the lock: it must see the links that the head
/// has stored.
fn succession(go: impl FnOnce(&Raw<NoTimeLimits>) + Send + 'static) {
    let lock = Arc::new(Raw::<NoTimeLimits>::with_queue(4));
    let l = lock.clone();
    let first = thread::spawn(move || go(&l));
    let l = lock.clone();
    let second = thread::spawn(move || assert!(l.queue().rejoin(2, None)));
    // SAFETY: the model begins with a lock that is held.
    unsafe { lock.unlock() };
    first.join().unwrap();
    second.join().unwrap();
    assert_eq!(lock.head(), 3);
}

/// Refutes: WaitQueue::dequeue_head:Release
#[test]
fn head_sees_links_of_a_head_that_timed_out() {
    check(0, 2, || {
        succession(|lock| {
            if lock.queue().dequeue_head(1) {
                // SAFETY: it holds the lock after all.
                unsafe { lock.unlock() };
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
            lock.queue().promote_next(1);
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
        // SAFETY: the model begins with a lock that is held.
        unsafe { lock.unlock() };
        let l = lock.clone();
        let second = thread::spawn(move || {
            while table().node(2).state.load(Relaxed) != HEAD {
                thread::yield_now();
            }
            // The first head has taken the lock, and does not release it.
            assert!(!l.queue().dequeue_head(2));
        });
        assert!(lock.queue().rejoin(1, None));
        second.join().unwrap();
        assert_eq!(lock.head(), 3);
    });
}

/// Refutes: pending-without-queue
#[test]
fn empty_queue_clears_the_reservation() {
    check(0, 2, || {
        let lock = Arc::new(Raw::<NoTimeLimits>::with_queue(2));
        table().node(2).state.store(ABANDONED, Relaxed);
        let l = lock.clone();
        let first = thread::spawn(move || l.queue().dequeue_head(1));
        // SAFETY: the model begins with a lock that is held.
        unsafe { lock.unlock_fair() };
        // It holds the lock only if it came after the release.
        if first.join().unwrap() {
            // SAFETY: it holds the lock.
            unsafe { lock.unlock() };
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
    table().slow_unlock_flags.store(FORKED, Relaxed);
    lock
}

/// Refutes: dead-queue-joined
#[test]
fn inherited_queue_is_dropped_before_threads_join() {
    check(0, 1, || {
        let guarded = Guarded::with(inherited());
        let others = [(), ()].map(|()| spawn(&guarded, Guarded::lock));
        thread::yield_now();
        guarded.leave_section();
        join(others);
        let free: Vec<_> = std::iter::from_fn(|| table().alloc()).collect();
        assert!(free.iter().all(|node| *node > 2), "dead nodes are in use: {free:?}");
    });
}

/// Refutes: parked-dropped-with-queue
#[test]
fn dropped_queue_keeps_wake_ups_of_unqueued_waiters() {
    check(0, 2, || {
        let guarded = Guarded::with(inherited());
        let _all: Vec<_> = std::iter::from_fn(|| table().alloc()).collect();
        let other = spawn(&guarded, Guarded::lock);
        thread::yield_now();
        guarded.section();
        // SAFETY: the model begins with a lock that is held. This drops the queue, as there is no live head to
        // reserve the lock for.
        unsafe { guarded.lock.unlock_fair() };
        other.join().unwrap();
    });
}

/// Refutes: reservation-ignored
#[test]
fn reserved_lock_cannot_be_stolen() {
    check(0, 2, || {
        let lock = Arc::new(Raw::<NoTimeLimits>::with_queue(2));
        // SAFETY: the model begins with a lock that is held.
        unsafe { lock.unlock_fair() };
        let l = lock.clone();
        // The head holds it by then, or has yet to take it.
        let other = thread::spawn(move || assert!(!l.try_lock()));
        assert!(lock.queue().rejoin(1, None));
        other.join().unwrap();
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

/// Refutes: head-leaves-without-promoting, Raw::try_lock:Acquire
#[test]
fn timed_waiter_leaves_and_no_wake_up_is_lost() {
    check(0, 1, || {
        let guarded = Guarded::<NoTimeLimits>::held();
        let untimed = spawn(&guarded, Guarded::lock);
        let timed = spawn(&guarded, Guarded::lock_in_time);
        thread::yield_now();
        guarded.leave_section();
        untimed.join().unwrap();
        let was_in_time = timed.join().unwrap();
        assert_eq!(guarded.sections(), 2 + usize::from(was_in_time));
        // The queue is empty, and the lock is free.
        assert!(guarded.lock.try_lock());
    });
}

/// Refutes: WaitQueue::abandon:Release, WaitQueue::unlink_abandoned_head:Acquire, WaitQueue::unlink_abandoned_head:Release#2,
/// Waiter::find_place:Acquire
#[test]
fn returning_timed_waiter_rejoins_or_gets_a_new_node() {
    check(0, 2, || {
        let guarded = Guarded::<NoTimeLimits>::held();
        let untimed = spawn(&guarded, Guarded::lock);
        let timed = spawn(&guarded, |guarded| {
            if !guarded.lock_in_time() {
                guarded.lock();
            }
        });
        thread::yield_now();
        guarded.leave_section();
        untimed.join().unwrap();
        timed.join().unwrap();
        assert_eq!(guarded.sections(), 3);
    });
}

/// Refutes: WaitQueue::promote_next:Acquire#2
#[test]
fn waiter_that_times_out_again_publishes_its_node_again() {
    check(0, 2, || {
        let guarded = Guarded::<NoTimeLimits>::held();
        let untimed = spawn(&guarded, Guarded::lock);
        let timed = spawn(&guarded, |guarded| [(), ()].map(|()| usize::from(guarded.lock_in_time())));
        thread::yield_now();
        guarded.leave_section();
        untimed.join().unwrap();
        let in_time: usize = timed.join().unwrap().iter().sum();
        assert_eq!(guarded.sections(), 2 + in_time);
    });
}

/// Refutes: exited-node-leaked, own-node-leaked, unlinked-node-leaked, NodeTable::free_at_exit:Acquire,
/// WaitQueue::promote_next:Acquire
#[test]
fn node_of_an_exited_thread_is_freed_once() {
    check(0, 1, || {
        let guarded = Guarded::<NoTimeLimits>::held();
        let untimed = spawn(&guarded, |guarded| {
            guarded.lock();
            with_waiter(Waiter::exit);
        });
        let timed = spawn(&guarded, |guarded| {
            guarded.lock_in_time();
            with_waiter(Waiter::exit);
        });
        thread::yield_now();
        guarded.leave_section();
        untimed.join().unwrap();
        timed.join().unwrap();
        let free: Vec<u32> = std::iter::from_fn(|| table().alloc()).collect();
        assert_eq!(free.len(), CAPACITY - 1);
    });
}

/// Refutes: node-freed-while-unlinked
#[test]
fn node_whose_owner_exits_while_it_is_unlinked_is_freed_once() {
    check(0, 3, || {
        let lock = Raw::<NoTimeLimits>::with_queue(1);
        table().node(1).state.store(ABANDONED, Relaxed);
        let owner = thread::spawn(|| table().free_at_exit(1));
        lock.queue().promote_next(1);
        owner.join().unwrap();
        // A node that is freed twice follows itself in the stack.
        let free = std::iter::from_fn(|| table().alloc()).take(CAPACITY);
        assert_eq!(free.count(), CAPACITY - 1);
    });
}

/// Refutes: unqueued-not-uncounted, unqueued-not-woken, lock_unqueued:Acquire, lock_unqueued:Release
#[test]
fn thread_without_a_node_waits_unqueued() {
    check(0, 1, || {
        let nodes: Vec<u32> = std::iter::from_fn(|| table().alloc()).collect();
        assert_eq!(nodes.len(), CAPACITY - 1);
        table().free(nodes[0]);
        queue::<NoTimeLimits>(2);
        assert_eq!(table().slow_unlock_flags.load(Relaxed), 0, "a waiter is still counted");
    });
}

/// Refutes: LockWord::try_bypass:Acquire, Raw::unlock_fair:Release
#[test]
fn stalled_head_is_bypassed() {
    check(0, 1, || {
        let guarded = Guarded::<StalledHeads>::held();
        let others = [(), ()].map(|()| spawn(&guarded, Guarded::lock));
        thread::yield_now();
        guarded.section();
        // SAFETY: this thread holds it.
        unsafe { guarded.lock.unlock_fair() };
        join(others);
        assert!(guarded.lock.try_lock());
    });
}

#[test]
fn second_try_lock_bypasses_a_stalled_head() {
    check(0, 2, || {
        let lock = Raw::<StalledHeads>::with_queue(1);
        // SAFETY: the model begins with a lock that is held.
        unsafe { lock.unlock_fair() };
        assert!(!lock.try_lock());
        assert!(lock.try_lock());
    });
}

/// Refutes: borrowed-node-leaked
#[test]
fn borrowed_node_is_freed_after_its_wait() {
    check(0, 2, || {
        let (abandoned, lock) = (Raw::<NoTimeLimits>::with_queue(1), Arc::new(Raw::<NoTimeLimits>::new()));
        lock.lock();
        let l = lock.clone();
        let other = thread::spawn(move || {
            // Abandons its node in that queue.
            assert!(!abandoned.lock_until(0));
            l.lock();
            // SAFETY: it was taken.
            unsafe { l.unlock() };
        });
        thread::yield_now();
        // SAFETY: this thread holds it.
        unsafe { lock.unlock() };
        other.join().unwrap();
        assert_eq!(std::iter::from_fn(|| table().alloc()).count(), CAPACITY - 1 - 2);
    });
}

/// A cell for each node, which only the owner accesses.
struct Owned([UnsafeCell<bool>; CAPACITY]);

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for Owned {}
// SAFETY: as above.
unsafe impl Send for Owned {}

impl Owned {
    fn mark(&self, node: u32, owned: bool) {
        self.0[node as usize].with_mut(|cell| unsafe {
            assert_ne!(*cell, owned, "a node with two owners");
            *cell = owned;
        });
    }

    fn alloc(&self) -> u32 {
        let node = table().alloc().expect("there are enough");
        self.mark(node, true);
        node
    }

    fn free(&self, node: u32) {
        self.mark(node, false);
        table().free(node);
    }
}

#[test]
fn freed_node_is_allocated_again() {
    check(0, 3, || {
        let owned = Arc::new(Owned(std::array::from_fn(|_| UnsafeCell::new(false))));
        let others = [0, 1].map(|_| {
            let o = owned.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    let node = o.alloc();
                    assert!(node <= 2);
                    o.free(node);
                }
            })
        });
        for other in others {
            other.join().unwrap();
        }
    });
}
