//! Threads of the library are scheduled as the standard library starts them.

/// Does nothing.
pub fn take_nice_of_main() {}
