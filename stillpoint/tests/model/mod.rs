//! The harness of the models.

use std::sync::{Mutex, PoisonError};

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
