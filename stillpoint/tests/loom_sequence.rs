//! Models of shared turns: who is served by which turn, who leads, who sleeps and who wakes him.
#![cfg(loom)]

mod model;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use model::check;
use stillpoint::sequence::{Sequence, Target};
use stillpoint::sync::{AtomicU64, Ordering::*};

const CALLERS: usize = 3;

/// Callers ask with a relaxed store; a turn answers all whose question it sees.
struct World {
    turns: Sequence,
    asked: [AtomicU64; CALLERS],
    answered: [AtomicU64; CALLERS],
    /// Turns run, failed ones too: no two at a time.
    run: UnsafeCell<u32>,
}

// SAFETY: loom checks every access of the cell.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            turns: Sequence::new(),
            asked: std::array::from_fn(|_| AtomicU64::new(0)),
            answered: std::array::from_fn(|_| AtomicU64::new(0)),
            run: UnsafeCell::new(0),
        })
    }

    fn turn(&self) {
        self.run.with_mut(|run| unsafe { *run += 1 });
        for (asked, answered) in self.asked.iter().zip(&self.answered) {
            if asked.load(Relaxed) != 0 {
                answered.store(1, Relaxed);
            }
        }
    }

    /// Asks and joins; the answer must be there.
    fn call(&self, caller: usize) {
        let target = self.ask(caller);
        self.wait_for(caller, target);
    }

    fn ask(&self, caller: usize) -> Target {
        self.asked[caller].store(1, Relaxed);
        self.turns.ask()
    }

    fn wait_for(&self, caller: usize, target: Target) {
        self.turns.wait_for(target, || self.turn());
        self.is_answered(caller);
    }

    fn join(&self, caller: usize) {
        self.asked[caller].store(1, Relaxed);
        self.turns.join(|| self.turn());
        self.is_answered(caller);
    }

    /// Joins with a turn that panics: so must this caller.
    fn fail(&self) {
        let joins = AssertUnwindSafe(|| self.turns.join(|| resume_unwind(Box::new(()))));
        assert!(catch_unwind(joins).is_err());
    }

    fn is_answered(&self, caller: usize) {
        assert_eq!(self.answered[caller].load(Relaxed), 1, "served by a turn that began before the call");
    }
}

fn callers(n: usize) {
    let world = World::new();
    let threads: Vec<_> = (1..n)
        .map(|caller| {
            let w = world.clone();
            thread::spawn(move || w.call(caller))
        })
        .collect();
    world.call(0);
    for thread in threads {
        thread.join().unwrap();
    }
    let run = world.run.with(|run| unsafe { *run });
    assert!(run >= 1 && run as usize <= n, "{n} callers needed {run} turns");
}

#[test]
fn two_callers_are_served_by_a_turn_that_began_after_they_asked() {
    check(0, 4, || callers(2));
}

#[test]
fn three_callers_are_served_and_none_sleeps_for_ever() {
    check(0, 2, || callers(3));
}

#[test]
fn a_turn_that_is_seen_to_be_done_serves_who_asked_for_it_and_did_not_wait() {
    check(0, 3, || {
        let world = World::new();
        let w = world.clone();
        let other = thread::spawn(move || w.call(1));
        let target = world.ask(0);
        if world.turns.is_done(target) {
            world.is_answered(0);
        } else {
            // Perhaps later than somebody's turn that was under way.
            thread::yield_now();
            world.wait_for(0, target);
        }
        assert!(world.turns.is_done(target));
        other.join().unwrap();
    });
}

#[test]
fn after_a_failed_turn_everybody_finds_out_for_himself() {
    check(0, 3, || {
        let world = World::new();
        let threads: Vec<_> = (1..CALLERS)
            .map(|_| {
                let w = world.clone();
                thread::spawn(move || w.fail())
            })
            .collect();
        world.fail();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(world.turns.completed(), 0);
    });
}

#[test]
fn caller_that_asked_during_a_failed_try_is_served_by_one_turn() {
    check(0, 4, || {
        let world = World::new();
        let w = world.clone();
        let trying = thread::spawn(move || assert!(!w.turns.try_lead(|| false)));
        world.join(0);
        assert_eq!(world.turns.completed(), 1);
        trying.join().unwrap();
    });
}

#[test]
fn try_beside_callers_serves_them_or_does_not_count() {
    check(0, 2, || {
        let world = World::new();
        let threads: Vec<_> = (1..CALLERS)
            .map(|caller| {
                let w = world.clone();
                thread::spawn(move || {
                    if caller == 1 {
                        w.join(1);
                    } else {
                        // One that fails, and one that may be the turn that the caller sleeps for.
                        w.turns.try_lead(|| false);
                        w.turns.try_lead(|| {
                            w.turn();
                            true
                        });
                    }
                })
            })
            .collect();
        world.join(0);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}
