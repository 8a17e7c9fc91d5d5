//! Messages on the standard error.

use core::fmt;
use std::io::Write;

/// Writes `stillpoint: ` and the message, under the lock of the standard error, so that no other thread's output comes
/// in between. Allocates nothing; and unlike `eprintln!` does not panic if it cannot write.
#[cold]
pub fn complain(message: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "stillpoint: {message}");
}
