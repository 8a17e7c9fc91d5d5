//! E7: a failed compare-exchange orders nothing.
//!
//! The review of the posts asked what orders the unlocker's look at a waiter after a compare-exchange that may fail. Here it
//! is the kick: the head says in its node that it sleeps, then in the word that it must be woken; the unlocker finds that in the
//! word, and makes the node's state `AWAKE` by a compare-exchange. That one fails if it finds the state from before, as the
//! language allows: then it is a plain load, and the wake-up is lost. An Acquire of the word rules it out.
//!
//! Explored completely under [loom](https://docs.rs/loom), whose compare-exchange always finds the newest state: one that fails is
//! written as what it is, a load. And tried on the machine; an x86-64 orders it anyway.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use super::Findings;
use crate::harness::posted::table;
use crate::harness::report::OURS;
use crate::harness::{Better, Budget, Config, Metric, Posted, Recorder, Report};

const EXECUTIONS: Metric = Metric::count("executions", Better::Lower);
const LOST: Metric = Metric::count("lost_on_machine", Better::Lower);

const POSTED: Posted = Posted {
    source: "review of pvqspinlock v2, 2015",
    expected: "lost without the Acquire, in the model; never with it",
    tables: &[],
};

const LOCKED: u32 = 1;
const PARKED: u32 = 2;
const AWAKE: u32 = 0;
const SLEEPS: u32 = 1;

/// Times that the machine tries.
const TIMES: usize = 200_000;

/// Runs the experiment.
///
/// # Errors
///
/// None; for the sake of the others.
pub(crate) fn run(_budget: Budget) -> anyhow::Result<Findings> {
    let config = Config::new([("threads", 2.into())]);
    let mut recorder = Recorder::default();
    let mut verdicts = table(["release of the word", "model", "interleavings", "lost on this machine"]);
    for (system, name, order) in
        [(OURS, "AcqRel", Ordering::AcqRel), ("without-acquire", "Release", Ordering::Release)]
    {
        let (is_proved, executions) = explore(order);
        let lost = try_out(order);
        recorder.record(0, system, &EXECUTIONS, &config, executions as f64);
        recorder.record(0, system, &LOST, &config, lost as f64);
        let verdict = if is_proved { "proved" } else { "refuted: a wake-up is lost" };
        verdicts.add_row([name, verdict, &executions.to_string(), &format!("{lost} of {TIMES}")]);
    }
    let report = Report::new("e7", &recorder, Vec::new()).with_posted(&POSTED);
    Ok(Findings { report, tables: vec![("A kick after a release".to_owned(), verdicts)] })
}

/// Whether no wake-up is lost in any interleaving, and how many were looked at.
fn explore(release: Ordering) -> (bool, usize) {
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = executions.clone();
    // A refutation is a panic, which is not news to the user.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        loom::model(move || {
            use loom::sync::atomic::AtomicU32;
            counted.fetch_add(1, Ordering::Relaxed);
            let shared = loom::sync::Arc::new((AtomicU32::new(LOCKED), AtomicU32::new(AWAKE)));
            let head = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    let (word, state) = &*shared;
                    state.store(SLEEPS, Ordering::Relaxed);
                    let (old, new) = (LOCKED, LOCKED | PARKED);
                    word.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed).is_ok()
                })
            };
            let (word, state) = &*shared;
            let was_told = word.fetch_and(!(LOCKED | PARKED), release) & PARKED != 0;
            let woke = was_told
                && state.load(Ordering::Relaxed) == SLEEPS
                && state.compare_exchange(SLEEPS, AWAKE, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            let sleeps = head.join().is_ok_and(|parked| parked);
            assert_eq!(sleeps, woke, "a wake-up is lost");
        });
    }));
    panic::set_hook(hook);
    (outcome.is_ok(), executions.load(Ordering::Relaxed))
}

/// Wake-ups that the machine has lost.
fn try_out(release: Ordering) -> usize {
    let (word, state, both) = (AtomicU32::new(0), AtomicU32::new(AWAKE), Barrier::new(2));
    let rounds = AtomicUsize::new(0);
    thread::scope(|scope| {
        let head = scope.spawn(|| {
            both.wait();
            let mut parked = 0;
            for round in 1..=TIMES {
                while rounds.load(Ordering::Acquire) != 2 * round - 1 {
                    std::hint::spin_loop();
                }
                state.store(SLEEPS, Ordering::Relaxed);
                let (old, new) = (LOCKED, LOCKED | PARKED);
                parked += usize::from(
                    word.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed).is_ok(),
                );
                rounds.store(2 * round, Ordering::Release);
            }
            parked
        });
        both.wait();
        let mut woken = 0;
        for round in 1..=TIMES {
            state.store(AWAKE, Ordering::Relaxed);
            word.store(LOCKED, Ordering::Relaxed);
            rounds.store(2 * round - 1, Ordering::Release);
            if word.fetch_and(!(LOCKED | PARKED), release) & PARKED != 0 {
                let (yes, no) = (Ordering::Relaxed, Ordering::Relaxed);
                woken += usize::from(state.compare_exchange(SLEEPS, AWAKE, yes, no).is_ok());
            }
            while rounds.load(Ordering::Acquire) != 2 * round {
                std::hint::spin_loop();
            }
        }
        head.join().map_or(0, |parked| parked - woken)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kick_needs_the_acquire_of_the_word() {
        assert!(explore(Ordering::AcqRel).0);
        assert!(!explore(Ordering::Release).0);
    }
}
