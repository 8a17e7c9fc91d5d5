//! The harness of the models, and what most of them use.

use std::sync::PoisonError;

pub use loom::cell::UnsafeCell;
pub use loom::sync::{Arc, Mutex};
pub use loom::thread;
use stillpoint::sync::model::set_budget;
pub use stillpoint::sync::model::{poll, reader as interruptible, run_on};
pub use stillpoint::sync::{AtomicU64, Ordering::*};

/// Explores `model` with at most `preemptions` preemptions; algorithms spin `budget` rounds before they sleep.
pub fn check(budget: u32, preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    // The budget belongs to the process: one model at a time.
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    set_budget(budget);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

/// Runs `own` beside another thread, and joins that. Returns both results.
pub fn race<S: 'static, R, T: 'static>(
    shared: &Arc<S>,
    own: impl FnOnce(&S) -> R,
    other: impl FnOnce(&S) -> T + 'static,
) -> (R, T) {
    let theirs = shared.clone();
    let other = thread::spawn(move || other(&theirs));
    (own(shared), other.join().unwrap())
}

/// [`race`] beside `others` threads, which know their number.
pub fn race_all<S: 'static, R, T: 'static>(
    shared: &Arc<S>,
    own: impl FnOnce(&S) -> R,
    others: usize,
    other: impl Fn(&S, usize) -> T + Clone + 'static,
) -> (R, Vec<T>) {
    let start = |index| {
        let (theirs, other) = (shared.clone(), other.clone());
        thread::spawn(move || other(&theirs, index))
    };
    let others: Vec<_> = (0..others).map(start).collect();
    (own(shared), others.into_iter().map(|other| other.join().unwrap()).collect())
}

/// [`race`] beside a thread that the heavy fences of other threads interrupt.
pub fn race_reader<S: 'static, R, T: 'static>(
    shared: &Arc<S>,
    own: impl FnOnce(&S) -> R,
    other: impl FnOnce(&S) -> T + 'static,
) -> (R, T) {
    race(shared, own, |shared| interruptible(0, || other(shared)))
}

/// [`race_all`] beside threads that the heavy fences of other threads interrupt.
pub fn race_readers<S: 'static, R, T: 'static>(
    shared: &Arc<S>,
    own: impl FnOnce(&S) -> R,
    others: usize,
    other: impl Fn(&S, usize) -> T + Clone + 'static,
) -> (R, Vec<T>) {
    race_all(shared, own, others, move |shared, index| interruptible(index, || other(shared, index)))
}

/// A value to publish. A freed one is 0, and keeps its memory.
pub type Value = UnsafeCell<u32>;

/// Returns a value to publish.
pub fn boxed(value: u32) -> *mut Value {
    let cell = Box::new(UnsafeCell::new(0));
    // A write that loom knows of, unlike the construction.
    cell.with_mut(|cell| unsafe { *cell = value });
    Box::into_raw(cell)
}

/// Reads a value of [`boxed`].
pub fn look_at(value: *const Value) {
    // SAFETY: the memory of values is never freed.
    unsafe { &*value }.with(|cell| assert_ne!(unsafe { *cell }, 0, "read a freed value"));
}

/// Reads a value some time after its pointer was loaded.
pub fn look_later(value: *const Value) {
    poll();
    look_at(value);
}

/// Frees a value of [`boxed`].
pub fn free(value: *const Value) {
    // SAFETY: the memory of values is never freed.
    unsafe { &*value }.with_mut(|cell| unsafe { *cell = 0 });
}
