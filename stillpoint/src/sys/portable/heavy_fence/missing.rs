//! There is no process-wide fence.

use core::fmt;

pub const EXISTS: bool = false;

pub const WORKS: &str = "";

#[derive(Debug, Clone, Copy)]
pub struct Unavailable;

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this system has no process-wide fence that is known to suffice")
    }
}

/// Returns an error.
pub fn register() -> Result<(), Unavailable> {
    Err(Unavailable)
}

/// Not to be called.
pub fn execute() {
    unreachable!("the backend cannot be chosen");
}
