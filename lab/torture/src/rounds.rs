//! Intervals of `torture rcu`, `qsbr` and `srcu` in which one thing is done as often as possible, and nothing makes
//! up for an error: no signals, no other threads, no forks.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use stillpoint::Domain as _;

use super::faults::have_cpu;
use super::flavor::{Flavor, Shape};
use super::oracle::Unpublished;
use super::slots::WaitMode;
use super::state::TestState;

/// A reader that shows a missing fence. Its store buffer is full of stores to far memory when a section begins, so
/// that the section's own store becomes visible late, while its loads are early. It looks at what it has loaded until
/// then.
pub(super) fn read_tightly<F: Flavor>(state: &'static TestState) {
    have_cpu(state.cpus[0]);
    let mut reader = F::reader();
    while !state.stops() {
        state.store_far(fastrand::u8(8..48));
        let looks = fastrand::u16(..1024);
        F::section(
            &mut reader,
            Shape::Plain,
            || state.oracle.observe(0),
            |seen| (0..looks).for_each(|_| state.oracle.recheck(0, seen)),
        );
    }
}

/// The updater beside it.
pub(super) fn update_tightly<F: Flavor>(state: &'static TestState) {
    have_cpu(state.cpus[1]);
    let mode = WaitMode::Synchronize as usize;
    while !state.stops() {
        state.updaters[0].perform(state, mode, || {
            let unpublished = state.oracle.unpublish_tightly(0, mode);
            F::domain().synchronize();
            unpublished.is_some_and(Unpublished::mark_freed)
        });
    }
}

/// Waits for callbacks, one after the other: if a notification is lost, no later one makes up for it.
pub(super) fn wait_for_callbacks<F: Flavor>(state: &'static TestState) {
    let own = &state.updaters[0];
    while !state.stops() {
        state.updaters[0].perform(state, WaitMode::Barrier as usize, || {
            own.posted.fetch_add(1, Relaxed);
            F::domain().call(|| _ = own.ran.fetch_add(1, Relaxed));
            F::domain().barrier();
            false
        });
        if fastrand::bool() {
            // So that the worker has gone to sleep, or not.
            thread::yield_now();
        }
    }
}
