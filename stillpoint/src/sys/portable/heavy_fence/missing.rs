//! There is no process-wide fence.

use super::Reason;

pub const EXISTS: bool = false;

/// Returns an error.
pub fn register() -> Result<Reason, Reason> {
    Err(Reason("this system has no process-wide fence that is known to suffice", 0))
}

/// Not to be called.
pub fn execute() {
    unreachable!("the backend cannot be chosen");
}

/// Returns `false`: there is no such fence.
pub fn execute_quietly() -> bool {
    false
}
