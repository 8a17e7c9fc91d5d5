//! Models of one queue: the owner pushes and reclaims, another thread takes, a third sees that callbacks have run.

use std::ptr::null;

use crate::own::{Count, Own, State, run_callback};
use stillpoint::readers::sections::protocol::ReaderProtocol;
use stillpoint::reclaim::amount::{Amount, Reported, Unreported};
use stillpoint::reclaim::callback::Callback;
use stillpoint::slots::protected::Protected;
use support::model::*;

/// There are no hazard pointers.
fn run_ready(callback: Callback, _protected: &mut Option<Protected>) {
    run_callback(callback);
}

fn push(own: Own, count: &'static Count, local: bool, value: *const Value) {
    let _ = own.push(count, local, value);
}

/// The worker runs ready callbacks.
fn run_batch(state: &State, own: Own) {
    own.queue.run_batch(&state.core.engine, true, u64::MAX, run_ready, |_| ());
}

/// The worker runs what has been pushed, after a grace period.
fn run_round(state: &State, own: Own) {
    let Some((cookie, _)) = own.queue.assign_cookies(&state.core.engine) else { return };
    // Nothing yet, unless another thread has completed a grace period.
    run_batch(state, own);
    if let Some(cookie) = cookie {
        state.core.engine.wait_for(None, cookie);
        run_batch(state, own);
    }
}

/// The owner runs what it may run.
fn run_local(state: &State, own: Own) {
    _ = own.queue.run_local(u64::MAX, &state.core.engine, run_ready);
}

/// Refutes: Queue::push:Release
#[test]
fn reader_never_sees_a_value_freed_by_a_callback() {
    check(0, 2, || {
        let state = Arc::new(State::new(ReaderProtocol::Sections));
        let (own, reader) = (state.register(), state.register());
        let work = |state: &State| {
            thread::yield_now();
            run_round(state, own);
        };
        race_readers(&state, work, 2, move |state, index| match index {
            0 => push(own, Count::new(), false, state.published.swap(boxed(8))),
            _ => state.read(reader),
        });
    });
}

/// Refutes: cookie-before-callbacks-seen, ready-before-grace-period
#[test]
fn callback_waits_for_the_section_that_queued_it() {
    check(0, 2, || {
        let state = Arc::new(State::new(ReaderProtocol::Sections));
        let own = state.register();
        let retire = |state: &State| {
            // A grace period that the worker must not take for the callback's.
            state.core.engine.synchronize(Some(own.reader));
            state.enter(own);
            let old = state.published.swap(boxed(8));
            push(own, Count::new(), false, old);
            look_later(old);
            state.leave(own);
        };
        race(&state, |state| interruptible(0, || retire(state)), move |state| run_round(state, own));
    });
}

/// Refutes: late-callbacks-join
#[test]
fn later_callback_waits_for_a_later_grace_period() {
    check(0, 1, || {
        let state = Arc::new(State::new(ReaderProtocol::Sections));
        let (own, reader) = (state.register(), state.register());
        let count = Count::new();
        push(own, count, false, null());
        let found = own.queue.assign_cookies(&state.core.engine);
        let cookie = found.expect("no thread has claimed the queue").0.expect("there is a callback");
        let replace = |state: &State| {
            interruptible(0, || push(own, count, false, state.published.swap(boxed(8))));
            run_round(state, own);
        };
        race_all(&state, replace, 2, move |state, index| match index {
            0 => state.core.engine.wait_for(None, cookie),
            _ => interruptible(1, || state.read(reader)),
        });
        run_round(&state, own);
        assert_eq!(count.get(), 2);
    });
}

/// Refutes: Claim::run:Release, Queue::completed:Acquire
#[test]
fn completed_callback_publishes_its_effects() {
    check(0, 3, || {
        let state = Arc::new(State::new(ReaderProtocol::Sections));
        let own = state.register();
        let count = Count::new();
        push(own, count, false, null());
        let check = |_: &State| {
            thread::yield_now();
            if own.queue.completed() == 1 {
                assert_eq!(count.get(), 1);
            }
        };
        race(&state, check, move |state| run_round(state, own));
        assert_eq!(own.queue.completed(), 1);
    });
}

/// Refutes: owner-takes-beside-worker, Claim::release:Release, Queue::try_claim:Acquire
#[test]
fn owner_never_frees_what_the_worker_claimed() {
    check(0, 3, || {
        let state = Arc::new(State::new(ReaderProtocol::Sections));
        let own = state.register();
        let count = Count::new();
        // More than a worker takes at a time, in two blocks.
        for _ in 0..3 {
            push(own, count, true, null());
        }
        run_local(&state, own);
        state.core.engine.synchronize(Some(own.reader));
        let reclaim = |state: &State| {
            thread::yield_now();
            run_local(state, own);
            push(own, count, true, null());
        };
        race(&state, reclaim, move |state| run_batch(state, own));
        run_round(&state, own);
        run_round(&state, own);
        assert_eq!(count.get(), 4);
    });
}

#[test]
fn queue_continues_with_its_next_owner() {
    check(0, 1, || {
        let state = Arc::new(State::new(ReaderProtocol::Sections));
        let counts = [Count::new(), Count::new()];
        let own = state.register();
        let defer = move |state: &State, own: Own| {
            push(own, counts[own.index.load(Relaxed) as usize], true, null());
            run_local(state, own);
        };
        let release = |state: &State, own: Own| state.core.engine.readers().registry().release(own.reader);
        let follow = |state: &State| {
            thread::yield_now();
            // The same queue, or another.
            let next = state.register();
            defer(state, next);
            release(state, next);
        };
        race_all(&state, follow, 2, move |state, index| match index {
            0 => interruptible(0, || {
                defer(state, own);
                defer(state, own);
                release(state, own);
            }),
            _ => run_round(state, own),
        });
        let registry = state.core.engine.readers().registry();
        for reader in (0..registry.len()).map(|index| registry.reader(index)) {
            let own = Own::of(registry, reader);
            run_round(&state, own);
            run_round(&state, own);
        }
        assert_eq!(counts[0].get() + counts[1].get(), 3);
    });
}

/// The owner pushes the second callback before it runs the first, and reports in between.
///
/// Refutes: reported-after-forgotten, Unreported::report_pushed:Release, Unreported::run:Release, Reported::run:Release,
/// Reported::all_run:Acquire, Reported::all_run:Acquire#2, Reported::all_pushed:Acquire
#[test]
fn statistics_miss_no_callback_that_waits() {
    const ONE: Amount = Amount { count: 1, unknown: 0, bytes: 0 };
    check(0, 2, || {
        let state = Arc::new((Unreported::new(), Reported::new()));
        _ = state.0.push(ONE);
        let owner = thread::spawn({
            let state = state.clone();
            move || {
                let (own, reported) = &*state;
                _ = own.report(reported);
                _ = own.push(ONE);
                own.run(ONE);
                _ = own.report(reported);
            }
        });
        let (own, reported) = &*state;
        let run = reported.all_run([own].into_iter());
        let pushed = reported.all_pushed([own].into_iter());
        assert!(pushed.count > run.count, "{pushed:?}, {run:?}");
        owner.join().expect("no panic");
        assert_eq!(reported.waiting(), ONE);
    });
}
