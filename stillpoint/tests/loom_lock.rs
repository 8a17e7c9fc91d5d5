//! Models of the queued lock: exclusion, wake-ups, timeouts, and what a release touches. Time stands still, and every limit on
//! time has been reached or never is, by the policy of the model; a sleep with an end is over at once.
#![cfg(loom)]

mod model;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use model::check;
use stillpoint::lock::condvar::Condvar;
use stillpoint::lock::local::{self, Local};
use stillpoint::lock::policy::Policy;
use stillpoint::lock::raw::{Outcome, Raw};
use stillpoint::lock::table::{DEAD, FORKED, GONE, HEAD, IDLE, SLOTS, table};
use stillpoint::sync::Ordering::Relaxed;

/// Heads wait for their turn.
struct Patient;

impl Policy for Patient {
    const RESERVE: bool = false;
    const BYPASS: bool = false;
}

/// Waiters look after each other at once.
struct Impatient;

impl Policy for Impatient {
    const RESERVE: bool = false;
    const BYPASS_NS: u64 = 0;
}

/// Every release finds that the head has waited for long.
struct Hurried;

impl Policy for Hurried {
    const BYPASS: bool = false;
    const QUANTUM_NS: u64 = 0;
    const RESERVE_NS: u64 = 0;
}

/// Nobody takes the lock past the queue; sleepers are woken as soon as they are the first.
struct Strict;

impl Policy for Strict {
    const STEAL: bool = false;
    const RESERVE: bool = false;
    const BYPASS: bool = false;
    const DEFER: bool = false;
}

struct World<P: Policy> {
    lock: Raw<P>,
    /// Sections so far.
    sections: UnsafeCell<usize>,
}

// SAFETY: loom checks every access of the cell.
unsafe impl<P: Policy> Sync for World<P> {}
// SAFETY: as above.
unsafe impl<P: Policy> Send for World<P> {}

impl<P: Policy> World<P> {
    fn new() -> Arc<Self> {
        Arc::new(Self { lock: Raw::new(), sections: UnsafeCell::new(0) })
    }

    /// The section of who holds the lock; how many there have been.
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
        // SAFETY: this thread holds it.
        unsafe { self.lock.unlock() };
        sections
    }

    /// Whether the lock could be had in time.
    fn lock_in_time(&self) -> bool {
        let taken = self.lock.try_lock() || self.lock.lock_until(0);
        if taken {
            self.leave_section();
        }
        taken
    }

    /// A section of who waits, and another of who waits again. Whoever has the last one of all frees the lock.
    fn lock_and_free(&self, times: usize, last: usize) {
        for _ in 0..times {
            if self.lock() == last {
                self.lock.is_freed();
            }
        }
    }
}

/// `threads` threads lock `times` each; the last frees the lock.
fn exclusion<P: Policy>(threads: usize, times: usize) {
    let world = World::<P>::new();
    let others: Vec<_> = (1..threads)
        .map(|_| {
            let w = world.clone();
            thread::spawn(move || w.lock_and_free(times, threads * times))
        })
        .collect();
    world.lock_and_free(times, threads * times);
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(world.sections.with(|sections| unsafe { *sections }), threads * times);
}

/// The lock is held while the others come; then they get it, in some order.
fn queue<P: Policy>(others: usize) {
    let world = World::<P>::new();
    world.lock.lock();
    let others: Vec<_> = (0..others)
        .map(|_| {
            let w = world.clone();
            thread::spawn(move || w.lock())
        })
        .collect();
    thread::yield_now();
    world.leave_section();
    let n = others.len();
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(world.sections.with(|sections| unsafe { *sections }), n + 1);
}

#[test]
fn two_threads_exclude_each_other_and_the_last_may_free_the_lock() {
    check(0, 3, || exclusion::<Patient>(2, 2));
}

#[test]
fn a_head_that_sleeps_is_woken() {
    check(0, 2, || queue::<Patient>(2));
}

#[test]
fn a_queue_of_three_is_linked_and_served() {
    check(0, 0, || queue::<Patient>(3));
}

