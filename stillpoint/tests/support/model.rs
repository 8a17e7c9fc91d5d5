//! The harness of the models.

use std::sync::{Mutex, PoisonError};

use loom::cell::UnsafeCell;
use stillpoint::sync::model::set_budget;

/// Explores `model` with at most `preemptions` preemptions; algorithms spin `budget` rounds before they sleep.
pub fn check(budget: u32, preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    // The budget belongs to the process: one model at a time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    set_budget(budget);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(std::env::var("BOUND").map_or(preemptions, |b| b.parse().unwrap()));
    builder.max_branches = 20_000;
    builder.check(model);
}

/// Returns a value to publish. Its memory is never freed: a model stores 0 instead.
pub fn boxed(value: u32) -> *mut UnsafeCell<u32> {
    let cell = Box::new(UnsafeCell::new(0));
    cell.with_mut(|cell| unsafe { *cell = value });
    Box::into_raw(cell)
}

/// Reads a value of [`boxed`].
pub fn look_at(value: *const UnsafeCell<u32>) {
    // SAFETY: the memory of values is never freed.
    unsafe { &*value }.with(|cell| assert_ne!(unsafe { *cell }, 0, "read a freed value"));
}
