//! The outcome of a test in a model.

use crate::execution::each_candidate;
use crate::models::Model;
use crate::parse::{Test, Variant, Verdict};

/// The result of a test.
#[derive(Debug)]
pub struct Outcome {
    pub verdict: Verdict,
    /// The executions that the condition asks for, consistent or not.
    pub candidates: usize,
    /// A consistent one.
    pub witness: Option<String>,
}

/// Returns the verdict of a model on a test: whether there is a consistent execution that satisfies the condition.
///
/// # Errors
///
/// If the test contains an error, or if no execution satisfies the condition, consistent or not.
pub fn run(test: &Test, variant: Option<&Variant>, model: &Model) -> Result<Outcome, String> {
    let mut outcome = Outcome { verdict: Verdict::Forbidden, candidates: 0, witness: None };
    each_candidate(test, variant, &mut |execution| {
        outcome.candidates += 1;
        if outcome.verdict == Verdict::Forbidden && model.is_consistent(execution) {
            outcome.verdict = Verdict::Allowed;
            outcome.witness = Some(execution.describe(&test.locations));
        }
    })?;
    if outcome.candidates == 0 {
        return Err("no execution satisfies the condition, consistent or not".into());
    }
    Ok(outcome)
}