/// A queue of four, of whom the first goes, and the second takes the lock: it must see what the first has linked.
fn succession(go: impl FnOnce(&Raw<Patient>) + Send + 'static) {
    let lock = Arc::new(Raw::<Patient>::with_queue(4));
    let l = lock.clone();
    let first = thread::spawn(move || go(&l));
    let l = lock.clone();
    let second = thread::spawn(move || assert_eq!(l.wait_on(2, None, false), Outcome::Taken));
    // SAFETY: the model begins with a lock that is held.
    unsafe { lock.unlock() };
    first.join().unwrap();
    second.join().unwrap();
    assert_eq!(lock.first(), 3);
}

#[test]
fn a_head_sees_what_the_one_that_gave_up_has_linked() {
    check(0, 2, || {
        succession(|lock| {
            if lock.leave(1) {
                // SAFETY: it has got the lock after all.
                unsafe { lock.unlock() };
            }
        });
    });
}

#[test]
fn a_head_sees_what_was_linked_when_another_was_passed_over() {
    check(0, 2, || {
        succession(|lock| {
            table().node(1).state.store(GONE, Relaxed);
            lock.promote(1, true);
        });
    });
}

#[test]
fn spinners_take_the_lock_past_the_queue() {
    check(1, 2, || exclusion::<Patient>(3, 1));
}

#[test]
fn a_head_that_leaves_sees_what_the_one_that_took_the_lock_has_linked() {
    check(0, 3, || {
        let lock = Arc::new(Raw::<Patient>::with_queue(4));
        // SAFETY: the model begins with a lock that is held.
        unsafe { lock.unlock() };
        let l = lock.clone();
        let second = thread::spawn(move || {
            while table().node(2).state.load(Relaxed) != HEAD {
                thread::yield_now();
            }
            // The first has taken the lock, and does not release it.
            assert!(!l.leave(2));
        });
        assert_eq!(lock.wait_on(1, None, false), Outcome::Taken);
        second.join().unwrap();
        assert_eq!(lock.first(), 3);
    });
}

#[test]
fn a_lock_is_not_kept_when_nobody_is_left_in_its_queue() {
    check(0, 2, || {
        let lock = Arc::new(Raw::<Patient>::with_queue(2));
        table().node(2).state.store(GONE, Relaxed);
        let l = lock.clone();
        let first = thread::spawn(move || l.leave(1));
        // SAFETY: the model begins with a lock that is held.
        unsafe { lock.unlock_fair() };
        // It has the lock only if it came after the release.
        if first.join().unwrap() {
            // SAFETY: as it says.
            unsafe { lock.unlock() };
        }
        assert!(lock.try_lock());
    });
}

/// A lock that is held, with a queue of two that a fork left behind.
fn inherited() -> Raw<Patient> {
    let lock = Raw::with_queue(2);
    for slot in [1, 2] {
        table().node(slot).state.store(DEAD, Relaxed);
    }
    table().unusual.store(FORKED, Relaxed);
    lock
}

#[test]
fn inherited_queue_is_dropped_before_threads_join() {
    check(0, 1, || {
        let world = Arc::new(World { lock: inherited(), sections: UnsafeCell::new(0) });
        let others = [(), ()].map(|()| {
            let w = world.clone();
            thread::spawn(move || w.lock())
        });
        thread::yield_now();
        world.leave_section();
        for other in others {
            other.join().unwrap();
        }
        let free: Vec<_> = std::iter::from_fn(|| table().lease()).collect();
        assert!(free.iter().all(|slot| *slot > 2), "dead nodes are in use: {free:?}");
    });
}

#[test]
fn dropped_queue_leaves_unqueued_waiters_woken() {
    check(0, 2, || {
        let world = Arc::new(World { lock: inherited(), sections: UnsafeCell::new(0) });
        let _all: Vec<_> = std::iter::from_fn(|| table().lease()).collect();
        let w = world.clone();
        let other = thread::spawn(move || w.lock());
        thread::yield_now();
        world.section();
        // Drops the queue: there is nobody to keep the lock for.
        // SAFETY: the model begins with a lock that is held.
        unsafe { world.lock.unlock_fair() };
        other.join().unwrap();
    });
}

