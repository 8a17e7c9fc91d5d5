//! Hazard pointers: a reader protects single values, for as long as it likes; all others are freed.
//!
//! A [`HazardPointer`] protects the value that it has loaded until it is reset, or protects another. What was retired
//! is freed as soon as no hazard pointer protects it. So a reader that stalls keeps a few values, where a read-side
//! critical section of [`rcu`](crate::rcu) keeps all that are retired from then on.
//!
//! ```
//! use stillpoint::Domain as _;
//! use stillpoint::hazard::{self, HazardPointer};
//! use stillpoint::rcu::{Atomic, DeferOptions, Owned, Shared};
//!
//! struct Node {
//!     value: u64,
//! }
//!
//! let current: Atomic<Node, hazard::Global> = Atomic::new(Owned::new(Node { value: 1 }));
//!
//! // A reader:
//! let mut pointer = HazardPointer::new();
//! let node = pointer.protect(&current);
//! assert_eq!(node.as_ref().map(|node| node.value), Some(1));
//!
//! // A writer, in any thread:
//! let mut own = HazardPointer::new();
//! let old = own.protect(&current);
//! if let Ok(old) = current.try_store(old, Owned::new(Node { value: 2 })) {
//!     // SAFETY: the node is no longer reachable, and not retired otherwise.
//!     unsafe { hazard::Global.retire_shared(old, DeferOptions::new()) };
//! }
//!
//! // The reader's node is still there.
//! assert_eq!(node.as_ref().map(|node| node.value), Some(1));
//! assert_eq!(pointer.protect(&current).as_ref().map(|node| node.value), Some(2));
//! # let mut current = current;
//! # // SAFETY: no other thread has the node.
//! # drop(unsafe { current.take() });
//! ```
//!
//! # Hazard pointers or sections
//!
//! | | [`rcu`](crate::rcu) | hazard pointers |
//! |---|---|---|
//! | a reader pays | for each section | for each pointer that it follows |
//! | a reader may stay | shortly: what is retired waits | as long as it likes |
//! | unreclaimed memory | no bound while a reader stays; then writers are throttled | what is protected, and a batch for each thread |
//! | a traversal | follows any pointers | must see that the node that it comes from has not been removed, or begin again |
//! | a value that was retired | can be taken back ([`Retired::wait`](crate::rcu::Retired::wait)) | can only be freed |
//!
//! Both work on the same structures: the domains of this module have sections too ([`Global`]`::enter()`), and what
//! is retired in them waits for both. Short operations take a section, and long ones hazard pointers (example
//! `long_traversals`). The [guide](crate::guide#sections-or-hazard-pointers) says more.
//!
//! # Domains
//!
//! [`Global`], and the types made by [`domain!`](crate::hazard_domain), which have limits, statistics and sections of
//! their own. A hazard pointer serves all of them. Their pointers are those of [`rcu`](crate::rcu): an [`Atomic<T,
//! D>`](crate::rcu::Atomic), an [`Rcu<T, D>`](crate::rcu::Rcu) or an [`RcuOption<T, D>`](crate::rcu::RcuOption). The
//! operations of [`Domain`](crate::Domain) mean this here:
//!
//! - `retire`, `retire_shared`, `retire_raw_with` and the like, and dropping a [`Retired`](crate::rcu::Retired): the
//!   value is freed when a grace period has ended, and no hazard pointer protects it. The options, the limits, the
//!   worker and the statistics are those of [`rcu`](crate::rcu). [`Stats::protected`](crate::rcu::Stats::protected)
//!   is the number of values that only hazard pointers keep; they do not count towards the limits.
//! - `call`, `synchronize`, [`GracePeriod`](crate::rcu::GracePeriod): wait for sections only, and for no hazard
//!   pointer.
//! - `barrier`: blocks until all that was retired before has been freed, but for what a hazard pointer protected at
//!   some time during the call. It waits for no hazard pointer.
//!
//! # How it works
//!
//! A hazard pointer has a *slot*, a word that other threads look at. To protect is to load a pointer, store its
//! address in the slot, and load it again to see that the value is still published. Between the store and the second
//! load, most other implementations execute a fence; here it is [`fence::light`](crate::fence::light). Threads that
//! free what was retired execute the heavy one, once for thousands of values, look at all slots, and leave the values
//! that they find there for later.
//!
//! # Threads, signals, fork
//!
//! A thread gets its slots at its first hazard pointer, and gives them back when it exits. A hazard pointer may be
//! sent to another thread, held across `.await`, and outlive its thread. A thread has seven slots of its own. More
//! come from a store that all threads share, which grows to about what they have held at once. Protecting never
//! allocates, and no function of a [`HazardPointer`] blocks.
//!
//! A signal handler may protect and reset by hazard pointers that were made for it. It may make one itself, if its
//! thread has made one before and the handler drops it before it returns.
//!
//! In the child of a `fork`, the forking thread keeps its hazard pointers, and those of other threads that it can
//! reach stay valid. What was retired before is not freed there.
//!
//! # Trade-offs
//!
//! - Each step of a traversal costs what a whole section costs. A section costs nothing for each step.
//! - Freeing looks at the slots of all threads that have used hazard pointers and not exited, and at those that are
//!   in use beyond. A thread that retires much does that for two times as many values as there are slots, or more.
//! - Without `membarrier`, protecting executes a full fence.
//! - Each thread takes 256 bytes for its slots. Hazard pointers beyond seven in a thread take as much for each seven
//!   of the most that the process has held at once, and about an eighth more. These are slower to make.
//! - A value that was protected when its turn came is freed when other values are, or within about a second after it
//!   was reset.
//!
//! # Sources
//!
//! Michael, *Hazard pointers: safe memory reclamation for lock-free objects* (2004); C++26, \[saferecl.hp\]; folly's
//! `hazptr`. The source (`slots/protected.rs`) argues why no protection is missed.

#[cfg(feature = "_capi")]
#[doc(hidden)]
pub mod foreign;
mod pointer;

pub use crate::hazard_domain as domain;
pub use pointer::{HazardPointer, Protected};

crate::static_domain! { hazard
    /// A domain for a program that needs no other.
    pub struct Global = "stillpoint::hazard::Global";
}

/// Defines a domain with [hazard pointers](crate::hazard): a type without data, with limits, statistics and sections
/// of its own.
///
/// ```
/// use stillpoint::Domain as _;
/// use stillpoint::hazard::HazardPointer;
/// use stillpoint::rcu::Rcu;
///
/// stillpoint::hazard::domain! {
///     /// Sessions of the connection table.
///     pub struct Sessions;
/// }
///
/// let name = Rcu::new_in(String::from("a"), Sessions);
/// let mut pointer = HazardPointer::new();
/// let seen = pointer.protect(&name);
/// name.replace("b".into());
/// assert_eq!(seen, "a");
/// drop(pointer);
/// Sessions.barrier();
/// assert_eq!(Sessions.stats().done, 1);
/// ```
#[macro_export]
macro_rules! hazard_domain {
    ($(#[$attr:meta])* $vis:vis struct $name:ident;) => {
        $crate::static_domain! { hazard $(#[$attr])* $vis struct $name; }
    };
}
