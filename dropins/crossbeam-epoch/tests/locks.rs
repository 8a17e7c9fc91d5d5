//! Deferred functions that take locks: a thread may hold such a lock wherever it does not pin or flush.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_epoch::{Guard, Owned};
use support::{Participant, Participants};

in_all_ways!(
    function_may_take_a_lock_that_is_held_while_others_are_deferred,
    function_may_take_a_lock_that_is_held_when_the_thread_is_unpinned,
    function_may_take_a_lock_that_is_held_at_a_repin,
);

/// A lock that deferred functions and destructors take.
#[derive(Default)]
struct Shared {
    lock: Mutex<()>,
    ran: AtomicUsize,
}

impl Shared {
    fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    fn hold(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        drop(self.hold());
        self.ran.fetch_add(1, Release);
    }

    fn defer(&'static self, guard: &Guard) {
        guard.defer(|| self.run());
        // SAFETY: no other thread has the pointer.
        unsafe { guard.defer_destroy(Owned::new(Locks(self)).into_shared(guard)) };
    }
}

struct Locks(&'static Shared);

impl Drop for Locks {
    fn drop(&mut self) {
        self.0.run();
    }
}

/// Several blocks of a queue.
const COUNT: usize = 500;

fn function_may_take_a_lock_that_is_held_while_others_are_deferred(way: &impl Participants) {
    let (shared, participant) = (Shared::new(), way.participant());
    for _ in 0..10 {
        let guard = &participant.pin();
        let held = shared.hold();
        (0..COUNT).for_each(|_| shared.defer(guard));
        drop(held);
    }
    participant.until(|| shared.ran.load(Acquire) == 20 * COUNT);
}

fn function_may_take_a_lock_that_is_held_when_the_thread_is_unpinned(way: &impl Participants) {
    let (shared, participant) = (Shared::new(), way.participant());
    for i in 0..COUNT {
        let guard = participant.pin();
        shared.defer(&guard);
        if i % 3 == 0 {
            guard.flush();
        }
        let held = shared.hold();
        drop(guard);
        drop(held);
    }
    participant.until(|| shared.ran.load(Acquire) == 2 * COUNT);
}

fn function_may_take_a_lock_that_is_held_at_a_repin(way: &impl Participants) {
    let (shared, participant) = (Shared::new(), way.participant());
    let mut guard = participant.pin();
    for i in 0..COUNT {
        shared.defer(&guard);
        if i % 3 == 0 {
            guard.flush();
        }
        let held = shared.hold();
        guard.repin();
        drop(held);
    }
    drop(guard);
    participant.until(|| shared.ran.load(Acquire) == 2 * COUNT);
}