#[test]
fn a_lock_that_is_kept_for_its_head_is_not_had_by_who_comes() {
    check(0, 2, || {
        let lock = Arc::new(Raw::<Patient>::with_queue(2));
        // SAFETY: the model begins with a lock that is held.
        unsafe { lock.unlock_fair() };
        let l = lock.clone();
        // The head has it by then, or is yet to take it.
        let other = thread::spawn(move || assert!(!l.try_lock()));
        assert_eq!(lock.wait_on(1, None, false), Outcome::Taken);
        other.join().unwrap();
    });
}

#[test]
fn a_lock_that_is_kept_is_kept_for_a_new_head_anew() {
    check(0, 2, || {
        let lock = Raw::<Impatient>::with_queue(1);
        // From when its owner was the first before.
        table().node(2).kept.store(1, Relaxed);
        assert!(!lock.lock_until(0));
        assert_eq!(table().node(2).kept.load(Relaxed), 0);
    });
}

#[test]
fn a_lock_that_is_kept_for_the_head_is_taken_by_it() {
    check(0, 1, || exclusion::<Hurried>(3, 1));
}

#[test]
fn without_stealing_and_with_early_wake_ups_all_get_the_lock() {
    check(0, 1, || queue::<Strict>(2));
}

#[test]
fn who_waits_for_a_limited_time_gives_his_place_up_and_nobody_else_loses_a_wake_up() {
    check(0, 1, || {
        let world = World::<Patient>::new();
        world.lock.lock();
        let w = world.clone();
        let patient = thread::spawn(move || w.lock());
        let w = world.clone();
        let hasty = thread::spawn(move || w.lock_in_time());
        thread::yield_now();
        world.leave_section();
        patient.join().unwrap();
        let was_in_time = hasty.join().unwrap();
        assert_eq!(world.sections.with(|sections| unsafe { *sections }), 2 + usize::from(was_in_time));
        // The queue is empty, and so is the lock.
        assert!(world.lock.try_lock());
    });
}

#[test]
fn a_head_whose_time_is_over_promotes_who_comes_after_it() {
    check(0, 0, || {
        let world = World::<Patient>::new();
        world.lock.lock();
        let others: Vec<_> = [true, true, false]
            .map(|is_hasty| {
                let w = world.clone();
                thread::spawn(move || if is_hasty { usize::from(w.lock_in_time()) } else { w.lock().min(1) })
            })
            .into();
        thread::yield_now();
        world.leave_section();
        let taken: usize = others.into_iter().map(|other| other.join().unwrap()).sum();
        assert_eq!(world.sections.with(|sections| unsafe { *sections }), 1 + taken);
    });
}

#[test]
fn timed_waiter_promoted_asleep_times_out() {
    check(0, 2, || {
        let lock = Arc::new(Raw::<Patient>::with_queue(2));
        let l = lock.clone();
        let timed = thread::spawn(move || {
            assert_eq!(l.wait_on(2, Some(0), false), Outcome::TimedOut);
        });
        // SAFETY: the model begins with a lock that is held.
        unsafe { lock.unlock() };
        // Promotes the other, and keeps the lock.
        assert_eq!(lock.wait_on(1, None, false), Outcome::Taken);
        timed.join().unwrap();
    });
}

#[test]
fn who_comes_back_takes_his_place_again_or_another_one() {
    check(0, 2, || {
        let world = World::<Patient>::new();
        world.lock.lock();
        let w = world.clone();
        let patient = thread::spawn(move || w.lock());
        let w = world.clone();
        let hasty = thread::spawn(move || {
            if !w.lock_in_time() {
                w.lock();
            }
        });
        thread::yield_now();
        world.leave_section();
        patient.join().unwrap();
        hasty.join().unwrap();
        assert_eq!(world.sections.with(|sections| unsafe { *sections }), 3);
    });
}

