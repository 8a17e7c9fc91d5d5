//! Sleepable RCU: domains made at run time, whose sections may sleep, move to other threads and be held over `.await`.
//!
//! As in [`crate::rcu`] a reader opens a section ([`Domain::enter`]) and reads what pointers of the domain
//! ([`Rcu`](crate::rcu::Rcu)) point to until it drops the guard; a writer publishes a new value and disposes of the old one
//! after a grace period. What is different:
//!
//! | | [`rcu`](crate::rcu) | here |
//! |---|---|---|
//! | a section belongs to | its thread | nobody: the guard is `Send` and `Sync` |
//! | a domain is | a type, for ever | a value; it goes with its last handle |
//! | a section costs | about a nanosecond | a few: two adds to words of the CPU |
//! | a grace period looks at | each thread | each CPU, however many sections are open |
//! | memory of a domain | a cache line a thread | some 4 KiB, and 128 bytes for each CPU the machine may ever have |
//! | waiting inside a section of the same domain | panics | waits for itself, until the stall report tells |
//!
//! ```
//! use stillpoint::rcu::{GracePeriod, Rcu};
//! use stillpoint::srcu::Domain;
//!
//! static SESSIONS: Domain = Domain::new();
//!
//! async fn greet(motd: &Rcu<String, Domain>) {
//!     let guard = SESSIONS.enter();
//!     let text = motd.load(&guard);
//!     send("hello").await; // in whatever thread this goes on
//!     send(text).await;
//! }
//!
//! async fn change(motd: &Rcu<String, Domain>, text: String) {
//!     motd.replace(text);
//!     GracePeriod::now_in(SESSIONS.clone()).await;
//!     // From here on nobody greets with the old text.
//! }
//!
//! # async fn send(_: &str) {}
//! # let motd = Rcu::new_in(String::from("welcome"), SESSIONS.clone());
//! # let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
//! # runtime.block_on(async { greet(&motd).await; change(&motd, String::from("bye")).await });
//! ```
//!
//! Cookies ([`GracePeriod`](crate::rcu::GracePeriod)), deferred work, limits, the pace of the worker and stall reports are
//! those of [`crate::rcu`].
//!
//! # Handles
//!
//! A [`Domain`] is a handle, its clones are others; [`Rcu`](crate::rcu::Rcu), [`Retired`](crate::rcu::Retired) and
//! [`GracePeriod`](crate::rcu::GracePeriod) hold one. When the last has gone nobody can be inside any more: what was deferred
//! is done at once, in a worker, or if there can be none in the thread that dropped the handle. That may be one of the domain's own callbacks.
//!
//! # Signal handlers
//!
//! A handler may open and end sections, and load, if the domain has been used or [prepared](Domain::prepare) before, and,
//! where the C library does not register threads for `rseq(2)`, its thread has been too
//! ([`percpu::register_thread`](crate::percpu::register_thread)). The end of a section may wake a thread, which is a system call.
//! Waiting and deferring are not for handlers.
//!
//! # Fork
//!
//! What is said of [`crate::rcu`] holds, except for sections, as nobody can tell whose they are:
//!
//! - *Sections that were open at the fork are open in the child.* If they are those of the thread that forked, it ends them
//!   there as in the parent. Those of other threads never end: grace periods of that domain wait for them for ever, and the
//!   stall report says why. Domains without an open section, and fresh ones, work.
//! - A guard that another thread took or dropped while the process was forking must not be used or dropped in the child.
//!
//! # Trade-offs
//!
//! - A grace period waits for the longest section, and sections may sleep: what was retired waits as long. Sections that wait
//!   for a client should have a domain of their own.
//! - `synchronize` and `barrier` inside a section of the same domain never return, and nothing can prevent it: guards are
//!   nobody's. Two tasks that wait in sections of each other's domains do not either. A guard over an `.await` of the domain's own grace period
//!   is the same mistake.
//! - A leaked guard keeps all grace periods of its domain from ending, until the last handle has gone.
//! - Waiting sums four words of every CPU that the machine may ever have. With hundreds of them that is some microseconds, about
//!   as much as the heavy fence.
//! - A section costs two or three times one of [`crate::rcu`]. Code that does not sleep inside should use that.
//!
//! # Sources
//!
//! McKenney, *Sleepable RCU* (2006); the Linux kernel's Tree SRCU. The argument for what is done here is in the source, at the
//! head of `readers/srcu.rs`.

#[cfg(not(loom))]
mod counts;
#[cfg(loom)]
pub mod counts;
#[cfg(not(loom))]
mod domain;
#[cfg(not(loom))]
mod fork;
#[cfg(not(loom))]
mod guard;
#[cfg(not(loom))]
mod shared;

#[cfg(not(loom))]
pub use domain::Domain;
#[cfg(not(loom))]
pub use guard::{Guard, Section};
