//! Models of [`SharedSeq`], by which concurrent callers share *rounds*, such as grace periods: which round serves a
//! caller, which thread leads, which threads sleep and are woken.
//!
//! A caller is served by a round that starts after its snapshot.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use stillpoint::sync::shared_seq::{SeqSnapshot, SharedSeq};
use support::model::*;

const CALLERS: usize = 3;

/// Callers store relaxedly to `asked`; a round answers the callers whose stores it sees.
struct State {
    rounds: SharedSeq,
    asked: [AtomicU64; CALLERS],
    answered: [AtomicU64; CALLERS],
    /// The rounds that called [`round`](Self::round). Two rounds at a time are a data race.
    run: UnsafeCell<u32>,
}

impl State {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            rounds: SharedSeq::new(),
            asked: std::array::from_fn(|_| AtomicU64::new(0)),
            answered: std::array::from_fn(|_| AtomicU64::new(0)),
            run: UnsafeCell::new(0),
        })
    }

    fn round(&self) {
        self.run.with_mut(|run| unsafe { *run += 1 });
        for (asked, answered) in self.asked.iter().zip(&self.answered) {
            if asked.load(Relaxed) != 0 {
                answered.store(1, Relaxed);
            }
        }
    }

    /// Asks, waits, and finds the answer.
    fn call(&self, caller: usize) {
        let snapshot = self.ask(caller);
        self.wait_for(caller, snapshot);
    }

    fn ask(&self, caller: usize) -> SeqSnapshot {
        self.asked[caller].store(1, Relaxed);
        self.rounds.snapshot()
    }

    fn wait_for(&self, caller: usize, snapshot: SeqSnapshot) {
        self.rounds.wait_for(snapshot, || self.round());
        self.assert_answered(caller);
    }

    fn run_or_wait(&self, caller: usize) {
        self.asked[caller].store(1, Relaxed);
        self.rounds.run_or_wait(|| self.round());
        self.assert_answered(caller);
    }

    /// Waits with a round that panics; so must the call.
    fn fail(&self) {
        let wait = AssertUnwindSafe(|| self.rounds.run_or_wait(|| resume_unwind(Box::new(()))));
        assert!(catch_unwind(wait).is_err());
    }

    fn assert_answered(&self, caller: usize) {
        assert_eq!(self.answered[caller].load(Relaxed), 1, "served by a round that started before the call");
    }
}

fn callers(n: usize) {
    let state = State::new();
    race_all(&state, |state| state.call(0), n - 1, |state, index| state.call(1 + index));
    let run = state.run.with(|run| unsafe { *run });
    assert!(run >= 1 && run as usize <= n, "{n} callers needed {run} rounds");
}

/// Refutes: no-leader-woken, served-not-woken, sleep-without-comparing, snapshot-by-load,
/// snapshot-joins-current-round, SharedSeq::run_or_sleep:Acquire, SharedSeq::snapshot:Release,
/// SharedSeq::start:Acquire, SharedSeq::update:Release
#[test]
fn two_callers_are_served_by_a_later_round() {
    check(0, 4, || callers(2));
}

/// Callers of the first round and of the next one sleep at the same time.
///
/// Refutes: next-forgotten
#[test]
fn three_callers_are_served_and_wake() {
    check(0, 2, || callers(3));
}

/// Refutes: SharedSeq::is_done:Acquire
#[test]
fn round_seen_done_serves_its_snapshot() {
    check(0, 3, || {
        let state = State::new();
        let look = |state: &State| {
            let snapshot = state.ask(0);
            if state.rounds.is_done(snapshot) {
                state.assert_answered(0);
            } else {
                // Lets the other thread's round end, in some executions.
                thread::yield_now();
                state.wait_for(0, snapshot);
            }
            assert!(state.rounds.is_done(snapshot));
        };
        race(&state, look, |state| state.call(1));
    });
}

/// A waiter whose round has failed leads the next one, and fails too.
///
/// Refutes: failure-counts, failure-not-reported
#[test]
fn failed_round_fails_each_waiter_by_itself() {
    check(0, 3, || {
        let state = State::new();
        race_all(&state, State::fail, CALLERS - 1, |state, _| state.fail());
        assert_eq!(state.rounds.completed(), 0);
    });
}

/// `try_run` returns `None` if another round is in progress, or what its round returned. A failed one does not count.
///
/// Refutes: failure-waited-for
#[test]
fn caller_during_a_failed_try_needs_one_round() {
    check(0, 4, || {
        let state = State::new();
        let call = |state: &State| {
            state.run_or_wait(0);
            assert_eq!(state.rounds.completed(), 1);
        };
        race(&state, call, |state| assert_ne!(state.rounds.try_run(|| false), Some(true)));
    });
}

/// Fails like the first two tests do, where the round that callers sleep for is a `try_run`.
#[test]
fn try_run_serves_callers_that_sleep() {
    check(0, 2, || {
        let state = State::new();
        race_all(
            &state,
            |state| state.run_or_wait(0),
            2,
            |state, index| {
                if index == 0 {
                    state.run_or_wait(1);
                } else {
                    state.rounds.try_run(|| false);
                    state.rounds.try_run(|| {
                        state.round();
                        true
                    });
                }
            },
        );
    });
}
