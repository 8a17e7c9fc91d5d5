//! The API of [arc-swap](https://docs.rs/arc-swap/1.9) 1.9 on the cells of `stillpoint`.
//!
//! A program that uses arc-swap, directly or through other crates, switches by one line in its `Cargo.toml`:
//!
//! ```toml
//! [patch.crates-io]
//! arc-swap = { path = ".../dropins/arc-swap" }
//! ```
//!
//! Then loading and dropping a guard executes no atomic read-modify-write while a thread holds at most seven. Counts
//! are exact when a store returns, as in arc-swap. A store waits for a process-wide fence, some microseconds, unless
//! it is [`Deferred`](strategy::Deferred). The README says what else is different.
//!
//! ```
//! use std::sync::Arc;
//! use arc_swap::ArcSwap;
//!
//! let config = ArcSwap::from_pointee(String::from("old"));
//! let guard = config.load();
//! config.store(Arc::new("new".into()));
//! assert_eq!(**guard, "old");
//! assert_eq!(**config.load(), "new");
//! ```

pub mod access;
mod as_raw;
pub mod cache;
mod guard;
#[cfg(feature = "serde")]
mod serde;
pub mod strategy;
mod swap;

use std::sync::{Arc, Weak};

pub use as_raw::AsRaw;
pub use cache::Cache;
pub use guard::Guard;
pub use stillpoint::arc::RefCnt;
pub use strategy::DefaultStrategy;
#[doc(hidden)]
pub use strategy::IndependentStrategy;
pub use swap::ArcSwapAny;

/// An atomic `Arc`.
pub type ArcSwap<T> = ArcSwapAny<Arc<T>>;

/// An atomic `Option<Arc>`.
pub type ArcSwapOption<T> = ArcSwapAny<Option<Arc<T>>>;

/// An atomic [`Weak`].
pub type ArcSwapWeak<T> = ArcSwapAny<Weak<T>>;

/// In old releases a strategy of its own.
#[doc(hidden)]
pub type IndependentArcSwap<T> = ArcSwapAny<Arc<T>, IndependentStrategy>;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