#[test]
fn the_slot_of_a_thread_that_ends_is_freed_once_wherever_it_is() {
    check(0, 1, || {
        let world = World::<Patient>::new();
        world.lock.lock();
        let w = world.clone();
        let patient = thread::spawn(move || {
            w.lock();
            local::with(Local::end);
        });
        let w = world.clone();
        let hasty = thread::spawn(move || {
            w.lock_in_time();
            local::with(Local::end);
        });
        thread::yield_now();
        world.leave_section();
        patient.join().unwrap();
        hasty.join().unwrap();
        let free: Vec<u32> = std::iter::from_fn(|| table().lease()).collect();
        assert_eq!(free.len(), SLOTS - 1);
    });
}

#[test]
fn a_notification_reaches_who_has_looked_before() {
    check(0, 2, || {
        let world = World::<Patient>::new();
        let changed = Arc::new(Condvar::new());
        let (w, c) = (world.clone(), changed.clone());
        let waiter = thread::spawn(move || {
            w.lock.lock();
            while w.sections.with(|sections| unsafe { *sections }) == 0 {
                // SAFETY: this thread holds it.
                assert!(c.wait_with(1, || unsafe { w.lock.unlock() }, None, || w.lock.lock()));
            }
            // SAFETY: as above.
            unsafe { w.lock.unlock() };
        });
        world.lock();
        changed.notify_one();
        waiter.join().unwrap();
    });
}

#[test]
fn a_notification_reaches_who_waits_beside_another_whose_time_is_over() {
    check(0, 2, || {
        let world = World::<Patient>::new();
        let changed = Arc::new(Condvar::new());
        let waiters = [None, Some(0)].map(|until| {
            let (w, c) = (world.clone(), changed.clone());
            thread::spawn(move || {
                w.lock.lock();
                while w.sections.with(|sections| unsafe { *sections }) == 0 {
                    // SAFETY: this thread holds it.
                    assert!(c.wait_with(1, || unsafe { w.lock.unlock() }, until, || w.lock.lock()));
                    if until.is_some() {
                        break;
                    }
                }
                // SAFETY: as above.
                unsafe { w.lock.unlock() };
            })
        });
        world.lock();
        changed.notify_one();
        for waiter in waiters {
            waiter.join().unwrap();
        }
        assert!(changed.is_idle());
    });
}

#[test]
fn wait_with_a_second_mutex_is_refused() {
    check(0, 2, || {
        let changed = Condvar::new();
        let waits_with = |mutex: usize| changed.wait_with(mutex, || (), Some(0), || ());
        let first = || {
            assert!(!waits_with(2));
            // One that leaves before the first does.
            assert!(waits_with(1));
            assert!(!waits_with(2));
        };
        assert!(changed.wait_with(1, first, Some(0), || ()));
        assert!(waits_with(2));
    });
}

#[test]
fn who_finds_no_slot_waits_outside_the_queue() {
    check(0, 1, || {
        let slots: Vec<u32> = std::iter::from_fn(|| table().lease()).collect();
        assert_eq!(slots.len(), SLOTS - 1);
        table().give_back(slots[0]);
        queue::<Patient>(2);
        assert_eq!(table().unusual.load(Relaxed), 0, "a waiter is still counted");
    });
}

#[test]
fn a_lock_that_is_kept_for_a_head_that_does_not_come_is_taken_by_who_waits() {
    check(0, 1, || {
        let world = World::<Impatient>::new();
        world.lock.lock();
        let others = [(), ()].map(|()| {
            let w = world.clone();
            thread::spawn(move || w.lock())
        });
        thread::yield_now();
        world.section();
        // SAFETY: this thread holds it.
        unsafe { world.lock.unlock_fair() };
        for other in others {
            other.join().unwrap();
        }
        assert!(world.lock.try_lock());
    });
}

