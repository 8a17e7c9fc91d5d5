//! Messages on the standard error.

use core::fmt;
use std::io::Write;

/// Writes `stillpoint: ` and the message, in one call, so that no other output comes in between. Unlike `eprintln!`,
/// which panics if it cannot write.
#[cold]
pub fn complain(message: fmt::Arguments<'_>) {
    let text = format!("stillpoint: {message}\n");
    let _ = std::io::stderr().write_all(text.as_bytes());
}
