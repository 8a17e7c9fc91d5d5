//! The API of [crossbeam-epoch](https://docs.rs/crossbeam-epoch/0.9) 0.9 on the grace periods of `stillpoint`.
//!
//! A program that uses crossbeam-epoch, directly or through other crates, switches by one line in its `Cargo.toml`:
//!
//! ```toml
//! [patch.crates-io]
//! crossbeam-epoch = { path = ".../dropins/crossbeam-epoch" }
//! ```
//!
//! Then [`pin`] costs what `stillpoint::rcu::enter` does, and executes no fence. What a thread defers waits for a
//! grace period of a domain of this crate. The README says what else is different. Examples of all functions are
//! in the documentation of crossbeam-epoch; `ci/compat.sh` runs them on this crate.
//!
//! ```
//! use crossbeam_epoch::{self as epoch, Atomic, Owned};
//! use std::sync::atomic::Ordering::{AcqRel, Acquire};
//!
//! let limits = Atomic::new([10, 20]);
//!
//! // Readers:
//! let guard = &epoch::pin();
//! let read = limits.load(Acquire, guard);
//! // SAFETY: the pointer was stored with Release, and is not null.
//! assert_eq!(unsafe { read.deref() }, &[10, 20]);
//!
//! // Writers:
//! let old = limits.swap(Owned::new([30, 40]), AcqRel, guard);
//! // SAFETY: no thread can load the old pointer any more.
//! unsafe { guard.defer_destroy(old) };
//! assert_eq!(unsafe { read.deref() }, &[10, 20]);
//! # // SAFETY: no other thread has the pointer.
//! # drop(unsafe { limits.into_owned() });
//! ```

mod atomic;
mod collector;
mod deferred;
mod fork;
mod global;
mod guard;
mod handle;
mod local;
mod owned;
mod pointable;
mod pointer;
mod schedule;
mod shared;
mod state;

pub use atomic::{Atomic, CompareExchangeError};
#[allow(deprecated, reason = "as in the crate whose API this is")]
pub use atomic::{CompareAndSetError, CompareAndSetOrdering};
pub use collector::{Collector, default_collector};
pub use guard::{Guard, is_pinned, pin, unprotected};
pub use handle::LocalHandle;
pub use owned::Owned;
pub use pointable::Pointable;
pub use pointer::Pointer;
pub use shared::Shared;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
