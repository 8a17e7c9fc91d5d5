//! Garbage behind a thread that stays pinned.

mod support;

use std::env;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_epoch::{self as epoch, Collector, Owned};
use support::deadline::deadline;
use support::{Participant, Participants, Thread, Tracked, counter};

/// The tests stall each other's collectors.
static ALONE: Mutex<()> = Mutex::new(());

const SWITCH: &str = "STILLPOINT_EPOCH_LIMIT";
/// What a value takes here, and what may wait: the limits, and some for threads that notice late.
const SIZE: usize = 4 << 10;
const MOST: usize = (64 << 20) / SIZE + 2000;

/// A value that counts how often it is dropped.
type Value = (Tracked, [u8; SIZE]);

fn defer(participant: &impl Participant, dropped: &'static AtomicUsize) {
    let guard = &participant.pin();
    let value: Value = (Tracked(dropped), [1; SIZE]);
    // SAFETY: no other thread has the pointer.
    unsafe { guard.defer_destroy(Owned::new(value).into_shared(guard)) };
}

fn defer_many(participant: &impl Participant, count: usize, dropped: &'static AtomicUsize) {
    (0..count).for_each(|_| defer(participant, dropped));
}

#[test]
fn thread_that_defers_is_throttled_behind_a_stalled_one() {
    let _alone = ALONE.lock();
    let _running = deadline();
    let dropped = counter();
    let deferred = thread::scope(|scope| {
        let guard = epoch::pin();
        // Until it does not go on: a throttled thread waits for a second.
        let deferring = scope.spawn(|| {
            let is_throttled = |_: &usize| {
                let begin = Instant::now();
                defer(&Thread, dropped);
                begin.elapsed() > Duration::from_millis(500)
            };
            (1..=2 * MOST).find(is_throttled).unwrap_or(2 * MOST)
        });
        let deferred = deferring.join().expect("it does not panic");
        assert!(deferred <= MOST, "{deferred} values wait");
        assert_eq!(dropped.load(Acquire), 0);
        drop(guard);
        deferred
    });
    Thread.until(|| dropped.load(Acquire) == deferred);
}

/// The pinned thread waits for the one that is throttled, as a program may with crossbeam-epoch.
fn throttled_thread_goes_on(way: &impl Participants) {
    let _alone = ALONE.lock();
    let _running = deadline();
    let dropped = counter();
    // Each of those above the limit takes a millisecond.
    const COUNT: usize = MOST + 500;
    let participant = way.participant();
    let guard = participant.pin();
    thread::scope(|scope| {
        let deferring = scope.spawn(|| {
            let participant = way.participant();
            defer_many(&participant, COUNT, dropped);
        });
        deferring.join().expect("it does not panic");
    });
    assert_eq!(dropped.load(Acquire), 0);
    drop(guard);
    participant.until(|| dropped.load(Acquire) == COUNT);
}

#[test]
fn throttled_thread_goes_on_if_the_stalled_one_waits_for_it() {
    throttled_thread_goes_on(&Thread);
    throttled_thread_goes_on(epoch::default_collector());
}

#[test]
fn throttled_handle_goes_on_if_the_stalled_one_waits_for_it() {
    throttled_thread_goes_on(&Collector::new());
}

/// Each collects only when it begins an outermost section, in which it defers more than a few bags.
#[test]
fn garbage_of_nested_sections_stays_within_the_limits() {
    const THREADS: usize = 16;
    const IN_SECTION: usize = 2000;
    let _alone = ALONE.lock();
    let _running = deadline();
    let (dropped, deferred) = (counter(), counter());
    let most = AtomicUsize::new(0);
    let end = Instant::now() + Duration::from_secs(2);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while Instant::now() < end {
                    let _outer = epoch::pin();
                    for _ in 0..IN_SECTION {
                        let guard = &epoch::pin();
                        // SAFETY: no other thread has the pointer.
                        unsafe { guard.defer_destroy(Owned::new(Tracked(dropped)).into_shared(guard)) };
                    }
                    let dropped = dropped.load(Relaxed);
                    let deferred = deferred.fetch_add(IN_SECTION, Relaxed) + IN_SECTION;
                    most.fetch_max(deferred.saturating_sub(dropped), Relaxed);
                }
            });
        }
    });
    let most = most.load(Relaxed);
    assert!(most <= (1 << 17) + THREADS * (IN_SECTION + 128), "{most} values wait");
    Thread.until(|| dropped.load(Acquire) == deferred.load(Acquire));
}

/// It holds a guard, and pins again and again: no other thread can end what it would wait for.
#[test]
fn thread_that_stays_pinned_is_not_throttled() {
    let _alone = ALONE.lock();
    let _running = deadline();
    let dropped = counter();
    let handle = Collector::new().register();
    let guards = (epoch::pin(), handle.pin());
    defer_many(&Thread, 2 * MOST, dropped);
    defer_many(&handle, 2 * MOST, dropped);
    assert_eq!(dropped.load(Acquire), 0);
    drop(guards);
    handle.until(|| {
        epoch::pin().flush();
        dropped.load(Acquire) == 4 * MOST
    });
}

#[test]
fn switch_turns_the_limits_off() {
    const NAME: &str = "switch_turns_the_limits_off";
    let _alone = ALONE.lock();
    let _running = deadline();
    if env::var(SWITCH).is_err() {
        for limit in ["off", "100000", "nonsense"] {
            let program = env::current_exe().expect("this program has a path");
            let output =
                Command::new(program).args(["--exact", NAME, "--nocapture"]).env(SWITCH, limit).output();
            let output = output.expect("it runs");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{limit}: {errors}");
            assert_eq!(errors.contains("neither"), limit == "nonsense", "{errors}");
        }
        return;
    }
    let dropped = counter();
    if env::var(SWITCH).as_deref() == Ok("nonsense") {
        return defer(&Thread, dropped);
    }
    // Three times what may wait with the limits, and the thread that defers goes on although nothing is freed.
    const COUNT: usize = 3 * MOST;
    for participants in [None, Some(Collector::new())] {
        thread::scope(|scope| {
            let handle = participants.as_ref().map(Collector::register);
            let _guard = handle.as_ref().map_or_else(epoch::pin, |handle| handle.pin());
            let deferring = scope.spawn(|| match &participants {
                None => defer_many(&Thread, COUNT, dropped),
                Some(collector) => defer_many(&collector.register(), COUNT, dropped),
            });
            deferring.join().expect("it does not panic");
        });
    }
}
