//! Children of forks run what they have deferred, and nothing that their parent has.

// Elsewhere than on Linux the child of a fork may only `exec`.
#![cfg(all(target_os = "linux", not(stillpoint_portable)))]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::*};
use std::thread;

use ::support::fork::{await_child, exit, fork, in_child};
use ::support::time_limit::repetitions;
use ::support::until::until;
use crossbeam_epoch::{self as epoch, Collector};
use support::deadline::deadline;
use support::{Participant, Participants, Thread};

/// What the parent has deferred, and what of that has run.
static DEFERRED: AtomicUsize = AtomicUsize::new(0);
static IN_PARENT: AtomicUsize = AtomicUsize::new(0);

fn defer(participant: &impl Participant, count: usize, ran: &'static AtomicUsize) {
    let guard = participant.pin();
    (0..count).for_each(|_| guard.defer(|| ran.fetch_add(1, AcqRel)));
}

/// Forks `beside` a thread that defers, flushes, and holds each lock now and then.
fn child_runs_its_own(way: &impl Participants, beside: bool) {
    static IN_CHILD: AtomicUsize = AtomicUsize::new(0);
    let stop = AtomicBool::new(!beside);
    let participant = way.participant();
    thread::scope(|scope| {
        scope.spawn(|| {
            let participant = way.participant();
            while !stop.load(Relaxed) {
                DEFERRED.fetch_add(70, Relaxed);
                defer(&participant, 70, &IN_PARENT);
                participant.pin().flush();
            }
        });
        for round in 0..repetitions(40) {
            // Some are in an open bag, some in sealed ones.
            DEFERRED.fetch_add(round % 150, Relaxed);
            defer(&participant, round % 150, &IN_PARENT);
            let before = IN_CHILD.load(Acquire);
            let guard = (round % 3 == 0).then(|| participant.pin());
            in_child(|| {
                drop(guard);
                let parents = IN_PARENT.load(Acquire);
                defer(&participant, 100, &IN_CHILD);
                let other = way.participant();
                participant.until(|| IN_CHILD.load(Acquire) == before + 100);
                defer(&other, 3, &IN_CHILD);
                // A thread of the library runs these.
                until(|| IN_CHILD.load(Acquire) == before + 103);
                assert_eq!(IN_PARENT.load(Acquire), parents, "the parent's run in the child");
            });
        }
        stop.store(true, Relaxed);
    });
    participant.until(|| IN_PARENT.load(Acquire) == DEFERRED.load(Acquire));
}

/// Returns how often the thread has waited for something.
fn waits() -> i64 {
    // SAFETY: plain data, which the call writes.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_nvcsw
    }
}

/// A deferred function forks. The child does not run those behind it, and is not throttled.
fn function_forks(way: &impl Participants) {
    static PID: AtomicI32 = AtomicI32::new(0);
    static BEHIND: AtomicUsize = AtomicUsize::new(0);
    static IN_CHILD: AtomicUsize = AtomicUsize::new(0);
    const BAGS: usize = 400;
    let participant = way.participant();
    let mut deferred = BEHIND.load(Acquire);
    // Until this thread runs the function, and not one of the library.
    loop {
        PID.store(-1, Release);
        let this = thread::current().id();
        let guard = participant.pin();
        guard.defer(move || {
            if thread::current().id() == this {
                PID.store(fork(), Release);
            }
        });
        (0..10).for_each(|_| guard.defer(|| BEHIND.fetch_add(1, Release)));
        drop(guard);
        participant.until(|| PID.load(Acquire) == 0 || BEHIND.load(Acquire) == deferred + 10);
        match PID.load(Acquire) {
            -1 => deferred += 10,
            0 => break,
            pid => return await_child(pid),
        }
    }
    let child = || {
        assert_eq!(BEHIND.load(Acquire), deferred, "the parent's run in the child");
        let before = waits();
        (0..BAGS).for_each(|_| defer(&participant, 64, &IN_CHILD));
        let waited = waits() - before;
        assert!(waited < BAGS as i64 / 4, "it waits {waited} times");
        participant.until(|| IN_CHILD.load(Acquire) == 64 * BAGS);
    };
    exit(catch_unwind(AssertUnwindSafe(child)).is_ok())
}

/// One after another: a process has one deadline, and children of one test would be those of another's threads.
#[test]
fn child_runs_what_it_has_deferred_and_no_more() {
    let _running = deadline();
    child_runs_its_own(&Thread, true);
    child_runs_its_own(epoch::default_collector(), true);
    // Sections of a domain that is a value never end in a child that has lost their thread.
    child_runs_its_own(&Collector::new(), false);
    function_forks(&Thread);
    function_forks(epoch::default_collector());
    function_forks(&Collector::new());
}
