//! What becomes of the pointer that a store replaces.

use crate::RefCnt;

/// The strategy of [`ArcSwap`](crate::ArcSwap): counts are exact when a store returns.
pub use stillpoint::arc::Exact as DefaultStrategy;
pub use stillpoint::arc::{Deferred, Strategy};

/// In old releases a strategy of its own.
#[doc(hidden)]
pub type IndependentStrategy = DefaultStrategy;

/// A strategy with compare-and-swap: each has it.
pub trait CaS<T: RefCnt>: Strategy<T> {}

impl<T: RefCnt, S: Strategy<T>> CaS<T> for S {}
