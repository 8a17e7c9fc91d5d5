//! The error of a compare-and-exchange.

use core::error::Error;
use core::fmt;

/// An error: the pointer was another one than a `compare_exchange` expected.
pub struct CompareExchangeError<C, N> {
    /// What is published instead.
    pub current: C,
    /// What was not published.
    pub new: N,
}

// Not derived, so that every result can be unwrapped.
impl<C, N> fmt::Debug for CompareExchangeError<C, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompareExchangeError").finish_non_exhaustive()
    }
}

impl<C, N> fmt::Display for CompareExchangeError<C, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("another value is published than expected")
    }
}

impl<C, N> Error for CompareExchangeError<C, N> {}