#[test]
fn a_lock_that_is_kept_for_a_head_that_does_not_come_is_had_by_who_tries_twice() {
    check(0, 2, || {
        let lock = Raw::<Impatient>::with_queue(1);
        // SAFETY: the model begins with a lock that is held.
        unsafe { lock.unlock_fair() };
        assert!(!lock.try_lock());
        assert!(lock.try_lock());
    });
}

#[test]
fn who_sleeps_behind_a_head_that_does_not_come_takes_a_lock_that_is_free() {
    check(0, 2, || {
        let lock = Raw::<Impatient>::with_queue(3);
        // SAFETY: the model begins with a lock that is held.
        unsafe { lock.unlock() };
        for slot in [2, 3] {
            assert_eq!(lock.wait_on(slot, None, true), Outcome::Taken);
            // SAFETY: it was taken.
            unsafe { lock.unlock() };
        }
    });
}

#[test]
fn bypassing_waiter_gives_its_node_up_first() {
    check(0, 2, || {
        let lock = Arc::new(Raw::<Impatient>::with_queue(2));
        let l = lock.clone();
        let behind = thread::spawn(move || {
            if l.wait_on(2, None, true) == Outcome::Taken {
                // SAFETY: as it says.
                unsafe { l.unlock() };
            }
        });
        // SAFETY: the model begins with a lock that is held.
        unsafe { lock.unlock() };
        assert_eq!(lock.wait_on(1, None, false), Outcome::Taken);
        // SAFETY: it was taken.
        unsafe { lock.unlock() };
        behind.join().unwrap();
        let state = table().node(2).state.load(Relaxed);
        assert!([GONE, IDLE].contains(&state), "a head without a waiter, in state {state}");
    });
}

#[test]
fn borrowed_node_is_freed_after_its_wait() {
    check(0, 2, || {
        let (abandoned, lock) = (Raw::<Patient>::with_queue(1), Arc::new(Raw::<Patient>::new()));
        lock.lock();
        let l = lock.clone();
        let other = thread::spawn(move || {
            // Leaves its node in that queue.
            assert!(!abandoned.lock_until(0));
            l.lock();
            // SAFETY: it was taken.
            unsafe { l.unlock() };
        });
        thread::yield_now();
        // SAFETY: this thread holds it.
        unsafe { lock.unlock() };
        other.join().unwrap();
        assert_eq!(std::iter::from_fn(|| table().lease()).count(), SLOTS - 1 - 2);
    });
}

/// A cell for each slot that only its owner touches.
struct Owned([UnsafeCell<bool>; SLOTS]);

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for Owned {}
// SAFETY: as above.
unsafe impl Send for Owned {}

impl Owned {
    fn mark(&self, slot: u32, owned: bool) {
        self.0[slot as usize].with_mut(|cell| unsafe {
            assert_ne!(*cell, owned, "a slot with two owners");
            *cell = owned;
        });
    }

    fn lease(&self) -> u32 {
        let slot = table().lease().expect("there are enough");
        self.mark(slot, true);
        slot
    }

    fn give_back(&self, slot: u32) {
        self.mark(slot, false);
        table().give_back(slot);
    }
}

#[test]
fn a_slot_belongs_to_one_thread_at_a_time() {
    check(0, 3, || {
        let owned = Arc::new(Owned(std::array::from_fn(|_| UnsafeCell::new(false))));
        let (a, b) = (owned.lease(), owned.lease());
        owned.give_back(b);
        owned.give_back(a);
        let o = owned.clone();
        // The stack's top comes back above another next: the tag must tell.
        let other = thread::spawn(move || {
            let first = o.lease();
            let _second = o.lease();
            o.give_back(first);
        });
        owned.lease();
        owned.lease();
        other.join().unwrap();
    });
}

#[test]
fn a_slot_that_was_given_back_is_leased_again() {
    check(0, 3, || {
        let owned = Arc::new(Owned(std::array::from_fn(|_| UnsafeCell::new(false))));
        let others = [0, 1].map(|_| {
            let o = owned.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    let slot = o.lease();
                    assert!(slot <= 2);
                    o.give_back(slot);
                }
            })
        });
        for other in others {
            other.join().unwrap();
        }
    });
}
