//! Flushing a few times, as programs do that rely on it that what was deferred has run.

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ::support::tracked::Tracked;
use ::support::until::until;
use crossbeam_epoch::Owned;
use support::deadline::{Running, deadline};
use support::{Participant, Participants, counter};

/// Tests in one process are pinned at the same time, and would keep each other's functions from running.
fn alone() -> (MutexGuard<'static, ()>, Running) {
    static ALONE: Mutex<()> = Mutex::new(());
    (ALONE.lock().unwrap_or_else(PoisonError::into_inner), deadline())
}

in_all_ways!(
    inside super::alone;
    two_flushes_run_what_the_thread_has_deferred,
    two_flushes_run_what_ended_threads_have_deferred,
    two_flushes_run_what_a_living_thread_has_deferred,
    two_flushes_suffice_beside_the_worker,
    flush_in_a_nested_section_counts_when_the_outermost_ends,
    flushes_around_a_repin_suffice,
    flushes_beside_a_pinned_thread_return,
    flushes_suffice_beside_threads_that_pin_briefly,
    flush_in_a_function_returns,
);

fn defer(participant: &impl Participant, count: usize, ran: &'static AtomicUsize) {
    let guard = &participant.pin();
    for i in 0..count {
        if i % 2 == 0 {
            guard.defer(|| ran.fetch_add(1, Release));
        } else {
            // SAFETY: no other thread has the pointer.
            unsafe { guard.defer_destroy(Owned::new(Tracked(ran)).into_shared(guard)) };
        }
    }
}

/// How long a flush waits for threads that do the same work, and have no CPU.
const PATIENCE: Duration = Duration::from_millis(50);

/// Checks that functions have run, unless a flush since `begin` may have waited in vain for a thread without a CPU.
/// Then they run when that has one.
fn expect_ran(participant: &impl Participant, ran: &AtomicUsize, count: usize, begin: Instant) {
    let seen = ran.load(Acquire);
    assert!(seen == count || begin.elapsed() >= PATIENCE, "{seen} of {count} have run");
    participant.until(|| ran.load(Acquire) == count);
}

fn two_flushes_run_what_the_thread_has_deferred(way: &impl Participants) {
    let participant = way.participant();
    for round in 0..300 {
        let (ran, count, begin) = (counter(), round % 70 + 1, Instant::now());
        defer(&participant, count, ran);
        participant.pin().flush();
        participant.pin().flush();
        expect_ran(&participant, ran, count, begin);
    }
}

fn two_flushes_run_what_ended_threads_have_deferred(way: &impl Participants) {
    let participant = way.participant();
    for round in 0..50 {
        let (ran, count, begin) = (counter(), 3 * round + 1, Instant::now());
        thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(|| defer(&way.participant(), count, ran)));
            threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        });
        participant.pin().flush();
        participant.pin().flush();
        expect_ran(&participant, ran, 3 * count, begin);
    }
}

fn two_flushes_run_what_a_living_thread_has_deferred(way: &impl Participants) {
    let (ran, step, done) = (counter(), AtomicUsize::new(0), AtomicBool::new(false));
    /// Lets the other thread end, also if this one panics.
    struct Last<'a>(&'a AtomicUsize);
    impl Drop for Last<'_> {
        fn drop(&mut self) {
            self.0.store(usize::MAX, Release);
        }
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            let participant = way.participant();
            for round in 0..20 {
                defer(&participant, 10, ran);
                // In crossbeam-epoch the other thread does not see it before.
                participant.pin().flush();
                step.fetch_max(2 * round + 1, Release);
                until(|| step.load(Acquire) >= 2 * round + 2);
            }
            done.store(true, Release);
        });
        let _last = Last(&step);
        let participant = way.participant();
        for round in 0..20 {
            let begin = Instant::now();
            until(|| step.load(Acquire) > 2 * round);
            participant.pin().flush();
            participant.pin().flush();
            expect_ran(&participant, ran, 10 * (round + 1), begin);
            step.store(2 * round + 2, Release);
        }
    });
    assert!(done.load(Acquire));
}

/// The worker runs some functions, and is in the middle of it now and then.
fn two_flushes_suffice_beside_the_worker(way: &impl Participants) {
    let participant = way.participant();
    for round in 0..40_u32 {
        let (ran, begin) = (counter(), Instant::now());
        defer(&participant, 200, ran);
        // Until the worker has begun, or for a while that ends at any of its steps.
        for _ in 0..round * 50 {
            if ran.load(Relaxed) != 0 {
                break;
            }
            thread::yield_now();
        }
        participant.pin().flush();
        participant.pin().flush();
        expect_ran(&participant, ran, 200, begin);
    }
}

fn flush_in_a_nested_section_counts_when_the_outermost_ends(way: &impl Participants) {
    let (participant, ran, begin) = (way.participant(), counter(), Instant::now());
    let outer = participant.pin();
    defer(&participant, 3, ran);
    for _ in 0..100 {
        participant.pin().flush();
    }
    assert_eq!(ran.load(Acquire), 0);
    drop(outer);
    // It is ready: the next one runs it before it does anything else.
    let guard = participant.pin();
    let has_run = ran.load(Acquire) == 3;
    drop(guard);
    assert!(has_run || begin.elapsed() >= PATIENCE);
    participant.until(|| ran.load(Acquire) == 3);
}

fn flushes_around_a_repin_suffice(way: &impl Participants) {
    let (participant, ran, begin) = (way.participant(), counter(), Instant::now());
    let mut guard = participant.pin();
    defer(&participant, 3, ran);
    guard.flush();
    guard.repin();
    guard.flush();
    let has_run = ran.load(Acquire) == 3;
    drop(guard);
    assert!(has_run || begin.elapsed() >= PATIENCE);
}

fn flushes_beside_a_pinned_thread_return(way: &impl Participants) {
    let (ran, participant) = (counter(), way.participant());
    let guard = participant.pin();
    thread::scope(|scope| {
        let flushing = scope.spawn(|| {
            let participant = way.participant();
            defer(&participant, 3, ran);
            for _ in 0..1000 {
                participant.pin().flush();
            }
        });
        flushing.join().expect("it does not panic");
    });
    assert_eq!(ran.load(Acquire), 0);
    drop(guard);
    participant.until(|| ran.load(Acquire) == 3);
}

fn flushes_suffice_beside_threads_that_pin_briefly(way: &impl Participants) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let participant = way.participant();
                while !stop.load(Relaxed) {
                    drop(participant.pin());
                }
            });
        }
        let participant = way.participant();
        for _ in 0..10 {
            let ran = counter();
            defer(&participant, 10, ran);
            // The others may be pinned for as long as they wait for a CPU.
            participant.until(|| ran.load(Acquire) == 10);
        }
        stop.store(true, Relaxed);
    });
}

fn flush_in_a_function_returns(way: &impl Participants) {
    let (ran, participant) = (counter(), way.participant());
    // SAFETY: the test waits until it has run.
    unsafe {
        participant.pin().defer_unchecked(|| {
            for _ in 0..10 {
                way.participant().pin().flush();
            }
            ran.fetch_add(1, Release);
        });
    }
    participant.until(|| ran.load(Acquire) == 1);
}
